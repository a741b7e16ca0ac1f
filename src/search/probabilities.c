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
 * at a time are held, so memory is 8 * ROWS bytes for each class and worker.
 *
 * With very many classes nearly all the time goes into classes that matter little one by one. There
 * the scores of cosines are sums in f32, over columns in order: off by gamma = (dim + 1) 2^-24 times
 * the lengths at most, which changes a probability by 2 T gamma of itself, and in practice by a
 * hundredth of that. Memory is then 4 * MANY_ROWS bytes for each class and worker. */
#include "search/index.h"

#include <math.h>
#include <string.h>

/* Rows that share a look at the prototypes, and prototypes at a time: these stay in the cache. */
enum { ROWS = 8, PANEL = 64 };
/* The same in f32, if there are more classes than MANY. */
enum { MANY = 4096, MANY_ROWS = 128, MANY_PANEL = 512 };

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

/* What f32 scores need. */
typedef struct many_scores {
  float *queries; /* [dim][MANY_ROWS] in columns */
  float *panel;   /* [dim][MANY_PANEL] prototypes in columns */
  float *sums;    /* [MANY_ROWS][n] */
  double *scores; /* [n] */
} many_scores;

static void to_columns(const float *rows, uint64_t n, uint64_t dim, uint64_t stride, float *out) {
  for (uint64_t i = 0; i < n; i++)
    for (uint64_t d = 0; d < dim; d++) out[d * stride + i] = rows[i * dim + d];
}

static void score_many(const kf_prototypes *p, const float *queries, uint64_t n, many_scores *m) {
  to_columns(queries, n, p->dim, MANY_ROWS, m->queries);
  memset(m->sums, 0, n * p->n * sizeof *m->sums);
  for (uint64_t first = 0; first < p->n; first += MANY_PANEL) {
    uint64_t classes = p->n - first < MANY_PANEL ? p->n - first : MANY_PANEL;
    to_columns(p->index->rows + first * p->dim, classes, p->dim, MANY_PANEL, m->panel);
    p->kernels->gemm_tn_f32(m->queries, MANY_ROWS, m->panel, MANY_PANEL, m->sums + first, p->n, n,
                            classes, p->dim);
  }
}

static kf_status many_classes(const kf_prototypes *p, const float *queries, uint64_t n,
                              kf_scores_fn use, void *argument, kf_err *err) {
  kf_arena arena = {0};
  many_scores m;
  KF_TAKE(&arena, m.queries, (uint64_t)p->dim * MANY_ROWS);
  KF_TAKE(&arena, m.panel, (uint64_t)p->dim * MANY_PANEL);
  KF_TAKE(&arena, m.sums, (uint64_t)p->n * MANY_ROWS);
  KF_TAKE(&arena, m.scores, p->n);
  kf_status status = arena.failed ? kf_fail_memory(err) : KF_OK;
  for (uint64_t first = 0; status == KF_OK && first < n; first += MANY_ROWS) {
    uint64_t taken = n - first < MANY_ROWS ? n - first : MANY_ROWS;
    score_many(p, queries + first * p->dim, taken, &m);
    for (uint64_t i = 0; i < taken; i++) {
      for (uint32_t j = 0; j < p->n; j++) m.scores[j] = (double)m.sums[i * p->n + j];
      use(argument, first + i, m.scores);
    }
  }
  kf_arena_free(&arena);
  return status;
}

kf_status kf_prototypes_scores(const kf_prototypes *p, const float *queries, uint64_t n,
                               kf_scores_fn use, void *argument, kf_err *err) {
  if (p->n > MANY && p->metric != KF_METRIC_EUCLIDEAN)
    return many_classes(p, queries, n, use, argument, err);
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
  uint64_t begin = (b->first + row) * j->top;
  for (uint64_t at = begin; at < begin + j->top; at++) {
    double probability = kf_probability(&odds, scores[kf_prototypes_place(p, j->classes[at])]);
    bool rises = at > begin && probability > j->probabilities[at - 1]; /* by rounding to f32 */
    j->probabilities[at] = rises ? j->probabilities[at - 1] : probability;
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
  kf_pass pass = {.rows = kf_classify_rows(ctx, n),
                  .rows_only = true,
                  .shared = true,
                  .work = classify_batch,
                  .argument = &j};
  if (status == KF_OK && n > 0) {
    status = kf_each_batch(ctx, c.data, &pass);
    if (status == KF_OK) status = kf_classifying_join(&c, ctx, classes, scores, probabilities);
  }
  kf_classifying_clear(&c);
  return status;
}
