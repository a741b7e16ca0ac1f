/* spare.c - memory that one call leaves for the next.
 *
 * A fit works in eight matrices. To get that memory from the system and to give it back each time takes 8 ms
 * of the 110 of a fit of statistics with D = 768. */
#include "base/base.h"

#define MOST ((uint64_t)64 << 20) /* bytes that are kept */

void *kf_spare_take(kf_ctx *ctx, uint64_t count, uint64_t size) {
  uint64_t bytes;
  if (!kf_mul_u64(count, size, &bytes)) return NULL;
  if (ctx->spare.memory != NULL && !ctx->spare.taken && bytes <= ctx->spare.bytes) {
    ctx->spare.taken = true;
    return ctx->spare.memory;
  }
  void *memory = kf_alloc(bytes, 1);
  if (memory == NULL || ctx->spare.taken || bytes > MOST) return memory;
  kf_free(ctx->spare.memory); /* it was too small */
  ctx->spare.memory = memory;
  ctx->spare.bytes = bytes;
  ctx->spare.taken = true;
  return memory;
}

void kf_spare_give(kf_ctx *ctx, void *memory) {
  if (memory == NULL) return;
  if (memory == ctx->spare.memory)
    ctx->spare.taken = false;
  else
    kf_free(memory);
}
