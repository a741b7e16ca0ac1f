/* shard.c - one data file of a data set: its rows, and the labels and class names inside. */
#include "file/parquet.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

kf_status kf_shard_open_npy(kf_shard *shard, kf_npy *npy, kf_err *err) {
  shard->in = npy->in;
  const char *path = shard->in.path;
  if (npy->ndim != 2) {
    bool labels = npy->ndim == 1 && !kf_type_is_float(npy->type);
    return kf_fail_hint(err, KF_ERR_DATA, labels ? KF_HINT_LABELS : KF_HINT_NONE,
                        "%s: embeddings must be an array of 2 dimensions, not of %" PRIu32 "%s",
                        path, npy->ndim,
                        npy->ndim != 1 ? ""
                        : !labels      ? " (a single row has the shape [1, D])"
                                       : " (labels are given separately)");
  }
  if (!kf_type_is_float(npy->type))
    return kf_fail_file(err, path, "embeddings must be floats, but their dtype is '%s'",
                        npy->type_name);
  KF_TRY(kf_table_size(&shard->table, path, npy->shape[0], npy->shape[1], err));
  shard->table.type = npy->type;
  shard->table.layout = npy->fortran ? KF_LAYOUT_COLUMNS : KF_LAYOUT_ROWS;
  shard->table.offset = npy->offset;
  return KF_OK;
}

static kf_status open_npy(kf_shard *shard, const char *path, kf_err *err) {
  kf_npy npy;
  KF_TRY(kf_npy_open(&npy, path, err));
  return kf_shard_open_npy(shard, &npy, err);
}

/* --- safetensors --------------------------------------------------------------------------- */

static bool is_matrix(const kf_st_tensor *tensor) {
  return tensor->ndim == 2 && kf_type_is_float(tensor->type);
}

/* The requested tensor, or "embeddings", or the only matrix in the file. */
static kf_status find_embeddings(const kf_st *st, const char *name, const kf_st_tensor **out,
                                 kf_err *err) {
  *out = kf_st_find(st, name != NULL ? name : KF_TENSOR_ROWS);
  if (*out != NULL && is_matrix(*out)) return KF_OK;
  if (*out != NULL)
    return kf_fail_file(err, st->in.path,
                        "tensor '%.64s' (%s, %" PRIu32 " dimensions) is not a matrix of floats",
                        (*out)->name, (*out)->type_name, (*out)->ndim);
  if (name != NULL) return kf_fail_file(err, st->in.path, "there is no tensor '%.64s'", name);
  size_t matrices = 0;
  for (size_t i = 0; i < st->n_tensors; i++) {
    if (!is_matrix(&st->tensors[i])) continue;
    *out = &st->tensors[i];
    matrices++;
  }
  if (matrices == 1) return KF_OK;
  return kf_fail_hint(err, KF_ERR_DATA, KF_HINT_TENSOR,
                      "%s: there is no tensor '" KF_TENSOR_ROWS
                      "', and %zu others are matrices of floats",
                      st->in.path, matrices);
}

/* Verifies the checksum of a koofu file that has one, such as a gallery. Other programs may use
 * that key for something else. */
static kf_status verify_koofu_file(const kf_st *st, kf_err *err) {
  const char *format = kf_st_meta(st, "format");
  bool is_koofu_file = format != NULL && kf_starts_with(format, "koofu.");
  return is_koofu_file && kf_st_meta(st, "checksum") != NULL ? kf_st_verify(st, err) : KF_OK;
}

static kf_status use_safetensors(kf_shard *shard, kf_st *st, const kf_data_options *options,
                                 kf_names *names, kf_err *err) {
  const kf_st_tensor *tensor;
  KF_TRY(kf_st_refuse_others(st, "koofu.dataset koofu.gallery", "data", err));
  KF_TRY(verify_koofu_file(st, err));
  KF_TRY(find_embeddings(st, options->tensor, &tensor, err));
  KF_TRY(kf_table_size(&shard->table, st->in.path, tensor->shape[0], tensor->shape[1], err));
  shard->table.type = tensor->type;
  shard->table.layout = KF_LAYOUT_ROWS;
  shard->table.offset = tensor->offset;
  KF_TRY(kf_ids_open(&shard->ids, st, shard->table.rows, err));
  const char *label_name = options->label_tensor != NULL ? options->label_tensor : KF_TENSOR_LABELS;
  const kf_st_tensor *labels = kf_st_find(st, label_name);
  if (labels != NULL && options->inner_labels != KF_OFF && options->n_labels == 0)
    KF_TRY(kf_labels_open_tensor(&shard->labels, &st->in, labels, err));
  shard->mapped = kf_st_find(st, "transform") != NULL;
  KF_TRY((shard->mapped ? kf_st_map_origin : kf_st_origin)(st, &shard->origin, err));
  const char *made_with = kf_st_meta(st, KF_MADE_WITH);
  if (made_with != NULL && !kf_parse_hex64(made_with, &shard->made_with)) shard->made_with = 0;
  return names != NULL ? kf_st_meta_names(st, names, err) : KF_OK;
}

/* Changes of a gallery apply to its own rows and labels. */
static kf_status take_changes(kf_shard *shard, kf_changes *changes, const kf_data_options *options,
                              kf_names *names, kf_err *err) {
  const char *path = shard->in.path, *tensor = options->tensor, *labels = options->label_tensor;
  bool others = tensor != NULL && strcmp(tensor, KF_TENSOR_ROWS) != 0;
  if (changes->n == 0 || others) {
    kf_changes_close(changes);
    return KF_OK;
  }
  shard->changes = kf_alloc(1, sizeof *shard->changes);
  if (shard->changes == NULL) {
    kf_changes_close(changes);
    return kf_fail_memory(err);
  }
  *shard->changes = *changes;
  if (options->n_labels > 0 || (labels != NULL && strcmp(labels, KF_TENSOR_LABELS) != 0))
    return kf_fail_hint(
        err, KF_ERR_DATA, KF_HINT_COMPACT,
        "%s: is a gallery with changes, which cannot have other labels than its own", path);
  return names != NULL ? kf_changes_names(changes, path, names, err) : KF_OK;
}

kf_status kf_shard_open_change(kf_shard *shard, const kf_shard *gallery, kf_change *change,
                               bool labels, kf_err *err) {
  kf_st *st = &change->st;
  const kf_st_tensor *tensor = kf_st_find(st, KF_TENSOR_LABELS);
  *shard = (kf_shard){.table = gallery->table, .mapped = gallery->mapped, .is_change = true};
  shard->table.rows = change->rows;
  shard->table.offset = change->offset;
  KF_TRY(kf_ids_open(&shard->ids, st, change->rows, err));
  if (shard->mapped)
    shard->origin = gallery->origin; /* added rows went through the same map */
  else
    KF_TRY(kf_st_origin(st, &shard->origin, err));
  shard->in = st->in;
  st->in = (kf_in){.fd = -1};
  return labels && tensor != NULL ? kf_labels_open_tensor(&shard->labels, &shard->in, tensor, err)
                                  : KF_OK;
}

static kf_status open_safetensors(kf_shard *shard, const char *path, const kf_data_options *options,
                                  kf_names *names, kf_err *err) {
  kf_st st;
  kf_changes changes;
  KF_TRY(kf_changes_open(&changes, &st, path, true, err));
  kf_status status = use_safetensors(shard, &st, options, names, err);
  shard->in = st.in; /* takes ownership of the file */
  if (shard->labels.in != NULL) shard->labels.in = &shard->in;
  st.in = (kf_in){.fd = -1};
  kf_st_close(&st);
  if (status == KF_OK) return take_changes(shard, &changes, options, names, err);
  kf_changes_close(&changes);
  return status;
}

/* --- any ----------------------------------------------------------------------------------- */

bool kf_is_picture(const char *path) {
  const char *dot = strrchr(path, '.');
  return dot != NULL && (strcasecmp(dot, ".jpg") == 0 || strcasecmp(dot, ".jpeg") == 0 ||
                         strcasecmp(dot, ".png") == 0 || strcasecmp(dot, ".webp") == 0);
}

/* If the file cannot be opened, that is reported first. */
static kf_status refuse_ending(const char *path, kf_err *err) {
  kf_in in;
  KF_TRY(kf_in_open(&in, path, err));
  kf_in_close(&in);
  const char *slash = strrchr(path, '/');
  if (strchr(slash != NULL ? slash : path, '.') == NULL)
    return kf_fail_file(err, path,
                        "has no extension, and its magic bytes are not those of .npy, .npz, "
                        ".safetensors or .parquet");
  return kf_fail_hint(err, KF_ERR_DATA, kf_is_picture(path) ? KF_HINT_PICTURES : KF_HINT_NONE,
                      "%s: unknown file extension; koofu reads .npy, .npz, .safetensors, .parquet, "
                      ".csv, .tsv, .fvecs, .fbin, .f16bin, .u8bin and .i8bin",
                      path);
}

kf_status kf_shard_open(kf_shard *shard, const char *path, const kf_data_options *options,
                        kf_pq_cache *cache, kf_names *names, kf_err *err) {
  *shard = (kf_shard){0};
  kf_format format;
  KF_TRY(kf_format_of_file(path, &format, err));
  switch (format) {
  case KF_FORMAT_NPY: return open_npy(shard, path, err);
  case KF_FORMAT_SAFETENSORS: return open_safetensors(shard, path, options, names, err);
  case KF_FORMAT_NPZ: return kf_npz_open_rows(shard, path, options, err);
  case KF_FORMAT_FVECS: return kf_fvecs_open(&shard->in, &shard->table, path, err);
  case KF_FORMAT_BIN: return kf_bin_open(&shard->in, &shard->table, path, err);
  case KF_FORMAT_TABLE: return kf_csv_open_rows(shard, path, options, err);
  case KF_FORMAT_PARQUET: return kf_parquet_open_rows(shard, path, options, cache, names, err);
  default: return refuse_ending(path, err);
  }
}

/* Points to the file of the other shard, if it pointed to that of the first. */
static void move_in(const kf_in **in, kf_shard *from, kf_shard *to) {
  if (*in == &from->in) *in = &to->in;
  if (*in == &from->beside) *in = &to->beside;
  if (*in == &from->labels.own) *in = &to->labels.own;
}

void kf_shard_move(kf_shard *from, kf_shard *to) {
  *to = *from;
  kf_pq_column *const columns[] = {to->table.column, to->ids.column, to->labels.column_in};
  for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
    if (columns[i] != NULL) move_in(&columns[i]->in, from, to);
  move_in(&to->labels.in, from, to);
  *from = (kf_shard){.in = {.fd = -1}};
}

void kf_shard_close(kf_shard *shard) {
  kf_free(shard->columns);
  kf_names_clear(&shard->dims);
  if (shard->changes != NULL) kf_changes_close(shard->changes);
  kf_free(shard->changes);
  kf_labels_close(&shard->labels);
  kf_pq_column_free(shard->ids.column);
  kf_pq_column_free(shard->table.column);
  kf_in_close(&shard->beside);
  kf_in_close(&shard->in);
}
