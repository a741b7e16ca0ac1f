/* spread.c - a data set whose rows are on the disks of many machines: each rank has files of its
 * own, and the rows of rank 0 come first, then those of rank 1, and so on.
 *
 * When it is opened, the ranks agree on the class names, and every rank gets all labels, four bytes
 * per row; so samples and folds are chosen as in one process. Rows can be fetched on their own rank
 * only. A shared pass hands each rank its own rows; code that needs a few rows on every rank
 * collects them first. */
#include "file/file_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct spread {
  kf_data data; /* first, so that a kf_data * can be cast to a spread * */
  kf_data *own;
  kf_range range;  /* of this rank's rows */
  int32_t *labels; /* [data.rows]; NULL: none */
  kf_arena arena;
} spread;

/* What each rank tells the others. */
typedef struct facts {
  uint64_t rows, unlabelled;
  uint32_t dim, n_classes;
  uint32_t has_labels, named;
  uint64_t has_ids;
  kf_origin origin;
} facts;

/* --- as a data set ------------------------------------------------------------------------- */

static uint32_t rank_of(const spread *s, uint64_t row) {
  uint32_t rank = 0;
  while (row >= s->data.ends[rank]) rank++;
  return rank;
}

static kf_status fetch(const kf_data *data, const kf_kernels *kernels, uint64_t first, uint64_t n,
                       float *rows, int32_t *labels, kf_err *err) {
  const spread *s = (const spread *)data;
  for (uint64_t i = 0; labels != NULL && i < n; i++)
    labels[i] = s->labels != NULL ? s->labels[first + i] : KF_LABEL_NONE;
  if (rows == NULL || n == 0) return KF_OK;
  bool here = first >= s->range.first && first + n <= s->range.last;
  if (here) return s->own->fetch(s->own, kernels, first - s->range.first, n, rows, NULL, err);
  return kf_fail(err, KF_ERR_ARG,
                 "each rank has files of its own, but this needs rows of all files on every rank");
}

static void ahead(const kf_data *data, uint64_t first, uint64_t n) {
  const spread *s = (const spread *)data;
  bool here = first >= s->range.first && first + n <= s->range.last;
  if (here && s->own->ahead != NULL) s->own->ahead(s->own, first - s->range.first, n);
}

static void where(const kf_data *data, uint64_t row, char *text, size_t size) {
  const spread *s = (const spread *)data;
  if (row == KF_ALL_ROWS || (row >= s->range.first && row < s->range.last))
    s->own->where(s->own, row == KF_ALL_ROWS ? row : row - s->range.first, text, size);
  else
    snprintf(text, size, "row %" PRIu64 " of all, which is on rank %u", row, rank_of(s, row));
}

static kf_status refuse(const kf_data *data, const char *path, kf_err *err) {
  return kf_data_refuse_overwrite(((const spread *)data)->own, path, err);
}

static void destroy(kf_data *data) {
  spread *s = (spread *)data;
  kf_data_free(s->own);
  kf_arena_free(&s->arena);
  kf_free(s);
}

/* --- agreeing ------------------------------------------------------------------------------ */

static kf_status compare_facts(const facts *of, uint32_t ranks, kf_err *err) {
  for (uint32_t i = 1; i < ranks; i++) {
    if (of[i].dim != of[0].dim)
      return kf_fail(err, KF_ERR_DATA, "rows of rank 0 have %u columns, those of rank %u have %u",
                     of[0].dim, i, of[i].dim);
    if (of[i].has_labels != of[0].has_labels)
      return kf_fail(err, KF_ERR_DATA, "rows of rank %u have labels, those of rank %u have none",
                     of[0].has_labels ? 0 : i, of[0].has_labels ? i : 0);
    if (of[i].named != of[0].named)
      return kf_fail(err, KF_ERR_DATA,
                     "labels of rank %u are class names, those of rank %u class numbers",
                     of[0].named ? 0 : i, of[0].named ? i : 0);
  }
  return KF_OK;
}

static kf_status agree_on_facts(kf_ctx *ctx, spread *s) {
  const kf_ranks *r = &ctx->ranks;
  const kf_data *own = s->own;
  facts *of;
  uint64_t *ends;
  KF_TAKE_ZERO(&s->arena, of, r->size);
  KF_TAKE(&s->arena, ends, r->size);
  kf_status status = s->arena.failed ? kf_fail_memory(&ctx->err) : KF_OK;
  if (status == KF_OK) {
    of[r->rank] = (facts){.rows = own->rows,
                          .unlabelled = own->unlabelled,
                          .dim = own->dim,
                          .n_classes = own->n_classes,
                          .has_labels = own->has_labels,
                          .named = own->names.n > 0,
                          .has_ids = own->fetch_ids != NULL};
    memcpy(&of[r->rank].origin, &own->origin, sizeof own->origin);
  }
  KF_TRY(kf_join_each(ctx, status, of, sizeof *of));
  KF_TRY(compare_facts(of, r->size, &ctx->err));
  s->data.origin = of[0].origin;
  for (uint32_t i = 0; i < r->size; i++) {
    s->data.rows += of[i].rows;
    s->data.unlabelled += of[i].unlabelled;
    s->data.ids_elsewhere = s->data.ids_elsewhere || of[i].has_ids != 0;
    if (of[i].n_classes > s->data.n_classes) s->data.n_classes = of[i].n_classes;
    ends[i] = s->data.rows;
    if (i > 0) KF_TRY(kf_origin_join(&s->data.origin, &of[i].origin, &ctx->err));
  }
  s->data.ends = ends;
  s->data.n_ends = r->size;
  s->range = (kf_range){s->data.rows > 0 && r->rank > 0 ? ends[r->rank - 1] : 0, ends[r->rank]};
  return KF_OK;
}

/* The names of all ranks: the list that all share or, if lists differ, their
 * union, sorted by bytes. */
static kf_status agree_on_names(kf_ctx *ctx, spread *s) {
  kf_err *err = &ctx->err;
  kf_string text = {0};
  kf_name_set set = {0};
  const kf_names *own = &s->own->names;
  if (s->own->names.n == 0) return KF_OK;
  for (uint32_t k = 0; k < own->n; k++)
    kf_string_add(&text, own->name[k], strlen(own->name[k]) + 1);
  kf_status status = text.failed ? kf_fail_memory(err) : KF_OK;
  uint64_t n = text.n, length = n;
  void *all = text.data;
  status = kf_join_lists(ctx, status, &all, &n, 1);
  bool same = status == KF_OK && n == length * ctx->ranks.size;
  for (uint64_t at = 0; same && at < n; at += length)
    same = memcmp(all, (char *)all + at, length) == 0;
  for (uint64_t at = 0; status == KF_OK && at < n;) {
    const char *name = (const char *)all + at;
    int32_t number;
    status = kf_name_set_number(&set, "class names", 0, name, strlen(name), &number, err);
    at += strlen(name) + 1;
  }
  if (status == KF_OK) status = kf_name_set_list(&set, !same, &s->data.names, err);
  if (status == KF_OK) s->data.n_classes = s->data.names.n;
  kf_name_set_clear(&set);
  kf_free(all);
  return kf_agree_on(ctx, status);
}

/* Collects all labels, in the agreed numbers. */
static kf_status gather_labels(kf_ctx *ctx, spread *s) {
  kf_err *err = &ctx->err;
  const kf_data *own = s->own;
  if (!own->has_labels) return KF_OK;
  int32_t *place;
  KF_TAKE(&s->arena, s->labels, s->data.rows);
  KF_TAKE(&s->arena, place, own->n_classes);
  kf_status status = s->arena.failed ? kf_fail_memory(err) : KF_OK;
  for (uint32_t k = 0; status == KF_OK && k < own->n_classes; k++) place[k] = (int32_t)k;
  kf_classes from = {"the rows of this rank", own->names.n, &own->names};
  kf_classes to = {"all rows", s->data.names.n, &s->data.names};
  if (status == KF_OK && own->names.n > 0) status = kf_match_classes(&from, &to, place, err);
  int32_t *labels = status == KF_OK ? s->labels + s->range.first : NULL;
  if (status == KF_OK && own->rows > 0)
    status = kf_data_fetch(own, ctx->kernels, 0, own->rows, NULL, labels, NULL, err);
  for (uint64_t i = 0; status == KF_OK && i < own->rows; i++)
    if (labels[i] >= 0) labels[i] = place[labels[i]];
  memcpy(ctx->ranks.ends, s->data.ends, ctx->ranks.size * sizeof *ctx->ranks.ends);
  return kf_join(ctx, status, s->labels, sizeof *s->labels);
}

kf_status kf_data_spread(kf_ctx *ctx, kf_status status, kf_data **data) {
  if (!kf_is_shared(&ctx->ranks)) return status;
  KF_TRY(kf_agree_on(ctx, status));
  spread *s = kf_alloc_zero(1, sizeof *s);
  status = kf_agree_on(ctx, s != NULL ? KF_OK : kf_fail_memory(&ctx->err));
  if (status != KF_OK) {
    kf_free(s);
    return status;
  }
  const kf_data *own = s->own = *data;
  s->data = (kf_data){.dim = own->dim,
                      .has_labels = own->has_labels,
                      .skip_bad = own->skip_bad,
                      .mapped = own->mapped,
                      .fetch = fetch,
                      .ahead = ahead,
                      .where = where,
                      .refuse = refuse,
                      .destroy = destroy};
  *data = &s->data;
  KF_TRY(agree_on_facts(ctx, s));
  KF_TRY(agree_on_names(ctx, s));
  return gather_labels(ctx, s);
}
