/* text_out.c - text to stdout, or to a file that appears whole or not at all. */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int fail_errno(cli_run *cli, const char *path, const char *what) {
  return fail_with(cli, EXIT_IO, "%s: %s: %s", path, what, strerror(errno));
}

/* Length of the folder part of a path, with its slash; 0 where there is none. */
static size_t folder_length(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? (size_t)(slash - path) + 1 : 0;
}

int text_out_open(cli_run *cli, text_out *out, const char *path) {
  static const char pattern[] = ".koofu-XXXXXX";
  memset(out, 0, sizeof *out);
  if (!path || strcmp(path, "-") == 0) {
    out->file = stdout;
    return EXIT_OK;
  }
  size_t folder = folder_length(path);
  out->path = path;
  out->temporary = malloc(folder + sizeof pattern);
  if (!out->temporary) return fail_with(cli, EXIT_INTERNAL, "out of memory");
  memcpy(out->temporary, path, folder);
  memcpy(out->temporary + folder, pattern, sizeof pattern);
  int fd = mkstemp(out->temporary);
  if (fd < 0) {
    int status = fail_errno(cli, path, "cannot be created");
    free(out->temporary);
    out->temporary = NULL;
    return status;
  }
  mode_t mask = umask(0);
  umask(mask);
  fchmod(fd, 0666 & ~mask);
  out->file = fdopen(fd, "w");
  if (out->file) return EXIT_OK;
  close(fd);
  text_out_abort(out);
  return fail_with(cli, EXIT_INTERNAL, "out of memory");
}

/* A rename lasts only once the folder itself is on the disk. */
static void sync_folder(const char *path) {
  size_t length = folder_length(path);
  char *folder = length ? strndup(path, length) : strdup(".");
  int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY) : -1;
  if (fd >= 0) {
    fsync(fd);
    close(fd);
  }
  free(folder);
}

int text_out_commit(cli_run *cli, text_out *out) {
  if (!out->path) return EXIT_OK; /* main looks after stdout */
  int failed = fflush(out->file) != 0 || ferror(out->file) || fsync(fileno(out->file)) != 0;
  if (failed || rename(out->temporary, out->path) != 0) {
    int status = fail_errno(cli, out->path, "cannot be written");
    text_out_abort(out);
    return status;
  }
  free(out->temporary);
  out->temporary = NULL;
  fclose(out->file);
  out->file = NULL;
  sync_folder(out->path);
  return EXIT_OK;
}

void text_out_abort(text_out *out) {
  if (!out->temporary) return;
  if (out->file) fclose(out->file);
  unlink(out->temporary);
  free(out->temporary);
  memset(out, 0, sizeof *out);
}

void print_escaped(FILE *file, const char *text) {
  for (const char *p = text; *p; p++) {
    unsigned char c = (unsigned char)*p;
    if (c == '\t')
      fputs("\\t", file);
    else if (c == '\n')
      fputs("\\n", file);
    else if (c == '\r')
      fputs("\\r", file);
    else if (c == '\\')
      fputs("\\\\", file);
    else if (c < 0x20 || c == 0x7f)
      fprintf(file, "\\x%02x", c);
    else
      putc(c, file);
  }
}
