/* product.c - matrix products in f64. Threads share the rows of the result and never a sum, so the
 * bits do not depend on their number. */
#include "model/model.h"

#include <string.h>

typedef struct product_job {
  const kf_kernels *kernels;
  kf_product p;
  size_t share;
} product_job;

static kf_status product_rows(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  (void)err;
  const product_job *j = argument;
  const kf_product *p = &j->p;
  size_t first = i * j->share, rows = p->m - first < j->share ? p->m - first : j->share;
  size_t from = p->upper ? first : 0;
  double *c = p->c + first * p->n;
  memset(c, 0, rows * p->n * sizeof *c);
  j->kernels->gemm_tn(p->a + first, p->m, p->b + from, p->n, c + from, p->n, rows, p->n - from,
                      p->depth);
  return KF_OK;
}

kf_status kf_multiply(kf_ctx *ctx, kf_product product) {
  product_job j = {.kernels = ctx->kernels, .p = product, .share = kf_task_rows(ctx, product.m)};
  return kf_parallel(ctx, (product.m + j.share - 1) / j.share, product_rows, &j);
}

void kf_transpose(size_t rows, size_t columns, const double *from, double *to) {
  enum { BLOCK = 8 }; /* a cache line of both */
  for (size_t i = 0; i < rows; i += BLOCK)
    for (size_t j = 0; j < columns; j += BLOCK)
      for (size_t c = j; c < columns && c < j + BLOCK; c++)
        for (size_t r = i; r < rows && r < i + BLOCK; r++) to[c * rows + r] = from[r * columns + c];
}

void kf_matrix_times(const kf_kernels *kernels, const kf_matrix *matrix, const double *a, size_t m,
                     double *c) {
  size_t n = matrix->n;
  if (matrix->start == NULL) memset(c, 0, m * n * sizeof *c);
  for (size_t i = 0; matrix->start != NULL && i < m; i++)
    memcpy(c + i * n, matrix->start, n * sizeof *c);
  kernels->gemm_tn(a, m, matrix->b, n, c, n, m, n, matrix->depth);
}

void kf_turn_rows(const kf_kernels *kernels, const kf_matrix *turn, const double *x, size_t n,
                  double *columns, double *out) {
  kf_transpose(n, turn->depth, x, columns);
  kf_matrix_times(kernels, turn, columns, n, out);
}
