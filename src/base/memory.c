/* memory.c - checked sizes, aligned memory, name lists and a string map. */
#include "base/json.h"

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
  kf_map *map = NULL;
  kf_status status = kf_map_new_from_names(out, "class names", &map, err);
  kf_map_free(map);
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

/* --- map: open addressing, a power of two of slots, at most half full ------------------------ */

typedef struct slot {
  const char *key; /* NULL: empty */
  size_t length;
  uint32_t value;
} slot;

struct kf_map {
  slot *slots;
  uint64_t mask;
  uint64_t used;
};

static uint64_t hash_bytes(const char *key, size_t length) {
  kf_hash hash;
  kf_hash_start(&hash);
  kf_hash_add(&hash, key, length);
  return kf_hash_value(&hash);
}

/* The slot that holds the key, or the empty one where it belongs. */
static slot *map_slot(const kf_map *map, const char *key, size_t length) {
  for (uint64_t i = hash_bytes(key, length);; i++) {
    slot *s = &map->slots[i & map->mask];
    if (s->key == NULL || (s->length == length && memcmp(s->key, key, length) == 0)) return s;
  }
}

kf_map *kf_map_new(uint32_t expected) {
  uint64_t size = 16;
  while (size < (uint64_t)expected * 2 + 2) size *= 2;
  kf_map *map = kf_alloc_zero(1, sizeof *map);
  if (map == NULL) return NULL;
  map->slots = kf_alloc_zero(size, sizeof *map->slots);
  map->mask = size - 1;
  if (map->slots == NULL) {
    kf_free(map);
    return NULL;
  }
  return map;
}

void kf_map_free(kf_map *map) {
  if (map == NULL) return;
  kf_free(map->slots);
  kf_free(map);
}

int64_t kf_map_find(const kf_map *map, const char *key, size_t length) {
  const slot *s = map_slot(map, key, length);
  return s->key == NULL ? -1 : (int64_t)s->value;
}

static bool map_grow(kf_map *map) {
  kf_map larger = {.mask = map->mask * 2 + 1, .used = map->used};
  larger.slots = kf_alloc_zero(larger.mask + 1, sizeof *larger.slots);
  if (larger.slots == NULL) return false;
  for (uint64_t i = 0; i <= map->mask; i++) {
    const slot *s = &map->slots[i];
    if (s->key != NULL) *map_slot(&larger, s->key, s->length) = *s;
  }
  kf_free(map->slots);
  *map = larger;
  return true;
}

bool kf_map_add(kf_map *map, const char *key, size_t length, uint32_t value) {
  if ((map->used + 1) * 2 > map->mask + 1 && !map_grow(map)) return false;
  *map_slot(map, key, length) = (slot){.key = key, .length = length, .value = value};
  map->used++;
  return true;
}

kf_status kf_map_new_from_names(const kf_names *names, const char *what, kf_map **out,
                                kf_err *err) {
  kf_map *map = kf_map_new(names->n);
  if (map == NULL) return kf_fail_memory(err);
  for (uint32_t k = 0; k < names->n; k++) {
    const char *name = names->name[k];
    size_t length = strlen(name);
    int64_t before = kf_map_find(map, name, length);
    kf_status status = KF_OK;
    if (before >= 0)
      status =
          kf_fail(err, KF_ERR_DATA, "%s: class name '%.100s' stands twice (classes %lld and %u)",
                  what, name, (long long)before, k);
    else if (!kf_map_add(map, name, length, k))
      status = kf_fail_memory(err);
    if (status != KF_OK) {
      kf_map_free(map);
      return status;
    }
  }
  *out = map;
  return KF_OK;
}
