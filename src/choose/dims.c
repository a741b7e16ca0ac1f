/* dims.c - chooses the number of dimensions by cross-validation.
 *
 * There is no closed form, since leaving a row out turns all directions. So the rows are divided
 * into stratified folds. The statistics of a fold are subtracted from the whole, exactly, and its
 * rows are classified with every number of dimensions at once (positions.c).
 *
 * A number of dimensions is accepted if it is shown not to be inferior: the upper bound of its loss
 * against all dimensions, on the same rows, is within the margin. Numbers are tested downwards
 * until one fails. In this fixed order the risk of accepting any number that loses more than the
 * margin is that of the first such number, 5 %. Taking the smallest that passes would give chance
 * hundreds of attempts.
 *
 * Class means minus their mean lie in K - 1 directions, those of S_b. In the others all prototypes
 * agree, which adds the same to every squared distance, and nothing at all if rows are centred on
 * the mean. Then K - 1 dimensions need no rows to show that they are as good as all. Without
 * centring, these other directions change the lengths of prototypes, and so cosines. They have no
 * meaningful order, so K - 1 is tested first, and the numbers between it and D only if that
 * fails. */
#include "choose/choose.h"

#include <math.h>
#include <string.h>

#define DEFAULT_MARGIN 0.005
/* A map fitted to fewer rows gains more from fewer dimensions, so few folds underestimate the loss
 * (Flowers, 16 rows per class: with five folds 0.0 estimated, 0.7 on test rows; with ten 0.0 and
 * 0.1). But if a fold has a row of only some classes, these have fewer rows left than others, a
 * handicap that grows with the dimensions (ImageNet, 4 rows per class: with ten folds -0.5
 * estimated, 1.7 on test rows; with four -0.4 and -0.7). */
#define MOST_FOLDS 10u
/* Each score costs the products of all dimensions. With more than about ten thousand classes this
 * leaves fewer rows; the guarantee is the same, but takes a few more dimensions. */
#define MOST_SCORES (UINT64_C(1) << 29)

typedef struct dim_job {
  kf_ctx *ctx;
  const kf_data *data;
  kf_dim_options options;
  bool euclidean;
  uint32_t *dims;       /* [D] 1, 2, … */
  kf_row_list sample;   /* rows to be classified */
  kf_dim_point *points; /* [D] */
  uint64_t n_scored;    /* rows that have been classified */
  uint32_t matrix_rank; /* of S_b, at most */
  kf_stage stage;
  kf_arena arena;
} dim_job;

/* --- one fold -------------------------------------------------------------------------------- */

static kf_status place_rows(dim_job *j, const kf_model *model, const kf_stats *without,
                            const kf_data *data) {
  kf_judge judge;
  kf_eval_result counts;
  kf_position_finder *finder;
  KF_TRY(kf_position_finder_new(j->ctx, model, without, j->euclidean, NULL, j->dims, j->data->dim,
                                &finder));
  kf_status status = kf_judge_start(j->ctx, &judge, kf_known_model(model, KF_PART_IMAGES), NULL,
                                    data, data->rows, NULL);
  if (status == KF_OK)
    status = kf_count_positions(j->ctx, finder, data, &judge, j->points, &counts);
  kf_judge_clear(&judge);
  kf_position_finder_free(finder);
  j->n_scored += data->rows; /* all of them, see kf_fold_sampled */
  return status;
}

static kf_status score_fold(void *argument, const kf_fold *fold) {
  dim_job *j = argument;
  kf_ctx *ctx = j->ctx;
  kf_model *model = NULL;
  kf_row_list rows = {0};
  kf_data *data = NULL;
  kf_status status = kf_fold_model(ctx, fold, j->options.method, j->options.priors,
                                   j->options.lambda, 0, j->options.centre, &model);
  if (status == KF_OK) status = kf_fold_sampled(fold, &j->sample, &rows, &ctx->err);
  if (status == KF_OK) status = kf_data_new_pick(j->data, rows.row, rows.n, &data, &ctx->err);
  if (status == KF_OK) status = place_rows(j, model, fold->without, data);
  kf_data_free(data);
  kf_row_list_clear(&rows);
  kf_model_free(model);
  return status == KF_OK ? kf_stage_step(&j->stage) : status;
}

/* --- all of it ------------------------------------------------------------------------------- */

static uint64_t rows_to_place(const kf_dim_options *o, const kf_stats *stats) {
  if (o->sample > 0) return o->sample;
  uint64_t most = MOST_SCORES / stats->n_classes;
  return most < KF_DEFAULT_SAMPLE ? most : KF_DEFAULT_SAMPLE;
}

static kf_status try_folds(dim_job *j, const kf_stats *stats) {
  kf_ctx *ctx = j->ctx;
  kf_dim_options *o = &j->options;
  uint64_t labelled;
  double trace;
  KF_TRY(kf_measure_within(ctx, stats, &trace, NULL));
  o->lambda = kf_fold_lambda(o->lambda, trace / (double)stats->dim);
  KF_TRY(kf_sample_rows(ctx, j->data, rows_to_place(o, stats), &j->sample, &labelled));
  KF_TAKE(&j->arena, j->dims, stats->dim);
  KF_TAKE(&j->arena, j->points, stats->dim);
  if (j->arena.failed) return kf_fail_memory(&ctx->err);
  for (uint32_t l = 0; l < stats->dim; l++) {
    j->dims[l] = l + 1;
    j->points[l] = (kf_dim_point){.dim = l + 1};
  }
  kf_folding folding = {.stats = stats,
                        .data = j->data,
                        .folds = o->folds,
                        .groups = o->groups,
                        .work = score_fold,
                        .argument = j};
  kf_stage_begin(&j->stage, ctx, "dimensions", o->folds);
  kf_status status = kf_each_fold(ctx, &folding, &labelled);
  kf_stage_end(&j->stage);
  return status;
}

double kf_dim_upper95(const kf_dim_choice *c, size_t i) {
  if (c == NULL || i >= c->n_points) return NAN;
  const kf_dim_point *p = &c->points[i];
  if (p->dim >= c->same && p->lost == 0 && p->won == 0) return 0;
  if (c->independent >= c->n) return kf_loss_upper95(p->lost, p->won, c->n);
  /* Rows of a group tend to be right or wrong together, so each group counts as one row. */
  double share = (double)c->independent / (double)c->n;
  uint64_t lost = (uint64_t)ceil((double)p->lost * share);
  return kf_loss_upper95(lost, (uint64_t)((double)p->won * share), c->independent);
}

static uint32_t walk_down(const kf_dim_choice *c, uint32_t from, uint32_t least) {
  uint32_t dim = from;
  while (dim > least && kf_dim_upper95(c, dim - 2) <= c->margin) dim--;
  return dim;
}

static kf_status hand_out(const dim_job *j, kf_dim_choice **out) {
  uint32_t dim = j->data->dim;
  kf_err *err = &j->ctx->err;
  uint64_t independent = j->n_scored, groups = 0;
  if (j->n_scored == 0)
    return kf_fail(err, KF_ERR_MATH,
                   "the number of dimensions cannot be chosen: no class has rows in two folds");
  if (j->options.groups != NULL) {
    KF_TRY(kf_count_groups(&j->sample, j->options.groups, &groups, err));
    if (groups < independent) independent = groups;
  }
  kf_dim_choice *c = kf_alloc_tail(sizeof *c, dim, sizeof *c->points);
  if (c == NULL) return kf_fail_memory(err);
  bool cannot_matter = j->euclidean || j->options.centre == KF_CENTRE_MEAN;
  *c = (kf_dim_choice){.dim = dim,
                       .best = 1,
                       .folds = j->options.folds,
                       .n = j->n_scored,
                       .n_points = dim,
                       .points = (kf_dim_point *)(c + 1),
                       .margin = j->options.margin,
                       .independent = independent,
                       .same = cannot_matter ? j->matrix_rank : dim};
  memcpy(c->points, j->points, dim * sizeof *c->points);
  for (uint32_t l = 1; l < dim; l++)
    if (c->points[l].top1 > c->points[c->best - 1].top1) c->best = l + 1;
  uint32_t matrix_rank = j->matrix_rank;
  bool beyond_is_noise = kf_dim_upper95(c, matrix_rank - 1) <= c->margin;
  c->dim = beyond_is_noise ? walk_down(c, matrix_rank, 1) : walk_down(c, dim, matrix_rank);
  *out = c;
  return KF_OK;
}

/* At most MOST_FOLDS, and few enough for half the classes to have a row in each. If most classes
 * have fewer than three rows, KF_DEFAULT_FOLDS, since two folds would leave single rows. */
static uint32_t usual_folds(const kf_stats *stats) {
  for (uint32_t folds = MOST_FOLDS; folds > 2; folds--) {
    uint64_t with_rows = 0, enough = 0;
    for (uint32_t k = 0; k < stats->n_classes; k++) {
      with_rows += stats->counts[k] > 0;
      enough += stats->counts[k] >= folds;
    }
    if (2 * enough >= with_rows) return folds;
  }
  return KF_DEFAULT_FOLDS;
}

/* The number of directions that can tell prototypes apart. */
static uint32_t rank_between(const kf_stats *stats) {
  uint32_t with_rows = 0;
  for (uint32_t k = 0; k < stats->n_classes; k++) with_rows += stats->counts[k] > 0;
  return with_rows > 1 && with_rows <= stats->dim ? with_rows - 1 : stats->dim;
}

kf_status kf_dim_choice_new(kf_ctx *ctx, const kf_stats *stats, const kf_data *data,
                            const kf_dim_options *options, kf_dim_choice **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, stats != NULL && data != NULL && out != NULL);
  KF_OPTIONS(kf_dim_options, o, options);
  KF_TRY(kf_check_method(o.method, err));
  if ((unsigned)o.centre > KF_CENTRE_MEAN)
    return kf_fail(err, KF_ERR_ARG, "invalid centre %d", (int)o.centre);
  o.centre = kf_centre_for(o.centre, o.method);
  if ((unsigned)o.metric > KF_METRIC_EUCLIDEAN) return kf_fail_metric(o.metric, err);
  if (!(o.margin >= 0 && o.margin < 1))
    return kf_fail(err, KF_ERR_ARG, "the margin is %g, but must be 0 or a share below 1", o.margin);
  KF_TRY(kf_check_priors(o.priors, o.method, err));
  if (o.priors == KF_PRIORS_TRAINING && stats->normalized)
    return kf_fail(
        err, KF_ERR_ARG,
        "the number of dimensions of unit rows is chosen with equal priors only, not with "
        "those of the training rows");
  KF_TRY(kf_check_statistics_of(stats, data, err));
  if (o.folds == 0) o.folds = usual_folds(stats);
  if (!(o.margin > 0)) o.margin = DEFAULT_MARGIN;
  dim_job j = {.ctx = ctx, .data = data, .options = o};
  j.euclidean = kf_metric_for(o.metric, stats->normalized) == KF_METRIC_EUCLIDEAN;
  j.matrix_rank = rank_between(stats);
  kf_status status = try_folds(&j, stats);
  if (status == KF_OK) status = hand_out(&j, out);
  kf_row_list_clear(&j.sample);
  kf_arena_free(&j.arena);
  return status;
}

void kf_dim_choice_free(kf_dim_choice *choice) { kf_free(choice); }
