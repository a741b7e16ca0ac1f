/* probabilities.c - probabilities of classes: softmax(temperature * score) over all classes that
 * take part.
 *
 * A score is a cosine, a fused score, or minus half the squared distance: larger is nearer. All are
 * canonical sums, so they equal the scores of kf_classify and order the classes alike. With s the
 * scores and m their maximum, class k has
 *
 *     p_k = exp(T (s_k - m)) / sum_j exp(T (s_j - m)),
 *
 * with kf_exp and the fixed order of kf_sum_exp: the same bits everywhere. The scores of ROWS rows
 * are held at a time, 8 * ROWS bytes for each class and worker.
 *
 * With very many classes, nearly all the time goes into classes that each matter little. Their
 * cosines are then sums in f32, over columns in order. The error is at most gamma = (dim + 1) 2^-24
 * times the lengths, which changes a probability by a factor of at most 1 + 2 T gamma, and in
 * practice by a hundredth of that. This takes 4 * NARROW_ROWS bytes for each class and worker. */
#include "search/device_sums.h"
#include "search/index.h"

#include <math.h>
#include <string.h>

/* Rows and prototypes of a panel, which stays in the cache. */
enum { ROWS = 8, PANEL = 64 };
/* The same in f32, above MAX_WIDE_CLASSES classes. */
enum { MAX_WIDE_CLASSES = 4096, NARROW_ROWS = 128, NARROW_PANEL = 512 };

/* --- all scores ------------------------------------------------------------------------------- */

void kf_prototypes_copy(const kf_prototypes *p, float *rows) {
  kf_index_copy(p->index, p->kernels, 0, p->n, rows);
}

static void score_panel(const kf_prototypes *p, const float *query, uint32_t first, uint32_t n,
                        double *scores) {
  const kf_index *index = p->index;
  const float *rows[PANEL] = {NULL};
  bool euclidean = p->metric == KF_METRIC_EUCLIDEAN;
  for (uint32_t j = 0; j < n; j++) rows[j] = index->rows + (uint64_t)(first + j) * p->dim;
  (euclidean ? p->kernels->distances : p->kernels->dots)(query, rows, n, p->dim, scores + first);
  for (uint32_t j = first; euclidean && j < first + n; j++) scores[j] *= -0.5;
}

/* The workspace of scores in f32. */
typedef struct narrow_scores {
  float *queries; /* [dim][NARROW_ROWS] in columns */
  float *panel;   /* [dim][NARROW_PANEL] prototypes in columns */
  float *sums;    /* [NARROW_ROWS][n] */
  double *scores; /* [n] */
} narrow_scores;

static void to_columns(const float *rows, uint64_t n, uint64_t dim, uint64_t stride, float *out) {
  for (uint64_t i = 0; i < n; i++)
    for (uint64_t d = 0; d < dim; d++) out[d * stride + i] = rows[i * dim + d];
}

static void score_narrow(const kf_prototypes *p, const float *queries, uint64_t n,
                         narrow_scores *m) {
  to_columns(queries, n, p->dim, NARROW_ROWS, m->queries);
  memset(m->sums, 0, n * p->n * sizeof *m->sums);
  for (uint64_t first = 0; first < p->n; first += NARROW_PANEL) {
    uint64_t classes = p->n - first < NARROW_PANEL ? p->n - first : NARROW_PANEL;
    to_columns(p->index->rows + first * p->dim, classes, p->dim, NARROW_PANEL, m->panel);
    p->kernels->gemm_tn_f32(m->queries, NARROW_ROWS, m->panel, NARROW_PANEL, m->sums + first, p->n,
                            n, classes, p->dim);
  }
}

static kf_status scores_narrow(const kf_prototypes *p, const float *queries, uint64_t n,
                               kf_scores_fn use, void *argument, kf_err *err) {
  kf_arena arena = {0};
  narrow_scores m;
  KF_TAKE(&arena, m.queries, (uint64_t)p->dim * NARROW_ROWS);
  KF_TAKE(&arena, m.panel, (uint64_t)p->dim * NARROW_PANEL);
  KF_TAKE(&arena, m.sums, (uint64_t)p->n * NARROW_ROWS);
  KF_TAKE(&arena, m.scores, p->n);
  kf_status status = arena.failed ? kf_fail_memory(err) : KF_OK;
  for (uint64_t first = 0; status == KF_OK && first < n; first += NARROW_ROWS) {
    uint64_t taken = n - first < NARROW_ROWS ? n - first : NARROW_ROWS;
    score_narrow(p, queries + first * p->dim, taken, &m);
    for (uint64_t i = 0; i < taken; i++) {
      for (uint32_t j = 0; j < p->n; j++) m.scores[j] = (double)m.sums[i * p->n + j];
      use(argument, first + i, m.scores);
    }
  }
  kf_arena_free(&arena);
  return status;
}

bool kf_scores_narrow(const kf_prototypes *p) {
  return p->n > MAX_WIDE_CLASSES && p->metric != KF_METRIC_EUCLIDEAN;
}

kf_status kf_prototypes_scores(const kf_prototypes *p, const float *queries, uint64_t n,
                               kf_scores_fn use, void *argument, kf_err *err) {
  if (kf_scores_narrow(p)) return scores_narrow(p, queries, n, use, argument, err);
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

double kf_row_score(const kf_row_scores *scores, uint32_t place) {
  const kf_prototypes *p = scores->p;
  if (scores->all != NULL) return scores->all[place];
  if (!kf_scores_narrow(p)) {
    double score = 0;
    const float *row = p->index->rows + (uint64_t)place * p->dim;
    bool euclidean = p->metric == KF_METRIC_EUCLIDEAN;
    (euclidean ? p->kernels->distances : p->kernels->dots)(scores->query, &row, 1, p->dim, &score);
    return euclidean ? -0.5 * score : score;
  }
  float sum = 0; /* a product of one row and one column */
  p->kernels->gemm_tn_f32(scores->query, 1, p->index->rows + (uint64_t)place * p->dim, 1, &sum, 1,
                          1, 1, p->dim);
  return (double)sum;
}

typedef struct odds_job {
  const kf_prototypes_use *use;
  const float *queries;
  kf_odds_fn fn;
  void *argument;
} odds_job;

static void find_odds(void *argument, uint64_t row, const double *scores) {
  const odds_job *j = argument;
  const kf_prototypes *p = j->use->p;
  double t = j->use->temperature;
  kf_odds odds = {.temperature = t, .most = kf_largest(scores, p->n)};
  odds.sum = kf_sum_exp(scores, p->n, odds.most, t);
  if (j->use->squares) odds.squares = kf_sum_exp(scores, p->n, odds.most, 2 * t);
  j->fn(j->argument, row, &odds, &(kf_row_scores){p, j->queries + row * p->dim, scores});
}

kf_status kf_prototypes_odds(const kf_prototypes_use *use, const float *queries, uint64_t n,
                             kf_odds_fn fn, void *argument, kf_err *err) {
  odds_job j = {use, queries, fn, argument};
  bool done = false;
  kf_odds *odds = use->sums.slots != NULL ? kf_alloc(n, sizeof *odds) : NULL;
  if (use->sums.slots != NULL && odds == NULL) return kf_fail_memory(err);
  kf_status status = odds != NULL ? kf_sums_find(use, queries, n, odds, &done, err) : KF_OK;
  for (uint64_t i = 0; done && i < n; i++)
    fn(argument, i, &odds[i], &(kf_row_scores){use->p, queries + i * use->p->dim, NULL});
  kf_free(odds);
  if (done || status != KF_OK) return status;
  return kf_prototypes_scores(use->p, queries, n, find_odds, &j, err);
}

double kf_probability(const kf_odds *s, double score) {
  return kf_exp(s->temperature * (score - s->most)) / s->sum;
}

/* --- the temperature ------------------------------------------------------------------------- */

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
