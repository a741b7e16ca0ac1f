/* probabilities.c - probabilities of classes: softmax(temperature * score) over all classes that
 * take part.
 *
 * A score is a cosine, a fused score, or minus half the squared distance: larger is nearer. All of
 * them are canonical sums, so those of the nearest classes are the ones that kf_classify gives, and
 * the order of classes is the same. With s the scores and m their maximum, class k has
 *
 *     p_k = exp(T (s_k - m)) / sum_j exp(T (s_j - m)),
 *
 * with kf_exp and the fixed order of kf_sum_exp: the same bits everywhere. The scores of a few rows
 * at a time are held, so memory is 8 * ROWS bytes for each class and worker. */
#include "search/index.h"

#include <math.h>

/* Rows that share a look at the prototypes, and prototypes at a time: these stay in the cache. */
enum { ROWS = 8, PANEL = 64 };

/* --- all scores ------------------------------------------------------------------------------- */

static void score_panel(const kf_prototypes *p, const float *query, uint32_t first, uint32_t n,
                        double *scores) {
  const kf_index *index = p->index;
  const float *rows[PANEL] = {NULL};
  bool euclidean = p->metric == KF_METRIC_EUCLIDEAN;
  for (uint32_t j = 0; j < n; j++) rows[j] = index->rows + (uint64_t)(first + j) * p->dim;
  (euclidean ? p->kernels->distances : p->kernels->dots)(query, rows, n, p->dim, scores + first);
  for (uint32_t j = first; euclidean && j < first + n; j++) scores[j] *= -0.5;
}

kf_status kf_prototypes_scores(const kf_prototypes *p, const float *queries, uint64_t n,
                               kf_scores_fn use, void *argument, kf_err *err) {
  double *scores = kf_alloc(ROWS * (uint64_t)p->n, sizeof *scores);
  if (scores == NULL) return kf_fail_memory(err);
  for (uint64_t first = 0; first < n; first += ROWS) {
    uint64_t taken = n - first < ROWS ? n - first : ROWS;
    for (uint32_t j = 0; j < p->n; j += PANEL)
      for (uint64_t i = 0; i < taken; i++)
        score_panel(p, queries + (first + i) * p->dim, j, p->n - j < PANEL ? p->n - j : PANEL,
                    scores + i * p->n);
    for (uint64_t i = 0; i < taken; i++) use(argument, first + i, scores + i * p->n);
  }
  kf_free(scores);
  return KF_OK;
}

kf_odds kf_odds_of(const double *scores, uint32_t n, double temperature) {
  kf_odds s = {.temperature = temperature, .most = kf_largest(scores, n)};
  s.sum = kf_sum_exp(scores, n, s.most, temperature);
  return s;
}

double kf_probability(const kf_odds *s, double score) {
  return kf_exp(s->temperature * (score - s->most)) / s->sum;
}

/* --- which temperature ------------------------------------------------------------------------ */

bool kf_prototypes_own(const kf_prototypes *p) {
  const kf_model *m = p->model;
  kf_part part = m->text != NULL ? KF_PART_FUSED : KF_PART_IMAGES;
  return !p->raw && p->part == part &&
         p->metric == kf_metric_for(KF_METRIC_DEFAULT, m->map.normalized);
}

kf_status kf_prototypes_temperature(const kf_prototypes *p, double given, double *out,
                                    kf_err *err) {
  if (!(given >= 0 && isfinite(given)))
    return kf_fail(err, KF_ERR_ARG, "the temperature is %g, it must be finite and above 0", given);
  *out = given > 0 ? given : p->model->temperature;
  if (given > 0 || (*out > 0 && kf_prototypes_own(p))) return KF_OK;
  return kf_fail_hint(err, KF_ERR_ARG, KF_HINT_TEMPERATURE,
                      *out > 0 ? "the temperature of the model is that of its own metric, space "
                                 "and part, not of these scores"
                               : "there are no probabilities: the model has no temperature, which "
                                 "a fit chooses from rows by their likelihood");
}

/* --- kf_classify_probabilities ----------------------------------------------------------------- */

typedef struct job {
  const kf_prototypes *prototypes;
  uint32_t top;
  double temperature;
  int32_t *classes;
  double *scores;        /* [n][top] */
  double *probabilities; /* [n][top] */
} job;

/* The rows of a batch: their places in the output. */
typedef struct part {
  const job *job;
  uint64_t first;
} part;

static void set_probabilities(void *argument, uint64_t row, const double *scores) {
  const part *b = argument;
  const job *j = b->job;
  const kf_prototypes *p = j->prototypes;
  kf_odds odds = kf_odds_of(scores, p->n, j->temperature);
  for (uint64_t at = (b->first + row) * j->top; at < (b->first + row + 1) * j->top; at++) {
    uint32_t place = kf_prototypes_place(p, j->classes[at]);
    j->probabilities[at] = kf_probability(&odds, scores[place]);
  }
}

static kf_status classify_batch(void *argument, const kf_batch *b, kf_err *err) {
  const job *j = argument;
  const kf_prototypes *p = j->prototypes;
  uint64_t to = b->first * j->top;
  float *queries = kf_alloc(b->n * p->dim, sizeof *queries);
  if (queries == NULL) return kf_fail_memory(err);
  kf_status status = kf_prototypes_queries(p, b->rows, b->norm2, b->n, queries, err);
  if (status == KF_OK)
    status = kf_prototypes_find(p, queries, b->n, j->top, j->classes + to,
                                j->scores != NULL ? j->scores + to : NULL, err);
  if (status == KF_OK)
    status = kf_prototypes_scores(p, queries, b->n, set_probabilities, &(part){j, b->first}, err);
  kf_free(queries);
  return status;
}

kf_status kf_classify_probabilities(kf_ctx *ctx, const kf_model *model, const float *rows,
                                    uint64_t n, const kf_classify_options *options,
                                    int32_t *classes, double *scores, double *probabilities) {
  KF_ENTER(ctx,
           model != NULL && (n == 0 || (rows != NULL && classes != NULL && probabilities != NULL)));
  KF_OPTIONS(kf_classify_options, o, options);
  kf_classifying c;
  job j = {.classes = classes, .scores = scores, .probabilities = probabilities};
  kf_status status = kf_classifying_start(&c, ctx, model, rows, n, &o);
  if (status == KF_OK)
    status = kf_prototypes_temperature(c.prototypes, o.temperature, &j.temperature, err);
  j.prototypes = c.prototypes;
  j.top = c.top;
  kf_pass pass = {.rows = KF_MAP_ROWS, .rows_only = true, .work = classify_batch, .argument = &j};
  if (status == KF_OK && n > 0) status = kf_each_batch(ctx, c.data, &pass);
  kf_classifying_clear(&c);
  return status;
}
