/* classifier.c - the nearest classes of rows, with probabilities if they are asked for: prototypes made
 * ready once, for many calls. */
#include "search/search.h"

struct kf_classifier {
  kf_prototypes *prototypes;
  uint32_t top;
  double temperature; /* as it was given */
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
  uint32_t top;
  double temperature; /* of probabilities; 0: not asked for */
  int32_t *classes;
  double *scores;        /* [n][top]; may be NULL */
  double *probabilities; /* [n][top]; NULL: not asked for */
} job;

/* The rows of a batch: their places in the output. */
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
    bool rises = at > begin && probability > j->probabilities[at - 1]; /* by rounding to f32 */
    j->probabilities[at] = rises ? j->probabilities[at - 1] : probability;
  }
}

static kf_status classify_batch(void *argument, const kf_batch *b, kf_err *err) {
  job *j = argument;
  uint64_t to = b->first * j->top;
  float *queries = kf_alloc(b->n * j->prototypes->dim, sizeof *queries);
  if (queries == NULL) return kf_fail_memory(err);
  kf_status status = kf_prototypes_queries(&j->use, b->rows, b->norm2, b->n, queries, err);
  if (status == KF_OK)
    status = kf_prototypes_find(&j->use, queries, b->n, j->top, j->classes + to,
                                j->scores != NULL ? j->scores + to : NULL, err);
  if (status == KF_OK && j->probabilities != NULL)
    status =
        kf_prototypes_odds(&j->use, queries, b->n, set_probabilities, &(part){j, b->first}, err);
  kf_free(queries);
  return status;
}

/* Queries that pass over the prototypes together: few enough for all threads to have some. */
static uint64_t batch_rows(const kf_ctx *ctx, uint64_t n) {
  uint64_t each = n / ctx->threads;
  return each < KF_MAP_ROWS ? KF_MAP_ROWS : each < KF_CLASSIFY_ROWS ? each : KF_CLASSIFY_ROWS;
}

/* After a shared pass: the answers of all ranks. */
static kf_status join_answers(kf_ctx *ctx, const kf_data *data, const job *j) {
  double *others[] = {j->scores, j->probabilities};
  KF_TRY(kf_join_rows(ctx, data, j->classes, j->top * (uint64_t)sizeof *j->classes));
  for (int i = 0; i < 2; i++)
    if (others[i] != NULL)
      KF_TRY(kf_join_rows(ctx, data, others[i], j->top * (uint64_t)sizeof(double)));
  return KF_OK;
}

static kf_status classify_all(kf_ctx *ctx, const kf_data *data, job *j) {
  kf_prototypes_plan plan = {.rows = data->rows, .top = j->top, .temperature = j->temperature};
  KF_TRY(kf_prototypes_begin(ctx, j->prototypes, &plan, &j->use));
  kf_pass pass = {.rows = j->use.batch > 0 ? j->use.batch : batch_rows(ctx, data->rows),
                  .rows_only = true,
                  .shared = true,
                  .work = classify_batch,
                  .argument = j};
  KF_TRY(kf_prototypes_end(ctx, &j->use, kf_each_batch(ctx, data, &pass)));
  return join_answers(ctx, data, j);
}

static kf_status classify(kf_ctx *ctx, const kf_classifier *c, const float *rows, uint64_t n,
                          job j) {
  kf_data *data;
  j.prototypes = c->prototypes;
  j.top = c->top;
  if (j.probabilities != NULL)
    KF_TRY(kf_prototypes_temperature(j.prototypes, c->temperature, &j.temperature, &ctx->err));
  if (n == 0) return KF_OK;
  KF_TRY(kf_data_open_memory(ctx, rows, n, j.prototypes->model->map.dim_in, NULL, NULL, 0, &data));
  kf_status status = classify_all(ctx, data, &j);
  kf_data_free(data);
  return status;
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

/* --- a classifier for one call ---------------------------------------------------------------- */

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
  if (n == 0) return KF_OK;
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
