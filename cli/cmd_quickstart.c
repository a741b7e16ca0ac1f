/* cmd_quickstart.c - koofu quickstart: a folder of class folders to a classifier and a page about it,
 * with everything chosen. Each step is one that a command of its own does as well. */
#include "commands.h"
#include "encoders.h"
#include "format.h"
#include "outputs.h"
#include "reporting.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* In the limit of a large lambda the map leaves cosines as they are: so the raw space is left-one-out
 * beside the others. */
static const double raw_lambda = 1e9; /* times the mean eigenvalue */

typedef struct quickstart {
  cli_run *cli;
  const char *source; /* the folder of class folders */
  char *folder, *embeddings, *text_path, *model_path, *page;
  kf_pictures *pictures;
  kf_encoder *encoder;
  report_job job; /* training rows, statistics, choices and model */
  kf_sweep *raw;
  int made; /* the folder */
} quickstart;

static int done(const quickstart *q, kf_status status) {
  return status == KF_OK ? EXIT_OK : fail(q->cli, status);
}

/* --- where things go -------------------------------------------------------------------------- */

/* "photos/" -> "photos-koofu", in the current folder. NULL: out of memory. */
static char *usual_folder(const char *source) {
  size_t n = strlen(source);
  while (n > 1 && source[n - 1] == '/') n--;
  size_t begin = n;
  while (begin > 0 && source[begin - 1] != '/') begin--;
  int nameless = n == begin || source[begin] == '.'; /* ".", "..", "/" */
  char *name;
  int length = nameless ? asprintf(&name, "koofu")
                        : asprintf(&name, "%.*s-koofu", (int)(n - begin), source + begin);
  return length < 0 ? NULL : name;
}

static char *path_in(const char *folder, const char *name) {
  char *path;
  return asprintf(&path, "%s%s%s", folder, ends_with(folder, "/") ? "" : "/", name) < 0 ? NULL
                                                                                        : path;
}

static int choose_places(quickstart *q) {
  cli_run *cli = q->cli;
  q->source = cli->args.operands.items[0];
  q->folder = cli->args.output ? strdup(cli->args.output) : usual_folder(q->source);
  if (!q->folder) return fail(cli, KF_ERR_MEM);
  q->embeddings = path_in(q->folder, "embeddings.safetensors");
  q->text_path = path_in(q->folder, "text.safetensors");
  q->model_path = path_in(q->folder, "model.safetensors");
  q->page = path_in(q->folder, "report.html");
  return q->embeddings && q->text_path && q->model_path && q->page ? EXIT_OK
                                                                   : fail(cli, KF_ERR_MEM);
}

static int make_folder(quickstart *q) {
  struct stat info;
  q->made = mkdir(q->folder, 0777) == 0;
  if (!q->made && errno != EEXIST)
    return fail_with(q->cli, EXIT_IO, "%s: cannot be created: %s", q->folder, strerror(errno));
  if (stat(q->folder, &info) != 0 || !S_ISDIR(info.st_mode))
    return fail_with(q->cli, EXIT_IO, "%s: is no folder", q->folder);
  const char *const files[] = {q->embeddings, q->text_path, q->model_path, q->page};
  int result = EXIT_OK;
  for (size_t i = 0; i < COUNT_OF(files) && result == EXIT_OK; i++)
    result = check_output(q->cli, files[i]);
  return result;
}

/* --- pictures --------------------------------------------------------------------------------- */

/* Something must be left that can be left out. */
static int check_counts(const quickstart *q, const uint64_t *counts, uint32_t n) {
  uint32_t with_rows = 0;
  uint64_t most = 0;
  for (uint32_t k = 0; k < n; k++) {
    with_rows += counts[k] > 0;
    if (counts[k] > most) most = counts[k];
  }
  if (with_rows < 2)
    return fail_with(q->cli, EXIT_BAD_DATA, "%s: pictures of one class alone can be read",
                     q->source);
  if (most > 1) return EXIT_OK;
  return fail_with(q->cli, EXIT_BAD_DATA,
                   "%s: every class has a single picture, so that nothing can be said about how "
                   "pictures of one class differ; add some",
                   q->source);
}

/* Before the work, by the pictures there are, and behind it, by those that could be read. */
static int count_pictures(const quickstart *q) {
  uint32_t n = kf_pictures_classes(q->pictures);
  uint64_t *counts = calloc(n, sizeof *counts);
  if (!counts) return fail(q->cli, KF_ERR_MEM);
  for (uint64_t i = 0; !q->job.stats && i < kf_pictures_count(q->pictures); i++) {
    int32_t label = kf_pictures_label(q->pictures, i);
    if (label >= 0) counts[label]++;
  }
  for (uint32_t k = 0; q->job.stats && k < n; k++)
    counts[k] = (uint64_t)kf_stats_count(q->job.stats, k);
  int result = check_counts(q, counts, n);
  free(counts);
  return result;
}

static int find_pictures(quickstart *q) {
  cli_run *cli = q->cli;
  int result = open_pictures(cli, 0, &q->pictures);
  if (result != EXIT_OK) return result;
  uint32_t classes = kf_pictures_classes(q->pictures);
  if (classes > 1) return count_pictures(q);
  return fail_with(cli, EXIT_BAD_DATA,
                   "%s: %s; wanted is a folder with a folder of pictures for each class, two at "
                   "least",
                   q->source,
                   classes == 1 ? "has one class only" : "has pictures, but no folders of classes");
}

/* Before the pictures take their time. */
static int check_templates(quickstart *q) {
  if (!q->cli->args.prompts.templates) return EXIT_OK;
  prompt_set set = {0};
  int result = prompts_templates(q->cli, q->cli->args.prompts.templates, &set);
  prompts_free(&set);
  return result;
}

static int load(quickstart *q) {
  const cli_args *a = &q->cli->args;
  return load_encoder(q->cli, a->encoder.folder, a->encoder.no_text ? TOWER_IMAGES : TOWER_BOTH,
                      &q->encoder);
}

static int embed(quickstart *q) {
  cli_run *cli = q->cli;
  int result = embed_pictures(cli, q->encoder, q->pictures, q->embeddings);
  if (result != EXIT_OK) return result;
  const char *path = q->embeddings;
  kf_status status = kf_data_open(cli->ctx, &path, 1, NULL, &q->job.train);
  if (status == KF_OK) status = kf_stats_new_from_data(cli->ctx, q->job.train, NULL, &q->job.stats);
  return status == KF_OK ? count_pictures(q) : fail(cli, status);
}

/* --- names ------------------------------------------------------------------------------------ */

/* Whether a name is a word rather than a number, of a class or in WordNet. */
static int is_spoken(const char *name) {
  const char *c = *name == 'n' && strspn(name + 1, "0123456789") >= 8 ? name + 1 : name;
  for (; *c; c++)
    if ((unsigned char)*c >= 0x80 || (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z')) return 1;
  return 0;
}

static int names_speak(const quickstart *q) {
  uint32_t n = kf_pictures_classes(q->pictures), spoken = 0;
  for (uint32_t k = 0; k < n; k++)
    spoken += (uint32_t)is_spoken(kf_pictures_class_name(q->pictures, k));
  return 2 * spoken > n;
}

static int embed_names(quickstart *q, prompt_set *set, encoded_text *text) {
  cli_run *cli = q->cli;
  int result = prompts_templates(
      cli, cli->args.prompts.templates ? cli->args.prompts.templates : "builtin7", set);
  if (result == EXIT_OK) result = encode_prompts(cli, q->encoder, set, text);
  if (result != EXIT_OK) return result;
  kf_status status = kf_text_new(cli->ctx, text->data, NULL, &q->job.text);
  if (status == KF_OK) status = kf_text_save(cli->ctx, q->job.text, q->text_path);
  if (status == KF_OK)
    say(cli, "wrote %s: %s of %u from %s", q->text_path,
        show_counted(kf_text_classes(q->job.text), "class", "classes").text,
        kf_text_dim(q->job.text), show_counted(text->n, "prompt", "prompts").text);
  return done(q, status);
}

static int speak(quickstart *q) {
  cli_run *cli = q->cli;
  if (cli->args.encoder.no_text) return EXIT_OK;
  if (kf_encoder_context(q->encoder) == 0 || !names_speak(q)) {
    say(cli,
        kf_encoder_context(q->encoder) == 0
            ? "the encoder has no text tower that koofu reads: class names do not take part"
            : "most class names are numbers, which say nothing to the encoder: they do not take "
              "part");
    return EXIT_OK;
  }
  uint32_t n = kf_pictures_classes(q->pictures);
  const char **names = calloc(n, sizeof *names);
  if (!names) return fail(cli, KF_ERR_MEM);
  for (uint32_t k = 0; k < n; k++) names[k] = kf_pictures_class_name(q->pictures, k);
  prompt_set set = {0};
  encoded_text text = {0};
  int result = prompts_of_folders(cli, names, n, &set);
  if (result == EXIT_OK) result = embed_names(q, &set, &text);
  encoded_text_free(&text);
  prompts_free(&set);
  free(names);
  return result;
}

/* --- the model -------------------------------------------------------------------------------- */

/* Everything by leaving out each picture in turn; dimensions by folds. Beside names all dimensions are
 * kept: that fewer lose nothing is known of class means alone. */
static int choose(quickstart *q) {
  kf_ctx *ctx = q->cli->ctx;
  report_job *j = &q->job;
  kf_centre centre = q->job.text ? KF_CENTRE_MEAN : KF_CENTRE_NONE;
  kf_lambda_options by_lambda = {.centre = centre};
  kf_fuse_options by_both = {.centre = centre};
  kf_status status = kf_lambda_choice_new(ctx, j->stats, j->train, &by_lambda, &j->lambda);
  if (status == KF_OK && q->job.text)
    status = kf_fuse_choice_new(ctx, j->stats, j->train, q->job.text, &by_both, &q->job.fuse);
  if (status != KF_OK) return fail(q->cli, status);
  double lambda = q->job.fuse ? q->job.fuse->lambda : j->lambda->lambda;
  kf_dim_options by_dim = {.lambda = {lambda, KF_LAMBDA_ABSOLUTE}, .centre = centre};
  status = kf_dim_choice_new(ctx, j->stats, j->train, &by_dim, &j->dim);
  kf_lambda huge = {raw_lambda, KF_LAMBDA_RELATIVE};
  kf_sweep_options by_raw = {.lambdas = &huge, .n_lambdas = 1, .leave_one_out = 1};
  if (status == KF_OK) status = kf_sweep_new(ctx, j->stats, j->train, NULL, &by_raw, &q->raw);
  return done(q, status);
}

static int fit(quickstart *q) {
  kf_ctx *ctx = q->cli->ctx;
  report_job *j = &q->job;
  double lambda = q->job.fuse ? q->job.fuse->lambda : j->lambda->lambda;
  kf_fit_options options = {.lambda = {lambda, KF_LAMBDA_ABSOLUTE},
                            .dim = j->text ? 0 : j->dim->dim,
                            .centre = q->job.text ? KF_CENTRE_MEAN : KF_CENTRE_NONE};
  kf_status status = kf_fit_stats(ctx, j->stats, &options, &j->model);
  if (status == KF_OK && q->job.text) {
    kf_model *pictures = j->model;
    j->model = NULL;
    status = kf_model_new_fused(ctx, pictures, q->job.text, q->job.fuse->alpha, &j->model);
    kf_model_free(pictures);
  }
  if (status == KF_OK) status = kf_model_save(ctx, j->model, q->model_path);
  return done(q, status);
}

static int report(quickstart *q) {
  q->job.cli = q->cli;
  q->job.path = q->page;
  q->job.title = q->cli->args.report.title;
  q->job.train_name = q->source;
  return report_write(&q->job);
}

/* --- the words -------------------------------------------------------------------------------- */

static void print_line(const char *what, uint64_t hits, uint64_t n, int chosen) {
  printf("  %-44s %9s  %s%s\n", what, show_percent(hits, n).text, show_interval(hits, n).text,
         chosen ? "  the model" : "");
}

static void print_figures(const quickstart *q) {
  const report_job *j = &q->job;
  const kf_lambda_choice *c = j->lambda;
  const kf_sweep_cell *raw = q->raw->cells;
  printf("%s in %s. How often is a picture recognised that was left out? Of %s:\n\n",
         show_counted(kf_stats_rows(j->stats), "picture", "pictures").text,
         show_counted(kf_stats_classes(j->stats), "class", "classes").text, show_count(c->n).text);
  printf("  %-44s %9s  %s\n", "", "top-1", "95 % interval");
  print_line("nearest class mean, embeddings as they are", raw->top1, raw->n, 0);
  print_line("nearest class mean, Koo-Fu", c->points[c->chosen].top1, c->n, !q->job.fuse);
  if (q->job.fuse) {
    const kf_fuse_choice *f = q->job.fuse;
    uint64_t both = f->n_points ? f->points[f->chosen].top1 : 0;
    print_line("class names alone (zero-shot)", f->text_top1, f->n, 0);
    print_line("Koo-Fu and class names together", both, f->n, 1);
  }
  const kf_dim_choice *d = j->dim;
  if (!j->text && d->dim < d->n_points)
    printf("\nThis is with all %zu dimensions. The model keeps %u, the fewest within a standard "
           "error\n"
           "of the best: in %u folds, class means are right for %s with these and for %s\n"
           "with all.\n",
           d->n_points, d->dim, d->folds, show_percent(d->points[d->dim - 1].top1, d->n).text,
           show_percent(d->points[d->n_points - 1].top1, d->n).text);
  if (c->n_single)
    printf("\n%s alone in %s class and could not be left out.\n",
           show_counted(c->n_single, "picture is", "pictures are").text,
           c->n_single == 1 ? "its" : "their");
}

/* A word for the shell. */
static void print_word(const char *word) {
  static const char plain[] =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  if (*word && strspn(word, plain) == strlen(word)) {
    fputs(word, stdout);
    return;
  }
  putchar('\'');
  for (const char *c = word; *c; c++)
    if (*c == '\'')
      fputs("'\\''", stdout);
    else
      putchar((unsigned char)*c < ' ' ? '?' : *c);
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

static void print_next(const quickstart *q) {
  const report_job *j = &q->job;
  const char *encoder = q->cli->args.encoder.folder;
  printf("\nWritten to ");
  print_plain(stdout, q->folder);
  printf("\n  embeddings.safetensors  %s of %u, with labels and paths\n",
         show_counted(kf_data_rows(j->train), "row", "rows").text, kf_data_dim(j->train));
  if (q->job.text) printf("  text.safetensors        the class names\n");
  printf("  model.safetensors       the classifier, %u -> %s\n", kf_model_dim_in(j->model),
         show_counted(kf_model_dim_out(j->model), "dimension", "dimensions").text);
  printf("  report.html             what it gains and why; open it in a browser\n"
         "\nNext, the class of a new picture:\n");
  print_command((const char *const[]){"classify", q->model_path, "photo.jpg", "--encoder", encoder,
                                      "--top", "3", NULL});
}

static int summarize(quickstart *q) {
  progress_end(q->cli);
  print_figures(q);
  print_next(q);
  return EXIT_OK;
}

/* --- the command ------------------------------------------------------------------------------ */

static int check_source(quickstart *q) {
  struct stat info;
  if (stat(q->source, &info) != 0)
    return fail_with(q->cli, EXIT_IO, "%s: cannot be opened: %s", q->source, strerror(errno));
  if (S_ISDIR(info.st_mode)) return EXIT_OK;
  return fail_with(q->cli, EXIT_BAD_DATA,
                   "%s: wanted is a folder with a folder of pictures for each class", q->source);
}

static void clear(quickstart *q) {
  kf_sweep_free(q->raw);
  report_free(&q->job);
  kf_encoder_free(q->encoder);
  kf_pictures_free(q->pictures);
  free(q->folder);
  free(q->embeddings);
  free(q->text_path);
  free(q->model_path);
  free(q->page);
}

static int run(cli_run *cli) {
  static int (*const steps[])(quickstart *) = {
      choose_places, check_source, find_pictures, check_templates, load,     make_folder, embed,
      speak,         choose,       fit,           report,          summarize};
  quickstart q = {.cli = cli};
  int result = EXIT_OK;
  if (cli->args.encoder.no_text && cli->args.prompts.templates)
    result = fail_usage(cli, "--templates has no meaning with --no-text");
  for (size_t i = 0; i < COUNT_OF(steps) && result == EXIT_OK; i++) result = steps[i](&q);
  if (result != EXIT_OK && q.made) rmdir(q.folder); /* stays where something is in it */
  clear(&q);
  return result;
}

static const cli_group own_options = {
    "Options",
    OPTIONS(
        {TEXT("encoder", encoder.folder, "MODEL-DIR"), .required = 1,
         .help = "a CLIP model as Hugging Face publishes it (see 'koofu embed')"},
        {OUTPUT("FOLDER"),
         .help = "where to write (default: the name of the folder of pictures, with -koofu added)"},
        {FLAG("no-text", encoder.no_text), .help = "use pictures only, without the class names"},
        {TEMPLATES,
         .help = "templates for the class names (see 'koofu prompts'; default: builtin7)"},
        {TITLE})};

const cli_command quickstart_command = {
    .name = "quickstart",
    .operands = "FOLDER",
    .missing = "the folder of pictures is",
    .summary = "go from a folder of pictures to a classifier, in one step",
    .details =
        "FOLDER has a folder of pictures for each class. They are embedded (as 'koofu embed' does "
        "it, and resumed like there), lambda is chosen by leaving out each picture in turn, and a "
        "model is fitted. Where the encoder has a text tower the names of the classes take part: "
        "underscores in them are blanks, and a number in front of them ('n01440764_tench', "
        "'017.Cardinal') is left out; how much they count is chosen as well. Without them the "
        "number of dimensions is chosen by cross-validation; beside them all are kept, since that "
        "fewer lose nothing is known of pictures alone.\n\n"
        "The figures that are printed are of pictures that were left out of the model that judges "
        "them. Among them is the nearest class mean in the space of the encoder itself, which is "
        "the same with a lambda so large that the map does nothing.\n\n"
        "What is written: embeddings.safetensors, text.safetensors, model.safetensors and "
        "report.html; 'koofu fit', 'koofu eval', 'koofu index' and the others go on from there.",
    .groups = (const cli_group *const[]){&own_options, &picture_options, &tower_options, NULL},
    .examples =
        (const cli_example[]){{"Photos in a folder for each class",
                               "koofu quickstart photos --encoder clip-vit-base-patch32"},
                              {"Then use the model",
                               "koofu classify photos-koofu/model.safetensors new.jpg --encoder "
                               "clip-vit-base-patch32"},
                              {NULL, NULL}},
    .run = run,
};
