/* temporary.c - files without a name, for what has no random access in its own file: deflated
 * arrays, and tables with a column for each dimension. Nothing is left behind. */
#include "file/file_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Creates a file and deletes its name. Signals are blocked, so that only SIGKILL can leave it
 * behind. -1: impossible. */
static int open_and_delete(char *path) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int fd = mkostemp(path, O_CLOEXEC);
  bool named = fd >= 0 && unlink(path) != 0 && errno != ENOENT;
  int code = errno;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (named) close(fd);
  errno = code;
  return named ? -1 : fd;
}

static int open_unnamed(const char *folder) {
  int fd;
  do fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  while (fd < 0 && errno == EINTR);
  /* File systems and kernels without such files report one of these. */
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return fd;
  char *path = kf_path_join(folder, ".koofu-XXXXXX");
  if (path != NULL) fd = open_and_delete(path);
  int code = path != NULL ? errno : ENOMEM;
  kf_free(path);
  errno = code;
  return fd;
}

kf_status kf_temporary_open(const kf_in *in, const char *problem, int *fd, kf_err *err) {
  char *folder = kf_strdup(in->path);
  if (folder == NULL) return kf_fail_memory(err);
  char *slash = strrchr(folder, '/');
  if (slash != NULL) slash[1] = '\0';
  *fd = open_unnamed(slash != NULL ? folder : "./");
  kf_free(folder);
  if (*fd < 0) *fd = open_unnamed("/tmp/");
  return *fd >= 0 ? KF_OK : kf_fail_errno(err, in->path, problem, errno);
}

kf_status kf_temporary_write(const kf_in *in, const char *problem, int fd, const void *bytes,
                             size_t n, kf_err *err) {
  for (const char *at = bytes; n > 0;) {
    ssize_t written = write(fd, at, n);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return kf_fail_errno(err, in->path, problem, errno);
    at += written;
    n -= (size_t)written;
  }
  return KF_OK;
}
