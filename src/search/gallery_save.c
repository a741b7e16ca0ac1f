/* gallery_save.c - writing a gallery: rows of a data set, alone or after those of an existing one;
 * or those of an existing one alone, in one file again. gallery_change.c writes changes.
 *
 * Rows are streamed (file/save.c). Those of an existing gallery are copied unchanged, so the file
 * is the one that all rows together would have given. Ids are kept in memory while the file is
 * written, as they are when it is loaded. */
#include "search/gallery_write.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- the space of the rows -------------------------------------------------------------------- */

static kf_status choose_space(kf_gallery_writer *w, const kf_model *model,
                              const kf_gallery_options *o, kf_err *err) {
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
                   kf_gallery_path(w->old), kf_metric_name(w->space.metric),
                   kf_metric_name(metric));
  if (o->dtype != KF_F32 && o->dtype != w->space.dtype)
    return kf_fail(err, KF_ERR_ARG, "%s: its rows are %s, so rows cannot be added in %s",
                   kf_gallery_path(w->old), kf_dtype_name(w->space.dtype), kf_dtype_name(o->dtype));
  if (model != NULL)
    return kf_fail(err, KF_ERR_ARG, "%s: rows are added with its own map, not with a model",
                   kf_gallery_path(w->old));
  return kf_gallery_check_data(w->old, data, err);
}

static kf_status map_rows(const void *argument, const kf_kernels *kernels, const float *rows,
                          const double *norm2, uint64_t n, float *out, kf_err *err) {
  return kf_to_space(argument, kernels, rows, norm2, n, out, err);
}

/* --- classes --------------------------------------------------------------------------------- */

/* The classes of the old gallery, then those of the data set that are new. */
static kf_status match_classes(kf_gallery_writer *w, kf_err *err) {
  const kf_gallery *old = w->old;
  const kf_data *data = w->data;
  const char *path = kf_gallery_path(old), **list;
  if (data->has_labels != old->has_labels)
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

static kf_status add_id(kf_gallery_writer *w, const char *id, size_t length, kf_err *err) {
  kf_string_add(&w->id_bytes, id, length);
  if (w->id_bytes.failed) return kf_fail_memory(err);
  w->id_ends[w->n_ids++] = w->id_begin + (int64_t)w->id_bytes.n;
  return KF_OK;
}

static kf_status take_id(void *argument, uint64_t line, const char *text, size_t length,
                         kf_err *err) {
  kf_gallery_writer *w = argument;
  w->n_lines = line;
  if (line > w->data->rows || kf_saver_skips(w->rows, line - 1)) return KF_OK;
  if (length == 0 || !kf_utf8_valid(text, length))
    return kf_fail_file(err, w->ids, "line %llu is %s, not an id", (unsigned long long)line,
                        length == 0 ? "empty" : "not valid UTF-8");
  return add_id(w, text, length, err);
}

static kf_status take_own_id(void *argument, uint64_t row, const char *id, size_t length,
                             kf_err *err) {
  kf_gallery_writer *w = argument;
  return kf_saver_skips(w->rows, row) ? KF_OK : add_id(w, id, length, err);
}

static kf_status read_ids(kf_gallery_writer *w, const char *path, kf_err *err) {
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

static const char *id_at(const kf_gallery_writer *w, uint64_t i, uint64_t *length) {
  uint64_t begin = i > 0 ? (uint64_t)(w->id_ends[i - 1] - w->id_begin) : 0;
  *length = (uint64_t)(w->id_ends[i] - w->id_begin) - begin;
  return w->id_bytes.data + begin;
}

/* The slot of an id in a hash table of ids by number, from 1 on: that of an equal one, or empty. */
static uint32_t *slot_of(const kf_gallery_writer *w, uint32_t *slots, uint64_t mask, uint64_t i) {
  uint64_t n, other;
  const char *id = id_at(w, i, &n);
  kf_checksum sum;
  kf_checksum_start(&sum);
  kf_checksum_add(&sum, id, n);
  for (uint64_t at = kf_checksum_value(&sum);; at++) {
    uint32_t *slot = &slots[at & mask];
    if (*slot == 0) return slot;
    const char *there = id_at(w, *slot - 1, &other);
    if (n == other && memcmp(id, there, n) == 0) return slot;
  }
}

/* Removing or replacing by an id takes all rows that have it. */
static kf_status warn_of_repeated_ids(const kf_gallery_writer *w, kf_err *err) {
  uint64_t size = 16, repeated = 0, first = 0, n;
  if (w->n_ids >= UINT32_MAX) return KF_OK; /* numbers have 32 bits */
  while (size < 2 * w->n_ids) size *= 2;
  uint32_t *slots = kf_alloc_zero(size, sizeof *slots);
  if (slots == NULL) return kf_fail_memory(err);
  for (uint64_t i = 0; i < w->n_ids; i++) {
    uint32_t *slot = slot_of(w, slots, size - 1, i);
    if (*slot != 0 && repeated++ == 0) first = i;
    if (*slot == 0) *slot = (uint32_t)i + 1;
  }
  kf_free(slots);
  if (repeated == 0) return KF_OK;
  const char *id = id_at(w, first, &n);
  kf_log(w->ctx,
         "warning: %llu row%s the id of an earlier row, first '%.*s'; removing or replacing rows "
         "by such an id takes them all",
         (unsigned long long)repeated, repeated == 1 ? " has" : "s have",
         (int)kf_utf8_prefix(id, n < 200 ? n : 200), id);
  return KF_OK;
}

/* --- the new rows ---------------------------------------------------------------------------- */

uint64_t kf_writer_rows(const kf_gallery_writer *w) {
  return w->rows != NULL ? kf_saver_rows(w->rows) : 0;
}

kf_status kf_writer_begin_rows(kf_gallery_writer *w, const char *path, kf_err *err) {
  if (w->data == NULL) return KF_OK;
  KF_TRY(kf_saver_new(w->ctx, w->data, &w->spec, &w->rows));
  if (w->ids != NULL || w->own_ids) KF_TAKE(&w->arena, w->id_ends, kf_saver_rows(w->rows));
  if (w->arena.failed) return kf_fail_memory(err);
  if (w->ids != NULL) KF_TRY(read_ids(w, path, err));
  if (w->own_ids) KF_TRY(kf_data_each_id(w->data, take_own_id, w, err));
  return warn_of_repeated_ids(w, err);
}

kf_status kf_writer_put_rows(kf_gallery_writer *w) {
  uint64_t n = kf_writer_rows(w);
  if (n == 0) return KF_OK;
  kf_checksum_start(&w->batch);
  kf_checksum_add(&w->batch, &n, sizeof n);
  kf_stw_watch(w->file, &w->batch);
  kf_status status = kf_saver_write_rows(w->rows, w->file);
  kf_stw_watch(w->file, NULL);
  return status;
}

kf_status kf_writer_put_labels(kf_gallery_writer *w) {
  if (kf_writer_rows(w) == 0 || !w->data->has_labels) return KF_OK;
  kf_stw_watch(w->file, &w->batch);
  kf_status status = kf_saver_write_labels(w->rows, w->number, w->file);
  kf_stw_watch(w->file, NULL);
  return status;
}

uint64_t kf_writer_end_batch(kf_gallery_writer *w) {
  for (uint64_t i = 0; i < w->n_ids; i++) {
    int64_t end = w->id_ends[i] - w->id_begin;
    kf_checksum_add(&w->batch, &end, sizeof end);
  }
  kf_checksum_add(&w->batch, w->id_bytes.data, w->id_bytes.n);
  uint64_t sum = kf_checksum_value(&w->batch);
  for (uint32_t i = 0; i < w->old->n_batches && !w->again; i++)
    w->repeated = w->repeated || w->old->batches[i] == sum;
  if (w->repeated)
    kf_log(w->ctx, "%s: these %llu rows have been added to it already; it is left as it is",
           kf_gallery_path(w->old), (unsigned long long)kf_writer_rows(w));
  return sum;
}

void kf_writer_clear(kf_gallery_writer *w) {
  kf_stw_abort(w->file);
  kf_guard_release(&w->guard);
  kf_saver_free(w->rows);
  kf_string_clear(&w->id_bytes);
  kf_arena_free(&w->arena);
  kf_names_clear(&w->names);
  kf_gallery_free(w->old);
}

/* --- the file -------------------------------------------------------------------------------- */

static int64_t old_id_bytes(const kf_gallery_writer *w) {
  return w->old != NULL && w->old->ids != NULL ? w->old->id_ends[w->old->rows - 1] : 0;
}

/* A gallery that is rewritten without new rows keeps its batches. */
static uint32_t n_batches(const kf_gallery_writer *w) {
  return w->data == NULL && w->old != NULL ? w->old->n_batches : 0;
}

static bool has_ids(const kf_gallery_writer *w) {
  return w->id_ends != NULL || (w->data == NULL && w->old != NULL && w->old->ids != NULL);
}

static bool has_labels(const kf_gallery_writer *w) {
  return w->data != NULL ? w->data->has_labels : w->old != NULL && w->old->has_labels;
}

static kf_status declare(const kf_gallery_writer *w, kf_err *err) {
  kf_set_layout layout = {.rows = kf_writer_rows(w) + (w->old != NULL ? w->old->rows : 0),
                          .dim = w->space.dim,
                          .type = kf_type_of(w->space.dtype),
                          .labels = has_labels(w),
                          .names = w->data == NULL  ? &w->old->names
                                   : w->old != NULL ? &w->names
                                                    : &w->data->names,
                          .origin = &w->origin};
  if (has_ids(w)) layout.id_bytes = (uint64_t)old_id_bytes(w) + w->id_bytes.n;
  KF_TRY(kf_stw_format(w->file, KF_GALLERY_FORMAT, err));
  KF_TRY(kf_stw_meta(w->file, "metric", kf_metric_name(w->space.metric), err));
  if (w->k > 0) KF_TRY(kf_stw_meta_i64(w->file, "k", w->k, err));
  if (w->space.map != NULL) KF_TRY(kf_map_declare(w->file, w->space.map, err));
  KF_TRY(kf_stw_declare_set(w->file, &layout, err));
  if (n_batches(w) == 0) return KF_OK;
  return kf_stw_declare(w->file, KF_TENSOR_BATCHES, KF_TYPE_U64, 1, (uint64_t[]){n_batches(w)},
                        err);
}

static kf_status copy_rows(const kf_gallery_writer *w, kf_err *err) {
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
    kf_encode_f32(w->ctx->kernels, type, rows, n * dim, bytes); /* exact: the rows had this type */
    status = kf_stw_write(w->file, bytes, n * dim * kf_type_size(type), err);
  }
  kf_arena_free(&arena);
  return status == KF_OK ? kf_gallery_unchanged(old, err) : status;
}

static kf_status copy_ids(const kf_gallery_writer *w, kf_err *err) {
  for (uint64_t i = 0; i < w->old->rows; i++) {
    const char *id = kf_gallery_id(w->old, i);
    KF_TRY(kf_stw_write(w->file, id, strlen(id), err));
  }
  return KF_OK;
}

static kf_status write_tensors(kf_gallery_writer *w, kf_err *err) {
  kf_stw *file = w->file;
  const kf_gallery *old = w->old;
  bool ids = has_ids(w);
  if (w->space.map != NULL) KF_TRY(kf_map_write(file, w->space.map, err));
  if (ids && old != NULL)
    KF_TRY(kf_stw_write(file, old->id_ends, old->rows * sizeof *old->id_ends, err));
  if (ids) KF_TRY(kf_stw_write(file, w->id_ends, w->n_ids * sizeof *w->id_ends, err));
  if (old != NULL) KF_TRY(copy_rows(w, err));
  KF_TRY(kf_writer_put_rows(w));
  if (has_labels(w) && old != NULL)
    KF_TRY(kf_stw_write(file, old->labels, old->rows * sizeof *old->labels, err));
  KF_TRY(kf_writer_put_labels(w));
  if (ids && old != NULL) KF_TRY(copy_ids(w, err));
  if (ids) KF_TRY(kf_stw_write(file, w->id_bytes.data, w->id_bytes.n, err));
  if (old == NULL || n_batches(w) == 0) return KF_OK;
  return kf_stw_write(file, old->batches, n_batches(w) * sizeof *old->batches, err);
}

static kf_status put_in_place(kf_gallery_writer *w, kf_err *err) {
  if (w->guard.fd >= 0) kf_out_replaces(kf_stw_out(w->file), &w->guard);
  uint64_t added = kf_writer_rows(w);
  w->done = (kf_gallery_change){.rows = added + (w->old != NULL ? w->old->rows : 0),
                                .added = added,
                                .bytes = kf_stw_out(w->file)->written};
  kf_stw *file = w->file;
  w->file = NULL; /* freed by the commit in any case */
  return kf_stw_commit(file, err);
}

/* Whether the file that is there has changes, if it is a gallery. */
static bool has_changes(const char *path) {
  if (access(path, F_OK) != 0 && errno == ENOENT) return false;
  kf_gallery *g;
  kf_err ignored;
  kf_status status = kf_gallery_open_to(path, KF_GALLERY_HEAD, false, &g, &ignored);
  bool may = status != KF_OK || g->n_changes > 0; /* an unreadable gallery may have changes */
  if (status == KF_OK) kf_gallery_free(g);
  return may;
}

/* Before a file that others may be changing is replaced: waits for them, and retires changes of
 * other files, since one of those may have had the bytes of the new file. */
static kf_status prepare_to_replace(kf_gallery_writer *w, const char *path, kf_guard *guard,
                                    DIR **changes, kf_err *err) {
  KF_TRY(kf_retire_begin(path, changes, err));
  if (*changes == NULL || w->guard.fd >= 0) return KF_OK; /* locked already, by compact */
  kf_status status = kf_guard_take(guard, w->ctx, path);
  if (status == KF_ERR_IO) status = KF_OK; /* there is no file, or there are no locks */
  if (status == KF_OK && !has_changes(path)) {
    status = kf_retire_end(path, *changes, err);
    *changes = NULL;
  }
  return status;
}

/* Puts the new file in place and retires the changes of the old one. A process that opens it
 * meanwhile waits with changes of its own until that is done. */
static kf_status replace(kf_gallery_writer *w, const char *path, kf_err *err) {
  DIR *changes = NULL;
  kf_guard guard = {.fd = -1};
  kf_status status = prepare_to_replace(w, path, &guard, &changes, err);
  if (status == KF_OK) status = put_in_place(w, err);
  if (status == KF_OK) {
    kf_gallery_free(w->old); /* may hold the folder open */
    w->old = NULL;
    status = kf_retire_end(path, changes, err);
    if (status != KF_OK && !has_changes(path))
      status = KF_OK; /* what remains belongs to another file */
  } else if (changes != NULL) {
    closedir(changes);
  }
  kf_guard_release(&guard);
  return status;
}

static kf_status commit(kf_gallery_writer *w, const char *path, kf_err *err) {
  bool alone = w->ctx->held == NULL && w->ctx->ranks.rank == 0;
  int lock = -1;
  if (alone) KF_TRY(kf_out_lock(kf_stw_out(w->file), &lock, err));
  kf_status status = alone ? replace(w, path, err) : put_in_place(w, err);
  if (lock >= 0) close(lock);
  /* Afterwards no rank may see the old changes. */
  return status == KF_OK ? kf_agree_on(w->ctx, status) : status;
}

static kf_status write_gallery(kf_gallery_writer *w, const char *path, kf_err *err) {
  KF_TRY(kf_stw_open(w->ctx, path, true, &w->file, err));
  w->id_begin = old_id_bytes(w);
  KF_TRY(kf_writer_begin_rows(w, path, err));
  KF_TRY(declare(w, err));
  KF_TRY(write_tensors(w, err));
  KF_TRY(commit(w, path, err));
  if (w->rows != NULL) kf_saver_log(w->rows);
  return KF_OK;
}

/* --- the old gallery ------------------------------------------------------------------------- */

/* Compares names, since another process may replace the file between two looks at it. */
static bool same_place(const char *a, const char *b) {
  char one[PATH_MAX], two[PATH_MAX];
  return strcmp(a, b) == 0 ||
         (realpath(a, one) != NULL && realpath(b, two) != NULL && strcmp(one, two) == 0);
}

/* Both have ids, or neither has. */
static kf_status match_ids(kf_gallery_writer *w, const kf_gallery_options *o, kf_err *err) {
  const kf_gallery *old = w->old;
  bool ids = o->ids != NULL || w->own_ids;
  if (!old->has_ids && w->own_ids) { /* the caller did not ask for these */
    kf_log(w->ctx, "%s has no ids; those of the rows to be added are left out",
           kf_gallery_path(old));
    ids = w->own_ids = false;
  }
  if (ids == old->has_ids) return KF_OK;
  return kf_fail_file(err, kf_gallery_path(old), "has %s, the rows to be added have %s",
                      ids ? "no ids" : "ids", ids ? "some" : "none");
}

kf_status kf_writer_start(kf_gallery_writer *w, const kf_model *model, const kf_gallery_options *o,
                          kf_err *err) {
  w->origin = w->data->origin;
  if (w->old != NULL) w->old->origin.any = w->ctx->options.any_encoder != 0;
  w->own_ids = o->ids == NULL && w->data->fetch_ids != NULL;
  KF_TRY(choose_space(w, model, o, err));
  if (model != NULL) KF_TRY(kf_origin_join(&w->origin, &model->map.origin, err));
  if (w->old != NULL) KF_TRY(kf_origin_join(&w->origin, &w->old->origin, err));
  w->k = o->k == 0 && w->old != NULL ? w->old->k : o->k;
  if (w->k > KF_MAX_NEIGHBOURS)
    return kf_fail(err, KF_ERR_ARG, "k is %u, but must be at most %d", w->k, KF_MAX_NEIGHBOURS);
  if (w->old != NULL) {
    KF_TRY(match_classes(w, err));
    KF_TRY(match_ids(w, o, err));
  }
  bool cosine = w->space.metric == KF_METRIC_COSINE;
  w->spec = (kf_save_spec){.what = "index",
                           .dim = w->space.dim,
                           .dtype = w->space.dtype,
                           .refuse_zero = cosine,
                           .map = w->space.map != NULL ? map_rows : NULL,
                           .argument = &w->space};
  return KF_OK;
}

static kf_status save(kf_gallery_writer *w, const kf_model *model, const kf_gallery_options *o,
                      const char *path, kf_err *err) {
  if (o->append_to != NULL && same_place(o->append_to, path))
    return kf_writer_append(w, model, o, path, err);
  if (w->replace)
    return kf_fail(err, KF_ERR_ARG,
                   "%s: rows can be replaced only when a gallery is extended in place", path);
  if (o->append_to != NULL) KF_TRY(kf_gallery_open(o->append_to, true, &w->old, err));
  KF_TRY(kf_writer_start(w, model, o, err));
  return write_gallery(w, path, err);
}

kf_status kf_gallery_save(kf_ctx *ctx, const kf_data *data, const kf_model *model,
                          const kf_gallery_options *options, const char *path) {
  KF_ENTER(ctx, data != NULL && path != NULL);
  KF_OPTIONS(kf_gallery_options, o, options);
  KF_TRY(kf_data_refuse_overwrite(data, path, err));
  kf_gallery_writer w = {.ctx = ctx,
                         .data = data,
                         .ids = o.ids,
                         .again = o.again != 0,
                         .replace = o.replace != 0,
                         .guard = {.fd = -1}};
  kf_status status = save(&w, model, &o, path, err);
  if (o.repeated != NULL) *o.repeated = w.repeated;
  if (o.change != NULL) *o.change = status == KF_OK ? w.done : (kf_gallery_change){0};
  kf_writer_clear(&w);
  return status;
}

static kf_status compact(kf_gallery_writer *w, const char *path, kf_err *err) {
  KF_TRY(kf_writer_lock(w, path, KF_GALLERY_ALL, true, err));
  const kf_gallery *old = w->old;
  w->space = old->space;
  w->origin = old->origin;
  w->k = old->k;
  w->done.rows = old->rows;
  if (old->n_changes > 0) return write_gallery(w, path, err);
  if (w->ctx->ranks.rank > 0) return KF_OK;
  DIR *changes; /* of other files, or an empty folder that a kill left */
  KF_TRY(kf_retire_begin(path, &changes, err));
  return kf_retire_end(path, changes, err);
}

kf_status kf_gallery_compact(kf_ctx *ctx, const char *path, kf_gallery_change *change) {
  if (change != NULL) *change = (kf_gallery_change){0};
  KF_ENTER(ctx, path != NULL);
  KF_TRY(kf_refuse_held(ctx, "kf_gallery_compact", err));
  kf_gallery_writer w = {.ctx = ctx, .guard = {.fd = -1}};
  kf_status status = compact(&w, path, err);
  if (status == KF_OK && change != NULL) *change = w.done;
  kf_writer_clear(&w);
  return status;
}
