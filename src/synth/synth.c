/* synth.c - the synthetic world (world.c) as data sets.
 *
 * Image rows are functions of (seed, classes, dim, split, row), computed by the thread that fetches
 * them; the data set holds only the class centres. Texts are one row per class, all computed when
 * the data set is opened. */
#include "file/file.h"
#include "synth/world.h"

#include <inttypes.h>
#include <string.h>

#define DEFAULT_CLASSES   1000u
#define DEFAULT_DIM       512u
#define DEFAULT_PER_CLASS 16u
#define MIN_DIM           8u

typedef struct synth_data {
  kf_data data; /* first, so that a kf_data * is one of these */
  kf_synth_options options;
  kf_world *world; /* of images */
  float *texts;    /* [K][dim] of texts */
} synth_data;

/* --- the kind of data set -------------------------------------------------------------------- */

static void fetch_labels(const kf_data *data, uint64_t first, uint64_t n, int32_t *labels) {
  for (uint64_t i = 0; i < n; i++) labels[i] = (int32_t)((first + i) % data->n_classes);
}

static kf_status fetch_images(const kf_data *data, const kf_kernels *kernels, uint64_t first,
                              uint64_t n, float *rows, int32_t *labels, kf_err *err) {
  const synth_data *synth = (const synth_data *)data;
  if (labels != NULL) fetch_labels(data, first, n, labels);
  if (rows == NULL) return KF_OK;
  float *workspace = kf_alloc(2 * (uint64_t)data->dim, sizeof *workspace);
  if (workspace == NULL) return kf_fail_memory(err);
  for (uint64_t i = 0; i < n; i++)
    kf_world_image(synth->world, kernels, synth->options.split, first + i, workspace,
                   rows + (size_t)i * data->dim);
  kf_free(workspace);
  return KF_OK;
}

static kf_status fetch_texts(const kf_data *data, const kf_kernels *kernels, uint64_t first,
                             uint64_t n, float *rows, int32_t *labels, kf_err *err) {
  (void)kernels;
  (void)err;
  const float *texts = ((const synth_data *)data)->texts;
  if (labels != NULL) fetch_labels(data, first, n, labels);
  if (rows != NULL)
    memcpy(rows, texts + (size_t)first * data->dim, (size_t)n * data->dim * sizeof *rows);
  return KF_OK;
}

static void where(const kf_data *data, uint64_t row, char *text, size_t size) {
  const synth_data *synth = (const synth_data *)data;
  int length =
      snprintf(text, size, "synthetic %s, seed %" PRIu64 ", split %" PRIu32,
               synth->texts != NULL ? "text" : "images", synth->options.seed, synth->options.split);
  if (row != KF_ALL_ROWS) snprintf(text + length, size - (size_t)length, ", row %" PRIu64, row);
}

static void destroy(kf_data *data) {
  synth_data *synth = (synth_data *)data;
  kf_world_free(synth->world);
  kf_free(synth->texts);
  kf_free(synth);
}

/* --- opening --------------------------------------------------------------------------------- */

/* Fills in the defaults. */
static kf_status check_options(kf_synth_options *out, uint64_t *rows, kf_err *err) {
  if (out->classes == 0) out->classes = DEFAULT_CLASSES;
  if (out->dim == 0) out->dim = DEFAULT_DIM;
  if (out->per_class == 0) out->per_class = DEFAULT_PER_CLASS;
  if (out->classes > KF_MAX_CLASSES)
    return kf_fail(err, KF_ERR_ARG, "a synthetic world has at most %u classes, not %" PRIu32,
                   KF_MAX_CLASSES, out->classes);
  if (out->dim < MIN_DIM || out->dim > KF_MAX_DIM)
    return kf_fail(err, KF_ERR_ARG, "a synthetic world has %u to %u dimensions, not %" PRIu32,
                   MIN_DIM, KF_MAX_DIM, out->dim);
  if (!kf_mul_u64(out->classes, out->per_class, rows) || *rows > INT64_MAX)
    return kf_fail(err, KF_ERR_ARG,
                   "%" PRIu32 " classes with %" PRIu64 " rows each are too many rows", out->classes,
                   out->per_class);
  return KF_OK;
}

/* "c0000", "c0001", … The name of a class does not depend on the number of classes. */
static kf_status make_names(uint32_t n, kf_names *out, kf_err *err) {
  char(*text)[12];
  const char **list;
  kf_arena arena = {0};
  KF_TAKE(&arena, text, n);
  KF_TAKE(&arena, list, n);
  for (uint32_t k = 0; !arena.failed && k < n; k++) {
    snprintf(text[k], sizeof text[k], "c%04" PRIu32, k);
    list[k] = text[k];
  }
  kf_status status = arena.failed ? kf_fail_memory(err) : kf_names_copy(list, n, out, err);
  kf_arena_free(&arena);
  return status;
}

static kf_status make_texts(synth_data *synth, const kf_kernels *kernels, kf_err *err) {
  uint64_t size = (uint64_t)synth->options.classes * synth->options.dim;
  synth->texts = kf_alloc(size, sizeof *synth->texts);
  if (synth->texts == NULL) return kf_fail_memory(err);
  kf_world_texts(synth->world, kernels, synth->texts);
  kf_world_free(synth->world); /* its centres are no longer needed */
  synth->world = NULL;
  return KF_OK;
}

static kf_status fill(synth_data *synth, const kf_kernels *kernels, bool text, kf_err *err) {
  const kf_synth_options *o = &synth->options;
  KF_TRY(make_names(o->classes, &synth->data.names, err));
  KF_TRY(kf_world_new(o->seed, o->classes, o->dim, &synth->world, err));
  return text ? make_texts(synth, kernels, err) : KF_OK;
}

static kf_status open_synth(kf_ctx *ctx, const kf_synth_options *options, bool text,
                            kf_data **out) {
  KF_ENTER(ctx, out != NULL);
  KF_OPTIONS(kf_synth_options, o, options);
  uint64_t rows = 0;
  KF_TRY(check_options(&o, &rows, err));
  synth_data *synth = kf_alloc_zero(1, sizeof *synth);
  if (synth == NULL) return kf_fail_memory(err);
  synth->options = o;
  synth->data = (kf_data){.rows = text ? o.classes : rows,
                          .dim = o.dim,
                          .has_labels = true,
                          .n_classes = o.classes,
                          .fetch = text ? fetch_texts : fetch_images,
                          .where = where,
                          .destroy = destroy};
  KF_HAND_OUT(fill(synth, ctx->kernels, text, err), out, &synth->data, kf_data_free);
}

kf_status kf_synth_open(kf_ctx *ctx, const kf_synth_options *options, kf_data **out) {
  KF_NOTHING(out);
  return open_synth(ctx, options, false, out);
}

kf_status kf_synth_open_text(kf_ctx *ctx, const kf_synth_options *options, kf_data **out) {
  KF_NOTHING(out);
  return open_synth(ctx, options, true, out);
}
