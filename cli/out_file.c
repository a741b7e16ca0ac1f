/* out_file.c - results to stdout, or to a file that appears whole or not at all.
 *
 * As in the library, the file has no name until it is complete (O_TMPFILE), so a killed process
 * leaves nothing behind. If the file system does not support that, it has a temporary name in the
 * same folder. rename(2) then puts it in its place, replacing an older file in one step. */
#include "out_file.h"
#include "outputs.h"
#include "owned.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

int out_file_fail(cli_run *cli, out_file *out, const char *what) {
  int code = errno;
  const char *path = out->path;
  out_file_abort(out);
  if (code == ENOMEM) return fail_with(cli, EXIT_INTERNAL, "out of memory");
  return fail_with(cli, EXIT_IO, "%s: %s: %s", path, what,
                   code ? strerror(code) : "it was cut short");
}

/* The folder a path is in: "a/b" -> "a/", "b" -> "./". NULL: out of memory. */
static char *folder_of(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? strndup(path, (size_t)(slash - path) + 1) : strdup("./");
}

/* An unused name in the folder of `path`. NULL: out of memory. */
static char *temporary_name(const char *path) {
  uint64_t chance;
  if (getrandom(&chance, sizeof chance, GRND_NONBLOCK) != sizeof chance)
    chance = (uint64_t)(now() * 1e9) ^ (uint64_t)getpid() << 32;
  const char *slash = strrchr(path, '/');
  size_t folder = slash ? (size_t)(slash - path) + 1 : 0;
  char *name;
  /* The base name is cut to keep within the limit of file names. */
  int length =
      asprintf(&name, "%.*s.%.180s.%016" PRIx64 ".part", (int)folder, path, path + folder, chance);
  return length < 0 ? NULL : name;
}

/* A path by which an unnamed file can be linked. */
static const char *self_path(int fd, char path[40]) {
  snprintf(path, 40, "/proc/self/fd/%d", fd);
  return path;
}

static int open_unnamed(const out_file *out) {
  char *folder = folder_of(out->target);
  int fd = folder ? open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666) : -1;
  free(folder);
  char self[40];
  if (fd < 0 || access(self_path(fd, self), F_OK) == 0) return fd;
  close(fd); /* without /proc it cannot be given a name */
  return -1;
}

static int open_named(out_file *out) {
  char *name = temporary_name(out->target);
  int fd = name ? open(name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666) : -1;
  if (fd < 0)
    free(name);
  else
    out->temporary = name;
  return fd;
}

int out_file_open(cli_run *cli, out_file *out, const char *path) {
  memset(out, 0, sizeof *out);
  if (is_stdout(path)) {
    out->file = stdout;
    return EXIT_OK;
  }
  struct stat old;
  int exists = stat(path, &old) == 0;
  out->path = path;
  out->target = exists ? realpath(path, NULL) : NULL;
  if (!out->target) out->target = strdup(path);
  if (!out->target) return out_file_fail(cli, out, "cannot be created");
  int fd = open_unnamed(out);
  if (fd < 0) fd = open_named(out);
  if (fd < 0) return out_file_fail(cli, out, "cannot be created");
  out->file = fdopen(fd, "w");
  if (!out->file) {
    int code = errno;
    close(fd);
    errno = code;
    return out_file_fail(cli, out, "cannot be created");
  }
  /* Keep the permissions of the file it replaces. */
  if (exists && fchmod(fd, old.st_mode & 07777) != 0 && errno != EPERM)
    return out_file_fail(cli, out, "cannot be given its permissions");
  return EXIT_OK;
}

/* A rename is durable only once the folder is on the disk. */
static void sync_folder(const char *path) {
  char *folder = folder_of(path);
  int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
  if (fd >= 0) {
    fsync(fd);
    close(fd);
  }
  free(folder);
}

static int flush(const out_file *out) {
  errno = 0;
  if (fflush(out->file) != 0 || ferror(out->file)) return -1;
  return fsync(fileno(out->file)) != 0 && errno != EINVAL ? -1 : 0;
}

/* Gives an unnamed file a temporary name, for rename to move. */
static int name_it(out_file *out) {
  char self[40];
  char *name = temporary_name(out->target);
  if (!name) return -1;
  self_path(fileno(out->file), self);
  if (linkat(AT_FDCWD, self, AT_FDCWD, name, AT_SYMLINK_FOLLOW) != 0) {
    free(name);
    return -1;
  }
  out->temporary = name;
  return 0;
}

int out_file_finish(cli_run *cli, out_file *out) {
  if (!out->path || out->finished) return EXIT_OK; /* main looks after stdout */
  if (flush(out) != 0) return out_file_fail(cli, out, "cannot be written");
  if (!out->temporary && name_it(out) != 0) return out_file_fail(cli, out, "cannot be created");
  out->finished = 1;
  return EXIT_OK;
}

int out_file_commit(cli_run *cli, out_file *out) {
  int result = out_file_finish(cli, out);
  if (result != EXIT_OK || !out->path) return result;
  if (rename(out->temporary, out->target) != 0)
    return out_file_fail(cli, out, "cannot be replaced");
  free(out->temporary); /* nothing left to remove */
  out->temporary = NULL;
  sync_folder(out->target);
  out_file_abort(out);
  return EXIT_OK;
}

int out_files_commit(cli_run *cli, out_file *files, size_t n) {
  int result = EXIT_OK;
  for (size_t i = 0; i < n && result == EXIT_OK; i++) result = out_file_finish(cli, &files[i]);
  for (size_t i = 0; i < n && result == EXIT_OK; i++) result = out_file_commit(cli, &files[i]);
  return result;
}

int write_files(cli_run *cli, const char *const *paths, size_t n,
                void (*write)(const void *argument, size_t i, FILE *file), const void *argument) {
  out_file *files = own_memory(cli, n, sizeof *files);
  if (!files) return fail(cli, KF_ERR_MEM);
  int result = EXIT_OK;
  for (size_t i = 0; i < n && result == EXIT_OK; i++) {
    if (paths[i]) result = out_file_open(cli, &files[i], paths[i]);
    if (paths[i] && result == EXIT_OK) write(argument, i, files[i].file);
  }
  if (result == EXIT_OK) result = out_files_commit(cli, files, n);
  for (size_t i = 0; i < n; i++) out_file_abort(&files[i]);
  return result;
}

void out_file_abort(out_file *out) {
  if (!out->path) return;
  if (out->file) fclose(out->file);
  if (out->temporary) unlink(out->temporary);
  free(out->temporary);
  free(out->target);
  memset(out, 0, sizeof *out);
}
