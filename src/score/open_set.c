/* open_set.c - how well the score of the nearest prototype separates rows of known classes from
 * others.
 *
 * Scores are sorted, 8 bytes a row. Larger means more like a known class, so distances are negated.
 * The area under the ROC curve is the probability that a known row has a larger score than an
 * unknown row, with ties counting half. Twice the number of such combinations is an integer, so
 * only the last division rounds. */
#include "score/evaluation.h"

#include <math.h>
#include <stdlib.h>

typedef struct score_list {
  double *at; /* [rows], NaN: the row has none; once sorted, the first n, rising */
  double sign;
} score_list;

static void keep(void *argument, kf_tally *tally, const kf_answer *row) {
  (void)tally;
  const score_list *scores = argument;
  scores->at[row->row] = scores->sign * row->scores[0];
}

static int by_value(const void *a, const void *b) {
  const double *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

static void sort_scores(score_list *scores, uint64_t rows) {
  uint64_t n = 0;
  for (uint64_t i = 0; i < rows; i++)
    if (!isnan(scores->at[i])) scores->at[n++] = scores->at[i];
  qsort(scores->at, n, sizeof *scores->at, by_value);
}

/* Empty; check the arena. */
static score_list make_list(kf_arena *arena, uint64_t rows, bool distances) {
  score_list scores = {.sign = distances ? -1 : 1};
  KF_TAKE(arena, scores.at, rows);
  for (uint64_t i = 0; !arena->failed && i < rows; i++) scores.at[i] = NAN;
  return scores;
}

/* Walks up both lists, counting for every known score the unknown ones below it. */
static double area(const double *known, uint64_t n, const double *unknown, uint64_t m) {
  uint64_t twice = 0, below = 0, upto = 0;
  for (uint64_t i = 0; i < n; i++) {
    while (below < m && unknown[below] < known[i]) below++;
    if (upto < below) upto = below;
    while (upto < m && unknown[upto] <= known[i]) upto++;
    twice += below + upto;
  }
  return (double)twice / 2 / (double)n / (double)m;
}

static void summarise(const score_list *known, const score_list *unknown, kf_open_set_result *out) {
  uint64_t n = out->n_known, m = out->n_unknown, taken = 0;
  out->auroc = area(known->at, n, unknown->at, m);
  double threshold = known->at[n / 20]; /* at most 5 % of the known rows are below it */
  for (uint64_t i = 0; i < m; i++) taken += unknown->at[i] >= threshold;
  out->fpr95 = (double)taken / (double)m;
  out->threshold = known->sign * threshold;
}

static double share_reaching(const score_list *scores, uint64_t n, double threshold) {
  uint64_t reaching = 0;
  for (uint64_t i = 0; i < n; i++) reaching += scores->at[i] >= threshold;
  return (double)reaching / (double)n;
}

/* Measures what the threshold of the model keeps and refuses. */
static void apply_threshold(const kf_prototypes *p, const score_list *known,
                            const score_list *unknown, kf_open_set_result *out) {
  const kf_model *m = p->model;
  if (!(m->reject_share > 0) || !kf_prototypes_own(p)) return;
  out->kept = share_reaching(known, out->n_known, known->sign * m->reject);
  out->refused = 1 - share_reaching(unknown, out->n_unknown, known->sign * m->reject);
}

static kf_status measure(const kf_evaluation *e, const kf_data *others, kf_arena *arena,
                         kf_open_set_result *out) {
  kf_err *err = &e->ctx->err;
  const kf_prototypes *p = e->mapped != NULL ? e->mapped : e->raw;
  bool distances = p->metric == KF_METRIC_EUCLIDEAN;
  kf_eval_result counts;
  score_list known = make_list(arena, e->data->rows, distances);
  score_list unknown = make_list(arena, others->rows, distances);
  if (arena->failed) return kf_fail_memory(err);
  KF_TRY(kf_evaluation_run(e, NULL, keep, &known, &counts));
  KF_TRY(kf_join_rows(e->ctx, e->data, known.at, sizeof *known.at));
  out->n_known = counts.n;
  KF_TRY(kf_evaluation_run(e, others, keep, &unknown, &counts));
  KF_TRY(kf_join_rows(e->ctx, others, unknown.at, sizeof *unknown.at));
  out->n_unknown = counts.n;
  if (counts.n == 0) return kf_fail(err, KF_ERR_DATA, "all rows of unknown classes are bad");
  sort_scores(&known, e->data->rows);
  sort_scores(&unknown, others->rows);
  summarise(&known, &unknown, out);
  apply_threshold(p, &known, &unknown, out);
  return KF_OK;
}

kf_status kf_open_set(kf_ctx *ctx, const kf_model *model, const kf_data *known,
                      const kf_data *unknown, const kf_analysis_options *options,
                      kf_open_set_result *out) {
  KF_ENTER(ctx, model != NULL && known != NULL && unknown != NULL && out != NULL);
  KF_OPTIONS(kf_analysis_options, o, options);
  KF_TRY(kf_map_check_data(&model->map, unknown, err));
  kf_evaluation e;
  kf_arena arena = {0};
  kf_open_set_result result = {0};
  kf_eval_options space = kf_one_space(&o);
  kf_status status = kf_evaluation_start(&e, ctx, model, known, &space, 1);
  if (status == KF_OK) status = measure(&e, unknown, &arena, &result);
  if (status == KF_OK) *out = result;
  kf_evaluation_clear(&e);
  kf_arena_free(&arena);
  return status;
}
