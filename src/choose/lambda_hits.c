/* lambda_hits.c - hits at many lambdas, in as many rows as it takes to choose one of them.
 *
 * All lambdas are tried on the same rows, so two of them are compared by the few rows on which they
 * differ. The caller begins with an eighth of the sample, at least FIRST_ROWS, and doubles the rows
 * while it is in doubt. One bit for each row and lambda records which rows were hits. */
#include "choose/lambda_hits.h"

#include <math.h>
#include <string.h>

#define FIRST_ROWS 6250u /* at least; a sample of less than twice this is taken at once */
#define FIRST_PART 8u    /* one in this many rows of the sample */

kf_status kf_lambda_hits_start(kf_lambda_hits *h, kf_ctx *ctx, kf_left_out *left_out,
                               bool at_once) {
  *h = (kf_lambda_hits){.ctx = ctx, .left_out = left_out, .count = kf_left_out_counts(left_out)};
  uint64_t all = h->count.planned, first = all / FIRST_PART;
  if (first < FIRST_ROWS) first = FIRST_ROWS;
  h->taken = at_once || all < 2 * first ? all : first;
  h->right = kf_alloc_zero(all + 1, sizeof *h->right);
  return kf_agree_on(ctx, h->right != NULL ? KF_OK : kf_fail_memory(&ctx->err));
}

void kf_lambda_hits_clear(kf_lambda_hits *h) {
  kf_free(h->right);
  h->right = NULL;
}

/* Adds the hits at a lambda for the rows that are in a sample of `most` but not in one of
 * `skip`. */
static kf_status count(kf_lambda_hits *h, size_t lambda, uint64_t skip, uint64_t most,
                       const char *what, kf_lambda_point *point, uint64_t *n) {
  kf_left_out_point hits = {0};
  kf_left_out_trial trial = {.lambda = h->lambda[lambda],
                             .most = most < h->count.planned ? most : 0,
                             .skip = skip,
                             .hits = true,
                             .right = h->right,
                             .bit = (unsigned)lambda,
                             .what = what};
  KF_TRY(kf_left_out_try(h->left_out, &trial, &hits, 1, n));
  point->top1 += hits.top1;
  point->top5 += hits.top5;
  return KF_OK;
}

kf_status kf_lambda_hits_try(kf_lambda_hits *h, const char *what, kf_lambda_point *point) {
  if (h->n_lambdas == KF_LAMBDAS_MOST)
    return kf_fail(&h->ctx->err, KF_ERR_ARG, "more than %u lambdas", KF_LAMBDAS_MOST);
  h->lambda[h->n_lambdas++] = point->lambda;
  return count(h, h->n_lambdas - 1, 0, h->taken, what, point, &h->n);
}

static unsigned bit_of(const kf_lambda_hits *h, double lambda) {
  unsigned bit = 0;
  while (bit + 1 < h->n_lambdas && h->lambda[bit] != lambda) bit++;
  return bit;
}

kf_status kf_lambda_hits_take_more(kf_lambda_hits *h, const char *what, kf_lambda_point *points,
                                   size_t n) {
  uint64_t more = 0, most = 2 * h->taken;
  for (size_t i = 0; i < n; i++)
    KF_TRY(count(h, bit_of(h, points[i].lambda), h->taken, most, what, &points[i], &more));
  h->taken = most < h->count.planned ? most : h->count.planned;
  h->n += more;
  return KF_OK;
}

kf_status kf_lambda_hits_loss(const kf_lambda_hits *h, const kf_lambda_point *points, size_t n,
                              size_t best, double *out) {
  /* Different ranks may leave out a row at different lambdas; each bit is set on at most one. */
  uint64_t *right = kf_alloc(h->count.planned, sizeof *right);
  kf_status status = right != NULL ? KF_OK : kf_fail_memory(&h->ctx->err);
  if (status == KF_OK) memcpy(right, h->right, h->count.planned * sizeof *right);
  status = kf_sum_u64(h->ctx, status, right, h->count.planned);
  unsigned of_best = bit_of(h, points[best].lambda);
  *out = 0;
  for (size_t p = 0; status == KF_OK && p < n; p++) {
    unsigned of_other = bit_of(h, points[p].lambda);
    uint64_t gains = 0, losses = 0; /* rows that are hits only at the other, only at the best */
    for (uint64_t i = 0; i < h->count.planned; i++) {
      bool other = (right[i] >> of_other & 1) != 0, own = (right[i] >> of_best & 1) != 0;
      gains += other && !own;
      losses += own && !other;
    }
    if (p != best) *out = fmax(*out, kf_loss_upper95(gains, losses, h->n));
  }
  kf_free(right);
  return status;
}
