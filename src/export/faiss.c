/* faiss.c - a model's map as a FAISS index, with or without the rows of a gallery.
 *
 * FAISS writes an index as the bytes of its members, each preceded by its kind in four letters:
 *
 *     IxPT  header, int32 transforms, these, the index inside        IndexPreTransform
 *     VNrm  float 2, dims                                            NormalizationTransform
 *     LTra  uint8 bias, vector A, vector b, dims                     LinearTransform
 *     IxM2  header, the index inside, vector of int64 ids            IndexIDMap2
 *     IxFI  header, vector of rows        (IxF2: by distance)        IndexFlatIP, IndexFlatL2
 *
 * A header is int32 columns, int64 rows, two int64 of 2^20, uint8 trained, int32 metric (0: inner
 * product, 1: distance); a vector is uint64 length and its numbers; dims are int32 in, int32 out,
 * uint8 trained. FAISS 1.7.4 and 1.15.1 read this and write the same bytes (make test-export).
 *
 * A query x becomes x / |x|, then z = T x + b and, for cosines, z / |z|. The rows have unit length
 * then, so inner products are cosines. */
#include "export/export.h"

#include <math.h>
#include <string.h>

typedef struct faiss {
  kf_ctx *ctx;
  kf_out out;
  const kf_head *head; /* NULL: queries are not mapped */
  kf_gallery *gallery; /* NULL: the index is empty */
  kf_metric metric;    /* never KF_METRIC_DEFAULT */
  uint32_t dim;        /* of rows */
  int64_t *ids;        /* [rows]; NULL: row numbers */
  kf_arena arena;
} faiss;

/* --- members ---------------------------------------------------------------------------------- */

static kf_status put(faiss *f, const void *bytes, uint64_t n) {
  return kf_out_write(&f->out, bytes, n, &f->ctx->err);
}
static kf_status put_name(faiss *f, const char *name) { return put(f, name, 4); }
static kf_status put_u8(faiss *f, uint8_t value) { return put(f, &value, sizeof value); }
static kf_status put_i32(faiss *f, int32_t value) { return put(f, &value, sizeof value); }
static kf_status put_i64(faiss *f, int64_t value) { return put(f, &value, sizeof value); }

static kf_status put_vector(faiss *f, const void *numbers, uint64_t n, size_t size) {
  KF_TRY(put_i64(f, (int64_t)n));
  return put(f, numbers, n * size);
}

static kf_status put_header(faiss *f, const char *name, uint32_t dim) {
  int64_t rows = f->gallery != NULL ? (int64_t)f->gallery->rows : 0;
  KF_TRY(put_name(f, name));
  KF_TRY(put_i32(f, (int32_t)dim));
  KF_TRY(put_i64(f, rows));
  KF_TRY(put_i64(f, 1 << 20));
  KF_TRY(put_i64(f, 1 << 20));
  KF_TRY(put_u8(f, 1));
  return put_i32(f, f->metric == KF_METRIC_EUCLIDEAN);
}

static kf_status put_dims(faiss *f, uint32_t in, uint32_t out) {
  KF_TRY(put_i32(f, (int32_t)in));
  KF_TRY(put_i32(f, (int32_t)out));
  return put_u8(f, 1);
}

static kf_status put_unit(faiss *f, uint32_t dim) {
  const float norm = 2;
  KF_TRY(put_name(f, "VNrm"));
  KF_TRY(put(f, &norm, sizeof norm));
  return put_dims(f, dim, dim);
}

static kf_status put_map(faiss *f) {
  const kf_head *h = f->head;
  float *bias;
  KF_TAKE(&f->arena, bias, h->dim_out);
  if (f->arena.failed) return kf_fail_memory(&f->ctx->err);
  bool fits = true;
  for (uint32_t i = 0; h->bias != NULL && i < h->dim_out; i++)
    fits &= isfinite(bias[i] = (float)h->bias[i]) != 0;
  if (!fits) return kf_fail_single(&f->ctx->err);
  KF_TRY(put_name(f, "LTra"));
  KF_TRY(put_u8(f, h->bias != NULL));
  KF_TRY(put_vector(f, h->transform, (uint64_t)h->dim_out * h->dim_in, sizeof *h->transform));
  KF_TRY(put_vector(f, bias, h->bias != NULL ? h->dim_out : 0, sizeof *bias));
  return put_dims(f, h->dim_in, h->dim_out);
}

/* --- rows ------------------------------------------------------------------------------------- */

/* For cosines, rows are scaled to unit length. */
static kf_status put_rows(faiss *f) {
  kf_err *err = &f->ctx->err;
  uint64_t rows = f->gallery != NULL ? f->gallery->rows : 0, dim = f->dim;
  uint64_t step = kf_data_chunk(f->dim);
  float *block = kf_arena_take(&f->arena, step * dim, sizeof *block);
  KF_TRY(put_i64(f, (int64_t)(rows * dim)));
  if (block == NULL) return kf_fail_memory(err);
  for (uint64_t first = 0; first < rows; first += step) {
    uint64_t n = rows - first < step ? rows - first : step;
    KF_TRY(kf_progress(f->ctx, "export", first, rows));
    KF_TRY(kf_gallery_fetch(f->gallery, f->ctx->kernels, first, n, block, err));
    for (uint64_t i = 0; f->metric == KF_METRIC_COSINE && i < n; i++) {
      float *row = block + i * dim;
      kf_unit_f32(row, f->ctx->kernels->norm2(row, dim), f->dim, row);
    }
    KF_TRY(put(f, block, n * dim * sizeof *block));
  }
  return rows > 0 ? kf_gallery_unchanged(f->gallery, err) : KF_OK;
}

/* Parses a whole number without a sign or leading zeros, as FAISS has ids. */
static bool take_number(const char *text, int64_t *out) {
  size_t n = strspn(text, "0123456789");
  if (n == 0 || n > 18 || text[n] != '\0' || (text[0] == '0' && n > 1)) return false;
  for (*out = 0; *text != '\0'; text++) *out = *out * 10 + (*text - '0');
  return true;
}

static kf_status take_ids(faiss *f) {
  const kf_gallery *g = f->gallery;
  if (g == NULL || g->ids == NULL) return KF_OK;
  KF_TAKE(&f->arena, f->ids, g->rows);
  if (f->arena.failed) return kf_fail_memory(&f->ctx->err);
  for (uint64_t i = 0; f->ids != NULL && i < g->rows; i++) {
    if (take_number(kf_gallery_id(g, i), &f->ids[i])) continue;
    kf_log(f->ctx, "the ids of the gallery are not whole numbers, as FAISS needs: row numbers are "
                   "written instead");
    f->ids = NULL;
  }
  return KF_OK;
}

static kf_status put_flat(faiss *f) {
  KF_TRY(put_header(f, f->metric == KF_METRIC_EUCLIDEAN ? "IxF2" : "IxFI", f->dim));
  return put_rows(f);
}

static kf_status put_index(faiss *f) {
  if (f->ids == NULL) return put_flat(f);
  KF_TRY(put_header(f, "IxM2", f->dim));
  KF_TRY(put_flat(f));
  return put_vector(f, f->ids, f->gallery->rows, sizeof *f->ids);
}

static kf_status put_all(faiss *f) {
  const kf_head *h = f->head;
  uint32_t dim_in = h != NULL ? h->dim_in : f->dim;
  bool unit_first = h != NULL && h->unit_rows, unit_last = f->metric == KF_METRIC_COSINE;
  int transforms = unit_first + (h != NULL) + unit_last;
  if (transforms == 0) return put_index(f);
  KF_TRY(put_header(f, "IxPT", dim_in));
  KF_TRY(put_i32(f, transforms));
  if (unit_first) KF_TRY(put_unit(f, dim_in));
  if (h != NULL) KF_TRY(put_map(f));
  if (unit_last) KF_TRY(put_unit(f, f->dim));
  return put_index(f);
}

/* --- choices ---------------------------------------------------------------------------------- */

static kf_status check_gallery(const faiss *f, const kf_model *model, const kf_export_options *o) {
  kf_err *err = &f->ctx->err;
  const kf_gallery *g = f->gallery;
  if (o->metric != KF_METRIC_DEFAULT && o->metric != g->space.metric)
    return kf_fail(err, KF_ERR_ARG, "%s: its metric is %s, not %s", o->gallery,
                   kf_metric_name(g->space.metric), kf_metric_name(o->metric));
  if (g->space.map != NULL && o->raw)
    return kf_fail(err, KF_ERR_DATA, "%s: its rows are mapped, not those of the original space",
                   o->gallery);
  if (g->space.map != NULL && !kf_gallery_made_with(g, model))
    return kf_fail(err, KF_ERR_DATA, "%s: was made with another model", o->gallery);
  if (g->space.map == NULL && !o->raw)
    return kf_fail(err, KF_ERR_DATA, "%s: its rows are those of the original space, not mapped",
                   o->gallery);
  if (g->space.map == NULL && g->space.dim != model->map.dim_in)
    return kf_fail(err, KF_ERR_DATA, "%s: its rows have %u columns, but the model takes %u",
                   o->gallery, g->space.dim, model->map.dim_in);
  return kf_origin_agree(&g->origin, &model->map.origin, err);
}

static kf_status choose(faiss *f, const kf_model *model, const kf_export_options *o) {
  kf_err *err = &f->ctx->err;
  if ((unsigned)o->metric > KF_METRIC_INNER) return kf_fail_metric(o->metric, err);
  f->dim = o->raw ? model->map.dim_in : model->map.dim_out;
  f->metric = kf_metric_for(o->metric, model->map.normalized);
  if (o->gallery == NULL) return KF_OK;
  KF_TRY(kf_gallery_open(o->gallery, true, &f->gallery, err));
  f->gallery->origin.any = f->ctx->options.any_encoder != 0;
  KF_TRY(check_gallery(f, model, o));
  f->metric = f->gallery->space.metric;
  return take_ids(f);
}

static kf_status write_index(faiss *f, const char *path) {
  kf_err *err = &f->ctx->err;
  if (f->gallery != NULL) KF_TRY(kf_gallery_refuse_overwrite(f->gallery, path, err));
  KF_TRY(kf_out_open(&f->out, f->ctx, path, err));
  KF_TRY(put_all(f));
  return kf_out_commit(&f->out, err);
}

kf_status kf_export_faiss(kf_ctx *ctx, const kf_model *model, const kf_export_options *o,
                          const char *path) {
  kf_head head = {0};
  faiss f = {.ctx = ctx};
  kf_status status = choose(&f, model, o);
  if (status == KF_OK && !o->raw) {
    f.head = &head;
    status = kf_head_map(&head, ctx, model);
  }
  if (status == KF_OK) status = write_index(&f, path);
  kf_out_abort(&f.out);
  kf_gallery_free(f.gallery);
  kf_arena_free(&f.arena);
  kf_head_clear(&head);
  return status;
}
