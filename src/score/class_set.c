/* class_set.c - sets of classes by name, and the classes of a model or gallery that they mean. */
#include "score/score.h"

#include <string.h>

/* --- the set ---------------------------------------------------------------------------------- */

/* Takes ownership of the names. */
static kf_status new_set(const char *path, kf_names *names, kf_class_set **out, kf_err *err) {
  kf_class_set *set = kf_alloc_zero(1, sizeof *set);
  if (set == NULL) {
    kf_names_clear(names);
    return kf_fail_memory(err);
  }
  set->names = *names;
  set->path = path != NULL ? kf_strdup(path) : NULL;
  kf_status status = path == NULL || set->path != NULL
                         ? kf_dict_new_from_names(&set->names, "class set", &set->map, err)
                         : kf_fail_memory(err);
  KF_HAND_OUT(status, out, set, kf_class_set_free);
}

kf_status kf_class_set_load(kf_ctx *ctx, const char *path, kf_class_set **out) {
  KF_ENTER(ctx, path != NULL && out != NULL);
  kf_names names;
  KF_TRY(kf_names_read(path, &names, err));
  return new_set(path, &names, out, err);
}

kf_status kf_class_set_new(kf_ctx *ctx, const char *const *names, uint32_t n, kf_class_set **out) {
  KF_ENTER(ctx, (names != NULL || n == 0) && out != NULL);
  kf_names copy = {0};
  if (n > 0) KF_TRY(kf_names_take(names, n, &copy, err));
  return new_set(NULL, &copy, out, err);
}

void kf_class_set_free(kf_class_set *set) {
  if (set == NULL) return;
  kf_dict_free(set->map);
  kf_names_clear(&set->names);
  kf_free(set->path);
  kf_free(set);
}

uint32_t kf_class_set_size(const kf_class_set *set) { return set->names.n; }

const char *kf_class_set_name(const kf_class_set *set, uint32_t i) {
  return i < set->names.n ? set->names.name[i] : NULL;
}

int kf_class_set_has(const kf_class_set *set, const char *name) {
  return kf_dict_find(set->map, name, strlen(name)) >= 0;
}

/* --- in the numbers of a model or gallery ----------------------------------------------------- */

static const char *path_of(const kf_class_set *set) {
  return set->path != NULL ? set->path : "the class set";
}

/* A line that must be a class number; -1: there is no such class. */
static kf_status read_number(const kf_class_set *set, uint32_t i, const kf_known *known,
                             int32_t *out, kf_err *err) {
  const char *text = set->names.name[i];
  uint64_t value;
  if (!kf_read_digits(text, strlen(text), known->n_classes, &value))
    return kf_fail(err, KF_ERR_DATA,
                   "%s: line %u is '%.64s', but must be a class number: the classes of the %s have "
                   "no names",
                   path_of(set), i + 1, text, known->what);
  *out = value < known->n_classes ? (int32_t)value : -1;
  return KF_OK;
}

/* to[i] = the known number of class i of the set, or -1. */
static kf_status find_classes(const kf_class_set *set, const kf_known *known, int32_t *to,
                              kf_err *err) {
  if (known->names->n > 0) return kf_known_match(known, &set->names, set->names.n, to, err);
  for (uint32_t i = 0; i < set->names.n; i++) KF_TRY(read_number(set, i, known, &to[i], err));
  return KF_OK;
}

kf_status kf_known_restrict(kf_ctx *ctx, kf_known *known, const kf_class_set *set,
                            kf_arena *arena) {
  if (set == NULL) return KF_OK;
  unsigned char *mask;
  int32_t *to = kf_alloc(set->names.n, sizeof *to);
  KF_TAKE_ZERO(arena, mask, known->n_classes);
  kf_status status = to != NULL && mask != NULL ? find_classes(set, known, to, &ctx->err)
                                                : kf_fail_memory(&ctx->err);
  uint32_t found = 0;
  for (uint32_t i = 0; status == KF_OK && i < set->names.n; i++) {
    if (to[i] < 0 || known->counts[to[i]] == 0) continue;
    found += !mask[to[i]];
    mask[to[i]] = 1;
  }
  kf_free(to);
  KF_TRY(status);
  if (found == 0)
    return kf_fail(&ctx->err, KF_ERR_DATA, "%s: none of its %u classes is one of the %s",
                   path_of(set), set->names.n, known->what);
  if (found < set->names.n)
    kf_log(ctx, "%s: the %s has %u of its %u classes", path_of(set), known->what, found,
           set->names.n);
  known->mask = mask;
  return KF_OK;
}
