/* info.c - what is in a file. Sees search and below, since it loads statistics, models and
 * galleries (without their index). */
#include "search/gallery.h"

#include <string.h>

/* The public struct comes first, so that a pointer to one is a pointer to the other. */
typedef struct info {
  kf_info base;
  kf_tensor_info *tensors;
  kf_st st;            /* the file is closed; lists and names are in use */
  kf_npy npy;          /* the same */
  kf_npz npz;          /* owns the names of the tensors */
  kf_name_set columns; /* of a table */
  kf_columns fields;   /* of a .parquet, or of a table that is read as rows */
} info;

void kf_info_free(kf_info *base) {
  if (base == NULL) return;
  info *i = (info *)base;
  kf_st_close(&i->st);
  kf_npz_close(&i->npz);
  kf_name_set_clear(&i->columns);
  kf_arena_free(&i->fields.arena);
  kf_free(i->tensors);
  kf_free(i);
}

/* --- safetensors ----------------------------------------------------------------------------- */

static kf_status list_tensors(info *out, size_t n, kf_err *err) {
  out->tensors = kf_alloc(n, sizeof *out->tensors);
  if (out->tensors == NULL) return kf_fail_memory(err);
  out->base.n_tensors = n;
  out->base.tensors = out->tensors;
  return KF_OK;
}

static void set_tensor(kf_tensor_info *to, const char *name, const char *type, uint32_t ndim,
                       const uint64_t shape[8]) {
  *to = (kf_tensor_info){.name = name, .dtype = type, .ndim = ndim};
  memcpy(to->shape, shape, sizeof to->shape);
}

static kf_status describe_stats(kf_ctx *ctx, kf_info *out, const char *path) {
  kf_stats *s;
  KF_TRY(kf_stats_load(ctx, path, &s));
  out->kind = "statistics";
  out->rows = s->rows;
  out->dim = s->dim;
  out->classes = s->n_classes;
  out->normalized = s->normalized;
  out->exponent = s->exponent;
  kf_stats_free(s);
  return KF_OK;
}

static kf_status describe_model(kf_ctx *ctx, kf_info *out, const char *path) {
  kf_model *m;
  KF_TRY(kf_model_load(ctx, path, &m));
  out->kind = "model";
  out->rows = m->rows;
  out->dim = m->map.dim_in;
  out->dim_out = m->map.dim_out;
  out->classes = m->n_classes;
  out->normalized = m->map.normalized;
  out->lambda = m->map.lambda;
  out->method = m->map.method;
  out->priors = kf_model_priors(m);
  out->temperature = m->temperature;
  out->reject = m->reject;
  out->reject_share = m->reject_share;
  kf_model_free(m);
  return KF_OK;
}

static kf_status describe_gallery(kf_ctx *ctx, kf_info *out, const char *path) {
  kf_gallery *g;
  KF_TRY(kf_gallery_open(path, true, &g, &ctx->err));
  out->kind = "gallery";
  out->rows = g->rows;
  out->dim = kf_gallery_dim_in(g);
  out->dim_out = kf_gallery_dim(g);
  out->classes = g->n_classes;
  out->ids = g->ids != NULL;
  kf_gallery_free(g);
  return KF_OK;
}

static void describe_data(kf_info *out, kf_data *data) {
  out->kind = data->has_labels ? "data set" : "embeddings";
  out->rows = data->rows;
  out->dim = data->dim;
  out->classes = data->n_classes;
  out->ids = kf_data_has_ids(data);
  kf_data_free(data);
}

/* A data set if kf_data_open accepts the file, otherwise tensors. */
static kf_status describe_tensors(kf_ctx *ctx, kf_info *out, const char *path) {
  kf_data *data;
  kf_data_options options = {.allow_unlabelled = 1};
  kf_status status = kf_data_open(ctx, &path, 1, &options, &data);
  if (status == KF_ERR_MEM || status == KF_ERR_IO) return status;
  if (status == KF_OK) {
    describe_data(out, data);
  } else {
    kf_enter(ctx);
    out->kind = "tensors";
  }
  return KF_OK;
}

static kf_status describe_format(kf_ctx *ctx, info *i, const char *path, const char *format) {
  kf_info *out = &i->base;
  if (strcmp(format, "koofu.stats") == 0) return describe_stats(ctx, out, path);
  if (strcmp(format, "koofu.model") == 0) return describe_model(ctx, out, path);
  if (strcmp(format, KF_GALLERY_FORMAT) == 0) return describe_gallery(ctx, out, path);
  if (strcmp(format, "koofu.answers") != 0) return describe_tensors(ctx, out, path);
  const kf_st_tensor *rows = kf_st_find(&i->st, "rows"), *ends = kf_st_find(&i->st, "indptr");
  out->kind = "answers";
  out->rows = rows != NULL ? rows->shape[0] : 0; /* queries */
  if (ends != NULL) out->rows = ends->shape[0] > 0 ? ends->shape[0] - 1 : 0;
  return KF_OK;
}

static kf_status describe_safetensors(kf_ctx *ctx, info *out, const char *path) {
  kf_st *st = &out->st;
  KF_TRY(kf_st_open(st, path, &ctx->err));
  out->base.format = "safetensors";
  out->base.n_meta = st->n_meta;
  out->base.meta_keys = st->keys;
  out->base.meta_values = st->values;
  kf_status status = list_tensors(out, st->n_tensors, &ctx->err);
  for (size_t i = 0; status == KF_OK && i < st->n_tensors; i++) {
    const kf_st_tensor *t = &st->tensors[i];
    set_tensor(&out->tensors[i], t->name, t->type_name, t->ndim, t->shape);
  }
  kf_origin origin = {0};
  if (status == KF_OK) status = kf_st_origin(st, &origin, &ctx->err);
  if (status == KF_OK && origin.known) {
    out->base.encoder = kf_st_meta(st, "encoder");
    out->base.encoder_checksum = origin.checksum;
  }
  /* With a checksum it was written by koofu, and is damaged if that does not match. */
  if (status == KF_OK && kf_st_meta(st, "checksum") != NULL) status = kf_st_verify(st, &ctx->err);
  kf_in_close(&st->in);
  const char *format = kf_st_meta(st, "format");
  if (status != KF_OK) return status;
  return describe_format(ctx, out, path, format != NULL ? format : "");
}

/* --- the others ------------------------------------------------------------------------------ */

static kf_status describe_npy(info *out, const char *path, kf_err *err) {
  kf_npy *npy = &out->npy;
  KF_TRY(kf_npy_open(npy, path, err));
  kf_in_close(&npy->in);
  out->base.format = "npy";
  out->base.rows = npy->ndim > 0 ? npy->shape[0] : 1;
  bool floats = kf_type_is_float(npy->type);
  out->base.kind = floats ? "embeddings" : kf_npy_is_labels(npy) ? "labels" : "tensors";
  if (floats && npy->ndim == 2 && npy->shape[1] <= KF_MAX_DIM)
    out->base.dim = (uint32_t)npy->shape[1];
  KF_TRY(list_tensors(out, 1, err));
  set_tensor(out->tensors, npy->fortran ? "array (Fortran order)" : "array", npy->type_name,
             npy->ndim, npy->shape);
  return KF_OK;
}

static kf_status describe_vectors(kf_ctx *ctx, kf_info *out, const char *path, const char *format) {
  kf_data *data;
  KF_TRY(kf_data_open(ctx, &path, 1, NULL, &data));
  out->format = format;
  describe_data(out, data);
  return KF_OK;
}

static kf_status describe_npz(kf_ctx *ctx, info *out, const char *path) {
  kf_npz *npz = &out->npz;
  KF_TRY(kf_npz_open(npz, path, &ctx->err));
  KF_TRY(list_tensors(out, npz->n, &ctx->err));
  for (size_t i = 0; i < npz->n; i++) {
    const kf_npz_array *a = &npz->arrays[i];
    const char *type = a->readable ? a->npy.type_name : "unreadable";
    set_tensor(&out->tensors[i], a->name, type, a->npy.ndim, a->npy.shape);
  }
  out->base.format = "npz";
  return describe_tensors(ctx, &out->base, path);
}

static kf_status list_fields(info *out, uint64_t rows, kf_err *err) {
  const kf_columns *c = &out->fields;
  KF_TRY(list_tensors(out, c->n, err));
  for (size_t i = 0; i < c->n; i++)
    set_tensor(&out->tensors[i], c->names[i], c->types[i], 1, (const uint64_t[8]){rows});
  return KF_OK;
}

/* Lists the columns as tensors: those of the first line, if the table is not read as rows. */
static kf_status describe_table(kf_ctx *ctx, info *out, const char *path) {
  kf_err *err = &ctx->err;
  KF_TRY(kf_table_describe(path, &out->columns, &out->base.rows, err));
  out->base.format = kf_ends_with(path, ".tsv") ? "tsv" : "csv";
  KF_TRY(describe_tensors(ctx, &out->base, path));
  if (strcmp(out->base.kind, "tensors") != 0) {
    KF_TRY(kf_csv_columns(path, &out->fields, err));
    return list_fields(out, out->base.rows, err);
  }
  out->base.kind = "table";
  KF_TRY(list_tensors(out, out->columns.n, err));
  for (size_t i = 0; i < out->columns.n; i++) {
    const uint64_t shape[8] = {out->base.rows};
    set_tensor(&out->tensors[i], out->columns.name[i], "text", 1, shape);
  }
  return KF_OK;
}

static kf_status describe_archive(info *out, const char *path, kf_err *err) {
  kf_tar tar;
  kf_tar_member member;
  kf_status status = kf_tar_open(&tar, path, err);
  for (bool found = true; status == KF_OK && found; out->base.rows += found)
    if ((status = kf_tar_next(&tar, &member, &found, err)) != KF_OK) break;
  kf_tar_close(&tar);
  out->base.format = "tar";
  out->base.kind = "archive";
  return status;
}

static kf_status describe_parquet(kf_ctx *ctx, info *out, const char *path) {
  kf_columns *c = &out->fields;
  KF_TRY(kf_parquet_describe(path, c, &ctx->err));
  KF_TRY(list_fields(out, c->rows, &ctx->err));
  out->base.format = "parquet";
  out->base.n_meta = c->n_meta;
  out->base.meta_keys = c->keys;
  out->base.meta_values = c->values;
  KF_TRY(describe_tensors(ctx, &out->base, path));
  if (strcmp(out->base.kind, "tensors") != 0) return KF_OK;
  out->base.kind = "table";
  out->base.rows = c->rows;
  return KF_OK;
}

static kf_status describe_text(info *out, const char *path, kf_err *err) {
  uint64_t distinct;
  KF_TRY(kf_lines_count(path, &out->base.rows, &distinct, err));
  out->base.format = "text";
  out->base.kind = "lines"; /* labels, class names or anything else */
  out->base.classes = distinct <= KF_MAX_CLASSES ? (uint32_t)distinct : 0;
  return KF_OK;
}

static kf_status describe(kf_ctx *ctx, info *out, const char *path) {
  kf_format format;
  KF_TRY(kf_format_of_file(path, &format, &ctx->err));
  switch (format) {
  case KF_FORMAT_SAFETENSORS: return describe_safetensors(ctx, out, path);
  case KF_FORMAT_NPY: return describe_npy(out, path, &ctx->err);
  case KF_FORMAT_NPZ: return describe_npz(ctx, out, path);
  case KF_FORMAT_TABLE: return describe_table(ctx, out, path);
  case KF_FORMAT_PARQUET: return describe_parquet(ctx, out, path);
  case KF_FORMAT_FVECS: return describe_vectors(ctx, &out->base, path, "fvecs");
  case KF_FORMAT_TAR: return describe_archive(out, path, &ctx->err);
  case KF_FORMAT_BIN: return describe_vectors(ctx, &out->base, path, kf_bin_ending(path, NULL) + 1);
  default: return describe_text(out, path, &ctx->err);
  }
}

/* *again: the file was replaced meanwhile, so *out may be a mixture of two files. */
static kf_status describe_once(kf_ctx *ctx, const char *path, info **out, bool *again) {
  info *i = *out = kf_alloc_zero(1, sizeof *i);
  *again = false;
  if (i == NULL) return kf_fail_memory(&ctx->err);
  i->base.normalized = -1;
  kf_in in; /* opening it gives the right message if it is not a file */
  KF_TRY(kf_in_open(&in, path, &ctx->err));
  i->base.bytes = in.size;
  kf_status status = describe(ctx, i, path);
  *again = status != KF_ERR_MEM && kf_in_replaced(&in);
  kf_in_close(&in);
  return status;
}

kf_status kf_info_read(kf_ctx *ctx, const char *path, kf_info **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, path != NULL && out != NULL);
  for (int round = 0; round < 100; round++) {
    info *i;
    bool again;
    kf_status status = describe_once(ctx, path, &i, &again);
    if (!again) KF_HAND_OUT(status, out, (kf_info *)i, kf_info_free);
    kf_info_free((kf_info *)i);
    kf_enter(ctx);
  }
  return kf_fail(err, KF_ERR_IO, "%s: other processes keep replacing it", path);
}
