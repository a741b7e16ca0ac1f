/* memory.c - checked sizes, aligned memory, arenas, name lists and a dictionary. */
#include "base/text.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

bool kf_mul_u64(uint64_t a, uint64_t b, uint64_t *product) {
  return !__builtin_mul_overflow(a, b, product);
}

bool kf_add_u64(uint64_t a, uint64_t b, uint64_t *sum) {
  return !__builtin_add_overflow(a, b, sum);
}

/* Large matrices are cleared and walked page by page; with pages of 2 MiB, where the system gives
 * them, that costs a fraction. A request, not a need: failure is of no consequence. */
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
  /* Rounded up so that a kernel may read or write whole vectors at the end of an array. */
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

/* What stands before each array; as long as the alignment of kf_alloc, which it keeps. */
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

/* --- names ----------------------------------------------------------------------------------- */

/* One allocation: the pointers, then the strings they point to. */
kf_status kf_names_copy(const char *const *names, uint32_t n, kf_names *out, kf_err *err) {
  *out = (kf_names){0};
  if (n == 0) return KF_OK;
  uint64_t bytes = (uint64_t)n * sizeof(char *);
  for (uint32_t k = 0; k < n; k++) bytes += strlen(names[k]) + 1;
  char **list = kf_alloc(bytes, 1);
  if (list == NULL) return kf_fail_memory(err);
  char *end = (char *)(list + n);
  for (uint32_t k = 0; k < n; k++) {
    size_t length = strlen(names[k]) + 1;
    list[k] = memcpy(end, names[k], length);
    end += length;
  }
  *out = (kf_names){.n = n, .name = list};
  return KF_OK;
}

kf_status kf_names_take(const char *const *names, uint32_t n, kf_names *out, kf_err *err) {
  for (uint32_t k = 0; k < n; k++)
    if (names[k] == NULL || names[k][0] == '\0' || !kf_utf8_valid(names[k], strlen(names[k])))
      return kf_fail(err, KF_ERR_ARG, "class name %u is NULL, empty or not valid UTF-8", k);
  KF_TRY(kf_names_copy(names, n, out, err));
  kf_dict *dict = NULL;
  kf_status status = kf_dict_new_from_names(out, "class names", &dict, err);
  kf_dict_free(dict);
  if (status == KF_OK) return KF_OK;
  kf_names_clear(out);
  return status == KF_ERR_DATA ? KF_ERR_ARG : status;
}

bool kf_names_equal(const kf_names *a, const kf_names *b) {
  if (a->n != b->n) return false;
  for (uint32_t k = 0; k < a->n; k++)
    if (strcmp(a->name[k], b->name[k]) != 0) return false;
  return true;
}

void kf_names_clear(kf_names *names) {
  kf_free(names->name);
  *names = (kf_names){0};
}

/* --- dictionary: open addressing, a power of two of slots, at most half full ------------------------ */

typedef struct slot {
  const char *key; /* NULL: empty */
  size_t length;
  uint32_t value;
} slot;

struct kf_dict {
  slot *slots;
  uint64_t mask;
  uint64_t used;
};

static uint64_t hash_bytes(const char *key, size_t length) {
  kf_checksum sum;
  kf_checksum_start(&sum);
  kf_checksum_add(&sum, key, length);
  return kf_checksum_value(&sum);
}

/* The slot that holds the key, or the empty one where it belongs. */
static slot *dict_slot(const kf_dict *dict, const char *key, size_t length) {
  for (uint64_t i = hash_bytes(key, length);; i++) {
    slot *s = &dict->slots[i & dict->mask];
    if (s->key == NULL || (s->length == length && memcmp(s->key, key, length) == 0)) return s;
  }
}

kf_dict *kf_dict_new(uint32_t expected) {
  uint64_t size = 16;
  while (size < (uint64_t)expected * 2 + 2) size *= 2;
  kf_dict *dict = kf_alloc_zero(1, sizeof *dict);
  if (dict == NULL) return NULL;
  dict->slots = kf_alloc_zero(size, sizeof *dict->slots);
  dict->mask = size - 1;
  if (dict->slots == NULL) {
    kf_free(dict);
    return NULL;
  }
  return dict;
}

void kf_dict_free(kf_dict *dict) {
  if (dict == NULL) return;
  kf_free(dict->slots);
  kf_free(dict);
}

int64_t kf_dict_find(const kf_dict *dict, const char *key, size_t length) {
  const slot *s = dict_slot(dict, key, length);
  return s->key == NULL ? -1 : (int64_t)s->value;
}

static bool dict_grow(kf_dict *dict) {
  kf_dict larger = {.mask = dict->mask * 2 + 1, .used = dict->used};
  larger.slots = kf_alloc_zero(larger.mask + 1, sizeof *larger.slots);
  if (larger.slots == NULL) return false;
  for (uint64_t i = 0; i <= dict->mask; i++) {
    const slot *s = &dict->slots[i];
    if (s->key != NULL) *dict_slot(&larger, s->key, s->length) = *s;
  }
  kf_free(dict->slots);
  *dict = larger;
  return true;
}

bool kf_dict_add(kf_dict *dict, const char *key, size_t length, uint32_t value) {
  if ((dict->used + 1) * 2 > dict->mask + 1 && !dict_grow(dict)) return false;
  *dict_slot(dict, key, length) = (slot){.key = key, .length = length, .value = value};
  dict->used++;
  return true;
}

kf_status kf_dict_new_from_names(const kf_names *names, const char *what, kf_dict **out,
                                kf_err *err) {
  kf_dict *dict = kf_dict_new(names->n);
  if (dict == NULL) return kf_fail_memory(err);
  for (uint32_t k = 0; k < names->n; k++) {
    const char *name = names->name[k];
    size_t length = strlen(name);
    int64_t before = kf_dict_find(dict, name, length);
    kf_status status = KF_OK;
    if (before >= 0)
      status =
          kf_fail(err, KF_ERR_DATA, "%s: class name '%.100s' appears twice (classes %lld and %u)",
                  what, name, (long long)before, k);
    else if (!kf_dict_add(dict, name, length, k))
      status = kf_fail_memory(err);
    if (status != KF_OK) {
      kf_dict_free(dict);
      return status;
    }
  }
  *out = dict;
  return KF_OK;
}
