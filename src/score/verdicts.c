/* verdicts.c - right or wrong, row by row: of a model, or of answers in a file. */
#include "score/evaluation.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void kf_verdicts_free(kf_verdicts *verdicts) { kf_free(verdicts); }

const kf_eval_result *kf_verdicts_counts(const kf_verdicts *verdicts) { return &verdicts->counts; }

/* --- of a model ------------------------------------------------------------------------------- */

static void keep(void *argument, kf_tally *tally, const kf_answer *row) {
  kf_verdicts *v = argument;
  bool right = kf_is_right(&row->right, row->answers[0]);
  v->of[row->row] = right ? KF_VERDICT_RIGHT : KF_VERDICT_WRONG;
  tally->sum.top1 += right;
}

kf_status kf_verdicts_new(kf_ctx *ctx, const kf_model *model, const kf_data *data,
                          const kf_analysis_options *options, kf_verdicts **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, model != NULL && data != NULL && out != NULL);
  KF_OPTIONS(kf_analysis_options, o, options);
  kf_verdicts *v = kf_alloc_tail(sizeof *v, data->rows, 1);
  if (v == NULL) return kf_fail_memory(err);
  v->rows = data->rows;
  v->origin = model->map.origin;
  kf_eval_options space = kf_one_space(&o);
  kf_status status = kf_evaluate(ctx, model, data, &space, 1, keep, v, &v->counts);
  if (status == KF_OK) status = kf_join_rows(ctx, data, v->of, 1);
  KF_HAND_OUT(status, out, v, kf_verdicts_free);
}

/* --- reading answers -------------------------------------------------------------------------- */

typedef struct answers {
  const char *path;
  uint64_t rows;
  const kf_data *data;   /* NULL: rows have no labels */
  uint32_t n_classes;    /* of labels or truth */
  const kf_names *names; /* of labels or truth; n = 0: numbers */
  kf_dict *map;          /* of the names */
  bool ids;              /* the second column is the id of the row */
  int32_t *answer;       /* [rows] class of labels or truth, NO_CLASS or NO_LINE */
  kf_string name;        /* without escapes */
  kf_judge judge;
  kf_tally *tally;
  kf_verdicts *out;
  kf_arena arena;
} answers;

enum { NO_LINE = -2, NO_CLASS = -1 };

static kf_status read_class(answers *a, uint64_t line, const char *text, size_t length,
                            int32_t *out, kf_err *err) {
  uint64_t number;
  *out = NO_CLASS;
  if (length == 0) return KF_OK; /* the neighbours have no labels */
  if (a->map != NULL) {
    kf_unescape(text, length, &a->name);
    if (a->name.failed) return kf_fail_memory(err);
    *out = (int32_t)kf_dict_find(a->map, a->name.data, a->name.n);
    return KF_OK;
  }
  if (!kf_read_digits(text, length, KF_MAX_CLASSES, &number))
    return kf_fail_file(
        err, a->path, "line %" PRIu64 " has a class name, but the labels are class numbers", line);
  if (number < a->n_classes) *out = (int32_t)number;
  return KF_OK;
}

static bool begins_with(const char *text, size_t length, const char *header) {
  size_t n = strlen(header);
  return length > n && memcmp(text, header, n) == 0;
}

static kf_status answer_line(void *argument, uint64_t line, const char *text, size_t length,
                             kf_err *err) {
  answers *a = argument;
  if (line == 1) {
    a->ids = begins_with(text, length, "row\tid\tclass1\t");
    if (a->ids || begins_with(text, length, "row\tclass1\t")) return KF_OK;
    return kf_fail_file(err, a->path,
                        "this is not a table of answers: its first line does not begin with the "
                        "columns 'row' and 'class1' between tabs");
  }
  const char *tab = memchr(text, '\t', length);
  uint64_t row;
  if (tab == NULL || !kf_read_digits(text, (size_t)(tab - text), UINT64_MAX / 20, &row))
    return kf_fail_file(err, a->path, "line %" PRIu64 " does not begin with a row number and a tab",
                        line);
  if (row >= a->rows)
    return kf_fail_file(err, a->path,
                        "line %" PRIu64 " answers row %" PRIu64 ", but there are %" PRIu64 " rows",
                        line, row, a->rows);
  if (a->answer[row] != NO_LINE)
    return kf_fail_file(err, a->path, "line %" PRIu64 " answers row %" PRIu64 " again", line, row);
  if (a->ids) tab = memchr(tab + 1, '\t', length - (size_t)(tab + 1 - text));
  if (tab == NULL) return kf_fail_file(err, a->path, "line %" PRIu64 " has no class", line);
  const char *class = tab + 1;
  size_t left = length - (size_t)(class - text);
  const char *end = memchr(class, '\t', left);
  return read_class(a, line, class, end != NULL ? (size_t)(end - class) : left, &a->answer[row],
                    err);
}

/* --- judging answers -------------------------------------------------------------------------- */

static void judge_row(answers *a, uint64_t row, int32_t label) {
  int32_t answer = a->answer[row];
  kf_right right;
  if (answer == NO_LINE) label = KF_LABEL_BAD; /* the file has no answer for it */
  if (kf_count_row(a->tally, &a->judge, row, label, &right) != KF_FATE_SCORED) return;
  bool hit = kf_is_right(&right, answer);
  a->out->of[row] = hit ? KF_VERDICT_RIGHT : KF_VERDICT_WRONG;
  a->tally->sum.top1 += hit;
}

static kf_status judge_batch(void *argument, const kf_batch *b, kf_err *err) {
  (void)err;
  for (uint64_t i = 0; i < b->n; i++) judge_row(argument, b->first + i, b->labels[i]);
  return KF_OK;
}

static kf_status judge_rows(kf_ctx *ctx, answers *a) {
  kf_pass pass = {.workers = 1, .labels_only = true, .work = judge_batch, .argument = a};
  if (a->data != NULL) KF_TRY(kf_each_batch(ctx, a->data, &pass));
  for (uint64_t i = 0; a->data == NULL && i < a->rows; i++) judge_row(a, i, KF_LABEL_NONE);
  kf_tallies_sum(a->tally, 1, &a->judge, &a->out->counts);
  return kf_check_scored(&a->judge, &a->out->counts, &ctx->err);
}

static kf_status judge_file(kf_ctx *ctx, answers *a, const kf_truth *truth,
                            const kf_class_set *set) {
  kf_err *err = &ctx->err;
  int64_t *counts; /* 1: every class of the labels or of the truth is known */
  KF_TAKE(&a->arena, a->answer, a->rows);
  KF_TAKE(&a->arena, counts, a->n_classes);
  if (a->arena.failed) return kf_fail_memory(err);
  for (uint64_t i = 0; i < a->rows; i++) a->answer[i] = NO_LINE;
  for (uint32_t k = 0; k < a->n_classes; k++) counts[k] = 1;
  if (a->names->n > 0) KF_TRY(kf_dict_new_from_names(a->names, "labels", &a->map, err));
  KF_TRY(kf_lines_read(a->path, answer_line, a, err));
  kf_known known = {
      .what = "the labels", .n_classes = a->n_classes, .names = a->names, .counts = counts};
  KF_TRY(kf_judge_start(ctx, &a->judge, known, set, a->data, a->rows, truth));
  a->tally = kf_tallies_take(&a->arena, &a->judge, 1);
  return a->tally != NULL ? judge_rows(ctx, a) : kf_fail_memory(err);
}

kf_status kf_verdicts_read(kf_ctx *ctx, const char *path, const kf_data *data,
                           const kf_truth *truth, const kf_class_set *set, kf_verdicts **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, path != NULL && (data != NULL || truth != NULL) && out != NULL);
  answers a = {.path = path, .data = data, .rows = data != NULL ? data->rows : truth->rows};
  a.n_classes = truth != NULL ? truth->n_classes : data->n_classes;
  a.names = truth != NULL ? &truth->names : &data->names;
  kf_verdicts *v = kf_alloc_tail(sizeof *v, a.rows, 1);
  if (v == NULL) return kf_fail_memory(err);
  v->rows = a.rows;
  a.out = v;
  kf_status status = judge_file(ctx, &a, truth, set);
  kf_judge_clear(&a.judge);
  kf_arena_free(&a.arena);
  kf_dict_free(a.map);
  kf_string_clear(&a.name);
  KF_HAND_OUT(status, out, v, kf_verdicts_free);
}
