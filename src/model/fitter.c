/* fitter.c - the Fukunaga-Koontz transform (docs/method.md).
 *
 *   1. S_w = V^T diag(w) V           eigenvectors are the rows of V
 *   2. Z   = V^T diag(w + lambda)^(-1/2) V
 *   3. C   = Z S_b Z in the basis V: diag(w + lambda)^(-1/2) V S_b V^T diag(w + lambda)^(-1/2)
 *   4. C   = U^T diag(gamma) U       gamma falling: the directions that tell classes apart first
 *   5. T   = the first L rows of U diag(w + lambda)^(-1/2) V
 *
 * Then T (S_w + lambda I) T^T = I and T S_b T^T = diag(gamma). Beyond the rank of S_b (at most K -
 * 1) gamma is zero and the rows of U are an orthonormal completion. Working in the basis V saves
 * the product that would form Z itself.
 *
 * By default columns are divided by s_i first, s_i^2 = S_w[i][i] / their mean, and the columns of T
 * at the end. Then lambda is added to a matrix with a constant diagonal: S_w is shrunk towards its
 * own diagonal, the units of the columns cancel, and the mean eigenvalue stays what it was.
 *
 * Class means are shrunk towards the mean of all rows, too. Along direction d, a row has the
 * variance 1 / (N - K) around its class mean, and the class means have gamma_d / (n_0 (K - 1)),
 * with n_0 = (N - sum n_k^2 / N) / (K - 1), their common number of rows. The mean of n rows is
 * best predicted by its share
 *
 *     n g_d / (1 + n g_d),      g_d = kappa gamma_d,      kappa = (N - K) / (n_0 (K - 1)).
 *
 * Where no class has two different rows, S_w is 0. Then the scatter of all rows takes its place,
 * and class means are taken as they are. */
#include "base/text.h"
#include "model/model.h"

#include <float.h>
#include <math.h>
#include <string.h>

kf_status kf_lambda_parse(kf_ctx *ctx, const char *text, kf_lambda *out) {
  KF_ENTER(ctx, text != NULL && out != NULL);
  static const struct {
    const char *name;
    kf_lambda_unit unit;
  } rules[] = {
      {"auto", KF_LAMBDA_AUTO}, {"gda", KF_LAMBDA_GDA}, {"ledoit-wolf", KF_LAMBDA_LEDOIT_WOLF}};
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
    if (strcmp(text, rules[i].name) == 0) {
      *out = (kf_lambda){.unit = rules[i].unit};
      return KF_OK;
    }
  const char *end;
  double value = kf_parse_f64(text, &end);
  bool relative = strcmp(end, "x") == 0, absolute = *end == '\0';
  if (end == text || !(relative || absolute)) value = -1;
  if (!(value >= 0) || !isfinite(value))
    return kf_fail(err, KF_ERR_ARG,
                   "lambda must be a number of at least 0 (150), a multiple of the mean eigenvalue "
                   "(0.3x), auto, gda or ledoit-wolf, not '%s'",
                   text);
  *out = (kf_lambda){.value = value, .unit = relative ? KF_LAMBDA_RELATIVE : KF_LAMBDA_ABSOLUTE};
  return KF_OK;
}

/* --- shared by all fits of the same statistics ----------------------------------------------- */

/* A decomposition beside the present one. */
typedef struct kf_kept {
  double lambda;             /* NaN: of none */
  double *u, *scale, *gamma; /* as in kf_fitter */
} kf_kept;

struct kf_fitter {
  kf_ctx *ctx;
  const kf_stats *within, *between;
  uint32_t dim;
  kf_method method; /* never KF_METHOD_DEFAULT */
  kf_priors priors;
  bool total;             /* S_w is zero, and the scatter of all rows takes its place */
  double *mean;           /* [D] */
  double *column;         /* [D] 1 / s, by which columns are multiplied; ones: the paper's method */
  double *values;         /* [D] eigenvalues w of S_w, falling; those below `noise` are 0 */
  double *vectors;        /* [D][D] rows are eigenvectors: V */
  double *between_in_v;   /* [D][D] V S_b V^T, its upper triangle */
  double *c;              /* [D][D] scratch: C, then U^T with its rows scaled */
  double *u;              /* [D][D] V^T in step 3, then rows are eigenvectors of C: U */
  double *scale;          /* [D] (w + lambda)^(-1/2) */
  double *gamma;          /* [D] eigenvalues of C, falling */
  kf_kept kept;           /* the same at another lambda; u is NULL until one was kept */
  bool keep;              /* the present ones are to be kept */
  double *room;           /* of the eigensolver */
  double decomposed;      /* the lambda that u, scale and gamma are of; NaN: of none */
  double trace, norm2;    /* of S_w, before columns are scaled */
  double mean_eigenvalue; /* of S_w */
  double noise;           /* an eigenvalue this small is rounding */
  uint32_t rank;          /* of S_w */
  uint64_t checksum;      /* of the statistics; 0: not yet */
  kf_arena arena;
};

static kf_status check_statistics(const kf_stats *w, const kf_stats *b, kf_err *err) {
  if (w->dim != b->dim || w->normalized != b->normalized)
    return kf_fail(err, KF_ERR_DATA,
                   "the statistics for S_w (%u columns, %s) and S_b (%u columns, %s) do not match",
                   w->dim, w->normalized ? "unit length" : "raw", b->dim,
                   b->normalized ? "unit length" : "raw");
  KF_TRY(kf_origin_agree(&w->origin, &b->origin, err));
  if (w->rows == 0) return kf_fail(err, KF_ERR_MATH, "the statistics hold no rows");
  uint32_t filled = 0;
  for (uint32_t k = 0; k < b->n_classes; k++) filled += b->counts[k] > 0;
  if (filled < 2)
    return kf_fail(err, KF_ERR_MATH, "a fit needs at least two classes with rows; there %s %u",
                   filled == 1 ? "is" : "are", filled);
  return KF_OK;
}

static kf_status decompose(kf_fitter *f) {
  double *s_w = f->c, trace = 0;
  for (uint32_t i = 0; i < f->dim; i++) trace += s_w[(uint64_t)i * f->dim + i];
  f->mean_eigenvalue = trace / f->dim;
  KF_TRY(kf_eigen_in(f->ctx, f->dim, s_w, f->values, f->vectors, f->room));
  /* S_w is positive semi-definite by construction. */
  double largest = fabs(f->values[0]), smallest = f->values[f->dim - 1];
  f->noise = f->dim * DBL_EPSILON * largest;
  for (f->rank = 0; f->rank < f->dim && f->values[f->rank] > f->noise;) f->rank++;
  for (uint32_t i = f->rank; i < f->dim; i++) f->values[i] = 0;
  /* Far beyond rounding: an invented file. */
  if (smallest < -1e-6 * largest)
    return kf_fail(&f->ctx->err, KF_ERR_DATA,
                   "no rows have these statistics: their scatter within classes has a negative "
                   "eigenvalue, %g",
                   smallest);
  return KF_OK;
}

/* Rows [first, end) of a matrix, for a task. */
#define ROW_BLOCK 32u
static uint64_t block_end(uint64_t n, size_t block) {
  uint64_t end = (block + (uint64_t)1) * ROW_BLOCK;
  return end < n ? end : n;
}

static kf_status by_rows(kf_ctx *ctx, uint64_t rows, kf_task_fn task, void *argument) {
  return kf_parallel(ctx, (size_t)((rows + ROW_BLOCK - 1) / ROW_BLOCK), task, argument);
}

static kf_status scale_rows(void *argument, size_t block, size_t worker, kf_err *err) {
  (void)worker;
  (void)err;
  const kf_fitter *f = argument;
  uint64_t n = f->dim, end = block_end(n, block);
  double *s_w = f->c, *s_b = f->between_in_v;
  for (uint64_t i = block * (uint64_t)ROW_BLOCK; i < end; i++)
    for (uint64_t j = 0; j < n; j++) {
      double scale = f->column[i] * f->column[j];
      s_w[i * n + j] *= scale;
      s_b[i * n + j] *= scale;
    }
  return KF_OK;
}

/* Divides rows and columns of S_w and S_b by the deviations within classes. A column that does not
 * vary within classes is divided by its deviation between them, and left alone if it is constant. */
static kf_status scale_columns(kf_fitter *f) {
  uint64_t n = f->dim;
  double *s_w = f->c, *s_b = f->between_in_v, mean = 0;
  for (uint64_t i = 0; i < n; i++) f->column[i] = 1;
  if (f->method == KF_METHOD_PAPER) return KF_OK;
  for (uint64_t i = 0; i < n; i++) mean += s_w[i * n + i];
  f->total = !(mean > 0);
  if (f->total) {
    memcpy(s_w, s_b, n * n * sizeof *s_w); /* without S_w, all scatter is between classes */
    for (uint64_t i = 0; i < n; i++) mean += s_w[i * n + i];
  }
  mean /= (double)n;
  for (uint64_t i = 0; i < n && mean > 0; i++) {
    double scatter = s_w[i * n + i] > 0 ? s_w[i * n + i] : s_b[i * n + i];
    if (scatter > 0) f->column[i] = sqrt(mean / scatter);
    if (!isfinite(f->column[i])) f->column[i] = 1;
  }
  return by_rows(f->ctx, n, scale_rows, f);
}

static kf_status turn_between(kf_fitter *f) {
  uint64_t n = f->dim;
  double *half = f->c; /* S_b V^T */
  kf_transpose(n, n, f->vectors, f->u);
  kf_product first = {.a = f->between_in_v, .b = f->u, .c = half, .m = n, .n = n, .depth = n};
  kf_product second = {
      .a = f->u, .b = half, .c = f->between_in_v, .m = n, .n = n, .depth = n, .upper = true};
  KF_TRY(kf_multiply(f->ctx, first));
  return kf_multiply(f->ctx, second);
}

enum { STEPS = 5 }; /* of a fit, for progress: three here, two for each lambda */

static kf_status prepare(kf_fitter *f) {
  kf_ctx *ctx = f->ctx;
  uint64_t n = f->dim;
  KF_TAKE(&f->arena, f->mean, n);
  KF_TAKE(&f->arena, f->column, n);
  KF_TAKE(&f->arena, f->values, n);
  KF_TAKE(&f->arena, f->scale, n);
  KF_TAKE(&f->arena, f->gamma, n);
  uint64_t matrix = (n * n + 7) / 8 * 8;
  double *all; /* the matrices in one piece: it takes large pages */
  KF_TAKE(&f->arena, all, 4 * matrix);
  KF_TAKE(&f->arena, f->room, kf_eigen_room(f->dim));
  if (f->arena.failed) return kf_fail_memory(&ctx->err);
  f->vectors = all;
  f->between_in_v = all + matrix;
  f->c = all + 2 * matrix;
  f->u = all + 3 * matrix;
  KF_TRY(kf_progress(ctx, "fit", 0, STEPS));
  if (f->within == f->between) {
    KF_TRY(kf_stats_scatter(ctx, f->within, f->c, f->between_in_v, f->mean));
  } else {
    KF_TRY(kf_stats_scatter(ctx, f->within, f->c, NULL, NULL));
    KF_TRY(kf_stats_scatter(ctx, f->between, NULL, f->between_in_v, f->mean));
  }
  for (uint64_t i = 0; i < n; i++) f->trace += f->c[i * n + i];
  f->norm2 = ctx->kernels->dot(n * n, f->c, f->c);
  KF_TRY(kf_progress(ctx, "fit", 1, STEPS));
  KF_TRY(scale_columns(f));
  KF_TRY(decompose(f));
  KF_TRY(kf_progress(ctx, "fit", 2, STEPS));
  KF_TRY(turn_between(f));
  return kf_progress(ctx, "fit", 3, STEPS);
}

kf_status kf_fitter_new(kf_ctx *ctx, const kf_stats *within, const kf_stats *between,
                        kf_method method, kf_fitter **out) {
  if (between == NULL) between = within;
  KF_TRY(kf_check_method(method, &ctx->err));
  KF_TRY(check_statistics(within, between, &ctx->err));
  kf_fitter *f = kf_alloc_zero(1, sizeof *f);
  if (f == NULL) return kf_fail_memory(&ctx->err);
  f->ctx = ctx;
  f->within = within;
  f->between = between;
  f->dim = within->dim;
  f->method = method == KF_METHOD_PAPER ? KF_METHOD_PAPER : KF_METHOD_SHRUNK;
  f->decomposed = (double)NAN;
  KF_HAND_OUT(prepare(f), out, f, kf_fitter_free);
}

void kf_fitter_free(kf_fitter *f) {
  if (f == NULL) return;
  kf_arena_free(&f->arena);
  kf_free(f);
}

kf_ctx *kf_fitter_ctx(const kf_fitter *f) { return f->ctx; }
const kf_stats *kf_fitter_stats(const kf_fitter *f) { return f->within; }
double kf_fitter_mean_eigenvalue(const kf_fitter *f) { return f->mean_eigenvalue; }
const double *kf_fitter_values(const kf_fitter *f) { return f->values; }
const double *kf_fitter_vectors(const kf_fitter *f) { return f->vectors; }
const double *kf_fitter_mean(const kf_fitter *f) { return f->mean; }
const double *kf_fitter_column(const kf_fitter *f) { return f->column; }
kf_method kf_fitter_method(const kf_fitter *f) { return f->method; }
const double *kf_fitter_between(const kf_fitter *f) { return f->between_in_v; }
bool kf_fitter_total(const kf_fitter *f) { return f->total; }
void kf_fitter_measure(const kf_fitter *f, double *trace, double *norm2) {
  *trace = f->trace;
  *norm2 = f->norm2;
}

kf_status kf_check_method(kf_method method, kf_err *err) {
  if ((unsigned)method <= KF_METHOD_PAPER) return KF_OK;
  return kf_fail(err, KF_ERR_ARG, "invalid method %d", (int)method);
}

kf_status kf_check_centre(kf_centre centre, kf_method method, kf_err *err) {
  if (centre != KF_CENTRE_NONE || method == KF_METHOD_PAPER) return KF_OK;
  return kf_fail_hint(err, KF_ERR_ARG, KF_HINT_METHOD,
                      "rows can be left uncentred in the paper's method only");
}

kf_centre kf_centre_for(kf_centre centre, kf_method method) {
  if (centre != KF_CENTRE_DEFAULT) return centre;
  return method == KF_METHOD_PAPER ? KF_CENTRE_NONE : KF_CENTRE_MEAN;
}

/* --- one lambda ------------------------------------------------------------------------------ */

static kf_status fail_zero(const kf_stats *s, kf_err *err) {
  bool alone = true;
  for (uint32_t k = 0; k < s->n_classes; k++) alone = alone && s->counts[k] <= 1;
  return kf_fail_hint(err, KF_ERR_MATH, KF_HINT_LAMBDA,
                      "the scatter within classes is zero: %s (%llu rows, %u classes); check the "
                      "labels, or use an absolute lambda above 0",
                      alone ? "every row is alone in its class" : "no class has two different rows",
                      (unsigned long long)s->rows, s->n_classes);
}

kf_status kf_fitter_lambda(const kf_fitter *f, kf_lambda lambda, double *out) {
  kf_err *err = &f->ctx->err;
  double value = lambda.value;
  bool rule = lambda.unit == KF_LAMBDA_AUTO || lambda.unit == KF_LAMBDA_GDA;
  if (lambda.unit == KF_LAMBDA_LEDOIT_WOLF)
    return kf_fail_hint(err, KF_ERR_ARG, KF_HINT_ROWS, "Ledoit and Wolf's lambda needs the rows");
  if ((unsigned)lambda.unit > KF_LAMBDA_GDA)
    return kf_fail(err, KF_ERR_ARG, "invalid unit of lambda, %d", (int)lambda.unit);
  if (!rule && !(value >= 0 && isfinite(value)))
    return kf_fail(err, KF_ERR_ARG, "lambda must be finite and not negative");
  if (lambda.unit == KF_LAMBDA_AUTO) value = (f->total ? 30 : 0.3) * f->mean_eigenvalue;
  if (lambda.unit == KF_LAMBDA_RELATIVE) value *= f->mean_eigenvalue;
  if (lambda.unit == KF_LAMBDA_GDA) {
    uint64_t others = f->within->rows > 1 ? f->within->rows - 1 : 1;
    value = f->mean_eigenvalue * f->dim / (double)others;
  }
  if (!isfinite(value)) return kf_fail(err, KF_ERR_ARG, "lambda is too large for double precision");
  if (value == 0 && f->rank == 0) return fail_zero(f->within, err);
  if (value == 0 && f->rank < f->dim)
    return kf_fail_hint(err, KF_ERR_MATH, KF_HINT_LAMBDA,
                        "the scatter %s has rank %u of %u, so lambda must be above 0: %s is a good "
                        "start, and %.2g about the smallest above rounding errors",
                        f->total ? "of all rows" : "within classes", f->rank, f->dim,
                        f->total ? "30x" : "0.3x", 1e6 * f->noise);
  *out = value;
  return KF_OK;
}

/* Rows of c := C, divided by the square of the largest scale, so that no lambda makes it overflow;
 * and the columns of the same numbers. */
static kf_status whiten_rows(void *argument, size_t block, size_t worker, kf_err *err) {
  (void)worker;
  (void)err;
  const kf_fitter *f = argument;
  uint64_t n = f->dim, end = block_end(n, block);
  double largest = f->scale[n - 1]; /* eigenvalues fall, so scales rise */
  for (uint64_t i = block * (uint64_t)ROW_BLOCK; i < end; i++) {
    double scale = f->scale[i] / largest;
    for (uint64_t j = i; j < n; j++)
      f->c[j * n + i] = f->c[i * n + j] =
          f->between_in_v[i * n + j] * (scale * (f->scale[j] / largest));
  }
  return KF_OK;
}

void kf_fitter_keep(kf_fitter *f) { f->keep = !isnan(f->decomposed); }

/* Exchanges what is kept for what there is. */
static void exchange(kf_fitter *f) {
  kf_kept present = {f->decomposed, f->u, f->scale, f->gamma};
  f->decomposed = f->kept.lambda;
  f->u = f->kept.u;
  f->scale = f->kept.scale;
  f->gamma = f->kept.gamma;
  f->kept = present;
  f->keep = false;
}

/* Room for what is to be kept. */
static kf_status make_kept(kf_fitter *f) {
  uint64_t n = f->dim;
  if (f->kept.u != NULL) return KF_OK;
  kf_kept made = {.lambda = (double)NAN};
  KF_TAKE(&f->arena, made.u, n * n);
  KF_TAKE(&f->arena, made.scale, n);
  KF_TAKE(&f->arena, made.gamma, n);
  if (f->arena.failed) return kf_fail_memory(&f->ctx->err);
  f->kept = made;
  return KF_OK;
}

static kf_status decompose_at(kf_fitter *f, double lambda) {
  if (f->kept.u != NULL && lambda == f->kept.lambda) {
    exchange(f);
    return KF_OK;
  }
  if (f->keep) {
    KF_TRY(make_kept(f));
    exchange(f);
  }
  f->decomposed = (double)NAN;
  for (uint32_t i = 0; i < f->dim; i++) f->scale[i] = 1 / sqrt(f->values[i] + lambda);
  double largest_scale = f->scale[f->dim - 1];
  KF_TRY(by_rows(f->ctx, f->dim, whiten_rows, f));
  KF_TRY(kf_eigen_in(f->ctx, f->dim, f->c, f->gamma, f->u, f->room));
  double noise = f->dim * DBL_EPSILON * fabs(f->gamma[0]);
  for (uint32_t i = 0; i < f->dim; i++)
    f->gamma[i] = f->gamma[i] < noise ? 0 : f->gamma[i] * largest_scale * largest_scale;
  if (!isfinite(f->gamma[0]))
    return kf_fail(&f->ctx->err, KF_ERR_MATH, "lambda %g is too small for double precision",
                   lambda);
  f->decomposed = lambda;
  return KF_OK;
}

kf_status kf_fitter_decompose(kf_fitter *f, double lambda, kf_directions *out) {
  if (lambda != f->decomposed) KF_TRY(decompose_at(f, lambda));
  *out = (kf_directions){.scale = f->scale, .gamma = f->gamma, .u = f->u};
  return KF_OK;
}

typedef struct model_job {
  const kf_fitter *fitter;
  kf_model *model;
} model_job;

/* Rows of T in the units of the columns, turned so that the largest component (the first of equal
 * ones) is positive. */
static kf_status finish_directions(void *argument, size_t block, size_t worker, kf_err *err) {
  (void)worker;
  (void)err;
  const model_job *j = argument;
  const kf_map *map = &j->model->map;
  uint64_t end = block_end(map->dim_out, block);
  for (uint64_t l = block * (uint64_t)ROW_BLOCK; l < end; l++) {
    double *row = map->transform + l * map->dim_in, largest = 0;
    for (uint32_t i = 0; i < map->dim_in; i++) row[i] *= j->fitter->column[i];
    for (uint32_t i = 0; i < map->dim_in; i++)
      if (fabs(row[i]) > fabs(largest)) largest = row[i];
    if (largest < 0)
      for (uint32_t i = 0; i < map->dim_in; i++) row[i] = -row[i];
  }
  return KF_OK;
}

static kf_status rotate(kf_fitter *f, kf_model *m) {
  uint64_t n = f->dim, kept = m->map.dim_out;
  kf_directions directions;
  KF_TRY(kf_fitter_decompose(f, m->map.lambda, &directions));
  memcpy(m->between, f->gamma, f->dim * sizeof *f->gamma);
  double *left = f->c; /* [D][L]: U^T with its rows scaled */
  kf_transpose(kept, n, f->u, left);
  for (uint64_t k = 0; k < n; k++)
    for (uint64_t l = 0; l < kept; l++) left[k * kept + l] *= f->scale[k];
  kf_product product = {
      .a = left, .b = f->vectors, .c = m->map.transform, .m = kept, .n = n, .depth = n};
  KF_TRY(kf_multiply(f->ctx, product));
  KF_TRY(by_rows(f->ctx, kept, finish_directions, &(model_job){.fitter = f, .model = m}));
  kf_map_finish(&m->map);
  return KF_OK;
}

static kf_status set_signal(const kf_fitter *f, kf_model *m) {
  if (f->method == KF_METHOD_PAPER || f->total) return KF_OK;
  double kappa = kf_fitter_kappa(f);
  KF_TRY(kf_model_make_signal(m, &f->ctx->err));
  for (uint32_t i = 0; i < f->dim; i++) m->signal[i] = m->between[i] * kappa;
  return KF_OK;
}

double kf_distance_unit(const kf_stats *s) {
  uint64_t classes = 0;
  for (uint32_t k = 0; k < s->n_classes; k++) classes += s->counts[k] > 0;
  return (double)(s->rows - classes);
}

kf_status kf_check_priors(kf_priors priors, kf_method method, kf_err *err) {
  if ((unsigned)priors > KF_PRIORS_TRAINING)
    return kf_fail(err, KF_ERR_ARG, "invalid priors %d", (int)priors);
  if (priors == KF_PRIORS_TRAINING && method == KF_METHOD_PAPER)
    return kf_fail(err, KF_ERR_ARG, "the paper's method takes all classes to be equally likely");
  return KF_OK;
}

kf_status kf_fitter_set_priors(kf_fitter *f, kf_priors priors) {
  KF_TRY(kf_check_priors(priors, f->method, &f->ctx->err));
  f->priors = priors;
  return KF_OK;
}

double kf_fitter_prior(const kf_fitter *f) {
  bool none = f->method == KF_METHOD_PAPER || f->priors == KF_PRIORS_EQUAL || f->total;
  return none || f->within->normalized ? 0 : 2 / kf_distance_unit(f->within);
}

bool kf_fitter_weighs(const kf_fitter *f) {
  return f->priors == KF_PRIORS_TRAINING && f->within->normalized && !f->total;
}

double kf_fitter_kappa(const kf_fitter *f) {
  const kf_stats *b = f->between;
  double squares = 0;
  for (uint32_t k = 0; k < b->n_classes; k++)
    squares += (double)b->counts[k] * (double)b->counts[k];
  double rows = (double)b->rows, common = rows - squares / rows; /* n_0 (K - 1) */
  return kf_distance_unit(f->within) / common;
}

/* --- classes -------------------------------------------------------------------------------- */

static kf_status set_classes(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  const model_job *j = argument;
  uint32_t first = (uint32_t)i * KF_MAP_ROWS, left = j->model->n_classes - first;
  return kf_model_set_classes(j->model, j->fitter->ctx->kernels, first,
                              left < KF_MAP_ROWS ? left : KF_MAP_ROWS, j->fitter->between, first,
                              err);
}

static kf_status set_all_classes(const kf_fitter *f, kf_model *m) {
  model_job j = {.fitter = f, .model = m};
  return kf_parallel(f->ctx, (m->n_classes + KF_MAP_ROWS - 1) / KF_MAP_ROWS, set_classes, &j);
}

/* The version, and the checksum of the statistics: of both, if they differ. */
static kf_status set_provenance(kf_fitter *f, kf_map *map) {
  if (f->checksum == 0) {
    uint64_t sums[2];
    KF_TRY(kf_stats_checksum(f->within, &sums[0], &f->ctx->err));
    f->checksum = sums[0];
    if (f->between != f->within) {
      kf_checksum both;
      KF_TRY(kf_stats_checksum(f->between, &sums[1], &f->ctx->err));
      kf_checksum_start(&both);
      kf_checksum_add(&both, sums, sizeof sums);
      if (sums[1] != sums[0]) f->checksum = kf_checksum_value(&both);
    }
  }
  map->fitted_from = f->checksum;
  snprintf(map->fitted_by, sizeof map->fitted_by, "koofu %s", kf_version());
  return KF_OK;
}

static kf_status fit_model(kf_fitter *f, double lambda, kf_centre centre, bool classes,
                           kf_model *m) {
  m->map.normalized = f->within->normalized;
  m->map.centre = centre;
  m->map.lambda = lambda;
  m->map.method = f->method;
  m->map.origin = f->within->origin;
  KF_TRY(kf_origin_join(&m->map.origin, &f->between->origin, &f->ctx->err));
  KF_TRY(set_provenance(f, &m->map));
  m->rows = f->within->rows;
  m->mean_eigenvalue = f->mean_eigenvalue;
  m->rank = f->rank;
  m->prior = kf_fitter_prior(f);
  memcpy(m->map.mean, f->mean, f->dim * sizeof *f->mean);
  memcpy(m->within, f->values, f->dim * sizeof *m->within);
  KF_TRY(rotate(f, m));
  KF_TRY(set_signal(f, m));
  KF_TRY(kf_progress(f->ctx, "fit", 4, STEPS));
  if (classes)
    KF_TRY(set_all_classes(f, m));
  else
    memcpy(m->counts, f->between->counts, m->n_classes * sizeof *m->counts);
  return kf_progress(f->ctx, "fit", STEPS, STEPS);
}

static kf_status fit(kf_fitter *f, kf_lambda lambda, uint32_t dim, kf_centre centre, bool classes,
                     kf_model **out) {
  kf_err *err = &f->ctx->err;
  if (dim > f->dim) return kf_fail_dim(dim, f->dim, err);
  if ((unsigned)centre > KF_CENTRE_MEAN)
    return kf_fail(err, KF_ERR_ARG, "invalid centre %d", (int)centre);
  centre = kf_centre_for(centre, f->method);
  KF_TRY(kf_check_centre(centre, f->method, err));
  double value = 0;
  KF_TRY(kf_fitter_lambda(f, lambda, &value));
  kf_model *m;
  KF_TRY(kf_model_create(f->dim, dim > 0 ? dim : f->dim, f->between->n_classes, &f->between->names,
                         &m, err));
  KF_HAND_OUT(fit_model(f, value, centre, classes, m), out, m, kf_model_free);
}

kf_status kf_fitter_fit(kf_fitter *f, kf_lambda lambda, uint32_t dim, kf_centre centre,
                        kf_model **out) {
  return fit(f, lambda, dim, centre, true, out);
}

kf_status kf_fitter_fit_map(kf_fitter *f, kf_lambda lambda, kf_centre centre, kf_model **out) {
  return fit(f, lambda, 0, centre, false, out);
}

kf_status kf_fitter_shorten(const kf_fitter *f, const kf_model *model, uint32_t dim,
                            kf_centre centre, kf_model **out) {
  kf_model *m;
  KF_TRY(kf_model_create(f->dim, dim, f->between->n_classes, &f->between->names, &m, &f->ctx->err));
  kf_status status = kf_model_copy_map(model, m, &f->ctx->err);
  m->map.centre = centre; /* the map itself does not depend on it */
  if (status == KF_OK) status = set_all_classes(f, m);
  KF_HAND_OUT(status, out, m, kf_model_free);
}
