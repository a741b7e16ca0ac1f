/* pick.c - a subset of the rows of a data set as a data set: samples, folds, and the
 * rows of some classes. */
#include "file/file_internal.h"

#include <string.h>

typedef struct pick {
  kf_data data; /* first, so that a kf_data * can be cast to a pick * */
  const kf_data *from;
  const uint64_t *rows; /* [data.rows] */
  kf_data *own_from;    /* freed with it; NULL: owned by the caller */
  uint64_t *own_rows;
  uint64_t *copies; /* [data.rows][words] bits of the rows; NULL: they are fetched */
  uint64_t words;   /* of a row: two columns each */
  uint64_t *ends;   /* ends of the rows of each rank; NULL: every rank has all rows */
} pick;

static kf_status fetch(const kf_data *data, const kf_kernels *kernels, uint64_t first, uint64_t n,
                       float *rows, int32_t *labels, kf_err *err) {
  const pick *p = (const pick *)data;
  if (p->copies != NULL && rows != NULL) {
    for (uint64_t i = 0; i < n; i++)
      memcpy(rows + i * data->dim, p->copies + (first + i) * p->words, data->dim * sizeof *rows);
    if (labels == NULL) return KF_OK;
    rows = NULL;
  }
  for (uint64_t i = 0; i < n;) {
    uint64_t row = p->rows[first + i], run = 1;
    while (i + run < n && p->rows[first + i + run] == row + run) run++;
    KF_TRY(p->from->fetch(p->from, kernels, row, run, rows != NULL ? rows + i * data->dim : NULL,
                          labels != NULL ? labels + i : NULL, err));
    i += run;
  }
  return KF_OK;
}

static kf_status fetch_raw(const kf_data *data, uint64_t first, uint64_t n, void *rows,
                           kf_err *err) {
  const pick *p = (const pick *)data;
  uint64_t width = data->dim * kf_type_size(data->raw_type);
  for (uint64_t i = 0; i < n;) {
    uint64_t row = p->rows[first + i], run = 1;
    while (i + run < n && p->rows[first + i + run] == row + run) run++;
    KF_TRY(p->from->fetch_raw(p->from, row, run, (char *)rows + i * width, err));
    i += run;
  }
  return KF_OK;
}

static kf_status fetch_ids(const kf_data *data, uint64_t first, uint64_t n, uint64_t *lengths,
                           kf_string *bytes, kf_err *err) {
  const pick *p = (const pick *)data;
  for (uint64_t i = 0; i < n; i++)
    KF_TRY(p->from->fetch_ids(p->from, p->rows[first + i], 1, lengths + i, bytes, err));
  return KF_OK;
}

static void where(const kf_data *data, uint64_t row, char *text, size_t size) {
  const pick *p = (const pick *)data;
  p->from->where(p->from, row == KF_ALL_ROWS ? row : p->rows[row], text, size);
}

static void identify(const kf_data *data, kf_checksum *sum) {
  const pick *p = (const pick *)data;
  p->from->identify(p->from, sum);
  kf_checksum_add(sum, p->rows, data->rows * sizeof *p->rows);
}

static kf_status refuse(const kf_data *data, const char *path, kf_err *err) {
  return kf_data_refuse_overwrite(((const pick *)data)->from, path, err);
}

static void destroy(kf_data *data) {
  pick *p = (pick *)data;
  kf_data_free(p->own_from);
  kf_free(p->own_rows);
  kf_free(p->copies);
  kf_free(p->ends);
  kf_free(p);
}

/* Counts how many of the rows come before those of the next rank. */
static kf_status find_ends(pick *p, kf_err *err) {
  const kf_data *from = p->from;
  p->ends = kf_alloc(from->n_ends, sizeof *p->ends);
  if (p->ends == NULL) return kf_fail_memory(err);
  uint64_t at = 0;
  for (uint32_t i = 0; i < from->n_ends; i++) {
    while (at < p->data.rows && p->rows[at] < from->ends[i]) at++;
    p->ends[i] = at;
  }
  p->data.ends = p->ends;
  p->data.n_ends = from->n_ends;
  return KF_OK;
}

kf_status kf_data_new_pick(const kf_data *from, const uint64_t *rows, uint64_t n, kf_data **out,
                           kf_err *err) {
  pick *p = kf_alloc_zero(1, sizeof *p);
  if (p == NULL) return kf_fail_memory(err);
  p->from = from;
  p->rows = rows;
  p->data = (kf_data){.rows = n,
                      .dim = from->dim,
                      .has_labels = from->has_labels,
                      .columns = from->columns,
                      .n_classes = from->n_classes,
                      .skip_bad = from->skip_bad,
                      .mapped = from->mapped,
                      .doubt = {from->doubt[0], from->doubt[1]},
                      .origin = from->origin,
                      .fetch = fetch,
                      .fetch_raw = from->fetch_raw != NULL ? fetch_raw : NULL,
                      .raw_type = from->raw_type,
                      .fetch_ids = from->fetch_ids != NULL ? fetch_ids : NULL,
                      .where = where,
                      .identify = from->identify != NULL ? identify : NULL,
                      .refuse = refuse,
                      .destroy = destroy};
  kf_status status = from->ends != NULL ? find_ends(p, err) : KF_OK;
  if (status == KF_OK) status = kf_names_clone(&from->names, &p->data.names, err);
  KF_HAND_OUT(status, out, &p->data, kf_data_free);
}

kf_status kf_data_keep_rows(kf_data **data, uint64_t *rows, uint64_t n, kf_err *err) {
  kf_data *subset = NULL;
  kf_status status = kf_data_new_pick(*data, rows, n, &subset, err);
  if (status != KF_OK) {
    kf_free(rows);
    return status;
  }
  ((pick *)subset)->own_from = *data;
  ((pick *)subset)->own_rows = rows;
  *data = subset;
  return KF_OK;
}

/* --- a few rows on every rank ------------------------------------------------------------- */

/* Each rank contributes its rows and zeros for those of others, so the sum of all bits is the
 * rows. */
static kf_status collect(kf_ctx *ctx, pick *p) {
  kf_range own = kf_share_of_rows(ctx, p->from);
  uint64_t n = p->data.rows;
  p->words = (p->data.dim + 1) / 2;
  p->copies = kf_alloc_zero(n * p->words, sizeof *p->copies);
  kf_status status = p->copies != NULL ? KF_OK : kf_fail_memory(&ctx->err);
  for (uint64_t i = 0; status == KF_OK && i < n; i++)
    if (p->rows[i] >= own.first && p->rows[i] < own.last)
      status = p->from->fetch(p->from, ctx->kernels, p->rows[i], 1,
                              (float *)(void *)(p->copies + i * p->words), NULL, &ctx->err);
  p->data.ends = NULL;
  return kf_sum_u64(ctx, status, p->copies, n * p->words);
}

kf_status kf_data_new_collected(kf_ctx *ctx, const kf_data *from, const uint64_t *rows, uint64_t n,
                                kf_data **out) {
  if (from->ends == NULL) return kf_data_new_pick(from, rows, n, out, &ctx->err);
  kf_data *data = NULL;
  kf_status status = kf_agree_on(ctx, kf_data_new_pick(from, rows, n, &data, &ctx->err));
  if (status == KF_OK) status = collect(ctx, (pick *)data);
  KF_HAND_OUT(status, out, data, kf_data_free);
}

/* --- the rows of some classes ---------------------------------------------------------------
 *
 * Classes keep their numbers and names, so that statistics and galleries of the subset
 * can be combined with those of the whole. It takes one pass over the labels, and 8 bytes
 * per row of the subset. */

typedef struct choice {
  int32_t *place; /* [classes] position in the list; -1: not wanted */
  uint64_t *rows; /* [n] chosen so far, ascending */
  size_t n, room;
} choice;

/* A list without any class of the data is a mistake; one with more classes is not. */
static kf_status find_classes(const kf_data *data, const char *list, int32_t *place, kf_err *err) {
  kf_names names;
  KF_TRY(kf_names_read(list, &names, err));
  kf_classes own = {"the data", data->names.n, &data->names}, listed = {list, names.n, &names};
  kf_status status = kf_match_classes(&own, &listed, place, err);
  bool found = false;
  for (uint32_t k = 0; status == KF_OK && k < own.n; k++) found |= place[k] >= 0;
  if (status == KF_OK && !found) status = kf_fail_file(err, list, "lists no class of the data");
  kf_names_clear(&names);
  return status;
}

static kf_status choose_rows(void *argument, const kf_batch *b, kf_err *err) {
  choice *c = argument;
  for (uint64_t i = 0; i < b->n; i++) {
    if (b->labels[i] < 0 || c->place[b->labels[i]] < 0) continue;
    if (!kf_grow((void **)&c->rows, &c->room, c->n, sizeof *c->rows)) return kf_fail_memory(err);
    c->rows[c->n++] = b->first + i;
  }
  return KF_OK;
}

static kf_status choose(kf_ctx *ctx, const kf_data *data, const char *list, choice *c) {
  c->place = kf_alloc(data->names.n, sizeof *c->place);
  if (c->place == NULL) return kf_fail_memory(&ctx->err);
  KF_TRY(find_classes(data, list, c->place, &ctx->err));
  kf_pass pass = {.workers = 1, .labels_only = true, .work = choose_rows, .argument = c};
  KF_TRY(kf_each_batch(ctx, data, &pass));
  if (c->n > 0) return KF_OK;
  return kf_fail_file(&ctx->err, list, "no row belongs to one of its classes");
}

kf_status kf_data_keep_only(kf_ctx *ctx, kf_data **data, const char *list) {
  if ((*data)->names.n == 0)
    return kf_fail(&ctx->err, KF_ERR_ARG, "%s: the classes of the data have no names", list);
  choice c = {0};
  kf_status status = choose(ctx, *data, list, &c);
  kf_free(c.place);
  if (status != KF_OK) {
    kf_free(c.rows);
    return status;
  }
  return kf_data_keep_rows(data, c.rows, c.n, &ctx->err);
}
