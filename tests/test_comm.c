/* test_comm.c - work divided among ranks: the same bytes on any number of ranks, and one error
 * whichever rank fails. The ranks are threads (thread_ranks.h). */
#include "choose/choose.h"
#include "thread_ranks.h"

#include <math.h>
#include <stdatomic.h>
#include <time.h>

#define TRY KF_TRY

AUTO_OBJECT(kf_fitter)

enum { CLASSES = 9, DIM = 24, PER_CLASS = 23, ROWS = CLASSES * PER_CLASS };

static char folder[256]; /* of each test */

static const char *in_folder(const char *name) {
  static _Thread_local char paths[4][600];
  static _Thread_local unsigned next;
  char *path = paths[next++ % 4];
  snprintf(path, sizeof paths[0], "%s/%s", folder, name);
  return path;
}

/* The data of a session, which every rank opens itself. */
typedef struct inputs {
  kf_data *train, *test;
  kf_text *text;
} inputs;

static kf_status open_inputs(kf_ctx *ctx, inputs *in) {
  kf_synth_options o = {.classes = CLASSES, .dim = DIM, .per_class = PER_CLASS};
  kf_data *text;
  *in = (inputs){0};
  TRY(kf_synth_open(ctx, &o, &in->train));
  keep_data(in->train);
  TRY(kf_synth_open_text(ctx, &o, &text));
  keep_data(text);
  TRY(kf_text_new(ctx, text, NULL, &in->text));
  keep_text(in->text);
  o.split = 1;
  o.per_class = 11;
  TRY(kf_synth_open(ctx, &o, &in->test));
  keep_data(in->test);
  return KF_OK;
}

static void note_bytes(session_log *log, kf_bytes *bytes) {
  note(log, kf_bytes_data(bytes), kf_bytes_size(bytes));
  kf_bytes_free(bytes);
}

static kf_status note_model(kf_ctx *ctx, const kf_model *model, session_log *log) {
  kf_bytes *bytes;
  TRY(kf_bytes_new_of_model(ctx, model, &bytes));
  note_bytes(log, bytes);
  return KF_OK;
}

/* --- statistics ------------------------------------------------------------------------------- */

static kf_status note_stats(kf_ctx *ctx, kf_stats *stats, session_log *log) {
  kf_bytes *bytes;
  keep_stats(stats);
  TRY(kf_bytes_new_of_stats(ctx, stats, &bytes));
  note_bytes(log, bytes);
  return KF_OK;
}

static kf_status count_rows(kf_ctx *ctx, void *argument, session_log *log) {
  (void)argument;
  inputs in;
  kf_stats *stats;
  float rows[5 * DIM];
  int32_t labels[5];
  TRY(open_inputs(ctx, &in));
  for (int raw = 0; raw < 2; raw++) {
    kf_stats_options o = {.normalize = raw ? KF_OFF : KF_ON};
    TRY(kf_stats_new_from_data(ctx, in.train, &o, &stats));
    /* Adding rows to merged statistics: earlier rows must count once. */
    kf_status status = kf_data_get(ctx, in.train, 3, 5, rows, labels);
    if (status == KF_OK) status = kf_stats_add(ctx, stats, rows, labels, 5);
    kf_status noted = note_stats(ctx, stats, log);
    TRY(status);
    TRY(noted);
  }
  return KF_OK;
}

TEST(statistics_are_the_same) { assert_same_on_ranks(count_rows, NULL); }

/* Each rank reads only its share of the rows. */
typedef struct counted_rows {
  pthread_mutex_t lock;
  uint64_t brought; /* by all ranks */
} counted_rows;

static int bring_counted(void *user, uint64_t first, uint64_t n, float *rows) {
  counted_rows *c = user;
  for (uint64_t i = 0; i < 2 * n; i++) rows[i] = (float)(1 + (first + i / 2) % 7 * (i % 2));
  pthread_mutex_lock(&c->lock);
  c->brought += n;
  pthread_mutex_unlock(&c->lock);
  return 0;
}

static kf_status count_brought(kf_ctx *ctx, void *argument, session_log *log) {
  enum { N = 1000 };
  static _Thread_local int32_t labels[N];
  AUTO(kf_data) *data = NULL;
  kf_stats *stats;
  for (int i = 0; i < N; i++) labels[i] = i % 5;
  TRY(kf_data_open_rows(ctx, N, 2, bring_counted, argument, &(kf_array_options){.labels = labels},
                        &data));
  TRY(kf_stats_new_from_data(ctx, data, NULL, &stats));
  return note_stats(ctx, stats, log);
}

TEST(rows_are_read_once) {
  static counted_rows counted = {PTHREAD_MUTEX_INITIALIZER, 0};
  AUTO(session_log) alone = found_alone(count_brought, &counted);
  assert_found(4, count_brought, &counted, &alone);
  assert_int_equal(counted.brought, 2 * 1000);
}

/* Blocks of queries: every rank gets all rows, but each row is read on one rank only. */
static kf_status read_counted(kf_ctx *ctx, void *argument, session_log *log) {
  kf_data *data;
  AUTO(kf_reader) *reader = NULL;
  kf_reader_block b = {.taken = 1};
  TRY(kf_data_open_rows(ctx, 1000, 2, bring_counted, argument, NULL, &data));
  keep_data(data);
  TRY(kf_reader_open_data(ctx, data, &(kf_reader_options){.block = 70}, &reader));
  kf_status status = KF_OK;
  while (status == KF_OK && b.taken > 0) {
    status = kf_reader_next(ctx, reader, &b);
    if (status != KF_OK) break;
    note(log, b.rows, b.n * 2 * sizeof *b.rows);
    note(log, b.numbers, b.n * sizeof *b.numbers);
  }
  return status;
}

TEST(queries_are_read_once) {
  static counted_rows counted = {PTHREAD_MUTEX_INITIALIZER, 0};
  assert_same_on_ranks(read_counted, &counted);
  assert_int_equal(counted.brought, 6 * 1000); /* without ranks, and on five numbers of ranks */
}

/* Skipped bad rows, and fewer rows than ranks. */
static kf_status count_few(kf_ctx *ctx, void *argument, session_log *log) {
  const uint64_t n = *(const uint64_t *)argument;
  float rows[200 * 3];
  int32_t labels[200];
  uint64_t state = n;
  for (uint64_t i = 0; i < 3 * n; i++) rows[i] = (float)test_normal(&state);
  for (uint64_t i = 0; i < n; i++) labels[i] = (int32_t)(i % 2);
  rows[3] = NAN;
  if (n > 100) rows[3 * 150] = INFINITY;
  kf_array all = {.rows = rows, .n = n};
  kf_array_options how = {.labels = labels, .skip = KF_SKIP_BAD};
  AUTO(kf_data) *data = NULL;
  kf_stats *stats;
  kf_lambda lambda;
  TRY(kf_data_open_arrays(ctx, &all, 1, 3, &how, &data));
  TRY(kf_stats_new_from_data(ctx, data, NULL, &stats));
  if (n > 100) {
    AUTO(kf_lambda_choice) *choice = NULL;
    TRY(kf_lambda_choice_new(ctx, stats, data, NULL, &choice));
    note(log, choice->points, choice->n_points * sizeof *choice->points);
    TRY(kf_lambda_ledoit_wolf(ctx, stats, data, &lambda));
    NOTE(log, lambda.value);
  }
  TRY(note_stats(ctx, stats, log));
  return KF_OK;
}

TEST(few_and_bad_rows_are_the_same) {
  static const uint64_t sizes[] = {3, 64, 65, 200};
  for (size_t i = 0; i < 4; i++) assert_same_on_ranks(count_few, (void *)(uintptr_t)&sizes[i]);
}

/* Enough rows for lambda to be chosen from parts of them: from one part where lambda hardly
 * matters, from all where labels mean little. */
typedef struct parts_case {
  double signal;
  uint64_t n; /* rows that were used */
} parts_case;

enum { MANY = 13000, COLUMNS = 5 };

static kf_status choose_in_parts(kf_ctx *ctx, void *argument, session_log *log) {
  parts_case *c = argument;
  static float rows[MANY * COLUMNS]; /* the same on every rank */
  static int32_t labels[MANY];
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static double filled = -1;
  pthread_mutex_lock(&lock);
  uint64_t state = 7;
  for (uint64_t i = 0; filled != c->signal && i < MANY; i++) {
    labels[i] = (int32_t)(test_random(&state) % 2);
    for (uint64_t j = 0; j < COLUMNS; j++) {
      double about = (int32_t)j == labels[i] ? c->signal : 0;
      rows[i * COLUMNS + j] = (float)((about + test_normal(&state)) * pow(10, -(double)j));
    }
  }
  filled = c->signal;
  pthread_mutex_unlock(&lock);
  kf_array all = {.rows = rows, .n = MANY};
  kf_array_options how = {.labels = labels};
  kf_lambda_options options = {.method = KF_METHOD_PAPER};
  kf_data *data;
  kf_stats *stats;
  AUTO(kf_lambda_choice) *choice = NULL;
  TRY(kf_data_open_arrays(ctx, &all, 1, COLUMNS, &how, &data));
  keep_data(data);
  TRY(kf_stats_new_from_data(ctx, data, NULL, &stats));
  keep_stats(stats);
  TRY(kf_lambda_choice_new(ctx, stats, data, &options, &choice));
  if (kf_ctx_rank(ctx) == 0) c->n = choice->n;
  note(log, choice->points, choice->n_points * sizeof *choice->points);
  NOTE(log, choice->n);
  NOTE(log, choice->lambda);
  return KF_OK;
}

TEST(choices_in_parts_are_the_same) {
  bool part = false, all = false;
  for (parts_case c = {0}; c.signal <= 4; c.signal += 0.5) {
    assert_same_on_ranks(choose_in_parts, &c);
    part |= c.n < MANY;
    all |= c.n == MANY;
  }
  assert_true(part && all);
}

/* --- fitting ---------------------------------------------------------------------------------- */

static kf_status fit_all(kf_ctx *ctx, void *argument, session_log *log) {
  (void)argument;
  inputs in;
  uint32_t groups[ROWS];
  TRY(open_inputs(ctx, &in));
  for (uint32_t i = 0; i < ROWS; i++) groups[i] = i / CLASSES / 2 * CLASSES + i % CLASSES;
  const kf_fit_options ways[] = {
      {.reject = 0.9},
      {.choose_dim = 1},
      {.method = KF_METHOD_PAPER, .choose_dim = 1, .sample = 100},
      {.method = KF_METHOD_PAPER, .criterion = KF_CRITERION_ACCURACY, .one_se = 1},
      {.groups = groups},
      {.text = in.text},
      {.lambda = {1, KF_LAMBDA_RELATIVE}, .dim = 5},
      {.stats_options = {.normalize = KF_OFF}, .metric = KF_METRIC_EUCLIDEAN},
  };
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    AUTO(kf_model) *model = NULL;
    AUTO(kf_fit_report) *report = NULL;
    TRY(kf_fit(ctx, in.train, &ways[i], &model, &report));
    TRY(note_model(ctx, model, log));
    NOTE(log, report->right);
    NOTE(log, report->n_near);
    if (report->by_dim != NULL)
      note(log, report->by_dim->points, report->by_dim->n_points * sizeof *report->by_dim->points);
  }
  return KF_OK;
}

TEST(models_are_the_same) { assert_same_on_ranks(fit_all, NULL); }

/* --- judging ---------------------------------------------------------------------------------- */

static void note_errors(const kf_analysis *a, session_log *log) {
  NOTE(log, a->totals);
  note(log, a->classes, a->n_classes * sizeof *a->classes);
  note(log, a->confusions, a->n_confusions * sizeof *a->confusions);
  note(log, a->bins, a->n_bins * sizeof *a->bins);
  for (size_t i = 0; i < a->n_mistakes; i++) {
    NOTE(log, a->mistakes[i].row);
    NOTE(log, a->mistakes[i].score);
    NOTE(log, a->mistakes[i].right_probability);
  }
  NOTE(log, a->n_mistakes);
  NOTE(log, a->calibration->nll);
  NOTE(log, a->calibration->ece);
}

static kf_status note_analysis(kf_ctx *ctx, const kf_model *model, const kf_data *data,
                               session_log *log) {
  AUTO(kf_analysis) *a = NULL;
  TRY(kf_analysis_new(ctx, model, data, &(kf_analysis_options){.mistakes = 1}, &a));
  note_errors(a, log);
  return KF_OK;
}

/* Every rank leaves out every row, but each row counts once. */
static kf_status note_left_out(kf_ctx *ctx, const inputs *in, session_log *log) {
  AUTO(kf_stats) *stats = NULL;
  AUTO(kf_fitter) *fitter = NULL;
  AUTO(kf_analysis) *a = NULL;
  TRY(kf_stats_new_from_data(ctx, in->train, NULL, &stats));
  TRY(kf_fitter_new(ctx, stats, NULL, KF_METHOD_SHRUNK, &fitter));
  kf_left_out_model model = {.n_classes = stats->n_classes,
                             .lambda = 0.1,
                             .metric = KF_METRIC_COSINE,
                             .centre = KF_CENTRE_MEAN,
                             .many = true};
  TRY(kf_left_out_errors(fitter, in->train, &model, 5, &a));
  note_errors(a, log);
  return KF_OK;
}

static kf_status judge_all(kf_ctx *ctx, void *argument, session_log *log) {
  (void)argument;
  inputs in;
  kf_model *model;
  kf_eval_result e;
  kf_calibration *c;
  kf_open_set_result open = {0};
  kf_verdicts *mapped, *raw;
  kf_comparison compared = {0};
  TRY(open_inputs(ctx, &in));
  TRY(kf_fit(ctx, in.train, &(kf_fit_options){.reject = 0.95}, &model, NULL));
  keep_model(model);
  TRY(kf_eval(ctx, model, in.test, NULL, &e));
  NOTE(log, e);
  TRY(note_analysis(ctx, model, in.test, log));
  TRY(note_left_out(ctx, &in, log));
  TRY(kf_calibration_new(ctx, model, in.test, NULL, &c));
  keep_calibration(c);
  NOTE(log, c->brier);
  note(log, c->bins, sizeof c->bins);
  TRY(kf_open_set(ctx, model, in.test, in.train, NULL, &open));
  NOTE(log, open);
  TRY(kf_verdicts_new(ctx, model, in.test, NULL, &mapped));
  keep_verdicts(mapped);
  TRY(kf_verdicts_new(ctx, model, in.test, &(kf_analysis_options){.raw = 1}, &raw));
  keep_verdicts(raw);
  TRY(kf_compare(ctx, mapped, raw, &compared));
  NOTE(log, compared);
  return KF_OK;
}

TEST(verdicts_are_the_same) { assert_same_on_ranks(judge_all, NULL); }

/* --- sweeps ----------------------------------------------------------------------------------- */

static kf_status note_sweep(kf_ctx *ctx, const kf_stats *stats, const inputs *in, bool test,
                            const kf_sweep_options *o, session_log *log) {
  AUTO(kf_sweep) *s = NULL;
  TRY(kf_sweep_new(ctx, stats, in->train, test ? in->test : NULL, o, &s));
  NOTE(log, s->counts);
  for (size_t i = 0; i < s->n_cells; i++) {
    NOTE(log, s->cells[i].lambda);
    NOTE(log, s->cells[i].alpha);
    NOTE(log, s->cells[i].n);
    NOTE(log, s->cells[i].top1);
    NOTE(log, s->cells[i].top5);
  }
  return KF_OK;
}

static kf_status sweep_all(kf_ctx *ctx, void *argument, session_log *log) {
  (void)argument;
  inputs in;
  AUTO(kf_stats) *stats = NULL;
  const kf_lambda lambdas[] = {{0.1, KF_LAMBDA_RELATIVE}, {1, KF_LAMBDA_RELATIVE}};
  const uint32_t dims[] = {4, 8, DIM}, k[] = {1, 5};
  TRY(open_inputs(ctx, &in));
  TRY(kf_stats_new_from_data(ctx, in.train, NULL, &stats));
  kf_sweep_options o = {
      .lambdas = lambdas, .n_lambdas = 2, .dims = dims, .n_dims = 3, .k = k, .n_k = 2};
  TRY(note_sweep(ctx, stats, &in, true, &o, log));
  TRY(note_sweep(ctx, stats, &in, false, &o, log));
  o = (kf_sweep_options){.lambdas = lambdas, .n_lambdas = 2, .text = in.text, .fuse = 1};
  TRY(note_sweep(ctx, stats, &in, true, &o, log));
  o = (kf_sweep_options){
      .lambdas = lambdas, .n_lambdas = 2, .leave_one_out = 1, .include_raw = KF_OFF};
  TRY(note_sweep(ctx, stats, &in, false, &o, log));
  AUTO(kf_shots) *shots = NULL;
  const uint32_t few[] = {1, 4};
  TRY(kf_shots_new(ctx, in.train, in.test, in.text,
                   &(kf_shots_options){.shots = few, .n_shots = 2, .seeds = 1}, &shots));
  for (size_t i = 0; i < shots->n_points; i++) {
    NOTE(log, shots->points[i].top1);
    NOTE(log, shots->points[i].lambda);
  }
  return KF_OK;
}

TEST(sweeps_are_the_same) { assert_same_on_ranks(sweep_all, NULL); }

/* --- use -------------------------------------------------------------------------------------- */

static kf_status use_all(kf_ctx *ctx, void *argument, session_log *log) {
  (void)argument;
  enum { N = 90, TOP = 3 };
  inputs in;
  kf_model *model;
  static _Thread_local float rows[N * DIM], mapped[N * DIM];
  int32_t labels[N], classes[N * TOP];
  double scores[N * TOP], probabilities[N * TOP];
  kf_classify_options o = {.top = TOP};
  TRY(open_inputs(ctx, &in));
  TRY(kf_fit(ctx, in.train, NULL, &model, NULL));
  keep_model(model);
  TRY(kf_data_get(ctx, in.test, 0, N, rows, labels));
  TRY(kf_transform(ctx, model, rows, N, NULL, mapped));
  NOTE(log, mapped);
  TRY(kf_classify(ctx, model, rows, N, &o, classes, NULL));
  NOTE(log, classes);
  TRY(kf_classify_probabilities(ctx, model, rows, N, &o, classes, scores, probabilities));
  NOTE(log, scores);
  NOTE(log, probabilities);
  TRY(kf_classify(ctx, model, rows, 0, &o, classes, NULL));
  TRY(kf_classify(ctx, model, rows, 1, &o, classes, scores));
  NOTE(log, scores);
  return KF_OK;
}

TEST(answers_are_the_same) { assert_same_on_ranks(use_all, NULL); }

/* --- files and galleries ---------------------------------------------------------------------- */

static kf_status note_file(const char *path, session_log *log) {
  FILE *file = fopen(path, "rb");
  char bytes[4096];
  size_t n;
  if (file == NULL) return KF_ERR_IO;
  while ((n = fread(bytes, 1, sizeof bytes, file)) > 0) note(log, bytes, n);
  fclose(file);
  return KF_OK;
}

static kf_status search_all(kf_ctx *ctx, const kf_gallery *g, const kf_data *test,
                            session_log *log) {
  enum { N = 70, K = 4 };
  static _Thread_local float rows[N * DIM];
  int32_t labels[N];
  int64_t found[N * K];
  double scores[N * K];
  const uint32_t k[] = {1, 3};
  kf_eval_result counts;
  kf_hits hits[2];
  AUTO(kf_k_choice) *choice = NULL;
  TRY(kf_data_get(ctx, test, 0, N, rows, labels));
  TRY(kf_gallery_search(ctx, g, rows, N, K, NULL, found, scores, NULL));
  NOTE(log, found);
  NOTE(log, scores);
  TRY(kf_gallery_search_itself(ctx, g, 5, 9, K, found, scores, NULL));
  NOTE(log, found);
  TRY(kf_gallery_search(ctx, g, rows, 1, K, NULL, found, scores, NULL));
  NOTE(log, found);
  kf_gallery_eval_options o = {.k = k, .n_k = 2};
  TRY(kf_gallery_eval(ctx, g, test, &o, &counts, hits, NULL));
  NOTE(log, counts);
  NOTE(log, hits[0].top1);
  NOTE(log, hits[1].top1);
  TRY(kf_gallery_eval(ctx, g, NULL, &o, &counts, hits, NULL));
  NOTE(log, hits[1].top5);
  TRY(kf_k_choice_new(ctx, g, NULL, &choice));
  note(log, choice->points, choice->n_points * sizeof *choice->points);
  return KF_OK;
}

/* Every rank calls the writers; only rank 0 writes. */
static kf_status write_all(kf_ctx *ctx, void *argument, session_log *log) {
  (void)argument;
  const char *path = in_folder("gallery.safetensors"), *more = in_folder("more.safetensors");
  const char *npy = in_folder("rows.npy");
  inputs in;
  AUTO(kf_model) *model = NULL;
  AUTO(kf_gallery) *g = NULL;
  TRY(open_inputs(ctx, &in));
  TRY(kf_fit(ctx, in.train, NULL, &model, NULL));
  TRY(kf_gallery_save(ctx, in.train, model, NULL, path));
  TRY(note_file(path, log));
  TRY(kf_gallery_save(ctx, in.test, NULL, &(kf_gallery_options){.append_to = path}, path));
  TRY(note_file(path, log));
  TRY(kf_gallery_load(ctx, path, NULL, &g));
  TRY(search_all(ctx, g, in.test, log));
  TRY(kf_outputs_begin(ctx));
  TRY(kf_transform_data(ctx, model, in.train, NULL, KF_F16, more));
  TRY(kf_transform_data(ctx, model, in.test, NULL, KF_F32, npy));
  TRY(kf_outputs_commit(ctx));
  TRY(note_file(more, log));
  TRY(note_file(npy, log));
  TRY(kf_agree(ctx, KF_OK, NULL)); /* until all have read them */
  return KF_OK;
}

TEST(files_are_the_same) { assert_same_on_ranks(write_all, NULL); }

static void spoil(const char *path) {
  FILE *file = fopen(path, "r+b");
  assert_non_null(file);
  fseek(file, -40, SEEK_END);
  fputs("spoilt", file);
  fclose(file);
}

/* --- ranks that open a gallery before and after a change -------------------------------------- */

static const char *const seen_at_first[] = {"first.safetensors", "second.safetensors"};

static kf_status load_each(kf_ctx *ctx, void *argument, session_log *log) {
  (void)argument;
  AUTO(kf_gallery) *g = NULL;
  const char *own = in_folder(seen_at_first[kf_ctx_rank(ctx)]);
  TRY(kf_gallery_load(ctx, own, &(kf_gallery_load_options){.rerank_from_disk = 1}, &g));
  uint64_t rows = kf_gallery_rows(g);
  NOTE(log, rows);
  int64_t found[20];
  kf_status status = kf_gallery_search_itself(ctx, g, rows - 5, 5, 4, found, NULL, NULL);
  NOTE(log, found);
  return status;
}

/* Rank 0 sees the gallery that rank 1 sees, but later. */
static void *change_first(void *argument) {
  nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
  rename(in_folder("third.safetensors"), in_folder(seen_at_first[0]));
  return argument;
}

TEST(ranks_see_the_same_gallery) {
  AUTO(kf_ctx) *ctx = test_ctx(1, KF_ISA_AUTO);
  for (int i = 0; i < 3; i++) {
    AUTO(kf_data) *data = NULL;
    kf_synth_options o = {.classes = 3, .dim = 9, .per_class = i > 0 ? 20 : 14};
    assert_ok(ctx, kf_synth_open(ctx, &o, &data));
    const char *name = i < 2 ? seen_at_first[i] : "third.safetensors";
    assert_ok(ctx, kf_gallery_save(ctx, data, NULL, NULL, in_folder(name)));
  }
  pthread_t changer;
  session of[2] = {{0}};
  assert_int_equal(pthread_create(&changer, NULL, change_first, NULL), 0);
  run_ranks(of, 2, load_each, NULL);
  pthread_join(changer, NULL);
  for (int i = 0; i < 2; i++) {
    if (of[i].status != KF_OK) fail_msg("rank %d: %s", i, of[i].message);
    uint64_t rows;
    memcpy(&rows, of[i].log.bytes, sizeof rows);
    assert_int_equal(rows, 60);
  }
  assert_int_equal(of[0].log.n, of[1].log.n);
  assert_memory_equal(of[0].log.bytes, of[1].log.bytes, of[0].log.n);
  for (int i = 0; i < 2; i++) free(of[i].log.bytes);
}

static kf_status load_gallery(kf_ctx *ctx, void *argument, session_log *log) {
  (void)argument;
  AUTO(kf_gallery) *g = NULL;
  TRY(kf_gallery_load(ctx, in_folder("gallery.safetensors"), NULL, &g));
  note(log, "loaded", 6);
  return KF_OK;
}

/* Only rank 0 checks for damage; all ranks fail. */
TEST(damaged_galleries_are_refused) {
  const char *path = in_folder("gallery.safetensors");
  AUTO(kf_ctx) *ctx = test_ctx(1, KF_ISA_AUTO);
  AUTO(kf_data) *data = NULL;
  assert_ok(ctx, kf_synth_open(ctx, &(kf_synth_options){.classes = 3, .dim = 8}, &data));
  assert_ok(ctx, kf_gallery_save(ctx, data, NULL, NULL, path));
  AUTO(session_log) alone = found_alone(load_gallery, NULL);
  assert_found(3, load_gallery, NULL, &alone);
  spoil(path);
  assert_fail(3, load_gallery, NULL, KF_ERR_DATA, "checksum");
}

static void note_ranges(session_log *log, kf_ranges *r) {
  note(log, r->ends, r->queries * sizeof *r->ends);
  note(log, r->rows, r->ends[r->queries - 1] * sizeof *r->rows);
  note(log, r->scores, r->ends[r->queries - 1] * sizeof *r->scores);
  kf_ranges_free(r);
}

/* All rows within a limit that some rows meet exactly, among all rows and one class; and unique
 * rows. */
static kf_status search_within(kf_ctx *ctx, const kf_gallery *g, const float *queries, uint64_t n,
                               double limit, const int64_t *leave_out, session_log *log) {
  static const char *const odd[] = {"1"};
  uint64_t rows = kf_gallery_rows(g), first[64];
  int64_t found[20 * 11];
  double scores[20 * 11];
  kf_ranges *r;
  AUTO(kf_filter) *f = NULL;
  kf_unique about;
  TRY(kf_filter_new(ctx, g, &(kf_filter_options){.names = odd, .n_names = 1}, &f));
  for (int what = 0; what < 4; what++) {
    kf_search_options o = {.leave_out = what & 1 ? leave_out : NULL, .only = what & 2 ? f : NULL};
    TRY(kf_gallery_search(ctx, g, queries, n, 11, &o, found, scores, NULL));
    note(log, found, n * 11 * sizeof *found);
    note(log, scores, n * 11 * sizeof *scores);
    TRY(kf_gallery_within(ctx, g, queries, n, limit, &o, &r, NULL));
    note_ranges(log, r);
  }
  TRY(kf_gallery_within_itself(ctx, g, 3, rows - 3, limit, f, &r, NULL));
  note_ranges(log, r);
  TRY(kf_gallery_unique(ctx, g, limit, first, &about));
  note(log, first, rows * sizeof *first);
  NOTE(log, about);
  return KF_OK;
}

/* Ties and near ties between rows of different ranks: the order is still exact. */
static kf_status search_ties(kf_ctx *ctx, void *argument, session_log *log) {
  enum { N = 60, D = 6, QUERIES = 20 };
  static const kf_metric metrics[] = {KF_METRIC_COSINE, KF_METRIC_EUCLIDEAN, KF_METRIC_INNER};
  static const uint32_t ks[] = {1, 7, N - 1};
  float rows[N * D], queries[QUERIES * D];
  int64_t found[N * N], leave_out[QUERIES];
  int32_t labels[N];
  double scores[N * N];
  uint64_t state = 5;
  (void)argument;
  const char *path = in_folder("ties.safetensors");
  for (int i = 0; i < N * D; i++) rows[i] = (float)(1 + test_random(&state) % 3);
  for (int i = 0; i < N; i += 3) /* almost equal to the row before */
    rows[i * D + 2] = nextafterf(rows[(i > 0 ? i - 1 : N - 1) * D + 2], 9);
  for (int i = 0; i < QUERIES * D; i++) queries[i] = (float)(1 + test_random(&state) % 4);
  for (int i = 0; i < QUERIES; i++) leave_out[i] = (int64_t)(test_random(&state) % N);
  AUTO(kf_data) *data = NULL;
  for (int i = 0; i < N; i++) labels[i] = i % 2 == 1 && i < 40; /* none of the last rank */
  TRY(kf_data_open_memory(ctx, rows, N, D, labels, NULL, 2, &data));
  for (int m = 0; m < 3; m++) {
    AUTO(kf_gallery) *g = NULL;
    TRY(kf_gallery_save(ctx, data, NULL, &(kf_gallery_options){.metric = metrics[m]}, path));
    TRY(kf_gallery_load(ctx, path, &(kf_gallery_load_options){.rerank_from_disk = m == 1}, &g));
    for (int t = 0; t < 3; t++) {
      size_t n = (size_t)QUERIES * ks[t];
      TRY(kf_gallery_search(ctx, g, queries, QUERIES, ks[t], NULL, found, scores, NULL));
      note(log, found, n * sizeof *found);
      note(log, scores, n * sizeof *scores);
      kf_search_options without = {.leave_out = leave_out};
      TRY(kf_gallery_search(ctx, g, queries, QUERIES, ks[t], &without, found, NULL, NULL));
      note(log, found, n * sizeof *found);
      TRY(kf_gallery_search_itself(ctx, g, 0, N, ks[t], found, scores, NULL));
      note(log, found, (size_t)N * ks[t] * sizeof *found);
    }
    static const uint32_t places[] = {0, 5, 40}; /* of scores that are limits: few to many rows */
    for (int t = 0; t < 3; t++)
      TRY(search_within(ctx, g, queries, QUERIES, scores[(size_t)7 * (N - 1) + places[t]],
                        leave_out, log));
  }
  return KF_OK;
}

TEST(ties_are_the_same) { assert_same_on_ranks(search_ties, NULL); }

/* Files longer than one round of gathering, without bad rows. argument: whether it is a gallery. */
static kf_status write_long(kf_ctx *ctx, void *argument, session_log *log) {
  enum { N = 5000, LONG = 2048 };
  const bool *gallery = argument;
  const char *path = in_folder("long.safetensors");
  AUTOFREE float *rows = calloc((size_t)N * LONG, sizeof *rows);
  for (uint64_t i = 0; i < (uint64_t)N * LONG; i++) rows[i] = (float)(i % 8191 + i / LONG);
  for (uint64_t i = 0; i < N; i += 97) rows[i * LONG + i % LONG] = NAN;
  AUTO(kf_data) *data = NULL;
  kf_array all = {.rows = rows, .n = N};
  kf_array_options how = {.skip = KF_SKIP_BAD};
  kf_status status = kf_data_open_arrays(ctx, &all, 1, LONG, &how, &data);
  if (status == KF_OK)
    status = *gallery ? kf_gallery_save(ctx, data, NULL, NULL, path)
                      : kf_data_save(ctx, data, KF_F32, path);
  TRY(status);
  TRY(note_file(path, log));
  return kf_agree(ctx, KF_OK, NULL);
}

/* Ranks write the rows of a data set themselves; the rows of a gallery, which has a checksum, go
 * through rank 0. */
TEST(long_files_are_the_same) {
  for (int i = 0; i < 2; i++) {
    bool gallery = i == 1;
    AUTO(session_log) alone = found_alone(write_long, &gallery);
    session of[3] = {{0}};
    run_ranks(of, 3, write_long, &gallery);
    for (int r = 0; r < 3; r++) {
      if (of[r].status != KF_OK) fail_msg("rank %d: %s", r, of[r].message);
      assert_int_equal(of[r].log.n, alone.n);
      assert_memory_equal(of[r].log.bytes, alone.bytes, alone.n);
      assert_true(gallery ? of[r].rank.brought > 1 << 20 : of[r].rank.brought == 0);
      free(of[r].log.bytes);
    }
  }
}

/* --- files of each rank ----------------------------------------------------------------------- */

/* One data set in n files: rank r has the r-th; alone, all of them. */
static kf_status open_parts(kf_ctx *ctx, const uint32_t *n, const char *name, kf_data **out) {
  char paths[2][MOST_RANKS][600];
  const char *list[2][MOST_RANKS];
  for (uint32_t i = 0; i < *n; i++)
    for (int labels = 0; labels < 2; labels++) {
      snprintf(paths[labels][i], sizeof paths[0][0], "%s/%s-%u.%s", folder, name, i,
               labels ? "txt" : "npy");
      list[labels][i] = paths[labels][i];
    }
  bool alone = kf_ctx_ranks(ctx) == 1;
  uint32_t own = alone ? 0 : kf_ctx_rank(ctx), files = alone ? *n : 1;
  kf_data_options o = {
      .labels = &list[1][own], .n_labels = files, .skip_bad = 1, .own_files = !alone};
  return kf_data_open(ctx, &list[0][own], files, &o, out);
}

static kf_status fit_parts(kf_ctx *ctx, void *argument, session_log *log) {
  AUTO(kf_data) *train = NULL, *test = NULL;
  AUTO(kf_model) *model = NULL;
  AUTO(kf_fit_report) *report = NULL;
  kf_eval_result e;
  kf_stats *stats;
  TRY(open_parts(ctx, argument, "train", &train));
  TRY(open_parts(ctx, argument, "test", &test));
  TRY(kf_stats_new_from_data(ctx, train, NULL, &stats));
  TRY(note_stats(ctx, stats, log));
  TRY(kf_fit(ctx, train, &(kf_fit_options){.choose_dim = 1}, &model, &report));
  NOTE(log, report->n_near);
  NOTE(log, report->n_bad);
  TRY(note_model(ctx, model, log));
  TRY(kf_eval(ctx, model, test, NULL, &e));
  NOTE(log, e);
  TRY(note_analysis(ctx, model, test, log));
  const char *path = in_folder("mapped.safetensors");
  TRY(kf_transform_data(ctx, model, train, NULL, KF_F16, path));
  TRY(note_file(path, log));
  TRY(kf_agree(ctx, KF_OK, NULL)); /* until all have read it */
  TRY(kf_data_save(ctx, test, KF_F32, path));
  TRY(note_file(path, log));
  TRY(kf_agree(ctx, KF_OK, NULL));
  return KF_OK;
}

/* Rows of the synthetic world in n files of different lengths, with text labels. */
static void write_parts(kf_ctx *ctx, uint32_t n, const char *name, uint32_t split) {
  AUTO(kf_data) *data = NULL;
  kf_synth_options o = {.classes = CLASSES, .dim = DIM, .per_class = PER_CLASS, .split = split};
  assert_ok(ctx, kf_synth_open(ctx, &o, &data));
  float rows[ROWS * DIM];
  int32_t labels[ROWS];
  assert_ok(ctx, kf_data_get(ctx, data, 0, ROWS, rows, labels));
  rows[7 * DIM] = NAN;
  for (uint32_t i = 0; i < n; i++) {
    char path[400];
    uint64_t first = ROWS * (uint64_t)(i * i) / (n * n);
    uint64_t last = ROWS * (uint64_t)((i + 1) * (i + 1)) / (n * n);
    snprintf(path, sizeof path, "%s/%s-%u.npy", folder, name, i);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    char header[128];
    int used =
        snprintf(header, sizeof header,
                 "%cNUMPY%c%c%c%c{'descr': '<f4', 'fortran_order': False, 'shape': (%u, %u), }",
                 0x93, 1, 0, 118, 0, (unsigned)(last - first), (unsigned)DIM);
    memset(header + used, ' ', sizeof header - (size_t)used);
    header[127] = '\n';
    fwrite(header, 1, 128, file);
    fwrite(rows + first * DIM, sizeof *rows * DIM, last - first, file);
    fclose(file);
    snprintf(path, sizeof path, "%s/%s-%u.txt", folder, name, i);
    file = fopen(path, "w");
    assert_non_null(file);
    for (uint64_t k = first; k < last; k++) fprintf(file, "class-%d\n", labels[k]);
    fclose(file);
  }
}

TEST(ranks_may_have_their_own_files) {
  AUTO(kf_ctx) *ctx = test_ctx(1, KF_ISA_AUTO);
  for (uint32_t n = 2; n < 5; n++) {
    write_parts(ctx, n, "train", 0);
    write_parts(ctx, n, "test", 1);
    AUTO(session_log) alone = found_alone(fit_parts, &n);
    assert_found(n, fit_parts, &n, &alone);
  }
}

/* Calls that need all rows on every rank say so. */
static kf_status search_parts(kf_ctx *ctx, void *argument, session_log *log) {
  (void)log;
  AUTO(kf_data) *data = NULL;
  kf_gallery *gallery;
  TRY(open_parts(ctx, argument, "train", &data));
  kf_status status = kf_gallery_new(ctx, data, NULL, NULL, &gallery);
  return status;
}

TEST(some_calls_need_all_rows) {
  uint32_t n = 2;
  AUTO(kf_ctx) *ctx = test_ctx(1, KF_ISA_AUTO);
  write_parts(ctx, n, "train", 0);
  assert_fail(n, search_parts, &n, KF_ERR_ARG, "rows of all files on every rank");
}

/* --- checkpoints ------------------------------------------------------------------------------ */

/* Statistics of a file with checkpoints in the folder `argument`; NULL: without. */
static kf_status count_kept(kf_ctx *ctx, void *argument, session_log *log) {
  const char *path = in_folder("data.safetensors");
  AUTO(kf_data) *data = NULL;
  kf_stats *stats = NULL;
  TRY(kf_data_open(ctx, &path, 1, NULL, &data));
  TRY(kf_stats_new_from_data(ctx, data, &(kf_stats_options){.checkpoint = argument}, &stats));
  return note_stats(ctx, stats, log);
}

/* The names in a folder, [16] at most; returns how many. */
static size_t list_files(const char *of, char names[16][64]) {
  DIR *open = opendir(of);
  size_t n = 0;
  assert_non_null(open);
  for (const struct dirent *e; (e = readdir(open)) != NULL;)
    if (e->d_name[0] != '.' && n < 16) snprintf(names[n++], 64, "%.63s", e->d_name);
  closedir(open);
  return n;
}

static void save_world(kf_ctx *ctx, uint64_t seed) {
  AUTO(kf_data) *data = NULL;
  kf_synth_options o = {.classes = 5, .dim = 12, .per_class = 400, .seed = seed};
  assert_ok(ctx, kf_synth_open(ctx, &o, &data));
  assert_ok(ctx, kf_data_save(ctx, data, KF_F32, in_folder("data.safetensors")));
}

TEST(checkpoints_are_taken_up) {
  char parts[300], names[16][64];
  snprintf(parts, sizeof parts, "%s/parts", folder);
  AUTO(kf_ctx) *ctx = test_ctx(1, KF_ISA_AUTO);
  save_world(ctx, 0);
  AUTO(session_log) alone = found_alone(count_kept, NULL);
  assert_found(4, count_kept, parts, &alone);
  assert_int_equal(list_files(parts, names), 4);
  /* Lost and damaged checkpoints are recomputed, on other numbers of ranks. */
  assert_int_equal(unlink(test_path(parts, names[0])), 0);
  assert_found(3, count_kept, parts, &alone);
  spoil(test_path(parts, names[1]));
  assert_found(2, count_kept, parts, &alone);
  /* With everything kept, nothing is computed or written. */
  size_t n = list_files(parts, names);
  assert_true(n > 4);
  assert_found(7, count_kept, parts, &alone);
  assert_int_equal(list_files(parts, names), n);
  /* Without ranks, too. */
  AUTO(session_log) again = found_alone(count_kept, parts);
  assert_int_equal(again.n, alone.n);
  assert_memory_equal(again.bytes, alone.bytes, alone.n);
}

/* Different data get different checkpoints, which are never mixed up. */
TEST(checkpoints_are_of_their_data) {
  char parts[300], names[16][64];
  snprintf(parts, sizeof parts, "%s/parts", folder);
  AUTO(kf_ctx) *ctx = test_ctx(1, KF_ISA_AUTO);
  for (uint64_t seed = 0; seed < 2; seed++) {
    save_world(ctx, seed);
    AUTO(session_log) alone = found_alone(count_kept, NULL);
    assert_found(2, count_kept, parts, &alone);
    assert_int_equal(list_files(parts, names), 2 * (seed + 1));
  }
  AUTO(kf_data) *data = NULL;
  kf_stats *stats;
  assert_ok(ctx, kf_synth_open(ctx, &(kf_synth_options){.classes = 5, .dim = 12}, &data));
  assert_error(ctx, KF_ERR_ARG, "rows in files",
               kf_stats_new_from_data(ctx, data, &(kf_stats_options){.checkpoint = parts}, &stats));
}

/* --- while ranks are at work ------------------------------------------------------------------ */

enum { WIDE = 512, SHARE = 2048 }; /* a batch of statistics is 128 rows of this width */

/* A rank's rows of a data set that all ranks read at a pace set by the test. */
typedef struct walk {
  thread_rank *rank;
  atomic_ullong *reported; /* the first progress above 0 that rank 0 reports */
  bool fail;               /* the first row of rank 1 is bad */
  atomic_ullong brought;
} walk;

static uint64_t told_by(const walk *w, uint32_t rank) {
  thread_group *g = w->rank->group;
  pthread_mutex_lock(&g->lock);
  uint64_t done = g->done[rank];
  pthread_mutex_unlock(&g->lock);
  return done;
}

static bool has_failed(const walk *w) {
  thread_group *g = w->rank->group;
  pthread_mutex_lock(&g->lock);
  bool failed = g->failed > 0;
  pthread_mutex_unlock(&g->lock);
  return failed;
}

static void wait_a_little(void) { nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL); }

/* Rank 1 goes first, then rank 0 until it has reported something, then the others. */
static int bring_in_turn(void *user, uint64_t first, uint64_t n, float *rows) {
  walk *w = user;
  uint32_t rank = w->rank->rank;
  w->brought += n;
  for (uint64_t i = 0; i < n * WIDE; i++) rows[i] = (float)(1 + (first + i / WIDE + i % 3) % 7);
  if (w->fail) {
    if (first == SHARE) rows[0] = NAN;
    while (rank != 1 && !has_failed(w)) wait_a_little();
    return 0;
  }
  while (rank == 0 && told_by(w, 1) < SHARE) wait_a_little();
  while (rank > 1 && atomic_load(w->reported) == 0) wait_a_little();
  return 0;
}

static int see_progress(void *user, const char *what, uint64_t done, uint64_t total) {
  const walk *w = user;
  (void)what;
  unsigned long long none = 0;
  if (w->rank->rank == 0 && done > 0 && done < total)
    atomic_compare_exchange_strong(w->reported, &none, done);
  return 0;
}

static kf_status walk_together(kf_ctx *ctx, walk *w) {
  static int32_t labels[4 * SHARE];
  AUTO(kf_data) *data = NULL;
  kf_stats *stats;
  w->rank = ctx->options.comm->self;
  ctx->options.progress = see_progress;
  ctx->options.user = w;
  TRY(kf_data_open_rows(ctx, 4 * SHARE, WIDE, bring_in_turn, w,
                        &(kf_array_options){.labels = labels, .n_classes = 1}, &data));
  kf_status status = kf_stats_new_from_data(ctx, data, NULL, &stats);
  if (status == KF_OK) kf_stats_free(stats);
  return status;
}

static kf_status report_progress(kf_ctx *ctx, void *argument, session_log *log) {
  (void)log;
  return walk_together(ctx, &(walk){.reported = argument});
}

/* Rank 1 has finished, rank 0 has done one batch, the others nothing. */
TEST(progress_is_of_all_ranks) {
  atomic_ullong reported = 0;
  session of[4] = {{0}};
  run_ranks(of, 4, report_progress, &reported);
  for (int i = 0; i < 4; i++)
    if (of[i].status != KF_OK) fail_msg("rank %d: %s", i, of[i].message);
  assert_int_equal(reported, SHARE + 128);
}

static kf_status stop_early(kf_ctx *ctx, void *argument, session_log *log) {
  walk w = {.reported = argument, .fail = true};
  kf_status status = walk_together(ctx, &w);
  uint64_t brought = w.brought;
  NOTE(log, brought);
  return status;
}

/* Rank 1 fails at its first row: ranks after it stop, rank 0 goes on, since its rows come first.
 * Checked on rank 2, which has one thread; a second thread would work on until the ranks meet. */
TEST(others_stop_early) {
  atomic_ullong reported = 0;
  session of[4] = {{0}};
  run_ranks(of, 4, stop_early, &reported);
  for (int i = 0; i < 4; i++) {
    uint64_t brought;
    memcpy(&brought, of[i].log.bytes, sizeof brought);
    assert_int_equal(of[i].status, KF_ERR_DATA);
    assert_non_null(strstr(of[i].message, "row 2048"));
    assert_non_null(strstr(of[i].message, "(rank 1)"));
    if (i == 2) assert_true(brought < SHARE);
    free(of[i].log.bytes);
  }
}

/* --- failures --------------------------------------------------------------------------------- */

static kf_status count_bad(kf_ctx *ctx, void *argument, session_log *log) {
  (void)log;
  enum { N = 500 };
  const uint64_t *bad_row = argument;
  float rows[N * 2];
  int32_t labels[N];
  for (int i = 0; i < N; i++) {
    rows[2 * i] = (float)(1 + i);
    rows[2 * i + 1] = 1;
    labels[i] = i % 3;
  }
  rows[2 * *bad_row] = NAN;
  rows[2 * N - 1] = NAN; /* and the last one */
  AUTO(kf_data) *data = NULL;
  AUTO(kf_stats) *stats = NULL;
  TRY(kf_data_open_memory(ctx, rows, N, 2, labels, NULL, 0, &data));
  kf_status status = kf_stats_new_from_data(ctx, data, NULL, &stats);
  if (kf_agree(ctx, KF_OK, NULL) == KF_OK) return KF_ERR_INTERNAL; /* a failure stays */
  return status;
}

/* All ranks give the message of the lowest bad row, as a single process does. */
TEST(one_error_for_all) {
  static const uint64_t rows[] = {0, 130, 300, 499};
  static const char *const places[] = {"row 0", "row 130", "row 300", "row 499"};
  for (size_t t = 0; t < 4; t++) {
    uint64_t row = rows[t];
    assert_fail(4, count_bad, &row, KF_ERR_DATA, places[t]);
    session of[4] = {{0}};
    run_ranks(of, 4, count_bad, &row);
    assert_true((strstr(of[0].message, "(rank ") != NULL) == (row >= 128));
  }
}

/* One rank fails where the others do not expect it. */
static kf_status fail_alone(kf_ctx *ctx, void *argument, session_log *log) {
  (void)argument;
  kf_data *data;
  const char *missing = "no/such/file.npy";
  if (kf_ctx_rank(ctx) == 2) return kf_data_open(ctx, &missing, 1, NULL, &data);
  return count_rows(ctx, NULL, log);
}

TEST(a_failing_rank_fails_all) {
  assert_fail(4, fail_alone, NULL, KF_ERR_IO, "no/such/file.npy");
  assert_fail(4, fail_alone, NULL, KF_ERR_IO, "(rank 2)");
}

/* Ranks that make different calls fail. */
static kf_status go_apart(kf_ctx *ctx, void *argument, session_log *log) {
  if (kf_ctx_rank(ctx) == 1) return kf_agree(ctx, KF_OK, NULL);
  return use_all(ctx, argument, log);
}

TEST(ranks_that_come_apart_fail) {
  assert_fail(3, go_apart, NULL, KF_ERR_INTERNAL, "are out of step");
}

/* A rank with another version: the version it sends is changed. */
static int gather_as_other(void *self, const void *part, void *all, const uint64_t *ends,
                           uint32_t to) {
  char word[256];
  thread_rank *r = self;
  uint64_t n = ends[r->rank] - (r->rank > 0 ? ends[r->rank - 1] : 0);
  if (r->rank == 1 && n < sizeof word) {
    memcpy(word, part, n);
    if (strcmp(word, KF_VERSION) == 0) memcpy(word, "0.0.9", 6);
    part = word;
  }
  return thread_gather(self, part, all, ends, to);
}

static kf_status just_agree(kf_ctx *ctx, void *argument, session_log *log) {
  (void)argument;
  (void)log;
  return kf_agree(ctx, KF_OK, NULL);
}

static void *other_version(void *argument) {
  session *s = argument;
  s->rank.comm.gather = gather_as_other;
  return session_main(s);
}

TEST(versions_must_agree) {
  session of[2] = {{0}};
  pthread_t threads[2];
  thread_group group = {.size = 2};
  pthread_barrier_init(&group.barrier, NULL, 2);
  for (uint32_t i = 0; i < 2; i++) {
    of[i] = (session){.run = just_agree, .rank = {.group = &group, .rank = i}, .threads = 1};
    of[i].rank.comm = (kf_comm){.rank = i,
                                .size = 2,
                                .self = &of[i].rank,
                                .sum = thread_sum,
                                .broadcast = thread_broadcast};
    assert_int_equal(pthread_create(&threads[i], NULL, other_version, &of[i]), 0);
  }
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  pthread_barrier_destroy(&group.barrier);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(of[i].status, KF_ERR_ARG);
    assert_string_equal(of[i].message,
                        "rank 0 runs koofu " KF_VERSION " and rank 1 runs koofu 0.0.9");
  }
}

/* Whichever communicator call fails, the session fails, with a message and without a leak. */
TEST(lost_ranks_are_noticed) {
  for (uint64_t fail = 1; fail < 200; fail++) {
    session of[2] = {{.rank = {.fail = fail}}, {.rank = {.fail = fail}}};
    run_ranks(of, 2, judge_all, NULL);
    bool done = of[0].status == KF_OK;
    for (int i = 0; i < 2; i++) {
      assert_int_equal(of[i].status, done ? KF_OK : KF_ERR_IO);
      if (!done) assert_string_equal(of[i].message, "the other ranks can no longer be reached");
      free(of[i].log.bytes);
    }
    if (done) return;
  }
  fail_msg("there is no end");
}

TEST(wrong_communicators_are_refused) {
  AUTO(kf_ctx) *ctx = NULL;
  kf_comm comm = {.rank = 1, .size = 1};
  assert_int_equal(kf_ctx_new(&(kf_ctx_options){.comm = &comm}, &ctx), KF_ERR_ARG);
  comm = (kf_comm){.size = 0};
  assert_int_equal(kf_ctx_new(&(kf_ctx_options){.comm = &comm}, &ctx), KF_ERR_ARG);
  comm = (kf_comm){.size = 1, .reserved = {[1] = 1}};
  assert_int_equal(kf_ctx_new(&(kf_ctx_options){.comm = &comm}, &ctx), KF_ERR_ARG);
  comm = (kf_comm){.size = 1};
  assert_int_equal(kf_ctx_new(&(kf_ctx_options){.comm = &comm}, &ctx), KF_OK);
  assert_int_equal(kf_ctx_ranks(ctx), 1);
  assert_int_equal(kf_agree(ctx, KF_ERR_DATA, "why"), KF_ERR_DATA);
  assert_string_equal(kf_errmsg(ctx), "why");
}

static int make_folder(void **state) {
  (void)state;
  snprintf(folder, sizeof folder, "%s", test_folder());
  return 0;
}

static int remove_folder(void **state) {
  (void)state;
  test_remove(folder);
  return 0;
}

FIXTURES(.before = test_in_memory, .before_each = make_folder, .after_each = remove_folder);
