/* classifier.c - the nearest classes of rows, with probabilities if asked for. A classifier
 * prepares the prototypes once for many calls. */
#include "search/search.h"

struct kf_classifier {
  kf_prototypes *prototypes;
  uint32_t top;
  double temperature; /* as given */
};

static kf_status make(kf_ctx *ctx, const kf_model *model, const kf_classify_options *o,
                      kf_classifier **out) {
  kf_err *err = &ctx->err;
  kf_classifier *c = kf_alloc_zero(1, sizeof *c);
  if (c == NULL) return kf_fail_memory(err);
  c->top = o->top > 0 ? o->top : 1;
  c->temperature = o->temperature;
  kf_status status =
      kf_prototypes_new(ctx, model, o->metric, o->raw != 0, o->part, NULL, &c->prototypes);
  if (status == KF_OK && c->top > c->prototypes->n)
    status = kf_fail(err, KF_ERR_ARG,
                     "the %u nearest classes were requested, but only %u of the model take part",
                     c->top, c->prototypes->n);
  KF_HAND_OUT(status, out, c, kf_classifier_free);
}

kf_status kf_classifier_new(kf_ctx *ctx, const kf_model *model, const kf_classify_options *options,
                            kf_classifier **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, model != NULL && out != NULL);
  KF_OPTIONS(kf_classify_options, o, options);
  return make(ctx, model, &o, out);
}

void kf_classifier_free(kf_classifier *c) {
  if (c == NULL) return;
  kf_prototypes_free(c->prototypes);
  kf_free(c);
}

/* --- rows ------------------------------------------------------------------------------------- */

typedef struct job {
  const kf_prototypes *prototypes;
  kf_prototypes_use use;
  const float *rows; /* as given */
  kf_range share;    /* of the rows, on this rank */
  uint64_t each;     /* rows of a task */
  uint32_t top;
  double temperature; /* of probabilities; 0: not asked for */
  int32_t *classes;
  double *scores;        /* [n][top]; may be NULL */
  double *probabilities; /* [n][top]; NULL: not asked for */
} job;

/* A batch of rows, the first of which is row `first`. */
typedef struct part {
  const job *job;
  uint64_t first;
} part;

static void set_probabilities(void *argument, uint64_t row, const kf_odds *odds,
                              const kf_row_scores *scores) {
  const part *b = argument;
  const job *j = b->job;
  uint64_t begin = (b->first + row) * j->top;
  for (uint64_t at = begin; at < begin + j->top; at++) {
    uint32_t place = kf_prototypes_place(j->prototypes, j->classes[at]);
    double probability = kf_probability(odds, kf_row_score(scores, place));
    bool rises = at > begin && probability > j->probabilities[at - 1]; /* f32 rounding */
    j->probabilities[at] = rises ? j->probabilities[at - 1] : probability;
  }
}

/* The squared lengths of rows [first, first + n). */
static kf_status measure(const job *j, uint64_t first, uint64_t n, double *norm2, kf_err *err) {
  const kf_prototypes *p = j->prototypes;
  uint32_t dim = p->model->map.dim_in;
  for (uint64_t i = 0; i < n; i++) {
    norm2[i] = p->kernels->norm2(j->rows + (first + i) * dim, dim);
    KF_TRY(kf_check_norm2("row", first + i, norm2[i], true, err));
  }
  return KF_OK;
}

static kf_status classify_some(job *j, uint64_t first, uint64_t n, double *norm2, float *queries,
                               kf_err *err) {
  uint64_t to = first * j->top;
  const float *rows = j->rows + first * j->prototypes->model->map.dim_in;
  KF_TRY(measure(j, first, n, norm2, err));
  KF_TRY(kf_prototypes_queries(&j->use, rows, norm2, n, queries, err));
  KF_TRY(kf_prototypes_find(&j->use, queries, n, j->top, j->classes + to,
                            j->scores != NULL ? j->scores + to : NULL, err));
  if (j->probabilities == NULL) return KF_OK;
  return kf_prototypes_odds(&j->use, queries, n, set_probabilities, &(part){j, first}, err);
}

static kf_status classify_task(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  job *j = argument;
  uint64_t first = j->share.first + (uint64_t)i * j->each, left = j->share.last - first;
  uint64_t n = left < j->each ? left : j->each;
  double *norm2;
  float *queries;
  kf_arena arena = {0};
  KF_TAKE(&arena, norm2, n);
  KF_TAKE(&arena, queries, n * j->prototypes->dim);
  kf_status status =
      arena.failed ? kf_fail_memory(err) : classify_some(j, first, n, norm2, queries, err);
  kf_arena_free(&arena);
  return status;
}

/* Queries that pass over the prototypes together: few enough for all threads to have some. */
static uint64_t batch_rows(const kf_ctx *ctx, uint64_t n) {
  uint64_t each = n / ctx->threads;
  return each < KF_MAP_ROWS ? KF_MAP_ROWS : each < KF_CLASSIFY_ROWS ? each : KF_CLASSIFY_ROWS;
}

/* The answers of all ranks. */
static kf_status join_answers(kf_ctx *ctx, uint64_t n, const job *j, kf_status status) {
  void *arrays[] = {j->classes, j->scores, j->probabilities};
  uint64_t sizes[] = {sizeof *j->classes, sizeof *j->scores, sizeof *j->probabilities};
  for (int i = 0; i < 3; i++) {
    if (arrays[i] == NULL) continue;
    kf_share_ends(&ctx->ranks, n, 1);
    status = kf_join(ctx, status, arrays[i], j->top * sizes[i]);
  }
  return status;
}

static kf_status classify(kf_ctx *ctx, const kf_classifier *c, const float *rows, uint64_t n,
                          job j) {
  j.prototypes = c->prototypes;
  j.rows = rows;
  j.top = c->top;
  j.share = kf_share_of(&ctx->ranks, n, 1);
  if (j.probabilities != NULL)
    KF_TRY(kf_prototypes_temperature(j.prototypes, c->temperature, &j.temperature, &ctx->err));
  if (n == 0) return KF_OK;
  kf_prototypes_plan plan = {.rows = n, .top = j.top, .temperature = j.temperature};
  KF_TRY(kf_prototypes_begin(ctx, j.prototypes, &plan, &j.use));
  j.each = j.use.batch > 0 ? j.use.batch : batch_rows(ctx, n);
  uint64_t tasks = (j.share.last - j.share.first + j.each - 1) / j.each;
  kf_status status = kf_parallel(ctx, (size_t)tasks, classify_task, &j);
  return join_answers(ctx, n, &j, kf_prototypes_end(ctx, &j.use, status));
}

kf_status kf_classifier_classify(kf_ctx *ctx, const kf_classifier *c, const float *rows, uint64_t n,
                                 int32_t *classes, double *scores) {
  KF_ENTER(ctx, c != NULL && (n == 0 || (rows != NULL && classes != NULL)));
  return classify(ctx, c, rows, n, (job){.classes = classes, .scores = scores});
}

kf_status kf_classifier_probabilities(kf_ctx *ctx, const kf_classifier *c, const float *rows,
                                      uint64_t n, int32_t *classes, double *scores,
                                      double *probabilities) {
  KF_ENTER(ctx,
           c != NULL && (n == 0 || (rows != NULL && classes != NULL && probabilities != NULL)));
  return classify(ctx, c, rows, n,
                  (job){.classes = classes, .scores = scores, .probabilities = probabilities});
}

/* --- one call -------------------------------------------------------------------------------- */

static kf_status classify_once(kf_ctx *ctx, const kf_model *model, const float *rows, uint64_t n,
                               const kf_classify_options *o, job j) {
  kf_classifier *c;
  KF_TRY(make(ctx, model, o, &c));
  kf_status status = classify(ctx, c, rows, n, j);
  kf_classifier_free(c);
  return status;
}

kf_status kf_classify(kf_ctx *ctx, const kf_model *model, const float *rows, uint64_t n,
                      const kf_classify_options *options, int32_t *classes, double *scores) {
  KF_ENTER(ctx, model != NULL && (n == 0 || (rows != NULL && classes != NULL)));
  KF_OPTIONS(kf_classify_options, o, options);
  return classify_once(ctx, model, rows, n, &o, (job){.classes = classes, .scores = scores});
}

kf_status kf_classify_probabilities(kf_ctx *ctx, const kf_model *model, const float *rows,
                                    uint64_t n, const kf_classify_options *options,
                                    int32_t *classes, double *scores, double *probabilities) {
  KF_ENTER(ctx,
           model != NULL && (n == 0 || (rows != NULL && classes != NULL && probabilities != NULL)));
  KF_OPTIONS(kf_classify_options, o, options);
  job j = {.classes = classes, .scores = scores, .probabilities = probabilities};
  return classify_once(ctx, model, rows, n, &o, j);
}
