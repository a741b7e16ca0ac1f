/* sweep_run.c - runs the plan of a sweep on one set of training and test rows.
 *
 * Shared work is done once: S_w is decomposed once for all lambdas, the alphas of all lambdas are
 * chosen together, a model or gallery serves all passes that need it, one pass handles all numbers
 * of dimensions, and one search serves all k. */
#include "choose/sweep.h"
#include "choose/left_out.h"

#include <stdlib.h>

/* Objects that cells share, besides the model of their lambda. */
typedef struct shared {
  kf_model *map;   /* with their number of dimensions */
  kf_model *model; /* of text, or fused */
  kf_gallery *gallery;
} shared;

static kf_sweep_kind kind_of(const kf_sweep_work *w) {
  return (kf_sweep_kind)w->key[KF_SWEEP_BY_KIND];
}

static const kf_sweep_cell *setting_of(const kf_sweep_job *j, const kf_sweep_work *w) {
  return &j->plan->cells[w->cell];
}

static const kf_class_set *set_of(const kf_sweep_job *j, const kf_sweep_work *w) {
  const kf_sweep_options *o = &j->plan->options;
  return o->n_sets > 0 ? o->sets[setting_of(j, w)->set] : NULL;
}

/* --- results --------------------------------------------------------------------------------- */

/* Adds up the hits of folds. Lambda and alpha are those of the first fold with rows. */
static void add_hits(const kf_sweep_job *j, const kf_sweep_work *w, uint64_t n, uint64_t top1,
                     uint64_t top5) {
  kf_sweep_cell *c = &j->sweep->cells[w->cell];
  if (c->n == 0 && !c->raw && j->model != NULL) {
    double mean = j->model->mean_eigenvalue;
    c->lambda = j->model->map.lambda;
    c->relative = mean > 0 ? c->lambda / mean : 0;
    if (c->fused) c->alpha = j->alphas[w->lambda];
  }
  c->n += n;
  c->top1 += top1;
  c->top5 += top5;
}

/* With test data, takes the counts of rows from prototypes or, in this order, neighbours or
 * text. */
static void take_counts(const kf_sweep_job *j, kf_sweep_kind kind, const kf_eval_result *counts) {
  const kf_sweep_options *o = &j->plan->options;
  bool prototypes = o->include_prototypes != KF_OFF, text = kind <= KF_SWEEP_TEXT;
  bool neighbours = kind == KF_SWEEP_NEIGHBOURS || kind == KF_SWEEP_RAW_NEIGHBOURS;
  if (j->fold != NULL) return;
  if (prototypes ? kind != KF_SWEEP_PROTOTYPES : o->n_k > 0 ? !neighbours : !text) return;
  kf_eval_result *to = &j->sweep->counts;
  *to = *counts;
  to->top1 = to->top5 = to->raw_top1 = to->raw_top5 = 0;
}

/* --- costs ------------------------------------------------------------------------------------ */

/* Of what cells share, besides the model. */
static double cost_of_shared(const kf_sweep_job *j, const kf_sweep_work *w) {
  const kf_sweep_cell *c = setting_of(j, w);
  double rows = (double)j->stats->rows;
  return c->k > 0 ? kf_cost_of_index(rows, j->stats->dim, c->dim) : 0;
}

static double cost_of_pass(const kf_sweep_job *j, const kf_sweep_work *w) {
  const kf_sweep_cell *c = setting_of(j, w);
  if (c->k > 0) return kf_cost_of_search(j->judged, (double)j->stats->rows, c->dim);
  return kf_cost_of_prototypes(j->judged, j->stats->n_classes, j->stats->dim);
}

double kf_sweep_cost(const kf_sweep_job *j) {
  const kf_sweep_plan *p = j->plan;
  double all = 0;
  for (size_t i = 0, n; i < p->n_cells; i += n) {
    const kf_sweep_work *same = p->work + i;
    n = kf_sweep_agreeing(same, p->n_cells - i, KF_SWEEP_SHARED);
    all += cost_of_shared(j, same);
    for (size_t t = 0; t < n; t += kf_sweep_agreeing(same + t, n - t, KF_SWEEP_KEYS))
      all += cost_of_pass(j, same + t);
  }
  return all;
}

/* --- passes over the test rows --------------------------------------------------------------- */

/* Evaluates the nearest prototypes of one model. */
static kf_status run_eval(kf_sweep_job *j, const kf_model *model, const kf_sweep_work *w,
                          size_t n) {
  const kf_sweep_cell *c = setting_of(j, w);
  kf_eval_options options = {.metric = c->metric,
                             .include_raw = c->raw ? KF_ON : KF_OFF,
                             .include_mapped = c->raw ? KF_OFF : KF_ON,
                             .part = c->fused ? KF_PART_FUSED : KF_PART_DEFAULT,
                             .truth = j->truth,
                             .set = set_of(j, w)};
  kf_eval_result e;
  KF_TRY(kf_eval(j->ctx, model, j->test, &options, &e));
  for (size_t i = 0; i < n; i++)
    add_hits(j, &w[i], e.n, c->raw ? e.raw_top1 : e.top1, c->raw ? e.raw_top5 : e.top5);
  take_counts(j, kind_of(w), &e);
  return KF_OK;
}

/* Evaluates all k at once. */
static kf_status run_neighbours(kf_sweep_job *j, const kf_gallery *gallery, const kf_sweep_work *w,
                                size_t n) {
  const kf_sweep_options *o = &j->plan->options;
  kf_gallery_eval_options options = {
      .k = o->k, .n_k = o->n_k, .truth = j->truth, .set = set_of(j, w)};
  kf_eval_result counts;
  kf_hits *hits = kf_alloc(o->n_k, sizeof *hits);
  if (hits == NULL) return kf_fail_memory(&j->ctx->err);
  kf_status status = kf_gallery_eval(j->ctx, gallery, j->test, &options, &counts, hits, NULL);
  for (size_t i = 0; status == KF_OK && i < n; i++) {
    const kf_hits *h = hits;
    while (h->k != setting_of(j, &w[i])->k) h++;
    add_hits(j, &w[i], counts.n, h->top1, h->top5);
  }
  if (status == KF_OK) take_counts(j, kind_of(w), &counts);
  kf_free(hits);
  return status;
}

static int by_number(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

/* Lists the distinct numbers of dimensions, rising, and returns how many there are. */
static size_t list_dims(const kf_sweep_job *j, const kf_sweep_work *w, size_t n, uint32_t *dims) {
  size_t n_dims = 0;
  for (size_t i = 0; i < n; i++) dims[i] = setting_of(j, &w[i])->dim;
  qsort(dims, n, sizeof *dims, by_number);
  for (size_t i = 0; i < n; i++)
    if (i == 0 || dims[i] != dims[n_dims - 1]) dims[n_dims++] = dims[i];
  return n_dims;
}

static kf_status place_rows(kf_sweep_job *j, const kf_sweep_work *w, const kf_judge *judge,
                            const uint32_t *dims, size_t n_dims, kf_dim_point *points,
                            kf_eval_result *counts) {
  const kf_stats *between = j->plan->options.between;
  kf_position_finder *finder;
  KF_TRY(kf_position_finder_new(j->ctx, j->model, between != NULL ? between : j->stats,
                                setting_of(j, w)->metric == KF_METRIC_EUCLIDEAN, judge->known.mask,
                                dims, n_dims, &finder));
  kf_status status = kf_count_positions(j->ctx, finder, j->test, judge, points, counts);
  kf_position_finder_free(finder);
  if (status != KF_OK || j->fold != NULL) return status;
  return kf_check_scored(judge, counts, &j->ctx->err);
}

/* Evaluates all numbers of dimensions at once. */
static kf_status run_dims(kf_sweep_job *j, const kf_sweep_work *w, size_t n) {
  kf_arena arena = {0};
  uint32_t *dims;
  kf_dim_point *points;
  kf_judge judge;
  kf_eval_result counts;
  kf_status status = kf_judge_start(j->ctx, &judge, kf_known_model(j->model, KF_PART_IMAGES),
                                    set_of(j, w), j->test, j->test->rows, j->truth);
  KF_TAKE(&arena, dims, n);
  KF_TAKE_ZERO(&arena, points, n);
  if (status == KF_OK && arena.failed) status = kf_fail_memory(&j->ctx->err);
  if (status == KF_OK)
    status = place_rows(j, w, &judge, dims, list_dims(j, w, n, dims), points, &counts);
  for (size_t i = 0; status == KF_OK && i < n; i++) {
    size_t t = 0;
    while (dims[t] != setting_of(j, &w[i])->dim) t++;
    add_hits(j, &w[i], counts.n, points[t].top1, points[t].top5);
  }
  if (status == KF_OK) take_counts(j, kind_of(w), &counts);
  kf_judge_clear(&judge);
  kf_arena_free(&arena);
  return status;
}

/* Whether a fold has rows of classes that take part and have other rows. (If test data have none,
 * the evaluation fails.) */
static kf_status fold_counts(kf_sweep_job *j, const shared *s, const kf_sweep_work *w,
                             bool *counts) {
  const kf_row_list *fold = j->fold;
  kf_sweep_kind kind = kind_of(w);
  *counts = fold == NULL || kind == KF_SWEEP_RAW_TEXT || kind == KF_SWEEP_TEXT;
  if (*counts) return KF_OK;
  kf_arena arena = {0};
  kf_known known = kind == KF_SWEEP_FUSED ? kf_known_model(s->model, KF_PART_FUSED)
                                          : kf_known_model(j->model, KF_PART_IMAGES);
  kf_status status = kf_known_restrict(j->ctx, &known, set_of(j, w), &arena);
  for (uint64_t i = 0; status == KF_OK && i < fold->n; i++) {
    int32_t k = fold->label[i];
    *counts |= known.counts[k] > 0 && (known.mask == NULL || known.mask[k]);
  }
  kf_arena_free(&arena);
  return status;
}

static kf_status run_pass(kf_sweep_job *j, const shared *s, const kf_sweep_work *w, size_t n) {
  bool counts;
  KF_TRY(kf_stage_part(j->stage, cost_of_pass(j, w)));
  KF_TRY(fold_counts(j, s, w, &counts));
  if (!counts) return KF_OK;
  if (s->gallery != NULL)
    KF_TRY(run_neighbours(j, s->gallery, w, n));
  else if (kind_of(w) == KF_SWEEP_PROTOTYPES)
    KF_TRY(run_dims(j, w, n));
  else
    KF_TRY(run_eval(j, s->model != NULL ? s->model : j->model, w, n));
  return KF_OK;
}

/* --- shared objects -------------------------------------------------------------------------- */

static kf_status fit_lambda(kf_sweep_job *j, size_t lambda) {
  const kf_sweep_options *o = &j->plan->options;
  if (j->model != NULL && j->fitted == lambda) return KF_OK;
  kf_model_free(j->model);
  j->model = NULL;
  uint32_t most = 0;
  for (size_t d = 0; d < o->n_dims; d++)
    if (o->dims[d] > most) most = o->dims[d];
  j->fitted = lambda;
  return kf_fitter_fit(j->fitter, o->lambdas[lambda], most, o->centre, &j->model);
}

/* Chooses alpha at each lambda from the training rows. */
static kf_status choose_alphas(kf_sweep_job *j) {
  const kf_sweep_options *o = &j->plan->options;
  if (j->alphas != NULL) return KF_OK;
  if (KF_TAKE(&j->arena, j->alphas, o->n_lambdas) == NULL) return kf_fail_memory(&j->ctx->err);
  if (!kf_sweep_chooses_alpha(j->plan)) {
    for (size_t l = 0; l < o->n_lambdas; l++) j->alphas[l] = o->alphas[0];
    return KF_OK;
  }
  kf_fuse_options options = {
      .centre = KF_CENTRE_MEAN, .alphas = o->alphas, .n_alphas = o->n_alphas};
  return kf_fuse_alphas(j->fitter, j->train, o->text, &options, o->lambdas, o->n_lambdas,
                        j->alphas);
}

/* Fused maps are centred on the mean, as in kf_fit with text. */
static kf_status make_fused(kf_sweep_job *j, const kf_sweep_work *w, shared *s) {
  KF_TRY(choose_alphas(j));
  KF_TRY(kf_fitter_shorten(j->fitter, j->model, setting_of(j, w)->dim, KF_CENTRE_MEAN, &s->map));
  return kf_model_new_fused(j->ctx, s->map, j->plan->options.text, j->alphas[w->lambda], &s->model);
}

static kf_status make_shared(kf_sweep_job *j, const kf_sweep_work *w, shared *s) {
  const kf_sweep_cell *c = setting_of(j, w);
  kf_sweep_kind kind = kind_of(w);
  KF_TRY(fit_lambda(j, w->lambda));
  if (kind == KF_SWEEP_FUSED) return make_fused(j, w, s);
  uint32_t dim = c->raw ? j->model->map.dim_out : c->dim;
  if (c->text != KF_CENTRE_DEFAULT)
    return kf_zero_shot_new(j->ctx, j->model, dim, j->plan->options.text, c->text, &s->model);
  if (c->k > 0)
    return kf_gallery_make(j->ctx, j->train, c->raw ? NULL : &j->model->map, c->dim, c->metric,
                           KF_F32, &s->gallery);
  return KF_OK;
}

static kf_status run_sharing(kf_sweep_job *j, const kf_sweep_work *w, size_t n) {
  shared s = {0};
  kf_status status = kf_stage_part(j->stage, cost_of_shared(j, w));
  if (status == KF_OK) status = make_shared(j, w, &s);
  for (size_t i = 0, next; status == KF_OK && i < n; i = next) {
    next = i + kf_sweep_agreeing(w + i, n - i, KF_SWEEP_KEYS);
    status = run_pass(j, &s, w + i, next - i);
  }
  kf_gallery_free(s.gallery);
  kf_model_free(s.model);
  kf_model_free(s.map);
  return status;
}

/* --- leave-one-out --------------------------------------------------------------------------- */

/* Counts hits of rows left out at one lambda. */
static kf_status leave_out_at(kf_sweep_job *j, kf_left_out *l, const kf_sweep_work *w) {
  kf_sweep_cell *c = &j->sweep->cells[w->cell];
  double mean = j->sweep->mean_eigenvalue;
  uint64_t rows;
  kf_left_out_point p = {0};
  KF_TRY(kf_fitter_lambda(j->fitter, j->plan->options.lambdas[w->lambda], &c->lambda));
  kf_left_out_trial trial = {.lambda = c->lambda, .hits = true, .what = "sweep"};
  KF_TRY(kf_left_out_try(l, &trial, &p, 1, &rows));
  c->relative = mean > 0 ? c->lambda / mean : 0;
  add_hits(j, w, rows, p.top1, p.top5);
  return KF_OK;
}

/* Leaves training rows out at all lambdas. */
static kf_status leave_out(kf_sweep_job *j, const kf_sweep_work *w, size_t n) {
  KF_TRY(kf_stage_part(j->stage, cost_of_pass(j, w)));
  const kf_sweep_options *o = &j->plan->options;
  kf_left_out_options by = {.metric = setting_of(j, w)->metric,
                            .centre = o->centre,
                            .sample = o->sample,
                            .by_hits = j->fitter->method == KF_METHOD_PAPER};
  kf_left_out *l;
  KF_TRY(kf_left_out_new(j->fitter, j->train, &by, &l));
  kf_left_out_count count = kf_left_out_counts(l);
  j->sweep->counts.rows = count.rows;
  kf_status status = KF_OK;
  if (count.n == 0)
    status = kf_fail(&j->ctx->err, KF_ERR_MATH, "no row can be left out: no class has two rows");
  for (size_t i = 0; status == KF_OK && i < n; i++) status = leave_out_at(j, l, &w[i]);
  kf_left_out_free(l);
  return status;
}

/* --- all of it ------------------------------------------------------------------------------- */

kf_status kf_sweep_run(kf_sweep_job *j) {
  const kf_sweep_plan *plan = j->plan;
  kf_status status =
      kf_fitter_new(j->ctx, j->stats, plan->options.between, plan->options.method, &j->fitter);
  if (status == KF_OK) status = kf_fitter_set_priors(j->fitter, plan->options.priors);
  for (size_t i = 0, n; status == KF_OK && i < plan->n_cells; i += n) {
    const kf_sweep_work *same = plan->work + i;
    n = kf_sweep_agreeing(same, plan->n_cells - i, KF_SWEEP_SHARED);
    status =
        kind_of(same) == KF_SWEEP_LEAVE_ONE_OUT ? leave_out(j, same, n) : run_sharing(j, same, n);
  }
  kf_model_free(j->model);
  kf_fitter_free(j->fitter);
  kf_arena_free(&j->arena);
  return status;
}
