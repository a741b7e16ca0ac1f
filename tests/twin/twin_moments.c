/* twin_moments.c - the statistics of device_api.h in plain C, straight from their definition.
 *
 * A put is read only when it is waited for, so that a caller who reuses its memory too early gets
 * wrong sums. */
#include "twin/twin.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

__extension__ typedef __int128 i128;

typedef struct put {
  const void *rows;
  const int32_t *labels;
  uint32_t n;
} put;

struct kf_dev_moments {
  kf_dev *dev;
  uint64_t bytes;
  kf_dev_moments_plan plan;
  put puts[KF_DEV_PUTS];
  uint64_t n_puts, waited;
  float *row;     /* [dim] */
  int64_t *fixed; /* [dim] */
  i128 *totals;
  int64_t *sums, *counts;
};

static size_t triangle(uint32_t dim) { return (size_t)dim * (dim + 1) / 2; }

static uint64_t moments_bytes(const kf_dev_moments_plan *plan) {
  uint64_t row = plan->dim * (plan->type == KF_DEV_F32 ? 4u : 2u) + sizeof(int32_t);
  return KF_DEV_PUTS * plan->batch * row + triangle(plan->dim) * sizeof(i128) +
         (uint64_t)plan->n_classes * (plan->dim + 1) * sizeof(int64_t);
}

kf_dev_status kf_twin_moments_new(kf_dev *dev, const kf_dev_moments_plan *plan,
                                  kf_dev_moments **out) {
  uint64_t bytes = moments_bytes(plan);
  kf_dev_status status = kf_twin_enter(dev);
  if (status != KF_DEV_OK) return status;
  if (!kf_twin_take(dev, bytes)) return kf_twin_fail(dev, KF_DEV_MEMORY, "no room for moments");
  kf_dev_moments *m = calloc(1, sizeof *m);
  if (m == NULL) {
    kf_twin_give(dev, bytes);
    return kf_twin_fail(dev, KF_DEV_MEMORY, "no memory on the host");
  }
  m->dev = dev;
  m->bytes = bytes;
  m->plan = *plan;
  m->row = calloc(plan->dim, sizeof *m->row);
  m->fixed = calloc(plan->dim, sizeof *m->fixed);
  m->totals = calloc(triangle(plan->dim), sizeof *m->totals);
  m->sums = calloc((size_t)plan->n_classes * plan->dim, sizeof *m->sums);
  m->counts = calloc(plan->n_classes, sizeof *m->counts);
  if (!m->row || !m->fixed || !m->totals || !m->sums || !m->counts) {
    kf_twin_moments_free(dev, m);
    return kf_twin_fail(dev, KF_DEV_MEMORY, "no memory on the host");
  }
  *out = m;
  return KF_DEV_OK;
}

void kf_twin_moments_free(kf_dev *dev, kf_dev_moments *m) {
  if (m == NULL) return;
  kf_twin_give(dev, m->bytes);
  free(m->row);
  free(m->fixed);
  free(m->totals);
  free(m->sums);
  free(m->counts);
  free(m);
}

kf_dev_status kf_twin_moments_put(kf_dev_moments *m, const void *rows, const int32_t *labels,
                                  uint32_t n) {
  kf_dev_status status = kf_twin_enter(m->dev);
  if (status != KF_DEV_OK) return status;
  if (n == 0 || n > m->plan.batch || m->n_puts - m->waited >= KF_DEV_PUTS) abort();
  m->puts[m->n_puts++ % KF_DEV_PUTS] = (put){rows, labels, n};
  return KF_DEV_OK;
}

/* --- rows ------------------------------------------------------------------------------------- */

static float of_f16(uint16_t bits) {
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  float size = exponent == 31  ? (fraction != 0 ? NAN : INFINITY)
               : exponent == 0 ? ldexpf((float)fraction, -24)
                               : ldexpf((float)(fraction + 1024), exponent - 25);
  return bits >> 15 != 0 ? -size : size;
}

static float of_bf16(uint16_t bits) {
  uint32_t wide = (uint32_t)bits << 16;
  float x;
  memcpy(&x, &wide, sizeof x);
  return x;
}

static void decode(kf_dev_moments *m, const void *rows, uint32_t r) {
  uint32_t dim = m->plan.dim;
  const uint16_t *half = (const uint16_t *)rows + (size_t)r * dim;
  for (uint32_t i = 0; i < dim; i++)
    m->row[i] = m->plan.type == KF_DEV_F32   ? ((const float *)rows)[(size_t)r * dim + i]
                : m->plan.type == KF_DEV_F16 ? of_f16(half[i])
                                             : of_bf16(half[i]);
}

/* The canonical squared length of the row, and its largest magnitude. */
static double measure(const kf_dev_moments *m, float *largest) {
  double lane[8] = {0};
  *largest = 0;
  for (uint32_t i = 0; i < m->plan.dim; i++) {
    lane[i % 8] += (double)m->row[i] * (double)m->row[i];
    *largest = fmaxf(*largest, fabsf(m->row[i]));
  }
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

static void add(kf_dev_moments *m, int32_t label, double factor) {
  uint32_t dim = m->plan.dim;
  i128 *to = m->totals;
  m->counts[label]++;
  for (uint32_t i = 0; i < dim; i++) {
    m->fixed[i] = lrint((double)m->row[i] * factor);
    m->sums[(size_t)label * dim + i] += m->fixed[i];
  }
  for (uint32_t i = 0; i < dim; i++)
    for (uint32_t j = i; j < dim; j++) *to++ += m->fixed[i] * m->fixed[j];
}

/* Adds a row if it is good and has a label; false: it is bad. */
static bool take_row(kf_dev_moments *m, const put *p, uint32_t r) {
  const kf_dev_moments_plan *plan = &m->plan;
  int32_t label = p->labels[r];
  float largest;
  decode(m, p->rows, r);
  double norm2 = measure(m, &largest);
  if (!(norm2 > 0 && isfinite(norm2))) return false;
  if (label < 0) return true;
  if ((uint32_t)label >= plan->n_classes) return false;
  if (!plan->normalized && !((double)largest <= ldexp(4194304.0, -plan->exponent))) return false;
  add(m, label, plan->normalized ? 4194304.0 / sqrt(norm2) : ldexp(1.0, plan->exponent));
  return true;
}

kf_dev_status kf_twin_moments_wait(kf_dev_moments *m, uint32_t *bad) {
  kf_dev_status status = kf_twin_enter(m->dev);
  if (status != KF_DEV_OK) return status;
  if (m->waited >= m->n_puts) abort();
  const put *p = &m->puts[m->waited++ % KF_DEV_PUTS];
  *bad = 0;
  for (uint32_t r = 0; r < p->n; r++)
    if (!take_row(m, p, r) && *bad == 0) *bad = r + 1;
  kf_twin_count(&kf_twin.moments, p->n);
  return KF_DEV_OK;
}

kf_dev_status kf_twin_moments_take(kf_dev_moments *m, uint64_t *totals, int64_t *sums,
                                   int64_t *counts) {
  kf_dev_status status = kf_twin_enter(m->dev);
  if (status != KF_DEV_OK) return status;
  if (m->waited != m->n_puts) abort();
  size_t n_totals = triangle(m->plan.dim), n_sums = (size_t)m->plan.n_classes * m->plan.dim;
  for (size_t i = 0; i < n_totals; i++) {
    i128 sum;
    memcpy(&sum, totals + 2 * i, sizeof sum);
    sum += m->totals[i];
    memcpy(totals + 2 * i, &sum, sizeof sum);
  }
  for (size_t i = 0; i < n_sums; i++) sums[i] += m->sums[i];
  for (size_t i = 0; i < m->plan.n_classes; i++) counts[i] += m->counts[i];
  memset(m->totals, 0, n_totals * sizeof *m->totals);
  memset(m->sums, 0, n_sums * sizeof *m->sums);
  memset(m->counts, 0, m->plan.n_classes * sizeof *m->counts);
  return KF_DEV_OK;
}
