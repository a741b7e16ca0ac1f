/* twin_map.c - maps and probabilities of device_api.h in plain C, straight from their definitions.
 * kf_exp is written a second time, since a plug-in sees nothing of koofu.
 *
 * A put is read only when it is waited for, so that a caller who reuses its memory too early gets
 * wrong numbers. */
#include "twin/twin.h"
#include "twin/twin_exp.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double add_lanes(const double lane[8]) {
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

static double *copy_of(const double *x, size_t n) {
  double *copy = malloc(n * sizeof *copy);
  if (copy != NULL) memcpy(copy, x, n * sizeof *copy);
  return copy;
}

/* The status of a wait. */
static kf_dev_status wait_on(kf_dev *dev, char *message, size_t size) {
  if (kf_twin_alive(dev)) return KF_DEV_OK;
  snprintf(message, size, "the device was lost");
  return KF_DEV_LOST;
}

/* --- maps ------------------------------------------------------------------------------------- */

typedef struct map_put {
  const float *rows;
  const double *norm2;
  uint32_t n;
  float *out;
} map_put;

struct kf_dev_map {
  kf_dev *dev;
  uint64_t bytes;
  kf_dev_map_plan plan;
  double *transposed, *centre;
  double *z; /* [slots][dim_out] */
  map_put puts[KF_DEV_SLOTS];
};

static uint64_t map_bytes(const kf_dev_map_plan *plan) {
  uint64_t in = plan->dim_in, out = plan->dim_out;
  return (in * out + in) * sizeof(double) +
         (uint64_t)plan->slots * plan->batch * ((in + out) * sizeof(float) + sizeof(double));
}

kf_dev_status kf_twin_map_new(kf_dev *dev, const kf_dev_map_plan *plan, kf_dev_map **out) {
  uint64_t bytes = map_bytes(plan);
  kf_dev_status status = kf_twin_enter(dev);
  if (status != KF_DEV_OK) return status;
  if (plan->batch == 0 || plan->slots == 0 || plan->slots > KF_DEV_SLOTS) abort();
  if (!kf_twin_take(dev, bytes)) return KF_DEV_MEMORY;
  kf_dev_map *m = calloc(1, sizeof *m);
  if (m == NULL) abort();
  *m = (kf_dev_map){.dev = dev, .bytes = bytes, .plan = *plan};
  m->transposed = copy_of(plan->transposed, (size_t)plan->dim_in * plan->dim_out);
  m->centre = plan->centre != NULL ? copy_of(plan->centre, plan->dim_in)
                                   : calloc(plan->dim_in, sizeof *m->centre);
  m->z = malloc((size_t)plan->slots * plan->dim_out * sizeof *m->z);
  if (m->transposed == NULL || m->centre == NULL || m->z == NULL) abort();
  *out = m;
  return KF_DEV_OK;
}

void kf_twin_map_free(kf_dev *dev, kf_dev_map *m) {
  if (m == NULL) return;
  kf_twin_give(dev, m->bytes);
  free(m->transposed);
  free(m->centre);
  free(m->z);
  free(m);
}

kf_dev_status kf_twin_map_put(kf_dev_map *m, uint32_t slot, const float *rows, const double *norm2,
                              uint32_t n, float *out) {
  kf_dev_status status = kf_twin_enter(m->dev);
  if (status != KF_DEV_OK) return status;
  if (slot >= m->plan.slots || n == 0 || n > m->plan.batch || m->puts[slot].n > 0) abort();
  m->puts[slot] = (map_put){rows, norm2, n, out};
  return KF_DEV_OK;
}

/* Maps a row; false: it is odd. */
static bool map_row(const kf_dev_map *m, const float *x, double norm2, double *z, float *out) {
  const kf_dev_map_plan *p = &m->plan;
  double scale = !p->normalized ? 1 : norm2 > 0 ? 1 / sqrt(norm2) : 0, lane[8] = {0};
  for (uint32_t j = 0; j < p->dim_out; j++) {
    z[j] = 0;
    for (uint32_t k = 0; k < p->dim_in; k++)
      z[j] =
          fma((double)x[k] * scale - m->centre[k], m->transposed[(size_t)k * p->dim_out + j], z[j]);
    lane[j % 8] = fma(z[j], z[j], lane[j % 8]);
  }
  double s = add_lanes(lane), factor = p->unit ? 1 / sqrt(s) : 1;
  bool finite = true;
  for (uint32_t j = 0; j < p->dim_out; j++) {
    out[j] = norm2 > 0 ? (float)(z[j] * factor) : 0;
    finite = finite && isfinite(out[j]);
  }
  return norm2 == 0 || (p->unit ? s > 1e-280 && s < 1e280 : finite);
}

kf_dev_status kf_twin_map_wait(kf_dev_map *m, uint32_t slot, uint32_t *odd, char *message,
                               size_t size) {
  map_put p = m->puts[slot];
  if (p.n == 0) abort();
  m->puts[slot].n = 0;
  kf_dev_status status = wait_on(m->dev, message, size);
  if (status != KF_DEV_OK) return status;
  *odd = 0;
  for (uint32_t i = 0; i < p.n; i++)
    if (!map_row(m, p.rows + (size_t)i * m->plan.dim_in, p.norm2[i],
                 m->z + (size_t)slot * m->plan.dim_out, p.out + (size_t)i * m->plan.dim_out) &&
        *odd == 0)
      *odd = i + 1;
  kf_twin_count(&kf_twin.mapped, p.n);
  return KF_DEV_OK;
}

/* --- probabilities ---------------------------------------------------------------------------- */

typedef struct odds_put {
  const float *queries;
  uint32_t n;
  kf_dev_sums *out;
} odds_put;

struct kf_dev_odds {
  kf_dev *dev;
  uint64_t bytes;
  kf_dev_odds_plan plan;
  float *rows;
  double *scores; /* [slots][n_rows] */
  odds_put puts[KF_DEV_SLOTS];
};

static uint64_t odds_bytes(const kf_dev_odds_plan *plan) {
  uint64_t query = plan->dim * sizeof(float) + sizeof(kf_dev_sums);
  return (uint64_t)plan->n_rows * plan->dim * sizeof(float) +
         (uint64_t)plan->slots * (plan->batch * query + plan->n_rows * sizeof(double));
}

kf_dev_status kf_twin_odds_new(kf_dev *dev, const kf_dev_odds_plan *plan, kf_dev_odds **out) {
  uint64_t bytes = odds_bytes(plan), values = (uint64_t)plan->n_rows * plan->dim;
  kf_dev_status status = kf_twin_enter(dev);
  if (status != KF_DEV_OK) return status;
  if (plan->batch == 0 || plan->slots == 0 || plan->slots > KF_DEV_SLOTS) abort();
  if (!kf_twin_take(dev, bytes)) return KF_DEV_MEMORY;
  kf_dev_odds *o = calloc(1, sizeof *o);
  if (o == NULL) abort();
  *o = (kf_dev_odds){.dev = dev, .bytes = bytes, .plan = *plan};
  o->rows = malloc(values * sizeof *o->rows);
  o->scores = malloc((size_t)plan->slots * plan->n_rows * sizeof *o->scores);
  if (o->rows == NULL || o->scores == NULL) abort();
  memcpy(o->rows, plan->rows, values * sizeof *o->rows);
  *out = o;
  return KF_DEV_OK;
}

void kf_twin_odds_free(kf_dev *dev, kf_dev_odds *o) {
  if (o == NULL) return;
  kf_twin_give(dev, o->bytes);
  free(o->rows);
  free(o->scores);
  free(o);
}

kf_dev_status kf_twin_odds_put(kf_dev_odds *o, uint32_t slot, const float *queries, uint32_t n,
                               kf_dev_sums *out) {
  kf_dev_status status = kf_twin_enter(o->dev);
  if (status != KF_DEV_OK) return status;
  if (slot >= o->plan.slots || n == 0 || n > o->plan.batch || o->puts[slot].n > 0) abort();
  o->puts[slot] = (odds_put){queries, n, out};
  return KF_DEV_OK;
}

static double score_of(const kf_dev_odds *o, const float *query, const float *row) {
  double lane[8] = {0};
  float sum = 0;
  for (uint32_t k = 0; k < o->plan.dim; k++) {
    double x = (double)query[k], y = (double)row[k];
    if (o->plan.narrow)
      sum = fmaf(query[k], row[k], sum);
    else
      lane[k % 8] += o->plan.metric == KF_DEV_EUCLIDEAN ? (x - y) * (x - y) : x * y;
  }
  if (o->plan.narrow) return (double)sum;
  return o->plan.metric == KF_DEV_EUCLIDEAN ? -0.5 * add_lanes(lane) : add_lanes(lane);
}

static kf_dev_sums sums_of(const kf_dev_odds *o, const float *query, double *scores) {
  uint32_t n = o->plan.n_rows;
  kf_dev_sums sums = {.most = -HUGE_VAL};
  for (uint32_t i = 0; i < n; i++) {
    scores[i] = score_of(o, query, o->rows + (size_t)i * o->plan.dim);
    if (scores[i] > sums.most) sums.most = scores[i];
  }
  for (uint32_t c = 0; c < o->plan.n_scales; c++) {
    double lane[4] = {0};
    for (uint32_t i = 0; i < n; i++)
      lane[i % 4] += kf_twin_exp(o->plan.scales[c] * (scores[i] - sums.most));
    sums.sum[c] = (lane[0] + lane[1]) + (lane[2] + lane[3]);
  }
  return sums;
}

kf_dev_status kf_twin_odds_wait(kf_dev_odds *o, uint32_t slot, char *message, size_t size) {
  odds_put p = o->puts[slot];
  if (p.n == 0) abort();
  o->puts[slot].n = 0;
  kf_dev_status status = wait_on(o->dev, message, size);
  if (status != KF_DEV_OK) return status;
  for (uint32_t i = 0; i < p.n; i++)
    p.out[i] =
        sums_of(o, p.queries + (size_t)i * o->plan.dim, o->scores + (size_t)slot * o->plan.n_rows);
  kf_twin_count(&kf_twin.odds, p.n);
  return KF_DEV_OK;
}
