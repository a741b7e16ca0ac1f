/* class_set.c - sets of classes by name, and the classes of a model or gallery that they select. */
#include "score/score.h"

#include <string.h>

/* --- the set ---------------------------------------------------------------------------------- */

/* Takes ownership of the names. */
static kf_status new_set(const char *from, kf_names *names, kf_class_set **out, kf_err *err) {
  size_t length = strlen(from);
  kf_class_set *set = kf_alloc_tail(sizeof *set, length + 1, 1);
  if (set == NULL) {
    kf_names_clear(names);
    return kf_fail_memory(err);
  }
  set->names = *names;
  memcpy(set->from, from, length);
  KF_HAND_OUT(kf_dict_new_from_names(names, "class set", &set->map, err), out, set,
              kf_class_set_free);
}

kf_status kf_class_set_load(kf_ctx *ctx, const char *path, kf_class_set **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, path != NULL && out != NULL);
  kf_names names;
  KF_TRY(kf_names_read(path, &names, err));
  return new_set(path, &names, out, err);
}

kf_status kf_class_set_new(kf_ctx *ctx, const char *const *names, uint32_t n, kf_class_set **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, (names != NULL || n == 0) && out != NULL);
  kf_names copy = {0};
  if (n > 0) KF_TRY(kf_names_take(names, n, &copy, err));
  return new_set("the class set", &copy, out, err);
}

void kf_class_set_free(kf_class_set *set) {
  if (set == NULL) return;
  kf_dict_free(set->map);
  kf_names_clear(&set->names);
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

/* Reads a line that must be a class number; *out: -1 if there is no such class. */
static kf_status read_number(const kf_class_set *set, uint32_t i, const kf_known *known,
                             int32_t *out, kf_err *err) {
  const char *text = set->names.name[i];
  uint64_t value;
  if (!kf_read_digits(text, strlen(text), known->n_classes, &value))
    return kf_fail_file(err, set->from,
                        "line %u is '%.64s', but must be a class number: the classes of %s have no "
                        "names",
                        i + 1, text, known->what);
  *out = value < known->n_classes ? (int32_t)value : -1;
  return KF_OK;
}

/* to[i]: the known number of class i of the set, or -1. */
static kf_status find_classes(const kf_class_set *set, const kf_known *known, int32_t *to,
                              kf_err *err) {
  kf_classes listed = {set->from, set->names.n, &set->names};
  kf_classes all = {known->what, known->n_classes, known->names};
  if (listed.n > 0 && all.names->n > 0) return kf_match_classes(&listed, &all, to, err);
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
    return kf_fail_file(&ctx->err, set->from, "no class in it is a class of %s", known->what);
  if (found < set->names.n)
    kf_log(ctx, "%s: %s has %u of its %u classes", set->from, known->what, found, set->names.n);
  known->mask = mask;
  return KF_OK;
}
