/* test_left_out.c - rows and groups left out in closed form give the scores that fitting again
 * without them gives; likelihood and temperature are those of the scores. */
#include "refits.h"

#include "choose/choose.h"
#include "choose/left_out_internal.h"

AUTO_OBJECT(kf_fitter)
AUTO_OBJECT(kf_left_out)

/* --- the same by fitting again ---------------------------------------------------------------- */

/* Everything by the definitions, with dense matrices: W, C and their inverses. The scales of
 * columns and kappa are those of all rows, as left_out.c says. */
typedef struct refit {
  uint32_t dim;
  bool shrunk, euclidean, equal; /* priors */
  bool centred;
  double kappa, noise, largest;
  double prior; /* of cosines; 0: none */
  const double *column;
  kf_stats *stats; /* without the group */
  double *w, *inverse, *s_b, *mean;
} refit;

static kf_stats *empty_like(kf_ctx *ctx, const world *w, const kf_stats *all) {
  kf_stats_options options = {.normalize = kf_stats_normalized(all) ? KF_ON : KF_OFF,
                              .exponent = kf_stats_exponent(all)};
  kf_stats *s;
  assert_ok(ctx, kf_stats_new(ctx, w->dim, w->classes, NULL, &options, &s));
  return s;
}

/* A row as the statistics see it, scaled. */
static void row_seen(kf_ctx *ctx, const world *w, const refit *r, const kf_stats *all, uint64_t row,
                     double *x) {
  AUTO(kf_stats) *one = empty_like(ctx, w, all);
  assert_ok(ctx, kf_stats_add(ctx, one, w->rows + row * w->dim, &w->labels[row], 1));
  const int64_t *sum = kf_stats_class_sum(one, (uint32_t)w->labels[row]);
  for (uint32_t i = 0; i < w->dim; i++)
    x[i] = (ldexp((double)sum[i], -kf_stats_exponent(all)) - (r->centred ? r->mean[i] : 0)) *
           r->column[i];
}

static refit refit_without(kf_ctx *ctx, const world *w, const kf_stats *all, kf_fitter *fitter,
                           const uint32_t *groups, uint64_t row, double lambda, bool euclidean) {
  uint32_t d = w->dim, filled = 0;
  refit r = {.dim = d, .euclidean = euclidean, .column = fitter->column};
  r.shrunk = fitter->method == KF_METHOD_SHRUNK;
  r.kappa = kf_fitter_kappa(fitter);
  for (uint32_t k = 0; k < w->classes; k++) {
    filled += kf_stats_count(all, k) > 0;
    r.largest = fmax(r.largest, (double)kf_stats_count(all, k));
  }
  r.noise = (double)(kf_stats_rows(all) - filled);
  r.stats = empty_like(ctx, w, all);
  assert_ok(ctx, kf_stats_merge(ctx, r.stats, all));
  for (uint64_t i = 0; i < w->n; i++) {
    if (groups != NULL ? groups[i] != groups[row] : i != row) continue;
    AUTO(kf_stats) *one = empty_like(ctx, w, all);
    assert_ok(ctx, kf_stats_add(ctx, one, w->rows + i * d, &w->labels[i], 1));
    assert_ok(ctx, kf_stats_subtract(ctx, r.stats, one));
  }
  r.w = malloc((size_t)d * d * sizeof *r.w);
  r.inverse = malloc((size_t)d * d * sizeof *r.w);
  r.s_b = malloc((size_t)d * d * sizeof *r.w);
  r.mean = malloc(d * sizeof *r.mean);
  assert_ok(ctx, kf_stats_scatter(ctx, r.stats, r.w, r.s_b, r.mean));
  for (uint32_t i = 0; i < d; i++)
    for (uint32_t j = 0; j < d; j++) {
      r.w[i * d + j] = r.w[i * d + j] * r.column[i] * r.column[j] + (i == j ? lambda : 0);
      r.s_b[i * d + j] *= r.column[i] * r.column[j];
    }
  memcpy(r.inverse, r.w, (size_t)d * d * sizeof *r.w);
  invert(d, r.inverse);
  return r;
}

static void refit_clear(refit *r) {
  kf_stats_free(r->stats);
  free(r->w);
  free(r->inverse);
  free(r->s_b);
  free(r->mean);
}

static void times(uint32_t n, const double *a, const double *x, double *out) {
  for (uint32_t i = 0; i < n; i++) {
    out[i] = 0;
    for (uint32_t j = 0; j < n; j++) out[i] += a[i * n + j] * x[j];
  }
}

/* The mean of class k, shrunk as if it had `count` rows: m - W C^-1 m, C = W + count kappa S_b. */
static void class_mean(const refit *r, uint32_t k, double count, double *m) {
  uint32_t d = r->dim;
  double n = (double)kf_stats_count(r->stats, k);
  for (uint32_t i = 0; i < d; i++)
    m[i] = (ldexp((double)kf_stats_class_sum(r->stats, k)[i] / n, -kf_stats_exponent(r->stats)) -
            (r->centred ? r->mean[i] : 0)) *
           r->column[i];
  if (!r->shrunk) return;
  double *c = malloc((size_t)d * d * sizeof *c), *t = malloc(2 * d * sizeof *t), *y = t + d;
  for (uint32_t i = 0; i < d * d; i++) c[i] = r->w[i] + count * r->kappa * r->s_b[i];
  invert(d, c);
  times(d, c, m, t);
  times(d, r->w, t, y);
  for (uint32_t i = 0; i < d; i++) m[i] -= y[i];
  free(c);
  free(t);
}

/* With text a class that loses rows is shrunk and scaled as with all of them, its mean still less
 * the mean without the group. */
static double refit_level(const refit *r, const kf_stats *all, uint32_t k, const double *x) {
  uint32_t d = r->dim;
  double *m = malloc(2 * d * sizeof *m), *whole = m + d;
  double count = (double)kf_stats_count(all, k);
  refit with = *r;
  class_mean(r, k, count, m);
  with.stats = (kf_stats *)all; /* not changed */
  class_mean(&with, k, count, whole);
  double score = form(d, r->inverse, x, m) /
                 sqrt(form(d, r->inverse, x, x) * form(d, r->inverse, whole, whole));
  free(m);
  return score;
}

static double refit_score(const refit *r, uint32_t k, const double *x) {
  uint32_t d = r->dim;
  double *m = calloc(d, sizeof *m), score;
  class_mean(r, k, (double)kf_stats_count(r->stats, k), m);
  if (r->euclidean) {
    for (uint32_t i = 0; i < d; i++) m[i] -= x[i];
    score = -0.5 * r->noise * form(d, r->inverse, m, m);
    if (r->shrunk && !r->equal) score += log((double)kf_stats_count(r->stats, k) / r->largest);
  } else {
    score = form(d, r->inverse, x, m) / sqrt(form(d, r->inverse, x, x) * form(d, r->inverse, m, m));
    if (r->prior > 0) score += r->prior * log((double)kf_stats_count(r->stats, k) / r->largest);
  }
  free(m);
  return score;
}

/* --- scores ----------------------------------------------------------------------------------- */

typedef struct seen {
  uint32_t classes;
  double *scores; /* [rows][classes] */
  unsigned char *there;
} seen;

static void see(void *argument, uint64_t row, int32_t label, const double *scores, size_t worker) {
  (void)worker;
  seen *s = argument;
  (void)label;
  memcpy(s->scores + row * s->classes, scores, s->classes * sizeof *scores);
  s->there[row] = 1;
}

typedef struct setting {
  kf_method method;
  bool euclidean;
  const uint32_t *groups;
  const float *text;
  kf_priors priors;
  double prior; /* of cosines */
  kf_centre centre;
} setting;

#define ALPHA 0.7

/* The cosine of a row with the text of a class. */
static double text_score(const world *w, const float *text, uint64_t row, uint32_t k) {
  double product = 0, square = 0;
  for (uint32_t i = 0; i < w->dim; i++) {
    double x = (double)w->rows[row * w->dim + i];
    product += x * (double)text[k * w->dim + i];
    square += x * x;
  }
  return product / sqrt(square);
}

static bool class_is_left(const world *w, const kf_stats *all, const uint32_t *groups,
                          uint64_t row) {
  int64_t lost = 0;
  for (uint64_t i = 0; i < w->n; i++)
    lost +=
        w->labels[i] == w->labels[row] && (groups != NULL ? groups[i] == groups[row] : i == row);
  return lost < kf_stats_count(all, (uint32_t)w->labels[row]);
}

/* The loss at a temperature, from recorded scores. */
static double loss_at(const seen *s, const world *w, double temperature) {
  double sum = 0;
  uint64_t n = 0;
  for (uint64_t i = 0; i < w->n; i++) {
    if (!s->there[i]) continue;
    const double *scores = s->scores + i * s->classes;
    double others = 0, own = scores[w->labels[i]];
    for (uint32_t k = 0; k < s->classes; k++)
      if ((int32_t)k != w->labels[i] && !isnan(scores[k]))
        others += exp(temperature * (scores[k] - own));
    sum += log1p(others);
    n++;
  }
  return sum / (double)n;
}

static void check_loss(const seen *s, const world *w, const kf_left_out_point *p, bool euclidean) {
  uint64_t top1 = 0;
  for (uint64_t i = 0; i < w->n; i++) {
    if (!s->there[i]) continue;
    const double *scores = s->scores + i * s->classes;
    bool right = true;
    for (uint32_t k = 0; k < s->classes; k++)
      right &= !(scores[k] > scores[w->labels[i]] ||
                 (scores[k] == scores[w->labels[i]] && (int32_t)k < w->labels[i]));
    top1 += right;
  }
  assert_int_equal(p->top1, top1);
  assert_true(fabs(p->loss - loss_at(s, w, p->temperature)) < 2e-3 * (1 + p->loss));
  if (euclidean && p->temperature == 1) return; /* at its limits */
  assert_true(p->loss <= loss_at(s, w, p->temperature * 1.2));
  if (p->temperature == (euclidean ? 0x1p-8 : 2)) return;
  assert_true(p->loss <= loss_at(s, w, p->temperature / 1.2));
}

/* Errors by class are those of the scores, which check_scores compares with refits. */
static void check_errors(kf_fitter *fitter, const kf_data *data, const world *w, setting t,
                         double lambda, const seen *s) {
  AUTO(kf_analysis) *a = NULL;
  kf_left_out_model model = {.n_classes = w->classes,
                             .lambda = lambda,
                             .metric = t.euclidean ? KF_METRIC_EUCLIDEAN : KF_METRIC_COSINE,
                             .centre = t.centre,
                             .groups = t.groups,
                             .text = t.text,
                             .alpha = ALPHA,
                             .prior = t.prior};
  const double warmth = 3, unit = kf_distance_unit(fitter->within);
  assert_ok(fitter->ctx, kf_left_out_errors(fitter, data, &model, warmth, &a));
  uint64_t n = 0, wrong = 0, confused = 0, rows = 0, answers = 0;
  for (uint64_t row = 0; row < w->n; row++) {
    if (!s->there[row]) continue;
    const double *x = s->scores + row * w->classes;
    double best = -INFINITY, second = -INFINITY, sum = 0;
    int32_t answer = -1;
    for (uint32_t k = 0; k < w->classes; k++) {
      if (x[k] > best) {
        second = best;
        best = x[k];
        answer = (int32_t)k;
      } else if (x[k] > second) {
        second = x[k];
      }
    }
    for (uint32_t k = 0; k < w->classes; k++) sum += isnan(x[k]) ? 0 : exp(warmth * (x[k] - best));
    n++;
    if (answer == w->labels[row]) continue;
    const kf_mistake *m = &a->mistakes[wrong++];
    double right = exp(warmth * (x[w->labels[row]] - best)) / sum;
    if (t.euclidean) best = sqrt(-2 * best / unit);
    if (t.euclidean) second = sqrt(-2 * second / unit);
    assert_int_equal(m->row, row);
    assert_int_equal(m->truth, w->labels[row]);
    assert_int_equal(m->answer, answer);
    assert_true(fabs(m->score - best) < 1e-9 && fabs(m->margin - fabs(best - second)) < 1e-9);
    assert_true(fabs(m->probability - 1 / sum) < 1e-9 && fabs(m->right_probability - right) < 1e-9);
  }
  for (size_t i = 0; i < a->n_confusions; i++) confused += a->confusions[i].n;
  for (uint32_t k = 0; k < w->classes; k++) rows += a->classes[k].n;
  for (uint32_t k = 0; k < w->classes; k++) answers += a->classes[k].answers;
  assert_true(a->n_mistakes == wrong && confused == wrong && a->totals.top1 == n - wrong);
  assert_true(a->totals.n == n && rows == n && answers == n && a->calibration->totals.n == n);
}

static void check_scores(const world *w, setting t, double relative) {
  AUTO(kf_ctx) *ctx = test_ctx(3, KF_ISA_AUTO);
  AUTO(kf_data) *data = NULL;
  AUTO(kf_stats) *stats = NULL;
  AUTO(kf_fitter) *fitter = NULL;
  AUTO(kf_left_out) *l = NULL;
  assert_ok(ctx,
            kf_data_open_memory(ctx, w->rows, w->n, w->dim, w->labels, NULL, w->classes, &data));
  kf_stats_options options = {.normalize = t.euclidean ? KF_OFF : KF_ON};
  assert_ok(ctx, kf_stats_new_from_data(ctx, data, &options, &stats));
  assert_ok(ctx, kf_fitter_new(ctx, stats, NULL, t.method, &fitter));
  assert_ok(ctx, kf_fitter_set_priors(fitter, t.priors));
  kf_left_out_options by = {.metric = t.euclidean ? KF_METRIC_EUCLIDEAN : KF_METRIC_COSINE,
                            .centre = t.centre,
                            .groups = t.groups,
                            .text = t.text};
  assert_ok(ctx, kf_left_out_new(fitter, data, &by, &l));
  double lambda = relative * fitter->mean_eigenvalue;
  seen s = {.classes = w->classes,
            .scores = malloc(w->n * w->classes * sizeof *s.scores),
            .there = calloc(w->n, 1)};
  kf_left_out_point p = {.alpha = ALPHA};
  uint64_t n = 0, there = 0;
  kf_left_out_trial trial = {.lambda = lambda, .prior = t.prior, .see = see, .argument = &s};
  assert_ok(ctx, kf_left_out_try(l, &trial, &p, 1, &n));
  double *x = calloc(w->dim, sizeof *x);
  for (uint64_t row = 0; row < w->n; row++) {
    assert_int_equal(s.there[row], class_is_left(w, stats, t.groups, row));
    there += s.there[row];
    if (!s.there[row]) continue;
    refit r = refit_without(ctx, w, stats, fitter, t.groups, row, lambda, t.euclidean);
    r.equal = t.priors == KF_PRIORS_EQUAL;
    r.prior = t.prior;
    r.centred = t.euclidean || kf_centre_for(t.centre, t.method) == KF_CENTRE_MEAN;
    row_seen(ctx, w, &r, stats, row, x);
    for (uint32_t k = 0; k < w->classes; k++) {
      double score = s.scores[row * w->classes + k];
      if (kf_stats_count(r.stats, k) == 0) {
        assert_true(isnan(score));
        continue;
      }
      double again = refit_score(&r, k, x), most = 1e-9;
      if (t.text != NULL) { /* which gets rows that are not rounded */
        again = text_score(w, t.text, row, k) + ALPHA * refit_level(&r, stats, k, x);
        most = 1e-5;
      }
      if (!(fabs(score - again) < most * (1 + fabs(again))))
        fail_msg("row %d, class %u: %.15g, fitted again %.15g", (int)row, k, score, again);
    }
    refit_clear(&r);
  }
  assert_int_equal(n, there);
  assert_int_equal(n, kf_left_out_counts(l).n);
  assert_int_equal(w->n, n + kf_left_out_counts(l).n_single);
  check_loss(&s, w, &p, t.euclidean);
  check_errors(fitter, data, w, t, lambda, &s);
  free(x);
  free(s.scores);
  free(s.there);
}

/* More columns than classes, and fewer. */
static void check_setting(setting t) {
  static const double relative[] = {0.01, 0.5, 20};
  for (int few = 0; few < 2; few++) {
    AUTO(world) w = unbalanced(few ? 5 : 16, 9, 3);
    for (size_t i = 0; i < 3; i++) check_scores(&w, t, relative[i]);
  }
}

TEST(shrunk) { check_setting((setting){.method = KF_METHOD_SHRUNK}); }

TEST(shrunk_distances) { check_setting((setting){.method = KF_METHOD_SHRUNK, .euclidean = true}); }

/* Equal priors by distance, and those of the training rows by cosine. */
TEST(priors) {
  check_setting((setting){.euclidean = true, .priors = KF_PRIORS_EQUAL});
  check_setting((setting){.priors = KF_PRIORS_TRAINING, .prior = 0.07});
}

/* With priors as weights the loss is that of p = w exp(t s) / sum: at the temperatures themselves
 * to 1e-9, in between as near as a cubic is. */
TEST(weighted_loss) {
  enum { ROWS = 50, K = 7 };
  kf_likelihood s = kf_likelihood_new(false);
  kf_left_out_point p = {0};
  const double weights[K] = {5, 1, 9, 2, 2, 16, 3};
  double scores[ROWS][K], workspace[2 * K], sum[2] = {0}, at[2] = {16, 0};
  uint64_t random = 4;
  for (int i = 0; i < ROWS; i++) {
    for (int k = 0; k < K; k++) scores[i][k] = (double)(test_random(&random) % 1000) / 1000;
    scores[i][i % K] += 0.5;
    kf_likelihood_add(&s, scores[i], weights, K, (uint32_t)(i % K), workspace);
  }
  kf_likelihood_find(&s, &p);
  at[1] = p.temperature;
  for (int j = 0; j < 2; j++)
    for (int i = 0; i < ROWS; i++) {
      double all = 0;
      for (int k = 0; k < K; k++)
        all += weights[k] * exp(at[j] * (scores[i][k] - scores[i][i % K]));
      sum[j] += log(all / weights[i % K]) / ROWS;
    }
  assert_true(fabs((double)s.sums.loss[3] * 0x1p-40 / ROWS - sum[0]) < 1e-9);
  assert_true(p.temperature > 2 && p.temperature < 512 && fabs(p.loss - sum[1]) < 2e-3 * sum[1]);
}

TEST(paper) {
  check_setting((setting){.method = KF_METHOD_PAPER});
  check_setting((setting){.method = KF_METHOD_PAPER, .centre = KF_CENTRE_MEAN});
  check_setting((setting){.method = KF_METHOD_PAPER, .euclidean = true});
}

/* Two rows per class, and fewer rows than columns. */
TEST(two_rows) {
  AUTO(world) w = make_world(16, 20, 8, 1, 5);
  for (int centre = KF_CENTRE_NONE; centre <= KF_CENTRE_MEAN; centre++)
    check_scores(&w, (setting){.method = KF_METHOD_PAPER, .centre = (kf_centre)centre}, 0.3);
}

/* Classes of equally many rows. */
TEST(balanced) {
  for (uint32_t dim = 5; dim <= 16; dim += 11) {
    AUTO(world) w = make_world(36, dim, 12, 1, 4);
    check_scores(&w, (setting){.method = KF_METHOD_SHRUNK}, 0.5);
    check_scores(&w, (setting){.method = KF_METHOD_SHRUNK, .euclidean = true}, 0.5);
    check_scores(&w, (setting){.method = KF_METHOD_PAPER}, 0.5);
  }
}

/* Classes of 1 to 37 rows. */
TEST(many_sizes) {
  for (uint32_t dim = 5; dim <= 45; dim += 40) {
    AUTO(world) w = unbalanced(dim, 38, 8);
    check_scores(&w, (setting){.method = KF_METHOD_SHRUNK, .euclidean = dim == 5}, 0.3);
  }
}

/* Groups of several sizes across classes; one holds a whole class. */
TEST(groups) {
  AUTO(world) w = unbalanced(7, 9, 5);
  AUTOFREE uint32_t *groups = malloc(w.n * sizeof *groups);
  uint64_t random = 11;
  for (uint64_t i = 0; i < w.n; i++)
    groups[i] = w.labels[i] == 3 ? 99 : (uint32_t)(test_random(&random) % 7);
  for (int method = KF_METHOD_SHRUNK; method <= KF_METHOD_PAPER; method++)
    for (int euclidean = 0; euclidean < 2; euclidean++)
      check_scores(&w, (setting){(kf_method)method, euclidean, groups, NULL, 0, 0, 0}, 0.5);
  check_scores(&w, (setting){.method = KF_METHOD_PAPER, .groups = groups, .centre = KF_CENTRE_MEAN},
               0.5);
  check_scores(&w, (setting){.groups = groups, .priors = KF_PRIORS_TRAINING, .prior = 0.2}, 0.5);
}

/* Groups left out by fitting again, next to some left out by the formulas; with text and
 * without. */
TEST(large_groups) {
  AUTO(world) w = unbalanced(6, 12, 7);
  AUTOFREE uint32_t *groups = malloc(w.n * sizeof *groups);
  AUTOFREE float *text = malloc((size_t)w.classes * w.dim * sizeof *text);
  uint64_t random = 5;
  for (uint64_t i = 0; i < w.n; i++)
    groups[i] = w.labels[i] == 4 ? 7 : i % 5 == 0 ? (uint32_t)(100 + i / 10) : (uint32_t)(i % 2);
  for (uint32_t k = 0; k < w.classes; k++) {
    double square = 0;
    for (uint32_t i = 0; i < w.dim; i++) {
      text[k * w.dim + i] = (float)(test_random(&random) % 2001) / 1000 - 1;
      square += (double)text[k * w.dim + i] * (double)text[k * w.dim + i];
    }
    for (uint32_t i = 0; i < w.dim; i++) text[k * w.dim + i] /= (float)sqrt(square);
  }
  for (int method = KF_METHOD_SHRUNK; method <= KF_METHOD_PAPER; method++)
    for (int way = 0; way < 3; way++)
      check_scores(
          &w, (setting){(kf_method)method, way == 1, groups, way == 2 ? text : NULL, 0, 0, 0}, 0.5);
  check_scores(&w, (setting){.text = text}, 0.5);
  check_scores(&w, (setting){.groups = groups, .priors = KF_PRIORS_TRAINING, .prior = 0.2}, 0.5);
}

/* Few groups have rows of classes that other groups have too: these are the sample. */
TEST(useless_groups) {
  enum { N = 3000, K = 1000 };
  AUTO(kf_ctx) *ctx = test_ctx(2, KF_ISA_AUTO);
  AUTO(world) w = make_world(N, 4, K, 1, 9);
  uint32_t groups[N];
  for (uint32_t i = 0; i < N; i++) {
    w.labels[i] = (int32_t)(i / 3);
    groups[i] = i < 6 ? N + i : i / 3;
  }
  AUTO(kf_data) *data = NULL;
  AUTO(kf_stats) *stats = NULL;
  AUTO(kf_lambda_choice) *c = NULL;
  assert_ok(ctx, kf_data_open_memory(ctx, w.rows, N, 4, w.labels, NULL, K, &data));
  assert_ok(ctx, kf_stats_new_from_data(ctx, data, NULL, &stats));
  assert_ok(ctx,
            kf_lambda_choice_new(ctx, stats, data, &(kf_lambda_options){.groups = groups}, &c));
  assert_int_equal(c->n_all, 6);
  assert_int_equal(c->n_single, N - 6);
}

/* Classes of copies: the scatter of all rows stands in for S_w, and nothing can be learnt by
 * leaving rows out. */
TEST(copies) {
  AUTO(kf_ctx) *ctx = test_ctx(2, KF_ISA_AUTO);
  AUTO(world) w = make_world(12, 5, 4, 1, 9);
  for (uint64_t i = 0; i < 12; i++) {
    w.labels[i] = (int32_t)(i % 4);
    memcpy(w.rows + i * 5, w.rows + i % 4 * 5, 5 * sizeof *w.rows);
  }
  AUTO(kf_data) *data = NULL;
  AUTO(kf_stats) *stats = NULL;
  kf_lambda_choice *c;
  AUTO(kf_model) *m = NULL;
  assert_ok(ctx, kf_data_open_memory(ctx, w.rows, 12, 5, w.labels, NULL, 4, &data));
  assert_ok(ctx, kf_stats_new_from_data(ctx, data, NULL, &stats));
  assert_error(ctx, KF_ERR_MATH, "two different rows",
               kf_lambda_choice_new(ctx, stats, data, NULL, &c));
  assert_error(ctx, KF_ERR_MATH, "two different rows",
               kf_fit(ctx, data, &(kf_fit_options){.reject = 0.9}, &m, NULL));
  assert_ok(ctx, kf_fit(ctx, data, NULL, &m, NULL));
}

/* --- hits ------------------------------------------------------------------------------------- */

/* Hits alone are those of all scores, on every instruction set, and all scores are finite. */
static void check_hits(const world *w, bool raw, const double *lambdas, size_t n_lambdas,
                       setting t) {
  for (int isa = KF_ISA_PLAIN; isa <= KF_ISA_AMX; isa++) {
    if (!test_has_isa((kf_isa)isa)) continue;
    AUTO(kf_ctx) *ctx = test_ctx((unsigned)isa, (kf_isa)isa);
    AUTO(kf_data) *data = NULL;
    AUTO(kf_stats) *stats = NULL;
    AUTO(kf_fitter) *fitter = NULL;
    AUTO(kf_left_out) *l = NULL;
    AUTOFREE double *scores = malloc(w->n * w->classes * sizeof *scores);
    AUTOFREE unsigned char *there = calloc(w->n, 1);
    AUTOFREE uint64_t *right = calloc(w->n, sizeof *right);
    assert_ok(ctx,
              kf_data_open_memory(ctx, w->rows, w->n, w->dim, w->labels, NULL, w->classes, &data));
    kf_stats_options options = {.normalize = raw ? KF_OFF : KF_ON};
    assert_ok(ctx, kf_stats_new_from_data(ctx, data, &options, &stats));
    assert_ok(ctx, kf_fitter_new(ctx, stats, NULL, KF_METHOD_PAPER, &fitter));
    kf_left_out_options by = {.metric = t.euclidean ? KF_METRIC_EUCLIDEAN : KF_METRIC_COSINE,
                              .centre = t.centre};
    assert_ok(ctx, kf_left_out_new(fitter, data, &by, &l));
    for (size_t g = 0; g < n_lambdas; g++) {
      seen s = {.classes = w->classes, .scores = scores, .there = there};
      kf_left_out_point counted = {0}, all = {0};
      kf_left_out_trial trial = {
          .lambda = lambdas[g], .hits = true, .right = right, .bit = (unsigned)g};
      uint64_t n = 0, top1 = 0, top5 = 0;
      assert_ok(ctx, kf_left_out_try(l, &trial, &counted, 1, &n));
      trial.right = NULL;
      trial.see = see;
      trial.argument = &s;
      assert_ok(ctx, kf_left_out_try(l, &trial, &all, 1, &n));
      assert_int_equal(n, kf_left_out_counts(l).planned);
      for (uint64_t row = 0, at = 0; row < w->n; row++) {
        if (!there[row]) continue;
        const double *of_row = scores + row * w->classes;
        uint32_t own = (uint32_t)w->labels[row], before = 0;
        for (uint32_t k = 0; k < w->classes; k++) {
          assert_true(isfinite(of_row[k]) || stats->counts[k] == 0);
          before += of_row[k] > of_row[own] || (k < own && of_row[k] == of_row[own]);
        }
        assert_int_equal(right[at++] >> g & 1, before == 0);
        top1 += before == 0;
        top5 += before < 5;
      }
      assert_int_equal(counted.top1, top1);
      assert_int_equal(counted.top5, top5);
      assert_true(counted.loss == 0 && counted.temperature == 0);
    }
  }
}

static void check_hits_everywhere(const world *w, bool raw, const double *lambdas, size_t n) {
  for (int centre = KF_CENTRE_NONE; centre <= KF_CENTRE_MEAN; centre++)
    check_hits(w, raw, lambdas, n, (setting){.centre = (kf_centre)centre});
  check_hits(w, raw, lambdas, n, (setting){.euclidean = true});
}

TEST(hits) {
  static const double lambdas[] = {1e-3, 0.05, 0.4, 2, 50};
  AUTO(world) few = make_world(333, 24, 37, 2, 11), odd = unbalanced(13, 24, 12);
  AUTO(world) equal = make_world(40, 6, 4, 1, 2);
  for (uint64_t i = 0; i < equal.n; i++) /* classes 2k and 2k + 1 have the same rows */
    memcpy(equal.rows + i * 6, equal.rows + i / 4 * 4 * 6 + (i % 4 / 2 * 2) * 6,
           6 * sizeof *equal.rows);
  check_hits_everywhere(&few, false, lambdas, 5);
  check_hits_everywhere(&odd, false, lambdas, 5);
  check_hits_everywhere(&equal, false, lambdas, 5);
}

/* Raw rows so short next to others that they are zeros in the statistics have no direction; and
 * lambdas near the ends of f64. */
TEST(hits_far_off) {
  static const double lambdas[] = {1e-12, 1e-8, 1e100, 1e249};
  AUTO(world) w = unbalanced(11, 16, 31);
  for (uint64_t i = 0; i < w.n; i++)
    for (uint32_t j = 0; j < w.dim; j++) w.rows[i * w.dim + j] *= i % 7 == 3 ? 1e-19f : 1e-4f;
  check_hits_everywhere(&w, true, lambdas, 4);
}

/* Rows opposite to others, fewer than columns, and small lambdas: leaving a row out changes
 * much. */
TEST(hits_opposite) {
  static const double lambdas[] = {1e-9, 1e-7, 1e-5, 1e-3, 0.1};
  for (uint64_t seed = 1; seed <= 12; seed++) {
    uint64_t s = seed;
    AUTO(world)
    w = make_world(20 + seed % 4 * 10, 27, 7 + (uint32_t)seed, (double)(seed % 3 * 4), seed);
    for (uint64_t i = 3; i < w.n; i++)
      for (uint32_t j = 0; i % 3 != 0 && j < w.dim; j++) {
        float other = w.rows[seed % i * w.dim + j]; /* another row, or its negative */
        w.rows[i * w.dim + j] = i % 3 == 1 ? -other : other * (1 + 1e-6f * (float)test_normal(&s));
      }
    check_hits_everywhere(&w, false, lambdas, 5);
  }
}

/* --- fewer rows, fewer digits ----------------------------------------------------------------- */

typedef struct bench {
  kf_ctx *ctx;
  world w;
  kf_data *data;
  kf_stats *stats;
  kf_fitter *fitter;
  kf_left_out *l;
} bench;

static bench make_bench(uint64_t n, uint32_t dim, uint32_t classes, double noise) {
  bench b = {.ctx = test_ctx(2, KF_ISA_AUTO), .w = make_world(n, dim, classes, noise, 5)};
  assert_ok(b.ctx,
            kf_data_open_memory(b.ctx, b.w.rows, n, dim, b.w.labels, NULL, classes, &b.data));
  assert_ok(b.ctx, kf_stats_new_from_data(b.ctx, b.data, NULL, &b.stats));
  assert_ok(b.ctx, kf_fitter_new(b.ctx, b.stats, NULL, KF_METHOD_SHRUNK, &b.fitter));
  assert_ok(b.ctx, kf_left_out_new(b.fitter, b.data, &(kf_left_out_options){.sample = n}, &b.l));
  return b;
}

static void free_bench(bench *b) {
  kf_left_out_free(b->l);
  kf_fitter_free(b->fitter);
  kf_stats_free(b->stats);
  kf_data_free(b->data);
  free_world(&b->w);
  kf_ctx_free(b->ctx);
}
AUTO_STRUCT(bench, free_bench)

/* Products in f32 change a loss by less than 1e-4, with more classes than columns and fewer. */
TEST(fast) {
  static const double relative[] = {0.001, 0.1, 1, 100};
  for (uint32_t classes = 10; classes <= 90; classes += 80) {
    AUTO(bench) b = make_bench(450, 40, classes, 2);
    for (size_t i = 0; i < 4; i++) {
      kf_left_out_trial trial = {.lambda = relative[i] * b.fitter->mean_eigenvalue};
      kf_left_out_point exact = {0}, fast = {0};
      uint64_t n;
      assert_ok(b.ctx, kf_left_out_try(b.l, &trial, &exact, 1, &n));
      trial.fast = true;
      assert_ok(b.ctx, kf_left_out_try(b.l, &trial, &fast, 1, &n));
      assert_true(fast.loss != exact.loss);
      assert_true(fabs(fast.loss - exact.loss) < 1e-4);
      assert_true(fabs(fast.temperature / exact.temperature - 1) < 1e-3);
    }
  }
}

/* The result for a part of the rows is that of leaving out this part alone. */
TEST(part) {
  AUTO(bench) b = make_bench(450, 40, 90, 2);
  kf_left_out_point alone = {0}, part = {0}, all = {0}, most = {0};
  kf_left_out_trial trial = {.lambda = b.fitter->mean_eigenvalue, .most = 100};
  uint64_t n;
  assert_ok(b.ctx, kf_left_out_try(b.l, &trial, &alone, 1, &n));
  assert_int_equal(n, 100);
  trial.part = 100;
  trial.of_part = &part;
  for (trial.most = 50; trial.most <= 100; trial.most += 50) { /* never fewer than the part */
    assert_ok(b.ctx, kf_left_out_try(b.l, &trial, &all, 1, &n));
    assert_int_equal(n, 100);
    assert_memory_equal(&all, &alone, sizeof all);
  }
  trial.most = 300;
  assert_ok(b.ctx, kf_left_out_try(b.l, &trial, &most, 1, &n));
  assert_int_equal(n, 300);
  assert_memory_equal(&part, &alone, sizeof part);
  assert_true(most.loss != alone.loss && most.top1 > alone.top1);
}

/* The error of a temperature matches the scatter of temperatures from other rows. */
TEST(temperature_error) {
  enum { TIMES = 40, ROWS = 2000 };
  double sum = 0, squares = 0, told = 0;
  uint64_t random = 77;
  for (int i = 0; i < TIMES; i++) {
    kf_likelihood s = kf_likelihood_new(false);
    kf_left_out_point p = {0};
    double workspace[6], scores[3];
    for (int row = 0; row < ROWS; row++) {
      for (int k = 0; k < 3; k++) scores[k] = (double)(test_random(&random) % 1000) / 4000;
      bool first = scores[0] + (double)(test_random(&random) % 1000) / 5000 > scores[1] + 0.1;
      kf_likelihood_add(&s, scores, NULL, 3, first ? 0 : 1, workspace);
    }
    kf_likelihood_find(&s, &p);
    sum += log(p.temperature) / TIMES;
    squares += log(p.temperature) * log(p.temperature) / TIMES;
    told += p.temperature_error / TIMES;
  }
  double deviation = sqrt(squares - sum * sum);
  if (!(told > 0.7 * deviation && told < 1.4 * deviation))
    fail_msg("told %g, seen %g", told, deviation);
}

/* The temperature takes as many rows as it needs, and all of a sample that was asked for; the point
 * that is chosen is exact. */
TEST(rows_enough) {
  AUTO(bench) b = make_bench(4000, 40, 90, 2);
  AUTO(kf_lambda_choice) *some = NULL, *asked = NULL;
  kf_lambda_options by = {.sample = 1500};
  assert_ok(b.ctx, kf_lambda_choice_new(b.ctx, b.stats, b.data, NULL, &some));
  assert_ok(b.ctx, kf_lambda_choice_new(b.ctx, b.stats, b.data, &by, &asked));
  assert_int_equal(some->n, (1u << 16) / 90);
  assert_true(some->n_all >= some->n && some->n_all < 2000);
  assert_true(fabs(log(some->all.temperature / asked->all.temperature)) < 4 * 0.03);
  kf_left_out_trial trial = {.lambda = asked->lambda, .most = asked->n};
  kf_left_out_point p = {0};
  AUTO(kf_left_out) *l = NULL;
  uint64_t n;
  assert_ok(b.ctx, kf_left_out_new(b.fitter, b.data, &(kf_left_out_options){.sample = 1500}, &l));
  assert_int_equal(asked->n_all, kf_left_out_counts(l).n);
  assert_ok(b.ctx, kf_left_out_try(l, &trial, &p, 1, &n));
  assert_true(n == asked->n && p.loss == asked->points[asked->chosen].loss);
}

/* With many classes and few rows, a sixth of the rows at most. */
TEST(rows_of_many_classes) {
  AUTO(bench) b = make_bench(6000, 6, 3000, 0.5);
  AUTO(kf_lambda_choice) *c = NULL;
  assert_ok(b.ctx, kf_lambda_choice_new(b.ctx, b.stats, b.data, NULL, &c));
  assert_true(c->n_all > 3 * c->n && c->n_all <= 1000);
}

/* --- the search ------------------------------------------------------------------------------- */

static bench make_mixed(uint64_t n, uint64_t seed) {
  bench b = {.ctx = test_ctx(2, KF_ISA_AUTO), .w = make_world(n, 24, 12, (double)seed, seed)};
  mix(&b.w, 3);
  assert_ok(b.ctx, kf_data_open_memory(b.ctx, b.w.rows, n, 24, b.w.labels, NULL, 12, &b.data));
  assert_ok(b.ctx, kf_stats_new_from_data(b.ctx, b.data, NULL, &b.stats));
  assert_ok(b.ctx, kf_fitter_new(b.ctx, b.stats, NULL, KF_METHOD_SHRUNK, &b.fitter));
  assert_ok(b.ctx, kf_left_out_new(b.fitter, b.data, &(kf_left_out_options){.sample = n}, &b.l));
  return b;
}

static double loss_of_eighth(bench *b, int eighth) {
  kf_left_out_trial trial = {.lambda = b->fitter->mean_eigenvalue * pow(10, eighth / 8.0)};
  kf_left_out_point p = {0};
  uint64_t n;
  assert_ok(b->ctx, kf_left_out_try(b->l, &trial, &p, 1, &n));
  return p.loss;
}

enum { HALVES = 7 }; /* from 1x to 0.001x */

/* Going down from 1x by half decades finds the eighth of a decade with the least loss, if that is
 * below 1x. found: how often it was near each. */
static int search_by_halves(bench *b, const double *loss, int *found) {
  int best = 1;
  while (best + 1 < HALVES && loss[best + 1] < loss[best]) best++;
  found[best]++;
  if (best == HALVES - 1) return -4 * best;
  double up = loss[best - 1] - loss[best], down = loss[best + 1] - loss[best];
  int lowest = -4 * best + (int)floor(2 * (down - up) / (down + up) + 0.5);
  return loss_of_eighth(b, lowest) < loss[best] ? lowest : -4 * best;
}

/* The lambda is the same if the end is looked at early; and where it is the end, four are tried. */
TEST(search) {
  int found[HALVES] = {0};
  for (uint64_t each = 4; each <= 40; each += 12)
    for (uint64_t seed = 1; seed <= 4; seed++) {
      AUTO(bench) b = make_mixed(each * 12, seed);
      double loss[HALVES], unit = b.fitter->mean_eigenvalue;
      AUTO(kf_lambda_choice) *c = NULL;
      for (int i = 0; i < HALVES; i++) loss[i] = loss_of_eighth(&b, -4 * i);
      assert_ok(b.ctx, kf_lambda_choice_new(b.ctx, b.stats, b.data, NULL, &c));
      int eighth = (int)floor(8 * log10(c->lambda / unit) + 0.5);
      if (loss[1] < loss[0]) assert_int_equal(eighth, search_by_halves(&b, loss, found));
      if (eighth == -24) assert_int_equal(c->n_points, 4);
      for (size_t i = 0; i < c->n_points; i++)
        assert_true(c->points[i].loss >= c->points[c->chosen].loss);
    }
  for (int i = 1; i < HALVES; i++) assert_true(found[i] > 0);
}

/* The largest lambda within a standard error is looked for among all half decades from 1x down. */
TEST(one_se) {
  int larger = 0;
  for (uint64_t seed = 1; seed <= 4; seed++) {
    AUTO(bench) b = make_mixed(480, seed);
    AUTO(kf_lambda_choice) *c = NULL;
    assert_ok(b.ctx,
              kf_lambda_choice_new(b.ctx, b.stats, b.data, &(kf_lambda_options){.one_se = 1}, &c));
    const kf_lambda_point *best = &c->points[c->best];
    for (int i = 0; i < HALVES; i++) {
      double lambda = b.fitter->mean_eigenvalue * pow(10, -i / 2.0);
      bool tried = lambda < best->lambda * 0.99;
      for (size_t k = 0; k < c->n_points; k++)
        tried |= fabs(c->points[k].lambda / lambda - 1) < 1e-9;
      assert_true(tried);
    }
    for (size_t k = c->chosen + 1; k < c->n_points; k++)
      assert_true(c->points[k].loss > best->loss + best->loss_error);
    larger += c->chosen > c->best;
  }
  assert_true(larger > 0);
}

/* A fitter that has left rows out gives the model of a fresh one. */
TEST(same_fit) {
  AUTO(bench) b = make_bench(450, 40, 90, 2);
  double lambda = b.fitter->mean_eigenvalue;
  kf_left_out_point p = {0};
  kf_model *fresh, *after;
  uint64_t n;
  assert_ok(b.ctx, kf_fitter_fit(b.fitter, (kf_lambda){lambda, KF_LAMBDA_ABSOLUTE}, 0,
                                 KF_CENTRE_DEFAULT, &fresh));
  for (int i = 0; i < 3; i++) { /* the same lambda, another, the same */
    kf_left_out_trial trial = {.lambda = i == 1 ? 3 * lambda : lambda, .curve = i == 2};
    assert_ok(b.ctx, kf_left_out_try(b.l, &trial, &p, 1, &n));
    assert_ok(b.ctx, kf_fitter_fit(b.fitter, (kf_lambda){lambda, KF_LAMBDA_ABSOLUTE}, 0,
                                   KF_CENTRE_DEFAULT, &after));
    assert_memory_equal(fresh->map.transform, after->map.transform, 40 * 40 * sizeof(double));
    assert_memory_equal(fresh->between, after->between, 40 * sizeof(double));
    kf_model_free(after);
  }
  kf_model_free(fresh);
}

/* Unbounded distances do not overflow the sums. */
TEST(far_away) {
  kf_likelihood s = kf_likelihood_new(true);
  kf_left_out_point p;
  double workspace[6], scores[3] = {-1e30, 0, -1};
  for (int i = 0; i < 1000; i++) kf_likelihood_add(&s, scores, NULL, 3, 0, workspace);
  kf_likelihood_find(&s, &p);
  assert_true(s.sums.n == 1000 && s.sums.top1 == 0 && s.sums.top5 == 1000);
  assert_true(p.temperature == 0x1p-8 && p.loss > 1e15 && isfinite(p.loss));
  for (int i = 0; i < 9; i++) assert_true(s.sums.slope[i] > 0 && s.sums.square[i] > 0);
  scores[1] = INFINITY; /* 0 * infinity is no number */
  kf_likelihood_add(&s, scores, NULL, 3, 0, workspace);
  kf_likelihood_find(&s, &p);
  assert_true(isfinite(p.loss));
}

/* --- the same on any machine ------------------------------------------------------------------ */

/* A choice over threads and instruction sets: rows alone, in groups, in large ones; and rows alone,
 * of more classes than columns and equally many of each. */
TEST(same_bits) {
  world of[2] = {make_world(300, 24, 12, 2, 8), make_world(960, 24, 30, 2, 8)};
  uint32_t groups[2][300];
  for (uint32_t i = 0; i < 300; i++) {
    groups[0][i] = i / 7;
    groups[1][i] = i / 60;
  }
  kf_lambda_choice *first[4] = {0};
  for (int isa = KF_ISA_PLAIN; isa <= KF_ISA_AMX; isa++) {
    if (!test_has_isa((kf_isa)isa)) continue;
    for (unsigned threads = 1; threads <= 5; threads += 2)
      for (int grouped = 0; grouped < 4; grouped++) {
        const world *w = &of[grouped == 3];
        AUTO(kf_ctx) *ctx = NULL;
        AUTO(kf_data) *data = NULL;
        AUTO(kf_stats) *stats = NULL;
        kf_lambda_choice *c;
        assert_int_equal(
            kf_ctx_new(&(kf_ctx_options){.threads = threads, .isa = (kf_isa)isa}, &ctx), KF_OK);
        assert_ok(ctx, kf_data_open_memory(ctx, w->rows, w->n, w->dim, w->labels, NULL, w->classes,
                                           &data));
        assert_ok(ctx, kf_stats_new_from_data(ctx, data, NULL, &stats));
        kf_lambda_options by = {.groups = grouped % 3 ? groups[grouped - 1] : NULL,
                                .priors = grouped == 1 ? KF_PRIORS_TRAINING : KF_PRIORS_DEFAULT};
        assert_ok(ctx, kf_lambda_choice_new(ctx, stats, data, &by, &c));
        assert_int_equal(c->criterion, KF_CRITERION_LIKELIHOOD);
        if (first[grouped] == NULL) {
          first[grouped] = c;
        } else {
          assert_int_equal(c->n_points, first[grouped]->n_points);
          assert_memory_equal(c->points, first[grouped]->points, c->n_points * sizeof *c->points);
          assert_memory_equal(&c->all, &first[grouped]->all, sizeof c->all);
          kf_lambda_choice_free(c);
        }
      }
  }
  assert_memory_not_equal(first[0]->points, first[1]->points, sizeof *first[0]->points);
  for (int i = 0; i < 4; i++) kf_lambda_choice_free(first[i]);
  for (int i = 0; i < 2; i++) free_world(&of[i]);
}
