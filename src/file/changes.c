/* changes.c - changes of a gallery after it was written: rows added and rows removed.
 *
 * The gallery file is not rewritten. Each change is a file of its own in a folder beside it,
 * "GALLERY.changes", so a change costs what it adds. It appears whole or not at all, under its
 * final name, while its writer holds the lock of the gallery (base/guard.c).
 *
 * A change belongs to the gallery file whose checksum is in its name. Each change records the
 * checksum of the one before it, and their numbers have no gaps. So a rewritten gallery has no
 * changes, whatever is left in the folder, and no change can be lost or swapped unnoticed.
 *
 * A row keeps its place for good: first come the rows of the file, then those of each change.
 * Removed rows are named by place. Readers number the remaining rows in the order of their places.
 *
 * Readers never wait. Compacting replaces the gallery first; then its folder of changes is renamed,
 * so that all of them vanish in one step, and emptied. A reader that has opened the changes checks
 * that file and folder still have their names, and otherwise starts over; after that it opens
 * nothing by path. It keeps the files open or, if there are too many, holds their folder by a
 * shared lock. The last reader of a held folder empties it.
 *
 * A file may be replaced by one with the same bytes, and so the same checksum. Old changes must not
 * apply to it, so a folder holds the changes of one file only: leftovers of an earlier file are
 * moved aside before anything is added or the file is replaced. */
#include "file/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define GALLERY_FORMAT "koofu.gallery"

/* At most this many files of changes stay open, besides the gallery. A process has few descriptors,
 * so the others are parked: reopened through their folder when read. */
#define MAX_OPEN_CHANGES 32

/* A folder that is moved aside gets the first free one of MAX_AWAY_FOLDERS names. The first
 * TIDIED_FOLDERS of them are cleaned up each time. */
enum { TIDIED_FOLDERS = 8, MAX_AWAY_FOLDERS = 64 };
#define AWAY_EXTENSION ".old"

/* --- names --------------------------------------------------------------------------------- */

#define EXTENSION ".safetensors"
enum { NAME_SIZE = 16 + 1 + 6 + sizeof EXTENSION };

static void change_name(uint64_t base, uint32_t number, char name[NAME_SIZE]) {
  snprintf(name, NAME_SIZE, "%016" PRIx64 "-%06" PRIu32 EXTENSION, base,
           number % (KF_MAX_CHANGES + 1));
}

static bool parse_name(const char *name, uint64_t *base, uint32_t *number) {
  char canonical[NAME_SIZE], *end;
  *base = strtoull(name, &end, 16);
  *number = *end == '-' ? (uint32_t)strtoul(end + 1, NULL, 10) : 0;
  change_name(*base, *number, canonical); /* strtoull accepts more than koofu writes */
  return *number > 0 && strcmp(name, canonical) == 0;
}

/* A leftover of a killed process: the hidden name of a change that never got its final one
 * (out.c). */
static bool is_left_over(const char *name) {
  char own[NAME_SIZE];
  uint64_t base;
  uint32_t number;
  size_t length = strlen(name);
  if (name[0] != '.' || length < NAME_SIZE || strcmp(name + length - strlen(".part"), ".part") != 0)
    return false;
  snprintf(own, sizeof own, "%s", name + 1);
  return parse_name(own, &base, &number);
}

/* "GALLERY.changes", beside the target if the path is a link. false: too long for a path. */
static bool folder_of(const char *path, char folder[PATH_MAX]) {
  struct stat info;
  bool link = lstat(path, &info) == 0 && S_ISLNK(info.st_mode);
  if (!link || realpath(path, folder) == NULL) {
    if (strlen(path) >= PATH_MAX) return false;
    strcpy(folder, path);
  }
  size_t length = strlen(folder);
  if (length + sizeof KF_CHANGES_ENDING > PATH_MAX) return false;
  strcpy(folder + length, KF_CHANGES_ENDING);
  return true;
}

/* A hidden name for such a folder, like those of out.c. false: too long for a path. */
static bool away_name(const char *folder, unsigned number, char away[PATH_MAX]) {
  const char *slash = strrchr(folder, '/');
  size_t parent = slash != NULL ? (size_t)(slash - folder) + 1 : 0;
  int n = snprintf(away, PATH_MAX, "%.*s.%.180s.%016x" AWAY_EXTENSION, (int)parent, folder,
                   folder + parent, number);
  return n > 0 && n < PATH_MAX;
}

/* NULL: there is none, or another failure, in errno. */
static DIR *open_folder(const char *folder) {
  int fd = kf_open(folder, O_RDONLY | O_DIRECTORY);
  DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
  if (dir == NULL && fd >= 0) close(fd);
  return dir;
}

/* --- one change ---------------------------------------------------------------------------- */

static kf_status meta_hex(const kf_st *st, const char *key, uint64_t *out, kf_err *err) {
  const char *text = kf_st_meta(st, key);
  if (text != NULL && kf_parse_hex64(text, out)) return KF_OK;
  return kf_fail_file(err, st->in.path, "metadata '%s' is not 16 hexadecimal digits", key);
}

/* The file is the change that its name says, and follows the one before it. */
static kf_status check_chain(const kf_changes *c, kf_change *change, kf_err *err) {
  const kf_st *st = &change->st;
  uint64_t base = 0, previous = 0, last = c->n > 0 ? c->change[c->n - 1].checksum : c->base;
  int64_t number = 0;
  KF_TRY(meta_hex(st, "checksum", &change->checksum, err));
  KF_TRY(meta_hex(st, "base", &base, err));
  KF_TRY(meta_hex(st, "previous", &previous, err));
  KF_TRY(kf_st_meta_i64(st, "number", &number, err));
  if (base != c->base || number != (int64_t)c->n + 1)
    return kf_fail_file(err, st->in.path, "is not the change that its name says");
  if (previous != last)
    return kf_fail_file(err, st->in.path, "does not follow the change before it");
  return KF_OK;
}

/* Rows of a change must have the type, dimension and tensors of the file. */
static kf_status check_rows(const kf_st *base, kf_change *change, kf_err *err) {
  static const char *const others[] = {KF_TENSOR_LABELS, KF_TENSOR_ID_ENDS, KF_TENSOR_ID_BYTES};
  const kf_st *st = &change->st;
  const kf_st_tensor *own = kf_st_find(base, KF_TENSOR_ROWS), *rows = NULL;
  bool adds = kf_st_find(st, KF_TENSOR_ROWS) != NULL;
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if ((kf_st_find(st, others[i]) != NULL) != (adds && kf_st_find(base, others[i]) != NULL))
      return kf_fail_file(err, st->in.path,
                          "tensor '%s' must be present with new rows if and only if %s has it",
                          others[i], base->in.path);
  if (!adds) return KF_OK;
  KF_TRY(kf_st_expect(st, KF_TENSOR_ROWS, own->type, 2, (int64_t[]){-1, (int64_t)own->shape[1]},
                      &rows, err));
  change->rows = rows->shape[0];
  change->offset = rows->offset;
  if (change->rows < 1)
    return kf_fail_file(err, st->in.path, "has no rows in '" KF_TENSOR_ROWS "'");
  KF_TRY(kf_st_expect(st, KF_TENSOR_BATCHES, KF_TYPE_U64, 1, (int64_t[]){1}, &rows, err));
  KF_TRY(kf_st_read_all(st, rows, &change->batch, err));
  if (kf_st_find(st, KF_TENSOR_LABELS) != NULL)
    KF_TRY(kf_st_expect(st, KF_TENSOR_LABELS, KF_TYPE_I32, 1, (int64_t[]){(int64_t)change->rows},
                        &rows, err));
  return kf_st_meta_names(st, &change->names, err);
}

/* --- what is removed ----------------------------------------------------------------------- */

bool kf_changes_removed(const kf_changes *c, uint64_t place) {
  return c->removed != NULL && place / 64 < c->n_words &&
         (c->removed[place / 64] >> place % 64 & 1);
}

static kf_status make_bits(kf_changes *c, kf_err *err) {
  uint64_t words = c->places / 64 + 1;
  if (words <= c->n_words) return KF_OK;
  uint64_t *bits = kf_alloc_zero(words, sizeof *bits);
  if (bits == NULL) return kf_fail_memory(err);
  if (c->n_words > 0) memcpy(bits, c->removed, c->n_words * sizeof *bits);
  kf_free(c->removed);
  c->removed = bits;
  c->n_words = words;
  return KF_OK;
}

static kf_status remove_places(kf_changes *c, const kf_st *st, const int64_t *place, size_t n,
                               int64_t *last, kf_err *err) {
  for (size_t i = 0; i < n; *last = place[i++]) {
    if (place[i] <= *last || (uint64_t)place[i] >= c->places)
      return kf_fail_file(err, st->in.path,
                          "tensor '" KF_TENSOR_REMOVED "' has %" PRId64
                          ", which is not an earlier row, or not in ascending order",
                          place[i]);
    if (kf_changes_removed(c, (uint64_t)place[i]))
      return kf_fail_file(err, st->in.path, "row %" PRId64 " was already removed", place[i]);
    c->removed[place[i] / 64] |= (uint64_t)1 << place[i] % 64;
    c->n_removed++;
    c->base_removed += (uint64_t)place[i] < c->base_rows;
  }
  return KF_OK;
}

static kf_status take_removed(kf_changes *c, kf_change *change, kf_err *err) {
  enum { ROWS_AT_ONCE = 1024 };
  const kf_st *st = &change->st;
  const kf_st_tensor *t;
  int64_t place[ROWS_AT_ONCE], last = -1;
  if (kf_st_find(st, KF_TENSOR_REMOVED) == NULL) return KF_OK;
  KF_TRY(kf_st_expect(st, KF_TENSOR_REMOVED, KF_TYPE_I64, 1, (int64_t[]){-1}, &t, err));
  KF_TRY(make_bits(c, err));
  for (uint64_t done = 0; done < t->shape[0]; done += ROWS_AT_ONCE) {
    uint64_t left = t->shape[0] - done;
    size_t n = left < ROWS_AT_ONCE ? (size_t)left : ROWS_AT_ONCE;
    KF_TRY(kf_in_read(&st->in, t->offset + done * sizeof *place, place, n * sizeof *place, err));
    KF_TRY(remove_places(c, st, place, n, &last, err));
  }
  return KF_OK;
}

bool kf_change_is_whole(const kf_changes *c, uint32_t i) {
  const kf_change *change = &c->change[i];
  for (uint64_t row = 0; c->n_removed > 0 && row < change->rows; row++)
    if (kf_changes_removed(c, change->first + row)) return false;
  return true;
}

/* --- removing changes ---------------------------------------------------------------------- */

/* Removes changes that do not belong to the file with checksum `keep`; 0: all. false: not
 * all could be removed. */
static bool remove_changes(DIR *dir, uint64_t keep) {
  const struct dirent *entry;
  kf_err ignored;
  bool removed = true;
  while (removed && kf_next_entry(dir, "", &entry, &ignored) == KF_OK) {
    uint64_t of;
    uint32_t number;
    if (entry == NULL) return true;
    bool other = parse_name(entry->d_name, &of, &number) && (keep == 0 || of != keep);
    if (other || is_left_over(entry->d_name)) removed = unlinkat(dirfd(dir), entry->d_name, 0) == 0;
  }
  return false;
}

/* Whether another folder has the name by now, or none has. */
static bool is_renamed(const char *folder, DIR *dir) {
  struct stat own, named;
  return fstat(dirfd(dir), &own) == 0 &&
         (stat(folder, &named) != 0 || own.st_dev != named.st_dev || own.st_ino != named.st_ino);
}

/* Removes a folder that was moved aside, unless a reader holds it. If it contains anything else, it
 * gets its old name `folder` back (NULL: it does not). Closes dir; NULL is fine. */
static void discard(const char *away, const char *folder, DIR *dir) {
  if (dir == NULL) return;
  bool emptied = kf_lock_fd(dirfd(dir), LOCK_EX) != EWOULDBLOCK && remove_changes(dir, 0);
  if (emptied && rmdir(away) != 0 && folder != NULL && (errno == ENOTEMPTY || errno == EEXIST) &&
      !is_renamed(away, dir))
    rename(away, folder);
  closedir(dir);
}

/* Called for the last reader of a held folder. A forked process may hold it by the same descriptor,
 * so the lock is requested through a new one. */
static void leave_folder(int fd) {
  char self[40], path[PATH_MAX];
  snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(self, path, sizeof path - 1);
  close(fd);
  path[n > 0 ? n : 0] = '\0';
  const char *slash = strrchr(path, '/');
  if (slash != NULL && slash[1] == '.' && kf_ends_with(path, AWAY_EXTENSION))
    discard(path, NULL, open_folder(path));
}

/* --- all of them --------------------------------------------------------------------------- */

static kf_status open_change(kf_changes *c, const kf_st *base, const char *path, bool verify,
                             kf_err *err) {
  size_t room = c->room;
  if (!kf_grow((void **)&c->change, &room, c->n, sizeof *c->change)) return kf_fail_memory(err);
  c->room = room;
  kf_change *change = &c->change[c->n];
  *change = (kf_change){0};
  KF_TRY(kf_st_open(&change->st, path, err));
  kf_status status = (verify ? kf_st_check_file : kf_st_check_format)(
      &change->st, KF_CHANGE_FORMAT, "a change of a koofu gallery", err);
  if (status == KF_OK) status = check_chain(c, change, err);
  if (status == KF_OK) status = check_rows(base, change, err);
  if (status == KF_OK) status = take_removed(c, change, err);
  if (c->n >= MAX_OPEN_CHANGES) kf_in_park(&change->st.in, c->folder);
  change->first = c->places;
  if (status == KF_OK && change->rows > KF_MAX_ROWS - c->places)
    status = kf_fail_file(err, path, "too many rows");
  c->places += change->rows;
  c->n++; /* kf_changes_close closes it */
  return status;
}

/* A change added while the folder is listed may be seen although the one before it was not. */
static uint32_t count_present(DIR *dir, uint64_t base, uint32_t highest) {
  uint32_t n = 0;
  for (uint32_t number = 1; number <= highest; number++) {
    char name[NAME_SIZE];
    change_name(base, number, name);
    n += faccessat(dirfd(dir), name, F_OK, 0) == 0;
  }
  return n;
}

/* The number of changes of this file. Every number up to the highest must exist. */
static kf_status count_changes(const char *folder, DIR *dir, uint64_t base, uint32_t *out,
                               bool *others, kf_err *err) {
  const struct dirent *entry;
  uint32_t highest = 0, n = 0;
  for (;;) {
    uint64_t of;
    uint32_t number;
    KF_TRY(kf_next_entry(dir, folder, &entry, err));
    if (entry == NULL) break;
    *others = *others || is_left_over(entry->d_name);
    if (!parse_name(entry->d_name, &of, &number)) continue;
    *others = *others || of != base;
    if (of != base) continue;
    n++;
    if (number > highest) highest = number;
  }
  *out = highest;
  if (n != highest) n = count_present(dir, base, highest);
  if (n == highest) return KF_OK;
  return kf_fail(err, KF_ERR_DATA, "%s: %" PRIu32 " of %" PRIu32 " changes %s missing", folder,
                 highest - n, highest, highest - n == 1 ? "is" : "are");
}

/* Keeps the files in the folder from being removed. Where folders cannot be locked, nothing
 * does. */
static kf_status hold_folder(kf_changes *c, const char *folder, DIR *dir, kf_err *err) {
  int fd = fcntl(dirfd(dir), F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return kf_fail_errno(err, folder, "cannot be opened", errno);
  c->folder = kf_folder_new(fd, leave_folder);
  if (c->folder == NULL) return kf_fail_memory(err);
  if (kf_lock_fd(fd, LOCK_SH) != EWOULDBLOCK) return KF_OK;
  return kf_fail(err, KF_ERR_IO, "%s: another process is removing it", folder);
}

static kf_status open_all(kf_changes *c, const kf_st *base, const char *folder, DIR *dir,
                          bool verify, kf_err *err) {
  uint32_t n;
  KF_TRY(count_changes(folder, dir, c->base, &n, &c->others, err));
  if (n > MAX_OPEN_CHANGES) KF_TRY(hold_folder(c, folder, dir, err));
  for (uint32_t number = 1; number <= n; number++) {
    char name[NAME_SIZE];
    change_name(c->base, number, name);
    char *path = kf_path_join(folder, name);
    kf_status status = path != NULL ? open_change(c, base, path, verify, err) : kf_fail_memory(err);
    kf_free(path);
    KF_TRY(status);
  }
  if (c->n_removed < c->places) return KF_OK;
  return kf_fail(err, KF_ERR_DATA, "%s: all rows have been removed", folder);
}

/* *again: the folder was moved aside meanwhile. */
static kf_status find_changes(kf_changes *c, const kf_st *st, bool verify, bool *again,
                              kf_err *err) {
  const char *sum = kf_st_meta(st, "checksum");
  const kf_st_tensor *rows = kf_st_find(st, KF_TENSOR_ROWS);
  if (rows == NULL || rows->ndim != 2 || rows->shape[1] == 0) return KF_OK; /* reported elsewhere */
  c->places = c->base_rows = rows->shape[0];
  if (sum == NULL || !kf_parse_hex64(sum, &c->base)) return KF_OK;
  char folder[PATH_MAX];
  if (!folder_of(st->in.path, folder)) return KF_OK;
  DIR *dir = open_folder(folder);
  int code = dir == NULL ? errno : 0;
  bool none = code == ENOENT || code == ENOTDIR || code == ENAMETOOLONG;
  kf_status status = KF_OK;
  if (dir != NULL)
    status = open_all(c, st, folder, dir, verify, err);
  else if (!none)
    status = kf_fail_errno(err, folder, "cannot be opened", code);
  *again = dir != NULL && is_renamed(folder, dir);
  if (dir != NULL) closedir(dir);
  return status;
}

kf_status kf_changes_open(kf_changes *c, kf_st *st, const char *path, bool verify, kf_err *err) {
  for (int round = 0; round < 100; round++) {
    *c = (kf_changes){0};
    KF_TRY(kf_st_open(st, path, err));
    const char *format = kf_st_meta(st, "format");
    if (format == NULL || strcmp(format, GALLERY_FORMAT) != 0) return KF_OK;
    bool again = false;
    kf_status status = find_changes(c, st, verify, &again, err);
    again = again || kf_in_replaced(&st->in);
    if (!again && status == KF_OK) return KF_OK;
    kf_changes_close(c);
    kf_st_close(st);
    if (!again || status == KF_ERR_MEM) return status;
  }
  return kf_fail(err, KF_ERR_IO, "%s: it keeps being replaced", path);
}

void kf_changes_close(kf_changes *c) {
  for (uint32_t i = 0; i < c->n; i++) {
    kf_st_close(&c->change[i].st);
    kf_names_clear(&c->change[i].names);
  }
  kf_folder_release(c->folder);
  kf_free(c->change);
  kf_free(c->removed);
  *c = (kf_changes){0};
}

kf_status kf_changes_living(const kf_changes *c, uint64_t **out, kf_err *err) {
  *out = NULL;
  if (c->n_removed == 0) return KF_OK;
  uint64_t *list = kf_alloc(c->places - c->n_removed, sizeof *list), n = 0;
  if (list == NULL) return kf_fail_memory(err);
  for (uint64_t place = 0; place < c->places; place++)
    if (!kf_changes_removed(c, place)) list[n++] = place;
  *out = list;
  return KF_OK;
}

kf_status kf_changes_names(const kf_changes *c, const char *path, kf_names *names, kf_err *err) {
  uint64_t n = names->n;
  for (uint32_t i = 0; i < c->n; i++) n += c->change[i].names.n;
  if (n == names->n) return KF_OK;
  if (names->n == 0 || n > KF_MAX_CLASSES)
    return kf_fail_file(err, path,
                        names->n == 0 ? "its changes have class names, but it has none"
                                      : "its changes have too many classes");
  const char **list = kf_alloc(n, sizeof *list);
  if (list == NULL) return kf_fail_memory(err);
  uint32_t at = 0;
  for (uint32_t k = 0; k < names->n; k++) list[at++] = names->name[k];
  for (uint32_t i = 0; i < c->n; i++)
    for (uint32_t k = 0; k < c->change[i].names.n; k++) list[at++] = c->change[i].names.name[k];
  kf_names all = {0};
  kf_status status = kf_names_copy(list, at, &all, err);
  kf_free(list);
  if (status == KF_OK) status = kf_names_check(&all, path, err);
  if (status != KF_OK) {
    kf_names_clear(&all);
    return status;
  }
  kf_names_clear(names);
  *names = all;
  return KF_OK;
}

/* --- writing ------------------------------------------------------------------------------- */

/* Makes the creation or removal of the folder survive a power cut. */
static void sync_parent(const char folder[PATH_MAX]) {
  char parent[PATH_MAX];
  strcpy(parent, folder);
  char *slash = strrchr(parent, '/');
  if (slash != NULL) slash[slash == parent ? 1 : 0] = '\0';
  int fd = kf_open(slash != NULL ? parent : ".", O_RDONLY | O_DIRECTORY);
  if (fd < 0) return;
  fsync(fd);
  close(fd);
}

/* Users who cannot read the gallery must not enter the folder. */
static mode_t folder_mode(const char *path) {
  struct stat info;
  if (stat(path, &info) != 0) return 0700;
  return (mode_t)(0700 | (info.st_mode & 0040 ? 0050 : 0) | (info.st_mode & 0020 ? 0020 : 0) |
                  (info.st_mode & 0004 ? 0005 : 0) | (info.st_mode & 0002 ? 0002 : 0));
}

kf_status kf_changes_path(const char *path, uint64_t base, uint64_t number, bool make, char **out,
                          kf_err *err) {
  char name[NAME_SIZE], folder[PATH_MAX];
  if (number > KF_MAX_CHANGES)
    return kf_fail_hint(err, KF_ERR_DATA, KF_HINT_COMPACT, "%s: has %d changes, the maximum", path,
                        KF_MAX_CHANGES);
  if (!folder_of(path, folder)) return kf_fail(err, KF_ERR_IO, "%s: the path is too long", path);
  change_name(base, (uint32_t)number, name);
  *out = kf_path_join(folder, name);
  if (*out == NULL) return kf_fail_memory(err);
  if (make && mkdir(folder, folder_mode(path)) == 0) {
    sync_parent(folder);
  } else if (make && errno != EEXIST) {
    int code = errno;
    kf_free(*out);
    return kf_fail_errno(err, folder, "cannot be created", code);
  }
  return KF_OK;
}

void kf_changes_sweep(const char *path, uint64_t keep) {
  char folder[PATH_MAX];
  DIR *dir = folder_of(path, folder) ? open_folder(folder) : NULL;
  if (dir == NULL) return;
  remove_changes(dir, keep);
  closedir(dir);
}

kf_status kf_retire_begin(const char *path, DIR **out, kf_err *err) {
  char folder[PATH_MAX];
  *out = folder_of(path, folder) ? open_folder(folder) : NULL;
  return *out == NULL && errno == ENOMEM ? kf_fail_memory(err) : KF_OK;
}

kf_status kf_retire_end(const char *path, DIR *dir, kf_err *err) {
  char folder[PATH_MAX], away[PATH_MAX];
  bool there = folder_of(path, folder);
  int code = 0;
  for (unsigned i = 1; i <= TIDIED_FOLDERS || (there && code == 0 && i <= MAX_AWAY_FOLDERS); i++) {
    if (!away_name(folder, i, away)) break;
    discard(away, folder, open_folder(away)); /* an earlier one that readers held until now */
    if (!there || code != 0) continue;
    there = rename(folder, away) != 0;
    if (!there) {
      sync_parent(folder);
      bool own = dir != NULL && !is_renamed(away, dir); /* not one that existed before */
      discard(away, folder, own ? dir : open_folder(away));
      if (own) dir = NULL;
    } else if (errno == ENOENT) {
      there = false;
    } else if (errno != ENOTEMPTY && errno != EEXIST) {
      code = errno;
    }
  }
  if (dir != NULL) closedir(dir);
  return there ? kf_fail_errno(err, folder, "cannot be moved aside", code != 0 ? code : EEXIST)
               : KF_OK;
}
