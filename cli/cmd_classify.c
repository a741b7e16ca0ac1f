/* cmd_classify.c - koofu classify: the nearest classes of every row, by prototypes or by votes of
 * neighbours. */
#include "commands.h"
#include "format.h"
#include "galleries.h"
#include "inputs.h"
#include "json.h"
#include "out_file.h"
#include "outputs.h"
#include "owned.h"
#include "texts.h"

#include <stdlib.h>

/* Rows are read, classified and printed in blocks of at most this many bytes, and this many products
 * per thread: half a second of plain C, so that a signal is noticed soon. */
enum { BLOCK_BYTES = 16 << 20, BLOCK_PRODUCTS = 1 << 30 };
/* ... but at least this many rows per thread, to keep it busy. */
enum { LEAST_ROWS = 64 };

/* A run: its inputs, the current block, and the output. */
typedef struct classify_job {
  cli_run *cli;
  kf_model *model;     /* as loaded */
  cli_zero_shot zero;  /* without --text: all NULL */
  kf_gallery *gallery; /* NULL: prototypes */
  cli_queries queries;
  kf_classify_options options; /* of prototypes */
  kf_vote_options votes;       /* of neighbours */
  uint32_t top;
  const char *score_name;
  int score_digits; /* after the decimal point */
  uint64_t room;    /* rows at a time */
  kf_reader_block block;
  int32_t *classes; /* [room][top] */
  double *scores;
  out_file out;
} classify_job;

/* The model that classifies. */
static const kf_model *model_of(const classify_job *job) {
  if (!job->zero.text) return job->model;
  return job->cli->args.use.raw ? job->zero.raw : job->zero.mapped;
}

static const char *class_name(const classify_job *job, int32_t class) {
  return job->gallery ? kf_gallery_class_name(job->gallery, (uint32_t) class)
                      : kf_model_class_name(model_of(job), (uint32_t) class);
}

static void print_header(const classify_job *job) {
  fputs(job->queries.pictures ? "picture" : "row", job->out.file);
  for (uint32_t rank = 1; rank <= job->top; rank++)
    fprintf(job->out.file, "\tclass%u\t%s%u", rank, job->score_name, rank);
  putc('\n', job->out.file);
}

/* If fewer classes have votes, the last columns are empty. */
static void print_tsv(const classify_job *job, uint64_t i) {
  FILE *file = job->out.file;
  uint64_t number = job->block.numbers[i];
  print_row_id(file, kf_reader_id(job->queries.reader, number), number);
  for (uint64_t at = i * job->top; at < (i + 1) * job->top; at++) {
    putc('\t', file);
    if (job->classes[at] >= 0)
      print_class(file, class_name(job, job->classes[at]), job->classes[at]);
    putc('\t', file);
    if (job->classes[at] >= 0) fprintf(file, "%.*f", job->score_digits, job->scores[at]);
  }
  putc('\n', file);
}

static void print_json(const classify_job *job, uint64_t i) {
  uint64_t begin = i * job->top, end = begin;
  while (end < begin + job->top && job->classes[end] >= 0) end++;
  cli_json j = {job->out.file, 0};
  jw_open(&j, NULL, '{');
  const char *path = kf_reader_id(job->queries.reader, job->block.numbers[i]);
  if (path)
    jw_text(&j, "picture", path);
  else
    jw_count(&j, "row", job->block.numbers[i]);
  jw_open(&j, "classes", '[');
  for (uint64_t at = begin; at < end; at++)
    jw_class(&j, NULL, class_name(job, job->classes[at]), job->classes[at]);
  jw_close(&j, ']');
  jw_open(&j, job->gallery ? "votes" : "scores", '[');
  for (uint64_t at = begin; at < end; at++) jw_real(&j, NULL, job->scores[at]);
  jw_close(&j, ']');
  jw_end(&j);
}

static int classify_block(classify_job *job, uint64_t first) {
  kf_ctx *ctx = job->cli->ctx;
  kf_reader_block *b = &job->block;
  kf_status status = kf_reader_next(ctx, job->queries.reader, b);
  if (status != KF_OK) return fail(job->cli, status);
  if (first == 0 && !job->cli->args.json) print_header(job); /* only once rows are accepted */
  if (b->n == 0) return EXIT_OK;
  status = job->gallery ? kf_gallery_classify(ctx, job->gallery, b->rows, b->n, &job->votes,
                                              job->classes, job->scores, NULL)
                        : kf_classify(ctx, model_of(job), b->rows, b->n, &job->options,
                                      job->classes, job->scores);
  if (status != KF_OK) return fail(job->cli, status);
  for (uint64_t i = 0; i < b->n; i++) (job->cli->args.json ? print_json : print_tsv)(job, i);
  return EXIT_OK;
}

static const char *const bad_rows[] = {"bad row", "bad rows"};
static const char *const bad_pictures[] = {"picture that cannot be read",
                                           "pictures that cannot be read"};

static int classify_all(classify_job *job) {
  uint64_t rows = job->queries.n;
  for (uint64_t first = 0; first < rows && !ferror(job->out.file); first += job->room) {
    if (progress_report(job->cli, "classify", first, rows)) return fail(job->cli, KF_ERR_CANCELLED);
    TRY(classify_block(job, first));
  }
  uint64_t bad = kf_reader_bad(job->queries.reader);
  const char *const *words = job->queries.pictures ? bad_pictures : bad_rows;
  if (bad) say(job->cli, "left out %s", show_counted(bad, words[0], words[1]).text);
  return EXIT_OK;
}

/* --- prototypes or neighbours ----------------------------------------------------------------- */

/* There are no more answers than classes. */
static int choose_top(classify_job *job, uint32_t most, const char *what) {
  const cli_number *given = &job->cli->args.use.top;
  job->top = given->given ? (uint32_t)given->value : most < 5 ? most : 5;
  if (job->top <= most) return EXIT_OK;
  return fail_usage(job->cli,
                    "--top must be a whole number from 1 to %u (the classes %s), not '%u'", most,
                    what, job->top);
}

static uint64_t prototype_block(const classify_job *job) {
  const kf_model *model = model_of(job);
  uint64_t threads = kf_ctx_threads(job->cli->ctx), dim = kf_model_dim_in(model);
  uint64_t products = kf_model_dim_out(model) * (dim + kf_model_classes(model)); /* of a row */
  uint64_t soon = BLOCK_PRODUCTS / products;
  uint64_t n = (soon > LEAST_ROWS ? soon : LEAST_ROWS) * threads;
  uint64_t fit = BLOCK_BYTES / (dim * sizeof(float) + job->top * sizeof(double));
  return n < fit ? n : fit;
}

static int choose_prototypes(classify_job *job) {
  const struct use_args *use = &job->cli->args.use;
  const kf_model *model = model_of(job);
  int fused = kf_model_fused(model) && !use->raw;
  kf_part part = !fused ? KF_PART_IMAGES : use->part ? (kf_part)use->part : KF_PART_FUSED;
  TRY(choose_top(job, kf_model_answers(model, part),
                 part == KF_PART_IMAGES ? "with rows"
                 : part == KF_PART_TEXT ? "with text"
                                        : "with rows or text"));
  job->options = (kf_classify_options){.top = job->top,
                                       .metric = metric_for(&job->cli->args, model),
                                       .raw = use->raw,
                                       .part = (kf_part)use->part};
  job->score_name = part == KF_PART_FUSED                        ? "score"
                    : job->options.metric == KF_METRIC_EUCLIDEAN ? "distance"
                                                                 : "cosine";
  job->score_digits = 6;
  job->room = prototype_block(job);
  return EXIT_OK;
}

static int choose_voters(classify_job *job) {
  const cli_args *a = &job->cli->args;
  kf_vote_options *v = &job->votes;
  TRY(a->search.k.automatic
          ? choose_k_auto(job->cli, job->gallery, &v->k)
          : choose_k(job->cli, a->votes.gallery, kf_gallery_rows(job->gallery), &v->k));
  TRY(choose_top(job, kf_gallery_classes(job->gallery), "in the gallery"));
  v->top = job->top;
  v->weighted = a->votes.weighted;
  v->temperature = vote_temperature(a);
  job->score_name = "votes";
  job->score_digits = a->votes.weighted ? 6 : 0;
  job->room = kf_gallery_batch(job->cli->ctx, job->gallery);
  return EXIT_OK;
}

/* --- the command ------------------------------------------------------------------------------ */

static int make_buffers(classify_job *job) {
  TRY(queries_start(job->cli, &job->queries, &job->room));
  job->classes = own_memory(job->cli, job->room, job->top * sizeof *job->classes);
  job->scores = own_memory(job->cli, job->room, job->top * sizeof *job->scores);
  return job->classes && job->scores ? EXIT_OK : fail(job->cli, KF_ERR_MEM);
}

static int commit(classify_job *job) {
  int result = out_file_commit(job->cli, &job->out);
  if (result == EXIT_OK && !is_stdout(job->cli->args.output))
    say_written(job->cli, job->cli->args.output, "the %s of %s",
                job->top == 1 ? "best class" : show_counted(job->top, "", "best classes").text,
                show_counted(job->queries.n - kf_reader_bad(job->queries.reader),
                             job->queries.pictures ? "picture" : "row",
                             job->queries.pictures ? "pictures" : "rows")
                    .text);
  return result;
}

static int classify(classify_job *job) {
  TRY(job->gallery ? choose_voters(job) : choose_prototypes(job));
  TRY(make_buffers(job));
  TRY(out_file_open(job->cli, &job->out, job->cli->args.output));
  TRY(classify_all(job));
  return commit(job);
}

/* The answers are text, so the name must not be that of an array. */
static int check_answers(cli_run *cli) {
  static const char *const binary[] = {".npy", ".safetensors", ".fvecs", ".fbin"};
  const char *path = cli->args.output;
  int result = check_text_output(cli, path);
  for (size_t i = 0; result == EXIT_OK && path && i < COUNT_OF(binary); i++)
    if (ends_with(path, binary[i]))
      result =
          fail_usage(cli, "%s: classify writes text; choose a name without %s, such as answers.tsv",
                     path, binary[i]);
  return result;
}

static int check_options(cli_run *cli) {
  const cli_args *a = &cli->args;
  if (a->votes.gallery && a->text.path)
    return fail_usage(cli, "--text cannot be used with --gallery");
  if (a->votes.gallery && (a->use.raw || a->metric))
    return fail_usage(cli, "--%s cannot be used with --gallery, which has its own space and metric",
                      a->use.raw ? "raw" : "metric");
  if (a->use.part && (a->use.raw || a->votes.gallery || a->text.path))
    return fail_usage(cli, "--part cannot be used with --%s",
                      a->use.raw         ? "raw"
                      : a->votes.gallery ? "gallery"
                                         : "text");
  TRY(check_vote_options(cli));
  TRY(check_text_options(cli));
  return check_answers(cli);
}

static int open_inputs(classify_job *job) {
  cli_run *cli = job->cli;
  const cli_args *a = &cli->args;
  TRY(load_model(cli, a->operands.items[0], &job->model));
  if (a->text.path) TRY(load_zero_shot(cli, job->model, 0, &job->zero));
  if (a->votes.gallery) TRY(load_voters(cli, job->model, &job->gallery));
  TRY(queries_open(cli, 1, &job->queries));
  int mapped = !job->gallery || kf_gallery_mapped(job->gallery);
  TRY(check_queries(cli, &job->queries, mapped, "", kf_model_dim_in(job->model), "model"));
  TRY(check_query_encoder(cli, &job->queries, kf_model_origin(model_of(job))));
  return job->gallery ? check_query_encoder(cli, &job->queries, kf_gallery_origin(job->gallery))
                      : EXIT_OK;
}

static int run(cli_run *cli) {
  classify_job job = {.cli = cli};
  int result = check_options(cli);
  if (result == EXIT_OK) result = open_inputs(&job);
  if (result == EXIT_OK) result = classify(&job);
  out_file_abort(&job.out);
  return result;
}

static const char *const part_choices[] = {"images", "text", "fused", NULL}; /* kf_part, from 1 */

static const cli_group own_options = {
    "Options",
    OPTIONS(
        {NUMBER("top", use.top, "N", 1, KF_MAX_CLASSES),
         .help = "classes per row (default: 5, or all if there are fewer)"},
        {MODEL_METRIC},
        {FLAG("raw", use.raw),
         .help = "classify in the original space, against the class means or the text as given"},
        {CHOICE("part", use.part, "NAME", KF_PART_IMAGES, part_choices),
         .help = "of a model that has text: images, text or fused (default: fused)"},
        {NEIGHBOURS, .automatic = 1,
         .help = "with --gallery: neighbours that vote, 1 to 1024 or auto (default: 15, or all "
                 "if there are fewer)"},
        {JSON, .help = "one JSON object per row, each on its own line"}, {TEXT_OUTPUT})};

const cli_command classify_command = {
    .name = "classify",
    .operands = "MODEL DATA...|PICTURES...",
    .summary = "find the nearest classes of every row or picture",
    .details =
        "Prints a header line and one line per row, separated by tabs: the number of the row, "
        "counted from 0, then class and score of the nearest prototype, of the second nearest and "
        "so on. The score is the cosine (larger is nearer) or the Euclidean distance (smaller is "
        "nearer). Classes are printed by name if the model has names, otherwise by number; tabs, "
        "line ends, backslashes and control characters in names are printed as \\t, \\n, \\\\ and "
        "\\x1b.\n\n"
        "The nearest prototypes are exact; no approximate search is involved. Labels in the data "
        "are ignored. With --skip-bad, bad rows have no line.\n\n"
        "With --gallery, the K nearest rows of the gallery vote instead. The columns are then "
        "class and votes, most votes first; in a tie, the class whose nearest member is "
        "nearest comes first. If fewer classes have votes, the last columns are empty. The "
        "gallery must be of the original space or made with this very model; class names are "
        "those of the gallery.\n\n"
        "With --text, the prototypes are text instead of class means: zero-shot classification, "
        "in the model's space or, with --raw, in the original one. The classes are those of the "
        "text, even if the model has never seen them.\n\n"
        "With --encoder, the input is pictures, folders of pictures or patterns (see 'koofu "
        "embed'), embedded by the CLIP model that the training rows were made with. Lines then "
        "begin with the path of the picture, and --skip-bad leaves out pictures that cannot be "
        "read.\n\n"
        "With --json, a line is {\"row\": 0, \"classes\": [...], \"scores\": [...]}; with "
        "--gallery it has \"votes\" instead of \"scores\", with --encoder \"picture\" instead of "
        "\"row\".",
    .groups = GROUPS(&own_options, &encoder_options, &text_options, &vote_options, &row_options),
    .examples = EXAMPLES(
        {"The best class of every row", "koofu classify model.safetensors photos.npy --top 1"},
        {"The best class of a picture",
         "koofu classify model.safetensors photo.jpg --encoder clip --top 1"},
        {"The five best, into a file",
         "koofu classify model.safetensors photos.npy -o answers.tsv"},
        {"By the votes of 15 neighbours",
         "koofu classify model.safetensors photos.npy --gallery gallery.safetensors -k 15"},
        {"By class names alone (zero-shot)",
         "koofu classify model.safetensors photos.npy --text text.safetensors"}),
    .run = run,
};
