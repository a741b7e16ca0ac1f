/* memory.c - checked sizes, aligned memory, and arenas. */
#include "base/base.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

bool kf_mul_u64(uint64_t a, uint64_t b, uint64_t *product) {
  return !__builtin_mul_overflow(a, b, product);
}

bool kf_add_u64(uint64_t a, uint64_t b, uint64_t *sum) {
  return !__builtin_add_overflow(a, b, sum);
}

/* With pages of 2 MiB, clearing and walking large matrices costs a fraction. The system may
 * refuse. */
#define HUGE_PAGE ((uintptr_t)2 << 20)
static void ask_for_huge_pages(void *memory, size_t bytes) {
  uintptr_t first = ((uintptr_t)memory + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
  uintptr_t end = ((uintptr_t)memory + bytes) & ~(HUGE_PAGE - 1);
  if (first < end) madvise((void *)first, end - first, MADV_HUGEPAGE);
}

void *kf_alloc(uint64_t count, uint64_t size) {
  uint64_t bytes;
  if (!kf_mul_u64(count, size, &bytes) || bytes > PTRDIFF_MAX - 64) return NULL;
  void *memory = NULL;
  /* Rounded up, so that kernels may access whole vectors at the end of an array. */
  if (posix_memalign(&memory, 64, ((size_t)bytes + 64) & ~(size_t)63) != 0) return NULL;
  if (bytes >= 2 * HUGE_PAGE) ask_for_huge_pages(memory, (size_t)bytes);
  return memory;
}

void *kf_alloc_zero(uint64_t count, uint64_t size) {
  uint64_t bytes;
  if (!kf_mul_u64(count, size, &bytes) || bytes > PTRDIFF_MAX) return NULL;
  void *memory = calloc(1, bytes > 0 ? (size_t)bytes : 1);
  if (memory != NULL && bytes >= 2 * HUGE_PAGE) ask_for_huge_pages(memory, (size_t)bytes);
  return memory;
}

void *kf_alloc_tail(uint64_t size, uint64_t count, uint64_t element) {
  uint64_t bytes;
  return kf_mul_u64(count, element, &bytes) && kf_add_u64(bytes, size, &bytes)
             ? kf_alloc_zero(bytes, 1)
             : NULL;
}

void kf_free(void *memory) { free(memory); }

char *kf_strdup(const char *text) {
  size_t n = strlen(text) + 1;
  char *copy = kf_alloc(n, 1);
  if (copy != NULL) memcpy(copy, text, n);
  return copy;
}

bool kf_grow(void **block, size_t *room, size_t used, size_t size) {
  if (used < *room) return true;
  size_t more = *room > 0 ? *room * 2 : 16;
  void *larger = kf_alloc(more, size);
  if (larger == NULL) return false;
  if (used > 0) memcpy(larger, *block, used * size);
  kf_free(*block);
  *block = larger;
  *room = more;
  return true;
}

/* --- arenas ----------------------------------------------------------------------------------- */

/* Precedes each array and takes as many bytes as kf_alloc aligns to. */
typedef struct kf_arena_link {
  struct kf_arena_link *before;
} kf_arena_link;
#define LINK_BYTES 64u

static void *take(kf_arena *arena, uint64_t count, uint64_t size,
                  void *(*alloc)(uint64_t count, uint64_t size)) {
  uint64_t bytes;
  bool fits = kf_mul_u64(count, size, &bytes) && kf_add_u64(bytes, LINK_BYTES, &bytes);
  kf_arena_link *link = fits && !arena->failed ? alloc(bytes, 1) : NULL;
  if (link == NULL) {
    arena->failed = true;
    return NULL;
  }
  link->before = arena->last;
  arena->last = link;
  return (char *)link + LINK_BYTES;
}

void *kf_arena_take(kf_arena *arena, uint64_t count, uint64_t size) {
  return take(arena, count, size, kf_alloc);
}

void *kf_arena_take_zero(kf_arena *arena, uint64_t count, uint64_t size) {
  return take(arena, count, size, kf_alloc_zero);
}

void kf_arena_free(kf_arena *arena) {
  for (kf_arena_link *link = arena->last, *before; link != NULL; link = before) {
    before = link->before;
    kf_free(link);
  }
  *arena = (kf_arena){0};
}
