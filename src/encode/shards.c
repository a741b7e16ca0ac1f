/* shards.c - the folder in which kf_embed keeps finished shards.
 *
 *     OUT.parts/manifest.safetensors        identifies the run
 *     OUT.parts/shard-00000017.safetensors  rows of shard 17; which pictures lack one, and why
 *     OUT.parts/lock                        locked by the process at work
 *
 * Every file but the lock is written atomically and has a checksum, so the process may be killed at
 * any moment: files that exist are complete, and the rest is done again. The lock (flock) ends with
 * the process that holds it. */
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
#define MANIFEST_FORMAT "koofu.embed"
#define SHARD_FORMAT    "koofu.shard"

enum { SHARD_NAME = 48 /* bytes */ };

uint64_t kf_shards_count(const kf_embed_run *run) {
  return (run->pictures - 1) / run->shard_size + 1;
}

uint64_t kf_shards_range(const kf_embed_run *run, uint64_t i, uint64_t *first) {
  *first = i * run->shard_size;
  uint64_t left = run->pictures - *first;
  return left < run->shard_size ? left : run->shard_size;
}

/* The path of shard i, valid until the next call. */
static const char *shard_path(const kf_shards *shards, uint64_t i) {
  snprintf(shards->path, strlen(shards->folder) + SHARD_NAME, "%s/shard-%08" PRIu64 ".safetensors",
           shards->folder, i);
  return shards->path;
}

/* --- removing --------------------------------------------------------------------------------- */

/* What follows shard-00000017.safetensors in a name; NULL: not the name of a shard. */
static const char *after_shard(const char *name) {
  static const char start[] = "shard-", ending[] = ".safetensors";
  if (!kf_starts_with(name, start)) return NULL;
  name += strlen(start);
  size_t digits = strspn(name, "0123456789");
  if (digits < 8 || !kf_starts_with(name + digits, ending)) return NULL;
  return name + digits + strlen(ending);
}

static bool is_shard(const char *name) {
  const char *rest = after_shard(name);
  return rest != NULL && rest[0] == '\0';
}

/* Shards, and files that an interrupted write may leave behind where unfinished files have names
 * (base/out.c): .shard-00000017.safetensors.….part. */
static bool is_removable(const char *name) {
  if (name[0] != '.') return is_shard(name);
  return kf_ends_with(name, ".part") &&
         (after_shard(name + 1) != NULL || kf_starts_with(name + 1, MANIFEST));
}

/* The manifest goes last, so that a half-removed folder is still recognised. */
static void remove_files(const kf_shards *shards) {
  DIR *dir = opendir(shards->folder);
  if (dir == NULL) return;
  for (const struct dirent *entry; (entry = readdir(dir)) != NULL;)
    if (is_removable(entry->d_name)) unlinkat(dirfd(dir), entry->d_name, 0);
  unlinkat(dirfd(dir), MANIFEST, 0);
  closedir(dir);
}

void kf_shards_close(kf_shards *shards) {
  if (shards->locked >= 0) close(shards->locked);
  kf_arena_free(&shards->memory);
  *shards = (kf_shards){.locked = -1};
}

void kf_shards_remove(kf_shards *shards) {
  if (shards->folder == NULL) return;
  remove_files(shards);
  unlink(shards->lock);
  rmdir(shards->folder); /* fails if it holds other files */
  kf_shards_close(shards);
}

/* --- the lock --------------------------------------------------------------------------------- */

/* Whether the locked file is still the one in the folder: another process may have removed both
 * meanwhile. */
static bool still_there(int fd, const char *path) {
  struct stat own, named;
  return fstat(fd, &own) == 0 && stat(path, &named) == 0 && own.st_dev == named.st_dev &&
         own.st_ino == named.st_ino;
}

/* Refuses a link, which could lead to any folder. */
static kf_status check_folder(const char *folder, kf_err *err) {
  struct stat info;
  if (lstat(folder, &info) != 0) return kf_fail_errno(err, folder, "cannot be examined", errno);
  if (S_ISDIR(info.st_mode)) return KF_OK;
  return kf_fail(err, KF_ERR_IO, "%s: is %s; finished shards would be kept there", folder,
                 S_ISLNK(info.st_mode) ? "a symbolic link, not a folder" : "not a folder");
}

/* Leaves shards->locked at -1 if the caller must retry. The lock file alone means nothing, since a
 * killed process leaves it behind: only the lock on it counts. */
static kf_status try_lock(kf_shards *shards, kf_err *err) {
  if (mkdir(shards->folder, 0777) != 0 && errno != EEXIST)
    return kf_fail_errno(err, shards->folder, "cannot be created", errno);
  KF_TRY(check_folder(shards->folder, err));
  int fd = kf_open(shards->lock, O_RDWR | O_CREAT | O_EXCL);
  shards->made_lock = fd >= 0;
  if (fd < 0 && errno == EEXIST) fd = kf_open(shards->lock, O_RDWR | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0 && errno == EACCES) fd = kf_open(shards->lock, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0)
    return errno == ENOENT ? KF_OK : kf_fail_errno(err, shards->lock, "cannot be created", errno);
  kf_status status = KF_OK;
  int code = kf_lock_fd(fd, LOCK_EX);
  if (code != 0)
    status = code == EWOULDBLOCK
                 ? kf_fail(err, KF_ERR_IO, "%s: another process is working on these pictures",
                           shards->folder)
                 : kf_fail_errno(err, shards->lock, "cannot be locked", code);
  else if (still_there(fd, shards->lock))
    shards->locked = fd;
  if (shards->locked < 0) close(fd);
  return status;
}

static kf_status take_lock(kf_shards *shards, kf_err *err) {
  for (int i = 0; shards->locked < 0 && i < 100; i++) KF_TRY(try_lock(shards, err));
  if (shards->locked >= 0) return KF_OK;
  return kf_fail(err, KF_ERR_IO, "%s: other processes keep creating and removing it",
                 shards->folder);
}

/* --- metadata of manifests and shards --------------------------------------------------------- */

static bool same_text(const kf_st *st, const char *key, const char *value) {
  const char *given = kf_st_meta(st, key);
  return given != NULL && strcmp(given, value) == 0;
}

static bool same_number(const kf_st *st, const char *key, uint64_t value) {
  char text[24];
  snprintf(text, sizeof text, "%" PRIu64, value);
  return same_text(st, key, text);
}

/* --- the manifest ----------------------------------------------------------------------------- */

static kf_status describe(kf_stw *w, const kf_embed_run *run, kf_err *err) {
  KF_TRY(kf_stw_format(w, MANIFEST_FORMAT, err));
  KF_TRY(kf_stw_meta_i64(w, "pictures", (int64_t)run->pictures, err));
  KF_TRY(kf_stw_meta_hex(w, "list", run->list, err));
  KF_TRY(kf_stw_meta_hex(w, "encoder", run->encoder, err));
  KF_TRY(kf_stw_meta(w, "dtype", kf_dtype_name(run->dtype), err));
  KF_TRY(kf_stw_meta_i64(w, "normalize", run->normalize, err));
  return kf_stw_meta_i64(w, "shard", run->shard_size, err);
}

static kf_status write_manifest(const kf_shards *shards, kf_err *err) {
  kf_stw *w;
  KF_TRY(kf_stw_open(NULL, shards->manifest, true, &w, err));
  return kf_stw_end(w, describe(w, &shards->run, err), err);
}

/* All rows of a file must be computed in the same way. */
static kf_status compare(const kf_shards *shards, const kf_st *st, kf_err *err) {
  const kf_embed_run *run = &shards->run;
  const char *other = NULL;
  if (!same_number(st, "pictures", run->pictures) || !kf_st_meta_is_hex(st, "list", run->list))
    other = "other pictures";
  else if (!kf_st_meta_is_hex(st, "encoder", run->encoder))
    other = "another encoder";
  else if (!same_text(st, "dtype", kf_dtype_name(run->dtype)))
    other = "another type of numbers";
  else if (!same_number(st, "normalize", run->normalize))
    other = "rows of another length";
  else if (!same_number(st, "shard", run->shard_size))
    other = "shards of another size";
  if (other == NULL) return KF_OK;
  return kf_fail_hint(err, KF_ERR_ARG, KF_HINT_NO_RESUME,
                      "%s: belongs to an unfinished run with %s; finish that run, discard it, or "
                      "write to another name",
                      shards->folder, other);
}

static kf_status check_manifest(const kf_shards *shards, kf_err *err) {
  kf_st st;
  kf_status status = kf_st_open(&st, shards->manifest, err);
  if (status == KF_OK) {
    status = kf_st_check_file(&st, MANIFEST_FORMAT, "the manifest of an unfinished run", err);
    if (status == KF_OK) status = compare(shards, &st, err);
    kf_st_close(&st);
  }
  if (status == KF_ERR_DATA) err->hint = KF_HINT_NO_RESUME;
  return status;
}

/* The manifest is written first and removed last, so shards without one belong to another program,
 * and would be removed in the end. */
static kf_status refuse_other_files(const kf_shards *shards, kf_err *err) {
  DIR *dir = opendir(shards->folder);
  if (dir == NULL) return kf_fail_errno(err, shards->folder, "cannot be listed", errno);
  kf_status status = KF_OK;
  for (const struct dirent *entry; status == KF_OK && (entry = readdir(dir)) != NULL;)
    if (is_shard(entry->d_name))
      status = kf_fail(err, KF_ERR_IO,
                       "%s: holds %s but no manifest, so it was not made by koofu; move it away, "
                       "or write to another name",
                       shards->folder, entry->d_name);
  closedir(dir);
  return status;
}

static kf_status enter(kf_shards *shards, bool anew, kf_err *err) {
  KF_TRY(take_lock(shards, err));
  if (access(shards->manifest, F_OK) != 0) KF_TRY(refuse_other_files(shards, err));
  if (anew) remove_files(shards);
  shards->begun = access(shards->manifest, F_OK) != 0;
  kf_status status = shards->begun ? write_manifest(shards, err) : check_manifest(shards, err);
  if (status != KF_OK && shards->begun) kf_shards_remove(shards);
  return status;
}

/* Removes the lock file that was created in a folder of another run or program. */
static void drop_lock(const kf_shards *shards) {
  if (shards->locked >= 0 && shards->made_lock) unlink(shards->lock);
}

/* Sets the paths; false: no memory. */
static bool find_paths(kf_shards *shards, const char *out, const kf_embed_run *run) {
  *shards = (kf_shards){.run = *run, .locked = -1};
  kf_arena *a = &shards->memory;
  size_t size = strlen(out) + sizeof ".parts";
  char *folder = kf_arena_take(a, size, 1);
  shards->path = kf_arena_take(a, size + SHARD_NAME, 1);
  if (a->failed) return false;
  snprintf(folder, size, "%s.parts", out);
  shards->folder = folder;
  shards->manifest = kf_path_join_in(a, folder, MANIFEST);
  shards->lock = kf_path_join_in(a, folder, "lock");
  return !a->failed;
}

kf_status kf_shards_open(kf_shards *shards, const char *out, const kf_embed_run *run, bool anew,
                         kf_err *err) {
  bool found = find_paths(shards, out, run);
  kf_status status = found ? enter(shards, anew, err) : kf_fail_memory(err);
  if (status != KF_OK) {
    drop_lock(shards);
    kf_shards_close(shards);
  }
  return status;
}

kf_status kf_shards_follow(kf_shards *shards, const char *out, const kf_embed_run *run,
                           kf_err *err) {
  kf_status status =
      find_paths(shards, out, run) ? check_manifest(shards, err) : kf_fail_memory(err);
  if (status != KF_OK) kf_shards_close(shards);
  return status;
}

/* --- shards: reading -------------------------------------------------------------------------- */

static kf_status read_shard(const kf_shards *shards, uint64_t i, kf_finished *shard, kf_err *err) {
  const kf_st *st = &shard->file;
  const kf_st_tensor *bad, *messages, *sums;
  uint64_t first;
  shard->n = kf_shards_range(&shards->run, i, &first);
  KF_TRY(kf_st_check_file(st, SHARD_FORMAT, "a shard of an unfinished run", err));
  KF_TRY(kf_st_expect(st, "embeddings", kf_type_of(shards->run.dtype), 2,
                      (int64_t[]){-1, shards->run.dim}, &shard->rows, err));
  KF_TRY(kf_st_expect(st, "bad", KF_TYPE_U8, 1, (int64_t[]){(int64_t)shard->n}, &bad, err));
  KF_TRY(kf_st_expect(st, "messages", KF_TYPE_U8, 1, (int64_t[]){-1}, &messages, err));
  KF_TRY(kf_st_expect(st, "sums", KF_TYPE_U64, 1, (int64_t[]){(int64_t)shard->n}, &sums, err));
  KF_TAKE(&shard->memory, shard->sums, shard->n);
  KF_TAKE(&shard->memory, shard->bad, bad->bytes);
  KF_TAKE(&shard->memory, shard->messages, messages->bytes);
  if (shard->memory.failed) return kf_fail_memory(err);
  KF_TRY(kf_st_read_all(st, sums, shard->sums, err));
  KF_TRY(kf_st_read_all(st, bad, shard->bad, err));
  KF_TRY(kf_st_read_all(st, messages, shard->messages, err));
  shard->n_messages = messages->bytes;
  for (uint64_t k = 0; k < shard->n; k++) shard->kept += shard->bad[k] == 0;
  bool ended = shard->n_messages == 0 || shard->messages[shard->n_messages - 1] == '\0';
  if (shard->kept == shard->rows->shape[0] && ended) return KF_OK;
  return kf_fail_file(err, st->in.path, "its rows do not match its pictures");
}

/* Whether a shard is number i of this run, and its pictures have not changed since. */
static bool fits(const kf_embed_run *run, const kf_st *st, uint64_t i, uint64_t stamp) {
  return kf_st_meta_is_hex(st, "list", run->list) &&
         kf_st_meta_is_hex(st, "encoder", run->encoder) &&
         same_number(st, "normalize", run->normalize) && same_number(st, "shard", i) &&
         kf_st_meta_is_hex(st, "stamp", stamp);
}

kf_status kf_shards_find(const kf_shards *shards, uint64_t i, uint64_t stamp, kf_finished *out,
                         bool *found, char why[KF_WHERE_SIZE], kf_err *err) {
  const char *path = shard_path(shards, i);
  *out = (kf_finished){.file = {.in = {.fd = -1}}};
  *found = false;
  why[0] = '\0';
  if (access(path, F_OK) != 0) return KF_OK;
  kf_status status = kf_st_open(&out->file, path, err);
  if (status == KF_OK) status = read_shard(shards, i, out, err);
  if (status == KF_ERR_DATA) {
    snprintf(why, KF_WHERE_SIZE, "%.4000s; it is made again", err->message);
    status = KF_OK;
  } else if (status == KF_OK && !fits(&shards->run, &out->file, i, stamp)) {
    snprintf(why, KF_WHERE_SIZE, "%.4000s: its pictures have changed; it is made again", path);
  } else {
    *found = status == KF_OK;
  }
  if (!*found) kf_finished_close(out);
  return status;
}

void kf_finished_close(kf_finished *shard) {
  kf_st_close(&shard->file);
  kf_arena_free(&shard->memory);
  *shard = (kf_finished){.file = {.in = {.fd = -1}}};
}

/* --- shards: writing -------------------------------------------------------------------------- */

static kf_status fill_shard(kf_stw *w, const kf_embed_run *run, uint64_t i,
                            const kf_shard_content *c, kf_err *err) {
  uint64_t first, n = kf_shards_range(run, i, &first), n_messages = c->messages->n, kept = 0;
  for (uint64_t k = 0; k < n; k++) kept += c->bad[k] == 0;
  kf_type type = kf_type_of(run->dtype);
  KF_TRY(kf_stw_format(w, SHARD_FORMAT, err));
  KF_TRY(kf_stw_meta_hex(w, "list", run->list, err));
  KF_TRY(kf_stw_meta_hex(w, "encoder", run->encoder, err));
  KF_TRY(kf_stw_meta_i64(w, "normalize", run->normalize, err));
  KF_TRY(kf_stw_meta_i64(w, "shard", (int64_t)i, err));
  KF_TRY(kf_stw_meta_hex(w, "stamp", c->stamp, err));
  KF_TRY(kf_stw_declare(w, "sums", KF_TYPE_U64, 1, &n, err));
  KF_TRY(kf_stw_declare(w, "embeddings", type, 2, (uint64_t[]){kept, run->dim}, err));
  KF_TRY(kf_stw_declare(w, "bad", KF_TYPE_U8, 1, &n, err));
  KF_TRY(kf_stw_declare(w, "messages", KF_TYPE_U8, 1, &n_messages, err));
  KF_TRY(kf_stw_write(w, c->sums, n * sizeof *c->sums, err));
  KF_TRY(kf_stw_write(w, c->rows, kept * run->dim * kf_type_size(type), err));
  KF_TRY(kf_stw_write(w, c->bad, n, err));
  return kf_stw_write(w, c->messages->data, n_messages, err);
}

/* Removes a link, since its target must not be replaced. */
static void drop_link(const char *path) {
  struct stat info;
  if (lstat(path, &info) == 0 && S_ISLNK(info.st_mode)) unlink(path);
}

kf_status kf_shards_save(const kf_shards *shards, uint64_t i, const kf_shard_content *content,
                         kf_err *err) {
  const char *path = shard_path(shards, i);
  drop_link(path);
  kf_stw *w;
  KF_TRY(kf_stw_open(NULL, path, true, &w, err));
  return kf_stw_end(w, fill_shard(w, &shards->run, i, content, err), err);
}
