/* sweep_plan.c - the cells of a sweep and the order of the work.
 *
 * Cells are listed in the documented order. The keys of a cell say which objects and which pass
 * over the test rows it needs. Sorted by key, cells that share work are neighbours. */
#include "choose/sweep.h"

#include <stdlib.h>

/* --- the work for a cell ---------------------------------------------------------------------- */

static kf_sweep_kind kind_of(const kf_sweep_plan *p, const kf_sweep_cell *c) {
  if (p->options.leave_one_out) return KF_SWEEP_LEAVE_ONE_OUT;
  if (c->fused) return KF_SWEEP_FUSED;
  if (c->text != KF_CENTRE_DEFAULT) return c->raw ? KF_SWEEP_RAW_TEXT : KF_SWEEP_TEXT;
  if (c->k > 0) return c->raw ? KF_SWEEP_RAW_NEIGHBOURS : KF_SWEEP_NEIGHBOURS;
  return c->raw ? KF_SWEEP_RAW_PROTOTYPES : KF_SWEEP_PROTOTYPES;
}

static kf_sweep_work work_for(const kf_sweep_plan *p, size_t cell, size_t lambda) {
  const kf_sweep_cell *c = &p->cells[cell];
  kf_sweep_kind kind = kind_of(p, c);
  kf_sweep_work w = {.cell = cell, .lambda = lambda};
  bool all_lambdas = kind == KF_SWEEP_LEAVE_ONE_OUT;
  bool all_dims = kind == KF_SWEEP_PROTOTYPES;
  bool own_metric = c->k > 0 || kind == KF_SWEEP_LEAVE_ONE_OUT;
  w.key[KF_SWEEP_BY_LAMBDA] = all_lambdas ? 0 : lambda;
  w.key[KF_SWEEP_BY_KIND] = kind;
  w.key[KF_SWEEP_BY_DIM] = all_dims ? 0 : c->dim;
  w.key[KF_SWEEP_BY_TEXT] = (uint64_t)c->text;
  w.key[KF_SWEEP_BY_METRIC] = own_metric ? (uint64_t)c->metric : 0;
  w.key[KF_SWEEP_BY_SET] = c->set;
  w.key[KF_SWEEP_BY_PASS_METRIC] = (uint64_t)c->metric;
  return w;
}

size_t kf_sweep_agreeing(const kf_sweep_work *work, size_t n, size_t keys) {
  size_t i = 1;
  for (; i < n; i++)
    for (size_t k = 0; k < keys; k++)
      if (work[i].key[k] != work->key[k]) return i;
  return i;
}

static int by_key(const void *a, const void *b) {
  const kf_sweep_work *x = a, *y = b;
  for (size_t k = 0; k < KF_SWEEP_KEYS; k++)
    if (x->key[k] != y->key[k]) return x->key[k] < y->key[k] ? -1 : 1;
  return (x->cell > y->cell) - (x->cell < y->cell);
}

/* --- cells ----------------------------------------------------------------------------------- */

/* Counts a cell and, once there is memory, lists it. */
static void add_cell(kf_sweep_plan *p, const kf_sweep_cell *cell, size_t lambda) {
  size_t i = p->n_cells++;
  if (p->cells == NULL) return;
  p->cells[i] = *cell;
  p->work[i] = work_for(p, i, lambda);
}

static void add_dims(kf_sweep_plan *p, kf_sweep_cell c, size_t lambda) {
  for (size_t d = 0; d < p->options.n_dims; d++) {
    c.dim = p->options.dims[d];
    add_cell(p, &c, lambda);
  }
}

/* In the original space one cell serves all lambdas and dimensions. */
static void add_raw(kf_sweep_plan *p, kf_sweep_cell c) {
  c.raw = 1;
  c.dim = p->usual_dim;
  if (p->options.include_raw != KF_OFF) add_cell(p, &c, 0);
}

static void add_rows(kf_sweep_plan *p, kf_sweep_cell c) {
  for (size_t i = 0; i < p->n_classifiers; i++) {
    c.k = p->classifiers[i];
    add_raw(p, c);
  }
  for (size_t l = 0; l < p->options.n_lambdas; l++)
    for (size_t i = 0; i < p->n_classifiers; i++) {
      c.k = p->classifiers[i];
      add_dims(p, c, l);
    }
}

static void add_text(kf_sweep_plan *p, kf_sweep_cell c) {
  const kf_sweep_options *o = &p->options;
  c.text = KF_CENTRE_NONE;
  add_raw(p, c);
  for (size_t t = 0; t < o->n_text_centres; t++)
    for (size_t l = 0; l < o->n_lambdas; l++) {
      c.text = o->text_centres[t];
      add_dims(p, c, l);
    }
}

static void add_cells(kf_sweep_plan *p) {
  const kf_sweep_options *o = &p->options;
  p->n_cells = 0;
  for (uint32_t set = 0; set < p->n_sets; set++)
    for (size_t m = 0; m < o->n_metrics; m++)
      add_rows(p, (kf_sweep_cell){.set = set, .metric = o->metrics[m]});
  for (uint32_t set = 0; o->text != NULL && set < p->n_sets; set++)
    for (size_t m = 0; m < o->n_metrics; m++)
      add_text(p, (kf_sweep_cell){.set = set, .metric = o->metrics[m]});
  for (uint32_t set = 0; o->fuse && set < p->n_sets; set++)
    for (size_t l = 0; l < o->n_lambdas; l++)
      add_dims(p, (kf_sweep_cell){.set = set, .metric = KF_METRIC_COSINE, .fused = 1}, l);
}

static kf_status lay_out(kf_sweep_plan *p, kf_err *err) {
  add_cells(p);
  kf_sweep_cell *cells;
  KF_TAKE(&p->arena, cells, p->n_cells);
  KF_TAKE(&p->arena, p->work, p->n_cells);
  if (p->arena.failed) return kf_fail_memory(err);
  p->cells = cells;
  add_cells(p);
  qsort(p->work, p->n_cells, sizeof *p->work, by_key);
  return KF_OK;
}

/* --- options --------------------------------------------------------------------------------- */

static kf_status check_dims(kf_sweep_plan *p, const kf_stats *stats, kf_err *err) {
  kf_sweep_options *o = &p->options;
  if (o->dims == NULL) {
    o->dims = &p->usual_dim;
    o->n_dims = 1;
  }
  if (o->n_dims == 0) return kf_fail(err, KF_ERR_ARG, "the list of dimensions is empty");
  for (size_t i = 0; i < o->n_dims; i++)
    if (o->dims[i] < 1 || o->dims[i] > stats->dim) return kf_fail_dim(o->dims[i], stats->dim, err);
  return KF_OK;
}

static kf_status take_metrics(kf_sweep_plan *p, const kf_stats *stats, kf_err *err) {
  kf_sweep_options *o = &p->options;
  static const kf_metric usual = KF_METRIC_DEFAULT;
  const kf_metric *given = o->metrics != NULL ? o->metrics : &usual;
  kf_metric *metrics;
  if (o->metrics == NULL) o->n_metrics = 1;
  if (o->n_metrics == 0) return kf_fail(err, KF_ERR_ARG, "the list of metrics is empty");
  if (KF_TAKE(&p->arena, metrics, o->n_metrics) == NULL) return kf_fail_memory(err);
  for (size_t i = 0; i < o->n_metrics; i++) {
    if ((unsigned)given[i] > KF_METRIC_EUCLIDEAN) return kf_fail_metric(given[i], err);
    metrics[i] = kf_metric_for(given[i], stats->normalized);
  }
  o->metrics = metrics;
  return KF_OK;
}

/* With folds, absolute lambdas become relative (kf_fold_lambda). */
static kf_status take_lambdas(kf_sweep_plan *p, bool folds, double mean_eigenvalue, kf_err *err) {
  kf_sweep_options *o = &p->options;
  const kf_lambda *given = o->lambdas;
  kf_lambda *lambdas;
  if (given == NULL) o->n_lambdas = 1;
  if (o->n_lambdas == 0) return kf_fail(err, KF_ERR_ARG, "the list of lambdas is empty");
  if (KF_TAKE_ZERO(&p->arena, lambdas, o->n_lambdas) == NULL) return kf_fail_memory(err);
  for (size_t i = 0; given != NULL && i < o->n_lambdas; i++)
    lambdas[i] = folds ? kf_fold_lambda(given[i], mean_eigenvalue) : given[i];
  o->lambdas = lambdas;
  return KF_OK;
}

static kf_status take_classifiers(kf_sweep_plan *p, kf_err *err) {
  kf_sweep_options *o = &p->options;
  if (o->k == NULL) o->n_k = 0;
  if (o->n_k == 0 && o->include_prototypes == KF_OFF && o->text == NULL)
    return kf_fail(err, KF_ERR_ARG, "a sweep without prototypes needs numbers of neighbours");
  if (KF_TAKE(&p->arena, p->classifiers, o->n_k + 1) == NULL) return kf_fail_memory(err);
  if (o->include_prototypes != KF_OFF) p->classifiers[p->n_classifiers++] = 0;
  for (size_t i = 0; i < o->n_k; i++) {
    if (o->k[i] <= (i > 0 ? o->k[i - 1] : 0))
      return kf_fail(err, KF_ERR_ARG, "the list of k must rise, from at least 1");
    p->classifiers[p->n_classifiers++] = o->k[i];
  }
  return KF_OK;
}

static kf_status check_text(kf_ctx *ctx, kf_sweep_plan *p, const kf_stats *stats) {
  kf_err *err = &ctx->err;
  kf_sweep_options *o = &p->options;
  if (o->text == NULL) return KF_OK;
  if (o->text_centres == NULL) {
    p->usual_centre = KF_CENTRE_MODALITY;
    o->text_centres = &p->usual_centre;
    o->n_text_centres = 1;
  }
  for (size_t i = 0; i < o->n_text_centres; i++)
    if (o->text_centres[i] < KF_CENTRE_NONE || o->text_centres[i] > KF_CENTRE_MODALITY)
      return kf_fail(err, KF_ERR_ARG, "invalid centre %d of text", (int)o->text_centres[i]);
  KF_TRY(kf_text_check(o->text, stats->dim, &stats->origin, err));
  return kf_text_match(ctx, o->text, "the training data", &stats->names, stats->n_classes);
}

static kf_status check_fusion(kf_sweep_options *o, bool train, kf_err *err) {
  if (!o->fuse) return KF_OK;
  if (o->alphas == NULL) o->n_alphas = 0;
  if (o->text == NULL) return kf_fail(err, KF_ERR_ARG, "fused cells need text");
  if (o->between != NULL)
    return kf_fail(err, KF_ERR_ARG, "fused cells cannot be used with S_b from other statistics");
  if (o->n_alphas != 1 && !train)
    return kf_fail(err, KF_ERR_ARG, "choosing alpha needs the training rows");
  return KF_OK;
}

static kf_status check_leave_one_out(kf_sweep_options *o, kf_err *err) {
  if (!o->leave_one_out) return KF_OK;
  if (o->text != NULL) return kf_fail(err, KF_ERR_ARG, "leave-one-out is for prototypes of images");
  if (o->dims != NULL || (o->k != NULL && o->n_k > 0) || o->n_sets > 0)
    return kf_fail(err, KF_ERR_ARG,
                   "leave-one-out is for prototypes with all dimensions and all classes");
  o->include_raw = KF_OFF;
  return KF_OK;
}

kf_status kf_sweep_plan_make(kf_ctx *ctx, kf_sweep_plan *p, const kf_sweep_options *options,
                             const kf_stats *stats, bool train, bool folds,
                             double mean_eigenvalue) {
  kf_err *err = &ctx->err;
  *p = (kf_sweep_plan){.options = *options};
  kf_sweep_options *o = &p->options;
  p->n_sets = o->n_sets > 0 ? (uint32_t)o->n_sets : 1;
  p->usual_dim = stats->dim;
  KF_TRY(kf_check_priors(o->priors, o->method, err));
  if (o->priors == KF_PRIORS_TRAINING && stats->normalized)
    return kf_fail(
        err, KF_ERR_ARG,
        "unit rows are swept with equal priors only, not with those of the training rows");
  KF_TRY(check_leave_one_out(o, err));
  KF_TRY(take_classifiers(p, err));
  KF_TRY(check_fusion(o, train, err));
  KF_TRY(check_dims(p, stats, err));
  KF_TRY(take_metrics(p, stats, err));
  KF_TRY(take_lambdas(p, folds, mean_eigenvalue, err));
  KF_TRY(check_text(ctx, p, stats));
  return lay_out(p, err);
}

void kf_sweep_plan_clear(kf_sweep_plan *p) { kf_arena_free(&p->arena); }
