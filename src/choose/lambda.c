/* lambda.c - choosing lambda from the training rows alone.
 *
 * Leave-one-out accuracy over a grid: half decades first, extended while the best value is at an
 * end, then eighths of a decade around the best. The curve is flat near its top, so a finer grid
 * gains nothing. */
#include "choose/choose.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_POINTS 64u

/* Half decades from 0.003 to 30, and no further than some 10^-6 and 10^5. */
enum { FIRST_HALF = -5, LAST_HALF = 3, LEAST_HALF = -13, MOST_HALF = 11, MORE_HALVES = 2 };

typedef struct lambda_search {
  kf_ctx *ctx;
  kf_loo *loo;
  kf_row_list rows; /* that are left out in turn */
  kf_lambda_choice *choice;
} lambda_search;

static int by_lambda(const void *a, const void *b) {
  double x = ((const kf_lambda_point *)a)->lambda, y = ((const kf_lambda_point *)b)->lambda;
  return (x > y) - (x < y);
}

/* Adds the accuracies at n relative lambdas to the curve, and finds its best point. */
static kf_status try_lambdas(lambda_search *s, const double *relative, size_t n, const char *what) {
  kf_lambda_choice *c = s->choice;
  kf_fuse_point tried[MOST_POINTS] = {0};
  kf_loo_count count;
  for (size_t i = 0; i < n; i++) tried[i].lambda = relative[i] * c->mean_eigenvalue;
  KF_TRY(kf_loo_count_hits(s->loo, &s->rows, what, tried, n, &count));
  c->n = count.n;
  c->n_single = count.n_single;
  for (size_t i = 0; i < n; i++)
    c->points[c->n_points++] =
        (kf_lambda_point){.lambda = tried[i].lambda, .top1 = tried[i].top1, .top5 = tried[i].top5};
  qsort(c->points, c->n_points, sizeof *c->points, by_lambda);
  c->best = 0;
  for (size_t i = 0; i < c->n_points; i++)
    if (c->points[i].top1 >= c->points[c->best].top1) c->best = i;
  return KF_OK;
}

/* 10^(n / 8), by multiplication alone: the pow of C libraries differs in its last bit. */
static double tenth_power(int eighths) {
  static const double fraction[8] = {1,
                                     1.3335214321633240,
                                     1.7782794100389228,
                                     2.3713737056616553,
                                     3.1622776601683795,
                                     4.2169650342858223,
                                     5.6234132519034908,
                                     7.4989420933245583};
  int whole = (eighths + 800) / 8 - 100;
  double power = 1;
  for (int i = 0; i < abs(whole); i++) power *= 10;
  double x = fraction[eighths - 8 * whole];
  return whole < 0 ? x / power : x * power;
}

static kf_status try_halves(lambda_search *s, int from, int to) {
  double relative[MOST_HALF - LEAST_HALF + 1];
  size_t n = 0;
  for (int half = from; half <= to; half++) relative[n++] = tenth_power(4 * half);
  return try_lambdas(s, relative, n, "lambda");
}

/* Whether the largest lambda is better than all others, and not only as good. */
static bool still_rising(const kf_lambda_choice *c) {
  size_t last = c->n_points - 1;
  for (size_t i = 0; i < last; i++)
    if (c->points[i].top1 >= c->points[last].top1) return false;
  return true;
}

static kf_status try_grid(lambda_search *s) {
  kf_lambda_choice *c = s->choice;
  int first = FIRST_HALF, last = LAST_HALF;
  KF_TRY(try_halves(s, first, last));
  while (c->best == 0 && first > LEAST_HALF) {
    KF_TRY(try_halves(s, first - MORE_HALVES, first - 1));
    first -= MORE_HALVES;
  }
  while (still_rising(c) && last < MOST_HALF) {
    KF_TRY(try_halves(s, last + 1, last + MORE_HALVES));
    last += MORE_HALVES;
  }
  double finer[4], centre = c->points[c->best].lambda / c->mean_eigenvalue;
  for (int i = 0; i < 4; i++) finer[i] = centre * tenth_power(i < 2 ? i - 2 : i - 1);
  return try_lambdas(s, finer, 4, "lambda, finer");
}

static kf_status choose(lambda_search *s, const kf_lambda_options *o) {
  kf_lambda_choice *c = s->choice;
  KF_TRY(o->grid != NULL ? try_lambdas(s, o->grid, o->n_grid, "lambda") : try_grid(s));
  if (c->n == 0)
    return kf_fail(&s->ctx->err, KF_ERR_MATH,
                   "lambda cannot be chosen by leaving rows out: no class has two rows");
  c->standard_error = kf_standard_error(c->points[c->best].top1, c->n);
  c->chosen = c->best;
  double enough = (double)c->points[c->best].top1 - c->standard_error * (double)c->n;
  for (size_t i = c->best; o->one_se && i < c->n_points; i++)
    if ((double)c->points[i].top1 >= enough) c->chosen = i;
  c->lambda = c->points[c->chosen].lambda;
  return KF_OK;
}

static kf_status check_options(const kf_lambda_options *o, kf_err *err) {
  if ((unsigned)o->metric > KF_METRIC_EUCLIDEAN) return kf_fail_metric(o->metric, err);
  if ((unsigned)o->centre > KF_CENTRE_MEAN)
    return kf_fail(err, KF_ERR_ARG, "invalid centre %d", (int)o->centre);
  if (o->grid == NULL) return KF_OK;
  if (o->n_grid < 1 || o->n_grid > MOST_POINTS)
    return kf_fail(err, KF_ERR_ARG, "the grid has %zu lambdas, but must have 1 to %u", o->n_grid,
                   MOST_POINTS);
  for (size_t i = 0; i < o->n_grid; i++)
    if (!(o->grid[i] >= 0 && isfinite(o->grid[i])) || (i > 0 && o->grid[i] <= o->grid[i - 1]))
      return kf_fail(err, KF_ERR_ARG, "the grid of lambdas must rise and not be negative");
  return KF_OK;
}

static kf_status run(lambda_search *s, kf_fitter *fitter, const kf_data *data,
                     const kf_lambda_options *o) {
  kf_lambda_choice *c = s->choice;
  c->metric = kf_metric_for(o->metric, kf_fitter_stats(fitter)->normalized);
  c->points = (kf_lambda_point *)(c + 1);
  KF_TRY(kf_loo_new(fitter, data, c->metric, o->centre, &s->loo));
  c->mean_eigenvalue = kf_fitter_mean_eigenvalue(fitter);
  KF_TRY(kf_sample_rows(s->ctx, data, o->sample, &s->rows, &c->rows));
  return choose(s, o);
}

kf_status kf_lambda_choice_with(kf_fitter *fitter, const kf_data *data,
                                const kf_lambda_options *options, kf_lambda_choice **out) {
  kf_ctx *ctx = kf_fitter_ctx(fitter);
  KF_TRY(check_options(options, &ctx->err));
  lambda_search s = {.ctx = ctx};
  s.choice = kf_alloc_tail(sizeof *s.choice, MOST_POINTS, sizeof *s.choice->points);
  kf_status status = s.choice != NULL ? run(&s, fitter, data, options) : kf_fail_memory(&ctx->err);
  kf_loo_free(s.loo);
  kf_row_list_clear(&s.rows);
  KF_HAND_OUT(status, out, s.choice, kf_lambda_choice_free);
}

kf_status kf_lambda_choice_new(kf_ctx *ctx, const kf_stats *stats, const kf_data *data,
                               const kf_lambda_options *options, kf_lambda_choice **out) {
  KF_ENTER(ctx, stats != NULL && data != NULL && out != NULL);
  KF_OPTIONS(kf_lambda_options, o, options);
  KF_TRY(check_options(&o, err));
  KF_TRY(kf_check_statistics_of(stats, data, err));
  kf_fitter *fitter;
  KF_TRY(kf_fitter_new(ctx, stats, NULL, &fitter));
  kf_status status = kf_lambda_choice_with(fitter, data, &o, out);
  kf_fitter_free(fitter);
  return status;
}

void kf_lambda_choice_free(kf_lambda_choice *choice) { kf_free(choice); }
