/* faults.c - makes one call of a program fail: a library to preload (LD_PRELOAD).
 *
 * Every function below wraps one of the C library. It counts its calls and, when its
 * turn has come, fails as the system would, or ends the process with a signal. The environment says
 * what is to happen:
 *
 *   FAULT_KIND      the kind of call, one of KINDS, or 'any' for all of them but memory
 *   FAULT_AT        which call of that kind, from 1
 *   FAULT_FOR_GOOD  1: all later ones of that kind fail as well
 *   FAULT_ERRNO     the error it fails with
 *   FAULT_SHORT     1: it does not fail, but reads or writes fewer bytes than asked for
 *   FAULT_SIGNAL    it does not fail, but sends this signal to its own process first
 *   FAULT_DELAY     microseconds that every call but memory takes longer, so that processes meet
 *   FAULT_NAMED     1: the file system has no files without names (O_TMPFILE)
 *   FAULT_COUNTS    a file for the calls of each kind, and whether the fault was met
 *
 * The C library does not call its own functions through the dynamic linker. Streams would therefore
 * write past this library, so stdout and streams from fdopen are given functions of ours
 * (fopencookie). FAULTS_ONLY_CALLS leaves memory alone, for programs whose sanitizer brings its own
 * allocator. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SHOWN __attribute__((visibility("default")))

#define KINDS(X)                                                                                   \
  X(memory)                                                                                        \
  X(open)                                                                                          \
  X(openat)                                                                                        \
  X(read)                                                                                          \
  X(pread)                                                                                         \
  X(write)                                                                                         \
  X(pwrite)                                                                                        \
  X(fsync)                                                                                         \
  X(fdatasync)                                                                                     \
  X(close)                                                                                         \
  X(rename)                                                                                        \
  X(renameat)                                                                                      \
  X(renameat2)                                                                                     \
  X(link)                                                                                          \
  X(linkat)                                                                                        \
  X(symlink)                                                                                       \
  X(unlink)                                                                                        \
  X(unlinkat)                                                                                      \
  X(mkdir)                                                                                         \
  X(rmdir)                                                                                         \
  X(ftruncate)                                                                                     \
  X(posix_fallocate)                                                                               \
  X(mmap)                                                                                          \
  X(stat)                                                                                          \
  X(lstat)                                                                                         \
  X(fstat)                                                                                         \
  X(fstatat)                                                                                       \
  X(access)                                                                                        \
  X(faccessat)                                                                                     \
  X(fchmod)                                                                                        \
  X(fchown)                                                                                        \
  X(readlink)                                                                                      \
  X(realpath)                                                                                      \
  X(socket)                                                                                        \
  X(opendir)                                                                                       \
  X(fdopendir)                                                                                     \
  X(readdir)                                                                                       \
  X(scandir)                                                                                       \
  X(mkostemp)                                                                                      \
  X(fdopen)                                                                                        \
  X(fcntl)                                                                                         \
  X(flock)                                                                                         \
  X(getrandom)                                                                                     \
  X(pthread_create)

#define AS_ENUM(name) KIND_##name,
#define AS_NAME(name) #name,
enum { KINDS(AS_ENUM) N_KINDS, ANY = N_KINDS, NONE };
static const char *const kind_names[] = {KINDS(AS_NAME)};

static struct {
  int kind, error, short_count, signal, named;
  useconds_t delay;
  long at;
  int for_good;
} fault = {.kind = NONE};

static atomic_int active;
static atomic_int met;
static atomic_long counts[N_KINDS];
static atomic_long any_count;

/* --- when ------------------------------------------------------------------------------------- */

static int is_due(long number) {
  return number == fault.at || (fault.for_good && number > fault.at);
}

/* Counts a call. 1: the fault is due. */
static int counted(int kind) {
  if (!atomic_load(&active)) return 0;
  long number = atomic_fetch_add(&counts[kind], 1) + 1;
  int due = fault.kind == kind && is_due(number);
  if (kind != KIND_memory) {
    if (fault.delay > 0) usleep(fault.delay);
    number = atomic_fetch_add(&any_count, 1) + 1;
    due |= fault.kind == ANY && is_due(number);
  }
  if (!due) return 0;
  atomic_store(&met, 1);
  if (fault.signal != 0) {
    kill(getpid(), fault.signal);
    return 0;
  }
  return 1;
}

/* 1: this call is to fail, and errno is set. */
static int fails(int kind) {
  if (!counted(kind) || fault.short_count) return 0;
  errno = fault.error;
  return 1;
}

/* The number of bytes to ask for; 0: the call is to fail. */
static size_t allowed(int kind, size_t n) {
  if (!counted(kind)) return n;
  if (fault.short_count) return n > 1 ? n / 2 : n;
  errno = fault.error;
  return 0;
}

static long number_from(const char *name) {
  const char *text = getenv(name);
  return text != NULL ? strtol(text, NULL, 10) : 0;
}

/* --- the functions themselves ----------------------------------------------------------------- */

#define NEXT(name) (__extension__(__typeof__(&name)) next(#name))

static void *next(const char *name) {
  void *found = dlsym(RTLD_NEXT, name);
  if (found == NULL) abort();
  return found;
}

#ifndef FAULTS_ONLY_CALLS
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

SHOWN void *malloc(size_t size) { return fails(KIND_memory) ? NULL : __libc_malloc(size); }

SHOWN void *calloc(size_t n, size_t size) {
  return fails(KIND_memory) ? NULL : __libc_calloc(n, size);
}

SHOWN void *realloc(void *memory, size_t size) {
  return fails(KIND_memory) ? NULL : __libc_realloc(memory, size);
}

SHOWN void *memalign(size_t alignment, size_t size) {
  return fails(KIND_memory) ? NULL : __libc_memalign(alignment, size);
}

SHOWN void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

SHOWN int posix_memalign(void **out, size_t alignment, size_t size) {
  void *memory = memalign(alignment, size);
  if (memory == NULL) return ENOMEM;
  *out = memory;
  return 0;
}
#endif

static mode_t mode_of(int flags, va_list list) {
  int creates = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  return creates ? va_arg(list, mode_t) : 0;
}

static int refused_flags(int flags) {
  if (!fault.named || (flags & O_TMPFILE) != O_TMPFILE) return 0;
  errno = EOPNOTSUPP;
  return 1;
}

SHOWN int open(const char *path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  mode_t mode = mode_of(flags, list);
  va_end(list);
  if (refused_flags(flags) || fails(KIND_open)) return -1;
  return NEXT(open)(path, flags, mode);
}

SHOWN int openat(int folder, const char *path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  mode_t mode = mode_of(flags, list);
  va_end(list);
  if (refused_flags(flags) || fails(KIND_openat)) return -1;
  return NEXT(openat)(folder, path, flags, mode);
}

/* Threads wake one another by eventfds, and these calls on them do not fail. */
static int is_event(int fd) {
  struct stat info;
  return fstat(fd, &info) == 0 && (info.st_mode & S_IFMT) == 0;
}

#define READS_OR_WRITES(result, name, pointer)                                                     \
  SHOWN result name(int fd, pointer bytes, size_t n) {                                             \
    size_t most = is_event(fd) ? n : allowed(KIND_##name, n);                                      \
    return most == 0 && n > 0 ? -1 : NEXT(name)(fd, bytes, most);                                  \
  }
READS_OR_WRITES(ssize_t, read, void *)
READS_OR_WRITES(ssize_t, write, const void *)

SHOWN ssize_t pread(int fd, void *bytes, size_t n, off_t offset) {
  size_t most = allowed(KIND_pread, n);
  return most == 0 && n > 0 ? -1 : NEXT(pread)(fd, bytes, most, offset);
}

SHOWN ssize_t pwrite(int fd, const void *bytes, size_t n, off_t offset) {
  size_t most = allowed(KIND_pwrite, n);
  return most == 0 && n > 0 ? -1 : NEXT(pwrite)(fd, bytes, most, offset);
}

/* Linux closes the file whatever it returns. */
SHOWN int close(int fd) {
  int failed = fails(KIND_close), error = errno;
  int result = NEXT(close)(fd);
  if (!failed) return result;
  errno = error;
  return -1;
}

/* Calls that return 0, or -1 with an error. */
#define PASSES(name, declared, handed)                                                             \
  SHOWN int name declared { return fails(KIND_##name) ? -1 : NEXT(name) handed; }
PASSES(fsync, (int fd), (fd))
PASSES(fdatasync, (int fd), (fd))
PASSES(rename, (const char *from, const char *to), (from, to))
PASSES(renameat, (int a, const char *from, int b, const char *to), (a, from, b, to))
PASSES(renameat2, (int a, const char *from, int b, const char *to, unsigned flags),
       (a, from, b, to, flags))
PASSES(link, (const char *from, const char *to), (from, to))
PASSES(linkat, (int a, const char *from, int b, const char *to, int flags), (a, from, b, to, flags))
PASSES(symlink, (const char *target, const char *path), (target, path))
PASSES(unlink, (const char *path), (path))
PASSES(unlinkat, (int folder, const char *path, int flags), (folder, path, flags))
PASSES(mkdir, (const char *path, mode_t mode), (path, mode))
PASSES(rmdir, (const char *path), (path))
PASSES(ftruncate, (int fd, off_t length), (fd, length))
PASSES(stat, (const char *path, struct stat *out), (path, out))
PASSES(lstat, (const char *path, struct stat *out), (path, out))
PASSES(fstat, (int fd, struct stat *out), (fd, out))
PASSES(fstatat, (int folder, const char *path, struct stat *out, int flags),
       (folder, path, out, flags))
PASSES(access, (const char *path, int mode), (path, mode))
PASSES(faccessat, (int folder, const char *path, int mode, int flags), (folder, path, mode, flags))
PASSES(fchmod, (int fd, mode_t mode), (fd, mode))
PASSES(fchown, (int fd, uid_t owner, gid_t group), (fd, owner, group))
PASSES(mkostemp, (char *path, int flags), (path, flags))
PASSES(flock, (int fd, int operation), (fd, operation))
PASSES(scandir,
       (const char *path, struct dirent ***entries, int (*takes)(const struct dirent *),
        int (*compares)(const struct dirent **, const struct dirent **)),
       (path, entries, takes, compares))

SHOWN int posix_fallocate(int fd, off_t offset, off_t length) {
  return fails(KIND_posix_fallocate) ? errno : NEXT(posix_fallocate)(fd, offset, length);
}

SHOWN void *mmap(void *at, size_t length, int protection, int flags, int fd, off_t offset) {
  if (fails(KIND_mmap)) return MAP_FAILED;
  return NEXT(mmap)(at, length, protection, flags, fd, offset);
}

SHOWN ssize_t readlink(const char *path, char *text, size_t size) {
  return fails(KIND_readlink) ? -1 : NEXT(readlink)(path, text, size);
}

SHOWN char *realpath(const char *path, char *resolved) {
  return fails(KIND_realpath) ? NULL : NEXT(realpath)(path, resolved);
}

SHOWN int socket(int domain, int type, int protocol) {
  return fails(KIND_socket) ? -1 : NEXT(socket)(domain, type, protocol);
}

SHOWN DIR *opendir(const char *path) { return fails(KIND_opendir) ? NULL : NEXT(opendir)(path); }

SHOWN DIR *fdopendir(int fd) { return fails(KIND_fdopendir) ? NULL : NEXT(fdopendir)(fd); }

SHOWN struct dirent *readdir(DIR *folder) {
  return fails(KIND_readdir) ? NULL : NEXT(readdir)(folder);
}

/* Every command koofu gives takes one argument of at most a pointer's size, or none. */
SHOWN int fcntl(int fd, int command, ...) {
  va_list list;
  va_start(list, command);
  void *argument = va_arg(list, void *);
  va_end(list);
  return fails(KIND_fcntl) ? -1 : NEXT(fcntl)(fd, command, argument);
}

SHOWN ssize_t getrandom(void *bytes, size_t n, unsigned flags) {
  return fails(KIND_getrandom) ? -1 : NEXT(getrandom)(bytes, n, flags);
}

SHOWN int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                         void *argument) {
  return fails(KIND_pthread_create) ? errno
                                    : NEXT(pthread_create)(thread, attributes, run, argument);
}

/* --- streams ---------------------------------------------------------------------------------- */

enum { MAX_STREAMS = 64 };
static struct {
  FILE *stream;
  int fd;
} streams[MAX_STREAMS];
static pthread_mutex_t streams_lock = PTHREAD_MUTEX_INITIALIZER;

static int place_of(const FILE *stream) {
  for (int i = 0; i < MAX_STREAMS; i++)
    if (streams[i].stream == stream) return i;
  return -1;
}

/* As the C library's own streams do: until all is written, or an error. */
static ssize_t stream_write(void *cookie, const char *bytes, size_t n) {
  int fd = (int)(intptr_t)cookie;
  size_t done = 0;
  while (done < n) {
    ssize_t put = write(fd, bytes + done, n - done);
    if (put < 0 && errno == EINTR) continue; /* no handler of koofu lets a stream see it */
    if (put <= 0) return 0;
    done += (size_t)put;
  }
  return (ssize_t)n;
}

static ssize_t stream_read(void *cookie, char *bytes, size_t n) {
  ssize_t got;
  do got = read((int)(intptr_t)cookie, bytes, n);
  while (got < 0 && errno == EINTR);
  return got;
}

static int stream_seek(void *cookie, off64_t *offset, int whence) {
  off_t at = lseek((int)(intptr_t)cookie, *offset, whence);
  if (at >= 0) *offset = at;
  return at >= 0 ? 0 : -1;
}

static int stream_close(void *cookie) {
  int fd = (int)(intptr_t)cookie;
  pthread_mutex_lock(&streams_lock);
  for (int i = 0; i < MAX_STREAMS; i++)
    if (streams[i].stream != NULL && streams[i].fd == fd) streams[i].stream = NULL;
  pthread_mutex_unlock(&streams_lock);
  int result = close(fd);
  return result != 0 && errno == EINTR ? 0 : result; /* likewise */
}

static FILE *stream_of(int fd, const char *mode, int buffering) {
  cookie_io_functions_t functions = {
      .read = stream_read, .write = stream_write, .close = stream_close};
  if (lseek(fd, 0, SEEK_CUR) >= 0) functions.seek = stream_seek;
  FILE *stream = fopencookie((void *)(intptr_t)fd, mode, functions);
  if (stream == NULL) return NULL;
  setvbuf(stream, NULL, buffering, 4096);
  pthread_mutex_lock(&streams_lock);
  int at = place_of(NULL);
  if (at >= 0) {
    streams[at].stream = stream;
    streams[at].fd = fd;
  }
  pthread_mutex_unlock(&streams_lock);
  return stream;
}

SHOWN FILE *fdopen(int fd, const char *mode) {
  if (fails(KIND_fdopen)) return NULL;
  return mode[0] == 'w' ? stream_of(fd, mode, _IOFBF) : NEXT(fdopen)(fd, mode);
}

SHOWN int fileno(FILE *stream) {
  pthread_mutex_lock(&streams_lock);
  int at = place_of(stream);
  int fd = at >= 0 ? streams[at].fd : -1;
  pthread_mutex_unlock(&streams_lock);
  return fd >= 0 ? fd : NEXT(fileno)(stream);
}

/* --- begin and end ---------------------------------------------------------------------------- */

static int kind_from(const char *name) {
  if (name == NULL) return NONE;
  if (strcmp(name, "any") == 0) return ANY;
  for (int i = 0; i < N_KINDS; i++)
    if (strcmp(kind_names[i], name) == 0) return i;
  fprintf(stderr, "faults: there is no kind '%s'\n", name);
  _exit(99);
}

__attribute__((constructor)) static void begin(void) {
  fault.kind = kind_from(getenv("FAULT_KIND"));
  fault.at = number_from("FAULT_AT");
  fault.for_good = (int)number_from("FAULT_FOR_GOOD");
  fault.error = (int)number_from("FAULT_ERRNO");
  fault.short_count = (int)number_from("FAULT_SHORT");
  fault.signal = (int)number_from("FAULT_SIGNAL");
  fault.delay = (useconds_t)number_from("FAULT_DELAY");
  fault.named = (int)number_from("FAULT_NAMED");
  if (fcntl(STDOUT_FILENO, F_GETFD) != -1) {
    FILE *stream = stream_of(STDOUT_FILENO, "w", _IOFBF);
    if (stream != NULL) stdout = stream;
  }
  atomic_store(&active, 1);
}

__attribute__((destructor)) static void end(void) {
  atomic_store(&active, 0);
  const char *path = getenv("FAULT_COUNTS");
  if (path == NULL) return;
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return;
  dprintf(fd, "met %d\nany %ld\n", atomic_load(&met), atomic_load(&any_count));
  for (int i = 0; i < N_KINDS; i++)
    if (atomic_load(&counts[i]) > 0)
      dprintf(fd, "%s %ld\n", kind_names[i], atomic_load(&counts[i]));
  NEXT(close)(fd);
}
