/* ranks.c - the ranks that share the work of a context, and how they combine their results.
 *
 * Every rank makes the same calls. Where work is shared, each rank does its part, and the parts are
 * combined: as sums of integers, which do not depend on who added what, or as an array in the order
 * of its elements. So all ranks have the same bits after each step and take the same decisions.
 *
 * Each step begins with a word from every rank: its status and what it is about to do. If a rank
 * has failed, it sends its message, and all fail with that. From then on ranks cannot rely on being
 * at the same step, so the failure is permanent: further steps fail at once, without exchanging
 * words. A rank that fails outside a step gives its word with kf_agree, which the others take as
 * its word for the step they have reached. So every rank sends the same number of words before it
 * stops.
 *
 * In long work ranks learn of a failure between steps, if the communicator can tell them, and give
 * their words early. A rank whose rows precede those of the failed rank works on for a while, so
 * that of two bad rows the first is reported, as in a single process. */
#include "base/text.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "pairs are integers of 128 bits in memory");

#define GRACE        5.0    /* seconds that ranks before a failed one work on */
#define SUMS_AT_ONCE 65536u /* 64-bit numbers widened at a time */

typedef enum step_kind {
  STEP_START = 1,
  STEP_AGREE,
  STEP_SUM,
  STEP_JOIN,
  STEP_TAKE,
  STEP_BRING
} step_kind;

/* What a rank says at the beginning of a step. */
struct kf_word {
  char version[24];
  uint32_t status, step;
  uint64_t amount; /* bytes or numbers, which all ranks must agree on; 0 if they may differ */
  uint32_t threads, isa;
};

/* --- words ------------------------------------------------------------------------------------ */

static void gather_ends(const kf_ranks *r, uint64_t *ends, uint64_t size) {
  for (uint32_t i = 0; i < r->size; i++) ends[i] = (i + 1) * size;
}

static kf_status give_up(kf_ctx *ctx) {
  *ctx->ranks.failed = ctx->err;
  return ctx->err.status;
}

static kf_status fail_unreachable(kf_ctx *ctx) {
  kf_fail(&ctx->err, KF_ERR_IO, "the other ranks can no longer be reached");
  return give_up(ctx);
}

/* All ranks fail with the error of rank `from`. */
static kf_status take_failure(kf_ctx *ctx, uint32_t from) {
  kf_ranks *r = &ctx->ranks;
  if (r->comm->broadcast(r->comm->self, &ctx->err, sizeof ctx->err, from) != 0)
    return fail_unreachable(ctx);
  size_t length = strnlen(ctx->err.message, sizeof ctx->err.message - 1);
  ctx->err.message[length] = '\0';
  if (from > 0)
    snprintf(ctx->err.message + length, sizeof ctx->err.message - length, " (rank %u)", from);
  return give_up(ctx);
}

static kf_status compare_words(kf_ctx *ctx) {
  const kf_ranks *r = &ctx->ranks;
  const struct kf_word *first = &r->words[0];
  for (uint32_t i = 1; i < r->size; i++) {
    const struct kf_word *w = &r->words[i];
    if (strncmp(w->version, first->version, sizeof w->version) != 0) {
      kf_fail(&ctx->err, KF_ERR_ARG, "rank 0 runs koofu %.23s and rank %u runs koofu %.23s",
              first->version, i, w->version);
      return give_up(ctx);
    }
    if (w->step == first->step && w->amount == first->amount) continue;
    kf_fail(&ctx->err, KF_ERR_INTERNAL,
            "ranks 0 and %u are out of step: all ranks must make the same calls, with the same "
            "arguments, and see the same files",
            i);
    return give_up(ctx);
  }
  return KF_OK;
}

/* Begins every step. The message of a failure is in the context. */
static kf_status give_word(kf_ctx *ctx, step_kind step, uint64_t amount, kf_status status) {
  kf_ranks *r = &ctx->ranks;
  if (r->failed->status != KF_OK) {
    ctx->err = *r->failed;
    return ctx->err.status;
  }
  if (status != KF_OK && ctx->err.status != status)
    kf_fail(&ctx->err, status, "%s", kf_status_name(status));
  struct kf_word *own = &r->words[r->rank];
  *own = (struct kf_word){.status = (uint32_t)status,
                          .step = step,
                          .amount = amount,
                          .threads = ctx->threads,
                          .isa = ctx->kernels->isa};
  snprintf(own->version, sizeof own->version, "%s", kf_version());
  if (status != KF_OK && r->comm->abort != NULL) r->comm->abort(r->comm->self);
  gather_ends(r, r->ends, sizeof *own);
  if (r->comm->gather(r->comm->self, own, r->words, r->ends, KF_ALL_RANKS) != 0)
    return fail_unreachable(ctx);
  for (uint32_t i = 0; i < r->size; i++)
    if (r->words[i].status != KF_OK) return take_failure(ctx, i);
  return compare_words(ctx);
}

/* --- starting --------------------------------------------------------------------------------- */

kf_status kf_ranks_start(kf_ctx *ctx) {
  kf_ranks *r = &ctx->ranks;
  const kf_comm *comm = ctx->options.comm;
  *r = (kf_ranks){.size = 1, .threads = ctx->threads, .isa = ctx->kernels->isa};
  if (comm == NULL) return KF_OK;
  if (comm->size == 0 || comm->size > KF_MAX_RANKS || comm->rank >= comm->size) return KF_ERR_ARG;
  if (kf_check_reserved(comm->reserved, sizeof comm->reserved, "kf_ctx_new", &ctx->err) != KF_OK)
    return KF_ERR_ARG;
  if (comm->size == 1) return KF_OK;
  r->words = kf_alloc_zero(comm->size, sizeof *r->words);
  r->ends = kf_alloc_zero(comm->size, sizeof *r->ends);
  r->failed = kf_alloc_zero(1, sizeof *r->failed);
  if (r->words == NULL || r->ends == NULL || r->failed == NULL) return KF_ERR_MEM;
  r->comm = comm;
  r->rank = comm->rank;
  r->size = comm->size;
  /* A failure is permanent; the first collective call reports it. */
  if (give_word(ctx, STEP_START, 0, KF_OK) != KF_OK) return KF_OK;
  r->threads = 0;
  for (uint32_t i = 0; i < r->size; i++) {
    r->threads += r->words[i].threads;
    if (r->words[i].isa < (uint32_t)r->isa) r->isa = (kf_isa)r->words[i].isa;
  }
  return KF_OK;
}

void kf_ranks_stop(kf_ctx *ctx) {
  kf_free(ctx->ranks.words);
  kf_free(ctx->ranks.ends);
  kf_free(ctx->ranks.failed);
}

uint32_t kf_ctx_rank(const kf_ctx *ctx) { return ctx->ranks.rank; }
uint32_t kf_ctx_ranks(const kf_ctx *ctx) { return ctx->ranks.size; }

/* --- shares ----------------------------------------------------------------------------------- */

static uint64_t end_of(const kf_ranks *r, uint32_t rank, uint64_t n, uint64_t step) {
  kf_u128 steps = n / step + (n % step > 0);
  uint64_t end = (uint64_t)(steps * (rank + 1) / r->size) * step;
  return end < n ? end : n;
}

kf_range kf_share_of(const kf_ranks *r, uint64_t n, uint64_t step) {
  return (kf_range){r->rank > 0 ? end_of(r, r->rank - 1, n, step) : 0, end_of(r, r->rank, n, step)};
}

void kf_share_ends(const kf_ranks *r, uint64_t n, uint64_t step) {
  for (uint32_t i = 0; kf_is_shared(r) && i < r->size; i++) r->ends[i] = end_of(r, i, n, step);
}

/* --- while ranks are at work ------------------------------------------------------------------ */

void kf_share_begin(kf_ctx *ctx, uint64_t before) {
  ctx->ranks.stage++;
  ctx->ranks.done = ctx->ranks.before = before;
}

uint64_t kf_done_by_all(kf_ctx *ctx, uint64_t done, uint64_t own, uint64_t total) {
  kf_ranks *r = &ctx->ranks;
  r->done = done;
  if (!kf_is_shared(r)) return done;
  uint64_t all = done;
  if (r->comm->progress != NULL)
    r->comm->progress(r->comm->self, r->stage, done, &all);
  else if (own > 0)
    all = (uint64_t)((kf_u128)done * total / own);
  return all < total ? all : total;
}

kf_status kf_heed_ranks(kf_ctx *ctx) {
  kf_ranks *r = &ctx->ranks;
  if (!kf_is_shared(r) || r->comm->progress == NULL) return KF_OK;
  uint64_t all = 0;
  uint32_t failed = r->comm->progress(r->comm->self, r->stage, r->done, &all);
  if (failed == 0) return KF_OK;
  if (r->alarmed == 0) r->alarmed = kf_now();
  if (failed > r->rank + 1 && kf_now() - r->alarmed < GRACE) return KF_OK;
  return give_word(ctx, STEP_AGREE, 0, KF_OK);
}

/* --- agreeing --------------------------------------------------------------------------------- */

kf_status kf_agree_on(kf_ctx *ctx, kf_status status) {
  return kf_is_shared(&ctx->ranks) ? give_word(ctx, STEP_AGREE, 0, status) : status;
}

kf_status kf_agree(kf_ctx *ctx, kf_status status, const char *message) {
  if (ctx == NULL) return KF_ERR_ARG;
  if (status != KF_OK && message != NULL) kf_fail(&ctx->err, status, "%s", message);
  if (status == KF_OK) kf_enter(ctx);
  return kf_agree_on(ctx, status);
}

/* --- sums ------------------------------------------------------------------------------------- */

static kf_status sum(kf_ctx *ctx, kf_i128 *values, uint64_t n) {
  const kf_comm *comm = ctx->ranks.comm;
  return comm->sum(comm->self, (uint64_t *)(void *)values, n) == 0 ? KF_OK : fail_unreachable(ctx);
}

kf_status kf_sum_i128(kf_ctx *ctx, kf_status status, kf_i128 *values, uint64_t n) {
  if (!kf_is_shared(&ctx->ranks)) return status;
  KF_TRY(give_word(ctx, STEP_SUM, n, status));
  return sum(ctx, values, n);
}

kf_status kf_sum_i64(kf_ctx *ctx, kf_status status, int64_t *values, uint64_t n) {
  if (!kf_is_shared(&ctx->ranks)) return status;
  uint64_t most = n < SUMS_AT_ONCE ? n : SUMS_AT_ONCE;
  kf_i128 *wide = kf_alloc(most, sizeof *wide);
  if (wide == NULL && status == KF_OK) status = kf_fail_memory(&ctx->err);
  status = give_word(ctx, STEP_SUM, n, status);
  for (uint64_t first = 0, count; status == KF_OK && first < n; first += count) {
    count = n - first < most ? n - first : most;
    for (uint64_t i = 0; i < count; i++) wide[i] = values[first + i];
    status = sum(ctx, wide, count);
    for (uint64_t i = 0; i < count; i++) values[first + i] = (int64_t)wide[i];
  }
  kf_free(wide);
  return status;
}

kf_status kf_sum_u64(kf_ctx *ctx, kf_status status, uint64_t *values, uint64_t n) {
  return kf_sum_i64(ctx, status, (int64_t *)values,
                    n); /* signed or not, the lower half of a sum is the same */
}

/* --- arrays ----------------------------------------------------------------------------------- */

static kf_status gather(kf_ctx *ctx, const void *part, void *all, uint32_t to) {
  const kf_comm *comm = ctx->ranks.comm;
  bool done = comm->gather(comm->self, part, all, ctx->ranks.ends, to) == 0;
  return done ? KF_OK : fail_unreachable(ctx);
}

static kf_status join(kf_ctx *ctx, kf_status status, void *array, uint64_t size, uint64_t n) {
  kf_ranks *r = &ctx->ranks;
  uint64_t *ends = kf_alloc(r->size, sizeof *ends); /* give_word uses those of r */
  if (ends == NULL && status == KF_OK) status = kf_fail_memory(&ctx->err);
  for (uint32_t i = 0; ends != NULL && i < r->size; i++) ends[i] = r->ends[i] * size;
  status = give_word(ctx, STEP_JOIN, n * size, status);
  if (status == KF_OK) {
    memcpy(r->ends, ends, r->size * sizeof *ends);
    char *all = array;
    status = gather(ctx, all + (r->rank > 0 ? ends[r->rank - 1] : 0), all, KF_ALL_RANKS);
  }
  kf_free(ends);
  return status;
}

kf_status kf_join(kf_ctx *ctx, kf_status status, void *array, uint64_t size) {
  const kf_ranks *r = &ctx->ranks;
  if (!kf_is_shared(r)) return status;
  return join(ctx, status, array, size, r->ends[r->size - 1]);
}

kf_status kf_join_each(kf_ctx *ctx, kf_status status, void *array, uint64_t size) {
  kf_ranks *r = &ctx->ranks;
  if (!kf_is_shared(r)) return status;
  gather_ends(r, r->ends, 1);
  return join(ctx, status, array, size, r->size);
}

/* Tells every rank how many elements the others have: *ends [ranks], to be freed, is where each
 * rank's end when they follow each other in the order of ranks. */
static kf_status share_ends(kf_ctx *ctx, kf_status status, uint64_t n, uint64_t **ends) {
  const kf_ranks *r = &ctx->ranks;
  uint64_t *sizes = *ends = kf_alloc(r->size, sizeof *sizes);
  if (sizes == NULL && status == KF_OK) status = kf_fail_memory(&ctx->err);
  if (sizes != NULL) sizes[r->rank] = n;
  KF_TRY(kf_join_each(ctx, status, sizes, sizeof *sizes));
  for (uint32_t i = 1; i < r->size; i++) sizes[i] += sizes[i - 1];
  return KF_OK;
}

kf_status kf_join_lists(kf_ctx *ctx, kf_status status, void **list, uint64_t *n, uint64_t size) {
  kf_ranks *r = &ctx->ranks;
  if (!kf_is_shared(r)) return status;
  uint64_t *ends, all = 0;
  char *joined = NULL;
  status = share_ends(ctx, status, *n, &ends);
  if (status == KF_OK) {
    all = ends[r->size - 1];
    joined = kf_alloc(all, size);
    if (joined == NULL) status = kf_fail_memory(&ctx->err);
    memcpy(r->ends, ends, r->size * sizeof *ends);
  }
  if (joined != NULL && *n > 0) memcpy(joined + (ends[r->rank] - *n) * size, *list, *n * size);
  if (r->failed->status == KF_OK) status = join(ctx, status, joined, size, all);
  kf_free(ends);
  kf_free(status == KF_OK ? *list : joined);
  if (status != KF_OK) return status;
  *list = joined;
  *n = all;
  return KF_OK;
}

kf_status kf_take_from_first(kf_ctx *ctx, kf_status status, void *bytes, uint64_t n) {
  const kf_comm *comm = ctx->ranks.comm;
  if (!kf_is_shared(&ctx->ranks)) return status;
  KF_TRY(give_word(ctx, STEP_TAKE, n, status));
  return comm->broadcast(comm->self, bytes, n, 0) == 0 ? KF_OK : fail_unreachable(ctx);
}

kf_status kf_bring_to_first(kf_ctx *ctx, kf_status status, const void *bytes, uint64_t n,
                            unsigned char **to, uint64_t *total) {
  kf_ranks *r = &ctx->ranks;
  uint64_t *ends;
  *to = NULL;
  status = share_ends(ctx, status, n, &ends);
  *total = status == KF_OK ? ends[r->size - 1] : 0;
  if (status == KF_OK && r->rank == 0 && (*to = kf_alloc(*total, 1)) == NULL)
    status = kf_fail_memory(&ctx->err);
  status = give_word(ctx, STEP_BRING, *total, status);
  if (status == KF_OK) {
    memcpy(r->ends, ends, r->size * sizeof *ends);
    status = gather(ctx, bytes, *to, 0);
  }
  kf_free(ends);
  if (status == KF_OK) return KF_OK;
  kf_free(*to);
  *to = NULL;
  return status;
}

kf_status kf_bring_notes(kf_ctx *ctx, kf_status status, const kf_string *said) {
  if (!kf_is_shared(&ctx->ranks)) return status;
  if (said->failed && status == KF_OK) status = kf_fail_memory(&ctx->err);
  unsigned char *bytes;
  uint64_t n;
  KF_TRY(kf_bring_to_first(ctx, status, said->data, said->n, &bytes, &n));
  const char *all = (const char *)bytes;
  for (uint64_t at = said->n; all != NULL && at < n; at += strlen(all + at) + 1)
    kf_log(ctx, "%s", all + at);
  kf_free(bytes);
  return KF_OK;
}
