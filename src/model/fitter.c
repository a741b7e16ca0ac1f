/* fitter.c - the Fukunaga-Koontz transform (docs/method.md): T with
 *
 *     T (S_w + lambda I) T^T = I       T S_b T^T = diag(gamma)
 *
 * gamma falling: the directions that tell classes apart first. directions.c finds them. Beyond the
 * rank of S_b (at most K - 1) gamma is zero and directions are an orthonormal completion.
 *
 * By default columns are first divided by s_i, with s_i^2 = S_w[i][i] / the mean of the diagonal,
 * and so are the columns of T in the end. Lambda is then added to a matrix with a constant
 * diagonal: S_w is shrunk towards its own diagonal, the units of the columns cancel, and the mean
 * eigenvalue does not change. With fewer than FEW_DEGREES degrees of freedom (N - K) the s_i^2 are
 * themselves too uncertain, and are shrunk towards 1.
 *
 * Class means are also shrunk, towards the mean of all rows. Along direction d a row has the
 * variance 1 / (N - K) around its class mean, and class means have the variance gamma_d / (n_0 (K -
 * 1)), with n_0 = (N - sum n_k^2 / N) / (K - 1), their effective number of rows. The best
 * prediction of a class mean from the mean of n rows is the share
 *
 *     n g_d / (1 + n g_d),      g_d = kappa gamma_d,      kappa = (N - K) / (n_0 (K - 1)).
 *
 * If no class has two different rows, S_w is 0. Then the scatter of all rows takes its place, and
 * class means are not shrunk. */
#include "base/text.h"
#include "model/fitter.h"

#include <math.h>
#include <string.h>

#define FEW_DEGREES 16

kf_status kf_lambda_parse(kf_ctx *ctx, const char *text, kf_lambda *out) {
  KF_ENTER(ctx, text != NULL && out != NULL);
  static const struct {
    const char *name;
    kf_lambda_unit unit;
  } rules[] = {
      {"auto", KF_LAMBDA_AUTO}, {"gda", KF_LAMBDA_GDA}, {"ledoit-wolf", KF_LAMBDA_LEDOIT_WOLF}};
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
    if (strcmp(text, rules[i].name) == 0) {
      *out = (kf_lambda){.unit = rules[i].unit};
      return KF_OK;
    }
  const char *end;
  double value = kf_parse_f64(text, &end);
  bool relative = strcmp(end, "x") == 0, absolute = *end == '\0';
  if (end == text || !(relative || absolute)) value = -1;
  if (!(value >= 0) || !isfinite(value))
    return kf_fail(err, KF_ERR_ARG,
                   "lambda must be a number of at least 0 (150), a multiple of the mean eigenvalue "
                   "(0.3x), auto, gda or ledoit-wolf, not '%s'",
                   text);
  *out = (kf_lambda){.value = value, .unit = relative ? KF_LAMBDA_RELATIVE : KF_LAMBDA_ABSOLUTE};
  return KF_OK;
}

/* --- shared by all fits of the same statistics ----------------------------------------------- */

static kf_status check_statistics(const kf_stats *w, const kf_stats *b, kf_err *err) {
  if (w->dim != b->dim || w->normalized != b->normalized)
    return kf_fail_file(
        err, w->from,
        "the statistics for S_w (%u columns, %s) and S_b (%u columns, %s) do not match", w->dim,
        w->normalized ? "unit length" : "raw", b->dim, b->normalized ? "unit length" : "raw");
  KF_TRY(kf_origin_agree(&w->origin, &b->origin, err));
  KF_TRY(kf_check_filled(w, err));
  uint32_t filled = 0;
  for (uint32_t k = 0; k < b->n_classes; k++) filled += b->counts[k] > 0;
  if (filled < 2)
    return kf_fail_with(err, KF_ERR_MATH, KF_HINT_NONE, b->from,
                        "a fit needs at least two classes with rows; there %s %u",
                        filled == 1 ? "is" : "are", filled);
  return KF_OK;
}

static kf_status scale_rows(void *argument, size_t block, size_t worker, kf_err *err) {
  (void)worker;
  (void)err;
  const kf_fitter *f = argument;
  uint64_t n = f->dim, end = kf_block_end(n, block);
  for (uint64_t i = block * (uint64_t)KF_ROW_BLOCK; i < end; i++)
    for (uint64_t j = 0; j < n; j++) {
      double scale = f->column[i] * f->column[j];
      f->s_w[i * n + j] *= scale;
      f->s_b[i * n + j] *= scale;
    }
  return KF_OK;
}

static double degrees_of(const kf_fitter *f) {
  const kf_stats *s = f->by_all_rows ? f->between : f->within;
  uint64_t used = f->by_all_rows;
  for (uint32_t k = 0; !f->by_all_rows && k < s->n_classes; k++) used += s->counts[k] > 0;
  return (double)(s->rows - used);
}

/* The mean of all variances counts like this many degrees of freedom of each: 1 where there are
 * none, and 0 from FEW_DEGREES on. */
static double degrees_of_mean(double degrees) {
  return degrees < FEW_DEGREES ? 1 - degrees / FEW_DEGREES : 0;
}

/* Divides rows and columns of S_w and S_b by the standard deviations within classes. A column that
 * is constant within classes is divided by its deviation between them, and a constant column is not
 * changed. */
static kf_status scale_columns(kf_fitter *f) {
  uint64_t n = f->dim;
  double *s_w = f->s_w, *s_b = f->s_b, mean = 0;
  for (uint64_t i = 0; i < n; i++) f->column[i] = 1;
  if (f->method == KF_METHOD_PAPER) return KF_OK;
  for (uint64_t i = 0; i < n; i++) mean += s_w[i * n + i];
  f->by_all_rows = !(mean > 0);
  if (f->by_all_rows) {
    memcpy(s_w, s_b, n * n * sizeof *s_w); /* without S_w, all scatter is between classes */
    for (uint64_t i = 0; i < n; i++) mean += s_w[i * n + i];
  }
  mean /= (double)n;
  double degrees = degrees_of(f), more = degrees_of_mean(degrees);
  for (uint64_t i = 0; i < n && mean > 0; i++) {
    double scatter = s_w[i * n + i] > 0 ? s_w[i * n + i] : s_b[i * n + i];
    if (scatter > 0 && more > 0) scatter = (degrees * scatter + more * mean) / (degrees + more);
    if (scatter > 0) f->column[i] = sqrt(mean / scatter);
    if (!isfinite(f->column[i])) f->column[i] = 1;
  }
  return kf_by_rows(f->ctx, n, scale_rows, f);
}

static kf_status prepare(kf_fitter *f) {
  kf_ctx *ctx = f->ctx;
  uint64_t n = f->dim;
  KF_TAKE(&f->arena, f->mean, n);
  KF_TAKE(&f->arena, f->column, n);
  kf_directions_take(f);
  if (f->arena.failed) return kf_fail_memory(&ctx->err);
  KF_TRY(kf_progress(ctx, "fit", 0, KF_FIT_STEPS));
  if (f->within == f->between) {
    KF_TRY(kf_scatter(ctx, f->within, f->s_w, f->s_b, f->mean));
  } else {
    KF_TRY(kf_scatter(ctx, f->within, f->s_w, NULL, NULL));
    KF_TRY(kf_scatter(ctx, f->between, NULL, f->s_b, f->mean));
  }
  for (uint64_t i = 0; i < n; i++) f->trace += f->s_w[i * n + i];
  f->norm2 = ctx->kernels->dot(n * n, f->s_w, f->s_w);
  KF_TRY(scale_columns(f));
  double trace = 0;
  for (uint64_t i = 0; i < n; i++) trace += f->s_w[i * n + i];
  f->mean_eigenvalue = trace / f->dim;
  return kf_progress(ctx, "fit", 1, KF_FIT_STEPS);
}

kf_status kf_fitter_new(kf_ctx *ctx, const kf_stats *within, const kf_stats *between,
                        kf_method method, kf_fitter **out) {
  if (between == NULL) between = within;
  KF_TRY(kf_check_method(method, &ctx->err));
  KF_TRY(check_statistics(within, between, &ctx->err));
  kf_fitter *f = kf_alloc_zero(1, sizeof *f);
  if (f == NULL) return kf_fail_memory(&ctx->err);
  f->ctx = ctx;
  f->within = within;
  f->between = between;
  f->dim = within->dim;
  f->method = method == KF_METHOD_PAPER ? KF_METHOD_PAPER : KF_METHOD_SHRUNK;
  KF_HAND_OUT(prepare(f), out, f, kf_fitter_free);
}

void kf_fitter_free(kf_fitter *f) {
  if (f == NULL) return;
  kf_arena_free(&f->arena);
  kf_free(f);
}

kf_status kf_check_method(kf_method method, kf_err *err) {
  if ((unsigned)method <= KF_METHOD_PAPER) return KF_OK;
  return kf_fail(err, KF_ERR_ARG, "invalid method %d", (int)method);
}

kf_status kf_check_centre(kf_centre centre, kf_method method, kf_err *err) {
  if (centre != KF_CENTRE_NONE || method == KF_METHOD_PAPER) return KF_OK;
  return kf_fail_hint(err, KF_ERR_ARG, KF_HINT_METHOD,
                      "only the paper's method can leave rows uncentred");
}

kf_centre kf_centre_for(kf_centre centre, kf_method method) {
  if (centre != KF_CENTRE_DEFAULT) return centre;
  return method == KF_METHOD_PAPER ? KF_CENTRE_NONE : KF_CENTRE_MEAN;
}

/* --- one lambda ------------------------------------------------------------------------------ */

static kf_status fail_zero(const kf_stats *s, kf_err *err) {
  bool alone = true;
  for (uint32_t k = 0; k < s->n_classes; k++) alone = alone && s->counts[k] <= 1;
  return kf_fail_with(err, KF_ERR_MATH, KF_HINT_LAMBDA, s->from,
                      "the scatter within classes is zero: %s (%llu rows, %u classes); check the "
                      "labels, or use an absolute lambda above 0",
                      alone ? "every row is alone in its class" : "no class has two different rows",
                      (unsigned long long)s->rows, s->n_classes);
}

/* Without lambda, S_w must have full matrix rank. */
static kf_status check_matrix_rank(kf_fitter *f) {
  kf_err *err = &f->ctx->err;
  KF_TRY(kf_fitter_decompose_within(f));
  if (f->dims_within == 0) return fail_zero(f->within, err);
  if (f->dims_within == f->dim) return KF_OK;
  return kf_fail_hint(
      err, KF_ERR_MATH, KF_HINT_LAMBDA,
      "the scatter %s has matrix rank %u of %u, so lambda must be above 0: %s is a good "
      "start, and %.2g about the smallest above rounding errors",
      f->by_all_rows ? "of all rows" : "within classes", f->dims_within, f->dim,
      f->by_all_rows ? "30x" : "0.3x", 1e6 * f->noise);
}

kf_status kf_fitter_lambda(kf_fitter *f, kf_lambda lambda, double *out) {
  kf_err *err = &f->ctx->err;
  double value = lambda.value;
  bool rule = lambda.unit == KF_LAMBDA_AUTO || lambda.unit == KF_LAMBDA_GDA;
  if (lambda.unit == KF_LAMBDA_LEDOIT_WOLF)
    return kf_fail_hint(err, KF_ERR_ARG, KF_HINT_ROWS, "Ledoit and Wolf's lambda needs the rows");
  if ((unsigned)lambda.unit > KF_LAMBDA_GDA)
    return kf_fail(err, KF_ERR_ARG, "invalid unit of lambda, %d", (int)lambda.unit);
  if (!rule && !(value >= 0 && isfinite(value)))
    return kf_fail(err, KF_ERR_ARG, "lambda must be finite and not negative");
  if (lambda.unit == KF_LAMBDA_AUTO) value = (f->by_all_rows ? 30 : 0.3) * f->mean_eigenvalue;
  if (lambda.unit == KF_LAMBDA_RELATIVE) value *= f->mean_eigenvalue;
  if (lambda.unit == KF_LAMBDA_GDA) {
    uint64_t others = f->within->rows > 1 ? f->within->rows - 1 : 1;
    value = f->mean_eigenvalue * f->dim / (double)others;
  }
  if (!isfinite(value)) return kf_fail(err, KF_ERR_ARG, "lambda is too large for double precision");
  if (value == 0) KF_TRY(check_matrix_rank(f));
  *out = value;
  return KF_OK;
}

typedef struct model_job {
  const kf_fitter *fitter;
  kf_model *model;
} model_job;

/* Copies columns of the map to rows of T, in the units of the columns, with the sign that makes the
 * largest component (the first on a tie) positive, and transposes T. */
static kf_status finish_directions(void *argument, size_t block, size_t worker, kf_err *err) {
  (void)worker;
  (void)err;
  const model_job *j = argument;
  const kf_map *map = &j->model->map;
  const kf_fitter *f = j->fitter;
  uint64_t n = map->dim_in, kept = map->dim_out, end = kf_block_end(kept, block);
  uint64_t first = block * (uint64_t)KF_ROW_BLOCK, step = 8; /* a cache line of both */
  for (uint64_t l = first; l < end; l += step)
    for (uint64_t i = 0; i < n; i++)
      for (uint64_t t = l; t < end && t < l + step; t++)
        map->transform[t * n + i] = f->map[i * n + t] * f->column[i];
  for (uint64_t l = first; l < end; l++) {
    double *row = map->transform + l * n, largest = 0;
    for (uint64_t i = 0; i < n; i++)
      if (fabs(row[i]) > fabs(largest)) largest = row[i];
    for (uint64_t i = 0; largest < 0 && i < n; i++) row[i] = -row[i];
  }
  for (uint64_t l = first; l < end; l += step)
    for (uint64_t i = 0; i < n; i++)
      for (uint64_t t = l; t < end && t < l + step; t++)
        map->transposed[i * kept + t] = map->transform[t * n + i];
  return KF_OK;
}

static kf_status set_map(kf_fitter *f, kf_model *m) {
  KF_TRY(kf_find_map(f, m->map.lambda));
  KF_TRY(kf_progress(f->ctx, "fit", 2, KF_FIT_STEPS));
  m->dims_within = f->dims_within;
  memcpy(m->within, f->values, f->dim * sizeof *f->values);
  memcpy(m->between, f->gamma, f->dim * sizeof *f->gamma);
  return kf_by_rows(f->ctx, m->map.dim_out, finish_directions,
                    &(model_job){.fitter = f, .model = m});
}

static kf_status set_signal(const kf_fitter *f, kf_model *m) {
  if (f->method == KF_METHOD_PAPER || f->by_all_rows) return KF_OK;
  double kappa = kf_fitter_kappa(f);
  KF_TRY(kf_model_make_signal(m, &f->ctx->err));
  for (uint32_t i = 0; i < f->dim; i++) m->signal[i] = m->between[i] * kappa;
  return KF_OK;
}

double kf_distance_unit(const kf_stats *s) {
  uint64_t classes = 0;
  for (uint32_t k = 0; k < s->n_classes; k++) classes += s->counts[k] > 0;
  return (double)(s->rows - classes);
}

kf_status kf_check_priors(kf_priors priors, kf_method method, kf_err *err) {
  if ((unsigned)priors > KF_PRIORS_TRAINING)
    return kf_fail(err, KF_ERR_ARG, "invalid priors %d", (int)priors);
  if (priors == KF_PRIORS_TRAINING && method == KF_METHOD_PAPER)
    return kf_fail(err, KF_ERR_ARG, "the paper's method takes all classes to be equally likely");
  return KF_OK;
}

kf_status kf_fitter_set_priors(kf_fitter *f, kf_priors priors) {
  KF_TRY(kf_check_priors(priors, f->method, &f->ctx->err));
  f->priors = priors;
  return KF_OK;
}

double kf_fitter_prior(const kf_fitter *f) {
  bool none = f->method == KF_METHOD_PAPER || f->priors == KF_PRIORS_EQUAL || f->by_all_rows;
  return none || f->within->normalized ? 0 : 2 / kf_distance_unit(f->within);
}

bool kf_fitter_weighs(const kf_fitter *f) {
  return f->priors == KF_PRIORS_TRAINING && f->within->normalized && !f->by_all_rows;
}

double kf_fitter_kappa(const kf_fitter *f) {
  const kf_stats *b = f->between;
  double squares = 0;
  for (uint32_t k = 0; k < b->n_classes; k++)
    squares += (double)b->counts[k] * (double)b->counts[k];
  double rows = (double)b->rows, common = rows - squares / rows; /* n_0 (K - 1) */
  return kf_distance_unit(f->within) / common;
}

/* --- classes -------------------------------------------------------------------------------- */

static kf_status set_classes(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  const model_job *j = argument;
  uint32_t first = (uint32_t)i * KF_MAP_ROWS, left = j->model->n_classes - first;
  return kf_model_set_classes(j->model, j->fitter->ctx->kernels, first,
                              left < KF_MAP_ROWS ? left : KF_MAP_ROWS, j->fitter->between, first,
                              err);
}

static kf_status set_all_classes(const kf_fitter *f, kf_model *m) {
  size_t tasks = (m->n_classes + KF_MAP_ROWS - 1) / KF_MAP_ROWS;
  return kf_parallel(f->ctx, tasks, set_classes, &(model_job){.fitter = f, .model = m});
}

/* Sets the version and the checksum of the statistics, of both if they differ. */
static kf_status set_provenance(kf_fitter *f, kf_map *map) {
  if (f->checksum == 0) {
    uint64_t sums[2];
    KF_TRY(kf_stats_checksum(f->within, &sums[0], &f->ctx->err));
    f->checksum = sums[0];
    if (f->between != f->within) {
      kf_checksum both;
      KF_TRY(kf_stats_checksum(f->between, &sums[1], &f->ctx->err));
      kf_checksum_start(&both);
      kf_checksum_add(&both, sums, sizeof sums);
      if (sums[1] != sums[0]) f->checksum = kf_checksum_value(&both);
    }
  }
  map->fitted_from = f->checksum;
  snprintf(map->fitted_by, sizeof map->fitted_by, "koofu %s", kf_version());
  return KF_OK;
}

static kf_status fit_model(kf_fitter *f, double lambda, kf_centre centre, kf_model *m) {
  m->map.normalized = f->within->normalized;
  m->map.centre = centre;
  m->map.lambda = lambda;
  m->map.method = f->method;
  m->map.origin = f->within->origin;
  KF_TRY(kf_origin_join(&m->map.origin, &f->between->origin, &f->ctx->err));
  KF_TRY(set_provenance(f, &m->map));
  m->rows = f->within->rows;
  m->mean_eigenvalue = f->mean_eigenvalue;
  m->prior = kf_fitter_prior(f);
  memcpy(m->map.mean, f->mean, f->dim * sizeof *f->mean);
  KF_TRY(set_map(f, m));
  KF_TRY(set_signal(f, m));
  KF_TRY(kf_progress(f->ctx, "fit", 3, KF_FIT_STEPS));
  KF_TRY(set_all_classes(f, m));
  return kf_progress(f->ctx, "fit", KF_FIT_STEPS, KF_FIT_STEPS);
}

kf_status kf_fitter_fit(kf_fitter *f, kf_lambda lambda, uint32_t dim, kf_centre centre,
                        kf_model **out) {
  kf_err *err = &f->ctx->err;
  if (dim > f->dim) return kf_fail_dim(dim, f->dim, err);
  if ((unsigned)centre > KF_CENTRE_MEAN)
    return kf_fail(err, KF_ERR_ARG, "invalid centre %d", (int)centre);
  centre = kf_centre_for(centre, f->method);
  KF_TRY(kf_check_centre(centre, f->method, err));
  double value = 0;
  KF_TRY(kf_fitter_lambda(f, lambda, &value));
  kf_model *m;
  KF_TRY(kf_model_create(f->dim, dim > 0 ? dim : f->dim, f->between->n_classes, &f->between->names,
                         &m, err));
  KF_HAND_OUT(fit_model(f, value, centre, m), out, m, kf_model_free);
}

kf_status kf_fitter_shorten(const kf_fitter *f, const kf_model *model, uint32_t dim,
                            kf_centre centre, kf_model **out) {
  kf_model *m;
  KF_TRY(kf_model_create(f->dim, dim, f->between->n_classes, &f->between->names, &m, &f->ctx->err));
  kf_status status = kf_model_copy_map(model, m, &f->ctx->err);
  m->map.centre = centre; /* the map itself does not depend on it */
  if (status == KF_OK) status = set_all_classes(f, m);
  KF_HAND_OUT(status, out, m, kf_model_free);
}
