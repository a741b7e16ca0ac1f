/* gallery_file.c - reading a gallery: a .safetensors file that is a native data set as well, with a
 * checksum and the map inside (docs/formats.md). gallery_save.c writes it.
 *
 * The rows stay in the file and are read by position. Memory is taken only for what is known to be
 * in the file, and nothing is used before it has been checked. */
#include "search/gallery.h"
#include "search/index.h"

#include <string.h>
#include <sys/stat.h>

/* --- rows ------------------------------------------------------------------------------------ */

static kf_status stat_file(const kf_gallery *g, struct stat *info, kf_err *err) {
  if (fstat(g->in.fd, info) == 0) return KF_OK;
  return kf_fail(err, KF_ERR_IO, "%s: cannot be examined any more", g->in.path);
}

kf_status kf_gallery_unchanged(const kf_gallery *g, kf_err *err) {
  struct stat info;
  if (g->in_memory) return KF_OK;
  KF_TRY(stat_file(g, &info, err));
  if ((uint64_t)info.st_size == g->in.size && info.st_mtim.tv_sec == g->changed.tv_sec &&
      info.st_mtim.tv_nsec == g->changed.tv_nsec)
    return KF_OK;
  return kf_fail_file(err, g->in.path, "changed since it was loaded");
}

/* Checks what is in memory of a gallery. */
static kf_status check(const kf_gallery *g, const kf_kernels *kernels, const kf_st_field *fields,
                       size_t n, uint64_t first, kf_err *err) {
  bool cosine = g->space.metric == KF_METRIC_COSINE;
  return kf_check_tensors(&(kf_contents){.kind = KF_KIND_GALLERY,
                                         .path = g->in.path,
                                         .fields = fields,
                                         .n_fields = n,
                                         .kernels = kernels,
                                         .first = first,
                                         .direction = cosine,
                                         .unit = cosine && g->space.map != NULL,
                                         .half = g->space.dtype == KF_F16,
                                         .n_classes = g->names.n > 0 ? g->names.n : KF_MAX_CLASSES},
                          err);
}

kf_status kf_gallery_fetch(const void *gallery, const kf_kernels *kernels, uint64_t first,
                           uint64_t n, float *rows, kf_err *err) {
  const kf_gallery *g = gallery;
  uint64_t dim = g->space.dim;
  kf_type type = kf_type_of(g->space.dtype);
  if (g->in_memory) {
    kf_index_copy(g->index, kernels, first, n, rows);
    return KF_OK;
  }
  KF_TRY(kf_in_read_f32(&g->in, kernels, type, g->offset + first * dim * kf_type_size(type),
                        n * dim, rows, err));
  kf_st_field field = {KF_TENSOR_ROWS, KF_TYPE_F32, 2, {n, dim}, rows}; /* as they are in memory */
  return g->sound ? KF_OK : check(g, kernels, &field, 1, first, err);
}

static kf_status read_space(const kf_st *st, kf_gallery *g, kf_err *err) {
  const kf_st_tensor *rows;
  const kf_st_tensor *found = kf_st_find(st, KF_TENSOR_ROWS);
  g->space.dtype = found != NULL && found->type == KF_TYPE_F16 ? KF_F16 : KF_F32;
  KF_TRY(kf_st_expect(st, KF_TENSOR_ROWS, kf_type_of(g->space.dtype), 2, (int64_t[]){-1, -1}, &rows,
                      err));
  if (rows->shape[0] < 1 || rows->shape[1] < 1 || rows->shape[1] > KF_MAX_DIM)
    return kf_fail_file(err, st->in.path, "invalid gallery of %llu rows of %llu columns",
                        (unsigned long long)rows->shape[0], (unsigned long long)rows->shape[1]);
  g->rows = rows->shape[0];
  g->offset = rows->offset;
  g->space.dim = (uint32_t)rows->shape[1];
  const char *metric = kf_st_meta(st, "metric");
  if (metric == NULL) return kf_fail_file(err, st->in.path, "there is no metadata 'metric'");
  for (int m = KF_METRIC_COSINE; m <= KF_METRIC_INNER; m++)
    if (strcmp(metric, kf_metric_name((kf_metric)m)) == 0) g->space.metric = (kf_metric)m;
  int64_t k = 0;
  if (kf_st_meta(st, "k") != NULL) KF_TRY(kf_st_meta_i64(st, "k", &k, err));
  g->k = (uint32_t)k;
  if (kf_st_find(st, "transform") == NULL) return KF_OK;
  KF_TRY(kf_map_load(st, &g->map, &g->arena, err));
  g->space.map = &g->map;
  if (g->map.dim_out == g->space.dim) return KF_OK;
  return kf_fail_file(err, st->in.path, "the map gives %u columns, the rows have %u",
                      g->map.dim_out, g->space.dim);
}

/* --- labels ---------------------------------------------------------------------------------- */

kf_status kf_gallery_count(kf_gallery *g, kf_err *err) {
  KF_TAKE_ZERO(&g->arena, g->counts, g->n_classes);
  if (g->arena.failed) return kf_fail_memory(err);
  for (uint64_t i = 0; i < g->rows; i++)
    if (g->labels[i] >= 0) g->counts[g->labels[i]]++;
  return KF_OK;
}

static kf_status read_labels(const kf_st *st, kf_gallery *g, kf_err *err) {
  const kf_st_tensor *labels;
  if (kf_st_find(st, KF_TENSOR_LABELS) == NULL) return KF_OK;
  KF_TRY(kf_st_expect(st, KF_TENSOR_LABELS, KF_TYPE_I32, 1, (int64_t[]){(int64_t)g->rows}, &labels,
                      err));
  KF_TRY(kf_st_meta_names(st, &g->names, err));
  KF_TAKE(&g->arena, g->labels, g->rows);
  if (g->arena.failed) return kf_fail_memory(err);
  KF_TRY(kf_st_read_all(st, labels, g->labels, err));
  kf_st_field field = {KF_TENSOR_LABELS, KF_TYPE_I32, 1, {g->rows, 1}, g->labels};
  KF_TRY(check(g, NULL, &field, 1, 0, err));
  g->n_classes = g->names.n;
  for (uint64_t i = 0; i < g->rows; i++)
    if (g->labels[i] >= (int64_t)g->n_classes) g->n_classes = (uint32_t)g->labels[i] + 1;
  return kf_gallery_count(g, err);
}

/* --- ids ------------------------------------------------------------------------------------- */

enum { IDS_AT_ONCE = 256 };

/* Ids [first, first + n), which begin at byte `end` of all. */
static kf_status take_ids(const kf_st *st, const kf_ids *ids, uint64_t first, uint64_t n,
                          kf_gallery *g, kf_err *err) {
  uint64_t lengths[IDS_AT_ONCE];
  int64_t end = first > 0 ? g->id_ends[first - 1] : 0;
  kf_string bytes = {0};
  kf_status status = kf_ids_fetch(ids, &st->in, first, n, lengths, &bytes, err);
  const char *from = bytes.data;
  for (uint64_t i = 0; status == KF_OK && i < n; from += lengths[i++]) {
    char *id = g->ids + end + first + i; /* after the ids before it, and a NUL for each */
    memcpy(id, from, lengths[i]);
    id[lengths[i]] = '\0';
    end = g->id_ends[first + i] = end + (int64_t)lengths[i];
  }
  kf_string_clear(&bytes);
  return status;
}

static kf_status read_ids(const kf_st *st, kf_gallery *g, kf_err *err) {
  kf_ids ids;
  KF_TRY(kf_ids_open(&ids, st, g->rows, err));
  if (!ids.there) return KF_OK;
  KF_TAKE(&g->arena, g->id_ends, g->rows);
  KF_TAKE(&g->arena, g->ids, ids.n_bytes + g->rows);
  if (g->arena.failed) return kf_fail_memory(err);
  for (uint64_t first = 0; first < g->rows; first += IDS_AT_ONCE) {
    uint64_t left = g->rows - first;
    KF_TRY(take_ids(st, &ids, first, left < IDS_AT_ONCE ? left : IDS_AT_ONCE, g, err));
  }
  const kf_st_field fields[] = {{KF_TENSOR_ID_ENDS, KF_TYPE_I64, 1, {g->rows, 1}, g->id_ends},
                                {KF_TENSOR_ID_BYTES, KF_TYPE_U8, 1, {ids.n_bytes, 1}, NULL}};
  return check(g, NULL, fields, 2, 0, err);
}

static kf_status read_batches(const kf_st *st, kf_gallery *g, kf_err *err) {
  const kf_st_tensor *batches;
  if (kf_st_find(st, KF_TENSOR_BATCHES) == NULL) return KF_OK;
  KF_TRY(kf_st_expect(st, KF_TENSOR_BATCHES, KF_TYPE_U64, 1, (int64_t[]){-1}, &batches, err));
  if (batches->shape[0] < 1 || batches->shape[0] > KF_MAX_BATCHES)
    return kf_fail_file(err, st->in.path,
                        "tensor '" KF_TENSOR_BATCHES "' has %llu elements, not 1 "
                        "to %d",
                        (unsigned long long)batches->shape[0], KF_MAX_BATCHES);
  g->n_batches = (uint32_t)batches->shape[0];
  KF_TAKE(&g->arena, g->batches, g->n_batches);
  if (g->arena.failed) return kf_fail_memory(err);
  return kf_st_read_all(st, batches, g->batches, err);
}

static kf_status read_all(const kf_st *st, bool verify, kf_gallery *g, kf_err *err) {
  KF_TRY((verify ? kf_st_check_file : kf_st_check_format)(st, KF_GALLERY_FORMAT, "a koofu gallery",
                                                          err));
  KF_TRY(kf_check_header(KF_KIND_GALLERY, st, err));
  KF_TRY(kf_st_origin(st, &g->origin, err));
  KF_TRY(read_space(st, g, err));
  KF_TRY(read_labels(st, g, err));
  KF_TRY(read_ids(st, g, err));
  return read_batches(st, g, err);
}

kf_status kf_gallery_open(const char *path, bool verify, kf_gallery **out, kf_err *err) {
  kf_st st;
  KF_TRY(kf_st_open(&st, path, err));
  kf_gallery *g = kf_alloc_zero(1, sizeof *g);
  if (g == NULL) {
    kf_st_close(&st);
    return kf_fail_memory(err);
  }
  g->in = st.in; /* takes the file over */
  struct stat info;
  kf_status status = stat_file(g, &info, err);
  if (status == KF_OK) {
    g->changed = info.st_mtim;
    status = read_all(&st, verify, g, err);
  }
  st.in = (kf_in){.fd = -1};
  kf_st_close(&st);
  KF_HAND_OUT(status, out, g, kf_gallery_free);
}
