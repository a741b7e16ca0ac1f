/* cmd_search.c - koofu search: finds the nearest rows of every query. */
#include "commands.h"
#include "search.h"

#include <math.h>
#include <string.h>

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
  int begun;           /* the output has its header */
  sink *out;           /* lines, records or JSON */
  sink_arrays *arrays; /* or arrays; both NULL: a page */
  search_page page;
} search_job;

/* --- one query -------------------------------------------------------------------------------- */

/* Whether the answers are in the document of --json. */
static int in_document(const search_job *job) {
  return job->out && job->out->format == SINK_JSON && !job->out->path;
}

static void begin_document(const search_job *job, cli_json *j) {
  const kf_gallery *g = job->gallery;
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

/* Called once queries are accepted, so that a failure prints nothing. */
static int begin_answers(search_job *job) {
  if (job->begun++ || !job->out) return EXIT_OK;
  if (!in_document(job)) return put_search_header(job->out, job->gallery, job->k);
  cli_json *j = sink_document(job->out);
  begin_document(job, j);
  jw_open(j, "answers", '[');
  return EXIT_OK;
}

/* The k answers to query i of a block; `first` is its first row if the gallery searches itself. */
static search_answer answer_to(const search_job *job, const search_part *part, uint64_t first,
                               uint64_t i, uint32_t k, const int64_t *rows, const double *scores) {
  uint64_t row = part ? job->block.numbers[i] : first + i;
  return (search_answer){.gallery = job->gallery,
                         .paths = job->paths,
                         .query = part ? part->first + row : row,
                         .id = part ? kf_reader_id(part->queries.reader, row)
                                    : kf_gallery_id(job->gallery, row),
                         .text = part && part->text,
                         .k = k,
                         .rows = rows,
                         .scores = scores};
}

static int put_answer(search_job *job, const search_part *part, search_answer *answer) {
  const kf_data *data = part ? part->queries.data : NULL;
  if (data) TRY(read_id(job->cli, data, answer->query - part->first, &answer->id));
  if (job->out) TRY(put_search_answer(job->out, answer, job->k));
  return search_page_add(job->cli, &job->page, answer);
}

/* --- the nearest rows ------------------------------------------------------------------------- */

/* Moves the answers of a block to the places of their queries; bad queries get row -1 and score
 * NaN. Goes backwards, since answers only move towards the end. */
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

static kf_search_options options_for(const search_job *job, const search_part *part) {
  return (kf_search_options){.text_mean = part ? part->text_mean : NULL, .only = job->only};
}

/* Answers `found` good queries of the n in a block of a part (NULL: rows of the gallery itself,
 * from `first` on). */
static int answer_block(search_job *job, const search_part *part, uint64_t first, uint64_t n,
                        uint64_t found) {
  kf_ctx *ctx = job->cli->ctx;
  kf_search_options options = options_for(job, part);
  kf_status status = KF_OK;
  double begun = now();
  if (!part)
    status = kf_gallery_search_itself(ctx, job->gallery, first, n, job->k, job->rows, job->scores,
                                      &job->report);
  else if (found > 0)
    status = kf_gallery_search(ctx, job->gallery, job->block.rows, found, job->k, &options,
                               job->rows, job->scores, &job->report);
  job->search_seconds += now() - begun;
  TRY(result_of(job->cli, status));
  TRY(begin_answers(job));
  for (uint64_t i = 0; i < found; i++) {
    search_answer answer =
        answer_to(job, part, first, i, job->k, job->rows + i * job->k, job->scores + i * job->k);
    TRY(put_answer(job, part, &answer));
  }
  if (!job->arrays) return EXIT_OK;
  if (found < n) spread(job, n);
  return sink_put_arrays(job->arrays, part ? part->first + first : first, n, job->rows,
                         job->scores);
}

/* --- all rows within a limit ------------------------------------------------------------------ */

/* Queries from `done` of a block on, with all their rows. */
static int put_ranges(search_job *job, const search_part *part, uint64_t first, uint64_t done,
                      const kf_ranges *r) {
  if (job->arrays)
    return sink_put_ranges(job->arrays, r, part ? job->block.numbers + done : NULL,
                           part ? part->first : 0);
  for (uint64_t i = 0; i < r->queries; i++) {
    uint64_t begin = i > 0 ? r->ends[i - 1] : 0;
    search_answer answer = answer_to(job, part, first, done + i, (uint32_t)(r->ends[i] - begin),
                                     r->rows + begin, r->scores + begin);
    TRY(put_answer(job, part, &answer));
  }
  return EXIT_OK;
}

/* Each search answers as many queries as memory allows. */
static int range_block(search_job *job, const search_part *part, uint64_t first, uint64_t n) {
  kf_ctx *ctx = job->cli->ctx;
  kf_search_options options = options_for(job, part);
  uint32_t dim = kf_gallery_dim_in(job->gallery);
  for (uint64_t done = 0; done < n;) {
    kf_ranges *r;
    double begun = now();
    kf_status status = part ? kf_gallery_within(ctx, job->gallery, job->block.rows + done * dim,
                                                n - done, job->limit, &options, &r, &job->report)
                            : kf_gallery_within_itself(ctx, job->gallery, first + done, n - done,
                                                       job->limit, job->only, &r, &job->report);
    job->search_seconds += now() - begun;
    TRY(result_of(job->cli, status));
    int result = begin_answers(job);
    if (result == EXIT_OK) result = put_ranges(job, part, first, done, r);
    done += r->queries;
    kf_ranges_free(r);
    TRY(result);
  }
  return begin_answers(job);
}

/* --- all queries ------------------------------------------------------------------------------ */

static uint64_t bad_queries(const search_job *job) {
  return job->itself ? 0 : search_parts_bad(&job->queries);
}

/* The n queries of a part, or of the gallery itself, `room` at a time. */
static int search_part_of(search_job *job, const search_part *part, uint64_t n, uint64_t room) {
  cli_run *cli = job->cli;
  uint64_t before = part ? part->first : 0;
  for (uint64_t first = 0; first < n; first += room) {
    if (progress_report(cli, "search", before + first, job->n_queries))
      return fail(cli, KF_ERR_CANCELLED);
    uint64_t left = n - first, count = left < room ? left : room;
    if (part) TRY(result_of(cli, kf_reader_next(cli->ctx, part->queries.reader, &job->block)));
    uint64_t found = part ? job->block.n : count;
    TRY(job->k ? answer_block(job, part, first, count, found)
               : range_block(job, part, first, found));
    if (job->out && job->out->file && ferror(job->out->file)) break; /* sink_finish reports it */
  }
  return EXIT_OK;
}

/* Suggests --text-queries if most queries lie where text does. */
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
  if (job->itself) TRY(search_part_of(job, NULL, job->n_queries, job->room));
  for (size_t i = 0; i < job->queries.n; i++) {
    const search_part *part = &job->queries.parts[i];
    TRY(search_part_of(job, part, part->queries.n, part->room));
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
  cli_run *cli = job->cli;
  const char *path = cli->args.output;
  sink_format format = format_of(cli, path);
  if (format == SINK_NPY || format == SINK_SAFETENSORS)
    return sink_open_arrays(cli, path, job->n_queries, job->k, job->limit,
                            kf_metric_name(kf_gallery_metric(job->gallery)), &job->arrays);
  if (!path && cli->args.search.html && !cli->args.json) return EXIT_OK; /* the page has them */
  return sink_open(cli, path, format, &job->out);
}

static int finish_answers(search_job *job) {
  if (job->arrays) return sink_finish_arrays(job->arrays);
  return job->out ? sink_finish(job->out) : EXIT_OK;
}

/* The files are in place: nothing may fail any more. */
static void say_answers(const search_job *job) {
  cli_run *cli = job->cli;
  const char *path = cli->args.output;
  if (is_stdout(path)) return;
  const char *scores = ends_with(path, ".npy") ? scores_path(cli, path) : NULL;
  shown queries = show_counted(job->report.queries, "query", "queries");
  if (job->k == 0)
    say_written(cli, path, "the rows within %g of %s", job->limit, queries.text);
  else
    say_written(cli, path, "the %s of %s%s%s",
                show_counted(job->k, "nearest row", "nearest rows").text, queries.text,
                scores ? ", and their scores in " : "", scores ? scores : "");
}

/* Answers and page, or neither. */
static int write_outputs(search_job *job) {
  cli_run *cli = job->cli;
  int page = cli->args.search.html != NULL;
  TRY(open_output(job));
  TRY(search_all(job));
  TRY(result_of(cli, kf_outputs_begin(cli->ctx)));
  TRY(finish_answers(job));
  if (page)
    TRY(search_page_write(cli, &job->page, job->gallery, job->k, job->report.queries,
                          job->queries.mean));
  TRY(result_of(cli, kf_outputs_commit(cli->ctx)));
  say_answers(job);
  if (page) search_page_say(cli, &job->page, job->report.queries);
  return EXIT_OK;
}

static void close_json(search_job *job) {
  double queries = (double)job->report.queries;
  int own = in_document(job);
  cli_json document = own ? job->out->json : jw_begin(stdout), *j = &document;
  if (own)
    jw_close(j, "]");
  else
    begin_document(job, j);
  jw_count(j, "queries", job->report.queries);
  jw_count(j, "n_bad", bad_queries(job));
  jw_real(j, "load_seconds", job->load_seconds);
  jw_real(j, "search_seconds", job->search_seconds);
  jw_real(j, "queries_per_second", queries / job->search_seconds);
  jw_text(j, "isa", kf_isa_name(kf_ctx_isa(job->cli->ctx)));
  jw_count(j, "threads", kf_ctx_threads(job->cli->ctx));
  jw_end(j);
}

/* --- the command ------------------------------------------------------------------------------ */

static int check_limits(cli_run *cli) {
  const struct search_args *s = &cli->args.search;
  int unique = s->unique.given;
  if (!unique) TRY(need(cli, "keep", "--unique LIMIT"));
  if (!unique && !s->within.given) return EXIT_OK;
  TRY(refuse(cli, "neighbours html", unique ? "--unique" : "--within"));
  if (unique) TRY(refuse(cli, "within itself only only-ids encoder", "--unique"));
  if (unique && cli->args.operands.n > 1)
    return fail_usage(cli, "--unique compares all rows with each other and takes no queries");
  return EXIT_OK;
}

static int check_operands(cli_run *cli) {
  const cli_list *operands = &cli->args.operands;
  const struct search_args *s = &cli->args.search;
  TRY(check_limits(cli));
  if (s->unique.given) return EXIT_OK;
  TRY(need(cli, "metric", "--unique: a gallery has its own"));
  if (s->itself && !s->within.given)
    TRY(refuse(cli, "only only-ids", "--itself, unless --within is given"));
  if (s->itself) TRY(refuse(cli, "encoder text-queries text-mean", "--itself"));
  if (s->itself && operands->n > 1)
    return fail_usage(cli, "unexpected argument '%s' with --itself", operands->items[1]);
  if (!s->itself && operands->n < 2)
    return fail_usage(cli, "missing argument: QUERIES (or --itself, to search the rows of %s)",
                      operands->items[0]);
  return check_search_text(cli);
}

/* OUT_scores.npy beside OUT.npy is an output as well. */
static int check_scores(cli_run *cli, const kf_data *queries) {
  const char *path = scores_path(cli, cli->args.output);
  if (!path) return fail(cli, KF_ERR_MEM);
  TRY(check_output(cli, path));
  return queries ? check_replaces_no_data(cli, queries, path) : EXIT_OK;
}

static int check_page(cli_run *cli) {
  const char *page = cli->args.search.html;
  if (!page) return need(cli, "pictures title", "--html FILE");
  if (is_stdout(page)) return fail_usage(cli, "--html needs a file name, not '-'");
  TRY(check_output(cli, page));
  return check_outputs_differ(cli, page, cli->args.output);
}

/* No .npy can hold answers of different lengths, and groups are text. */
static int check_outputs(cli_run *cli) {
  const struct search_args *s = &cli->args.search;
  const char *path = cli->args.output;
  unsigned arrays = FORMAT(SINK_SAFETENSORS) | (s->within.given ? 0 : FORMAT(SINK_NPY));
  TRY(check_page(cli));
  if (s->keep) TRY(check_format(cli, s->keep, "the list of ids", FORMAT(SINK_TEXT)));
  TRY(check_format(cli, path,
                   s->unique.given   ? "the answers with --unique"
                   : s->within.given ? "the answers with --within"
                                     : "the answers",
                   s->unique.given ? TEXT_FORMATS : ROW_FORMATS | arrays));
  return path && ends_with(path, ".npy") ? check_scores(cli, NULL) : EXIT_OK;
}

static int open_queries(search_job *job) {
  cli_run *cli = job->cli;
  const char *path = cli->args.output, *page = cli->args.search.html;
  TRY(search_parts_open(cli, &job->queries));
  const kf_data *data = job->queries.parts[0].queries.data;
  if (path && ends_with(path, ".npy")) TRY(check_scores(cli, data));
  if (page && data) TRY(check_replaces_no_data(cli, data, page));
  job->n_queries = job->queries.queries;
  return EXIT_OK;
}

static int choose_rows(search_job *job) {
  const struct search_args *s = &job->cli->args.search;
  kf_id_list ids = {.file = s->only_ids};
  kf_filter_options options = {.classes = s->only, .ids = s->only_ids ? &ids : NULL};
  if (!s->only && !s->only_ids) return EXIT_OK;
  return own_filter(job->cli, kf_filter_new(job->cli->ctx, job->gallery, &options, &job->only),
                    &job->only);
}

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
  if (!job->itself) TRY(open_queries(job));
  double begun = now();
  TRY(load_gallery(job->cli, path, job->itself ? UINT64_MAX : job->n_queries, &job->gallery));
  job->load_seconds = now() - begun;
  if (job->itself) job->n_queries = kf_gallery_rows(job->gallery);
  TRY(search_parts_match(job->cli, &job->queries, job->gallery));
  TRY(choose_rows(job));
  if (job->cli->args.search.within.given) return EXIT_OK;
  uint64_t most = kf_gallery_rows(job->gallery) - (uint64_t)job->itself;
  if (job->only) most = kf_filter_rows(job->only);
  return choose_k(job->cli, path, most, &job->k);
}

static int run_search(cli_run *cli) {
  const struct search_args *s = &cli->args.search;
  search_job job = {.cli = cli, .itself = s->itself, .limit = s->within.value};
  TRY(check_operands(cli));
  TRY(check_outputs(cli));
  if (s->unique.given) return search_unique(cli, s->unique.value);
  TRY(open_inputs(&job));
  TRY(make_buffers(&job));
  if (s->html) TRY(search_page_start(cli, &job.page, job.n_queries, job.k));
  TRY(write_outputs(&job));
  if (cli->args.json) close_json(&job);
  return EXIT_OK;
}

static const cli_group own_options = {
    "Options",
    OPTIONS(
        {NEIGHBOURS, .help = "rows per query, 1 to 1024 (default: 15, or all if there are fewer)"},
        {OUTPUT("OUT"), .help = "write to .tsv, .csv, .json, .jsonl, .parquet, .npy or "
                                ".safetensors instead of standard "
                                "output"},
        {FLAG("itself", search.itself),
         .help = "the queries are the rows of the gallery, each searched among the others"},
        {INPUTS("also", search.also, "GALLERY"),
         .help = "search this gallery as well, as if its rows followed (may be repeated)"},
        {REAL("within", search.within, "LIMIT"), .any = 1,
         .help = "instead of K rows, all with a score of at least LIMIT (a distance of at most)"},
        {INPUT("only", search.only, "FILE"),
         .help = "search among rows of these classes alone, one name per line"},
        {INPUT("only-ids", search.only_ids, "FILE"),
         .help = "search among rows with these ids alone, one per line"},
        {REAL("unique", search.unique, "LIMIT"), .any = 1,
         .help = "groups of rows of a gallery or data set that are within LIMIT of one another"},
        {TEXT("keep", search.keep, "FILE"),
         .help = "with --unique: write the ids of the rows to keep, the first of each group"},
        {METRIC(all_metrics),
         .help = "with --unique, for a data set: cosine (default), euclidean or inner"},
        {FLAG("rerank-from-disk", search.rerank_from_disk),
         .help = "keep only the 8-bit copy in memory, and read candidates from the file"},
        {FLAG("text-queries", search.text),
         .help = "the queries are embeddings of text, and the gallery is of pictures"},
        {INPUT("text-mean", search.text_mean, "FILE"),
         .help = "subtract the mean of these embeddings from text queries (default: chosen and "
                 "reported)"},
        {TEXT("html", search.html, "FILE"),
         .help = "write the answers as a page, with small pictures if ids are their paths"},
        {TEXT("pictures", search.pictures, "FOLDER"),
         .help = "where ids that are relative paths start (default: the current folder)"},
        {TITLE},
        {JSON, .help = "print one JSON object: the answers, unless -o takes them, and the time"})};

const cli_command search_command = {
    .name = "search",
    .operands = "GALLERY [QUERIES...|PICTURES...|WORDS...]",
    .summary = "find the nearest rows of every query",
    .details =
        "The nearest rows are exact, as if every row had been compared without rounding. Of "
        "equally near rows the one with the lower number comes first. Queries are given in the "
        "original space; a gallery made with a model applies its map to them.\n\n"
        "Answers are text: a header and one line per query, separated by tabs, with the number of "
        "the query, counted from 0, then row, label (if the gallery has labels) and score of the "
        "nearest row, of the second nearest and so on. The score is the cosine or the inner "
        "product (larger is nearer) or the Euclidean distance (smaller is nearer). Ids of "
        "queries and of the gallery, if there are any, stand in place of their numbers.\n\n"
        "The ending of -o decides the format. OUT.tsv is what is printed, OUT.csv the same with "
        "commas; OUT.jsonl has an object for each query on its own line, as in the 'answers' of "
        "--json, and OUT.json a list of them. OUT.npy holds row numbers, [queries, K] int64, with "
        "the scores in OUT_scores.npy, f64; OUT.safetensors holds both, as 'rows' and 'scores'; "
        "OUT.parquet has a record for each answer, with columns query, query_id, rank, row, id and "
        "label (if the gallery has them) and score.\n\n"
        "With --also, several galleries are searched as if one gallery held all their rows; they "
        "must have the same metric and the same model, if any. Rows are printed as GALLERY:ROW or "
        "GALLERY:ID; --json has 'gallery' and 'row'. In arrays, rows are numbered through all "
        "galleries in the order given.\n\n"
        "With --within LIMIT, the answers are all rows whose score, before rounding for print, is "
        "LIMIT or better: one line for each, with the query, the row, its label and its score, "
        "best first. Queries without such rows have no line. OUT.safetensors holds them as a "
        "sparse matrix: the rows and scores of query i are those from indptr[i] to indptr[i + "
        "1].\n\n"
        "--only and --only-ids choose the rows that are searched: the answers are as if the "
        "gallery "
        "held nothing else, but rows keep their numbers. With both options, a row must be in both "
        "lists.\n\n"
        "--unique LIMIT compares all rows of a gallery or data set with each other. Rows within "
        "LIMIT of one another, directly or through a chain of such rows, form a group. Each line "
        "has the number of a group and one of its rows; rows that stand alone are not printed.\n\n"
        "With --skip-bad, bad queries have no line of text; in arrays they keep their place, with "
        "row numbers -1 and scores NaN.\n\n"
        "With --encoder, each query is a picture, a folder of pictures or a pattern (see 'koofu "
        "embed') or, if no file has this name, words; lines begin with the path of the picture or "
        "the words, in the order of the command line. Words are embedded as they are: 'a photo of "
        "a red fox' is closer to what CLIP has learnt than 'red fox'. A name with a slash or a "
        "file extension is never taken for words.\n\n"
        "Embeddings of text lie apart from those of pictures. In a gallery made with a model this "
        "would spoil the answers, so a mean of texts is subtracted from text queries: that of "
        "--text-mean FILE; otherwise, for words, that of a hundred everyday texts through the same "
        "encoder; otherwise, for --text-queries, that of the queries, if there are at least 10. In "
        "a gallery without a model, text is compared as it is unless --text-mean is "
        "given.\n\n"
        "--html FILE writes a self-contained page without scripts or links: the answers to the "
        "first queries, up to 1,000 rows, with small copies of the first 200 pictures that queries "
        "and ids name. Without -o and --json the answers go only there.\n\n"
        "With --json the output is one JSON document, written as answers arrive: 'answers' has one "
        "entry per query with its number 'query', its 'id' (path or words), whether it is 'text', "
        "and its 'neighbours', best first, each with 'row', 'id', 'label' and 'score'. "
        "search_seconds is the time of the search alone.",
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
    .run = run_search,
    .shared = 1,
};
