/* info.c - what is in a file. Sees search and below, since it loads statistics, models and galleries
 * (these without an index). */
#include "search/gallery.h"

#include <string.h>

/* The public struct first, so that a pointer to one is a pointer to the other. */
typedef struct info {
  kf_info base;
  kf_tensor_info *tensors;
  kf_names meta_keys, meta_values, tensor_names;
  char type_name[8]; /* npy */
  kf_arena arena;
} info;

void kf_info_free(kf_info *base) {
  if (base == NULL) return;
  info *i = (info *)base;
  kf_arena_free(&i->arena);
  kf_names_clear(&i->meta_keys);
  kf_names_clear(&i->meta_values);
  kf_names_clear(&i->tensor_names);
  kf_free(i);
}

/* --- safetensors ----------------------------------------------------------------------------- */

static kf_status list_tensors(info *out, const kf_st *st, kf_err *err) {
  size_t n = st->n_tensors;
  const char **names;
  KF_TAKE(&out->arena, out->tensors, n);
  KF_TAKE(&out->arena, names, n);
  if (out->arena.failed) return kf_fail_memory(err);
  for (size_t t = 0; t < n; t++) names[t] = st->tensors[t].name;
  KF_TRY(kf_names_copy(names, (uint32_t)n, &out->tensor_names, err));
  for (size_t t = 0; t < n; t++) {
    const kf_st_tensor *from = &st->tensors[t];
    kf_tensor_info *to = &out->tensors[t];
    *to = (kf_tensor_info){
        .name = out->tensor_names.name[t], .dtype = from->type_name, .ndim = from->ndim};
    memcpy(to->shape, from->shape, sizeof to->shape);
  }
  out->base.n_tensors = n;
  out->base.tensors = out->tensors;
  return KF_OK;
}

static kf_status list_meta(info *out, const kf_st *st, kf_err *err) {
  uint32_t n = (uint32_t)st->n_meta;
  KF_TRY(kf_names_copy(st->keys, n, &out->meta_keys, err));
  KF_TRY(kf_names_copy(st->values, n, &out->meta_values, err));
  out->base.n_meta = n;
  out->base.meta_keys = (const char *const *)out->meta_keys.name;
  out->base.meta_values = (const char *const *)out->meta_values.name;
  return KF_OK;
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
  out->dim = m->dim_in;
  out->dim_out = m->dim_out;
  out->classes = m->n_classes;
  out->normalized = m->normalized;
  out->lambda = m->lambda;
  kf_model_free(m);
  return KF_OK;
}

static kf_status describe_gallery(kf_ctx *ctx, kf_info *out, const char *path) {
  kf_gallery *g;
  KF_TRY(kf_gallery_open(path, &g, &ctx->err));
  out->kind = "gallery";
  out->rows = g->rows;
  out->dim = kf_gallery_dim_in(g);
  out->dim_out = kf_gallery_dim(g);
  out->classes = g->n_classes;
  out->ids = g->ids != NULL;
  kf_gallery_free(g);
  return KF_OK;
}

/* A data set if kf_data_open accepts it; otherwise just tensors. */
static kf_status describe_tensors(kf_ctx *ctx, kf_info *out, const char *path) {
  kf_data *data;
  kf_data_options options = {.allow_unlabelled = 1};
  kf_status status = kf_data_open(ctx, &path, 1, &options, &data);
  if (status == KF_ERR_MEM || status == KF_ERR_IO) return status;
  if (status != KF_OK) {
    kf_enter(ctx);
    out->kind = "tensors";
    return KF_OK;
  }
  out->kind = data->has_labels ? "data set" : "embeddings";
  out->rows = data->rows;
  out->dim = data->dim;
  out->classes = data->n_classes;
  out->ids = kf_data_has_ids(data);
  kf_data_free(data);
  return KF_OK;
}

static void describe_answers(kf_info *out) {
  out->kind = "answers";
  for (size_t i = 0; i < out->n_tensors; i++)
    if (strcmp(out->tensors[i].name, "rows") == 0) out->rows = out->tensors[i].shape[0];
}

static kf_status describe_safetensors(kf_ctx *ctx, info *out, const char *path) {
  kf_err *err = &ctx->err;
  kf_st st;
  KF_TRY(kf_st_open(&st, path, err));
  out->base.format = "safetensors";
  out->base.bytes = st.in.size;
  kf_status status = list_tensors(out, &st, err);
  if (status == KF_OK) status = list_meta(out, &st, err);
  const char *format = kf_st_meta(&st, "format");
  /* A file of ours without a readable format is damaged. */
  if (status == KF_OK && kf_st_meta(&st, "checksum") != NULL) status = kf_st_verify(&st, err);
  if (status != KF_OK)
    ;
  else if (format != NULL && strcmp(format, "koofu.stats") == 0)
    status = describe_stats(ctx, &out->base, path);
  else if (format != NULL && strcmp(format, "koofu.model") == 0)
    status = describe_model(ctx, &out->base, path);
  else if (format != NULL && strcmp(format, KF_GALLERY_FORMAT) == 0)
    status = describe_gallery(ctx, &out->base, path);
  else if (format != NULL && strcmp(format, "koofu.answers") == 0)
    describe_answers(&out->base);
  else
    status = describe_tensors(ctx, &out->base, path);
  kf_st_close(&st);
  return status;
}

/* --- the others ------------------------------------------------------------------------------ */

static kf_status describe_npy(info *out, const char *path, kf_err *err) {
  kf_npy npy;
  KF_TRY(kf_npy_open(&npy, path, err));
  out->base.format = "npy";
  out->base.bytes = npy.in.size;
  out->base.rows = npy.ndim > 0 ? npy.shape[0] : 1;
  bool labels = kf_type_is_integer(npy.type);
  bool column = npy.ndim == 1 || (npy.ndim == 2 && npy.shape[1] == 1);
  out->base.kind = !labels ? "embeddings" : column ? "labels" : "tensors";
  if (!labels && npy.ndim == 2 && npy.shape[1] <= KF_MAX_DIM)
    out->base.dim = (uint32_t)npy.shape[1];
  KF_TAKE(&out->arena, out->tensors, 1);
  kf_status status = out->arena.failed ? kf_fail_memory(err) : KF_OK;
  if (status == KF_OK) {
    memcpy(out->type_name, npy.type_name, sizeof out->type_name);
    *out->tensors = (kf_tensor_info){.name = npy.fortran ? "array (Fortran order)" : "array",
                                     .dtype = out->type_name,
                                     .ndim = npy.ndim};
    memcpy(out->tensors->shape, npy.shape, sizeof npy.shape);
    out->base.tensors = out->tensors;
    out->base.n_tensors = 1;
  }
  kf_npy_close(&npy);
  return status;
}

static kf_status describe_vectors(kf_ctx *ctx, info *out, const char *path, const char *format) {
  kf_data *data;
  KF_TRY(kf_data_open(ctx, &path, 1, NULL, &data));
  out->base.format = format;
  out->base.kind = "embeddings";
  out->base.rows = data->rows;
  out->base.dim = data->dim;
  kf_data_free(data);
  return KF_OK;
}

static kf_status describe_text(info *out, const char *path, kf_err *err) {
  uint64_t distinct;
  KF_TRY(kf_lines_count(path, &out->base.rows, &distinct, err));
  out->base.format = "text";
  out->base.kind = "labels";
  out->base.classes = distinct <= KF_MAX_CLASSES ? (uint32_t)distinct : 0;
  return KF_OK;
}

static kf_status describe(kf_ctx *ctx, info *out, const char *path) {
  kf_in in; /* gives the size, and the right message if it is not a file */
  KF_TRY(kf_in_open(&in, path, &ctx->err));
  out->base.bytes = in.size;
  kf_in_close(&in);
  if (kf_ends_with(path, ".safetensors")) return describe_safetensors(ctx, out, path);
  if (kf_ends_with(path, ".npy")) return describe_npy(out, path, &ctx->err);
  if (kf_ends_with(path, ".fvecs")) return describe_vectors(ctx, out, path, "fvecs");
  if (kf_ends_with(path, ".fbin")) return describe_vectors(ctx, out, path, "fbin");
  return describe_text(out, path, &ctx->err);
}

kf_status kf_info_read(kf_ctx *ctx, const char *path, kf_info **out) {
  KF_ENTER(ctx, path != NULL && out != NULL);
  (void)err;
  info *i = kf_alloc_zero(1, sizeof *i);
  if (i == NULL) return kf_fail_memory(&ctx->err);
  i->base.normalized = -1;
  kf_status status = describe(ctx, i, path);
  if (status == KF_OK)
    *out = &i->base;
  else
    kf_info_free(&i->base);
  return status;
}
