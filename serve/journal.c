/* journal.c - a folder of data sets. The library's writer makes each file appear atomically, so
 * nothing needs repair after a crash: a class is there or it is not. */
#include "journal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 16 };

struct sv_journal {
  sv_server *server;
  char *folder;
  int fd;         /* of the folder, locked; -1: there is none */
  uint64_t last;  /* the highest number in use so far */
  bool created;   /* by this server */
  bool temporary; /* removed with the journal */
};

static kf_status fail(char *message, size_t size, const sv_journal *j, const char *what) {
  snprintf(message, size, "%s: %s: %s", j->folder, what, strerror(errno));
  return errno == ENOMEM ? KF_ERR_MEM : KF_ERR_IO;
}

/* A file left by a process killed while writing: '.000001.safetensors.….part'. */
static bool is_leftover(const char *name) {
  size_t n = strlen(name);
  return name[0] == '.' && strspn(name + 1, "0123456789") >= 6 && n > 5 &&
         strcmp(name + n - 5, ".part") == 0;
}

static void clear_leftovers(const sv_journal *j) {
  DIR *folder = opendir(j->folder);
  const struct dirent *entry;
  while (folder && (entry = readdir(folder)))
    if (is_leftover(entry->d_name)) unlinkat(j->fd, entry->d_name, 0);
  if (folder) closedir(folder);
}

/* --- the folder ------------------------------------------------------------------------------- */

/* Whether fd is the folder that has the name now. */
static bool is_current(const sv_journal *j, int fd) {
  struct stat own, named;
  return fd >= 0 && fstat(fd, &own) == 0 && stat(j->folder, &named) == 0 &&
         own.st_dev == named.st_dev && own.st_ino == named.st_ino;
}

/* After a change that cannot be undone, so a failure is only logged. EINVAL: the file system has no
 * fsync. */
static void sync_folder(const sv_journal *j, int fd, const char *path, const char *what) {
  int failed = -1;
  while (fd >= 0 && (failed = fsync(fd)) != 0 && errno == EINTR) continue;
  if (!failed || errno == EINVAL) return;
  sv_log(j->server, "%s: %s, but its folder cannot be synced, so a power failure may undo it: %s",
         path, what, strerror(errno));
}

/* The entry of the folder itself must be on disk before its files. */
static kf_status create_folder(sv_journal *j, char *message, size_t size) {
  if (mkdir(j->folder, j->temporary ? 0700 : 0777) != 0)
    return errno == EEXIST && !j->temporary ? KF_OK : fail(message, size, j, "cannot be created");
  j->created = true;
  char *parent = strdup(j->folder), *slash = parent ? strrchr(parent, '/') : NULL;
  if (slash) slash[slash == parent] = '\0';
  int above = sv_open_folder(slash ? parent : ".");
  sync_folder(j, above, j->folder, "was created");
  if (above >= 0) close(above);
  free(parent);
  return KF_OK;
}

static kf_status lock_folder(const sv_journal *j, int fd, char *message, size_t size) {
  int failed;
  do failed = flock(fd, LOCK_EX | LOCK_NB);
  while (failed && errno == EINTR);
  if (!failed) return KF_OK;
  if (errno == EWOULDBLOCK) {
    snprintf(message, size, "%s: another server is using this journal", j->folder);
    return KF_ERR_IO;
  }
  sv_log(j->server, "%s: cannot be locked, so make sure no other server uses it: %s", j->folder,
         strerror(errno));
  return KF_OK;
}

/* Opens and locks the folder that has the name. Its owner may remove it between the two: then tries
 * again. */
static kf_status take_folder(sv_journal *j, char *message, size_t size) {
  if (j->fd >= 0) close(j->fd);
  j->fd = -1;
  j->created = false;
  for (int round = 0; round < ROUNDS; round++) {
    int fd = -1;
    errno = ENOENT;
    if (!j->temporary || j->created)
      fd = sv_open_folder(j->folder); /* never use a foreign folder in /tmp */
    if (fd < 0 && errno != ENOENT) return fail(message, size, j, "cannot be opened");
    kf_status status = fd < 0 ? create_folder(j, message, size) : lock_folder(j, fd, message, size);
    if (status == KF_OK && is_current(j, fd)) {
      j->fd = fd;
      clear_leftovers(j);
      return KF_OK;
    }
    if (fd >= 0) close(fd);
    if (status != KF_OK) return status;
  }
  errno = ENOENT;
  return fail(message, size, j, "cannot be opened");
}

kf_status sv_journal_take(sv_journal *j, char *message, size_t size) {
  if (is_current(j, j->fd)) return KF_OK;
  if (j->fd < 0 && (j->temporary || (j->server->options.check && access(j->folder, F_OK) != 0)))
    return KF_OK;
  kf_status status = take_folder(j, message, size);
  if (status != KF_ERR_IO || access(j->folder, F_OK) == 0) return status;
  sv_log(j->server, "no classes can be added: %s", message);
  return KF_OK;
}

kf_status sv_journal_hold(sv_journal *j, bool *found, char *message, size_t size) {
  *found = false;
  if (is_current(j, j->fd)) return KF_OK;
  if (j->fd >= 0) {
    snprintf(message, size,
             "%s: was removed or replaced while the server was running; SIGHUP or a restart uses "
             "the folder that is there now",
             j->folder);
    return KF_ERR_IO;
  }
  kf_status status = take_folder(j, message, size);
  *found = status == KF_OK && !j->created;
  return status;
}

static char *temporary_name(void) {
  struct timespec now;
  char *name;
  clock_gettime(CLOCK_REALTIME, &now);
  int n = asprintf(&name, "/tmp/koofu-demo-%ld-%lld%09ld", (long)getpid(), (long long)now.tv_sec,
                   now.tv_nsec);
  return n < 0 ? NULL : name;
}

kf_status sv_journal_new(sv_server *server, const char *folder, sv_journal **out) {
  sv_journal *j = *out = calloc(1, sizeof *j);
  if (!j) return KF_ERR_MEM;
  *j = (sv_journal){.server = server, .fd = -1, .temporary = !folder};
  j->folder = folder ? strdup(folder) : temporary_name();
  return j->folder ? KF_OK : KF_ERR_MEM;
}

const char *sv_journal_folder(const sv_journal *j) { return j->folder; }

/* --- names ------------------------------------------------------------------------------------ */

static char *path_of(const sv_journal *j, uint64_t number, bool text) {
  char *path;
  int n = asprintf(&path, "%s/%06llu%s.safetensors", j->folder, (unsigned long long)number,
                   text ? "-text" : "");
  return n < 0 ? NULL : path;
}

/* The number of a class file; false: another file. */
static bool number_of(const char *name, uint64_t *number, bool *text) {
  size_t digits = strspn(name, "0123456789");
  if (digits < 6 || digits > 18) return false;
  *number = strtoull(name, NULL, 10);
  *text = strcmp(name + digits, "-text.safetensors") == 0;
  return *text || strcmp(name + digits, ".safetensors") == 0;
}

static int rising(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

kf_status sv_journal_list(const sv_journal *j, uint64_t **numbers, size_t *n, char *message,
                          size_t size) {
  *numbers = NULL;
  *n = 0;
  if (j->fd < 0) return KF_OK;
  DIR *folder = opendir(j->folder);
  if (!folder) return fail(message, size, j, "cannot be read");
  const struct dirent *entry;
  size_t room = 0;
  kf_status status = KF_OK;
  while (status == KF_OK && (errno = 0, entry = readdir(folder))) {
    uint64_t number;
    bool text;
    if (!number_of(entry->d_name, &number, &text)) continue;
    if (*n == room) {
      room = room ? 2 * room : 16;
      uint64_t *more = realloc(*numbers, room * sizeof *more);
      if (!more) {
        snprintf(message, size, "out of memory");
        status = KF_ERR_MEM;
        break;
      }
      *numbers = more;
    }
    (*numbers)[(*n)++] = number;
  }
  if (status == KF_OK && errno != 0) status = fail(message, size, j, "cannot be read");
  closedir(folder);
  if (*n > 1) qsort(*numbers, *n, sizeof **numbers, rising);
  return status;
}

/* --- files ------------------------------------------------------------------------------------ */

kf_status sv_journal_read(const sv_journal *j, kf_ctx *ctx, uint64_t number, kf_data **data,
                          sv_added *out, char *message, size_t size) {
  *data = NULL;
  *out = (sv_added){.number = number};
  char *path = path_of(j, number, false);
  if (path && access(path, F_OK) != 0) {
    free(path);
    out->text = true;
    path = path_of(j, number, true);
  }
  const char *paths[] = {path};
  kf_status status =
      path ? sv_say(ctx, kf_data_open(ctx, paths, 1, NULL, data), message, size) : KF_ERR_MEM;
  const char *name = status == KF_OK ? kf_data_class_name(*data, 0) : NULL;
  if (status == KF_OK && (kf_data_classes(*data) != 1 || !name)) {
    snprintf(message, size, "%s: not an added class", path);
    status = KF_ERR_DATA;
  }
  free(path);
  if (status == KF_OK) {
    out->rows = kf_data_rows(*data);
    out->name = strdup(name);
    if (!out->name) status = KF_ERR_MEM;
  }
  if (status != KF_OK) {
    kf_data_free(*data);
    *data = NULL;
  }
  return status;
}

static kf_status find_last(sv_journal *j, char *message, size_t size) {
  uint64_t *numbers;
  size_t n;
  kf_status status = sv_journal_list(j, &numbers, &n, message, size);
  if (n > 0 && numbers[n - 1] > j->last) j->last = numbers[n - 1];
  free(numbers);
  return status;
}

kf_status sv_journal_add(sv_journal *j, kf_ctx *ctx, const kf_data *data, bool text,
                         uint64_t *number, char *message, size_t size) {
  bool found;
  kf_status status = find_last(j, message, size);
  if (status != KF_OK) return status;
  char *path = path_of(j, j->last + 1, text);
  if (!path) return KF_ERR_MEM;
  status = sv_say(ctx, kf_data_save(ctx, data, KF_F32, path), message, size);
  if (status == KF_OK) {
    status = sv_journal_hold(j, &found, message, size); /* it may be in another folder by now */
    if (status != KF_OK) unlink(path);
  }
  free(path);
  if (status == KF_OK) *number = ++j->last;
  return status;
}

kf_status sv_journal_remove(sv_journal *j, const sv_added *added, char *message, size_t size) {
  char *path = path_of(j, added->number, added->text);
  if (!path) return KF_ERR_MEM;
  if (added->number > j->last) j->last = added->number; /* numbers are never reused */
  kf_status status = KF_OK;
  if (unlink(path) == 0)
    sync_folder(j, j->fd, path, "was removed");
  else if (errno != ENOENT)
    status = fail(message, size, j, "a class cannot be removed");
  free(path);
  return status;
}

static void remove_all(const sv_journal *j) {
  uint64_t *numbers;
  size_t n;
  char message[256];
  if (sv_journal_list(j, &numbers, &n, message, sizeof message) != KF_OK) return;
  for (size_t i = 0; i < n; i++)
    for (int text = 0; text < 2; text++) {
      char *path = path_of(j, numbers[i], text);
      if (path) unlink(path);
      free(path);
    }
  free(numbers);
}

/* Also removes a folder that this server created, if it is empty or temporary. */
void sv_journal_free(sv_journal *j) {
  if (!j) return;
  if (j->created && is_current(j, j->fd)) {
    if (j->temporary) remove_all(j);
    rmdir(j->folder);
  }
  if (j->fd >= 0) close(j->fd);
  free(j->folder);
  free(j);
}
