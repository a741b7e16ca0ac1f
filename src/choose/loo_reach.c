/* loo_reach.c - which classes may come before a row's own, by products in f32 on devices: in the place of
 * an index for each lambda.
 *
 * Prototypes at all lambdas are the class means m_j, whose columns are scaled by root (loo_algebra.c). The
 * scales go to the queries instead, and one matrix of class means serves all lambdas:
 *
 *     q.p_j = sum_d (q_d root_d) m_jd.
 *
 * A cosine is that over |p_j|, a squared distance within R^2 is q.p_j - p_j.p_j / 2 >= (q.q - R^2) / 2, and
 * text adds a product of its own. All are compared as x scale_j - offset_j >= low. Sums in f32 of D
 * products are off by less than (D + 16) 2^-24 |q| |p_j|, with the rounding of both factors, scale and
 * offset (D < 2^20); numbers below 2^-126 add an absolute error. `low` is lowered by twice as much, so no
 * class is missed, and which come before the own is decided by exact scores, as it is with an index. */
#include "choose/loo_algebra.h"

#include <math.h>
#include <string.h>

/* Columns, for each thread of the CPU. Products bring a number for each row and class from the device,
 * whatever the columns; an index costs the CPU a product of bytes for each column (measured with
 * bench/cuda/worth.c beside AMX). */
#define WORTH_PRODUCTS 48u
#define LARGEST        1e15 /* numbers for which squares and their sums stay far below the largest f32 */

/* Class means and text on their way to columns. */
typedef struct turning {
  const kf_loo *loo;
  float *means, *text; /* [D][n] */
  double *most;        /* [tasks] of the numbers of the means */
} turning;

static kf_status turn_some(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  (void)err;
  const turning *t = argument;
  const kf_loo *loo = t->loo;
  uint64_t n = loo->n, dim = loo->dim, first = i * (uint64_t)KF_LOO_BATCH;
  uint64_t end = first + KF_LOO_BATCH < n ? first + KF_LOO_BATCH : n;
  double most = 0;
  for (uint64_t d = 0; d < dim; d++)
    for (uint64_t j = first; j < end; j++) {
      double x = loo->means[j * dim + d];
      most = fmax(most, fabs(x));
      t->means[d * n + j] = fabs(x) < LARGEST ? (float)x : 0;
      if (t->text != NULL) t->text[d * n + j] = (float)loo->text[j * dim + d];
    }
  t->most[i] = most;
  return KF_OK;
}

static kf_status turn_all(kf_loo_reach *r, turning *t, kf_arena *arena) {
  const kf_loo *loo = t->loo;
  uint64_t n = loo->n, dim = loo->dim, tasks = (n + KF_LOO_BATCH - 1) / KF_LOO_BATCH;
  KF_TAKE(arena, t->means, dim * n);
  KF_TAKE(arena, t->most, tasks);
  if (loo->text != NULL) KF_TAKE(arena, t->text, dim * n);
  if (arena->failed) return kf_fail_memory(&loo->ctx->err);
  KF_TRY(kf_parallel(loo->ctx, tasks, turn_some, t));
  r->most = 0;
  for (uint64_t i = 0; i < tasks; i++) r->most = fmax(r->most, t->most[i]);
  return KF_OK;
}

kf_status kf_loo_reach_place(kf_loo_reach *r, const kf_loo *loo, kf_products *on, kf_arena *arena) {
  turning t = {.loo = loo};
  KF_TRY(turn_all(r, &t, arena));
  r->means = (kf_matrix){.depth = loo->dim, .n = loo->n, .b_f32 = t.means};
  KF_TRY(kf_matrix_place(on, &r->means));
  if (t.text == NULL) return KF_OK;
  r->text = (kf_matrix){.depth = loo->dim, .n = loo->n, .b_f32 = t.text};
  return kf_matrix_place(on, &r->text);
}

bool kf_loo_reach_pays(const kf_loo *loo, const kf_products *on) {
  if (on->use.slots == NULL) return false;
  return kf_devices_asked(loo->ctx) || kf_loo_width(loo) >= WORTH_PRODUCTS * loo->ctx->threads;
}

kf_status kf_loo_reach_view(kf_loo_view *v) {
  const kf_loo *loo = v->loo;
  KF_TAKE(&v->arena, v->scale, loo->n);
  KF_TAKE(&v->arena, v->offset, loo->n);
  if (v->arena.failed) return kf_fail_memory(&loo->ctx->err);
  v->steepest = 0;
  for (uint32_t j = 0; j < loo->n; j++) {
    double length2 = v->length2[j] * v->shrink * v->shrink;
    double scale = loo->euclidean ? 1 : v->length2[j] > 0 ? 1 / sqrt(v->length2[j]) : 0;
    v->steepest = fmax(v->steepest, scale);
    v->scale[j] = scale < LARGEST ? (float)scale : 0;
    v->offset[j] = loo->euclidean ? (float)(0.5 * length2) : 0;
  }
  return KF_OK;
}

void kf_loo_reach_room(kf_loo_reach_scratch *s, const kf_loo *loo, kf_arena *arena) {
  KF_TAKE(arena, s->columns, (uint64_t)KF_LOO_BATCH * loo->dim);
  KF_TAKE(arena, s->products, (uint64_t)KF_LOO_BATCH * loo->n);
  KF_TAKE(arena, s->list, loo->n);
  if (loo->text != NULL) KF_TAKE(arena, s->offsets, (uint64_t)KF_LOO_BATCH * loo->n);
}

/* What x scale - offset must reach; -infinity: nothing is ruled out. */
static float low_of(const kf_loo_reach *r, const kf_loo_view *v, const float *query, double least) {
  const kf_loo *loo = v->loo;
  uint32_t dim = loo->dim, text = loo->text != NULL ? 1 : 0;
  double length2 = loo->ctx->kernels->norm2(query + text * dim, dim), length = sqrt(length2);
  double largest = length * (loo->euclidean ? v->shrink : 1); /* number in a column */
  if (!(length < LARGEST && largest < LARGEST && r->most < LARGEST && v->steepest < LARGEST &&
        fabs(least) < LARGEST))
    return -INFINITY;
  /* Cosines are divided by the length of prototypes, distances have prototypes of length 1 at most. */
  double share = (dim + 16) * 0x1p-23 * (length + text + fabs(least) + 1);
  double tiny = dim * 0x1p-147 * (1 + r->most + largest) * (1 + v->steepest);
  double low = loo->euclidean ? 0.5 * (length2 - least) : least;
  share += loo->euclidean ? 0x1p-40 * length2 : 0;
  return nextafterf((float)(low - share - tiny), -INFINITY);
}

/* Queries in columns, as they are multiplied with class means. */
static void fill_columns(const kf_loo_view *v, const float *queries, uint64_t n, float *columns) {
  uint64_t dim = v->loo->dim, width = kf_loo_width(v->loo);
  double shrink = v->loo->euclidean ? v->shrink : 1;
  for (uint64_t i = 0; i < n; i++) {
    const float *query = queries + i * width + (width - dim);
    for (uint64_t d = 0; d < dim; d++)
      columns[d * n + i] = (float)((double)query[d] * (v->root[d] * shrink));
  }
}

static void fill_text(const kf_loo_view *v, const float *queries, uint64_t n, float *columns) {
  uint64_t dim = v->loo->dim, width = kf_loo_width(v->loo);
  for (uint64_t i = 0; i < n; i++)
    for (uint64_t d = 0; d < dim; d++) columns[d * n + i] = -queries[i * width + d];
}

kf_status kf_loo_reaching(const kf_loo_reach *r, const kf_products *on, const kf_loo_view *v,
                          const float *queries, uint64_t n, const double *least,
                          kf_loo_reach_scratch *s, kf_reach_fn use, void *argument, kf_err *err) {
  const kf_loo *loo = v->loo;
  uint64_t classes = loo->n, width = kf_loo_width(loo);
  fill_columns(v, queries, n, s->columns);
  KF_TRY(kf_matrix_times(on, &r->means, s->columns, n, n, s->products, err));
  if (loo->text != NULL) {
    fill_text(v, queries, n, s->columns);
    KF_TRY(kf_matrix_times(on, &r->text, s->columns, n, n, s->offsets, err));
  }
  for (uint64_t i = 0; i < n; i++) {
    const float *x = s->products + i * classes;
    const float *offset = loo->text != NULL ? s->offsets + i * classes : v->offset;
    float low = low_of(r, v, queries + i * width, least[i]);
    size_t found = classes;
    if (low > -INFINITY)
      found =
          loo->ctx->kernels->list_reaching(x, v->scale, 0, v->scale, offset, classes, low, s->list);
    for (size_t k = 0; k < found; k++) use(argument, i, low > -INFINITY ? s->list[k] : k);
  }
  return KF_OK;
}
