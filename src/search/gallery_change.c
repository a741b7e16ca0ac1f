/* gallery_change.c - changes a gallery: adds rows, removes rows by id, or replaces rows (both).
 *
 * The file itself stays as it is. A change is a small file beside it (file/changes.c). Adding reads
 * only headers; removing reads ids as well.
 *
 * The gallery is locked from before it is read until the change is in place (base/guard.c). A
 * client that never learns whether its rows were added, because the machine went down, must be able
 * to retry. So a change holds the checksum of the rows it adds, and a batch that is among the last
 * ones is not added again. The checksum is known only once the rows are written; retries are rare
 * enough to waste that. Removing twice does no harm. */
#include "search/gallery_write.h"

#include <string.h>
#include <unistd.h>

/* --- the lock -------------------------------------------------------------------------------- */

kf_status kf_writer_lock(kf_gallery_writer *w, const char *path, kf_gallery_depth depth,
                         bool verify, kf_err *err) {
  for (int i = 0; i < 100; i++) {
    KF_TRY(kf_guard_take(&w->guard, w->ctx, path));
    KF_TRY(kf_gallery_open_to(path, depth, verify, &w->old, err));
    const kf_in *in = &w->old->parts[0].in;
    if (kf_same_file(&w->guard.state, &in->state) && kf_guard_holds(&w->guard, path)) return KF_OK;
    kf_gallery_free(w->old); /* replaced by a writer that takes no lock */
    w->old = NULL;
    kf_guard_release(&w->guard);
  }
  return kf_fail(err, KF_ERR_IO, "%s: it keeps being replaced", path);
}

/* --- the rows to remove ---------------------------------------------------------------------- */

typedef struct leaving {
  kf_id_set ids;
  int64_t *places; /* [n] of the rows to remove, rising */
  uint64_t n;
  kf_arena arena;
} leaving;

/* The rows with one of the ids. */
static kf_status find_rows(const kf_gallery *old, leaving *x, kf_err *err) {
  for (int pass = 0; pass < 2; pass++) { /* counts, then takes */
    uint64_t n = 0;
    for (uint64_t row = 0; row < old->rows; row++) {
      if (!kf_id_set_has(&x->ids, kf_gallery_id(old, row))) continue;
      if (pass == 1) x->places[n] = (int64_t)(old->place != NULL ? old->place[row] : row);
      n++;
    }
    x->n = n;
    if (pass == 0) KF_TAKE(&x->arena, x->places, n);
    if (x->arena.failed) return kf_fail_memory(err);
  }
  return KF_OK;
}

/* The rows that new rows replace. */
static kf_status find_replaced(const kf_gallery_writer *w, leaving *x, kf_err *err) {
  uint64_t begin = 0;
  for (uint64_t i = 0; i < w->n_ids; i++) {
    uint64_t end = (uint64_t)(w->id_ends[i] - w->id_begin);
    KF_TRY(kf_id_set_add(&x->ids, w->id_bytes.data + begin, end - begin, err));
    begin = end;
  }
  KF_TRY(kf_id_set_ready(&x->ids, err));
  return find_rows(w->old, x, err);
}

static void clear_leaving(leaving *x) {
  kf_id_set_clear(&x->ids);
  kf_arena_free(&x->arena);
}

/* --- the file of a change -------------------------------------------------------------------- */

/* Names of classes that the gallery does not have yet. */
static kf_names new_names(const kf_gallery_writer *w) {
  uint32_t old = w->old->names.n;
  if (w->names.n <= old) return (kf_names){0};
  return (kf_names){.n = w->names.n - old, .name = w->names.name + old};
}

/* k: the new value; 0: unchanged. batch: 0 until it is known. */
static kf_status declare(const kf_gallery_writer *w, const leaving *x, uint32_t k, kf_err *err) {
  const kf_gallery *old = w->old;
  kf_names names = new_names(w);
  kf_set_layout layout = {.rows = kf_writer_rows(w),
                          .dim = w->space.dim,
                          .type = kf_type_of(w->space.dtype),
                          .labels = old->has_labels,
                          .names = &names,
                          .origin = w->data != NULL ? &w->data->origin : NULL,
                          .id_bytes = w->id_bytes.n};
  KF_TRY(kf_stw_format(w->file, KF_CHANGE_FORMAT, err));
  KF_TRY(kf_stw_meta_hex(w->file, "base", old->base, err));
  KF_TRY(kf_stw_meta_i64(w->file, "number", (int64_t)old->n_changes + 1, err));
  KF_TRY(kf_stw_meta_hex(w->file, "previous", old->last, err));
  if (k > 0) KF_TRY(kf_stw_meta_i64(w->file, "k", k, err));
  if (x->n > 0) KF_TRY(kf_stw_declare(w->file, KF_TENSOR_REMOVED, KF_TYPE_I64, 1, &x->n, err));
  if (layout.rows == 0) return KF_OK;
  KF_TRY(kf_stw_declare_set(w->file, &layout, err));
  return kf_stw_declare(w->file, KF_TENSOR_BATCHES, KF_TYPE_U64, 1, (uint64_t[]){1}, err);
}

static kf_status write_tensors(kf_gallery_writer *w, const leaving *x, kf_err *err) {
  kf_stw *file = w->file;
  if (x->n > 0) KF_TRY(kf_stw_write(file, x->places, x->n * sizeof *x->places, err));
  if (kf_writer_rows(w) == 0) return KF_OK;
  if (w->n_ids > 0) KF_TRY(kf_stw_write(file, w->id_ends, w->n_ids * sizeof *w->id_ends, err));
  KF_TRY(kf_writer_put_rows(w));
  KF_TRY(kf_writer_put_labels(w));
  KF_TRY(kf_stw_write(file, w->id_bytes.data, w->id_bytes.n, err));
  uint64_t batch = kf_writer_end_batch(w);
  return kf_stw_write(file, &batch, sizeof batch, err);
}

static kf_status write_change(kf_gallery_writer *w, const leaving *x, uint32_t k, const char *file,
                              const char *path, kf_err *err) {
  KF_TRY(kf_stw_open(w->ctx, file, true, &w->file, err));
  KF_TRY(declare(w, x, k, err));
  KF_TRY(write_tensors(w, x, err));
  if (w->repeated) return KF_OK;
  KF_TRY(kf_out_belongs(kf_stw_out(w->file), &w->guard, path, err));
  w->done.bytes = kf_stw_out(w->file)->written;
  kf_stw *change = w->file;
  w->file = NULL; /* freed by the commit in any case */
  KF_TRY(kf_stw_commit(change, err));
  if (w->rows != NULL) kf_saver_log(w->rows);
  return KF_OK;
}

static kf_status put_change(kf_gallery_writer *w, const leaving *x, uint32_t k, const char *path,
                            kf_err *err) {
  const kf_gallery *old = w->old;
  char *file;
  if (x->n == old->rows && kf_writer_rows(w) == 0)
    return kf_fail(err, KF_ERR_ARG, "%s: all of its rows would be removed", path);
  if (old->base == 0) return kf_fail_file(err, path, "there is no checksum");
  bool first = w->ctx->ranks.rank == 0; /* of ranks, which writes */
  if (old->others && first) { /* of a file that this one has replaced, or left over by a kill */
    if (old->n_changes > 0)
      kf_changes_sweep(path, old->base);
    else
      KF_TRY(kf_retire_end(path, NULL, err));
  }
  KF_TRY(kf_changes_path(path, old->base, (uint64_t)old->n_changes + 1, first, &file, err));
  kf_status status = write_change(w, x, k, file, path, err);
  bool made = status == KF_OK && !w->repeated;
  *strrchr(file, '/') = '\0';
  kf_stw_abort(w->file); /* of a change that is not made */
  w->file = NULL;
  if (!made && first) rmdir(file); /* if it is new, nothing is in it */
  kf_free(file);
  w->done.added = made ? kf_writer_rows(w) : 0;
  w->done.removed = made ? x->n : 0;
  w->done.rows = old->rows - w->done.removed + w->done.added;
  w->done.changes = (uint64_t)old->n_changes + made;
  return status;
}

/* --- adding ---------------------------------------------------------------------------------- */

kf_status kf_writer_append(kf_gallery_writer *w, const kf_model *model, const kf_gallery_options *o,
                           const char *path, kf_err *err) {
  KF_TRY(kf_writer_lock(w, path, w->replace ? KF_GALLERY_IDS : KF_GALLERY_HEAD, false, err));
  KF_TRY(kf_writer_start(w, model, o, err));
  if (w->replace && !w->old->has_ids)
    return kf_fail(err, KF_ERR_ARG, "%s: has no ids, so rows cannot be replaced", path);
  KF_TRY(kf_writer_begin_rows(w, path, err));
  leaving x = {0};
  kf_status status = w->replace ? find_replaced(w, &x, err) : KF_OK;
  if (status == KF_OK) status = put_change(w, &x, o->k, path, err);
  clear_leaving(&x);
  return status;
}

/* --- removing -------------------------------------------------------------------------------- */

static kf_status remove_rows(kf_gallery_writer *w, const char *path, const kf_id_list *ids,
                             leaving *x, kf_err *err) {
  KF_TRY(kf_id_set_take(&x->ids, ids, err));
  KF_TRY(kf_writer_lock(w, path, KF_GALLERY_IDS, false, err));
  if (!w->old->has_ids)
    return kf_fail(err, KF_ERR_DATA, "%s: has no ids, so rows cannot be removed", path);
  w->space = w->old->space;
  KF_TRY(find_rows(w->old, x, err));
  w->done.rows = w->old->rows;
  w->done.changes = w->old->n_changes;
  w->done.missing = x->ids.n - x->ids.n_found;
  return x->n > 0 ? put_change(w, x, 0, path, err) : KF_OK;
}

kf_status kf_gallery_remove(kf_ctx *ctx, const char *path, const kf_id_list *ids,
                            kf_gallery_change *change) {
  if (change != NULL) *change = (kf_gallery_change){0};
  KF_ENTER(ctx, path != NULL && ids != NULL);
  kf_gallery_writer w = {.ctx = ctx, .guard = {.fd = -1}};
  leaving x = {0};
  kf_status status = remove_rows(&w, path, ids, &x, err);
  if (status == KF_OK && change != NULL) *change = w.done;
  clear_leaving(&x);
  kf_writer_clear(&w);
  return status;
}
