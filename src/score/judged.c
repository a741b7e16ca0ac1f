/* judged.c - counts rows; the one pass over scored rows.
 *
 * Every worker has its own tally; sums of integers do not depend on the order. Scored rows are
 * moved to the front of their batch, without gaps. */
#include "score/score.h"

#include <string.h>

/* --- tallies ---------------------------------------------------------------------------------- */

kf_tally *kf_tallies_take(kf_arena *arena, const kf_judge *judge, unsigned n) {
  kf_tally *tallies;
  KF_TAKE_ZERO(arena, tallies, n);
  for (unsigned t = 0; tallies != NULL && t < n; t++)
    KF_TAKE_ZERO(arena, tallies[t].absent, judge->n_classes);
  return arena->failed ? NULL : tallies;
}

static void add_tally(kf_eval_result *to, const kf_eval_result *from) {
  to->rows += from->rows;
  to->n += from->n;
  to->n_unlabelled += from->n_unlabelled;
  to->n_absent += from->n_absent;
  to->n_bad += from->n_bad;
  to->n_excluded += from->n_excluded;
  to->top1 += from->top1;
  to->top5 += from->top5;
  to->raw_top1 += from->raw_top1;
  to->raw_top5 += from->raw_top5;
}

void kf_tallies_sum(const kf_tally *tallies, unsigned n, const kf_judge *judge,
                    kf_eval_result *sum) {
  memset(sum, 0, sizeof *sum);
  for (unsigned t = 0; t < n; t++) add_tally(sum, &tallies[t].sum);
  for (uint32_t k = 0; k < judge->n_classes; k++) {
    bool seen = false;
    for (unsigned t = 0; t < n; t++) seen |= tallies[t].absent[k] != 0;
    sum->absent_classes += seen;
  }
}

static void mark_absent(kf_tally *tally, const kf_judge *judge, uint64_t row, int32_t label) {
  const kf_truth *truth = judge->truth;
  if (truth == NULL) {
    tally->absent[label] = 1;
    return;
  }
  for (uint64_t at = row > 0 ? truth->ends[row - 1] : 0; at < truth->ends[row]; at++)
    tally->absent[truth->classes[at]] = 1;
}

kf_fate kf_count_row(kf_tally *tally, const kf_judge *judge, uint64_t row, int32_t label,
                     kf_right *right) {
  kf_fate fate = kf_judge_row(judge, row, label, right);
  kf_eval_result *sum = &tally->sum;
  sum->rows++;
  switch (fate) {
  case KF_FATE_SCORED: sum->n++; break;
  case KF_FATE_UNLABELLED: sum->n_unlabelled++; break;
  case KF_FATE_BAD: sum->n_bad++; break;
  case KF_FATE_EXCLUDED: sum->n_excluded++; break;
  case KF_FATE_ABSENT:
    sum->n_absent++;
    mark_absent(tally, judge, row, label);
    break;
  }
  return fate;
}

kf_status kf_check_scored(const kf_judge *judge, const kf_eval_result *sum, kf_err *err) {
  if (sum->n > 0) return KF_OK;
  char absent[128], why[512] = "";
  snprintf(absent, sizeof absent, "belong to classes that %s does not have or that take no part",
           judge->known.what);
  const struct {
    uint64_t n;
    const char *what;
  } parts[] = {{sum->n_unlabelled, "have no label"},
               {sum->n_absent, absent},
               {sum->n_bad, "are bad"},
               {sum->n_excluded, "are left out by the truth"}};
  size_t length = 0;
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (parts[i].n > 0)
      length +=
          (size_t)snprintf(why + length, sizeof why - length, "%s%llu %s", length > 0 ? ", " : "",
                           (unsigned long long)parts[i].n, parts[i].what);
  return kf_fail(err, KF_ERR_DATA, "none of the %llu rows can be scored: %s",
                 (unsigned long long)sum->rows, why);
}

/* --- the pass --------------------------------------------------------------------------------- */

typedef struct judged_job {
  const kf_judged_pass *pass;
  uint32_t dim;
  kf_tally *tallies; /* [threads] */
} judged_job;

typedef struct judged_workspace {
  kf_right *right;  /* [rows of a batch] */
  uint64_t *number; /* [rows of a batch] */
  void *own;        /* the caller's workspace */
} judged_workspace;

static void make_workspace(const void *argument, void *workspace, kf_arena *arena) {
  const kf_judged_pass *p = ((const judged_job *)argument)->pass;
  judged_workspace *s = workspace;
  KF_TAKE_ZERO(arena, s->right, p->rows);
  KF_TAKE(arena, s->number, p->rows);
  if (p->workspace_size > 0) s->own = kf_arena_take_zero(arena, 1, p->workspace_size);
  if (p->make_workspace != NULL && !arena->failed) p->make_workspace(p->argument, s->own, arena);
}

static bool is_scored(const kf_judged_pass *p, kf_tally *tally, uint64_t row, int32_t label,
                      kf_right *right) {
  if (!p->unjudged) return kf_count_row(tally, p->judge, row, label, right) == KF_FATE_SCORED;
  bool bad = label == KF_LABEL_BAD;
  tally->sum.rows++;
  tally->sum.n_bad += bad;
  tally->sum.n += !bad;
  return !bad;
}

static kf_status judge_batch(void *argument, const kf_batch *b, kf_err *err) {
  const judged_job *j = argument;
  const judged_workspace *s = b->workspace;
  kf_tally *tally = &j->tallies[b->worker];
  uint64_t kept = 0;
  for (uint64_t i = 0; i < b->n; i++) {
    if (!is_scored(j->pass, tally, b->first + i, b->labels[i], &s->right[kept])) continue;
    if (kept < i) memcpy(b->rows + kept * j->dim, b->rows + i * j->dim, j->dim * sizeof *b->rows);
    b->norm2[kept] = b->norm2[i];
    s->number[kept++] = b->first + i;
  }
  kf_judged rows = {.n = kept,
                    .rows = b->rows,
                    .norm2 = b->norm2,
                    .right = s->right,
                    .number = s->number,
                    .worker = b->worker,
                    .tally = tally,
                    .workspace = s->own};
  return j->pass->work(j->pass->argument, &rows, err);
}

/* Sums the tallies of all workers and ranks into the first one. */
static kf_status add_over_ranks(kf_ctx *ctx, kf_tally *tallies, const kf_judge *judge,
                                kf_arena *arena) {
  if (!kf_is_shared(&ctx->ranks)) return KF_OK;
  kf_tally *all = &tallies[0];
  uint64_t classes = judge->n_classes, *seen;
  KF_TAKE_ZERO(arena, seen, classes);
  for (unsigned t = 0; t < ctx->threads; t++) {
    for (uint64_t k = 0; !arena->failed && k < classes; k++) seen[k] |= tallies[t].absent[k];
    if (t == 0) continue;
    add_tally(&all->sum, &tallies[t].sum);
    memset(tallies[t].absent, 0, classes);
    tallies[t].sum = (kf_eval_result){0};
  }
  kf_status status = arena->failed ? kf_fail_memory(&ctx->err) : KF_OK;
  status = kf_sum_u64(ctx, status, seen, classes);
  for (uint64_t k = 0; status == KF_OK && k < classes; k++) all->absent[k] = seen[k] > 0;
  uint64_t *numbers[] = {&all->sum.rows,     &all->sum.n,     &all->sum.n_unlabelled,
                         &all->sum.n_absent, &all->sum.n_bad, &all->sum.n_excluded,
                         &all->sum.top1,     &all->sum.top5,  &all->sum.raw_top1,
                         &all->sum.raw_top5};
  enum { N = sizeof numbers / sizeof *numbers };
  uint64_t sums[N];
  for (int i = 0; i < N; i++) sums[i] = *numbers[i];
  status = kf_sum_u64(ctx, status, sums, N);
  for (int i = 0; i < N; i++) *numbers[i] = sums[i];
  return status;
}

kf_status kf_each_judged(kf_ctx *ctx, const kf_data *data, const kf_judged_pass *pass,
                         kf_eval_result *counts) {
  kf_arena arena = {0};
  judged_job j = {.pass = pass,
                  .dim = data->dim,
                  .tallies = kf_tallies_take(&arena, pass->judge, ctx->threads)};
  kf_pass each = {.what = pass->what,
                  .rows = pass->rows,
                  .workers = pass->workers,
                  .shared = pass->shared,
                  .work = judge_batch,
                  .argument = &j,
                  .workspace_size = sizeof(judged_workspace),
                  .make_workspace = make_workspace};
  kf_status status =
      j.tallies != NULL ? kf_each_batch(ctx, data, &each) : kf_fail_memory(&ctx->err);
  if (status == KF_OK && pass->shared) status = add_over_ranks(ctx, j.tallies, pass->judge, &arena);
  if (status == KF_OK) kf_tallies_sum(j.tallies, ctx->threads, pass->judge, counts);
  kf_arena_free(&arena);
  return status;
}
