/* cmd_fit.c - koofu fit: data or statistics to a model. */
#include "cli.h"
#include "commands.h"

static void say_summary(cli_run *cli, const kf_stats *stats, const kf_model *model) {
  uint32_t classes = kf_model_classes(model), used = classes_with_rows(model);
  double lambda = kf_model_lambda(model), mean = kf_model_mean_eigenvalue(model);
  say_written(cli, cli->args.output, "%s, %s, %u -> %u dimensions",
              show_counted(kf_stats_rows(stats), "row", "rows").text,
              show_counted(classes, "class", "classes").text, kf_model_dim_in(model),
              kf_model_dim_out(model));
  if (mean > 0)
    say(cli, "lambda %s, which is %s the mean eigenvalue of the scatter within classes",
        show_real(lambda).text, show_relative(lambda, mean).text);
  else
    say(cli, "lambda %s; there is no scatter within classes", show_real(lambda).text);
  if (kf_model_fused(model)) {
    say(cli, "text and prototypes together, with alpha %s", show_real(kf_model_alpha(model)).text);
    return;
  }
  if (used < classes)
    say(cli, "%s no rows and will never be an answer",
        show_counted(classes - used, "class has", "classes have").text);
}

static int choose(cli_run *cli, const kf_stats *stats, const kf_data *data, const kf_text *text,
                  kf_fit_options *options, double *alpha) {
  if (options->dim > kf_stats_dim(stats))
    return fail_usage(cli, "--dim asks for %u dimensions, the embeddings have %u", options->dim,
                      kf_stats_dim(stats));
  int result = text ? choose_fusion(cli, stats, data, text, &options->lambda, alpha, NULL)
                    : choose_lambda(cli, stats, data, &options->lambda, NULL);
  if (result == EXIT_OK && cli->args.dim.automatic)
    result = choose_dim(cli, stats, data, options->lambda, &options->dim);
  return result;
}

/* The model, with text where there is some. */
static kf_status make(cli_run *cli, const kf_stats *stats, const kf_text *text,
                      const kf_fit_options *options, double alpha, kf_model **out) {
  kf_model *model;
  kf_status status = kf_fit(cli->ctx, stats, options, &model);
  if (status != KF_OK || !text) {
    *out = model;
    return status;
  }
  status = kf_model_new_fused(cli->ctx, model, text, alpha, out);
  kf_model_free(model);
  return status;
}

static int fit(cli_run *cli, const kf_stats *stats, const kf_data *data, kf_fit_options *options) {
  kf_text *text = NULL;
  kf_model *model = NULL;
  double alpha = 0;
  int result = cli->args.text ? load_text_for(cli, stats, &text) : EXIT_OK;
  if (text) options->centre = KF_CENTRE_MEAN;
  if (result == EXIT_OK) result = choose(cli, stats, data, text, options, &alpha);
  if (result == EXIT_OK) {
    kf_status status = make(cli, stats, text, options, alpha, &model);
    if (status == KF_OK) status = kf_model_save(cli->ctx, model, cli->args.output);
    if (status == KF_OK)
      say_summary(cli, stats, model);
    else
      result = fail(cli, status);
  }
  kf_model_free(model);
  kf_text_free(text);
  return result;
}

static int run(cli_run *cli) {
  const cli_args *a = &cli->args;
  kf_fit_options options = {.dim = (uint32_t)a->dim.value, .centre = (kf_centre)a->centre};
  int result = check_choose_options(cli);
  if (result == EXIT_OK && a->fuse && !a->text)
    result = fail_usage(cli, "--fuse needs --text TEXT");
  if (result == EXIT_OK && a->text && (a->between || a->no_normalize))
    result =
        fail_usage(cli, "--text has no meaning with --%s", a->between ? "between" : "no-normalize");
  if (result == EXIT_OK) result = check_lambda(cli);
  if (result == EXIT_OK) result = check_safetensors(cli, a->output, "model");
  if (result != EXIT_OK) return result;
  kf_stats *between = NULL, *stats = NULL;
  kf_data *data = NULL;
  if (a->between) {
    kf_status status = kf_stats_load(cli->ctx, a->between, &between);
    if (status != KF_OK) return fail(cli, status);
  }
  options.between = between;
  result = read_stats(cli, &data, &stats);
  if (result == EXIT_OK) result = fit(cli, stats, data, &options);
  kf_data_free(data);
  kf_stats_free(stats);
  kf_stats_free(between);
  return result;
}

static const cli_group own_options = {
    "Options",
    (const cli_option[]){
        {"output", 'o', OPTION_TEXT, offsetof(cli_args, output), OPTION_REQUIRED,
         "MODEL.safetensors", "the model to write", 0, 0, NULL},
        {"lambda", 0, OPTION_TEXT, offsetof(cli_args, lambda), 0, "LAMBDA",
         "regulariser: auto, 150 (absolute), 0.3x (relative), gda or ledoit-wolf (default: auto; "
         "0.3x for statistics)",
         0, 0, NULL},
        {"dim", 0, OPTION_NUMBER, offsetof(cli_args, dim), OPTION_AUTO, "L",
         "dimensions to keep, or auto (default: all)", 1, KF_MAX_DIM, NULL},
        {"metric", 0, OPTION_CHOICE, offsetof(cli_args, metric), 0, "NAME",
         "how prototypes are compared while choosing: cosine or euclidean", KF_METRIC_COSINE, 0,
         metric_choices},
        {"centre", 0, OPTION_CHOICE, offsetof(cli_args, centre), 0, "WHAT",
         "subtract before mapping: none (default) or mean, that of the training rows",
         KF_CENTRE_NONE, 0, centre_choices},
        {"text", 0, OPTION_TEXT, offsetof(cli_args, text), 0, "TEXT",
         "text prototypes to go with the rows (see 'koofu text-prototypes'); rows are centred then",
         0, 0, NULL},
        {"fuse", 0, OPTION_TEXT, offsetof(cli_args, fuse), 0, "ALPHA",
         "with --text: what prototypes count beside text, a number or auto (default: auto)", 0, 0,
         NULL},
        {"between", 0, OPTION_TEXT, offsetof(cli_args, between), 0, "STATS",
         "take the scatter between classes and the class means from these statistics", 0, 0, NULL},
        {0}}};

const cli_command fit_command = {
    .name = "fit",
    .operands = "DATA...|STATS",
    .min_operands = 1,
    .max_operands = ANY_NUMBER,
    .missing = "the data or the statistics file to fit is",
    .summary = "compute a model from data or statistics",
    .details =
        "Whitens the scatter within classes, S_w + lambda I, and rotates to the directions that "
        "tell classes apart, most telling first; --dim keeps the first L of them. In closed form: "
        "nothing is trained, and the same input gives the same model on every machine.\n\n"
        "A single .safetensors file made by 'koofu stats' or 'koofu merge' is taken as statistics; "
        "everything else is data, of which the statistics are taken first. The options on "
        "statistics, labels and rows are for data.\n\n"
        "lambda is added to every eigenvalue of S_w. A plain number is in the units of S_w, which "
        "grows with the number of rows; a number with an x is a multiple of the mean eigenvalue, "
        "trace(S_w) / D, and means the same for any number of rows. A lambda of 0 "
        "works where S_w has full rank.\n\n"
        "By default, where rows are at hand, lambda is chosen from them alone (--lambda auto): "
        "each "
        "row in turn is left out of the statistics and classified by its nearest prototype, for a "
        "grid of lambdas. This is exact and takes about as long as the statistics; above 50,000 "
        "rows a sample of them is left out. With -v the whole curve is printed. gda is trace(S_w) "
        "/ "
        "(N - 1), and ledoit-wolf the shrinkage of that name.\n\n"
        "--dim auto keeps the fewest dimensions whose accuracy in a cross-validation is within one "
        "standard error (or --tolerance) of that of the best number.\n\n"
        "With --text the model knows classes by name and by rows: the score of a class is the "
        "cosine "
        "with its text plus alpha times that with its prototype. lambda and alpha are chosen "
        "together "
        "by leave-one-out. Classes with text or rows alone take part.\n\n"
        "With --between, S_w is from the input and all the rest from another statistics file, "
        "whose classes are then those of the model.",
    .groups =
        (const cli_group *const[]){&own_options, &choose_options, &stats_options, &label_options,
                                   &row_options, &strict_options, &only_options, NULL},
    .examples =
        (const cli_example[]){
            {"A model whose lambda is chosen by leave-one-out",
             "koofu fit train.safetensors -o model.safetensors"},
            {"As compact as it can be without a loss that can be told",
             "koofu fit train.safetensors --dim auto -o model.safetensors"},
            {"Names and pictures together",
             "koofu fit train.safetensors --text text.safetensors -o model.safetensors"},
            {"A compact space of 128 dimensions from .npy files",
             "koofu fit x.npy --labels y.npy --lambda 0.3x --dim 128 -o model.safetensors"},
            {"Another lambda, without reading the data again",
             "koofu fit s.safetensors --lambda 150 -o model.safetensors"},
            {NULL, NULL}},
    .run = run,
};
