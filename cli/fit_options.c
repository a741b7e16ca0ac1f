/* fit_options.c - the options of a fit, and what it chose. */
#include "fit_options.h"
#include "inputs.h"

#include <string.h>

static int wants(const char *given, const char *rule) { return given && strcmp(given, rule) == 0; }

int check_choose_options(cli_run *cli) {
  const cli_args *a = &cli->args;
  int lambda = !a->fit.lambda || wants(a->fit.lambda, "auto");
  if (!lambda) TRY(need(cli, "one-se", "--lambda auto"));
  if (!a->fit.dim.automatic) TRY(need(cli, "folds margin", "--dim auto"));
  if (a->fit.margin.value >= 100) return fail_usage(cli, "--margin must be below 100 points");
  return EXIT_OK;
}

int read_fuse(cli_run *cli, int *automatic, double *alpha) {
  const char *given = cli->args.text.fuse;
  *automatic = !given || wants(given, "auto");
  if (*automatic) return EXIT_OK;
  if (parse_real(given, alpha) && *alpha >= 0) return EXIT_OK;
  return fail_usage(cli, "--fuse must be auto or a number not below 0, not '%.60s'", given);
}

int read_fit_options(cli_run *cli, kf_fit_options *o, double *alpha) {
  const cli_args *a = &cli->args;
  int automatic, result = read_fuse(cli, &automatic, alpha);
  if (result != EXIT_OK) return result;
  *o = (kf_fit_options){.dim = (uint32_t)a->fit.dim.value,
                        .choose_dim = a->fit.dim.automatic,
                        .centre = (kf_centre)a->fit.centre,
                        .method = (kf_method)a->fit.method,
                        .criterion = (kf_criterion)a->fit.criterion,
                        .priors = (kf_priors)a->fit.priors,
                        .metric = (kf_metric)a->metric,
                        .alpha = a->text.path && !automatic ? alpha : NULL,
                        .stats_options = stats_options_of(a),
                        .one_se = a->fit.one_se,
                        .sample = (uint64_t)a->fit.sample.value,
                        .folds = (uint32_t)a->fit.folds.value,
                        .reject = a->fit.reject.value,
                        .margin = a->fit.margin.value / 100};
  return result_of(cli,
                   a->fit.lambda ? kf_lambda_parse(cli->ctx, a->fit.lambda, &o->lambda) : KF_OK);
}

static shown show_loss(const kf_lambda_point *p) {
  shown to = {""};
  if (p->temperature > 0)
    snprintf(to.text, sizeof to.text, "  loss %.4f at temperature %.3g", p->loss, p->temperature);
  return to;
}

static void say_curve(cli_run *cli, const kf_lambda_choice *c) {
  for (size_t i = 0; i < c->n_points; i++)
    say(cli, "  lambda %9s  top-1 %s  top-5 %s%s%s",
        show_relative(c->points[i].lambda, c->mean_eigenvalue).text,
        show_percent(c->points[i].top1, c->n).text, show_percent(c->points[i].top5, c->n).text,
        show_loss(&c->points[i]).text,
        i == c->chosen ? "  chosen"
        : i == c->best ? "  best"
                       : "");
}

static void say_sample(cli_run *cli, uint64_t n, uint64_t rows) {
  if (n < rows)
    say(cli, "these are a sample of %s, %s (--sample)", show_counted(rows, "row", "rows").text,
        cli->args.fit.groups ? "whole groups" : "the same share of each class");
}

static void say_lambda(cli_run *cli, const kf_lambda_choice *c) {
  const kf_lambda_point *best = &c->points[c->best];
  int groups = cli->args.fit.groups != NULL;
  say(cli,
      "lambda %s by leave-one-%sout%s: right for %s of %s left out in turn (standard error %.2f "
      "points); %zu values from %s to %s were tried",
      show_relative(c->lambda, c->mean_eigenvalue).text, groups ? "group-" : "",
      c->criterion == KF_CRITERION_LIKELIHOOD ? " likelihood" : "",
      show_percent(c->all.top1, c->n_all).text, show_counted(c->n_all, "row", "rows").text,
      100 * c->standard_error, c->n_points,
      show_relative(c->points[0].lambda, c->mean_eigenvalue).text,
      show_relative(c->points[c->n_points - 1].lambda, c->mean_eigenvalue).text);
  if (c->chosen != c->best)
    say(cli, "the best, %s, is right for %s; the chosen one is the %s within one standard error",
        show_relative(best->lambda, c->mean_eigenvalue).text, show_percent(best->top1, c->n).text,
        c->chosen > c->best ? "largest" : "smallest");
  say_sample(cli, c->n_all + c->n_single, c->rows);
  if (c->n_single && groups)
    say(cli, "%s no row of the same class outside the group and %s not counted",
        show_counted(c->n_single, "row has", "rows have").text, c->n_single == 1 ? "is" : "are");
  else if (c->n_single)
    say(cli, "%s alone in %s class and not counted",
        show_counted(c->n_single, "row is", "rows are").text, c->n_single == 1 ? "its" : "their");
  if (cli->args.common.verbose) say_curve(cli, c);
}

static void say_fusion(cli_run *cli, const kf_fuse_choice *c) {
  if (c->n_points == 0) {
    say(cli, "alpha %s: no class has two rows, so no row can be left out to choose it",
        show_real(c->alpha).text);
    return;
  }
  const kf_fuse_point *chosen = &c->points[c->chosen];
  say(cli,
      "lambda %s and alpha %s by leave-one-%sout%s: text and prototypes together are right for %s "
      "of %s left out in turn (standard error %.2f points), text alone for %s",
      show_relative(c->lambda, c->mean_eigenvalue).text, show_real(c->alpha).text,
      cli->args.fit.groups ? "group-" : "",
      c->criterion == KF_CRITERION_LIKELIHOOD ? " likelihood" : "",
      show_percent(chosen->top1, c->n).text, show_counted(c->n, "row", "rows").text,
      100 * c->standard_error, show_percent(c->text_top1, c->n).text);
  say_sample(cli, c->n + c->n_single, c->rows);
  for (size_t i = 0; cli->args.common.verbose && i < c->n_points; i++)
    say(cli, "  lambda %9s  alpha %5s  top-1 %s  top-5 %s%s",
        show_relative(c->points[i].lambda, c->mean_eigenvalue).text,
        show_real(c->points[i].alpha).text, show_percent(c->points[i].top1, c->n).text,
        show_percent(c->points[i].top5, c->n).text, i == c->chosen ? "  chosen" : "");
}

static void say_dim(cli_run *cli, const kf_dim_choice *c) {
  const kf_dim_point *chosen = &c->points[c->dim - 1], *all = &c->points[c->n_points - 1];
  double n = (double)c->n, loss = ((double)chosen->lost - (double)chosen->won) / n;
  if (c->dim == c->n_points)
    say(cli,
        "all %u dimensions are kept: %u folds of %s do not show that fewer lose at most %g points",
        c->dim, c->folds, show_counted(c->n, "row", "rows").text, 100 * c->margin);
  else
    say(cli,
        "%s by %u folds: right for %s of %s, all %u for %s; the loss, %.2f points, is at most %.2f "
        "with 95 %% confidence",
        show_counted(c->dim, "dimension", "dimensions").text, c->folds,
        show_percent(chosen->top1, c->n).text, show_counted(c->n, "row", "rows").text, all->dim,
        show_percent(all->top1, c->n).text, 100 * loss, 100 * kf_dim_upper95(c, c->dim - 1));
}

void say_near(cli_run *cli, uint64_t near, uint64_t n) {
  int grouped = cli->args.fit.groups != NULL;
  say(cli,
      "warning: %s of %s checked have a nearly equal row in their class%s, such as a copy or "
      "another frame of a video; figures of %s are then optimistic, and lambda too small: %s",
      show_count(near).text, show_counted(n, "row", "rows").text,
      grouped ? ", in another group" : "", grouped ? "groups left out" : "rows left out one by one",
      grouped ? "put them into one group"
              : "leave out whole groups instead ('koofu fit --groups FILE')");
}

void say_fit_choices(cli_run *cli, const kf_fit_report *report) {
  say_rows_left_out(cli, report->rows, report->n_unlabelled, report->n_bad);
  if (report->many_near && report->n) say_near(cli, report->n_near, report->n_compared);
  if (report->by_lambda) say_lambda(cli, report->by_lambda);
  if (report->by_fusion) say_fusion(cli, report->by_fusion);
  if (report->by_dim) say_dim(cli, report->by_dim);
}
