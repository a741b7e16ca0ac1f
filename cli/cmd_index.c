/* cmd_index.c - koofu index: rows to a gallery. */
#include "cli.h"
#include "commands.h"

/* With --append the gallery grows in place, unless -o says otherwise. */
static int choose_output(cli_run *cli) {
  cli_args *a = &cli->args;
  if (!a->output) a->output = a->append;
  if (!a->output) return fail_usage(cli, "the option -o GALLERY.safetensors is missing");
  if (a->append && a->model)
    return fail_usage(cli, "--model has no meaning with --append: the map is in the gallery");
  if (a->ids && a->only)
    return fail_usage(cli, "--ids has a line for every row, and --only leaves rows out");
  return check_safetensors(cli, a->output, "gallery");
}

static uint64_t rows_in(cli_run *cli, const char *path) {
  kf_info *info;
  if (!path || kf_info_read(cli->ctx, path, &info) != KF_OK) return 0;
  uint64_t rows = info->rows;
  kf_info_free(info);
  return rows;
}

/* Row numbers are those of the gallery, not those of the data; ids are the same in both. */
static void say_renumbered(cli_run *cli, const kf_data *data, uint64_t all) {
  if (rows_in(cli, cli->args.output) < all && !cli->args.ids && !kf_data_has_ids(data))
    say(cli, "rows are numbered without the bad ones (--ids keeps track of them)");
}

static int save(cli_run *cli, const kf_data *data, const kf_model *model) {
  const cli_args *a = &cli->args;
  kf_gallery_options options = {
      .metric = (kf_metric)a->metric, .ids = a->ids, .append_to = a->append};
  uint64_t all = rows_in(cli, a->append) + kf_data_rows(data);
  kf_status status = kf_gallery_save(cli->ctx, data, model, &options, a->output);
  if (status == KF_OK) {
    say_data_written(cli, a->output);
    say_renumbered(cli, data, all);
    return EXIT_OK;
  }
  return a->append ? fail_load(cli, status, a->append, "gallery") : fail(cli, status);
}

static int run(cli_run *cli) {
  int result = choose_output(cli);
  if (result != EXIT_OK) return result;
  kf_model *model = NULL;
  kf_data *data = NULL;
  if (cli->args.model) result = load_model(cli, cli->args.model, &model);
  if (result == EXIT_OK) result = open_data(cli, 0, LABELS_WANTED, &data);
  if (result == EXIT_OK) result = save(cli, data, model);
  kf_data_free(data);
  kf_model_free(model);
  return result;
}

static const cli_group own_options = {
    "Options",
    (const cli_option[]){
        {"output", 'o', OPTION_TEXT, offsetof(cli_args, output), 0, "GALLERY.safetensors",
         "the gallery to write (default: that of --append)", 0, 0, NULL},
        {"model", 0, OPTION_TEXT, offsetof(cli_args, model), 0, "MODEL",
         "map the rows, and later the queries, by this model (default: the original space)", 0, 0,
         NULL},
        {"metric", 0, OPTION_CHOICE, offsetof(cli_args, metric), 0, "NAME",
         "cosine, euclidean or inner, the inner product (default: cosine; euclidean for a model "
         "fitted without normalising)",
         KF_METRIC_COSINE, 0, gallery_metric_choices},
        {"ids", 0, OPTION_TEXT, offsetof(cli_args, ids), 0, "FILE",
         "a name for each row, one a line, such as the file it was made from (default: the ids in "
         "the data, where there are any)",
         0, 0, NULL},
        {"append", 0, OPTION_TEXT, offsetof(cli_args, append), 0, "GALLERY",
         "put the rows behind those of this gallery, with its map and metric", 0, 0, NULL},
        {0}}};

const cli_command index_command = {
    .name = "index",
    .operands = "DATA...",
    .min_operands = 1,
    .max_operands = ANY_NUMBER,
    .missing = "the data to search in are",
    .summary = "make a gallery of rows, to search in",
    .details =
        "A gallery is one .safetensors file with the rows in f32, their labels, class names and "
        "ids, where there are any, and the map of the model. Queries are then given in the "
        "original space: 'koofu search' maps them as the rows were mapped. Without --model, rows "
        "and queries are compared in the original space. For cosine, rows are scaled to unit "
        "length.\n\n"
        "With --append the rows of another gallery come first; where both have the same list of "
        "classes, the result has the same bytes as a gallery made of all rows in one go. Without "
        "-o the gallery itself grows: it is written "
        "anew beside the old one, which it then replaces in one step. Classes are matched by name, "
        "and new ones are added behind. Labels and ids must be in both or in neither.\n\n"
        "Rows are streamed: the size of the data does not matter. Bad rows are left out with "
        "--skip-bad, their lines in --labels and --ids with them; the rows of the gallery are "
        "then numbered without them, and --ids keeps track of which is which.",
    .groups =
        (const cli_group *const[]){&own_options, &label_options, &row_options, &only_options, NULL},
    .examples =
        (const cli_example[]){
            {"Photos, in the space of a model",
             "koofu index photos.npy --labels photos.txt --model model.safetensors -o "
             "gallery.safetensors"},
            {"More of them", "koofu index new.npy --labels new.txt --append gallery.safetensors"},
            {NULL, NULL}},
    .run = run,
};
