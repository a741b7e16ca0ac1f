/* test_gallery.c - galleries: written, grown, loaded, searched, left one out, voted with and
 * scored. What is wrong with files is in test_gallery_bad.c. */
#include "world.h"

#include "files.h"
#include "search/gallery.h"

#include <unistd.h>

static const char *const names[] = {"ant", "bee", "cat", "dog", "eel", "fox"};

enum { CLASSES = 6, DIM = 24, L = 9 };

/* --- helpers --------------------------------------------------------------------------------- */

static kf_data *data_of(const float *rows, uint64_t n, uint32_t dim, const int32_t *labels,
                        uint32_t named) {
  kf_data *data;
  assert_ok(ctx,
            kf_data_open_memory(ctx, rows, n, dim, labels, named > 0 ? names : NULL, named, &data));
  return data;
}

static kf_gallery *load(const char *path, int from_disk) {
  kf_gallery *g = NULL;
  kf_gallery_load_options options = {.rerank_from_disk = from_disk};
  assert_ok(ctx, kf_gallery_load(ctx, path, &options, &g));
  return g;
}

static kf_gallery *save_and_load(const kf_data *data, const kf_model *model, kf_metric metric) {
  const char *path = at("g.safetensors");
  assert_ok(ctx, kf_gallery_save(ctx, data, model, &(kf_gallery_options){.metric = metric}, path));
  return load(path, 0);
}

/* A gallery of rows with numbers for classes, in the original space. */
static kf_gallery *plain_gallery(const float *rows, uint64_t n, uint32_t dim, const int32_t *labels,
                                 kf_metric metric) {
  kf_data *data = data_of(rows, n, dim, labels, 0);
  kf_gallery *g = save_and_load(data, NULL, metric);
  kf_data_free(data);
  return g;
}

static kf_model *fit_world(const world *w, int raw, kf_centre centre) {
  kf_stats *s = stats_of(ctx, w, raw);
  kf_model *m;
  assert_ok(ctx, kf_fit(ctx, s, &(kf_fit_options){.dim = L, .centre = centre}, &m));
  kf_stats_free(s);
  return m;
}

/* "row-000017" and so on; those of rows [first, first + n). */
static const char *write_ids(const char *name, uint64_t first, uint64_t n) {
  char *text = malloc(n * 16 + 1), *end = text;
  for (uint64_t i = 0; i < n; i++)
    end += sprintf(end, "%s%llu\n", (first + i) % 3 == 0 ? "\xC3\xA9-" : "row-",
                   (unsigned long long)(first + i));
  const char *path = write_bytes(name, text, (size_t)(end - text));
  free(text);
  return path;
}

static void check_id(const kf_gallery *g, uint64_t row, uint64_t written) {
  char wanted[32];
  sprintf(wanted, "%s%llu", written % 3 == 0 ? "\xC3\xA9-" : "row-", (unsigned long long)written);
  assert_string_equal(kf_gallery_id(g, row), wanted);
}

/* --- the file -------------------------------------------------------------------------------- */

/* The rows of the file, read as a data set. */
static void check_as_data(const char *path, const float *rows, const world *w, uint32_t dim) {
  kf_data *data = must_open(path, NULL);
  assert_int_equal(kf_data_rows(data), w->n);
  assert_int_equal(kf_data_dim(data), dim);
  assert_string_equal(kf_data_class_name(data, 4), names[4]);
  float *read = malloc(w->n * dim * sizeof *read);
  int32_t *labels = malloc(w->n * sizeof *labels);
  assert_ok(ctx, kf_data_get(ctx, data, 0, w->n, read, labels));
  assert_memory_equal(read, rows, w->n * dim * sizeof *read);
  assert_memory_equal(labels, w->labels, w->n * sizeof *labels);
  free(read);
  free(labels);
  kf_data_free(data);
}

static void check_info(const char *path, uint64_t rows, uint32_t dim, uint32_t dim_out) {
  kf_info *info;
  assert_ok(ctx, kf_info_read(ctx, path, &info));
  assert_string_equal(info->kind, "gallery");
  assert_int_equal(info->rows, rows);
  assert_int_equal(info->dim, dim);
  assert_int_equal(info->dim_out, dim_out);
  assert_int_equal(info->classes, CLASSES);
  kf_info_free(info);
}

static void round_trip(void **state) {
  (void)state;
  world w = make_world(301, DIM, CLASSES, 2, 1);
  kf_data *data = data_of(w.rows, w.n, w.dim, w.labels, CLASSES);
  kf_model *m = fit_world(&w, 0, KF_CENTRE_MEAN), *other = fit_world(&w, 0, KF_CENTRE_NONE);
  float *mapped = malloc(w.n * L * sizeof *mapped);
  assert_ok(ctx, kf_transform(ctx, m, w.rows, w.n, NULL, mapped));
  const char *path = at("trip.safetensors");
  kf_gallery_options options = {.ids = write_ids("trip.txt", 0, w.n)};
  assert_ok(ctx, kf_gallery_save(ctx, data, m, &options, path));
  check_as_data(path, mapped, &w, L);
  check_info(path, w.n, DIM, L);
  kf_gallery *g = load(path, 0);
  assert_int_equal(kf_gallery_rows(g), w.n);
  assert_int_equal(kf_gallery_dim_in(g), DIM);
  assert_int_equal(kf_gallery_dim(g), L);
  assert_int_equal(kf_gallery_metric(g), KF_METRIC_COSINE);
  assert_int_equal(kf_gallery_mapped(g), 1);
  assert_int_equal(kf_gallery_made_with(g, m), 1);
  assert_int_equal(kf_gallery_made_with(g, other), 0);
  assert_int_equal(kf_gallery_has_labels(g), 1);
  assert_int_equal(kf_gallery_classes(g), CLASSES);
  assert_int_equal(kf_index_rows(kf_gallery_index(g)), w.n);
  for (uint32_t k = 0; k < CLASSES; k++) assert_string_equal(kf_gallery_class_name(g, k), names[k]);
  assert_null(kf_gallery_class_name(g, CLASSES));
  for (uint64_t i = 0; i < w.n; i++) {
    assert_int_equal(kf_gallery_label(g, i), w.labels[i]);
    check_id(g, i, i);
  }
  kf_gallery_free(g);
  kf_model_free(m);
  kf_model_free(other);
  kf_data_free(data);
  free(mapped);
  free_world(&w);
}

/* Without a model, labels or ids; each metric keeps rows as it must. */
static void raw_rows(void **state) {
  (void)state;
  world w = make_world(50, 7, 3, 1, 2);
  kf_data *data = data_of(w.rows, w.n, w.dim, NULL, 0);
  for (int metric = KF_METRIC_DEFAULT; metric <= KF_METRIC_INNER; metric++) {
    kf_gallery *g = save_and_load(data, NULL, (kf_metric)metric);
    bool cosine = metric <= KF_METRIC_COSINE;
    assert_int_equal(kf_gallery_metric(g), cosine ? KF_METRIC_COSINE : metric);
    assert_int_equal(kf_gallery_mapped(g), 0);
    assert_int_equal(kf_gallery_dim_in(g), 7);
    assert_int_equal(kf_gallery_has_labels(g), 0);
    assert_int_equal(kf_gallery_classes(g), 0);
    assert_int_equal(kf_gallery_label(g, 0), KF_LABEL_NONE);
    assert_null(kf_gallery_id(g, 0));
    kf_data *rows = must_open(at("g.safetensors"), NULL);
    float x[7], want[7];
    for (uint64_t i = 0; i < w.n; i++) {
      assert_ok(ctx, kf_data_get(ctx, rows, i, 1, x, NULL));
      memcpy(want, w.rows + i * 7, sizeof want);
      if (cosine) kf_unit_f32(w.rows + i * 7, kf_kernels_plain.norm2(want, 7), 7, want);
      assert_memory_equal(x, want, sizeof x);
    }
    kf_data_free(rows);
    kf_gallery_free(g);
  }
  kf_data_free(data);
  free_world(&w);
}

/* A model of raw norms is for Euclidean distance by default. */
static void default_metric(void **state) {
  (void)state;
  world w = make_world(90, DIM, 3, 1, 3);
  kf_data *data = data_of(w.rows, w.n, w.dim, NULL, 0);
  kf_model *m = fit_world(&w, 1, KF_CENTRE_NONE);
  kf_gallery *g = save_and_load(data, m, KF_METRIC_DEFAULT);
  assert_int_equal(kf_gallery_metric(g), KF_METRIC_EUCLIDEAN);
  kf_gallery_free(g);
  kf_model_free(m);
  kf_data_free(data);
  free_world(&w);
}

/* The mean belongs to the map of a model that subtracts it. */
static void which_model(void **state) {
  (void)state;
  world w = make_world(90, DIM, 3, 1, 30);
  kf_data *data = data_of(w.rows, w.n, w.dim, NULL, 0);
  for (int centred = 0; centred < 2; centred++) {
    kf_model *m = fit_world(&w, 0, centred ? KF_CENTRE_MEAN : KF_CENTRE_NONE);
    kf_gallery *g = save_and_load(data, m, KF_METRIC_DEFAULT);
    assert_int_equal(kf_gallery_made_with(g, m), 1);
    m->mean[3] = nextafter(m->mean[3], 1);
    assert_int_equal(kf_gallery_made_with(g, m), !centred);
    m->transform[L * DIM - 1] = nextafter(m->transform[L * DIM - 1], 1);
    assert_int_equal(kf_gallery_made_with(g, m), 0);
    kf_gallery_free(g);
    g = save_and_load(data, NULL, KF_METRIC_DEFAULT);
    assert_int_equal(kf_gallery_made_with(g, m), 0);
    kf_gallery_free(g);
    kf_model_free(m);
  }
  kf_data_free(data);
  free_world(&w);
}

/* --- appending ------------------------------------------------------------------------------- */

/* Saves rows [first, first + n) of a world, alone or behind a gallery. */
static kf_status save_part(const world *w, uint64_t first, uint64_t n, const kf_model *m,
                           uint32_t named, const char *append_to, const char *path) {
  kf_data *data = data_of(w->rows + first * w->dim, n, w->dim, w->labels + first, named);
  kf_gallery_options options = {.ids = write_ids("part.txt", first, n), .append_to = append_to};
  kf_status status = kf_gallery_save(ctx, data, m, &options, path);
  kf_data_free(data);
  return status;
}

static void append_is_one_go(void **state) {
  (void)state;
  world w = make_world(500, DIM, CLASSES, 2, 4);
  kf_model *m = fit_world(&w, 0, KF_CENTRE_NONE);
  const char *whole = at("whole.safetensors"), *grown = at("grown.safetensors");
  for (int mapped = 0; mapped < 2; mapped++)
    for (uint32_t named = 0; named <= CLASSES; named += CLASSES) {
      const kf_model *model = mapped ? m : NULL;
      assert_ok(ctx, save_part(&w, 0, 500, model, named, NULL, whole));
      assert_ok(ctx, save_part(&w, 0, 123, model, named, NULL, grown));
      assert_ok(ctx, save_part(&w, 123, 1, NULL, named, grown, grown)); /* onto itself */
      assert_ok(ctx, save_part(&w, 124, 376, NULL, named, grown, at("more.safetensors")));
      assert_same_file(whole, at("more.safetensors"));
    }
  kf_model_free(m);
  free_world(&w);
}

/* Old labels stay, and new classes go behind. */
static void append_other_classes(void **state) {
  (void)state;
  float rows[] = {1, 0, 0, 1, 1, 1, 2, 1};
  int32_t first[] = {1, 0, -1, 1}, then[] = {0, 1, 2, -1};
  static const char *const more[] = {"gnu", "bee", "hen"};
  kf_data *a = data_of(rows, 4, 2, first, 2), *b;
  assert_ok(ctx, kf_data_open_memory(ctx, rows, 4, 2, then, more, 3, &b));
  const char *path = at("classes.safetensors");
  assert_ok(ctx, kf_gallery_save(ctx, a, NULL, NULL, path));
  assert_ok(ctx, kf_gallery_save(ctx, b, NULL, &(kf_gallery_options){.append_to = path}, path));
  kf_gallery *g = load(path, 0);
  static const char *const all[] = {"ant", "bee", "gnu", "hen"};
  static const int32_t labels[] = {1, 0, -1, 1, 2, 1, 3, -1};
  assert_int_equal(kf_gallery_classes(g), 4);
  for (uint32_t k = 0; k < 4; k++) assert_string_equal(kf_gallery_class_name(g, k), all[k]);
  for (uint64_t i = 0; i < 8; i++) assert_int_equal(kf_gallery_label(g, i), labels[i]);
  kf_gallery_free(g);
  kf_data_free(a);
  kf_data_free(b);
}

static void assert_unappendable(const kf_data *data, const kf_model *model, kf_metric metric,
                                const char *ids, kf_status status, const char *cause) {
  const char *base = at("base.safetensors"), *out = at("not-there.safetensors");
  kf_gallery_options options = {.metric = metric, .ids = ids, .append_to = base};
  assert_error(ctx, status, cause, kf_gallery_save(ctx, data, model, &options, out));
  assert_int_not_equal(access(out, F_OK), 0);
}

static void append_what_does_not_fit(void **state) {
  (void)state;
  world w = make_world(40, DIM, CLASSES, 1, 5);
  kf_model *m = fit_world(&w, 0, KF_CENTRE_NONE);
  kf_data *named = data_of(w.rows, 40, DIM, w.labels, CLASSES);
  kf_data *numbers = data_of(w.rows, 40, DIM, w.labels, 0);
  kf_data *bare = data_of(w.rows, 40, DIM, NULL, 0), *narrow = data_of(w.rows, 40, L, w.labels, 0);
  const char *ids = write_ids("base.txt", 0, 40);
  assert_ok(ctx, kf_gallery_save(ctx, named, m, &(kf_gallery_options){.ids = ids},
                                 at("base.safetensors")));
  assert_unappendable(numbers, NULL, 0, ids, KF_ERR_DATA, "numbers only");
  assert_unappendable(bare, NULL, 0, ids, KF_ERR_DATA, "has labels");
  assert_unappendable(named, NULL, 0, NULL, KF_ERR_DATA, "has ids");
  assert_unappendable(named, m, 0, ids, KF_ERR_ARG, "its own map");
  assert_unappendable(named, NULL, KF_METRIC_INNER, ids, KF_ERR_ARG, "'cosine'");
  assert_unappendable(narrow, NULL, 0, ids, KF_ERR_DATA, "has 9 columns, the gallery takes 24");
  assert_unappendable(named, NULL, 0, write_ids("few.txt", 0, 39), KF_ERR_DATA, "39 ids for 40");
  assert_unappendable(named, NULL, 0, write_ids("many.txt", 0, 99), KF_ERR_DATA, "99 ids for 40");
  assert_unappendable(named, NULL, 0, write_text("empty.txt", "a\n\nb\n"), KF_ERR_DATA,
                      "line 2 is empty");
  assert_unappendable(named, NULL, 0, write_text("latin.txt", "a\n\xE9\n"), KF_ERR_DATA, "UTF-8");
  kf_data_free(named);
  kf_data_free(numbers);
  kf_data_free(bare);
  kf_data_free(narrow);
  kf_model_free(m);
  free_world(&w);
}

/* Bad rows are left out with their labels and ids; an appended gallery is that of the good rows. */
static void bad_rows_left_out(void **state) {
  (void)state;
  world w = make_world(60, 5, 3, 1, 6);
  static const uint64_t bad[] = {0, 7, 8, 31, 59};
  for (int b = 0; b < 5; b++) memset(w.rows + bad[b] * 5, 0, 5 * sizeof *w.rows);
  w.rows[7 * 5 + 2] = NAN;
  w.rows[31 * 5] = INFINITY;
  kf_data *data = data_of(w.rows, w.n, 5, w.labels, 3);
  data->skip_bad = true;
  const char *path = at("good.safetensors");
  kf_gallery_options options = {.ids = write_ids("good.txt", 0, 60)};
  assert_ok(ctx, kf_gallery_save(ctx, data, NULL, &options, path));
  options.append_to = path;
  assert_ok(ctx, kf_gallery_save(ctx, data, NULL, &options, path));
  kf_gallery *g = load(path, 0);
  assert_int_equal(kf_gallery_rows(g), 110);
  uint64_t row = 0;
  for (int twice = 0; twice < 2; twice++)
    for (uint64_t i = 0; i < 60; i++) {
      bool left_out = false;
      for (int b = 0; b < 5; b++) left_out |= bad[b] == i;
      if (left_out) continue;
      assert_int_equal(kf_gallery_label(g, row), w.labels[i]);
      check_id(g, row++, i);
    }
  kf_gallery_free(g);
  data->skip_bad = false;
  assert_error(ctx, KF_ERR_DATA, "row 0", kf_gallery_save(ctx, data, NULL, NULL, path));
  memset(w.rows, 0, w.n * 5 * sizeof *w.rows);
  data->skip_bad = true;
  assert_error(ctx, KF_ERR_DATA, "all 60 rows", kf_gallery_save(ctx, data, NULL, NULL, path));
  kf_data_free(data);
  free_world(&w);
}

static void refused_outputs(void **state) {
  (void)state;
  world w = make_world(30, 4, 3, 1, 7);
  kf_data *data = data_of(w.rows, w.n, 4, w.labels, 0), *file;
  const char *set = at("set.safetensors"), *ids = write_ids("ids.safetensors", 0, 30);
  assert_ok(ctx, kf_data_save(ctx, data, KF_F32, set));
  file = must_open(set, NULL);
  assert_error(ctx, KF_ERR_ARG, "both input and output",
               kf_gallery_save(ctx, file, NULL, NULL, set));
  assert_error(ctx, KF_ERR_ARG, "both input and output",
               kf_gallery_save(ctx, file, NULL, &(kf_gallery_options){.ids = ids}, ids));
  assert_error(ctx, KF_ERR_ARG, "must end in .safetensors",
               kf_gallery_save(ctx, data, NULL, NULL, at("g.bin")));
  assert_error(
      ctx, KF_ERR_ARG, "none of its choices",
      kf_gallery_save(ctx, data, NULL, &(kf_gallery_options){.metric = (kf_metric)4}, set));
  kf_data_free(file);
  kf_data_free(data);
  free_world(&w);
}

/* A row that the map takes to zero has no direction, but is a point like any other. */
static void mapped_to_zero(void **state) {
  (void)state;
  world w = make_world(80, DIM, 4, 1, 8);
  kf_model *m = fit_world(&w, 1, KF_CENTRE_MEAN);
  for (uint32_t d = 0; d < DIM; d++) m->mean[d] = (double)w.rows[17 * DIM + d];
  kf_data *data = data_of(w.rows, w.n, DIM, w.labels, 0);
  kf_gallery_options options = {.metric = KF_METRIC_COSINE};
  assert_error(ctx, KF_ERR_DATA, "row 17: is mapped to zero",
               kf_gallery_save(ctx, data, m, &options, at("zero.safetensors")));
  kf_gallery *g = save_and_load(data, m, KF_METRIC_EUCLIDEAN);
  int64_t found;
  double distance;
  assert_ok(ctx, kf_gallery_search(ctx, g, w.rows + 17 * DIM, 1, 1, NULL, &found, &distance, NULL));
  assert_int_equal(found, 17);
  assert_true(distance == 0);
  /* So is a query of zeros: it goes to T (0 - mean). */
  float zero[DIM] = {0}, z[L];
  for (int l = 0; l < L; l++) {
    double sum = 0;
    for (int d = 0; d < DIM; d++) sum -= m->transform[l * DIM + d] * m->mean[d];
    z[l] = (float)sum;
  }
  int64_t by_index;
  double by_hand;
  assert_ok(ctx, kf_gallery_search(ctx, g, zero, 1, 1, NULL, &found, &distance, NULL));
  assert_ok(ctx, kf_search(ctx, kf_gallery_index(g), z, 1, 1, NULL, &by_index, &by_hand, NULL));
  assert_int_equal(found, by_index);
  assert_true(fabs(distance - by_hand) < 1e-5 * by_hand);
  kf_gallery_free(g);
  kf_model_free(m);
  kf_data_free(data);
  free_world(&w);
}

/* Before any of it is done. */
static int stop(void *user, const char *what, uint64_t done, uint64_t total) {
  (void)total;
  return done == 0 && strcmp(what, user) == 0;
}

static kf_ctx *stopping(const char *what) {
  kf_ctx *stopped;
  kf_ctx_options options = {.threads = 2, .progress = stop, .user = (void *)(uintptr_t)what};
  assert_int_equal(kf_ctx_new(&options, &stopped), KF_OK);
  return stopped;
}

static void cancelled(void **state) {
  (void)state;
  world w = make_world(40, 4, 3, 1, 9);
  kf_data *data = data_of(w.rows, w.n, 4, w.labels, 0);
  const char *path = at("cancelled.safetensors"), *half = at("half.safetensors");
  kf_ctx *indexing = stopping("index"), *copying = stopping("copy"),
         *scoring = stopping("eval k-NN");
  assert_int_equal(kf_gallery_save(indexing, data, NULL, NULL, path), KF_ERR_CANCELLED);
  assert_int_not_equal(access(path, F_OK), 0);
  assert_ok(ctx, kf_gallery_save(ctx, data, NULL, NULL, path));
  kf_gallery_options options = {.append_to = path};
  assert_int_equal(kf_gallery_save(copying, data, NULL, &options, half), KF_ERR_CANCELLED);
  assert_int_not_equal(access(half, F_OK), 0);
  kf_gallery *g = load(path, 0);
  kf_eval_result counts;
  kf_hits hits;
  assert_int_equal(kf_gallery_eval(scoring, g, data, NULL, &counts, &hits, NULL), KF_ERR_CANCELLED);
  assert_int_equal(kf_gallery_eval(scoring, g, NULL, NULL, &counts, &hits, NULL), KF_ERR_CANCELLED);
  kf_gallery_free(g);
  kf_ctx_free(indexing);
  kf_ctx_free(copying);
  kf_ctx_free(scoring);
  kf_data_free(data);
  free_world(&w);
}

/* --- searching ------------------------------------------------------------------------------- */

/* Higher is better; sums in the order of the columns. */
static double naive_score(kf_metric metric, const float *x, const float *y, uint32_t dim) {
  double dot = 0, x2 = 0, y2 = 0, distance2 = 0;
  for (uint32_t i = 0; i < dim; i++) {
    double a = (double)x[i], b = (double)y[i];
    dot += a * b;
    x2 += a * a;
    y2 += b * b;
    distance2 += (a - b) * (a - b);
  }
  if (metric == KF_METRIC_INNER) return dot;
  return metric == KF_METRIC_COSINE ? dot / sqrt(x2 * y2) : -sqrt(distance2);
}

/* The k nearest of n rows, by looking at all of them k times. */
static void naive_search(kf_metric metric, const float *x, const float *rows, uint64_t n,
                         uint32_t dim, uint32_t k, int64_t *found, double *scores) {
  bool *taken = calloc(n, 1);
  for (uint32_t t = 0; t < k; t++) {
    double best = -INFINITY;
    uint64_t row = 0;
    for (uint64_t i = 0; i < n; i++) {
      double score = naive_score(metric, x, rows + i * dim, dim);
      if (taken[i] || score <= best) continue;
      row = i;
      best = score;
    }
    taken[row] = true;
    found[t] = (int64_t)row;
    scores[t] = metric == KF_METRIC_EUCLIDEAN ? -best : best;
  }
  free(taken);
}

static void check_naive(const kf_gallery *g, const world *queries, const float *raw_queries,
                        const float *rows) {
  enum { K = 12 };
  kf_metric metric = kf_gallery_metric(g);
  uint32_t dim = kf_gallery_dim(g);
  int64_t *found = malloc(queries->n * K * sizeof *found), want[K];
  double *scores = malloc(queries->n * K * sizeof *scores), wanted[K];
  kf_search_report report = {.queries = 5, .candidates = 0};
  assert_ok(ctx,
            kf_gallery_search(ctx, g, queries->rows, queries->n, K, NULL, found, scores, &report));
  assert_int_equal(report.queries, 5 + queries->n);
  assert_true(report.candidates >= queries->n * K);
  for (uint64_t q = 0; q < queries->n; q++) {
    naive_search(metric, raw_queries + q * dim, rows, kf_gallery_rows(g), dim, K, want, wanted);
    assert_memory_equal(found + q * K, want, sizeof want);
    for (int t = 0; t < K; t++)
      assert_true(fabs(scores[q * K + (uint64_t)t] - wanted[t]) < 1e-6 * fmax(1, fabs(wanted[t])));
  }
  free(found);
  free(scores);
}

static void naive_loops(void **state) {
  (void)state;
  world w = make_world(400, DIM, CLASSES, 2, 10), q = make_world(50, DIM, CLASSES, 2, 11);
  kf_data *data = data_of(w.rows, w.n, DIM, w.labels, CLASSES);
  kf_model *m = fit_world(&w, 0, KF_CENTRE_MEAN);
  float *rows = malloc(w.n * L * sizeof *rows), *queries = malloc(q.n * L * sizeof *queries);
  kf_transform_options whole = {.no_normalize = 1};
  assert_ok(ctx, kf_transform(ctx, m, w.rows, w.n, &whole, rows));
  assert_ok(ctx, kf_transform(ctx, m, q.rows, q.n, &whole, queries));
  for (int metric = KF_METRIC_COSINE; metric <= KF_METRIC_INNER; metric++) {
    kf_gallery *g = save_and_load(data, NULL, (kf_metric)metric);
    check_naive(g, &q, q.rows, w.rows);
    kf_gallery_free(g);
    g = save_and_load(data, m, (kf_metric)metric);
    check_naive(g, &q, queries, rows);
    kf_gallery_free(g);
  }
  free(rows);
  free(queries);
  kf_model_free(m);
  kf_data_free(data);
  free_world(&w);
  free_world(&q);
}

/* A gallery with a model is a gallery of mapped rows, asked with mapped queries, to the bit; for
 * cosine that is the inner product of unit rows. */
static void map_first(void **state) {
  (void)state;
  enum { K = 20 };
  world w = make_world(500, DIM, CLASSES, 2, 12), q = make_world(150, DIM, CLASSES, 2, 13);
  kf_data *data = data_of(w.rows, w.n, DIM, NULL, 0);
  kf_model *m = fit_world(&w, 0, KF_CENTRE_NONE);
  float *rows = malloc(w.n * L * sizeof *rows), *queries = malloc(q.n * L * sizeof *queries);
  int64_t *a = malloc(q.n * K * sizeof *a), *b = malloc(q.n * K * sizeof *b);
  double *x = malloc(q.n * K * sizeof *x), *y = malloc(q.n * K * sizeof *y);
  for (int metric = KF_METRIC_COSINE; metric <= KF_METRIC_INNER; metric++) {
    kf_transform_options options = {.no_normalize = metric != KF_METRIC_COSINE};
    assert_ok(ctx, kf_transform(ctx, m, w.rows, w.n, &options, rows));
    assert_ok(ctx, kf_transform(ctx, m, q.rows, q.n, &options, queries));
    kf_gallery *g = save_and_load(data, m, (kf_metric)metric);
    assert_ok(ctx, kf_gallery_search(ctx, g, q.rows, q.n, K, NULL, a, x, NULL));
    kf_gallery_free(g);
    g = plain_gallery(rows, w.n, L, NULL,
                      metric == KF_METRIC_COSINE ? KF_METRIC_INNER : (kf_metric)metric);
    assert_ok(ctx, kf_gallery_search(ctx, g, queries, q.n, K, NULL, b, y, NULL));
    kf_gallery_free(g);
    assert_memory_equal(a, b, q.n * K * sizeof *a);
    assert_memory_equal(x, y, q.n * K * sizeof *x);
  }
  free(rows);
  free(queries);
  free(a);
  free(b);
  free(x);
  free(y);
  kf_model_free(m);
  kf_data_free(data);
  free_world(&w);
  free_world(&q);
}

/* A gallery in the original space answers as an index over the same rows does. */
static void as_an_index(void **state) {
  (void)state;
  enum { K = 7 };
  world w = make_world(300, 10, 3, 1, 14), q = make_world(70, 10, 3, 1, 15);
  int64_t a[70 * K], b[70 * K], leave_out[70];
  double x[70 * K], y[70 * K];
  for (int i = 0; i < 70; i++) leave_out[i] = i % 2 ? 3 * i : -1;
  kf_search_options options = {.leave_out = leave_out};
  for (int metric = KF_METRIC_COSINE; metric <= KF_METRIC_INNER; metric++) {
    kf_gallery *g = plain_gallery(w.rows, w.n, 10, NULL, (kf_metric)metric);
    kf_index *index;
    kf_index_options o = {.metric = (kf_metric)metric};
    assert_ok(ctx, kf_index_new(ctx, w.rows, w.n, 10, &o, &index));
    assert_ok(ctx, kf_gallery_search(ctx, g, q.rows, q.n, K, &options, a, x, NULL));
    assert_ok(ctx, kf_search(ctx, index, q.rows, q.n, K, &options, b, y, NULL));
    assert_memory_equal(a, b, sizeof a);
    assert_memory_equal(x, y, sizeof x);
    kf_index_free(index);
    kf_gallery_free(g);
  }
  free_world(&w);
  free_world(&q);
}

typedef struct answers {
  int64_t rows[100 * 10], own[100 * 10];
  double scores[100 * 10], own_scores[100 * 10], votes[100 * 3];
  int32_t classes[100 * 3];
  kf_eval_result counts;
  kf_hits hits[2];
} answers;

static void ask(kf_ctx *with, const kf_gallery *g, const world *q, const kf_data *data,
                answers *out) {
  memset(out, 0, sizeof *out); /* padding, too, is compared */
  assert_ok(with, kf_gallery_search(with, g, q->rows, 100, 10, NULL, out->rows, out->scores, NULL));
  assert_ok(with, kf_gallery_search_itself(with, g, 37, 100, 10, out->own, out->own_scores, NULL));
  kf_vote_options vote = {.k = 10, .top = 3, .weighted = 1};
  assert_ok(with,
            kf_gallery_classify(with, g, q->rows, 100, &vote, out->classes, out->votes, NULL));
  kf_gallery_eval_options eval = {.k = (uint32_t[]){1, 9}, .n_k = 2};
  assert_ok(with, kf_gallery_eval(with, g, data, &eval, &out->counts, out->hits, NULL));
}

static void same_answers(void **state) {
  (void)state;
  world w = make_world(700, DIM, CLASSES, 2, 16), q = make_world(100, DIM, CLASSES, 2, 17);
  kf_data *data = data_of(w.rows, w.n, DIM, w.labels, CLASSES);
  kf_data *test = data_of(q.rows, q.n, DIM, q.labels, CLASSES);
  kf_model *m = fit_world(&w, 0, KF_CENTRE_MEAN);
  static const unsigned threads[] = {1, 2, 5};
  answers *first = malloc(sizeof *first), *more = malloc(sizeof *more);
  const char *one = at("one.safetensors"), *other = at("other.safetensors");
  for (int t = 0; t < 3; t++)
    for (int plain = 0; plain < 2; plain++)
      for (int from_disk = 0; from_disk < 2; from_disk++) {
        bool start = t == 0 && plain == 0 && from_disk == 0;
        kf_ctx *with = test_ctx(threads[t], plain ? KF_ISA_PLAIN : KF_ISA_AUTO);
        kf_gallery_load_options options = {.rerank_from_disk = from_disk};
        kf_gallery *g;
        assert_ok(with, kf_gallery_save(with, data, m, NULL, start ? one : other));
        if (!start) assert_same_file(one, other);
        assert_ok(with, kf_gallery_load(with, one, &options, &g));
        ask(with, g, &q, test, start ? first : more);
        if (!start) assert_memory_equal(first, more, sizeof *more);
        kf_gallery_free(g);
        kf_ctx_free(with);
      }
  free(first);
  free(more);
  kf_model_free(m);
  kf_data_free(data);
  kf_data_free(test);
  free_world(&w);
  free_world(&q);
}

/* Every row stands twice, so that its twin comes first and itself never. */
static void leave_one_out(void **state) {
  (void)state;
  enum { N = 120, K = 6 };
  world w = make_world(N, DIM, CLASSES, 1, 18);
  for (int i = 0; i < N / 2 * DIM; i++) w.rows[N / 2 * DIM + i] = w.rows[i];
  kf_data *data = data_of(w.rows, N, DIM, NULL, 0);
  kf_model *m = fit_world(&w, 0, KF_CENTRE_NONE);
  int64_t own[N * K], asked[N * K], leave_out[N];
  double x[N * K], y[N * K];
  for (int64_t i = 0; i < N; i++) leave_out[i] = i;
  kf_search_options options = {.leave_out = leave_out};
  for (int mapped = 0; mapped < 2; mapped++)
    for (int metric = KF_METRIC_COSINE; metric <= KF_METRIC_EUCLIDEAN; metric++) {
      kf_gallery *g = save_and_load(data, mapped ? m : NULL, (kf_metric)metric);
      assert_ok(ctx, kf_gallery_search_itself(ctx, g, 0, N, K, own, x, NULL));
      assert_ok(ctx, kf_gallery_search(ctx, g, w.rows, N, K, &options, asked, y, NULL));
      assert_memory_equal(own, asked, sizeof own);
      assert_memory_equal(x, y, sizeof x);
      for (int64_t i = 0; i < N; i++) {
        for (int t = 0; t < K; t++) assert_int_not_equal(own[i * K + t], i);
        assert_int_equal(own[i * K], (i + N / 2) % N);
      }
      /* Any part of the rows is that part of the answers. */
      assert_ok(ctx, kf_gallery_search_itself(ctx, g, 71, 20, K, asked, y, NULL));
      assert_memory_equal(asked, own + 71 * K, 20 * K * sizeof *own);
      kf_gallery_free(g);
    }
  kf_model_free(m);
  kf_data_free(data);
  free_world(&w);
}

static void bad_questions(void **state) {
  (void)state;
  world w = make_world(20, 3, 2, 1, 19);
  kf_gallery *g = plain_gallery(w.rows, 20, 3, w.labels, KF_METRIC_COSINE);
  float *q = calloc(2000 * 3, sizeof *q);
  for (int i = 0; i < 2000 * 3; i++) q[i] = 1;
  int64_t *rows = malloc((size_t)2000 * 20 * sizeof *rows);
  int32_t classes[2000];
  assert_error(ctx, KF_ERR_ARG, "k is 0",
               kf_gallery_search(ctx, g, q, 1, 0, NULL, rows, NULL, NULL));
  assert_error(ctx, KF_ERR_ARG, "1025",
               kf_gallery_search(ctx, g, q, 1, 1025, NULL, rows, NULL, NULL));
  assert_error(ctx, KF_ERR_ARG, "there are 20",
               kf_gallery_search(ctx, g, q, 1, 21, NULL, rows, NULL, NULL));
  assert_error(ctx, KF_ERR_ARG, "there are 19",
               kf_gallery_search_itself(ctx, g, 0, 1, 20, rows, NULL, NULL));
  assert_error(ctx, KF_ERR_ARG, "past the end",
               kf_gallery_search_itself(ctx, g, 15, 6, 2, rows, NULL, NULL));
  assert_ok(ctx, kf_gallery_search_itself(ctx, g, 15, 5, 2, rows, NULL, NULL));
  assert_ok(ctx, kf_gallery_search(ctx, g, q, 0, 2, NULL, rows, NULL, NULL));
  assert_ok(ctx, kf_gallery_search(ctx, g, q, 2000, 20, NULL, rows, NULL, NULL));
  kf_vote_options vote = {.k = 3};
  q[1777 * 3 + 1] = NAN;
  assert_error(ctx, KF_ERR_DATA, "query 1777 holds a NaN",
               kf_gallery_search(ctx, g, q, 2000, 2, NULL, rows, NULL, NULL));
  assert_error(ctx, KF_ERR_DATA, "query 1777 holds a NaN",
               kf_gallery_classify(ctx, g, q, 2000, &vote, classes, NULL, NULL));
  memset(q + 3 * 3, 0, 3 * sizeof *q);
  assert_error(ctx, KF_ERR_DATA, "query 3 is zero",
               kf_gallery_search(ctx, g, q, 2000, 2, NULL, rows, NULL, NULL));
  kf_gallery_free(g);
  g = plain_gallery(w.rows, 20, 3, NULL, KF_METRIC_EUCLIDEAN);
  assert_ok(ctx, kf_gallery_search(ctx, g, q + 3 * 3, 1, 2, NULL, rows, NULL, NULL));
  assert_error(ctx, KF_ERR_DATA, "query 1777 holds",
               kf_gallery_search(ctx, g, q, 2000, 2, NULL, rows, NULL, NULL));
  assert_error(ctx, KF_ERR_DATA, "no labels",
               kf_gallery_classify(ctx, g, q, 1, &vote, classes, NULL, NULL));
  kf_gallery_free(g);
  free(q);
  free(rows);
  free_world(&w);
}

/* --- votes ----------------------------------------------------------------------------------- */

static void exponential(void **state) {
  (void)state;
  assert_true(kf_exp(0) == 1);
  assert_true(kf_exp(-INFINITY) == 0);
  assert_true(kf_exp(-1e300) == 0);
  uint64_t seed = 20;
  double before = 1;
  for (int i = 0; i < 200000; i++) {
    double x = i < 100000 ? -1e-4 * i : -350 * (1 + test_uniform(&seed));
    double got = kf_exp(x), want = exp(x);
    if (fabs(got - want) > 6e-16 * want) fail_msg("exp(%.17g) is %.17g, not %.17g", x, got, want);
    if (i < 100000 && got > before) fail_msg("exp rises at %.17g", x);
    before = got;
  }
}

/* Points on a line, so that the order of neighbours can be seen. */
static kf_gallery *line(const float *at_x, const int32_t *labels, uint64_t n) {
  return plain_gallery(at_x, n, 1, labels, KF_METRIC_EUCLIDEAN);
}

static void ties(void **state) {
  (void)state;
  /* From 0.01 the order is 1, 2, 3, … */
  static const float x[] = {1, 2, 3, 4, 5, 6, 7, 8};
  static const int32_t labels[] = {2, 0, 0, 2, 1, -1, 1, 1};
  /* After k neighbours: the classes with votes, best first. */
  static const int32_t wanted[8][3] = {{2, -1, -1}, {2, 0, -1}, {0, 2, -1}, {2, 0, -1},
                                       {2, 0, 1},   {2, 0, 1},  {2, 0, 1},  {1, 2, 0}};
  static const double counted[8][3] = {{1, 0, 0}, {1, 1, 0}, {2, 1, 0}, {2, 2, 0},
                                       {2, 2, 1}, {2, 2, 1}, {2, 2, 2}, {3, 2, 2}};
  kf_gallery *g = line(x, labels, 8);
  float query = 0.01f;
  for (uint32_t k = 1; k <= 8; k++) {
    int32_t classes[3];
    double votes[3];
    kf_vote_options o = {.k = k, .top = 3};
    assert_ok(ctx, kf_gallery_classify(ctx, g, &query, 1, &o, classes, votes, NULL));
    assert_memory_equal(classes, wanted[k - 1], sizeof classes);
    for (int t = 0; t < 3; t++) assert_true(votes[t] == counted[k - 1][t]);
  }
  kf_gallery_free(g);
}

/* Neighbours without labels do not vote, and a class wins over none. */
static void unlabelled_neighbours(void **state) {
  (void)state;
  static const float x[] = {1, 2, 3, 4};
  static const int32_t labels[] = {-1, -1, 5, 5};
  kf_gallery *g = line(x, labels, 4);
  float query = 0.01f;
  int32_t class;
  double votes;
  kf_vote_options o = {.k = 2};
  assert_ok(ctx, kf_gallery_classify(ctx, g, &query, 1, &o, &class, &votes, NULL));
  assert_int_equal(class, KF_LABEL_NONE);
  assert_true(votes == 0);
  o.k = 3;
  assert_ok(ctx, kf_gallery_classify(ctx, g, &query, 1, &o, &class, &votes, NULL));
  assert_int_equal(class, 5);
  assert_true(votes == 1);
  kf_gallery_free(g);
}

/* Two neighbours never change what the nearest one says. */
static void two_is_one(void **state) {
  (void)state;
  world w = make_world(200, DIM, CLASSES, 1, 21), q = make_world(150, DIM, CLASSES, 1, 22);
  kf_gallery *g = plain_gallery(w.rows, w.n, DIM, w.labels, KF_METRIC_COSINE);
  int32_t one[150], two[150];
  for (int weighted = 0; weighted < 2; weighted++) {
    kf_vote_options o = {.k = 1, .weighted = weighted};
    assert_ok(ctx, kf_gallery_classify(ctx, g, q.rows, q.n, &o, one, NULL, NULL));
    o.k = 2;
    assert_ok(ctx, kf_gallery_classify(ctx, g, q.rows, q.n, &o, two, NULL, NULL));
    assert_memory_equal(one, two, sizeof one);
  }
  kf_gallery_free(g);
  free_world(&w);
  free_world(&q);
}

/* Votes of one query by the book; temperature 0: each counts 1. */
static void naive_votes(const kf_gallery *g, const int64_t *rows, const double *scores, uint32_t k,
                        double temperature, double *votes) {
  for (uint32_t c = 0; c < CLASSES; c++) votes[c] = 0;
  bool distances = kf_gallery_metric(g) == KF_METRIC_EUCLIDEAN;
  for (uint32_t i = 0; i < k; i++) {
    double closer = distances ? scores[0] - scores[i] : scores[i] - scores[0];
    votes[kf_gallery_label(g, (uint64_t)rows[i])] +=
        temperature > 0 ? exp(closer / temperature) : 1;
  }
}

static void weighted_votes(void **state) {
  (void)state;
  enum { K = 25, N = 150 };
  world w = make_world(300, DIM, CLASSES, 1, 23), q = make_world(N, DIM, CLASSES, 1, 24);
  static const double temperatures[] = {0, 0.001, 0.07, 3};
  int clear = 0;
  for (int metric = KF_METRIC_COSINE; metric <= KF_METRIC_INNER; metric++) {
    kf_gallery *g = plain_gallery(w.rows, w.n, DIM, w.labels, (kf_metric)metric);
    static int64_t rows[N * K];
    static double scores[N * K], votes[N * 2];
    static int32_t classes[N * 2];
    assert_ok(ctx, kf_gallery_search(ctx, g, q.rows, N, K, NULL, rows, scores, NULL));
    for (int t = 0; t < 4; t++) {
      kf_vote_options o = {.k = K, .top = 2, .weighted = 1, .temperature = temperatures[t]};
      assert_ok(ctx, kf_gallery_classify(ctx, g, q.rows, N, &o, classes, votes, NULL));
      double temperature = temperatures[t] > 0 ? temperatures[t] : 0.07;
      for (int i = 0; i < N; i++) {
        double want[CLASSES], best = 0, second = 0;
        naive_votes(g, rows + i * K, scores + i * K, K, temperature, want);
        int winner = 0;
        for (int c = 0; c < CLASSES; c++)
          if (want[c] > best) {
            second = best;
            best = want[winner = c];
          } else {
            second = fmax(second, want[c]);
          }
        assert_true(fabs(votes[2 * i] - best) < 1e-12 * best);
        assert_true(fabs(votes[2 * i + 1] - second) < 1e-12);
        if (best - second < 1e-9 * best) continue;
        assert_int_equal(classes[2 * i], winner);
        clear++;
      }
    }
    kf_gallery_free(g);
  }
  assert_true(clear > 1700); /* of 1800: the comparison has taken place */
  float row[DIM] = {1};
  int32_t class;
  kf_gallery *g = plain_gallery(w.rows, w.n, DIM, w.labels, KF_METRIC_COSINE);
  for (int i = 0; i < 3; i++) {
    kf_vote_options o = {.weighted = 1, .temperature = (double[]){-1, NAN, INFINITY}[i]};
    assert_error(ctx, KF_ERR_ARG, "temperature",
                 kf_gallery_classify(ctx, g, row, 1, &o, &class, NULL, NULL));
  }
  kf_gallery_free(g);
  free_world(&w);
  free_world(&q);
}

/* More rows than are searched at a time. */
static void many_rows(void **state) {
  (void)state;
  enum { N = 2500 };
  world w = make_world(100, 8, 4, 1, 25), q = make_world(N, 8, 4, 1, 26);
  kf_gallery *g = plain_gallery(w.rows, w.n, 8, w.labels, KF_METRIC_COSINE);
  static int32_t all[N * 2], one[2];
  static double votes[N * 2], vote[2];
  kf_search_report report = {0};
  kf_vote_options o = {.top = 2, .weighted = 1};
  assert_true(kf_gallery_block(g) < N);
  assert_ok(ctx, kf_gallery_classify(ctx, g, q.rows, N, &o, all, votes, &report));
  assert_int_equal(report.queries, N);
  for (uint64_t i = 0; i < N; i += 7) {
    assert_ok(ctx, kf_gallery_classify(ctx, g, q.rows + i * 8, 1, &o, one, vote, NULL));
    assert_memory_equal(one, all + 2 * i, sizeof one);
    assert_memory_equal(vote, votes + 2 * i, sizeof vote);
  }
  kf_gallery_free(g);
  free_world(&w);
  free_world(&q);
}

/* --- accuracy -------------------------------------------------------------------------------- */

/* Hits by classifying: whether the label is the first, and whether it is among the first five. */
static void hits_by_hand(const kf_gallery *g, const world *q, uint32_t k, int weighted,
                         uint64_t *top1, uint64_t *top5) {
  int32_t *classes = malloc(q->n * 5 * sizeof *classes);
  kf_vote_options o = {.k = k, .top = 5, .weighted = weighted};
  assert_ok(ctx, kf_gallery_classify(ctx, g, q->rows, q->n, &o, classes, NULL, NULL));
  *top1 = *top5 = 0;
  for (uint64_t i = 0; i < q->n; i++)
    for (int t = 0; t < 5; t++)
      if (classes[i * 5 + (uint64_t)t] == q->labels[i]) {
        *top1 += t == 0;
        ++*top5;
      }
  free(classes);
}

static void several_k(void **state) {
  (void)state;
  enum { CLASSES_HERE = 30 };
  static const uint32_t k[] = {1, 2, 3, 7, 15, 40};
  world all = make_world(2700, 12, CLASSES_HERE, 1, 27), w = all, q = all;
  w.n = 1500;
  q.n = 1200; /* more than a block */
  q.rows = all.rows + 1500 * 12;
  q.labels = all.labels + 1500;
  kf_gallery *g = plain_gallery(w.rows, w.n, 12, w.labels, KF_METRIC_COSINE);
  kf_data *data = data_of(q.rows, q.n, 12, q.labels, 0);
  for (int weighted = 0; weighted < 2; weighted++) {
    kf_eval_result counts, alone;
    kf_hits hits[6], hit;
    kf_search_report report = {0};
    kf_gallery_eval_options o = {.k = k, .n_k = 6, .weighted = weighted};
    assert_ok(ctx, kf_gallery_eval(ctx, g, data, &o, &counts, hits, &report));
    assert_int_equal(report.queries, q.n);
    assert_int_equal(counts.n, q.n);
    assert_true(hits[5].top1 < hits[5].top5 && hits[5].top1 > 0);
    for (int t = 0; t < 6; t++) {
      uint64_t top1, top5;
      kf_gallery_eval_options single = {.k = k + t, .n_k = 1, .weighted = weighted};
      assert_ok(ctx, kf_gallery_eval(ctx, g, data, &single, &alone, &hit, NULL));
      assert_memory_equal(&hits[t], &hit, sizeof hit);
      assert_int_equal(hit.k, k[t]);
      hits_by_hand(g, &q, k[t], weighted, &top1, &top5);
      assert_int_equal(hit.top1, top1);
      assert_int_equal(hit.top5, top5);
    }
    assert_int_equal(hits[0].top1, hits[1].top1); /* k = 2 says what k = 1 does */
    assert_ok(ctx, kf_gallery_eval(ctx, g, data, NULL, &alone, &hit, NULL));
    assert_int_equal(hit.k, 15);
    if (!weighted) assert_memory_equal(&hits[4], &hit, sizeof hit);
  }
  kf_data_free(data);
  kf_gallery_free(g);
  free_world(&all);
}

/* Rows of every kind: known by another number, absent, without a label, bad. */
static void counts_of_rows(void **state) {
  (void)state;
  static const float x[] = {1, 2, 3, 10, 11, 12};
  static const int32_t labels[] = {0, 0, 0, 1, 1, -1};
  static const float q[] = {1.1f, 11.1f, 1.2f, 5, NAN, 7, 8, 9, 11.2f};
  static const int32_t q_labels[] = {2, 0, 0, 1, 1, -1, 3, 1, 0};
  static const char *const known[] = {"ant", "bee", "cat"};
  static const char *const asked[] = {"bee", "cow", "ant", "cat"};
  kf_data *data, *test;
  assert_ok(ctx, kf_data_open_memory(ctx, x, 6, 1, labels, known, 3, &data));
  assert_ok(ctx, kf_data_open_memory(ctx, q, 9, 1, q_labels, asked, 4, &test));
  test->skip_bad = true;
  kf_gallery *g = save_and_load(data, NULL, KF_METRIC_EUCLIDEAN);
  kf_eval_result counts;
  kf_hits hits;
  kf_gallery_eval_options o = {.k = (uint32_t[]){3}, .n_k = 1};
  assert_ok(ctx, kf_gallery_eval(ctx, g, test, &o, &counts, &hits, NULL));
  assert_int_equal(counts.rows, 9);
  assert_int_equal(counts.n, 4); /* ant, bee, bee, bee */
  assert_int_equal(counts.n_unlabelled, 1);
  assert_int_equal(counts.n_absent, 3); /* cow twice; cat has no rows in the gallery */
  assert_int_equal(counts.absent_classes, 2);
  assert_int_equal(counts.n_bad, 1);
  assert_int_equal(hits.top1, 3); /* the bee at 1.2 has ants round it */
  assert_int_equal(hits.top5, 3);
  kf_data_free(test);
  kf_gallery_free(g);
  kf_data_free(data);
}

static void assert_no_score(const kf_gallery *g, const kf_data *data,
                            const kf_gallery_eval_options *o, kf_status status, const char *cause) {
  kf_eval_result counts = {.rows = 77}, before = counts;
  kf_hits hits = {.k = 88};
  assert_error(ctx, status, cause, kf_gallery_eval(ctx, g, data, o, &counts, &hits, NULL));
  assert_memory_equal(&counts, &before, sizeof counts);
  assert_int_equal(hits.k, 88);
}

static void nothing_to_score(void **state) {
  (void)state;
  world w = make_world(30, 4, 3, 1, 28);
  int32_t far[30], none[30];
  for (int i = 0; i < 30; i++) {
    far[i] = 9;
    none[i] = -1;
  }
  kf_data *numbers = data_of(w.rows, 30, 4, w.labels, 0),
          *wide = data_of(w.rows, 20, 6, w.labels, 0);
  kf_data *named = data_of(w.rows, 30, 4, w.labels, 3), *bare = data_of(w.rows, 30, 4, NULL, 0);
  kf_data *absent = data_of(w.rows, 30, 4, far, 0), *unlabelled = data_of(w.rows, 30, 4, none, 0);
  kf_gallery *g = save_and_load(numbers, NULL, 0);
  assert_no_score(g, wide, NULL, KF_ERR_DATA, "has 6 columns, the gallery takes 4");
  assert_no_score(g, bare, NULL, KF_ERR_DATA, "no labels to compare with");
  assert_no_score(g, named, NULL, KF_ERR_DATA, "the classes of the gallery have none");
  assert_no_score(g, absent, NULL, KF_ERR_DATA, "30 belong to classes that the gallery does not");
  kf_gallery_eval_options o = {.k = (uint32_t[]){1, 1}, .n_k = 2};
  assert_no_score(g, numbers, &o, KF_ERR_ARG, "must rise");
  o.k = (uint32_t[]){0, 1};
  assert_no_score(g, numbers, &o, KF_ERR_ARG, "must rise");
  o.n_k = 0;
  assert_no_score(g, numbers, &o, KF_ERR_ARG, "empty");
  o = (kf_gallery_eval_options){.k = (uint32_t[]){5, 31}, .n_k = 2};
  assert_no_score(g, numbers, &o, KF_ERR_ARG, "there are 30");
  o.k = (uint32_t[]){5, 30};
  assert_no_score(g, NULL, &o, KF_ERR_ARG, "there are 29");
  o = (kf_gallery_eval_options){.weighted = 1, .temperature = -1};
  assert_no_score(g, numbers, &o, KF_ERR_ARG, "temperature");
  kf_gallery_free(g);
  g = save_and_load(named, NULL, 0);
  assert_no_score(g, numbers, NULL, KF_ERR_DATA, "the classes of the gallery have names");
  kf_gallery_free(g);
  g = save_and_load(bare, NULL, 0);
  assert_no_score(g, numbers, NULL, KF_ERR_DATA, "no labels to vote with");
  kf_gallery_free(g);
  g = save_and_load(unlabelled, NULL, 0);
  assert_no_score(g, NULL, NULL, KF_ERR_DATA, "none of the 30 rows");
  kf_gallery_free(g);
  kf_data *all[] = {numbers, wide, named, bare, absent, unlabelled};
  for (int i = 0; i < 6; i++) kf_data_free(all[i]);
  free_world(&w);
}

/* Leave one out, by hand on a line: a class of one row is always missed. */
static void score_itself(void **state) {
  (void)state;
  static const float x[] = {1, 2, 3.5f, 10, 11, 12.5f, 5, 20};
  static const int32_t labels[] = {0, 0, 0, 1, 1, 1, 2, -1};
  kf_gallery *g = line(x, labels, 8);
  kf_eval_result counts;
  kf_hits hits[2];
  kf_gallery_eval_options o = {.k = (uint32_t[]){1, 3}, .n_k = 2};
  assert_ok(ctx, kf_gallery_eval(ctx, g, NULL, &o, &counts, hits, NULL));
  assert_int_equal(counts.rows, 8);
  assert_int_equal(counts.n, 7);
  assert_int_equal(counts.n_unlabelled, 1);
  assert_int_equal(counts.n_absent + counts.n_bad + counts.absent_classes, 0);
  /* k = 1: 3.5 is as near to 2 as to 5 and takes the lower row; 5 finds 3.5. */
  assert_int_equal(hits[0].top1, 6);
  assert_int_equal(hits[0].top5, 6);
  assert_int_equal(hits[1].top1, 6);
  assert_int_equal(hits[1].top5, 6);
  kf_gallery_free(g);
}

/* The same on rows of a world, against searching it with each row left out. */
static void score_itself_again(void **state) {
  (void)state;
  enum { N = 1300, K = 9 };
  world w = make_world(N, 10, 8, 1, 29);
  for (int i = 0; i < N; i += 11) w.labels[i] = -1;
  kf_gallery *g = plain_gallery(w.rows, N, 10, w.labels, KF_METRIC_COSINE);
  static int64_t rows[N * K];
  static double scores[N * K];
  assert_ok(ctx, kf_gallery_search_itself(ctx, g, 0, N, K, rows, scores, NULL));
  kf_hits want = {.k = K}, hits;
  uint64_t n = 0;
  for (int i = 0; i < N; i++) {
    int votes[8] = {0}, first[8], rank = 0, own = w.labels[i];
    if (own < 0) continue;
    n++;
    for (int t = K - 1; t >= 0; t--) {
      int class = w.labels[rows[i * K + t]];
      if (class < 0) continue;
      votes[class]++;
      first[class] = t;
    }
    if (votes[own] == 0) continue;
    for (int c = 0; c < 8; c++)
      rank += votes[c] > votes[own] || (votes[c] == votes[own] && first[c] < first[own]);
    want.top1 += rank == 0;
    want.top5 += rank < 5;
  }
  kf_eval_result counts;
  kf_gallery_eval_options o = {.k = (uint32_t[]){K}, .n_k = 1};
  assert_ok(ctx, kf_gallery_eval(ctx, g, NULL, &o, &counts, &hits, NULL));
  assert_int_equal(counts.n, n);
  assert_memory_equal(&hits, &want, sizeof hits);
  kf_gallery_free(g);
  free_world(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(round_trip),
      cmocka_unit_test(raw_rows),
      cmocka_unit_test(default_metric),
      cmocka_unit_test(which_model),
      cmocka_unit_test(append_is_one_go),
      cmocka_unit_test(append_other_classes),
      cmocka_unit_test(append_what_does_not_fit),
      cmocka_unit_test(bad_rows_left_out),
      cmocka_unit_test(refused_outputs),
      cmocka_unit_test(mapped_to_zero),
      cmocka_unit_test(cancelled),
      cmocka_unit_test(naive_loops),
      cmocka_unit_test(map_first),
      cmocka_unit_test(as_an_index),
      cmocka_unit_test(same_answers),
      cmocka_unit_test(leave_one_out),
      cmocka_unit_test(bad_questions),
      cmocka_unit_test(exponential),
      cmocka_unit_test(ties),
      cmocka_unit_test(unlabelled_neighbours),
      cmocka_unit_test(two_is_one),
      cmocka_unit_test(weighted_votes),
      cmocka_unit_test(many_rows),
      cmocka_unit_test(several_k),
      cmocka_unit_test(counts_of_rows),
      cmocka_unit_test(nothing_to_score),
      cmocka_unit_test(score_itself),
      cmocka_unit_test(score_itself_again),
  };
  return cmocka_run_group_tests_name("gallery", tests, make_test_folder, remove_test_folder);
}
