/* left_out_plan.c - which rows are left out, and which of them together: a stratified sample of
 * single rows, or whole groups. */
#include "choose/left_out_internal.h"

static bool can_leave_out(const kf_left_out *l, int32_t label) {
  return l->stats->counts[label] > 1;
}

static kf_status plan_single_rows(kf_left_out *l, uint64_t sample) {
  kf_row_list all;
  KF_TRY(kf_sample_rows(l->ctx, l->data, sample, &all, &l->count.rows));
  uint64_t usable = 0, seen = 0, kept = 0;
  for (uint64_t i = 0; i < all.n; i++) usable += can_leave_out(l, all.label[i]);
  l->count.n_single = all.n - usable;
  /* A sample has at least one row of each class, which may be more than was asked for. */
  uint64_t wanted = usable < sample ? usable : sample;
  for (uint64_t i = 0; i < all.n; i++) {
    if (!can_leave_out(l, all.label[i]) || !kf_takes(seen++, wanted, usable)) continue;
    all.row[kept] = all.row[i];
    all.label[kept++] = all.label[i];
  }
  all.n = l->count.n = kept;
  l->rows = all;
  l->n_blocks = kept;
  l->largest = 1;
  if (KF_TAKE(&l->arena, l->start, kept + 1) == NULL) return kf_fail_memory(&l->ctx->err);
  for (uint64_t i = 0; i <= kept; i++) l->start[i] = i;
  return KF_OK;
}

/* Counts the rows of a group that can be judged: those whose class has rows outside the group.
 * lost: [n_classes] zeros, before and after. */
static uint64_t count_judged(const kf_left_out *l, const kf_row_list *all,
                             const kf_grouped_row *group, uint64_t *lost) {
  uint64_t judged = 0, n = group->size;
  for (uint64_t i = 0; i < n; i++) lost[all->label[group[i].index]]++;
  for (uint64_t i = 0; i < n; i++) {
    int32_t label = all->label[group[i].index];
    judged += lost[label] < (uint64_t)l->stats->counts[label];
  }
  for (uint64_t i = 0; i < n; i++) lost[all->label[group[i].index]] = 0;
  return judged;
}

static kf_status add_group(kf_left_out *l, const kf_row_list *all, const kf_grouped_row *group) {
  uint64_t n = group->size;
  if (n > KF_LEFT_OUT_LARGEST)
    return kf_fail(&l->ctx->err, KF_ERR_DATA, "group %u has %llu rows, more than %u", group->group,
                   (unsigned long long)n, KF_LEFT_OUT_LARGEST);
  l->start[l->n_blocks++] = l->rows.n;
  for (uint64_t i = 0; i < n; i++)
    kf_row_list_add(&l->rows, all->row[group[i].index], all->label[group[i].index]);
  if (n > l->largest && !kf_again_pays(l, n)) l->largest = n;
  return KF_OK;
}

/* Takes groups, spread evenly over the sorted rows, with about `sample` rows in all. Groups in
 * which no row can be judged are skipped. */
static kf_status take_groups(kf_left_out *l, const kf_row_list *all, const kf_grouped_row *sorted,
                             uint64_t sample, uint64_t *lost) {
  uint64_t n_groups = 0, rows = 0, seen = 0;
  for (uint64_t i = 0; i < all->n; i += sorted[i].size) {
    bool useful = count_judged(l, all, sorted + i, lost) > 0;
    n_groups += useful;
    *(useful ? &rows : &l->count.n_single) += sorted[i].size;
  }
  uint64_t wanted =
      rows <= sample ? n_groups : (uint64_t)((double)n_groups * ((double)sample / (double)rows));
  if (wanted < 1) wanted = 1;
  if (KF_TAKE(&l->arena, l->start, n_groups + 1) == NULL) return kf_fail_memory(&l->ctx->err);
  for (uint64_t i = 0; i < all->n; i += sorted[i].size) {
    uint64_t judged = count_judged(l, all, sorted + i, lost);
    if (judged == 0 || !kf_takes(seen++, wanted, n_groups)) continue;
    KF_TRY(add_group(l, all, sorted + i));
    l->count.n += judged;
    l->count.n_single += sorted[i].size - judged;
  }
  l->start[l->n_blocks] = l->rows.n;
  return KF_OK;
}

static kf_status plan_groups(kf_left_out *l, uint64_t sample) {
  kf_err *err = &l->ctx->err;
  kf_row_list all;
  KF_TRY(kf_sample_rows(l->ctx, l->data, UINT64_MAX, &all, &l->count.rows));
  kf_arena arena = {0};
  uint64_t *lost;
  kf_grouped_row *sorted = kf_rows_by_group(&all, l->groups, &arena);
  KF_TAKE_ZERO(&arena, lost, l->stats->n_classes);
  kf_status status = arena.failed ? kf_fail_memory(err) : kf_row_list_make(&l->rows, all.n, err);
  if (status == KF_OK) status = take_groups(l, &all, sorted, sample, lost);
  kf_arena_free(&arena);
  kf_row_list_clear(&all);
  return status;
}

kf_status kf_left_out_plan(kf_left_out *l, uint64_t sample) {
  KF_TRY(l->groups != NULL ? plan_groups(l, sample) : plan_single_rows(l, sample));
  l->count.planned = l->rows.n;
  return KF_OK;
}
