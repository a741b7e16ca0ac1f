/* streams.c - standard input ('-'), pipes and FIFOs in place of files.
 *
 * The library reads at any offset, from any thread, and some files twice, which a stream cannot
 * serve. So a stream is first copied to an unnamed file in $TMPDIR, /var/tmp or /tmp, and the
 * command line is made to name that file: /dev/fd/N. A signal ends every wait. Other devices are
 * left to the library, which refuses them. */
#include "inputs.h"
#include "sink.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct cli_stream {
  struct cli_stream *next;
  const char *name; /* for people */
  char path[24];    /* of the copy: "/dev/fd/7" */
  dev_t device;     /* of the stream */
  ino_t number;
};

static const char standard_input[] = "standard input";

/* --- names ------------------------------------------------------------------------------------ */

static const struct cli_stream *find(const cli_run *cli, const char *path, size_t length) {
  const struct cli_stream *s = cli->streams;
  while (s && (strlen(s->path) != length || memcmp(s->path, path, length) != 0)) s = s->next;
  return s;
}

int is_stream(const cli_run *cli, const char *path) { return !!find(cli, path, strlen(path)); }

const char *stream_name(const cli_run *cli, const char *path) {
  const struct cli_stream *stream = find(cli, path, strlen(path));
  return stream ? stream->name : path;
}

void name_streams(const cli_run *cli, const char *text, char *out, size_t size) {
  size_t used = 0;
  while (*text && used + 1 < size) {
    size_t length = strncmp(text, "/dev/fd/", 8) == 0 ? 8 + strspn(text + 8, "0123456789") : 0;
    const struct cli_stream *stream = length ? find(cli, text, length) : NULL;
    int n = stream ? snprintf(out + used, size - used, "%s", stream->name) : 1;
    if (!stream) out[used] = *text;
    text += stream ? length : 1;
    used += (size_t)n < size - used ? (size_t)n : size - used - 1;
  }
  out[used] = '\0';
}

/* --- copies ----------------------------------------------------------------------------------- */

/* Opens an unnamed file; -1: not possible there. On file systems without O_TMPFILE it has a name
 * for a moment, in which only SIGKILL can end the program: other signals are handled later. */
static int open_nameless(const char *folder) {
  int fd;
  do fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  while (fd < 0 && errno == EINTR);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return fd;
  char *path;
  if (asprintf(&path, "%s/.koofu-XXXXXX", folder) < 0) return -1;
  fd = mkostemp(path, O_CLOEXEC);
  if (fd >= 0 && unlink(path) != 0 && errno != ENOENT) {
    close(fd);
    fd = -1;
  }
  free(path);
  return fd;
}

static int open_copy(const char **folder) {
  const char *const folders[] = {secure_getenv("TMPDIR"), "/var/tmp", "/tmp"};
  int fd = -1;
  for (size_t i = 0; i < COUNT_OF(folders) && fd < 0; i++) {
    *folder = folders[i];
    if (*folder && **folder) fd = open_nameless(*folder);
  }
  return fd;
}

int open_temporary(const char *path) {
  const char *slash = strrchr(path, '/'), *folder;
  char *beside = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
  int fd = beside ? open_nameless(beside) : -1;
  free(beside);
  return fd >= 0 ? fd : open_copy(&folder);
}

/* Waits for input or the end of the stream. Wakes five times a second, since a signal may come
 * just before poll. */
static int await(cli_run *cli, int fd, const char *name) {
  for (;;) {
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    int ready = poll(&wait, 1, 200);
    if (stop_wanted()) return fail(cli, KF_ERR_CANCELLED);
    if (ready > 0) return EXIT_OK;
    if (ready < 0 && errno != EINTR && errno != EAGAIN)
      return fail_with(cli, EXIT_IO, "%s: cannot be read: %s", name, strerror(errno));
  }
}

static int copy_all(cli_run *cli, int from, int to, const char *name, const char *folder) {
  char bytes[1 << 16];
  for (;;) {
    TRY(await(cli, from, name));
    ssize_t got = read(from, bytes, sizeof bytes);
    if (got == 0) return EXIT_OK;
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) return fail_with(cli, EXIT_IO, "%s: cannot be read: %s", name, strerror(errno));
    for (ssize_t done = 0, put; done < got; done += put) {
      do put = write(to, bytes + done, (size_t)(got - done));
      while (put < 0 && errno == EINTR);
      if (put <= 0)
        return fail_with(cli, EXIT_IO, "%s: cannot be kept in %s: %s", name, folder,
                         strerror(errno));
    }
  }
}

/* --- one stream ------------------------------------------------------------------------------- */

/* The descriptor that a path such as /dev/fd/63 names, or -1. Opening it again could miss the
 * end of the stream. */
static int descriptor_of(const char *path) {
  if (strcmp(path, "-") == 0 || strcmp(path, "/dev/stdin") == 0) return STDIN_FILENO;
  static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
  for (size_t i = 0; i < COUNT_OF(folders); i++) {
    size_t n = strlen(folders[i]);
    const char *number = strncmp(path, folders[i], n) == 0 ? path + n : "";
    if (*number && strlen(number) < 9 && strspn(number, "0123456789") == strlen(number))
      return (int)strtol(number, NULL, 10);
  }
  return -1;
}

/* Whether the library can open a descriptor as a file: readable by name, and at its beginning. */
static int is_file(int fd, const struct stat *info) {
  char path[40];
  snprintf(path, sizeof path, "/dev/fd/%d", fd);
  return S_ISDIR(info->st_mode) ||
         (S_ISREG(info->st_mode) && lseek(fd, 0, SEEK_CUR) == 0 && access(path, R_OK) == 0);
}

/* Formats that are recognised only by the name, which the copy does not have. */
static int check_ending(cli_run *cli, const char *path) {
  static const char *const endings[] = {".csv",  ".tsv",    ".json",  ".fvecs",
                                        ".fbin", ".f16bin", ".u8bin", ".i8bin"};
  for (size_t i = 0; i < COUNT_OF(endings); i++)
    if (ends_with(path, endings[i]))
      return fail_with(cli, EXIT_BAD_DATA,
                       "%s: is a pipe, and koofu does not read %s files from pipes", path,
                       endings[i]);
  return EXIT_OK;
}

static int add(cli_run *cli, const char *name, const struct stat *info, int fd) {
  struct cli_stream *stream = own_memory(cli, 1, sizeof *stream);
  if (!stream) return fail(cli, KF_ERR_MEM);
  *stream = (struct cli_stream){
      .next = cli->streams, .name = name, .device = info->st_dev, .number = info->st_ino};
  snprintf(stream->path, sizeof stream->path, "/dev/fd/%d", fd);
  cli->streams = stream;
  return EXIT_OK;
}

static int refuse_twice(cli_run *cli, const char *name, const struct stat *info) {
  for (const struct cli_stream *s = cli->streams; s; s = s->next)
    if (s->device == info->st_dev && s->number == info->st_ino)
      return fail_usage(cli, "%s is given twice, but can be read only once", name);
  return EXIT_OK;
}

static int keep(cli_run *cli, int from, const char *name, const struct stat *info) {
  const char *folder = NULL;
  int to = open_copy(&folder);
  if (to < 0)
    return fail_with(cli, EXIT_IO, "%s: cannot be kept in %s: %s", name, folder, strerror(errno));
  TRY(copy_all(cli, from, to, name, folder));
  return add(cli, name, info, to); /* stays open until the program ends */
}

/* If *path is a stream, reads it and makes *path name its copy. */
static int take(cli_run *cli, const char **path) {
  int fd = descriptor_of(*path), dash = strcmp(*path, "-") == 0;
  const char *name = fd == STDIN_FILENO ? standard_input : *path;
  struct stat info;
  if (dash ? fstat(fd, &info) != 0 : stat(*path, &info) != 0)
    return dash ? fail_with(cli, EXIT_IO, "%s: %s", name, strerror(errno)) : EXIT_OK;
  int terminal = S_ISCHR(info.st_mode) && fd >= 0 && isatty(fd);
  int stream = terminal || S_ISFIFO(info.st_mode) || (fd >= 0 && S_ISSOCK(info.st_mode));
  if (!dash && !stream) return EXIT_OK;
  if (has_ranks(cli)) return fail_usage(cli, "%s: is a stream, which ranks cannot share", name);
  if (dash && S_ISCHR(info.st_mode) && !terminal)
    return fail_with(cli, EXIT_BAD_DATA, "%s: is a device, not a file or a pipe", name);
  TRY(refuse_twice(cli, name, &info));
  if (dash && is_file(fd, &info)) {
    TRY(add(cli, name, &info, fd));
  } else if (fd >= 0) {
    TRY(keep(cli, fd, name, &info));
  } else {
    TRY(check_ending(cli, *path));
    int opened = open(*path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* does not wait for a writer */
    if (opened < 0)
      return fail_with(cli, EXIT_IO, "%s: cannot be opened: %s", name, strerror(errno));
    int result = keep(cli, opened, name, &info);
    close(opened);
    TRY(result);
  }
  *path = cli->streams->path;
  return EXIT_OK;
}

/* --- the command line ------------------------------------------------------------------------- */

/* What the command calls operand i: "MODEL", "[DATA...]". */
static const char *operand_word(const char *operands, size_t i) {
  for (const char *next; i > 0 && (next = strchr(operands, ' ')) != NULL; i--) operands = next + 1;
  return operands;
}

static int take_operand(cli_run *cli, size_t i) {
  const char **path = &cli->args.operands.items[i];
  const char *words = operand_word(cli->command->operands, i);
  char word[64];
  snprintf(word, sizeof word, "%.*s", (int)strcspn(words, " "), words);
  int folder = strcmp(word, "CLIP-DIR") == 0 || strcmp(word, "FOLDER") == 0;
  int pictures = strcmp(word, "[PICTURES...]") == 0 ||
                 (cli->args.encoder.folder && strstr(word, "PICTURES") != NULL);
  if (strcmp(word, "[NAME]") == 0 || strcmp(word, "[COMMAND]") == 0) return EXIT_OK;
  if (!folder && !pictures) return take(cli, path);
  if (strcmp(*path, "-") != 0) return EXIT_OK;
  return fail_usage(cli, "'-' is standard input, from which %s cannot be read",
                    folder ? "a folder" : "pictures and words");
}

static int take_option(cli_run *cli, const cli_option *o) {
  void *at = (char *)&cli->args + o->at;
  const char **text = at;
  if (o->kind == OPTION_TEXT && o->input && *text) return take(cli, text);
  cli_list *list = at;
  for (size_t i = 0; o->kind == OPTION_LIST && o->input && i < list->n; i++)
    TRY(take(cli, &list->items[i]));
  int read = o->kind == OPTION_TEXT && o->value &&
             (!strcmp(o->value, "CLIP-DIR") || !strcmp(o->value, "FOLDER") ||
              !strcmp(o->value, "GALLERY"));
  if (read && *text && strcmp(*text, "-") == 0)
    return fail_usage(cli, "--%s cannot be standard input", o->name);
  return EXIT_OK;
}

int take_streams(cli_run *cli) {
  for (size_t i = 0; i < cli->args.operands.n; i++) TRY(take_operand(cli, i));
  option_walk walk = {.command = cli->command};
  for (const cli_option *o; (o = option_next(&walk, NULL)) != NULL;) TRY(take_option(cli, o));
  return EXIT_OK;
}
