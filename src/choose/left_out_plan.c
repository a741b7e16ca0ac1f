/* left_out_plan.c - which rows are left out, and which of them together: single rows, a sample with
 * the same share of each class; or groups, taken whole. */
#include "choose/left_out_internal.h"

#include <stdlib.h>

static bool can_leave_out(const kf_left_out *l, int32_t label) {
  return l->stats->counts[label] > 1;
}

static kf_status plan_single_rows(kf_left_out *l, uint64_t sample) {
  kf_row_list all;
  KF_TRY(kf_sample_rows(l->ctx, l->data, sample, &all, &l->count.rows));
  uint64_t usable = 0, seen = 0, kept = 0;
  for (uint64_t i = 0; i < all.n; i++) usable += can_leave_out(l, all.label[i]);
  l->count.n_single = all.n - usable;
  /* A sample has a row of each class at least, which may be more than was asked for. */
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

typedef struct grouped_row {
  uint32_t group;
  int32_t label;
  uint64_t row;
} grouped_row;

static int by_group(const void *a, const void *b) {
  const grouped_row *x = a, *y = b;
  if (x->group != y->group) return x->group < y->group ? -1 : 1;
  return (x->row > y->row) - (x->row < y->row);
}

/* Takes groups from the sorted rows, spread evenly, until about `sample` rows are taken. */
static kf_status take_groups(kf_left_out *l, const grouped_row *sorted, uint64_t n,
                             uint64_t sample) {
  uint64_t n_groups = 0, group = 0;
  for (uint64_t i = 0; i < n; i++) n_groups += i == 0 || sorted[i].group != sorted[i - 1].group;
  uint64_t wanted =
      n <= sample ? n_groups : (uint64_t)((double)n_groups * ((double)sample / (double)n));
  if (wanted < 1) wanted = 1;
  if (KF_TAKE(&l->arena, l->start, n_groups + 1) == NULL) return kf_fail_memory(&l->ctx->err);
  for (uint64_t first = 0, last; first < n; first = last, group++) {
    for (last = first + 1; last < n && sorted[last].group == sorted[first].group;) last++;
    if (!kf_takes(group, wanted, n_groups)) continue;
    if (last - first > KF_LEFT_OUT_LARGEST)
      return kf_fail(&l->ctx->err, KF_ERR_DATA, "group %u has %llu rows, more than %u",
                     sorted[first].group, (unsigned long long)(last - first), KF_LEFT_OUT_LARGEST);
    l->start[l->n_blocks++] = l->rows.n;
    for (uint64_t i = first; i < last; i++)
      kf_row_list_add(&l->rows, sorted[i].row, sorted[i].label);
    if (last - first > l->largest) l->largest = last - first;
  }
  l->start[l->n_blocks] = l->rows.n;
  return KF_OK;
}

/* Rows whose class has rows outside the group can be judged. */
static kf_status count_judged(kf_left_out *l) {
  uint64_t *lost = kf_alloc_zero(l->stats->n_classes, sizeof *lost);
  if (lost == NULL) return kf_fail_memory(&l->ctx->err);
  for (uint64_t b = 0; b < l->n_blocks; b++) {
    uint64_t first = l->start[b], last = l->start[b + 1];
    for (uint64_t i = first; i < last; i++) lost[l->rows.label[i]]++;
    for (uint64_t i = first; i < last; i++)
      if (lost[l->rows.label[i]] < (uint64_t)l->stats->counts[l->rows.label[i]])
        l->count.n++;
      else
        l->count.n_single++;
    for (uint64_t i = first; i < last; i++) lost[l->rows.label[i]] = 0;
  }
  kf_free(lost);
  return KF_OK;
}

static kf_status plan_groups(kf_left_out *l, uint64_t sample) {
  kf_err *err = &l->ctx->err;
  kf_row_list all;
  KF_TRY(kf_sample_rows(l->ctx, l->data, UINT64_MAX, &all, &l->count.rows));
  grouped_row *sorted = kf_alloc(all.n, sizeof *sorted);
  kf_status status = sorted == NULL ? kf_fail_memory(err) : kf_row_list_make(&l->rows, all.n, err);
  if (status == KF_OK) {
    for (uint64_t i = 0; i < all.n; i++)
      sorted[i] = (grouped_row){l->groups[all.row[i]], all.label[i], all.row[i]};
    qsort(sorted, all.n, sizeof *sorted, by_group);
    status = take_groups(l, sorted, all.n, sample);
  }
  kf_free(sorted);
  kf_row_list_clear(&all);
  return status == KF_OK ? count_judged(l) : status;
}

kf_status kf_left_out_plan(kf_left_out *l, uint64_t sample) {
  return l->groups != NULL ? plan_groups(l, sample) : plan_single_rows(l, sample);
}
