/* twin_product.c - products of device_api.h in plain C, as their definition reads. A put is looked at
 * only when it is waited for, as in twin_map.c. */
#include "twin/twin_product.h"
#include "twin/twin.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kf_dev_matrix {
  kf_dev_matrix_plan plan;
  uint64_t bytes;
  char *lines; /* [depth + 1][n] */
  char *there; /* [depth + 1] which lines have come */
};

/* Lines of a matrix, or rows of a product. */
typedef struct product_job {
  kf_dev_matrix *to;         /* lines are put there */
  const kf_dev_matrix *with; /* or rows are multiplied with this */
  uint32_t first, n;
  const void *in;
  void *out;
} product_job;

struct kf_dev_product {
  kf_dev *dev;
  uint64_t bytes;
  kf_dev_product_plan plan;
  product_job jobs[KF_DEV_SLOTS];
};

static size_t size_of(const kf_dev_matrix_plan *plan) {
  return plan->narrow ? sizeof(float) : sizeof(double);
}

/* --- room ------------------------------------------------------------------------------------- */

uint64_t kf_twin_product_bytes(const kf_dev_product_plan *plan) {
  return plan->slots * (plan->in + plan->out);
}

kf_dev_status kf_twin_product_new(kf_dev *dev, const kf_dev_product_plan *plan,
                                  kf_dev_product **out) {
  uint64_t bytes = kf_twin_product_bytes(plan);
  kf_dev_status status = kf_twin_enter(dev);
  if (status != KF_DEV_OK) return status;
  if (plan->slots == 0 || plan->slots > KF_DEV_SLOTS || plan->in == 0 || plan->out == 0) abort();
  if (!kf_twin_take(dev, bytes)) return KF_DEV_MEMORY;
  kf_dev_product *p = calloc(1, sizeof *p);
  if (p == NULL) abort();
  *p = (kf_dev_product){.dev = dev, .bytes = bytes, .plan = *plan};
  *out = p;
  return KF_DEV_OK;
}

void kf_twin_product_free(kf_dev *dev, kf_dev_product *p) {
  if (p == NULL) return;
  kf_twin_give(dev, p->bytes);
  free(p);
}

uint64_t kf_twin_matrix_bytes(const kf_dev_matrix_plan *plan) {
  return ((uint64_t)plan->depth + 1) * plan->n * size_of(plan);
}

kf_dev_status kf_twin_matrix_new(kf_dev *dev, const kf_dev_matrix_plan *plan, kf_dev_matrix **out) {
  uint64_t bytes = kf_twin_matrix_bytes(plan);
  kf_dev_status status = kf_twin_enter(dev);
  if (status != KF_DEV_OK) return status;
  if (plan->n == 0) abort();
  if (!kf_twin_take(dev, bytes)) return KF_DEV_MEMORY;
  kf_dev_matrix *m = calloc(1, sizeof *m);
  if (m == NULL) abort();
  *m = (kf_dev_matrix){.plan = *plan, .bytes = bytes};
  m->lines = malloc(bytes);
  m->there = calloc(plan->depth + (size_t)1, 1);
  if (m->lines == NULL || m->there == NULL) abort();
  *out = m;
  return KF_DEV_OK;
}

void kf_twin_matrix_free(kf_dev *dev, kf_dev_matrix *m) {
  if (m == NULL) return;
  kf_twin_give(dev, m->bytes);
  free(m->lines);
  free(m->there);
  free(m);
}

/* --- at work ---------------------------------------------------------------------------------- */

static kf_dev_status put(kf_dev_product *p, uint32_t slot, product_job job) {
  kf_dev_status status = kf_twin_enter(p->dev);
  if (status != KF_DEV_OK) return status;
  if (slot >= p->plan.slots || job.n == 0 || p->jobs[slot].n > 0) abort();
  p->jobs[slot] = job;
  return KF_DEV_OK;
}

kf_dev_status kf_twin_matrix_put(kf_dev_product *p, uint32_t slot, kf_dev_matrix *m, uint32_t first,
                                 uint32_t n, const void *lines) {
  if (first > m->plan.depth || n > m->plan.depth + 1 - first ||
      (uint64_t)n * m->plan.n * size_of(&m->plan) > p->plan.in)
    abort();
  return put(p, slot, (product_job){.to = m, .first = first, .n = n, .in = lines});
}

kf_dev_status kf_twin_product_put(kf_dev_product *p, uint32_t slot, const kf_dev_matrix *matrix,
                                  const void *a, uint32_t m, void *c) {
  uint64_t size = size_of(&matrix->plan);
  if (matrix->plan.depth * size * m > p->plan.in || matrix->plan.n * size * m > p->plan.out)
    abort();
  for (uint32_t k = 0; k <= matrix->plan.depth; k++)
    if (!matrix->there[k]) abort();
  return put(p, slot, (product_job){.with = matrix, .n = m, .in = a, .out = c});
}

#define MULTIPLY(name, type, fused)                                                                \
  static void name(const kf_dev_matrix *b, uint32_t m, const type *a, type *c) {                   \
    size_t depth = b->plan.depth, n = b->plan.n;                                                   \
    const type *lines = (const type *)(const void *)b->lines;                                      \
    for (size_t i = 0; i < m; i++) {                                                               \
      memcpy(c + i * n, lines + depth * n, n * sizeof *c);                                         \
      for (size_t k = 0; k < depth; k++)                                                           \
        for (size_t j = 0; j < n; j++)                                                             \
          c[i * n + j] = fused(a[k * m + i], lines[k * n + j], c[i * n + j]);                      \
    }                                                                                              \
  }
MULTIPLY(multiply, double, fma)
MULTIPLY(multiply_narrow, float, fmaf)

kf_dev_status kf_twin_product_wait(kf_dev_product *p, uint32_t slot, char *message, size_t size) {
  product_job job = p->jobs[slot];
  if (job.n == 0) abort();
  p->jobs[slot].n = 0;
  if (!kf_twin_alive(p->dev)) {
    snprintf(message, size, "the device was lost");
    return KF_DEV_LOST;
  }
  if (job.to != NULL) {
    uint64_t line = job.to->plan.n * size_of(&job.to->plan);
    memcpy(job.to->lines + job.first * line, job.in, job.n * line);
    memset(job.to->there + job.first, 1, job.n);
    return KF_DEV_OK;
  }
  if (job.with->plan.narrow)
    multiply_narrow(job.with, job.n, job.in, job.out);
  else
    multiply(job.with, job.n, job.in, job.out);
  kf_twin_count(&kf_twin.multiplied, job.n);
  return KF_DEV_OK;
}
