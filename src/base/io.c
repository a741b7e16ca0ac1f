/* io.c - reads files at any offset, lists folders and joins paths. out.c writes. */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

kf_file_state kf_file_state_of(const struct stat *info) {
  return (kf_file_state){(uint64_t)info->st_dev, (uint64_t)info->st_ino, (uint64_t)info->st_size,
                         info->st_mtim};
}

bool kf_same_file(const kf_file_state *a, const kf_file_state *b) {
  return a->device == b->device && a->number == b->number;
}

bool kf_same_state(const kf_file_state *a, const kf_file_state *b) {
  return kf_same_file(a, b) && a->size == b->size && a->changed.tv_sec == b->changed.tv_sec &&
         a->changed.tv_nsec == b->changed.tv_nsec;
}

/* --- reading --------------------------------------------------------------------------------- */

int kf_open(const char *path, int flags) {
  return (int)TEMP_FAILURE_RETRY(open(path, flags | O_CLOEXEC, 0666));
}

kf_status kf_in_open(kf_in *in, const char *path, kf_err *err) {
  *in = (kf_in){.fd = -1};
  int fd = kf_open(path, O_RDONLY | O_NONBLOCK);
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
  in->state = kf_file_state_of(&info);
  posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
  return KF_OK;
}

kf_status kf_in_open_memory(kf_in *in, const void *bytes, uint64_t n, kf_err *err) {
  *in = (kf_in){.fd = -1, .memory = bytes, .size = n, .path = kf_strdup("the bytes in memory")};
  return in->path == NULL ? kf_fail_memory(err) : KF_OK;
}

/* Fails like a file that ends where the bytes do. */
static kf_status read_memory(const kf_in *in, uint64_t offset, void *buffer, uint64_t n,
                             kf_err *err) {
  if (offset > in->size || n > in->size - offset)
    return kf_fail_file(err, in->path, "end at byte %" PRIu64 ", before byte %" PRIu64, in->size,
                        offset + n);
  if (n > 0) memcpy(buffer, in->memory + offset, n);
  return KF_OK;
}

static kf_status read_fd(const kf_in *in, int fd, uint64_t offset, void *buffer, uint64_t n,
                         kf_err *err) {
  char *p = buffer;
  while (n > 0) {
    size_t most = n < (uint64_t)1 << 30 ? (size_t)n : (size_t)1 << 30;
    ssize_t got = TEMP_FAILURE_RETRY(pread(fd, p, most, (off_t)(in->base + offset)));
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

static bool is_as_opened(const kf_in *in, const struct stat *info) {
  kf_file_state now = kf_file_state_of(info);
  return kf_same_state(&in->state, &now);
}

kf_folder *kf_folder_new(int fd, void (*close)(int fd)) {
  kf_folder *folder = kf_alloc_zero(1, sizeof *folder);
  if (folder == NULL) {
    close(fd);
    return NULL;
  }
  folder->fd = fd;
  folder->close = close;
  atomic_init(&folder->users, 1);
  return folder;
}

void kf_folder_release(kf_folder *folder) {
  if (folder == NULL || atomic_fetch_sub(&folder->users, 1) > 1) return;
  folder->close(folder->fd);
  kf_free(folder);
}

void kf_in_park(kf_in *in, kf_folder *folder) {
  close(in->fd);
  in->fd = -1;
  in->parked = folder;
  atomic_fetch_add(&folder->users, 1);
}

/* Its name in the folder where it is parked. */
static const char *name_of(const kf_in *in) {
  const char *slash = strrchr(in->path, '/');
  return slash != NULL ? slash + 1 : in->path;
}

bool kf_in_unchanged(const kf_in *in) {
  struct stat info;
  return (in->parked != NULL ? fstatat(in->parked->fd, name_of(in), &info, 0)
                             : fstat(in->fd, &info)) == 0 &&
         is_as_opened(in, &info);
}

bool kf_in_replaced(const kf_in *in) {
  struct stat info;
  if (in->memory != NULL || stat(in->path, &info) != 0) return false;
  kf_file_state now = kf_file_state_of(&info);
  return !kf_same_file(&in->state, &now);
}

static kf_status read_parked(const kf_in *in, uint64_t offset, void *buffer, uint64_t n,
                             kf_err *err) {
  struct stat info;
  const int flags = O_RDONLY | O_NONBLOCK | O_CLOEXEC;
  int fd = (int)TEMP_FAILURE_RETRY(openat(in->parked->fd, name_of(in), flags));
  if (fd < 0 && errno != ENOENT)
    return kf_fail_errno(err, in->path, "cannot be opened again", errno);
  bool same = fd >= 0 && fstat(fd, &info) == 0 && is_as_opened(in, &info);
  kf_status status = same ? read_fd(in, fd, offset, buffer, n, err)
                          : kf_fail_file(err, in->path, "changed since it was opened");
  if (fd >= 0) close(fd);
  return status;
}

kf_status kf_in_read(const kf_in *in, uint64_t offset, void *buffer, uint64_t n, kf_err *err) {
  if (in->memory != NULL) return read_memory(in, offset, buffer, n, err);
  return in->parked != NULL ? read_parked(in, offset, buffer, n, err)
                            : read_fd(in, in->fd, offset, buffer, n, err);
}

void kf_in_ahead(const kf_in *in, uint64_t offset, uint64_t n) {
  if (in->parked != NULL) return;
  posix_fadvise(in->fd, (off_t)(in->base + offset), (off_t)n, POSIX_FADV_WILLNEED);
}

void kf_in_close(kf_in *in) {
  if (in->path != NULL && in->memory == NULL && in->parked == NULL) close(in->fd);
  kf_folder_release(in->parked);
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

kf_extent kf_extent_file(const char *path) {
  return (kf_extent){.name = path, .file = path, .size = KF_WHOLE_FILE};
}

/* Narrows an open archive to one of its members. */
static kf_status narrow(kf_in *in, const kf_extent *extent, kf_err *err) {
  if (extent->size == 0) return kf_fail_file(err, extent->name, "is empty");
  if (extent->at > in->size || extent->size > in->size - extent->at)
    return kf_fail_file(err, extent->name, "lies outside the archive, which has changed");
  char *name = kf_strdup(extent->name);
  if (name == NULL) return kf_fail_memory(err);
  kf_free(in->path);
  in->path = name;
  in->base = extent->at;
  in->size = extent->size;
  return KF_OK;
}

kf_status kf_in_open_extent(kf_in *in, const kf_extent *extent, kf_err *err) {
  KF_TRY(kf_in_open(in, extent->file, err));
  if (extent->size == KF_WHOLE_FILE) return KF_OK;
  kf_status status = narrow(in, extent, err);
  if (status != KF_OK) kf_in_close(in);
  return status;
}

kf_status kf_read_extent(const kf_extent *extent, uint64_t limit, char **text, uint64_t *length,
                         kf_err *err) {
  kf_in in;
  KF_TRY(kf_in_open_extent(&in, extent, err));
  *length = in.size;
  kf_status status = read_whole(&in, limit, text, err);
  kf_in_close(&in);
  return status;
}

kf_status kf_read_file(const char *path, uint64_t limit, char **text, uint64_t *length,
                       kf_err *err) {
  kf_extent whole = kf_extent_file(path);
  return kf_read_extent(&whole, limit, text, length, err);
}

bool kf_is_directory(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

kf_status kf_next_entry(DIR *folder, const char *path, const struct dirent **out, kf_err *err) {
  errno = 0; /* the only way to tell the end of the folder from a failure */
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
