/* hierarchy.c - reads a graph of classes from lines 'PARENT CHILD'.
 *
 * A class may have several parents, as in WordNet. Lines are kept as neighbours in both directions.
 * To find a cycle, classes without parents are removed until none is left. */
#include "score/hierarchy.h"

#include <inttypes.h>
#include <string.h>

typedef struct edge {
  int32_t parent, child;
} edge;

typedef struct reader {
  kf_hierarchy *h;
  const char *path; /* of the file that is read */
  edge *edges;
  size_t n, room;
  size_t names_room;
} reader;

static bool is_space(char c) { return c == ' ' || c == '\t'; }

/* The next word of a line; its length is 0 at the end. */
static size_t next_word(const char **at, const char *end) {
  while (*at < end && is_space(**at)) ++*at;
  const char *stop = *at;
  while (stop < end && !is_space(*stop)) stop++;
  return (size_t)(stop - *at);
}

static kf_status edge_line(void *argument, uint64_t line, const char *text, size_t length,
                           kf_err *err) {
  reader *r = argument;
  const char *parent = text, *end = text + length;
  size_t n = next_word(&parent, end);
  const char *child = parent + n;
  size_t m = next_word(&child, end);
  const char *rest = child + m;
  if (n == 0 || m == 0 || next_word(&rest, end) > 0)
    return kf_fail_file(err, r->path, "line %" PRIu64 " is not 'PARENT CHILD'", line);
  if (n == m && memcmp(parent, child, n) == 0)
    return kf_fail_file(err, r->path, "line %" PRIu64 " makes '%.*s' a parent of itself", line,
                        (int)(n < 64 ? n : 64), parent);
  if (!kf_grow((void **)&r->edges, &r->room, r->n, sizeof *r->edges)) return kf_fail_memory(err);
  kf_name_set *set = &r->h->classes;
  KF_TRY(kf_name_set_number(set, r->path, line, parent, n, &r->edges[r->n].parent, err));
  KF_TRY(kf_name_set_number(set, r->path, line, child, m, &r->edges[r->n].child, err));
  r->n++;
  return KF_OK;
}

/* 'CLASS<tab>NAME'; names grow with the classes. */
static kf_status name_line(void *argument, uint64_t line, const char *text, size_t length,
                           kf_err *err) {
  reader *r = argument;
  const char *tab = memchr(text, '\t', length);
  if (tab == NULL || tab == text)
    return kf_fail_file(err, r->path, "line %" PRIu64 " is not a class, a tab and its name", line);
  int32_t class;
  kf_name_set *set = &r->h->classes;
  size_t next = set->n; /* the index of a new class */
  if (!kf_grow((void **)&r->h->names, &r->names_room, next, sizeof *r->h->names))
    return kf_fail_memory(err);
  r->h->names[next] = NULL;
  KF_TRY(kf_name_set_number(set, r->path, line, text, (size_t)(tab - text), &class, err));
  if (r->h->names[class] != NULL)
    return kf_fail_file(err, r->path, "line %" PRIu64 " names '%.*s' a second time", line,
                        (int)(tab - text < 64 ? tab - text : 64), text);
  size_t n = length - (size_t)(tab + 1 - text);
  char *name;
  if (KF_TAKE_ZERO(&r->h->arena, name, n + 1) == NULL) return kf_fail_memory(err);
  memcpy(name, tab + 1, n);
  r->h->names[class] = name;
  return KF_OK;
}

/* Allocates names for all classes of the hierarchy, to which lines may add more. */
static kf_status read_names(reader *r, const char *path, kf_err *err) {
  if (path == NULL) return KF_OK;
  r->names_room = r->h->classes.n;
  r->h->names = kf_alloc_zero(r->names_room, sizeof *r->h->names);
  if (r->h->names == NULL) return kf_fail_memory(err);
  r->path = path;
  return kf_lines_read(path, name_line, r, err);
}

/* --- neighbours ------------------------------------------------------------------------------- */

static kf_status make_links(kf_hierarchy *h, const edge *edges, bool down, kf_err *err) {
  kf_links *links = down ? &h->children : &h->parents;
  size_t n_edges = h->n_edges, n = h->classes.n;
  KF_TAKE_ZERO(&h->arena, links->ends, n);
  KF_TAKE(&h->arena, links->list, n_edges);
  if (h->arena.failed) return kf_fail_memory(err);
  for (size_t i = 0; i < n_edges; i++) links->ends[down ? edges[i].parent : edges[i].child]++;
  for (size_t k = 1; k < n; k++) links->ends[k] += links->ends[k - 1];
  for (size_t i = n_edges; i-- > 0;) { /* backwards, each end moves to its beginning ... */
    int32_t of = down ? edges[i].parent : edges[i].child;
    links->list[--links->ends[of]] = (uint32_t)(down ? edges[i].child : edges[i].parent);
  }
  for (size_t k = 0; k + 1 < n; k++) links->ends[k] = links->ends[k + 1]; /* ... and then back */
  if (n > 0) links->ends[n - 1] = n_edges;
  return KF_OK;
}

static uint64_t begin_of(const kf_links *links, uint32_t k) {
  return k > 0 ? links->ends[k - 1] : 0;
}

/* Removes classes whose parents are all removed; any that are left are on a cycle or below one. */
static kf_status find_cycle(const kf_hierarchy *h, kf_err *err) {
  size_t n = h->classes.n, done = 0, found = 0;
  kf_arena arena = {0};
  uint64_t *parents;
  uint32_t *queue;
  KF_TAKE(&arena, parents, n);
  KF_TAKE(&arena, queue, n);
  kf_status status = arena.failed ? kf_fail_memory(err) : KF_OK;
  for (uint32_t k = 0; status == KF_OK && k < n; k++) {
    parents[k] = h->parents.ends[k] - begin_of(&h->parents, k);
    if (parents[k] == 0) queue[found++] = k;
  }
  for (; status == KF_OK && done < found; done++) {
    uint32_t k = queue[done];
    for (uint64_t i = begin_of(&h->children, k); i < h->children.ends[k]; i++)
      if (--parents[h->children.list[i]] == 0) queue[found++] = h->children.list[i];
  }
  if (status == KF_OK && found < n) {
    /* Walking up among the rest reaches some class a second time. */
    uint32_t at = 0;
    while (parents[at] == 0) at++;
    for (size_t step = 0; step < n; step++) {
      uint64_t i = begin_of(&h->parents, at);
      while (parents[h->parents.list[i]] == 0) i++;
      at = h->parents.list[i];
    }
    status = kf_fail_file(err, h->path, "'%.64s' is an ancestor of itself", h->classes.name[at]);
  }
  kf_arena_free(&arena);
  return status;
}

/* --- kf_hierarchy_load ------------------------------------------------------------------------ */

static kf_status load(kf_hierarchy *h, const char *names, kf_err *err) {
  reader r = {.h = h, .path = h->path};
  kf_status status = kf_lines_read(h->path, edge_line, &r, err);
  if (status == KF_OK && r.n == 0) status = kf_fail_file(err, h->path, "the file is empty");
  if (status == KF_OK) status = read_names(&r, names, err);
  h->n_edges = r.n;
  if (status == KF_OK) status = make_links(h, r.edges, false, err);
  if (status == KF_OK) status = make_links(h, r.edges, true, err);
  if (status == KF_OK) status = find_cycle(h, err);
  kf_free(r.edges);
  return status;
}

kf_status kf_hierarchy_load(kf_ctx *ctx, const char *path, const char *names, kf_hierarchy **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, path != NULL && out != NULL);
  size_t length = strlen(path);
  kf_hierarchy *h = kf_alloc_tail(sizeof *h, length + 1, 1);
  if (h == NULL) return kf_fail_memory(err);
  memcpy(h->path, path, length);
  KF_HAND_OUT(load(h, names, err), out, h, kf_hierarchy_free);
}

void kf_hierarchy_free(kf_hierarchy *h) {
  if (h == NULL) return;
  kf_free(h->names);
  kf_name_set_clear(&h->classes);
  kf_arena_free(&h->arena);
  kf_free(h);
}

uint32_t kf_hierarchy_classes(const kf_hierarchy *h) { return (uint32_t)h->classes.n; }
uint64_t kf_hierarchy_edges(const kf_hierarchy *h) { return h->n_edges; }

const char *kf_hierarchy_name(const kf_hierarchy *h, const char *class_name) {
  int64_t at = kf_dict_find(h->classes.map, class_name, strlen(class_name));
  if (at < 0) return NULL;
  return h->names != NULL && h->names[at] != NULL ? h->names[at] : "";
}
