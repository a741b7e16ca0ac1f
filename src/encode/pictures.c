/* pictures.c - makes the list of pictures to read, with their classes, from the pictures, folders,
 * patterns or list file that the caller names.
 *
 * Image data sets are folders of class folders: the folders in a folder are classes, and everything
 * below one of them belongs to it. Names are sorted by their bytes, so the order depends neither on
 * the file system nor on the locale. The pictures of an archive keep their order (archive.c).
 * Pictures in unsupported formats are counted, and the first few are named. */
#include "encode/image.h"
#include "encode/pictures.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK = 65536 }; /* bytes of strings that are allocated together */

typedef struct picture {
  char *path;              /* first, for kf_by_bytes */
  const char *id;          /* in the path */
  const char *class;       /* NULL: none */
  const kf_sample *sample; /* of an archive; NULL: a file */
} picture;

struct kf_pictures {
  kf_arena memory;
  char *strings; /* free memory for more of them */
  size_t left;   /* its bytes */
  picture *pictures;
  size_t n, room;
  int32_t *labels; /* [n]; NULL: there are no classes */
  kf_names names;
  char **folders; /* that the caller has named, with links resolved */
  size_t n_folders, folders_room;
};

typedef struct walk {
  kf_ctx *ctx;
  kf_pictures *list;
  const char *label_key; /* for archives; NULL: none */
  bool flat;             /* folders are not classes */
  kf_few unread;         /* pictures of formats that cannot be read */
} walk;

/* --- strings ---------------------------------------------------------------------------------- */

/* Memory for a string of `size` bytes with its NUL. */
static char *take(kf_pictures *list, size_t size) {
  if (list->left < size) {
    list->left = 0;
    size_t room = size > BLOCK ? size : BLOCK;
    if (KF_TAKE(&list->memory, list->strings, room) == NULL) return NULL;
    list->left = room;
  }
  char *string = list->strings;
  list->strings += size;
  list->left -= size;
  return string;
}

/* folder/name, or name if folder is NULL. */
static char *join(kf_pictures *list, const char *folder, const char *name, size_t length) {
  size_t n = folder != NULL ? strlen(folder) : 0;
  size_t slash = n > 0 && folder[n - 1] != '/' ? 1 : 0;
  char *path = take(list, n + slash + length + 1);
  if (path == NULL) return NULL;
  if (n > 0) memcpy(path, folder, n);
  if (slash > 0) path[n] = '/';
  memcpy(path + n + slash, name, length);
  path[n + slash + length] = '\0';
  return path;
}

/* Paths become ids and folder names become classes, so they must be UTF-8. The message shows other
 * bytes than ASCII as \xNN. */
static kf_status check_utf8(const char *path, const char *what, kf_err *err) {
  if (kf_utf8_valid(path, strlen(path))) return KF_OK;
  char shown[KF_WHERE_SIZE];
  size_t n = 0;
  for (const char *c = path; *c != '\0' && n + 5 < sizeof shown; c++)
    n += (size_t)snprintf(shown + n, sizeof shown - n, (*c & 0x80) != 0 ? "\\x%02x" : "%c",
                          (unsigned char)*c);
  return kf_fail_file(err, shown, "%s is not valid UTF-8", what);
}

static kf_status add(kf_pictures *list, char *path, const char *id, const char *class,
                     kf_err *err) {
  if (path == NULL) return kf_fail_memory(err);
  KF_TRY(check_utf8(path, "the path", err));
  if (!kf_grow((void **)&list->pictures, &list->room, list->n, sizeof *list->pictures))
    return kf_fail_memory(err);
  list->pictures[list->n++] = (picture){.path = path, .id = id, .class = class};
  return KF_OK;
}

kf_status kf_pictures_add_sample(kf_pictures *list, const char *name, const char *class,
                                 const kf_sample *sample, kf_err *err) {
  char *path = join(list, NULL, name, strlen(name));
  char *kept = class != NULL ? join(list, NULL, class, strlen(class)) : NULL;
  kf_sample *copy;
  if (KF_TAKE(&list->memory, copy, 1) == NULL || (class != NULL && kept == NULL))
    return kf_fail_memory(err);
  *copy = *sample;
  KF_TRY(add(list, path, path, kept, err));
  list->pictures[list->n - 1].sample = copy;
  return KF_OK;
}

static kf_status add_archive(walk *w, const char *path, kf_err *err) {
  char *kept = join(w->list, NULL, path, strlen(path));
  if (kept == NULL) return kf_fail_memory(err);
  return kf_archive_list(w->ctx, w->list, kept, w->label_key, err);
}

/* --- folders ---------------------------------------------------------------------------------- */

/* A folder being read, and the folders it is in: links back to one of these are not followed. */
typedef struct level {
  const struct level *above;
  dev_t device;
  ino_t inode;
} level;

/* An entry of a folder. The path comes first, for kf_by_bytes. */
typedef struct entry {
  char *path;
  bool folder, unread, archive;
} entry;

typedef struct entries {
  kf_pictures *strings; /* holds the paths */
  entry *list;
  size_t n, room, n_files; /* n_files: pictures */
  const char *first_file;
} entries;

static bool is_picture(const entry *e) { return !e->folder && !e->unread && !e->archive; }

static const char *last_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash != NULL ? slash + 1 : path;
}

static void note_unread(walk *w, const char *path) { kf_few_add(&w->unread, last_name(path)); }

/* "3 pictures of other formats (a.gif, b.bmp, c.tiff)"; with names only if n is all of them. */
static const char *describe_unread(const walk *w, uint64_t n, char *text, size_t size) {
  int used =
      snprintf(text, size, "%" PRIu64 " %s of other formats", n, n == 1 ? "picture" : "pictures");
  if (n == w->unread.n)
    snprintf(text + used, size - (size_t)used, " (%s%s)", w->unread.shown, kf_few_end(&w->unread));
  return text;
}

static bool is_folder(const char *path, const struct dirent *found) {
  if (found->d_type == DT_DIR) return true;
  return (found->d_type == DT_LNK || found->d_type == DT_UNKNOWN) && kf_is_directory(path);
}

static kf_status take_entry(entries *e, const char *above, const struct dirent *found,
                            kf_err *err) {
  if (found->d_name[0] == '.') return KF_OK;
  char *path = join(e->strings, above, found->d_name, strlen(found->d_name));
  if (path == NULL) return kf_fail_memory(err);
  bool folder = is_folder(path, found);
  bool archive = !folder && kf_is_archive(path);
  kf_look look = folder || archive ? KF_LOOK_PICTURE : kf_look_at(path);
  if (look == KF_LOOK_OTHER) return KF_OK;
  if (!kf_grow((void **)&e->list, &e->room, e->n, sizeof *e->list)) return kf_fail_memory(err);
  e->list[e->n] = (entry){path, folder, look == KF_LOOK_UNREAD, archive};
  e->n_files += is_picture(&e->list[e->n++]);
  return KF_OK;
}

static kf_status read_entries(entries *e, DIR *dir, const char *path, kf_err *err) {
  for (const struct dirent *found;;) {
    KF_TRY(kf_next_entry(dir, path, &found, err));
    if (found == NULL) return KF_OK;
    KF_TRY(take_entry(e, path, found, err));
  }
}

/* Lists a folder and closes it again, so that deep trees do not use up file descriptors. A link to
 * a folder above has no entries. */
static kf_status list_folder(const char *path, const level *above, level *own, entries *e,
                             kf_err *err) {
  DIR *dir = opendir(path);
  if (dir == NULL) return kf_fail_errno(err, path, "cannot be opened", errno);
  struct stat info;
  kf_status status =
      fstat(dirfd(dir), &info) == 0 ? KF_OK : kf_fail_errno(err, path, "cannot be examined", errno);
  if (status == KF_OK) {
    bool again = false;
    *own = (level){.above = above, .device = info.st_dev, .inode = info.st_ino};
    for (const level *l = above; l != NULL && !again; l = l->above)
      again = l->device == own->device && l->inode == own->inode;
    if (!again) status = read_entries(e, dir, path, err);
  }
  closedir(dir);
  if (e->n > 0) qsort(e->list, e->n, sizeof *e->list, kf_by_bytes);
  return status;
}

static kf_status walk_below(walk *w, const char *path, const char *class, const level *above,
                            kf_err *err) {
  entries e = {.strings = w->list};
  level own;
  kf_status status = list_folder(path, above, &own, &e, err);
  for (size_t i = 0; status == KF_OK && i < e.n; i++) {
    char *found = e.list[i].path;
    if (e.list[i].unread)
      note_unread(w, found);
    else if (e.list[i].archive && w->flat)
      status = add_archive(w, found, err);
    else if (e.list[i].archive)
      kf_log(w->ctx, "%s: left out, since archives have classes of their own", found);
    else
      status = e.list[i].folder ? walk_below(w, found, class, &own, err)
                                : add(w->list, found, found, class, err);
  }
  kf_free(e.list);
  return status;
}

/* The folders of a folder that have pictures are classes. */
static kf_status walk_classes(walk *w, const entries *e, const level *own, size_t *n_classes,
                              kf_err *err) {
  *n_classes = 0;
  for (size_t i = 0; i < e->n; i++) {
    const char *path = e->list[i].path;
    size_t before = w->list->n;
    uint64_t unread = w->unread.n;
    if (!e->list[i].folder) continue;
    KF_TRY(check_utf8(path, "the name of the class", err));
    KF_TRY(walk_below(w, path, last_name(path), own, err));
    if (w->list->n > before)
      (*n_classes)++;
    else
      kf_log(w->ctx, "%s: has no pictures%s and is not a class", path,
             w->unread.n > unread ? " that can be read" : "");
  }
  return KF_OK;
}

/* Folders of models and folders of pictures are easily confused. */
static bool is_model(const char *folder) {
  int at = kf_open(folder, O_RDONLY | O_DIRECTORY);
  bool found = at >= 0 && faccessat(at, "config.json", F_OK, 0) == 0;
  if (at >= 0) close(at);
  return found;
}

static kf_status fail_empty(const walk *w, const char *path, uint64_t n_unread, kf_err *err) {
  char others[sizeof(kf_few) + 80] = "";
  if (n_unread > 0) describe_unread(w, n_unread, others, sizeof others);
  return kf_fail_file(err, path, "no JPEG, PNG or WebP picture in this folder or below%s%s%s",
                      n_unread > 0 ? ", but " : "", others,
                      is_model(path) ? "; its config.json says that it is a model" : "");
}

static kf_status note_folder(kf_pictures *list, const char *path, kf_err *err) {
  char real[PATH_MAX];
  if (realpath(path, real) == NULL) return kf_fail_errno(err, path, "cannot be examined", errno);
  if (!kf_grow((void **)&list->folders, &list->folders_room, list->n_folders,
               sizeof *list->folders))
    return kf_fail_memory(err);
  char *kept = join(list, NULL, real, strlen(real));
  if (kept == NULL) return kf_fail_memory(err);
  list->folders[list->n_folders++] = kept;
  return KF_OK;
}

/* Adds what is in a folder: class folders or, without such, the pictures in it. */
static kf_status walk_top(walk *w, const char *path, kf_err *err) {
  kf_pictures *list = w->list;
  entries e = {.strings = list};
  level own;
  size_t n_classes = 0;
  kf_status status = list_folder(path, NULL, &own, &e, err);
  if (status == KF_OK) status = walk_classes(w, &e, &own, &n_classes, err);
  for (size_t i = e.n; i-- > 0;)
    if (is_picture(&e.list[i])) e.first_file = e.list[i].path;
  for (size_t i = 0; status == KF_OK && i < e.n; i++) {
    char *found = e.list[i].path;
    if (e.list[i].unread) note_unread(w, found);
    if (is_picture(&e.list[i]) && n_classes == 0) status = add(list, found, found, NULL, err);
    if (e.list[i].archive) status = add_archive(w, found, err);
  }
  if (status == KF_OK && n_classes > 0 && e.n_files > 0)
    kf_log(w->ctx, "%s: left out %zu %s next to the class folders (%s%s)", path, e.n_files,
           e.n_files == 1 ? "picture" : "pictures", last_name(e.first_file),
           e.n_files == 1 ? "" : ", ...");
  kf_free(e.list);
  return status;
}

static kf_status add_folder(walk *w, const char *path, kf_err *err) {
  kf_pictures *list = w->list;
  size_t first = list->n;
  uint64_t unread = w->unread.n;
  KF_TRY(w->flat ? walk_below(w, path, NULL, NULL, err) : walk_top(w, path, err));
  if (list->n == first) return fail_empty(w, path, w->unread.n - unread, err);
  qsort(list->pictures + first, list->n - first, sizeof *list->pictures, kf_by_bytes);
  return KF_OK;
}

/* --- what the caller names -------------------------------------------------------------------- */

static kf_status add_one(walk *w, const char *path, kf_err *err) {
  if (kf_is_directory(path)) {
    KF_TRY(note_folder(w->list, path, err));
    return add_folder(w, path, err);
  }
  if (kf_is_archive(path)) return add_archive(w, path, err);
  char *copy = join(w->list, NULL, path, strlen(path));
  return add(w->list, copy, copy, NULL, err);
}

/* The paths that match a pattern. */
typedef struct match_list {
  char **path;
  size_t n, room;
} match_list;

static kf_status keep_match(void *argument, const char *path, kf_err *err) {
  match_list *list = argument;
  if (!kf_grow((void **)&list->path, &list->room, list->n, sizeof *list->path))
    return kf_fail_memory(err);
  list->path[list->n] = kf_strdup(path);
  return list->path[list->n++] != NULL ? KF_OK : kf_fail_memory(err);
}

/* Adds the matches that are folders or archives, or look like pictures. */
static kf_status use_matches(walk *w, const char *pattern, const match_list *found, kf_err *err) {
  size_t used = 0;
  if (found->n == 0) return kf_fail(err, KF_ERR_IO, "%s: no file matches this pattern", pattern);
  qsort(found->path, found->n, sizeof *found->path, kf_by_bytes);
  for (size_t i = 0; i < found->n; i++) {
    const char *path = found->path[i];
    bool several = kf_is_directory(path) || kf_is_archive(path);
    kf_look look = several ? KF_LOOK_PICTURE : kf_look_at(path);
    if (look == KF_LOOK_UNREAD) note_unread(w, path);
    if (look != KF_LOOK_PICTURE) continue;
    KF_TRY(add_one(w, path, err));
    used++;
  }
  if (used > 0) return KF_OK;
  return kf_fail_file(err, pattern,
                      "matches neither JPEG, PNG or WebP pictures nor folders or archives");
}

static kf_status add_matches(walk *w, const char *pattern, kf_err *err) {
  match_list found = {0};
  kf_status status = kf_match_paths(pattern, keep_match, &found, err);
  if (status == KF_OK) status = use_matches(w, pattern, &found, err);
  for (size_t i = 0; i < found.n; i++) kf_free(found.path[i]);
  kf_free(found.path);
  return status;
}

/* The numbers of "a{0003..0120}b": from, to, their digits, the length of a, and b. */
typedef struct run_of {
  unsigned long from, to;
  int digits;
  size_t head;
  const char *tail;
} run_of;

static bool find_run(const char *path, run_of *r) {
  enum { MAX_DIGITS = 9 };
  const char *open = strchr(path, '{'), *dots = open != NULL ? strstr(open, "..") : NULL;
  const char *close = dots != NULL ? strchr(dots, '}') : NULL;
  if (close == NULL) return false;
  size_t n = strspn(open + 1, "0123456789"), m = strspn(dots + 2, "0123456789");
  if (n == 0 || m == 0 || n > MAX_DIGITS || m > MAX_DIGITS || open + 1 + n != dots ||
      dots + 2 + m != close)
    return false;
  *r = (run_of){strtoul(open + 1, NULL, 10), strtoul(dots + 2, NULL, 10), (int)n,
                (size_t)(open - path), close + 1};
  return r->from <= r->to;
}

static kf_status add_given(walk *w, const char *path, kf_err *err);

/* Expands the names of shards as WebDataset writes them, if the shell has not done so. */
static kf_status add_run(walk *w, const char *path, const run_of *r, kf_err *err) {
  char one[PATH_MAX];
  for (unsigned long i = r->from; i <= r->to; i++) {
    int n = snprintf(one, sizeof one, "%.*s%0*lu%s", (int)r->head, path, r->digits, i, r->tail);
    if (n < 0 || (size_t)n >= sizeof one) return kf_fail_file(err, path, "is too long");
    KF_TRY(add_given(w, one, err));
  }
  return KF_OK;
}

/* A file whose name happens to look like a pattern is still a file. */
static kf_status add_given(walk *w, const char *path, kf_err *err) {
  struct stat info;
  run_of run;
  if (find_run(path, &run) && stat(path, &info) != 0) return add_run(w, path, &run, err);
  if (strpbrk(path, "*?[") != NULL && stat(path, &info) != 0) return add_matches(w, path, err);
  if (stat(path, &info) != 0) return kf_fail_errno(err, path, "cannot be opened", errno);
  return add_one(w, path, err);
}

/* --- a list ----------------------------------------------------------------------------------- */

typedef struct list_reading {
  kf_pictures *list;
  const char *path;
  char *folder; /* of the list, with its slash; "": the current one */
  int classes;  /* whether lines have a class; -1: not yet known */
} list_reading;

static kf_status take_line(void *argument, uint64_t line, const char *text, size_t length,
                           kf_err *err) {
  list_reading *job = argument;
  const char *tab = memchr(text, '\t', length);
  size_t n = tab != NULL ? (size_t)(tab - text) : length;
  size_t rest = tab != NULL ? length - n - 1 : 0;
  if (n == 0 || (tab != NULL && (rest == 0 || memchr(tab + 1, '\t', rest) != NULL)))
    return kf_fail_file(err, job->path, "line %" PRIu64 " is neither PATH nor PATH<tab>CLASS",
                        line);
  if (job->classes < 0) job->classes = tab != NULL;
  if (job->classes != (tab != NULL))
    return kf_fail_file(err, job->path, "line %" PRIu64 " has %s class, but those before have %s",
                        line, tab != NULL ? "a" : "no", tab != NULL ? "none" : "one");
  if (!kf_utf8_valid(text, length))
    return kf_fail_file(err, job->path, "line %" PRIu64 " is not valid UTF-8", line);
  const char *folder = text[0] == '/' ? "" : job->folder;
  char *path = join(job->list, folder, text, n);
  char *class = tab != NULL ? join(job->list, NULL, tab + 1, rest) : NULL;
  if (path == NULL || (tab != NULL && class == NULL)) return kf_fail_memory(err);
  return add(job->list, path, path + strlen(folder), class, err);
}

static kf_status read_list(kf_pictures *list, const char *path, kf_err *err) {
  /* The paths in a stream are not relative to its folder. */
  const char *slash = kf_starts_with(path, "/dev/fd/") ? NULL : strrchr(path, '/');
  list_reading job = {.list = list, .path = path, .classes = -1};
  job.folder = join(list, NULL, path, slash != NULL ? (size_t)(slash - path) + 1 : 0);
  if (job.folder == NULL) return kf_fail_memory(err);
  kf_in in;
  KF_TRY(kf_in_open(&in, path, err));
  kf_status status = kf_lines_each(&in, take_line, &job, err);
  kf_in_close(&in);
  if (status == KF_OK && list->n == 0) /* nothing but a byte order mark */
    status = kf_fail_file(err, path, "is empty");
  return status;
}

static kf_status refuse_twice(const kf_pictures *list, kf_err *err) {
  if (list->n > UINT32_MAX) return kf_fail(err, KF_ERR_DATA, "%zu pictures are too many", list->n);
  kf_dict *seen = kf_dict_new((uint32_t)list->n);
  kf_status status = seen != NULL ? KF_OK : kf_fail_memory(err);
  for (size_t i = 0; i < list->n && status == KF_OK; i++) {
    const char *path = list->pictures[i].path;
    size_t length = strlen(path);
    if (kf_dict_find(seen, path, length) >= 0)
      status = kf_fail_file(err, path, "appears twice among the pictures");
    else if (!kf_dict_add(seen, path, length, (uint32_t)i))
      status = kf_fail_memory(err);
  }
  kf_dict_free(seen);
  return status;
}

static kf_status collect_names(const kf_pictures *list, kf_name_set *set, kf_err *err) {
  for (size_t i = 0; i < list->n; i++) {
    const picture *p = &list->pictures[i];
    int32_t number;
    if (p->class != NULL)
      KF_TRY(kf_name_set_number(set, p->path, i + 1, p->class, strlen(p->class), &number, err));
  }
  return KF_OK;
}

static kf_status number_classes(kf_pictures *list, kf_err *err) {
  kf_name_set set = {0};
  kf_dict *map = NULL;
  kf_status status = collect_names(list, &set, err);
  if (status == KF_OK) status = kf_name_set_list(&set, true, &list->names, err);
  kf_name_set_clear(&set);
  if (status != KF_OK || list->names.n == 0) return status;
  KF_TRY(kf_dict_new_from_names(&list->names, "classes", &map, err));
  KF_TAKE(&list->memory, list->labels, list->n);
  for (size_t i = 0; list->labels != NULL && i < list->n; i++) {
    const char *class = list->pictures[i].class;
    list->labels[i] =
        class != NULL ? (int32_t)kf_dict_find(map, class, strlen(class)) : KF_LABEL_NONE;
  }
  kf_dict_free(map);
  return list->labels != NULL ? KF_OK : kf_fail_memory(err);
}

/* Takes the classes from a table, and keeps the pictures that it has. */
static kf_status use_labels(kf_ctx *ctx, kf_pictures *list, const kf_pictures_options *o) {
  const char **classes;
  size_t kept = 0;
  if (KF_TAKE_ZERO(&list->memory, classes, list->n) == NULL) return kf_fail_memory(&ctx->err);
  KF_TRY(kf_picture_labels(ctx, list, o, &list->memory, classes));
  for (size_t i = 0; i < list->n; i++) {
    if (classes[i] == NULL) continue;
    list->pictures[kept] = list->pictures[i];
    list->pictures[kept++].class = classes[i];
  }
  list->n = kept;
  return KF_OK;
}

static kf_status finish(kf_ctx *ctx, kf_pictures *list, kf_status status,
                        const kf_pictures_options *o, kf_pictures **out) {
  kf_err *err = &ctx->err;
  if (status == KF_OK) status = refuse_twice(list, err);
  if (status == KF_OK && o->labels != NULL) status = use_labels(ctx, list, o);
  if (status == KF_OK) status = number_classes(list, err);
  KF_HAND_OUT(status, out, list, kf_pictures_free);
}

kf_status kf_pictures_open(kf_ctx *ctx, const char *const *paths, size_t n_paths,
                           kf_pictures **out) {
  return kf_pictures_open_with(ctx, paths, n_paths, NULL, out);
}

kf_status kf_pictures_open_with(kf_ctx *ctx, const char *const *paths, size_t n_paths,
                                const kf_pictures_options *options, kf_pictures **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, paths != NULL && n_paths > 0 && out != NULL);
  KF_OPTIONS(kf_pictures_options, o, options);
  kf_pictures *list = kf_alloc_zero(1, sizeof *list);
  if (list == NULL) return kf_fail_memory(err);
  walk w = {.ctx = ctx, .list = list, .label_key = o.label_key, .flat = o.labels != NULL};
  kf_status status = KF_OK;
  for (size_t i = 0; i < n_paths && status == KF_OK; i++)
    status = paths[i] != NULL ? add_given(&w, paths[i], err)
                              : kf_fail(err, KF_ERR_ARG, "kf_pictures_open: a path is NULL");
  char others[sizeof(kf_few) + 80];
  if (status == KF_OK && w.unread.n > 0)
    kf_log(ctx, "left out %s; JPEG, PNG and WebP can be read",
           describe_unread(&w, w.unread.n, others, sizeof others));
  return finish(ctx, list, status, &o, out);
}

kf_status kf_pictures_open_list(kf_ctx *ctx, const char *path, kf_pictures **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, path != NULL && out != NULL);
  kf_pictures *list = kf_alloc_zero(1, sizeof *list);
  if (list == NULL) return kf_fail_memory(err);
  return finish(ctx, list, read_list(list, path, err), &(kf_pictures_options){0}, out);
}

void kf_pictures_free(kf_pictures *list) {
  if (list == NULL) return;
  kf_arena_free(&list->memory);
  kf_names_clear(&list->names);
  kf_free(list->pictures);
  kf_free(list->folders);
  kf_free(list);
}

uint64_t kf_pictures_count(const kf_pictures *list) { return list->n; }
uint32_t kf_pictures_classes(const kf_pictures *list) { return list->names.n; }
const kf_names *kf_pictures_names(const kf_pictures *list) { return &list->names; }

const char *kf_pictures_path(const kf_pictures *list, uint64_t i) {
  return i < list->n ? list->pictures[i].path : NULL;
}

const char *kf_pictures_id(const kf_pictures *list, uint64_t i) {
  return i < list->n ? list->pictures[i].id : NULL;
}

const kf_sample *kf_pictures_sample(const kf_pictures *list, uint64_t i) {
  return list->pictures[i].sample;
}

kf_extent kf_pictures_extent(const kf_pictures *list, uint64_t i) {
  const picture *p = &list->pictures[i];
  if (p->sample == NULL) return kf_extent_file(p->path);
  return (kf_extent){p->path, p->sample->archive, p->sample->picture.at, p->sample->picture.size};
}

const char *kf_pictures_class_name(const kf_pictures *list, uint32_t k) {
  return k < list->names.n ? list->names.name[k] : NULL;
}

int32_t kf_pictures_label(const kf_pictures *list, uint64_t i) {
  return list->labels != NULL && i < list->n ? list->labels[i] : KF_LABEL_NONE;
}

/* --- where they are --------------------------------------------------------------------------- */

/* Resolves links in a path, which need not exist, though its folder must. */
static bool resolve(const char *path, char real[PATH_MAX]) {
  if (realpath(path, real) != NULL) return true;
  char folder[PATH_MAX];
  size_t n = strlen(path);
  while (n > 1 && path[n - 1] == '/') n--;
  size_t name = n;
  while (name > 0 && path[name - 1] != '/') name--;
  if (n == 0 || n >= sizeof folder) return false;
  snprintf(folder, sizeof folder, "%.*s", name > 0 ? (int)name : 1, name > 0 ? path : ".");
  if (realpath(folder, real) == NULL) return false;
  size_t used = strlen(real);
  if (used + n - name + 2 > PATH_MAX) return false;
  snprintf(real + used, PATH_MAX - used, "/%.*s", (int)(n - name), path + name);
  return true;
}

int kf_pictures_inside(const kf_pictures *list, const char *path) {
  char real[PATH_MAX];
  if (path == NULL || !resolve(path, real)) return 0;
  for (size_t i = 0; i < list->n_folders; i++) {
    size_t n = strlen(list->folders[i]);
    bool root = n == 1; /* "/" */
    if (root || (strncmp(real, list->folders[i], n) == 0 && (real[n] == '/' || real[n] == '\0')))
      return 1;
  }
  return 0;
}
