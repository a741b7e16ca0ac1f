/* ranks.c - nearest prototypes for many numbers of dimensions at once.
 *
 * With the first L directions, a row z and a prototype p have the product z.p = sum over l <= L of
 * z_l p_l, and one more direction adds one term. So the products with all prototypes are running
 * sums, continued from one L to the next in f32. A value that ranks prototypes follows from each by
 * a scale and an offset of the prototype at L:
 *
 *     cosine:    z.p / |p|             (|z| is the same for all)
 *     distance:  z.p - |p|^2 / 2       (|z - p|^2 = |z|^2 - 2 (z.p - |p|^2 / 2))
 *
 * What is wanted is the rank of the right class: how many others come before it. A class whose
 * value differs from that of the right one by more than rounding can explain is simply counted;
 * those in between are compared as kf_eval does, by canonical scores of f32 rows with L columns.
 * So every rank is the one that a model with L dimensions gives. */
#include "choose/ranks.h"

#include <math.h>
#include <string.h>

#define SMALLEST 1e-290 /* has an inverse */
#define LARGEST  1e30   /* in f32: sums stay far from its range */

struct kf_ranker {
  const kf_kernels *kernels;
  const kf_model *model; /* with the most dimensions */
  bool euclidean;
  const uint32_t *dims; /* [n_dims], rising */
  size_t n_dims;
  uint32_t most;    /* the last of them */
  uint32_t n;       /* prototypes */
  int32_t *number;  /* [n] class numbers, rising */
  int32_t *place;   /* [n_classes], or -1 */
  double *mapped;   /* [n][most] mapped class means */
  float *column;    /* [n] one more of them, of priors; zeros without */
  double size;      /* by which f32 values are divided: that of the largest prototype */
  float *columns;   /* [most][n] the same divided by size */
  float *scale;     /* [n_dims][n] for cosine; [n] ones for distances */
  float *offset;    /* [n_dims][n] for distances; [n] zeros for cosine */
  double *longest;  /* [n_dims] of the prototypes, divided by size */
  double *steepest; /* [n_dims] the largest scale; infinite if f32 cannot hold one */
  kf_arena arena;
};

/* --- making it ------------------------------------------------------------------------------- */

static void list_classes(kf_ranker *r, const kf_stats *stats, const unsigned char *mask) {
  for (uint32_t k = 0; k < stats->n_classes; k++) {
    bool takes_part = stats->counts[k] > 0 && (mask == NULL || mask[k]);
    r->place[k] = takes_part ? (int32_t)r->n : -1;
    if (takes_part) r->number[r->n++] = (int32_t)k;
  }
}

static kf_status map_classes(kf_ranker *r, const kf_stats *stats, kf_err *err) {
  const kf_map *m = &r->model->map;
  uint64_t d = m->dim_in, l = m->dim_out;
  double *means = kf_alloc(KF_MAP_ROWS * (d + l) + kf_map_scratch(m), sizeof *means);
  if (means == NULL) return kf_fail_memory(err);
  double *mapped = means + KF_MAP_ROWS * d, *scratch = mapped + KF_MAP_ROWS * l;
  for (uint32_t first = 0; first < stats->n_classes; first += KF_MAP_ROWS) {
    uint32_t left = stats->n_classes - first, n = left < KF_MAP_ROWS ? left : KF_MAP_ROWS;
    kf_map_class_means(m, r->kernels, stats, first, n, scratch, means, mapped);
    kf_shrink_means(r->model, stats->counts + first, n, mapped);
    for (uint32_t t = 0; t < n; t++)
      if (r->place[first + t] >= 0)
        memcpy(r->mapped + (uint64_t)r->place[first + t] * r->most, mapped + t * l,
               r->most * sizeof *mapped);
  }
  kf_free(means);
  return KF_OK;
}

/* The scale of a prototype. If it is all but orthogonal to the first directions, it may be too
 * short there for f32; then only canonical scores can tell. */
static float take_scale(kf_ranker *r, size_t t, double length2, bool zero) {
  bool held = length2 > 0x1p-240;
  double scale = held ? 1 / sqrt(length2) : 0;
  r->steepest[t] = fmax(r->steepest[t], held || zero ? scale : INFINITY);
  return (float)scale;
}

/* Scale or offset of prototype j for every number of dimensions. */
static void measure(kf_ranker *r, uint32_t j) {
  const double *p = r->mapped + (uint64_t)j * r->most;
  double length2 = 0, inverse = 1 / r->size, column = (double)r->column[j] * inverse;
  double prior2 = column * column;
  bool zero = true;
  size_t t = 0;
  for (uint32_t l = 0; l < r->most; l++) {
    double x = p[l] * inverse;
    zero &= p[l] == 0;
    r->columns[(uint64_t)l * r->n + j] = (float)x;
    length2 += x * x;
    if (l + 1 < r->dims[t]) continue;
    if (r->euclidean)
      r->offset[t * r->n + j] = (float)((length2 + prior2) / 2);
    else
      r->scale[t * r->n + j] = take_scale(r, t, length2, zero);
    r->longest[t] = fmax(r->longest[t], sqrt(length2 + prior2));
    t++;
  }
}

static void set_priors(kf_ranker *r, const kf_stats *stats) {
  double largest = kf_largest_count(stats->counts, stats->n_classes);
  double prior = r->euclidean ? r->model->prior : 0;
  for (uint32_t j = 0; j < r->n; j++)
    r->column[j] = kf_prior_column(prior, largest, stats->counts[r->number[j]]);
}

static kf_status prepare(kf_ranker *r, const kf_stats *stats, const unsigned char *mask,
                         kf_err *err) {
  kf_arena *arena = &r->arena;
  KF_TAKE(arena, r->number, stats->n_classes);
  KF_TAKE(arena, r->place, stats->n_classes);
  if (arena->failed) return kf_fail_memory(err);
  list_classes(r, stats, mask);
  uint64_t n = r->n, scales = r->euclidean ? 1 : r->n_dims, offsets = r->euclidean ? r->n_dims : 1;
  KF_TAKE(arena, r->mapped, n * r->most);
  KF_TAKE(arena, r->column, n);
  KF_TAKE(arena, r->columns, n * r->most);
  KF_TAKE(arena, r->scale, n * scales);
  KF_TAKE_ZERO(arena, r->offset, n * offsets);
  KF_TAKE_ZERO(arena, r->longest, r->n_dims);
  KF_TAKE_ZERO(arena, r->steepest, r->n_dims);
  if (arena->failed) return kf_fail_memory(err);
  KF_TRY(map_classes(r, stats, err));
  set_priors(r, stats);
  for (uint64_t i = 0; i < n * r->most; i++) r->size = fmax(r->size, fabs(r->mapped[i]));
  for (uint64_t j = 0; j < n; j++) r->size = fmax(r->size, (double)r->column[j]);
  bool vanishes = r->size > 0 && r->size < 0x1p-149;
  r->size = r->size > SMALLEST ? r->size * sqrt(r->most) : 1;
  if (!isfinite(r->size) || (r->euclidean && (r->size > 1e37 || vanishes)))
    return kf_fail_range(&r->model->map, err);
  for (uint64_t j = 0; r->euclidean && j < n; j++) r->scale[j] = 1;
  for (uint32_t j = 0; j < r->n; j++) measure(r, j);
  return KF_OK;
}

kf_status kf_ranker_new(kf_ctx *ctx, const kf_model *model, const kf_stats *stats, bool euclidean,
                        const unsigned char *mask, const uint32_t *dims, size_t n_dims,
                        kf_ranker **out) {
  kf_ranker *r = kf_alloc_zero(1, sizeof *r);
  if (r == NULL) return kf_fail_memory(&ctx->err);
  r->kernels = ctx->kernels;
  r->model = model;
  r->euclidean = euclidean;
  r->dims = dims;
  r->n_dims = n_dims;
  r->most = dims[n_dims - 1];
  KF_HAND_OUT(prepare(r, stats, mask, &ctx->err), out, r, kf_ranker_free);
}

void kf_ranker_free(kf_ranker *r) {
  if (r == NULL) return;
  kf_arena_free(&r->arena);
  kf_free(r);
}

/* --- a close call: canonical scores ---------------------------------------------------------- */

typedef struct close_call {
  const kf_ranker *r;
  const double *z; /* [most] the row */
  uint32_t dim;
  float *row, *prototype; /* [most + 1] scratch */
} close_call;

/* Smaller is nearer: minus the cosine, or the squared distance. */
static double canonical_value(const close_call *c, uint32_t j) {
  const kf_kernels *kernels = c->r->kernels;
  const double *p = c->r->mapped + (uint64_t)j * c->r->most;
  const float *rows[1] = {c->prototype};
  double value, length = kf_unit_row(kernels, p, c->dim, c->prototype);
  if (!c->r->euclidean) {
    kernels->dots(c->row, rows, 1, c->dim, &value);
    return -value;
  }
  for (uint32_t i = 0; i < c->dim; i++) c->prototype[i] = (float)((double)c->prototype[i] * length);
  bool longer = c->r->model->prior > 0; /* by a column, as in prototypes.c */
  c->prototype[c->dim] = c->r->column[j];
  c->row[c->dim] = 0;
  kernels->distances(c->row, rows, 1, c->dim + (longer ? 1 : 0), &value);
  return value;
}

/* How many wrong classes come before the first right one, among those with values from low to
 * high. */
static uint32_t decide(const close_call *c, const kf_right *right, const float *x,
                       const float *scale, const float *offset, float low, float high) {
  const kf_ranker *r = c->r;
  if (r->euclidean)
    for (uint32_t i = 0; i < c->dim; i++) c->row[i] = (float)c->z[i];
  else
    kf_unit_row(r->kernels, c->z, c->dim, c->row);
  double best = INFINITY;
  uint32_t first = r->n, before = 0;
  for (int pass = 0; pass < 2; pass++) /* the first right one, then the wrong ones before it */
    for (uint32_t j = 0; j < r->n; j++) {
      float value = x[j] * scale[j] - offset[j];
      if (!(value >= low && value <= high) || kf_is_right(right, r->number[j]) == (pass == 1))
        continue;
      double canonical = canonical_value(c, j);
      if (pass == 0 && (canonical < best || first == r->n)) {
        best = canonical;
        first = j;
      } else if (pass == 1) {
        before += canonical < best || (canonical == best && j < first);
      }
    }
  return before;
}

/* --- ranks ----------------------------------------------------------------------------------- */

typedef struct work {
  double *mapped;  /* [KF_MAP_ROWS][dim_out] */
  double *scratch; /* for the map */
  float *z;        /* [most][KF_MAP_ROWS] mapped rows divided by their size */
  float *sums;     /* [KF_MAP_ROWS][n] */
  float *row, *prototype;
  double length2[KF_MAP_ROWS]; /* of the first L columns of z */
} work;

static void take_work(work *w, const kf_ranker *r, kf_arena *arena) {
  KF_TAKE(arena, w->mapped, KF_MAP_ROWS * (uint64_t)r->model->map.dim_out);
  KF_TAKE(arena, w->scratch, 2 * kf_map_scratch(&r->model->map));
  KF_TAKE(arena, w->z, KF_MAP_ROWS * (uint64_t)r->most);
  KF_TAKE(arena, w->sums, KF_MAP_ROWS * (uint64_t)r->n);
  KF_TAKE(arena, w->row, r->most + 1);
  KF_TAKE(arena, w->prototype, r->most + 1);
}

/* Mapped rows in f32, divided by their size: |z|, or for distances that of the prototypes. Rows
 * too far from all prototypes for f32 get an infinite length, which leaves them to canonical
 * scores. */
static kf_status take_rows(const kf_ranker *r, work *w, uint64_t n, kf_err *err) {
  uint32_t d = r->model->map.dim_out;
  for (uint64_t i = 0; i < n; i++) {
    const double *z = w->mapped + i * d;
    double largest = 0;
    for (uint32_t l = 0; l < r->most; l++) largest = fmax(largest, fabs(z[l]));
    if (!isfinite(largest) || (r->euclidean && largest > 3e38))
      return kf_fail_range(&r->model->map, err);
    double size = r->euclidean ? r->size : largest > SMALLEST ? largest * sqrt(r->most) : 1;
    bool held = largest / size < LARGEST;
    double inverse = held ? 1 / size : 0;
    for (uint32_t l = 0; l < r->most; l++) w->z[l * KF_MAP_ROWS + i] = (float)(z[l] * inverse);
    w->length2[i] = held ? 0 : INFINITY;
  }
  memset(w->sums, 0, n * r->n * sizeof *w->sums);
  return KF_OK;
}

/* How far a value may be from that of the canonical scores: sums of L products in f32; rounding
 * of rows and prototypes to f32 on both sides, of scale, offset and value; and what is lost
 * below the range of f32, 2^-150 each time: numbers and products here, which a scale may make
 * large, and the numbers of canonical distances, which are not divided by size. */
static double doubt(const kf_ranker *r, size_t t, double length) {
  double dim = (double)r->dims[t], gamma = (dim + 16) * 0x1p-24 * 1.01, lost = dim * 0x1p-147;
  if (!r->euclidean) return gamma * length + lost * (1 + r->steepest[t]);
  double both = length + r->longest[t];
  lost *= 1 + 1 / r->size;
  return gamma * both * both + lost * (1 + both) + lost * lost;
}

static uint32_t rank_row(const kf_ranker *r, work *w, uint64_t i, size_t t, const kf_right *right) {
  const float *x = w->sums + i * r->n;
  const float *scale = r->scale + (r->euclidean ? 0 : t * r->n);
  const float *offset = r->offset + (r->euclidean ? t * r->n : 0);
  float best = -INFINITY;
  for (uint32_t s = 0; s < right->n; s++) {
    int32_t j = r->place[right->classes[s]];
    if (j >= 0) best = fmaxf(best, x[j] * scale[j] - offset[j]);
  }
  if (best == -INFINITY) return KF_RANKS; /* no right class takes part */
  double around = 2 * doubt(r, t, sqrt(w->length2[i]));
  float low = nextafterf((float)((double)best - around), -INFINITY);
  float high = nextafterf((float)((double)best + around), INFINITY);
  uint32_t above, within;
  r->kernels->count_band(x, scale, offset, r->n, low, high, &above, &within);
  if (within <= 1 || above >= KF_RANKS) return above;
  close_call c = {.r = r,
                  .z = w->mapped + i * r->model->map.dim_out,
                  .dim = r->dims[t],
                  .row = w->row,
                  .prototype = w->prototype};
  return above + decide(&c, right, x, scale, offset, low, high);
}

static void rank_rows(const kf_ranker *r, work *w, uint64_t n, const kf_right *right,
                      unsigned char *ranks) {
  uint32_t from = 0;
  for (size_t t = 0; t < r->n_dims; t++) {
    uint32_t to = r->dims[t];
    r->kernels->gemm_tn_f32(w->z + (uint64_t)from * KF_MAP_ROWS, KF_MAP_ROWS,
                            r->columns + (uint64_t)from * r->n, r->n, w->sums, r->n, n, r->n,
                            to - from);
    for (uint64_t i = 0; i < n; i++) {
      for (uint32_t l = from; l < to; l++) {
        double z = (double)w->z[l * KF_MAP_ROWS + i];
        w->length2[i] += z * z;
      }
      uint32_t rank = rank_row(r, w, i, t, &right[i]);
      ranks[i * r->n_dims + t] = (unsigned char)(rank < KF_RANKS ? rank : KF_RANKS);
    }
    from = to;
  }
}

kf_status kf_ranker_rank(const kf_ranker *r, const float *rows, const double *norm2, uint64_t n,
                         const kf_right *right, unsigned char *ranks, kf_err *err) {
  kf_arena arena = {0};
  work w;
  take_work(&w, r, &arena);
  kf_status status = arena.failed ? kf_fail_memory(err) : KF_OK;
  uint64_t dim = r->model->map.dim_in;
  for (uint64_t first = 0; status == KF_OK && first < n; first += KF_MAP_ROWS) {
    uint64_t count = n - first < KF_MAP_ROWS ? n - first : KF_MAP_ROWS;
    kf_map_rows_f64(&r->model->map, r->kernels, rows + first * dim, norm2 + first, count, w.scratch,
                    w.mapped);
    status = take_rows(r, &w, count, err);
    if (status == KF_OK) rank_rows(r, &w, count, right + first, ranks + first * r->n_dims);
  }
  kf_arena_free(&arena);
  return status;
}

/* --- all rows of a data set ------------------------------------------------------------------ */

typedef struct rank_job {
  const kf_ranker *ranker;
  kf_ranked_fn use;
  void *argument;
} rank_job;

static kf_status rank_judged(void *argument, const kf_judged *rows, kf_err *err) {
  const rank_job *j = argument;
  unsigned char *ranks = rows->scratch; /* [KF_MAP_ROWS][n_dims] */
  KF_TRY(kf_ranker_rank(j->ranker, rows->rows, rows->norm2, rows->n, rows->right, ranks, err));
  for (uint64_t i = 0; i < rows->n; i++)
    j->use(j->argument, rows->worker, rows->number[i], ranks + i * j->ranker->n_dims);
  return KF_OK;
}

kf_status kf_rank_data(kf_ctx *ctx, const kf_ranker *ranker, const kf_data *data,
                       const kf_judge *judge, kf_ranked_fn use, void *argument,
                       kf_eval_result *counts) {
  rank_job j = {.ranker = ranker, .use = use, .argument = argument};
  kf_judged_pass pass = {.what = "rank",
                         .rows = KF_MAP_ROWS,
                         .judge = judge,
                         .work = rank_judged,
                         .argument = &j,
                         .scratch_size = KF_MAP_ROWS * ranker->n_dims};
  return kf_each_judged(ctx, data, &pass, counts);
}
