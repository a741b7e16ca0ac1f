/* picture_labels.c - the classes of pictures from a table that names them.
 *
 * People write names as "a.jpg", "a", "images/a.jpg" or "/data/images/a.jpg", whatever folder they
 * then give. So the last parts of name and path must agree, with or without the extension, and of
 * their folders the shorter one must be the end of the other. A name that may be several pictures,
 * or none, is an error: a wrong guess would give pictures wrong labels. */
#include "encode/pictures.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct labelling {
  const kf_pictures *list;
  const char *table;
  kf_dict *names;       /* last parts of paths without extension: one picture for each */
  uint32_t *next;       /* [n] another picture of the same name; itself: none */
  uint64_t *lines;      /* [n] that has named the picture; 0: none */
  const char **classes; /* [n] */
  kf_few missing;
  kf_arena *arena;
} labelling;

void kf_few_add(kf_few *few, const char *name) {
  if (few->n++ >= KF_FEW) return;
  size_t used = strlen(few->shown);
  snprintf(few->shown + used, sizeof few->shown - used, "%s%.60s", used > 0 ? ", " : "", name);
}

const char *kf_few_end(const kf_few *few) { return few->n > KF_FEW ? ", ..." : ""; }

/* A path in parts; folder and name end without a slash. */
typedef struct parts {
  const char *folder, *name;
  size_t n_folder, n_name, n_stem; /* stem: the name without extension */
} parts;

static parts parts_of(const char *path) {
  while (kf_starts_with(path, "./")) path += 2;
  const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
  const char *dot = strrchr(name, '.');
  size_t n = strlen(name);
  return (parts){.folder = path,
                 .name = name,
                 .n_folder = slash != NULL ? (size_t)(slash - path) : 0,
                 .n_name = n,
                 .n_stem = dot != NULL && dot > name ? (size_t)(dot - name) : n};
}

/* Whether the shorter of two folders is the end of the other. */
static bool folders_agree(const parts *a, const parts *b) {
  const parts *s = a->n_folder < b->n_folder ? a : b, *l = s == a ? b : a;
  size_t more = l->n_folder - s->n_folder;
  if (s->n_folder == 0) return s->folder[0] != '/';
  if (memcmp(l->folder + more, s->folder, s->n_folder) != 0) return false;
  return more == 0 || (s->folder[0] != '/' && l->folder[more - 1] == '/');
}

static bool agree(const parts *given, const parts *path) {
  bool same = given->n_name == path->n_name || given->n_name == path->n_stem;
  return same && memcmp(given->name, path->name, given->n_name) == 0 && folders_agree(given, path);
}

/* Counts the pictures that agree with a name, among those with this key. */
static size_t count(const labelling *j, const parts *given, size_t n_key, uint32_t *found) {
  int64_t at = kf_dict_find(j->names, given->name, n_key);
  size_t n = 0;
  for (uint32_t i = (uint32_t)at; at >= 0; i = j->next[i]) {
    parts path = parts_of(kf_pictures_path(j->list, i));
    if (agree(given, &path) && n++ == 0) *found = i;
    if (j->next[i] == i) break;
  }
  return n;
}

static kf_status take_pair(void *argument, uint64_t line, const char *id, const char *label,
                           kf_err *err) {
  labelling *j = argument;
  parts given = parts_of(id);
  uint32_t at = 0;
  size_t n = count(j, &given, given.n_stem, &at), size = strlen(label) + 1;
  if (given.n_stem < given.n_name) n += count(j, &given, given.n_name, &at);
  if (n == 0 && line > 1) kf_few_add(&j->missing, id);
  if (n == 0) return KF_OK; /* line 1 may be a header */
  if (n > 1)
    return kf_fail_file(err, j->table,
                        "line %" PRIu64 ": '%.200s' may be any of %zu pictures, such as %s; name "
                        "the folder or the extension, too",
                        line, id, n, kf_pictures_path(j->list, at));
  if (j->lines[at] > 0)
    return kf_fail_file(err, j->table,
                        "line %" PRIu64 " labels %s a second time: line %" PRIu64 " does, too",
                        line, kf_pictures_path(j->list, at), j->lines[at]);
  char *copy = kf_arena_take(j->arena, size, 1);
  if (copy == NULL) return kf_fail_memory(err);
  j->lines[at] = line;
  j->classes[at] = memcpy(copy, label, size);
  return KF_OK;
}

static kf_status list_names(labelling *j, kf_err *err) {
  uint32_t n = (uint32_t)kf_pictures_count(j->list);
  j->names = kf_dict_new(n);
  if (j->names == NULL) return kf_fail_memory(err);
  for (uint32_t i = 0; i < n; i++) {
    parts path = parts_of(kf_pictures_path(j->list, i));
    int64_t first = kf_dict_find(j->names, path.name, path.n_stem);
    j->next[i] = i;
    if (first < 0 && !kf_dict_add(j->names, path.name, path.n_stem, i)) return kf_fail_memory(err);
    if (first < 0) continue;
    j->next[i] = j->next[first] == first ? i : j->next[first];
    j->next[first] = i;
  }
  return KF_OK;
}

/* Reports names without a picture and pictures without a name. */
static kf_status report(kf_ctx *ctx, const labelling *j, bool skip_bad) {
  kf_few without = {0};
  uint64_t n = kf_pictures_count(j->list), missing = j->missing.n;
  const char *end = kf_few_end(&j->missing), *lines = missing == 1 ? "line names" : "lines name";
  for (uint64_t i = 0; i < n; i++)
    if (j->classes[i] == NULL) kf_few_add(&without, kf_pictures_path(j->list, i));
  if (without.n == n)
    return kf_fail_file(&ctx->err, j->table,
                        "no line names one of the %" PRIu64 " pictures%s%s%s%s", n,
                        missing > 0 ? ", but " : "", j->missing.shown, end,
                        missing > 0 ? ", which are not among them" : "");
  if (missing > 0 && !skip_bad)
    return kf_fail_hint(&ctx->err, KF_ERR_DATA, KF_HINT_SKIP_PICTURES,
                        "%s: %" PRIu64 " %s no picture that is there (%s%s)", j->table, missing,
                        lines, j->missing.shown, end);
  if (missing > 0)
    kf_log(ctx, "%s: left out %" PRIu64 " %s no picture that is there (%s%s)", j->table, missing,
           missing == 1 ? "line that names" : "lines that name", j->missing.shown, end);
  if (without.n > 0)
    kf_log(ctx, "left out %" PRIu64 " %s that %s does not label (%s%s)", without.n,
           without.n == 1 ? "picture" : "pictures", j->table, without.shown, kf_few_end(&without));
  return KF_OK;
}

kf_status kf_picture_labels(kf_ctx *ctx, const kf_pictures *list, const kf_pictures_options *o,
                            kf_arena *arena, const char **classes) {
  kf_arena memory = {0};
  labelling j = {.list = list, .table = o->labels, .classes = classes, .arena = arena};
  KF_TAKE(&memory, j.next, kf_pictures_count(list));
  KF_TAKE_ZERO(&memory, j.lines, kf_pictures_count(list));
  kf_status status = memory.failed ? kf_fail_memory(&ctx->err) : list_names(&j, &ctx->err);
  if (status == KF_OK)
    status = kf_table_each_pair(o->labels, o->id_column, o->label_column, take_pair, &j, &ctx->err);
  if (status == KF_OK) status = report(ctx, &j, o->skip_bad != 0);
  kf_dict_free(j.names);
  kf_arena_free(&memory);
  return status;
}
