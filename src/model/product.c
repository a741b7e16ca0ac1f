/* product.c - matrix products in f64, shared out among threads by rows of the result, on devices where
 * that pays (device/products.c). No sum is divided, so the bits do not depend on threads. */
#include "model/model.h"

#include <string.h>

typedef struct product_job {
  kf_product p;
  kf_products on;
  kf_matrix b;
  size_t share;
} product_job;

static kf_status product_rows(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  const product_job *j = argument;
  const kf_product *p = &j->p;
  size_t first = i * j->share, rows = p->m - first < j->share ? p->m - first : j->share;
  double *c = p->c + first * p->n;
  if (!p->upper || j->b.on[0] != NULL)
    return kf_matrix_times(&j->on, &j->b, p->a + first, p->m, rows, c, err);
  memset(c, 0, rows * p->n * sizeof *c);
  j->on.ctx->kernels->gemm_tn(p->a + first, p->m, p->b + first, p->n, c + first, p->n, rows,
                              p->n - first, p->depth);
  return KF_OK;
}

kf_status kf_multiply(kf_ctx *ctx, kf_product product) {
  product_job j = {.p = product, .share = kf_task_rows(ctx, product.m)};
  j.b = (kf_matrix){.depth = product.depth, .n = product.n, .b = product.b};
  KF_TRY(
      kf_products_begin(ctx, (double)product.m * (double)product.n * (double)product.depth, &j.on));
  kf_status status = kf_matrix_place(&j.on, &j.b);
  if (status == KF_OK)
    status = kf_parallel(ctx, (product.m + j.share - 1) / j.share, product_rows, &j);
  return kf_products_end(&j.on, status);
}

void kf_transpose(size_t rows, size_t columns, const double *from, double *to) {
  enum { BLOCK = 8 }; /* a cache line of both */
  for (size_t i = 0; i < rows; i += BLOCK)
    for (size_t j = 0; j < columns; j += BLOCK)
      for (size_t c = j; c < columns && c < j + BLOCK; c++)
        for (size_t r = i; r < rows && r < i + BLOCK; r++) to[c * rows + r] = from[r * columns + c];
}

kf_status kf_turn_rows(const kf_products *p, const kf_matrix *turn, const double *x, size_t n,
                       double *columns, double *out, kf_err *err) {
  size_t dim = turn->depth;
  for (size_t i = 0; i < n; i++)
    for (size_t d = 0; d < dim; d++) columns[d * n + i] = x[i * dim + d];
  return kf_matrix_times(p, turn, columns, n, n, out, err);
}
