/* groups.c - leaves, ancestors and descendants of sets of classes, and the groups in the paper's
 * table of class sets. */
#include "score/hierarchy.h"

#include <limits.h>
#include <string.h>

/* --- walking ---------------------------------------------------------------------------------- */

/* Marks of a class, as bits. */
enum { FIRST = 1, SECOND = 2, ABOVE = 4, BELOW = 8, NOT_LEAF = 16 };

/* Sets a bit in marks[n] for the classes of a set, all of which must be in the hierarchy. */
static kf_status mark(const kf_hierarchy *h, const kf_class_set *set, unsigned char bit,
                      unsigned char *marks, kf_err *err) {
  for (uint32_t i = 0; i < set->names.n; i++) {
    const char *name = set->names.name[i];
    int64_t at = kf_dict_find(h->classes.map, name, strlen(name));
    if (at < 0)
      return kf_fail_file(err, set->from,
                          "'%.64s' (line %u) is not in %s; a class without relatives must be in "
                          "the hierarchy's file of names",
                          name, i + 1, h->path);
    marks[at] |= bit;
  }
  return KF_OK;
}

/* Gives the mark `to` to every class that can be reached, in one step or more, from a class with
 * any of the marks `from`. */
static kf_status reach(const kf_hierarchy *h, const kf_links *links, unsigned char from,
                       unsigned char to, unsigned char *marks, kf_err *err) {
  size_t n = h->classes.n, depth = 0;
  uint32_t *stack = kf_alloc(2 * n, sizeof *stack); /* each class once as `from`, once as `to` */
  if (stack == NULL) return kf_fail_memory(err);
  for (uint32_t k = 0; k < n; k++)
    if (marks[k] & from) stack[depth++] = k;
  while (depth > 0) {
    uint32_t k = stack[--depth];
    for (uint64_t i = k > 0 ? links->ends[k - 1] : 0; i < links->ends[k]; i++) {
      uint32_t other = links->list[i];
      if (marks[other] & to) continue;
      marks[other] |= to;
      stack[depth++] = other;
    }
  }
  kf_free(stack);
  return KF_OK;
}

/* --- kin -------------------------------------------------------------------------------------- */

/* The classes of the hierarchy or, if given, of a list, in their order, whose marks in `mask` equal
 * `wanted`. */
static kf_status new_marked(kf_ctx *ctx, const kf_hierarchy *h, const kf_class_set *list,
                            const unsigned char *marks, unsigned char mask, unsigned char wanted,
                            kf_class_set **out) {
  uint32_t all = list != NULL ? list->names.n : (uint32_t)h->classes.n, n = 0;
  const char **names = kf_alloc(all, sizeof *names);
  if (names == NULL) return kf_fail_memory(&ctx->err);
  for (uint32_t i = 0; i < all; i++) {
    const char *name = list != NULL ? list->names.name[i] : h->classes.name[i];
    int64_t at = list != NULL ? kf_dict_find(h->classes.map, name, strlen(name)) : (int64_t)i;
    if ((marks[at] & mask) == wanted) names[n++] = name;
  }
  kf_status status = kf_class_set_new(ctx, names, n, out);
  kf_free(names);
  return status;
}

kf_status kf_class_set_new_kin(kf_ctx *ctx, const kf_hierarchy *h, const kf_class_set *set,
                               kf_kin kin, kf_class_set **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, h != NULL && set != NULL && out != NULL);
  if ((unsigned)kin > KF_KIN_DESCENDANTS)
    return kf_fail(err, KF_ERR_ARG, "invalid kin %d", (int)kin);
  bool leaves = kin == KF_KIN_LEAVES, down = kin == KF_KIN_DESCENDANTS;
  unsigned char *marks = kf_alloc_zero(h->classes.n, 1), bit = down ? BELOW : ABOVE;
  if (marks == NULL) return kf_fail_memory(err);
  kf_status status = mark(h, set, FIRST, marks, err);
  if (status == KF_OK) status = reach(h, down ? &h->children : &h->parents, FIRST, bit, marks, err);
  if (status == KF_OK) /* leaves: no ancestor of a class of the set */
    status = new_marked(ctx, h, leaves ? set : NULL, marks, bit, leaves ? 0 : bit, out);
  kf_free(marks);
  return status;
}

/* --- groups ----------------------------------------------------------------------------------- */

const char *kf_group_name(kf_group group) {
  static const char *const names[KF_GROUPS] = {"only",        "both",   "ancestors",
                                               "descendants", "leaves", "other"};
  return (unsigned)group < KF_GROUPS ? names[group] : NULL;
}

/* kf_group + 1; 0: in no set. */
static unsigned char group_of(unsigned char marks) {
  kf_group group = KF_GROUP_OTHER;
  if (!(marks & (FIRST | SECOND))) return 0;
  if (marks & FIRST)
    group = marks & SECOND ? KF_GROUP_BOTH : KF_GROUP_ONLY;
  else if (marks & ABOVE)
    group = KF_GROUP_ANCESTORS;
  else if (marks & BELOW)
    group = KF_GROUP_DESCENDANTS;
  else if (!(marks & NOT_LEAF))
    group = KF_GROUP_LEAVES;
  return (unsigned char)(group + 1);
}

/* groups [n], zeroed: the group of each class of the hierarchy. */
static kf_status find_groups(const kf_hierarchy *h, const kf_class_set *first,
                             const kf_class_set *second, unsigned char *groups, kf_err *err) {
  KF_TRY(mark(h, first, FIRST, groups, err));
  KF_TRY(mark(h, second, SECOND, groups, err));
  KF_TRY(reach(h, &h->parents, FIRST, ABOVE, groups, err));
  KF_TRY(reach(h, &h->children, FIRST, BELOW, groups, err));
  KF_TRY(reach(h, &h->parents, FIRST | SECOND, NOT_LEAF, groups, err));
  for (size_t k = 0; k < h->classes.n; k++) groups[k] = group_of(groups[k]);
  return KF_OK;
}

kf_status kf_class_groups_new(kf_ctx *ctx, const kf_hierarchy *hierarchy, const kf_class_set *first,
                              const kf_class_set *second, kf_class_set **out) {
  for (size_t g = 0; g < KF_GROUPS && out != NULL; g++) KF_NOTHING(out + g);
  KF_ENTER(ctx, hierarchy != NULL && first != NULL && second != NULL && out != NULL);
  unsigned char *groups = kf_alloc_zero(hierarchy->classes.n, 1);
  if (groups == NULL) return kf_fail_memory(err);
  kf_class_set *sets[KF_GROUPS] = {NULL};
  kf_status status = find_groups(hierarchy, first, second, groups, err);
  for (unsigned char g = 0; g < KF_GROUPS && status == KF_OK; g++)
    status = new_marked(ctx, hierarchy, g <= KF_GROUP_BOTH ? first : second, groups, UCHAR_MAX,
                        g + 1, &sets[g]);
  for (unsigned g = 0; g < KF_GROUPS; g++) {
    if (status == KF_OK)
      out[g] = sets[g];
    else
      kf_class_set_free(sets[g]);
  }
  kf_free(groups);
  return status;
}
