/* files.c - a data set over files: maps rows to shards. files_open.c makes one. */
#include "file/parquet.h"

#include <inttypes.h>
#include <sys/stat.h>

/* The shard that holds a row: the last one that begins at or before it. */
static size_t shard_of(const kf_files *files, uint64_t row) {
  return kf_find_last(&files->shards->first, sizeof *files->shards, files->n_shards, row);
}

/* Rows [first, first + n) of a shard. */
typedef struct span {
  const kf_shard *shard;
  uint64_t first, n;
} span;

/* Takes from the beginning of rows [*first, *first + *n) those that are in one shard. */
static span next_span(const kf_files *files, uint64_t *first, uint64_t *n) {
  const kf_shard *shard = &files->shards[shard_of(files, *first)];
  uint64_t skip = *first - shard->first, left = shard->table.rows - skip;
  uint64_t count = *n < left ? *n : left;
  *first += count;
  *n -= count;
  return (span){shard, skip, count};
}

/* The rows of a span, and their labels unless they are in a common file. */
static kf_status fetch_span(const kf_files *files, const span *s, const kf_kernels *kernels,
                            float *rows, int32_t *labels, kf_err *err) {
  const kf_shard *shard = s->shard;
  if (rows != NULL)
    KF_TRY(kf_table_fetch(&shard->table, &shard->in, kernels, s->first, s->n, rows, err));
  if (labels == NULL || files->common.in != NULL) return KF_OK;
  if (shard->labels.in != NULL)
    return kf_labels_fetch(&shard->labels, &files->rules, s->first, s->n, labels, err);
  for (uint64_t i = 0; i < s->n; i++) labels[i] = KF_LABEL_NONE;
  return KF_OK;
}

static kf_status files_fetch(const kf_data *data, const kf_kernels *kernels, uint64_t first,
                             uint64_t n, float *rows, int32_t *labels, kf_err *err) {
  const kf_files *files = (const kf_files *)data;
  if (labels != NULL && files->common.in != NULL)
    KF_TRY(kf_labels_fetch(&files->common, &files->rules, first, n, labels, err));
  while (n > 0) {
    span s = next_span(files, &first, &n);
    KF_TRY(fetch_span(files, &s, kernels, rows, labels, err));
    if (rows != NULL) rows += s.n * data->dim;
    if (labels != NULL) labels += s.n;
  }
  return KF_OK;
}

static kf_status files_fetch_raw(const kf_data *data, uint64_t first, uint64_t n, void *rows,
                                 kf_err *err) {
  const kf_files *files = (const kf_files *)data;
  char *to = rows;
  while (n > 0) {
    span s = next_span(files, &first, &n);
    KF_TRY(kf_table_fetch_raw(&s.shard->table, &s.shard->in, s.first, s.n, to, err));
    to += s.n * data->dim * kf_type_size(data->raw_type);
  }
  return KF_OK;
}

static void files_ahead(const kf_data *data, uint64_t first, uint64_t n) {
  const kf_files *files = (const kf_files *)data;
  while (n > 0) {
    span s = next_span(files, &first, &n);
    kf_table_ahead(&s.shard->table, &s.shard->in, s.first, s.n);
  }
}

static kf_status files_fetch_ids(const kf_data *data, uint64_t first, uint64_t n, uint64_t *lengths,
                                 kf_string *bytes, kf_err *err) {
  const kf_files *files = (const kf_files *)data;
  while (n > 0) {
    span s = next_span(files, &first, &n);
    KF_TRY(kf_ids_fetch(&s.shard->ids, &s.shard->in, s.first, s.n, lengths, bytes, err));
    lengths += s.n;
  }
  return KF_OK;
}

static void files_where(const kf_data *data, uint64_t row, char *text, size_t size) {
  const kf_files *files = (const kf_files *)data;
  const kf_shard *shard = &files->shards[row == KF_ALL_ROWS ? 0 : shard_of(files, row)];
  if (row == KF_ALL_ROWS)
    snprintf(text, size, "%s", shard->in.path);
  else if (shard->table.column != NULL)
    snprintf(text, size, "%s, row group %" PRIu32 ", row %" PRIu64, shard->in.path,
             kf_pq_group_of(shard->table.column, row - shard->first), row - shard->first);
  else
    snprintf(text, size, "%s, row %" PRIu64, shard->in.path, row - shard->first);
}

static bool files_is_null(const kf_data *data, uint64_t row) {
  const kf_files *files = (const kf_files *)data;
  const kf_shard *shard = &files->shards[shard_of(files, row)];
  return shard->table.column != NULL && kf_pq_is_null(shard->table.column, row - shard->first);
}

static const char *files_dim_name(const kf_data *data, uint64_t row, uint32_t dim) {
  const kf_files *files = (const kf_files *)data;
  const kf_shard *shard = &files->shards[shard_of(files, row)];
  return dim < shard->dims.n ? shard->dims.name[dim] : NULL;
}

static kf_status files_refuse(const kf_data *data, const char *path, kf_err *err) {
  const kf_files *files = (const kf_files *)data;
  for (size_t s = 0; s < files->n_shards; s++) {
    const kf_shard *shard = &files->shards[s];
    KF_TRY(kf_refuse_overwrite(path, &shard->in, err));
    if (shard->labels.in != NULL) KF_TRY(kf_refuse_overwrite(path, shard->labels.in, err));
    if (shard->beside.path != NULL) KF_TRY(kf_refuse_overwrite(path, &shard->beside, err));
  }
  return files->common.in != NULL ? kf_refuse_overwrite(path, files->common.in, err) : KF_OK;
}

static void identify_file(const kf_in *in, kf_checksum *sum) {
  struct stat info;
  if (in == NULL || (stat(in->path, &info) != 0 && fstat(in->fd, &info) != 0)) return;
  const int64_t state[] = {(int64_t)in->size, (int64_t)in->base, (int64_t)info.st_size,
                           info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
  kf_checksum_add(sum, state, sizeof state);
}

static void files_identify(const kf_data *data, kf_checksum *sum) {
  const kf_files *files = (const kf_files *)data;
  for (size_t s = 0; s < files->n_shards; s++) {
    identify_file(&files->shards[s].in, sum);
    identify_file(files->shards[s].labels.in, sum);
  }
  identify_file(files->common.in, sum);
}

static void files_destroy(kf_data *data) {
  kf_files *files = (kf_files *)data;
  kf_dict_free(files->rules.map);
  kf_free(files->rules.names_from);
  for (size_t s = 0; s < files->n_shards; s++) kf_shard_close(&files->shards[s]);
  kf_labels_close(&files->common);
  kf_pq_cache_free(files->pages);
  kf_free(files->shards);
  kf_free(files);
}

kf_files *kf_files_new(void) {
  kf_files *files = kf_alloc_zero(1, sizeof *files);
  if (files == NULL) return NULL;
  files->pages = kf_pq_cache_new();
  if (files->pages == NULL) {
    kf_free(files);
    return NULL;
  }
  files->base = (kf_data){.fetch = files_fetch,
                          .fetch_raw = files_fetch_raw,
                          .ahead = files_ahead,
                          .fetch_ids = files_fetch_ids,
                          .is_null = files_is_null,
                          .dim_name = files_dim_name,
                          .where = files_where,
                          .identify = files_identify,
                          .refuse = files_refuse,
                          .destroy = files_destroy};
  return files;
}
