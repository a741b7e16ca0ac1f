/* sample.c - stratified samples of labelled rows, without random numbers.
 *
 * Of the n_k rows of class k, in the order of the data set, the t-th is in a sample of s_k if
 * floor((t + 1) s_k / n_k) is more than floor(t s_k / n_k), which spreads the sample evenly. */
#include "choose/rows.h"

#define LABELS_AT_A_TIME 65536u

/* Calls use(argument, row, label) for each row that has a label, in order. */
typedef void (*label_fn)(void *argument, uint64_t row, int32_t label);

typedef struct label_job {
  label_fn use;
  void *argument;
} label_job;

static kf_status use_labels(void *argument, const kf_batch *b, kf_err *err) {
  const label_job *j = argument;
  (void)err;
  for (uint64_t i = 0; i < b->n; i++)
    if (b->labels[i] >= 0) j->use(j->argument, b->first + i, b->labels[i]);
  return KF_OK;
}

/* To leave bad rows out, rows have to be read. */
static kf_status each_label(kf_ctx *ctx, const kf_data *data, label_fn use, void *argument) {
  label_job j = {.use = use, .argument = argument};
  return kf_each_batch(
      ctx, data,
      &(kf_pass){.rows = data->skip_bad ? kf_data_chunk(data->dim) : LABELS_AT_A_TIME,
                 .workers = 1,
                 .labels_only = !data->skip_bad,
                 .work = use_labels,
                 .argument = &j});
}

static void count_label(void *argument, uint64_t row, int32_t label) {
  (void)row;
  ((uint64_t *)argument)[label]++;
}

kf_status kf_row_list_make(kf_row_list *rows, uint64_t most, kf_err *err) {
  *rows = (kf_row_list){0};
  KF_TAKE(&rows->arena, rows->row, most);
  KF_TAKE(&rows->arena, rows->label, most);
  if (!rows->arena.failed) return KF_OK;
  kf_row_list_clear(rows);
  return kf_fail_memory(err);
}

void kf_row_list_clear(kf_row_list *rows) {
  kf_arena_free(&rows->arena);
  *rows = (kf_row_list){0};
}

/* --- samples --------------------------------------------------------------------------------- */

typedef struct sampling {
  uint64_t *count; /* [classes] rows there are */
  uint64_t *seen;  /* [classes] so far */
  uint64_t *share; /* [classes] rows to take */
  kf_row_list out;
  kf_arena arena;
} sampling;

static void take_some(void *argument, uint64_t row, int32_t label) {
  sampling *s = argument;
  uint64_t t = s->seen[label]++; /* may reach the count if the file has changed */
  if (kf_takes(t, s->share[label], s->count[label])) kf_row_list_add(&s->out, row, label);
}

static kf_status sample(kf_ctx *ctx, const kf_data *data, uint64_t most, sampling *s,
                        uint64_t *labelled) {
  kf_err *err = &ctx->err;
  uint32_t classes = data->n_classes;
  KF_TAKE_ZERO(&s->arena, s->count, classes);
  KF_TAKE_ZERO(&s->arena, s->seen, classes);
  KF_TAKE(&s->arena, s->share, classes);
  if (s->arena.failed) return kf_fail_memory(err);
  KF_TRY(each_label(ctx, data, count_label, s->count));
  uint64_t all = 0, taken = 0;
  if (most == 0) most = KF_DEFAULT_SAMPLE;
  for (uint32_t k = 0; k < classes; k++) all += s->count[k];
  for (uint32_t k = 0; k < classes; k++) {
    uint64_t n = s->count[k];
    double share = all <= most ? (double)n : (double)n * (double)most / (double)all;
    s->share[k] = n > 0 && share < 1 ? 1 : (uint64_t)share;
    taken += s->share[k];
  }
  *labelled = all;
  KF_TRY(kf_row_list_make(&s->out, taken, err));
  return each_label(ctx, data, take_some, s);
}

kf_status kf_sample_rows(kf_ctx *ctx, const kf_data *data, uint64_t most, kf_row_list *out,
                         uint64_t *labelled) {
  sampling s = {0};
  kf_status status = sample(ctx, data, most, &s, labelled);
  kf_arena_free(&s.arena);
  if (status == KF_OK)
    *out = s.out;
  else
    kf_row_list_clear(&s.out);
  return status;
}

/* --- statistics and their rows --------------------------------------------------------------- */

kf_status kf_measure_within(kf_ctx *ctx, const kf_stats *stats, double *trace, double *norm2) {
  uint64_t dim = stats->dim;
  double *s_w = kf_alloc(dim * dim, sizeof *s_w);
  if (s_w == NULL) return kf_fail_memory(&ctx->err);
  kf_status status = kf_stats_scatter(ctx, stats, s_w, NULL, NULL);
  *trace = 0;
  for (uint64_t i = 0; status == KF_OK && i < dim; i++) *trace += s_w[i * dim + i];
  if (status == KF_OK && norm2 != NULL) *norm2 = ctx->kernels->dot(dim * dim, s_w, s_w);
  kf_free(s_w);
  return status;
}

kf_status kf_check_statistics_of(const kf_stats *stats, const kf_data *data, kf_err *err) {
  KF_TRY(kf_data_refuse_mapped(data, err));
  if (!data->has_labels)
    return kf_fail_hint(err, KF_ERR_DATA, KF_HINT_LABELS, "the rows have no labels");
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
