/* base.h - what every room uses: errors, checked sizes, memory, names, threads, progress, and files
 * that are written whole or not at all. Sees only the public headers and kernel.h. */
#ifndef KF_BASE_H
#define KF_BASE_H

#include "koofu.h"
#include "koofu_comm.h"
#include "koofu_encode.h"
#include "koofu_files.h"
#include "koofu_judge.h"
#include "kernel/kernel.h"

#include <dirent.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

/* --- errors ---------------------------------------------------------------------------------- */

/* An error in the making. Internal functions take one instead of a context, so they can run on any
 * worker. */
typedef struct kf_err {
  kf_status status;
  kf_hint hint;
  char message[5120]; /* the longest path and a sentence about it */
} kf_err;

/* Room for "FILE, row 17". */
#define KF_WHERE_SIZE 4300

/* Sets the message, which begins with the path if that is not NULL, and returns the status. */
kf_status kf_fail_with(kf_err *err, kf_status status, kf_hint hint, const char *path,
                       const char *format, ...) __attribute__((format(printf, 5, 6)));
/* `return kf_fail(err, KF_ERR_DATA, …)` */
#define kf_fail(err, status, ...) kf_fail_with(err, status, KF_HINT_NONE, NULL, __VA_ARGS__)
/* The same with a hint at what the caller can do about it; guests put it into words. */
#define kf_fail_hint(err, status, hint, ...) kf_fail_with(err, status, hint, NULL, __VA_ARGS__)
/* KF_ERR_DATA: "PATH: …". */
#define kf_fail_file(err, path, ...) kf_fail_with(err, KF_ERR_DATA, KF_HINT_NONE, path, __VA_ARGS__)
/* KF_ERR_MEM with the standard sentence. */
kf_status kf_fail_memory(kf_err *err);
/* What an errno means. The text may be elsewhere than in the buffer. */
#define KF_REASON_SIZE 128
const char *kf_reason(int code, char buffer[KF_REASON_SIZE]);
/* KF_ERR_IO (or KF_ERR_MEM for ENOMEM): "PATH: WHAT: " and the reason. */
kf_status kf_fail_errno(kf_err *err, const char *path, const char *what, int code);

#define KF_TRY(expression)                                                                         \
  do {                                                                                             \
    kf_status kf_try_status = (expression);                                                        \
    if (kf_try_status != KF_OK) return kf_try_status;                                              \
  } while (0)

/* Ends a function that makes an object: hands it out, or frees it on failure. */
#define KF_HAND_OUT(result, out, object, destroy)                                                  \
  do {                                                                                             \
    kf_status kf_made = (result);                                                                  \
    if (kf_made == KF_OK)                                                                          \
      *(out) = (object);                                                                           \
    else                                                                                           \
      destroy(object);                                                                             \
    return kf_made;                                                                                \
  } while (0)

/* --- sizes and memory ------------------------------------------------------------------------ */

/* a * b and a + b; false if the result does not fit. */
bool kf_mul_u64(uint64_t a, uint64_t b, uint64_t *product);
bool kf_add_u64(uint64_t a, uint64_t b, uint64_t *sum);

/* count * size bytes, 64-byte aligned; NULL on overflow or without memory. A count of 0 gives a
 * valid pointer. Freed with kf_free. */
void *kf_alloc(uint64_t count, uint64_t size);
/* Zeroed, aligned like malloc; untouched pages take no memory. */
void *kf_alloc_zero(uint64_t count, uint64_t size);
/* A zeroed struct of `size` bytes and, right after it, count * element bytes. */
void *kf_alloc_tail(uint64_t size, uint64_t count, uint64_t element);
void kf_free(void *memory);
char *kf_strdup(const char *text);
/* Makes room for one more element of `size` bytes after the `used` ones in *block. */
bool kf_grow(void **block, size_t *room, size_t used, size_t size);

/* Memory that is freed together. Each array is its own allocation, so sanitizers see its ends.
 * After a failure the arena is `failed`, so one check covers all arrays. Zero-initialise. */
typedef struct kf_arena {
  struct kf_arena_link *last;
  bool failed;
} kf_arena;
void *kf_arena_take(kf_arena *arena, uint64_t count, uint64_t size); /* as kf_alloc */
void *kf_arena_take_zero(kf_arena *arena, uint64_t count, uint64_t size);
void kf_arena_free(kf_arena *arena); /* empty again; twice does no harm */
/* pointer = room for `count` of what it points to. */
#define KF_TAKE(arena, pointer, count)                                                             \
  ((pointer) = kf_arena_take((arena), (count), sizeof *(pointer)))
#define KF_TAKE_ZERO(arena, pointer, count)                                                        \
  ((pointer) = kf_arena_take_zero((arena), (count), sizeof *(pointer)))

/* --- a budget of memory that threads share (budget.c) ----------------------------------------- */

typedef struct kf_budget {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  uint64_t most, used;    /* bytes */
  uint64_t asked, served; /* turns of those who wait */
} kf_budget;
void kf_budget_start(kf_budget *budget, uint64_t most);
void kf_budget_stop(kf_budget *budget);
/* Waits until so many bytes are left, or nothing else is taken. The caller has none. */
void kf_budget_take(kf_budget *budget, uint64_t bytes);
/* More for a caller who has `own` bytes; false if it would have to wait. */
bool kf_budget_try(kf_budget *budget, uint64_t own, uint64_t more);
void kf_budget_give(kf_budget *budget, uint64_t bytes);

/* --- names and classes (names.c) --------------------------------------------------------------- */

/* A finished list of strings in one block of memory, such as class names. To find a name in it, make
 * a kf_dict; to collect names one by one, use a kf_name_set (file.h). */
typedef struct kf_names {
  uint32_t n;
  char **name; /* [n], or NULL if n is 0 */
} kf_names;
kf_status kf_names_copy(const char *const *names, uint32_t n, kf_names *out, kf_err *err);
kf_status kf_names_clone(const kf_names *names, kf_names *out, kf_err *err);
/* Copies names given by a caller: KF_ERR_ARG if one is NULL, empty, not UTF-8 or appears twice,
 * since no file could hold it. */
kf_status kf_names_take(const char *const *names, uint32_t n, kf_names *out, kf_err *err);
bool kf_names_equal(const kf_names *a, const kf_names *b);
/* KF_ERR_DATA naming `what` if a name appears twice. */
kf_status kf_names_check(const kf_names *names, const char *what, kf_err *err);
void kf_names_clear(kf_names *names);

/* A dictionary from strings to numbers; the strings are not copied and must outlive it. */
typedef struct kf_dict kf_dict;
kf_dict *kf_dict_new(uint32_t expected);
void kf_dict_free(kf_dict *dict);
/* -1 if the key is absent. */
int64_t kf_dict_find(const kf_dict *dict, const char *key, size_t length);
/* The key must not be in it yet. false: out of memory. */
bool kf_dict_add(kf_dict *dict, const char *key, size_t length, uint32_t value);
/* Name to index; KF_ERR_DATA naming `what` if a name appears twice. */
kf_status kf_dict_new_from_names(const kf_names *names, const char *what, kf_dict **out,
                                 kf_err *err);

/* The classes of one side of a match. */
typedef struct kf_classes {
  const char *what; /* for messages: "the model", or a path */
  uint32_t n;
  const kf_names *names; /* of all n; names->n = 0: numbers only */
} kf_classes;
/* place[k]: the number in `to` of class k of `from`, or -1: by name if both have names, by number if
 * neither has. KF_ERR_DATA with KF_HINT_CLASSES if only one has: a number means nothing among names,
 * which may have been sorted. */
kf_status kf_match_classes(const kf_classes *from, const kf_classes *to, int32_t *place,
                           kf_err *err);

/* The finaliser of SplitMix64: every bit of z changes each bit of the result with probability 1/2.
 * Number i = 0, 1, … of a stream is kf_mix64(key + (i + 1) * KF_GOLDEN64). */
#define KF_GOLDEN64 UINT64_C(0x9e3779b97f4a7c15)
static inline uint64_t kf_mix64(uint64_t z) {
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return z ^ z >> 31;
}

/* --- exp and ln, the same bits on every machine (explog.c) -------------------------------------- */

/* Within 1 ulp of the true value. exp overflows to infinity above 709.78 and underflows gradually;
 * ln(0) is -infinity, ln of a negative number NaN. */
double kf_exp(double x);
double kf_ln(double x);
/* The largest of x[0 … n); -infinity if n is 0. */
double kf_largest(const double *x, size_t n);
/* The sum of exp(scale (x[i] - most)) over i, in a fixed order: four sums over i mod 4, then
 * (0 + 1) + (2 + 3). With most = kf_largest and scale > 0 nothing overflows. */
double kf_sum_exp(const double *x, size_t n, double most, double scale);

__extension__ typedef __int128 kf_i128;
__extension__ typedef unsigned __int128 kf_u128;

/* --- ranks (ranks.c) -------------------------------------------------------------------------- */

/* The ranks of a context, of which it is one. */
typedef struct kf_ranks {
  const kf_comm *comm; /* NULL: alone, as rank 0 of 1 */
  uint32_t rank, size;
  unsigned threads;      /* of all ranks together */
  kf_isa isa;            /* the least of all */
  struct kf_word *words; /* [size] of the last agreement */
  uint64_t *ends;        /* [size] for kf_join; see kf_share_ends */
  kf_err *failed;        /* what was agreed on; status KF_OK: nothing has failed */
  uint64_t stage, done;  /* of the work that is being shared out, for progress */
  uint64_t before;       /* what this rank has done of it in passes that are over */
  double alarmed;        /* when a rank was first known to have failed; 0: none is */
} kf_ranks;
kf_status kf_ranks_start(kf_ctx *ctx);
void kf_ranks_stop(kf_ctx *ctx);
static inline bool kf_is_shared(const kf_ranks *ranks) { return ranks->size > 1; }

/* Which of n things are this rank's: [first, last), in the order of ranks. All but the last `last`
 * are multiples of `step`. */
typedef struct kf_range {
  uint64_t first, last;
} kf_range;
kf_range kf_share_of(const kf_ranks *ranks, uint64_t n, uint64_t step);
/* Sets ranks->ends to the `last` of every rank. */
void kf_share_ends(const kf_ranks *ranks, uint64_t n, uint64_t step);

/* The next thing to share out begins, and its progress, with what this rank has done of it `before`. For
 * all ranks, in the same order. */
void kf_share_begin(kf_ctx *ctx, uint64_t before);
/* How much of `total` all ranks have done, if this one has done `done` of its `own`. For the thread that uses
 * the context. */
uint64_t kf_done_by_all(kf_ctx *ctx, uint64_t done, uint64_t own, uint64_t total);
/* Fails, as they all do, if another rank has failed: between steps of long work. */
kf_status kf_heed_ranks(kf_ctx *ctx);

/* What follows is done by all ranks together, each with the status of its own work so far, whose
 * message is in the context: if one has failed, all fail alike. With one rank they return `status`
 * and change nothing. */
kf_status kf_agree_on(kf_ctx *ctx, kf_status status);
/* Adds over the ranks; all get the sums. Those of 64 bits must fit. */
kf_status kf_sum_i128(kf_ctx *ctx, kf_status status, kf_i128 *values, uint64_t n);
kf_status kf_sum_i64(kf_ctx *ctx, kf_status status, int64_t *values, uint64_t n);
kf_status kf_sum_u64(kf_ctx *ctx, kf_status status, uint64_t *values, uint64_t n);
/* Brings together an array of things of `size` bytes, of which each rank has those up to its end in
 * ranks->ends; all get all of it. */
kf_status kf_join(kf_ctx *ctx, kf_status status, void *array, uint64_t size);
/* The same with one thing for each rank, [ranks]. */
kf_status kf_join_each(kf_ctx *ctx, kf_status status, void *array, uint64_t size);
/* Each rank has a list of *n things, to be freed; it becomes that of all ranks, in their order. */
kf_status kf_join_lists(kf_ctx *ctx, kf_status status, void **list, uint64_t *n, uint64_t size);
/* All get the n bytes of rank 0. */
kf_status kf_take_from_first(kf_ctx *ctx, kf_status status, void *bytes, uint64_t n);
/* For more than one rank: each brings some bytes; rank 0 gets all of them in *to, one after the other,
 * to be freed. The others get NULL. */
kf_status kf_bring_to_first(kf_ctx *ctx, kf_status status, const void *bytes, uint64_t n,
                            unsigned char **to, uint64_t *total);
/* Messages that ranks have kept, a NUL after each: rank 0 logs those of the others, in the order of ranks.
 * Its own it has logged already. */
struct kf_string;
kf_status kf_bring_notes(kf_ctx *ctx, kf_status status, const struct kf_string *said);

/* --- context and threads --------------------------------------------------------------------- */

struct kf_pool;
struct kf_held;
struct kf_devices;
struct kf_ctx {
  kf_ctx_options options;
  unsigned threads;
  const kf_kernels *kernels;
  struct kf_pool *pool; /* made by the first parallel call; NULL with one thread */
  struct kf_held *held; /* files between kf_outputs_begin and its end (out.c); NULL: not now */
  kf_budget pictures;   /* for decoding pictures, of all threads together */
  struct kf_devices *devices; /* made by the first call that could use one (src/device/) */
  void (*free_devices)(struct kf_devices *devices);
  kf_ranks ranks;
  struct {
    char what[64]; /* cut, if longer; empty: nothing was reported in this call */
    uint64_t done, total;
  } reported; /* the last progress, for kf_progress_again */
  kf_err err;
};

/* Starts a public call: forgets the last error and hands out the place for a new one. */
kf_err *kf_enter(kf_ctx *ctx);
/* The first line of a public function, which then has `err`; `given`: no required argument is NULL. */
#define KF_ENTER(ctx, given)                                                                       \
  if ((ctx) == NULL) return KF_ERR_ARG;                                                            \
  kf_err *err = kf_enter(ctx);                                                                     \
  if (!(given)) return kf_fail(err, KF_ERR_ARG, "%s: an argument is NULL", __func__)

/* Before that, in every public function that hands out an object: whatever goes wrong, the caller's
 * pointer is NULL then, and freeing it does no harm. tests/out_parameters.py looks. */
#define KF_NOTHING(out)                                                                            \
  if ((out) != NULL) *(out) = NULL

/* Copies the caller's options (NULL: all defaults) to `o`; fails if they use reserved space, to which
 * a newer header may give a meaning. Needs `err`. */
#define KF_OPTIONS(type, o, given)                                                                 \
  type o = (given) != NULL ? *(given) : (type){0};                                                 \
  KF_TRY(kf_check_reserved(o.reserved, sizeof o.reserved, __func__, err))
kf_status kf_check_reserved(const uint64_t *reserved, size_t bytes, const char *function,
                            kf_err *err);

/* Runs task(argument, i, worker, err) for i in [0, n) on the context's threads; worker is in
 * [0, ctx->threads). Tasks start in rising order. Returns when all are done. If tasks fail, the error
 * of the lowest i is reported, whatever the timing; tasks above a failed one may be left out. */
typedef kf_status (*kf_task_fn)(void *argument, size_t i, size_t worker, kf_err *err);
kf_status kf_parallel(kf_ctx *ctx, size_t n, kf_task_fn task, void *argument);
/* The same on at most `workers` threads; worker is in [0, workers). */
kf_status kf_parallel_limited(kf_ctx *ctx, size_t workers, size_t n, kf_task_fn task,
                              void *argument);
/* How many of n rows or columns of a product a task takes: large parts, since each part packs what it
 * shares with the others, but a few for each thread. */
size_t kf_task_rows(const kf_ctx *ctx, size_t n);

/* Reports progress; KF_ERR_CANCELLED if the caller asks to stop. */
kf_status kf_progress(kf_ctx *ctx, const char *what, uint64_t done, uint64_t total);
/* Reports what was reported last once more, between steps of work that has no measure of its own, so
 * that the caller can stop it. */
kf_status kf_progress_again(kf_ctx *ctx);
/* Seconds of a clock that never goes back. */
double kf_now(void);
/* The same as kf_progress from a task. Only worker 0, the caller's thread, reports; `what` NULL:
 * nobody. */
kf_status kf_task_progress(kf_ctx *ctx, size_t worker, const char *what, uint64_t done,
                           uint64_t total, kf_err *err);
void kf_log(kf_ctx *ctx, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* One stage made of many calls on a context (stage.c): between begin and end their progress counts
 * as part of the stage, and a wish to stop still reaches them. Without a name (NULL) the calls keep
 * stages of their own, and only their messages are heard. */
typedef struct kf_stage {
  kf_ctx *ctx;
  kf_ctx_options caller; /* the callbacks that were set aside */
  const char *what;
  uint64_t done, total;
  bool inside; /* the progress of the calls is added to `done`; otherwise only steps count */
  /* Hears every message before it is passed on. NULL: a repeated message is passed on once. */
  kf_log_fn hear;
  void *listener;
  uint64_t heard[64]; /* hashes of messages */
  unsigned n_heard;
} kf_stage;
void kf_stage_begin(kf_stage *stage, kf_ctx *ctx, const char *what, uint64_t total);
kf_status kf_stage_step(kf_stage *stage); /* one of `total` */
void kf_stage_end(kf_stage *stage);       /* twice does no harm */

/* --- files ----------------------------------------------------------------------------------- */

/* open(2) with O_CLOEXEC, and mode 0666 for a new file; begun again if a signal interrupts it. */
int kf_open(const char *path, int flags);

/* An open folder in which files are opened by name, whatever becomes of its path. The last user closes it. */
typedef struct kf_folder {
  int fd;
  atomic_uint users;
  void (*close)(int fd);
} kf_folder;
/* Takes over the descriptor, even if it fails. NULL: out of memory. */
kf_folder *kf_folder_new(int fd, void (*close)(int fd));
void kf_folder_release(kf_folder *folder); /* NULL is fine */

/* What tells a file, and what is in it, from others. */
typedef struct kf_file_state {
  uint64_t device, number, size;
  struct timespec changed;
} kf_file_state;
struct stat;
kf_file_state kf_file_state_of(const struct stat *info);
/* Whether it is one file, whatever its path; and whether it has not changed either. */
bool kf_same_file(const kf_file_state *a, const kf_file_state *b);
bool kf_same_state(const kf_file_state *a, const kf_file_state *b);

/* A regular file, or a part of one, open for reading at any offset, from any thread. */
typedef struct kf_in {
  int fd;
  char *path;
  uint64_t size;               /* when it was opened */
  uint64_t base;               /* where a part begins in the file; 0: the whole file */
  const unsigned char *memory; /* the bytes themselves, which are the caller's; NULL: a file */
  kf_file_state state; /* when it was opened, of the file or the archive that a part is of */
  kf_folder *parked; /* it is open only while it is read, and is in this folder; NULL: it is open */
} kf_in;
kf_status kf_in_open(kf_in *in, const char *path, kf_err *err);
/* Bytes in the place of a file; they must outlive it. */
kf_status kf_in_open_memory(kf_in *in, const void *bytes, uint64_t n, kf_err *err);
/* Exactly n bytes at offset; KF_ERR_DATA if the file has become shorter. */
kf_status kf_in_read(const kf_in *in, uint64_t offset, void *buffer, uint64_t n, kf_err *err);
/* Gives the descriptor back: a process has few of them. Reads open the file again in its folder, from any
 * thread, and are KF_ERR_DATA if another one has its name by then, or if it has changed. */
void kf_in_park(kf_in *in, kf_folder *folder);
/* Whether it still is the file that was opened; one that is parked must also have kept its name. */
bool kf_in_unchanged(const kf_in *in);
/* Whether another file has its path by now. */
bool kf_in_replaced(const kf_in *in);
/* Says that these bytes will be read soon, so the system can fetch them meanwhile. */
void kf_in_ahead(const kf_in *in, uint64_t offset, uint64_t n);
void kf_in_close(kf_in *in);
/* A file, or a member of an archive, which is read like a file of its own. */
typedef struct kf_extent {
  const char *name; /* in messages: the path, or ARCHIVE/MEMBER */
  const char *file; /* that holds it */
  uint64_t at;      /* where a member begins */
  uint64_t size;    /* of a member; KF_WHOLE_FILE: all of the file */
} kf_extent;
#define KF_WHOLE_FILE UINT64_MAX
kf_extent kf_extent_file(const char *path);
kf_status kf_in_open_extent(kf_in *in, const kf_extent *extent, kf_err *err);
/* All of a extent of at most `limit` bytes, with a NUL after it. The caller frees *text. */
kf_status kf_read_extent(const kf_extent *extent, uint64_t limit, char **text, uint64_t *length,
                         kf_err *err);
/* The same for a file. */
kf_status kf_read_file(const char *path, uint64_t limit, char **text, uint64_t *length,
                       kf_err *err);
bool kf_is_directory(const char *path);
/* The next entry of an open folder; *out is NULL at the end. */
kf_status kf_next_entry(DIR *folder, const char *path, const struct dirent **out, kf_err *err);
/* "folder/name"; NULL: out of memory. The caller frees it. */
char *kf_path_join(const char *folder, const char *name);
char *kf_path_join_in(kf_arena *arena, const char *folder, const char *name); /* in the arena */

/* The right to replace a file by something made of it (guard.c). */
typedef struct kf_guard {
  int fd;              /* holds the lock; -1: no right */
  kf_file_state state; /* when it was locked */
} kf_guard;
/* Waits until no other process has it. KF_ERR_IO if the file system has no locks. The error is in
 * ctx->err. */
kf_status kf_guard_take(kf_guard *guard, kf_ctx *ctx, const char *path);
/* Whether `path` is still the file as it was locked. */
bool kf_guard_holds(const kf_guard *guard, const char *path);
void kf_guard_release(kf_guard *guard); /* twice does no harm */
/* Locks an open file or folder without waiting: LOCK_SH or LOCK_EX. 0, EWOULDBLOCK or what else went wrong. */
int kf_lock_fd(int fd, int operation);
/* Keeps other processes from working in a folder until *lock is closed. KF_ERR_IO if one is; if a
 * folder cannot be locked there, that is logged, and *lock is -1. */
kf_status kf_lock_folder(kf_ctx *ctx, const char *folder, int *lock);

struct kf_bytes {
  unsigned char *data;
  uint64_t n, room;
};

/* A file being written (out.c). kf_out_commit makes it appear under its name, complete and synced;
 * kf_out_abort and a killed process leave nothing behind. */
typedef struct kf_out {
  kf_ctx *ctx;
  int fd;
  char *path;              /* as given, for messages */
  char *target, *folder;   /* where that leads, links followed */
  char *temporary, *kept;  /* hidden names: of this file until it is moved, of the older one */
  bool named, has_kept;    /* there are files of these names */
  bool is_new;             /* there was no older file */
  kf_file_state state;     /* of this file, before it is moved */
  int folder_fd, unsynced; /* for syncing the folder; errno: why it cannot be */
  kf_guard guard;          /* if the file must still be the one that was locked */
  char *guarded;           /* or another file must, the one of this path; NULL: this one */
  uint64_t written;
  unsigned char *buffer; /* NULL: not open */
  uint64_t buffered;
  kf_bytes *bytes; /* it is made in memory; NULL: a file */
  bool nowhere;    /* another rank writes it; fd >= 0: it is shared */
} kf_out;
/* With a context, notes are logged, and between kf_outputs_begin and kf_outputs_commit a committed
 * file waits for the others. ctx may be NULL. */
kf_status kf_out_open(kf_out *out, kf_ctx *ctx, const char *path, kf_err *err);
/* A file in memory, for kf_out_take. */
kf_status kf_out_open_memory(kf_out *out, kf_err *err);
kf_status kf_out_write(kf_out *out, const void *bytes, uint64_t n, kf_err *err);
/* Bytes at any place; the next kf_out_write goes on at the end of the file. */
kf_status kf_out_write_at(kf_out *out, uint64_t offset, const void *bytes, uint64_t n, kf_err *err);
/* Gives a file without a name its temporary one, for rename to move. */
kf_status kf_out_name(kf_out *out, kf_err *err);
/* For several ranks together, after kf_out_open with their context (out_shared.c): lets every rank write
 * with kf_out_put. *shared false: only rank 0 can. */
kf_status kf_out_share(kf_out *out, bool *shared);
/* What kf_out_write writes next goes n bytes further on; ranks fill the gap with kf_out_put. */
kf_status kf_out_skip(kf_out *out, uint64_t n, kf_err *err);
kf_status kf_out_put(const kf_out *out, uint64_t offset, const void *bytes, uint64_t n,
                     kf_err *err);
/* The file replaces the one that `guard` is about; the commit fails if that has changed. Takes the
 * guard over. */
void kf_out_replaces(kf_out *out, kf_guard *guard);
/* The same for a file that is said more of here, and that stays as it is. */
kf_status kf_out_belongs(kf_out *out, kf_guard *guard, const char *path, kf_err *err);
/* Locks a file that is being written (guard.c): once it is in its place, kf_guard_take waits for it until
 * *lock is closed. -1: another rank writes it. Where there are no locks, it does nothing. */
kf_status kf_out_lock(const kf_out *out, int *lock, kf_err *err);
/* KF_OK: the file is in its place. Otherwise the older one, if any, is as it was. With a context, all
 * ranks commit together. */
kf_status kf_out_commit(kf_out *out, kf_err *err);
/* Takes room for a file of n bytes in memory at once; does nothing for others. */
kf_status kf_out_reserve(kf_out *out, uint64_t n, kf_err *err);
/* The bytes of a file in memory, which end it. The caller frees them. */
kf_bytes *kf_out_take(kf_out *out);
/* Discards the file; does nothing after kf_out_commit or for a zeroed struct. */
void kf_out_abort(kf_out *out);
/* KF_ERR_ARG between kf_outputs_begin and its end, for a function that reads what it has written. */
kf_status kf_refuse_held(const kf_ctx *ctx, const char *function, kf_err *err);
/* Fails as kf_out_open does, before long work that would end in writing `path`. */
kf_status kf_check_output(kf_ctx *ctx, const char *path, kf_err *err);
/* KF_ERR_ARG if writing `out_path` would replace the file that `in` reads. */
kf_status kf_refuse_overwrite(const char *out_path, const kf_in *in, kf_err *err);

/* --- checksum -------------------------------------------------------------------------------- */

/* XXH64 (seed 0) over a stream. */
typedef struct kf_checksum {
  uint64_t lane[4];
  uint64_t total;
  unsigned char tail[32];
} kf_checksum;
void kf_checksum_start(kf_checksum *sum);
void kf_checksum_add(kf_checksum *sum, const void *bytes, uint64_t n);
uint64_t kf_checksum_value(const kf_checksum *sum);

#endif
