/* out.c - writes files whole or not at all (docs/reliability.md states the contract).
 *
 * If the file system allows it (O_TMPFILE), a file being written has no name, so a killed process
 * leaves nothing behind. Otherwise it has a temporary name in the same folder. A commit has four
 * steps:
 *
 *     1  the data are written and synced
 *     2  the file gets its temporary name, and its folder is opened
 *     3  rename(2) puts it in its place, which replaces an older file in one step
 *     4  the folder is synced
 *
 * Everything that may fail for lack of memory, space or descriptors comes before step 3, and such a
 * failure leaves the older file untouched. After step 3 the call succeeds. If the folder cannot be
 * synced, that is logged: every process sees the new file, and only a power failure could bring the
 * older one back.
 *
 * With several ranks only rank 0 writes; what the others write is discarded, unless the file is
 * shared (out_shared.c). All ranks agree that none has failed before the file gets its name, and
 * again afterwards.
 *
 * Several files go through each step together. Before step 3 each older file gets a second name
 * (link(2)), from which it is restored if one of the renames fails. */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define BUFFER_SIZE ((uint64_t)1 << 20)

static const kf_out closed = {.fd = -1, .folder_fd = -1, .guard = {.fd = -1}};

/* --- names ------------------------------------------------------------------------------------ */

static size_t folder_length(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash == NULL ? 0 : (size_t)(slash - path) + 1;
}

/* The folder a path is in: "a/b" -> "a/", "b" -> "./". The caller frees it. */
static char *folder_of(const char *path) {
  size_t n = folder_length(path);
  char *folder = kf_alloc(n + 3, 1);
  if (folder != NULL) snprintf(folder, n + 3, "%.*s%s", (int)n, path, n == 0 ? "./" : "");
  return folder;
}

/* A hidden name beside `path` that no other writer is likely to use. It is random because process
 * numbers repeat in containers. */
static char *hidden_name(const char *path, const char *ending) {
  static atomic_uint counter;
  uint64_t chance = atomic_fetch_add(&counter, 1u);
  struct timespec now;
  if (getrandom(&chance, sizeof chance, GRND_NONBLOCK) != sizeof chance &&
      clock_gettime(CLOCK_REALTIME, &now) == 0)
    chance += (uint64_t)now.tv_nsec << 32 ^ (uint64_t)getpid();
  size_t folder = folder_length(path), size = strlen(path) + 64;
  char *name = kf_alloc(size, 1);
  if (name == NULL) return NULL;
  /* The base name is truncated to keep within the limit for file names. */
  snprintf(name, size, "%.*s.%.180s.%016" PRIx64 "%s", (int)folder, path, path + folder, chance,
           ending);
  return name;
}

/* Replaces a path that is a link by its target. False: it is not a link, or the target is too
 * long. */
static bool follow(char path[PATH_MAX], bool *too_far) {
  char link[PATH_MAX];
  ssize_t length = readlink(path, link, sizeof link - 1);
  if (length < 0) return false;
  link[length] = '\0';
  size_t folder = link[0] == '/' ? 0 : folder_length(path);
  *too_far = folder + (size_t)length >= PATH_MAX;
  if (*too_far) return false;
  memcpy(path + folder, link, (size_t)length + 1);
  return true;
}

/* The one path of a file that need not exist: its real folder and its name. */
static bool real_place(const char *path, char target[PATH_MAX]) {
  size_t folder = folder_length(path);
  char name[PATH_MAX] = ".";
  if (folder > 0) snprintf(name, sizeof name, "%.*s", (int)folder, path);
  if (realpath(name, target) == NULL) return false;
  size_t n = strlen(target), room = PATH_MAX - n;
  errno = ENAMETOOLONG;
  int length = snprintf(target + n, room, "%s%s", target[1] != '\0' ? "/" : "", path + folder);
  return (size_t)length < room;
}

/* Resolves a path. If it is a link, the file it points to is replaced or created, as by open(2).
 * False with errno 0: not a regular file. */
static bool find_target(const char *path, char target[PATH_MAX], struct stat *old, bool *exists) {
  *exists = stat(path, old) == 0;
  if (*exists && !S_ISREG(old->st_mode)) {
    errno = 0;
    return false;
  }
  if (*exists) return realpath(path, target) != NULL;
  if (errno != ENOENT || strlen(path) >= PATH_MAX) return false;
  enum { MOST_LINKS = 40 };
  char name[PATH_MAX];
  bool too_far = false;
  strcpy(name, path);
  for (int links = 0; !too_far && follow(name, &too_far); links++) too_far = links == MOST_LINKS;
  errno = ELOOP;
  return !too_far && real_place(name, target);
}

/* --- opening ---------------------------------------------------------------------------------- */

#define SELF_SIZE 40
static void self_path(int fd, char self[SELF_SIZE]) {
  snprintf(self, SELF_SIZE, "/proc/self/fd/%d", fd);
}

static void open_unnamed(kf_out *out) {
  out->fd = kf_open(out->folder, O_TMPFILE | O_WRONLY);
  if (out->fd < 0) return;
  char self[SELF_SIZE];
  self_path(out->fd, self);
  if (access(self, F_OK) == 0) return;
  close(out->fd); /* without /proc it could never get a name */
  out->fd = -1;
}

static kf_status open_named(kf_out *out, kf_err *err) {
  out->fd = kf_open(out->temporary, O_CREAT | O_EXCL | O_WRONLY);
  if (out->fd < 0) return kf_fail_errno(err, out->path, "cannot be created", errno);
  out->named = true;
  return KF_OK;
}

/* A file that others could not read stays unreadable to them, and bits beyond rwx are dropped. The
 * mode of another owner's file may take permissions away, but not grant any. */
static kf_status copy_mode(const kf_out *out, const struct stat *old, kf_err *err) {
  struct stat own;
  if (fstat(out->fd, &own) != 0) return kf_fail_errno(err, out->path, "cannot be examined", errno);
  mode_t mode = old->st_mode & 0777;
  if (old->st_uid != own.st_uid)
    mode = (mode | 0600) & own.st_mode & 0777;
  else if (old->st_gid != own.st_gid && fchown(out->fd, (uid_t)-1, old->st_gid) != 0)
    mode &= 0707 | (mode & 0007) << 3; /* our group is not the group that was meant */
  /* Some file systems have no modes. */
  if (fchmod(out->fd, mode) == 0 || errno == EPERM) return KF_OK;
  return kf_fail_errno(err, out->path, "cannot be given its permissions", errno);
}

static kf_status open_target(kf_out *out, const char *path, kf_err *err) {
  struct stat old;
  bool exists;
  char target[PATH_MAX];
  if (!find_target(path, target, &old, &exists))
    return errno != 0
               ? kf_fail_errno(err, path, "cannot be created", errno)
               : kf_fail(err, KF_ERR_IO, "%s: cannot be created: is not a regular file", path);
  out->path = kf_strdup(path);
  out->target = kf_strdup(target);
  out->folder = folder_of(target);
  out->temporary = hidden_name(target, ".part");
  out->kept = hidden_name(target, ".old");
  out->buffer = kf_alloc(BUFFER_SIZE, 1);
  if (out->path == NULL || out->target == NULL || out->folder == NULL || out->temporary == NULL ||
      out->kept == NULL || out->buffer == NULL)
    return kf_fail_memory(err);
  open_unnamed(out);
  if (out->fd < 0) KF_TRY(open_named(out, err));
  return exists ? copy_mode(out, &old, err) : KF_OK;
}

static kf_status open_nowhere(kf_out *out, const char *path, kf_err *err) {
  out->nowhere = true;
  out->path = kf_strdup(path);
  out->target = kf_strdup(path);
  return out->path != NULL && out->target != NULL ? KF_OK : kf_fail_memory(err);
}

kf_status kf_out_open(kf_out *out, kf_ctx *ctx, const char *path, kf_err *err) {
  *out = closed;
  out->ctx = ctx;
  bool elsewhere = ctx != NULL && ctx->ranks.rank > 0;
  kf_status status = (elsewhere ? open_nowhere : open_target)(out, path, err);
  if (status != KF_OK) kf_out_abort(out);
  return status;
}

kf_status kf_out_open_memory(kf_out *out, kf_err *err) {
  *out = closed;
  out->path = kf_strdup("the bytes in memory");
  out->bytes = kf_alloc_zero(1, sizeof *out->bytes);
  if (out->path != NULL && out->bytes != NULL) return KF_OK;
  kf_out_abort(out);
  return kf_fail_memory(err);
}

kf_bytes *kf_out_take(kf_out *out) {
  kf_bytes *bytes = out->bytes;
  out->bytes = NULL;
  kf_out_abort(out);
  return bytes;
}

const void *kf_bytes_data(const kf_bytes *bytes) { return bytes->data; }
uint64_t kf_bytes_size(const kf_bytes *bytes) { return bytes->n; }

void kf_bytes_free(kf_bytes *bytes) {
  if (bytes == NULL) return;
  kf_free(bytes->data);
  kf_free(bytes);
}

void kf_out_abort(kf_out *out) {
  kf_bytes_free(out->bytes);
  if ((out->buffer != NULL || out->nowhere) && out->fd >= 0) close(out->fd);
  if (out->buffer != NULL && out->folder_fd >= 0) close(out->folder_fd);
  if (out->named) unlink(out->temporary);
  if (out->has_kept) unlink(out->kept);
  if (out->buffer != NULL) kf_guard_release(&out->guard);
  kf_free(out->path);
  kf_free(out->target);
  kf_free(out->folder);
  kf_free(out->temporary);
  kf_free(out->kept);
  kf_free(out->guarded);
  kf_free(out->buffer);
  *out = closed;
}

kf_status kf_check_output(kf_ctx *ctx, const char *path, kf_err *err) {
  kf_out out;
  KF_TRY(kf_out_open(&out, ctx, path, err));
  kf_out_abort(&out);
  return KF_OK;
}

kf_status kf_refuse_overwrite(const char *out_path, const kf_in *in, kf_err *err) {
  struct stat info;
  if (stat(out_path, &info) != 0) return KF_OK;
  kf_file_state out = kf_file_state_of(&info);
  if (!kf_same_file(&out, &in->state)) return KF_OK;
  return kf_fail(err, KF_ERR_ARG, "%s is both an input and the output", out_path);
}

/* --- writing ---------------------------------------------------------------------------------- */

static kf_status reserve(kf_bytes *bytes, uint64_t n, kf_err *err) {
  if (bytes->room >= n) return KF_OK;
  unsigned char *larger = kf_alloc(n, 1);
  if (larger == NULL) return kf_fail_memory(err);
  if (bytes->n > 0) memcpy(larger, bytes->data, bytes->n);
  kf_free(bytes->data);
  bytes->data = larger;
  bytes->room = n;
  return KF_OK;
}

kf_status kf_out_reserve(kf_out *out, uint64_t n, kf_err *err) {
  return out->bytes != NULL && !out->nowhere ? reserve(out->bytes, n, err) : KF_OK;
}

static kf_status write_memory(kf_bytes *to, uint64_t offset, const void *bytes, uint64_t n,
                              kf_err *err) {
  uint64_t end;
  if (!kf_add_u64(offset, n, &end)) return kf_fail_memory(err);
  if (end > to->room) KF_TRY(reserve(to, end > 2 * to->room ? end : 2 * to->room, err));
  if (offset > to->n) memset(to->data + to->n, 0, offset - to->n);
  if (n > 0) memcpy(to->data + offset, bytes, n);
  if (end > to->n) to->n = end;
  return KF_OK;
}

kf_status kf_out_put(const kf_out *out, uint64_t offset, const void *bytes, uint64_t n,
                     kf_err *err) {
  const char *p = bytes;
  if (out->bytes != NULL) return write_memory(out->bytes, offset, bytes, n, err);
  while (n > 0) {
    size_t most = n < (uint64_t)1 << 30 ? (size_t)n : (size_t)1 << 30;
    ssize_t put = TEMP_FAILURE_RETRY(pwrite(out->fd, p, most, (off_t)offset));
    if (put <= 0)
      return kf_fail_errno(err, out->path, "cannot be written", put < 0 ? errno : ENOSPC);
    p += put;
    offset += (uint64_t)put;
    n -= (uint64_t)put;
  }
  return KF_OK;
}

static kf_status flush(kf_out *out, kf_err *err) {
  KF_TRY(kf_out_put(out, out->written - out->buffered, out->buffer, out->buffered, err));
  out->buffered = 0;
  return KF_OK;
}

kf_status kf_out_write(kf_out *out, const void *bytes, uint64_t n, kf_err *err) {
  if (out->nowhere) {
    out->written += n;
    return KF_OK;
  }
  if (out->buffered + n > BUFFER_SIZE) KF_TRY(flush(out, err));
  if (n > BUFFER_SIZE || out->bytes != NULL) {
    KF_TRY(kf_out_put(out, out->written, bytes, n, err));
  } else if (n > 0) {
    memcpy(out->buffer + out->buffered, bytes, n);
    out->buffered += n;
  }
  out->written += n;
  return KF_OK;
}

kf_status kf_out_write_at(kf_out *out, uint64_t offset, const void *bytes, uint64_t n,
                          kf_err *err) {
  if (out->nowhere) return KF_OK;
  KF_TRY(flush(out, err));
  KF_TRY(kf_out_put(out, offset, bytes, n, err));
  if (offset + n > out->written) out->written = offset + n;
  return KF_OK;
}

kf_status kf_out_skip(kf_out *out, uint64_t n, kf_err *err) {
  if (!out->nowhere) KF_TRY(flush(out, err));
  out->written += n;
  return KF_OK;
}

/* Returns 0 or an errno. Some file systems cannot sync. */
static int sync_fd(int fd) {
  return TEMP_FAILURE_RETRY(fsync(fd)) == 0 || errno == EINVAL || errno == EROFS ? 0 : errno;
}

static kf_status sync_data(kf_out *out, kf_err *err) {
  if (out->nowhere && out->fd < 0) return KF_OK;
  if (!out->nowhere) KF_TRY(flush(out, err));
  int code = sync_fd(out->fd);
  return code == 0 ? KF_OK : kf_fail_errno(err, out->path, "cannot be synced", code);
}

/* --- putting files in their places ------------------------------------------------------------ */

static bool is_in_place(const kf_out *out) {
  struct stat info;
  if (lstat(out->target, &info) != 0) return false;
  kf_file_state there = kf_file_state_of(&info);
  return kf_same_file(&there, &out->state);
}

kf_status kf_out_name(kf_out *out, kf_err *err) {
  if (out->named) return KF_OK;
  char self[SELF_SIZE];
  self_path(out->fd, self);
  if (TEMP_FAILURE_RETRY(linkat(AT_FDCWD, self, AT_FDCWD, out->temporary, AT_SYMLINK_FOLLOW)) != 0)
    return kf_fail_errno(err, out->path, "cannot be created", errno);
  out->named = true;
  return KF_OK;
}

static kf_status prepare_move(kf_out *out, kf_err *err) {
  struct stat own;
  if (fstat(out->fd, &own) != 0) return kf_fail_errno(err, out->path, "cannot be examined", errno);
  out->state = kf_file_state_of(&own);
  KF_TRY(kf_out_name(out, err));
  out->folder_fd = kf_open(out->folder, O_RDONLY | O_DIRECTORY);
  out->unsynced = out->folder_fd < 0 ? errno : 0;
  /* A folder may be writable but not readable; then it cannot be synced, which is logged. */
  if (out->folder_fd >= 0 || out->unsynced == EACCES) return KF_OK;
  return kf_fail_errno(err, out->path, "cannot be created", out->unsynced);
}

/* Gives the older file a second name, from which it can be restored. */
static kf_status keep_old_file(kf_out *out, kf_err *err) {
  out->has_kept = TEMP_FAILURE_RETRY(link(out->target, out->kept)) == 0;
  out->is_new = !out->has_kept && errno == ENOENT;
  /* Some files cannot have a second name. */
  if (out->has_kept || out->is_new || errno == EPERM || errno == EMLINK || errno == ENOTSUP)
    return KF_OK;
  return kf_fail_errno(err, out->path, "cannot be replaced", errno);
}

static int rename_file(const char *from, const char *to) {
  return (int)TEMP_FAILURE_RETRY(rename(from, to));
}

static kf_status move(kf_out *out, kf_err *err) {
  const char *guarded = out->guarded != NULL ? out->guarded : out->target;
  if (out->guard.fd >= 0 && !kf_guard_holds(&out->guard, guarded))
    return kf_fail(err, KF_ERR_IO,
                   "%s: was changed by another process in the meantime and is left as it is now; "
                   "try again",
                   out->guarded != NULL ? out->guarded : out->path);
  int failed = rename_file(out->temporary, out->target), code = errno;
  /* Over a network the answer may be lost, and the retry then finds nothing to move. */
  if (failed != 0 && !is_in_place(out))
    return kf_fail_errno(err, out->path, "cannot be replaced", code);
  out->named = false; /* nothing left to remove */
  return KF_OK;
}

static void sync_folder(kf_out *out) {
  if (out->folder_fd >= 0) out->unsynced = sync_fd(out->folder_fd);
  if (out->unsynced == 0 || out->ctx == NULL) return;
  kf_log(out->ctx,
         "%s: was written, but its folder cannot be synced, so a power failure may undo it: %s",
         out->path, kf_reason(out->unsynced, (char[KF_REASON_SIZE]){0}));
}

static void restore(kf_out *out, kf_err *err) {
  int failed = -1;
  if (out->has_kept)
    failed = rename_file(out->kept, out->target);
  else if (out->is_new)
    failed = unlink(out->target);
  if (failed == 0) {
    out->has_kept = false;
    if (out->folder_fd >= 0) sync_fd(out->folder_fd);
    return;
  }
  kf_err before = *err;
  kf_fail(err, KF_ERR_IO, "%.2500s; %.2400s has already been replaced", before.message, out->path);
}

/* The first file is moved last: if it is the new one, so are the others. */
static kf_status move_all(kf_out *files, size_t n, kf_err *err) {
  for (size_t i = 0; i < n; i++) KF_TRY(prepare_move(&files[i], err));
  for (size_t i = 0; n > 1 && i < n; i++) KF_TRY(keep_old_file(&files[i], err));
  kf_status status = KF_OK;
  size_t left = n;
  while (left > 0 && (status = move(&files[left - 1], err)) == KF_OK) left--;
  for (size_t i = left; left > 0 && i < n; i++) restore(&files[i], err);
  for (size_t i = 0; left == 0 && i < n; i++) sync_folder(&files[i]);
  return status;
}

/* kf_agree_on for an error that need not be in the context. */
static kf_status agree(kf_ctx *ctx, kf_status status, kf_err *err) {
  if (ctx == NULL || !kf_is_shared(&ctx->ranks)) return status;
  if (status != KF_OK && err != &ctx->err) ctx->err = *err;
  status = kf_agree_on(ctx, status);
  if (status != KF_OK && err != &ctx->err) *err = ctx->err;
  return status;
}

static kf_status put_in_place(kf_ctx *ctx, kf_status status, kf_out *files, size_t n, kf_err *err) {
  KF_TRY(agree(ctx, status, err));
  bool elsewhere = ctx != NULL && ctx->ranks.rank > 0;
  return agree(ctx, elsewhere ? KF_OK : move_all(files, n, err), err);
}

/* --- several files together ------------------------------------------------------------------- */

struct kf_held {
  kf_out *files;
  size_t n, room;
};

static kf_status hold(struct kf_held *held, kf_out *out, kf_err *err) {
  for (size_t i = 0; i < held->n; i++)
    if (strcmp(held->files[i].target, out->target) == 0)
      return kf_fail(err, KF_ERR_ARG, "%s: is written twice", out->path);
  if (!kf_grow((void **)&held->files, &held->room, held->n, sizeof *out))
    return kf_fail_memory(err);
  held->files[held->n++] = *out;
  *out = closed;
  return KF_OK;
}

kf_status kf_out_commit(kf_out *out, kf_err *err) {
  kf_status status = sync_data(out, err);
  struct kf_held *held = out->ctx != NULL ? out->ctx->held : NULL;
  if (held == NULL)
    status = put_in_place(out->ctx, status, out, 1, err);
  else if (status == KF_OK)
    status = hold(held, out, err);
  kf_out_abort(out);
  return status;
}

kf_status kf_refuse_held(const kf_ctx *ctx, const char *function, kf_err *err) {
  if (ctx->held == NULL) return KF_OK;
  return kf_fail(err, KF_ERR_ARG,
                 "%s: reads what it has written, which kf_outputs_begin holds back", function);
}

kf_status kf_outputs_begin(kf_ctx *ctx) {
  KF_ENTER(ctx, true);
  if (ctx->held != NULL) return kf_fail(err, KF_ERR_ARG, "kf_outputs_begin: called twice");
  ctx->held = kf_alloc_zero(1, sizeof *ctx->held);
  return ctx->held != NULL ? KF_OK : kf_fail_memory(err);
}

void kf_outputs_abort(kf_ctx *ctx) {
  struct kf_held *held = ctx != NULL ? ctx->held : NULL;
  if (held == NULL) return;
  for (size_t i = 0; i < held->n; i++) kf_out_abort(&held->files[i]);
  kf_free(held->files);
  kf_free(held);
  ctx->held = NULL;
}

kf_status kf_outputs_commit(kf_ctx *ctx) {
  KF_ENTER(ctx, true);
  if (ctx->held == NULL)
    return kf_fail(err, KF_ERR_ARG, "kf_outputs_commit: kf_outputs_begin was not called");
  kf_status status = put_in_place(ctx, KF_OK, ctx->held->files, ctx->held->n, err);
  kf_outputs_abort(ctx);
  return status;
}

void kf_out_replaces(kf_out *out, kf_guard *guard) {
  out->guard = *guard;
  *guard = (kf_guard){.fd = -1};
}

kf_status kf_out_belongs(kf_out *out, kf_guard *guard, const char *path, kf_err *err) {
  out->guarded = kf_strdup(path);
  if (out->guarded == NULL) return kf_fail_memory(err);
  kf_out_replaces(out, guard);
  return KF_OK;
}
