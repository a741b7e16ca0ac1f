/* gallery_new.c - makes a gallery in memory from a data set, without a file. */
#include "search/gallery.h"

#include <string.h>

typedef struct maker {
  kf_ctx *ctx;
  const kf_data *data;
  const kf_space *space;
} maker;

static kf_status fetch_mapped(const void *self, const kf_kernels *kernels, uint64_t first,
                              uint64_t n, float *rows, kf_err *err) {
  const maker *m = self;
  uint64_t dim = m->space->dim;
  float *fetched;
  double *norm2;
  kf_arena arena = {0};
  KF_TAKE(&arena, fetched, n * m->data->dim);
  KF_TAKE(&arena, norm2, n);
  kf_status status = arena.failed
                         ? kf_fail_memory(err)
                         : kf_data_fetch(m->data, kernels, first, n, fetched, NULL, norm2, err);
  if (status == KF_OK) status = kf_to_space(m->space, kernels, fetched, norm2, n, rows, err);
  for (uint64_t i = 0; status == KF_OK && i < n && m->space->metric == KF_METRIC_COSINE; i++)
    if (kernels->norm2(rows + i * dim, (size_t)dim) == 0)
      status = kf_fail_row(err, m->data, first + i, KF_HINT_NONE,
                           "is mapped to zero and has no direction");
  if (status == KF_OK)
    status = kf_round_rows(kernels, m->space->dtype, m->data, first, n, m->space->dim,
                           m->space->metric == KF_METRIC_COSINE, rows, err);
  kf_arena_free(&arena);
  return status;
}

/* --- skipping bad rows ----------------------------------------------------------------------- */

typedef struct good_rows {
  uint64_t *rows; /* [rows of the data set] */
  uint64_t n;
} good_rows;

static kf_status note_good(void *argument, const kf_batch *b, kf_err *err) {
  (void)err;
  good_rows *good = argument;
  for (uint64_t i = 0; i < b->n; i++)
    if (b->labels[i] != KF_LABEL_BAD) good->rows[good->n++] = b->first + i;
  return KF_OK;
}

static kf_status find_good(kf_ctx *ctx, const kf_data *data, kf_arena *arena, kf_data **out) {
  good_rows good = {0};
  KF_TAKE(arena, good.rows, data->rows);
  if (arena->failed) return kf_fail_memory(&ctx->err);
  KF_TRY(kf_each_batch(ctx, data, &(kf_pass){.workers = 1, .work = note_good, .argument = &good}));
  return kf_data_new_pick(data, good.rows, good.n, out, &ctx->err);
}

static kf_status take_labels(const maker *m, kf_gallery *g) {
  kf_err *err = &m->ctx->err;
  if (!m->data->has_labels) return KF_OK;
  g->has_labels = true;
  g->n_classes = m->data->n_classes;
  KF_TAKE(&g->arena, g->labels, g->rows);
  if (g->arena.failed) return kf_fail_memory(err);
  KF_TRY(kf_names_clone(&m->data->names, &g->names, err));
  KF_TRY(kf_data_fetch(m->data, m->ctx->kernels, 0, g->rows, NULL, g->labels, NULL, err));
  return kf_gallery_count(g, err);
}

typedef struct id_walk {
  kf_gallery *gallery;
  int64_t end; /* of the ids so far */
} id_walk;

static kf_status measure_id(void *argument, uint64_t row, const char *id, size_t length,
                            kf_err *err) {
  (void)row, (void)id, (void)err;
  ((id_walk *)argument)->end += (int64_t)length;
  return KF_OK;
}

static kf_status copy_id(void *argument, uint64_t row, const char *id, size_t length, kf_err *err) {
  id_walk *walk = argument;
  (void)err;
  memcpy(walk->gallery->ids + walk->end + row, id, length);
  walk->end += (int64_t)length;
  walk->gallery->ids[walk->end + (int64_t)row] = '\0';
  walk->gallery->id_ends[row] = walk->end;
  return KF_OK;
}

static kf_status take_ids(const maker *m, kf_gallery *g) {
  kf_err *err = &m->ctx->err;
  id_walk sizes = {0}, walk = {.gallery = g};
  if (m->data->fetch_ids == NULL) return KF_OK;
  KF_TRY(kf_data_each_id(m->data, measure_id, &sizes, err));
  KF_TAKE(&g->arena, g->id_ends, g->rows);
  KF_TAKE(&g->arena, g->ids, (uint64_t)sizes.end + g->rows);
  if (g->arena.failed) return kf_fail_memory(err);
  g->has_ids = true;
  return kf_data_each_id(m->data, copy_id, &walk, err);
}

static kf_status make(const maker *m, const kf_map *map, kf_gallery *g) {
  kf_err *err = &m->ctx->err;
  g->rows = m->data->rows;
  g->sound = true;
  if (g->rows == 0) return kf_fail(err, KF_ERR_DATA, "a gallery needs at least one row");
  if (map != NULL) {
    kf_map_make(&g->map, map->dim_in, g->space.dim, &g->arena);
    if (g->arena.failed) return kf_fail_memory(err);
    kf_map_copy(map, &g->map);
    g->space.map = &g->map;
  }
  g->origin = m->data->origin;
  if (map != NULL) KF_TRY(kf_origin_join(&g->origin, &map->origin, err));
  KF_TRY(take_labels(m, g));
  KF_TRY(take_ids(m, g));
  kf_source source = {.rows = g->rows,
                      .dim = g->space.dim,
                      .fetch = fetch_mapped,
                      .self = m,
                      .dtype = g->space.dtype};
  return kf_index_build(m->ctx, &source, g->space.metric, false, &g->index);
}

kf_status kf_gallery_make(kf_ctx *ctx, const kf_data *data, const kf_map *map, uint32_t dim,
                          kf_metric metric, kf_dtype dtype, kf_gallery **out) {
  kf_space space;
  KF_TRY(kf_check_rows_dtype(dtype, &ctx->err));
  KF_TRY(kf_space_for(map, data, metric, &space, &ctx->err));
  space.dtype = dtype;
  if (map != NULL) space.dim = dim;
  kf_data *good = NULL;
  kf_arena arena = {0};
  kf_gallery *g = kf_alloc_zero(1, sizeof *g);
  kf_status status = g != NULL ? KF_OK : kf_fail_memory(&ctx->err);
  if (status == KF_OK && data->skip_bad) status = find_good(ctx, data, &arena, &good);
  if (status == KF_OK) {
    g->space = space;
    status = make(&(maker){ctx, good != NULL ? good : data, &g->space}, map, g);
  }
  kf_data_free(good);
  kf_arena_free(&arena);
  KF_HAND_OUT(status, out, g, kf_gallery_free);
}

kf_status kf_gallery_new(kf_ctx *ctx, const kf_data *data, const kf_model *model,
                         const kf_gallery_options *options, kf_gallery **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, data != NULL && out != NULL);
  KF_OPTIONS(kf_gallery_options, o, options);
  if (o.ids != NULL || o.append_to != NULL)
    return kf_fail(err, KF_ERR_ARG, "kf_gallery_new: ids and append_to are for files");
  const kf_map *map = model != NULL ? &model->map : NULL;
  KF_TRY(kf_gallery_make(ctx, data, map, map != NULL ? map->dim_out : 0, o.metric, o.dtype, out));
  (*out)->k = o.k;
  return KF_OK;
}
