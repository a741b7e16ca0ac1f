/* save.c - writes the rows of a data set to a file: a native data set (.safetensors) or a .npy.
 *
 * Rows go through in waves of chunks. Each worker fetches, maps and encodes a chunk into the slot
 * of the chunk; then the calling thread writes the slots in order, so the bytes do not depend on
 * timing.
 *
 * The header says how many rows there are. Where bad rows are left out, a first pass finds them and
 * keeps one bit for each row. Labels follow the embeddings in the file, and are read a second time
 * rather than kept. */
#include "file/file_internal.h"

#include <inttypes.h>
#include <string.h>

enum { LABELS_AT_ONCE = 16384 };

/* --- where the bytes go ---------------------------------------------------------------------- */

typedef struct sink {
  kf_stw *native; /* NULL: a .npy */
  kf_out npy;
} sink;

/* Tensors come in the order of their alignment, so that all are aligned. */
static kf_status declare_native(kf_stw *w, const kf_data *data, const kf_save_spec *spec,
                                uint64_t rows, uint64_t id_bytes, kf_err *err) {
  KF_TRY(kf_stw_meta(w, "format", "koofu.dataset", err));
  KF_TRY(kf_stw_meta(w, "version", "1", err));
  if (data->names.n > 0) KF_TRY(kf_stw_meta_names(w, &data->names, err));
  if (id_bytes > 0) KF_TRY(kf_stw_declare(w, "id_ends", KF_TYPE_I64, 1, &rows, err));
  KF_TRY(kf_stw_declare(w, "embeddings", kf_type_of(spec->dtype), 2, (uint64_t[]){rows, spec->dim},
                        err));
  if (data->has_labels) KF_TRY(kf_stw_declare(w, "labels", KF_TYPE_I32, 1, &rows, err));
  return id_bytes > 0 ? kf_stw_declare(w, "id_bytes", KF_TYPE_U8, 1, &id_bytes, err) : KF_OK;
}

static kf_status sink_open(sink *out, const char *path, const kf_data *data,
                           const kf_save_spec *spec, uint64_t rows, uint64_t id_bytes,
                           kf_err *err) {
  if (kf_format_of(path) == KF_FORMAT_NPY) {
    KF_TRY(kf_out_open(&out->npy, path, err));
    return kf_npy_write_header(&out->npy, kf_type_of(spec->dtype), rows, spec->dim, err);
  }
  KF_TRY(kf_stw_open(path, false, &out->native, err));
  return declare_native(out->native, data, spec, rows, id_bytes, err);
}

static kf_status sink_write(sink *out, const void *bytes, uint64_t n, kf_err *err) {
  return out->native != NULL ? kf_stw_write(out->native, bytes, n, err)
                             : kf_out_write(&out->npy, bytes, n, err);
}

static kf_status sink_commit(sink *out, kf_err *err) {
  kf_stw *native = out->native;
  out->native = NULL; /* freed by the commit in any case */
  return native != NULL ? kf_stw_commit(native, err) : kf_out_commit(&out->npy, err);
}

static void sink_abort(sink *out) {
  kf_stw_abort(out->native);
  kf_out_abort(&out->npy);
}

/* --- the work -------------------------------------------------------------------------------- */

typedef struct scratch { /* of one worker, for one chunk */
  float *rows;
  float *mapped;
  double *norm2;
} scratch;

typedef struct slot { /* an encoded chunk */
  unsigned char *bytes;
  uint64_t n; /* bytes */
} slot;

struct kf_saver {
  kf_ctx *ctx;
  const kf_data *data;
  const kf_save_spec *spec;
  uint64_t chunk; /* rows; a multiple of 8, so that no two chunks share a byte of `bad` */
  scratch *workers;
  size_t wave;        /* chunks */
  slot *slots;        /* [wave] */
  uint64_t first;     /* row of the current wave */
  unsigned char *bad; /* a bit for each row, or NULL: every row is written */
  uint64_t n_bad;
};

bool kf_saver_skips(const kf_saver *save, uint64_t row) {
  return save->bad != NULL && (save->bad[row / 8] >> row % 8 & 1) != 0;
}

static kf_status saver_start(kf_saver *save, kf_err *err) {
  uint32_t dim_in = save->data->dim, dim = save->spec->dim;
  save->chunk = (kf_data_chunk(dim > dim_in ? dim : dim_in) + 7) & ~(uint64_t)7;
  save->wave = 2 * (size_t)save->ctx->threads;
  save->workers = kf_alloc_zero(save->ctx->threads, sizeof *save->workers);
  save->slots = kf_alloc_zero(save->wave, sizeof *save->slots);
  if (save->workers == NULL || save->slots == NULL) return kf_fail_memory(err);
  for (unsigned t = 0; t < save->ctx->threads; t++) {
    scratch *s = &save->workers[t];
    s->rows = kf_alloc(save->chunk * dim_in, sizeof *s->rows);
    s->mapped = kf_alloc(save->spec->map != NULL ? save->chunk * dim : 0, sizeof *s->mapped);
    s->norm2 = kf_alloc(save->chunk, sizeof *s->norm2);
    if (s->rows == NULL || s->mapped == NULL || s->norm2 == NULL) return kf_fail_memory(err);
  }
  for (size_t i = 0; i < save->wave; i++) {
    slot *part = &save->slots[i];
    part->bytes = kf_alloc(save->chunk * dim, kf_type_size(kf_type_of(save->spec->dtype)));
    if (part->bytes == NULL) return kf_fail_memory(err);
  }
  return KF_OK;
}

void kf_saver_free(kf_saver *save) {
  if (save == NULL) return;
  for (unsigned t = 0; save->workers != NULL && t < save->ctx->threads; t++) {
    kf_free(save->workers[t].rows);
    kf_free(save->workers[t].mapped);
    kf_free(save->workers[t].norm2);
  }
  for (size_t i = 0; save->slots != NULL && i < save->wave; i++) kf_free(save->slots[i].bytes);
  kf_free(save->workers);
  kf_free(save->slots);
  kf_free(save->bad);
  kf_free(save);
}

/* The rows of chunk i of the current wave; 0 where the data set has ended. */
static uint64_t chunk_rows(const kf_saver *save, size_t i, uint64_t *first) {
  *first = save->first + i * save->chunk;
  if (*first >= save->data->rows) return 0;
  uint64_t left = save->data->rows - *first;
  return left < save->chunk ? left : save->chunk;
}

/* Runs a task over all chunks, a wave at a time, and writes what is in the slots after each wave
 * (out NULL: nothing). */
static kf_status run_waves(kf_saver *save, const char *what, kf_task_fn task, sink *out) {
  uint64_t rows = save->data->rows, wave_rows = save->wave * save->chunk;
  for (save->first = 0; save->first < rows; save->first += wave_rows) {
    KF_TRY(kf_progress(save->ctx, what, save->first, rows));
    uint64_t left = rows - save->first;
    size_t chunks = left < wave_rows ? (size_t)((left - 1) / save->chunk + 1) : save->wave;
    KF_TRY(kf_parallel(save->ctx, chunks, task, save));
    for (size_t i = 0; out != NULL && i < chunks; i++)
      KF_TRY(sink_write(out, save->slots[i].bytes, save->slots[i].n, &save->ctx->err));
  }
  return kf_progress(save->ctx, what, rows, rows);
}

/* --- the first pass: which rows are bad ------------------------------------------------------ */

static kf_status mark_bad(void *argument, size_t i, size_t worker, kf_err *err) {
  kf_saver *save = argument;
  const scratch *s = &save->workers[worker];
  uint64_t first, n = chunk_rows(save, i, &first);
  KF_TRY(kf_data_fetch(save->data, save->ctx->kernels, first, n, s->rows, NULL, s->norm2, err));
  for (uint64_t r = 0; r < n; r++)
    if (s->norm2[r] == 0) save->bad[(first + r) / 8] |= (unsigned char)(1u << (first + r) % 8);
  return KF_OK;
}

static kf_status find_bad(kf_saver *save) {
  uint64_t rows = save->data->rows;
  save->bad = kf_alloc_zero(rows / 8 + 1, 1);
  if (save->bad == NULL) return kf_fail_memory(&save->ctx->err);
  KF_TRY(run_waves(save, "check", mark_bad, NULL));
  for (uint64_t row = 0; row < rows; row++) save->n_bad += kf_saver_skips(save, row);
  if (save->n_bad < rows) return KF_OK;
  return kf_fail(&save->ctx->err, KF_ERR_DATA, "all %" PRIu64 " rows are NaN, infinite or zero",
                 rows);
}

/* --- the second pass: rows ------------------------------------------------------------------- */

static kf_status encode_row(const kf_saver *save, uint64_t row, const float *values, slot *part,
                            kf_err *err) {
  uint32_t dim = save->spec->dim;
  kf_type type = kf_type_of(save->spec->dtype);
  size_t fits = kf_encode_f32(save->ctx->kernels, type, values, dim, part->bytes + part->n);
  part->n += dim * kf_type_size(type);
  bool zero = save->spec->refuse_zero && save->ctx->kernels->norm2(values, dim) == 0;
  if (fits == dim && !zero) return KF_OK;
  char where[KF_WHERE_SIZE];
  save->data->where(save->data, row, where, sizeof where);
  if (zero) return kf_fail(err, KF_ERR_DATA, "%s: is mapped to zero, and has no direction", where);
  return kf_fail(err, KF_ERR_DATA, "%s: column %zu is %g, too large for %s", where, fits,
                 (double)values[fits], kf_dtype_name(save->spec->dtype));
}

static kf_status encode_chunk(void *argument, size_t i, size_t worker, kf_err *err) {
  kf_saver *save = argument;
  const kf_save_spec *spec = save->spec;
  const kf_kernels *kernels = save->ctx->kernels;
  const scratch *s = &save->workers[worker];
  uint64_t first, n = chunk_rows(save, i, &first);
  KF_TRY(kf_data_fetch(save->data, kernels, first, n, s->rows, NULL, s->norm2, err));
  const float *out = spec->map != NULL ? s->mapped : s->rows;
  if (spec->map != NULL)
    KF_TRY(spec->map(spec->argument, kernels, s->rows, s->norm2, n, s->mapped, err));

  slot *part = &save->slots[i];
  part->n = 0;
  for (uint64_t r = 0; r < n; r++) {
    bool bad = kf_saver_skips(save, first + r);
    if (save->bad != NULL && bad != (s->norm2[r] == 0)) {
      char where[KF_WHERE_SIZE];
      save->data->where(save->data, first + r, where, sizeof where);
      return kf_fail(err, KF_ERR_DATA, "%s: has changed between two readings", where);
    }
    if (!bad) KF_TRY(encode_row(save, first + r, out + r * spec->dim, part, err));
  }
  return KF_OK;
}

/* --- labels, behind the rows ----------------------------------------------------------------- */

static kf_status write_labels(const kf_saver *save, const int32_t *number, sink *out, kf_err *err) {
  int32_t labels[LABELS_AT_ONCE];
  const kf_data *data = save->data;
  for (uint64_t first = 0; first < data->rows; first += LABELS_AT_ONCE) {
    uint64_t left = data->rows - first, n = left < LABELS_AT_ONCE ? left : LABELS_AT_ONCE;
    KF_TRY(kf_data_fetch(data, save->ctx->kernels, first, n, NULL, labels, NULL, err));
    size_t kept = 0;
    for (uint64_t r = 0; r < n; r++)
      if (!kf_saver_skips(save, first + r))
        labels[kept++] = number != NULL && labels[r] >= 0 ? number[labels[r]] : labels[r];
    KF_TRY(sink_write(out, labels, kept * sizeof *labels, err));
  }
  return KF_OK;
}

/* --- ids, around the rows ---------------------------------------------------------------------- */

typedef struct id_walk {
  const kf_saver *save;
  kf_stw *out;
  int64_t end; /* of the ids so far */
} id_walk;

static kf_status measure_id(void *argument, uint64_t row, const char *id, size_t length,
                            kf_err *err) {
  (void)id;
  (void)err;
  id_walk *walk = argument;
  if (!kf_saver_skips(walk->save, row)) walk->end += (int64_t)length;
  return KF_OK;
}

static kf_status write_end(void *argument, uint64_t row, const char *id, size_t length,
                           kf_err *err) {
  id_walk *walk = argument;
  KF_TRY(measure_id(argument, row, id, length, err));
  if (kf_saver_skips(walk->save, row)) return KF_OK;
  return kf_stw_write(walk->out, &walk->end, sizeof walk->end, err);
}

static kf_status write_id(void *argument, uint64_t row, const char *id, size_t length,
                          kf_err *err) {
  const id_walk *walk = argument;
  return kf_saver_skips(walk->save, row) ? KF_OK : kf_stw_write(walk->out, id, length, err);
}

static kf_status walk_ids(const kf_saver *save, kf_id_fn use, const sink *out, uint64_t *bytes,
                          kf_err *err) {
  id_walk walk = {.save = save, .out = out->native};
  KF_TRY(kf_data_each_id(save->data, use, &walk, err));
  *bytes = (uint64_t)walk.end;
  return KF_OK;
}

/* --- for files that hold more than a data set ------------------------------------------------ */

kf_status kf_saver_new(kf_ctx *ctx, const kf_data *data, const kf_save_spec *spec, kf_saver **out) {
  kf_saver *save = kf_alloc_zero(1, sizeof *save);
  if (save == NULL) return kf_fail_memory(&ctx->err);
  *save = (kf_saver){.ctx = ctx, .data = data, .spec = spec};
  kf_status status = saver_start(save, &ctx->err);
  if (status == KF_OK && data->skip_bad && !spec->keep_bad) status = find_bad(save);
  if (status == KF_OK)
    *out = save;
  else
    kf_saver_free(save);
  return status;
}

uint64_t kf_saver_rows(const kf_saver *save) { return save->data->rows - save->n_bad; }

kf_status kf_saver_write_rows(kf_saver *save, kf_stw *w) {
  return run_waves(save, save->spec->what, encode_chunk, &(sink){.native = w});
}

kf_status kf_saver_write_labels(const kf_saver *save, const int32_t *number, kf_stw *w,
                                kf_err *err) {
  return write_labels(save, number, &(sink){.native = w}, err);
}

void kf_saver_log(const kf_saver *save) {
  if (save->n_bad > 0)
    kf_log(save->ctx, "%" PRIu64 " bad %s of %" PRIu64 " %s left out", save->n_bad,
           save->n_bad == 1 ? "row" : "rows", save->data->rows, save->n_bad == 1 ? "was" : "were");
}

/* --- all of it ------------------------------------------------------------------------------- */

static kf_status write_file(kf_saver *save, sink *out, const char *path) {
  const kf_data *data = save->data;
  kf_err *err = &save->ctx->err;
  bool ids = data->fetch_ids != NULL && kf_format_of(path) == KF_FORMAT_SAFETENSORS;
  uint64_t id_bytes = 0;
  if (ids) KF_TRY(walk_ids(save, measure_id, out, &id_bytes, err));
  KF_TRY(sink_open(out, path, data, save->spec, kf_saver_rows(save), id_bytes, err));
  if (ids) KF_TRY(walk_ids(save, write_end, out, &id_bytes, err));
  KF_TRY(run_waves(save, save->spec->what, encode_chunk, out));
  if (data->has_labels && out->native != NULL) KF_TRY(write_labels(save, NULL, out, err));
  if (ids) KF_TRY(walk_ids(save, write_id, out, &id_bytes, err));
  KF_TRY(sink_commit(out, err));
  kf_saver_log(save);
  return KF_OK;
}

static kf_status check_output(const kf_save_spec *spec, const char *path, kf_err *err) {
  kf_format format = kf_format_of(path);
  if (format != KF_FORMAT_NPY && format != KF_FORMAT_SAFETENSORS) {
    return kf_fail(err, KF_ERR_ARG, "%s: unknown ending; koofu writes .safetensors and .npy", path);
  }
  if (spec->dtype != KF_F32 && spec->dtype != KF_F16 && spec->dtype != KF_BF16)
    return kf_fail(err, KF_ERR_ARG, "%s: rows are written as f32, f16 or bf16", path);
  if (spec->dtype == KF_BF16 && format == KF_FORMAT_NPY)
    return kf_fail(err, KF_ERR_ARG, "%s: a .npy cannot hold bf16; use .safetensors", path);
  return KF_OK;
}

kf_status kf_data_save_mapped(kf_ctx *ctx, const kf_data *data, const kf_save_spec *spec,
                              const char *path) {
  KF_TRY(check_output(spec, path, &ctx->err));
  KF_TRY(kf_data_refuse_overwrite(data, path, &ctx->err));
  kf_saver *save;
  KF_TRY(kf_saver_new(ctx, data, spec, &save));
  sink out = {0};
  kf_status status = write_file(save, &out, path);
  sink_abort(&out);
  kf_saver_free(save);
  return status;
}

kf_status kf_data_save(kf_ctx *ctx, const kf_data *data, kf_dtype dtype, const char *path) {
  KF_ENTER(ctx, data != NULL && path != NULL);
  if (kf_format_of(path) != KF_FORMAT_SAFETENSORS)
    return kf_fail(err, KF_ERR_ARG, "%s: a data set is written as .safetensors", path);
  return kf_data_save_mapped(
      ctx, data, &(kf_save_spec){.what = "write", .dim = data->dim, .dtype = dtype}, path);
}
