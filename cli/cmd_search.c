/* cmd_search.c - koofu search: the nearest rows of every query. */
#include "array_out.h"
#include "commands.h"
#include "format.h"
#include "galleries.h"
#include "out_file.h"
#include "outputs.h"
#include "owned.h"
#include "ranges_out.h"
#include "records.h"
#include "search_page.h"
#include "search_parts.h"
#include "search_unique.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A run: its inputs, the current block, and the output. */
typedef struct search_job {
  cli_run *cli;
  kf_gallery *gallery;
  const char **paths; /* of several galleries; NULL: there is one */
  int itself;         /* the queries are the rows of the gallery */
  search_parts queries;
  uint64_t n_queries; /* bad ones included */
  uint32_t k;         /* 0: all rows within the limit */
  double limit;
  kf_filter *only;       /* NULL: all rows take part */
  uint64_t room;         /* queries at a time, at most */
  kf_reader_block block; /* with itself: empty */
  int64_t *rows;         /* [room][k] */
  double *scores;
  kf_search_report report;
  double load_seconds, search_seconds;
  int as_arrays;
  array_out arrays;
  ranges_out ranges; /* in their place, with a limit */
  records_out records;
  out_file text;
  cli_json json; /* with answers, if there is no other output for them */
  search_page page;
} search_job;

/* --- text and JSON ---------------------------------------------------------------------------- */

/* What is known before the answers. */
static void open_json(search_job *job) {
  const kf_gallery *g = job->gallery;
  cli_json *j = &job->json;
  *j = (cli_json){stdout, 0};
  jw_open(j, NULL, '{');
  jw_count(j, "rows", kf_gallery_rows(g));
  jw_count(j, "dim_in", kf_gallery_dim_in(g));
  jw_count(j, "dim", kf_gallery_dim(g));
  if (job->k)
    jw_count(j, "k", job->k);
  else
    jw_real(j, "within", job->limit);
  jw_text(j, "metric", kf_metric_name(kf_gallery_metric(g)));
  jw_count(j, "text_queries", job->queries.text);
  jw_text(j, "text_mean", job->queries.mean);
}

/* The answer to query i of a block; `first`: of the first one, in the gallery itself. */
static search_answer answer_to(const search_job *job, const search_part *part, uint64_t first,
                               uint64_t i) {
  uint64_t own = part ? job->block.numbers[i] : first + i;
  return (search_answer){.gallery = job->gallery,
                         .paths = job->paths,
                         .query = part ? part->first + own : own,
                         .id = part ? kf_reader_id(part->queries.reader, own)
                                    : kf_gallery_id(job->gallery, own),
                         .text = part && part->text};
}

/* A record for each row of an answer, if they are wanted; the answer is that of query i of a block. */
static int put_records(search_job *job, const search_part *part, uint64_t number, uint64_t i,
                       search_answer answer) {
  if (!job->records.file) return EXIT_OK;
  uint64_t own = part ? job->block.numbers[i] : number;
  answer.id = records_id(job->cli, &job->records, part ? part->queries.data : NULL, own, answer.id);
  return records_put_answer(job->cli, &job->records, &answer);
}

static int print_answers(search_job *job, const search_part *part, uint64_t first, uint64_t found) {
  for (uint64_t i = 0; i < found; i++) {
    search_answer answer = answer_to(job, part, first, i);
    answer.k = job->k;
    answer.rows = job->rows + i * job->k;
    answer.scores = job->scores + i * job->k;
    if (job->text.file) print_search_answer(job->text.file, &answer);
    TRY(put_records(job, part, first + i, i, answer));
    if (job->json.file) json_search_answer(&job->json, &answer);
    TRY(search_page_add(job->cli, &job->page, &answer));
  }
  return EXIT_OK;
}

/* Queries from `done` of a block on, with all their rows; as text, one in each line. */
static int print_ranges(search_job *job, const search_part *part, uint64_t first, uint64_t done,
                        const kf_ranges *r) {
  if (job->as_arrays)
    return ranges_out_put(job->cli, &job->ranges, r, part ? job->block.numbers + done : NULL,
                          part ? part->first : 0);
  for (uint64_t i = 0; i < r->queries; i++) {
    uint64_t begin = i > 0 ? r->ends[i - 1] : 0;
    search_answer answer = answer_to(job, part, first, done + i);
    answer.k = 1;
    for (uint64_t t = begin; job->text.file && t < r->ends[i]; t++) {
      answer.rows = r->rows + t;
      answer.scores = r->scores + t;
      print_search_answer(job->text.file, &answer);
    }
    answer.k = (uint32_t)(r->ends[i] - begin);
    answer.rows = r->rows + begin;
    answer.scores = r->scores + begin;
    TRY(put_records(job, part, first + done + i, done + i, answer));
    if (job->json.file) json_search_answer(&job->json, &answer);
  }
  return EXIT_OK;
}

/* --- arrays ----------------------------------------------------------------------------------- */

/* Moves the answers of a block to the places of their queries; bad queries get row -1 and score NaN.
 * From the back, since answers only move backwards. */
static void spread(search_job *job, uint64_t n) {
  const kf_reader_block *b = &job->block;
  size_t k = job->k;
  uint64_t good = b->n;
  for (uint64_t i = n; i-- > 0;) {
    int is_good = good > 0 && b->numbers[good - 1] == b->first + i;
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

/* Searches n queries of a part (NULL: rows of the gallery itself, from `first` on); *found is how many
 * of them have answers. */
static int search_block(search_job *job, const search_part *part, uint64_t first, uint64_t n,
                        uint64_t *found) {
  kf_ctx *ctx = job->cli->ctx;
  kf_reader_block *b = &job->block;
  kf_search_options options = {.text_mean = part ? part->text_mean : NULL, .only = job->only};
  kf_status status = part ? kf_reader_next(ctx, part->queries.reader, b) : KF_OK;
  if (status != KF_OK) return fail(job->cli, status);
  *found = part ? b->n : n;
  double begun = now();
  if (!part)
    status = kf_gallery_search_itself(ctx, job->gallery, first, n, job->k, job->rows, job->scores,
                                      &job->report);
  else if (b->n > 0)
    status = kf_gallery_search(ctx, job->gallery, b->rows, b->n, job->k, &options, job->rows,
                               job->scores, &job->report);
  job->search_seconds += now() - begun;
  return result_of(job->cli, status);
}

/* Before the first answers. */
static void begin_answers(search_job *job) {
  if (job->text.file) print_search_header(job->text.file, job->gallery, job->k);
  if (!job->cli->args.json || !is_stdout(job->cli->args.output)) return;
  open_json(job);
  jw_open(&job->json, "answers", '[');
}

/* The same with a limit: searches n queries and prints what is within it. */
static int range_block(search_job *job, const search_part *part, uint64_t before, uint64_t first,
                       uint64_t n) {
  kf_ctx *ctx = job->cli->ctx;
  const kf_reader_block *b = &job->block;
  kf_search_options options = {.text_mean = part ? part->text_mean : NULL, .only = job->only};
  if (part) TRY(result_of(job->cli, kf_reader_next(ctx, part->queries.reader, &job->block)));
  if (part) n = b->n;
  for (uint64_t done = 0; done < n;) {
    kf_ranges *r;
    double begun = now();
    kf_status status = part ? kf_gallery_within(ctx, job->gallery,
                                                b->rows + done * kf_gallery_dim_in(job->gallery),
                                                n - done, job->limit, &options, &r, &job->report)
                            : kf_gallery_within_itself(ctx, job->gallery, first + done, n - done,
                                                       job->limit, job->only, &r, &job->report);
    job->search_seconds += now() - begun;
    TRY(result_of(job->cli, status));
    if (before + first == 0 && done == 0) begin_answers(job);
    int result = print_ranges(job, part, first, done, r);
    done += r->queries;
    kf_ranges_free(r);
    TRY(result);
  }
  return EXIT_OK;
}

/* `first` counts all queries. */
static int put_block(search_job *job, const search_part *part, uint64_t first, uint64_t n,
                     uint64_t found) {
  if (first == 0) begin_answers(job);
  TRY(print_answers(job, part, part ? first - part->first : first, found));
  if (!job->as_arrays) return EXIT_OK;
  if (found < n) spread(job, n);
  return array_out_put(job->cli, &job->arrays, first, n, job->rows, job->scores);
}

static uint64_t bad_queries(const search_job *job) {
  return job->itself ? 0 : search_parts_bad(&job->queries);
}

/* n queries, of a part or of the gallery itself, `room` at a time; `before`: queries of other
 * parts. */
static int search_part_of(search_job *job, const search_part *part, uint64_t before, uint64_t n,
                          uint64_t room) {
  for (uint64_t first = 0; first < n; first += room) {
    if (progress_report(job->cli, "search", before + first, job->n_queries))
      return fail(job->cli, KF_ERR_CANCELLED);
    uint64_t left = n - first, count = left < room ? left : room, found = 0;
    if (job->k == 0) {
      TRY(range_block(job, part, before, first, count));
    } else {
      TRY(search_block(job, part, first, count, &found));
      TRY(put_block(job, part, before + first, count, found));
    }
    if (job->text.file && ferror(job->text.file)) break; /* reported when the file is closed */
  }
  return EXIT_OK;
}

/* Rows that are not said to be text but lie where text does. */
static void say_far(search_job *job) {
  const kf_search_report *r = &job->report;
  if (job->itself || job->cli->args.encoder.folder || job->queries.text || r->far * 2 <= r->queries)
    return;
  say(job->cli,
      "%s of %s hardly look like the rows that the model was fitted to; if they are embeddings of "
      "text, give --text-queries",
      show_count(r->far).text, show_counted(r->queries, "query", "queries").text);
}

static int search_all(search_job *job) {
  if (job->itself) TRY(search_part_of(job, NULL, 0, job->n_queries, job->room));
  for (size_t i = 0; i < job->queries.n; i++) {
    const search_part *part = &job->queries.parts[i];
    TRY(search_part_of(job, part, part->first, part->queries.n, part->room));
  }
  if (bad_queries(job))
    say(job->cli, "left out %s", show_counted(bad_queries(job), "bad query", "bad queries").text);
  if (!job->itself) say_search_text(job->cli, &job->queries);
  say_far(job);
  return EXIT_OK;
}

static int make_buffers(search_job *job) {
  job->room = kf_gallery_batch(job->cli->ctx, job->gallery);
  if (job->room > job->n_queries) job->room = job->n_queries;
  if (!job->itself) TRY(search_parts_start(job->cli, &job->queries, &job->room));
  job->rows = own_memory(job->cli, job->room, job->k * sizeof *job->rows);
  job->scores = own_memory(job->cli, job->room, job->k * sizeof *job->scores);
  return job->rows && job->scores ? EXIT_OK : fail(job->cli, KF_ERR_MEM);
}

/* --- the outputs ------------------------------------------------------------------------------ */

static int open_output(search_job *job) {
  const char *path = job->cli->args.output;
  job->as_arrays = !is_stdout(path) && !ends_with(path, ".tsv") && !is_parquet(path);
  if (is_parquet(path)) {
    records_of_search(&job->records, job->gallery);
    return records_open(job->cli, &job->records, path);
  }
  const char *metric = kf_metric_name(kf_gallery_metric(job->gallery));
  if (job->as_arrays && job->k == 0)
    return ranges_out_open(job->cli, &job->ranges, path, job->n_queries, job->limit, metric);
  if (job->as_arrays)
    return array_out_open(job->cli, &job->arrays, path, job->n_queries, job->k, metric);
  if (is_stdout(path) && job->cli->args.json) return EXIT_OK;
  if (!path && job->cli->args.search.html) return EXIT_OK; /* the page has them */
  return out_file_open(job->cli, &job->text, path);
}

static int commit_answers(search_job *job) {
  if (is_stdout(job->cli->args.output)) return EXIT_OK;
  if (job->records.file) return records_commit(job->cli, &job->records);
  if (job->as_arrays && job->k == 0) return ranges_out_commit(job->cli, &job->ranges);
  return job->as_arrays ? array_out_commit(job->cli, &job->arrays)
                        : out_file_commit(job->cli, &job->text);
}

static void say_answers(const search_job *job) {
  const char *path = job->cli->args.output, *scores = job->arrays.scores_path;
  if (!is_stdout(path) && job->k == 0)
    say_written(job->cli, path, "the rows within %g of %s", job->limit,
                show_counted(job->report.queries, "query", "queries").text);
  else if (!is_stdout(path))
    say_written(job->cli, path, "the %s of %s%s%s",
                show_counted(job->k, "nearest row", "nearest rows").text,
                show_counted(job->report.queries, "query", "queries").text,
                scores ? ", and their scores in " : "", scores ? scores : "");
}

/* Answers and page, or neither. */
static int write_outputs(search_job *job) {
  cli_run *cli = job->cli;
  int page = cli->args.search.html != NULL;
  TRY(open_output(job));
  TRY(search_all(job));
  TRY(result_of(cli, kf_outputs_begin(cli->ctx)));
  TRY(commit_answers(job));
  if (page)
    TRY(search_page_write(cli, &job->page, job->gallery, job->k, job->report.queries,
                          job->queries.mean));
  TRY(result_of(cli, kf_outputs_commit(cli->ctx)));
  say_answers(job);
  if (page) search_page_say(cli, &job->page, job->report.queries);
  return EXIT_OK;
}

/* What is known after the answers. */
static void close_json(search_job *job) {
  double queries = (double)job->report.queries;
  cli_json *j = &job->json;
  if (j->file)
    jw_close(j, ']');
  else
    open_json(job);
  jw_count(j, "queries", job->report.queries);
  jw_count(j, "n_bad", bad_queries(job));
  jw_real(j, "load_seconds", job->load_seconds);
  jw_real(j, "search_seconds", job->search_seconds);
  jw_real(j, "queries_per_second", queries / job->search_seconds);
  jw_text(j, "isa", kf_isa_name(kf_ctx_isa(job->cli->ctx)));
  jw_count(j, "threads", kf_ctx_threads(job->cli->ctx));
  jw_end(j);
}

static int search(search_job *job) {
  TRY(make_buffers(job));
  const cli_args *a = &job->cli->args;
  if (a->search.html) TRY(search_page_start(job->cli, &job->page, job->n_queries, job->k));
  TRY(write_outputs(job));
  if (job->cli->args.json) close_json(job);
  return EXIT_OK;
}

/* --- the command ------------------------------------------------------------------------------ */

/* A limit may be negative. */
static int parse_limit(cli_run *cli, const char *option, const char *text, double *out) {
  char *end = NULL;
  int plain = *text && strspn(text, "0123456789.eE+-") == strlen(text);
  *out = plain ? strtod(text, &end) : 0;
  if (plain && !*end && isfinite(*out)) return EXIT_OK;
  return fail_usage(cli, "%s must be a number, not '%.60s'", option, text);
}

/* --within and --unique give what no array of K columns holds; there is no .npy of it. */
static int check_limits(cli_run *cli) {
  const struct search_args *s = &cli->args.search;
  const char *option = s->unique ? "--unique" : "--within", *path = cli->args.output;
  if (s->keep && !s->unique) return fail_usage(cli, "--keep needs --unique LIMIT");
  if (!s->within && !s->unique) return EXIT_OK;
  if (s->within && s->unique) return fail_usage(cli, "--within cannot be used with --unique");
  if (s->k.given) return fail_usage(cli, "-k cannot be used with %s", option);
  if (s->html) return fail_usage(cli, "--html cannot be used with %s", option);
  if (s->unique &&
      (s->itself || s->only || s->only_ids || cli->args.encoder.folder || cli->args.operands.n > 1))
    return fail_usage(cli,
                      "--unique looks at all rows, and takes neither queries nor a choice of rows");
  if (!path || is_stdout(path) || ends_with(path, ".tsv")) return EXIT_OK;
  if (s->within && (ends_with(path, ".safetensors") || is_parquet(path))) return EXIT_OK;
  return fail_usage(cli, "%s: the name of the answers with %s must end in %s", path, option,
                    s->within ? ".safetensors, .parquet or .tsv" : ".tsv");
}

static int check_operands(cli_run *cli) {
  const cli_list *operands = &cli->args.operands;
  const struct search_args *s = &cli->args.search;
  TRY(check_limits(cli));
  if (s->unique) return EXIT_OK;
  if (cli->args.metric) return fail_usage(cli, "--metric needs --unique: a gallery has its own");
  if (s->itself && (s->only || s->only_ids) && !s->within)
    return fail_usage(cli, "--%s cannot be used with --itself, unless --within is given",
                      s->only ? "only" : "only-ids");
  if (cli->args.search.itself && cli->args.encoder.folder)
    return fail_usage(cli, "--encoder cannot be used with --itself");
  if (cli->args.search.itself && operands->n > 1)
    return fail_usage(cli, "unexpected argument '%s' with --itself", operands->items[1]);
  if (!cli->args.search.itself && operands->n < 2)
    return fail_usage(cli, "missing argument: QUERIES (or --itself, to search the rows of %s)",
                      operands->items[0]);
  return check_search_text(cli);
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

static int check_page(cli_run *cli) {
  const struct search_args *s = &cli->args.search;
  if (s->html && is_stdout(s->html)) return fail_usage(cli, "--html needs a file name, not '-'");
  if (s->html) TRY(check_output(cli, s->html));
  if ((s->pictures || cli->args.report.title) && !s->html)
    return fail_usage(cli, "--%s needs --html FILE", s->pictures ? "pictures" : "title");
  return s->html ? check_outputs_differ(cli, s->html, cli->args.output) : EXIT_OK;
}

static int check_outputs(cli_run *cli) {
  const char *path = cli->args.output;
  TRY(check_page(cli));
  if (!path) return EXIT_OK;
  if (is_stdout(path)) return EXIT_OK;
  int result = check_output(cli, path);
  if (result != EXIT_OK || ends_with(path, ".safetensors") || ends_with(path, ".tsv") ||
      is_parquet(path))
    return result;
  if (ends_with(path, ".npy")) return check_scores(cli, NULL);
  return fail_usage(
      cli, "%s: the name of the answers must end in .npy, .safetensors, .parquet or .tsv", path);
}

static int open_queries(search_job *job) {
  const char *path = job->cli->args.output;
  TRY(search_parts_open(job->cli, job->gallery, &job->queries));
  if (path && ends_with(path, ".npy"))
    TRY(check_scores(job->cli, job->queries.parts[0].queries.data));
  if (job->cli->args.search.html && job->queries.parts[0].queries.data)
    TRY(check_replaces_no_data(job->cli, job->queries.parts[0].queries.data,
                               job->cli->args.search.html));
  job->n_queries = job->queries.queries;
  return EXIT_OK;
}

/* About how many queries there will be, as far as that is known before they are opened: a stream can
 * be read only once, and a folder may hold anything. */
static uint64_t expected_queries(const search_job *job) {
  const cli_list *operands = &job->cli->args.operands;
  uint64_t rows = 0;
  if (job->itself) return UINT64_MAX;
  for (size_t i = 1; i < operands->n; i++) {
    const char *path = operands->items[i];
    struct stat info;
    kf_info *about;
    if (!ends_with(path, ".npy") && !ends_with(path, ".safetensors")) continue;
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) continue;
    if (kf_info_read(job->cli->ctx, path, &about) != KF_OK) continue;
    rows += about->rows;
    kf_info_free(about);
  }
  return rows;
}

/* --only and --only-ids. */
static int choose_rows(search_job *job) {
  const struct search_args *s = &job->cli->args.search;
  kf_id_list ids = {.file = s->only_ids};
  kf_filter_options options = {.classes = s->only, .ids = s->only_ids ? &ids : NULL};
  if (!s->only && !s->only_ids) return EXIT_OK;
  kf_status status = kf_filter_new(job->cli->ctx, job->gallery, &options, &job->only);
  return status == KF_OK ? own_filter(job->cli, job->only) : fail(job->cli, status);
}

/* With --also. */
static int list_galleries(search_job *job) {
  const cli_list *also = &job->cli->args.search.also;
  if (also->n == 0) return EXIT_OK;
  job->paths = own_memory(job->cli, also->n + 1, sizeof *job->paths);
  if (!job->paths) return fail(job->cli, KF_ERR_MEM);
  job->paths[0] = job->cli->args.operands.items[0];
  for (size_t i = 0; i < also->n; i++) job->paths[i + 1] = also->items[i];
  return EXIT_OK;
}

static int open_inputs(search_job *job) {
  const char *path = job->cli->args.operands.items[0];
  TRY(list_galleries(job));
  double begun = now();
  TRY(load_gallery(job->cli, path, expected_queries(job), &job->gallery));
  job->load_seconds = now() - begun;
  job->n_queries = kf_gallery_rows(job->gallery);
  if (!job->itself) TRY(open_queries(job));
  TRY(choose_rows(job));
  if (job->cli->args.search.within) return EXIT_OK;
  uint64_t most = kf_gallery_rows(job->gallery) - (uint64_t)job->itself;
  if (job->only) most = kf_filter_rows(job->only);
  return choose_k(job->cli, path, most, &job->k);
}

static int run(cli_run *cli) {
  search_job job = {.cli = cli, .itself = cli->args.search.itself, .ranges = {.scores = -1}};
  const char *unique = cli->args.search.unique, *within = cli->args.search.within;
  int result = check_operands(cli);
  if (result == EXIT_OK && (unique || within))
    result =
        parse_limit(cli, unique ? "--unique" : "--within", unique ? unique : within, &job.limit);
  if (result == EXIT_OK) result = check_outputs(cli);
  if (result == EXIT_OK && unique) return search_unique(cli, job.limit);
  if (result == EXIT_OK) result = open_inputs(&job);
  if (result == EXIT_OK) result = search(&job);
  out_file_abort(&job.text);
  array_out_abort(&job.arrays);
  ranges_out_abort(&job.ranges);
  records_abort(&job.records);
  kf_outputs_abort(cli->ctx);
  return result;
}

static const char *const search_metrics[] = {"cosine", "euclidean", "inner", NULL};

static const cli_group own_options = {
    "Options",
    OPTIONS(
        {NEIGHBOURS, .help = "rows per query, 1 to 1024 (default: 15, or all if there are fewer)"},
        {OUTPUT("OUT"),
         .help = "write to .npy, .safetensors, .parquet or .tsv instead of standard output"},
        {FLAG("itself", search.itself),
         .help = "the queries are the rows of the gallery, each searched among the others"},
        {INPUTS("also", search.also, "GALLERY"),
         .help = "search this gallery as well, as if its rows followed (may be repeated)"},
        {TEXT("within", search.within, "LIMIT"),
         .help = "instead of K rows, all with a score of at least LIMIT (a distance of at most)"},
        {INPUT("only", search.only, "FILE"),
         .help = "search among rows of these classes alone, one name per line"},
        {INPUT("only-ids", search.only_ids, "FILE"),
         .help = "search among rows with these ids alone, one per line"},
        {TEXT("unique", search.unique, "LIMIT"),
         .help = "groups of rows of a gallery or data set that are within LIMIT of one another"},
        {TEXT("keep", search.keep, "FILE"),
         .help = "with --unique: write the ids of the rows to keep, the first of each group"},
        {METRIC(search_metrics),
         .help = "with --unique, for a data set: cosine (default), euclidean or inner"},
        {FLAG("rerank-from-disk", search.rerank_from_disk),
         .help = "keep only the 8-bit copy in memory, and read candidates from the file"},
        {FLAG("text-queries", search.text),
         .help = "the queries are embeddings of text, and the gallery is of pictures"},
        {INPUT("text-mean", search.text_mean, "FILE"),
         .help = "subtract the mean of these embeddings from text queries (default: chosen "
                 "automatically and reported)"},
        {TEXT("html", search.html, "FILE"),
         .help = "write the answers as a page, with small pictures if ids are their paths"},
        {TEXT("pictures", search.pictures, "FOLDER"),
         .help = "where ids that are relative paths start (default: the current folder)"},
        {TITLE},
        {JSON, .help = "one JSON object with the answers, unless -o takes them, and the time"})};

const cli_command search_command = {
    .name = "search",
    .operands = "GALLERY [QUERIES...|PICTURES...|WORDS...]",
    .summary = "find the nearest rows of every query",
    .details =
        "The nearest rows are exact: the same as comparing with every row without any rounding. Of "
        "equally near rows the lower number comes first. Queries are given in the original space; "
        "a gallery made with a model carries the map and applies it to them.\n\n"
        "The answers are printed as text, best first: a header line and one line per query, "
        "separated by tabs, with its number, counted from 0, then row, label (if the gallery has "
        "labels) and score of the nearest row, of the second nearest and so on. The score is the "
        "cosine or the inner product (larger is nearer) or the Euclidean distance (smaller is "
        "nearer). If the gallery has ids, they are printed instead of row numbers.\n\n"
        "-o OUT.tsv writes the same to a file; OUT.npy holds row numbers, [queries, K] int64, "
        "with the scores in OUT_scores.npy, f64; OUT.safetensors holds both, as 'rows' and "
        "'scores'; OUT.parquet has a record for each answer, with columns query, query_id, rank, "
        "row, id and label (if the gallery has them) and score.\n\n"
        "With --also, several galleries are searched as one, with the answers of one gallery that "
        "holds all "
        "their rows; they must have the same metric and the same model, if any. Rows are printed "
        "as "
        "GALLERY:ROW, or GALLERY:ID; with --json 'gallery' and 'row' say the same. In arrays, rows "
        "are "
        "counted through all galleries in the order given.\n\n"
        "With --within LIMIT, the answers are all rows whose score is LIMIT or better, as it is "
        "computed, "
        "before it is rounded for printing: one line for each, with the query, the row, its label "
        "and its "
        "score, best first. Queries without such rows have no line. With --json they are in "
        "'neighbours'. -o OUT.safetensors holds them as a sparse matrix: rows and scores of query "
        "i are "
        "those from indptr[i] to indptr[i + 1].\n\n"
        "--only and --only-ids choose the rows that are searched: the answers are those of a "
        "gallery of "
        "these rows alone, with the row numbers of this one. Both together take rows that are in "
        "both.\n\n"
        "--unique LIMIT compares all rows of a gallery, or of a data set, with each other. Rows "
        "within "
        "LIMIT of one another are in one group, and so are those that a chain of such pairs "
        "connects. Each "
        "line has the number of a group and a row of it; rows that stand alone have none.\n\n"
        "With --skip-bad, bad queries have no line of text; in arrays they keep their place, with "
        "row numbers -1 and scores NaN.\n\n"
        "With --encoder, each query is a picture, a folder of pictures or a pattern (see 'koofu "
        "embed') or, if no file has this name, words; lines begin with the path of the picture or "
        "the words, in the order of the command line. Words are embedded as they are: 'a photo of "
        "a red fox' is closer to what CLIP has learnt than 'red fox'. A name that ends like a "
        "file's or has a slash in it is never words. --skip-bad leaves out pictures that cannot be "
        "read.\n\n"
        "Embeddings of text lie elsewhere than those of pictures. In a gallery made with a model "
        "this would spoil the answers, so a mean of texts is subtracted from text queries: that of "
        "--text-mean FILE; otherwise for words that of a hundred everyday texts through the same "
        "encoder; otherwise, for --text-queries, that of the queries, of which there must be "
        "at least 10. The choice is reported. In a gallery without a model, text is compared as it "
        "is, "
        "unless "
        "--text-mean is given.\n\n"
        "--html FILE writes one page that needs nothing else, without scripts or links: the "
        "answers "
        "to the first queries, up to 1,000 rows, with small copies of the first 200 pictures that "
        "queries and ids name. Without -o and --json the answers then go there alone.\n\n"
        "With --json, 'answers' is a list with one entry per query: its number 'query', its 'id' "
        "(path or words) if it has one, whether it is 'text', and its 'neighbours', best first, "
        "each with 'row', 'id' and 'label' (if the gallery has them) and 'score'. Bad queries left "
        "out have no entry. The output is one JSON document, written as answers arrive. "
        "search_seconds is the "
        "time of the search alone, without loading the gallery (load_seconds), reading queries and "
        "writing answers.",
    .groups = GROUPS(&own_options, &encoder_options, &row_options),
    .examples = EXAMPLES(
        {"The nearest photos", "koofu search gallery.safetensors query.npy -k 5"},
        {"What looks like this one?",
         "koofu search gallery.safetensors photo.jpg --encoder clip -k 5"},
        {"Words", "koofu search gallery.safetensors 'a photo of a red fox' --encoder clip -k 5"},
        {"Words, as a page with pictures",
         "koofu search gallery.safetensors 'a photo of a red fox' --encoder clip --html fox.html"},
        {"For a program", "koofu search gallery.safetensors queries.npy -k 100 -o near.npy"},
        {"In two galleries", "koofu search a.safetensors query.npy --also b.safetensors"},
        {"All that look alike", "koofu search gallery.safetensors query.npy --within 0.9"},
        {"Near duplicates of a data set, and the rows to keep",
         "koofu search photos.safetensors --unique 0.95 --keep keep.txt"},
        {"The nearest other row of each",
         "koofu search gallery.safetensors --itself -k 1 -o pairs.tsv"}),
    .run = run,
    .shared = 1,
};
