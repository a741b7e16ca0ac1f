/* lambda_hits.c - hits at many lambdas, in as many rows as it takes to choose one of them.
 *
 * All lambdas are tried on the same rows, so two of them are compared by the rows on which they differ, and
 * these are few. The sample is divided into stratified parts of FIRST_ROWS rows or more. The caller begins with one
 * part, and doubles the rows while it is in doubt. Which rows were right at which lambda is kept, a bit for each. */
#include "choose/lambda_hits.h"

#include <math.h>

#define FIRST_ROWS 6250u /* of a part, at least; twice as many make two parts */
#define MOST_PARTS 8u

struct kf_lambda_hits {
  kf_loo *loo;
  kf_row_list all;
  unsigned char *part; /* [all.n] */
  uint32_t parts, taken;
  /* [all.n] Of each row taken, on this rank: a bit for each lambda at which it was right. */
  uint64_t *right;
  double lambda[KF_LAMBDAS_MOST]; /* of each bit */
  size_t n_lambdas;
  uint64_t n;        /* rows left out in turn so far */
  uint64_t n_single; /* rows of the whole sample that are alone in their class */
};

void kf_lambda_hits_free(kf_lambda_hits *h) {
  if (h == NULL) return;
  kf_row_list_clear(&h->all);
  kf_free(h->part);
  kf_free(h->right);
  kf_free(h);
}

static kf_status prepare(kf_lambda_hits *h, uint32_t n_classes, bool at_once, kf_err *err) {
  uint64_t parts = at_once ? 1 : h->all.n / FIRST_ROWS;
  h->parts = parts < 1 ? 1 : parts > MOST_PARTS ? MOST_PARTS : (uint32_t)parts;
  h->taken = 1;
  h->n_single = kf_loo_count_single(h->loo, &h->all);
  h->right = kf_alloc_zero(h->all.n + 1, sizeof *h->right);
  if (h->right == NULL) return kf_fail_memory(err);
  if (h->parts > 1) return kf_fold_rows(&h->all, n_classes, h->parts, &h->part, err);
  h->part = kf_alloc_zero(h->all.n + 1, 1);
  return h->part != NULL ? KF_OK : kf_fail_memory(err);
}

kf_status kf_lambda_hits_new(kf_loo *loo, kf_row_list *rows, bool at_once, kf_lambda_hits **out) {
  kf_ctx *ctx = kf_loo_ctx(loo);
  kf_lambda_hits *h = kf_alloc_zero(1, sizeof *h);
  kf_status status = h != NULL ? KF_OK : kf_fail_memory(&ctx->err);
  if (h != NULL) {
    h->loo = loo;
    h->all = *rows;
    status = prepare(h, kf_loo_classes(loo), at_once, &ctx->err);
  } else {
    kf_row_list_clear(rows);
  }
  *rows = (kf_row_list){0};
  KF_HAND_OUT(kf_agree_on(ctx, status), out, h, kf_lambda_hits_free);
}

bool kf_lambda_hits_has_more(const kf_lambda_hits *h) { return h->taken < h->parts; }
kf_loo_count kf_lambda_hits_counted(const kf_lambda_hits *h) {
  return (kf_loo_count){.n = h->n, .n_single = h->n_single};
}

/* --- counting --------------------------------------------------------------------------------- */

/* Counts hits at the lambdas from number `first` on in parts [from, end). tried: [n_lambdas - first]. */
static kf_status count(kf_lambda_hits *h, uint32_t from, uint32_t end, size_t first,
                       const char *what, kf_fuse_point *tried, kf_loo_count *counted) {
  kf_ctx *ctx = kf_loo_ctx(h->loo);
  size_t n = h->n_lambdas - first;
  kf_row_list rows = {0};
  uint64_t *right = kf_alloc_zero(h->all.n + 1, sizeof *right), at = 0;
  kf_status status =
      right != NULL ? kf_row_list_make(&rows, h->all.n, &ctx->err) : kf_fail_memory(&ctx->err);
  status = kf_agree_on(ctx, status);
  for (uint64_t i = 0; status == KF_OK && i < h->all.n; i++)
    if (h->part[i] >= from && h->part[i] < end)
      kf_row_list_add(&rows, h->all.row[i], h->all.label[i]);
  for (size_t g = 0; g < n; g++) tried[g] = (kf_fuse_point){.lambda = h->lambda[first + g]};
  if (status == KF_OK) status = kf_loo_count_hits(h->loo, &rows, what, tried, n, right, counted);
  for (uint64_t i = 0; status == KF_OK && i < h->all.n; i++)
    if (h->part[i] >= from && h->part[i] < end) h->right[i] |= right[at++] << first;
  kf_free(right);
  kf_row_list_clear(&rows);
  return status;
}

kf_status kf_lambda_hits_try(kf_lambda_hits *h, const char *what, kf_lambda_point *points,
                             size_t n) {
  kf_fuse_point tried[KF_LAMBDAS_MOST];
  size_t first = h->n_lambdas;
  if (n > KF_LAMBDAS_MOST - first)
    return kf_fail(&kf_loo_ctx(h->loo)->err, KF_ERR_ARG, "more than %u lambdas", KF_LAMBDAS_MOST);
  for (size_t g = 0; g < n; g++) h->lambda[h->n_lambdas++] = points[g].lambda;
  kf_loo_count counted;
  KF_TRY(count(h, 0, h->taken, first, what, tried, &counted));
  h->n = counted.n;
  for (size_t g = 0; g < n; g++) {
    points[g].top1 = tried[g].top1;
    points[g].top5 = tried[g].top5;
  }
  return KF_OK;
}

static size_t number_of(const kf_lambda_hits *h, double lambda) {
  size_t g = 0;
  while (g + 1 < h->n_lambdas && h->lambda[g] != lambda) g++;
  return g;
}

kf_status kf_lambda_hits_take_more(kf_lambda_hits *h, const char *what, kf_lambda_point *points,
                                   size_t n) {
  kf_fuse_point tried[KF_LAMBDAS_MOST];
  kf_loo_count more;
  uint32_t end = 2 * h->taken < h->parts ? 2 * h->taken : h->parts;
  KF_TRY(count(h, h->taken, end, 0, what, tried, &more));
  h->taken = end;
  h->n += more.n;
  for (size_t i = 0; i < n; i++) {
    const kf_fuse_point *t = &tried[number_of(h, points[i].lambda)];
    points[i].top1 += t->top1;
    points[i].top5 += t->top5;
  }
  return KF_OK;
}

/* --- comparing -------------------------------------------------------------------------------- */

kf_status kf_lambda_hits_loss(const kf_lambda_hits *h, const kf_lambda_point *points, size_t n,
                              size_t best, double *out) {
  /* Of each point, rows that were right at it alone, and at the best alone. */
  uint64_t differ[2 * KF_LAMBDAS_MOST] = {0};
  uint64_t of_best = UINT64_C(1) << number_of(h, points[best].lambda);
  for (size_t p = 0; p < n; p++) {
    uint64_t of_other = UINT64_C(1) << number_of(h, points[p].lambda);
    for (uint64_t i = 0; i < h->all.n; i++) {
      bool other = (h->right[i] & of_other) != 0, own = (h->right[i] & of_best) != 0;
      differ[2 * p] += other && !own;
      differ[2 * p + 1] += own && !other;
    }
  }
  KF_TRY(kf_sum_u64(kf_loo_ctx(h->loo), KF_OK, differ, 2 * n));
  *out = 0;
  for (size_t p = 0; p < n; p++)
    if (p != best) *out = fmax(*out, kf_loss_upper95(differ[2 * p], differ[2 * p + 1], h->n));
  return KF_OK;
}
