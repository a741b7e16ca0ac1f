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

/* Clearing and walking large matrices costs a fraction with pages of 2 MiB, so memory of that size begins
 * with such a page. The system may refuse; nothing depends on it. */
#define HUGE_PAGE ((size_t)2 << 20)

static void ask_for_huge_pages(void *start, size_t bytes) {
  if (bytes >= HUGE_PAGE) madvise(start, bytes & ~(HUGE_PAGE - 1), MADV_HUGEPAGE);
}

void *kf_alloc(uint64_t count, uint64_t size) {
  uint64_t bytes;
  if (!kf_mul_u64(count, size, &bytes) || bytes > PTRDIFF_MAX - 64) return NULL;
  /* Rounded up so that kernels may access whole vectors at the end of an array. */
  size_t whole = ((size_t)bytes + 64) & ~(size_t)63;
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

/* Precedes an array, in as many bytes as kf_alloc aligns to. That of a large one lies elsewhere: it would
 * take the first page of the array, which may never be used. */
typedef struct kf_arena_link {
  struct kf_arena_link *before;
  void *elsewhere; /* the memory of the array; NULL: it follows */
} kf_arena_link;
#define LINK_BYTES 64u

/* Zeros that are not touched take no memory, so they are not set; they begin somewhere in *memory. */
static void *alloc_large_zeros(uint64_t bytes, void **memory) {
  if (bytes > PTRDIFF_MAX) return NULL;
  char *at = *memory = kf_alloc_zero(bytes + HUGE_PAGE, 1);
  if (at == NULL) return NULL;
  at += -(uintptr_t)at & (HUGE_PAGE - 1);
  ask_for_huge_pages(at, (size_t)bytes);
  return at;
}

static void *take_large(kf_arena *arena, uint64_t bytes, bool zero) {
  kf_arena_link *link = kf_alloc_zero(1, sizeof *link);
  if (link == NULL) return NULL;
  void *array =
      zero ? alloc_large_zeros(bytes, &link->elsewhere) : (link->elsewhere = kf_alloc(bytes, 1));
  if (array == NULL) {
    kf_free(link);
    return NULL;
  }
  link->before = arena->last;
  arena->last = link;
  return array;
}

static void *take_small(kf_arena *arena, uint64_t bytes, bool zero) {
  bytes += LINK_BYTES;
  kf_arena_link *link = zero ? kf_alloc_zero(bytes, 1) : kf_alloc(bytes, 1);
  if (link == NULL) return NULL;
  *link = (kf_arena_link){.before = arena->last};
  arena->last = link;
  return (char *)link + LINK_BYTES;
}

static void *take(kf_arena *arena, uint64_t count, uint64_t size, bool zero) {
  uint64_t bytes;
  void *array = NULL;
  if (!arena->failed && kf_mul_u64(count, size, &bytes))
    array = bytes < HUGE_PAGE ? take_small(arena, bytes, zero) : take_large(arena, bytes, zero);
  arena->failed = array == NULL;
  return array;
}

void *kf_arena_take(kf_arena *arena, uint64_t count, uint64_t size) {
  void *lent = take_lent(arena, count, size);
  return lent != NULL ? lent : take(arena, count, size, false);
}

void *kf_arena_take_zero(kf_arena *arena, uint64_t count, uint64_t size) {
  void *lent = take_lent(arena, count, size);
  return lent != NULL ? memset(lent, 0, count * size) : take(arena, count, size, true);
}

void kf_arena_free(kf_arena *arena) {
  for (kf_arena_link *link = arena->last, *before; link != NULL; link = before) {
    before = link->before;
    kf_free(link->elsewhere);
    kf_free(link);
  }
  *arena = (kf_arena){0};
}
