/* test_rules.c - files with a correct checksum and invalid contents: for every rule of the table
 * (src/file/rules.c) a file that breaks it alone is refused by name, and docs/formats.md lists
 * it. */
#include "world.h"

#include "files.h"
#include "file/rules.h"

enum { D = 4, L = 3, K = 6, N = 40, MOST_EDITS = 4 };

/* --- good files ------------------------------------------------------------------------------- */

/* Classes a to d have rows, e none, f neither rows nor text; a, b and e have text. */
static const char *const names[K] = {"a", "b", "c", "d", "e", "f"};
static const char *const text_names[] = {"a", "b", "e"};

#define SHRUNK  "shrunk.safetensors" /* with temperature and threshold */
#define FUSED   "fused.safetensors"  /* with text */
#define RAW     "raw.safetensors"    /* the paper's method, lengths kept, with a threshold */
#define STATS   "stats.safetensors"
#define MAPPED  "mapped.safetensors"  /* a gallery with map, labels, names, k and ids */
#define PLAIN   "plain.safetensors"   /* a Euclidean gallery with nothing else */
#define DATASET "dataset.safetensors" /* with ids */

static kf_model *fit_rows(const world *w, int raw, const char *stats_path) {
  AUTO(kf_stats) *s = NULL;
  kf_model *m;
  kf_stats_options by = {.normalize = raw ? KF_OFF : KF_ON, .exponent = 18};
  kf_fit_options how = {.dim = L, .method = raw ? KF_METHOD_PAPER : KF_METHOD_DEFAULT};
  assert_ok(ctx, kf_stats_new(ctx, D, K, names, &by, &s));
  assert_ok(ctx, kf_stats_add(ctx, s, w->rows, w->labels, N));
  if (stats_path != NULL) assert_ok(ctx, kf_stats_save(ctx, s, stats_path));
  assert_ok(ctx, kf_fit_stats(ctx, s, &how, &m));
  return m;
}

static void save_fused(const kf_model *m) {
  static const float rows[3 * D] = {1, 2, 0, 1, 3, 0, 1, 0, -1, 1, 1, 2};
  AUTO(kf_data) *data = NULL;
  AUTO(kf_text) *text = NULL;
  AUTO(kf_model) *fused = NULL;
  kf_text_options by = {.per_class = 1, .names = text_names, .n_names = 3};
  assert_ok(ctx, kf_data_open_memory(ctx, rows, 3, D, NULL, NULL, 0, &data));
  assert_ok(ctx, kf_text_new(ctx, data, &by, &text));
  assert_ok(ctx, kf_model_new_fused(ctx, m, text, 0.5, &fused));
  assert_ok(ctx, kf_model_save(ctx, fused, at(FUSED)));
}

static void save_galleries(const world *w, const kf_model *m) {
  AUTO(kf_data) *data = NULL, *with_ids = NULL;
  char ids[N * 4];
  for (int i = 0; i < N; i++) memcpy(ids + 4 * i, "abc\n", 4);
  kf_gallery_options mapped = {.ids = write_bytes("ids.txt", ids, sizeof ids), .k = 5};
  kf_gallery_options plain = {.metric = KF_METRIC_EUCLIDEAN};
  assert_ok(ctx, kf_data_open_memory(ctx, w->rows, N, D, w->labels, names, K, &data));
  assert_ok(ctx, kf_gallery_save(ctx, data, m, &mapped, at(MAPPED)));
  assert_ok(ctx, kf_gallery_save(ctx, data, NULL, &plain, at(PLAIN)));
  with_ids = must_open(at(MAPPED), NULL);
  assert_ok(ctx, kf_data_save(ctx, with_ids, KF_F32, at(DATASET)));
}

static int make_files(void **state) {
  make_test_folder(state);
  AUTO(world) w = make_world(N, D, 4, 0.3, 5);
  AUTO(kf_model) *m = fit_rows(&w, 0, at(STATS)), *raw = fit_rows(&w, 1, NULL);
  save_fused(m);
  m->temperature = 10;
  m->reject = 0.5;
  raw->reject = 2;
  m->reject_share = raw->reject_share = 0.9;
  assert_ok(ctx, kf_model_save(ctx, m, at(SHRUNK)));
  assert_ok(ctx, kf_model_save(ctx, raw, at(RAW)));
  save_galleries(&w, m);
  return 0;
}

/* A gallery is refused in memory and on disk. */
static kf_status load_gallery(const char *path) {
  kf_status status[2];
  for (int from_disk = 0; from_disk < 2; from_disk++) {
    AUTO(kf_gallery) *gallery = NULL;
    kf_gallery_load_options options = {.rerank_from_disk = from_disk};
    status[from_disk] = kf_gallery_load(ctx, path, &options, &gallery);
    assert_true((gallery != NULL) == (status[from_disk] == KF_OK));
  }
  assert_int_equal(status[0], status[1]);
  return status[1];
}

static kf_status load(const char *base, const char *path) {
  AUTO(kf_model) *model = NULL;
  AUTO(kf_stats) *stats = NULL;
  AUTO(kf_data) *data = NULL;
  kf_status status;
  char id[8];
  if (strcmp(base, STATS) == 0)
    status = kf_stats_load(ctx, path, &stats);
  else if (strcmp(base, MAPPED) == 0 || strcmp(base, PLAIN) == 0)
    status = load_gallery(path);
  else if (strcmp(base, DATASET) == 0)
    status = open_one(path, NULL, &data);
  else
    status = kf_model_load(ctx, path, &model);
  for (uint64_t i = 0; data != NULL && status == KF_OK && i < N; i++)
    status = kf_data_get_id(ctx, data, i, id, sizeof id);
  return status;
}

/* --- bad ones --------------------------------------------------------------------------------- */

typedef struct edit {
  enum { NOTHING, ELEMENT, VALUE, WITHOUT, HIDDEN } how;
  const char *name; /* a tensor, or a key */
  uint64_t element;
  double value;
  const char *text; /* value of the key */
} edit;

#define SET(tensor, i, x)                                                                          \
  { .how = ELEMENT, .name = tensor, .element = i, .value = x }
#define META(key, x)                                                                               \
  { .how = VALUE, .name = key, .text = x } /* changed, or added */
#define NO(key)                                                                                    \
  { .how = WITHOUT, .name = key }
#define HIDE(tensor)                                                                               \
  { .how = HIDDEN, .name = tensor } /* under another name */

typedef struct broken {
  const char *base;
  const char *subject, *says; /* of the rule, the latter in part */
  edit edits[MOST_EDITS];
  const char *message;
} broken;

#define MOMENTS "moments_high"

/* clang-format off */
static const broken cases[] = {
    {SHRUNK, "rows", "1 to 2^40", {META("rows", "0")}, "metadata 'rows' is '0'"},
    {SHRUNK, "rows", "1 to 2^40", {META("rows", "1099511627777")}, "metadata 'rows' is '1099511627777'"},
    {STATS, "rows", "0 to 2^40", {META("rows", "-1")}, "metadata 'rows' is '-1'"},
    {STATS, "dim", "1 to 65,536", {META("dim", "65537")}, "metadata 'dim' is '65537'"},
    {SHRUNK, "normalized", "or `1`", {META("normalized", "2")}, "metadata 'normalized' is '2'"},
    {MAPPED, "normalized", "or `1`", {META("normalized", "")}, "metadata 'normalized' is ''"},
    {STATS, "normalized", "or `1`", {META("normalized", "01")}, "metadata 'normalized' is '01'"},
    {STATS, "exponent", "-200", {META("exponent", "21")}, "metadata 'exponent' is '21'"},
    {STATS, "exponent", "-200", {META("normalized", "0"), META("exponent", "201")}, "metadata 'exponent' is '201'"},
    {SHRUNK, "centre", "mean", {META("centre", "median")}, "metadata 'centre' is 'median'"},
    {MAPPED, "centre", "mean", {META("centre", "non")}, "metadata 'centre' is 'non'"},
    {SHRUNK, "method", "shrunk", {META("method", "lda")}, "metadata 'method' is 'lda'"},
    {MAPPED, "method", "shrunk", {META("method", "paper")}, "metadata 'method' is 'paper'"},
    {SHRUNK, "lambda", "0 or above", {META("lambda", "-1e-9")}, "metadata 'lambda' is '-1e-9'"},
    {MAPPED, "lambda", "0 or above", {META("lambda", "nan")}, "metadata 'lambda' is 'nan'"},
    {SHRUNK, "mean_eigenvalue", "0 or above", {META("mean_eigenvalue", "-1")}, "metadata 'mean_eigenvalue' is '-1'"},
    {SHRUNK, "within_rank", "0 to", {META("within_rank", "-1")}, "metadata 'within_rank' is '-1'"},
    {RAW, "prior", "at most 64", {META("prior", "0")}, "metadata 'prior' is '0'"},
    {SHRUNK, "prior", "at most 64", {META("prior", "64.5")}, "metadata 'prior' is '64.5'"},
    {RAW, "prior", "`method`", {META("prior", "1")}, "there is 'prior', but metadata 'method' is not 'shrunk'"},
    {SHRUNK, "temperature", "above 0", {META("temperature", "0")}, "metadata 'temperature' is '0'"},
    {SHRUNK, "temperature", "above 0", {META("temperature", "inf")}, "metadata 'temperature' is 'inf'"},
    {SHRUNK, "reject_share", "at most 1", {META("reject_share", "1.5")}, "metadata 'reject_share' is '1.5'"},
    {SHRUNK, "reject_share", "at most 1", {META("reject_share", "0")}, "metadata 'reject_share' is '0'"},
    {SHRUNK, "reject_share", "with `reject`", {NO("reject")}, "there is 'reject_share' without 'reject'"},
    {SHRUNK, "reject_share", "with `reject`", {NO("reject_share")}, "there is 'reject' without 'reject_share'"},
    {FUSED, "alpha", "10^6", {META("alpha", "-0.5")}, "metadata 'alpha' is '-0.5'"},
    {FUSED, "alpha", "10^6", {META("alpha", "1e7")}, "metadata 'alpha' is '1e7'"},
    {FUSED, "alpha", "with `text`", {HIDE("text")}, "there is 'alpha' without 'text'"},
    {SHRUNK, "alpha", "with `text`", {META("alpha", "1")}, "there is 'alpha' without 'text'"},
    {FUSED, "alpha", "with `text`", {NO("alpha")}, "there is 'text' without 'alpha'"},
    {FUSED, "alpha", "fused_prototypes", {HIDE("fused_prototypes")}, "there is 'alpha' without 'fused_prototypes'"},
    {FUSED, "alpha", "text_given", {HIDE("text_given")}, "there is 'alpha' without 'text_given'"},
    {FUSED, "alpha", "only if", {META("normalized", "0")}, "there is 'alpha', but metadata 'normalized' is not '1'"},
    {SHRUNK, "reject", "in magnitude", {META("reject", "1.01")}, "metadata 'reject' is '1.01'"},
    {FUSED, "reject", "in magnitude", {META("reject", "-1.6"), META("reject_share", "0.9")}, "metadata 'reject' is '-1.6'"},
    {RAW, "reject", "in magnitude", {META("reject", "-1")}, "metadata 'reject' is '-1'"},
    {SHRUNK, "signal", "only if `method`", {NO("method")}, "there is 'signal', but metadata 'method' is not 'shrunk'"},
    {SHRUNK, "signal", "only if `centre`", {META("centre", "none")}, "there is 'signal', but metadata 'centre' is not 'mean'"},
    {MAPPED, "metric", "euclidean", {META("metric", "hamming")}, "metadata 'metric' is 'hamming'"},
    {MAPPED, "k", "1,024", {META("k", "0")}, "metadata 'k' is '0'"},
    {MAPPED, "k", "1,024", {META("k", "1025")}, "metadata 'k' is '1025'"},
    {MAPPED, "mean", "with a map", {HIDE("mean")}, "there is 'transform' without 'mean'"},
    {MAPPED, "normalized", "with a map", {NO("normalized")}, "there is 'transform' without 'normalized'"},
    {PLAIN, "normalized", "with a map", {META("normalized", "1")}, "there is 'normalized' without 'transform'"},
    {MAPPED, "centre", "with a map", {NO("centre")}, "there is 'transform' without 'centre'"},
    {MAPPED, "lambda", "with a map", {NO("lambda")}, "there is 'transform' without 'lambda'"},
    {MAPPED, "id_ends", "with `id_bytes`", {HIDE("id_bytes")}, "there is 'id_ends' without 'id_bytes'"},
    {DATASET, "id_ends", "with `id_bytes`", {HIDE("id_ends")}, "there is 'id_bytes' without 'id_ends'"},

    {SHRUNK, "transform", "10^200", {SET("transform", 5, INFINITY)}, "element [1, 1] of tensor 'transform' is not finite"},
    {MAPPED, "transform", "10^200", {SET("transform", 11, -1e201)}, "element [2, 3] of tensor 'transform' is -1e+201"},
    {SHRUNK, "transform", "zeros", {SET("transform", 8, 0), SET("transform", 9, 0), SET("transform", 10, 0), SET("transform", 11, 0)}, "row 2 of tensor 'transform' is all zeros"},
    {MAPPED, "transform", "zeros", {SET("transform", 0, 0), SET("transform", 1, 0), SET("transform", 2, 0), SET("transform", 3, 0)}, "row 0 of tensor 'transform' is all zeros"},
    {SHRUNK, "mean", "2^128", {SET("mean", 1, NAN)}, "element 1 of tensor 'mean' is not finite"},
    {RAW, "mean", "2^128", {SET("mean", 1, 1e40)}, "element 1 of tensor 'mean' is 1e+40"},
    {MAPPED, "mean", "2^128", {SET("mean", 3, -INFINITY)}, "element 3 of tensor 'mean' is not finite"},
    {SHRUNK, "mean", "1 long", {SET("mean", 0, 1.2)}, "tensor 'mean' has the length 1."},
    {MAPPED, "mean", "1 long", {SET("mean", 2, -1.2)}, "tensor 'mean' has the length 1."},

    {SHRUNK, "within_eigenvalues", "0 or above", {SET("within_eigenvalues", 3, -1e-9)}, "element 3 of tensor 'within_eigenvalues' is -1e-09"},
    {SHRUNK, "within_eigenvalues", "descending", {SET("within_eigenvalues", 1, 1e9)}, "element 1 of tensor 'within_eigenvalues' is 1e+09; it must be: descending"},
    {SHRUNK, "within_eigenvalues", "within_rank", {META("within_rank", "3")}, "element 3 of tensor 'within_eigenvalues' is"},
    {SHRUNK, "within_eigenvalues", "within_rank", {META("within_rank", "5")}, "metadata 'within_rank' is 5, more than the 4 elements"},
    {SHRUNK, "within_eigenvalues", "on average", {META("mean_eigenvalue", "1000")}, "metadata 'mean_eigenvalue' is 1000, but the elements"},
    {SHRUNK, "between_eigenvalues", "0 or above", {SET("between_eigenvalues", 3, -1)}, "element 3 of tensor 'between_eigenvalues' is -1"},
    {SHRUNK, "between_eigenvalues", "descending", {SET("between_eigenvalues", 2, 1e9)}, "element 2 of tensor 'between_eigenvalues' is 1e+09; it must be: descending"},
    {SHRUNK, "signal", "0 or above", {SET("signal", 0, NAN)}, "element 0 of tensor 'signal' is not finite"},
    {SHRUNK, "signal", "descending", {SET("signal", 3, 1e9)}, "element 3 of tensor 'signal' is 1e+09; it must be: descending"},
    {SHRUNK, "counts", "0 to 2^40", {SET("counts", 0, -1)}, "element 0 of tensor 'counts' is -1"},
    {STATS, "counts", "0 to 2^40", {SET("counts", 1, 0x1p41)}, "element 1 of tensor 'counts' is 2.19902326e+12"},
    {SHRUNK, "counts", "at least", {SET("counts", 0, 0), SET("counts", 1, 0), SET("counts", 2, 0), SET("counts", 3, 0)}, "all 6 elements of tensor 'counts' are 0"},
    {SHRUNK, "class_means", "finite", {SET("class_means", 6, NAN)}, "element [1, 2] of tensor 'class_means' is not finite"},
    {SHRUNK, "class_means", "zeros", {SET("class_means", 17, 0.5)}, "row 4 of tensor 'class_means' is not zeros"},
    {SHRUNK, "prototype_lengths", "0 or above", {SET("prototype_lengths", 2, -1)}, "element 2 of tensor 'prototype_lengths' is -1"},
    {SHRUNK, "prototype_lengths", "`counts`", {SET("prototype_lengths", 5, 1)}, "row 5 of tensor 'prototype_lengths' is not zeros"},
    {SHRUNK, "prototypes", "finite", {SET("prototypes", 4, INFINITY)}, "element [1, 1] of tensor 'prototypes' is not finite"},
    {SHRUNK, "prototypes", "unit", {SET("prototypes", 0, 2)}, "row 0 of tensor 'prototypes' does not have unit length"},
    {SHRUNK, "prototypes", "unit", {SET("prototype_lengths", 3, 0)}, "row 3 of tensor 'prototypes' is not zeros"},
    {FUSED, "text_given", "0 or 1", {SET("text_given", 2, 2)}, "element 2 of tensor 'text_given' is 2"},
    {FUSED, "text_given", "two classes", {SET("text_given", 0, 0)}, "tensor 'text_given' is 1 for 1 classes with rows"},
    {FUSED, "text", "finite", {SET("text", 0, NAN)}, "element [0, 0] of tensor 'text' is not finite"},
    {FUSED, "text", "unit rows where", {SET("text", 0, 5)}, "row 0 of tensor 'text' does not have unit length"},
    {FUSED, "text", "unit rows where", {SET("text", 8, 5)}, "row 2 of tensor 'text' does not have unit length"},
    {FUSED, "text", "unit rows where", {SET("text", 20, 1)}, "row 5 of tensor 'text' is not zeros"},
    {FUSED, "text", "unit rows where", {SET("text_given", 5, 1)}, "row 5 of tensor 'text' does not have unit length"},
    {FUSED, "fused_prototypes", "finite", {SET("fused_prototypes", 1, NAN)}, "element [0, 1] of tensor 'fused_prototypes' is not finite"},
    {FUSED, "fused_prototypes", "the row of", {SET("fused_prototypes", 0, 0.3)}, "row 0 of tensor 'fused_prototypes' is not that of 'prototypes'"},
    {FUSED, "fused_prototypes", "the row of", {SET("fused_prototypes", 12, 3)}, "row 4 of tensor 'fused_prototypes' does not have unit length"},
    {FUSED, "fused_prototypes", "the row of", {SET("fused_prototypes", 15, 1)}, "row 5 of tensor 'fused_prototypes' is not zeros"},

    {STATS, "counts", "in all", {META("rows", "41")}, "add up to 40 rows, but the header says 41"},
    {STATS, "class_sums", "in magnitude", {SET("class_sums", 6, 1e15)}, "the sum of class 1, column 2 is too large for 10 rows"},
    {STATS, "class_sums", "in magnitude", {META("normalized", "0"), META("exponent", "-120")}, "the sum of class 0, column 0 is too large for 10 rows"},
    {STATS, "class_sums", "in magnitude", {SET("class_sums", 16, 1)}, "the sum of class 4, column 0 is too large for 0 rows"},
    {STATS, "class_sums", "long", {SET("class_sums", 0, 10 * 0x1p22), SET("class_sums", 1, 10 * 0x1p22)}, "the sum of class 0 is longer than 10 unit rows"},
    {STATS, MOMENTS, "times `rows` in magnitude", {SET(MOMENTS, 1, 0x1p40)}, "second moment (0, 1) is too large for 40 rows"},
    {STATS, MOMENTS, "the sum over classes", {SET("moments_low", 4, 1)}, "second moment (1, 1) is smaller than the class sums allow"},
    {STATS, MOMENTS, "the sum over classes", {SET(MOMENTS, 9, -1), SET("moments_low", 9, -1)}, "second moment (3, 3) is smaller than the class sums allow"},
    {STATS, MOMENTS, "the product", {SET(MOMENTS, 1, 0), SET("moments_low", 1, 40 * 0x1p44)}, "second moment (0, 1) is larger than those of its two columns allow"},
    {STATS, MOMENTS, "in all", {SET("moments_low", 9, 40 * 0x1p44)}, "unit rows, but the header says 40"},

    {PLAIN, "embeddings", "finite", {SET("embeddings", 4, NAN)}, "row 1: has a NaN or an infinity"},
    {MAPPED, "embeddings", "unit", {SET("embeddings", 3, 2)}, "row 1: does not have unit length"},
    {MAPPED, "embeddings", "unit", {SET("embeddings", 0, INFINITY)}, "row 0: has a NaN or an infinity"},
    {MAPPED, "labels", "-1 to", {SET("labels", 7, 6)}, "the label of row 7 is 6, it must be -1 to 5"},
    {MAPPED, "labels", "-1 to", {SET("labels", 0, -2)}, "the label of row 0 is -2"},
    {MAPPED, "id_ends", "ascending", {SET("id_ends", 1, 3)}, "the id of row 1 goes from byte 3 to 3"},
    {DATASET, "id_ends", "ascending", {SET("id_ends", 39, 121)}, "the id of row 39 goes from byte 117 to 121"},
    {MAPPED, "id_ends", "the last", {SET("id_ends", 39, 119)}, "the ids end at byte 119 of 120"},
    {MAPPED, "id_bytes", "UTF-8", {SET("id_bytes", 0, 0xff)}, "the id of row 0 is not valid UTF-8"},
    {DATASET, "id_bytes", "UTF-8", {SET("id_bytes", 119, 0)}, "the id of row 39 is not valid UTF-8"},
};
/* clang-format on */

static const kf_rules *rules_of(const char *base) {
  if (strcmp(base, STATS) == 0) return &kf_stats_rules;
  if (strcmp(base, DATASET) == 0) return &kf_set_rules;
  bool gallery = strcmp(base, MAPPED) == 0 || strcmp(base, PLAIN) == 0;
  return gallery ? &kf_gallery_rules : &kf_model_rules;
}

/* A file in the making: the header as text, then the data. */
typedef struct draft {
  char header[8192];
  char *data;
  size_t n_data;
} draft;

static void replace(draft *d, char *from, size_t n, const char *by) {
  char rest[sizeof d->header];
  snprintf(rest, sizeof rest, "%s", from + n);
  snprintf(from, (size_t)(d->header + sizeof d->header - from), "%s%s", by, rest);
}

static void set_element(const draft *d, const kf_st *st, const edit *e, uint64_t data_offset) {
  const kf_st_tensor *t = kf_st_find(st, e->name);
  assert_non_null(t);
  char *to = d->data + (t->offset - data_offset) + e->element * kf_type_size(t->type);
  assert_true(e->element < t->bytes / kf_type_size(t->type));
  if (t->type == KF_TYPE_F64) {
    memcpy(to, &e->value, 8);
  } else if (t->type == KF_TYPE_F32) {
    float x = (float)e->value;
    memcpy(to, &x, 4);
  } else if (t->type == KF_TYPE_I64 || t->type == KF_TYPE_U64) {
    int64_t x = (int64_t)e->value;
    memcpy(to, &x, 8);
  } else if (t->type == KF_TYPE_I32) {
    int32_t x = (int32_t)e->value;
    memcpy(to, &x, 4);
  } else {
    *to = (char)(unsigned char)e->value;
  }
}

/* "KEY":"VALUE" and the comma before it. */
static void set_value(draft *d, const edit *e) {
  char key[64], whole[128];
  snprintf(key, sizeof key, ",\"%s\":\"", e->name);
  snprintf(whole, sizeof whole, "%s%s\"", key, e->text != NULL ? e->text : "");
  char *old = strstr(d->header, key), *first = strstr(d->header, ",\"format\"");
  size_t n = old != NULL ? (size_t)(strchr(old + strlen(key), '"') + 1 - old) : 0;
  assert_true(e->how == VALUE || old != NULL);
  replace(d, old != NULL ? old : first, n, e->how == VALUE ? whole : "");
}

static void hide(draft *d, const edit *e) {
  char key[64];
  snprintf(key, sizeof key, "\"%s\":{", e->name);
  char *at_name = strstr(d->header, key);
  assert_non_null(at_name);
  at_name[1] = '~';
}

static void apply(draft *d, const kf_st *st, const edit *e, uint64_t data_offset) {
  if (e->how == ELEMENT) set_element(d, st, e, data_offset);
  if (e->how == VALUE || e->how == WITHOUT) set_value(d, e);
  if (e->how == HIDDEN) hide(d, e);
}

/* Writes the draft with its checksum, if it has one. */
static const char *seal(const draft *d) {
  char *digits = strstr((char *)(uintptr_t)d->header, "\"checksum\":\"");
  uint64_t length = strlen(d->header);
  kf_checksum sum;
  if (digits != NULL) memset(digits + 12, '0', 16);
  kf_checksum_start(&sum);
  kf_checksum_add(&sum, &length, 8);
  kf_checksum_add(&sum, d->header, length);
  kf_checksum_add(&sum, d->data, d->n_data);
  char value[17], head[sizeof d->header + 8];
  snprintf(value, sizeof value, "%016llx", (unsigned long long)kf_checksum_value(&sum));
  if (digits != NULL) memcpy(digits + 12, value, 16);
  memcpy(head, &length, 8);
  memcpy(head + 8, d->header, length);
  return write_two("broken.safetensors", head, 8 + length, d->data, d->n_data);
}

static const char *break_file(const char *base, const edit edits[MOST_EDITS]) {
  kf_st st;
  kf_err err;
  draft d;
  size_t size;
  uint64_t length;
  AUTOFREE char *bytes = test_read(at(base), &size);
  memcpy(&length, bytes, 8);
  assert_true(length < sizeof d.header / 2);
  memcpy(d.header, bytes + 8, length);
  d.header[length] = '\0';
  d.data = bytes + 8 + length;
  d.n_data = size - 8 - length;
  assert_int_equal(kf_st_open(&st, at(base), &err), KF_OK);
  for (int i = 0; i < MOST_EDITS; i++) apply(&d, &st, &edits[i], 8 + length);
  kf_st_close(&st);
  const char *path = seal(&d);
  return path;
}

/* --- tests ------------------------------------------------------------------------------------ */

TEST(good_files) {
  static const char *const bases[] = {SHRUNK, FUSED, RAW, STATS, MAPPED, PLAIN, DATASET};
  static const edit none[MOST_EDITS];
  for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) {
    assert_ok(ctx, load(bases[i], at(bases[i])));
    assert_ok(ctx, load(bases[i], break_file(bases[i], none)));
  }
}

TEST(each_is_refused) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const char *path = break_file(cases[i].base, cases[i].edits);
    assert_failed(load(cases[i].base, path), KF_ERR_DATA, path, cases[i].message);
    assert_null(strstr(kf_errmsg(ctx), "nan;"));
  }
}

/* Calls a function with each rule of a kind of file. */
typedef void (*rule_fn)(const kf_rules *rules, const kf_rule *rule, void *argument);
static void each_rule(const kf_rules *rules, rule_fn use, void *argument) {
  for (size_t i = 0; i < KF_RULE_LISTS; i++)
    for (const kf_rule *r = rules->lists[i]; r != NULL && r->subject != NULL; r++)
      use(rules, r, argument);
}

static bool is_about(const broken *b, const kf_rules *rules, const kf_rule *rule) {
  return rules_of(b->base) == rules && strcmp(b->subject, rule->subject) == 0 &&
         strstr(rule->says, b->says) != NULL;
}

static void find_cases(const kf_rules *rules, const kf_rule *rule, void *argument) {
  unsigned *about = argument, found = 0;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (is_about(&cases[i], rules, rule)) {
      found++;
      about[i]++;
    }
  if (found == 0) fail_msg("nothing breaks '%s: %s'", rule->subject, rule->says);
}

static const struct {
  const kf_rules *rules;
  const char *heading; /* of the table in docs/formats.md */
} kinds[] = {{&kf_set_rules, "**Rules for data sets.**"},
             {&kf_stats_rules, "**Rules for statistics.**"},
             {&kf_model_rules, "**Rules for models.**"},
             {&kf_gallery_rules, "**Rules for galleries.**"}};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* Every rule is broken for every kind of file that has it, and every case is about one rule. */
TEST(each_has_a_case) {
  unsigned about[sizeof cases / sizeof *cases] = {0};
  for (size_t k = 0; k < KINDS; k++) each_rule(kinds[k].rules, find_cases, about);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (about[i] != 1) fail_msg("case %zu, '%s', is about %u rules", i, cases[i].message, about[i]);
}

typedef struct documented {
  const char *first, *end; /* of the table */
  size_t lines;
} documented;

static void find_line(const kf_rules *rules, const kf_rule *rule, void *argument) {
  (void)rules;
  documented *d = argument;
  char line[256];
  d->lines--;
  snprintf(line, sizeof line, "| `%s` | %s |\n", rule->subject, rule->says);
  if (memmem(d->first, (size_t)(d->end + 1 - d->first), line, strlen(line)) == NULL)
    fail_msg("docs/formats.md lacks '%s'", line);
}

/* docs/formats.md has every rule in the table of its kind of file, and no other. */
TEST(each_is_documented) {
  size_t size;
  AUTOFREE char *page = test_read(KOOFU_SOURCE_DIR "/docs/formats.md", &size);
  for (size_t k = 0; k < KINDS; k++) {
    const char *table = memmem(page, size, kinds[k].heading, strlen(kinds[k].heading));
    assert_non_null(table);
    documented d = {.first = strstr(table, "| --- | --- |\n") + 14};
    d.end = strstr(d.first, "\n\n");
    for (const char *at_line = d.first; at_line <= d.end; at_line++) d.lines += *at_line == '\n';
    each_rule(kinds[k].rules, find_line, &d);
    assert_int_equal(d.lines, 0);
  }
}

/* Elements of large tensors are checked many at a time: the bad one is found wherever it is. */
TEST(any_element_is_found) {
  enum { ROWS = 101, COLUMNS = 100, ALL = ROWS * COLUMNS };
  static const uint64_t places[] = {0, 1, 4095, 4096, 4097, 8191, 8192, ALL - 1};
  static float f32[ALL];
  static double f64[ALL];
  static unsigned char u8[ALL];
  const kf_rule rule = {.subject = "x", .says = "0 or 1", .low = 0, .high = 1};
  kf_st_field fields[] = {{.name = "x", .type = KF_TYPE_F32, .memory = f32},
                          {.name = "x", .type = KF_TYPE_F64, .memory = f64},
                          {.name = "x", .type = KF_TYPE_U8, .memory = u8}};
  for (size_t f = 0; f < 3; f++) {
    fields[f].ndim = 2;
    fields[f].shape[0] = ROWS;
    fields[f].shape[1] = COLUMNS;
    kf_contents c = {.path = "some file", .fields = &fields[f], .n_fields = 1};
    kf_err err;
    assert_int_equal(kf_rule_elements(&rule, &c, &err), KF_OK);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
      for (int bad = 0; bad < (f < 2 ? 3 : 1); bad++) {
        uint64_t at = places[i];
        double value = bad == 0 ? 2 : bad == 1 ? -0.5 : NAN;
        char want[64];
        snprintf(want, sizeof want, "element [%d, %d] of tensor 'x'", (int)(at / COLUMNS),
                 (int)(at % COLUMNS));
        f32[at] = (float)value;
        f64[at] = value;
        u8[at] = 2;
        assert_int_equal(kf_rule_elements(&rule, &c, &err), KF_ERR_DATA);
        assert_non_null(strstr(err.message, want));
        f32[at] = 0;
        f64[at] = 0;
        u8[at] = 0;
      }
  }
}

FIXTURES(.before = make_files, .after = remove_test_folder);
