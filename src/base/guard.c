/* guard.c - the right to replace a file by a new version made from it, such as a gallery with more
 * rows.
 *
 * A writer locks the file itself (flock). The lock belongs to the operating system's kernel: it
 * ends with the process, leaves no file behind, and readers never ask for it. A replaced file is a
 * different file with a lock of its own. So after getting a lock a writer checks that the file
 * still has its name, and otherwise starts again with the new one. Before the rename, out.c checks
 * that the file is still the one that was read, since other programs may replace it without a
 * lock. */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

bool kf_guard_holds(const kf_guard *guard, const char *path) {
  struct stat info;
  if (stat(path, &info) != 0) return false;
  kf_file_state now = kf_file_state_of(&info);
  return kf_same_state(&guard->state, &now);
}

void kf_guard_release(kf_guard *guard) {
  if (guard->fd >= 0) close(guard->fd);
  *guard = (kf_guard){.fd = -1};
}

int kf_lock_fd(int fd, int operation) {
  return TEMP_FAILURE_RETRY(flock(fd, operation | LOCK_NB)) == 0 ? 0 : errno;
}

/* Returns 0 or an errno. Over NFS only a file that is open for writing can be locked. */
static int try_lock(kf_guard *guard, const char *path) {
  int code = kf_lock_fd(guard->fd, LOCK_EX);
  if (code != EBADF) return code;
  close(guard->fd);
  guard->fd = kf_open(path, O_RDWR | O_NONBLOCK);
  return guard->fd < 0 ? errno : kf_lock_fd(guard->fd, LOCK_EX);
}

/* Waits a little, and longer in each round. */
static kf_status wait_for_lock(kf_ctx *ctx, const char *path, unsigned round) {
  if (round == 0) kf_log(ctx, "%s: another process is changing it; waiting", path);
  long ms = round < 5 ? 1L << round : 50;
  nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
  return kf_progress(ctx, "wait", 0, 0);
}

/* *retry: another process held the lock, or the file has been replaced since. */
static kf_status lock_once(kf_guard *guard, kf_ctx *ctx, const char *path, unsigned *round,
                           bool *retry) {
  kf_err *err = &ctx->err;
  *retry = true;
  guard->fd = kf_open(path, O_RDONLY | O_NONBLOCK);
  if (guard->fd < 0) return kf_fail_errno(err, path, "cannot be opened", errno);
  int code = try_lock(guard, path);
  if (code == EWOULDBLOCK) return wait_for_lock(ctx, path, (*round)++);
  if (code != 0)
    return kf_fail_hint(err, KF_ERR_IO, KF_HINT_OTHER_NAME,
                        "%s: cannot be locked, and two processes at once would lose rows: %s", path,
                        kf_reason(code, (char[KF_REASON_SIZE]){0}));
  struct stat info;
  if (fstat(guard->fd, &info) != 0) return kf_fail_errno(err, path, "cannot be examined", errno);
  guard->state = kf_file_state_of(&info);
  *retry = !kf_guard_holds(guard, path);
  if (*retry && stat(path, &info) != 0 &&
      errno != ENOENT) /* the next round reports a missing file */
    return kf_fail_errno(err, path, "cannot be examined", errno);
  return KF_OK;
}

static kf_status look_once(kf_guard *guard, const char *path, kf_err *err) {
  struct stat info;
  if (stat(path, &info) != 0) return kf_fail_errno(err, path, "cannot be opened", errno);
  guard->state = kf_file_state_of(&info);
  return KF_OK;
}

kf_status kf_guard_take(kf_guard *guard, kf_ctx *ctx, const char *path) {
  *guard = (kf_guard){.fd = -1};
  if (ctx->ranks.rank > 0) return look_once(guard, path, &ctx->err); /* rank 0 holds the lock */
  unsigned round = 0;
  bool retry = true;
  while (retry) {
    kf_guard_release(guard);
    kf_status status = lock_once(guard, ctx, path, &round, &retry);
    if (status != KF_OK) {
      kf_guard_release(guard);
      return status;
    }
  }
  return KF_OK;
}

kf_status kf_out_lock(const kf_out *out, int *lock, kf_err *err) {
  *lock = -1;
  if (out->nowhere || out->fd < 0) return KF_OK;
  *lock = fcntl(out->fd, F_DUPFD_CLOEXEC, 0);
  if (*lock < 0) return kf_fail_errno(err, out->path, "cannot be locked", errno);
  kf_lock_fd(*lock, LOCK_EX); /* the file has no name yet, so nobody else can hold it */
  return KF_OK;
}

kf_status kf_lock_folder(kf_ctx *ctx, const char *folder, int *lock) {
  *lock = -1;
  if (ctx->ranks.rank > 0) return KF_OK;
  *lock = kf_open(folder, O_RDONLY | O_DIRECTORY);
  int code = *lock < 0 ? errno : kf_lock_fd(*lock, LOCK_EX);
  if (code == 0) return KF_OK;
  if (*lock >= 0) close(*lock);
  *lock = -1;
  if (code == EWOULDBLOCK)
    return kf_fail(&ctx->err, KF_ERR_IO, "%s: another process is working in this folder", folder);
  kf_log(ctx, "%s: cannot be locked, so let no other process work in it: %s", folder,
         kf_reason(code, (char[KF_REASON_SIZE]){0}));
  return KF_OK;
}
