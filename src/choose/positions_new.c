/* positions_new.c - makes a position finder: maps class means, divides the settings into stretches
 * and measures prototypes in them (positions.c says what for). */
#include "choose/positions_internal.h"

#include <math.h>
#include <string.h>

#define SMALLEST     1e-290 /* has an inverse */
#define MOST_GROWTH  4.0    /* of a length within a stretch */
#define SLACK        0.05   /* about what the directions of a stretch may add to a cosine */
#define PROFILED     512u   /* prototypes that show how lengths grow */
#define ROUNDED_UP   (1 + 0x1p-20)
#define LENGTH_ERROR 0x1p-40 /* relative, of a squared length: sums and differences in f64 */

typedef struct making {
  kf_position_finder *f;
  kf_ctx *ctx;
  const kf_stats *stats;
  /* The largest that each worker has found. */
  double *longest, *steepest; /* [threads][n_dims] */
  double *growth;             /* [threads][n_dims] by stretch */
} making;

/* --- mapped class means ----------------------------------------------------------------------- */

static void list_classes(kf_position_finder *f, const kf_stats *stats, const unsigned char *mask) {
  for (uint32_t k = 0; k < stats->n_classes; k++) {
    bool takes_part = stats->counts[k] > 0 && (mask == NULL || mask[k]);
    f->place[k] = takes_part ? (int32_t)f->n : -1;
    if (takes_part) f->number[f->n++] = (int32_t)k;
  }
}

static kf_status map_classes(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  const making *m = argument;
  const kf_position_finder *f = m->f;
  const kf_map *map = &f->model->map;
  const kf_stats *stats = m->stats;
  uint64_t d = map->dim_in, l = map->dim_out;
  uint32_t first = (uint32_t)i * KF_MAP_ROWS, left = stats->n_classes - first;
  uint32_t n = left < KF_MAP_ROWS ? left : KF_MAP_ROWS;
  double *means = kf_alloc(KF_MAP_ROWS * (d + l) + kf_map_workspace(map), sizeof *means);
  if (means == NULL) return kf_fail_memory(err);
  double *mapped = means + KF_MAP_ROWS * d, *workspace = mapped + KF_MAP_ROWS * l;
  kf_map_class_means(map, m->ctx->kernels, stats, first, n, workspace, means, mapped);
  kf_shrink_means(f->model, stats->counts + first, n, mapped);
  for (uint32_t t = 0; t < n; t++)
    if (f->place[first + t] >= 0)
      memcpy(f->mapped + (uint64_t)f->place[first + t] * f->most, mapped + t * l,
             f->most * sizeof *mapped);
  kf_free(means);
  return KF_OK;
}

static kf_status map_means(making *m) {
  size_t tasks = (m->stats->n_classes + KF_MAP_ROWS - 1) / KF_MAP_ROWS;
  return kf_parallel(m->ctx, tasks, map_classes, m);
}

static void set_priors(kf_position_finder *f, const kf_stats *stats) {
  double largest = kf_largest_count(stats->counts, stats->n_classes);
  double prior = f->euclidean ? f->model->prior : 0;
  for (uint32_t j = 0; j < f->n; j++)
    f->column[j] = kf_prior_column(prior, largest, stats->counts[f->number[j]]);
}

static kf_status find_size(kf_position_finder *f, kf_err *err) {
  uint64_t n = f->n;
  for (uint64_t i = 0; i < n * f->most; i++) f->size = fmax(f->size, fabs(f->mapped[i]));
  for (uint64_t j = 0; j < n; j++) f->size = fmax(f->size, (double)f->column[j]);
  bool vanishes = f->size > 0 && f->size < 0x1p-149;
  f->size = f->size > SMALLEST ? f->size * sqrt(f->most) : 1;
  if (!isfinite(f->size) || (f->euclidean && (f->size > 1e37 || vanishes)))
    return kf_fail_range(&f->model->map, err);
  return KF_OK;
}

/* --- stretches -------------------------------------------------------------------------------- */

/* sums[l]: the squares of the first l columns of prototypes of unit length, summed over a
 * sample. */
static void profile(const kf_position_finder *f, double *sums) {
  memset(sums, 0, (f->most + 1) * sizeof *sums);
  uint64_t step = f->n / PROFILED + 1;
  for (uint64_t j = 0; j < f->n; j += step) {
    const double *p = f->mapped + j * f->most;
    double length2 = 0;
    for (uint32_t l = 0; l < f->most; l++) length2 += p[l] / f->size * (p[l] / f->size);
    for (uint32_t l = 0; length2 > 0 && l < f->most; l++)
      sums[l + 1] += p[l] / f->size * (p[l] / f->size) / length2;
  }
  for (uint32_t l = 0; l < f->most; l++) sums[l + 1] += sums[l];
}

/* What columns [from, to) may add to a cosine of the first `all` columns, for rows whose columns
 * are equally large. */
static double slack(const double *sums, uint32_t from, uint32_t to, uint32_t all) {
  double share = (sums[to] - sums[from]) * (double)(to - from);
  return sqrt(share / (sums[all] * (double)all));
}

/* The stretch that begins at a setting, of 1, 2, 4, … settings. */
static kf_stretch stretch_from(const kf_position_finder *f, const double *sums, size_t first) {
  kf_stretch s = {.first = first, .last = first + 1, .at = first};
  for (size_t width = 2; width <= KF_STRETCH && first + width <= f->n_dims; width *= 2) {
    size_t at = first + width / 2, last = first + width;
    uint32_t from = f->dims[first], middle = f->dims[at], to = f->dims[last - 1];
    if (!(slack(sums, from, middle, from) <= SLACK && slack(sums, middle, to, from) <= SLACK))
      break;
    s = (kf_stretch){.first = first, .last = last, .at = at};
  }
  return s;
}

static kf_status plan(kf_position_finder *f, kf_err *err) {
  double *sums = kf_alloc((uint64_t)f->most + 1, sizeof *sums);
  if (sums == NULL) return kf_fail_memory(err);
  profile(f, sums);
  for (size_t first = 0; first < f->n_dims; first = f->stretches[f->n_stretches - 1].last)
    f->stretches[f->n_stretches++] = stretch_from(f, sums, first);
  kf_free(sums);
  return KF_OK;
}

/* Splits stretches in which a prototype grows too much into single settings; false if there are
 * none. */
static bool divide(kf_position_finder *f, kf_stretch *workspace) {
  size_t n = 0;
  for (size_t s = 0; s < f->n_stretches; s++) {
    const kf_stretch *old = &f->stretches[s];
    if (old->growth <= MOST_GROWTH || old->last == old->first + 1) {
      workspace[n++] = (kf_stretch){.first = old->first, .last = old->last, .at = old->at};
      continue;
    }
    for (size_t t = old->first; t < old->last; t++)
      workspace[n++] = (kf_stretch){.first = t, .last = t + 1, .at = t};
  }
  bool divided = n > f->n_stretches;
  if (divided) memcpy(f->stretches, workspace, n * sizeof *workspace);
  f->n_stretches = n;
  return divided;
}

/* --- lengths of prototypes -------------------------------------------------------------------- */

/* 1 / the length of a prototype. If it is nearly orthogonal to the first directions, it may be too
 * short for f32; then only canonical scores can tell. */
static float inverse_length(double length2, bool zero, double *steepest) {
  bool held = length2 > 0x1p-240;
  double scale = held ? 1 / sqrt(length2) : 0;
  *steepest = fmax(*steepest, held || zero ? scale : INFINITY);
  return (float)scale;
}

static float part_length(double length2, double of_all) {
  return (float)(sqrt(fmax(length2, 0) + LENGTH_ERROR * of_all) * ROUNDED_UP);
}

/* Measures prototype j at all settings of a stretch. length2: of its first dims[first - 1] columns.
 * Returns that of its first dims[last - 1] columns. */
static double measure_stretch(const making *m, size_t number, uint32_t j, double length2,
                              bool *zero, size_t worker) {
  const kf_position_finder *f = m->f;
  const kf_stretch *s = &f->stretches[number];
  const double *p = f->mapped + (uint64_t)j * f->most, inverse = 1 / f->size;
  double prior = (double)f->column[j] * inverse, first2 = 0, at2 = 0;
  uint32_t l = s->first > 0 ? f->dims[s->first - 1] : 0;
  for (size_t t = s->first; t < s->last; t++) {
    double *longest = &m->longest[worker * f->n_dims + t];
    double *steepest = &m->steepest[worker * f->n_dims + t];
    for (; l < f->dims[t]; l++) {
      length2 += p[l] * inverse * (p[l] * inverse);
      *zero &= p[l] == 0;
    }
    float scale = inverse_length(length2, *zero, steepest);
    *longest = fmax(*longest, sqrt(length2 + prior * prior));
    if (t == s->first) first2 = length2;
    if (t == s->at) at2 = length2;
    if (t == s->first && f->euclidean) s->offset[j] = (float)((length2 + prior * prior) / 2);
    if (t == s->first && !f->euclidean) s->first_scale[j] = scale;
    if (t + 1 == s->last && !f->euclidean) s->last_scale[j] = scale;
  }
  if (s->last == s->first + 1) return length2;
  s->far[j] = part_length(fmax(at2 - first2, length2 - at2), length2);
  double *growth = &m->growth[worker * f->n_dims + number];
  if (!*zero) *growth = fmax(*growth, first2 > 0 ? sqrt(length2 / first2) : INFINITY);
  return length2;
}

static kf_status measure_prototypes(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)err;
  const making *m = argument;
  const kf_position_finder *f = m->f;
  uint32_t first = (uint32_t)i * KF_MAP_ROWS, left = f->n - first;
  uint32_t last = first + (left < KF_MAP_ROWS ? left : KF_MAP_ROWS);
  for (uint32_t l = 0; l < f->most; l++)
    for (uint32_t j = first; j < last; j++)
      f->columns[(uint64_t)l * f->n + j] = (float)(f->mapped[(uint64_t)j * f->most + l] / f->size);
  for (uint32_t j = first; j < last; j++) {
    bool zero = true;
    double length2 = 0;
    for (size_t s = 0; s < f->n_stretches; s++)
      length2 = measure_stretch(m, s, j, length2, &zero, worker);
  }
  return KF_OK;
}

static void take_stretches(kf_position_finder *f) {
  for (size_t i = 0; i < f->n_stretches; i++) {
    kf_stretch *s = &f->stretches[i];
    bool alone = s->last == s->first + 1;
    s->far = f->zeros;
    s->first_scale = s->last_scale = f->ones;
    s->offset = f->zeros;
    if (!alone) KF_TAKE(&f->arena, s->far, f->n);
    if (f->euclidean) {
      KF_TAKE(&f->arena, s->offset, f->n);
    } else {
      KF_TAKE(&f->arena, s->first_scale, f->n);
      s->last_scale = s->first_scale;
      if (!alone) KF_TAKE(&f->arena, s->last_scale, f->n);
    }
  }
}

static kf_status measure(making *m) {
  kf_position_finder *f = m->f;
  size_t n_dims = f->n_dims;
  take_stretches(f);
  if (f->arena.failed) return kf_fail_memory(&m->ctx->err);
  memset(m->longest, 0, m->ctx->threads * n_dims * sizeof *m->longest);
  memset(m->steepest, 0, m->ctx->threads * n_dims * sizeof *m->steepest);
  memset(m->growth, 0, m->ctx->threads * n_dims * sizeof *m->growth);
  KF_TRY(kf_parallel(m->ctx, (f->n + KF_MAP_ROWS - 1) / KF_MAP_ROWS, measure_prototypes, m));
  for (size_t t = 0; t < n_dims; t++) {
    f->longest[t] = f->steepest[t] = 0;
    if (t < f->n_stretches) f->stretches[t].growth = 1;
    for (size_t w = t; w < m->ctx->threads * n_dims; w += n_dims) {
      f->longest[t] = fmax(f->longest[t], m->longest[w]);
      f->steepest[t] = fmax(f->steepest[t], m->steepest[w]);
      if (t < f->n_stretches) f->stretches[t].growth = fmax(f->stretches[t].growth, m->growth[w]);
    }
  }
  return KF_OK;
}

/* --- together --------------------------------------------------------------------------------- */

static kf_status prepare(making *m, const unsigned char *mask, kf_arena *workspace) {
  kf_position_finder *f = m->f;
  kf_arena *arena = &f->arena;
  const kf_stats *stats = m->stats;
  kf_err *err = &m->ctx->err;
  kf_stretch *divided;
  KF_TAKE(arena, f->number, stats->n_classes);
  KF_TAKE(arena, f->place, stats->n_classes);
  if (arena->failed) return kf_fail_memory(err);
  list_classes(f, stats, mask);
  uint64_t n = f->n, each = (uint64_t)m->ctx->threads * f->n_dims;
  KF_TAKE(arena, f->mapped, n * f->most);
  KF_TAKE(arena, f->column, n);
  KF_TAKE(arena, f->columns, n * f->most);
  KF_TAKE(arena, f->longest, f->n_dims);
  KF_TAKE(arena, f->steepest, f->n_dims);
  KF_TAKE(arena, f->stretches, f->n_dims);
  KF_TAKE_ZERO(arena, f->zeros, n);
  KF_TAKE(arena, f->ones, n);
  KF_TAKE(workspace, m->longest, each);
  KF_TAKE(workspace, m->steepest, each);
  KF_TAKE(workspace, m->growth, each);
  KF_TAKE(workspace, divided, f->n_dims);
  if (arena->failed || workspace->failed) return kf_fail_memory(err);
  for (uint64_t j = 0; j < n; j++) f->ones[j] = 1;
  KF_TRY(map_means(m));
  set_priors(f, stats);
  KF_TRY(find_size(f, err));
  KF_TRY(plan(f, err));
  KF_TRY(measure(m));
  return divide(f, divided) ? measure(m) : KF_OK;
}

kf_status kf_position_finder_new(kf_ctx *ctx, const kf_model *model, const kf_stats *stats,
                                 bool euclidean, const unsigned char *mask, const uint32_t *dims,
                                 size_t n_dims, kf_position_finder **out) {
  kf_position_finder *f = kf_alloc_zero(1, sizeof *f);
  if (f == NULL) return kf_fail_memory(&ctx->err);
  f->kernels = ctx->kernels;
  f->model = model;
  f->euclidean = euclidean;
  f->dims = dims;
  f->n_dims = n_dims;
  f->most = dims[n_dims - 1];
  making m = {.f = f, .ctx = ctx, .stats = stats};
  kf_arena workspace = {0};
  kf_status status = prepare(&m, mask, &workspace);
  kf_arena_free(&workspace);
  KF_HAND_OUT(status, out, f, kf_position_finder_free);
}

void kf_position_finder_free(kf_position_finder *f) {
  if (f == NULL) return;
  kf_arena_free(&f->arena);
  kf_free(f);
}
