/* shard.c - one data file of a data set: its rows, and the labels and class names inside it. */
#include "file/file_internal.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

static kf_status open_npy(kf_shard *shard, const char *path, kf_err *err) {
  kf_npy npy;
  KF_TRY(kf_npy_open(&npy, path, err));
  shard->in = npy.in; /* takes the file over */
  if (npy.ndim != 2) {
    return kf_fail(err, KF_ERR_DATA,
                   "%s: embeddings must be an array of 2 dimensions, not of %" PRIu32 "%s", path,
                   npy.ndim,
                   npy.ndim != 1                ? ""
                   : kf_type_is_float(npy.type) ? " (a single row is one of shape [1, D])"
                                                : " (labels go behind --labels)");
  }
  if (!kf_type_is_float(npy.type)) {
    return kf_fail(err, KF_ERR_DATA, "%s: embeddings must be floats, but their dtype is '%s'", path,
                   npy.type_name);
  }
  KF_TRY(kf_table_size(&shard->table, path, npy.shape[0], npy.shape[1], err));
  shard->table.type = npy.type;
  shard->table.layout = npy.fortran ? KF_LAYOUT_COLUMNS : KF_LAYOUT_ROWS;
  shard->table.offset = npy.offset;
  return KF_OK;
}

/* --- safetensors ----------------------------------------------------------------------------- */

static bool is_matrix(const kf_st_tensor *tensor) {
  return tensor->ndim == 2 && kf_type_is_float(tensor->type);
}

/* The tensor asked for, or "embeddings", or the only matrix in the file. */
static kf_status find_embeddings(const kf_st *st, const char *name, const kf_st_tensor **out,
                                 kf_err *err) {
  *out = kf_st_find(st, name != NULL ? name : "embeddings");
  if (*out != NULL && is_matrix(*out)) return KF_OK;
  if (*out != NULL) {
    return kf_fail(err, KF_ERR_DATA,
                   "%s: tensor '%.64s' (%s, %" PRIu32 " dimensions) is no matrix of floats",
                   st->in.path, (*out)->name, (*out)->type_name, (*out)->ndim);
  }
  if (name != NULL)
    return kf_fail(err, KF_ERR_DATA, "%s: there is no tensor '%.64s'", st->in.path, name);
  size_t matrices = 0;
  for (size_t i = 0; i < st->n_tensors; i++) {
    if (!is_matrix(&st->tensors[i])) continue;
    *out = &st->tensors[i];
    matrices++;
  }
  if (matrices == 1) return KF_OK;
  return kf_fail(err, KF_ERR_DATA,
                 "%s: there is no tensor 'embeddings', and %zu others are matrices of floats; name "
                 "the one to read (--tensor)",
                 st->in.path, matrices);
}

static kf_status use_safetensors(kf_shard *shard, kf_st *st, const kf_data_options *options,
                                 kf_names *names, kf_err *err) {
  const kf_st_tensor *tensor;
  const char *format = kf_st_meta(st, "format");
  if (format != NULL && strcmp(format, "koofu.stats") == 0)
    return kf_fail(err, KF_ERR_DATA,
                   "%s: is a statistics file, where data are expected (several are merged first)",
                   st->in.path);
  if (format != NULL && strcmp(format, "koofu.model") == 0)
    return kf_fail(err, KF_ERR_DATA, "%s: is a model, where data are expected", st->in.path);
  if (format != NULL && strcmp(format, "koofu.answers") == 0)
    return kf_fail(err, KF_ERR_DATA, "%s: holds answers of a search, where data are expected",
                   st->in.path);
  KF_TRY(find_embeddings(st, options->tensor, &tensor, err));
  KF_TRY(kf_table_size(&shard->table, st->in.path, tensor->shape[0], tensor->shape[1], err));
  shard->table.type = tensor->type;
  shard->table.layout = KF_LAYOUT_ROWS;
  shard->table.offset = tensor->offset;
  KF_TRY(kf_ids_open(&shard->ids, st, shard->table.rows, err));
  const char *label_name = options->label_tensor != NULL ? options->label_tensor : "labels";
  const kf_st_tensor *labels = kf_st_find(st, label_name);
  if (labels != NULL && (options->inner_labels != KF_OFF) && options->n_labels == 0)
    KF_TRY(kf_labels_open_tensor(&shard->labels, &st->in, labels, err));
  return names != NULL ? kf_st_meta_names(st, names, err) : KF_OK;
}

static kf_status open_safetensors(kf_shard *shard, const char *path, const kf_data_options *options,
                                  kf_names *names, kf_err *err) {
  kf_st st;
  KF_TRY(kf_st_open(&st, path, err));
  kf_status status = use_safetensors(shard, &st, options, names, err);
  shard->mapped = kf_st_find(&st, "transform") != NULL;
  shard->in = st.in; /* takes the file over */
  if (shard->labels.in != NULL) shard->labels.in = &shard->in;
  st.in = (kf_in){.fd = -1};
  kf_st_close(&st);
  return status;
}

/* --- any ------------------------------------------------------------------------------------- */

static bool is_picture(const char *path) {
  const char *dot = strrchr(path, '.');
  return dot != NULL && (strcasecmp(dot, ".jpg") == 0 || strcasecmp(dot, ".jpeg") == 0 ||
                         strcasecmp(dot, ".png") == 0 || strcasecmp(dot, ".webp") == 0);
}

/* What is wrong with the file itself is more interesting than its ending. */
static kf_status refuse_ending(const char *path, kf_err *err) {
  kf_in in;
  KF_TRY(kf_in_open(&in, path, err));
  kf_in_close(&in);
  return kf_fail(err, KF_ERR_DATA,
                 "%s: unknown ending; koofu reads .npy, .safetensors, .fvecs and .fbin%s", path,
                 is_picture(path) ? " (pictures go through 'koofu embed' first; 'classify' and "
                                    "'search' take them with --encoder)"
                                  : "");
}

kf_status kf_shard_open(kf_shard *shard, const char *path, const kf_data_options *options,
                        kf_names *names, kf_err *err) {
  *shard = (kf_shard){0};
  switch (kf_format_of(path)) {
  case KF_FORMAT_NPY: return open_npy(shard, path, err);
  case KF_FORMAT_SAFETENSORS: return open_safetensors(shard, path, options, names, err);
  case KF_FORMAT_FVECS: return kf_fvecs_open(&shard->in, &shard->table, path, err);
  case KF_FORMAT_FBIN: return kf_fbin_open(&shard->in, &shard->table, path, err);
  default: return refuse_ending(path, err);
  }
}

void kf_shard_close(kf_shard *shard) {
  kf_labels_close(&shard->labels);
  kf_in_close(&shard->in);
}
