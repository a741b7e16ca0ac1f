/* alpha.c - chooses alpha, the weight of prototypes relative to text, by leave-one-out.
 *
 * A prototype keeps its length when a row is left out of it (left_out_block.c says why). On
 * ImageNet with two rows per class this moves alpha from at most 0.01 to 0.07, which gains two
 * points on test rows (docs/choosing.md).
 *
 * With the likelihood, few rows are enough to choose lambda. Usually three lambdas are tried. If an
 * outer one is best, with any alpha or with the largest, where prototypes count most, more are
 * tried beyond it. These must be better by more than a standard error. At the best lambda, alphas
 * near the best are tried again with the whole sample.
 *
 * Text that a class lacks is predicted from its mean (model/fused_model.c), as in the final
 * model. */
#include "choose/choose.h"
#include "choose/left_out.h"

#include <math.h>
#include <string.h>

#define CAUTIOUS_ALPHA 0.03
#define NEAR           2.0 /* alphas within this factor of the best are tried again */

static const kf_lambda usual_lambdas[] = {{0.03, KF_LAMBDA_RELATIVE},
                                          {0.1, KF_LAMBDA_RELATIVE},
                                          {0.3, KF_LAMBDA_RELATIVE},
                                          {1, KF_LAMBDA_RELATIVE},
                                          {3, KF_LAMBDA_RELATIVE}};
static const kf_lambda few_lambdas[] = {
    {0.3, KF_LAMBDA_RELATIVE}, {1, KF_LAMBDA_RELATIVE}, {3, KF_LAMBDA_RELATIVE}};
static const double lambdas_below[] = {0.1, 0.01, 0.001}, lambdas_above[] = {30};
#define COUNT_OF(array) (sizeof(array) / sizeof *(array))
#define MORE_LAMBDAS    (COUNT_OF(lambdas_below) + COUNT_OF(lambdas_above))
static const double usual_alphas[] = {0,   0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15,
                                      0.2, 0.3,  0.5,  0.7,  1,    2,    4,   10};

typedef struct fuse_job {
  kf_ctx *ctx;
  kf_fitter *fitter;
  const kf_stats *stats;
  const kf_data *data;
  const kf_text *text;
  kf_fuse_options options;
  const kf_lambda *given; /* [n_lambdas] */
  size_t n_lambdas;
  bool more_lambdas; /* may try others beyond these */
  bool every_lambda; /* an alpha is wanted for each */
  bool by_hits;      /* only hits are counted, as in the paper's method, on the whole sample */
  kf_left_out *left_out;
  kf_fuse_choice *choice;
} fuse_job;

/* Calls `use` with the text of every class, as in the fused model. That is in the space of the
 * rows, so a map to zero will do, which needs no eigenproblem. */
static kf_status with_text(fuse_job *j, kf_status (*use)(fuse_job *j, const float *text)) {
  kf_ctx *ctx = j->ctx;
  uint32_t dim = j->stats->dim;
  kf_model *map, *rows = NULL, *fused = NULL;
  KF_TRY(kf_model_create(dim, 1, 0, &(kf_names){0}, &map, &ctx->err));
  map->map.normalized = j->stats->normalized;
  memcpy(map->map.mean, j->fitter->mean, dim * sizeof *map->map.mean);
  kf_status status = kf_fitter_shorten(j->fitter, map, 1, KF_CENTRE_NONE, &rows);
  if (status == KF_OK) status = kf_model_new_fused(ctx, rows, j->text, 0, &fused);
  if (status == KF_OK) status = use(j, fused->text);
  kf_model_free(map);
  kf_model_free(rows);
  kf_model_free(fused);
  return status;
}

/* On a tie the smaller alpha is better, then the larger lambda. */
static bool is_better(const kf_fuse_choice *c, const kf_fuse_point *p, const kf_fuse_point *b) {
  if (c->criterion == KF_CRITERION_LIKELIHOOD && p->loss != b->loss) return p->loss < b->loss;
  if (c->criterion == KF_CRITERION_ACCURACY && p->top1 != b->top1) return p->top1 > b->top1;
  return p->alpha != b->alpha ? p->alpha < b->alpha : p->lambda > b->lambda;
}

static size_t best_point(const kf_fuse_choice *c, const kf_fuse_point *points, size_t n) {
  size_t best = 0;
  for (size_t i = 1; i < n; i++)
    if (is_better(c, &points[i], &points[best])) best = i;
  return best;
}

/* Every alpha at every lambda. */
static kf_status list_points(fuse_job *j) {
  const kf_fuse_options *o = &j->options;
  kf_fuse_choice *c = j->choice;
  kf_fuse_point *p = c->points = (kf_fuse_point *)(c + 1);
  for (size_t l = 0; l < j->n_lambdas; l++) {
    double lambda;
    KF_TRY(kf_fitter_lambda(j->fitter, j->given[l], &lambda));
    for (size_t a = 0; a < o->n_alphas; a++)
      *p++ = (kf_fuse_point){.lambda = lambda, .alpha = o->alphas[a]};
  }
  c->n_points = j->n_lambdas * o->n_alphas;
  return KF_OK;
}

static void take_best(fuse_job *j) {
  kf_fuse_choice *c = j->choice;
  for (size_t i = 0; i < c->n_points; i++) /* at alpha 0 text alone decides */
    if (c->points[i].alpha == 0) c->text_top1 = c->points[i].top1;
  c->chosen = best_point(c, c->points, c->n_points);
  c->standard_error = kf_standard_error(c->points[c->chosen].top1, c->n);
  c->lambda = c->points[c->chosen].lambda;
  c->alpha = c->points[c->chosen].alpha;
}

/* Evaluates the n points of one lambda on `most` rows; 0: the whole sample. */
static kf_status try_alphas(fuse_job *j, kf_fuse_point *points, size_t n, uint64_t most) {
  kf_left_out_point *tried = kf_alloc_zero(n, sizeof *tried);
  if (tried == NULL) return kf_fail_memory(&j->ctx->err);
  for (size_t i = 0; i < n; i++) tried[i].alpha = points[i].alpha;
  kf_left_out_trial trial = {.lambda = points[0].lambda,
                             .most = most,
                             .curve = most > 0,
                             .fast = most > 0,
                             .hits = j->by_hits,
                             .what = "fusion"};
  kf_status status = kf_left_out_try(j->left_out, &trial, tried, n, &j->choice->n);
  for (size_t i = 0; i < n; i++) {
    points[i].top1 = tried[i].top1;
    points[i].top5 = tried[i].top5;
    points[i].loss = tried[i].loss;
    points[i].temperature = tried[i].temperature;
    points[i].loss_error = tried[i].loss_error;
  }
  kf_free(tried);
  return status;
}

/* The best point of the usual lambdas, the first n points, unless another is clearly better. */
static kf_fuse_point best_with_usual(const kf_fuse_choice *c, size_t n) {
  const kf_fuse_point *any = &c->points[best_point(c, c->points, c->n_points)];
  const kf_fuse_point *usual = &c->points[best_point(c, c->points, n)];
  double hits = kf_standard_error(usual->top1, c->n) * (double)c->n;
  bool worse = c->criterion == KF_CRITERION_LIKELIHOOD
                   ? usual->loss > any->loss + usual->loss_error
                   : (double)usual->top1 + hits < (double)any->top1;
  return worse ? *any : *usual;
}

/* Keeps the points of the best lambda with an alpha near the best, and with alpha 0. */
static void keep_near(kf_fuse_choice *c, kf_fuse_point best) {
  size_t kept = 0;
  for (size_t i = 0; i < c->n_points; i++) {
    const kf_fuse_point *p = &c->points[i];
    bool near = p->alpha <= best.alpha * NEAR && p->alpha * NEAR >= best.alpha;
    if (p->lambda == best.lambda && (near || p->alpha == 0)) c->points[kept++] = *p;
  }
  c->n_points = kept;
}

static kf_status start_left_out(fuse_job *j, const float *text) {
  kf_left_out_options by = {.metric = KF_METRIC_COSINE,
                            .centre = j->options.centre,
                            .sample = j->options.sample,
                            .groups = j->options.groups,
                            .text = text,
                            .by_hits = j->by_hits};
  return kf_left_out_new(j->fitter, j->data, &by, &j->left_out);
}

/* The lambda of the best point with a positive alpha of at least `alpha`. */
static double best_lambda(const kf_fuse_choice *c, double alpha) {
  const kf_fuse_point *best = NULL;
  for (size_t i = 0; i < c->n_points; i++) {
    const kf_fuse_point *p = &c->points[i];
    if (p->alpha > 0 && p->alpha >= alpha && (best == NULL || is_better(c, p, best))) best = p;
  }
  return best != NULL ? best->lambda : (double)NAN;
}

/* Tries more lambdas beyond `end` while that is the best, with any alpha or with the largest. */
static kf_status extend(fuse_job *j, double end, const double *relative, size_t n, uint64_t most) {
  kf_fuse_choice *c = j->choice;
  size_t each = j->options.n_alphas;
  double largest = 0;
  for (size_t a = 0; a < each; a++) largest = fmax(largest, j->options.alphas[a]);
  for (size_t i = 0; i < n; i++) {
    if (best_lambda(c, 0) != end && best_lambda(c, largest) != end) return KF_OK;
    kf_fuse_point *p = c->points + c->n_points;
    end = relative[i] * c->mean_eigenvalue;
    for (size_t a = 0; a < each; a++)
      p[a] = (kf_fuse_point){.lambda = end, .alpha = j->options.alphas[a]};
    KF_TRY(try_alphas(j, p, each, most));
    c->n_points += each;
  }
  return KF_OK;
}

static kf_status leave_out(fuse_job *j) {
  kf_fuse_choice *c = j->choice;
  /* An alpha for each lambda must be the one that a fit at this lambda chooses: by all rows. */
  bool all_rows = j->every_lambda || j->by_hits;
  uint64_t most = all_rows ? 0 : kf_curve_rows(j->stats->n_classes);
  size_t each = j->options.n_alphas;
  KF_TRY(with_text(j, start_left_out));
  kf_left_out_count count = kf_left_out_counts(j->left_out);
  c->rows = count.rows;
  c->n_single = count.n_single;
  if (count.n == 0) {
    c->n_points = 0;
    return KF_OK;
  }
  for (size_t l = 0; l < j->n_lambdas; l++) KF_TRY(try_alphas(j, c->points + l * each, each, most));
  if (j->more_lambdas) {
    double first = c->points[0].lambda, last = c->points[c->n_points - 1].lambda;
    KF_TRY(extend(j, first, lambdas_below, COUNT_OF(lambdas_below), most));
    KF_TRY(extend(j, last, lambdas_above, COUNT_OF(lambdas_above), most));
  }
  if (!all_rows) {
    keep_near(c, best_with_usual(c, j->n_lambdas * each));
    KF_TRY(try_alphas(j, c->points, c->n_points, 0));
  }
  take_best(j);
  return KF_OK;
}

static kf_status try_all(fuse_job *j) {
  kf_fuse_choice *c = j->choice;
  bool any_two = false; /* rows of one class */
  for (uint32_t k = 0; k < j->stats->n_classes; k++) any_two |= j->stats->counts[k] > 1;
  c->mean_eigenvalue = j->fitter->mean_eigenvalue;
  c->criterion = kf_criterion_for(j->options.criterion, j->fitter->method);
  c->alpha = CAUTIOUS_ALPHA;
  c->lambda = c->mean_eigenvalue > 0 ? 0.3 * c->mean_eigenvalue : 1;
  if (j->options.lambda.unit == KF_LAMBDA_ABSOLUTE) c->lambda = j->options.lambda.value;
  c->rows = j->stats->rows;
  c->n_single = j->stats->rows;
  if (j->fitter->by_all_rows) KF_TRY(kf_fitter_lambda(j->fitter, j->options.lambda, &c->lambda));
  if (!any_two || !(c->mean_eigenvalue > 0) || j->fitter->by_all_rows) return KF_OK;
  bool hits = c->criterion == KF_CRITERION_ACCURACY && j->fitter->method == KF_METHOD_PAPER;
  j->by_hits = hits && j->options.groups == NULL;
  KF_TRY(list_points(j));
  return leave_out(j);
}

static kf_status check_options(fuse_job *j) {
  kf_err *err = &j->ctx->err;
  kf_fuse_options *o = &j->options;
  if (o->alphas == NULL) {
    o->alphas = usual_alphas;
    o->n_alphas = COUNT_OF(usual_alphas);
  }
  if (o->n_alphas == 0) return kf_fail(err, KF_ERR_ARG, "the list of alphas is empty");
  for (size_t i = 0; i < o->n_alphas; i++) KF_TRY(kf_check_alpha(o->alphas[i], err));
  if ((unsigned)o->centre > KF_CENTRE_MEAN)
    return kf_fail(err, KF_ERR_ARG, "invalid centre %d", (int)o->centre);
  if (!j->stats->normalized)
    return kf_fail(err, KF_ERR_ARG, "text cannot be combined with rows that are not normalised");
  KF_TRY(kf_text_check(j->text, j->stats->dim, &j->stats->origin, err));
  return kf_check_statistics_of(j->stats, j->data, err);
}

/* Sets j->choice, which the caller frees. */
static kf_status choose(fuse_job *j) {
  KF_TRY(check_options(j));
  j->choice = kf_alloc_tail(sizeof *j->choice, (j->n_lambdas + MORE_LAMBDAS) * j->options.n_alphas,
                            sizeof *j->choice->points);
  kf_status status = j->choice != NULL ? try_all(j) : kf_fail_memory(&j->ctx->err);
  kf_left_out_free(j->left_out);
  if (status == KF_OK) return KF_OK;
  kf_fuse_choice_free(j->choice);
  return status;
}

static fuse_job new_job(kf_fitter *fitter, const kf_data *data, const kf_text *text,
                        const kf_fuse_options *options) {
  return (fuse_job){.ctx = fitter->ctx,
                    .fitter = fitter,
                    .stats = fitter->within,
                    .data = data,
                    .text = text,
                    .options = *options};
}

kf_status kf_fuse_choice_with(kf_fitter *fitter, const kf_data *data, const kf_text *text,
                              const kf_fuse_options *options, kf_fuse_choice **out) {
  fuse_job j = new_job(fitter, data, text, options);
  bool chosen = j.options.lambda.unit == KF_LAMBDA_AUTO;
  bool paper = fitter->method == KF_METHOD_PAPER;
  size_t usual = COUNT_OF(usual_lambdas);
  size_t few = COUNT_OF(few_lambdas);
  j.given = !chosen ? &j.options.lambda : paper ? usual_lambdas : few_lambdas;
  j.n_lambdas = !chosen ? 1 : paper ? usual : few;
  j.more_lambdas = chosen && !paper;
  KF_TRY(choose(&j));
  *out = j.choice;
  return KF_OK;
}

kf_status kf_fuse_choice_new(kf_ctx *ctx, const kf_stats *stats, const kf_data *data,
                             const kf_text *text, const kf_fuse_options *options,
                             kf_fuse_choice **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, stats != NULL && data != NULL && text != NULL && out != NULL);
  KF_OPTIONS(kf_fuse_options, o, options);
  kf_fitter *fitter;
  KF_TRY(kf_fitter_new(ctx, stats, NULL, o.method, &fitter));
  kf_status status = kf_fuse_choice_with(fitter, data, text, &o, out);
  kf_fitter_free(fitter);
  return status;
}

kf_status kf_fuse_alphas(kf_fitter *fitter, const kf_data *data, const kf_text *text,
                         const kf_fuse_options *options, const kf_lambda *lambdas, size_t n,
                         double *alphas) {
  fuse_job j = new_job(fitter, data, text, options);
  j.given = lambdas;
  j.n_lambdas = n;
  j.every_lambda = true;
  KF_TRY(choose(&j));
  size_t each = j.choice->n_points / n; /* 0: nothing could be left out */
  for (size_t l = 0; l < n; l++) {
    const kf_fuse_point *points = j.choice->points + l * each;
    alphas[l] = each > 0 ? points[best_point(j.choice, points, each)].alpha : j.choice->alpha;
  }
  kf_fuse_choice_free(j.choice);
  return KF_OK;
}

void kf_fuse_choice_free(kf_fuse_choice *choice) { kf_free(choice); }
