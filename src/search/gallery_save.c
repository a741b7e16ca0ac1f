/* gallery_save.c - writing a gallery, or an existing one with more rows after its own.
 *
 * Rows are streamed (file/save.c). Those of an existing gallery are copied unchanged, so the file
 * is the one that all rows together would have given. Ids are kept in memory while the file is
 * written, as they are when it is loaded.
 *
 * A gallery that grows in place is locked from before it is read until it is replaced (base/guard.c).
 * Whoever adds rows and never learns whether that was done, because the machine went down, should be
 * able to say it again. So the file ends with the checksums of the last batches that were added, and
 * a batch that is among them is not added again. The checksum is known once the rows are written, at
 * the end of the file; a repetition is rare enough for that to be wasted. */
#include "search/gallery.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

typedef struct writer {
  kf_ctx *ctx;
  const kf_data *data;
  kf_gallery *old; /* whose rows come first; NULL: none */
  kf_space space;
  uint32_t k; /* neighbours that should vote; 0: not known */
  kf_save_spec spec;
  kf_names names; /* of all classes, if there is an old gallery */
  kf_origin origin;
  int32_t *number; /* [data classes] their numbers in the file; NULL: as in the data set */
  kf_saver *rows;
  kf_string id_bytes;      /* of the new rows */
  int64_t *id_ends;        /* [kept rows] in the file; NULL: no ids */
  uint64_t n_lines, n_ids; /* of the file with ids: lines read, ids kept */
  const char *ids;         /* its name */
  bool own_ids;            /* ids are those inside the data */
  kf_guard guard;          /* of the old gallery, if it is to be replaced; fd -1: it is not */
  bool grows;              /* the old gallery is to be replaced */
  bool again;              /* even if the batch is there already */
  bool repeated;           /* it is */
  kf_checksum batch;
  kf_stw *file;
  kf_arena arena;
} writer;

/* --- the space of the rows -------------------------------------------------------------------- */

static kf_status choose_space(writer *w, const kf_model *model, const kf_gallery_options *o,
                              kf_err *err) {
  const kf_data *data = w->data;
  kf_metric metric = o->metric;
  KF_TRY(kf_check_rows_dtype(o->dtype, err));
  if (w->old == NULL) {
    KF_TRY(kf_space_for(model != NULL ? &model->map : NULL, data, metric, &w->space, err));
    w->space.dtype = o->dtype;
    return KF_OK;
  }
  if ((unsigned)metric > KF_METRIC_INNER) return kf_fail_metric(metric, err);
  w->space = w->old->space;
  if (metric != KF_METRIC_DEFAULT && metric != w->space.metric)
    return kf_fail(err, KF_ERR_ARG, "%s: its metric is '%s', so rows cannot be added for '%s'",
                   w->old->in.path, kf_metric_name(w->space.metric), kf_metric_name(metric));
  if (o->dtype == KF_F16 && w->space.dtype != KF_F16)
    return kf_fail(err, KF_ERR_ARG, "%s: its rows are f32, so rows cannot be added in f16",
                   w->old->in.path);
  if (model != NULL)
    return kf_fail(err, KF_ERR_ARG, "%s: rows are added with its own map, not with a model",
                   w->old->in.path);
  return kf_gallery_check_data(w->old, data, err);
}

static kf_status map_rows(const void *argument, const kf_kernels *kernels, const float *rows,
                          const double *norm2, uint64_t n, float *out, kf_err *err) {
  return kf_to_space(argument, kernels, rows, norm2, n, out, err);
}

/* --- classes --------------------------------------------------------------------------------- */

/* The classes of the old gallery, then those of the data set that are new. */
static kf_status match_classes(writer *w, kf_err *err) {
  const kf_gallery *old = w->old;
  const kf_data *data = w->data;
  const char *path = old->in.path, **list;
  if (data->has_labels != (old->labels != NULL))
    return kf_fail_file(err, path, "has %s, the rows to be added have %s",
                        data->has_labels ? "no labels" : "labels",
                        data->has_labels ? "some" : "none");
  kf_classes to = {path, old->n_classes, &old->names};
  kf_classes from = {"the rows to be added", data->n_classes, &data->names};
  KF_TAKE(&w->arena, w->number, from.n);
  KF_TAKE(&w->arena, list, (uint64_t)to.n + from.n);
  if (w->arena.failed) return kf_fail_memory(err);
  KF_TRY(kf_match_classes(&from, &to, w->number, err));
  uint32_t n = kf_join_classes(&to, &from, w->number, list);
  if (n > KF_MAX_CLASSES)
    return kf_fail_file(err, path, "would have %u classes, more than %u", n, KF_MAX_CLASSES);
  return kf_names_copy(list, old->names.n > 0 ? n : 0, &w->names, err);
}

/* --- ids ------------------------------------------------------------------------------------- */

static int64_t old_id_bytes(const writer *w) {
  return w->old != NULL ? w->old->id_ends[w->old->rows - 1] : 0;
}

static kf_status add_id(writer *w, const char *id, size_t length, kf_err *err) {
  kf_string_add(&w->id_bytes, id, length);
  if (w->id_bytes.failed) return kf_fail_memory(err);
  w->id_ends[w->n_ids++] = old_id_bytes(w) + (int64_t)w->id_bytes.n;
  return KF_OK;
}

static kf_status take_id(void *argument, uint64_t line, const char *text, size_t length,
                         kf_err *err) {
  writer *w = argument;
  w->n_lines = line;
  if (line > w->data->rows || kf_saver_skips(w->rows, line - 1)) return KF_OK;
  if (length == 0 || !kf_utf8_valid(text, length))
    return kf_fail_file(err, w->ids, "line %llu is %s, not an id", (unsigned long long)line,
                        length == 0 ? "empty" : "not valid UTF-8");
  return add_id(w, text, length, err);
}

static kf_status take_own_id(void *argument, uint64_t row, const char *id, size_t length,
                             kf_err *err) {
  writer *w = argument;
  return kf_saver_skips(w->rows, row) ? KF_OK : add_id(w, id, length, err);
}

static kf_status read_ids(writer *w, const char *path, kf_err *err) {
  kf_in in;
  KF_TRY(kf_data_refuse_doubt(w->data, w->ids, err));
  KF_TRY(kf_in_open(&in, w->ids, err));
  kf_status status = kf_refuse_overwrite(path, &in, err);
  if (status == KF_OK) status = kf_lines_each(&in, take_id, w, err);
  kf_in_close(&in);
  if (status == KF_OK && w->n_lines != w->data->rows)
    status = kf_fail_file(err, w->ids, "%llu ids for %llu rows", (unsigned long long)w->n_lines,
                          (unsigned long long)w->data->rows);
  return status;
}

/* --- the file -------------------------------------------------------------------------------- */

/* In the file: those of the old gallery, or the last of them, and one more. */
static uint64_t n_batches(const writer *w) {
  return w->old->n_batches < KF_MAX_BATCHES ? w->old->n_batches + 1 : KF_MAX_BATCHES;
}

static kf_status declare(const writer *w, kf_err *err) {
  kf_set_layout layout = {.rows = kf_saver_rows(w->rows) + (w->old != NULL ? w->old->rows : 0),
                          .dim = w->space.dim,
                          .type = kf_type_of(w->space.dtype),
                          .labels = w->data->has_labels,
                          .names = w->old != NULL ? &w->names : &w->data->names,
                          .origin = &w->origin,
                          .id_bytes =
                              w->id_ends != NULL ? (uint64_t)old_id_bytes(w) + w->id_bytes.n : 0};
  KF_TRY(kf_stw_format(w->file, KF_GALLERY_FORMAT, err));
  KF_TRY(kf_stw_meta(w->file, "metric", kf_metric_name(w->space.metric), err));
  if (w->k > 0) KF_TRY(kf_stw_meta_i64(w->file, "k", w->k, err));
  if (w->space.map != NULL) KF_TRY(kf_map_declare(w->file, w->space.map, err));
  KF_TRY(kf_stw_declare_set(w->file, &layout, err));
  if (!w->grows) return KF_OK;
  return kf_stw_declare(w->file, KF_TENSOR_BATCHES, KF_TYPE_U64, 1, (uint64_t[]){n_batches(w)},
                        err);
}

static kf_status copy_rows(const writer *w, kf_err *err) {
  const kf_gallery *old = w->old;
  uint64_t dim = old->space.dim, chunk = kf_data_chunk(old->space.dim);
  kf_type type = kf_type_of(old->space.dtype);
  float *rows;
  char *bytes;
  kf_arena arena = {0};
  KF_TAKE(&arena, rows, chunk * dim);
  KF_TAKE(&arena, bytes, chunk * dim * kf_type_size(type));
  kf_status status = arena.failed ? kf_fail_memory(err) : KF_OK;
  for (uint64_t first = 0; status == KF_OK && first < old->rows; first += chunk) {
    uint64_t n = old->rows - first < chunk ? old->rows - first : chunk;
    status = kf_progress(w->ctx, "copy", first, old->rows);
    if (status == KF_OK) status = kf_gallery_fetch(old, w->ctx->kernels, first, n, rows, err);
    if (status != KF_OK) break;
    kf_encode_f32(w->ctx->kernels, type, rows, n * dim, bytes); /* exact: they were of this type */
    status = kf_stw_write(w->file, bytes, n * dim * kf_type_size(type), err);
  }
  kf_arena_free(&arena);
  return status == KF_OK ? kf_gallery_unchanged(old, err) : status;
}

static kf_status copy_ids(const writer *w, kf_err *err) {
  for (uint64_t i = 0; i < w->old->rows; i++) {
    const char *id = kf_gallery_id(w->old, i);
    KF_TRY(kf_stw_write(w->file, id, strlen(id), err));
  }
  return KF_OK;
}

/* The new rows as they are in the file, and their number. */
static kf_status write_rows(writer *w) {
  uint64_t n = kf_saver_rows(w->rows);
  kf_checksum_start(&w->batch);
  kf_checksum_add(&w->batch, &n, sizeof n);
  kf_stw_watch(w->file, &w->batch);
  kf_status status = kf_saver_write_rows(w->rows, w->file);
  kf_stw_watch(w->file, NULL);
  return status;
}

static kf_status write_labels(writer *w) {
  kf_stw_watch(w->file, &w->batch);
  kf_status status = kf_saver_write_labels(w->rows, w->number, w->file);
  kf_stw_watch(w->file, NULL);
  return status;
}

static uint64_t batch_checksum(writer *w) {
  for (uint64_t i = 0; i < w->n_ids; i++) {
    int64_t end = w->id_ends[i] - old_id_bytes(w);
    kf_checksum_add(&w->batch, &end, sizeof end);
  }
  kf_checksum_add(&w->batch, w->id_bytes.data, w->id_bytes.n);
  return kf_checksum_value(&w->batch);
}

/* Ends the file, unless the batch is in the gallery already. */
static kf_status write_batches(writer *w, kf_err *err) {
  const kf_gallery *old = w->old;
  uint64_t sum = batch_checksum(w), kept = n_batches(w) - 1;
  for (uint32_t i = 0; i < old->n_batches; i++)
    w->repeated = w->repeated || (old->batches[i] == sum && !w->again);
  if (w->repeated) return KF_OK;
  if (kept > 0)
    KF_TRY(kf_stw_write(w->file, old->batches + old->n_batches - kept, kept * sizeof sum, err));
  return kf_stw_write(w->file, &sum, sizeof sum, err);
}

static kf_status write_tensors(writer *w, kf_err *err) {
  kf_stw *file = w->file;
  const kf_gallery *old = w->old;
  bool ids = w->id_ends != NULL;
  if (w->space.map != NULL) KF_TRY(kf_map_write(file, w->space.map, err));
  if (ids && old != NULL)
    KF_TRY(kf_stw_write(file, old->id_ends, old->rows * sizeof *old->id_ends, err));
  if (ids) KF_TRY(kf_stw_write(file, w->id_ends, w->n_ids * sizeof *w->id_ends, err));
  if (old != NULL) KF_TRY(copy_rows(w, err));
  KF_TRY(write_rows(w));
  if (w->data->has_labels && old != NULL)
    KF_TRY(kf_stw_write(file, old->labels, old->rows * sizeof *old->labels, err));
  if (w->data->has_labels) KF_TRY(write_labels(w));
  if (ids && old != NULL) KF_TRY(copy_ids(w, err));
  if (ids) KF_TRY(kf_stw_write(file, w->id_bytes.data, w->id_bytes.n, err));
  return w->grows ? write_batches(w, err) : KF_OK;
}

static kf_status write_gallery(writer *w, const char *path, kf_err *err) {
  KF_TRY(kf_stw_open(w->ctx, path, true, &w->file, err));
  KF_TRY(kf_saver_new(w->ctx, w->data, &w->spec, &w->rows));
  if (w->ids != NULL || w->own_ids) KF_TAKE(&w->arena, w->id_ends, kf_saver_rows(w->rows));
  if (w->arena.failed) return kf_fail_memory(err);
  if (w->ids != NULL) KF_TRY(read_ids(w, path, err));
  if (w->own_ids) KF_TRY(kf_data_each_id(w->data, take_own_id, w, err));
  KF_TRY(declare(w, err));
  KF_TRY(write_tensors(w, err));
  if (w->repeated) {
    kf_log(w->ctx, "%s: these %llu rows have been added to it already; it is left as it is",
           w->old->in.path, (unsigned long long)kf_saver_rows(w->rows));
    return KF_OK;
  }
  if (w->grows) kf_stw_replaces(w->file, &w->guard);
  kf_stw *file = w->file;
  w->file = NULL; /* freed by the commit in any case */
  KF_TRY(kf_stw_commit(file, err));
  kf_saver_log(w->rows);
  return KF_OK;
}

/* --- the old gallery --------------------------------------------------------------------------- */

/* By names, since another process may replace the file between two looks at it. */
static bool same_place(const char *a, const char *b) {
  char one[PATH_MAX], two[PATH_MAX];
  return strcmp(a, b) == 0 ||
         (realpath(a, one) != NULL && realpath(b, two) != NULL && strcmp(one, two) == 0);
}

/* Opens the old gallery and, if it is to grow, makes sure that nobody else replaces it. */
static kf_status open_old(writer *w, const char *old, const char *path, kf_err *err) {
  w->grows = same_place(old, path);
  if (!w->grows) return kf_gallery_open(old, true, &w->old, err);
  for (int i = 0; i < 100; i++) {
    KF_TRY(kf_guard_take(&w->guard, w->ctx, old));
    KF_TRY(kf_gallery_open(old, true, &w->old, err));
    if (w->guard.device == w->old->in.device && w->guard.number == w->old->in.number &&
        kf_guard_holds(&w->guard, old))
      return KF_OK;
    kf_gallery_free(w->old); /* replaced by someone who does not ask for the lock */
    w->old = NULL;
    kf_guard_release(&w->guard);
  }
  return kf_fail(err, KF_ERR_IO, "%s: others keep replacing it", old);
}

static kf_status save(writer *w, const kf_model *model, const kf_gallery_options *o,
                      const char *path, kf_err *err) {
  w->origin = w->data->origin;
  if (o->append_to != NULL) {
    KF_TRY(open_old(w, o->append_to, path, err));
    w->old->origin.any = w->ctx->options.any_encoder != 0;
  }
  w->own_ids = o->ids == NULL && w->data->fetch_ids != NULL;
  KF_TRY(choose_space(w, model, o, err));
  if (model != NULL) KF_TRY(kf_origin_join(&w->origin, &model->map.origin, err));
  if (w->old != NULL) KF_TRY(kf_origin_join(&w->origin, &w->old->origin, err));
  w->k = o->k == 0 && w->old != NULL ? w->old->k : o->k;
  if (w->k > KF_MAX_NEIGHBOURS)
    return kf_fail(err, KF_ERR_ARG, "k is %u, but must be at most %d", w->k, KF_MAX_NEIGHBOURS);
  if (w->old != NULL) {
    KF_TRY(match_classes(w, err));
    bool ids = o->ids != NULL || w->own_ids;
    if (w->old->ids == NULL && w->own_ids) { /* the caller did not ask for these */
      kf_log(w->ctx, "%s has no ids; those of the rows to be added are left out", w->old->in.path);
      ids = w->own_ids = false;
    }
    if (ids != (w->old->ids != NULL))
      return kf_fail_file(err, w->old->in.path, "has %s, the rows to be added have %s",
                          ids ? "no ids" : "ids", ids ? "some" : "none");
  }
  bool cosine = w->space.metric == KF_METRIC_COSINE;
  w->spec = (kf_save_spec){.what = "index",
                           .dim = w->space.dim,
                           .dtype = w->space.dtype,
                           .refuse_zero = cosine,
                           .map = w->space.map != NULL ? map_rows : NULL,
                           .argument = &w->space};
  return write_gallery(w, path, err);
}

kf_status kf_gallery_save(kf_ctx *ctx, const kf_data *data, const kf_model *model,
                          const kf_gallery_options *options, const char *path) {
  KF_ENTER(ctx, data != NULL && path != NULL);
  KF_OPTIONS(kf_gallery_options, o, options);
  KF_TRY(kf_data_refuse_overwrite(data, path, err));
  writer w = {.ctx = ctx, .data = data, .ids = o.ids, .again = o.again != 0, .guard = {.fd = -1}};
  kf_status status = save(&w, model, &o, path, err);
  if (o.repeated != NULL) *o.repeated = w.repeated;
  kf_stw_abort(w.file);
  kf_guard_release(&w.guard);
  kf_saver_free(w.rows);
  kf_string_clear(&w.id_bytes);
  kf_arena_free(&w.arena);
  kf_names_clear(&w.names);
  kf_gallery_free(w.old);
  return status;
}
