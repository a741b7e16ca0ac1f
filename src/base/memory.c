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

/* Clearing and walking large matrices costs a fraction with pages of 2 MiB. So memory of that size begins
 * with such a page, and ends with one if that adds less than half of a page. The system may refuse;
 * nothing depends on it. */
#define HUGE_PAGE ((size_t)2 << 20)

static size_t whole_pages(size_t bytes) {
  size_t left = bytes % HUGE_PAGE;
  return bytes > HUGE_PAGE && left > HUGE_PAGE / 2 ? bytes - left + HUGE_PAGE : bytes;
}

static void *first_page_in(void *memory) {
  return (char *)memory + (-(uintptr_t)memory & (HUGE_PAGE - 1));
}

/* `bytes` from a page's start on; the last of them may be in smaller pages. */
static void ask_for_huge_pages(void *start, size_t bytes) {
  if (bytes >= HUGE_PAGE) madvise(start, bytes & ~(HUGE_PAGE - 1), MADV_HUGEPAGE);
}

void *kf_alloc(uint64_t count, uint64_t size) {
  uint64_t bytes;
  if (!kf_mul_u64(count, size, &bytes) || bytes > PTRDIFF_MAX - 2 * HUGE_PAGE) return NULL;
  /* Rounded up so that kernels may access whole vectors at the end of an array. */
  size_t whole = whole_pages(((size_t)bytes + 64) & ~(size_t)63);
  void *memory = NULL;
  if (posix_memalign(&memory, whole < HUGE_PAGE ? 64 : HUGE_PAGE, whole) != 0) return NULL;
  ask_for_huge_pages(memory, whole);
  return memory;
}

void *kf_alloc_zero(uint64_t count, uint64_t size) {
  uint64_t bytes;
  if (!kf_mul_u64(count, size, &bytes) || bytes > PTRDIFF_MAX) return NULL;
  return calloc(1, bytes > 0 ? (size_t)bytes : 1);
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

/* NULL if not enough is left. */
static void *take_lent(const kf_arena *arena, uint64_t count, uint64_t size) {
  uint64_t bytes;
  kf_lent *lent = arena->lent;
  if (lent == NULL || arena->failed || !kf_mul_u64(count, size, &bytes) || bytes > lent->left)
    return NULL;
  bytes = (bytes + 64) & ~(uint64_t)63; /* as kf_alloc */
  if (bytes > lent->left) return NULL;
  char *at = lent->at;
  lent->at += bytes;
  lent->left -= bytes;
  return at;
}

/* Precedes each array, in as many bytes as kf_alloc aligns to. */
typedef struct kf_arena_link {
  struct kf_arena_link *before;
  void *memory; /* to be freed */
} kf_arena_link;
#define LINK_BYTES 64u

/* Zeros that are not touched take no memory, so they are not set. */
static kf_arena_link *alloc_zeros(uint64_t bytes) {
  if (bytes < HUGE_PAGE) {
    kf_arena_link *link = kf_alloc_zero(bytes, 1);
    if (link != NULL) link->memory = link;
    return link;
  }
  void *memory = bytes < PTRDIFF_MAX ? kf_alloc_zero(whole_pages(bytes) + HUGE_PAGE, 1) : NULL;
  if (memory == NULL) return NULL;
  kf_arena_link *link = first_page_in(memory);
  ask_for_huge_pages(link, whole_pages(bytes));
  link->memory = memory;
  return link;
}

static kf_arena_link *alloc_any(uint64_t bytes) {
  kf_arena_link *link = kf_alloc(bytes, 1);
  if (link != NULL) link->memory = link;
  return link;
}

static void *take(kf_arena *arena, uint64_t count, uint64_t size,
                  kf_arena_link *(*alloc)(uint64_t bytes)) {
  uint64_t bytes;
  bool fits = kf_mul_u64(count, size, &bytes) && kf_add_u64(bytes, LINK_BYTES, &bytes);
  kf_arena_link *link = fits && !arena->failed ? alloc(bytes) : NULL;
  if (link == NULL) {
    arena->failed = true;
    return NULL;
  }
  link->before = arena->last;
  arena->last = link;
  return (char *)link + LINK_BYTES;
}

void *kf_arena_take(kf_arena *arena, uint64_t count, uint64_t size) {
  void *lent = take_lent(arena, count, size);
  return lent != NULL ? lent : take(arena, count, size, alloc_any);
}

void *kf_arena_take_zero(kf_arena *arena, uint64_t count, uint64_t size) {
  void *lent = take_lent(arena, count, size);
  return lent != NULL ? memset(lent, 0, count * size) : take(arena, count, size, alloc_zeros);
}

void kf_arena_free(kf_arena *arena) {
  for (kf_arena_link *link = arena->last, *before; link != NULL; link = before) {
    before = link->before;
    kf_free(link->memory);
  }
  *arena = (kf_arena){0};
}
