/* sample.c - stratified samples of labelled rows, without random numbers.
 *
 * Row t of the n_k rows of class k, in the order of the data set, is in a sample of s_k rows if
 * floor((t + 1) s_k / n_k) exceeds floor(t s_k / n_k), which spreads the sample evenly. */
#include "choose/rows.h"

#include <string.h>

typedef kf_status (*label_fn)(void *argument, const kf_batch *b, kf_err *err);

static kf_status take_labels(void *argument, const kf_batch *b, kf_err *err) {
  int32_t *labels = argument;
  (void)err;
  memcpy(labels + b->first, b->labels, b->n * sizeof *labels);
  return KF_OK;
}

/* Each rank reads its share of the rows. Takes 4 bytes of memory for each row. */
static kf_status each_label_read(kf_ctx *ctx, const kf_data *data, label_fn work, void *argument) {
  int32_t *labels = kf_alloc(data->rows, sizeof *labels);
  kf_status status = labels != NULL ? KF_OK : kf_fail_memory(&ctx->err);
  status = kf_agree_on(ctx, status);
  kf_pass pass = {.shared = true, .work = take_labels, .argument = labels};
  if (status == KF_OK) status = kf_each_batch(ctx, data, &pass);
  if (status == KF_OK) status = kf_join_rows(ctx, data, labels, sizeof *labels);
  if (status == KF_OK && labels != NULL)
    status = work(argument, &(kf_batch){.n = data->rows, .labels = labels}, &ctx->err);
  kf_free(labels);
  return status;
}

/* One pass over the labels, in order. Rows are read only to find bad ones. */
static kf_status each_label(kf_ctx *ctx, const kf_data *data, label_fn work, void *argument) {
  if (data->skip_bad && kf_is_shared(&ctx->ranks))
    return each_label_read(ctx, data, work, argument);
  kf_pass pass = {.workers = 1, .labels_only = !data->skip_bad, .work = work, .argument = argument};
  return kf_each_batch(ctx, data, &pass);
}

kf_status kf_row_list_make(kf_row_list *rows, uint64_t most, kf_err *err) {
  if (most == 0) most = 1;
  uint64_t *row = kf_alloc(most, sizeof *row + sizeof *rows->label);
  if (row == NULL) return kf_fail_memory(err);
  *rows = (kf_row_list){.row = row, .label = (int32_t *)(row + most)};
  return KF_OK;
}

void kf_row_list_clear(kf_row_list *rows) {
  kf_free(rows->row);
  *rows = (kf_row_list){0};
}

/* --- samples --------------------------------------------------------------------------------- */

typedef struct sampling {
  uint64_t *count; /* [classes] rows, or where rows of the class begin */
  uint64_t *seen;  /* [classes] rows so far */
  uint64_t *share; /* [classes] rows to take */
  kf_row_list out;
  kf_arena arena;
} sampling;

static kf_status count_labels(void *argument, const kf_batch *b, kf_err *err) {
  const sampling *s = argument;
  (void)err;
  for (uint64_t i = 0; i < b->n; i++)
    if (b->labels[i] >= 0) s->count[b->labels[i]]++;
  return KF_OK;
}

static kf_status take_share(void *argument, const kf_batch *b, kf_err *err) {
  sampling *s = argument;
  (void)err;
  for (uint64_t i = 0; i < b->n; i++) {
    int32_t label = b->labels[i];
    if (label < 0) continue;
    uint64_t t = s->seen[label]++; /* may reach the count if the file has changed */
    if (kf_takes(t, s->share[label], s->count[label]))
      kf_row_list_add(&s->out, b->first + i, label);
  }
  return KF_OK;
}

static kf_status sample(kf_ctx *ctx, const kf_data *data, uint64_t most, sampling *s,
                        uint64_t *labelled) {
  kf_err *err = &ctx->err;
  uint32_t classes = data->n_classes;
  KF_TAKE_ZERO(&s->arena, s->count, classes);
  KF_TAKE_ZERO(&s->arena, s->seen, classes);
  KF_TAKE(&s->arena, s->share, classes);
  if (s->arena.failed) return kf_fail_memory(err);
  KF_TRY(each_label(ctx, data, count_labels, s));
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
  return each_label(ctx, data, take_share, s);
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

void kf_row_list_keep(kf_row_list *rows, uint64_t most) {
  uint64_t n = rows->n;
  if (n <= most) return;
  rows->n = 0;
  for (uint64_t i = 0; i < n; i++)
    if (kf_takes(i, most, n)) kf_row_list_add(rows, rows->row[i], rows->label[i]);
}

kf_status kf_class_places(const kf_row_list *rows, uint32_t n_classes, uint64_t **out,
                          kf_err *err) {
  uint64_t *next = kf_alloc_zero(n_classes, sizeof *next), begin = 0;
  if (next == NULL) return kf_fail_memory(err);
  for (uint64_t i = 0; i < rows->n; i++) next[rows->label[i]]++;
  for (uint32_t k = 0; k < n_classes; k++) {
    uint64_t n = next[k];
    next[k] = begin;
    begin += n;
  }
  *out = next;
  return KF_OK;
}

kf_status kf_row_list_keep_shares(kf_row_list *rows, uint32_t n_classes, uint64_t most,
                                  kf_err *err) {
  uint64_t *next = NULL, n = rows->n;
  if (n <= most) return KF_OK;
  KF_TRY(kf_class_places(rows, n_classes, &next, err));
  rows->n = 0;
  for (uint64_t i = 0; i < n; i++)
    if (kf_takes(next[rows->label[i]]++, most, n))
      kf_row_list_add(rows, rows->row[i], rows->label[i]);
  kf_free(next);
  return KF_OK;
}

/* With a truth, rows need no labels. */
static kf_status list_rows(kf_ctx *ctx, const kf_data *data, const kf_truth *truth, uint64_t most,
                           kf_row_list *out) {
  uint64_t labelled;
  if (truth == NULL) {
    KF_TRY(kf_sample_rows(ctx, data, UINT64_MAX, out, &labelled));
    return kf_row_list_keep_shares(out, data->n_classes, most, &ctx->err);
  }
  KF_TRY(kf_row_list_make(out, most, &ctx->err));
  for (uint64_t row = 0; row < data->rows; row++)
    if (kf_takes(row, most, data->rows)) kf_row_list_add(out, row, KF_LABEL_NONE);
  return KF_OK;
}

kf_status kf_test_sample_take(kf_ctx *ctx, const kf_data *test, const kf_truth *truth,
                              uint64_t most, kf_test_sample *out) {
  *out = (kf_test_sample){0};
  bool bad = truth != NULL ? truth->rows != test->rows : !test->has_labels; /* refused later */
  if (most == 0 || test->rows <= most || bad) return KF_OK;
  KF_TRY(list_rows(ctx, test, truth, most, &out->rows));
  if (truth != NULL)
    KF_TRY(kf_truth_pick(truth, out->rows.row, out->rows.n, &out->truth, &ctx->err));
  return kf_data_new_pick(test, out->rows.row, out->rows.n, &out->data, &ctx->err);
}

void kf_test_sample_clear(kf_test_sample *sample) {
  kf_data_free(sample->data);
  kf_truth_free(sample->truth);
  kf_row_list_clear(&sample->rows);
}

/* --- the first rows of each class ------------------------------------------------------------- */

static kf_status take_first(void *argument, const kf_batch *b, kf_err *err) {
  sampling *s = argument;
  (void)err;
  for (uint64_t i = 0; i < b->n; i++) {
    int32_t label = b->labels[i];
    if (label < 0 || s->seen[label] >= s->share[label]) continue;
    s->out.row[s->count[label] + s->seen[label]++] = b->first + i;
  }
  return KF_OK;
}

kf_status kf_first_rows(kf_ctx *ctx, const kf_data *data, uint64_t *most, uint64_t *ends,
                        kf_row_list *out) {
  sampling s = {.share = most, .count = ends};
  uint64_t n = 0;
  for (uint32_t k = 0; k < data->n_classes; n += most[k++]) ends[k] = n;
  KF_TAKE_ZERO(&s.arena, s.seen, data->n_classes);
  kf_status status = s.arena.failed ? kf_fail_memory(&ctx->err) : KF_OK;
  if (status == KF_OK) status = kf_row_list_make(&s.out, n, &ctx->err);
  if (status == KF_OK) status = each_label(ctx, data, take_first, &s);
  for (uint32_t k = 0; status == KF_OK && k < data->n_classes; k++) {
    for (uint64_t i = 0; i < s.seen[k]; i++) /* gaps: the file has changed */
      kf_row_list_add(&s.out, s.out.row[ends[k] + i], (int32_t)k);
    ends[k] = s.out.n;
  }
  kf_arena_free(&s.arena);
  if (status == KF_OK)
    *out = s.out;
  else
    kf_row_list_clear(&s.out);
  return status;
}
