/* fit_json.c - the report of a fit as JSON. */
#include "fit_options.h"
#include "sink.h"
#include "options.h"

#include <math.h>

static double share(uint64_t part, uint64_t n) {
  return n ? (double)part / (double)n : (double)NAN;
}

static double relative(double lambda, double mean) {
  return mean > 0 ? lambda / mean : (double)NAN;
}

static void put_hits(cli_json *w, uint64_t top1, uint64_t top5, uint64_t n) {
  jw_real(w, "top1", share(top1, n));
  jw_real(w, "top5", share(top5, n));
}

/* There is no loss where only hits were counted. */
static void put_loss(cli_json *w, kf_criterion criterion, double loss, double error,
                     double temperature) {
  int known = criterion == KF_CRITERION_LIKELIHOOD;
  jw_real(w, "loss", known ? loss : (double)NAN);
  jw_real(w, "loss_error", known ? error : (double)NAN);
  jw_real(w, "temperature", known ? temperature : (double)NAN);
}

static void put_lambdas(cli_json *w, const kf_lambda_choice *c) {
  jw_open(w, "by_lambda", '{');
  jw_text(w, "metric", kf_metric_name(c->metric));
  jw_text(w, "criterion", criterion_choices[c->criterion - 1]);
  jw_count(w, "rows", c->rows);
  jw_count(w, "n", c->n);
  jw_count(w, "n_single", c->n_single);
  jw_count(w, "chosen", c->chosen);
  jw_count(w, "best", c->best);
  jw_open(w, "points", '[');
  for (size_t i = 0; i < c->n_points; i++) {
    jw_open(w, NULL, '{');
    jw_real(w, "lambda", c->points[i].lambda);
    jw_real(w, "relative", relative(c->points[i].lambda, c->mean_eigenvalue));
    put_hits(w, c->points[i].top1, c->points[i].top5, c->n);
    put_loss(w, c->criterion, c->points[i].loss, c->points[i].loss_error, c->points[i].temperature);
    jw_close(w, "}");
  }
  jw_close(w, "]}");
}

static void put_fusion(cli_json *w, const kf_fuse_choice *c) {
  jw_open(w, "by_fusion", '{');
  jw_text(w, "criterion", criterion_choices[c->criterion - 1]);
  jw_count(w, "rows", c->rows);
  jw_count(w, "n", c->n);
  jw_count(w, "n_single", c->n_single);
  jw_real(w, "text_top1", share(c->text_top1, c->n));
  jw_count_if(w, "chosen", c->chosen, c->n_points > 0);
  jw_open(w, "points", '[');
  for (size_t i = 0; i < c->n_points; i++) {
    jw_open(w, NULL, '{');
    jw_real(w, "lambda", c->points[i].lambda);
    jw_real(w, "relative", relative(c->points[i].lambda, c->mean_eigenvalue));
    jw_real(w, "alpha", c->points[i].alpha);
    put_hits(w, c->points[i].top1, c->points[i].top5, c->n);
    put_loss(w, c->criterion, c->points[i].loss, c->points[i].loss_error, c->points[i].temperature);
    jw_close(w, "}");
  }
  jw_close(w, "]}");
}

static void put_dims(cli_json *w, const kf_dim_choice *c) {
  jw_open(w, "by_dim", '{');
  jw_count(w, "dim", c->dim);
  jw_count(w, "best", c->best);
  jw_count(w, "same", c->same);
  jw_real(w, "margin", c->margin);
  jw_count(w, "folds", c->folds);
  jw_count(w, "n", c->n);
  jw_open(w, "points", '[');
  for (size_t i = 0; i < c->n_points; i++) {
    const kf_dim_point *p = &c->points[i];
    jw_open(w, NULL, '{');
    jw_count(w, "dim", p->dim);
    put_hits(w, p->top1, p->top5, c->n);
    jw_count(w, "lost", p->lost);
    jw_count(w, "won", p->won);
    jw_real(w, "loss_upper95", kf_dim_upper95(c, i));
    jw_close(w, "}");
  }
  jw_close(w, "]}");
}

static void put_model(cli_json *w, const kf_fit_report *r, const kf_model *model) {
  jw_count(w, "rows", r->rows);
  jw_count(w, "n_unlabelled", r->n_unlabelled);
  jw_count(w, "n_bad", r->n_bad);
  jw_count(w, "classes", kf_model_classes(model));
  jw_count(w, "classes_with_rows", kf_model_answers(model, KF_PART_IMAGES));
  jw_count(w, "dim_in", kf_model_dim_in(model));
  jw_count(w, "dim_out", r->dim);
  jw_text(w, "method", method_choices[kf_model_method(model) - 1]);
  jw_text(w, "centre", kf_model_centre(model) == KF_CENTRE_MEAN ? "mean" : "none");
  jw_flag(w, "normalized", kf_model_normalized(model));
  jw_text(w, "priors", priors_choices[kf_model_priors(model) - 1]);
  jw_real(w, "lambda", r->lambda);
  jw_real(w, "relative", relative(r->lambda, r->mean_eigenvalue));
  jw_real(w, "mean_eigenvalue", r->mean_eigenvalue);
  jw_flag(w, "fused", kf_model_fused(model));
  jw_real(w, "alpha", kf_model_fused(model) ? r->alpha : (double)NAN);
  double temperature = kf_model_temperature(model);
  jw_real(w, "temperature", temperature > 0 ? temperature : (double)NAN);
}

void print_fit_json(const kf_fit_report *r, const kf_model *model, const char *path) {
  cli_json w = jw_begin(stdout);
  jw_text(&w, "model", path);
  put_model(&w, r, model);
  jw_count(&w, "n", r->n);
  jw_count_if(&w, "right", r->right, r->n > 0);
  jw_real(&w, "top1", share(r->right, r->n));
  jw_real(&w, "standard_error", r->n ? r->standard_error : (double)NAN);
  jw_count(&w, "n_compared", r->n_compared);
  jw_count(&w, "n_near", r->n_near);
  jw_flag(&w, "many_near", r->many_near);
  if (r->by_lambda)
    put_lambdas(&w, r->by_lambda);
  else
    jw_null(&w, "by_lambda");
  if (r->by_fusion)
    put_fusion(&w, r->by_fusion);
  else
    jw_null(&w, "by_fusion");
  if (r->by_dim)
    put_dims(&w, r->by_dim);
  else
    jw_null(&w, "by_dim");
  jw_end(&w);
}
