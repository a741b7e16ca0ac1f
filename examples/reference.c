/* reference.c - the mathematics of koofu on one page: plain C, no library, nothing fast.
 *
 *     cc -O2 examples/reference.c -lm -o reference
 *     ./reference TRAIN QUERIES DIM NEIGHBOURS LAMBDA...
 *
 * does what `koofu fit --method paper`, `classify` and `search` do; tests/reference.py compares
 * them. Of several LAMBDAs it takes the one that classifies most rows correctly when each row is
 * left out and the model is fitted again without it.
 *
 * Both files are text: 'N D K', then N lines with a label (0 to K - 1) and D numbers each. Labels
 * of queries are ignored. A LAMBDA is absolute (150) or in mean eigenvalues of S_w (0.3x). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 2048, COLUMNS = 128, CLASSES = 512 }; /* room for this much */
typedef double vector[COLUMNS], matrix[COLUMNS][COLUMNS];

/* The data: N rows x_i of D numbers, of unit length, each in one of K classes. */
static struct data {
  int N, D, K, label[ROWS]; /* [N] */
  vector x[ROWS];           /* [N][D] */
} train, queries;

/* The model. Class k has N_k rows with mean mu_k; the mean of all rows is mu. */
static int D, K, L;              /* the map takes D numbers to L */
static int N_k[CLASSES];         /* [K] */
static vector mu, mu_k[CLASSES]; /* [D], [K][D] */
static matrix S_w, S_b;          /* [D][D] scatter within and between classes */
static vector w, gammas;         /* [D] eigenvalues of S_w and of Z S_b Z, largest first */
static matrix Vt, Ut;            /* [D][D] V^T and U^T: their eigenvectors, as rows */
static matrix Z, T;              /* [D][D] whitening, [L][D] the map */
static vector p[CLASSES];        /* [K][L] prototypes */
static vector gallery[ROWS];     /* [N][L] the training rows, mapped */

static void die(const char *what, const char *why) {
  fprintf(stderr, "reference: %s: %s\n", what, why);
  exit(1);
}

static double dot(int n, const double *a, const double *b) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += a[i] * b[i];
  return sum;
}

static double cosine(const double *a, const double *b) {
  return dot(L, a, b) / sqrt(dot(L, a, a) * dot(L, b, b));
}

/* C = A B, all [D][D] */
static void multiply(matrix A, matrix B, matrix C) {
  memset(C, 0, sizeof(matrix));
  for (int i = 0; i < D; i++)
    for (int j = 0; j < D; j++)
      for (int k = 0; k < D; k++) C[i][j] += A[i][k] * B[k][j];
}

/* (a, b) becomes (c a - s b, s a + c b). */
static void rotate(double c, double s, double *a, double *b) {
  double before = *a;
  *a = c * before - s * *b;
  *b = s * before + c * *b;
}

/* Jacobi's method: eigenvalues [D], largest first, of a symmetric S [D][D], and eigenvectors, the
 * rows of E [D][D]. Each rotation makes one A[i][j] zero; later ones disturb it less and less. */
static void eigen(matrix S, vector values, matrix E) {
  static matrix A, R; /* A = R S R^T */
  memcpy(A, S, sizeof A);
  memset(R, 0, sizeof R);
  for (int i = 0; i < D; i++) R[i][i] = 1;
  for (int sweep = 0; sweep < 20; sweep++)
    for (int i = 0; i < D; i++)
      for (int j = i + 1; j < D; j++) {
        if (A[i][j] == 0) continue;
        double cot = (A[j][j] - A[i][i]) / (2 * A[i][j]);                /* of twice the angle */
        double t = copysign(1, cot) / (fabs(cot) + sqrt(cot * cot + 1)); /* tan of the angle */
        double c = 1 / sqrt(t * t + 1), s = t * c;
        for (int k = 0; k < D; k++) rotate(c, s, &A[k][i], &A[k][j]);
        for (int k = 0; k < D; k++) rotate(c, s, &A[i][k], &A[j][k]);
        for (int k = 0; k < D; k++) rotate(c, s, &R[i][k], &R[j][k]);
      }
  for (int i = 0; i < D; i++) { /* sort */
    int place = 0;
    for (int j = 0; j < D; j++) place += A[j][j] > A[i][i] || (j < i && A[j][j] == A[i][i]);
    values[place] = A[i][i];
    memcpy(E[place], R[i], sizeof R[i]);
  }
}

/* The mean [D] of the training rows of class k (-1: of all classes); returns their number. Here and
 * below the row `without` does not take part (-1: all do). */
static int average(int without, int k, vector mean) {
  int n = 0;
  memset(mean, 0, sizeof(vector));
  for (int i = 0; i < train.N; i++) {
    if (i == without || (k >= 0 && train.label[i] != k)) continue;
    for (int j = 0; j < D; j++) mean[j] += train.x[i][j];
    n++;
  }
  for (int j = 0; j < D && n > 0; j++) mean[j] /= n;
  return n;
}

/* S += weight (a - b)(a - b)^T */
static void add_square(double weight, const double *a, const double *b, matrix S) {
  for (int i = 0; i < D; i++)
    for (int j = 0; j < D; j++) S[i][j] += weight * (a[i] - b[i]) * (a[j] - b[j]);
}

/* S_w = sum_i (x_i - mu_k)(x_i - mu_k)^T, k the class of x_i
 * S_b = sum_k N_k (mu_k - mu)(mu_k - mu)^T */
static void scatter(int without) {
  memset(S_w, 0, sizeof S_w);
  memset(S_b, 0, sizeof S_b);
  average(without, -1, mu);
  for (int k = 0; k < K; k++) {
    N_k[k] = average(without, k, mu_k[k]);
    add_square(N_k[k], mu_k[k], mu, S_b);
  }
  for (int i = 0; i < train.N; i++)
    if (i != without) add_square(1, train.x[i], mu_k[train.label[i]], S_w);
}

/* y [L] = T x */
static void map(const double *x, vector y) {
  for (int l = 0; l < L; l++) y[l] = dot(D, T[l], x);
}

static void fit(int without, double lambda) {
  static matrix A, B;
  scatter(without);
  /* Whitening: S_w = V diag(w) V^T,  Z = (S_w + lambda I)^(-1/2) = V diag(w + lambda)^(-1/2) V^T */
  eigen(S_w, w, Vt);
  if (!(w[D - 1] + lambda > 0)) die("lambda", "S_w + lambda I is singular");
  for (int i = 0; i < D; i++)
    for (int l = 0; l < D; l++) A[i][l] = Vt[l][i] / sqrt(w[l] + lambda);
  multiply(A, Vt, Z);
  /* Rotation: Z S_b Z = U diag(gamma) U^T,  T = U^T Z */
  multiply(Z, S_b, A);
  multiply(A, Z, B);
  eigen(B, gammas, Ut);
  multiply(Ut, Z, T);
  /* The sign of a row of T means nothing; its largest element becomes positive. */
  for (int l = 0; l < D; l++) {
    double largest = 0;
    for (int j = 0; j < D; j++) largest = fabs(T[l][j]) > fabs(largest) ? T[l][j] : largest;
    for (int j = 0; j < D; j++) T[l][j] *= copysign(1, largest);
  }
  /* Truncation: the map ends after L rows of T. Prototypes: p_k = T mu_k */
  for (int k = 0; k < K; k++) map(mu_k[k], p[k]);
}

/* Nearest prototype of y = T x: the class k of largest cos(y, p_k), the first of equals. */
static int nearest(const double *y) {
  int best = -1;
  for (int k = 0; k < K; k++)
    if (N_k[k] > 0 && (best < 0 || cosine(y, p[k]) > cosine(y, p[best]))) best = k;
  return best;
}

/* k-NN: the training rows i of largest cos(y, T x_i), best first, the first of equals. Returns the
 * class with most votes, in a tie that of the nearest row. */
static int vote(const double *y, int k, int *found) {
  static double score[ROWS];
  int votes[CLASSES] = {0}, best = 0;
  for (int i = 0; i < train.N; i++) score[i] = cosine(y, gallery[i]);
  for (int j = 0; j < k; j++) {
    found[j] = 0;
    for (int i = 1; i < train.N; i++)
      if (score[i] > score[found[j]]) found[j] = i;
    score[found[j]] = -INFINITY;
    votes[train.label[found[j]]]++;
  }
  for (int j = 1; j < k; j++)
    if (votes[train.label[found[j]]] > votes[train.label[found[best]]]) best = j;
  return train.label[found[best]];
}

/* How many rows get their own class from a model that is fitted without them. A row alone in its
 * class does not count: without it the class has no prototype. */
static int leave_one_out(double lambda) {
  int right = 0;
  for (int i = 0; i < train.N; i++) {
    vector y;
    fit(i, lambda);
    map(train.x[i], y);
    right += nearest(y) == train.label[i];
  }
  return right;
}

static void read_rows(const char *path, struct data *s) {
  FILE *file = fopen(path, "r");
  if (file == NULL || fscanf(file, "%d %d %d", &s->N, &s->D, &s->K) != 3 || s->N > ROWS ||
      s->D > COLUMNS || s->K > CLASSES)
    die(path, "the first line must be N D K, within the limits");
  for (int i = 0; i < s->N; i++) {
    double *x = s->x[i];
    int n = fscanf(file, "%d", &s->label[i]);
    for (int j = 0; j < s->D; j++) n += fscanf(file, "%lf", &x[j]);
    if (n != 1 + s->D || s->label[i] < 0 || s->label[i] >= s->K) die(path, "an invalid row");
    /* To unit length, rounded to multiples of 2^-22, as in koofu (docs/numerics.md) */
    double length = sqrt(dot(s->D, x, x));
    for (int j = 0; j < s->D; j++) x[j] = rint(x[j] * (0x1p22 / length)) / 0x1p22;
  }
  fclose(file);
}

static void print(const char *name, int n, const double *a) {
  printf("%s", name);
  for (int i = 0; i < n; i++) printf(i < n - 1 ? " %.17g" : " %.17g\n", a[i]);
}

int main(int argc, char **argv) {
  if (argc < 6) die("usage", "reference TRAIN QUERIES DIM NEIGHBOURS LAMBDA...");
  read_rows(argv[1], &train);
  read_rows(argv[2], &queries);
  D = train.D, K = train.K, L = D; /* lambda is chosen with all dimensions */
  int dim = atoi(argv[3]), k = atoi(argv[4]), most = -1, found[ROWS];
  if (queries.D != D || dim < 1 || dim > D || k < 1 || k > train.N) die("sizes", "do not fit");
  double lambda = 0, trace = 0; /* the trace of S_w */
  scatter(-1);
  for (int j = 0; j < D; j++) trace += S_w[j][j];
  for (char **option = argv + 5; *option != NULL; option++) {
    char *unit;
    double value = strtod(*option, &unit);
    if (*unit == 'x') value *= trace / D;
    int hits = argc > 6 ? leave_one_out(value) : 0;
    if (argc > 6) print("tried", 2, (double[]){value, hits});
    if (hits > most || (hits == most && value > lambda)) most = hits, lambda = value;
  }
  L = dim;
  fit(-1, lambda);
  for (int i = 0; i < train.N; i++) map(train.x[i], gallery[i]);
  print("lambda", 1, &lambda), print("within", D, w), print("between", D, gammas);
  for (int l = 0; l < L; l++) print("T", D, T[l]);
  for (int c = 0; c < K; c++) print("prototype", L, p[c]);
  for (int i = 0; i < queries.N; i++) {
    vector y;
    map(queries.x[i], y);
    int class = nearest(y), voted = vote(y, k, found);
    printf("query %d %.17g %d", class, cosine(y, p[class]), voted);
    for (int j = 0; j < k; j++) printf(" %d", found[j]);
    printf("\n");
  }
  return 0;
}
