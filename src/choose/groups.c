/* groups.c - sorts the rows of a list by the groups that are left out, or go to a fold,
 * together. */
#include "choose/rows.h"

#include <stdlib.h>

static int by_group(const void *a, const void *b) {
  const kf_grouped_row *x = a, *y = b;
  if (x->group != y->group) return x->group < y->group ? -1 : 1;
  return (x->index > y->index) - (x->index < y->index);
}

kf_grouped_row *kf_rows_by_group(const kf_row_list *rows, const uint32_t *groups, kf_arena *arena) {
  kf_grouped_row *sorted;
  uint64_t n = rows->n;
  if (KF_TAKE(arena, sorted, n) == NULL) return NULL;
  for (uint64_t i = 0; i < n; i++)
    sorted[i] = (kf_grouped_row){.index = i, .group = groups[rows->row[i]]};
  qsort(sorted, n, sizeof *sorted, by_group);
  for (uint64_t i = 0, next; i < n; i = next) {
    for (next = i + 1; next < n && sorted[next].group == sorted[i].group;) next++;
    for (uint64_t k = i; k < next; k++) sorted[k].size = next - i;
  }
  return sorted;
}

kf_status kf_count_groups(const kf_row_list *rows, const uint32_t *groups, uint64_t *n,
                          kf_err *err) {
  kf_arena arena = {0};
  const kf_grouped_row *sorted = kf_rows_by_group(rows, groups, &arena);
  if (sorted == NULL) return kf_fail_memory(err);
  *n = 0;
  for (uint64_t i = 0; i < rows->n; i += sorted[i].size) ++*n;
  kf_arena_free(&arena);
  return KF_OK;
}
