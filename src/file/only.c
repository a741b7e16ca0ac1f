/* only.c - the rows of some classes of a data set, as a data set.
 *
 * Classes keep their numbers and names, so that statistics and galleries of the rest go together with
 * those of the whole. It takes one pass over the labels and 8 bytes for each remaining row. */
#include "file/file_internal.h"

enum { LABELS_AT_ONCE = 4096 };

typedef struct choice {
  int32_t *place; /* [classes] in the list; -1: not wanted */
  uint64_t *rows; /* [n] chosen so far, rising */
  size_t n, room;
} choice;

/* A list that shares no class with the data is a mistake; one with more classes is not. */
static kf_status find_classes(const kf_data *data, const char *list, int32_t *place, kf_err *err) {
  kf_names names;
  KF_TRY(kf_names_read(list, &names, err));
  kf_classes own = {"the data", data->names.n, &data->names}, listed = {list, names.n, &names};
  kf_status status = kf_match_classes(&own, &listed, place, err);
  bool found = false;
  for (uint32_t k = 0; status == KF_OK && k < own.n; k++) found |= place[k] >= 0;
  if (status == KF_OK && !found)
    status = kf_fail_file(err, list, "has none of the classes of the data");
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
  KF_TRY(kf_each_batch(ctx, data,
                       &(kf_pass){.rows = LABELS_AT_ONCE,
                                  .workers = 1,
                                  .labels_only = true,
                                  .work = choose_rows,
                                  .argument = c}));
  if (c->n > 0) return KF_OK;
  return kf_fail(&ctx->err, KF_ERR_DATA, "%s: no row belongs to one of its classes", list);
}

kf_status kf_data_keep_only(kf_ctx *ctx, kf_data **data, const char *list) {
  if ((*data)->names.n == 0)
    return kf_fail(&ctx->err, KF_ERR_ARG, "%s: the classes of the data have no names", list);
  choice c = {0};
  kf_data *pick = NULL;
  kf_status status = choose(ctx, *data, list, &c);
  if (status == KF_OK) status = kf_data_new_pick(*data, c.rows, c.n, &pick, &ctx->err);
  kf_free(c.place);
  if (status != KF_OK) {
    kf_free(c.rows);
    return status;
  }
  kf_pick_own(pick, *data, c.rows);
  *data = pick;
  return KF_OK;
}
