/* cmd_fit.c - koofu fit: computes a model from data or statistics. */
#include "fit_options.h"
#include "commands.h"

#include <string.h>

/* For a lambda that was not chosen from the rows. */
static void say_lambda(cli_run *cli, const kf_fit_report *report, const kf_fit_options *options) {
  if (report->by_all_rows)
    say(cli,
        "no class has two different rows: the scatter of all rows takes the place of that within "
        "classes; lambda is %s its mean eigenvalue%s",
        show_relative(report->lambda, report->mean_eigenvalue).text,
        options->lambda.unit == KF_LAMBDA_AUTO ? ", the default then" : "");
  else if (!cli->args.fit.lambda && options->like)
    say(cli, "lambda %s, now %s the mean eigenvalue, kept from %s", show_real(report->lambda).text,
        show_relative(report->lambda, report->mean_eigenvalue).text, cli->args.fit.like);
  else if (!cli->args.fit.lambda && options->between)
    say(cli, "lambda 0.3x, the default with --between");
  else if (!cli->args.fit.lambda && options->stats)
    say(cli, "lambda 0.3x, the default for statistics; give rows to choose it, or an earlier model "
             "to keep its choice (--like)");
  else if (report->mean_eigenvalue > 0)
    say(cli, "lambda %s, which is %s the mean eigenvalue of the scatter within classes",
        show_real(report->lambda).text,
        show_relative(report->lambda, report->mean_eigenvalue).text);
  else
    say(cli, "lambda %s; there is no scatter within classes", show_real(report->lambda).text);
}

static void say_summary(cli_run *cli, const kf_fit_report *report, const kf_fit_options *options,
                        const kf_model *model) {
  uint32_t classes = kf_model_classes(model), used = kf_model_answers(model, KF_PART_IMAGES);
  say_fit_choices(cli, report);
  say_written(cli, cli->args.output, "%s, %s, %s", show_counted(report->rows, "row", "rows").text,
              show_counted(classes, "class", "classes").text,
              show_dim(report->dim, kf_model_dim_in(model)).text);
  double share, threshold = kf_model_reject(model, &share);
  if (share > 0)
    say(cli, "rows are unknown if their best %s is %s %s, which %g %% of known rows %s",
        kf_model_fused(model)        ? "score"
        : kf_model_normalized(model) ? "cosine"
                                     : "distance",
        kf_model_normalized(model) ? "below" : "above", show_real(threshold).text, 100 * share,
        kf_model_normalized(model) ? "reach" : "do not exceed");
  if (!report->by_lambda && !(report->by_fusion && report->by_fusion->n_points))
    say_lambda(cli, report, options);
  if (kf_model_fused(model) && !report->by_fusion)
    say(cli, "text and prototypes together, with alpha %s", show_real(report->alpha).text);
  else if (!kf_model_fused(model) && used < classes)
    say(cli, "%s no rows and will never be an answer",
        show_counted(classes - used, "class has", "classes have").text);
}

static int fit_and_save(cli_run *cli, const kf_data *data, const kf_fit_options *options) {
  kf_model *model;
  kf_fit_report *report;
  TRY(own_model(cli, kf_fit(cli->ctx, data, options, &model, &report), &model));
  TRY(own_fit_report(cli, KF_OK, &report));
  TRY(result_of(cli, kf_model_save(cli->ctx, model, cli->args.output)));
  say_summary(cli, report, options, model);
  if (cli->args.json) print_fit_json(report, model, cli->args.output);
  return EXIT_OK;
}

static int check_options(cli_run *cli, const kf_stats *stats) {
  const cli_args *a = &cli->args;
  int explicitly = a->fit.lambda && strcmp(a->fit.lambda, "auto") == 0;
  if (explicitly && a->fit.like) return fail_usage(cli, "--lambda auto cannot be used with --like");
  if (a->fit.lambda && !explicitly && !a->fit.dim.automatic)
    TRY(need(cli, "sample", "--lambda auto or --dim auto"));
  if (explicitly && (stats || a->fit.between))
    return fail_usage(cli, "--lambda auto needs the rows themselves, not statistics");
  if (stats || a->fit.between) TRY(need(cli, "criterion", "the rows themselves, not statistics"));
  int alpha = a->text.path && (!a->text.fuse || strcmp(a->text.fuse, "auto") == 0);
  if (a->fit.like) TRY(refuse(cli, "criterion one-se", "--like, which keeps lambda"));
  if (a->fit.lambda && !explicitly && !alpha) TRY(need(cli, "criterion", "--lambda auto"));
  if (a->text.path && !a->text.fuse)
    TRY(refuse(cli, "one-se",
               "--text, which chooses lambda and alpha together; give alpha (--fuse ALPHA)"));
  return check_text_options(cli);
}

static int run_fit(cli_run *cli) {
  const cli_args *a = &cli->args;
  kf_fit_options options = {0};
  kf_data *data = NULL;
  kf_stats *stats = NULL, *between = NULL;
  kf_text *text = NULL;
  kf_model *like = NULL;
  double alpha = 0;
  TRY(check_choose_options(cli));
  TRY(read_fit_options(cli, &options, &alpha));
  TRY(check_safetensors(cli, a->output, "a model"));
  TRY(take_stats(cli, &stats));
  TRY(check_options(cli, stats));
  if (a->fit.between) TRY(load_stats(cli, a->fit.between, &between));
  if (a->fit.like) TRY(load_model(cli, a->fit.like, &like));
  if (a->text.path) TRY(load_text(cli, &text));
  if (!stats) TRY(open_data(cli, 0, LABELS_NEEDED, &data));
  TRY(read_groups(cli, data, &options.groups));
  options.text = text;
  options.like = like;
  options.stats = stats;
  options.between = between;
  return fit_and_save(cli, data, &options);
}

static const cli_group own_options = {
    "Options",
    OPTIONS({OUTPUT("MODEL.safetensors"), .required = 1, .help = "the model to write"},
            {LAMBDA, .help = "regulariser: auto, 150 (absolute), 0.3x (relative), gda or "
                             "ledoit-wolf (default: auto; 0.3x for statistics)"},
            {MODEL_DIM, .automatic = 1, .help = "dimensions to keep, or auto (default: all)"},
            {METRIC(metric_choices),
             .help = "compare prototypes by cosine or euclidean while choosing"},
            {METHOD}, {CENTRE}, {PRIORS},
            {TEXT_INPUT, .help = "text prototypes to fit with the rows, which are then centred"},
            {FUSE("")},
            {REAL("reject", fit.reject, "SHARE"),
             .help = "choose the score that this share of known rows reaches, such as 0.95; rows "
                     "below are unknown"},
            {BETWEEN}, {LIKE},
            {JSON, .help = "print what was chosen and tried as one JSON object"})};

const cli_command fit_command = {
    .name = "fit",
    .operands = "DATA...|STATS",
    .summary = "compute a model from data or statistics",
    .details =
        "Whitens the scatter within classes, S_w + lambda I, and rotates to the directions that "
        "tell classes apart, most discriminative first; --dim keeps the first L. The fit is in "
        "closed form: nothing is trained, and the same input gives the same model on every "
        "machine.\n\n"
        "A single .safetensors file made by 'koofu stats' or 'koofu merge' is taken as statistics; "
        "anything else is data. Options about statistics, labels and rows apply to data only.\n\n"
        "lambda is added to every eigenvalue of S_w. A plain number is in the units of S_w, which "
        "grows with the number of rows; a number with an x is a multiple of the mean eigenvalue, "
        "trace(S_w) / D, and means the same for any number of rows. A lambda of 0 works if S_w has "
        "full rank. gda is trace(S_w) / (N - 1), and ledoit-wolf the shrinkage of that name.\n\n"
        "By default columns are scaled to equal scatter within classes, rows are centred, and "
        "class means are shrunk towards the mean of all rows. --method paper does none of this. If "
        "every class has a single row, the scatter of all rows takes the place of S_w.\n\n"
        "For data, lambda is chosen by default (--lambda auto): each row in turn is left out of "
        "the statistics, exactly, and the lambda is taken that makes the true classes of these "
        "rows most likely. With many rows only a sample is left out, as many as the temperature "
        "needs and at most 2,000. The temperature that turns scores into probabilities is found at "
        "the same time and kept in the model.\n\n"
        "--priors training takes classes to be as frequent as they are among the training rows. "
        "This is right if the rows to be classified have the same shares; otherwise the smaller "
        "classes lose. Rows that are not normalised are compared by distance and have these priors "
        "by default, as in linear discriminant analysis.\n\n"
        "Where rows come in groups of near-copies, such as frames of a video, leaving out one at a "
        "time is optimistic: --groups leaves whole groups out.\n\n"
        "--dim auto keeps the fewest dimensions that are shown to lose at most 0.5 points (or "
        "--margin) against all of them: on rows left out in folds, the 95 % upper bound of the "
        "paired loss is below that. If there are too few rows to show it, all are kept. With "
        "--centre mean or --metric euclidean, dimensions beyond the number of classes minus one "
        "change nothing.\n\n"
        "With --text, the score of a class is the cosine with its text plus alpha times that with "
        "its prototype. lambda and alpha are chosen together by leave-one-out.\n\n"
        "With --reject 0.95, rows are left out in turn once more, and the score that 95 % of them "
        "reach becomes part of the model. 'koofu classify' marks rows that do not reach it as "
        "unknown. It needs all dimensions.\n\n"
        "With --between, S_w is from the input and everything else from another statistics file, "
        "whose classes are then those of the model.\n\n"
        "With --like, nothing that an earlier model has is chosen: lambda (absolute), alpha, "
        "dimensions, method, priors, temperature and threshold are kept unless given. This suits "
        "statistics to which rows were added. A model with text needs the same --text.",
    .groups = GROUPS(&own_options, &choose_options, &stats_options, &label_options, &row_options,
                     &strict_options, &only_options),
    .examples =
        EXAMPLES({"Everything chosen from the training rows",
                  "koofu fit train.safetensors -o model.safetensors"},
                 {"The fewest dimensions that lose at most half a point",
                  "koofu fit train.safetensors --dim auto -o model.safetensors"},
                 {"Names and pictures together",
                  "koofu fit train.safetensors --text text.safetensors -o model.safetensors"},
                 {"A compact space of 128 dimensions from .npy files",
                  "koofu fit x.npy --labels y.npy --lambda 0.3x --dim 128 -o model.safetensors"},
                 {"More rows, with what was chosen from the first ones",
                  "koofu fit all.safetensors --like model.safetensors -o new.safetensors"},
                 {"Another lambda, without reading the data again",
                  "koofu fit s.safetensors --lambda 150 -o model.safetensors"}),
    .run = run_fit,
    .shared = 1,
};
