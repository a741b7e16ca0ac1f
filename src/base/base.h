/* base.h - what every room uses: errors, checked sizes, memory, names, collectives over ranks, the
 * context and its threads, progress, and files that are written whole or not at all. Sees only the
 * public headers and kernel.h. */
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

/* Where a function describes its failure. Internal functions take one instead of a context, so they
 * can run on any worker. */
typedef struct kf_err {
  kf_status status;
  kf_hint hint;
  char message[5120]; /* fits the longest path and a sentence */
} kf_err;

/* Room for "FILE, row 17". */
#define KF_WHERE_SIZE 4300

/* Sets the message and returns the status. If path is not NULL, the message begins with it. */
kf_status kf_fail_with(kf_err *err, kf_status status, kf_hint hint, const char *path,
                       const char *format, ...) __attribute__((format(printf, 5, 6)));
/* `return kf_fail(err, KF_ERR_DATA, …)` */
#define kf_fail(err, status, ...) kf_fail_with(err, status, KF_HINT_NONE, NULL, __VA_ARGS__)
/* With a hint at what the caller can do; guests put it into words. */
#define kf_fail_hint(err, status, hint, ...) kf_fail_with(err, status, hint, NULL, __VA_ARGS__)
/* KF_ERR_DATA: "PATH: …". */
#define kf_fail_file(err, path, ...) kf_fail_with(err, KF_ERR_DATA, KF_HINT_NONE, path, __VA_ARGS__)
/* KF_ERR_MEM, "out of memory". */
kf_status kf_fail_memory(kf_err *err);
/* Describes an errno. The text may or may not be in the buffer. */
#define KF_REASON_SIZE 128
const char *kf_reason(int code, char buffer[KF_REASON_SIZE]);
/* KF_ERR_IO, or KF_ERR_MEM for ENOMEM: "PATH: WHAT: reason". */
kf_status kf_fail_errno(kf_err *err, const char *path, const char *what, int code);

#define KF_TRY(expression)                                                                         \
  do {                                                                                             \
    kf_status kf_try_status = (expression);                                                        \
    if (kf_try_status != KF_OK) return kf_try_status;                                              \
  } while (0)

/* Ends a function that makes an object: stores it in *out, or destroys it on failure. */
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

/* a * b and a + b; false on overflow. */
bool kf_mul_u64(uint64_t a, uint64_t b, uint64_t *product);
bool kf_add_u64(uint64_t a, uint64_t b, uint64_t *sum);

/* count * size bytes, 64-byte aligned, to be freed with kf_free; NULL on overflow or out of memory.
 * A count of 0 gives a valid pointer. */
void *kf_alloc(uint64_t count, uint64_t size);
/* Zeroed, but aligned like malloc only; untouched pages take no memory. */
void *kf_alloc_zero(uint64_t count, uint64_t size);
/* A zeroed struct of `size` bytes, directly followed by count * element bytes. */
void *kf_alloc_tail(uint64_t size, uint64_t count, uint64_t element);
void kf_free(void *memory);
char *kf_strdup(const char *text);
/* Makes room in *block for one more element of `size` bytes after the `used` ones; false: out of
 * memory. */
bool kf_grow(void **block, size_t *room, size_t used, size_t size);

/* Arrays that are freed together. Each is an allocation of its own, so sanitizers see its bounds. A
 * failure sets `failed`, so one check covers all arrays. Zero-initialise. */
typedef struct kf_arena {
  struct kf_arena_link *last;
  bool failed;
} kf_arena;
void *kf_arena_take(kf_arena *arena, uint64_t count, uint64_t size); /* as kf_alloc */
void *kf_arena_take_zero(kf_arena *arena, uint64_t count, uint64_t size);
void kf_arena_free(kf_arena *arena); /* may be called twice */
/* Allocates `count` elements of the type that `pointer` points to. */
#define KF_TAKE(arena, pointer, count)                                                             \
  ((pointer) = kf_arena_take((arena), (count), sizeof *(pointer)))
#define KF_TAKE_ZERO(arena, pointer, count)                                                        \
  ((pointer) = kf_arena_take_zero((arena), (count), sizeof *(pointer)))

/* --- a budget of memory that threads share (budget.c) ----------------------------------------- */

typedef struct kf_budget {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  uint64_t most, used;    /* bytes */
  uint64_t asked, served; /* tickets of waiting threads */
} kf_budget;
void kf_budget_start(kf_budget *budget, uint64_t most);
void kf_budget_stop(kf_budget *budget);
/* Waits until this many bytes are free, or all of them. The caller must hold nothing. */
void kf_budget_take(kf_budget *budget, uint64_t bytes);
/* Takes more bytes for a caller that holds `own`; false if it would have to wait. */
bool kf_budget_try(kf_budget *budget, uint64_t own, uint64_t more);
void kf_budget_give(kf_budget *budget, uint64_t bytes);

/* --- names and classes (names.c) -------------------------------------------------------------- */

/* An immutable list of strings in one block of memory, such as class names. To look names up, make
 * a kf_dict; to collect names one by one, use a kf_name_set (file.h). */
typedef struct kf_names {
  uint32_t n;
  char **name; /* [n], or NULL if n is 0 */
} kf_names;
kf_status kf_names_copy(const char *const *names, uint32_t n, kf_names *out, kf_err *err);
kf_status kf_names_clone(const kf_names *names, kf_names *out, kf_err *err);
/* Copies names from a user; KF_ERR_ARG if one is NULL, empty, not UTF-8 or a duplicate, which no
 * file could hold. */
kf_status kf_names_take(const char *const *names, uint32_t n, kf_names *out, kf_err *err);
bool kf_names_equal(const kf_names *a, const kf_names *b);
/* KF_ERR_DATA naming `what` if a name appears twice. */
kf_status kf_names_check(const kf_names *names, const char *what, kf_err *err);
void kf_names_clear(kf_names *names);

/* A dictionary from strings to numbers. The strings are not copied and must outlive it. */
typedef struct kf_dict kf_dict;
kf_dict *kf_dict_new(uint32_t expected);
void kf_dict_free(kf_dict *dict);
/* Returns -1 if the key is absent. */
int64_t kf_dict_find(const kf_dict *dict, const char *key, size_t length);
/* The key must be new. False: out of memory. */
bool kf_dict_add(kf_dict *dict, const char *key, size_t length, uint32_t value);
/* From names to their indices; KF_ERR_DATA naming `what` if a name appears twice. */
kf_status kf_dict_new_from_names(const kf_names *names, const char *what, kf_dict **out,
                                 kf_err *err);

/* The classes of one side of a match. */
typedef struct kf_classes {
  const char *what; /* for messages: "the model", or a path */
  uint32_t n;
  const kf_names *names; /* of all n; names->n = 0: numbers only */
} kf_classes;
/* Sets place[k] to the number in `to` of class k of `from`, or -1 if it is absent. Classes match by
 * name if both sides have names, by number if neither has. KF_ERR_DATA with KF_HINT_CLASSES if only
 * one has: names may have been sorted, so numbers say nothing. */
kf_status kf_match_classes(const kf_classes *from, const kf_classes *to, int32_t *place,
                           kf_err *err);

/* The finaliser of SplitMix64: flipping a bit of z flips each bit of the result with probability
 * 1/2. Number i = 0, 1, … of a random stream is kf_mix64(key + (i + 1) * KF_GOLDEN64). */
#define KF_GOLDEN64 UINT64_C(0x9e3779b97f4a7c15)
static inline uint64_t kf_mix64(uint64_t z) {
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return z ^ z >> 31;
}

/* --- exp and ln, the same bits on every machine (explog.c) ------------------------------------ */

/* Within 1 ulp. exp overflows to infinity above 709.78 and underflows gradually; ln(0) is
 * -infinity, and ln of a negative number is NaN. */
double kf_exp(double x);
double kf_ln(double x);
/* The largest of x[0 … n); -infinity if n is 0. */
double kf_largest(const double *x, size_t n);
/* The sum of exp(scale (x[i] - most)), in a fixed order: four sums over i mod 4, then (0 + 1) + (2
 * + 3). With most = kf_largest and scale > 0 nothing overflows. */
double kf_sum_exp(const double *x, size_t n, double most, double scale);

__extension__ typedef __int128 kf_i128;
__extension__ typedef unsigned __int128 kf_u128;

/* --- ranks (ranks.c) -------------------------------------------------------------------------- */

/* The ranks that a context shares its work with, and which of them it is. */
typedef struct kf_ranks {
  const kf_comm *comm; /* NULL: alone, as rank 0 of 1 */
  uint32_t rank, size;
  unsigned threads;      /* of all ranks */
  kf_isa isa;            /* the least among all ranks */
  struct kf_word *words; /* [size] what each said at the last step */
  uint64_t *ends;        /* [size] for kf_join; see kf_share_ends */
  kf_err *failed;        /* the failure all agreed on; status KF_OK: none */
  uint64_t stage, done;  /* for progress: which pass, and this rank's work in it so far */
  uint64_t before;       /* this rank's work in earlier parts of the pass */
  double alarmed;        /* when another rank was first seen to have failed; 0: never */
} kf_ranks;
kf_status kf_ranks_start(kf_ctx *ctx);
void kf_ranks_stop(kf_ctx *ctx);
static inline bool kf_is_shared(const kf_ranks *ranks) { return ranks->size > 1; }

/* This rank's share of n things: [first, last), in the order of ranks. Shares end at multiples of
 * `step`, except the last. */
typedef struct kf_range {
  uint64_t first, last;
} kf_range;
kf_range kf_share_of(const kf_ranks *ranks, uint64_t n, uint64_t step);
/* Sets ranks->ends to the `last` of every rank. */
void kf_share_ends(const kf_ranks *ranks, uint64_t n, uint64_t step);

/* Starts the progress of the next shared pass, of which this rank has already done `before`. All
 * ranks must call it, in the same order. */
void kf_share_begin(kf_ctx *ctx, uint64_t before);
/* How much of `total` all ranks together have done when this one has done `done` of its `own`. Call
 * it on the context's thread. */
uint64_t kf_done_by_all(kf_ctx *ctx, uint64_t done, uint64_t own, uint64_t total);
/* Call it between the steps of long work: fails if another rank has failed, and so on all ranks. */
kf_status kf_heed_ranks(kf_ctx *ctx);

/* The following are collective: all ranks must call them, each with the status of its own work so
 * far (the message of a failure is in the context). If one rank has failed, all fail with its
 * error. With a single rank they return `status` and change nothing. */
kf_status kf_agree_on(kf_ctx *ctx, kf_status status);
/* Adds up over the ranks; every rank gets the sums. 64-bit sums must not overflow. */
kf_status kf_sum_i128(kf_ctx *ctx, kf_status status, kf_i128 *values, uint64_t n);
kf_status kf_sum_i64(kf_ctx *ctx, kf_status status, int64_t *values, uint64_t n);
kf_status kf_sum_u64(kf_ctx *ctx, kf_status status, uint64_t *values, uint64_t n);
/* Joins an array of elements of `size` bytes, of which each rank has those up to its end in
 * ranks->ends; every rank gets all of it. */
kf_status kf_join(kf_ctx *ctx, kf_status status, void *array, uint64_t size);
/* kf_join with one element for each rank, [ranks]. */
kf_status kf_join_each(kf_ctx *ctx, kf_status status, void *array, uint64_t size);
/* Replaces each rank's allocated list of *n elements by the lists of all ranks, in their order. */
kf_status kf_join_lists(kf_ctx *ctx, kf_status status, void **list, uint64_t *n, uint64_t size);
/* Every rank gets the n bytes of rank 0. */
kf_status kf_take_from_first(kf_ctx *ctx, kf_status status, void *bytes, uint64_t n);
/* Only with several ranks: rank 0 gets the bytes of all ranks, one after the other, in *to, to be
 * freed; the others get NULL. */
kf_status kf_bring_to_first(kf_ctx *ctx, kf_status status, const void *bytes, uint64_t n,
                            unsigned char **to, uint64_t *total);
/* `said` holds messages, each followed by a NUL, that a rank did not log. Rank 0 logs those of the
 * other ranks, in their order; it has logged its own. */
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
  struct kf_held *held; /* files written since kf_outputs_begin (out.c); NULL: none is held back */
  kf_budget pictures;   /* memory for decoding pictures, of all threads */
  struct kf_devices *devices; /* made by the first call that could use a device (src/device/) */
  void (*free_devices)(struct kf_devices *devices);
  kf_ranks ranks;
  struct {
    char what[64]; /* truncated if longer; empty: this call has reported nothing */
    uint64_t done, total;
  } reported; /* the last progress report, for kf_progress_again */
  kf_err err;
};

/* Starts a public call: clears the last error and returns the place for a new one. */
kf_err *kf_enter(kf_ctx *ctx);
/* The first line of a public function, which declares `err`. `given`: no required argument is
 * NULL. */
#define KF_ENTER(ctx, given)                                                                       \
  if ((ctx) == NULL) return KF_ERR_ARG;                                                            \
  kf_err *err = kf_enter(ctx);                                                                     \
  if (!(given)) return kf_fail(err, KF_ERR_ARG, "%s: an argument is NULL", __func__)

/* Before KF_ENTER in every public function that hands out an object: after any failure the caller's
 * pointer is NULL, so freeing it is harmless. tests/out_parameters.py checks that. */
#define KF_NOTHING(out)                                                                            \
  if ((out) != NULL) *(out) = NULL

/* Copies the caller's options (NULL: all defaults) to `o`. Fails if reserved space is not zero,
 * since a newer header may give it a meaning. Needs `err`. */
#define KF_OPTIONS(type, o, given)                                                                 \
  type o = (given) != NULL ? *(given) : (type){0};                                                 \
  KF_TRY(kf_check_reserved(o.reserved, sizeof o.reserved, __func__, err))
kf_status kf_check_reserved(const uint64_t *reserved, size_t bytes, const char *function,
                            kf_err *err);

/* Runs task(argument, i, worker, err) for i in [0, n) on the context's threads, with worker in [0,
 * ctx->threads), and returns when all are done. Tasks start in rising order. If tasks fail, the
 * error of the lowest i is reported, whatever the timing; tasks above a failed one may be
 * skipped. */
typedef kf_status (*kf_task_fn)(void *argument, size_t i, size_t worker, kf_err *err);
kf_status kf_parallel(kf_ctx *ctx, size_t n, kf_task_fn task, void *argument);
/* kf_parallel on at most `workers` threads; worker is in [0, workers). */
kf_status kf_parallel_limited(kf_ctx *ctx, size_t workers, size_t n, kf_task_fn task,
                              void *argument);
/* How many of a product's n rows or columns to give to a task: large parts, since each packs the
 * operand that all share, but a few for each thread. */
size_t kf_task_rows(const kf_ctx *ctx, size_t n);

/* Reports progress; KF_ERR_CANCELLED if the caller asks to stop. */
kf_status kf_progress(kf_ctx *ctx, const char *what, uint64_t done, uint64_t total);
/* Repeats the last report, so that the caller can stop work that has no measure of its own. */
kf_status kf_progress_again(kf_ctx *ctx);
/* Seconds on a monotonic clock. */
double kf_now(void);
/* kf_progress for a task. Only worker 0, the caller's thread, reports, and only if `what` is not
 * NULL. */
kf_status kf_task_progress(kf_ctx *ctx, size_t worker, const char *what, uint64_t done,
                           uint64_t total, kf_err *err);
void kf_log(kf_ctx *ctx, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* One stage of progress made of many calls on a context (stage.c). Between begin and end the calls'
 * progress counts as part of the stage, and the caller can still stop them. With no name (NULL) the
 * calls report their own stages, and only their messages are filtered. */
typedef struct kf_stage {
  kf_ctx *ctx;
  kf_ctx_options caller; /* the caller's own callbacks */
  const char *what;
  uint64_t done, total;
  bool inside;             /* adds the calls' progress to `done`; otherwise only steps count */
  double costs, cost, all; /* of the parts before this one, of this one, and of all parts */
  /* Sees every message before it is passed on. NULL: repeated messages are passed on once. */
  kf_log_fn hear;
  void *listener;
  uint64_t heard[64]; /* hashes of messages passed on */
  unsigned n_heard;
} kf_stage;
void kf_stage_begin(kf_stage *stage, kf_ctx *ctx, const char *what, uint64_t total);
kf_status kf_stage_step(kf_stage *stage); /* reports one more step of `total` */
/* A stage of parts of different costs, in any unit. kf_stage_part begins the next one, within which
 * the calls' own progress counts. */
void kf_stage_begin_parts(kf_stage *stage, kf_ctx *ctx, const char *what, double all);
kf_status kf_stage_part(kf_stage *stage, double cost);
void kf_stage_end(kf_stage *stage); /* twice does no harm */

/* --- files ----------------------------------------------------------------------------------- */

/* open(2) with O_CLOEXEC and mode 0666, retried after signals. */
int kf_open(const char *path, int flags);

/* An open folder, reference-counted, in which files are opened by name even if its path changes. */
typedef struct kf_folder {
  int fd;
  atomic_uint users;
  void (*close)(int fd);
} kf_folder;
/* Takes ownership of the descriptor, even on failure. NULL: out of memory. */
kf_folder *kf_folder_new(int fd, void (*close)(int fd));
void kf_folder_release(kf_folder *folder); /* NULL is allowed */

/* Identifies a file and its content. */
typedef struct kf_file_state {
  uint64_t device, number, size;
  struct timespec changed;
} kf_file_state;
struct stat;
kf_file_state kf_file_state_of(const struct stat *info);
/* Whether both are the same file, whatever the path; and whether it is also unchanged. */
bool kf_same_file(const kf_file_state *a, const kf_file_state *b);
bool kf_same_state(const kf_file_state *a, const kf_file_state *b);

/* A regular file, or a part of one, open for reading at any offset from any thread. */
typedef struct kf_in {
  int fd;
  char *path;
  uint64_t size;               /* bytes, when it was opened */
  uint64_t base;               /* where a part begins in the file */
  const unsigned char *memory; /* the bytes, owned by the caller; NULL: a file */
  kf_file_state state;         /* of the file, or of a part's archive, when it was opened */
  kf_folder *parked;           /* opened in this folder for each read; NULL: it is open */
} kf_in;
kf_status kf_in_open(kf_in *in, const char *path, kf_err *err);
/* Reads bytes instead of a file; they must outlive `in`. */
kf_status kf_in_open_memory(kf_in *in, const void *bytes, uint64_t n, kf_err *err);
/* Reads exactly n bytes at offset; KF_ERR_DATA if the file has become shorter. */
kf_status kf_in_read(const kf_in *in, uint64_t offset, void *buffer, uint64_t n, kf_err *err);
/* Closes the descriptor, of which a process has few. Each read opens the file again in its folder,
 * on any thread, and fails with KF_ERR_DATA if it was changed or replaced. */
void kf_in_park(kf_in *in, kf_folder *folder);
/* Whether the file is still as it was opened. A parked file must also have kept its name. */
bool kf_in_unchanged(const kf_in *in);
/* Whether another file now has its path. */
bool kf_in_replaced(const kf_in *in);
/* Tells the system that these bytes will be read soon. */
void kf_in_ahead(const kf_in *in, uint64_t offset, uint64_t n);
void kf_in_close(kf_in *in);
/* A file, or a member of an archive that is read like a file of its own. */
typedef struct kf_extent {
  const char *name; /* in messages: the path, or ARCHIVE/MEMBER */
  const char *file; /* the file that holds it */
  uint64_t at;      /* the member's first byte */
  uint64_t size;    /* bytes of the member; KF_WHOLE_FILE: the whole file */
} kf_extent;
#define KF_WHOLE_FILE UINT64_MAX
kf_extent kf_extent_file(const char *path);
kf_status kf_in_open_extent(kf_in *in, const kf_extent *extent, kf_err *err);
/* Reads all of an extent of at most `limit` bytes and appends a NUL. The caller frees *text. */
kf_status kf_read_extent(const kf_extent *extent, uint64_t limit, char **text, uint64_t *length,
                         kf_err *err);
/* kf_read_extent for a file. */
kf_status kf_read_file(const char *path, uint64_t limit, char **text, uint64_t *length,
                       kf_err *err);
bool kf_is_directory(const char *path);
/* Reads the next entry of an open folder; *out is NULL at the end. */
kf_status kf_next_entry(DIR *folder, const char *path, const struct dirent **out, kf_err *err);
/* "folder/name"; NULL: out of memory. The caller frees it. */
char *kf_path_join(const char *folder, const char *name);
char *kf_path_join_in(kf_arena *arena, const char *folder, const char *name); /* in the arena */

/* The right to replace a file by a new version made from it (guard.c). */
typedef struct kf_guard {
  int fd;              /* holds the lock; -1: not held */
  kf_file_state state; /* of the file when it was locked */
} kf_guard;
/* Waits until no other process holds the lock. KF_ERR_IO, in ctx->err, if the file system has no
 * locks. */
kf_status kf_guard_take(kf_guard *guard, kf_ctx *ctx, const char *path);
/* Whether the file at `path` is still as it was locked. */
bool kf_guard_holds(const kf_guard *guard, const char *path);
void kf_guard_release(kf_guard *guard); /* may be called twice */
/* Locks an open file or folder (LOCK_SH or LOCK_EX) without waiting. Returns 0 or an errno;
 * EWOULDBLOCK: another process holds it. */
int kf_lock_fd(int fd, int operation);
/* Keeps other processes from working in a folder until *lock is closed. KF_ERR_IO if one already
 * does. If folders cannot be locked, logs that and sets *lock to -1. */
kf_status kf_lock_folder(kf_ctx *ctx, const char *folder, int *lock);

struct kf_bytes {
  unsigned char *data;
  uint64_t n, room;
};

/* A file being written (out.c). kf_out_commit makes it appear under its name, complete and synced;
 * kf_out_abort or a killed process leaves nothing behind. */
typedef struct kf_out {
  kf_ctx *ctx;
  int fd;
  char *path;              /* as given, for messages */
  char *target, *folder;   /* the path with links followed, and its folder */
  char *temporary, *kept;  /* hidden names: of this file before its rename, and of the older file */
  bool named, has_kept;    /* files with these names exist */
  bool is_new;             /* no older file existed */
  kf_file_state state;     /* of this file, before its rename */
  int folder_fd, unsynced; /* for syncing the folder; unsynced: errno if that is impossible */
  kf_guard guard;          /* if a file must still be as it was when locked: */
  char *guarded;           /* the one at this path; NULL: the older file */
  uint64_t written;
  unsigned char *buffer; /* NULL: not open */
  uint64_t buffered;
  kf_bytes *bytes; /* written to memory; NULL: to a file */
  bool nowhere;    /* another rank writes it; with fd >= 0 this one does too */
} kf_out;
/* ctx may be NULL. With a context notes are logged, and between kf_outputs_begin and
 * kf_outputs_commit a committed file waits for the others. */
kf_status kf_out_open(kf_out *out, kf_ctx *ctx, const char *path, kf_err *err);
/* Writes to memory, for kf_out_take. */
kf_status kf_out_open_memory(kf_out *out, kf_err *err);
kf_status kf_out_write(kf_out *out, const void *bytes, uint64_t n, kf_err *err);
/* Writes at any offset; the next kf_out_write continues at the end of the file. */
kf_status kf_out_write_at(kf_out *out, uint64_t offset, const void *bytes, uint64_t n, kf_err *err);
/* Gives a nameless file its temporary name. */
kf_status kf_out_name(kf_out *out, kf_err *err);
/* Collective, after kf_out_open with a context (out_shared.c): lets every rank write with
 * kf_out_put. If *shared is false, only rank 0 can. */
kf_status kf_out_share(kf_out *out, bool *shared);
/* Skips n bytes, which ranks fill in with kf_out_put. */
kf_status kf_out_skip(kf_out *out, uint64_t n, kf_err *err);
kf_status kf_out_put(const kf_out *out, uint64_t offset, const void *bytes, uint64_t n,
                     kf_err *err);
/* The file replaces the one that `guard` locks; the commit fails if that has changed. Takes
 * ownership of the guard. */
void kf_out_replaces(kf_out *out, kf_guard *guard);
/* The same for a file that extends the locked file at `path`, which stays as it is. */
kf_status kf_out_belongs(kf_out *out, kf_guard *guard, const char *path, kf_err *err);
/* Locks a file being written (guard.c): once it is in its place, kf_guard_take waits until *lock is
 * closed. *lock is -1 if another rank writes it. Does nothing where there are no locks. */
kf_status kf_out_lock(const kf_out *out, int *lock, kf_err *err);
/* KF_OK: the file is in its place. Otherwise the older one, if any, is untouched. With a context
 * all ranks commit together. */
kf_status kf_out_commit(kf_out *out, kf_err *err);
/* Allocates n bytes at once when writing to memory; otherwise does nothing. */
kf_status kf_out_reserve(kf_out *out, uint64_t n, kf_err *err);
/* Ends writing to memory and returns the bytes, which the caller frees. */
kf_bytes *kf_out_take(kf_out *out);
/* Discards the file. A no-op after kf_out_commit and for a zeroed struct. */
void kf_out_abort(kf_out *out);
/* KF_ERR_ARG after kf_outputs_begin, for functions that read what they have written. */
kf_status kf_refuse_held(const kf_ctx *ctx, const char *function, kf_err *err);
/* Fails as kf_out_open would, before long work that ends in writing `path`. */
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
