/* fused_model.c - a model with text.
 *
 * If a class has text t and no rows, its mean is predicted: m + W^T (t - n), where m and n are the
 * means of images and of text, and W minimises over the classes that have both
 *
 *     sum_k |(mean_k - m) - W^T (t_k - n)|^2 + r |W|^2.
 *
 * With X = [t_k - n], Y = [mean_k - m] and X^T X = V^T diag(g) V, W = V^T diag(1 / (g + r)) V X^T
 * Y. The strength r is the one with the least leave-one-out error over classes, which follows from
 * the errors e_k with all classes: e_k / (1 - h_k), with h_k = x_k^T (X^T X + r)^-1 x_k. If a class
 * has rows and no text, its text is predicted in the same way, with X and Y exchanged. */
#include "model/model.h"

#include <math.h>
#include <string.h>

/* --- prediction ------------------------------------------------------------------------------ */

/* A regression from x to y, over n classes; all [n][D] and centred. */
typedef struct regression {
  uint32_t n, dim;
  double *x, *y;
  double *turned;  /* X V^T, [n][D] */
  double *vectors; /* [D][D] rows of V */
  double *values;  /* [D] g */
  double *cross;   /* V X^T Y, [D][D] */
  double strength; /* r */
  /* workspace */
  double *square;              /* [D][D] */
  double *weights, *predicted; /* [D] */
} regression;

static void regression_make(regression *r, uint32_t n, uint32_t dim, kf_arena *arena) {
  uint64_t d = dim;
  *r = (regression){.n = n, .dim = dim};
  KF_TAKE(arena, r->x, n * d);
  KF_TAKE(arena, r->y, n * d);
  KF_TAKE(arena, r->turned, n * d);
  KF_TAKE(arena, r->vectors, d * d);
  KF_TAKE(arena, r->values, d);
  KF_TAKE(arena, r->cross, d * d);
  KF_TAKE(arena, r->square, d * d);
  KF_TAKE(arena, r->weights, d);
  KF_TAKE(arena, r->predicted, d);
}

/* Predicts y from a turned x: sum_i turned[i] / (g_i + r) * cross[i][.]. */
static void predict(const regression *r, const kf_kernels *kernels, const double *turned,
                    double strength) {
  for (uint32_t i = 0; i < r->dim; i++) r->weights[i] = turned[i] / (r->values[i] + strength);
  memset(r->predicted, 0, r->dim * sizeof *r->predicted);
  kernels->gemm_tn(r->weights, 1, r->cross, r->dim, r->predicted, r->dim, 1, r->dim, r->dim);
}

/* The squared error over all classes, each predicted without itself. */
static double error_without(const regression *r, const kf_kernels *kernels, double strength) {
  double sum = 0;
  for (uint32_t k = 0; k < r->n; k++) {
    const double *turned = r->turned + (uint64_t)k * r->dim, *y = r->y + (uint64_t)k * r->dim;
    double h = 0, error = 0;
    predict(r, kernels, turned, strength);
    for (uint32_t i = 0; i < r->dim; i++) {
      h += turned[i] * r->weights[i];
      error += (y[i] - r->predicted[i]) * (y[i] - r->predicted[i]);
    }
    sum += error / ((1 - h) * (1 - h));
  }
  return sum;
}

static kf_status fit_regression(kf_ctx *ctx, regression *r) {
  uint64_t d = r->dim;
  double trace = 0, least = INFINITY;
  KF_TRY(kf_multiply(
      ctx, (kf_product){.a = r->x, .b = r->x, .c = r->square, .m = d, .n = d, .depth = r->n}));
  for (uint64_t i = 0; i < d; i++) trace += r->square[i * d + i];
  KF_TRY(kf_eigen(ctx, r->dim, r->square, r->values, r->vectors));
  for (uint64_t i = 0; i < d; i++) r->values[i] = fmax(r->values[i], 0);
  double *columns = r->square; /* V^T, and X^T Y, in turn */
  kf_transpose(d, d, r->vectors, columns);
  for (uint64_t k = 0; k < r->n; k++) {
    memset(r->turned + k * d, 0, d * sizeof *r->turned);
    ctx->kernels->gemm_tn(r->x + k * d, 1, columns, d, r->turned + k * d, d, 1, d, d);
  }
  KF_TRY(kf_multiply(
      ctx, (kf_product){.a = r->turned, .b = r->y, .c = r->cross, .m = d, .n = d, .depth = r->n}));
  static const double shares[] = {0.03, 0.1, 0.3, 1, 3, 10, 30};
  for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
    double strength = shares[i] * trace / (double)d;
    double error = error_without(r, ctx->kernels, strength);
    if (error < least) {
      least = error;
      r->strength = strength;
    }
  }
  if (least < INFINITY) return KF_OK;
  return kf_fail(&ctx->err, KF_ERR_MATH,
                 "text and images cannot be related: the classes that have both do not differ");
}

/* Predicts y from a centred x. */
static void apply_regression(const regression *r, const kf_kernels *kernels, const double *x,
                             double *turned) {
  for (uint32_t i = 0; i < r->dim; i++)
    turned[i] = kernels->dot(r->dim, x, r->vectors + (uint64_t)i * r->dim);
  predict(r, kernels, turned, r->strength);
}

/* --- missing text and prototypes ------------------------------------------------------------- */

typedef struct filling {
  kf_ctx *ctx;
  kf_model *model;
  int64_t only;      /* this class alone; -1: all */
  double *text_mean; /* [D] of the given text */
  double *x;         /* [D] workspace, like the others */
  double *turned;    /* [D] */
  double *mapped;    /* [L] */
  double *workspace; /* for kf_map_f64 */
  kf_arena arena;
} filling;

static void centred_text(const filling *f, uint64_t k, double *out) {
  uint64_t d = f->model->map.dim_in;
  for (uint64_t i = 0; i < d; i++) out[i] = (double)f->model->text[k * d + i] - f->text_mean[i];
}

static void centred_mean(const filling *f, uint64_t k, double *out) {
  uint64_t d = f->model->map.dim_in;
  for (uint64_t i = 0; i < d; i++)
    out[i] = (double)f->model->class_means[k * d + i] - f->model->map.mean[i];
}

static bool has_both(const kf_model *m, uint32_t k) { return m->counts[k] > 0 && m->text_given[k]; }

/* Whether class k lacks text but has rows (`text`), or lacks rows but has text. */
static bool lacks(const filling *f, uint32_t k, bool text) {
  const kf_model *m = f->model;
  if (f->only >= 0 && f->only != k) return false;
  return text ? m->counts[k] > 0 && !m->text_given[k] : m->counts[k] == 0 && m->text_given[k];
}

static void set_text(const filling *f, uint64_t k, const double *centred) {
  kf_model *m = f->model;
  uint32_t d = m->map.dim_in;
  for (uint32_t i = 0; i < d; i++) f->x[i] = centred[i] + f->text_mean[i];
  kf_unit_row(f->ctx->kernels, f->x, d, m->text + k * d);
}

static void set_fused(const filling *f, uint64_t k, const double *centred) {
  kf_model *m = f->model;
  const kf_map *map = &m->map;
  for (uint32_t i = 0; i < map->dim_in; i++) f->x[i] = centred[i] + map->mean[i];
  kf_map_f64(map, f->ctx->kernels, f->x, 1, f->workspace, f->mapped);
  kf_unit_row(f->ctx->kernels, f->mapped, map->dim_out, m->fused + k * map->dim_out);
}

/* Fits a regression from means to text (`text`) or from text to means, over the classes that have
 * both, and predicts what the others lack. */
static kf_status predict_missing(const filling *f, regression *r, bool text) {
  const kf_model *m = f->model;
  uint64_t d = m->map.dim_in, at = 0;
  for (uint32_t k = 0; k < m->n_classes; k++) {
    if (!has_both(m, k)) continue;
    (text ? centred_mean : centred_text)(f, k, r->x + at * d);
    (text ? centred_text : centred_mean)(f, k, r->y + at++ * d);
  }
  KF_TRY(fit_regression(f->ctx, r));
  for (uint32_t k = 0; k < m->n_classes; k++) {
    if (!lacks(f, k, text)) continue;
    (text ? centred_mean : centred_text)(f, k, f->x);
    apply_regression(r, f->ctx->kernels, f->x, f->turned);
    (text ? set_text : set_fused)(f, k, r->predicted);
  }
  return KF_OK;
}

/* Predicts missing text (`text`) or missing prototypes. */
static kf_status fill_in(const filling *f, bool text) {
  const kf_model *m = f->model;
  uint32_t missing = 0, both = 0;
  for (uint32_t k = 0; k < m->n_classes; k++) {
    missing += lacks(f, k, text);
    both += has_both(m, k);
  }
  if (missing == 0) return KF_OK;
  regression r;
  kf_arena arena = {0};
  regression_make(&r, both, m->map.dim_in, &arena);
  kf_status status = arena.failed ? kf_fail_memory(&f->ctx->err) : predict_missing(f, &r, text);
  kf_arena_free(&arena);
  return status;
}

static void find_text_mean(const filling *f) {
  const kf_model *m = f->model;
  uint32_t given = 0, d = m->map.dim_in;
  for (uint32_t k = 0; k < m->n_classes; k++) {
    if (!m->text_given[k]) continue;
    given++;
    for (uint32_t i = 0; i < d; i++) f->text_mean[i] += (double)m->text[(uint64_t)k * d + i];
  }
  for (uint32_t i = 0; i < d; i++) f->text_mean[i] /= given;
}

kf_status kf_model_complete(kf_ctx *ctx, kf_model *m, int64_t only) {
  filling f = {.ctx = ctx, .model = m, .only = only};
  KF_TAKE_ZERO(&f.arena, f.text_mean, m->map.dim_in);
  KF_TAKE(&f.arena, f.x, m->map.dim_in);
  KF_TAKE(&f.arena, f.turned, m->map.dim_in);
  KF_TAKE(&f.arena, f.mapped, m->map.dim_out);
  KF_TAKE(&f.arena, f.workspace, kf_map_workspace(&m->map));
  kf_status status = f.arena.failed ? kf_fail_memory(&ctx->err) : KF_OK;
  if (status == KF_OK) find_text_mean(&f);
  if (status == KF_OK) status = fill_in(&f, true);
  if (status == KF_OK) status = fill_in(&f, false);
  kf_arena_free(&f.arena);
  kf_model_weigh(m);
  return status;
}

/* Makes a model with the classes of `model`, followed by those that only the text has. */
typedef struct fusing {
  kf_ctx *ctx;
  const kf_model *model;
  const kf_text *text;
  int32_t *place; /* [text classes] their numbers in the result */
  kf_model *out;
  kf_arena arena;
} fusing;

/* Copies the model, with memory for all classes and their text. */
static kf_status widen(fusing *f) {
  kf_err *err = &f->ctx->err;
  const kf_model *m = f->model;
  kf_classes own = kf_model_class_list(m), added = kf_text_class_list(f->text);
  const char **list;
  KF_TAKE(&f->arena, f->place, added.n);
  KF_TAKE(&f->arena, list, (uint64_t)own.n + added.n);
  if (f->arena.failed) return kf_fail_memory(err);
  KF_TRY(kf_match_classes(&added, &own, f->place, err));
  uint32_t n = kf_join_classes(&own, &added, f->place, list);
  if (n > KF_MAX_CLASSES)
    return kf_fail(err, KF_ERR_ARG, "model and text have %u classes together, more than %u", n,
                   KF_MAX_CLASSES);
  const kf_names names = {.n = m->names.n > 0 ? n : 0, .name = (char **)list};
  KF_TRY(kf_model_create(m->map.dim_in, m->map.dim_out, n, &names, &f->out, err));
  KF_TRY(kf_model_copy(m, f->out, err));
  return kf_model_make_text(f->out, err);
}

static void take_text(fusing *f) {
  kf_model *m = f->out;
  const float *rows = kf_text_rows(f->text);
  uint64_t d = m->map.dim_in;
  for (uint32_t k = 0; k < kf_text_classes(f->text); k++) {
    uint64_t to = (uint64_t)f->place[k];
    double norm2 = f->ctx->kernels->norm2(rows + k * d, m->map.dim_in), scale = 1 / sqrt(norm2);
    for (uint64_t i = 0; i < d; i++) m->text[to * d + i] = (float)((double)rows[k * d + i] * scale);
    m->text_given[to] = 1;
  }
}

static kf_status fuse(fusing *f, double alpha) {
  const kf_model *m = f->model;
  uint64_t values = (uint64_t)m->n_classes * m->map.dim_out;
  memcpy(f->out->fused, m->prototypes, values * sizeof *f->out->fused);
  f->out->alpha = alpha;
  f->out->temperature = f->out->reject = f->out->reject_share = 0; /* of other scores */
  take_text(f);
  uint32_t both = 0;
  for (uint32_t k = 0; k < f->out->n_classes; k++) both += has_both(f->out, k);
  if (both < 2)
    return kf_fail(&f->ctx->err, KF_ERR_DATA, "model and text have %s in common",
                   both == 0 ? "no class" : "only one class");
  return kf_model_complete(f->ctx, f->out, -1);
}

static kf_status replace_text(fusing *f) {
  kf_classes own = kf_model_class_list(f->model), added = kf_text_class_list(f->text);
  uint32_t missing;
  KF_TRY(kf_log_missing(f->ctx, &added, &own, "; they are added by name", &missing));
  kf_model_copy_text(f->model, f->out);
  take_text(f);
  for (uint32_t k = 0; k < kf_text_classes(f->text); k++)
    KF_TRY(kf_model_complete(f->ctx, f->out, f->place[k]));
  return KF_OK;
}

/* alpha NULL: the model has text, some of which this replaces. */
static kf_status combine(kf_ctx *ctx, const kf_model *model, const kf_text *text,
                         const double *alpha, kf_model **out) {
  KF_TRY(kf_text_check(text, model->map.dim_in, &model->map.origin, &ctx->err));
  fusing f = {.ctx = ctx, .model = model, .text = text};
  kf_status status = widen(&f);
  const kf_origin *added = kf_text_origin(text);
  if (status == KF_OK && added != NULL)
    status = kf_origin_join(&f.out->map.origin, added, &ctx->err);
  if (status == KF_OK) kf_model_name_text(f.out, text);
  if (status == KF_OK) status = alpha != NULL ? fuse(&f, *alpha) : replace_text(&f);
  kf_arena_free(&f.arena);
  KF_HAND_OUT(status, out, f.out, kf_model_free);
}

kf_status kf_check_alpha(double alpha, kf_err *err) {
  if (alpha >= 0 && alpha <= KF_MAX_ALPHA) return KF_OK;
  return kf_fail(err, KF_ERR_ARG, "alpha must be a number from 0 to %.0f", KF_MAX_ALPHA);
}

kf_status kf_model_new_fused(kf_ctx *ctx, const kf_model *model, const kf_text *text, double alpha,
                             kf_model **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, model != NULL && text != NULL && out != NULL);
  KF_TRY(kf_check_alpha(alpha, err));
  if (!model->map.normalized)
    return kf_fail(err, KF_ERR_ARG,
                   "text cannot be added to a model that keeps the lengths of rows");
  if (model->text != NULL) return kf_fail(err, KF_ERR_ARG, "the model has text already");
  return combine(ctx, model, text, &alpha, out);
}

kf_status kf_model_new_with_text(kf_ctx *ctx, const kf_model *model, const kf_text *text,
                                 kf_model **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, model != NULL && text != NULL && out != NULL);
  if (model->text == NULL)
    return kf_fail(err, KF_ERR_ARG, "the model has no text; fuse it with text first");
  return combine(ctx, model, text, NULL, out);
}
