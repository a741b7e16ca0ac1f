/* analysis.c - errors by class, confusions, and accuracy by margin.
 *
 * The pass keeps 17 bytes for each row: class, answer, position of the right answer, margin. Then
 * one thread sorts and counts these, so the result does not depend on the order of the pass. */
#include "score/evaluation.h"

#include <stdlib.h>
#include <string.h>

#define BINS 10u

typedef struct kf_outcome {
  double margin;
  int32_t truth, answer; /* truth -1: the row was left out */
} outcome;

void kf_outcomes_take(kf_outcomes *all, const kf_ctx *ctx, uint64_t rows, bool mistakes,
                      kf_arena *arena) {
  *all = (kf_outcomes){0};
  KF_TAKE(arena, all->rows, rows);
  KF_TAKE(arena, all->position, rows);
  KF_TAKE_ZERO(arena, all->chances, ctx->threads);
  if (mistakes) KF_TAKE_ZERO(arena, all->mistakes, ctx->threads);
  for (uint64_t i = 0; !arena->failed && i < rows; i++) all->rows[i].truth = -1;
}

uint32_t kf_outcomes_add(const kf_outcomes *all, const kf_answer *row) {
  uint32_t position = kf_right_position(&row->right, row->answers, row->top);
  double margin = row->top > 1 ? row->scores[0] - row->scores[1] : 0;
  all->rows[row->row] = (outcome){.margin = margin < 0 ? -margin : margin,
                                  .truth = row->right.classes[0],
                                  .answer = row->answers[0]};
  all->position[row->row] = (unsigned char)(position < row->top ? position : KF_TOP);
  if (all->echoes) return position;
  if (row->chance != NULL) kf_chance_add(&all->chances[row->worker], row->chance, position == 0);
  if (position > 0 && all->mistakes != NULL)
    kf_mistake_add(&all->mistakes[row->worker], row, all->rows[row->row].margin);
  return position;
}

static void keep(void *argument, kf_tally *tally, const kf_answer *row) {
  uint32_t position = kf_outcomes_add(argument, row);
  tally->sum.top1 += position == 0;
  tally->sum.top5 += position < row->top;
}

/* --- by class --------------------------------------------------------------------------------- */

static void count_classes(const kf_outcomes *all, uint64_t rows, kf_class_result *classes) {
  for (uint64_t i = 0; i < rows; i++) {
    const outcome *o = &all->rows[i];
    if (o->truth < 0) continue;
    kf_class_result *of = &classes[o->truth];
    of->n++;
    of->top1 += all->position[i] == 0;
    of->top5 += all->position[i] < KF_TOP;
    classes[o->answer].answers++;
  }
}

/* Moves scored rows to the front; returns how many. From here on an answer is right if it equals
 * the truth: a row with several right classes gets the one that was answered as its truth. */
static uint64_t pack(const kf_outcomes *all, uint64_t rows) {
  uint64_t n = 0;
  for (uint64_t i = 0; i < rows; i++) {
    if (all->rows[i].truth < 0) continue;
    all->rows[n] = all->rows[i];
    if (all->position[i] == 0) all->rows[n].truth = all->rows[i].answer;
    n++;
  }
  return n;
}

/* --- confusions ------------------------------------------------------------------------------- */

static int by_pair(const void *a, const void *b) {
  const outcome *x = a, *y = b;
  if (x->truth != y->truth) return x->truth < y->truth ? -1 : 1;
  return (x->answer > y->answer) - (x->answer < y->answer);
}

static int by_number(const void *a, const void *b) {
  const kf_confusion *x = a, *y = b;
  if (x->n != y->n) return x->n > y->n ? -1 : 1;
  if (x->truth != y->truth) return x->truth < y->truth ? -1 : 1;
  return (x->answer > y->answer) - (x->answer < y->answer);
}

static bool is_new_pair(const outcome *rows, uint64_t i) {
  return rows[i].truth != rows[i].answer && (i == 0 || by_pair(&rows[i], &rows[i - 1]) != 0);
}

static kf_status count_confusions(outcome *rows, uint64_t n, kf_analysis *out, kf_err *err) {
  qsort(rows, n, sizeof *rows, by_pair);
  for (uint64_t i = 0; i < n; i++) out->n_confusions += is_new_pair(rows, i);
  out->confusions = kf_alloc(out->n_confusions, sizeof *out->confusions);
  if (out->confusions == NULL) return kf_fail_memory(err);
  kf_confusion *next = out->confusions;
  for (uint64_t i = 0; i < n; i++) {
    if (rows[i].truth == rows[i].answer) continue;
    if (is_new_pair(rows, i))
      *next++ = (kf_confusion){.truth = rows[i].truth, .answer = rows[i].answer};
    next[-1].n++;
  }
  qsort(out->confusions, out->n_confusions, sizeof *out->confusions, by_number);
  return KF_OK;
}

/* --- margins ---------------------------------------------------------------------------------- */

static int by_margin(const void *a, const void *b) {
  const outcome *x = a, *y = b;
  return (x->margin > y->margin) - (x->margin < y->margin);
}

/* Rows of equal margin share a bin, so a bin may be larger than others, or missing. */
static void count_margins(outcome *rows, uint64_t n, kf_analysis *out) {
  qsort(rows, n, sizeof *rows, by_margin);
  uint64_t at = 0;
  for (uint64_t b = 1; b <= BINS; b++) {
    uint64_t end = n / BINS * b + n % BINS * b / BINS;
    if (end <= at) continue;
    kf_margin_bin *bin = &out->bins[out->n_bins++];
    bin->low = rows[at].margin;
    while (end < n && rows[end].margin <= rows[end - 1].margin) end++;
    bin->high = rows[end - 1].margin;
    for (; at < end; at++) {
      bin->n++;
      bin->top1 += rows[at].truth == rows[at].answer;
    }
  }
}

/* --- kf_analysis_new -------------------------------------------------------------------------- */

/* Sets the temperature of these scores, unless none is known or given. */
static kf_status find_temperature(kf_evaluation *e, double given) {
  const kf_prototypes *p = e->mapped != NULL ? e->mapped : e->raw;
  if (given == 0 && !(p->model->temperature > 0 && kf_prototypes_own(p))) return KF_OK;
  return kf_prototypes_temperature(p, given, &e->temperature, &e->ctx->err);
}

static kf_status fill_calibration(kf_ctx *ctx, const kf_outcomes *all, double temperature,
                                  kf_analysis *out) {
  if (!(temperature > 0)) return KF_OK;
  out->calibration = kf_alloc_zero(1, sizeof *out->calibration);
  if (out->calibration == NULL) return kf_fail_memory(&ctx->err);
  kf_calibration_fill(out->calibration, all->chances, ctx->threads, temperature, &out->totals);
  return KF_OK;
}

kf_status kf_outcomes_end(kf_ctx *ctx, kf_status status, const kf_outcomes *all,
                          const kf_data *data, double temperature, const kf_eval_result *totals,
                          kf_analysis *out) {
  if (status == KF_OK) status = kf_join_rows(ctx, data, all->rows, sizeof *all->rows);
  if (status == KF_OK) status = kf_join_rows(ctx, data, all->position, 1);
  if (all->mistakes != NULL) {
    kf_status joined =
        kf_mistakes_join(ctx, all->mistakes, ctx->threads, &out->mistakes, &out->n_mistakes);
    if (status == KF_OK) status = joined;
  }
  if (status == KF_OK) status = kf_chance_add_ranks(ctx, all->chances, ctx->threads);
  KF_TRY(status);
  out->totals = *totals;
  KF_TRY(fill_calibration(ctx, all, temperature, out));
  count_classes(all, data->rows, out->classes);
  uint64_t n = pack(all, data->rows);
  KF_TRY(count_confusions(all->rows, n, out, &ctx->err));
  count_margins(all->rows, n, out);
  return KF_OK;
}

kf_analysis *kf_analysis_empty(uint32_t n_classes, kf_err *err) {
  kf_analysis *analysis = kf_alloc_tail(
      sizeof *analysis, 1, BINS * sizeof *analysis->bins + n_classes * sizeof *analysis->classes);
  if (analysis == NULL) {
    kf_fail_memory(err);
    return NULL;
  }
  analysis->bins = (kf_margin_bin *)(analysis + 1);
  analysis->classes = (kf_class_result *)(analysis->bins + BINS);
  analysis->n_classes = n_classes;
  return analysis;
}

static kf_status analyse(kf_evaluation *e, const kf_analysis_options *o, kf_arena *arena,
                         kf_analysis *out) {
  kf_ctx *ctx = e->ctx;
  kf_outcomes all;
  kf_eval_result totals = {0};
  kf_outcomes_take(&all, ctx, e->data->rows, o->mistakes != 0, arena);
  if (arena->failed) return kf_fail_memory(&ctx->err);
  KF_TRY(find_temperature(e, o->temperature));
  kf_status status = kf_evaluation_run(e, NULL, keep, &all, &totals);
  return kf_outcomes_end(ctx, status, &all, e->data, e->temperature, &totals, out);
}

kf_status kf_analysis_new(kf_ctx *ctx, const kf_model *model, const kf_data *data,
                          const kf_analysis_options *options, kf_analysis **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, model != NULL && data != NULL && out != NULL);
  KF_OPTIONS(kf_analysis_options, o, options);
  kf_eval_options space = kf_one_space(&o);
  kf_arena arena = {0};
  kf_analysis *analysis = kf_analysis_empty(model->n_classes, err);
  if (analysis == NULL) return KF_ERR_MEM;
  kf_evaluation e;
  kf_status status = kf_evaluation_start(&e, ctx, model, data, &space, KF_TOP);
  if (status == KF_OK) status = analyse(&e, &o, &arena, analysis);
  kf_evaluation_clear(&e);
  kf_arena_free(&arena);
  KF_HAND_OUT(status, out, analysis, kf_analysis_free);
}

void kf_analysis_free(kf_analysis *analysis) {
  if (analysis == NULL) return;
  kf_free(analysis->confusions);
  kf_free(analysis->mistakes);
  kf_calibration_free(analysis->calibration);
  kf_free(analysis);
}
