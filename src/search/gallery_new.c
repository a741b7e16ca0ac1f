/* gallery_new.c - a gallery in memory, made from a data set without a file in between. */
#include "search/gallery.h"

typedef struct maker {
  kf_ctx *ctx;
  const kf_data *data;
  const kf_space *space;
} maker;

static kf_status fetch_mapped(const void *self, const kf_kernels *kernels, uint64_t first,
                              uint64_t n, float *rows, kf_err *err) {
  const maker *m = self;
  uint64_t dim = m->data->dim, out = m->space->dim;
  float *fetched = kf_alloc(n * dim, sizeof *fetched);
  int32_t *labels = kf_alloc(n, sizeof *labels);
  double *norm2 = kf_alloc(n, sizeof *norm2);
  kf_status status = fetched && labels && norm2
                         ? kf_data_fetch(m->data, kernels, first, n, fetched, labels, norm2, err)
                         : kf_fail_memory(err);
  if (status == KF_OK) status = kf_to_space(m->space, kernels, fetched, norm2, n, rows, err);
  for (uint64_t i = 0; status == KF_OK && i < n && m->space->metric == KF_METRIC_COSINE; i++)
    if (kernels->norm2(rows + i * out, (size_t)out) == 0) {
      char where[KF_WHERE_SIZE];
      m->data->where(m->data, first + i, where, sizeof where);
      status = kf_fail(err, KF_ERR_DATA, "%s: is mapped to zero, and has no direction", where);
    }
  kf_free(fetched);
  kf_free(labels);
  kf_free(norm2);
  return status;
}

/* The rows that are not bad, under skip_bad. */
static kf_status find_good(kf_ctx *ctx, const kf_data *data, uint64_t **rows, uint64_t *n) {
  kf_err *err = &ctx->err;
  uint64_t chunk = kf_data_chunk(data->dim);
  float *x = kf_alloc(chunk * data->dim, sizeof *x);
  int32_t *labels = kf_alloc(chunk, sizeof *labels);
  *rows = kf_alloc(data->rows, sizeof **rows);
  *n = 0;
  kf_status status = x && labels && *rows ? KF_OK : kf_fail_memory(err);
  for (uint64_t first = 0; status == KF_OK && first < data->rows; first += chunk) {
    uint64_t count = data->rows - first < chunk ? data->rows - first : chunk;
    status = kf_data_fetch(data, ctx->kernels, first, count, x, labels, NULL, err);
    for (uint64_t i = 0; status == KF_OK && i < count; i++)
      if (labels[i] != KF_LABEL_BAD) (*rows)[(*n)++] = first + i;
  }
  kf_free(x);
  kf_free(labels);
  return status;
}

static kf_status take_labels(const maker *m, kf_gallery *g) {
  kf_err *err = &m->ctx->err;
  if (!m->data->has_labels) return KF_OK;
  g->n_classes = m->data->n_classes;
  g->labels = kf_alloc(g->rows, sizeof *g->labels);
  g->counts = kf_alloc_zero(g->n_classes, sizeof *g->counts);
  if (g->labels == NULL || g->counts == NULL) return kf_fail_memory(err);
  KF_TRY(kf_names_copy((const char *const *)m->data->names.name, m->data->names.n, &g->names, err));
  KF_TRY(kf_data_fetch(m->data, m->ctx->kernels, 0, g->rows, NULL, g->labels, NULL, err));
  for (uint64_t i = 0; i < g->rows; i++)
    if (g->labels[i] >= 0) g->counts[g->labels[i]]++;
  return KF_OK;
}

static kf_status make(const maker *m, kf_gallery *g) {
  kf_err *err = &m->ctx->err;
  g->rows = m->data->rows;
  g->in_memory = g->sound = true;
  g->in.fd = -1;
  g->space = *m->space;
  if (g->rows == 0) return kf_fail(err, KF_ERR_DATA, "a gallery needs at least one row");
  if (m->space->map != NULL)
    KF_TRY(kf_model_new_shorter(m->space->map, m->space->map->dim_out, &g->map, err));
  g->space.map = g->map;
  KF_TRY(take_labels(m, g));
  kf_source source = {.rows = g->rows, .dim = g->space.dim, .fetch = fetch_mapped, .self = m};
  return kf_index_build(m->ctx, &source, g->space.metric, false, &g->index);
}

kf_status kf_gallery_new(kf_ctx *ctx, const kf_data *data, const kf_model *model,
                         const kf_gallery_options *options, kf_gallery **out) {
  KF_ENTER(ctx, data != NULL && out != NULL);
  kf_gallery_options o = options != NULL ? *options : (kf_gallery_options){0};
  if (o.ids != NULL || o.append_to != NULL)
    return kf_fail(err, KF_ERR_ARG, "kf_gallery_new: ids and append_to are for files");
  kf_space space;
  KF_TRY(kf_space_for(model, data, o.metric, &space, err));
  uint64_t *rows = NULL, n;
  kf_data *good = NULL;
  kf_gallery *g = kf_alloc_zero(1, sizeof *g);
  kf_status status = g != NULL ? KF_OK : kf_fail_memory(err);
  if (status == KF_OK && data->skip_bad) {
    status = find_good(ctx, data, &rows, &n);
    if (status == KF_OK) status = kf_data_new_pick(data, rows, n, &good, err);
  }
  maker m = {.ctx = ctx, .data = good != NULL ? good : data, .space = &space};
  if (status == KF_OK) status = make(&m, g);
  kf_data_free(good);
  kf_free(rows);
  if (status == KF_OK)
    *out = g;
  else
    kf_gallery_free(g);
  return status;
}
