/* cmd_search.c - koofu search: the nearest rows of every query. */
#include "array_out.h"
#include "commands.h"
#include "format.h"
#include "galleries.h"
#include "json.h"
#include "outputs.h"
#include "owned.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A run: its inputs, the current block, and the output. */
typedef struct search_job {
  cli_run *cli;
  kf_gallery *gallery;
  int itself; /* the queries are the rows of the gallery */
  cli_queries queries;
  uint64_t n_queries; /* bad ones included */
  uint32_t k;
  uint64_t room;         /* queries at a time */
  kf_reader_block block; /* with itself: empty */
  int64_t *rows;         /* [room][k] */
  double *scores;
  kf_search_report report;
  double load_seconds, search_seconds;
  int as_arrays;
  array_out arrays;
  out_file text;
} search_job;

/* --- text ------------------------------------------------------------------------------------- */

static void print_label(const search_job *job, uint64_t row) {
  int32_t label = kf_gallery_label(job->gallery, row);
  putc('\t', job->text.file);
  if (label >= 0)
    print_class(job->text.file, kf_gallery_class_name(job->gallery, (uint32_t)label), label);
}

static void print_header(const search_job *job) {
  static const char *const names[] = {"cosine", "distance", "product"}; /* kf_metric, from 1 */
  const char *score = names[kf_gallery_metric(job->gallery) - KF_METRIC_COSINE];
  const char *row = kf_gallery_id(job->gallery, 0) ? "id" : "row";
  int labels = kf_gallery_has_labels(job->gallery);
  fputs("query", job->text.file);
  for (uint32_t rank = 1; rank <= job->k; rank++) {
    fprintf(job->text.file, "\t%s%u", row, rank);
    if (labels) fprintf(job->text.file, "\tlabel%u", rank);
    fprintf(job->text.file, "\t%s%u", score, rank);
  }
  putc('\n', job->text.file);
}

static void print_answer(const search_job *job, uint64_t i, uint64_t query) {
  FILE *file = job->text.file;
  const kf_gallery *g = job->gallery;
  print_row_id(file,
               job->itself ? kf_gallery_id(g, query) : kf_reader_id(job->queries.reader, query),
               query);
  for (uint64_t at = i * job->k; at < (i + 1) * job->k; at++) {
    putc('\t', file);
    uint64_t row = (uint64_t)job->rows[at];
    print_row_id(file, kf_gallery_id(g, row), row);
    if (kf_gallery_has_labels(g)) print_label(job, row);
    fprintf(file, "\t%.6f", job->scores[at]);
  }
  putc('\n', file);
}

/* --- arrays ----------------------------------------------------------------------------------- */

/* Moves the answers of a block to the places of their queries; bad queries get row -1 and score NaN.
 * From the back, since answers only move backwards. */
static void spread(search_job *job, uint64_t first, uint64_t n) {
  const kf_reader_block *b = &job->block;
  size_t k = job->k;
  uint64_t good = b->n;
  for (uint64_t i = n; i-- > 0;) {
    int is_good = good > 0 && b->numbers[good - 1] == first + i;
    if (is_good) {
      good--;
      memmove(job->rows + i * k, job->rows + good * k, k * sizeof *job->rows);
      memmove(job->scores + i * k, job->scores + good * k, k * sizeof *job->scores);
    }
    for (uint64_t at = i * k; !is_good && at < (i + 1) * k; at++) {
      job->rows[at] = -1;
      job->scores[at] = (double)NAN;
    }
  }
}

/* --- the work --------------------------------------------------------------------------------- */

/* Searches the queries first … first+n-1; *found is how many of them have answers. */
static int search_block(search_job *job, uint64_t first, uint64_t n, uint64_t *found) {
  kf_ctx *ctx = job->cli->ctx;
  kf_reader_block *b = &job->block;
  kf_status status = job->itself ? KF_OK : kf_reader_next(ctx, job->queries.reader, b);
  if (status != KF_OK) return fail(job->cli, status);
  *found = job->itself ? n : b->n;
  double begun = now();
  if (job->itself)
    status = kf_gallery_search_itself(ctx, job->gallery, first, n, job->k, job->rows, job->scores,
                                      &job->report);
  else if (b->n > 0)
    status = kf_gallery_search(ctx, job->gallery, b->rows, b->n, job->k, NULL, job->rows,
                               job->scores, &job->report);
  job->search_seconds += now() - begun;
  return result_of(job->cli, status);
}

static int put_block(search_job *job, uint64_t first, uint64_t n, uint64_t found) {
  if (job->as_arrays) {
    if (found < n) spread(job, first, n);
    return array_out_put(job->cli, &job->arrays, first, n, job->rows, job->scores);
  }
  if (!job->text.file) return EXIT_OK;
  if (first == 0) print_header(job); /* only once there are answers */
  for (uint64_t i = 0; i < found; i++)
    print_answer(job, i, job->itself ? first + i : job->block.numbers[i]);
  return EXIT_OK;
}

static uint64_t bad_queries(const search_job *job) {
  return job->itself ? 0 : kf_reader_bad(job->queries.reader);
}

static int search_all(search_job *job) {
  for (uint64_t first = 0; first < job->n_queries; first += job->room) {
    if (progress_report(job->cli, "search", first, job->n_queries))
      return fail(job->cli, KF_ERR_CANCELLED);
    uint64_t left = job->n_queries - first, n = left < job->room ? left : job->room, found = 0;
    TRY(search_block(job, first, n, &found));
    TRY(put_block(job, first, n, found));
    if (job->text.file && ferror(job->text.file)) break; /* reported when the file is closed */
  }
  if (bad_queries(job))
    say(job->cli, "left out %s", show_counted(bad_queries(job), "bad query", "bad queries").text);
  return EXIT_OK;
}

static int make_buffers(search_job *job) {
  job->room = kf_gallery_batch(job->cli->ctx, job->gallery);
  if (job->room > job->n_queries) job->room = job->n_queries;
  if (!job->itself) TRY(queries_start(job->cli, &job->queries, &job->room));
  job->rows = own_memory(job->cli, job->room, job->k * sizeof *job->rows);
  job->scores = own_memory(job->cli, job->room, job->k * sizeof *job->scores);
  return job->rows && job->scores ? EXIT_OK : fail(job->cli, KF_ERR_MEM);
}

/* --- the outputs ------------------------------------------------------------------------------ */

static int open_output(search_job *job) {
  const char *path = job->cli->args.output;
  job->as_arrays = !is_stdout(path) && !ends_with(path, ".tsv");
  if (job->as_arrays)
    return array_out_open(job->cli, &job->arrays, path, job->n_queries, job->k,
                          kf_metric_name(kf_gallery_metric(job->gallery)));
  if (is_stdout(path) && job->cli->args.json) return EXIT_OK;
  return out_file_open(job->cli, &job->text, path);
}

static int commit_output(search_job *job) {
  const char *path = job->cli->args.output;
  if (is_stdout(path)) return EXIT_OK;
  int result = job->as_arrays ? array_out_commit(job->cli, &job->arrays)
                              : out_file_commit(job->cli, &job->text);
  if (result == EXIT_OK)
    say_written(job->cli, path, "the %s of %s%s%s",
                show_counted(job->k, "nearest row", "nearest rows").text,
                show_counted(job->report.queries, "query", "queries").text,
                job->arrays.scores_path ? ", and their scores in " : "",
                job->arrays.scores_path ? job->arrays.scores_path : "");
  return result;
}

static void print_json(const search_job *job) {
  const kf_gallery *g = job->gallery;
  double queries = (double)job->report.queries;
  cli_json j = {stdout, 0};
  jw_open(&j, NULL, '{');
  jw_count(&j, "queries", job->report.queries);
  jw_count(&j, "n_bad", bad_queries(job));
  jw_count(&j, "rows", kf_gallery_rows(g));
  jw_count(&j, "dim_in", kf_gallery_dim_in(g));
  jw_count(&j, "dim", kf_gallery_dim(g));
  jw_count(&j, "k", job->k);
  jw_text(&j, "metric", kf_metric_name(kf_gallery_metric(g)));
  jw_real(&j, "candidates_per_query", (double)job->report.candidates / queries);
  jw_real(&j, "load_seconds", job->load_seconds);
  jw_real(&j, "search_seconds", job->search_seconds);
  jw_real(&j, "queries_per_second", queries / job->search_seconds);
  jw_text(&j, "isa", kf_isa_name(kf_ctx_isa(job->cli->ctx)));
  jw_count(&j, "threads", kf_ctx_threads(job->cli->ctx));
  jw_end(&j);
}

static int search(search_job *job) {
  TRY(make_buffers(job));
  TRY(open_output(job));
  TRY(search_all(job));
  TRY(commit_output(job));
  if (job->cli->args.json) print_json(job);
  return EXIT_OK;
}

/* --- the command ------------------------------------------------------------------------------ */

static int check_operands(cli_run *cli) {
  const cli_list *operands = &cli->args.operands;
  if (cli->args.search.itself && cli->args.encoder.folder)
    return fail_usage(cli, "--encoder cannot be used with --itself");
  if (cli->args.search.itself && operands->n > 1)
    return fail_usage(cli, "unexpected argument '%s' with --itself", operands->items[1]);
  if (!cli->args.search.itself && operands->n < 2)
    return fail_usage(cli, "missing argument: QUERIES (or --itself, to search the rows of %s)",
                      operands->items[0]);
  return EXIT_OK;
}

/* The scores next to OUT.npy are an output, too. */
static int check_scores(cli_run *cli, const kf_data *queries) {
  char *path = scores_path(cli->args.output);
  if (!path) return fail(cli, KF_ERR_MEM);
  int result = check_output(cli, path);
  if (result == EXIT_OK && queries) result = check_replaces_no_data(cli, queries, path);
  free(path);
  return result;
}

static int check_outputs(cli_run *cli) {
  const char *path = cli->args.output;
  if (!path) return EXIT_OK;
  if (is_stdout(path))
    return cli->args.json ? fail_usage(cli, "with --json the answers need a file name, not '-'")
                          : EXIT_OK;
  int result = check_output(cli, path);
  if (result != EXIT_OK || ends_with(path, ".safetensors") || ends_with(path, ".tsv"))
    return result;
  if (ends_with(path, ".npy")) return check_scores(cli, NULL);
  return fail_usage(cli, "%s: the name of the answers must end in .npy, .safetensors or .tsv",
                    path);
}

static int open_queries(search_job *job) {
  const char *path = job->cli->args.output;
  TRY(queries_open(job->cli, 1, &job->queries));
  TRY(check_queries(job->cli, &job->queries, kf_gallery_mapped(job->gallery), ", or use --itself",
                    kf_gallery_dim_in(job->gallery), "gallery"));
  TRY(check_query_encoder(job->cli, &job->queries, kf_gallery_origin(job->gallery)));
  if (path && ends_with(path, ".npy")) TRY(check_scores(job->cli, job->queries.data));
  job->n_queries = job->queries.n;
  return EXIT_OK;
}

static int open_inputs(search_job *job) {
  const char *path = job->cli->args.operands.items[0];
  double begun = now();
  TRY(load_gallery(job->cli, path, &job->gallery));
  job->load_seconds = now() - begun;
  job->n_queries = kf_gallery_rows(job->gallery);
  if (!job->itself) TRY(open_queries(job));
  uint64_t most = kf_gallery_rows(job->gallery) - (uint64_t)job->itself;
  return choose_k(job->cli, path, most, &job->k);
}

static int run(cli_run *cli) {
  search_job job = {.cli = cli, .itself = cli->args.search.itself};
  int result = check_operands(cli);
  if (result == EXIT_OK) result = check_outputs(cli);
  if (result == EXIT_OK) result = open_inputs(&job);
  if (result == EXIT_OK) result = search(&job);
  out_file_abort(&job.text);
  array_out_abort(&job.arrays);
  return result;
}

static const cli_group own_options = {
    "Options",
    OPTIONS(
        {NEIGHBOURS, .help = "rows per query, 1 to 1024 (default: 15, or all if there are fewer)"},
        {OUTPUT("OUT"), .help = "write to .npy, .safetensors or .tsv instead of standard output"},
        {FLAG("itself", search.itself),
         .help = "the queries are the rows of the gallery, each searched among the others"},
        {FLAG("rerank-from-disk", search.rerank_from_disk),
         .help = "keep only the 8-bit copy in memory, and read candidates from the file"},
        {JSON,
         .help = "one JSON object about the search and its time; the answers go to -o only"})};

const cli_command search_command = {
    .name = "search",
    .operands = "GALLERY [QUERIES...|PICTURES...]",
    .summary = "find the nearest rows of every query",
    .details =
        "The nearest rows are exact: the same as comparing with every row in double precision. Of "
        "equal scores the lower row number comes first. Queries are given in the original space; "
        "a gallery made with a model carries the map and applies it to them.\n\n"
        "The answers are printed as text, best first: a header line and one line per query, "
        "separated by tabs, with its number, counted from 0, then row, label (if the gallery has "
        "labels) and score of the nearest row, of the second nearest and so on. The score is the "
        "cosine or the inner product (larger is nearer) or the Euclidean distance (smaller is "
        "nearer). If the gallery has ids, they are printed instead of row numbers.\n\n"
        "-o OUT.tsv writes the same to a file; OUT.npy holds row numbers, [queries, K] int64, "
        "with the scores in OUT_scores.npy, f64; OUT.safetensors holds both, as 'rows' and "
        "'scores'.\n\n"
        "With --skip-bad, bad queries have no line of text; in arrays they keep their place, with "
        "row numbers -1 and scores NaN.\n\n"
        "With --encoder, the queries are pictures, folders of pictures or patterns (see 'koofu "
        "embed'), and lines begin with the path of the picture; --skip-bad leaves out pictures "
        "that cannot be read.\n\n"
        "With --json, search_seconds is the time of the search alone, without loading the gallery "
        "(load_seconds), reading queries and writing answers; candidates_per_query is the number "
        "of rows that had to be scored in double precision.",
    .groups = GROUPS(&own_options, &encoder_options, &row_options),
    .examples = EXAMPLES(
        {"The nearest photos", "koofu search gallery.safetensors query.npy -k 5"},
        {"What looks like this one?",
         "koofu search gallery.safetensors photo.jpg --encoder clip -k 5"},
        {"For a program", "koofu search gallery.safetensors queries.npy -k 100 -o near.npy"},
        {"Near duplicates within a gallery",
         "koofu search gallery.safetensors --itself -k 1 -o pairs.tsv"}),
    .run = run,
};
