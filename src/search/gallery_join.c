/* gallery_join.c - joins several galleries into one.
 *
 * A gallery reads its rows from parts of files (gallery_file.c), so other galleries are just more
 * parts. One index covers all rows, and the answers are those of a single gallery, to the bit. */
#include "search/gallery.h"

#include <string.h>

/* --- what must agree ------------------------------------------------------------------------- */

static kf_status fail_other(const kf_gallery *a, const kf_gallery *b, const char *what,
                            kf_err *err) {
  return kf_fail(err, KF_ERR_DATA, "%s and %s cannot be searched as one: %s", kf_gallery_path(a),
                 kf_gallery_path(b), what);
}

static kf_status agree(kf_gallery *g, const kf_gallery *other, kf_err *err) {
  const kf_map *a = g->space.map, *b = other->space.map;
  if (g->space.metric != other->space.metric)
    return fail_other(g, other, "their metrics differ", err);
  if ((a == NULL) != (b == NULL) || (a != NULL && !kf_map_equal(a, b)))
    return fail_other(g, other, "they were made with different models", err);
  if (g->space.dim != other->space.dim)
    return fail_other(g, other, "their rows have different lengths", err);
  if (g->has_labels != other->has_labels)
    return fail_other(g, other, "only one of them has labels", err);
  if (g->has_ids != other->has_ids) return fail_other(g, other, "only one of them has ids", err);
  return kf_origin_join(&g->origin, &other->origin, err);
}

/* --- joining --------------------------------------------------------------------------------- */

/* Sets number[k], the joint number of class k of the other gallery. */
static kf_status join_names(kf_gallery *g, const kf_gallery *other, int32_t *number,
                            const char **list, kf_err *err) {
  kf_classes to = {kf_gallery_path(g), g->n_classes, &g->names};
  kf_classes from = {kf_gallery_path(other), other->n_classes, &other->names};
  kf_names names = {0};
  KF_TRY(kf_match_classes(&from, &to, number, err));
  uint32_t n = kf_join_classes(&to, &from, number, list);
  if (n > KF_MAX_CLASSES) return fail_other(g, other, "they have too many classes", err);
  KF_TRY(kf_names_copy(list, g->names.n > 0 ? n : 0, &names, err));
  kf_names_clear(&g->names);
  g->names = names;
  g->n_classes = n;
  return KF_OK;
}

static kf_status join_labels(kf_gallery *g, const kf_gallery *other, kf_err *err) {
  int32_t *number, *labels;
  const char **list;
  kf_arena arena = {0};
  KF_TAKE(&arena, number, other->n_classes);
  KF_TAKE(&arena, list, (uint64_t)g->n_classes + other->n_classes);
  KF_TAKE(&g->arena, labels, g->rows + other->rows);
  kf_status status = arena.failed || g->arena.failed ? kf_fail_memory(err)
                                                     : join_names(g, other, number, list, err);
  if (status == KF_OK) {
    memcpy(labels, g->labels, g->rows * sizeof *labels);
    for (uint64_t i = 0; i < other->rows; i++)
      labels[g->rows + i] = other->labels[i] < 0 ? other->labels[i] : number[other->labels[i]];
    g->labels = labels;
  }
  kf_arena_free(&arena);
  return status;
}

static kf_status join_ids(kf_gallery *g, const kf_gallery *other, kf_err *err) {
  int64_t *ends, bytes = g->id_ends[g->rows - 1];
  char *ids;
  KF_TAKE(&g->arena, ends, g->rows + other->rows);
  uint64_t own = (uint64_t)bytes + g->rows,
           more = (uint64_t)other->id_ends[other->rows - 1] + other->rows;
  KF_TAKE(&g->arena, ids, own + more);
  if (g->arena.failed) return kf_fail_memory(err);
  memcpy(ends, g->id_ends, g->rows * sizeof *ends);
  for (uint64_t i = 0; i < other->rows; i++) ends[g->rows + i] = bytes + other->id_ends[i];
  memcpy(ids, g->ids, own);
  memcpy(ids + own, other->ids, more);
  g->id_ends = ends;
  g->ids = ids;
  return KF_OK;
}

static kf_status join_places(kf_gallery *g, const kf_gallery *other, kf_err *err) {
  if (g->place == NULL && other->place == NULL) return KF_OK;
  uint64_t *place = kf_alloc(g->rows + other->rows, sizeof *place);
  if (place == NULL) return kf_fail_memory(err);
  for (uint64_t i = 0; i < g->rows; i++) place[i] = g->place != NULL ? g->place[i] : i;
  for (uint64_t i = 0; i < other->rows; i++)
    place[g->rows + i] = g->places + (other->place != NULL ? other->place[i] : i);
  kf_free(g->place);
  g->place = place;
  return KF_OK;
}

static kf_status join_parts(kf_gallery *g, kf_gallery *other, kf_err *err) {
  uint32_t n = g->n_parts + other->n_parts;
  kf_gallery_part *parts = kf_alloc_zero(n, sizeof *parts);
  if (parts == NULL) return kf_fail_memory(err);
  memcpy(parts, g->parts, g->n_parts * sizeof *parts);
  memcpy(parts + g->n_parts, other->parts, other->n_parts * sizeof *parts);
  for (uint32_t i = g->n_parts; i < n; i++) parts[i].first += g->places;
  kf_free(g->parts);
  g->parts = parts;
  g->n_parts = n;
  other->n_parts = 0; /* they belong to the first gallery now */
  return KF_OK;
}

static kf_status join(kf_gallery *g, kf_gallery *other, kf_err *err) {
  KF_TRY(agree(g, other, err));
  if (g->has_labels) KF_TRY(join_labels(g, other, err));
  if (g->has_ids) KF_TRY(join_ids(g, other, err));
  KF_TRY(join_places(g, other, err));
  KF_TRY(join_parts(g, other, err));
  if (g->space.dtype != other->space.dtype) g->space.dtype = KF_F32; /* holds both exactly */
  g->state = kf_gallery_state(g->state, other->state);
  g->places += other->places;
  g->rows += other->rows;
  return KF_OK;
}

kf_status kf_gallery_join(kf_gallery *g, const char *const *paths, uint64_t n, bool verify,
                          kf_err *err) {
  KF_TAKE(&g->arena, g->ends, n + 1);
  if (g->arena.failed) return kf_fail_memory(err);
  g->n_ends = 0;
  g->ends[g->n_ends++] = g->rows;
  for (uint64_t i = 0; i < n; i++) {
    kf_gallery *other;
    if (paths[i] == NULL) return kf_fail(err, KF_ERR_ARG, "the path of a gallery is missing");
    KF_TRY(kf_gallery_open(paths[i], verify, &other, err));
    kf_status status = join(g, other, err);
    kf_gallery_free(other);
    KF_TRY(status);
    g->ends[g->n_ends++] = g->rows;
  }
  return g->has_labels && n > 0 ? kf_gallery_count(g, err) : KF_OK;
}

uint64_t kf_gallery_file_of(const kf_gallery *g, uint64_t row, uint64_t *own) {
  uint64_t file = 0;
  while (file + 1 < g->n_ends && row >= g->ends[file]) file++;
  if (own != NULL) *own = row - (file > 0 ? g->ends[file - 1] : 0);
  return file;
}
