/* cmd_classify.c - koofu classify: the nearest classes of every row, by prototypes or by votes of
 * neighbours. */
#include "commands.h"

#include <math.h>
#include <string.h>

/* Rows are read, classified and printed in blocks of at most this many bytes, and this many
 * products per thread: half a second in plain C, so a signal is noticed soon. */
enum { BLOCK_BYTES = 16 << 20, BLOCK_PRODUCTS = 1 << 30 };
/* But at least this many rows per thread, to share a pass over the prototypes. */
enum { LEAST_ROWS = 256 };

typedef struct classify_job {
  cli_run *cli;
  kf_model *model;     /* as loaded; NULL: the gallery alone */
  cli_zero_shot zero;  /* without --text: all NULL */
  kf_gallery *gallery; /* NULL: prototypes */
  cli_queries queries;
  kf_classify_options options; /* of prototypes */
  kf_classifier *classifier;   /* NULL until it is needed */
  kf_vote_options votes;       /* of neighbours */
  const kf_class_names *names; /* NULL: labels alone */
  uint32_t top;
  const char *score_name;
  int score_digits; /* after the decimal point */
  uint64_t room;    /* rows at a time */
  kf_reader_block block;
  int32_t *classes; /* [room][top] */
  double *scores;
  double *probabilities;             /* the same; NULL: not wanted */
  int threshold;                     /* the model has one, and rows below it are marked */
  int comparable;                    /* labels and classes are both names, or both numbers */
  uint64_t labelled, right, unknown; /* rows so far */
  sink *out;
} classify_job;

static const kf_model *model_of(const classify_job *job) {
  if (!job->zero.text) return job->model;
  return job->cli->args.use.raw ? job->zero.raw : job->zero.mapped;
}

static const char *class_name(const classify_job *job, int32_t class) {
  return job->gallery ? kf_gallery_class_name(job->gallery, (uint32_t) class)
                      : kf_model_class_name(model_of(job), (uint32_t) class);
}

static const char *label_of(const void *job, uint32_t class) {
  return class_name(job, (int32_t) class);
}

static uint32_t count_classes(const classify_job *job) {
  return job->gallery ? kf_gallery_classes(job->gallery) : kf_model_classes(model_of(job));
}

/* --- labels and the threshold ----------------------------------------------------------------- */

static const char *label_name(const classify_job *job, int32_t label) {
  return kf_data_class_name(job->queries.data, (uint32_t)label);
}

static int is_right(const classify_job *job, int32_t label, int32_t class) {
  const char *own = label_name(job, label), *answer = class_name(job, class);
  return own && answer ? strcmp(own, answer) == 0 : !own && !answer && label == class;
}

static int is_known(const classify_job *job, uint64_t i) {
  return kf_model_knows(job->model, job->scores[i * job->top]);
}

static void count_block(classify_job *job) {
  const kf_reader_block *b = &job->block;
  for (uint64_t i = 0; i < b->n; i++) {
    int32_t class = job->classes[i * job->top];
    if (job->threshold) job->unknown += !is_known(job, i);
    if (!b->labels || b->labels[i] < 0 || class < 0) continue;
    job->labelled++;
    job->right += is_right(job, b->labels[i], class) != 0;
  }
}

/* --- output ----------------------------------------------------------------------------------- */

static int has_truth(const classify_job *job) {
  return job->queries.data && kf_data_has_labels(job->queries.data);
}

static kf_column_type type_of(const char *first_class) {
  return first_class ? KF_COLUMN_TEXT : KF_COLUMN_INTEGER;
}

static int has_ids(const classify_job *job) {
  return job->queries.data && kf_data_has_ids(job->queries.data);
}

/* Whether the answers are in the document of --json. */
static int in_document(const classify_job *job) {
  return job->out->format == SINK_JSON && !job->out->path;
}

/* A line has all answers to a row, numbered from 1; a .parquet has a record for each. */
static int put_header(classify_job *job) {
  sink *s = job->out;
  int records = s->format == SINK_PARQUET;
  if (in_document(job)) jw_open(sink_document(s), "answers", '[');
  if (is_json(s)) return EXIT_OK;
  sink_column(s, job->queries.pictures && !records ? "picture" : "row", KF_COLUMN_INTEGER);
  if (records || has_ids(job)) sink_column(s, "id", KF_COLUMN_TEXT);
  for (uint32_t position = 1; !records && position <= job->top; position++) {
    sink_numbered_column(s, "class", position);
    if (job->names) sink_numbered_column(s, "name", position);
    sink_numbered_column(s, job->score_name, position);
    if (job->probabilities) sink_numbered_column(s, "probability", position);
  }
  if (records) {
    sink_column(s, "rank", KF_COLUMN_INTEGER);
    sink_column(s, "class", type_of(class_name(job, 0)));
    if (job->names) sink_column(s, "name", KF_COLUMN_TEXT);
    sink_column(s, job->score_name, KF_COLUMN_REAL);
    if (job->probabilities) sink_column(s, "probability", KF_COLUMN_REAL);
  }
  if (has_truth(job)) sink_column(s, "truth", type_of(label_name(job, 0)));
  if (job->threshold) sink_column(s, "known", KF_COLUMN_TEXT);
  return sink_end_header(s);
}

/* NULL: there is no class, or only a number. */
static const char *called(const classify_job *job, int32_t class) {
  if (class < 0) return NULL;
  return kf_class_names_of(job->names, class_name(job, class), (uint32_t) class);
}

/* If fewer classes have votes, the last columns are empty. */
static void put_class(const classify_job *job, uint64_t at) {
  int32_t class = job->classes[at];
  sink_class(job->out, class < 0 ? NULL : class_name(job, class), class);
  if (job->names) sink_text(job->out, called(job, class));
  sink_real(job->out, job->score_digits, class >= 0 ? job->scores[at] : (double)NAN);
  if (job->probabilities) sink_real(job->out, 6, job->probabilities[at]);
}

static int end_row(const classify_job *job, uint64_t i) {
  int32_t label = job->block.labels ? job->block.labels[i] : -1;
  if (has_truth(job)) sink_class(job->out, label < 0 ? NULL : label_name(job, label), label);
  if (job->threshold) sink_text(job->out, is_known(job, i) ? "known" : "unknown");
  return sink_end_row(job->out);
}

static int put_answers(const classify_job *job, uint64_t i) {
  uint64_t row = job->block.numbers[i];
  const char *id;
  TRY(read_id(job->cli, job->queries.data, row, &id));
  sink_row(job->out, kf_reader_id(job->queries.reader, row), row);
  if (id) sink_text(job->out, id);
  for (uint64_t at = i * job->top; at < (i + 1) * job->top; at++) put_class(job, at);
  return end_row(job, i);
}

static int put_records(const classify_job *job, uint64_t i) {
  sink *s = job->out;
  uint64_t row = job->block.numbers[i], first = i * job->top;
  const char *path = kf_reader_id(job->queries.reader, row), *id;
  TRY(read_id(job->cli, job->queries.data, row, &id));
  for (uint32_t n = 0; n < job->top && job->classes[first + n] >= 0; n++) {
    sink_number(s, (int64_t)row);
    sink_text(s, path ? path : id);
    sink_number(s, n + 1);
    put_class(job, first + n);
    TRY(end_row(job, i));
  }
  return EXIT_OK;
}

static int put_json(const classify_job *job, uint64_t i) {
  const kf_reader_block *b = &job->block;
  uint64_t begin = i * job->top, n = 0;
  while (n < job->top && job->classes[begin + n] >= 0) n++;
  const char *path = kf_reader_id(job->queries.reader, b->numbers[i]), *id;
  TRY(read_id(job->cli, job->queries.data, b->numbers[i], &id));
  cli_json *j = sink_object(job->out);
  if (path)
    jw_text(j, "picture", path);
  else
    jw_count(j, "row", b->numbers[i]);
  if (id) jw_text(j, "id", id);
  if (b->labels && b->labels[i] >= 0)
    jw_class(j, "truth", label_name(job, b->labels[i]), b->labels[i]);
  if (job->threshold) jw_flag(j, "known", is_known(job, i));
  jw_open(j, "classes", '[');
  for (uint64_t at = begin; at < begin + n; at++)
    jw_class(j, NULL, class_name(job, job->classes[at]), job->classes[at]);
  jw_close(j, "]");
  if (job->names) {
    jw_open(j, "names", '[');
    for (uint64_t at = begin; at < begin + n; at++)
      jw_class(j, NULL, called(job, job->classes[at]), job->classes[at]);
    jw_close(j, "]");
  }
  jw_reals(j, job->gallery ? "votes" : "scores", job->scores + begin, n);
  if (job->probabilities) jw_reals(j, "probabilities", job->probabilities + begin, n);
  return sink_end_row(job->out);
}

/* --- blocks of rows --------------------------------------------------------------------------- */

static int make_classifier(classify_job *job) {
  cli_run *cli = job->cli;
  if (job->gallery || job->classifier) return EXIT_OK;
  return own_classifier(cli,
                        kf_classifier_new(cli->ctx, model_of(job), &job->options, &job->classifier),
                        &job->classifier);
}

static kf_status answer(classify_job *job) {
  kf_ctx *ctx = job->cli->ctx;
  const kf_reader_block *b = &job->block;
  if (job->gallery)
    return kf_gallery_classify(ctx, job->gallery, b->rows, b->n, &job->votes, job->classes,
                               job->scores, NULL);
  if (!job->probabilities)
    return kf_classifier_classify(ctx, job->classifier, b->rows, b->n, job->classes, job->scores);
  return kf_classifier_probabilities(ctx, job->classifier, b->rows, b->n, job->classes, job->scores,
                                     job->probabilities);
}

static int classify_block(classify_job *job, uint64_t first) {
  kf_reader_block *b = &job->block;
  TRY(result_of(job->cli, kf_reader_next(job->cli->ctx, job->queries.reader, b)));
  if (b->n > 0) TRY(make_classifier(job));
  if (b->n > 0) TRY(result_of(job->cli, answer(job)));
  if (first == 0) TRY(put_header(job)); /* once rows are accepted: a failure prints nothing */
  count_block(job);
  sink_format format = job->out->format;
  for (uint64_t i = 0; i < b->n; i++)
    TRY((format == SINK_PARQUET ? put_records
         : format <= SINK_CSV   ? put_answers
                                : put_json)(job, i));
  return EXIT_OK;
}

static const char *const bad_rows[] = {"bad row", "bad rows"};
static const char *const bad_pictures[] = {"picture that cannot be read",
                                           "pictures that cannot be read"};

static int classify_all(classify_job *job) {
  uint64_t rows = job->queries.n;
  FILE *file = job->out->file;
  for (uint64_t first = 0; first < rows && !(file && ferror(file)); first += job->room) {
    if (progress_report(job->cli, "classify", first, rows)) return fail(job->cli, KF_ERR_CANCELLED);
    TRY(classify_block(job, first));
  }
  uint64_t bad = kf_reader_bad(job->queries.reader);
  const char *const *words = job->queries.pictures ? bad_pictures : bad_rows;
  if (bad) say(job->cli, "left out %s", show_counted(bad, words[0], words[1]).text);
  return EXIT_OK;
}

/* --- prototypes or neighbours ----------------------------------------------------------------- */

/* --top, which cannot exceed the number of classes. */
static int choose_top(classify_job *job, uint32_t most, const char *which) {
  const cli_number *given = &job->cli->args.use.top;
  job->top = given->given ? (uint32_t)given->value : most < 5 ? most : 5;
  if (job->top <= most) return EXIT_OK;
  return fail_usage(job->cli,
                    "--top must be a whole number from 1 to %u (the classes %s), not '%u'", most,
                    which, job->top);
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

/* Whether the model has a threshold for the scores that are computed. */
static int has_threshold(const classify_job *job, kf_part part) {
  const cli_args *a = &job->cli->args;
  double share;
  kf_model_reject(job->model, &share);
  int own = model_of(job) == job->model && !a->use.raw &&
            job->options.metric == metric_for(&(cli_args){0}, job->model) &&
            part == (kf_model_fused(job->model) ? KF_PART_FUSED : KF_PART_IMAGES);
  return share > 0 && own && !a->use.no_reject;
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
                                       .part = (kf_part)use->part,
                                       .temperature = softmax_temperature(&job->cli->args)};
  job->threshold = has_threshold(job, part);
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
  int own = !a->search.k.given && kf_gallery_k(job->gallery);
  TRY(a->search.k.automatic || own
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
  if (job->cli->args.use.probabilities)
    job->probabilities = own_memory(job->cli, job->room, job->top * sizeof *job->probabilities);
  int all =
      job->classes && job->scores && (job->probabilities || !job->cli->args.use.probabilities);
  return all ? EXIT_OK : fail(job->cli, KF_ERR_MEM);
}

static void say_counts(const classify_job *job) {
  if (job->labelled && job->comparable)
    say(job->cli, "right for %s of %s", show_percent(job->right, job->labelled).text,
        show_counted(job->labelled, "row with a label", "rows with a label").text);
  if (job->threshold)
    say(job->cli, "%s of no known class",
        show_counted(job->unknown, "row seems to be", "rows seem to be").text);
}

/* The end of the document of --json, or all of it if the answers are in a file. */
static void print_counts(const classify_job *job) {
  int own = in_document(job);
  uint64_t bad = kf_reader_bad(job->queries.reader);
  cli_json j = own ? job->out->json : jw_begin(stdout);
  if (own) jw_close(&j, "]");
  jw_count(&j, "rows", job->queries.n - bad);
  jw_count(&j, "n_bad", bad);
  if (has_truth(job) && job->comparable) jw_count(&j, "n_labelled", job->labelled);
  if (has_truth(job) && job->comparable) jw_count(&j, "right", job->right);
  if (job->threshold) jw_count(&j, "n_unknown", job->unknown);
  jw_end(&j);
}

static int finish(classify_job *job) {
  cli_run *cli = job->cli;
  if (cli->args.json && in_document(job)) print_counts(job);
  TRY(sink_finish(job->out));
  if (cli->args.json && !in_document(job)) print_counts(job);
  if (job->out->path)
    say_written(cli, cli->args.output, "the %s of %s",
                job->top == 1 ? "best class" : show_counted(job->top, "", "best classes").text,
                show_counted(job->queries.n - kf_reader_bad(job->queries.reader),
                             job->queries.pictures ? "picture" : "row",
                             job->queries.pictures ? "pictures" : "rows")
                    .text);
  say_counts(job);
  return EXIT_OK;
}

static int classify(classify_job *job) {
  TRY(job->gallery ? choose_voters(job) : choose_prototypes(job));
  TRY(make_buffers(job));
  const char *path = job->cli->args.output;
  TRY(sink_open(job->cli, path, format_of(job->cli, path), &job->out));
  TRY(classify_all(job));
  return finish(job);
}

static int check_options(cli_run *cli) {
  const cli_args *a = &cli->args;
  if (a->votes.gallery) {
    TRY(refuse(cli, "text part probabilities", "--gallery"));
    TRY(refuse(cli, "raw metric", "--gallery, which has its own space and metric"));
  } else if (!a->use.probabilities) {
    TRY(need(cli, "temperature", "--weighted or --probabilities"));
  }
  if (a->use.raw || a->text.path) TRY(refuse(cli, "part", a->use.raw ? "--raw" : "--text"));
  TRY(check_vote_options(cli));
  TRY(check_text_options(cli));
  return check_format(cli, a->output, "the answers", ROW_FORMATS);
}

static int open_inputs(classify_job *job) {
  cli_run *cli = job->cli;
  const cli_args *a = &cli->args;
  int alone = a->votes.gallery == a->operands.items[0];
  if (!alone) TRY(load_model(cli, a->operands.items[0], &job->model));
  if (a->text.path) TRY(load_zero_shot(cli, job->model, 0, &job->zero));
  if (a->votes.gallery) TRY(load_voters(cli, job->model, &job->gallery));
  job->queries.labelled = 1;
  TRY(queries_open(cli, 1, &job->queries));
  if (job->queries.data)
    job->comparable = !kf_data_class_name(job->queries.data, 0) == !class_name(job, 0);
  TRY(load_class_names(cli, label_of, job, count_classes(job), &job->names));
  return check_queries(cli, &job->queries, alone ? NULL : model_of(job), job->gallery);
}

static int run_classify(cli_run *cli) {
  classify_job job = {.cli = cli};
  TRY(take_voters(cli));
  TRY(check_options(cli));
  TRY(open_inputs(&job));
  return classify(&job);
}

static const cli_group own_options = {
    "Options",
    OPTIONS(
        {NUMBER("top", use.top, "N", 1, KF_MAX_CLASSES),
         .help = "classes per row (default: 5, or all if there are fewer)"},
        {MODEL_METRIC},
        {FLAG("raw", use.raw),
         .help = "classify in the original space, against the class means or the text as given"},
        {PART},
        {NEIGHBOURS, .automatic = 1,
         .help = "with a gallery: neighbours that vote, 1 to 1024 or auto (default: the gallery's, "
                 "or up to 15)"},
        {FLAG("probabilities", use.probabilities),
         .help = "also print the probability of each class"},
        {FLAG("no-reject", use.no_reject),
         .help = "do not mark rows of unknown classes, even if the model has a threshold"},
        {CLASS_NAMES},
        {JSON, .help = "print the answers or, with -o, what was counted as one JSON object"},
        {OUTPUT("FILE"),
         .help = "write to .tsv, .csv, .json, .jsonl or .parquet instead of standard output"})};

const cli_command classify_command = {
    .name = "classify",
    .operands = "MODEL|GALLERY DATA...|PICTURES...",
    .summary = "find the nearest classes of every row or picture",
    .details =
        "Prints a header and one line per row, separated by tabs: the number of the row, counted "
        "from 0, then class and score of the nearest prototype, of the second nearest and so on. "
        "The score is the cosine (larger is nearer) or the Euclidean distance (smaller is nearer). "
        "Classes are printed by name if the model has names, otherwise by number; tabs, line ends, "
        "backslashes and control characters in names are printed as \\t, \\n, \\\\ and \\x1b.\n\n"
        "--names adds a column with the name of each class, and to JSON a list 'names'; classes "
        "stay as they are. Classes with the same name have their label behind it.\n\n"
        "With --skip-bad, bad rows have no line. If the rows have labels, the last columns show "
        "them, and the share of right answers is printed on standard error.\n\n"
        "If the rows have ids, they are the second column.\n\n"
        "The ending of -o decides the format. A .csv has commas between columns, and quotes where "
        "needed. A .jsonl has an object for each row on its own line: {\"row\": 0, \"classes\": "
        "[...], \"scores\": [...]}, with \"id\", \"truth\", \"known\" and \"probabilities\" where "
        "they apply, with \"votes\" instead of \"scores\" for --gallery, and with \"picture\" "
        "instead of \"row\" for --encoder; a .json has a list of these objects. A .parquet has a "
        "record for each answer, with columns row, id, rank, class, the score and, where they "
        "apply, probability, truth and known.\n\n"
        "--json prints one JSON object: that list as \"answers\", the numbers of rows and of bad "
        "ones and, where they apply, of labelled, right and unknown ones.\n\n"
        "--probabilities adds a column after each score: softmax(T * score) over all classes, "
        "where T is the temperature that the fit has chosen, or that of --temperature.\n\n"
        "If the model has a threshold ('koofu fit --reject'), a column 'known' says 'unknown' "
        "where the best score does not reach it; the classes are shown all the same.\n\n"
        "With --gallery, the K nearest rows of the gallery vote instead. The columns are then "
        "class and votes, most votes first; in a tie, the class with the nearest member comes "
        "first. If fewer classes have votes, the last columns are empty. The gallery must be of "
        "the original space or made with the same model; class names are those of the gallery. A "
        "gallery in place of the model votes alone, and maps the rows if it was made with a "
        "model.\n\n"
        "With --text, the prototypes are text instead of class means: zero-shot classification, in "
        "the model's space or, with --raw, in the original one. The classes are those of the text, "
        "even if the model has never seen them.\n\n"
        "With --encoder, the input is pictures, folders of pictures or patterns (see 'koofu "
        "embed'), embedded by the CLIP model that the training rows were made with. Lines then "
        "begin with the path of the picture.",
    .groups = GROUPS(&own_options, &encoder_options, &text_options, &vote_options, &label_options,
                     &row_options),
    .examples = EXAMPLES(
        {"The best class of every row", "koofu classify model.safetensors photos.npy --top 1"},
        {"The best class of a picture",
         "koofu classify model.safetensors photo.jpg --encoder clip --top 1"},
        {"The five best, into a file",
         "koofu classify model.safetensors photos.npy -o answers.tsv"},
        {"With probabilities, for a spreadsheet",
         "koofu classify model.safetensors photos.npy --probabilities -o answers.csv"},
        {"By the votes of 15 neighbours",
         "koofu classify model.safetensors photos.npy --gallery gallery.safetensors -k 15"},
        {"The same without the model", "koofu classify gallery.safetensors photos.npy -k 15"},
        {"By class names alone (zero-shot)",
         "koofu classify model.safetensors photos.npy --text text.safetensors"}),
    .run = run_classify,
    .shared = 1,
};
