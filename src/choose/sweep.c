/* sweep.c - accuracy over lambda, dimensions, k, metrics and class sets.
 *
 * What fits share is done once: S_w is decomposed once, all lambdas start from there; all numbers of
 * dimensions are ranked in one pass over the test rows; all k are counted in one search; the alphas of
 * all lambdas are chosen in one pass over the training rows. Without test
 * data every fold is a sweep of its own, and hits add up. */
#include "choose/choose.h"

#include <stdlib.h>
#include <string.h>

typedef struct sweep_job {
  kf_ctx *ctx;
  kf_sweep_options options;
  const kf_stats *stats; /* of the training rows, without the fold at hand */
  const kf_data *train, *test;
  kf_rows fold; /* at hand; row NULL: there are none */
  kf_fitter *fitter;
  kf_centre centre; /* where the options name none */
  kf_metric *metrics;    /* [n_metrics] none of them the default one */
  kf_lambda *lambdas;    /* [n_lambdas] */
  double *alphas;        /* [n_lambdas] of fused cells, for the rows at hand */
  uint32_t *dims;        /* [n_dims] as in the options */
  uint32_t *rising;      /* [n_rising] the same in order, without repetitions */
  size_t n_rising;
  kf_sweep *sweep;
  kf_quiet quiet;
} sweep_job;

/* --- cells ----------------------------------------------------------------------------------- */

/* Prototypes, if wanted, and each k. */
static size_t n_classifiers(const kf_sweep_options *o) { return o->n_k + (o->prototypes != KF_OFF); }

static size_t raw_cells(const kf_sweep_options *o) { return (o->raw == KF_OFF) ? 0 : n_classifiers(o); }

/* Cells of one class set and metric. */
static size_t cells_each(const kf_sweep_options *o) {
  return raw_cells(o) + o->n_lambdas * n_classifiers(o) * o->n_dims;
}

static size_t n_sets(const kf_sweep_options *o) { return o->n_sets > 0 ? o->n_sets : 1; }

/* Those of text in one class set and metric. */
static size_t text_cells_each(const kf_sweep_options *o) {
  if (o->text == NULL) return 0;
  return (o->raw != KF_OFF) + o->n_text_centres * o->n_lambdas * o->n_dims;
}

/* Fused ones of one class set. */
static size_t fused_cells_each(const kf_sweep_options *o) {
  return o->fuse ? o->n_lambdas * o->n_dims : 0;
}

/* Where in a sweep we are: numbers of the class set, the metric, lambda and the dimension, and what
 * they stand for. */
typedef struct place {
  size_t metric, lambda, dim, centre;
  kf_sweep_cell setting;
} place;

/* The cell of a place for a classifier (0: prototypes, if wanted, then each k). */
static kf_sweep_cell *cell_of(const sweep_job *j, const place *p, size_t classifier) {
  const kf_sweep_options *o = &j->options;
  size_t at = (p->setting.set * o->n_metrics + p->metric) * cells_each(o);
  if (p->setting.raw) return &j->sweep->cells[at + classifier];
  at += raw_cells(o) + (p->lambda * n_classifiers(o) + classifier) * o->n_dims + p->dim;
  return &j->sweep->cells[at];
}

/* The same for text, behind all others. */
static kf_sweep_cell *text_cell_of(const sweep_job *j, const place *p) {
  const kf_sweep_options *o = &j->options;
  size_t at = n_sets(o) * o->n_metrics * cells_each(o);
  at += (p->setting.set * o->n_metrics + p->metric) * text_cells_each(o);
  if (!p->setting.raw)
    at += (o->raw != KF_OFF) + (p->centre * o->n_lambdas + p->lambda) * o->n_dims + p->dim;
  return &j->sweep->cells[at];
}

/* The same for fused ones, behind those. */
static kf_sweep_cell *fused_cell_of(const sweep_job *j, const place *p) {
  const kf_sweep_options *o = &j->options;
  size_t at = n_sets(o) * o->n_metrics * (cells_each(o) + text_cells_each(o));
  at += p->setting.set * fused_cells_each(o) + p->lambda * o->n_dims + p->dim;
  return &j->sweep->cells[at];
}

/* Hits of one fold are added to those of the folds before. */
static void add_to(kf_sweep_cell *cell, const kf_sweep_cell *setting, uint32_t k, uint64_t n,
                   uint64_t top1, uint64_t top5) {
  kf_sweep_cell before = *cell;
  *cell = *setting;
  if (before.n > 0) { /* what lambda and alpha are, is said by the first fold */
    cell->lambda = before.lambda;
    cell->relative = before.relative;
    cell->alpha = before.alpha;
  }
  cell->k = k;
  cell->n = before.n + n;
  cell->top1 = before.top1 + top1;
  cell->top5 = before.top5 + top5;
}

static void add_hits(const sweep_job *j, const place *p, size_t classifier, uint32_t k, uint64_t n,
                     uint64_t top1, uint64_t top5) {
  add_to(cell_of(j, p, classifier), &p->setting, k, n, top1, top5);
}

static const kf_class_set *set_at(const sweep_job *j, uint32_t set) {
  return j->options.n_sets > 0 ? j->options.sets[set] : NULL;
}

/* --- prototypes, for all dimensions ---------------------------------------------------------- */

/* Hits of one pass: [threads][2][n_dims]. */
typedef struct rank_hits {
  size_t n_dims;
  uint64_t *hits;
} rank_hits;

static void count_ranks(void *argument, size_t worker, uint64_t row, const unsigned char *ranks) {
  (void)row;
  const rank_hits *h = argument;
  uint64_t *top1 = h->hits + 2 * worker * h->n_dims, *top5 = top1 + h->n_dims;
  for (size_t t = 0; t < h->n_dims; t++) {
    top1[t] += ranks[t] == 0;
    top5[t] += ranks[t] < KF_RANKS;
  }
}

/* Runs a ranker over the test rows; hits [2][n_rising]. */
static kf_status rank_all(sweep_job *j, const kf_ranker *ranker, const kf_known *known,
                          uint64_t *hits, kf_eval_result *counts) {
  kf_ctx *ctx = j->ctx;
  kf_judge judge;
  KF_TRY(kf_judge_start(&judge, known, j->test, j->test->rows, j->options.truth, &ctx->err));
  rank_hits h = {.n_dims = j->n_rising};
  h.hits = kf_alloc_zero(2 * (uint64_t)ctx->threads * j->n_rising, sizeof *h.hits);
  kf_status status = h.hits != NULL
                         ? kf_rank_data(ctx, ranker, j->test, &judge, count_ranks, &h, counts)
                         : kf_fail_memory(&ctx->err);
  if (status == KF_OK && j->sweep->folds == 0) {
    j->sweep->counts = *counts;
    status = kf_check_scored(known, counts, &ctx->err);
  }
  for (size_t i = 0; status == KF_OK && i < 2 * j->n_rising * ctx->threads; i++)
    hits[i % (2 * j->n_rising)] += h.hits[i];
  kf_free(h.hits);
  kf_judge_clear(&judge);
  return status;
}

static kf_status rank_model(sweep_job *j, const kf_model *model, const kf_sweep_cell *setting,
                            uint64_t *hits, kf_eval_result *counts) {
  kf_ctx *ctx = j->ctx;
  const kf_stats *classes = j->options.between != NULL ? j->options.between : j->stats;
  const kf_class_set *set = set_at(j, setting->set);
  kf_known known = kf_known_model(model, KF_PART_IMAGES);
  unsigned char *mask = NULL;
  kf_ranker *ranker = NULL;
  kf_status status = KF_OK;
  if (set != NULL) {
    mask = kf_alloc_zero(known.n_classes, 1);
    status = mask != NULL ? kf_class_set_mask(ctx, set, &known, mask) : kf_fail_memory(&ctx->err);
    known.part = mask;
  }
  if (status == KF_OK)
    status = kf_ranker_new(ctx, model, classes, setting->metric == KF_METRIC_EUCLIDEAN, mask,
                           j->rising, j->n_rising, &ranker);
  if (status == KF_OK) status = rank_all(j, ranker, &known, hits, counts);
  kf_ranker_free(ranker);
  kf_free(mask);
  return status;
}

static kf_status sweep_prototypes(sweep_job *j, const kf_model *model, place p) {
  kf_eval_result counts = {0};
  uint64_t *hits = kf_alloc_zero(2 * j->n_rising, sizeof *hits);
  if (hits == NULL) return kf_fail_memory(&j->ctx->err);
  kf_status status = rank_model(j, model, &p.setting, hits, &counts);
  for (p.dim = 0; status == KF_OK && p.dim < j->options.n_dims; p.dim++) {
    size_t t = 0;
    while (j->rising[t] != j->dims[p.dim]) t++;
    p.setting.dim = j->dims[p.dim];
    add_hits(j, &p, 0, 0, counts.n, hits[t], hits[j->n_rising + t]);
  }
  kf_free(hits);
  return status == KF_OK ? kf_quiet_step(&j->quiet) : status;
}

static kf_status raw_prototypes(sweep_job *j, const kf_model *model, const place *p) {
  kf_eval_options options = {.metric = p->setting.metric,
                             .mapped = KF_OFF,
                             .truth = j->options.truth,
                             .set = set_at(j, p->setting.set)};
  kf_eval_result result;
  KF_TRY(kf_eval(j->ctx, model, j->test, &options, &result));
  add_hits(j, p, 0, 0, result.n, result.raw_top1, result.raw_top5);
  return kf_quiet_step(&j->quiet);
}

/* --- neighbours ------------------------------------------------------------------------------ */

static kf_status sweep_gallery(sweep_job *j, const kf_map *map, const place *p) {
  kf_ctx *ctx = j->ctx;
  const kf_sweep_options *o = &j->options;
  kf_gallery *gallery = NULL;
  kf_eval_result counts;
  kf_hits *hits = kf_alloc(o->n_k, sizeof *hits);
  kf_gallery_eval_options eval = {
      .k = o->k, .n_k = o->n_k, .truth = o->truth, .set = set_at(j, p->setting.set)};
  kf_status status = hits != NULL
                         ? kf_gallery_make(ctx, j->train, map, p->setting.dim, p->setting.metric,
                                           &gallery)
                         : kf_fail_memory(&ctx->err);
  if (status == KF_OK) status = kf_gallery_eval(ctx, gallery, j->test, &eval, &counts, hits, NULL);
  for (size_t t = 0; status == KF_OK && t < o->n_k; t++)
    add_hits(j, p, t + (o->prototypes != KF_OFF), o->k[t], counts.n, hits[t].top1, hits[t].top5);
  if (status == KF_OK && j->sweep->folds == 0 && (o->prototypes == KF_OFF)) j->sweep->counts = counts;
  kf_gallery_free(gallery);
  kf_free(hits);
  return status == KF_OK ? kf_quiet_step(&j->quiet) : status;
}

static kf_status sweep_neighbours(sweep_job *j, const kf_model *model, place p) {
  for (p.dim = 0; p.dim < j->options.n_dims; p.dim++) {
    p.setting.dim = j->dims[p.dim];
    KF_TRY(sweep_gallery(j, &model->map, &p));
  }
  return KF_OK;
}

/* --- text ------------------------------------------------------------------------------------ */

/* Every class set and metric for one zero-shot model, in its space or in the original one. */
static kf_status eval_text(sweep_job *j, const kf_model *zero, place p) {
  const kf_sweep_options *o = &j->options;
  kf_eval_options options = {
      .raw = !p.setting.raw ? KF_OFF : KF_ON, .mapped = p.setting.raw ? KF_OFF : KF_ON, .truth = o->truth};
  for (p.setting.set = 0; p.setting.set < n_sets(o); p.setting.set++)
    for (p.metric = 0; p.metric < o->n_metrics; p.metric++) {
      kf_eval_result r;
      options.metric = p.setting.metric = j->metrics[p.metric];
      options.set = set_at(j, p.setting.set);
      KF_TRY(kf_eval(j->ctx, zero, j->test, &options, &r));
      if (p.setting.raw)
        add_to(text_cell_of(j, &p), &p.setting, 0, r.n, r.raw_top1, r.raw_top5);
      else
        add_to(text_cell_of(j, &p), &p.setting, 0, r.n, r.top1, r.top5);
      if (j->sweep->folds == 0 && n_classifiers(o) == 0) {
        j->sweep->counts = r;
        j->sweep->counts.top1 = j->sweep->counts.top5 = 0;
        j->sweep->counts.raw_top1 = j->sweep->counts.raw_top5 = 0;
      }
      KF_TRY(kf_quiet_step(&j->quiet));
    }
  return KF_OK;
}

static kf_status sweep_text_model(sweep_job *j, const kf_model *model, const place *p) {
  kf_model *zero;
  uint32_t dim = p->setting.raw ? model->map.dim_out : p->setting.dim;
  KF_TRY(kf_zero_shot_new(j->ctx, model, dim, j->options.text, p->setting.text, &zero));
  kf_status status = eval_text(j, zero, *p);
  kf_model_free(zero);
  return status;
}

static kf_status sweep_text(sweep_job *j, const kf_model *model, place p) {
  const kf_sweep_options *o = &j->options;
  if (p.setting.raw) return sweep_text_model(j, model, &p);
  for (p.dim = 0; p.dim < o->n_dims; p.dim++) {
    p.setting.dim = j->dims[p.dim];
    for (p.centre = 0; p.centre < o->n_text_centres; p.centre++) {
      p.setting.text = o->text_centres[p.centre];
      KF_TRY(sweep_text_model(j, model, &p));
    }
  }
  return KF_OK;
}

/* --- one set of training and test rows ------------------------------------------------------- */

/* Whether a fold has rows of the classes of a set that have others left. (What is wrong with test
 * data that have none is for the evaluation to say.) */
static kf_status fold_counts(sweep_job *j, const kf_model *model, kf_part part, uint32_t number,
                             bool *counts) {
  *counts = j->fold.row == NULL;
  if (*counts) return KF_OK;
  const kf_class_set *set = set_at(j, number);
  kf_known known = kf_known_model(model, part);
  unsigned char *mask = kf_alloc_zero(known.n_classes, 1);
  kf_status status = mask != NULL ? KF_OK : kf_fail_memory(&j->ctx->err);
  if (status == KF_OK && set != NULL) status = kf_class_set_mask(j->ctx, set, &known, mask);
  for (uint64_t i = 0; status == KF_OK && i < j->fold.n; i++) {
    int32_t k = j->fold.label[i];
    *counts |= known.counts[k] > 0 && (set == NULL || mask[k]);
  }
  kf_free(mask);
  return status;
}

/* Every class set and metric, with one model, in its space or in the original one. */
static kf_status sweep_model(sweep_job *j, const kf_model *model, place p) {
  const kf_sweep_options *o = &j->options;
  bool counts;
  for (p.setting.set = 0; p.setting.set < n_sets(o); p.setting.set++)
    for (p.metric = 0; p.metric < o->n_metrics; p.metric++) {
      KF_TRY(fold_counts(j, model, KF_PART_IMAGES, p.setting.set, &counts));
      if (!counts) continue;
      p.setting.metric = j->metrics[p.metric];
      if ((o->prototypes != KF_OFF))
        KF_TRY(p.setting.raw ? raw_prototypes(j, model, &p) : sweep_prototypes(j, model, p));
      if (o->n_k > 0)
        KF_TRY(p.setting.raw ? sweep_gallery(j, NULL, &p) : sweep_neighbours(j, model, p));
    }
  return KF_OK;
}

/* --- text and prototypes together ------------------------------------------------------------ */

/* Every class set for one model that knows text. */
static kf_status eval_fused(sweep_job *j, const kf_model *fused, place p) {
  const kf_sweep_options *o = &j->options;
  kf_eval_options options = {.raw = KF_OFF, .part = KF_PART_FUSED, .truth = o->truth};
  bool counts;
  for (p.setting.set = 0; p.setting.set < n_sets(o); p.setting.set++) {
    kf_eval_result r;
    options.set = set_at(j, p.setting.set);
    KF_TRY(fold_counts(j, fused, KF_PART_FUSED, p.setting.set, &counts));
    if (!counts) continue;
    KF_TRY(kf_eval(j->ctx, fused, j->test, &options, &r));
    add_to(fused_cell_of(j, &p), &p.setting, 0, r.n, r.top1, r.top5);
    KF_TRY(kf_quiet_step(&j->quiet));
  }
  return KF_OK;
}

/* Fused maps are centred on the mean, as those of 'koofu fit --text' are. */
static kf_status sweep_fused_dim(sweep_job *j, const kf_model *model, const place *p) {
  kf_model *map, *fused = NULL;
  KF_TRY(kf_fitter_shorten(j->fitter, model, p->setting.dim, KF_CENTRE_MEAN, &map));
  kf_status status = kf_model_new_fused(j->ctx, map, j->options.text, j->alphas[p->lambda], &fused);
  if (status == KF_OK) status = eval_fused(j, fused, *p);
  kf_model_free(fused);
  kf_model_free(map);
  return status;
}

static kf_status sweep_fused(sweep_job *j, const kf_model *model, place p) {
  p.setting.metric = KF_METRIC_COSINE;
  p.setting.fused = 1;
  p.setting.alpha = j->alphas[p.lambda];
  for (p.dim = 0; p.dim < j->options.n_dims; p.dim++) {
    p.setting.dim = j->dims[p.dim];
    KF_TRY(sweep_fused_dim(j, model, &p));
  }
  return KF_OK;
}

/* How much prototypes count beside text at each lambda, by the training rows at hand. */
static kf_status choose_alphas(sweep_job *j) {
  const kf_sweep_options *o = &j->options;
  if (!o->fuse) return KF_OK;
  for (size_t l = 0; l < o->n_lambdas && o->n_alphas == 1; l++) j->alphas[l] = o->alphas[0];
  if (o->n_alphas == 1) return KF_OK;
  kf_fuse_options options = {
      .centre = KF_CENTRE_MEAN, .sample = o->sample, .alphas = o->alphas, .n_alphas = o->n_alphas};
  KF_TRY(kf_fuse_alphas(j->fitter, j->train, o->text, &options, j->lambdas, o->n_lambdas,
                        j->alphas));
  return kf_quiet_step(&j->quiet);
}

static kf_status sweep_lambda(sweep_job *j, size_t number) {
  uint32_t most = j->rising[j->n_rising - 1];
  kf_model *model;
  KF_TRY(kf_fitter_fit(j->fitter, j->lambdas[number], most, j->options.centre, &model));
  place p = {.lambda = number, .setting.lambda = model->map.lambda};
  if (model->mean_eigenvalue > 0) p.setting.relative = model->map.lambda / model->mean_eigenvalue;
  place raw = {.setting = {.raw = 1, .dim = j->stats->dim}}, raw_text = raw;
  raw_text.setting.text = KF_CENTRE_NONE;
  kf_status status = KF_OK;
  if (j->options.text != NULL) { /* first, since it may be refused */
    if (number == 0 && (j->options.raw != KF_OFF)) status = sweep_text(j, model, raw_text);
    if (status == KF_OK) status = sweep_text(j, model, p);
    if (status == KF_OK && number == 0) status = choose_alphas(j);
    if (status == KF_OK && j->options.fuse) status = sweep_fused(j, model, p);
  }
  if (status == KF_OK && number == 0 && (j->options.raw != KF_OFF)) /* the class means of any model */
    status = sweep_model(j, model, raw);
  if (status == KF_OK) status = sweep_model(j, model, p);
  kf_model_free(model);
  return status;
}

static kf_status sweep_once(sweep_job *j) {
  KF_TRY(kf_fitter_new(j->ctx, j->stats, j->options.between, &j->fitter));
  kf_status status = KF_OK;
  for (size_t l = 0; status == KF_OK && l < j->options.n_lambdas; l++) status = sweep_lambda(j, l);
  kf_fitter_free(j->fitter);
  j->fitter = NULL;
  return status;
}

/* --- folds ----------------------------------------------------------------------------------- */

static kf_status sweep_fold(sweep_job *j, const kf_data *data, kf_stats *rest, const kf_rows *all,
                            const unsigned char *fold, uint32_t number) {
  kf_err *err = &j->ctx->err;
  kf_rows in = {0}, out = {0};
  kf_data *inside = NULL, *outside = NULL;
  kf_stats *taken = NULL;
  kf_status status = kf_rows_of_fold(all, fold, number, false, &in, err);
  if (status == KF_OK) status = kf_rows_of_fold(all, fold, number, true, &out, err);
  if (status == KF_OK) status = kf_data_new_pick(data, in.row, in.n, &inside, err);
  if (status == KF_OK) status = kf_data_new_pick(data, out.row, out.n, &outside, err);
  if (status == KF_OK) status = kf_fold_take_out(j->ctx, rest, inside, &taken);
  if (status == KF_OK) {
    j->stats = rest;
    j->train = outside;
    j->test = inside;
    j->fold = in;
    status = sweep_once(j);
    if (status == KF_OK)
      status = kf_fold_put_back(j->ctx, rest, taken);
    else { /* nothing is needed any more, but the message is */
      kf_stats_free(taken);
      status = kf_fold_failed(j->ctx, status, number, j->sweep->folds);
    }
  }
  kf_data_free(inside);
  kf_data_free(outside);
  kf_rows_clear(&in);
  kf_rows_clear(&out);
  return status;
}

static kf_status sweep_folds(sweep_job *j, const kf_stats *stats, const kf_data *data) {
  kf_ctx *ctx = j->ctx;
  kf_rows all = {0};
  unsigned char *fold = NULL;
  kf_stats *rest = NULL;
  kf_status status = kf_sample_rows(ctx, data, UINT64_MAX, &all, &j->sweep->counts.rows);
  if (status == KF_OK)
    status = kf_fold_rows(&all, data->n_classes, j->sweep->folds, &fold, &ctx->err);
  if (status == KF_OK) status = kf_stats_copy(ctx, stats, &rest);
  for (uint32_t f = 0; status == KF_OK && f < j->sweep->folds; f++)
    status = sweep_fold(j, data, rest, &all, fold, f);
  for (size_t i = 0; status == KF_OK && i < j->sweep->n_cells; i++)
    if (j->sweep->cells[i].n == 0)
      status =
          kf_fail(&ctx->err, KF_ERR_MATH,
                  "folds have nothing to say: no class that takes part has rows in two of them");
  kf_rows_clear(&all);
  kf_free(fold);
  kf_stats_free(rest);
  return status;
}

/* --- leave-one-out --------------------------------------------------------------------------- */

static kf_status leave_out(sweep_job *j, place p, const kf_rows *rows, kf_lambda_point *points) {
  const kf_sweep_options *o = &j->options;
  kf_loo *loo;
  kf_loo_count count;
  p.setting.metric = j->metrics[p.metric];
  KF_TRY(kf_loo_new(j->fitter, j->train, p.setting.metric, o->centre, &loo));
  kf_status status = KF_OK;
  for (size_t l = 0; status == KF_OK && l < o->n_lambdas; l++)
    status = kf_loo_lambda(loo, j->lambdas[l], &points[l].lambda);
  if (status == KF_OK) status = kf_loo_count_hits(loo, rows, "sweep", points, o->n_lambdas, &count);
  for (p.lambda = 0; status == KF_OK && p.lambda < o->n_lambdas; p.lambda++) {
    const kf_lambda_point *at = &points[p.lambda];
    p.setting.lambda = at->lambda;
    double mean = j->sweep->mean_eigenvalue;
    p.setting.relative = mean > 0 ? at->lambda / mean : 0;
    add_hits(j, &p, 0, 0, count.n, at->top1, at->top5);
  }
  if (status == KF_OK && count.n == 0)
    status = kf_fail(&j->ctx->err, KF_ERR_MATH, "no row can be left out: no class has two rows");
  kf_loo_free(loo);
  return status == KF_OK ? kf_quiet_step(&j->quiet) : status;
}

static kf_status sweep_leave_one_out(sweep_job *j) {
  kf_ctx *ctx = j->ctx;
  const kf_sweep_options *o = &j->options;
  uint64_t most = o->sample > 0 ? o->sample : KF_DEFAULT_SAMPLE;
  kf_rows rows = {0};
  kf_lambda_point *points = kf_alloc_zero(o->n_lambdas, sizeof *points);
  kf_status status = points != NULL ? KF_OK : kf_fail_memory(&ctx->err);
  if (status == KF_OK) status = kf_sample_rows(ctx, j->train, most, &rows, &j->sweep->counts.rows);
  if (status == KF_OK) status = kf_fitter_new(ctx, j->stats, NULL, &j->fitter);
  place p = {.setting = {.dim = j->stats->dim}};
  for (; status == KF_OK && p.metric < o->n_metrics; p.metric++)
    status = leave_out(j, p, &rows, points);
  kf_fitter_free(j->fitter);
  j->fitter = NULL;
  kf_rows_clear(&rows);
  kf_free(points);
  return status;
}

/* --- options --------------------------------------------------------------------------------- */

static int by_number(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

static kf_status take_dims(sweep_job *j) {
  kf_sweep_options *o = &j->options;
  uint32_t all = j->stats->dim;
  size_t n = o->dims != NULL ? o->n_dims : 1;
  if (n == 0) return kf_fail(&j->ctx->err, KF_ERR_ARG, "the list of dimensions is empty");
  j->dims = kf_alloc(n, sizeof *j->dims);
  j->rising = kf_alloc(n, sizeof *j->rising);
  if (j->dims == NULL || j->rising == NULL) return kf_fail_memory(&j->ctx->err);
  for (size_t i = 0; i < n; i++) {
    j->dims[i] = o->dims != NULL ? o->dims[i] : all;
    if (j->dims[i] < 1 || j->dims[i] > all)
      return kf_fail(&j->ctx->err, KF_ERR_ARG, "%u dimensions asked for, the embeddings have %u",
                     j->dims[i], all);
  }
  o->n_dims = n;
  memcpy(j->rising, j->dims, n * sizeof *j->dims);
  qsort(j->rising, n, sizeof *j->rising, by_number);
  for (size_t i = 0; i < n; i++)
    if (i == 0 || j->rising[i] != j->rising[j->n_rising - 1])
      j->rising[j->n_rising++] = j->rising[i];
  return KF_OK;
}

static kf_status take_metrics(sweep_job *j) {
  kf_sweep_options *o = &j->options;
  size_t n = o->metrics != NULL ? o->n_metrics : 1;
  j->metrics = kf_alloc(n, sizeof *j->metrics);
  if (j->metrics == NULL) return kf_fail_memory(&j->ctx->err);
  for (size_t i = 0; i < n; i++) {
    kf_metric metric = o->metrics != NULL ? o->metrics[i] : KF_METRIC_DEFAULT;
    if ((unsigned)metric > KF_METRIC_EUCLIDEAN) return kf_fail_metric(metric, &j->ctx->err);
    j->metrics[i] = kf_metric_for(metric, j->stats->normalized);
  }
  o->n_metrics = n;
  return KF_OK;
}

/* Folds have fewer rows and less scatter, so that absolute lambdas become relative ones there. */
static kf_status take_lambdas(sweep_job *j, bool folds) {
  kf_sweep_options *o = &j->options;
  size_t n = o->lambdas != NULL ? o->n_lambdas : 1;
  if (n == 0) return kf_fail(&j->ctx->err, KF_ERR_ARG, "the list of lambdas is empty");
  j->lambdas = kf_alloc_zero(n, sizeof *j->lambdas);
  if (j->lambdas == NULL) return kf_fail_memory(&j->ctx->err);
  for (size_t i = 0; o->lambdas != NULL && i < n; i++) {
    j->lambdas[i] =
        folds ? kf_fold_lambda(o->lambdas[i], j->sweep->mean_eigenvalue) : o->lambdas[i];
  }
  o->n_lambdas = n;
  return KF_OK;
}

static kf_status take_text(sweep_job *j) {
  kf_sweep_options *o = &j->options;
  if (o->text == NULL) return KF_OK;
  if (o->leave_one_out)
    return kf_fail(&j->ctx->err, KF_ERR_ARG, "leave-one-out is for prototypes of images");
  if (o->text_centres == NULL) {
    j->centre = KF_CENTRE_MODALITY;
    o->text_centres = &j->centre;
    o->n_text_centres = 1;
  }
  for (size_t i = 0; i < o->n_text_centres; i++)
    if (o->text_centres[i] < KF_CENTRE_NONE || o->text_centres[i] > KF_CENTRE_MODALITY)
      return kf_fail(&j->ctx->err, KF_ERR_ARG, "a centre of text is none of its choices");
  return kf_text_check(o->text, j->stats->dim, &j->ctx->err);
}

static kf_status take_alphas(sweep_job *j) {
  kf_sweep_options *o = &j->options;
  if (!o->fuse) return KF_OK;
  if (o->text == NULL || o->between != NULL)
    return kf_fail(&j->ctx->err, KF_ERR_ARG,
                   o->text == NULL ? "fused cells need text"
                                   : "fused cells have no place beside S_b from other statistics");
  if (o->alphas == NULL) o->n_alphas = 0;
  if (o->n_alphas != 1 && j->train == NULL)
    return kf_fail(&j->ctx->err, KF_ERR_ARG, "choosing alpha needs the training rows");
  j->alphas = kf_alloc_zero(o->n_lambdas, sizeof *j->alphas);
  return j->alphas != NULL ? KF_OK : kf_fail_memory(&j->ctx->err);
}

static kf_status check_neighbours(const sweep_job *j, kf_err *err) {
  const kf_sweep_options *o = &j->options;
  if (o->n_k == 0 && (o->prototypes == KF_OFF) && o->text == NULL)
    return kf_fail(err, KF_ERR_ARG, "a sweep without prototypes needs numbers of neighbours");
  for (size_t i = 1; i < o->n_k; i++)
    if (o->k[i] <= o->k[i - 1]) return kf_fail(err, KF_ERR_ARG, "the list of k must rise");
  return KF_OK;
}

static kf_status prepare(sweep_job *j, bool folds) {
  if (j->options.k == NULL) j->options.n_k = 0;
  if (j->options.leave_one_out) {
    if (j->options.dims != NULL || j->options.n_k > 0 || j->options.n_sets > 0)
      return kf_fail(&j->ctx->err, KF_ERR_ARG,
                     "leave-one-out is for prototypes with all dimensions and all classes");
    j->options.raw = KF_OFF;
    folds = false;
  }
  KF_TRY(check_neighbours(j, &j->ctx->err));
  KF_TRY(take_text(j));
  KF_TRY(kf_mean_eigenvalue(j->ctx, j->stats, &j->sweep->mean_eigenvalue));
  KF_TRY(take_dims(j));
  KF_TRY(take_metrics(j));
  KF_TRY(take_lambdas(j, folds));
  KF_TRY(take_alphas(j));
  const kf_sweep_options *o = &j->options;
  j->sweep->folds = folds ? (o->folds > 0 ? o->folds : KF_DEFAULT_FOLDS) : 0;
  j->sweep->n_cells = n_sets(o) * o->n_metrics * (cells_each(o) + text_cells_each(o));
  j->sweep->n_cells += n_sets(o) * fused_cells_each(o);
  j->sweep->cells = kf_alloc_zero(j->sweep->n_cells, sizeof *j->sweep->cells);
  if (j->sweep->cells == NULL) return kf_fail_memory(&j->ctx->err);
  /* A pass over all dimensions is a step, and so is every gallery. */
  uint64_t steps = o->n_lambdas * ((o->prototypes != KF_OFF) + (o->n_k > 0 ? o->n_dims : 0));
  if ((o->raw != KF_OFF)) steps += (o->prototypes != KF_OFF) + (o->n_k > 0 ? 1u : 0u);
  steps += text_cells_each(o);
  steps *= n_sets(o) * o->n_metrics;
  steps += n_sets(o) * fused_cells_each(o) + (o->fuse && o->n_alphas != 1);
  if (folds) steps *= j->sweep->folds;
  kf_quiet_begin(&j->quiet, j->ctx, "sweep", steps);
  return KF_OK;
}

static kf_status check_data(const kf_stats *stats, const kf_data *train, const kf_data *test,
                            const kf_sweep_options *o, kf_err *err) {
  if (train != NULL) KF_TRY(kf_check_statistics_of(stats, train, err));
  if (train == NULL && (test == NULL || o->n_k > 0))
    return kf_fail(err, KF_ERR_ARG, "a sweep over %s needs the training rows",
                   test == NULL ? "folds" : "neighbours");
  if (test != NULL && o->leave_one_out)
    return kf_fail(err, KF_ERR_ARG, "leave-one-out has no meaning with test data");
  if (test != NULL) KF_TRY(kf_data_refuse_mapped(test, err));
  if (test != NULL && test->dim != stats->dim)
    return kf_fail(err, KF_ERR_DATA, "the test rows have %u columns, the training rows %u",
                   test->dim, stats->dim);
  if (test == NULL && (o->truth != NULL || o->between != NULL))
    return kf_fail(err, KF_ERR_ARG, "%s has no meaning without test data",
                   o->truth != NULL ? "a truth" : "S_b from other statistics");
  if (o->between != NULL && o->n_k > 0)
    return kf_fail(err, KF_ERR_ARG,
                   "neighbours are rows of S_w, and S_b is from other statistics: sweep over "
                   "neighbours without these");
  return KF_OK;
}

kf_status kf_sweep_new(kf_ctx *ctx, const kf_stats *stats, const kf_data *train,
                       const kf_data *test, const kf_sweep_options *options, kf_sweep **out) {
  KF_ENTER(ctx, stats != NULL && out != NULL);
  sweep_job j = {.ctx = ctx, .stats = stats, .train = train, .test = test};
  if (options != NULL) j.options = *options;
  KF_TRY(check_data(stats, train, test, &j.options, err));
  j.sweep = kf_alloc_zero(1, sizeof *j.sweep);
  kf_status status = j.sweep != NULL ? prepare(&j, test == NULL) : kf_fail_memory(err);
  if (status == KF_OK)
    status = test != NULL              ? sweep_once(&j)
             : j.options.leave_one_out ? sweep_leave_one_out(&j)
                                       : sweep_folds(&j, stats, train);
  kf_quiet_end(&j.quiet);
  kf_free(j.metrics);
  kf_free(j.lambdas);
  kf_free(j.alphas);
  kf_free(j.dims);
  kf_free(j.rising);
  if (status == KF_OK)
    *out = j.sweep;
  else
    kf_sweep_free(j.sweep);
  return status;
}

void kf_sweep_free(kf_sweep *sweep) {
  if (sweep == NULL) return;
  kf_free(sweep->cells);
  kf_free(sweep);
}
