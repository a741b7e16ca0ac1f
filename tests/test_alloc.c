/* test_alloc.c - every allocation fails once, and then every one from some point on, through a
 * whole fit: from files to statistics, model, classification and back; through the life of a
 * gallery, through judging, choosing, decoding pictures, tokens and encoding, and from pictures to
 * a data set. Each time the call that meets the failure reports 'out of memory', nothing leaks, and
 * no file is left half-written.
 *
 * The C library's allocator is replaced for the whole process, so that allocations inside it (of
 * streams, of threads) count as well. Under sanitizers, which have their own, the test is
 * skipped. */
#include "test.h"
#include "report/report.h"

#include "picture_file.h"
#include "encode/tokenizer.h"
#include "file/file_internal.h"
#include "search/search.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <sys/stat.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

#ifdef SANITIZED
TEST(scenarios) { test_skip("allocator to replace"); }
#else

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *memory);

/* Shared libraries must find these, too. */
#define REPLACED __attribute__((visibility("default")))

static atomic_long live;           /* blocks allocated and not freed */
static atomic_long countdown = -1; /* allocations until the failure; negative: none is due */
static atomic_int for_good;        /* 1: all later ones fail, too */
static atomic_int failures;

static int fails(void) {
  if (atomic_load(&countdown) < 0) return 0;
  long left = atomic_fetch_sub(&countdown, 1);
  if (left > 0) return 0;
  if (left < 0 && !atomic_load(&for_good)) return 0;
  if (atomic_load(&for_good)) atomic_store(&countdown, 0);
  atomic_fetch_add(&failures, 1);
  errno = ENOMEM;
  return 1;
}

static void *counted(void *memory) {
  if (memory != NULL) atomic_fetch_add(&live, 1);
  return memory;
}

REPLACED void *malloc(size_t size) { return fails() ? NULL : counted(__libc_malloc(size)); }
REPLACED void *calloc(size_t n, size_t size) {
  return fails() ? NULL : counted(__libc_calloc(n, size));
}

REPLACED void *realloc(void *memory, size_t size) {
  if (fails()) return NULL;
  void *larger = __libc_realloc(memory, size);
  return memory == NULL ? counted(larger) : larger;
}

REPLACED int posix_memalign(void **out, size_t alignment, size_t size) {
  if (fails()) return ENOMEM;
  *out = counted(__libc_memalign(alignment, size));
  return *out == NULL ? ENOMEM : 0;
}

REPLACED void free(void *memory) {
  if (memory != NULL) atomic_fetch_sub(&live, 1);
  __libc_free(memory);
}

/* --- the scenario ----------------------------------------------------------------------------- */

static char folder[256], train[300], labels[300], stats[300], model[300], larger[300], out[300],
    gallery[300], changes[320], classes[300], classes_named[300], truth[300], ids[300],
    answers[300], tree[300], picture_folder[300], picture_list[300], picture_table[300],
    shard_folder[300], exported[300];

AUTO_OBJECT(kf_tokenizer)

/* Part of what a user does in a day. Returns the first status that is not KF_OK. */
typedef kf_status (*scenario_fn)(kf_ctx *ctx);

static kf_status fit_scenario(kf_ctx *ctx) {
  AUTO(kf_data) *data = NULL;
  AUTO(kf_stats) *s = NULL, *t = NULL;
  AUTO(kf_model) *m = NULL, *n = NULL;
  AUTO(kf_info) *info = NULL;
  AUTO(kf_bytes) *bytes = NULL;
  AUTO(kf_data) *in_memory = NULL;
  kf_eval_result result;
  static float rows[6 * 20];
  int32_t nearest[6];
  const char *path = train, *label_path = labels;
  kf_data_options options = {.labels = &label_path, .n_labels = 1};
  KF_TRY(kf_data_open(ctx, &path, 1, &options, &data));
  KF_TRY(kf_data_get(ctx, data, 0, 6, rows, NULL));
  KF_TRY(kf_stats_new_from_data(ctx, data, NULL, &s));
  KF_TRY(kf_stats_save(ctx, s, stats));
  KF_TRY(kf_stats_load(ctx, stats, &t));
  KF_TRY(kf_stats_merge(ctx, t, s));
  KF_TRY(kf_stats_subtract(ctx, t, s));
  KF_TRY(kf_fit_stats(ctx, s, &(kf_fit_options){.dim = 7}, &m));
  KF_TRY(kf_model_new_with_class(ctx, m, "more", data, &n));
  KF_TRY(kf_model_save(ctx, n, model));
  kf_model_free(m);
  m = NULL;
  KF_TRY(kf_model_load(ctx, model, &m));
  kf_model_free(m);
  m = NULL;
  KF_TRY(kf_bytes_new_of_model(ctx, n, &bytes));
  KF_TRY(kf_model_load_bytes(ctx, kf_bytes_data(bytes), kf_bytes_size(bytes), &m));
  KF_TRY(kf_data_open_arrays(ctx, &(kf_array){.rows = rows, .n = 6}, 1, 20, NULL, &in_memory));
  KF_TRY(kf_transform_data(ctx, m, data, NULL, KF_F16, out));
  KF_TRY(kf_data_save(ctx, data, KF_F32, larger));
  KF_TRY(kf_classify(ctx, m, rows, 6, NULL, nearest, NULL));
  KF_TRY(kf_eval(ctx, m, data, NULL, &result));
  return kf_info_read(ctx, larger, &info);
}

/* Statistics on a device, the plain twin; after a bad row the CPU checks the batch again. */
static kf_status device_scenario(kf_ctx *ctx) {
  AUTO(kf_data) *data = NULL, *bad = NULL;
  AUTO(kf_stats) *s = NULL, *t = NULL;
  const float rows[3][2] = {{1, 2}, {0, 0}, {3, 4}};
  const int32_t classes_of[] = {0, 1, 1};
  kf_array array = {.rows = rows, .n = 3};
  kf_array_options skipping = {.labels = classes_of, .skip = KF_SKIP_BAD};
  const char *path = train;
  KF_TRY(kf_data_open(ctx, &path, 1, NULL, &data));
  KF_TRY(kf_stats_new_from_data(ctx, data, NULL, &s));
  KF_TRY(kf_data_open_arrays(ctx, &array, 1, 2, &skipping, &bad));
  return kf_stats_new_from_data(ctx, bad, NULL, &t);
}

/* Opens a data set, reads its first rows and frees it. */
static kf_status read_set(kf_ctx *ctx, const char *path, const kf_data_options *options) {
  AUTO(kf_data) *data = NULL;
  float rows[4 * 2];
  KF_TRY(kf_data_open(ctx, &path, 1, options, &data));
  return kf_data_get(ctx, data, 0, 4, rows, NULL);
}

static const char *in_shards(const char *name) {
  static char path[2][400];
  static int next;
  next = !next;
  snprintf(path[next], sizeof path[next], "%s/%s", shard_folder, name);
  return path[next];
}

/* Labels in a folder, in a table and as strings; rows and labels in archives, compressed if there
 * is zlib. */
static kf_status labels_scenario(kf_ctx *ctx) {
  AUTO(kf_info) *info = NULL;
  static const char *const files[] = {"labels", "t.csv", "more/names.npy"};
  for (int i = 0; i < 3; i++) {
    const char *label_path = in_shards(files[i]);
    kf_data_options options = {
        .labels = &label_path, .n_labels = 1, .label_column = i == 1 ? "label" : NULL};
    KF_TRY(read_set(ctx, shard_folder, &options));
  }
  KF_TRY(read_set(ctx, in_shards("more/a.npz:x"), NULL));
  kf_status status = read_set(ctx, in_shards("more/packed.npz"), NULL);
  if (status != KF_OK && strstr(kf_errmsg(ctx), "without zlib") == NULL) return status;
  KF_TRY(kf_info_read(ctx, in_shards("more/a.npz"), &info));
  kf_info_free(info);
  info = NULL;
  return kf_info_read(ctx, in_shards("t.csv"), &info);
}

/* A gallery is made, with the labels as ids; rows are added, replaced and removed; it is used from
 * memory and from the file, and compacted. The model is the one that fit_scenario left. */
static kf_status gallery_scenario(kf_ctx *ctx) {
  AUTO(kf_data) *data = NULL, *rest = NULL;
  AUTO(kf_model) *m = NULL;
  AUTO(kf_gallery) *g = NULL;
  AUTO(kf_info) *info = NULL;
  float rows[6 * 20];
  int64_t found[6 * 3];
  int32_t nearest[6];
  kf_eval_result counts;
  kf_hits hits;
  const char *path = train;
  kf_gallery_options first = {.ids = labels}, more = {.ids = labels, .append_to = gallery};
  KF_TRY(kf_data_open(ctx, &path, 1, NULL, &data));
  KF_TRY(kf_data_get(ctx, data, 0, 6, rows, NULL));
  KF_TRY(kf_model_load(ctx, model, &m));
  KF_TRY(kf_gallery_save(ctx, data, m, &first, gallery));
  KF_TRY(kf_gallery_save(ctx, data, NULL, &more, gallery));
  more.replace = 1;
  more.again = 1;
  KF_TRY(kf_gallery_save(ctx, data, NULL, &more, gallery));
  const char *gone[] = {"c0003", "none"};
  KF_TRY(kf_gallery_remove(ctx, gallery, &(kf_id_list){.ids = gone, .n = 2}, NULL));
  const char *changed = gallery;
  KF_TRY(kf_data_open(ctx, &changed, 1, NULL, &rest));
  KF_TRY(kf_info_read(ctx, gallery, &info));
  for (int from_disk = 0; from_disk < 2; from_disk++) {
    kf_gallery_load_options options = {.rerank_from_disk = from_disk};
    KF_TRY(kf_gallery_load(ctx, gallery, &options, &g));
    KF_TRY(kf_gallery_search(ctx, g, rows, 6, 3, NULL, found, NULL, NULL));
    KF_TRY(kf_gallery_search_itself(ctx, g, 0, 6, 3, found, NULL, NULL));
    KF_TRY(kf_gallery_classify(ctx, g, rows, 6, NULL, nearest, NULL, NULL));
    KF_TRY(kf_gallery_eval(ctx, g, data, NULL, &counts, &hits, NULL));
    KF_TRY(kf_gallery_eval(ctx, g, NULL, NULL, &counts, &hits, NULL));
    kf_gallery_free(g);
    g = NULL;
  }
  return kf_gallery_compact(ctx, gallery, NULL);
}

enum { INDEX_DIM = 3, INDEX_ROWS = 128 };

/* Indexes over rows in f32 and f16. */
static kf_status index_scenario(kf_ctx *ctx) {
  AUTO(kf_index) *index = NULL;
  static float x[INDEX_ROWS * INDEX_DIM];
  int64_t found[6 * 3];
  uint64_t random = 1;
  for (int i = 0; i < INDEX_ROWS * INDEX_DIM; i++)
    x[i] = 1 + (float)(test_random(&random) % 1024) / 256;
  for (int half = 0; half < 2; half++) {
    kf_index_options options = {.metric = KF_METRIC_INNER, .dtype = half ? KF_F16 : KF_F32};
    KF_TRY(kf_index_new(ctx, x, INDEX_ROWS, INDEX_DIM, &options, &index));
    KF_TRY(kf_search(ctx, index, x, 6, 3, NULL, found, NULL, NULL));
    kf_index_free(index);
    index = NULL;
  }
  return KF_OK;
}

/* Truth by ids and by order, a class set, a hierarchy, everything that is judged by them, and a
 * page about it. The model is the one that fit_scenario left. */
static kf_status judging_scenario(kf_ctx *ctx) {
  AUTO(kf_data) *data = NULL;
  AUTO(kf_model) *m = NULL;
  AUTO(kf_truth) *t = NULL, *by_order = NULL;
  AUTO(kf_class_set) *set = NULL, *leaves = NULL;
  kf_class_set *groups[KF_GROUPS] = {NULL};
  AUTO(kf_hierarchy) *h = NULL;
  AUTO(kf_analysis) *analysis = NULL;
  AUTO(kf_verdicts) *a = NULL, *b = NULL;
  kf_open_set_result open;
  kf_eval_result counts;
  kf_comparison difference;
  kf_lambda_point points[] = {{.lambda = 0.1, .top1 = 20, .top5 = 30},
                              {.lambda = 1, .top1 = 25, .top5 = 35}};
  kf_lambda_choice choice = {.lambda = 1, .n = 40, .n_points = 2, .points = points};
  const char *path = train;
  KF_TRY(kf_data_open(ctx, &path, 1, NULL, &data));
  KF_TRY(kf_model_load(ctx, model, &m));
  KF_TRY(kf_truth_load(ctx, truth, &(kf_truth_options){.classes = classes, .ids = ids}, &t));
  KF_TRY(kf_truth_load(ctx, labels, NULL, &by_order));
  KF_TRY(kf_class_set_load(ctx, classes, &set));
  KF_TRY(kf_eval(ctx, m, data, &(kf_eval_options){.truth = t, .set = set}, &counts));
  KF_TRY(kf_analysis_new(ctx, m, data, &(kf_analysis_options){.truth = t}, &analysis));
  KF_TRY(kf_page_save(ctx, &(kf_page){.model = m, .lambda = &choice, .analysis = analysis}, out));
  KF_TRY(kf_open_set(ctx, m, data, data, NULL, &open));
  KF_TRY(kf_verdicts_new(ctx, m, data, NULL, &a));
  KF_TRY(kf_verdicts_read(ctx, answers, data, by_order, set, &b));
  KF_TRY(kf_compare(ctx, a, b, &difference));
  KF_TRY(kf_hierarchy_load(ctx, tree, classes_named, &h));
  KF_TRY(kf_class_set_new_kin(ctx, h, set, KF_KIN_LEAVES, &leaves));
  kf_status status = kf_class_groups_new(ctx, h, leaves, set, groups);
  for (unsigned g = 0; g < KF_GROUPS; g++) kf_class_set_free(groups[g]);
  return status;
}

/* Lambda, dimensions and k are chosen. */
static kf_status choosing_scenario(kf_ctx *ctx) {
  AUTO(kf_data) *data = NULL;
  AUTO(kf_stats) *s = NULL;
  AUTO(kf_gallery) *g = NULL;
  AUTO(kf_lambda_choice) *lambda = NULL, *distances = NULL;
  AUTO(kf_dim_choice) *dim = NULL;
  AUTO(kf_k_choice) *k = NULL;
  kf_lambda shrunk;
  const char *path = train;
  const double grid[] = {0.1, 1};
  KF_TRY(kf_data_open(ctx, &path, 1, &(kf_data_options){.skip_bad = 1}, &data));
  KF_TRY(kf_stats_new_from_data(ctx, data, NULL, &s));
  KF_TRY(kf_lambda_choice_new(ctx, s, data, &(kf_lambda_options){.sample = 30}, &lambda));
  KF_TRY(kf_lambda_choice_new(
      ctx, s, data, &(kf_lambda_options){.metric = KF_METRIC_EUCLIDEAN, .grid = grid, .n_grid = 2},
      &distances));
  KF_TRY(kf_lambda_ledoit_wolf(ctx, s, data, &shrunk));
  kf_dim_options o = {.folds = 2, .lambda = {1, KF_LAMBDA_ABSOLUTE}};
  KF_TRY(kf_dim_choice_new(ctx, s, data, &o, &dim));
  KF_TRY(kf_gallery_new(ctx, data, NULL, NULL, &g));
  return kf_k_choice_new(ctx, g, &(kf_k_options){.most = 4}, &k);
}

/* Everything is swept, over folds, on test data and by leaving rows out. */
static kf_status sweep_scenario(kf_ctx *ctx) {
  AUTO(kf_data) *data = NULL;
  AUTO(kf_stats) *s = NULL;
  AUTO(kf_class_set) *set = NULL;
  AUTO(kf_sweep) *folds = NULL, *tested = NULL, *left_out = NULL;
  const char *path = train;
  const uint32_t ks[] = {1, 3}, dims[] = {9};
  const kf_lambda lambdas[] = {{1, KF_LAMBDA_ABSOLUTE}};
  const kf_metric metrics[] = {KF_METRIC_EUCLIDEAN};
  const kf_class_set *sets[1];
  KF_TRY(kf_data_open(ctx, &path, 1, NULL, &data));
  KF_TRY(kf_stats_new_from_data(ctx, data, NULL, &s));
  KF_TRY(kf_class_set_load(ctx, classes, &set));
  sets[0] = set;
  kf_sweep_options o = {.lambdas = lambdas,
                        .n_lambdas = 1,
                        .dims = dims,
                        .n_dims = 1,
                        .k = ks,
                        .n_k = 2,
                        .metrics = metrics,
                        .n_metrics = 1,
                        .sets = sets,
                        .n_sets = 1,
                        .folds = 2};
  KF_TRY(kf_sweep_new(ctx, s, data, NULL, &o, &folds));
  o.n_k = 1;
  o.sample = 9;
  KF_TRY(kf_sweep_new(ctx, s, data, data, &o, &tested));
  o = (kf_sweep_options){.leave_one_out = 1, .metrics = metrics, .n_metrics = 1};
  return kf_sweep_new(ctx, s, data, NULL, &o, &left_out);
}

/* Few-shot curves, and a page that shows them. */
static kf_status shots_scenario(kf_ctx *ctx) {
  AUTO(kf_data) *data = NULL, *names = NULL;
  AUTO(kf_text) *text = NULL;
  AUTO(kf_shots) *shots = NULL;
  static const uint32_t few[] = {1, 9};
  const char *path = train;
  kf_synth_options world = {.classes = 5, .dim = 20};
  kf_shots_options options = {.shots = few, .n_shots = 2, .seeds = 1};
  KF_TRY(kf_data_open(ctx, &path, 1, NULL, &data));
  KF_TRY(kf_synth_open_text(ctx, &world, &names));
  KF_TRY(kf_text_new(ctx, names, NULL, &text));
  KF_TRY(kf_shots_new(ctx, data, data, text, &options, &shots));
  return kf_page_save(ctx, &(kf_page){.shots = shots}, out);
}

/* Text prototypes, a zero-shot model and a sweep of text. */
static kf_status text_scenario(kf_ctx *ctx) {
  AUTO(kf_data) *data = NULL;
  AUTO(kf_stats) *s = NULL;
  AUTO(kf_model) *m = NULL, *zero = NULL;
  AUTO(kf_text) *text = NULL;
  AUTO(kf_sweep) *sweep = NULL;
  const char *from = train;
  KF_TRY(kf_data_open(ctx, &from, 1, NULL, &data));
  KF_TRY(kf_text_new(ctx, data, &(kf_text_options){.per_class = 8, .classes = classes}, &text));
  KF_TRY(kf_text_save(ctx, text, larger));
  KF_TRY(kf_model_load(ctx, model, &m));
  KF_TRY(kf_model_new_zero_shot(ctx, m, text, KF_CENTRE_MODALITY, &zero));
  KF_TRY(kf_stats_new_from_data(ctx, data, NULL, &s));
  return kf_sweep_new(ctx, s, NULL, data,
                      &(kf_sweep_options){.include_prototypes = KF_OFF, .text = text}, &sweep);
}

/* A model with text, its evaluation, a sweep of both together, and a page about it. */
static kf_status fused_scenario(kf_ctx *ctx) {
  AUTO(kf_data) *data = NULL;
  AUTO(kf_stats) *s = NULL;
  AUTO(kf_model) *m = NULL, *fused = NULL;
  AUTO(kf_text) *text = NULL, *own = NULL;
  AUTO(kf_sweep) *sweep = NULL;
  AUTO(kf_fuse_choice) *fuse = NULL;
  const char *from = train;
  const double alphas[] = {0.1, 0.3};
  KF_TRY(kf_data_open(ctx, &from, 1, NULL, &data));
  KF_TRY(kf_text_new(ctx, data, &(kf_text_options){.per_class = 8, .classes = classes}, &text));
  KF_TRY(kf_model_load(ctx, model, &m));
  KF_TRY(kf_model_new_fused(ctx, m, text, 0.1, &fused));
  KF_TRY(kf_text_new_of_model(ctx, fused, &own));
  KF_TRY(kf_stats_new_from_data(ctx, data, NULL, &s));
  kf_fuse_options few = {.lambda = {1, KF_LAMBDA_ABSOLUTE}, .alphas = alphas, .n_alphas = 2};
  KF_TRY(kf_fuse_choice_new(ctx, s, data, own, &few, &fuse));
  kf_sweep_options o = {
      .text = own, .fuse = 1, .alphas = alphas, .n_alphas = 2, .include_raw = KF_OFF};
  KF_TRY(kf_sweep_new(ctx, s, data, data, &o, &sweep));
  return kf_page_save(ctx, &(kf_page){.fuse = fuse, .sweep = sweep}, out);
}

/* A model with text exported to every kind of file, and to FAISS with a gallery that was made with
 * it. */
static kf_status export_scenario(kf_ctx *ctx) {
  AUTO(kf_data) *data = NULL;
  AUTO(kf_model) *m = NULL, *fused = NULL;
  AUTO(kf_text) *text = NULL;
  const char *from = train;
  static const char *const names[] = {"m.onnx", "m.npz", "m.h", "m.c", "hub"};
  kf_export_options beside = {.inline_bytes = 1}, rows = {.gallery = gallery};
  char path[400];
  KF_TRY(kf_data_open(ctx, &from, 1, NULL, &data));
  KF_TRY(kf_text_new(ctx, data, &(kf_text_options){.per_class = 8, .classes = classes}, &text));
  KF_TRY(kf_model_load(ctx, model, &m));
  KF_TRY(kf_model_new_fused(ctx, m, text, 0.1, &fused));
  KF_TRY(kf_gallery_save(ctx, data, fused, &(kf_gallery_options){.ids = ids}, gallery));
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    snprintf(path, sizeof path, "%s/%s", exported, names[i]);
    KF_TRY(kf_export(ctx, fused, NULL, path));
  }
  snprintf(path, sizeof path, "%s/n.onnx", exported);
  KF_TRY(kf_export(ctx, m, &beside, path));
  snprintf(path, sizeof path, "%s/g.faiss", exported);
  return kf_export(ctx, fused, &rows, path);
}

/* Pictures by folders and by a list, embedded in shards, one of them unreadable, and again, with
 * rows taken from the existing file; then their ids. */
static kf_status embed_scenario(kf_ctx *ctx) {
  AUTO(kf_pictures) *folders = NULL, *listed = NULL, *labelled = NULL;
  AUTO(kf_encoder) *encoder = NULL;
  AUTO(kf_data) *data = NULL, *rows = NULL;
  char id[600], embedded[400], copy[400];
  kf_embed_report report;
  const char *path = picture_folder, *file = embedded;
  snprintf(embedded, sizeof embedded, "%s/../embedded.safetensors", picture_folder);
  snprintf(copy, sizeof copy, "%s/../copy.safetensors", picture_folder);
  KF_TRY(kf_pictures_open(ctx, &path, 1, &folders));
  KF_TRY(kf_pictures_open_list(ctx, picture_list, &listed));
  kf_pictures_options by_table = {.labels = picture_table};
  KF_TRY(kf_pictures_open_with(ctx, &path, 1, &by_table, &labelled));
  KF_TRY(kf_encoder_load(ctx, KOOFU_SOURCE_DIR "/tests/golden/models/clip-vision", NULL, &encoder));
  kf_reader_options lenient = {.skip_bad = 1};
  KF_TRY(kf_data_new_from_pictures(ctx, encoder, labelled, &lenient, &rows));
  KF_TRY(kf_data_get_id(ctx, rows, 0, id, sizeof id));
  unlink(embedded);
  KF_TRY(kf_embed(ctx, encoder, folders, &(kf_embed_options){.skip_bad = 1, .shard = 2}, embedded,
                  &report));
  KF_TRY(kf_embed(ctx, encoder, folders, &(kf_embed_options){.skip_bad = 1, .shard = 2}, embedded,
                  &report));
  KF_TRY(kf_data_open(ctx, &file, 1, NULL, &data));
  KF_TRY(kf_data_get_id(ctx, data, 1, id, sizeof id));
  KF_TRY(kf_data_save(ctx, data, KF_F16, copy));
  return kf_gallery_save(ctx, data, NULL, NULL, copy);
}

/* The smallest data that a report can be about, with everything fitted and chosen. */
static kf_status report_scenario(kf_ctx *ctx) {
  static const float points[6][3] = {{3, 1, 0}, {4, 1, 1}, {3, 2, 1},
                                     {1, 3, 0}, {1, 4, 1}, {2, 4, 2}};
  static const int32_t of[6] = {0, 0, 0, 1, 1, 1};
  static const char *const folders[] = {"017.Owl", "018.Owl"};
  AUTO(kf_data) *data = NULL;
  AUTO(kf_class_names) *names = NULL;
  const uint32_t one = 1, three = 3;
  KF_TRY(kf_data_open_memory(ctx, points[0], 6, 3, of, folders, 2, &data));
  KF_TRY(kf_class_names_load(ctx, NULL, folders, 2, &names));
  kf_report_options o = {
      .test = data, .dims = &three, .n_dims = 1, .k = &one, .n_k = 1, .names = names};
  o.fit.folds = 2;
  return kf_report_write(ctx, data, &o, out, NULL);
}

/* An encoder is loaded from several files, and given pictures, texts and prompts. */
static kf_status encoder_scenario(kf_ctx *ctx) {
  AUTO(kf_encoder) *e = NULL;
  AUTO(kf_prompts) *prompts = NULL, *lines = NULL;
  AUTO(kf_text) *text = NULL;
  AUTO(kf_pictures) *list = NULL;
  AUTO(kf_reader) *reader = NULL;
  kf_reader_block block;
  float rows[2 * 16];
  kf_status each[2];
  const char *texts[] = {"a photo", "cat"};
  const char *pictures[] = {KOOFU_SOURCE_DIR "/tests/golden/models/pictures/a.png",
                            KOOFU_SOURCE_DIR "/tests/golden/models/README"};
  KF_TRY(kf_encoder_load(ctx, KOOFU_SOURCE_DIR "/tests/golden/models/clip-bf16", NULL, &e));
  KF_TRY(kf_encode_images(ctx, e, pictures, 1, rows, NULL));
  KF_TRY(kf_encode_images(ctx, e, pictures, 2, rows, each));
  KF_TRY(kf_encode_texts(ctx, e, texts, 1, rows));
  KF_TRY(kf_encode_texts(ctx, e, texts, 2, rows));
  kf_prompts_options o = {.classes = classes, .spoken = classes_named, .templates = "builtin1"};
  KF_TRY(kf_prompts_new(ctx, &o, &prompts));
  KF_TRY(kf_text_new_from_prompts(ctx, e, prompts, NULL, &text));
  KF_TRY(kf_prompts_read(ctx, classes, &lines));
  KF_TRY(kf_pictures_open(ctx, pictures, 1, &list));
  KF_TRY(kf_reader_open_pictures(ctx, e, list, NULL, &reader));
  return kf_reader_next(ctx, reader, &block);
}

/* Pictures of each format to pixels, in the libraries that read them as well. Formats that this
 * build leaves out are skipped; libwebp reports damage if memory for lossless pictures or for
 * transparency fails, so these are not tested here. */
static kf_status pictures_scenario(kf_ctx *ctx) {
  static const char *const names[] = {"exif6-le.jpg",
                                      "grey-progressive.jpg",
                                      "cmyk.jpg",
                                      "rgb8-13x19.png",
                                      "exif7-after.png",
                                      "xmp.png",
                                      "palette-alpha4-i-13x19.png",
                                      "raw-profile.png",
                                      "q50.webp",
                                      "exif5.webp"};
  static float pixels[3 * 32 * 32];
  kf_err *err = &ctx->err;
  kf_preprocess p;
  kf_status status = kf_preprocess_read(folder, 32, &p, err);
  for (size_t i = 0; i < sizeof names / sizeof *names && status == KF_OK; i++) {
    kf_image image;
    char path[512];
    snprintf(path, sizeof path, KOOFU_SOURCE_DIR "/tests/golden/images/%s", names[i]);
    status = read_picture(path, &image, err);
    if (status == KF_OK) status = kf_preprocess_run(&p, &image, path, pixels, err);
    kf_image_clear(&image);
    if (status != KF_OK && strstr(err->message, "this build of koofu does not read"))
      status = KF_OK;
  }
  return status;
}

/* A tokenizer from each of its forms, and a text that needs every kind of memory. */
static kf_status tokens_scenario(kf_ctx *ctx) {
  static const char *const forms[] = {"json", "two", "packed", "text"};
  static char text[2000]; /* a long word, and a long run of marks */
  memset(text, 'o', 1000);
  for (int i = 1000; i < 2000; i += 2) memcpy(text + i, "\xcc\x81", 2);
  kf_err *err = &ctx->err;
  kf_status status = KF_OK;
  for (size_t i = 0; i < sizeof forms / sizeof *forms && status == KF_OK; i++) {
    AUTO(kf_tokenizer) *t = NULL;
    char path[300];
    int32_t tokens[77];
    uint32_t n;
    snprintf(path, sizeof path, KOOFU_SOURCE_DIR "/tests/golden/tokenizer/%s", forms[i]);
    status = kf_tokenizer_load(path, &t, err);
    if (status == KF_OK) status = kf_tokenize_text(t, text, 2000, 77, "text", tokens, &n, err);
    if (status != KF_OK && strstr(err->message, "without zlib") != NULL) status = KF_OK;
  }
  return status;
}

/* Columns of a .parquet, with missing rows, written as another one and read again. */
static kf_status parquet_scenario(kf_ctx *ctx) {
  const char *const files[] = {KOOFU_SOURCE_DIR
                               "/tests/golden/parquet/pyarrow-groups-nulls-n23.parquet"};
  kf_data_options options = {.label_column = "class", .id_column = "key", .skip_bad = 1};
  AUTO(kf_data) *data = NULL, *again = NULL;
  AUTO(kf_info) *info = NULL;
  char path[300];
  const char *const written[] = {path};
  snprintf(path, sizeof path, "%s/a.parquet", folder);
  KF_TRY(kf_data_open(ctx, files, 1, &options, &data));
  KF_TRY(kf_data_save(ctx, data, KF_F16, path));
  KF_TRY(kf_data_open(ctx, written, 1, NULL, &again));
  return kf_info_read(ctx, path, &info);
}

/* Pages that zlib and libzstd unpack, with memory of their own, and one of Snappy. */
static kf_status codecs_scenario(kf_ctx *ctx) {
#define PARQUET  KOOFU_SOURCE_DIR "/tests/golden/parquet/"
  static const char *const files[] = {PARQUET "duckdb-many-n9000.parquet",
                                      PARQUET "duckdb-gzip-n23.parquet",
                                      PARQUET "duckdb-zstd-n23.parquet"};
  static const int codecs[] = {KF_CODEC_SNAPPY, KF_CODEC_GZIP, KF_CODEC_ZSTD};
  static float x[9000 * 4];
  AUTO(kf_data) *data = NULL;
  for (int i = 0; i < 3; i++) {
    if (kf_codec_refusal(codecs[i]) != NULL) continue;
    KF_TRY(kf_data_open(ctx, &files[i], 1, &(kf_data_options){.id_column = ""}, &data));
    KF_TRY(kf_data_get(ctx, data, 0, kf_data_rows(data), x, NULL));
    kf_data_free(data);
    data = NULL;
  }
  return KF_OK;
}

/* A column for each dimension: .parquet, .csv with labels and ids, and .csv without. */
static kf_status tables_scenario(kf_ctx *ctx) {
  static const char *const parquet = KOOFU_SOURCE_DIR "/tests/golden/parquet_odd/columns.parquet";
  char table[400];
  snprintf(table, sizeof table, "%s/more/rows.csv", shard_folder);
  kf_data_options options = {.label_column = "class", .id_column = "key"}, named = {.tensor = "x"};
  const char *paths[] = {parquet, table, table};
  const kf_data_options *all[] = {&options, NULL, &named};
  for (int i = 0; i < 3; i++) {
    AUTO(kf_data) *data = NULL;
    float x[40 * 4];
    char id[32];
    KF_TRY(kf_data_open(ctx, &paths[i], 1, all[i], &data));
    KF_TRY(kf_data_get(ctx, data, 0, kf_data_rows(data), x, NULL));
    KF_TRY(kf_data_get_id(ctx, data, 3, id, sizeof id));
  }
  return KF_OK;
}

static FILE *create(char *path, const char *name) {
  snprintf(path, 300, "%s/%s", folder, name);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  return file;
}

static void make_judging_files(void) {
  FILE *list = create(classes, "classes.txt"), *named = create(classes_named, "named.txt");
  FILE *csv = create(truth, "truth.csv"), *id = create(ids, "ids.txt");
  FILE *answer = create(answers, "answers.tsv"), *edges = create(tree, "tree.txt");
  fputs("id,labels\n", csv);
  fputs("row\tclass1\tcosine1\n", answer);
  for (int k = 0; k < 5; k++) {
    fprintf(list, "c%04d\n", k);
    fprintf(named, "c%04d\tclass %d\n", k, k);
    if (k > 2) fprintf(edges, "c%04d c%04d\n", k - 2, k);
  }
  for (int i = 0; i < 40; i++) {
    fprintf(csv, "x%d.png,\"%d, %d\"\n", i, i % 5, i % 3);
    fprintf(id, "x%d\n", 39 - i);
    fprintf(answer, "%d\tc%04d\t1\n", i, i % 4);
  }
  FILE *const all[] = {list, named, csv, id, answer, edges};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) fclose(all[i]);
}

/* Two classes, in a folder that holds what is made of them as well. */
static void make_pictures(void) {
  char command[2048];
  snprintf(picture_folder, sizeof picture_folder, "%s/pictures/classes", folder);
  snprintf(command, sizeof command,
           "mkdir -p '%s/a' '%s/b' && cp '%s'/tests/golden/models/pictures/[ab].png '%s/a' && "
           "cp '%s/a/a.png' '%s/b' && echo bad >'%s/b/bad.png'",
           picture_folder, picture_folder, KOOFU_SOURCE_DIR, picture_folder, picture_folder,
           picture_folder, picture_folder);
  assert_int_equal(system(command), 0);
  FILE *list = create(picture_list, "pictures/list.tsv");
  fputs("classes/a/a.png\tone\nclasses/b/a.png\ttwo\n", list);
  fclose(list);
  FILE *table = create(picture_table, "pictures/table.csv");
  fputs("filename,label\na/a,one\nb/a.png,two\nbad,one\n", table);
  fclose(table);
}

static void copy_seed(const char *seed, const char *name) {
  char path[400];
  size_t n;
  snprintf(path, sizeof path, "%s/%s", KOOFU_SOURCE_DIR "/fuzz/corpus", seed);
  char *bytes = test_read(path, &n);
  FILE *file = fopen(in_shards(name), "wb");
  fwrite(bytes, 1, n, file);
  fclose(file);
  free(bytes);
}

static void put_text(const char *name, const char *text) {
  FILE *file = fopen(in_shards(name), "w");
  fputs(text, file);
  fclose(file);
}

/* Two shards of two rows, and labels for them in every form. */
static void make_shards(void) {
  static const uint32_t shard[6] = {2, 2, 0x3F800000, 0x40000000, 0x40000000, 0x3F800000};
  snprintf(shard_folder, sizeof shard_folder, "%s/shards", folder);
  mkdir(shard_folder, 0777);
  mkdir(in_shards("labels"), 0777);
  mkdir(in_shards("more"), 0777);
  copy_seed("npy/labels-U", "more/names.npy");
  copy_seed("npz/stored-64", "more/a.npz");
  copy_seed("npz/deflated", "more/packed.npz");
  for (int i = 0; i < 2; i++) {
    FILE *file = fopen(in_shards(i ? "s_10.fbin" : "s_9.fbin"), "wb");
    fwrite(shard, sizeof shard, 1, file);
    fclose(file);
    put_text(i ? "labels/s_10.txt" : "labels/s_9.txt", "a\nb\n");
  }
  put_text("more/rows.csv",
           "id,label,x0,x1,price\np,a,1,-2,1\nq,b,1.5,7,1\nr,a,2,3,1\ns,a,2,1,1\n");
  put_text("t.csv", "path,label\n1,a\n2,\"b\"\n3,a\n4,b\n");
}

static void make_files(void) {
  kf_ctx *ctx = test_ctx(1, KF_ISA_AUTO);
  kf_data *data;
  test_in_memory(NULL);
  snprintf(folder, sizeof folder, "%s", test_folder());
  snprintf(train, sizeof train, "%s/train.safetensors", folder);
  snprintf(labels, sizeof labels, "%s/labels.txt", folder);
  snprintf(stats, sizeof stats, "%s/stats.safetensors", folder);
  snprintf(model, sizeof model, "%s/model.safetensors", folder);
  snprintf(larger, sizeof larger, "%s/larger.safetensors", folder);
  snprintf(out, sizeof out, "%s/out.npy", folder);
  snprintf(gallery, sizeof gallery, "%s/gallery.safetensors", folder);
  snprintf(changes, sizeof changes, "%s/gallery.safetensors.changes", folder);
  snprintf(exported, sizeof exported, "%s/exported", folder);
  mkdir(exported, 0777);
  assert_ok(
      ctx, kf_synth_open(ctx, &(kf_synth_options){.classes = 5, .dim = 20, .per_class = 8}, &data));
  assert_ok(ctx, kf_data_save(ctx, data, KF_F32, train));
  FILE *file = fopen(labels, "w");
  for (int i = 0; i < 40; i++) fprintf(file, "c%04d\n", i % 5);
  fclose(file);
  make_judging_files();
  make_pictures();
  make_shards();
  kf_data_free(data);
  kf_ctx_free(ctx);
}

/* `once`, `for_good`: with which numbers of threads an allocation fails like this, as bits 1 and
 * 2. */
typedef struct scenario_row {
  const char *name;
  scenario_fn run;
  unsigned once, for_good;
} scenario_row;
static const scenario_row rows[] = {
    {"labels", labels_scenario, 1, 1},   {"fit", fit_scenario, 3, 3},
    {"gallery", gallery_scenario, 3, 3}, {"pictures", pictures_scenario, 1, 1},
    {"judging", judging_scenario, 3, 3}, {"choosing", choosing_scenario, 3, 3},
    {"fused", fused_scenario, 1, 2},     {"text", text_scenario, 3, 3},
    {"shots", shots_scenario, 1, 3},     {"embed", embed_scenario, 3, 3},
    {"encoder", encoder_scenario, 3, 3}, {"tokens", tokens_scenario, 1, 1},
    {"report", report_scenario, 1, 3},   {"device", device_scenario, 3, 3},
    {"index", index_scenario, 3, 3},     {"export", export_scenario, 1, 2},
    {"parquet", parquet_scenario, 1, 3}, {"codecs", codecs_scenario, 3, 3},
    {"sweep", sweep_scenario, 3, 3},     {"tables", tables_scenario, 1, 1},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static kf_ctx *keeper; /* keeps the device open */

static kf_ctx_options on_twin(unsigned threads) {
  return (kf_ctx_options){.threads = threads, .device = "cuda", .device_plugin = KF_TWIN_PLUGIN};
}

/* Runs a scenario in a context of its own. */
static kf_status run(const scenario_row *row, unsigned threads) {
  AUTO(kf_ctx) *ctx = NULL;
  kf_ctx_options options = {.threads = threads};
  if (row->run == device_scenario) options = on_twin(threads);
  KF_TRY(kf_ctx_new(&options, &ctx));
  kf_status status = row->run(ctx);
  if (status != KF_OK && status != KF_ERR_MEM)
    print_message("    wrong status %d: %s\n", (int)status, kf_errmsg(ctx));
  return status;
}

/* With one thread every block must be accounted for. With more, the C library keeps stacks of
 * ended threads and gives them back when memory is short, so fewer blocks than before are fine. */
static void fail_each(const scenario_row *row, int good, unsigned threads) {
  for (long at = 0;; at++) {
    long before = atomic_load(&live);
    atomic_store(&failures, 0);
    atomic_store(&for_good, good);
    atomic_store(&countdown, at);
    kf_status status = run(row, threads);
    atomic_store(&countdown, -1);
    int failed = atomic_load(&failures);
    long more = atomic_load(&live) - before;
    if (more > 0 || (threads == 1 && more != 0))
      fail_msg("allocation %ld: %ld blocks are leaked", at, more);
    if (failed == 0) {
      assert_int_equal(status, KF_OK);
      print_message("    %ld allocations, %u threads, each failing %s\n", at, threads,
                    good ? "for good" : "once");
      return;
    }
    /* A single failure may be survived where there is another way (an unstartable thread). */
    if (status != KF_ERR_MEM && (good || status != KF_OK))
      fail_msg("allocation %ld: status %d instead of out of memory", at, (int)status);
    bool changed = access(changes, F_OK) == 0;
    if (status != KF_OK && (test_entries(folder) > 17 + changed ||
                            (changed && test_entries(changes) > 3) || test_entries(exported) > 8))
      fail_msg("allocation %ld: a file is left", at);
  }
}

static void once(void **state) {
  const scenario_row *row = *state;
  for (unsigned threads = 1; threads <= 2; threads++)
    if (row->once & threads) fail_each(row, 0, threads);
}

static void from_then_on(void **state) {
  const scenario_row *row = *state;
  for (unsigned threads = 1; threads <= 2; threads++)
    if (row->for_good & threads) fail_each(row, 1, threads);
}

/* The first run leaves what the C library keeps for good (time zones, streams) allocated. */
static int run_each(void **state) {
  (void)state;
  make_files();
  /* The twin stays loaded: what the system's loader does without memory is not tested. */
  const kf_device_list *devices;
  kf_ctx_options options = on_twin(1);
  if (kf_ctx_new(&options, &keeper) != KF_OK || kf_devices_find(keeper, &devices) != KF_OK)
    return -1;
  for (unsigned threads = 2; threads > 0; threads--)
    for (size_t i = 0; i < ROWS; i++)
      if (run(&rows[i], threads) != KF_OK) return -1;
  return 0;
}

static int remove_files(void **state) {
  (void)state;
  kf_ctx_free(keeper);
  test_remove(folder);
  return 0;
}

FIXTURES(.before = run_each, .after = remove_files);

TESTS {
  for (size_t i = 0; i < ROWS; i++) {
    ADD_TEST(rows[i].name, once, (void *)&rows[i]);
    ADD_TEST(rows[i].name, from_then_on, (void *)&rows[i]);
  }
}
#endif
