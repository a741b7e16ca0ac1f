/* names.c - lists of names, a dictionary, and the matching of classes. */
#include "base/text.h"

#include <string.h>

/* --- lists ------------------------------------------------------------------------------------ */

/* One allocation holds the pointers and then the strings. */
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

kf_status kf_names_clone(const kf_names *names, kf_names *out, kf_err *err) {
  return kf_names_copy((const char *const *)names->name, names->n, out, err);
}

kf_status kf_names_take(const char *const *names, uint32_t n, kf_names *out, kf_err *err) {
  for (uint32_t k = 0; k < n; k++)
    if (names[k] == NULL || names[k][0] == '\0' || !kf_utf8_valid(names[k], strlen(names[k])))
      return kf_fail(err, KF_ERR_ARG, "class name %u is NULL, empty or not valid UTF-8", k);
  KF_TRY(kf_names_copy(names, n, out, err));
  kf_status status = kf_names_check(out, "class names", err);
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

kf_status kf_names_check(const kf_names *names, const char *what, kf_err *err) {
  kf_dict *dict = NULL;
  KF_TRY(kf_dict_new_from_names(names, what, &dict, err));
  kf_dict_free(dict);
  return KF_OK;
}

void kf_names_clear(kf_names *names) {
  kf_free(names->name);
  *names = (kf_names){0};
}

/* --- dictionary: open addressing, a power of two of slots, at most half full ------------------ */

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

/* The slot that holds the key, or the empty slot where it belongs. */
static slot *dict_slot(const kf_dict *dict, const char *key, size_t length) {
  for (uint64_t i = hash_bytes(key, length);; i++) {
    slot *s = &dict->slots[i & dict->mask];
    if (s->key == NULL || (s->length == length && memcmp(s->key, key, length) == 0)) return s;
  }
}

kf_dict *kf_dict_new(uint32_t expected) {
  uint64_t size = 16;
  while (size < (uint64_t)expected * 2) size *= 2;
  kf_dict *dict = kf_alloc_zero(1, sizeof *dict);
  if (dict == NULL) return NULL;
  dict->slots = kf_alloc_zero(size, sizeof *dict->slots);
  dict->mask = size - 1;
  if (dict->slots != NULL) return dict;
  kf_free(dict);
  return NULL;
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

static kf_status add_names(kf_dict *dict, const kf_names *names, const char *what, kf_err *err) {
  for (uint32_t k = 0; k < names->n; k++) {
    const char *name = names->name[k];
    size_t length = strlen(name);
    int64_t before = kf_dict_find(dict, name, length);
    if (before >= 0)
      return kf_fail_file(err, what, "class name '%.100s' appears twice (classes %lld and %u)",
                          name, (long long)before, k);
    if (!kf_dict_add(dict, name, length, k)) return kf_fail_memory(err);
  }
  return KF_OK;
}

kf_status kf_dict_new_from_names(const kf_names *names, const char *what, kf_dict **out,
                                 kf_err *err) {
  kf_dict *dict = kf_dict_new(names->n);
  if (dict == NULL) return kf_fail_memory(err);
  KF_HAND_OUT(add_names(dict, names, what, err), out, dict, kf_dict_free);
}

/* --- matching --------------------------------------------------------------------------------- */

kf_status kf_match_classes(const kf_classes *from, const kf_classes *to, int32_t *place,
                           kf_err *err) {
  bool named = from->names->n > 0;
  if (named != (to->names->n > 0))
    return kf_fail_hint(err, KF_ERR_DATA, KF_HINT_CLASSES,
                        "the classes of %s have names, those of %s only numbers",
                        named ? from->what : to->what, named ? to->what : from->what);
  kf_dict *dict = NULL;
  if (named) KF_TRY(kf_dict_new_from_names(to->names, to->what, &dict, err));
  for (uint32_t k = 0; k < from->n; k++) {
    if (named)
      place[k] = (int32_t)kf_dict_find(dict, from->names->name[k], strlen(from->names->name[k]));
    else
      place[k] = k < to->n ? (int32_t)k : -1;
  }
  kf_dict_free(dict);
  return KF_OK;
}
