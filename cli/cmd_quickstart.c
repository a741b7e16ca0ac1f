/* cmd_quickstart.c - koofu quickstart: from a folder of class folders to a classifier and a
 * report. */
#include "commands.h"
#include "eval.h"
#include "fit_options.h"

#include <stdlib.h>
#include <string.h>

/* The last part of a path or, for "." and "..", of its real path; "" for the root. NULL: out of
 * memory. */
static const char *name_of(cli_run *cli, const char *source) {
  size_t n = strlen(source);
  while (n > 0 && source[n - 1] == '/') n--;
  size_t begin = n;
  while (begin > 0 && source[begin - 1] != '/') begin--;
  const char *name = own_format(cli, "%.*s", (int)(n - begin), source + begin);
  if (!name || (strcmp(name, ".") != 0 && strcmp(name, "..") != 0)) return name;
  char *real = realpath(source, NULL);
  name = own_format(cli, "%s", real ? strrchr(real, '/') + 1 : "");
  free(real);
  return name;
}

/* "photos/" -> "photos-koofu", in the current folder or, if that is among the pictures, beside
 * them. */
static const char *usual_folder(cli_run *cli, const kf_pictures *pictures) {
  const char *source = cli->args.operands.items[0], *name = name_of(cli, source);
  if (!name) return NULL;
  const char *folder = own_format(cli, "%s%skoofu", name, *name ? "-" : "");
  if (!folder || !kf_pictures_inside(pictures, folder)) return folder;
  int here = strcmp(source, ".") == 0 || strcmp(source, "./") == 0;
  return own_format(cli, "%s%s../%s-koofu", here ? "" : source, here ? "" : "/", name);
}

static const char *path_in(cli_run *cli, const char *folder, const char *name) {
  return own_format(cli, "%s%s%s", folder, ends_with(folder, "/") ? "" : "/", name);
}

static void print_line(const char *name, uint64_t hits, uint64_t n, int chosen) {
  printf("  %-44s %9s  %s%s\n", name, show_percent(hits, n).text, show_interval(hits, n).text,
         chosen ? "  the model" : "");
}

static void print_figures(const kf_quickstart_result *r) {
  int text = r->prompts > 0;
  printf("%s in %s. Accuracy on left-out pictures (%s%s):\n\n",
         show_counted(r->rows, "picture", "pictures").text,
         show_counted(r->classes, "class", "classes").text, show_count(r->n).text,
         r->n + r->n_single < r->rows ? ", a sample" : "");
  printf("  %-44s %9s  %s\n", "", "top-1", "95 % interval");
  print_line("nearest class mean, embeddings as they are", r->raw_top1, r->raw_n, 0);
  print_line("nearest class mean, Koo-Fu", r->top1, r->n, !text);
  if (text) {
    print_line("class names alone (zero-shot)", r->text_top1, r->n, 0);
    print_line("Koo-Fu and class names together", r->fused_top1, r->n, 1);
  }
  if (!text && r->fewer < r->dim_in)
    printf("\nThe model keeps all %u dimensions. %u of them lose at most 0.5 points with 95 %% "
           "confidence\n"
           "(in %u folds, class means are right for %s with these and for %s with all):\n"
           "'koofu fit --dim %u' makes such a model.\n",
           r->dim_in, r->fewer, r->folds, show_percent(r->dim_top1, r->dim_n).text,
           show_percent(r->all_top1, r->dim_n).text, r->fewer);
  if (r->n_single)
    printf("\n%s alone in %s class and could not be left out.\n",
           show_counted(r->n_single, "picture is", "pictures are").text,
           r->n_single == 1 ? "its" : "their");
}

/* Which pictures go wrong when each is left out. */
typedef struct left_out {
  kf_analysis *errors; /* NULL: nothing could be left out */
  kf_model *model;
  const kf_class_names *names; /* NULL: folders are called as they are */
  wrong_rows wrong;
} left_out;

static const char *label_of(const void *model, uint32_t class) {
  return kf_model_class_name(model, class);
}

static int read_left_out(cli_run *cli, const char *model, const char *embeddings, left_out *out) {
  kf_data *rows;
  if (!out->errors) return EXIT_OK;
  TRY(own_analysis(cli, KF_OK, &out->errors));
  TRY(own_model(cli, kf_model_load(cli->ctx, model, &out->model), &out->model));
  TRY(load_class_names(cli, label_of, out->model, kf_model_classes(out->model), &out->names));
  TRY(own_data(cli, kf_data_open(cli->ctx, &embeddings, 1, NULL, &rows), &rows));
  TRY(write_tables(cli, out->model, rows, out->errors));
  return read_wrong(cli, rows, out->errors, &out->wrong);
}

static void print_left_out(const left_out *l) {
  if (!l->errors) return;
  uint64_t n = l->errors->totals.n, wrong = n - l->errors->totals.top1;
  printf("\nOf %s left out in turn, the model gets %s wrong%s\n",
         show_counted(n, "picture", "pictures").text, show_count(wrong).text, wrong ? ":" : ".");
  if (!wrong) return;
  print_worst(l->model, l->names, l->errors);
  print_confusions(l->model, l->names, l->errors);
  print_wrong(l->model, l->names, l->errors, &l->wrong);
}

/* Quotes a word for the shell. */
static void print_word(const char *word) {
  static const char plain[] =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  if (*word && strspn(word, plain) == strlen(word)) {
    fputs(word, stdout);
    return;
  }
  char piece[KF_SHOWN_SIZE];
  putchar('\'');
  for (size_t at = 0; kf_escape_next(word, &at, piece) > 0;)
    fputs(*piece == '\'' ? "'\\''" : piece, stdout);
  putchar('\'');
}

static void print_command(const char *const *words) {
  fputs("  koofu", stdout);
  for (; *words; words++) {
    putchar(' ');
    print_word(*words);
  }
  putchar('\n');
}

static void print_next(cli_run *cli, const char *folder, const char *model,
                       const kf_quickstart_result *r) {
  printf("\nWritten to ");
  print_plain(stdout, folder);
  printf("\n  embeddings.safetensors  %s of %u, with labels and paths\n",
         show_counted(r->embed.rows, "row", "rows").text, r->dim_in);
  if (r->prompts) printf("  text.safetensors        the class names\n");
  if (r->renamed) printf("  names.json              what classes are called\n");
  printf("  model.safetensors       the classifier, %s\n", show_dim(r->dim, r->dim_in).text);
  printf("  report.html             what it gains and what goes wrong; open it in a browser\n"
         "\nNext, the class of a new picture:\n");
  const char *names = cli->args.names;
  print_command((const char *const[]){"classify", model, "photo.jpg", "--encoder",
                                      cli->args.encoder.folder, "--top", "3",
                                      names ? "--names" : NULL, names, NULL});
}

static int quickstart(cli_run *cli, const kf_encoder *encoder, const kf_pictures *pictures,
                      const kf_quickstart_options *options, const char *folder) {
  const char *embeddings = path_in(cli, folder, "embeddings.safetensors");
  const char *model = path_in(cli, folder, "model.safetensors");
  if (!embeddings || !model) return fail(cli, KF_ERR_MEM);
  kf_quickstart_result r;
  kf_status status = kf_quickstart(cli->ctx, encoder, pictures, options, folder, &r);
  int result = result_of(cli, status);
  if (status == KF_ERR_CANCELLED) say_kept(cli, embeddings);
  if (result != EXIT_OK) return result;
  left_out errors = {.errors = r.errors};
  if (r.renamed) cli->args.names = path_in(cli, folder, "names.json");
  TRY(read_left_out(cli, model, embeddings, &errors));
  progress_end(cli);
  say_pictures(cli, &r.embed, embeddings);
  if (r.many_near) say_near(cli, r.n_near, r.n_compared);
  print_figures(&r);
  print_left_out(&errors);
  print_next(cli, folder, model, &r);
  return EXIT_OK;
}

static int run_quickstart(cli_run *cli) {
  const cli_args *a = &cli->args;
  kf_pictures *pictures = NULL;
  kf_encoder *encoder = NULL;
  kf_quickstart_options options = {.name = a->operands.items[0],
                                   .title = a->report.title,
                                   .text = a->encoder.no_text ? KF_OFF : KF_ON,
                                   .templates = a->prompts.templates,
                                   .embed = embed_options_of(a)};
  if (a->encoder.no_text) TRY(refuse(cli, "templates", "--no-text"));
  TRY(check_tables(cli));
  TRY(open_pictures(cli, 0, &pictures));
  const char *folder = a->output ? a->output : usual_folder(cli, pictures);
  if (!folder) return fail(cli, KF_ERR_MEM);
  /* Before the weights are loaded and pictures embedded. */
  TRY(result_of(cli, kf_quickstart_check(cli->ctx, pictures, &options, folder)));
  tower_use towers = a->encoder.no_text ? TOWER_IMAGES : TOWER_BOTH;
  TRY(load_encoder(cli, a->encoder.folder, towers, &encoder));
  return quickstart(cli, encoder, pictures, &options, folder);
}

static const cli_group own_options = {
    "Options",
    OPTIONS({TEXT("encoder", encoder.folder, "CLIP-DIR"), .required = 1,
             .help = "a CLIP model as Hugging Face publishes it (see 'koofu embed')"},
            {OUTPUT("FOLDER"), .help = "where to write (default: FOLDER-koofu in the current "
                                       "folder, or beside FOLDER from inside it)"},
            {TEXT("wrong", errors.wrong, "FILE"),
             .help = "also write all pictures that go wrong when left out, as 'koofu eval --wrong' "
                     "does"},
            {FLAG("no-text", encoder.no_text), .help = "use pictures alone, not the class names"},
            {TEMPLATES,
             .help = "templates for the class names (see 'koofu prompts'; default: builtin7)"},
            {TITLE})};

const cli_command quickstart_command = {
    .name = "quickstart",
    .operands = "FOLDER",
    .summary = "go from a folder of pictures to a classifier, in one step",
    .details =
        "FOLDER has one folder of pictures per class; with --labels, a table names the class of "
        "each picture instead (see 'koofu embed'). They are embedded (as 'koofu embed' does, "
        "resuming an interrupted run), lambda is chosen by leave-one-out, and a model is fitted. "
        "If the encoder has a text tower, class names take part: underscores become spaces, a "
        "number in front of the name ('n01440764_tench', '017.Cardinal') is dropped, and their "
        "weight is chosen as well. All dimensions are kept; the report shows what fewer would "
        "cost.\n\n"
        "All printed figures are for pictures that the model judging them has not seen: each is "
        "left out in turn. So are the worst classes, the confusions and the pictures that are "
        "wrong by the widest margin, of which the report has thumbnails.\n\n"
        "Writes embeddings.safetensors, text.safetensors and model.safetensors, which 'koofu fit', "
        "'koofu eval', 'koofu index' and other commands can use, report.html, names.json for "
        "--names if folders have other names than classes, and about.txt, which marks the folder "
        "as made by quickstart: files of these names in any other folder are not replaced, and "
        "nothing is written among the pictures.\n\n"
        "Run again into the same folder, only new and changed pictures are embedded, and class "
        "names only if they or the templates have changed; --no-resume embeds everything again.",
    .groups = GROUPS(&own_options, &picture_labels, &picture_options, &tower_options),
    .examples = EXAMPLES({"Photos, one folder per class", "koofu quickstart photos --encoder clip"},
                         {"Photos in one folder, with a table filename,label",
                          "koofu quickstart photos --labels labels.csv --encoder clip"},
                         {"Then use the model",
                          "koofu classify photos-koofu/model.safetensors new.jpg --encoder clip"}),
    .run = run_quickstart,
};
