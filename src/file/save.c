/* save.c - writes the rows of a data set to a .safetensors, .npy or .parquet file.
 *
 * Each worker fetches, maps and encodes a batch, and writes it when its turn comes, so the bytes do
 * not depend on timing.
 *
 * The header has the number of rows. If bad rows are to be omitted, a first pass finds them and
 * keeps one bit per row. Labels follow the rows in the file; they are read again rather than kept.
 *
 * Each of several ranks writes its own rows to their places in the file, which are known in
 * advance. If the file has a checksum, which needs all bytes in order, or a rank cannot reach the
 * file, they take turns instead: a round is one block of rows per rank, and rank 0 gathers the
 * encoded rows and writes them. */
#include "file/parquet_write.h"

#include <inttypes.h>

#define BATCHES_PER_THREAD 4u /* in a round of several ranks */

/* Where the bytes go. */
typedef struct sink {
  kf_stw *native;
  kf_pq_set *parquet; /* neither: a .npy */
  kf_out npy;
} sink;

struct kf_saver {
  kf_ctx *ctx;
  const kf_data *data;
  const kf_save_spec *spec;
  kf_type type;
  uint64_t batch;     /* rows */
  unsigned char *bad; /* a bit for each row; NULL: all rows are written */
  uint64_t n_bad;
  const int32_t *number; /* class numbers in the file; NULL: as in the data set */
  sink out;
  kf_string own;       /* encoded rows of this rank in the current round */
  const kf_out *place; /* the file, if this rank writes its rows itself */
  uint64_t at;         /* the offset of its next row in that file */
};

/* --- where the bytes go -------------------------------------------------------------------- */

kf_status kf_stw_declare_set(kf_stw *w, const kf_set_layout *l, kf_err *err) {
  const uint64_t shape[] = {l->rows, l->dim};
  if (l->names->n > 0) KF_TRY(kf_stw_meta_names(w, l->names, err));
  if (l->origin != NULL) KF_TRY(kf_stw_origin(w, l->origin, err));
  if (l->id_bytes > 0) KF_TRY(kf_stw_declare(w, KF_TENSOR_ID_ENDS, KF_TYPE_I64, 1, shape, err));
  if (l->sums) KF_TRY(kf_stw_declare(w, KF_TENSOR_SUMS, KF_TYPE_U64, 1, shape, err));
  KF_TRY(kf_stw_declare(w, KF_TENSOR_ROWS, l->type, 2, shape, err));
  if (l->labels) KF_TRY(kf_stw_declare(w, KF_TENSOR_LABELS, KF_TYPE_I32, 1, shape, err));
  if (l->id_bytes == 0) return KF_OK;
  return kf_stw_declare(w, KF_TENSOR_ID_BYTES, KF_TYPE_U8, 1, &l->id_bytes, err);
}

static kf_status sink_open(kf_saver *save, const char *path, uint64_t id_bytes, kf_err *err) {
  const kf_data *data = save->data;
  sink *out = &save->out;
  kf_set_layout layout = {.rows = kf_saver_rows(save),
                          .dim = save->spec->dim,
                          .type = save->type,
                          .labels = data->has_labels,
                          .names = &data->names,
                          .id_bytes = id_bytes};
  layout.origin = save->spec->origin;
  if (save->spec->map == NULL) layout.origin = &data->origin;
  if (kf_format_of(path) == KF_FORMAT_NPY) {
    KF_TRY(kf_out_open(&out->npy, save->ctx, path, err));
    return kf_npy_write_header(&out->npy, layout.type, layout.rows, layout.dim, err);
  }
  if (kf_format_of(path) == KF_FORMAT_PARQUET)
    return kf_pq_set_open(save->ctx, data, save, &layout, path, &out->parquet, err);
  KF_TRY(kf_stw_open(save->ctx, path, false, &out->native, err));
  KF_TRY(kf_stw_format(out->native, "koofu.dataset", err));
  KF_TRY(kf_stw_declare_set(out->native, &layout, err));
  if (data->made_with == 0 || save->spec->map != NULL) return KF_OK;
  return kf_stw_meta_hex(out->native, KF_MADE_WITH, data->made_with, err);
}

static kf_status sink_write(sink *out, const void *bytes, uint64_t n, kf_err *err) {
  if (out->parquet != NULL) return kf_pq_set_write(out->parquet, bytes, n, err);
  return out->native != NULL ? kf_stw_write(out->native, bytes, n, err)
                             : kf_out_write(&out->npy, bytes, n, err);
}

/* As kf_stw_share. */
static kf_status sink_share(sink *out, uint64_t n, uint64_t *at, kf_out **to, kf_err *err) {
  if (out->native != NULL) return kf_stw_share(out->native, n, at, to, err);
  bool shared;
  KF_TRY(kf_out_share(&out->npy, &shared));
  *to = shared ? &out->npy : NULL;
  *at = out->npy.written;
  return shared ? kf_out_skip(&out->npy, n, err) : KF_OK;
}

static kf_status sink_commit(sink *out, kf_err *err) {
  kf_stw *native = out->native;
  kf_pq_set *parquet = out->parquet;
  out->native = NULL; /* the commit always frees them */
  out->parquet = NULL;
  if (parquet != NULL) return kf_pq_set_commit(parquet, err);
  return native != NULL ? kf_stw_commit(native, err) : kf_out_commit(&out->npy, err);
}

static void sink_abort(sink *out) {
  kf_stw_abort(out->native);
  kf_pq_set_abort(out->parquet);
  kf_out_abort(&out->npy);
}

/* --- which rows are bad -------------------------------------------------------------------- */

bool kf_saver_skips(const kf_saver *save, uint64_t row) {
  return save->bad != NULL && (save->bad[row / 8] >> row % 8 & 1) != 0;
}

static kf_status mark_bad(void *argument, const kf_batch *b, kf_err *err) {
  (void)err;
  const kf_saver *save = argument;
  for (uint64_t r = b->first; r < b->first + b->n; r++)
    if (b->norm2[r - b->first] == 0)
      __atomic_fetch_or(&save->bad[r / 8], (unsigned char)(1u << r % 8), __ATOMIC_RELAXED);
  return KF_OK;
}

static kf_status find_bad(kf_saver *save) {
  uint64_t rows = save->data->rows, words = rows / 64 + 1;
  save->bad = kf_alloc_zero(words, sizeof(uint64_t));
  if (save->bad == NULL) return kf_fail_memory(&save->ctx->err);
  KF_TRY(kf_each_batch(save->ctx, save->data,
                       &(kf_pass){.what = "check",
                                  .rows = save->batch,
                                  .rows_only = true,
                                  .shared = true,
                                  .work = mark_bad,
                                  .argument = save}));
  /* Each row is marked by one rank at most. */
  KF_TRY(kf_sum_u64(save->ctx, KF_OK, (uint64_t *)(void *)save->bad, words));
  for (uint64_t row = 0; row < rows; row++) save->n_bad += kf_saver_skips(save, row);
  if (save->n_bad < rows) return KF_OK;
  return kf_fail(&save->ctx->err, KF_ERR_DATA, "all %" PRIu64 " rows are NaN, infinite or zero",
                 rows);
}

/* --- rows ---------------------------------------------------------------------------------- */

typedef struct workspace {
  float *mapped;        /* [batch][dim], if there is a map */
  unsigned char *bytes; /* the encoded batch */
  uint64_t n;           /* bytes */
} workspace;

static void make_workspace(const void *argument, void *own, kf_arena *arena) {
  const kf_saver *save = argument;
  workspace *s = own;
  uint64_t values = save->batch * save->spec->dim;
  if (save->spec->map != NULL) KF_TAKE(arena, s->mapped, values);
  KF_TAKE(arena, s->bytes, values * kf_type_size(save->type));
}

/* Whether a row that was rounded to 16 bits has become zero. */
static bool all_zero(kf_type type, const unsigned char *bytes, uint32_t dim) {
  const uint16_t *x = (const uint16_t *)(const void *)bytes; /* rows begin at even addresses */
  uint32_t i = 0;
  if (type != KF_TYPE_F16 && type != KF_TYPE_BF16) return false;
  while (i < dim && (x[i] & 0x7FFF) == 0) i++;
  return i == dim;
}

static kf_status encode_row(const kf_saver *save, uint64_t row, const float *values, workspace *s,
                            kf_err *err) {
  const kf_kernels *kernels = save->ctx->kernels;
  uint32_t dim = save->spec->dim;
  size_t fits = kf_encode_f32(kernels, save->type, values, dim, s->bytes + s->n);
  uint64_t size = dim * kf_type_size(save->type);
  s->n += size;
  if (save->spec->refuse_zero && kernels->norm2(values, dim) == 0)
    return kf_fail_row(err, save->data, row, KF_HINT_NONE,
                       "is mapped to zero and has no direction");
  if (save->spec->refuse_zero && all_zero(save->type, s->bytes + s->n - size, dim))
    return kf_fail_row(err, save->data, row, KF_HINT_NONE, "is zero in %s and has no direction",
                       kf_dtype_name(save->spec->dtype));
  if (fits == dim) return KF_OK;
  return kf_fail_row(err, save->data, row, KF_HINT_NONE, "column %zu is %g, too large for %s", fits,
                     (double)values[fits], kf_dtype_name(save->spec->dtype));
}

static kf_status encode_batch(void *argument, const kf_batch *b, kf_err *err) {
  const kf_saver *save = argument;
  const kf_save_spec *spec = save->spec;
  workspace *s = b->workspace;
  const float *out = b->rows;
  if (spec->map != NULL) {
    KF_TRY(spec->map(spec->argument, save->ctx->kernels, b->rows, b->norm2, b->n, s->mapped, err));
    out = s->mapped;
  }
  s->n = 0;
  for (uint64_t r = 0; r < b->n; r++) {
    uint64_t row = b->first + r;
    bool skip = kf_saver_skips(save, row);
    if (save->bad != NULL && skip != (b->norm2[r] == 0))
      return kf_fail_row(err, save->data, row, KF_HINT_NONE, "has changed between two reads");
    if (!skip) KF_TRY(encode_row(save, row, out + r * spec->dim, s, err));
  }
  return KF_OK;
}

static kf_status write_batch(void *argument, const kf_batch *b, kf_err *err) {
  const workspace *s = b->workspace;
  return sink_write(&((kf_saver *)argument)->out, s->bytes, s->n, err);
}

static kf_status keep_batch(void *argument, const kf_batch *b, kf_err *err) {
  const workspace *s = b->workspace;
  kf_string *own = &((kf_saver *)argument)->own;
  kf_string_add(own, (const char *)s->bytes, s->n);
  return own->failed ? kf_fail_memory(err) : KF_OK;
}

static kf_status place_batch(void *argument, const kf_batch *b, kf_err *err) {
  const workspace *s = b->workspace;
  kf_saver *save = argument;
  KF_TRY(kf_out_put(save->place, save->at, s->bytes, s->n, err));
  save->at += s->n;
  return KF_OK;
}

/* Encodes rows [first, last) and passes them to `finish` in order. last 0: all rows, or those of
 * this rank if the ranks place their own rows. */
static kf_status write_range(kf_saver *save, uint64_t first, uint64_t last,
                             kf_status (*finish)(void *, const kf_batch *, kf_err *)) {
  return kf_each_batch(save->ctx, save->data,
                       &(kf_pass){.what = save->spec->what,
                                  .rows = save->batch,
                                  .first = first,
                                  .last = last,
                                  .rows_only = true,
                                  .shared = finish == place_batch,
                                  .work = encode_batch,
                                  .finish = finish,
                                  .argument = save,
                                  .workspace_size = sizeof(workspace),
                                  .make_workspace = make_workspace});
}

/* Every rank writes its own rows. *done: false if that is impossible. */
static kf_status write_own(kf_saver *save, bool *done) {
  kf_err *err = &save->ctx->err;
  uint64_t size = save->spec->dim * kf_type_size(save->type);
  kf_range own = kf_share_of_rows(save->ctx, save->data);
  kf_out *place;
  KF_TRY(sink_share(&save->out, kf_saver_rows(save) * size, &save->at, &place, err));
  *done = place != NULL;
  if (!*done) return KF_OK;
  save->place = place;
  for (uint64_t row = 0; row < own.first; row++)
    if (!kf_saver_skips(save, row)) save->at += size;
  return write_range(save, 0, 0, place_batch);
}

/* One round from row `begin` on: the next block of each rank. */
static kf_status write_round(kf_saver *save, uint64_t begin, uint64_t block) {
  kf_ctx *ctx = save->ctx;
  uint64_t rows = save->data->rows, first = begin + ctx->ranks.rank * block, n;
  uint64_t last = first + block < rows ? first + block : rows;
  save->own.n = 0;
  kf_status status = first < rows ? write_range(save, first, last, keep_batch) : KF_OK;
  unsigned char *bytes;
  KF_TRY(kf_bring_to_first(ctx, status, save->own.data, save->own.n, &bytes, &n));
  if (bytes != NULL) status = sink_write(&save->out, bytes, n, &ctx->err);
  kf_free(bytes);
  return status;
}

static kf_status write_rows(kf_saver *save) {
  const kf_ranks *ranks = &save->ctx->ranks;
  if (!kf_is_shared(ranks)) return write_range(save, 0, 0, write_batch);
  bool done;
  KF_TRY(write_own(save, &done));
  if (done) return KF_OK;
  uint64_t block = save->batch * BATCHES_PER_THREAD * (1 + ranks->threads / ranks->size);
  kf_share_begin(save->ctx, 0);
  for (uint64_t begin = 0; begin < save->data->rows; begin += block * ranks->size)
    KF_TRY(write_round(save, begin, block));
  return save->out.native != NULL ? kf_stw_catch_up(save->out.native, save->ctx) : KF_OK;
}

/* --- labels, after the rows ---------------------------------------------------------------- */

static kf_status write_label_batch(void *argument, const kf_batch *b, kf_err *err) {
  kf_saver *save = argument;
  size_t kept = 0;
  for (uint64_t r = 0; r < b->n; r++) {
    int32_t label = b->labels[r];
    if (!kf_saver_skips(save, b->first + r))
      b->labels[kept++] = save->number != NULL && label >= 0 ? save->number[label] : label;
  }
  return sink_write(&save->out, b->labels, kept * sizeof *b->labels, err);
}

static kf_status write_labels(kf_saver *save) {
  return kf_each_batch(
      save->ctx, save->data,
      &(kf_pass){.workers = 1, .labels_only = true, .work = write_label_batch, .argument = save});
}

/* --- ids, before and after the rows -------------------------------------------------------- */

typedef struct id_walk {
  const kf_saver *save;
  kf_stw *ends, *bytes; /* where they are written; NULL: not in this walk */
  int64_t end;          /* end of the ids so far */
} id_walk;

static kf_status walk_id(void *argument, uint64_t row, const char *id, size_t length, kf_err *err) {
  id_walk *walk = argument;
  if (kf_saver_skips(walk->save, row)) return KF_OK;
  walk->end += (int64_t)length;
  if (walk->ends != NULL) KF_TRY(kf_stw_write(walk->ends, &walk->end, sizeof walk->end, err));
  return walk->bytes != NULL ? kf_stw_write(walk->bytes, id, length, err) : KF_OK;
}

/* --- for files that hold more than a data set ---------------------------------------------- */

kf_status kf_saver_new(kf_ctx *ctx, const kf_data *data, const kf_save_spec *spec, kf_saver **out) {
  kf_saver *save = kf_alloc_zero(1, sizeof *save);
  if (save == NULL) return kf_fail_memory(&ctx->err);
  uint32_t dim = spec->dim > data->dim ? spec->dim : data->dim;
  *save = (kf_saver){.ctx = ctx,
                     .data = data,
                     .spec = spec,
                     .type = kf_type_of(spec->dtype),
                     .batch = spec->batch > 0 ? spec->batch : kf_data_chunk(dim)};
  kf_status status = data->skip_bad && !spec->keep_bad ? find_bad(save) : KF_OK;
  KF_HAND_OUT(status, out, save, kf_saver_free);
}

void kf_saver_free(kf_saver *save) {
  if (save == NULL) return;
  kf_string_clear(&save->own);
  kf_free(save->bad);
  kf_free(save);
}

uint64_t kf_saver_rows(const kf_saver *save) { return save->data->rows - save->n_bad; }

kf_status kf_saver_write_rows(kf_saver *save, kf_stw *w) {
  save->out.native = w;
  return write_rows(save);
}

kf_status kf_saver_write_labels(kf_saver *save, const int32_t *number, kf_stw *w) {
  save->out.native = w;
  save->number = number;
  return write_labels(save);
}

void kf_saver_log(const kf_saver *save) {
  if (save->n_bad > 0)
    kf_log(save->ctx, "%" PRIu64 " bad %s of %" PRIu64 " %s left out", save->n_bad,
           save->n_bad == 1 ? "row" : "rows", save->data->rows, save->n_bad == 1 ? "was" : "were");
}

/* --- whole files --------------------------------------------------------------------------- */

static kf_status write_file(kf_saver *save, const char *path) {
  const kf_data *data = save->data;
  kf_err *err = &save->ctx->err;
  bool native_file = kf_format_of(path) == KF_FORMAT_SAFETENSORS,
       ids = data->fetch_ids != NULL && native_file;
  if (data->ids_elsewhere && native_file)
    return kf_fail(err, KF_ERR_ARG,
                   "each rank has files of its own and does not know the ids of the others; a .npy "
                   "has no ids");
  id_walk sizes = {.save = save};
  if (ids) KF_TRY(kf_data_each_id(data, walk_id, &sizes, err));
  KF_TRY(sink_open(save, path, (uint64_t)sizes.end, err));
  kf_stw *native = save->out.native;
  id_walk ends = {.save = save, .ends = native}, bytes = {.save = save, .bytes = native};
  if (ids) KF_TRY(kf_data_each_id(data, walk_id, &ends, err));
  KF_TRY(write_rows(save));
  if (data->has_labels && native != NULL) KF_TRY(write_labels(save));
  if (ids) KF_TRY(kf_data_each_id(data, walk_id, &bytes, err));
  KF_TRY(sink_commit(&save->out, err));
  kf_saver_log(save);
  return KF_OK;
}

static kf_status check_output(const kf_save_spec *spec, const char *path, kf_err *err) {
  kf_format format = kf_format_of(path);
  if (format != KF_FORMAT_NPY && format != KF_FORMAT_SAFETENSORS && format != KF_FORMAT_PARQUET)
    return kf_fail(err, KF_ERR_ARG,
                   "%s: unknown file extension; koofu writes .safetensors, .npy and .parquet",
                   path);
  if (spec->dtype != KF_F32 && spec->dtype != KF_F16 && spec->dtype != KF_BF16)
    return kf_fail(err, KF_ERR_ARG, "%s: rows are written as f32, f16 or bf16", path);
  if (spec->dtype == KF_BF16 && format != KF_FORMAT_SAFETENSORS)
    return kf_fail(err, KF_ERR_ARG, "%s: a %s cannot hold bf16; use .safetensors", path,
                   format == KF_FORMAT_NPY ? ".npy" : ".parquet");
  return KF_OK;
}

kf_status kf_data_save_mapped(kf_ctx *ctx, const kf_data *data, const kf_save_spec *spec,
                              const char *path) {
  KF_TRY(check_output(spec, path, &ctx->err));
  KF_TRY(kf_data_refuse_overwrite(data, path, &ctx->err));
  kf_saver *save = NULL;
  KF_TRY(kf_saver_new(ctx, data, spec, &save));
  kf_status status = write_file(save, path);
  sink_abort(&save->out);
  kf_saver_free(save);
  return status;
}

kf_status kf_data_save(kf_ctx *ctx, const kf_data *data, kf_dtype dtype, const char *path) {
  KF_ENTER(ctx, data != NULL && path != NULL);
  if (kf_format_of(path) != KF_FORMAT_SAFETENSORS && kf_format_of(path) != KF_FORMAT_PARQUET)
    return kf_fail(err, KF_ERR_ARG, "%s: a data set is written as .safetensors or .parquet", path);
  return kf_data_save_mapped(
      ctx, data, &(kf_save_spec){.what = "write", .dim = data->dim, .dtype = dtype}, path);
}
