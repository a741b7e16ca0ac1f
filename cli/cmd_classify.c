/* cmd_classify.c - koofu classify: the nearest classes of every row. */
#include "cli.h"
#include "commands.h"

#include <stdlib.h>
#include <string.h>

/* Rows are read, classified and printed in blocks of at most so many bytes, and of so many products
 * for each thread: half a second of plain C, after which a signal is heard. */
enum { BLOCK_BYTES = 16 << 20, BLOCK_PRODUCTS = 1 << 30 };
/* ... but no fewer rows for each thread than it takes to keep it busy. */
enum { LEAST_ROWS = 64 };

/* One run: the block in hand and where its lines go. */
typedef struct classify_job {
  cli_run *cli;
  const kf_model *model;
  const kf_data *data;
  kf_classify_options options;
  uint64_t block; /* rows at a time */
  float *rows;    /* [block][D] */
  int32_t *labels;
  uint64_t *numbers; /* which row of the data set each one is */
  int32_t *classes;  /* [block][top] */
  double *scores;
  uint64_t n_bad;
  text_out out;
} classify_job;

static void print_class(FILE *file, const kf_model *model, int32_t class) {
  const char *name = kf_model_class_name(model, (uint32_t) class);
  if (name)
    print_escaped(file, name);
  else
    fprintf(file, "%d", class);
}

static void print_header(const classify_job *job) {
  const char *score = job->options.metric == KF_METRIC_EUCLIDEAN ? "distance" : "cosine";
  fputs("row", job->out.file);
  for (uint32_t rank = 1; rank <= job->options.top; rank++)
    fprintf(job->out.file, "\tclass%u\t%s%u", rank, score, rank);
  putc('\n', job->out.file);
}

static void print_tsv(const classify_job *job, uint64_t i) {
  uint32_t top = job->options.top;
  fprintf(job->out.file, "%llu", (unsigned long long)job->numbers[i]);
  for (uint64_t at = i * top; at < (i + 1) * top; at++) {
    putc('\t', job->out.file);
    print_class(job->out.file, job->model, job->classes[at]);
    fprintf(job->out.file, "\t%.6f", job->scores[at]);
  }
  putc('\n', job->out.file);
}

static void print_json(const classify_job *job, uint64_t i) {
  uint32_t top = job->options.top;
  cli_json j = {job->out.file, 0};
  jw_open(&j, NULL, '{');
  jw_count(&j, "row", job->numbers[i]);
  jw_open(&j, "classes", '[');
  for (uint64_t at = i * top; at < (i + 1) * top; at++) {
    const char *name = kf_model_class_name(job->model, (uint32_t)job->classes[at]);
    if (name)
      jw_text(&j, NULL, name);
    else
      jw_number(&j, NULL, job->classes[at]);
  }
  jw_close(&j, ']');
  jw_open(&j, "scores", '[');
  for (uint64_t at = i * top; at < (i + 1) * top; at++) jw_real(&j, NULL, job->scores[at]);
  jw_close(&j, ']');
  jw_close(&j, '}');
  jw_end_line(&j);
}

/* Moves the good rows of a block to its front and notes their numbers; returns how many. */
static uint64_t drop_bad(classify_job *job, uint64_t first, uint64_t n) {
  size_t dim = kf_data_dim(job->data);
  uint64_t kept = 0;
  for (uint64_t i = 0; i < n; i++) {
    if (job->labels[i] == KF_LABEL_BAD) continue;
    if (kept < i) memmove(job->rows + kept * dim, job->rows + i * dim, dim * sizeof *job->rows);
    job->numbers[kept++] = first + i;
  }
  job->n_bad += n - kept;
  return kept;
}

static int classify_block(classify_job *job, uint64_t first, uint64_t n) {
  kf_ctx *ctx = job->cli->ctx;
  kf_status status = kf_data_get(ctx, job->data, first, n, job->rows, job->labels);
  if (status != KF_OK) return fail(job->cli, status);
  n = drop_bad(job, first, n);
  if (n == 0) return EXIT_OK;
  status = kf_classify(ctx, job->model, job->rows, n, &job->options, job->classes, job->scores);
  if (status != KF_OK) return fail(job->cli, status);
  for (uint64_t i = 0; i < n; i++) (job->cli->args.json ? print_json : print_tsv)(job, i);
  return EXIT_OK;
}

static int classify_all(classify_job *job) {
  uint64_t rows = kf_data_rows(job->data);
  if (!job->cli->args.json) print_header(job);
  for (uint64_t first = 0; first < rows && !ferror(job->out.file); first += job->block) {
    if (progress_report(job->cli, "classify", first, rows)) return fail(job->cli, KF_ERR_CANCELLED);
    uint64_t n = rows - first < job->block ? rows - first : job->block;
    int result = classify_block(job, first, n);
    if (result != EXIT_OK) return result;
  }
  if (job->n_bad)
    say(job->cli, "left out %s", show_counted(job->n_bad, "bad row", "bad rows").text);
  return EXIT_OK;
}

/* There are no more answers than classes with rows. */
static int choose_top(cli_run *cli, const kf_model *model, uint32_t *top) {
  uint32_t most = classes_with_rows(model);
  *top = cli->args.top.given ? (uint32_t)cli->args.top.value : most < 5 ? most : 5;
  if (*top <= most) return EXIT_OK;
  return fail_usage(
      cli, "--top must be a whole number from 1 to %u, the number of classes with rows", most);
}

static kf_metric choose_metric(const cli_run *cli, const kf_model *model) {
  if (cli->args.metric) return (kf_metric)cli->args.metric;
  return kf_model_normalized(model) ? KF_METRIC_COSINE : KF_METRIC_EUCLIDEAN;
}

static uint64_t choose_block(const classify_job *job) {
  const kf_model *model = job->model;
  uint64_t threads = kf_ctx_threads(job->cli->ctx), dim = kf_model_dim_in(model);
  uint64_t products = kf_model_dim_out(model) * (dim + kf_model_classes(model)); /* of a row */
  uint64_t soon = BLOCK_PRODUCTS / products;
  uint64_t n = (soon > LEAST_ROWS ? soon : LEAST_ROWS) * threads;
  uint64_t fit = BLOCK_BYTES / (dim * sizeof(float) + job->options.top * sizeof(double));
  if (n > fit) n = fit;
  if (n > kf_data_rows(job->data)) n = kf_data_rows(job->data);
  return n ? n : 1;
}

static int make_buffers(classify_job *job) {
  size_t dim = kf_data_dim(job->data), top = job->options.top;
  job->block = choose_block(job);
  job->rows = calloc(job->block, dim * sizeof *job->rows);
  job->labels = calloc(job->block, sizeof *job->labels);
  job->numbers = calloc(job->block, sizeof *job->numbers);
  job->classes = calloc(job->block, top * sizeof *job->classes);
  job->scores = calloc(job->block, top * sizeof *job->scores);
  int whole = job->rows && job->labels && job->numbers && job->classes && job->scores;
  return whole ? EXIT_OK : fail(job->cli, KF_ERR_MEM);
}

static void free_buffers(classify_job *job) {
  free(job->rows);
  free(job->labels);
  free(job->numbers);
  free(job->classes);
  free(job->scores);
}

static int classify(cli_run *cli, const kf_model *model, const kf_data *data) {
  classify_job job;
  memset(&job, 0, sizeof job);
  job.cli = cli;
  job.model = model;
  job.data = data;
  job.options.metric = choose_metric(cli, model);
  job.options.raw = cli->args.raw;
  int result = choose_top(cli, model, &job.options.top);
  if (result == EXIT_OK) result = make_buffers(&job);
  if (result == EXIT_OK) result = text_out_open(cli, &job.out, cli->args.output);
  if (result == EXIT_OK) result = classify_all(&job);
  if (result == EXIT_OK) result = text_out_commit(cli, &job.out);
  text_out_abort(&job.out);
  free_buffers(&job);
  return result;
}

static int run(cli_run *cli) {
  const char *path = cli->args.output;
  int result = is_stdout(path) ? EXIT_OK : check_output(cli, path);
  if (result != EXIT_OK) return result;
  kf_model *model = NULL;
  kf_data *data = NULL;
  result = load_model(cli, &model);
  if (result == EXIT_OK) result = open_data(cli, 1, LABELS_IGNORED, &data);
  if (result == EXIT_OK && kf_data_dim(data) != kf_model_dim_in(model))
    result = fail_with(cli, EXIT_BAD_DATA, "%s: has %u columns, the model takes %u",
                       cli->args.operands.items[1], kf_data_dim(data), kf_model_dim_in(model));
  if (result == EXIT_OK) result = classify(cli, model, data);
  kf_data_free(data);
  kf_model_free(model);
  return result;
}

static const cli_group own_options = {
    "Options",
    (const cli_option[]){
        {"top", 0, OPTION_NUMBER, offsetof(cli_args, top), 0, "N",
         "classes for each row (default: 5, or all where there are fewer)", 1, KF_MAX_CLASSES,
         NULL},
        {"metric", 0, OPTION_CHOICE, offsetof(cli_args, metric), 0, "NAME",
         "cosine or euclidean (default: cosine; euclidean for a model fitted without normalising)",
         KF_METRIC_COSINE, 0, metric_choices},
        {"raw", 0, OPTION_FLAG, offsetof(cli_args, raw), 0, NULL,
         "classify in the original space, against the class means", 0, 0, NULL},
        {"json", 0, OPTION_FLAG, offsetof(cli_args, json), 0, NULL,
         "one JSON object for each row, one a line", 0, 0, NULL},
        {"output", 'o', OPTION_TEXT, offsetof(cli_args, output), 0, "FILE",
         "write to a file instead of standard output", 0, 0, NULL},
        {0}}};

const cli_command classify_command = {
    .name = "classify",
    .operands = "MODEL DATA...",
    .min_operands = 2,
    .max_operands = ANY_NUMBER,
    .missing = "the model and the data to classify are",
    .summary = "find the nearest classes of every row",
    .details =
        "Prints a line for each row: its number, counted from 0, then class and score of the "
        "nearest prototype, of the second nearest and so on, separated by tabs, below a header "
        "line. The score is the cosine (larger is nearer) or the Euclidean distance (smaller is "
        "nearer). Classes are printed by name where the model has names, by number otherwise; tab, "
        "line end, backslash and control characters in names are printed as \\t, \\n, \\\\ and "
        "\\x1b.\n\n"
        "The nearest prototypes are exact: no approximate search is involved. Labels in the data "
        "are not looked at. With --skip-bad, bad rows have no line.\n\n"
        "With --json a line is {\"row\": 0, \"classes\": [...], \"scores\": [...]}.",
    .groups = (const cli_group *const[]){&own_options, &row_options, NULL},
    .examples =
        (const cli_example[]){
            {"The best class of every row", "koofu classify model.safetensors photos.npy --top 1"},
            {"The five best, into a file",
             "koofu classify model.safetensors photos.npy -o answers.tsv"},
            {NULL, NULL}},
    .run = run,
};
