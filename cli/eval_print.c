/* eval_print.c - prints what 'koofu eval' found, as text or as JSON. */
#include "eval.h"

#include <math.h>

int eval_has_prototypes(const eval_job *job) { return job->data && job->model; }

int eval_has_parts(const eval_job *job) {
  return eval_has_prototypes(job) && kf_model_fused(job->model) && !job->cli->args.use.raw;
}

const kf_model *eval_judged(const eval_job *job) {
  if (!job->zero.text) return job->model;
  return job->cli->args.use.raw ? job->zero.raw : job->zero.mapped;
}

/* Names are longer with neighbours: "Koo-Fu 1024-NN weighted". */
static int name_width(const eval_job *job) {
  if (job->gallery) return job->cli->args.votes.weighted ? 23 : 14;
  return job->zero.text ? 11 : 8;
}

static void print_row(const eval_job *job, const char *name, uint32_t dim, uint64_t top1,
                      uint64_t top5, uint64_t n) {
  printf("%-*s %6u  %9s %-16s  %9s %-16s  %s\n", name_width(job), name, dim,
         show_percent(top1, n).text, show_interval(top1, n).text, show_percent(top5, n).text,
         show_interval(top5, n).text, show_count(n).text);
}

/* A row for the original space and, without --raw, one for the model's. */
static void print_spaces(const eval_job *job, const char *raw, const char *mapped,
                         const kf_eval_result *r) {
  print_row(job, raw, kf_model_dim_in(job->model), r->raw_top1, r->raw_top5, r->n);
  if (!job->cli->args.use.raw)
    print_row(job, mapped, kf_model_dim_out(job->model), r->top1, r->top5, r->n);
}

static void print_parts(const eval_job *job) {
  const kf_eval_result *t = &job->own_text, *f = &job->fused;
  uint32_t d = kf_model_dim_in(job->model), l = kf_model_dim_out(job->model);
  print_row(job, "text", d, t->top1, t->top5, t->n);
  print_row(job, "fused", d + l, f->top1, f->top5, f->n);
}

static void print_neighbours(const eval_job *job) {
  const char *space = kf_gallery_mapped(job->gallery) ? "Koo-Fu" : "raw";
  for (size_t i = 0; i < job->n_k; i++) {
    const kf_hits *h = &job->hits[i];
    char name[32];
    snprintf(name, sizeof name, "%s %u-NN%s", space, h->k,
             job->cli->args.votes.weighted ? " weighted" : "");
    print_row(job, name, kf_gallery_dim(job->gallery), h->top1, h->top5, job->neighbours.n);
  }
}

static void print_left_out(const eval_job *job, const kf_eval_result *r, const char *from,
                           const char *owner) {
  const char *set = job->set ? ", or that is not in the class set" : "";
  if (r->n == r->rows) return;
  printf("\nleft out%s, of %s:\n", from, show_counted(r->rows, "row", "rows").text);
  if (r->n_unlabelled) printf("  %s without a label\n", show_count(r->n_unlabelled).text);
  if (r->n_absent)
    printf("  %s of %s that the %s does not have%s\n", show_count(r->n_absent).text,
           show_counted(r->absent_classes, "class", "classes").text, owner, set);
  if (r->n_excluded)
    printf("  %s that the truth has no class for\n", show_count(r->n_excluded).text);
  if (r->n_bad)
    printf("  %s that %s NaN, infinite or zero\n", show_count(r->n_bad).text,
           r->n_bad == 1 ? "is" : "are");
}

static void print_all_left_out(const eval_job *job) {
  const kf_eval_result *r = &job->prototypes;
  if (eval_has_prototypes(job)) print_left_out(job, r, "", "model");
  if (job->zero.text && job->text.n_absent != r->n_absent)
    print_left_out(job, &job->text, " of text", "text");
  if (job->gallery && (!eval_has_prototypes(job) || job->neighbours.n_absent != r->n_absent))
    print_left_out(job, &job->neighbours, " of k-NN", "gallery");
}

static void print_calibration(const kf_calibration *c) {
  printf("\nprobabilities, at temperature %s:\n", show_real(c->temperature).text);
  printf("  negative log-likelihood %.4f, Brier score %.4f\n", c->nll, c->brier);
  printf("  calibration error %.2f %%: %.2f %% sure on average, right for %s\n", 100 * c->ece,
         100 * c->confidence, show_percent(c->totals.top1, c->totals.n).text);
}

static void print_open_set(const kf_open_set_result *o, int text) {
  printf("\nknown against unknown, by the score of the nearest %s:\n", text ? "text" : "prototype");
  printf("  %s known, %s unknown\n", show_counted(o->n_known, "row", "rows").text,
         show_count(o->n_unknown).text);
  printf(
      "  AUROC %.2f %%; %.2f %% of the unknown rows pass where 95 %% of the known ones do (%s)\n",
      100 * o->auroc, 100 * o->fpr95, show_real(o->threshold).text);
  if (o->kept > 0 || o->refused > 0)
    printf("  the threshold of the model keeps %.2f %% of the known rows and refuses %.2f %% of "
           "the unknown ones\n",
           100 * o->kept, 100 * o->refused);
}

static void print_job_errors(const eval_job *job) {
  if (job->zero.text)
    printf("\nerrors of text in the %s space:\n", job->cli->args.use.raw ? "original" : "model's");
  else if (eval_has_parts(job))
    printf("\nerrors of text and prototypes together:\n");
  print_errors(eval_judged(job), job->analysis);
}

void eval_print_text(const eval_job *job) {
  printf("%-*s %6s  %9s %-16s  %9s %-16s  %s\n", name_width(job), "space", "dims", "top-1",
         "[95 % interval]", "top-5", "[95 % interval]", "rows");
  if (eval_has_prototypes(job)) print_spaces(job, "raw", "Koo-Fu", &job->prototypes);
  if (eval_has_parts(job)) print_parts(job);
  if (job->zero.text) print_spaces(job, "raw text", "Koo-Fu text", &job->text);
  if (job->gallery) print_neighbours(job);
  if (eval_has_parts(job) && metric_for(&job->cli->args, job->model) == KF_METRIC_EUCLIDEAN)
    printf(
        "\nraw and Koo-Fu: by Euclidean distance; text and fused: by cosine, as text always is\n");
  print_all_left_out(job);
  if (job->calibration) print_calibration(job->calibration);
  if (job->unknown) print_open_set(&job->open_set, job->zero.text != NULL);
  if (job->analysis && job->cli->args.errors.shown) print_job_errors(job);
  /* The rows of a mapped gallery are often those that its map was fitted on. */
  if (!job->data && kf_gallery_mapped(job->gallery))
    printf("\nleave one out: where the map was fitted on these rows, this flatters it\n");
}

static void print_json_neighbours(cli_json *j, const eval_job *job) {
  const kf_eval_result *r = &job->neighbours;
  const cli_args *a = &job->cli->args;
  jw_open(j, "knn", '[');
  for (size_t i = 0; i < job->n_k; i++) {
    jw_open(j, NULL, '{');
    jw_count(j, "k", job->hits[i].k);
    print_json_hits(j, "", job->hits[i].top1, job->hits[i].top5, r->n, 1);
    jw_close(j, "}");
  }
  jw_close(j, "]");
  jw_count(j, "knn_n", r->n);
  jw_count(j, "knn_n_absent", r->n_absent);
  jw_text(j, "knn_space", kf_gallery_mapped(job->gallery) ? "koofu" : "raw");
  jw_count(j, "knn_dim", kf_gallery_dim(job->gallery));
  jw_text(j, "knn_metric", kf_metric_name(kf_gallery_metric(job->gallery)));
  jw_flag(j, "knn_weighted", a->votes.weighted);
  jw_real(j, "knn_temperature", a->votes.weighted ? vote_temperature(a) : (double)NAN);
  jw_flag(j, "leave_one_out", !job->data);
  jw_real(j, "candidates_per_query", (double)job->report.candidates / (double)job->report.queries);
}

static void print_json_calibration(cli_json *j, const kf_calibration *c) {
  jw_open(j, "calibration", '{');
  jw_real(j, "temperature", c->temperature);
  jw_real(j, "nll", c->nll);
  jw_real(j, "brier", c->brier);
  jw_real(j, "ece", c->ece);
  jw_real(j, "confidence", c->confidence);
  jw_open(j, "bins", '[');
  for (size_t i = 0; i < KF_CALIBRATION_BINS; i++) {
    const kf_calibration_bin *b = &c->bins[i];
    jw_open(j, NULL, '{');
    jw_count(j, "n", b->n);
    jw_count(j, "top1", b->top1);
    jw_real(j, "confidence", b->n > 0 ? b->confidence : (double)NAN);
    jw_close(j, "}");
  }
  jw_close(j, "]}");
}

static void print_json_open_set(cli_json *j, const kf_open_set_result *o) {
  jw_open(j, "open_set", '{');
  jw_count(j, "n_known", o->n_known);
  jw_count(j, "n_unknown", o->n_unknown);
  jw_real(j, "auroc", o->auroc);
  jw_real(j, "fpr95", o->fpr95);
  jw_real(j, "threshold", o->threshold);
  if (o->kept > 0 || o->refused > 0) jw_real(j, "kept", o->kept);
  if (o->kept > 0 || o->refused > 0) jw_real(j, "refused", o->refused);
  jw_close(j, "}");
}

static void print_json_text(cli_json *j, const eval_job *job) {
  const kf_eval_result *r = &job->text;
  const cli_args *a = &job->cli->args;
  jw_text(j, "text", a->text.path);
  jw_text(j, "text_centre", a->use.raw ? NULL : text_centre_name(a));
  jw_count(j, "text_classes", kf_text_classes(job->zero.text));
  jw_count(j, "text_n", r->n);
  jw_count(j, "text_n_absent", r->n_absent);
  print_json_hits(j, "text", r->top1, r->top5, r->n, !a->use.raw);
  print_json_hits(j, "raw_text", r->raw_top1, r->raw_top5, r->n, 1);
}

/* The decision of a model with text is that of text and prototypes together. */
static void print_json_parts(cli_json *j, const eval_job *job) {
  const kf_eval_result *p = &job->prototypes, *t = &job->own_text, *f = &job->fused;
  jw_count(j, "prototypes_n", p->n);
  print_json_hits(j, "prototypes", p->top1, p->top5, p->n, 1);
  print_json_hits(j, "model_text", t->top1, t->top5, t->n, 1);
  print_json_hits(j, "fused", f->top1, f->top5, f->n, 1);
  jw_real(j, "alpha", kf_model_alpha(job->model));
}

void eval_print_json(const eval_job *job) {
  const cli_args *a = &job->cli->args;
  int raw = eval_has_prototypes(job), parts = eval_has_parts(job);
  const kf_eval_result *p = raw ? &job->prototypes : &job->neighbours;
  cli_json j = jw_begin(stdout);
  const kf_eval_result *r = parts ? &job->fused : p;
  const kf_gallery *alone = job->model ? NULL : job->gallery;
  const char *metric = kf_metric_name(alone ? kf_gallery_metric(alone) : metric_for(a, job->model));
  jw_count_if(&j, "n", r->n, raw);
  print_json_hits(&j, "", r->top1, r->top5, r->n, raw && !a->use.raw);
  print_json_hits(&j, "raw", p->raw_top1, p->raw_top5, p->n, raw);
  if (parts) print_json_parts(&j, job);
  jw_count(&j, "rows", r->rows);
  jw_count(&j, "n_unlabelled", r->n_unlabelled);
  jw_count(&j, "n_absent", r->n_absent);
  jw_count(&j, "absent_classes", r->absent_classes);
  jw_count(&j, "n_bad", r->n_bad);
  jw_count(&j, "n_excluded", r->n_excluded);
  jw_text(&j, "truth", a->judge.truth);
  jw_text(&j, "class_set", a->judge.class_set);
  jw_text(&j, "metric", parts ? kf_metric_name(KF_METRIC_COSINE) : metric);
  if (parts) jw_text(&j, "prototypes_metric", metric);
  jw_count(&j, "dim_in", alone ? kf_gallery_dim_in(alone) : kf_model_dim_in(job->model));
  jw_count(&j, "dim_out", alone ? kf_gallery_dim(alone) : kf_model_dim_out(job->model));
  jw_real(&j, "lambda", alone ? (double)NAN : kf_model_lambda(job->model));
  if (job->zero.text) print_json_text(&j, job);
  if (job->gallery) print_json_neighbours(&j, job);
  if (job->calibration) print_json_calibration(&j, job->calibration);
  if (job->unknown) print_json_open_set(&j, &job->open_set);
  if (job->analysis || job->unknown)
    jw_text(&j, "errors_of", job->zero.text ? "text" : parts ? "fused" : "prototypes");
  if (job->analysis && a->errors.shown) print_json_errors(&j, eval_judged(job), job->analysis);
  jw_end(&j);
}
