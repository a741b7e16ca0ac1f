/* fuse.c - a model that knows text as well.
 *
 * Where a class has text t and no rows, its mean is predicted: m + W^T (t - n), m and n being the means
 * of images and of text, and W minimising over the classes that have both
 *
 *     sum_k |(mean_k - m) - W^T (t_k - n)|^2 + r |W|^2.
 *
 * With X = [t_k - n], Y = [mean_k - m] and X^T X = V^T diag(g) V, W = V^T diag(1 / (g + r)) V X^T Y. The
 * strength r is the one with the least error when each class in turn is left out, which follows from
 * the errors e_k with it: e_k / (1 - h_k), h_k = x_k^T (X^T X + r)^-1 x_k. Where a class has rows and
 * no text, the same the other way round. */
#include "model/model.h"

#include <math.h>
#include <string.h>

/* --- matching classes ------------------------------------------------------------------------ */

typedef struct fusing {
  kf_ctx *ctx;
  const kf_model *model;
  const kf_text *text;
  int64_t *place;     /* [text classes] class of the result */
  const char **names; /* [n_classes] of the result, or NULL */
  uint32_t n_classes; /* of the result */
  kf_model *out;
} fusing;

static kf_status match_names(fusing *f) {
  const kf_model *m = f->model;
  const kf_names *theirs = kf_text_names(f->text);
  kf_dict *map;
  KF_TRY(kf_dict_new_from_names(&m->names, "model", &map, &f->ctx->err));
  for (uint32_t k = 0; k < m->n_classes; k++) f->names[k] = m->names.name[k];
  f->n_classes = m->n_classes;
  for (uint32_t k = 0; k < theirs->n; k++) {
    f->place[k] = kf_dict_find(map, theirs->name[k], strlen(theirs->name[k]));
    if (f->place[k] >= 0) continue;
    f->names[f->n_classes] = theirs->name[k];
    f->place[k] = f->n_classes++;
  }
  kf_dict_free(map);
  return KF_OK;
}

static kf_status match_classes(fusing *f) {
  kf_err *err = &f->ctx->err;
  const kf_model *m = f->model;
  uint32_t n = kf_text_classes(f->text);
  bool named = m->names.n > 0, text_named = kf_text_names(f->text)->n > 0;
  if (named != text_named)
    return kf_fail(err, KF_ERR_DATA, "the classes of the %s have names, those of the %s have none",
                   named ? "model" : "text", named ? "text" : "model");
  f->place = kf_alloc(n, sizeof *f->place);
  f->names = kf_alloc((uint64_t)m->n_classes + n, sizeof *f->names);
  if (f->place == NULL || f->names == NULL) return kf_fail_memory(err);
  if (named) return match_names(f);
  for (uint32_t k = 0; k < n; k++) f->place[k] = k;
  f->n_classes = n > m->n_classes ? n : m->n_classes;
  return KF_OK;
}

/* --- prediction ------------------------------------------------------------------------------ */

/* A regression from x to y, over n classes; all [n][D] and centred. */
typedef struct regression {
  uint32_t n, dim;
  double *x, *y;
  double *turned;  /* X V^T, [n][D] */
  double *vectors; /* [D][D] rows of V */
  double *values;  /* [D] g */
  double *cross;   /* V X^T Y, [D][D] */
  double *scratch; /* [D][D] */
  double strength; /* r */
} regression;

static bool regression_make(regression *r, uint32_t n, uint32_t dim) {
  uint64_t d = dim;
  r->n = n;
  r->dim = dim;
  r->x = kf_alloc(n * d, sizeof *r->x);
  r->y = kf_alloc(n * d, sizeof *r->y);
  r->turned = kf_alloc(n * d, sizeof *r->turned);
  r->vectors = kf_alloc(d * d, sizeof *r->vectors);
  r->values = kf_alloc(d, sizeof *r->values);
  r->cross = kf_alloc(d * d, sizeof *r->cross);
  r->scratch = kf_alloc(d * d, sizeof *r->scratch);
  return r->x && r->y && r->turned && r->vectors && r->values && r->cross && r->scratch;
}

static void regression_clear(regression *r) {
  kf_free(r->x);
  kf_free(r->y);
  kf_free(r->turned);
  kf_free(r->vectors);
  kf_free(r->values);
  kf_free(r->cross);
  kf_free(r->scratch);
}

/* out[D] = y predicted from a turned x: sum_i turned[i] / (g_i + r) * cross[i][.]. */
static void predict(const regression *r, const kf_kernels *kernels, const double *turned,
                    double strength, double *weights, double *out) {
  for (uint32_t i = 0; i < r->dim; i++) weights[i] = turned[i] / (r->values[i] + strength);
  memset(out, 0, r->dim * sizeof *out);
  kernels->gemm_tn(weights, 1, r->cross, r->dim, out, r->dim, 1, r->dim, r->dim);
}

/* The squared error over all classes, each predicted without itself. */
static double error_without(const regression *r, const kf_kernels *kernels, double strength,
                            double *weights, double *out) {
  double sum = 0;
  for (uint32_t k = 0; k < r->n; k++) {
    const double *turned = r->turned + (uint64_t)k * r->dim, *y = r->y + (uint64_t)k * r->dim;
    double h = 0, error = 0;
    predict(r, kernels, turned, strength, weights, out);
    for (uint32_t i = 0; i < r->dim; i++) {
      h += turned[i] * weights[i];
      error += (y[i] - out[i]) * (y[i] - out[i]);
    }
    sum += error / ((1 - h) * (1 - h));
  }
  return sum;
}

static kf_status fit_regression(kf_ctx *ctx, regression *r) {
  uint64_t d = r->dim;
  double trace = 0, least = INFINITY;
  KF_TRY(kf_multiply(
      ctx, (kf_product){.a = r->x, .b = r->x, .c = r->scratch, .m = d, .n = d, .depth = r->n}));
  for (uint64_t i = 0; i < d; i++) trace += r->scratch[i * d + i];
  KF_TRY(kf_eigen(ctx, r->dim, r->scratch, r->values, r->vectors));
  for (uint64_t i = 0; i < d; i++) r->values[i] = fmax(r->values[i], 0);
  double *columns = r->scratch; /* V^T, and X^T Y, in turn */
  for (uint64_t i = 0; i < d; i++)
    for (uint64_t j = 0; j < d; j++) columns[j * d + i] = r->vectors[i * d + j];
  for (uint64_t k = 0; k < r->n; k++) {
    memset(r->turned + k * d, 0, d * sizeof *r->turned);
    ctx->kernels->gemm_tn(r->x + k * d, 1, columns, d, r->turned + k * d, d, 1, d, d);
  }
  KF_TRY(kf_multiply(
      ctx, (kf_product){.a = r->turned, .b = r->y, .c = r->cross, .m = d, .n = d, .depth = r->n}));
  double *weights = kf_alloc(2 * d, sizeof *weights);
  if (weights == NULL) return kf_fail_memory(&ctx->err);
  static const double shares[] = {0.03, 0.1, 0.3, 1, 3, 10, 30};
  for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
    double strength = shares[i] * trace / (double)d;
    double error = error_without(r, ctx->kernels, strength, weights, weights + d);
    if (error < least) {
      least = error;
      r->strength = strength;
    }
  }
  kf_free(weights);
  if (least < INFINITY) return KF_OK;
  return kf_fail(&ctx->err, KF_ERR_MATH,
                 "text and images of the classes that have both cannot be related: they do not "
                 "differ");
}

/* out[D] = the y of an x, both centred. */
static void apply_regression(const regression *r, const kf_kernels *kernels, const double *x,
                             double *scratch, double *out) {
  double *turned = scratch, *weights = scratch + r->dim;
  for (uint32_t i = 0; i < r->dim; i++)
    turned[i] = kernels->dot(r->dim, x, r->vectors + (uint64_t)i * r->dim);
  predict(r, kernels, turned, r->strength, weights, out);
}

/* --- what is missing ------------------------------------------------------------------------- */

typedef struct filling {
  kf_ctx *ctx;
  kf_model *model;
  int64_t only;      /* this class alone; -1: all */
  double *text_mean; /* [D] of the text that was given */
} filling;

static void centred_text(const filling *f, uint64_t k, double *out) {
  uint64_t d = f->model->dim_in;
  for (uint64_t i = 0; i < d; i++) out[i] = (double)f->model->text[k * d + i] - f->text_mean[i];
}

static void centred_mean(const filling *f, uint64_t k, double *out) {
  uint64_t d = f->model->dim_in;
  for (uint64_t i = 0; i < d; i++)
    out[i] = (double)f->model->class_means[k * d + i] - f->model->mean[i];
}

static bool has_both(const kf_model *m, uint32_t k) { return m->counts[k] > 0 && m->text_given[k]; }

/* Whether class k lacks text, or otherwise a prototype, and has what it can be predicted from. */
static bool lacks(const filling *f, uint32_t k, bool text) {
  const kf_model *m = f->model;
  if (f->only >= 0 && f->only != k) return false;
  return text ? m->counts[k] > 0 && !m->text_given[k] : m->counts[k] == 0 && m->text_given[k];
}

static void set_text(const filling *f, uint64_t k, const double *centred, double *scratch) {
  kf_model *m = f->model;
  for (uint32_t i = 0; i < m->dim_in; i++) scratch[i] = centred[i] + f->text_mean[i];
  kf_unit_row(f->ctx->kernels, scratch, m->dim_in, m->text + k * m->dim_in);
}

static kf_status set_fused(const filling *f, uint64_t k, const double *centred) {
  kf_model *m = f->model;
  uint64_t d = m->dim_in, l = m->dim_out;
  double *x = kf_alloc(d + l + kf_map_scratch(m), sizeof *x);
  if (x == NULL) return kf_fail_memory(&f->ctx->err);
  for (uint64_t i = 0; i < d; i++) x[i] = centred[i] + m->mean[i];
  kf_map_f64(m, f->ctx->kernels, x, 1, x + d + l, x + d);
  kf_unit_row(f->ctx->kernels, x + d, m->dim_out, m->fused + k * l);
  kf_free(x);
  return KF_OK;
}

static kf_status predict_missing(const filling *f, const regression *r, bool text,
                                 double *scratch) {
  kf_model *m = f->model;
  double *x = scratch + 2 * (uint64_t)m->dim_in, *y = x + m->dim_in;
  for (uint32_t k = 0; k < m->n_classes; k++) {
    if (!lacks(f, k, text)) continue;
    (text ? centred_mean : centred_text)(f, k, x);
    apply_regression(r, f->ctx->kernels, x, scratch, y);
    if (text)
      set_text(f, k, y, scratch);
    else
      KF_TRY(set_fused(f, k, y));
  }
  return KF_OK;
}

/* Predicts what classes lack: text where `text`, otherwise prototypes. */
static kf_status fill_in(const filling *f, bool text) {
  const kf_model *m = f->model;
  uint32_t missing = 0, both = 0;
  for (uint32_t k = 0; k < m->n_classes; k++) {
    missing += lacks(f, k, text);
    both += has_both(m, k);
  }
  if (missing == 0) return KF_OK;
  regression r = {0};
  double *scratch = kf_alloc(4 * (uint64_t)m->dim_in, sizeof *scratch);
  bool all = scratch != NULL && regression_make(&r, both, m->dim_in);
  kf_status status = all ? KF_OK : kf_fail_memory(&f->ctx->err);
  for (uint32_t k = 0, at = 0; status == KF_OK && k < m->n_classes; k++) {
    if (!has_both(m, k)) continue;
    (text ? centred_mean : centred_text)(f, k, r.x + (uint64_t)at * m->dim_in);
    (text ? centred_text : centred_mean)(f, k, r.y + (uint64_t)at++ * m->dim_in);
  }
  if (status == KF_OK) status = fit_regression(f->ctx, &r);
  if (status == KF_OK) status = predict_missing(f, &r, text, scratch);
  regression_clear(&r);
  kf_free(scratch);
  return status;
}

kf_status kf_model_complete(kf_ctx *ctx, kf_model *m, int64_t only) {
  filling f = {.ctx = ctx, .model = m, .only = only};
  f.text_mean = kf_alloc_zero(m->dim_in, sizeof *f.text_mean);
  if (f.text_mean == NULL) return kf_fail_memory(&ctx->err);
  uint32_t given = 0;
  for (uint32_t k = 0; k < m->n_classes; k++) {
    if (!m->text_given[k]) continue;
    given++;
    for (uint32_t i = 0; i < m->dim_in; i++)
      f.text_mean[i] += (double)m->text[(uint64_t)k * m->dim_in + i];
  }
  for (uint32_t i = 0; i < m->dim_in; i++) f.text_mean[i] /= given;
  kf_status status = fill_in(&f, true);
  if (status == KF_OK) status = fill_in(&f, false);
  kf_free(f.text_mean);
  kf_model_weigh(m);
  return status;
}

/* --- all together ---------------------------------------------------------------------------- */

static void take_text(fusing *f) {
  kf_model *m = f->out;
  const float *rows = kf_text_rows(f->text);
  uint64_t d = m->dim_in;
  for (uint32_t k = 0; k < kf_text_classes(f->text); k++) {
    uint64_t to = (uint64_t)f->place[k];
    double norm2 = f->ctx->kernels->norm2(rows + k * d, m->dim_in), scale = 1 / sqrt(norm2);
    for (uint64_t i = 0; i < d; i++) m->text[to * d + i] = (float)((double)rows[k * d + i] * scale);
    m->text_given[to] = 1;
  }
}

static kf_status fuse(fusing *f, double alpha) {
  kf_err *err = &f->ctx->err;
  const kf_model *m = f->model;
  KF_TRY(match_classes(f));
  const kf_names names = {.n = m->names.n > 0 ? f->n_classes : 0, .name = (char **)f->names};
  KF_TRY(kf_model_create(m->dim_in, m->dim_out, f->n_classes, &names, &f->out, err));
  kf_model_copy(m, f->out);
  KF_TRY(kf_model_make_text(f->out, err));
  memcpy(f->out->fused, m->prototypes, (uint64_t)m->n_classes * m->dim_out * sizeof *f->out->fused);
  f->out->alpha = alpha;
  take_text(f);
  uint32_t both = 0;
  for (uint32_t k = 0; k < f->n_classes; k++) both += has_both(f->out, k);
  if (both < 2)
    return kf_fail(err, KF_ERR_DATA, "%s of the model and of the text %s the same",
                   both == 0 ? "no classes" : "only one class", both == 0 ? "are" : "is");
  return kf_model_complete(f->ctx, f->out, -1);
}

kf_status kf_model_new_fused(kf_ctx *ctx, const kf_model *model, const kf_text *text, double alpha,
                             kf_model **out) {
  KF_ENTER(ctx, model != NULL && text != NULL && out != NULL);
  if (!(alpha >= 0 && isfinite(alpha)))
    return kf_fail(err, KF_ERR_ARG, "alpha is %g, it must be finite and not negative", alpha);
  if (!model->normalized)
    return kf_fail(err, KF_ERR_ARG, "text has no place in a model of raw norms");
  if (model->text != NULL) return kf_fail(err, KF_ERR_ARG, "the model knows text already");
  KF_TRY(kf_text_check(text, model->dim_in, err));
  fusing f = {.ctx = ctx, .model = model, .text = text};
  kf_status status = fuse(&f, alpha);
  kf_free(f.place);
  kf_free(f.names);
  if (status == KF_OK)
    *out = f.out;
  else
    kf_model_free(f.out);
  return status;
}

kf_status kf_model_new_with_text(kf_ctx *ctx, const kf_model *model, const kf_text *text,
                                 kf_model **out) {
  KF_ENTER(ctx, model != NULL && text != NULL && out != NULL);
  if (model->text == NULL)
    return kf_fail(err, KF_ERR_ARG, "the model knows no text; fuse it with text first");
  KF_TRY(kf_text_check(text, model->dim_in, err));
  fusing f = {.ctx = ctx, .model = model, .text = text};
  kf_status status = match_classes(&f);
  const kf_names names = {.n = model->names.n > 0 ? f.n_classes : 0, .name = (char **)f.names};
  if (status == KF_OK)
    status = kf_model_create(model->dim_in, model->dim_out, f.n_classes, &names, &f.out, err);
  if (status == KF_OK) {
    kf_model_copy(model, f.out);
    status = kf_model_make_text(f.out, err);
  }
  if (status == KF_OK) {
    kf_model_copy_text(model, f.out);
    take_text(&f);
    for (uint32_t k = 0; status == KF_OK && k < kf_text_classes(text); k++)
      status = kf_model_complete(ctx, f.out, f.place[k]);
  }
  kf_free(f.place);
  kf_free(f.names);
  if (status == KF_OK)
    *out = f.out;
  else
    kf_model_free(f.out);
  return status;
}
