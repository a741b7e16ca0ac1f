/* neighbours.c - chooses k. The neighbours for a smaller k are the first of those for a larger one,
 * so one search serves all k.
 *
 * In the original space each row of a gallery is left out in turn, and its neighbours vote. A map
 * that was fitted to these rows has pulled the rows of each class together, including the one left
 * out, so its neighbours are right too often and a small k looks better than it is. Then the rows
 * are divided into folds, as for dimensions: the map is fitted without a fold, whose rows look for
 * neighbours among the others. */
#include "choose/choose.h"

#include <string.h>

#define MOST_K     50u
#define FOLD_BATCH 1024u

typedef struct k_job {
  kf_ctx *ctx;
  const kf_gallery *gallery; /* NULL: folds */
  kf_k_options options;
  uint32_t most;
  uint64_t n;     /* rows that have a label */
  uint64_t taken; /* of them, spread evenly */
  uint64_t batch; /* rows searched at a time */
  kf_poll poll;
  float *rows;     /* [batch][dim] */
  int64_t *number; /* [batch] */
  int64_t *found;  /* [batch][most] */
  double *scores;  /* [batch][most] */
  kf_score_card card;
  uint64_t scored;
  kf_arena arena;
  /* With folds. */
  const kf_data *data;
  const kf_model *model; /* fitted again without each fold */
  kf_lambda lambda;
  double queries, others; /* about how many rows of a fold are classified, among how many */
  kf_stage stage;
} k_job;

/* Records the votes on row i of a batch. */
static void count_votes(k_job *j, uint64_t i, int32_t label) {
  for (uint32_t k = 0; k < j->most; k++) {
    kf_poll_count(&j->poll, j->found + i * j->most, j->scores + i * j->most, k, k + 1);
    kf_score_card_add(&j->card, j->scored, k, kf_poll_position(&j->poll, label));
  }
  j->scored++;
}

/* Takes memory for batches of rows of `dim` columns, and a card for `rows` rows. */
static kf_status take_memory(k_job *j, uint64_t rows, uint32_t dim) {
  KF_TAKE(&j->arena, j->rows, j->batch * dim);
  KF_TAKE(&j->arena, j->found, j->batch * j->most);
  KF_TAKE(&j->arena, j->scores, j->batch * j->most);
  j->card = kf_score_card_take(&j->arena, rows, j->most);
  return j->arena.failed ? kf_fail_memory(&j->ctx->err) : KF_OK;
}

/* --- leaving out rows of a gallery ------------------------------------------------------------ */

static kf_status search_batch(k_job *j, uint64_t n) {
  kf_err *err = &j->ctx->err;
  const kf_gallery *g = j->gallery;
  for (uint64_t i = 0; i < n; i++)
    KF_TRY(kf_gallery_fetch(g, j->ctx->kernels, (uint64_t)j->number[i], 1,
                            j->rows + i * g->space.dim, err));
  KF_TRY(kf_nearest(j->ctx, &(kf_request){.index = g->index,
                                          .queries = j->rows,
                                          .n = n,
                                          .k = j->most,
                                          .leave_out = j->number,
                                          .rows = j->found,
                                          .scores = j->scores}));
  KF_TRY(kf_gallery_unchanged(g, err));
  for (uint64_t i = 0; i < n; i++) count_votes(j, i, g->labels[j->number[i]]);
  return kf_progress(j->ctx, "neighbours", j->scored, j->taken);
}

static kf_status search_all(k_job *j) {
  uint64_t in_batch = 0, seen = 0;
  for (uint64_t row = 0; row < j->gallery->rows; row++) {
    if (j->gallery->labels[row] < 0) continue;
    if (!kf_takes(seen++, j->taken, j->n)) continue;
    j->number[in_batch++] = (int64_t)row;
    if (in_batch < j->batch) continue;
    KF_TRY(search_batch(j, in_batch));
    in_batch = 0;
  }
  return in_batch > 0 ? search_batch(j, in_batch) : KF_OK;
}

static kf_status prepare(k_job *j) {
  kf_err *err = &j->ctx->err;
  const kf_gallery *g = j->gallery;
  const kf_k_options *o = &j->options;
  KF_TRY(kf_poll_start(&j->poll, g, o->weighted, o->temperature, err));
  j->most = o->most;
  if (j->most == 0) j->most = g->rows - 1 < MOST_K ? (uint32_t)(g->rows - 1) : MOST_K;
  KF_TRY(kf_check_neighbours(j->most, g->rows - 1, err));
  for (uint64_t row = 0; row < g->rows; row++) j->n += g->labels[row] >= 0;
  uint64_t most = o->sample > 0 ? o->sample : KF_DEFAULT_SAMPLE;
  j->taken = j->n < most ? j->n : most;
  if (j->n == 0) return kf_fail(err, KF_ERR_DATA, "no row of the gallery has a label");
  j->batch = kf_gallery_batch(j->ctx, g);
  KF_TAKE(&j->arena, j->number, j->batch);
  return take_memory(j, j->taken, g->space.dim);
}

/* --- leaving out folds ------------------------------------------------------------------------ */

/* Classifies the rows of a fold by their neighbours among all others. */
static kf_status search_fold(k_job *j, const kf_gallery *gallery, const kf_data *rows,
                             const int32_t *labels) {
  kf_err *err = &j->ctx->err;
  const kf_k_options *o = &j->options;
  KF_TRY(kf_poll_start(&j->poll, gallery, o->weighted, o->temperature, err));
  for (uint64_t first = 0; first < rows->rows; first += j->batch) {
    uint64_t left = rows->rows - first, n = left < j->batch ? left : j->batch;
    KF_TRY(kf_data_fetch(rows, j->ctx->kernels, first, n, j->rows, NULL, NULL, err));
    KF_TRY(kf_gallery_nearest(j->ctx, gallery, j->rows, first, n, j->most, &(kf_search_options){0},
                              j->found, j->scores, NULL));
    for (uint64_t i = 0; i < n; i++) count_votes(j, i, labels[first + i]);
    KF_TRY(kf_progress(j->ctx, "neighbours", first + n, rows->rows));
  }
  return KF_OK;
}

static double cost_of_index(const k_job *j) {
  return kf_cost_of_index(j->others, j->data->dim, j->model->map.dim_out);
}

static double cost_of_search(const k_job *j) {
  return kf_cost_of_search(j->queries, j->others, j->model->map.dim_out);
}

static kf_status score_fold(void *argument, const kf_fold *fold) {
  k_job *j = argument;
  kf_ctx *ctx = j->ctx;
  uint32_t dim = j->model->map.dim_out;
  kf_model *model = NULL;
  kf_gallery *gallery = NULL;
  kf_row_list rows = {0};
  kf_data *data = NULL;
  KF_TRY(kf_stage_part(&j->stage, cost_of_index(j)));
  kf_status status = kf_fold_model(ctx, fold, j->model->map.method, KF_PRIORS_EQUAL, j->lambda, dim,
                                   j->model->map.centre, &model);
  if (status == KF_OK)
    status =
        kf_gallery_make(ctx, fold->others, &model->map, dim, j->options.metric, KF_F32, &gallery);
  if (status == KF_OK) status = kf_stage_part(&j->stage, cost_of_search(j));
  if (status == KF_OK) status = kf_fold_sampled(fold, &fold->judged, &rows, &ctx->err);
  if (status == KF_OK) status = kf_data_new_pick(j->data, rows.row, rows.n, &data, &ctx->err);
  if (status == KF_OK) status = search_fold(j, gallery, data, rows.label);
  kf_data_free(data);
  kf_row_list_clear(&rows);
  kf_gallery_free(gallery);
  kf_model_free(model);
  return status;
}

/* The fewest rows that remain without a fold. */
static uint64_t least_left(uint64_t rows, uint32_t folds) {
  return rows - (rows + folds - 1) / folds;
}

static kf_status prepare_folds(k_job *j, const kf_stats *stats) {
  kf_err *err = &j->ctx->err;
  kf_k_options *o = &j->options;
  uint64_t left = least_left(stats->rows, o->folds);
  j->lambda = kf_fold_lambda((kf_lambda){j->model->map.lambda, KF_LAMBDA_ABSOLUTE},
                             j->model->mean_eigenvalue);
  j->most = o->most > 0 ? o->most : left < MOST_K ? (uint32_t)left : MOST_K;
  KF_TRY(kf_check_neighbours(j->most, left, err));
  j->batch = FOLD_BATCH;
  return take_memory(j, o->sample < stats->rows ? o->sample : stats->rows, j->data->dim);
}

static kf_status search_folds(k_job *j, const kf_stats *stats) {
  uint64_t labelled;
  KF_TRY(prepare_folds(j, stats));
  kf_folding folding = {.stats = stats,
                        .data = j->data,
                        .folds = j->options.folds,
                        .sample = j->options.sample,
                        .others = true,
                        .work = score_fold,
                        .argument = j};
  uint32_t taken = kf_folds_taken(&folding, stats->rows);
  j->others = (double)least_left(stats->rows, folding.folds);
  j->queries = (double)j->card.n / taken;
  kf_stage_begin_parts(&j->stage, j->ctx, "neighbours",
                       taken * (cost_of_index(j) + cost_of_search(j)));
  kf_status status = kf_each_fold(j->ctx, &folding, &labelled);
  if (status == KF_OK) status = kf_stage_part(&j->stage, 0);
  kf_stage_end(&j->stage);
  if (status == KF_OK && j->scored == 0)
    return kf_fail(&j->ctx->err, KF_ERR_MATH, "k cannot be chosen: no class has rows in two folds");
  return status;
}

/* --- all of it -------------------------------------------------------------------------------- */

static kf_status hand_out(k_job *j, kf_k_choice **out) {
  kf_k_choice *c = kf_alloc_tail(sizeof *c, j->most, sizeof *c->points);
  if (c == NULL) return kf_fail_memory(&j->ctx->err);
  c->points = (kf_k_point *)(c + 1);
  j->card.n = j->scored; /* rows alone in their class are not scored */
  size_t best, chosen = kf_first_good_enough(&j->card, j->options.tolerance, c->points, &best);
  c->k = (uint32_t)chosen + 1;
  c->best = (uint32_t)best + 1;
  c->n = j->scored;
  c->n_points = j->most;
  c->folds = j->gallery == NULL ? j->options.folds : 0;
  *out = c;
  return KF_OK;
}

kf_status kf_k_choice_new(kf_ctx *ctx, const kf_gallery *gallery, const kf_k_options *options,
                          kf_k_choice **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, gallery != NULL && out != NULL);
  KF_OPTIONS(kf_k_options, o, options);
  if (o.folds != 0 || o.metric != KF_METRIC_DEFAULT)
    return kf_fail(err, KF_ERR_ARG, "folds and metric cannot be set for a gallery");
  k_job j = {.ctx = ctx, .gallery = gallery, .options = o};
  KF_TRY(kf_check_tolerance(o.tolerance, err));
  if (gallery->rows < 2)
    return kf_fail(err, KF_ERR_DATA, "a gallery of one row has no neighbours to choose from");
  kf_status status = prepare(&j);
  if (status == KF_OK) status = search_all(&j);
  if (status == KF_OK) status = hand_out(&j, out);
  kf_arena_free(&j.arena);
  return status;
}

kf_status kf_k_choice_new_by_folds(kf_ctx *ctx, const kf_stats *stats, const kf_data *data,
                                   const kf_model *model, const kf_k_options *options,
                                   kf_k_choice **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, stats != NULL && data != NULL && model != NULL && out != NULL);
  KF_OPTIONS(kf_k_options, o, options);
  if (o.folds == 0) o.folds = KF_DEFAULT_FOLDS;
  if (o.sample == 0) o.sample = KF_DEFAULT_SAMPLE;
  k_job j = {.ctx = ctx, .data = data, .model = model, .options = o};
  KF_TRY(kf_check_tolerance(o.tolerance, err));
  KF_TRY(kf_check_statistics_of(stats, data, err));
  KF_TRY(kf_map_check_data(&model->map, data, err));
  kf_status status = search_folds(&j, stats);
  if (status == KF_OK) status = hand_out(&j, out);
  kf_arena_free(&j.arena);
  return status;
}

/* --- for rows of any kind --------------------------------------------------------------------- */

/* Whether a model may have been fitted to these rows: it has the same classes with as many rows. */
static bool may_be_of(const kf_model *model, const kf_stats *stats) {
  bool same = model->n_classes == stats->n_classes && model->rows == stats->rows &&
              model->names.n == stats->names.n;
  for (uint32_t k = 0; same && k < stats->n_classes; k++)
    same = model->counts[k] == stats->counts[k] &&
           (stats->names.n == 0 || strcmp(model->names.name[k], stats->names.name[k]) == 0);
  return same;
}

static kf_status choose_in_turn(kf_ctx *ctx, const kf_data *data, const kf_model *model,
                                const kf_k_options *options, kf_k_choice **out) {
  kf_k_options o = *options;
  kf_gallery *gallery;
  KF_TRY(kf_gallery_new(ctx, data, model, &(kf_gallery_options){.metric = o.metric}, &gallery));
  o.metric = KF_METRIC_DEFAULT; /* that of the gallery */
  o.folds = 0;
  kf_status status = kf_k_choice_new(ctx, gallery, &o, out);
  kf_gallery_free(gallery);
  return status;
}

kf_status kf_k_choice_new_for_rows(kf_ctx *ctx, const kf_data *data, const kf_model *model,
                                   const kf_k_options *options, kf_k_choice **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, data != NULL && out != NULL);
  KF_OPTIONS(kf_k_options, o, options);
  if (!data->has_labels)
    return kf_fail_row(err, data, KF_ALL_ROWS, KF_HINT_NONE,
                       "the rows have no labels, so k cannot be chosen");
  if (model == NULL) return choose_in_turn(ctx, data, NULL, &o, out);
  KF_TRY(kf_map_check_data(&model->map, data, err));
  kf_stats_options how = {.normalize = model->map.normalized ? KF_ON : KF_OFF};
  kf_stats *stats;
  KF_TRY(kf_stats_of_data(ctx, data, &how, &stats));
  kf_status status = may_be_of(model, stats)
                         ? kf_k_choice_new_by_folds(ctx, stats, data, model, &o, out)
                         : choose_in_turn(ctx, data, model, &o, out);
  kf_stats_free(stats);
  return status;
}

void kf_k_choice_free(kf_k_choice *choice) { kf_free(choice); }
