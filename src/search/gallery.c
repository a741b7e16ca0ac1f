/* gallery.c - loading, searching and freeing a gallery.
 *
 * Queries come from the original space. They go through the map of the gallery as its rows did, a
 * batch at a time on all threads, and then to the index.
 *
 * Embeddings of text are offset from those of pictures, nearly independently of their content, and
 * a map of pictures magnifies parts of the offset (text_prototypes.c). So a text t with the text
 * mean n goes to T (t - n). The rows need no change: the mean m of the pictures adds (t - n) A m to
 * a score, with A = T'T, which is the same for all rows of a query. */
#include "device/device.h"
#include "search/device_rows.h"
#include "search/gallery.h"

#include <fcntl.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

/* A row by its number among those of this rank. */
static kf_status fetch_part(const void *self, const kf_kernels *kernels, uint64_t first, uint64_t n,
                            float *rows, kf_err *err) {
  const kf_gallery *g = self;
  return kf_gallery_fetch(g, kernels, first + g->first, n, rows, err);
}

static kf_status join_lengths(kf_ctx *ctx, kf_status status, kf_gallery *g) {
  const kf_ranks *r = &ctx->ranks;
  double *each = kf_alloc_zero(r->size, sizeof *each);
  if (status == KF_OK && each == NULL) status = kf_fail_memory(&ctx->err);
  if (status == KF_OK) each[r->rank] = kf_index_own_max_length(g->index);
  status = kf_join_each(ctx, status, each, sizeof *each);
  for (uint32_t i = 0; status == KF_OK && i < r->size; i++)
    kf_index_raise_max_length(g->index, each[i]);
  kf_free(each);
  return status;
}

/* Each rank holds a part of the rows, unless there are fewer rows than ranks. */
static kf_status build_index(kf_ctx *ctx, kf_gallery *g, uint64_t queries) {
  bool divided = kf_is_shared(&ctx->ranks) && g->rows >= ctx->ranks.size;
  kf_range own = divided ? kf_share_of(&ctx->ranks, g->rows, 1) : (kf_range){0, g->rows};
  g->first = own.first;
  kf_source source = {.rows = own.last - own.first,
                      .dim = g->space.dim,
                      .fetch = fetch_part,
                      .self = g,
                      .queries = queries,
                      .dtype = g->space.dtype,
                      .first = own.first,
                      .all = divided ? g->rows : 0};
  kf_status status = kf_index_build(ctx, &source, g->space.metric, g->in_place, &g->index);
  KF_TRY(divided ? join_lengths(ctx, status, g) : status);
  g->sound = true;
  /* So far files were read sequentially; from now on at random. */
  for (uint32_t i = 0; i < g->n_parts; i++)
    if (g->parts[i].in.parked == NULL) posix_fadvise(g->parts[i].in.fd, 0, 0, POSIX_FADV_RANDOM);
  return kf_gallery_unchanged(g, &ctx->err);
}

static kf_status open_all(kf_ctx *ctx, const char *path, const kf_gallery_load_options *o,
                          kf_gallery **out) {
  kf_err *err = &ctx->err;
  bool verify = ctx->ranks.rank == 0;
  KF_TRY(kf_gallery_open(path, verify, out, err));
  (*out)->origin.any = ctx->options.any_encoder != 0;
  if (o->n_more == 0) return KF_OK;
  return o->more != NULL ? kf_gallery_join(*out, o->more, o->n_more, verify, err)
                         : kf_fail(err, KF_ERR_ARG, "the paths of galleries are missing");
}

/* Whether all ranks have opened the same state of the files and changes. */
static kf_status compare_ranks(kf_ctx *ctx, uint64_t state, bool *same) {
  const kf_ranks *r = &ctx->ranks;
  uint64_t *each = kf_alloc_zero(r->size, sizeof *each);
  kf_status status = each != NULL ? KF_OK : kf_fail_memory(&ctx->err);
  if (status == KF_OK) each[r->rank] = state;
  status = kf_join_each(ctx, status, each, sizeof *each);
  *same = true;
  for (uint32_t i = 0; status == KF_OK && i < r->size; i++) *same &= each[i] == state;
  kf_free(each);
  return status;
}

/* Some ranks may open the gallery before a change and others after it, so they try again until all
 * see the same. With a network file system that caches, this can take a while. */
static kf_status open_alike(kf_ctx *ctx, const char *path, const kf_gallery_load_options *o,
                            kf_gallery **out) {
  for (int round = 0; round < 100; round++) {
    bool same = true;
    kf_status status = kf_agree_on(ctx, open_all(ctx, path, o, out));
    if (status == KF_OK && kf_is_shared(&ctx->ranks))
      status = compare_ranks(ctx, (*out)->state, &same);
    if (status != KF_OK || same) return status;
    kf_gallery_free(*out);
    *out = NULL;
    nanosleep(&(struct timespec){.tv_nsec = 50 * 1000000}, NULL);
  }
  return kf_fail(&ctx->err, KF_ERR_IO,
                 "%s: the ranks see it, or a gallery beside it, in different states", path);
}

kf_status kf_gallery_load(kf_ctx *ctx, const char *path, const kf_gallery_load_options *options,
                          kf_gallery **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, path != NULL && out != NULL);
  KF_OPTIONS(kf_gallery_load_options, o, options);
  kf_gallery *g = NULL;
  kf_status status = open_alike(ctx, path, &o, &g);
  if (status == KF_OK) {
    g->in_place = o.rerank_from_disk != 0;
    status = build_index(ctx, g, o.queries);
  }
  KF_HAND_OUT(status, out, g, kf_gallery_free);
}

static void free_text_map(struct kf_text_map *t) {
  if (t == NULL) return;
  kf_arena_free(&t->arena);
  kf_free(t);
}

void kf_gallery_free(kf_gallery *g) {
  if (g == NULL) return;
  free_text_map(atomic_load(&g->text_map));
  kf_index_free(g->index);
  kf_names_clear(&g->names);
  kf_arena_free(&g->arena);
  for (uint32_t i = 0; i < g->n_parts; i++) kf_in_close(&g->parts[i].in);
  kf_free(g->parts);
  kf_free(g->place);
  kf_free(g);
}

uint64_t kf_gallery_rows(const kf_gallery *g) { return g->rows; }
uint32_t kf_gallery_dim_in(const kf_gallery *g) {
  return g->space.map != NULL ? g->space.map->dim_in : g->space.dim;
}
uint32_t kf_gallery_dim(const kf_gallery *g) { return g->space.dim; }
kf_metric kf_gallery_metric(const kf_gallery *g) { return g->space.metric; }
kf_dtype kf_gallery_dtype(const kf_gallery *g) { return g->space.dtype; }
int kf_gallery_mapped(const kf_gallery *g) { return g->space.map != NULL; }
uint32_t kf_gallery_k(const kf_gallery *g) { return g->k; }
int kf_gallery_has_labels(const kf_gallery *g) { return g->labels != NULL; }
uint32_t kf_gallery_classes(const kf_gallery *g) { return g->n_classes; }
const kf_index *kf_gallery_index(const kf_gallery *g) { return g->index; }
const kf_origin *kf_gallery_origin(const kf_gallery *g) { return kf_origin_known(&g->origin); }

const char *kf_gallery_class_name(const kf_gallery *g, uint32_t k) {
  return k < g->names.n ? g->names.name[k] : NULL;
}

int32_t kf_gallery_label(const kf_gallery *g, uint64_t row) {
  return g->labels != NULL && row < g->rows ? g->labels[row] : KF_LABEL_NONE;
}

const char *kf_gallery_id(const kf_gallery *g, uint64_t row) {
  if (g->ids == NULL || row >= g->rows) return NULL;
  /* After the ids before it, each with a NUL. */
  return g->ids + (row > 0 ? g->id_ends[row - 1] : 0) + row;
}

int kf_gallery_made_with(const kf_gallery *g, const kf_model *model) {
  return g->space.map != NULL && kf_map_equal(g->space.map, &model->map);
}

/* --- queries --------------------------------------------------------------------------------- */

kf_status kf_gallery_check_data(const kf_gallery *g, const kf_data *data, kf_err *err) {
  if (g->space.map != NULL) KF_TRY(kf_map_refuse_mapped(g->space.map, data, err));
  KF_TRY(kf_origin_agree(&data->origin, &g->origin, err));
  if (data->dim == kf_gallery_dim_in(g)) return KF_OK;
  return kf_fail_row(err, data, KF_ALL_ROWS, KF_HINT_NONE,
                     "has %u columns, but the gallery takes %u", data->dim, kf_gallery_dim_in(g));
}

kf_status kf_gallery_takes(kf_ctx *ctx, const kf_gallery *gallery, const kf_data *data) {
  KF_ENTER(ctx, gallery != NULL && data != NULL);
  return kf_gallery_check_data(gallery, data, err);
}

/* The queries a thread searches for in about half a second, so that cancelling takes effect soon,
 * but enough for a pass over all rows to pay; answers for any k fit in 64 MiB. */
uint64_t kf_gallery_batch(const kf_ctx *ctx, const kf_gallery *g) {
  static const int product_bits[] = {
      [KF_ISA_PLAIN] = 29, [KF_ISA_AVX2] = 35, [KF_ISA_AVX512] = 36, [KF_ISA_AMX] = 38};
  const uint64_t least = 64, most = 4096, bytes = (uint64_t)64 << 20;
  if (ctx == NULL || g == NULL) return least;
  uint64_t soon = ((uint64_t)1 << product_bits[kf_ctx_isa(ctx)]) / g->space.dim / g->rows;
  uint64_t n = (soon > least ? soon : least) * kf_ctx_threads(ctx);
  if (kf_devices_known(ctx) && ctx->devices->n > 0) n = most; /* fast enough there */
  uint64_t fit = bytes / (kf_gallery_dim_in(g) * sizeof(float) +
                          KF_MAX_NEIGHBOURS * (sizeof(int64_t) + sizeof(double)));
  if (n > fit) n = fit;
  return n < most ? n : most;
}

kf_status kf_space_for(const kf_map *map, const kf_data *data, kf_metric metric, kf_space *out,
                       kf_err *err) {
  if ((unsigned)metric > KF_METRIC_INNER) return kf_fail_metric(metric, err);
  if (map != NULL) KF_TRY(kf_map_check_data(map, data, err));
  *out = (kf_space){.dim = map != NULL ? map->dim_out : data->dim,
                    .metric = kf_metric_for(metric, map == NULL || map->normalized),
                    .map = map};
  return KF_OK;
}

/* Adds a shift to unit rows and scales them to unit length again. */
static kf_status shift_rows(const kf_kernels *kernels, const float *rows, const double *norm2,
                            const double *shift, uint64_t n, uint32_t dim, float *out,
                            kf_err *err) {
  double *x = kf_alloc(dim, sizeof *x);
  if (x == NULL) return kf_fail_memory(err);
  for (uint64_t i = 0; i < n; i++) {
    double scale = 1 / sqrt(norm2[i]);
    for (uint32_t k = 0; k < dim; k++) x[k] = (double)rows[i * dim + k] * scale + shift[k];
    kf_unit_row(kernels, x, dim, out + i * dim);
  }
  kf_free(x);
  return KF_OK;
}

static kf_status shift_to_space(const kf_space *space, const kf_kernels *kernels, const float *rows,
                                const double *norm2, const double *shift, uint64_t n, float *out,
                                kf_err *err) {
  bool unit = space->metric == KF_METRIC_COSINE; /* so that mapped rows cannot overflow */
  if (space->map != NULL)
    return kf_map_rows(space->map, kernels, rows, norm2, shift, n, unit, out, err);
  if (shift != NULL) return shift_rows(kernels, rows, norm2, shift, n, space->dim, out, err);
  memcpy(out, rows, n * space->dim * sizeof *out);
  return KF_OK;
}

kf_status kf_to_space(const kf_space *space, const kf_kernels *kernels, const float *rows,
                      const double *norm2, uint64_t n, float *out, kf_err *err) {
  return shift_to_space(space, kernels, rows, norm2, NULL, n, out, err);
}

typedef struct mapping_job {
  const kf_gallery *gallery;
  const kf_kernels *kernels;
  const float *queries; /* [n][dim_in] */
  double *shift;        /* [dim_in] for text; NULL: not text */
  kf_space space;       /* of the queries; text has a map of its own */
  uint64_t first, n;    /* `first`: number of the first one, for messages */
  float *mapped;        /* [n][dim] */
  kf_mapping mapping;   /* if there is a map and no shift */
  uint64_t each;        /* queries of a task, at most MAX_BATCH */
} mapping_job;

#define MAX_BATCH 2048u

static kf_status check_query(const mapping_job *j, uint64_t i, double *norm2, kf_err *err) {
  const kf_space *space = &j->gallery->space;
  uint32_t dim = kf_gallery_dim_in(j->gallery);
  bool direction = space->map != NULL ? space->map->normalized : space->metric == KF_METRIC_COSINE;
  *norm2 = j->kernels->norm2(j->queries + i * dim, dim);
  KF_TRY(kf_check_norm2("query", j->first + i, *norm2, direction, err));
  /* If lengths are kept, zero is a point like any other, but kf_map_rows takes a length of 0 for a
   * bad row; it uses lengths for nothing else then. */
  if (*norm2 == 0) *norm2 = 1;
  return KF_OK;
}

static kf_status map_batch(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  const mapping_job *j = argument;
  uint64_t first = (uint64_t)i * j->each, left = j->n - first, n = left < j->each ? left : j->each;
  double norm2[MAX_BATCH];
  for (uint64_t r = 0; r < n; r++) KF_TRY(check_query(j, first + r, &norm2[r], err));
  const kf_space *space = &j->space;
  const float *queries = j->queries + first * kf_gallery_dim_in(j->gallery);
  float *mapped = j->mapped + first * space->dim;
  if (j->mapping.map != NULL) return kf_mapping_rows(&j->mapping, queries, norm2, n, mapped, err);
  KF_TRY(shift_to_space(space, j->kernels, queries, norm2, j->shift, n, mapped, err));
  for (uint64_t r = 0; j->shift != NULL && r < n; r++)
    if (j->kernels->norm2(mapped + r * space->dim, space->dim) == 0)
      return kf_fail(err, KF_ERR_DATA, "query %llu is the text mean and has no direction",
                     (unsigned long long)(j->first + first + r));
  return KF_OK;
}

/* Whether texts go through a map of their own. */
static bool maps_text(const kf_gallery *g) {
  return g->space.map != NULL && g->space.map->method == KF_METHOD_SHRUNK;
}

/* Apart from this, a gallery is immutable. */
static _Atomic(struct kf_text_map *) *text_map_of(const kf_gallery *g) {
  return &((kf_gallery *)(uintptr_t)g)->text_map;
}

/* If several threads prepare a gallery at once, the first to finish wins. */
kf_status kf_gallery_prepare_text(kf_ctx *ctx, const kf_gallery *gallery) {
  KF_ENTER(ctx, gallery != NULL);
  if (!maps_text(gallery) || atomic_load(text_map_of(gallery)) != NULL) return KF_OK;
  struct kf_text_map *made = kf_alloc_zero(1, sizeof *made), *none = NULL;
  if (made == NULL) return kf_fail_memory(err);
  kf_status status = kf_map_for_text(ctx, &gallery->map, &made->map, &made->arena);
  if (status != KF_OK || !atomic_compare_exchange_strong(text_map_of(gallery), &none, made))
    free_text_map(made);
  return status;
}

/* Sets the map and the shift that bring text to where pictures are. */
static kf_status find_shift(mapping_job *j, const double *text_mean, kf_arena *arena, kf_err *err) {
  const kf_space *space = &j->gallery->space;
  const kf_map *map = space->map;
  if (text_mean == NULL) return KF_OK;
  if (maps_text(j->gallery)) {
    struct kf_text_map *prepared = atomic_load(text_map_of(j->gallery));
    if (prepared == NULL)
      return kf_fail(err, KF_ERR_ARG,
                     "text_mean is for a gallery that kf_gallery_prepare_text has prepared");
    j->space.map = &prepared->map;
  }
  if (map != NULL ? !map->normalized : space->metric != KF_METRIC_COSINE)
    return kf_fail(err, KF_ERR_ARG,
                   "the gallery keeps the lengths of rows, which text cannot be compared with");
  uint32_t dim = kf_gallery_dim_in(j->gallery);
  KF_TAKE(arena, j->shift, dim);
  if (arena->failed) return kf_fail_memory(err);
  for (uint32_t i = 0; i < dim; i++) {
    if (!isfinite(text_mean[i]))
      return kf_fail(err, KF_ERR_ARG, "the text mean has a NaN or an infinity");
    j->shift[i] = (map != NULL && map->centre == KF_CENTRE_MEAN ? map->mean[i] : 0) - text_mean[i];
  }
  return KF_OK;
}

/* Brings all queries to the space of the rows. */
static kf_status map_all(kf_ctx *ctx, mapping_job *j) {
  const kf_space *space = &j->space;
  bool unit = space->metric == KF_METRIC_COSINE;
  KF_TRY(kf_mapping_begin(ctx, j->shift == NULL ? space->map : NULL, unit,
                          &j->gallery->index->devices->map, j->n, &j->mapping));
  j->each = kf_mapping_batch(&j->mapping, KF_MAP_ROWS);
  if (j->each > MAX_BATCH) j->each = MAX_BATCH;
  size_t tasks = (size_t)((j->n + j->each - 1) / j->each);
  return kf_mapping_end(ctx, &j->mapping, kf_parallel(ctx, tasks, map_batch, j));
}

/* Queries that are far from the training rows, whose mean cosine with their mean m is |m|. */
static uint64_t count_far(const mapping_job *j) {
  const kf_map *map = j->gallery->space.map;
  if (map == NULL || !map->normalized) return 0;
  uint64_t n = 0;
  uint32_t dim = map->dim_in;
  double m2 = 0;
  for (uint32_t k = 0; k < dim; k++) m2 += map->mean[k] * map->mean[k];
  for (uint64_t i = 0; i < j->n && m2 > 0; i++) {
    const float *x = j->queries + i * dim;
    double dot = 0;
    for (uint32_t k = 0; k < dim; k++) dot += (double)x[k] * map->mean[k];
    n += dot < 0.5 * m2 * sqrt(j->kernels->norm2(x, dim));
  }
  return n;
}

/* --- searching ------------------------------------------------------------------------------- */

/* reads: rows are read from the file during the search, so it must not have changed. */
static kf_status search_rows(kf_ctx *ctx, const kf_gallery *g, bool reads, kf_request r,
                             kf_search_report *report) {
  r.index = g->index;
  r.candidates = report != NULL ? &report->candidates : NULL;
  KF_TRY(kf_nearest(ctx, &r));
  if (reads) KF_TRY(kf_gallery_unchanged(g, &ctx->err));
  if (report != NULL) report->queries += r.n;
  return KF_OK;
}

kf_status kf_gallery_map_queries(kf_ctx *ctx, const kf_gallery *g, const float *queries,
                                 uint64_t first, uint64_t n, const kf_search_options *o,
                                 float **out, kf_search_report *report) {
  kf_err *err = &ctx->err;
  if (g->in_place) KF_TRY(kf_gallery_unchanged(g, err));
  mapping_job j = {.gallery = g,
                   .kernels = ctx->kernels,
                   .queries = queries,
                   .space = g->space,
                   .first = first,
                   .n = n};
  kf_arena arena = {0};
  uint64_t values;
  j.mapped = kf_mul_u64(n, g->space.dim, &values) ? kf_alloc(values, sizeof *j.mapped) : NULL;
  kf_status status =
      j.mapped == NULL ? kf_fail_memory(err) : find_shift(&j, o->text_mean, &arena, err);
  if (status == KF_OK) status = map_all(ctx, &j);
  if (status == KF_OK && report != NULL) report->far += count_far(&j);
  kf_arena_free(&arena);
  if (status == KF_OK)
    *out = j.mapped;
  else
    kf_free(j.mapped);
  return status;
}

kf_status kf_gallery_nearest(kf_ctx *ctx, const kf_gallery *g, const float *queries, uint64_t first,
                             uint64_t n, uint32_t k, const kf_search_options *o, int64_t *rows,
                             double *scores, kf_search_report *report) {
  KF_TRY(kf_filter_check(o->only, g, &ctx->err));
  KF_TRY(kf_check_neighbours(k, kf_filter_most(o->only, g->rows, o->leave_out, n), &ctx->err));
  float *mapped;
  KF_TRY(kf_gallery_map_queries(ctx, g, queries, first, n, o, &mapped, report));
  kf_request r = {.queries = mapped,
                  .n = n,
                  .k = k,
                  .leave_out = o->leave_out,
                  .only = o->only,
                  .rows = rows,
                  .scores = scores};
  kf_status status = search_rows(ctx, g, g->in_place, r, report);
  kf_free(mapped);
  return status;
}

kf_status kf_gallery_search(kf_ctx *ctx, const kf_gallery *gallery, const float *queries,
                            uint64_t n, uint32_t k, const kf_search_options *options, int64_t *rows,
                            double *scores, kf_search_report *report) {
  KF_ENTER(ctx, gallery != NULL && (n == 0 || (queries != NULL && rows != NULL)));
  KF_OPTIONS(kf_search_options, o, options);
  return kf_gallery_nearest(ctx, gallery, queries, 0, n, k, &o, rows, scores, report);
}

kf_status kf_gallery_own_rows(kf_ctx *ctx, const kf_gallery *gallery, uint64_t first, uint64_t n,
                              uint64_t most, kf_arena *arena, float **rows, int64_t **leave_out) {
  kf_err *err = &ctx->err;
  if (first > gallery->rows || n > gallery->rows - first)
    return kf_fail(
        err, KF_ERR_ARG, "%llu rows from row %llu go past the end of a gallery of %llu rows",
        (unsigned long long)n, (unsigned long long)first, (unsigned long long)gallery->rows);
  KF_TRY(kf_gallery_unchanged(gallery, err));
  if (n > most) n = most;
  KF_TAKE(arena, *rows, n * gallery->space.dim);
  KF_TAKE(arena, *leave_out, n);
  if (arena->failed) return kf_fail_memory(err);
  for (uint64_t i = 0; i < n; i++) (*leave_out)[i] = (int64_t)(first + i);
  return kf_gallery_fetch(gallery, ctx->kernels, first, n, *rows, err);
}

kf_status kf_gallery_search_itself(kf_ctx *ctx, const kf_gallery *gallery, uint64_t first,
                                   uint64_t n, uint32_t k, int64_t *rows, double *scores,
                                   kf_search_report *report) {
  KF_ENTER(ctx, gallery != NULL && (n == 0 || rows != NULL));
  KF_TRY(kf_check_neighbours(k, gallery->rows - 1, err));
  float *own;
  int64_t *leave_out;
  kf_arena arena = {0};
  kf_status status = kf_gallery_own_rows(ctx, gallery, first, n, n, &arena, &own, &leave_out);
  kf_request r = {
      .queries = own, .n = n, .k = k, .leave_out = leave_out, .rows = rows, .scores = scores};
  if (status == KF_OK) status = search_rows(ctx, gallery, true, r, report);
  kf_arena_free(&arena);
  return status;
}
