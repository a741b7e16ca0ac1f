/* groups.c - leaves, ancestors and descendants of sets of classes, and the groups in the paper's
 * table of class sets. */
#include "score/hierarchy.h"

#include <string.h>

/* --- walking ---------------------------------------------------------------------------------- */

/* Marks the classes of a set, which the hierarchy must know, in to [n]. */
static kf_status mark(const kf_hierarchy *h, const kf_class_set *set, unsigned char *to,
                      kf_err *err) {
  for (uint32_t i = 0; i < set->names.n; i++) {
    const char *name = set->names.name[i];
    int64_t at = kf_dict_find(h->classes.map, name, strlen(name));
    if (at < 0)
      return kf_fail(err, KF_ERR_DATA,
                     "%s: '%.64s' (line %u) is not in %s; a class without relatives must be in "
                     "the hierarchy's file of names",
                     set->path != NULL ? set->path : "the class set", name, i + 1, h->path);
    to[at] = 1;
  }
  return KF_OK;
}

/* Marks in to [n] every class that can be reached from a class marked in `from`, in one step or
 * more. */
static kf_status reach(const kf_hierarchy *h, const kf_links *links, const unsigned char *from,
                       unsigned char *to, kf_err *err) {
  size_t n = h->classes.n, waiting = 0;
  uint32_t *stack = kf_alloc(2 * n, sizeof *stack); /* each class once as `from`, once as `to` */
  if (stack == NULL) return kf_fail_memory(err);
  for (uint32_t k = 0; k < n; k++)
    if (from[k]) stack[waiting++] = k;
  while (waiting > 0) {
    uint32_t k = stack[--waiting];
    for (uint64_t i = k > 0 ? links->ends[k - 1] : 0; i < links->ends[k]; i++) {
      uint32_t other = links->list[i];
      if (to[other]) continue;
      to[other] = 1;
      stack[waiting++] = other;
    }
  }
  kf_free(stack);
  return KF_OK;
}

/* --- kin -------------------------------------------------------------------------------------- */

/* The classes whose mark is `wanted`: of the hierarchy, or of a list, in the order of either. */
static kf_status new_marked(kf_ctx *ctx, const kf_hierarchy *h, const kf_class_set *list,
                            const unsigned char *marked, unsigned char wanted, kf_class_set **out) {
  uint32_t all = list != NULL ? list->names.n : (uint32_t)h->classes.n, n = 0;
  const char **names = kf_alloc(all, sizeof *names);
  if (names == NULL) return kf_fail_memory(&ctx->err);
  for (uint32_t i = 0; i < all; i++) {
    const char *name = list != NULL ? list->names.name[i] : h->classes.name[i];
    int64_t at = list != NULL ? kf_dict_find(h->classes.map, name, strlen(name)) : (int64_t)i;
    if (marked[at] == wanted) names[n++] = name;
  }
  kf_status status = kf_class_set_new(ctx, names, n, out);
  kf_free(names);
  return status;
}

static kf_status find_kin(kf_ctx *ctx, const kf_hierarchy *h, const kf_class_set *set, kf_kin kin,
                          unsigned char *in_set, unsigned char *found, kf_class_set **out) {
  kf_err *err = &ctx->err;
  KF_TRY(mark(h, set, in_set, err));
  KF_TRY(reach(h, kin == KF_KIN_DESCENDANTS ? &h->children : &h->parents, in_set, found, err));
  bool leaves = kin == KF_KIN_LEAVES; /* no ancestor of a class of the set */
  return new_marked(ctx, h, leaves ? set : NULL, found, !leaves, out);
}

kf_status kf_class_set_new_kin(kf_ctx *ctx, const kf_hierarchy *hierarchy, const kf_class_set *set,
                               kf_kin kin, kf_class_set **out) {
  KF_ENTER(ctx, hierarchy != NULL && set != NULL && out != NULL);
  if ((unsigned)kin > KF_KIN_DESCENDANTS)
    return kf_fail(err, KF_ERR_ARG, "invalid kin %d", (int)kin);
  kf_arena arena = {0};
  unsigned char *in_set, *found;
  KF_TAKE_ZERO(&arena, in_set, hierarchy->classes.n);
  KF_TAKE_ZERO(&arena, found, hierarchy->classes.n);
  kf_status status =
      arena.failed ? kf_fail_memory(err) : find_kin(ctx, hierarchy, set, kin, in_set, found, out);
  kf_arena_free(&arena);
  return status;
}

/* --- groups ----------------------------------------------------------------------------------- */

const char *kf_group_name(kf_group group) {
  static const char *const names[KF_GROUPS] = {"only",        "both",   "ancestors",
                                               "descendants", "leaves", "other"};
  return (unsigned)group < KF_GROUPS ? names[group] : NULL;
}

/* Marks for each class of the hierarchy, [n] each. */
typedef struct marks {
  unsigned char *first, *second, *either; /* sets */
  unsigned char *above, *below;           /* the first set */
  unsigned char *not_leaf;                /* above a class of either set */
  unsigned char *group;                   /* kf_group + 1; 0: in no set */
} marks;

static unsigned char group_of(const marks *m, size_t k) {
  kf_group group = KF_GROUP_OTHER;
  if (!m->either[k]) return 0;
  if (m->first[k])
    group = m->second[k] ? KF_GROUP_BOTH : KF_GROUP_ONLY;
  else if (m->above[k])
    group = KF_GROUP_ANCESTORS;
  else if (m->below[k])
    group = KF_GROUP_DESCENDANTS;
  else if (!m->not_leaf[k])
    group = KF_GROUP_LEAVES;
  return (unsigned char)(group + 1);
}

static kf_status find_groups(const kf_hierarchy *h, const kf_class_set *first,
                             const kf_class_set *second, marks *m, kf_err *err) {
  KF_TRY(mark(h, first, m->first, err));
  KF_TRY(mark(h, second, m->second, err));
  for (size_t k = 0; k < h->classes.n; k++) m->either[k] = m->first[k] | m->second[k];
  KF_TRY(reach(h, &h->parents, m->first, m->above, err));
  KF_TRY(reach(h, &h->children, m->first, m->below, err));
  KF_TRY(reach(h, &h->parents, m->either, m->not_leaf, err));
  for (size_t k = 0; k < h->classes.n; k++) m->group[k] = group_of(m, k);
  return KF_OK;
}

kf_status kf_class_groups_new(kf_ctx *ctx, const kf_hierarchy *hierarchy, const kf_class_set *first,
                              const kf_class_set *second, kf_class_set **out) {
  KF_ENTER(ctx, hierarchy != NULL && first != NULL && second != NULL && out != NULL);
  size_t n = hierarchy->classes.n;
  kf_arena arena = {0};
  marks m;
  KF_TAKE_ZERO(&arena, m.first, n);
  KF_TAKE_ZERO(&arena, m.second, n);
  KF_TAKE_ZERO(&arena, m.either, n);
  KF_TAKE_ZERO(&arena, m.above, n);
  KF_TAKE_ZERO(&arena, m.below, n);
  KF_TAKE_ZERO(&arena, m.not_leaf, n);
  KF_TAKE_ZERO(&arena, m.group, n);
  kf_class_set *sets[KF_GROUPS] = {NULL};
  kf_status status =
      arena.failed ? kf_fail_memory(err) : find_groups(hierarchy, first, second, &m, err);
  for (unsigned g = 0; g < KF_GROUPS && status == KF_OK; g++)
    status = new_marked(ctx, hierarchy, g <= KF_GROUP_BOTH ? first : second, m.group,
                        (unsigned char)(g + 1), &sets[g]);
  for (unsigned g = 0; g < KF_GROUPS; g++) {
    if (status == KF_OK)
      out[g] = sets[g];
    else
      kf_class_set_free(sets[g]);
  }
  kf_arena_free(&arena);
  return status;
}
