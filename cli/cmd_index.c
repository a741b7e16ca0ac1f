/* cmd_index.c - koofu index: rows to a gallery. */
#include "commands.h"
#include "galleries.h"
#include "inputs.h"
#include "outputs.h"

/* With --append the gallery grows in place, unless -o says otherwise. */
static int choose_output(cli_run *cli) {
  cli_args *a = &cli->args;
  if (!a->output) a->output = a->index.append;
  if (!a->output) return fail_usage(cli, "missing option -o GALLERY.safetensors");
  if (a->index.again && !a->index.append) return fail_usage(cli, "--again needs --append GALLERY");
  if (a->index.append && a->index.model)
    return fail_usage(cli, "--model cannot be used with --append: the map is in the gallery");
  if (a->index.append && a->search.k.automatic)
    return fail_usage(cli, "-k auto cannot be used with --append: it needs the rows of both");
  if (a->index.ids && a->data.only)
    return fail_usage(cli, "--ids cannot be used with --only: it has a line for every row");
  return check_safetensors(cli, a->output, "gallery");
}

static uint64_t rows_in(cli_run *cli, const char *path) {
  kf_info *info;
  if (!path || kf_info_read(cli->ctx, path, &info) != KF_OK) return 0;
  uint64_t rows = info->rows;
  kf_info_free(info);
  return rows;
}

/* Row numbers of the gallery differ from those of the data; ids are the same in both. */
static void say_renumbered(cli_run *cli, const kf_data *data, uint64_t all) {
  if (rows_in(cli, cli->args.output) < all && !cli->args.index.ids && !kf_data_has_ids(data))
    say(cli, "rows are numbered without the bad ones; --ids keeps track of them");
}

/* -k: the neighbours that should vote, as given or chosen from the rows. */
static int take_k(cli_run *cli, const kf_data *data, const kf_model *model, uint32_t *k) {
  const cli_args *a = &cli->args;
  kf_k_options options = {.metric = (kf_metric)a->metric};
  kf_k_choice *choice;
  *k = (uint32_t)a->search.k.value;
  if (!a->search.k.automatic) return EXIT_OK;
  TRY(result_of(cli, kf_k_choice_new_for_rows(cli->ctx, data, model, &options, &choice)));
  *k = choice->k;
  say_k(cli, choice);
  kf_k_choice_free(choice);
  return EXIT_OK;
}

static int save(cli_run *cli, const kf_data *data, const kf_model *model) {
  const cli_args *a = &cli->args;
  int repeated = 0;
  kf_gallery_options options = {.metric = (kf_metric)a->metric,
                                .ids = a->index.ids,
                                .append_to = a->index.append,
                                .again = a->index.again,
                                .repeated = &repeated,
                                .dtype = (kf_dtype)a->dtype};
  TRY(take_k(cli, data, model, &options.k));
  uint64_t all = rows_in(cli, a->index.append) + kf_data_rows(data);
  kf_status status = kf_gallery_save(cli->ctx, data, model, &options, a->output);
  if (status == KF_OK && repeated) {
    say(cli, "if they should be there twice, give --again");
    return EXIT_OK;
  }
  if (status == KF_OK) {
    say_data_written(cli, a->output);
    say_renumbered(cli, data, all);
    return EXIT_OK;
  }
  return a->index.append ? fail_load(cli, status, a->index.append, "gallery") : fail(cli, status);
}

static int run(cli_run *cli) {
  TRY(choose_output(cli));
  kf_model *model = NULL;
  kf_data *data = NULL;
  if (cli->args.index.model) TRY(load_model(cli, cli->args.index.model, &model));
  TRY(open_data(cli, 0, LABELS_WANTED, &data));
  return save(cli, data, model);
}

static const char *const gallery_metrics[] = {"cosine", "euclidean", "inner", NULL};
static const char *const gallery_dtypes[] = {"f32", "f16", NULL}; /* in the order of kf_dtype */

static const cli_group own_options = {
    "Options",
    OPTIONS(
        {OUTPUT("GALLERY.safetensors"), .help = "the gallery to write (default: that of --append)"},
        {INPUT("model", index.model, "MODEL"),
         .help = "map the rows, and later the queries, with this model (default: the original "
                 "space)"},
        {METRIC(gallery_metrics),
         .help = "cosine, euclidean or inner, the inner product (default: cosine; euclidean for "
                 "a model fitted without normalising)"},
        {CHOICE("dtype", dtype, "TYPE", KF_F32, gallery_dtypes),
         .help = "type of the rows: f32 (default), or f16, half the file and memory (default with "
                 "--append: that of the gallery)"},
        {NEIGHBOURS, .automatic = 1,
         .help = "neighbours that should vote, 1 to 1024, or auto: kept for 'koofu classify' and "
                 "'koofu eval -k auto'"},
        {INPUT("ids", index.ids, "FILE"),
         .help = "a name for each row, one per line, such as the file it was made from (default: "
                 "the ids in the data, if any)"},
        {TEXT("append", index.append, "GALLERY"),
         .help = "add the rows to those of this gallery, with its map and metric"},
        {FLAG("again", index.again),
         .help = "with --append: add rows even if the same ones were added before"})};

const cli_command index_command = {
    .name = "index",
    .operands = "DATA...",
    .summary = "make a searchable gallery of rows",
    .details =
        "A gallery is one .safetensors file with the rows, their labels, class names and ids, if "
        "any, and the map of the model. Queries are then given in the original space: "
        "'koofu search' maps them as the rows were mapped. Without --model, rows and queries are "
        "compared in the original space, as they are given.\n\n"
        "With --dtype f16, rows are rounded to f16, to nearest even, and searches are exact for "
        "the "
        "rounded rows. Numbers that f16 cannot hold, above 65,504, are an error.\n\n"
        "With -k auto, k is chosen from the rows, which must have labels, and kept in the gallery. "
        "If the map of the model was fitted on these rows, it has pulled them together, and their "
        "votes say little; so the rows are divided into folds, and each fold looks for neighbours "
        "among the others with a map fitted without it. Otherwise each row in turn is left out.\n\n"
        "With --append, the rows of another gallery come first. If both have the same list of "
        "classes, the result has the same bytes as a gallery made of all rows at once. Classes are "
        "matched by name, and new ones are added at the end. "
        "Both or neither must have labels, and the same goes for ids.\n\n"
        "Without -o the gallery itself grows: it is written again next to the old one, which it "
        "then replaces in one step. Several commands may add rows to one gallery at the same time: "
        "each waits for its turn, and searches never wait. The file also says which rows were "
        "added "
        "by the last 64 commands, so a command can be repeated if nobody knows whether it was "
        "done: "
        "the same rows with the same labels and ids are not added a second time, unless --again is "
        "given.\n\n"
        "Rows are streamed, so the data may be larger than memory. --skip-bad leaves out bad "
        "rows, together with their lines in --labels and --ids; the rows of the gallery are then "
        "numbered without them, and --ids keeps track of which is which.",
    .groups = GROUPS(&own_options, &label_options, &row_options, &only_options),
    .examples = EXAMPLES(
        {"Photos, in the space of a model", "koofu index photos.npy --labels photos.txt --model "
                                            "model.safetensors -o gallery.safetensors"},
        {"In half the space", "koofu index photos.npy --dtype f16 -o compact.safetensors"},
        {"More of them", "koofu index new.npy --labels new.txt --append gallery.safetensors"}),
    .run = run,
    .shared = 1,
};
