/* folds.c - stratified folds of labelled rows, and statistics without a fold.
 *
 * Row t of class k, in the order of the data set, is in fold (t + b_k) mod F; each class begins in
 * the fold after the last row of the class before it. Groups go to the fold with the fewest rows,
 * the largest group first. No random numbers are needed. Statistics without a fold are those of all
 * rows minus those of the fold, exactly. */
#include "choose/rows.h"

#include <stdlib.h>

static kf_status check_folds(uint32_t folds, kf_err *err) {
  if (folds >= 2 && folds <= 100) return KF_OK;
  return kf_fail(err, KF_ERR_ARG, "%u folds; there must be 2 to 100", folds);
}

static int by_size(const void *a, const void *b) {
  const kf_grouped_row *x = a, *y = b;
  if (x->size != y->size) return x->size > y->size ? -1 : 1;
  if (x->group != y->group) return x->group < y->group ? -1 : 1;
  return (x->index > y->index) - (x->index < y->index);
}

kf_status kf_fold_groups(const kf_row_list *rows, const uint32_t *groups, uint32_t folds,
                         unsigned char **out, kf_err *err) {
  KF_TRY(check_folds(folds, err));
  uint64_t filled[100] = {0}, n = rows->n;
  kf_arena arena = {0};
  kf_grouped_row *sorted = kf_rows_by_group(rows, groups, &arena);
  unsigned char *fold = kf_alloc(n, 1);
  if (fold == NULL || sorted == NULL) {
    kf_free(fold);
    kf_arena_free(&arena);
    return kf_fail_memory(err);
  }
  qsort(sorted, n, sizeof *sorted, by_size);
  for (uint64_t i = 0; i < n; i += sorted[i].size) {
    uint32_t to = 0;
    for (uint32_t f = 1; f < folds; f++)
      if (filled[f] < filled[to]) to = f;
    for (uint64_t k = i; k < i + sorted[i].size; k++) fold[sorted[k].index] = (unsigned char)to;
    filled[to] += sorted[i].size;
  }
  kf_arena_free(&arena);
  *out = fold;
  return KF_OK;
}

kf_status kf_fold_rows(const kf_row_list *rows, uint32_t n_classes, uint32_t folds,
                       unsigned char **out, kf_err *err) {
  KF_TRY(check_folds(folds, err));
  uint64_t *next;
  KF_TRY(kf_class_places(rows, n_classes, &next, err));
  unsigned char *fold = kf_alloc(rows->n, 1);
  if (fold == NULL) {
    kf_free(next);
    return kf_fail_memory(err);
  }
  for (uint64_t i = 0; i < rows->n; i++) fold[i] = (unsigned char)(next[rows->label[i]]++ % folds);
  kf_free(next);
  *out = fold;
  return KF_OK;
}

kf_status kf_rows_of_fold(const kf_row_list *rows, const unsigned char *fold, uint32_t number,
                          bool others, kf_row_list *out, kf_err *err) {
  uint64_t n = 0;
  for (uint64_t i = 0; i < rows->n; i++) n += (fold[i] == number) != others;
  KF_TRY(kf_row_list_make(out, n, err));
  for (uint64_t i = 0; i < rows->n; i++)
    if ((fold[i] == number) != others) kf_row_list_add(out, rows->row[i], rows->label[i]);
  return KF_OK;
}

kf_status kf_fold_take_out(kf_ctx *ctx, kf_stats *rest, const kf_data *fold, kf_stats **taken) {
  kf_stats *s;
  KF_TRY(kf_stats_create(rest->dim, rest->n_classes, &rest->names, rest->normalized, rest->exponent,
                         &s, &ctx->err));
  kf_status status = kf_stats_accumulate(ctx, s, fold, NULL, "folds");
  if (status == KF_OK) status = kf_stats_subtract(ctx, rest, s);
  KF_HAND_OUT(status, taken, s, kf_stats_free);
}

kf_status kf_fold_model(kf_ctx *ctx, const kf_fold *fold, kf_method method, kf_priors priors,
                        kf_lambda lambda, uint32_t dim, kf_centre centre, kf_model **out) {
  kf_fitter *fitter;
  KF_TRY(kf_fitter_new(ctx, fold->without, NULL, method, &fitter));
  kf_status status = kf_fitter_set_priors(fitter, priors);
  if (status == KF_OK) status = kf_fitter_fit(fitter, lambda, dim, centre, out);
  kf_fitter_free(fitter);
  return status;
}

kf_status kf_fold_sampled(const kf_fold *fold, const kf_row_list *sample, kf_row_list *out,
                          kf_err *err) {
  const kf_row_list *in = &fold->rows;
  KF_TRY(kf_row_list_make(out, in->n, err));
  for (uint64_t i = 0, s = 0; i < in->n; i++) {
    while (s < sample->n && sample->row[s] < in->row[i]) s++;
    bool sampled = s < sample->n && sample->row[s] == in->row[i];
    if (sampled && fold->without->counts[in->label[i]] > 0)
      kf_row_list_add(out, in->row[i], in->label[i]);
  }
  return KF_OK;
}

/* Adds the number of the left-out fold to the error. */
static kf_status fold_failed(kf_ctx *ctx, kf_status status, uint32_t number, uint32_t folds) {
  if (status != KF_ERR_MATH && status != KF_ERR_ARG) return status;
  kf_err reason = ctx->err;
  return kf_fail_hint(&ctx->err, status, reason.hint, "without fold %u of %u: %s", number + 1,
                      folds, reason.message);
}

/* --- each fold ------------------------------------------------------------------------------- */

uint32_t kf_folds_taken(const kf_folding *f, uint64_t rows) {
  if (f->taken > 0) return f->taken;
  if (f->sample == 0 || f->sample >= rows) return f->folds;
  return (uint32_t)(((kf_i128)f->sample * f->folds + rows - 1) / rows);
}

/* Equally many rows of each fold that is used. */
static kf_status take_judged(const kf_folding *f, const kf_row_list *all, const unsigned char *of,
                             kf_fold *fold, kf_err *err) {
  KF_TRY(kf_rows_of_fold(all, of, fold->number, false, &fold->judged, err));
  if (f->sample == 0 || f->sample >= all->n) return KF_OK;
  uint64_t taken = kf_folds_taken(f, all->n), n = fold->number;
  uint64_t share = f->sample * (n + 1) / taken - f->sample * n / taken;
  return kf_row_list_keep_shares(&fold->judged, f->data->n_classes, share, err);
}

static kf_status take_fold(const kf_folding *f, const kf_row_list *all, const unsigned char *of,
                           kf_fold *fold, kf_row_list *others, kf_err *err) {
  KF_TRY(kf_rows_of_fold(all, of, fold->number, false, &fold->rows, err));
  KF_TRY(kf_data_new_pick(f->data, fold->rows.row, fold->rows.n, &fold->data, err));
  KF_TRY(take_judged(f, all, of, fold, err));
  if (!f->others) return KF_OK;
  KF_TRY(kf_rows_of_fold(all, of, fold->number, true, others, err));
  return kf_data_new_pick(f->data, others->row, others->n, &fold->others, err);
}

static kf_status use_fold(kf_ctx *ctx, const kf_folding *f, kf_stats *rest, const kf_fold *fold) {
  kf_stats *taken;
  KF_TRY(kf_fold_take_out(ctx, rest, fold->data, &taken));
  kf_status status = f->work(f->argument, fold);
  if (status == KF_OK)
    status = kf_stats_merge(ctx, rest, taken);
  else
    status = fold_failed(ctx, status, fold->number, f->folds);
  kf_stats_free(taken);
  return status;
}

kf_status kf_each_fold(kf_ctx *ctx, const kf_folding *f, uint64_t *labelled) {
  kf_err *err = &ctx->err;
  kf_row_list all = {0};
  unsigned char *of = NULL;
  kf_stats *rest = NULL;
  kf_status status = kf_sample_rows(ctx, f->data, UINT64_MAX, &all, labelled);
  if (status == KF_OK)
    status = f->groups != NULL ? kf_fold_groups(&all, f->groups, f->folds, &of, err)
                               : kf_fold_rows(&all, f->data->n_classes, f->folds, &of, err);
  if (status == KF_OK) status = kf_stats_copy(ctx, f->stats, &rest);
  uint32_t taken = kf_folds_taken(f, all.n);
  for (uint32_t number = 0; status == KF_OK && number < taken; number++) {
    kf_fold fold = {.number = number, .without = rest};
    kf_row_list others = {0};
    status = take_fold(f, &all, of, &fold, &others, err);
    if (status == KF_OK) status = use_fold(ctx, f, rest, &fold);
    kf_data_free(fold.data);
    kf_data_free(fold.others);
    kf_row_list_clear(&fold.rows);
    kf_row_list_clear(&fold.judged);
    kf_row_list_clear(&others);
  }
  kf_row_list_clear(&all);
  kf_free(of);
  kf_stats_free(rest);
  return status;
}
