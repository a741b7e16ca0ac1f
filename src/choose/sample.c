/* sample.c - stratified samples and folds.
 *
 * Both go through the labels in the order of the rows and need no random numbers: of the n_k rows of
 * class k, the t-th is in a sample of s_k where floor((t + 1) s_k / n_k) is more than floor(t s_k /
 * n_k), which spreads the sample evenly; and the t-th row of class k is in fold (t + b_k) mod F,
 * where the b_k make each class begin where the one before it ended. */
#include "choose/choose.h"

#define LABELS_AT_A_TIME 65536u

/* Calls use(argument, row, label) for each row that has a label. Where bad rows are to be left out,
 * rows have to be read to know them. */
typedef void (*label_fn)(void *argument, uint64_t row, int32_t label);

static kf_status each_label(kf_ctx *ctx, const kf_data *data, label_fn use, void *argument) {
  kf_err *err = &ctx->err;
  uint64_t chunk = data->skip_bad ? kf_data_chunk(data->dim) : LABELS_AT_A_TIME;
  int32_t *labels = kf_alloc(chunk, sizeof *labels);
  float *rows = data->skip_bad ? kf_alloc(chunk * data->dim, sizeof *rows) : NULL;
  bool all = labels != NULL && (rows != NULL || !data->skip_bad);
  kf_status status = all ? KF_OK : kf_fail_memory(err);
  for (uint64_t first = 0; status == KF_OK && first < data->rows; first += chunk) {
    uint64_t left = data->rows - first, n = left < chunk ? left : chunk;
    status = kf_data_fetch(data, ctx->kernels, first, n, rows, labels, NULL, err);
    for (uint64_t i = 0; status == KF_OK && i < n; i++)
      if (labels[i] >= 0) use(argument, first + i, labels[i]);
  }
  kf_free(labels);
  kf_free(rows);
  return status;
}

static void count_label(void *argument, uint64_t row, int32_t label) {
  (void)row;
  ((uint64_t *)argument)[label]++;
}

kf_status kf_rows_make(kf_rows *rows, uint64_t most, kf_err *err) {
  *rows = (kf_rows){.row = kf_alloc(most, sizeof *rows->row),
                    .label = kf_alloc(most, sizeof *rows->label)};
  return rows->row != NULL && rows->label != NULL ? KF_OK : kf_fail_memory(err);
}

void kf_rows_clear(kf_rows *rows) {
  kf_free(rows->row);
  kf_free(rows->label);
  *rows = (kf_rows){0};
}

/* --- samples --------------------------------------------------------------------------------- */

typedef struct sampling {
  uint64_t *count; /* [classes] rows there are */
  uint64_t *seen;  /* [classes] so far */
  uint64_t *share; /* [classes] rows to take */
  kf_rows out;
} sampling;

static void take_some(void *argument, uint64_t row, int32_t label) {
  sampling *s = argument;
  uint64_t t = s->seen[label]++; /* not below the count where a file has changed */
  if (kf_takes(t, s->share[label], s->count[label])) kf_rows_add(&s->out, row, label);
}

static kf_status sample(kf_ctx *ctx, const kf_data *data, uint64_t most, sampling *s,
                        uint64_t *labelled) {
  kf_err *err = &ctx->err;
  uint32_t classes = data->n_classes;
  s->count = kf_alloc_zero(classes, sizeof *s->count);
  s->seen = kf_alloc_zero(classes, sizeof *s->seen);
  s->share = kf_alloc(classes, sizeof *s->share);
  if (!(s->count && s->seen && s->share)) return kf_fail_memory(err);
  KF_TRY(each_label(ctx, data, count_label, s->count));
  uint64_t all = 0, taken = 0;
  for (uint32_t k = 0; k < classes; k++) all += s->count[k];
  for (uint32_t k = 0; k < classes; k++) {
    uint64_t n = s->count[k];
    double share = all <= most ? (double)n : (double)n * (double)most / (double)all;
    s->share[k] = n > 0 && share < 1 ? 1 : (uint64_t)share;
    taken += s->share[k];
  }
  *labelled = all;
  KF_TRY(kf_rows_make(&s->out, taken, err));
  return each_label(ctx, data, take_some, s);
}

kf_status kf_sample_rows(kf_ctx *ctx, const kf_data *data, uint64_t most, kf_rows *out,
                         uint64_t *labelled) {
  sampling s = {0};
  kf_status status = sample(ctx, data, most, &s, labelled);
  kf_free(s.count);
  kf_free(s.seen);
  kf_free(s.share);
  if (status == KF_OK)
    *out = s.out;
  else
    kf_rows_clear(&s.out);
  return status;
}

/* --- folds ----------------------------------------------------------------------------------- */

kf_status kf_fold_rows(const kf_rows *rows, uint32_t n_classes, uint32_t folds, unsigned char **out,
                       kf_err *err) {
  if (folds < 2 || folds > 100)
    return kf_fail(err, KF_ERR_ARG, "%u folds; there must be 2 to 100", folds);
  uint64_t *next = kf_alloc_zero(n_classes, sizeof *next), begin = 0;
  unsigned char *fold = kf_alloc(rows->n, 1);
  if (next == NULL || fold == NULL) {
    kf_free(next);
    kf_free(fold);
    return kf_fail_memory(err);
  }
  for (uint64_t i = 0; i < rows->n; i++) next[rows->label[i]]++;
  for (uint32_t k = 0; k < n_classes; k++) { /* the fold of the next row, before it is reduced */
    uint64_t n = next[k];
    next[k] = begin;
    begin += n;
  }
  for (uint64_t i = 0; i < rows->n; i++) fold[i] = (unsigned char)(next[rows->label[i]]++ % folds);
  kf_free(next);
  *out = fold;
  return KF_OK;
}

kf_status kf_rows_of_fold(const kf_rows *rows, const unsigned char *fold, uint32_t number,
                          bool others, kf_rows *out, kf_err *err) {
  uint64_t n = 0;
  for (uint64_t i = 0; i < rows->n; i++) n += (fold[i] == number) != others;
  KF_TRY(kf_rows_make(out, n, err));
  for (uint64_t i = 0; i < rows->n; i++)
    if ((fold[i] == number) != others) kf_rows_add(out, rows->row[i], rows->label[i]);
  return KF_OK;
}

kf_status kf_stats_copy(kf_ctx *ctx, const kf_stats *stats, kf_stats **out) {
  kf_stats *s;
  KF_TRY(kf_stats_create(stats->dim, stats->n_classes, &stats->names, stats->normalized,
                         stats->exponent, &s, &ctx->err));
  kf_status status = kf_stats_merge(ctx, s, stats);
  if (status == KF_OK)
    *out = s;
  else
    kf_stats_free(s);
  return status;
}

kf_status kf_fold_take_out(kf_ctx *ctx, kf_stats *rest, const kf_data *fold, kf_stats **taken) {
  kf_stats *s;
  KF_TRY(kf_stats_create(rest->dim, rest->n_classes, &rest->names, rest->normalized, rest->exponent,
                         &s, &ctx->err));
  kf_status status = kf_stats_accumulate(ctx, s, fold, NULL, "folds");
  if (status == KF_OK) status = kf_stats_subtract(ctx, rest, s);
  if (status == KF_OK)
    *taken = s;
  else
    kf_stats_free(s);
  return status;
}

kf_status kf_fold_put_back(kf_ctx *ctx, kf_stats *rest, kf_stats *taken) {
  kf_status status = kf_stats_merge(ctx, rest, taken);
  kf_stats_free(taken);
  return status;
}

kf_status kf_fold_failed(kf_ctx *ctx, kf_status status, uint32_t number, uint32_t folds) {
  if (status != KF_ERR_MATH && status != KF_ERR_ARG) return status;
  kf_err reason = ctx->err;
  return kf_fail(&ctx->err, status, "without fold %u of %u: %s", number + 1, folds, reason.message);
}

/* --- statistics and their rows --------------------------------------------------------------- */

kf_status kf_mean_eigenvalue(kf_ctx *ctx, const kf_stats *stats, double *out) {
  uint64_t dim = stats->dim;
  double trace = 0, *s_w = kf_alloc(dim * dim, sizeof *s_w);
  if (s_w == NULL) return kf_fail_memory(&ctx->err);
  kf_status status = kf_stats_scatter(ctx, stats, s_w, NULL, NULL);
  for (uint64_t i = 0; status == KF_OK && i < dim; i++) trace += s_w[i * dim + i];
  kf_free(s_w);
  *out = trace / (double)dim;
  return status;
}

kf_status kf_check_statistics_of(const kf_stats *stats, const kf_data *data, kf_err *err) {
  KF_TRY(kf_data_refuse_mapped(data, err));
  if (!data->has_labels)
    return kf_fail(err, KF_ERR_DATA, "the rows have no labels; give a label file (--labels)");
  bool bad = data->skip_bad; /* then rows may be fewer */
  if (stats->dim != data->dim || stats->n_classes != data->n_classes ||
      !kf_names_equal(&stats->names, &data->names) ||
      (bad ? stats->rows > data->rows : stats->rows != data->rows - data->unlabelled))
    return kf_fail(err, KF_ERR_ARG,
                   "the statistics (%llu rows of %u columns, %u classes) are not those of the data "
                   "(%llu labelled rows of %u columns, %u classes)",
                   (unsigned long long)stats->rows, stats->dim, stats->n_classes,
                   (unsigned long long)(data->rows - data->unlabelled), data->dim, data->n_classes);
  return KF_OK;
}
