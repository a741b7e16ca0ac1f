/* sweep_run.c - runs the plan of a sweep on one set of training and test rows.
 *
 * Shared work is done once: S_w is decomposed once for all lambdas; the alphas of all lambdas
 * are chosen in one pass over the training rows; a model or gallery serves all passes of its
 * group; one pass ranks all numbers of dimensions, one search serves all k. */
#include "choose/sweep.h"
#include "choose/left_out.h"

#include <stdlib.h>

/* What a group shares besides the model of its lambda. */
typedef struct shared {
  kf_model *map;   /* with the dimensions of the group */
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

/* Hits of folds add up; lambda and alpha are those of the first fold that counts. */
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

/* With test data, the counts of rows are those of prototypes, or else of neighbours, or else of
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

/* --- passes over the test rows --------------------------------------------------------------- */

/* Nearest prototypes of one model. */
static kf_status run_eval(kf_sweep_job *j, const kf_model *model, const kf_sweep_work *w,
                          size_t n) {
  const kf_sweep_cell *c = setting_of(j, w);
  kf_eval_options options = {.metric = c->metric,
                             .include_raw = c->raw ? KF_ON : KF_OFF,
                             .include_mapped = c->raw ? KF_OFF : KF_ON,
                             .part = c->fused ? KF_PART_FUSED : KF_PART_DEFAULT,
                             .truth = j->plan->options.truth,
                             .set = set_of(j, w)};
  kf_eval_result e;
  KF_TRY(kf_eval(j->ctx, model, j->test, &options, &e));
  for (size_t i = 0; i < n; i++)
    add_hits(j, &w[i], e.n, c->raw ? e.raw_top1 : e.top1, c->raw ? e.raw_top5 : e.top5);
  take_counts(j, kind_of(w), &e);
  return KF_OK;
}

/* All k at once. */
static kf_status run_neighbours(kf_sweep_job *j, const kf_gallery *gallery, const kf_sweep_work *w,
                                size_t n) {
  const kf_sweep_options *o = &j->plan->options;
  kf_gallery_eval_options options = {
      .k = o->k, .n_k = o->n_k, .truth = o->truth, .set = set_of(j, w)};
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

typedef struct rank_hits {
  uint32_t *dims; /* [n_dims], rising */
  size_t n_dims;
  uint64_t *top1, *top5; /* [threads][n_dims] */
} rank_hits;

static void count_ranks(void *argument, size_t worker, uint64_t row, const unsigned char *ranks) {
  (void)row;
  const rank_hits *h = argument;
  uint64_t *top1 = h->top1 + worker * h->n_dims, *top5 = h->top5 + worker * h->n_dims;
  for (size_t t = 0; t < h->n_dims; t++) {
    top1[t] += ranks[t] == 0;
    top5[t] += ranks[t] < KF_RANKS;
  }
}

static int by_number(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

static kf_status make_hits(const kf_sweep_job *j, const kf_sweep_work *w, size_t n, rank_hits *h,
                           kf_arena *arena) {
  KF_TAKE(arena, h->dims, n);
  if (arena->failed) return kf_fail_memory(&j->ctx->err);
  for (size_t i = 0; i < n; i++) h->dims[i] = setting_of(j, &w[i])->dim;
  qsort(h->dims, n, sizeof *h->dims, by_number);
  for (size_t i = 0; i < n; i++)
    if (i == 0 || h->dims[i] != h->dims[h->n_dims - 1]) h->dims[h->n_dims++] = h->dims[i];
  KF_TAKE_ZERO(arena, h->top1, (uint64_t)j->ctx->threads * h->n_dims);
  KF_TAKE_ZERO(arena, h->top5, (uint64_t)j->ctx->threads * h->n_dims);
  return arena->failed ? kf_fail_memory(&j->ctx->err) : KF_OK;
}

/* The hits of all ranks, in those of worker 0. */
static kf_status add_over_ranks(kf_ctx *ctx, rank_hits *h) {
  if (!kf_is_shared(&ctx->ranks)) return KF_OK;
  for (size_t i = h->n_dims; i < ctx->threads * h->n_dims; i++) {
    h->top1[i % h->n_dims] += h->top1[i];
    h->top5[i % h->n_dims] += h->top5[i];
    h->top1[i] = h->top5[i] = 0;
  }
  KF_TRY(kf_sum_u64(ctx, KF_OK, h->top1, h->n_dims));
  return kf_sum_u64(ctx, KF_OK, h->top5, h->n_dims);
}

static kf_status rank_rows(kf_sweep_job *j, const kf_sweep_work *w, const kf_judge *judge,
                           rank_hits *h, kf_eval_result *counts) {
  const kf_stats *between = j->plan->options.between;
  kf_ranker *ranker = NULL;
  KF_TRY(kf_ranker_new(j->ctx, j->model, between != NULL ? between : j->stats,
                       setting_of(j, w)->metric == KF_METRIC_EUCLIDEAN, judge->known.mask, h->dims,
                       h->n_dims, &ranker));
  kf_status status = kf_rank_data(j->ctx, ranker, j->test, judge, count_ranks, h, counts);
  kf_ranker_free(ranker);
  if (status == KF_OK) status = add_over_ranks(j->ctx, h);
  if (status != KF_OK || j->fold != NULL) return status;
  return kf_check_scored(judge, counts, &j->ctx->err);
}

/* All numbers of dimensions at once. */
static kf_status run_ranks(kf_sweep_job *j, const kf_sweep_work *w, size_t n) {
  const kf_data *test = j->test;
  kf_arena arena = {0};
  rank_hits h = {0};
  kf_judge judge;
  kf_eval_result counts;
  kf_status status = kf_judge_start(j->ctx, &judge, kf_known_model(j->model, KF_PART_IMAGES),
                                    set_of(j, w), test, test->rows, j->plan->options.truth);
  if (status == KF_OK) status = make_hits(j, w, n, &h, &arena);
  if (status == KF_OK) status = rank_rows(j, w, &judge, &h, &counts);
  for (size_t i = 0; status == KF_OK && i < n; i++) {
    uint64_t top1 = 0, top5 = 0;
    size_t t = 0;
    while (h.dims[t] != setting_of(j, &w[i])->dim) t++;
    for (; t < j->ctx->threads * h.n_dims; t += h.n_dims) {
      top1 += h.top1[t];
      top5 += h.top5[t];
    }
    add_hits(j, &w[i], counts.n, top1, top5);
  }
  if (status == KF_OK) take_counts(j, kind_of(w), &counts);
  kf_judge_clear(&judge);
  kf_arena_free(&arena);
  return status;
}

/* Whether a fold has rows of the classes that take part and have other rows. (If test data have
 * none, the evaluation says so.) */
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
  KF_TRY(fold_counts(j, s, w, &counts));
  if (!counts) return KF_OK;
  if (s->gallery != NULL)
    KF_TRY(run_neighbours(j, s->gallery, w, n));
  else if (kind_of(w) == KF_SWEEP_PROTOTYPES)
    KF_TRY(run_ranks(j, w, n));
  else
    KF_TRY(run_eval(j, s->model != NULL ? s->model : j->model, w, n));
  return kf_stage_step(j->stage);
}

/* --- what groups share ----------------------------------------------------------------------- */

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

/* The weight of prototypes next to text at each lambda, by the training rows. */
static kf_status choose_alphas(kf_sweep_job *j) {
  const kf_sweep_options *o = &j->plan->options;
  if (j->alphas != NULL) return KF_OK;
  if (KF_TAKE(&j->arena, j->alphas, o->n_lambdas) == NULL) return kf_fail_memory(&j->ctx->err);
  if (!kf_sweep_chooses_alpha(j->plan)) {
    for (size_t l = 0; l < o->n_lambdas; l++) j->alphas[l] = o->alphas[0];
    return KF_OK;
  }
  kf_fuse_options options = {
      .centre = KF_CENTRE_MEAN, .sample = o->sample, .alphas = o->alphas, .n_alphas = o->n_alphas};
  KF_TRY(
      kf_fuse_alphas(j->fitter, j->train, o->text, &options, o->lambdas, o->n_lambdas, j->alphas));
  return kf_stage_step(j->stage);
}

/* Fused maps are centred on the mean, as those of kf_fit with text are. */
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

static kf_status run_group(kf_sweep_job *j, const kf_sweep_work *w, size_t n) {
  shared s = {0};
  kf_status status = make_shared(j, w, &s);
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

/* Hits at the lambda of each point, of `rows` rows. */
static kf_status count_hits(kf_sweep_job *j, kf_metric metric, kf_fuse_point *points, size_t n,
                            uint64_t *rows) {
  const kf_sweep_options *o = &j->plan->options;
  bool paper = j->fitter->method == KF_METHOD_PAPER;
  kf_left_out_options by = {.metric = metric,
                            .centre = o->centre,
                            .sample =
                                paper ? kf_hits_sample(o->sample, j->stats->n_classes) : o->sample};
  kf_left_out *l;
  KF_TRY(kf_left_out_new(j->fitter, j->train, &by, &l));
  kf_status status = KF_OK;
  *rows = kf_left_out_counts(l).n;
  j->sweep->counts.rows = kf_left_out_counts(l).rows;
  for (size_t i = 0; status == KF_OK && *rows > 0 && i < n; i++) {
    kf_left_out_point p = {0};
    kf_left_out_trial trial = {.lambda = points[i].lambda,
                               .hits = true,
                               .fast = paper && kf_left_out_is_large(l),
                               .what = "sweep"};
    status = kf_left_out_try(l, &trial, &p, 1, rows);
    points[i].top1 = p.top1;
    points[i].top5 = p.top5;
  }
  kf_left_out_free(l);
  return status;
}

/* All lambdas at once; the rows that are left out are training rows. */
static kf_status leave_out(kf_sweep_job *j, const kf_sweep_work *w, size_t n) {
  kf_fuse_point *points;
  uint64_t rows = 0;
  kf_metric metric = setting_of(j, w)->metric;
  if (KF_TAKE_ZERO(&j->arena, points, n) == NULL) return kf_fail_memory(&j->ctx->err);
  for (size_t i = 0; i < n; i++)
    KF_TRY(kf_fitter_lambda(j->fitter, j->plan->options.lambdas[w[i].lambda], &points[i].lambda));
  KF_TRY(count_hits(j, metric, points, n, &rows));
  if (rows == 0)
    return kf_fail(&j->ctx->err, KF_ERR_MATH, "no row can be left out: no class has two rows");
  double mean = j->sweep->mean_eigenvalue;
  for (size_t i = 0; i < n; i++) {
    kf_sweep_cell *c = &j->sweep->cells[w[i].cell];
    c->lambda = points[i].lambda;
    c->relative = mean > 0 ? c->lambda / mean : 0;
    add_hits(j, &w[i], rows, points[i].top1, points[i].top5);
  }
  return kf_stage_step(j->stage);
}

/* --- all of it ------------------------------------------------------------------------------- */

kf_status kf_sweep_run(kf_sweep_job *j) {
  const kf_sweep_plan *plan = j->plan;
  kf_status status =
      kf_fitter_new(j->ctx, j->stats, plan->options.between, plan->options.method, &j->fitter);
  if (status == KF_OK) status = kf_fitter_set_priors(j->fitter, plan->options.priors);
  for (size_t i = 0, n; status == KF_OK && i < plan->n_cells; i += n) {
    const kf_sweep_work *group = plan->work + i;
    n = kf_sweep_agreeing(group, plan->n_cells - i, KF_SWEEP_SHARED);
    status =
        kind_of(group) == KF_SWEEP_LEAVE_ONE_OUT ? leave_out(j, group, n) : run_group(j, group, n);
  }
  kf_model_free(j->model);
  kf_fitter_free(j->fitter);
  kf_arena_free(&j->arena);
  return status;
}
