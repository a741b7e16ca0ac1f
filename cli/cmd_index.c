/* cmd_index.c - koofu index: makes and changes galleries. */
#include "commands.h"

#include <string.h>

#define MANY_CHANGES 100

/* With --append the gallery grows in place, unless -o says otherwise. */
static int choose_output(cli_run *cli) {
  cli_args *a = &cli->args;
  if (!a->output) a->output = a->index.append;
  if (!a->output) return fail_usage(cli, "missing option -o GALLERY.safetensors");
  if (!a->index.append) TRY(need(cli, "again", "--append GALLERY"));
  if (!a->index.append || strcmp(a->output, a->index.append) != 0)
    TRY(need(cli, "replace", "--append GALLERY, without -o"));
  if (a->index.append) TRY(refuse(cli, "model", "--append: the map is in the gallery"));
  if (a->index.append && a->search.k.automatic)
    return fail_usage(cli, "-k auto cannot be used with --append: it needs the rows of both");
  if (a->data.only) TRY(refuse(cli, "ids", "--only: it has a line for every row"));
  return check_safetensors(cli, a->output, "a gallery");
}

static int check_change(cli_run *cli) {
  const cli_args *a = &cli->args;
  const char *option = a->index.remove ? "--remove" : "--compact";
  if (a->index.compact) TRY(refuse(cli, "remove", "--compact"));
  if (a->operands.n > 1)
    return fail_usage(cli, "unexpected argument '%.200s': %s changes one gallery",
                      a->operands.items[1], option);
  return refuse(cli, "output append model ids neighbours", "%s, which changes the gallery itself",
                option);
}

/* "wrote g.safetensors: 60 rows added, 3 removed, 177 in all; 9,344 bytes". */
static void say_changed(cli_run *cli, const char *path, const kf_gallery_change *c) {
  const char *rows = c->added == 1 || (c->added == 0 && c->removed == 1) ? "row" : "rows";
  char added[128] = "", removed[128] = "";
  if (c->added) snprintf(added, sizeof added, "%s %s added, ", show_count(c->added).text, rows);
  if (c->removed)
    snprintf(removed, sizeof removed, "%s%s%s removed, ", show_count(c->removed).text,
             c->added ? "" : " ", c->added ? "" : rows);
  say_written(cli, path, "%s%s%s in all; %s", added, removed, show_count(c->rows).text,
              show_counted(c->bytes, "byte", "bytes").text);
  if (c->changes >= MANY_CHANGES)
    say(cli, "it has %s; 'koofu index --compact' merges them into one file",
        show_counted(c->changes, "change", "changes").text);
}

static int remove_rows(cli_run *cli, const char *path) {
  kf_gallery_change done;
  kf_id_list ids = {.file = cli->args.index.remove};
  kf_status status = kf_gallery_remove(cli->ctx, path, &ids, &done);
  if (status != KF_OK) return fail_load(cli, status, path, "gallery");
  if (done.missing)
    say(cli, "%s: %s not in it", path, show_counted(done.missing, "id is", "ids are").text);
  if (done.removed)
    say_changed(cli, path, &done);
  else
    say(cli, "%s is left as it is", path);
  return EXIT_OK;
}

static int compact(cli_run *cli, const char *path) {
  kf_gallery_change done;
  kf_status status = kf_gallery_compact(cli->ctx, path, &done);
  if (status != KF_OK) return fail_load(cli, status, path, "gallery");
  if (done.bytes)
    say_written(cli, path, "%s, %s", show_counted(done.rows, "row", "rows").text,
                show_counted(done.bytes, "byte", "bytes").text);
  else
    say(cli, "%s has no changes; it is left as it is", path);
  return EXIT_OK;
}

/* Without ids, rows cannot be matched with those of the data once bad ones are left out. */
static void say_renumbered(cli_run *cli, const kf_data *data, uint64_t added) {
  if (added < kf_data_rows(data) && !cli->args.index.ids && !kf_data_has_ids(data))
    say(cli, "rows are numbered without the bad ones; --ids keeps track of them");
}

/* -k: the number of neighbours that should vote, as given or chosen from the rows. */
static int take_k(cli_run *cli, const kf_data *data, const kf_model *model, uint32_t *k) {
  const cli_args *a = &cli->args;
  kf_k_options options = {.metric = (kf_metric)a->metric};
  kf_k_choice *choice;
  *k = (uint32_t)a->search.k.value;
  if (!a->search.k.automatic) return EXIT_OK;
  TRY(own_k_choice(cli, kf_k_choice_new_for_rows(cli->ctx, data, model, &options, &choice),
                   &choice));
  *k = choice->k;
  say_k(cli, choice);
  return EXIT_OK;
}

static int save(cli_run *cli, const kf_data *data, const kf_model *model) {
  const cli_args *a = &cli->args;
  int repeated = 0;
  kf_gallery_change done;
  kf_gallery_options options = {.metric = (kf_metric)a->metric,
                                .ids = a->index.ids,
                                .append_to = a->index.append,
                                .again = a->index.again,
                                .repeated = &repeated,
                                .replace = a->index.replace,
                                .change = &done,
                                .dtype = (kf_dtype)a->dtype};
  TRY(take_k(cli, data, model, &options.k));
  kf_status status = kf_gallery_save(cli->ctx, data, model, &options, a->output);
  if (status == KF_OK && repeated) {
    say(cli, "--again adds them a second time");
    return EXIT_OK;
  }
  if (status == KF_OK) {
    if (done.changes)
      say_changed(cli, a->output, &done);
    else
      say_data_written(cli, a->output);
    say_renumbered(cli, data, done.added);
    return EXIT_OK;
  }
  return a->index.append ? fail_load(cli, status, a->index.append, "gallery") : fail(cli, status);
}

static int run_index(cli_run *cli) {
  if (cli->args.index.remove || cli->args.index.compact) {
    TRY(check_change(cli));
    return (cli->args.index.remove ? remove_rows : compact)(cli, cli->args.operands.items[0]);
  }
  TRY(choose_output(cli));
  kf_model *model = NULL;
  kf_data *data = NULL;
  if (cli->args.index.model) TRY(load_model(cli, cli->args.index.model, &model));
  TRY(open_data(cli, 0, LABELS_WANTED, &data));
  return save(cli, data, model);
}

static const cli_group own_options = {
    "Options",
    OPTIONS(
        {OUTPUT("GALLERY.safetensors"), .help = "the gallery to write (default: that of --append)"},
        {INPUT("model", index.model, "MODEL"),
         .help =
             "map the rows, and later the queries, with this model (default: the original space)"},
        {METRIC(all_metrics), .help = "cosine, euclidean or inner, the inner product (default: "
                                      "cosine; euclidean for a model fitted without normalising)"},
        {CHOICE("dtype", dtype, "TYPE", KF_F32, dtype_choices),
         .help = "type of the rows: f32 (default), f16 or bf16 (default with --append: that of the "
                 "gallery)"},
        {NEIGHBOURS, .automatic = 1,
         .help = "neighbours that should vote, 1 to 1024 or auto; kept for 'koofu classify' and "
                 "'koofu eval'"},
        {INPUT("ids", index.ids, "FILE"),
         .help =
             "a name for each row, one per line, such as its file (default: the ids in the data)"},
        {TEXT("append", index.append, "GALLERY"),
         .help = "add the rows to those of this gallery, with its map and metric"},
        {FLAG("again", index.again),
         .help = "with --append: add rows even if the same ones were added before"},
        {FLAG("replace", index.replace),
         .help = "with --append: rows take the place of those with the same ids"},
        {INPUT("remove", index.remove, "FILE"),
         .help = "remove the rows with these ids, one per line, from GALLERY"},
        {FLAG("compact", index.compact), .help = "merge GALLERY and its changes into one file"})};

const cli_command index_command = {
    .name = "index",
    .operands = "DATA...|GALLERY",
    .summary = "make a searchable gallery of rows, and change it",
    .details =
        "A gallery is one .safetensors file with the rows, their labels, class names and ids, if "
        "any, and the map of the model. Queries are then given in the original space: 'koofu "
        "search' maps them as the rows were mapped. Without --model, rows and queries are compared "
        "in the original space, as they are given.\n\n"
        "With --dtype f16 or bf16, rows are rounded to nearest even, and searches are exact for "
        "the rounded rows. f16 keeps 11 bits of each number, bf16 eight; numbers that f16 cannot "
        "hold, above 65,504, are an error.\n\n"
        "With -k auto, k is chosen from the rows, which must have labels, and kept in the gallery. "
        "If the map of the model was fitted on these rows, it has pulled them together, and their "
        "votes say little; so the rows are divided into folds, and each fold looks for neighbours "
        "among the others with a map fitted without it. Otherwise each row in turn is left out.\n\n"
        "With --append, the rows of another gallery come first. If both have the same list of "
        "classes, the result has the same bytes as a gallery made of all rows at once. Classes are "
        "matched by name, and new ones are added at the end. Both or neither must have labels, and "
        "the same goes for ids.\n\n"
        "Without -o the gallery itself grows. Its file stays as it is: additions go to a small "
        "file in the folder GALLERY.changes beside it, so the cost depends only on what is added. "
        "Move or copy both together, or make one file of them with --compact first. The rows of "
        "--append --replace take the place of rows with the same ids; --remove takes rows away. "
        "Rows are numbered in the order in which they came, without those removed, and every "
        "answer is that of a gallery made of these rows.\n\n"
        "Several commands may change a gallery at the same time: each waits for its turn, and "
        "searches never wait. When a command ends, its change is on disk as a whole or not at all. "
        "The gallery knows which rows the last 64 commands added, so an interrupted command is "
        "safe to rerun: the same rows with the same labels and ids are not added a second time, "
        "unless --again is given, and ids to be removed may already be gone.\n\n"
        "Rows are streamed, so the data may be larger than memory. --skip-bad leaves out bad rows, "
        "together with their lines in --labels and --ids; the rows of the gallery are then "
        "numbered without them, and --ids keeps track of which is which.",
    .groups = GROUPS(&own_options, &label_options, &row_options, &only_options),
    .examples = EXAMPLES(
        {"Photos, in the space of a model", "koofu index photos.npy --labels photos.txt --model "
                                            "model.safetensors -o gallery.safetensors"},
        {"In half the space", "koofu index photos.npy --dtype f16 -o compact.safetensors"},
        {"More of them", "koofu index new.npy --labels new.txt --append gallery.safetensors"},
        {"Fewer, by their ids", "koofu index gallery.safetensors --remove gone.txt"},
        {"One file again", "koofu index gallery.safetensors --compact"}),
    .run = run_index,
    .shared = 1,
};
