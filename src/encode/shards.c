/* parts.c - the folder in which an embedding of many pictures keeps what is finished.
 *
 *     OUT.parts/manifest.safetensors        what the run is about
 *     OUT.parts/shard-00000017.safetensors  rows of the 18th shard; which pictures had none, and why
 *     OUT.parts/lock                        locked by the process that is at work
 *
 * Every file but the lock appears whole or not at all and has a checksum, so that a process may be
 * killed at any moment: what is there is finished, and what is not is done again. The lock goes with the
 * process that holds it (flock). */
#include "encode/shards.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define MANIFEST        "manifest.safetensors"
#define LOCK            "lock"
#define MANIFEST_FORMAT "koofu.embed"
#define SHARD_FORMAT    "koofu.shard"

/* The folder and a name in it; the caller frees it. */
static char *path_in(const kf_parts *parts, const char *name) {
  size_t size = strlen(parts->folder) + strlen(name) + 2;
  char *path = kf_alloc(size, 1);
  if (path != NULL) snprintf(path, size, "%s/%s", parts->folder, name);
  return path;
}

enum { SHARD_NAME = 48, DIGITS = 17 };

static void shard_name(uint64_t i, char name[SHARD_NAME]) {
  snprintf(name, SHARD_NAME, "shard-%08" PRIu64 ".safetensors", i);
}

static void hex(uint64_t value, char text[DIGITS]) { snprintf(text, DIGITS, "%016" PRIx64, value); }

uint64_t kf_parts_shards(const kf_parts *parts) {
  return (parts->id.pictures - 1) / parts->id.shard + 1;
}

uint64_t kf_parts_range(const kf_parts *parts, uint64_t i, uint64_t *first) {
  *first = i * parts->id.shard;
  uint64_t left = parts->id.pictures - *first;
  return left < parts->id.shard ? left : parts->id.shard;
}

/* --- removing ----------------------------------------------------------------------------------- */

static bool begins(const char *text, const char *with) {
  return strncmp(text, with, strlen(with)) == 0;
}

/* shard-00000017.safetensors and what follows it; NULL where it is no name of ours. */
static const char *behind_shard(const char *name) {
  static const char ending[] = ".safetensors";
  if (!begins(name, "shard-")) return NULL;
  name += strlen("shard-");
  size_t digits = strspn(name, "0123456789");
  if (digits < 8 || !begins(name + digits, ending)) return NULL;
  return name + digits + strlen(ending);
}

static bool is_shard(const char *name) {
  const char *rest = behind_shard(name);
  return rest != NULL && rest[0] == '\0';
}

/* What we write, and what writing it may leave behind where files under construction have names
 * (base/io.c): .shard-00000017.safetensors.….part. */
static bool is_ours(const char *name) {
  if (name[0] != '.') return is_shard(name) || strcmp(name, MANIFEST) == 0;
  const char *end = strrchr(name, '.');
  return strcmp(end, ".part") == 0 &&
         (behind_shard(name + 1) != NULL || begins(name + 1, MANIFEST));
}

/* The manifest goes last, so that what is half removed is still known for what it is. */
static void remove_files(const kf_parts *parts) {
  DIR *dir = opendir(parts->folder);
  if (dir == NULL) return;
  for (const struct dirent *entry; (entry = readdir(dir)) != NULL;)
    if (is_ours(entry->d_name) && strcmp(entry->d_name, MANIFEST) != 0)
      unlinkat(dirfd(dir), entry->d_name, 0);
  unlinkat(dirfd(dir), MANIFEST, 0);
  closedir(dir);
}

void kf_parts_close(kf_parts *parts) {
  if (parts->folder == NULL) return;
  if (parts->lock >= 0) close(parts->lock);
  kf_free(parts->folder);
  *parts = (kf_parts){.lock = -1};
}

void kf_parts_remove(kf_parts *parts) {
  if (parts->folder == NULL) return;
  remove_files(parts);
  char *lock = path_in(parts, LOCK);
  if (lock != NULL) unlink(lock);
  kf_free(lock);
  rmdir(parts->folder); /* not where somebody keeps other files in it */
  kf_parts_close(parts);
}

/* --- the lock ----------------------------------------------------------------------------------- */

/* Whether the locked file is still the one in the folder: another process may have been just about to
 * remove both. */
static bool still_there(int fd, const char *path) {
  struct stat own, named;
  return fstat(fd, &own) == 0 && stat(path, &named) == 0 && own.st_dev == named.st_dev &&
         own.st_ino == named.st_ino;
}

/* *done is false where it should be tried again. */
static kf_status try_lock(kf_parts *parts, const char *path, bool *done, kf_err *err) {
  *done = true;
  if (mkdir(parts->folder, 0777) != 0 && errno != EEXIST)
    return kf_fail_errno(err, parts->folder, "cannot be created", errno);
  if (!kf_is_directory(parts->folder))
    return kf_fail(err, KF_ERR_IO, "%s: is no folder, where finished shards are to be kept",
                   parts->folder);
  int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd < 0 && errno == ENOENT) {
    *done = false;
    return KF_OK;
  }
  if (fd < 0) return kf_fail_errno(err, path, "cannot be created", errno);
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    int code = errno;
    close(fd);
    if (code != EWOULDBLOCK) return kf_fail_errno(err, path, "cannot be locked", code);
    return kf_fail(err, KF_ERR_IO, "%s: another process is at work on these pictures",
                   parts->folder);
  }
  if (still_there(fd, path)) {
    parts->lock = fd;
  } else {
    close(fd);
    *done = false;
  }
  return KF_OK;
}

static kf_status take_lock(kf_parts *parts, kf_err *err) {
  char *path = path_in(parts, LOCK);
  if (path == NULL) return kf_fail_memory(err);
  kf_status status = KF_OK;
  bool done = false;
  for (int i = 0; !done && status == KF_OK && i < 100; i++)
    status = try_lock(parts, path, &done, err);
  if (status == KF_OK && !done)
    status =
        kf_fail(err, KF_ERR_IO, "%s: is made and removed all the time by others", parts->folder);
  kf_free(path);
  return status;
}

/* --- the manifest ------------------------------------------------------------------------------- */

static kf_status describe(kf_stw *w, const kf_parts_id *id, kf_err *err) {
  char digits[DIGITS];
  KF_TRY(kf_stw_meta(w, "format", MANIFEST_FORMAT, err));
  KF_TRY(kf_stw_meta_i64(w, "version", 1, err));
  KF_TRY(kf_stw_meta_i64(w, "pictures", (int64_t)id->pictures, err));
  hex(id->list, digits);
  KF_TRY(kf_stw_meta(w, "list", digits, err));
  hex(id->encoder, digits);
  KF_TRY(kf_stw_meta(w, "encoder", digits, err));
  KF_TRY(kf_stw_meta(w, "dtype", kf_dtype_name(id->dtype), err));
  KF_TRY(kf_stw_meta_i64(w, "normalize", id->normalize, err));
  return kf_stw_meta_i64(w, "shard", id->shard, err);
}

static kf_status write_manifest(const kf_parts *parts, const char *path, kf_err *err) {
  kf_stw *w;
  KF_TRY(kf_stw_open(path, true, &w, err));
  kf_status status = describe(w, &parts->id, err);
  if (status == KF_OK) return kf_stw_commit(w, err);
  kf_stw_abort(w);
  return status;
}

static bool same_text(const kf_st *st, const char *key, const char *value) {
  const char *given = kf_st_meta(st, key);
  return given != NULL && strcmp(given, value) == 0;
}

static bool same_number(const kf_st *st, const char *key, uint64_t value) {
  char text[24];
  snprintf(text, sizeof text, "%" PRIu64, value);
  return same_text(st, key, text);
}

static bool same_hash(const kf_st *st, const char *key, uint64_t value) {
  char digits[DIGITS];
  hex(value, digits);
  return same_text(st, key, digits);
}

/* Every picture of a run must have been made alike. */
static kf_status compare(const kf_parts *parts, const kf_st *st, kf_err *err) {
  const kf_parts_id *id = &parts->id;
  const char *other = NULL;
  if (!same_number(st, "pictures", id->pictures) || !same_hash(st, "list", id->list))
    other = "other pictures";
  else if (!same_hash(st, "encoder", id->encoder))
    other = "another encoder";
  else if (!same_text(st, "dtype", kf_dtype_name(id->dtype)))
    other = "another type of numbers";
  else if (!same_number(st, "normalize", id->normalize))
    other = "rows of another length";
  else if (!same_number(st, "shard", id->shard))
    other = "shards of another size";
  if (other == NULL) return KF_OK;
  return kf_fail(err, KF_ERR_ARG,
                 "%s: is of an unfinished run with %s; finish that one, throw it away "
                 "(--no-resume), or write to another name",
                 parts->folder, other);
}

static kf_status check_manifest(const kf_parts *parts, const char *path, kf_err *err) {
  kf_st st;
  kf_status status = kf_st_open(&st, path, err);
  if (status == KF_OK) {
    status = kf_st_check_format(&st, MANIFEST_FORMAT, "the manifest of an unfinished run", err);
    if (status == KF_OK) status = compare(parts, &st, err);
    kf_st_close(&st);
  }
  if (status != KF_ERR_DATA) return status;
  char cause[KF_WHERE_SIZE];
  snprintf(cause, sizeof cause, "%.4200s", err->message);
  return kf_fail(err, KF_ERR_DATA, "%s (--no-resume begins anew)", cause);
}

/* A manifest is the first of our files that is there and the last that goes: shards without one are
 * somebody else's, and would go with ours. */
static kf_status refuse_strangers(const kf_parts *parts, kf_err *err) {
  DIR *dir = opendir(parts->folder);
  if (dir == NULL) return kf_fail_errno(err, parts->folder, "cannot be listed", errno);
  kf_status status = KF_OK;
  for (const struct dirent *entry; status == KF_OK && (entry = readdir(dir)) != NULL;)
    if (is_shard(entry->d_name))
      status =
          kf_fail(err, KF_ERR_IO,
                  "%s: holds %s, but no manifest, and so is of no run of ours; move it away, or "
                  "write to another name",
                  parts->folder, entry->d_name);
  closedir(dir);
  return status;
}

static kf_status enter(kf_parts *parts, bool anew, kf_err *err) {
  KF_TRY(take_lock(parts, err));
  char *path = path_in(parts, MANIFEST);
  if (path == NULL) return kf_fail_memory(err);
  if (access(path, F_OK) != 0) {
    kf_status status = refuse_strangers(parts, err);
    if (status != KF_OK) {
      kf_free(path);
      return status;
    }
  }
  if (anew) remove_files(parts);
  parts->begun = access(path, F_OK) != 0;
  kf_status status =
      parts->begun ? write_manifest(parts, path, err) : check_manifest(parts, path, err);
  kf_free(path);
  if (status != KF_OK && parts->begun) kf_parts_remove(parts);
  return status;
}

kf_status kf_parts_open(kf_parts *parts, const char *out, const kf_parts_id *id, bool anew,
                        kf_err *err) {
  *parts = (kf_parts){.id = *id, .lock = -1};
  size_t size = strlen(out) + sizeof ".parts";
  parts->folder = kf_alloc(size, 1);
  if (parts->folder == NULL) return kf_fail_memory(err);
  snprintf(parts->folder, size, "%s.parts", out);
  kf_status status = enter(parts, anew, err);
  if (status != KF_OK) kf_parts_close(parts);
  return status;
}

/* --- shards: reading ---------------------------------------------------------------------------- */

static kf_status read_bytes(const kf_st *st, const kf_st_tensor *tensor, void **out, kf_err *err) {
  *out = kf_alloc(tensor->bytes, 1);
  return *out != NULL ? kf_st_read_all(st, tensor, *out, err) : kf_fail_memory(err);
}

static kf_status read_part(const kf_parts *parts, uint64_t i, kf_piece *part, kf_err *err) {
  const kf_st *st = &part->file;
  const kf_st_tensor *bad, *messages;
  uint64_t first;
  part->n = kf_parts_range(parts, i, &first);
  KF_TRY(kf_st_check_format(st, SHARD_FORMAT, "a shard of an unfinished run", err));
  KF_TRY(kf_st_expect(st, "embeddings", kf_type_of(parts->id.dtype), 2,
                      (int64_t[]){-1, parts->id.dim}, &part->rows, err));
  KF_TRY(kf_st_expect(st, "bad", KF_TYPE_U8, 1, (int64_t[]){(int64_t)part->n}, &bad, err));
  KF_TRY(kf_st_expect(st, "messages", KF_TYPE_U8, 1, (int64_t[]){-1}, &messages, err));
  KF_TRY(read_bytes(st, bad, (void **)&part->bad, err));
  KF_TRY(read_bytes(st, messages, (void **)&part->messages, err));
  part->n_messages = messages->bytes;
  for (uint64_t k = 0; k < part->n; k++) part->kept += part->bad[k] == 0;
  bool ended = part->n_messages == 0 || part->messages[part->n_messages - 1] == '\0';
  if (part->kept == part->rows->shape[0] && ended) return KF_OK;
  return kf_fail(err, KF_ERR_DATA, "%s: the rows are not those of its pictures", st->in.path);
}

/* Of the same run, at the same place, and of pictures that have not changed since. */
static bool fits(const kf_parts *parts, const kf_piece *part, uint64_t i, uint64_t stamp) {
  const kf_st *st = &part->file;
  return same_hash(st, "list", parts->id.list) && same_hash(st, "encoder", parts->id.encoder) &&
         same_number(st, "normalize", parts->id.normalize) && same_number(st, "shard", i) &&
         same_hash(st, "stamp", stamp);
}

static kf_status open_part(const kf_parts *parts, const char *path, uint64_t i, uint64_t stamp,
                           kf_piece *out, bool *there, char why[KF_WHERE_SIZE], kf_err *err) {
  kf_status status = kf_st_open(&out->file, path, err);
  if (status == KF_OK) status = read_part(parts, i, out, err);
  if (status == KF_ERR_DATA) {
    snprintf(why, KF_WHERE_SIZE, "%.4000s; it is made again", err->message);
    status = KF_OK;
  } else if (status == KF_OK && !fits(parts, out, i, stamp)) {
    snprintf(why, KF_WHERE_SIZE, "%.4000s: its pictures have changed; it is made again", path);
  } else {
    *there = status == KF_OK;
  }
  if (!*there) kf_piece_close(out);
  return status;
}

kf_status kf_piece_open(const kf_parts *parts, uint64_t i, uint64_t stamp, kf_piece *out,
                        bool *there, char why[KF_WHERE_SIZE], kf_err *err) {
  *out = (kf_piece){.file = {.in = {.fd = -1}}};
  *there = false;
  why[0] = '\0';
  char name[SHARD_NAME];
  shard_name(i, name);
  char *path = path_in(parts, name);
  if (path == NULL) return kf_fail_memory(err);
  kf_status status = KF_OK;
  if (access(path, F_OK) == 0) status = open_part(parts, path, i, stamp, out, there, why, err);
  kf_free(path);
  return status;
}

void kf_piece_close(kf_piece *part) {
  kf_st_close(&part->file);
  kf_free(part->bad);
  kf_free(part->messages);
  *part = (kf_piece){.file = {.in = {.fd = -1}}};
}

/* --- shards: writing ---------------------------------------------------------------------------- */

static kf_status declare(kf_stw *w, const kf_parts *parts, uint64_t i, uint64_t stamp,
                         uint64_t kept, uint64_t n, uint64_t n_messages, kf_err *err) {
  char digits[DIGITS];
  KF_TRY(kf_stw_meta(w, "format", SHARD_FORMAT, err));
  KF_TRY(kf_stw_meta_i64(w, "version", 1, err));
  hex(parts->id.list, digits);
  KF_TRY(kf_stw_meta(w, "list", digits, err));
  hex(parts->id.encoder, digits);
  KF_TRY(kf_stw_meta(w, "encoder", digits, err));
  KF_TRY(kf_stw_meta_i64(w, "normalize", parts->id.normalize, err));
  KF_TRY(kf_stw_meta_i64(w, "shard", (int64_t)i, err));
  hex(stamp, digits);
  KF_TRY(kf_stw_meta(w, "stamp", digits, err));
  KF_TRY(kf_stw_declare(w, "embeddings", kf_type_of(parts->id.dtype), 2,
                        (uint64_t[]){kept, parts->id.dim}, err));
  KF_TRY(kf_stw_declare(w, "bad", KF_TYPE_U8, 1, &n, err));
  return kf_stw_declare(w, "messages", KF_TYPE_U8, 1, &n_messages, err);
}

static kf_status write_part(kf_stw *w, const kf_parts *parts, uint64_t i, uint64_t stamp,
                            const unsigned char *bad, const void *rows, const kf_string *messages,
                            kf_err *err) {
  uint64_t first, n = kf_parts_range(parts, i, &first), kept = 0;
  for (uint64_t k = 0; k < n; k++) kept += bad[k] == 0;
  KF_TRY(declare(w, parts, i, stamp, kept, n, messages->n, err));
  KF_TRY(
      kf_stw_write(w, rows, kept * parts->id.dim * kf_type_size(kf_type_of(parts->id.dtype)), err));
  KF_TRY(kf_stw_write(w, bad, n, err));
  return kf_stw_write(w, messages->data, messages->n, err);
}

/* A link is not followed: what it leads to is not ours to replace. */
static void drop_link(const char *path) {
  struct stat info;
  if (lstat(path, &info) == 0 && S_ISLNK(info.st_mode)) unlink(path);
}

kf_status kf_piece_save(const kf_parts *parts, uint64_t i, uint64_t stamp, const unsigned char *bad,
                        const void *rows, const kf_string *messages, kf_err *err) {
  char name[SHARD_NAME];
  shard_name(i, name);
  char *path = path_in(parts, name);
  if (path == NULL) return kf_fail_memory(err);
  drop_link(path);
  kf_stw *w;
  kf_status status = kf_stw_open(path, true, &w, err);
  kf_free(path);
  if (status != KF_OK) return status;
  status = write_part(w, parts, i, stamp, bad, rows, messages, err);
  if (status == KF_OK) return kf_stw_commit(w, err);
  kf_stw_abort(w);
  return status;
}
