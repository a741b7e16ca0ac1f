/* mistakes.c - the wrong answers. Each worker lists its own; the lists are joined and sorted by row
 * at the end, so the order of the work does not matter. */
#include "score/evaluation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void kf_mistake_add(kf_mistake_list *list, const kf_answer *row, double margin) {
  if (list->failed || !kf_grow((void **)&list->at, &list->room, list->n, sizeof *list->at)) {
    list->failed = true;
    return;
  }
  const kf_chance *c = row->chance;
  list->at[list->n++] = (kf_mistake){.row = row->row,
                                     .truth = row->right.classes[0],
                                     .answer = row->answers[0],
                                     .score = row->scores[0],
                                     .margin = margin,
                                     .probability = c != NULL ? c->answer : (double)NAN,
                                     .right_probability = c != NULL ? c->right : (double)NAN};
}

static int by_row(const void *a, const void *b) {
  const kf_mistake *x = a, *y = b;
  return (x->row > y->row) - (x->row < y->row);
}

kf_status kf_mistakes_join(kf_ctx *ctx, kf_mistake_list *lists, unsigned n, kf_mistake **out,
                           size_t *n_out) {
  uint64_t all = 0, at = 0;
  bool failed = false;
  for (unsigned i = 0; i < n; i++) {
    all += lists[i].n;
    failed |= lists[i].failed;
  }
  kf_mistake *joined = failed ? NULL : kf_alloc(all, sizeof *joined);
  for (unsigned i = 0; i < n; i++) {
    if (joined != NULL && lists[i].n > 0) {
      memcpy(joined + at, lists[i].at, lists[i].n * sizeof *joined);
      at += lists[i].n;
    }
    kf_free(lists[i].at);
    lists[i] = (kf_mistake_list){0};
  }
  kf_status status = joined != NULL ? KF_OK : kf_fail_memory(&ctx->err);
  if (status == KF_OK) qsort(joined, all, sizeof *joined, by_row);
  status = kf_join_lists(ctx, status, (void **)&joined, &all, sizeof *joined);
  if (status != KF_OK) {
    kf_free(joined);
    return status;
  }
  *out = joined;
  *n_out = all;
  return KF_OK;
}
