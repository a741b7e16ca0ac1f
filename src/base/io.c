/* io.c - reads at an offset, and writes files whole or not at all.
 *
 * A file being written has no name if the file system allows it (O_TMPFILE), so a killed process
 * leaves nothing behind; otherwise it has a temporary name in the same folder. Commit syncs the data,
 * names the file with rename(2), which replaces an older one in one step, and syncs the folder: after
 * a crash there is either the old file or the new one. */
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

/* --- reading --------------------------------------------------------------------------------- */

kf_status kf_in_open(kf_in *in, const char *path, kf_err *err) {
  *in = (kf_in){.fd = -1};
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return kf_fail_errno(err, path, "cannot be opened", errno);
  struct stat info;
  kf_status status = KF_OK;
  if (fstat(fd, &info) != 0)
    status = kf_fail_errno(err, path, "cannot be examined", errno);
  else if (S_ISDIR(info.st_mode))
    status = kf_fail_file(err, path, "is a directory, not a file");
  else if (!S_ISREG(info.st_mode))
    status = kf_fail_file(err, path, "is not a regular file");
  else if (info.st_size == 0)
    status = kf_fail_file(err, path, "is empty");
  if (status == KF_OK && (in->path = kf_strdup(path)) == NULL) status = kf_fail_memory(err);
  if (status != KF_OK) {
    close(fd);
    return status;
  }
  in->fd = fd;
  in->size = (uint64_t)info.st_size;
  in->device = (uint64_t)info.st_dev;
  in->number = (uint64_t)info.st_ino;
  posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
  return KF_OK;
}

bool kf_in_same(const kf_in *a, const kf_in *b) {
  return a->device == b->device && a->number == b->number;
}

kf_status kf_in_read(const kf_in *in, uint64_t offset, void *buffer, uint64_t n, kf_err *err) {
  char *p = buffer;
  while (n > 0) {
    size_t most = n < (uint64_t)1 << 30 ? (size_t)n : (size_t)1 << 30;
    ssize_t got = pread(in->fd, p, most, (off_t)(in->base + offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return kf_fail_errno(err, in->path, "cannot be read", errno);
    if (got == 0)
      return kf_fail_file(err, in->path, "ends at byte %llu, where %llu more bytes are expected",
                          (unsigned long long)offset, (unsigned long long)n);
    p += got;
    offset += (uint64_t)got;
    n -= (uint64_t)got;
  }
  return KF_OK;
}

void kf_in_close(kf_in *in) {
  if (in->path != NULL) close(in->fd);
  kf_free(in->path);
  *in = (kf_in){.fd = -1};
}

static kf_status read_whole(const kf_in *in, uint64_t limit, char **text, kf_err *err) {
  if (in->size > limit)
    return kf_fail_file(err, in->path, "has %" PRIu64 " bytes, more than the limit of %" PRIu64,
                        in->size, limit);
  char *bytes = kf_alloc(in->size + 1, 1);
  if (bytes == NULL) return kf_fail_memory(err);
  bytes[in->size] = '\0';
  KF_HAND_OUT(kf_in_read(in, 0, bytes, in->size, err), text, bytes, kf_free);
}

kf_status kf_read_file(const char *path, uint64_t limit, char **text, uint64_t *length,
                       kf_err *err) {
  kf_in in;
  KF_TRY(kf_in_open(&in, path, err));
  *length = in.size;
  kf_status status = read_whole(&in, limit, text, err);
  kf_in_close(&in);
  return status;
}

bool kf_is_directory(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

kf_status kf_next_entry(DIR *folder, const char *path, const struct dirent **out, kf_err *err) {
  errno = 0; /* the only way to tell the end of a folder from a failure */
  *out = readdir(folder);
  bool failed = *out == NULL && errno != 0;
  return failed ? kf_fail_errno(err, path, "cannot be listed", errno) : KF_OK;
}

char *kf_path_join(const char *folder, const char *name) {
  return kf_path_join_in(NULL, folder, name);
}

char *kf_path_join_in(kf_arena *arena, const char *folder, const char *name) {
  size_t n = strlen(folder), size = n + strlen(name) + 2;
  char *path = arena != NULL ? kf_arena_take(arena, size, 1) : kf_alloc(size, 1);
  if (path != NULL)
    snprintf(path, size, "%s%s%s", folder, n > 0 && folder[n - 1] != '/' ? "/" : "", name);
  return path;
}

/* --- writing --------------------------------------------------------------------------------- */

/* The folder a path is in: "a/b" -> "a/", "b" -> "./". The caller frees it. */
static char *folder_of(const char *path) {
  const char *slash = strrchr(path, '/');
  size_t n = slash == NULL ? 0 : (size_t)(slash - path) + 1;
  char *folder = kf_alloc(n + 3, 1);
  if (folder == NULL) return NULL;
  memcpy(folder, path, n);
  memcpy(folder + n, n == 0 ? "./" : "", n == 0 ? 3 : 1);
  return folder;
}

/* A name beside `path` that no other writer is likely to use. It is random, since process numbers
 * repeat in containers. */
static char *temporary_name(const char *path) {
  static atomic_uint counter;
  uint64_t chance = atomic_fetch_add(&counter, 1u);
  struct timespec now;
  if (getrandom(&chance, sizeof chance, GRND_NONBLOCK) != sizeof chance &&
      clock_gettime(CLOCK_REALTIME, &now) == 0)
    chance += (uint64_t)now.tv_nsec << 32 ^ (uint64_t)getpid();
  const char *slash = strrchr(path, '/');
  size_t folder = slash == NULL ? 0 : (size_t)(slash - path) + 1;
  size_t size = strlen(path) + 64;
  char *name = kf_alloc(size, 1);
  if (name == NULL) return NULL;
  /* The base name is cut to keep within the limit of file names. */
  snprintf(name, size, "%.*s.%.180s.%016" PRIx64 ".part", (int)folder, path, path + folder, chance);
  return name;
}

#define SELF_SIZE 40
static void self_path(int fd, char self[SELF_SIZE]) {
  snprintf(self, SELF_SIZE, "/proc/self/fd/%d", fd);
}

static kf_status open_unnamed(kf_out *out, kf_err *err) {
  char *folder = folder_of(out->path);
  if (folder == NULL) return kf_fail_memory(err);
  out->fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  kf_free(folder);
  if (out->fd >= 0) { /* without /proc it could never be named */
    char self[SELF_SIZE];
    self_path(out->fd, self);
    if (access(self, F_OK) != 0) {
      close(out->fd);
      out->fd = -1;
    }
  }
  return KF_OK;
}

static kf_status open_named(kf_out *out, kf_err *err) {
  out->temporary = temporary_name(out->path);
  if (out->temporary == NULL) return kf_fail_memory(err);
  out->fd = open(out->temporary, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
  if (out->fd >= 0) return KF_OK;
  kf_free(out->temporary);
  out->temporary = NULL;
  return kf_fail_errno(err, out->path, "cannot be created", errno);
}

kf_status kf_out_open(kf_out *out, const char *path, kf_err *err) {
  *out = (kf_out){.fd = -1};
  struct stat info;
  bool exists = stat(path, &info) == 0;
  if (exists && !S_ISREG(info.st_mode))
    return kf_fail(err, KF_ERR_IO, "%s: cannot be created: is not a regular file", path);
  /* If the path is a link to a file, that file is replaced. */
  char target[PATH_MAX];
  out->path = kf_strdup(exists && realpath(path, target) != NULL ? target : path);
  if (out->path == NULL) return kf_fail_memory(err);
  out->buffer = kf_alloc(BUFFER_SIZE, 1);
  kf_status status = out->buffer == NULL ? kf_fail_memory(err) : open_unnamed(out, err);
  if (status == KF_OK && out->fd < 0) status = open_named(out, err);
  /* A file that only its owner may read stays so. */
  if (status == KF_OK && exists && fchmod(out->fd, info.st_mode & 07777) != 0 && errno != EPERM)
    status = kf_fail_errno(err, path, "cannot be given its permissions", errno);
  if (status != KF_OK) kf_out_abort(out);
  return status;
}

static kf_status write_at(const kf_out *out, uint64_t offset, const void *bytes, uint64_t n,
                          kf_err *err) {
  const char *p = bytes;
  while (n > 0) {
    size_t most = n < (uint64_t)1 << 30 ? (size_t)n : (size_t)1 << 30;
    ssize_t put = pwrite(out->fd, p, most, (off_t)offset);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0)
      return kf_fail_errno(err, out->path, "cannot be written", put < 0 ? errno : ENOSPC);
    p += put;
    offset += (uint64_t)put;
    n -= (uint64_t)put;
  }
  return KF_OK;
}

static kf_status flush(kf_out *out, kf_err *err) {
  KF_TRY(write_at(out, out->written - out->buffered, out->buffer, out->buffered, err));
  out->buffered = 0;
  return KF_OK;
}

kf_status kf_out_write(kf_out *out, const void *bytes, uint64_t n, kf_err *err) {
  if (out->buffered + n > BUFFER_SIZE) KF_TRY(flush(out, err));
  if (n > BUFFER_SIZE) {
    KF_TRY(write_at(out, out->written, bytes, n, err));
  } else if (n > 0) {
    memcpy(out->buffer + out->buffered, bytes, n);
    out->buffered += n;
  }
  out->written += n;
  return KF_OK;
}

kf_status kf_out_rewrite(kf_out *out, uint64_t offset, const void *bytes, uint64_t n, kf_err *err) {
  KF_TRY(flush(out, err));
  return write_at(out, offset, bytes, n, err);
}

/* Gives an unnamed file its temporary name, so that rename can move it. */
static kf_status name_it(kf_out *out, kf_err *err) {
  char self[SELF_SIZE];
  self_path(out->fd, self);
  char *name = temporary_name(out->path);
  if (name == NULL) return kf_fail_memory(err);
  if (linkat(AT_FDCWD, self, AT_FDCWD, name, AT_SYMLINK_FOLLOW) != 0) {
    int code = errno;
    kf_free(name);
    return kf_fail_errno(err, out->path, "cannot be created", code);
  }
  out->temporary = name;
  return KF_OK;
}

static kf_status sync_folder(const kf_out *out, kf_err *err) {
  char *folder = folder_of(out->path);
  if (folder == NULL) return kf_fail_memory(err);
  int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  kf_free(folder);
  /* A folder that may be written but not read cannot be synced; the file itself is safe. */
  if (fd < 0) return KF_OK;
  int failed = fsync(fd) != 0 && errno != EINVAL && errno != EROFS;
  int code = errno;
  close(fd);
  return failed ? kf_fail_errno(err, out->path, "its folder cannot be synced", code) : KF_OK;
}

static kf_status commit(kf_out *out, kf_err *err) {
  KF_TRY(flush(out, err));
  if (fsync(out->fd) != 0 && errno != EINVAL)
    return kf_fail_errno(err, out->path, "cannot be synced", errno);
  if (out->temporary == NULL) KF_TRY(name_it(out, err));
  if (rename(out->temporary, out->path) != 0)
    return kf_fail_errno(err, out->path, "cannot be replaced", errno);
  kf_free(out->temporary); /* nothing left to remove */
  out->temporary = NULL;
  return sync_folder(out, err);
}

kf_status kf_out_commit(kf_out *out, kf_err *err) {
  kf_status status = commit(out, err);
  kf_out_abort(out);
  return status;
}

void kf_out_abort(kf_out *out) {
  if (out->path == NULL) return;
  if (out->fd >= 0) close(out->fd);
  if (out->temporary != NULL) unlink(out->temporary);
  kf_free(out->temporary);
  kf_free(out->buffer);
  kf_free(out->path);
  *out = (kf_out){.fd = -1};
}

kf_status kf_check_output(const char *path, kf_err *err) {
  kf_out out;
  KF_TRY(kf_out_open(&out, path, err));
  kf_out_abort(&out);
  return KF_OK;
}

kf_status kf_refuse_overwrite(const char *out_path, const kf_in *in, kf_err *err) {
  struct stat info;
  if (stat(out_path, &info) != 0 || (uint64_t)info.st_dev != in->device ||
      (uint64_t)info.st_ino != in->number)
    return KF_OK;
  return kf_fail(err, KF_ERR_ARG, "%s is both an input and the output", out_path);
}
