/* lambda.c - chooses lambda from the training rows by leave-one-out.
 *
 * By accuracy, over a grid: first half decades, extended while the best is at an end, then eighths
 * of a decade around the best. The curve is flat near its top, so a finer grid gains nothing. The
 * paper's method starts with part of the sample and doubles the rows, before and after refining,
 * until the best loses no more than MOST_LOSS against any other lambda tried (lambda_hits.c).
 *
 * By likelihood, the loss is smooth and has one minimum. Half decades, starting from 0.3 and 0.1
 * times the mean eigenvalue, bracket it, and a parabola finds it to an eighth of a decade. Below
 * 0.001x the loss is flat where it still falls, so the search ends there. If the loss still falls
 * at 0.1x it usually falls to the end, so 0.003x, just above the end, is tried next. With many
 * classes some hundred rows are enough for the search; the temperature then comes from all rows of
 * the sample.
 *
 * Distances are used for rows in their own units, often many rows with few columns, which need no
 * lambda. Then the smallest lambda is chosen whose loss is within a standard error of the least or,
 * on request, the largest, also by cosine. Such searches start from 1x and 0.3x and skip no half
 * decade. */
#include "choose/choose.h"
#include "choose/lambda_hits.h"
#include "choose/left_out.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_LOSS          0.001 /* of accuracy, with 95 % confidence: one row in a thousand */
#define TEMPERATURE_ERROR  0.03  /* of ln(temperature), docs/choosing.md says what it costs */
#define TEMPERATURE_SCORES 300000u

/* By accuracy, in half decades: the grid goes from 0.003x to 30x, and is extended by two at a time,
 * at most to 3e-7x and 3e5x. */
enum { FIRST_HALF = -5, LAST_HALF = 3, LEAST_HALF = -13, MOST_HALF = 11, MORE_HALVES = 2 };

/* By likelihood, in eighths of a decade: half a decade, the ends, and 0.1x. */
enum { STEP = 4, LEAST_EIGHTH = -24, MOST_EIGHTH = 40, TENTH = -8 };

typedef struct lambda_search {
  kf_ctx *ctx;
  kf_fitter *fitter;
  bool by_hits; /* only hits are counted, as in the paper's method */
  kf_lambda_hits hits;
  int first_half, last_half; /* ends of the grid so far */
  kf_left_out *left_out;
  kf_left_out_trial trial; /* how rows are left out for a point of the curve */
  bool whole_sample;       /* the caller gave its size */
  bool largest;            /* choose the largest good lambda */
  uint64_t enough;         /* rows for the temperature at the best point; 0: the whole sample */
  double settled;          /* the lambda of choice->all; NaN: none yet */
  kf_lambda_choice *choice;
} lambda_search;

static int by_lambda(const void *a, const void *b) {
  double x = ((const kf_lambda_point *)a)->lambda, y = ((const kf_lambda_point *)b)->lambda;
  return (x > y) - (x < y);
}

static void find_best(kf_lambda_choice *c) {
  qsort(c->points, c->n_points, sizeof *c->points, by_lambda);
  c->best = 0;
  for (size_t i = 0; i < c->n_points; i++) {
    const kf_lambda_point *p = &c->points[i], *best = &c->points[c->best];
    if (c->criterion == KF_CRITERION_LIKELIHOOD ? p->loss <= best->loss : p->top1 >= best->top1)
      c->best = i;
  }
}

static kf_lambda_point point_of(double lambda, const kf_left_out_point *p) {
  return (kf_lambda_point){.lambda = lambda,
                           .top1 = p->top1,
                           .top5 = p->top5,
                           .loss = p->loss,
                           .temperature = p->temperature,
                           .loss_error = p->loss_error};
}

/* Estimates from n rows how many are needed for a standard error of TEMPERATURE_ERROR. Each row is
 * compared with all classes, so with many classes at most a sixth of the rows is used. */
static uint64_t rows_enough(const kf_stats *stats, const kf_left_out_point *p, uint64_t n) {
  double ratio = p->temperature_error / TEMPERATURE_ERROR, rows = (double)n * ratio * ratio;
  uint64_t most = stats->rows / 6, cheap = TEMPERATURE_SCORES / stats->n_classes;
  if (most < cheap) most = cheap;
  return rows < (double)most ? (uint64_t)rows + 1 : most;
}

/* Adds a point to the curve. */
static kf_status add_point(lambda_search *s, double lambda, const char *what,
                           kf_left_out_point *p) {
  kf_lambda_choice *c = s->choice;
  s->trial.lambda = lambda;
  s->trial.curve = true;
  s->trial.what = what;
  KF_TRY(kf_left_out_try(s->left_out, &s->trial, p, 1, &c->n));
  c->points[c->n_points++] = point_of(lambda, p);
  return KF_OK;
}

/* Finds the accuracy and temperature at a lambda, in f64 and with as many rows as the temperature
 * needs. These include the rows of the curve; of_curve: the result for those alone. */
static kf_status settle(lambda_search *s, double lambda, kf_left_out_point *of_curve) {
  kf_left_out_point p = {0};
  kf_left_out_trial trial = {.lambda = lambda,
                             .most = s->whole_sample ? 0 : s->enough,
                             .part = s->trial.most,
                             .of_part = of_curve,
                             .what = "temperature"};
  KF_TRY(kf_left_out_try(s->left_out, &trial, &p, 1, &s->choice->n_all));
  s->choice->all = point_of(lambda, &p);
  s->settled = lambda;
  return KF_OK;
}

/* Adds n relative lambdas to the curve, and finds its best point. */
static kf_status try_lambdas(lambda_search *s, const double *relative, size_t n, const char *what) {
  kf_lambda_choice *c = s->choice;
  for (size_t i = 0; i < n; i++) {
    double lambda = relative[i] * c->mean_eigenvalue;
    kf_left_out_point p = {0};
    if (!s->by_hits) {
      KF_TRY(add_point(s, lambda, what, &p));
      continue;
    }
    c->points[c->n_points] = (kf_lambda_point){.lambda = lambda};
    KF_TRY(kf_lambda_hits_try(&s->hits, what, &c->points[c->n_points++]));
  }
  c->n = s->by_hits ? s->hits.n : c->n;
  find_best(c);
  return KF_OK;
}

/* 10^(eighths / 8), by multiplication: pow differs between C libraries in the last bit. */
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

static double half_decade(const lambda_search *s, int half) {
  return tenth_power(4 * half) * s->choice->mean_eigenvalue;
}

/* The point at a lambda; NULL: it was not tried. */
static const kf_lambda_point *find_point(const kf_lambda_choice *c, double lambda) {
  for (size_t i = 0; i < c->n_points; i++)
    if (fabs(c->points[i].lambda - lambda) < 1e-6 * lambda) return &c->points[i];
  return NULL;
}

static uint64_t hits_at(const lambda_search *s, int half) {
  return find_point(s->choice, half_decade(s, half))->top1;
}

/* The best half decade, the larger one on a tie. */
static int best_half(const lambda_search *s) {
  int best = s->first_half;
  for (int half = best + 1; half <= s->last_half; half++)
    if (hits_at(s, half) >= hits_at(s, best)) best = half;
  return best;
}

/* Whether the largest half decade is strictly better than all others. */
static bool still_rising(const lambda_search *s) {
  for (int half = s->first_half; half < s->last_half; half++)
    if (hits_at(s, half) >= hits_at(s, s->last_half)) return false;
  return true;
}

/* Extends the grid while the best is at an end, and refines it around the best. */
static kf_status complete_grid(lambda_search *s, bool refine) {
  kf_lambda_choice *c = s->choice;
  for (; best_half(s) == s->first_half && s->first_half > LEAST_HALF; s->first_half -= MORE_HALVES)
    KF_TRY(try_halves(s, s->first_half - MORE_HALVES, s->first_half - 1));
  for (; still_rising(s) && s->last_half < MOST_HALF; s->last_half += MORE_HALVES)
    KF_TRY(try_halves(s, s->last_half + 1, s->last_half + MORE_HALVES));
  if (!refine) return KF_OK;
  int half = best_half(s);
  double finer[4], centre = half_decade(s, half) / c->mean_eigenvalue;
  size_t n = 0;
  for (int i = 0; i < 4; i++) {
    finer[n] = centre * tenth_power(i < 2 ? i - 2 : i - 1);
    n += find_point(c, finer[n] * c->mean_eigenvalue) == NULL;
  }
  return try_lambdas(s, finer, n, "lambda, finer");
}

/* Takes more rows while another lambda may be better by more than MOST_LOSS. */
static kf_status take_enough_rows(lambda_search *s, bool refine) {
  kf_lambda_choice *c = s->choice;
  while (s->by_hits && kf_lambda_hits_has_more(&s->hits)) {
    double loss;
    KF_TRY(kf_lambda_hits_loss(&s->hits, c->points, c->n_points, c->best, &loss));
    if (loss <= MOST_LOSS) return KF_OK;
    KF_TRY(kf_lambda_hits_take_more(&s->hits, "lambda", c->points, c->n_points));
    c->n = s->hits.n;
    find_best(c);
    KF_TRY(complete_grid(s, refine));
  }
  return KF_OK;
}

static kf_status try_grid(lambda_search *s) {
  s->first_half = FIRST_HALF;
  s->last_half = LAST_HALF;
  KF_TRY(try_halves(s, s->first_half, s->last_half));
  for (int refine = 0; refine < 2; refine++) {
    KF_TRY(complete_grid(s, refine));
    KF_TRY(take_enough_rows(s, refine));
  }
  return KF_OK;
}

/* --- by likelihood ---------------------------------------------------------------------------- */

/* The lambdas tried, in eighths of a decade, rising, with their losses. */
typedef struct descent {
  size_t n, best;
  int eighth[KF_LAMBDAS_MOST];
  double loss[KF_LAMBDAS_MOST];
} descent;

static void add_loss(descent *d, int eighth, double loss) {
  size_t at = d->n++;
  for (; at > 0 && d->eighth[at - 1] > eighth; at--) {
    d->eighth[at] = d->eighth[at - 1];
    d->loss[at] = d->loss[at - 1];
  }
  d->eighth[at] = eighth;
  d->loss[at] = loss;
  d->best = 0;
  for (size_t i = 0; i < d->n; i++)
    if (d->loss[i] <= d->loss[d->best]) d->best = i;
}

static kf_status descend_at(lambda_search *s, descent *d, int eighth) {
  const kf_lambda_choice *c = s->choice;
  kf_left_out_point p = {0};
  KF_TRY(add_point(s, tenth_power(eighth) * c->mean_eigenvalue, "lambda", &p));
  add_loss(d, eighth, p.loss);
  if (d->eighth[d->best] != eighth) return KF_OK;
  s->enough = rows_enough(s->fitter->within, &p, c->n);
  return KF_OK;
}

/* The minimum of the parabola through the least loss and its neighbours, rounded to an eighth. */
static int lowest_eighth(const descent *d) {
  size_t i = d->best;
  if (i == 0 || i == d->n - 1) return d->eighth[i];
  double left = d->eighth[i - 1] - d->eighth[i], right = d->eighth[i + 1] - d->eighth[i];
  double from_left = (d->loss[i - 1] - d->loss[i]) / left;
  double from_right = (d->loss[i + 1] - d->loss[i]) / right;
  double curvature = (from_right - from_left) / (right - left);
  if (!(curvature > 0)) return d->eighth[i];
  double at = -(from_left - curvature * left) / (2 * curvature);
  at = at < left ? left : at > right ? right : at;
  return d->eighth[i] + (int)floor(at + 0.5);
}

static bool good_enough(const kf_lambda_choice *c, const kf_lambda_point *p) {
  const kf_lambda_point *best = &c->points[c->best];
  if (c->criterion == KF_CRITERION_LIKELIHOOD) return p->loss <= best->loss + best->loss_error;
  return (double)p->top1 >= (double)best->top1 - c->standard_error * (double)c->n;
}

/* Tries smaller lambdas while they are good enough. */
static kf_status go_down(lambda_search *s, descent *d) {
  kf_lambda_choice *c = s->choice;
  while (d->n < KF_LAMBDAS_MOST && d->eighth[0] > LEAST_EIGHTH && good_enough(c, &c->points[0])) {
    KF_TRY(descend_at(s, d, d->eighth[0] - STEP));
    find_best(c);
  }
  return KF_OK;
}

static bool was_tried(const descent *d, int eighth) {
  for (size_t i = 0; i < d->n; i++)
    if (d->eighth[i] == eighth) return true;
  return false;
}

/* Tries a lambda that is probably the last. By cosine it is settled at once, and the curve gets the
 * result for its own rows. */
static kf_status descend_last(lambda_search *s, descent *d, int eighth) {
  kf_lambda_choice *c = s->choice;
  if (!s->trial.fast) return descend_at(s, d, eighth);
  double lambda = tenth_power(eighth) * c->mean_eigenvalue;
  kf_left_out_point p = {0};
  KF_TRY(settle(s, lambda, &p));
  c->points[c->n_points++] = point_of(lambda, &p);
  add_loss(d, eighth, p.loss);
  return KF_OK;
}

/* Whether no half decade is skipped, because a lambda other than the best may be chosen. */
static bool in_turn(const lambda_search *s) {
  return s->largest || s->choice->metric == KF_METRIC_EUCLIDEAN;
}

/* Tries half a decade below the least loss. If the loss still falls at 0.1x and half decades may be
 * skipped, jumps to the last but one, so that the next step reaches the end. */
static kf_status descend_below(lambda_search *s, descent *d) {
  int at = d->eighth[d->best], next = at - STEP;
  if (!in_turn(s) && at == TENTH && d->best == 0) next = LEAST_EIGHTH + STEP;
  return next == LEAST_EIGHTH ? descend_last(s, d, next) : descend_at(s, d, next);
}

/* Continues until both neighbours of the least loss, half a decade away, were tried. */
static kf_status bracket(lambda_search *s, descent *d) {
  while (d->n < KF_LAMBDAS_MOST) {
    int at = d->eighth[d->best];
    if (at > LEAST_EIGHTH && !was_tried(d, at - STEP))
      KF_TRY(descend_below(s, d));
    else if (at < MOST_EIGHTH && !was_tried(d, at + STEP))
      KF_TRY(descend_at(s, d, at + STEP));
    else
      return KF_OK;
  }
  return KF_OK;
}

static kf_status try_lowest(lambda_search *s, descent *d) {
  int lowest = lowest_eighth(d);
  return was_tried(d, lowest) ? KF_OK : descend_last(s, d, lowest);
}

static kf_status descend(lambda_search *s) {
  descent d = {0};
  bool distances = s->choice->metric == KF_METRIC_EUCLIDEAN;
  s->trial.most = kf_curve_rows(s->fitter->within->n_classes);
  s->trial.fast = !distances;
  int first = in_turn(s) ? 0 : TENTH + STEP;
  KF_TRY(descend_at(s, &d, first));
  KF_TRY(descend_at(s, &d, first - STEP));
  KF_TRY(bracket(s, &d));
  KF_TRY(try_lowest(s, &d));
  find_best(s->choice);
  return distances ? go_down(s, &d) : KF_OK;
}

/* --- together --------------------------------------------------------------------------------- */

/* The point to choose: the best one or, among those that are good enough, the largest (on request)
 * or the smallest (by distance). */
static size_t pick(const kf_lambda_choice *c, bool largest) {
  bool smallest = c->metric == KF_METRIC_EUCLIDEAN && c->criterion == KF_CRITERION_LIKELIHOOD;
  size_t chosen = c->best;
  for (size_t i = c->best; largest && i < c->n_points; i++)
    if (good_enough(c, &c->points[i])) chosen = i;
  for (size_t i = c->best; !largest && smallest && i-- > 0;)
    if (good_enough(c, &c->points[i])) chosen = i;
  return chosen;
}

/* With priors by cosine hits depend on the temperature, so they are counted again on the same rows
 * once it is known. */
static kf_status count_with_priors(lambda_search *s) {
  kf_lambda_choice *c = s->choice;
  bool whole = s->whole_sample || c->n_all == kf_left_out_counts(s->left_out).n;
  kf_left_out_point p = {0};
  kf_left_out_trial trial = {.lambda = c->lambda,
                             .most = whole ? 0 : s->enough,
                             .part = s->trial.most,
                             .prior = 1 / c->all.temperature,
                             .what = "temperature"};
  uint64_t n;
  KF_TRY(kf_left_out_try(s->left_out, &trial, &p, 1, &n));
  c->all.top1 = p.top1;
  c->all.top5 = p.top5;
  return KF_OK;
}

static kf_status choose(lambda_search *s, const kf_lambda_options *o) {
  kf_lambda_choice *c = s->choice;
  bool likelihood = c->criterion == KF_CRITERION_LIKELIHOOD;
  if (kf_left_out_counts(s->left_out).n == 0)
    c->n = 0;
  else if (o->grid != NULL)
    KF_TRY(try_lambdas(s, o->grid, o->n_grid, "lambda"));
  else
    KF_TRY(likelihood ? descend(s) : try_grid(s));
  if (c->n == 0)
    return kf_fail_hint(&s->ctx->err, KF_ERR_MATH, KF_HINT_LAMBDA,
                        "lambda cannot be chosen by leaving rows out: no class has two rows%s",
                        o->groups != NULL ? " of different groups"
                                          : "; use an absolute lambda above 0");
  c->standard_error = kf_standard_error(c->points[c->best].top1, c->n);
  c->chosen = pick(c, s->largest);
  c->lambda = c->points[c->chosen].lambda;
  bool whole = s->by_hits || (!s->trial.fast && c->n == kf_left_out_counts(s->left_out).n);
  if (whole) {
    c->all = c->points[c->chosen];
    c->n_all = c->n;
  } else if (s->settled != c->lambda) {
    kf_left_out_point p = {0};
    KF_TRY(settle(s, c->lambda, &p));
    c->points[c->chosen] = point_of(c->lambda, &p);
  }
  if (kf_fitter_weighs(s->fitter)) KF_TRY(count_with_priors(s));
  c->standard_error = kf_standard_error(c->all.top1, c->n_all);
  return KF_OK;
}

static kf_status check_options(const kf_lambda_options *o, kf_err *err) {
  if ((unsigned)o->metric > KF_METRIC_EUCLIDEAN) return kf_fail_metric(o->metric, err);
  if ((unsigned)o->centre > KF_CENTRE_MEAN)
    return kf_fail(err, KF_ERR_ARG, "invalid centre %d", (int)o->centre);
  KF_TRY(kf_check_method(o->method, err));
  if ((unsigned)o->criterion > KF_CRITERION_ACCURACY)
    return kf_fail(err, KF_ERR_ARG, "invalid criterion %d", (int)o->criterion);
  if (o->grid == NULL) return KF_OK;
  if (o->n_grid < 1 || o->n_grid > KF_LAMBDAS_MOST)
    return kf_fail(err, KF_ERR_ARG, "the grid has %zu lambdas, but must have 1 to %u", o->n_grid,
                   KF_LAMBDAS_MOST);
  for (size_t i = 0; i < o->n_grid; i++)
    if (!(o->grid[i] >= 0 && isfinite(o->grid[i])) || (i > 0 && o->grid[i] <= o->grid[i - 1]))
      return kf_fail(err, KF_ERR_ARG, "the grid of lambdas must rise and not be negative");
  return KF_OK;
}

static kf_status search(lambda_search *s, kf_fitter *fitter, const kf_data *data,
                        const kf_lambda_options *o) {
  kf_lambda_choice *c = s->choice;
  c->metric = kf_metric_for(o->metric, fitter->within->normalized);
  c->points = (kf_lambda_point *)(c + 1);
  c->mean_eigenvalue = fitter->mean_eigenvalue;
  c->criterion = kf_criterion_for(o->criterion, fitter->method);
  if (kf_fitter_weighs(fitter)) KF_TRY(kf_check_weighing(c->metric, c->criterion, &s->ctx->err));
  bool hits = c->criterion == KF_CRITERION_ACCURACY && fitter->method == KF_METHOD_PAPER;
  s->by_hits = hits && o->groups == NULL;
  kf_left_out_options by = {.metric = c->metric,
                            .centre = o->centre,
                            .sample = o->sample,
                            .groups = o->groups,
                            .by_hits = s->by_hits};
  KF_TRY(kf_left_out_new(fitter, data, &by, &s->left_out));
  c->rows = kf_left_out_counts(s->left_out).rows;
  c->n_single = kf_left_out_counts(s->left_out).n_single;
  /* The largest good lambda depends on the standard error, and so on the number of rows. */
  bool at_once = o->sample > 0 || o->grid != NULL || s->largest;
  if (s->by_hits) KF_TRY(kf_lambda_hits_start(&s->hits, s->ctx, s->left_out, at_once));
  return choose(s, o);
}

kf_status kf_check_weighing(kf_metric metric, kf_criterion criterion, kf_err *err) {
  if (metric == KF_METRIC_EUCLIDEAN)
    return kf_fail(
        err, KF_ERR_ARG,
        "unit rows are compared by distance with equal priors only, not with those of the "
        "training rows");
  if (criterion == KF_CRITERION_ACCURACY)
    return kf_fail(
        err, KF_ERR_ARG,
        "by cosine, the priors of training rows need a temperature, which the likelihood "
        "gives, not accuracy");
  return KF_OK;
}

kf_criterion kf_criterion_for(kf_criterion criterion, kf_method method) {
  if (criterion != KF_CRITERION_DEFAULT) return criterion;
  return method == KF_METHOD_PAPER ? KF_CRITERION_ACCURACY : KF_CRITERION_LIKELIHOOD;
}

kf_status kf_lambda_choice_with(kf_fitter *fitter, const kf_data *data,
                                const kf_lambda_options *options, kf_lambda_choice **out) {
  kf_ctx *ctx = fitter->ctx;
  KF_TRY(check_options(options, &ctx->err));
  lambda_search s = {.ctx = ctx,
                     .fitter = fitter,
                     .whole_sample = options->sample > 0,
                     .largest = options->one_se != 0,
                     .settled = (double)NAN};
  s.choice = kf_alloc_tail(sizeof *s.choice, KF_LAMBDAS_MOST, sizeof *s.choice->points);
  kf_status status =
      s.choice != NULL ? search(&s, fitter, data, options) : kf_fail_memory(&ctx->err);
  kf_lambda_hits_clear(&s.hits);
  kf_left_out_free(s.left_out);
  KF_HAND_OUT(status, out, s.choice, kf_lambda_choice_free);
}

/* A few rows show how many are needed. */
static kf_status measure(kf_left_out *l, const kf_stats *stats, const kf_lambda_options *o,
                         uint64_t few, double lambda, kf_left_out_point *p) {
  kf_left_out_trial trial = {.lambda = lambda, .most = few, .fast = true, .what = "temperature"};
  uint64_t n, all = kf_left_out_counts(l).n;
  if (all == 0) return KF_OK;
  if (o->sample == 0 && few < all) {
    KF_TRY(kf_left_out_try(l, &trial, p, 1, &n));
    trial.part = few;
    trial.most = rows_enough(stats, p, n);
  } else {
    trial.most = 0;
  }
  trial.fast = false;
  return kf_left_out_try(l, &trial, p, 1, &n);
}

kf_status kf_lambda_measure(kf_fitter *fitter, const kf_data *data, const kf_lambda_options *o,
                            double lambda, kf_lambda_point *out) {
  const kf_stats *stats = fitter->within;
  kf_left_out_options by = {.metric = kf_metric_for(o->metric, stats->normalized),
                            .sample = o->sample,
                            .groups = o->groups};
  kf_left_out_point p = {.loss = NAN};
  kf_left_out *l;
  KF_TRY(kf_left_out_new(fitter, data, &by, &l));
  kf_status status = measure(l, stats, o, kf_curve_rows(stats->n_classes), lambda, &p);
  kf_left_out_free(l);
  *out = point_of(lambda, &p);
  return status;
}

kf_status kf_lambda_choice_new(kf_ctx *ctx, const kf_stats *stats, const kf_data *data,
                               const kf_lambda_options *options, kf_lambda_choice **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, stats != NULL && data != NULL && out != NULL);
  KF_OPTIONS(kf_lambda_options, o, options);
  KF_TRY(check_options(&o, err));
  KF_TRY(kf_check_statistics_of(stats, data, err));
  kf_fitter *fitter;
  KF_TRY(kf_fitter_new(ctx, stats, NULL, o.method, &fitter));
  kf_status status = kf_fitter_set_priors(fitter, o.priors);
  if (status == KF_OK) status = kf_lambda_choice_with(fitter, data, &o, out);
  kf_fitter_free(fitter);
  return status;
}

void kf_lambda_choice_free(kf_lambda_choice *choice) { kf_free(choice); }
