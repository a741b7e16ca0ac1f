/* near.c - counts training rows that are nearly copies of others: the same photo twice, frames of a
 * video.
 *
 * Such a row is easy to classify while its twin stays in, so leave-one-out is optimistic and lambda
 * comes out too small. A sample is enough for a warning: up to QUERIES rows, each compared with the
 * rows of its class.
 *
 * Two rows of a class are 2 trace(S_w) / (N - K) apart on average (squared). On real CLIP
 * embeddings (ImageNet, Pets, Caltech-101, Flowers, textures; ViT-B/32 and RN50) the nearest row of
 * the class is about half as far, and below 0.15 of that for 0.1 to 3.5 % of the rows, most of
 * which are indeed the same picture. This measure does not depend on the unit of the rows. It fails
 * where rows vary in few directions only, since some rows then come close by chance. The number of
 * directions in use is estimated as trace(S_w)^2 / |S_w|^2 (47 to 112 for these sets); if it is too
 * small, only copies are counted. */
#include "choose/choose.h"

#include <math.h>

#define QUERIES         1000u  /* rows whose nearest row is found */
#define MOST_ROWS       32768u /* of the classes that are searched */
#define MOST_OF_A_CLASS 2048u  /* the first ones: frames of a video follow each other */
#define NEAR            0.15   /* of the mean squared distance between two rows of a class */
#define COPY            1e-9
#define LEAST_IN_USE    20.0 /* directions */
#define WARNING_SHARE   0.05 /* of near rows, which must be exceeded with 95 % confidence */
#define AT_ONCE         64u  /* distances computed by one call */

typedef struct near_job {
  kf_ctx *ctx;
  const kf_data *data;
  const uint32_t *groups; /* NULL: none */
  bool unit;              /* rows are scaled to unit length */
  uint64_t *most;         /* [n_classes] rows of each class to search; 0: skip the class */
  kf_row_list rows;       /* class by class, rising in each */
  kf_data *chosen;        /* the same rows as a data set */
  uint64_t *ends;         /* [n_classes] where the rows of each class end */
  uint64_t queries;
  double near, copy;   /* squared distances */
  kf_near_rows *found; /* [n_classes] */
  kf_arena arena;
} near_job;

/* --- which rows ------------------------------------------------------------------------------- */

static void choose_classes(near_job *j, const kf_stats *stats) {
  uint64_t classes = 0, rows = 0, seen = 0;
  for (uint32_t k = 0; k < stats->n_classes; k++) {
    uint64_t n = stats->counts[k] > 1 ? (uint64_t)stats->counts[k] : 0;
    j->most[k] = n < MOST_OF_A_CLASS ? n : MOST_OF_A_CLASS;
    classes += n > 0;
    rows += j->most[k];
  }
  if (rows <= MOST_ROWS) return;
  uint64_t share = classes * MOST_ROWS / rows; /* at least 16 of them fit */
  for (uint32_t k = 0; k < stats->n_classes; k++)
    if (j->most[k] > 0 && !kf_takes(seen++, share, classes)) j->most[k] = 0;
}

/* --- one class -------------------------------------------------------------------------------- */

static bool same_group(const near_job *j, uint64_t a, uint64_t b) {
  return j->groups != NULL && j->groups[j->rows.row[a]] == j->groups[j->rows.row[b]];
}

/* The squared distance from a row to the nearest other row of its class outside its group, among n
 * rows from `begin` on; infinite if there is none. */
static double nearest_to(const near_job *j, const float *rows, uint64_t begin, uint64_t n,
                         uint64_t row) {
  uint32_t dim = j->data->dim;
  double best = INFINITY;
  for (uint64_t first = 0; first < n; first += AT_ONCE) {
    const float *others[AT_ONCE];
    double distance[AT_ONCE];
    size_t m = 0;
    for (uint64_t i = first; i < n && i < first + AT_ONCE; i++)
      if (i != row && !same_group(j, begin + i, begin + row)) others[m++] = rows + i * dim;
    if (m == 0) continue;
    j->ctx->kernels->distances(rows + row * dim, others, m, dim, distance);
    for (size_t i = 0; i < m; i++)
      if (distance[i] < best) best = distance[i];
  }
  return best;
}

static kf_status fetch_class(const near_job *j, uint64_t begin, uint64_t n, float *rows,
                             double *norm2, kf_err *err) {
  kf_status status = kf_data_fetch(j->chosen, j->ctx->kernels, begin, n, rows, NULL, norm2, err);
  uint32_t dim = j->data->dim;
  for (uint64_t i = 0; status == KF_OK && j->unit && i < n; i++)
    kf_unit_f32(rows + i * dim, norm2[i], dim, rows + i * dim);
  return status;
}

static kf_status search_class(void *argument, size_t k, size_t worker, kf_err *err) {
  const near_job *j = argument;
  (void)worker;
  uint64_t begin = k > 0 ? j->ends[k - 1] : 0, n = j->ends[k] - begin;
  if (n < 2) return KF_OK;
  kf_arena arena = {0};
  float *rows;
  double *norm2;
  KF_TAKE(&arena, rows, n * j->data->dim);
  KF_TAKE(&arena, norm2, n);
  kf_status status =
      arena.failed ? kf_fail_memory(err) : fetch_class(j, begin, n, rows, norm2, err);
  for (uint64_t i = 0; status == KF_OK && i < n; i++) {
    if (!kf_takes(begin + i, j->queries, j->rows.n)) continue;
    double distance = nearest_to(j, rows, begin, n, i);
    j->found[k].n++;
    j->found[k].near += distance <= j->near;
    j->found[k].copies += distance <= j->copy;
  }
  kf_arena_free(&arena);
  return status;
}

/* --- all of it -------------------------------------------------------------------------------- */

static kf_status search(near_job *j, const kf_stats *stats) {
  kf_ctx *ctx = j->ctx;
  uint32_t k = stats->n_classes;
  KF_TAKE(&j->arena, j->most, k);
  KF_TAKE(&j->arena, j->ends, k);
  KF_TAKE_ZERO(&j->arena, j->found, k);
  if (j->arena.failed) return kf_fail_memory(&ctx->err);
  choose_classes(j, stats);
  KF_TRY(kf_first_rows(ctx, j->data, j->most, j->ends, &j->rows));
  KF_TRY(kf_data_new_collected(ctx, j->data, j->rows.row, j->rows.n, &j->chosen));
  j->queries = j->rows.n < QUERIES ? j->rows.n : QUERIES;
  return kf_parallel(ctx, k, search_class, j);
}

/* Sets the distances that count as near and as a copy; false if there is no scatter. */
static bool set_distances(near_job *j, const kf_stats *stats, double trace, double norm2) {
  uint64_t with_rows = 0;
  for (uint32_t k = 0; k < stats->n_classes; k++) with_rows += stats->counts[k] > 0;
  if (!(trace > 0 && stats->rows > with_rows)) return false;
  double typical = 2 * trace / (double)(stats->rows - with_rows);
  j->copy = COPY * typical;
  j->near = trace * trace >= LEAST_IN_USE * norm2 ? NEAR * typical : j->copy;
  return true;
}

static kf_status count(near_job *j, const kf_stats *stats, double trace, double norm2,
                       kf_near_rows *out) {
  kf_near_rows found = {0};
  bool any = set_distances(j, stats, trace, norm2);
  kf_status status = any ? search(j, stats) : KF_OK;
  for (uint32_t k = 0; status == KF_OK && any && k < stats->n_classes; k++) {
    found.n += j->found[k].n;
    found.near += j->found[k].near;
    found.copies += j->found[k].copies;
  }
  double low, high;
  kf_interval95(found.near, found.n, &low, &high);
  found.many = found.n > 0 && low > WARNING_SHARE;
  kf_data_free(j->chosen);
  kf_row_list_clear(&j->rows);
  kf_arena_free(&j->arena);
  if (status == KF_OK) *out = found;
  return status;
}

kf_status kf_near_duplicates(kf_ctx *ctx, const kf_stats *stats, const kf_data *data,
                             kf_near_rows *out) {
  KF_ENTER(ctx, stats != NULL && data != NULL && out != NULL);
  KF_TRY(kf_check_statistics_of(stats, data, err));
  double trace, norm2;
  KF_TRY(kf_measure_within(ctx, stats, &trace, &norm2));
  near_job j = {.ctx = ctx, .data = data, .unit = stats->normalized};
  return count(&j, stats, trace, norm2, out);
}

kf_status kf_near_outside(const kf_fitter *fitter, const kf_data *data, const uint32_t *groups,
                          kf_near_rows *out) {
  const kf_stats *stats = fitter->within;
  near_job j = {.ctx = fitter->ctx, .data = data, .groups = groups, .unit = stats->normalized};
  return count(&j, stats, fitter->trace, fitter->norm2, out);
}
