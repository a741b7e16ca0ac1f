/* left_out.c - rows left out in groups (or each alone), exactly: the scores of all classes, without
 * fitting again (docs/choosing.md has the algebra at length).
 *
 * In the mapped space T (S_w + lambda I) T^T = I and T S_b T^T = Gamma. Take out a group of rows
 * with mapped rows z_i (centred on the mean of all N rows) and v_i = z_i - mean of their class:
 *
 *     W = I - V^T Omega V             V: rows v_i;  Omega = I + 11^T / (n_k - a_k) for each class k
 *                                     that loses a_k of its n_k rows
 *     B = Gamma - Z^T Psi Z + V^T Omega V              Psi = I + 11^T / (N - g), g rows in all
 *
 * A shrunk class mean of n rows is P m = m - W C^-1 m with C = W + n kappa B, and
 *
 *     x.W^-1 P m = x.W^-1 m - x.C^-1 m
 *     P m.W^-1 P m = m.W^-1 m - 2 m.C^-1 m + C^-1 m.W C^-1 m.
 *
 * With U = [V; Z] and the diagonal D = I + n kappa Gamma, C = D + U^T Phi U, so by Woodbury
 *
 *     W^-1 = I + V^T (Omega^-1 - V V^T)^-1 V          C^-1 = D^-1 - D^-1 U^T E U D^-1
 *     E = (I + Phi U D^-1 U^T)^-1 Phi,    Phi = diag((n kappa - 1) Omega, -n kappa Psi).
 *
 * Everything is then made of products of rows of U with class means, in the metrics I, D^-1 and
 * D^-2: three products of matrices for a batch of rows, and little algebra for each row and class.
 * The mean of all rows moves, too; that adds a multiple of the group's mean to every class mean.
 *
 * Held at their values of all rows are the scales of columns and kappa. Rows are the integers that
 * the statistics were made of. */
#include "choose/left_out.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BATCH        64u /* rows, unless a group has more */
#define TEMPERATURES 9u  /* each twice the one before */
#define LEAST_COSINE 2.0
/* Distances are in units of the noise, so a temperature above 1 claims more than the model can know.
 * Without this limit, rows that are separable drive it up, and lambda to 0. */
#define LEAST_SQUARE 0x1p-8
#define TOP          5u
#define UNIT         0x1p40 /* sums of logarithms are integers of this many to 1 */
#define LEAST_PIVOT  0x1p-44

typedef struct class_kind {
  double count;         /* rows of each of its classes */
  uint32_t first, last; /* in by_kind */
} class_kind;

struct kf_left_out {
  kf_ctx *ctx;
  kf_fitter *fitter;
  const kf_stats *stats;
  const kf_data *data;
  const uint32_t *groups;
  bool euclidean;
  uint32_t dim;
  uint32_t n;        /* classes with rows */
  int32_t *number;   /* [n] of each */
  int32_t *place;    /* [n_classes] among them, or -1 */
  uint32_t *by_kind; /* [n] places, by rising number of rows */
  class_kind *kinds;
  uint32_t n_kinds;
  double *text; /* [D][n] text prototypes in columns; NULL: none */
  /* The rows to leave out, block by block: a group, or one row. */
  kf_row_list rows;
  uint64_t *start; /* [n_blocks + 1] */
  uint64_t n_blocks;
  uint64_t largest; /* rows of a block */
  kf_left_out_count count;
  kf_arena arena;
};

/* --- the plan: which rows are left out together ------------------------------------------------ */

static bool can_leave_out(const kf_left_out *l, int32_t label) {
  return l->stats->counts[label] > 1;
}

static kf_status plan_single_rows(kf_left_out *l, uint64_t sample) {
  kf_row_list all;
  KF_TRY(kf_sample_rows(l->ctx, l->data, sample, &all, &l->count.rows));
  uint64_t kept = 0;
  for (uint64_t i = 0; i < all.n; i++) {
    if (!can_leave_out(l, all.label[i])) continue;
    all.row[kept] = all.row[i];
    all.label[kept++] = all.label[i];
  }
  l->count.n_single = all.n - kept;
  all.n = l->count.n = kept;
  l->rows = all;
  l->n_blocks = kept;
  l->largest = 1;
  if (KF_TAKE(&l->arena, l->start, kept + 1) == NULL) return kf_fail_memory(&l->ctx->err);
  for (uint64_t i = 0; i <= kept; i++) l->start[i] = i;
  return KF_OK;
}

typedef struct grouped_row {
  uint32_t group;
  int32_t label;
  uint64_t row;
} grouped_row;

static int by_group(const void *a, const void *b) {
  const grouped_row *x = a, *y = b;
  if (x->group != y->group) return x->group < y->group ? -1 : 1;
  return (x->row > y->row) - (x->row < y->row);
}

/* Takes groups from the sorted rows, spread evenly, until about `sample` rows are taken. */
static kf_status take_groups(kf_left_out *l, const grouped_row *sorted, uint64_t n,
                             uint64_t sample) {
  uint64_t n_groups = 0, group = 0;
  for (uint64_t i = 0; i < n; i++) n_groups += i == 0 || sorted[i].group != sorted[i - 1].group;
  uint64_t wanted =
      n <= sample ? n_groups : (uint64_t)((double)n_groups * ((double)sample / (double)n));
  if (wanted < 1) wanted = 1;
  if (KF_TAKE(&l->arena, l->start, n_groups + 1) == NULL) return kf_fail_memory(&l->ctx->err);
  for (uint64_t first = 0, last; first < n; first = last, group++) {
    for (last = first + 1; last < n && sorted[last].group == sorted[first].group;) last++;
    if (!kf_takes(group, wanted, n_groups)) continue;
    if (last - first > KF_LEFT_OUT_LARGEST)
      return kf_fail(&l->ctx->err, KF_ERR_DATA, "group %u has %llu rows, more than %u",
                     sorted[first].group, (unsigned long long)(last - first), KF_LEFT_OUT_LARGEST);
    l->start[l->n_blocks++] = l->rows.n;
    for (uint64_t i = first; i < last; i++)
      kf_row_list_add(&l->rows, sorted[i].row, sorted[i].label);
    if (last - first > l->largest) l->largest = last - first;
  }
  l->start[l->n_blocks] = l->rows.n;
  return KF_OK;
}

/* Rows whose class has rows outside the group can be judged. */
static kf_status count_judged(kf_left_out *l) {
  uint64_t *lost = kf_alloc_zero(l->stats->n_classes, sizeof *lost);
  if (lost == NULL) return kf_fail_memory(&l->ctx->err);
  for (uint64_t b = 0; b < l->n_blocks; b++) {
    uint64_t first = l->start[b], last = l->start[b + 1];
    for (uint64_t i = first; i < last; i++) lost[l->rows.label[i]]++;
    for (uint64_t i = first; i < last; i++)
      if (lost[l->rows.label[i]] < (uint64_t)l->stats->counts[l->rows.label[i]])
        l->count.n++;
      else
        l->count.n_single++;
    for (uint64_t i = first; i < last; i++) lost[l->rows.label[i]] = 0;
  }
  kf_free(lost);
  return KF_OK;
}

static kf_status plan_groups(kf_left_out *l, uint64_t sample) {
  kf_err *err = &l->ctx->err;
  kf_row_list all;
  KF_TRY(kf_sample_rows(l->ctx, l->data, UINT64_MAX, &all, &l->count.rows));
  grouped_row *sorted = kf_alloc(all.n, sizeof *sorted);
  kf_status status = sorted == NULL ? kf_fail_memory(err) : kf_row_list_make(&l->rows, all.n, err);
  if (status == KF_OK) {
    for (uint64_t i = 0; i < all.n; i++)
      sorted[i] = (grouped_row){l->groups[all.row[i]], all.label[i], all.row[i]};
    qsort(sorted, all.n, sizeof *sorted, by_group);
    status = take_groups(l, sorted, all.n, sample);
  }
  kf_free(sorted);
  kf_row_list_clear(&all);
  return status == KF_OK ? count_judged(l) : status;
}

/* --- making it --------------------------------------------------------------------------------- */

typedef struct counted_class {
  int64_t count;
  uint32_t place;
} counted_class;

static int by_count(const void *a, const void *b) {
  const counted_class *x = a, *y = b;
  if (x->count != y->count) return x->count < y->count ? -1 : 1;
  return (x->place > y->place) - (x->place < y->place);
}

static kf_status list_classes(kf_left_out *l) {
  const kf_stats *s = l->stats;
  kf_arena *arena = &l->arena;
  counted_class *sorted;
  KF_TAKE(arena, l->number, s->n_classes);
  KF_TAKE(arena, l->place, s->n_classes);
  KF_TAKE(arena, l->by_kind, s->n_classes);
  KF_TAKE(arena, l->kinds, s->n_classes);
  KF_TAKE(arena, sorted, s->n_classes);
  if (arena->failed) return kf_fail_memory(&l->ctx->err);
  for (uint32_t k = 0; k < s->n_classes; k++) {
    l->place[k] = s->counts[k] > 0 ? (int32_t)l->n : -1;
    if (s->counts[k] == 0) continue;
    sorted[l->n] = (counted_class){s->counts[k], l->n};
    l->number[l->n++] = (int32_t)k;
  }
  qsort(sorted, l->n, sizeof *sorted, by_count);
  for (uint32_t i = 0; i < l->n; i++) {
    l->by_kind[i] = sorted[i].place;
    if (i == 0 || sorted[i].count != sorted[i - 1].count)
      l->kinds[l->n_kinds++] = (class_kind){.count = (double)sorted[i].count, .first = i};
    l->kinds[l->n_kinds - 1].last = i + 1;
  }
  return KF_OK;
}

static kf_status take_text(kf_left_out *l, const float *text) {
  uint64_t dim = l->dim;
  if (KF_TAKE(&l->arena, l->text, dim * l->n) == NULL) return kf_fail_memory(&l->ctx->err);
  for (uint64_t j = 0; j < l->n; j++)
    for (uint64_t d = 0; d < dim; d++)
      l->text[d * l->n + j] = (double)text[(uint64_t)l->number[j] * dim + d];
  return KF_OK;
}

static kf_status prepare(kf_left_out *l, const kf_left_out_options *o) {
  uint64_t sample = o->sample > 0 ? o->sample : KF_LEFT_OUT_SAMPLE;
  KF_TRY(list_classes(l));
  if (o->text != NULL) KF_TRY(take_text(l, o->text));
  return o->groups != NULL ? plan_groups(l, sample) : plan_single_rows(l, sample);
}

kf_status kf_left_out_new(kf_fitter *fitter, const kf_data *data,
                          const kf_left_out_options *options, kf_left_out **out) {
  kf_ctx *ctx = kf_fitter_ctx(fitter);
  const kf_stats *stats = kf_fitter_stats(fitter);
  KF_TRY(kf_check_statistics_of(stats, data, &ctx->err));
  kf_left_out *l = kf_alloc_zero(1, sizeof *l);
  if (l == NULL) return kf_fail_memory(&ctx->err);
  l->ctx = ctx;
  l->fitter = fitter;
  l->stats = stats;
  l->data = data;
  l->groups = options->groups;
  l->dim = stats->dim;
  l->euclidean = options->metric == KF_METRIC_EUCLIDEAN;
  KF_HAND_OUT(prepare(l, options), out, l, kf_left_out_free);
}

void kf_left_out_free(kf_left_out *l) {
  if (l == NULL) return;
  kf_row_list_clear(&l->rows);
  kf_arena_free(&l->arena);
  kf_free(l);
}

kf_left_out_count kf_left_out_counts(const kf_left_out *l) { return l->count; }

/* --- a lambda ---------------------------------------------------------------------------------- */

/* Everything that depends on lambda. Class means have no part beyond the first `rank` directions:
 * gamma is 0 there. */
typedef struct view {
  const kf_left_out *l;
  kf_model *model; /* the map, gamma and the signal; no classes */
  bool shrunk;
  double kappa;
  double noise; /* 1 / the variance of a row in any direction of the mapped space: N - K */
  uint32_t rank;
  uint32_t metrics;   /* 3, or 1 if class means are not shrunk */
  double *means;      /* [n][D] mapped class means */
  double *columns[3]; /* [rank][n] the same in columns: as they are, divided by D, by D^2 */
  double *squares[3]; /* [n] squared lengths in the three metrics */
  kf_arena arena;
} view;

/* D^-1 of a class with `count` rows, in direction d. */
static double narrowing(const view *v, double count, uint64_t d) {
  return v->shrunk && d < v->rank ? 1 / (1 + count * v->model->signal[d]) : 1;
}

static kf_status map_means(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  view *v = argument;
  const kf_left_out *l = v->l;
  const kf_kernels *kernels = l->ctx->kernels;
  uint64_t dim = l->dim, first = i * BATCH, left = l->n - first, n = left < BATCH ? left : BATCH;
  double *scratch = kf_alloc(kf_map_scratch(&v->model->map) + dim, sizeof *scratch);
  if (scratch == NULL) return kf_fail_memory(err);
  double *mean = scratch + kf_map_scratch(&v->model->map);
  for (uint64_t j = first; j < first + n; j++) {
    double *z = v->means + j * dim, count = (double)l->stats->counts[l->number[j]];
    kf_map_class_means(&v->model->map, kernels, l->stats, (uint32_t)l->number[j], 1, scratch, mean,
                       z);
    for (uint32_t m = 0; m < v->metrics; m++) v->squares[m][j] = 0;
    for (uint64_t d = 0; d < v->rank; d++) {
      double part = z[d], inverse = narrowing(v, count, d);
      for (uint32_t m = 0; m < v->metrics; m++, part *= inverse) {
        v->columns[m][d * l->n + j] = part;
        v->squares[m][j] += part * z[d];
      }
    }
  }
  kf_free(scratch);
  return KF_OK;
}

static kf_status start_view(view *v, const kf_left_out *l, double lambda) {
  kf_ctx *ctx = l->ctx;
  v->l = l;
  KF_TRY(kf_fitter_fit_map(l->fitter, lambda, KF_CENTRE_MEAN, &v->model));
  v->shrunk = v->model->signal != NULL;
  v->metrics = v->shrunk ? 3 : 1;
  v->kappa = v->shrunk ? kf_fitter_kappa(l->fitter) : 0;
  v->noise = (double)(l->stats->rows - l->n);
  while (v->rank < l->dim && v->model->between[v->rank] > 0) v->rank++;
  KF_TAKE(&v->arena, v->means, (uint64_t)l->n * l->dim);
  for (uint32_t m = 0; m < v->metrics; m++) {
    KF_TAKE(&v->arena, v->columns[m], (uint64_t)v->rank * l->n);
    KF_TAKE(&v->arena, v->squares[m], l->n);
  }
  if (v->arena.failed) return kf_fail_memory(&ctx->err);
  return kf_parallel(ctx, (l->n + BATCH - 1) / BATCH, map_means, v);
}

static void clear_view(view *v) {
  kf_model_free(v->model);
  kf_arena_free(&v->arena);
}

/* --- a block: rows that are left out together -------------------------------------------------- */

/* What a class mean adds to the products of its block: it is mean + U^T c. */
typedef struct shifted_mean {
  const double *c;   /* [2r] */
  double *g0c, *g1c; /* [2r] U U^T c, U D^-1 U^T c */
  double c_g0_c, c_g1_c;
} shifted_mean;

/* r rows. Matrices of 2r rows belong to U = [V; Z]. */
typedef struct block {
  uint32_t r;
  const uint64_t *row;   /* [r] */
  const int32_t *label;  /* [r] */
  const double *u;       /* [2r][D] */
  const double *columns; /* the same, [D][stride] */
  size_t stride;
  const double *product[3]; /* [2r][n] with class means, in the three metrics */
  double inverse_left;      /* 1 / (N - g) */
  double *omega;            /* [r][r] */
  double *b;                /* [r][r] (Omega^-1 - V V^T)^-1 */
  double *g0, *g1, *g2; /* [2r][2r] U U^T, U D^-1 U^T, U D^-2 U^T; the latter two of one count */
  double *e;            /* [2r][2r] of one count */
  double *query;        /* [r][2r] the row itself is U^T query */
  double *wide;         /* [r][2r] x.W^-1 m = wide.(U m) */
  double *narrow;       /* [r][2r] x.C^-1 m = narrow.(U D^-1 m), of one count */
  double *length2;      /* [r] x.W^-1 x */
  shifted_mean moved;   /* of classes that lose no row */
  shifted_mean own;     /* of one that does */
  double *moved_c, *own_c;
  double *left;              /* [2r][2r] scratch for solving */
  double *own_h;             /* [3][2r] scratch */
  double *weighted;          /* [D][2r] scratch */
  double *t0, *t1, *t2, *t3; /* [2r] scratch */
} block;

static void block_make(block *b, uint64_t r, uint64_t dim, kf_arena *arena) {
  uint64_t r2 = 2 * r;
  KF_TAKE(arena, b->omega, r * r);
  KF_TAKE(arena, b->b, r * r);
  KF_TAKE(arena, b->g0, r2 * r2);
  KF_TAKE(arena, b->g1, r2 * r2);
  KF_TAKE(arena, b->g2, r2 * r2);
  KF_TAKE(arena, b->e, r2 * r2);
  KF_TAKE(arena, b->left, r2 * r2);
  KF_TAKE(arena, b->own_h, 3 * r2);
  KF_TAKE(arena, b->query, r * r2);
  KF_TAKE(arena, b->wide, r * r2);
  KF_TAKE(arena, b->narrow, r * r2);
  KF_TAKE(arena, b->length2, r);
  KF_TAKE(arena, b->moved_c, r2);
  KF_TAKE(arena, b->moved.g0c, r2);
  KF_TAKE(arena, b->moved.g1c, r2);
  KF_TAKE(arena, b->own_c, r2);
  KF_TAKE(arena, b->own.g0c, r2);
  KF_TAKE(arena, b->own.g1c, r2);
  KF_TAKE(arena, b->weighted, dim * r2);
  KF_TAKE(arena, b->t0, r2);
  KF_TAKE(arena, b->t1, r2);
  KF_TAKE(arena, b->t2, r2);
  KF_TAKE(arena, b->t3, r2);
  b->moved.c = b->moved_c;
  b->own.c = b->own_c;
}

/* right := left^-1 right, both [n][n], by elimination with pivots. left is destroyed. A pivot that
 * rounding has made too small is raised. */
static void solve(uint32_t n, double *left, double *right) {
  for (uint32_t i = 0; i < n; i++) {
    uint32_t at = i;
    for (uint32_t k = i + 1; k < n; k++)
      if (fabs(left[(size_t)k * n + i]) > fabs(left[(size_t)at * n + i])) at = k;
    for (uint32_t j = 0; at != i && j < n; j++) {
      double x = left[(size_t)i * n + j], y = right[(size_t)i * n + j];
      left[(size_t)i * n + j] = left[(size_t)at * n + j];
      left[(size_t)at * n + j] = x;
      right[(size_t)i * n + j] = right[(size_t)at * n + j];
      right[(size_t)at * n + j] = y;
    }
    double pivot = left[(size_t)i * n + i];
    if (!(fabs(pivot) > LEAST_PIVOT)) pivot = pivot < 0 ? -LEAST_PIVOT : LEAST_PIVOT;
    for (uint32_t j = 0; j < n; j++) {
      left[(size_t)i * n + j] /= pivot;
      right[(size_t)i * n + j] /= pivot;
    }
    for (uint32_t k = 0; k < n; k++) {
      double factor = left[(size_t)k * n + i];
      if (k == i || factor == 0) continue;
      for (uint32_t j = 0; j < n; j++) {
        left[(size_t)k * n + j] -= factor * left[(size_t)i * n + j];
        right[(size_t)k * n + j] -= factor * right[(size_t)i * n + j];
      }
    }
  }
}

static double sum_of(uint32_t n, const double *a, const double *b) {
  double sum = 0;
  for (uint32_t i = 0; i < n; i++) sum += a[i] * b[i];
  return sum;
}

/* out = a x, a [rows][columns]. */
static void times(uint32_t rows, uint32_t columns, const double *a, size_t stride, const double *x,
                  double *out) {
  for (uint32_t i = 0; i < rows; i++) out[i] = sum_of(columns, a + i * stride, x);
}

/* to = U diag(scale) U^T; scale = narrowing(count)^power. */
static void gram(const view *v, block *b, double count, int power, double *to) {
  uint32_t r2 = 2 * b->r;
  size_t dim = v->l->dim;
  for (size_t d = 0; d < dim; d++) {
    double scale = power > 0 ? narrowing(v, count, d) : 1;
    if (power == 2) scale *= scale;
    for (uint32_t i = 0; i < r2; i++)
      b->weighted[d * r2 + i] = b->columns[d * b->stride + i] * scale;
  }
  memset(to, 0, (size_t)r2 * r2 * sizeof *to);
  v->l->ctx->kernels->gemm_tn(b->weighted, r2, b->columns, b->stride, to, r2, r2, r2, dim);
}

/* How many rows of the class of row i are in the block. */
static double rows_lost(const block *b, int32_t label) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < b->r; i++) n += b->label[i] == label;
  return n;
}

/* Omega, and (Omega^-1 - V V^T)^-1; Omega^-1 = I - 11^T / n_k. A class that loses all its rows has
 * neither term: its v_i add up to 0. */
static void set_within(const view *v, block *b) {
  uint32_t r = b->r;
  for (uint32_t i = 0; i < r; i++) {
    double count = (double)v->l->stats->counts[b->label[i]], lost = rows_lost(b, b->label[i]);
    for (uint32_t j = 0; j < r; j++) {
      bool same = b->label[i] == b->label[j] && lost < count;
      b->omega[(size_t)i * r + j] = (i == j ? 1 : 0) + (same ? 1 / (count - lost) : 0);
      b->left[(size_t)i * r + j] =
          (i == j ? 1 : 0) - (same ? 1 / count : 0) - b->g0[(size_t)i * 2 * r + j];
      b->b[(size_t)i * r + j] = i == j ? 1 : 0;
    }
  }
  solve(r, b->left, b->b);
}

static void set_mean(const block *b, const double *c, shifted_mean *m, bool shrunk) {
  uint32_t r2 = 2 * b->r;
  times(r2, r2, b->g0, r2, c, m->g0c);
  m->c_g0_c = sum_of(r2, c, m->g0c);
  if (!shrunk) return;
  times(r2, r2, b->g1, r2, c, m->g1c);
  m->c_g1_c = sum_of(r2, c, m->g1c);
}

/* The rows as queries: centred on the mean without the group. */
static void set_queries(block *b) {
  uint32_t r = b->r, r2 = 2 * r;
  for (uint32_t i = 0; i < r; i++) {
    double *query = b->query + (size_t)i * r2, *wide = b->wide + (size_t)i * r2;
    for (uint32_t j = 0; j < r; j++) {
      query[j] = 0;
      query[r + j] = (i == j ? 1 : 0) + b->inverse_left;
    }
    times(r2, r2, b->g0, r2, query, b->t0); /* U x */
    times(r, r, b->b, r, b->t0, b->t1);
    for (uint32_t j = 0; j < r2; j++) wide[j] = query[j] + (j < r ? b->t1[j] : 0);
    b->length2[i] = sum_of(r2, wide, b->t0);
  }
}

/* All that depends on the number of rows of a class: D, hence E and the queries. */
static void set_count(const view *v, block *b, double count) {
  uint32_t r = b->r, r2 = 2 * r;
  double n_kappa = count * v->kappa;
  if (!v->shrunk) return;
  gram(v, b, count, 1, b->g1);
  gram(v, b, count, 2, b->g2);
  for (uint32_t i = 0; i < r; i++)
    for (uint32_t j = 0; j < r; j++) {
      double psi = (i == j ? 1 : 0) + b->inverse_left;
      b->e[(size_t)i * r2 + j] = (n_kappa - 1) * b->omega[(size_t)i * r + j];
      b->e[(size_t)(r + i) * r2 + r + j] = -n_kappa * psi;
      b->e[(size_t)i * r2 + r + j] = b->e[(size_t)(r + i) * r2 + j] = 0;
    }
  for (uint32_t i = 0; i < r2; i++)
    for (uint32_t j = 0; j < r2; j++) {
      double sum = i == j ? 1 : 0;
      for (uint32_t k = 0; k < r2; k++) sum += b->e[(size_t)i * r2 + k] * b->g1[(size_t)k * r2 + j];
      b->left[(size_t)i * r2 + j] = sum;
    }
  solve(r2, b->left, b->e);
  for (uint32_t i = 0; i < r; i++) {
    const double *query = b->query + (size_t)i * r2;
    double *narrow = b->narrow + (size_t)i * r2;
    times(r2, r2, b->g1, r2, query, b->t0);
    for (uint32_t j = 0; j < r2; j++) {
      double sum = query[j];
      for (uint32_t k = 0; k < r2; k++) sum -= b->e[(size_t)k * r2 + j] * b->t0[k];
      narrow[j] = sum;
    }
  }
}

/* --- scores ------------------------------------------------------------------------------------ */

/* A class mean: its products with U in the three metrics, h[m][i * stride], and its squares. */
typedef struct class_mean {
  const double *h[3];
  size_t stride;
  double square[3];
  const shifted_mean *shift;
} class_mean;

/* The squared length of the (shrunk) mean, and in b->t0 and b->t1 what rows are multiplied with. r:
 * b->r, as a constant where it is one. */
static inline __attribute__((always_inline)) double mean_length2(const view *v, const block *b,
                                                                 uint32_t r, const class_mean *m) {
  uint32_t r2 = 2 * r;
  const double *c = m->shift->c;
  double *um0 = b->t0, *um1 = b->t1, *p = b->t2, *y = b->t3;
  double length2 = m->square[0] + m->shift->c_g0_c, quadratic = 0;
  for (uint32_t i = 0; i < r2; i++) {
    double h = m->h[0][i * m->stride];
    um0[i] = h + m->shift->g0c[i];
    length2 += 2 * c[i] * h;
  }
  for (uint32_t i = 0; i < r; i++)
    for (uint32_t j = 0; j < r; j++) quadratic += um0[i] * b->b[(size_t)i * r + j] * um0[j];
  length2 += quadratic;
  if (!v->shrunk) return length2;
  double m_c_m = m->square[1] + m->shift->c_g1_c, narrowed = m->square[2];
  for (uint32_t i = 0; i < r2; i++) {
    double h = m->h[1][i * m->stride];
    um1[i] = h + m->shift->g1c[i];
    m_c_m += 2 * c[i] * h;
  }
  for (uint32_t i = 0; i < r2; i++) {
    double sum = 0;
    for (uint32_t j = 0; j < r2; j++) sum += b->e[(size_t)i * r2 + j] * um1[j];
    m_c_m -= um1[i] * sum;
    p[i] = c[i] - sum;
  }
  for (uint32_t i = 0; i < r2; i++) {
    double sum = 0;
    for (uint32_t j = 0; j < r2; j++) sum += b->g2[(size_t)i * r2 + j] * p[j];
    narrowed += p[i] * (2 * m->h[2][i * m->stride] + sum);
  }
  for (uint32_t i = 0; i < r; i++) {
    double sum = m->h[1][i * m->stride];
    for (uint32_t j = 0; j < r2; j++) sum += b->g1[(size_t)i * r2 + j] * p[j];
    y[i] = sum;
  }
  for (uint32_t i = 0; i < r; i++)
    for (uint32_t j = 0; j < r; j++) narrowed -= y[i] * b->omega[(size_t)i * r + j] * y[j];
  return length2 - 2 * m_c_m + narrowed;
}

static inline __attribute__((always_inline)) double product_with(const view *v, const block *b,
                                                                 uint32_t r, uint32_t i) {
  uint32_t r2 = 2 * r;
  const double *wide = b->wide + (size_t)i * r2, *narrow = b->narrow + (size_t)i * r2;
  double sum = 0;
  for (uint32_t j = 0; j < r2; j++) sum += wide[j] * b->t0[j];
  for (uint32_t j = 0; v->shrunk && j < r2; j++) sum -= narrow[j] * b->t1[j];
  return sum;
}

static double score_of(const view *v, double row2, double product, double mean2) {
  if (v->l->euclidean) return -0.5 * v->noise * (row2 - 2 * product + mean2);
  return row2 > 0 && mean2 > 0 ? product / (sqrt(row2) * sqrt(mean2)) : 0;
}

/* Classes of one kind, as if they lost no row: scores [r][n]. */
static inline __attribute__((always_inline)) void
score_kind_of(const view *v, const block *b, uint32_t r, const class_kind *kind, double *scores) {
  const kf_left_out *l = v->l;
  for (uint32_t at = kind->first; at < kind->last; at++) {
    uint32_t j = l->by_kind[at];
    class_mean m = {.stride = l->n, .shift = &b->moved};
    for (uint32_t k = 0; k < v->metrics; k++) {
      m.h[k] = b->product[k] + j;
      m.square[k] = v->squares[k][j];
    }
    double mean2 = mean_length2(v, b, r, &m);
    for (uint32_t i = 0; i < r; i++)
      scores[(size_t)i * l->n + j] = score_of(v, b->length2[i], product_with(v, b, r, i), mean2);
  }
}

static void score_kind(const view *v, const block *b, const class_kind *kind, double *scores) {
  if (b->r == 1)
    score_kind_of(v, b, 1, kind, scores);
  else
    score_kind_of(v, b, b->r, kind, scores);
}

/* A class that loses rows and has `count` left, which has been set. */
static void score_own(const view *v, block *b, uint32_t j, double count, double *scores) {
  const kf_left_out *l = v->l;
  uint32_t r2 = 2 * b->r;
  const double *z = v->means + (uint64_t)j * l->dim;
  double *h[3] = {b->own_h, b->own_h + r2, b->own_h + 2 * (size_t)r2};
  class_mean m = {.stride = 1, .shift = &b->own};
  for (uint32_t i = 0; i < r2; i++) {
    double sum[3] = {0};
    for (uint64_t d = 0; d < v->rank; d++) {
      double part = b->u[(uint64_t)i * l->dim + d] * z[d], inverse = narrowing(v, count, d);
      for (uint32_t k = 0; k < v->metrics; k++, part *= inverse) sum[k] += part;
    }
    for (uint32_t k = 0; k < v->metrics; k++) h[k][i] = sum[k];
  }
  for (uint64_t d = 0; d < v->rank; d++) {
    double part = z[d] * z[d], inverse = narrowing(v, count, d);
    for (uint32_t k = 0; k < v->metrics; k++, part *= inverse) m.square[k] += part;
  }
  for (uint32_t k = 0; k < v->metrics; k++) m.h[k] = h[k];
  for (uint32_t i = 0; i < b->r; i++) {
    b->own_c[i] = b->label[i] == l->number[j] ? -1 / count : 0;
    b->own_c[b->r + i] = b->inverse_left;
  }
  set_mean(b, b->own_c, &b->own, v->shrunk);
  double mean2 = mean_length2(v, b, b->r, &m);
  for (uint32_t i = 0; i < b->r; i++)
    scores[(size_t)i * l->n + j] = score_of(v, b->length2[i], product_with(v, b, b->r, i), mean2);
}

/* Whether row i is the first of its class in the block. */
static bool first_of_class(const block *b, uint32_t i) {
  for (uint32_t k = 0; k < i; k++)
    if (b->label[k] == b->label[i]) return false;
  return true;
}

static void score_block(const view *v, block *b, double *scores) {
  const kf_left_out *l = v->l;
  b->inverse_left = 1 / (double)(l->stats->rows - b->r);
  gram(v, b, 0, 0, b->g0);
  set_within(v, b);
  set_queries(b);
  for (uint32_t i = 0; i < 2 * b->r; i++) b->moved_c[i] = i < b->r ? 0 : b->inverse_left;
  for (uint32_t k = 0; k < l->n_kinds; k++) {
    set_count(v, b, l->kinds[k].count);
    set_mean(b, b->moved_c, &b->moved, v->shrunk);
    score_kind(v, b, &l->kinds[k], scores);
  }
  for (uint32_t i = 0; i < b->r; i++) {
    if (!first_of_class(b, i)) continue;
    uint32_t j = (uint32_t)l->place[b->label[i]];
    double count = (double)l->stats->counts[b->label[i]], lost = rows_lost(b, b->label[i]);
    if (lost == count) { /* nothing is left of the class */
      for (uint32_t k = 0; k < b->r; k++) scores[(size_t)k * l->n + j] = NAN;
      continue;
    }
    set_count(v, b, count - lost);
    score_own(v, b, j, count - lost, scores);
  }
}

/* --- likelihood -------------------------------------------------------------------------------- */

/* Sums over rows, in 1 / UNIT: of -ln p at each temperature, of its derivative, and of its square
 * (in 1 / sqrt(UNIT) each). */
typedef struct tally {
  kf_i128 loss[TEMPERATURES], slope[TEMPERATURES], square[TEMPERATURES];
  uint64_t top1, top5;
} tally;

static kf_i128 fixed(double x) {
  double y = x * UNIT;
  return (kf_i128)(y < 0 ? y - 0.5 : y + 0.5);
}

/* One row: scores [n] of all classes, NaN for those that are out; powers: scratch, [n]. */
static void judge_row(const kf_left_out *l, const double *scores, uint32_t own, double *powers,
                      tally *t) {
  const uint32_t lanes = 4;
  double most = -INFINITY, least = l->euclidean ? LEAST_SQUARE : LEAST_COSINE;
  uint32_t before = 0;
  for (uint32_t j = 0; j < l->n; j++) {
    most = scores[j] > most ? scores[j] : most;
    before += scores[j] > scores[own] || (scores[j] == scores[own] && j < own);
  }
  t->top1 += before == 0;
  t->top5 += before < TOP;
  for (uint32_t j = 0; j < l->n; j++)
    powers[j] = isnan(scores[j]) ? 0 : kf_exp(least * (scores[j] - most));
  for (uint32_t i = 0; i < TEMPERATURES; i++, least *= 2) {
    double sum[4] = {0}, moment[4] = {0};
    for (uint32_t j = 0; j < l->n; j++) {
      double power = powers[j];
      if (power > 0) {
        sum[j % lanes] += power;
        moment[j % lanes] += power * (scores[j] - most);
      }
      powers[j] = power * power;
    }
    double all = (sum[0] + sum[1]) + (sum[2] + sum[3]), gap = scores[own] - most;
    double loss = kf_ln(all) - least * gap;
    t->loss[i] += fixed(loss);
    t->slope[i] += fixed(((moment[0] + moment[1]) + (moment[2] + moment[3])) / all - gap);
    t->square[i] += fixed(loss * loss);
  }
}

/* The least of a curve that is known with its slopes at 0 and 1, by a cubic through them. */
static double least_between(double f0, double d0, double f1, double d1, double *at) {
  double theta = d0 + d1 - 3 * (f1 - f0), root2 = theta * theta - d0 * d1;
  double w = root2 > 0 ? sqrt(root2) : 0, below = d1 - d0 + 2 * w;
  double u = below > 0 ? 1 - (d1 + w - theta) / below : 0.5;
  u = u < 0 ? 0 : u > 1 ? 1 : u;
  double a = d0 + d1 + 2 * (f0 - f1), b = 3 * (f1 - f0) - 2 * d0 - d1;
  *at = u;
  return f0 + u * (d0 + u * (b + u * a));
}

#define LN2 0x1.62e42fefa39efp-1

static void find_least(const kf_left_out *l, const tally *t, uint64_t n, kf_left_out_point *p) {
  double first = l->euclidean ? LEAST_SQUARE : LEAST_COSINE, scale = 1 / (UNIT * (double)n);
  uint32_t i = 0;
  while (i + 1 < TEMPERATURES && t->slope[i + 1] < 0) i++;
  double low = ldexp(first, (int)i), f0 = (double)t->loss[i] * scale;
  p->temperature = low;
  p->loss = f0;
  if (i + 1 < TEMPERATURES && t->slope[i] < 0) {
    double f1 = (double)t->loss[i + 1] * scale, u;
    double d0 = (double)t->slope[i] * scale * low * LN2;
    double d1 = (double)t->slope[i + 1] * scale * 2 * low * LN2;
    p->loss = least_between(f0, d0, f1, d1, &u);
    p->temperature = low * kf_exp(u * LN2);
  }
  double variance = (double)t->square[i] * scale - f0 * f0;
  p->loss_error = sqrt(fmax(variance, 0) / (double)n);
  p->top1 = t->top1;
  p->top5 = t->top5;
}

/* --- all rows ---------------------------------------------------------------------------------- */

typedef struct batch {
  uint64_t first, last; /* blocks, in the list of those chosen */
} batch;

/* A worker's memory; rows: of the largest batch. */
typedef struct bench {
  float *rows;     /* [rows][D] */
  int32_t *labels; /* [rows] */
  double *norm2;   /* [rows] */
  int32_t *fixed;  /* [D] */
  double *x;       /* [rows][D] as the statistics saw them */
  double *mapped;  /* [rows][D] */
  double *map_scratch;
  double *u;                    /* [2 rows][D] */
  double *columns;              /* [D][2 rows] */
  double *product[3];           /* [2 rows][n] */
  double *scores;               /* [rows of a block][n] */
  double *text;                 /* [rows][n] */
  double *unit;                 /* [D][rows] rows of unit length, in columns; with text */
  double *both, *powers, *seen; /* [n], [n], [n_classes] */
  block block;
} bench;

typedef struct trial {
  const kf_left_out *l;
  const kf_left_out_trial *asked;
  const kf_left_out_point *points;
  size_t n_points;
  view view;
  uint64_t *blocks; /* [n_blocks] chosen */
  uint64_t n_blocks;
  batch *batches;
  uint64_t n_batches;
  uint64_t most_rows; /* of a batch */
  kf_data *data;      /* the rows of the plan, in its order */
  bench *benches;     /* [threads] */
  tally *tallies;     /* [threads][n_points] */
  uint64_t *judged;   /* [threads] */
  kf_arena arena;
} trial;

static void bench_make(const trial *t, bench *b, kf_arena *arena) {
  const kf_left_out *l = t->l;
  uint64_t dim = l->dim, rows = t->most_rows, n = l->n;
  KF_TAKE(arena, b->rows, rows * dim);
  KF_TAKE(arena, b->labels, rows);
  KF_TAKE(arena, b->norm2, rows);
  KF_TAKE(arena, b->fixed, dim);
  KF_TAKE(arena, b->x, rows * dim);
  KF_TAKE(arena, b->mapped, rows * dim);
  KF_TAKE(arena, b->map_scratch, kf_map_scratch(&t->view.model->map));
  KF_TAKE(arena, b->u, 2 * rows * dim);
  KF_TAKE(arena, b->columns, 2 * rows * dim);
  for (uint32_t m = 0; m < t->view.metrics; m++) KF_TAKE(arena, b->product[m], 2 * rows * n);
  KF_TAKE(arena, b->scores, l->largest * n);
  if (l->text != NULL) {
    KF_TAKE(arena, b->text, rows * n);
    KF_TAKE(arena, b->unit, rows * dim);
  }
  KF_TAKE(arena, b->both, n);
  KF_TAKE(arena, b->powers, n);
  if (t->asked->see != NULL) KF_TAKE(arena, b->seen, l->stats->n_classes);
  block_make(&b->block, l->largest, dim, arena);
}

/* Rows of a batch as the statistics saw them: x, and mapped. */
static kf_status read_rows(const trial *t, bench *b, uint64_t first, uint64_t n, kf_err *err) {
  const kf_left_out *l = t->l;
  const kf_stats *s = l->stats;
  const kf_kernels *kernels = l->ctx->kernels;
  uint32_t dim = l->dim;
  double unit = ldexp(1.0, -s->exponent);
  KF_TRY(kf_data_fetch(t->data, kernels, first, n, b->rows, b->labels, b->norm2, err));
  for (uint64_t i = 0; i < n; i++) {
    const float *row = b->rows + i * dim;
    if (b->labels[i] != l->rows.label[first + i])
      return kf_fail_row(err, t->data, first + i, KF_HINT_NONE, "has changed while it was read");
    if (!s->normalized) KF_TRY(kf_check_magnitude(row, dim, s->exponent, t->data, first + i, err));
    kernels->quantize(row, dim, kf_fixed_scale(s->normalized, s->exponent, b->norm2[i]), b->fixed);
    for (uint32_t d = 0; d < dim; d++) b->x[i * dim + d] = b->fixed[d] * unit;
  }
  for (uint64_t i = 0; i < n; i += KF_MAP_ROWS)
    kf_map_f64(&t->view.model->map, kernels, b->x + i * dim,
               n - i < KF_MAP_ROWS ? n - i : KF_MAP_ROWS, b->map_scratch, b->mapped + i * dim);
  return KF_OK;
}

/* U of a block whose first row is the i-th of the batch, and its columns. */
static void set_u(const trial *t, bench *b, uint64_t first, uint64_t i, uint32_t r, size_t stride) {
  const kf_left_out *l = t->l;
  uint64_t dim = l->dim;
  for (uint32_t k = 0; k < r; k++) {
    const double *z = b->mapped + (i + k) * dim;
    const double *mean = t->view.means + (uint64_t)l->place[l->rows.label[first + i + k]] * dim;
    double *v_row = b->u + (2 * i + k) * dim, *z_row = b->u + (2 * i + r + k) * dim;
    for (uint64_t d = 0; d < dim; d++) {
      v_row[d] = z[d] - mean[d];
      z_row[d] = z[d];
      b->columns[d * stride + 2 * i + k] = v_row[d];
      b->columns[d * stride + 2 * i + r + k] = z[d];
    }
  }
}

static void multiply(const trial *t, bench *b, uint64_t n) {
  const kf_left_out *l = t->l;
  const kf_kernels *kernels = l->ctx->kernels;
  size_t stride = 2 * n, dim = l->dim;
  for (uint32_t m = 0; m < t->view.metrics; m++) {
    memset(b->product[m], 0, stride * l->n * sizeof *b->product[m]);
    kernels->gemm_tn(b->columns, stride, t->view.columns[m], l->n, b->product[m], l->n, stride,
                     l->n, t->view.rank);
  }
  if (l->text == NULL) return;
  for (uint64_t i = 0; i < n; i++) {
    const double *x = b->x + i * dim;
    double length = sqrt(kernels->dot(dim, x, x));
    for (size_t d = 0; d < dim; d++) b->unit[d * n + i] = x[d] / length;
  }
  memset(b->text, 0, n * l->n * sizeof *b->text);
  kernels->gemm_tn(b->unit, n, l->text, l->n, b->text, l->n, n, l->n, dim);
}

static void show_scores(const trial *t, bench *b, uint64_t at, const double *scores) {
  const kf_left_out *l = t->l;
  for (uint32_t k = 0; k < l->stats->n_classes; k++)
    b->seen[k] = l->place[k] >= 0 ? scores[l->place[k]] : NAN;
  t->asked->see(t->asked->argument, l->rows.row[at], l->rows.label[at], b->seen);
}

/* The rows of a block, the i-th of the batch and those after it. */
static void judge_block(const trial *t, bench *b, uint64_t first, uint64_t i, size_t worker) {
  const kf_left_out *l = t->l;
  for (uint32_t k = 0; k < b->block.r; k++) {
    uint64_t at = first + i + k;
    uint32_t own = (uint32_t)l->place[l->rows.label[at]];
    const double *scores = b->scores + (size_t)k * l->n;
    if (isnan(scores[own])) continue;
    t->judged[worker]++;
    for (size_t p = 0; p < t->n_points; p++) {
      const double *given = scores;
      if (l->text != NULL) {
        for (uint32_t j = 0; j < l->n; j++)
          b->both[j] = b->text[(i + k) * l->n + j] + t->points[p].alpha * scores[j];
        given = b->both;
      }
      judge_row(l, given, own, b->powers, &t->tallies[worker * t->n_points + p]);
      if (p == 0 && t->asked->see != NULL) show_scores(t, b, at, given);
    }
  }
}

/* The blocks of a batch follow one another in the plan unless some were left out, so rows are read
 * in runs. */
static kf_status try_run(const trial *t, bench *b, uint64_t first_block, uint64_t last_block,
                         size_t worker, kf_err *err) {
  const kf_left_out *l = t->l;
  uint64_t first = l->start[first_block], n = l->start[last_block] - first;
  size_t stride = 2 * n;
  KF_TRY(read_rows(t, b, first, n, err));
  for (uint64_t k = first_block; k < last_block; k++)
    set_u(t, b, first, l->start[k] - first, (uint32_t)(l->start[k + 1] - l->start[k]), stride);
  multiply(t, b, n);
  for (uint64_t k = first_block; k < last_block; k++) {
    uint64_t i = l->start[k] - first;
    block *own = &b->block;
    own->r = (uint32_t)(l->start[k + 1] - l->start[k]);
    own->row = l->rows.row + first + i;
    own->label = l->rows.label + first + i;
    own->u = b->u + 2 * i * l->dim;
    own->columns = b->columns + 2 * i;
    own->stride = stride;
    for (uint32_t m = 0; m < t->view.metrics; m++) own->product[m] = b->product[m] + 2 * i * l->n;
    score_block(&t->view, own, b->scores);
    judge_block(t, b, first, i, worker);
  }
  return KF_OK;
}

static kf_status try_batch(void *argument, size_t i, size_t worker, kf_err *err) {
  const trial *t = argument;
  const batch *of = &t->batches[i];
  KF_TRY(kf_task_progress(t->l->ctx, worker, t->asked->what, i, t->n_batches, err));
  for (uint64_t first = of->first, last; first < of->last; first = last) {
    last = first + 1;
    while (last < of->last && t->blocks[last] == t->blocks[last - 1] + 1) last++;
    KF_TRY(try_run(t, &t->benches[worker], t->blocks[first], t->blocks[last - 1] + 1, worker, err));
  }
  return KF_OK;
}

/* Which blocks are left out, and in what batches. */
static kf_status plan_trial(trial *t) {
  const kf_left_out *l = t->l;
  uint64_t most = t->asked->most, share = l->n_blocks, rows = 0;
  if (most > 0 && most < l->rows.n)
    share = (uint64_t)((double)l->n_blocks * ((double)most / (double)l->rows.n));
  if (share < 1) share = 1;
  KF_TAKE(&t->arena, t->blocks, l->n_blocks);
  KF_TAKE(&t->arena, t->batches, l->n_blocks);
  if (t->arena.failed) return kf_fail_memory(&l->ctx->err);
  for (uint64_t k = 0; k < l->n_blocks; k++) {
    if (!kf_takes(k, share, l->n_blocks)) continue;
    uint64_t r = l->start[k + 1] - l->start[k];
    if (t->n_blocks == 0 || rows + r > BATCH) {
      t->batches[t->n_batches++] = (batch){.first = t->n_blocks};
      rows = 0;
    }
    rows += r;
    if (rows > t->most_rows) t->most_rows = rows;
    t->blocks[t->n_blocks++] = k;
    t->batches[t->n_batches - 1].last = t->n_blocks;
  }
  return KF_OK;
}

static kf_status run_trial(trial *t, kf_left_out_point *points, uint64_t *n) {
  const kf_left_out *l = t->l;
  kf_ctx *ctx = l->ctx;
  KF_TRY(plan_trial(t));
  KF_TRY(start_view(&t->view, l, t->asked->lambda));
  KF_TRY(kf_data_new_pick(l->data, l->rows.row, l->rows.n, &t->data, &ctx->err));
  KF_TAKE_ZERO(&t->arena, t->benches, ctx->threads);
  KF_TAKE_ZERO(&t->arena, t->tallies, ctx->threads * t->n_points);
  KF_TAKE_ZERO(&t->arena, t->judged, ctx->threads);
  for (unsigned i = 0; !t->arena.failed && i < ctx->threads; i++)
    bench_make(t, &t->benches[i], &t->arena);
  if (t->arena.failed) return kf_fail_memory(&ctx->err);
  KF_TRY(kf_parallel(ctx, t->n_batches, try_batch, t));
  *n = 0;
  for (unsigned i = 0; i < ctx->threads; i++) *n += t->judged[i];
  for (size_t p = 0; p < t->n_points; p++) {
    tally all = t->tallies[p];
    for (unsigned i = 1; i < ctx->threads; i++) {
      const tally *more = &t->tallies[i * t->n_points + p];
      for (uint32_t k = 0; k < TEMPERATURES; k++) {
        all.loss[k] += more->loss[k];
        all.slope[k] += more->slope[k];
        all.square[k] += more->square[k];
      }
      all.top1 += more->top1;
      all.top5 += more->top5;
    }
    if (*n > 0) find_least(l, &all, *n, &points[p]);
  }
  return KF_OK;
}

kf_status kf_left_out_try(kf_left_out *l, const kf_left_out_trial *asked, kf_left_out_point *points,
                          size_t n_points, uint64_t *n) {
  trial t = {.l = l, .asked = asked, .points = points, .n_points = n_points};
  kf_status status = run_trial(&t, points, n);
  kf_data_free(t.data);
  clear_view(&t.view);
  kf_arena_free(&t.arena);
  return status;
}
