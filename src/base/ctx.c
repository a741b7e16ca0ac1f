/* ctx.c - the context and its thread pool.
 *
 * The pool is a fixed number of threads that take task numbers from one counter; the calling thread
 * works too. The first parallel call makes it, and it lives as long as the context, since starting
 * threads can cost more than the work they do.
 *
 * Jobs may be short: a product with a vector takes some ten microseconds, about as long as waking a
 * thread. So a worker spins briefly before it sleeps, and the caller waits only for workers that
 * have joined its job, not for one that wakes up late on a busy machine. */
#include "base/text.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#define MAX_THREADS 1024u
#define SPINS       500 /* before a thread sleeps: 10 to 20 microseconds */

typedef struct pool_worker {
  struct kf_pool *pool;
  size_t number; /* from 1; 0 is the calling thread */
  pthread_t thread;
} pool_worker;

typedef struct kf_pool {
  pthread_mutex_t lock;
  pthread_cond_t start; /* a new job, or stop */
  pthread_cond_t done;  /* the last worker has left a job */
  int spins;            /* 0 if there are more threads than processors */
  atomic_ullong job;    /* number of the current job; written under lock, as the next three */
  atomic_bool stop;
  atomic_uint busy; /* workers inside the current job */
  bool open;        /* workers may join it */

  /* The current job. */
  kf_task_fn task;
  void *argument;
  size_t n;
  size_t limit; /* workers from this number on are idle */
  atomic_size_t next;
  atomic_size_t failed; /* the lowest task that has failed, or n */
  kf_err err;           /* its error; under lock */

  unsigned n_workers; /* besides the calling thread */
  pool_worker workers[];
} kf_pool;

static void note_failure(kf_pool *pool, size_t i, const kf_err *err) {
  pthread_mutex_lock(&pool->lock);
  if (i < atomic_load(&pool->failed)) {
    atomic_store(&pool->failed, i);
    pool->err = *err;
  }
  pthread_mutex_unlock(&pool->lock);
}

/* Takes tasks until none are left. They are handed out in rising order, so every task below a
 * failed one has been started, and the lowest failure is always found. */
static void run_tasks(kf_pool *pool, size_t worker) {
  kf_err err;
  while (worker < pool->limit) {
    size_t i = atomic_fetch_add(&pool->next, 1);
    if (i >= pool->n || i > atomic_load(&pool->failed)) return;
    if (pool->task(pool->argument, i, worker, &err) != KF_OK) note_failure(pool, i, &err);
  }
}

static void pause_thread(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/* Waits for a job newer than `seen`; holds the lock. False: the pool stops. */
static bool next_job(kf_pool *pool, uint64_t seen) {
  pthread_mutex_unlock(&pool->lock);
  for (int i = 0; i < pool->spins && pool->job == seen && !pool->stop; i++) pause_thread();
  pthread_mutex_lock(&pool->lock);
  while (pool->job == seen && !pool->stop) pthread_cond_wait(&pool->start, &pool->lock);
  return !pool->stop;
}

static void *worker_main(void *argument) {
  const pool_worker *self = argument;
  kf_pool *pool = self->pool;
  uint64_t seen = 0;
  pthread_mutex_lock(&pool->lock);
  while (next_job(pool, seen)) {
    seen = pool->job;
    if (!pool->open || self->number >= pool->limit) continue;
    pool->busy++;
    pthread_mutex_unlock(&pool->lock);
    run_tasks(pool, self->number);
    pthread_mutex_lock(&pool->lock);
    if (--pool->busy == 0) pthread_cond_signal(&pool->done);
  }
  pthread_mutex_unlock(&pool->lock);
  return NULL;
}

static void pool_free(kf_pool *pool) {
  if (pool == NULL) return;
  pthread_mutex_lock(&pool->lock);
  pool->stop = true;
  pthread_cond_broadcast(&pool->start);
  pthread_mutex_unlock(&pool->lock);
  for (unsigned t = 0; t < pool->n_workers; t++) pthread_join(pool->workers[t].thread, NULL);
  pthread_cond_destroy(&pool->start);
  pthread_cond_destroy(&pool->done);
  pthread_mutex_destroy(&pool->lock);
  kf_free(pool);
}

static unsigned processors(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    int n = CPU_COUNT(&set);
    if (n > 0) return (unsigned)n;
  }
  long n = sysconf(_SC_NPROCESSORS_ONLN);
  return n > 0 ? (unsigned)n : 1;
}

/* Raises the stack size to what kernels need: the default may be 128 KiB, or whatever 'ulimit -s'
 * says. */
static void ask_for_stack(pthread_attr_t *attributes) {
  size_t size, needed = (size_t)1 << 20;
  if (pthread_attr_getstacksize(attributes, &size) == 0 && size < needed)
    pthread_attr_setstacksize(attributes, needed);
}

/* Not starting every thread is not an error: a smaller pool still does all the work. */
static kf_pool *pool_new(unsigned n_workers) {
  kf_pool *pool = kf_alloc_tail(sizeof *pool, n_workers, sizeof *pool->workers);
  pthread_attr_t attributes;
  if (pool == NULL) return NULL;
  if (pthread_attr_init(&attributes) != 0) {
    kf_free(pool);
    return NULL;
  }
  ask_for_stack(&attributes);
  pthread_mutex_init(&pool->lock, NULL);
  pthread_cond_init(&pool->start, NULL);
  pthread_cond_init(&pool->done, NULL);
  pool->spins = n_workers < processors() ? SPINS : 0;
  for (unsigned t = 0; t < n_workers; t++) {
    pool_worker *w = &pool->workers[t];
    *w = (pool_worker){.pool = pool, .number = (size_t)t + 1};
    if (pthread_create(&w->thread, &attributes, worker_main, w) != 0) break;
    pool->n_workers++;
  }
  pthread_attr_destroy(&attributes);
  return pool;
}

double kf_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Waits for the workers that have joined the job. */
static kf_status finish_job(kf_ctx *ctx) {
  kf_pool *pool = ctx->pool;
  pthread_mutex_lock(&pool->lock);
  pool->open = false;
  if (pool->busy > 0 && pool->spins > 0) {
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->spins && pool->busy > 0; i++) pause_thread();
    pthread_mutex_lock(&pool->lock);
  }
  while (pool->busy > 0) pthread_cond_wait(&pool->done, &pool->lock);
  bool failed = atomic_load(&pool->failed) < pool->n;
  if (failed) ctx->err = pool->err;
  pthread_mutex_unlock(&pool->lock);
  return failed ? ctx->err.status : KF_OK;
}

kf_status kf_parallel(kf_ctx *ctx, size_t n, kf_task_fn task, void *argument) {
  return kf_parallel_limited(ctx, ctx->threads, n, task, argument);
}

kf_status kf_parallel_limited(kf_ctx *ctx, size_t workers, size_t n, kf_task_fn task,
                              void *argument) {
  bool alone = n <= 1 || workers <= 1;
  if (ctx->pool == NULL && ctx->threads > 1 && !alone) {
    ctx->pool = pool_new(ctx->threads - 1);
    if (ctx->pool == NULL) return kf_fail_memory(&ctx->err);
  }
  kf_pool *pool = ctx->pool;
  if (pool == NULL || alone) {
    for (size_t i = 0; i < n; i++) KF_TRY(task(argument, i, 0, &ctx->err));
    return KF_OK;
  }

  pthread_mutex_lock(&pool->lock);
  pool->task = task;
  pool->argument = argument;
  pool->n = n;
  pool->limit = workers;
  atomic_store(&pool->next, 0);
  atomic_store(&pool->failed, n);
  pool->open = true;
  pool->job++;
  pthread_cond_broadcast(&pool->start);
  pthread_mutex_unlock(&pool->lock);

  run_tasks(pool, 0);
  return finish_job(ctx);
}

size_t kf_task_rows(const kf_ctx *ctx, size_t n) {
  enum {
    STEP = 48,
    MOST = 192
  }; /* whole tiles of every kernel; rows that a kernel packs at a time */
  size_t share = (n / (2 * (size_t)ctx->threads) + STEP - 1) / STEP * STEP;
  if (share > MOST) return MOST;
  return share > STEP ? share : STEP;
}

/* --- the context ----------------------------------------------------------------------------- */

/* Memory for decoding pictures: a share for each thread, which holds a rotated picture of 10
 * million pixels, and at least enough for the largest picture read by default. */
#define PICTURE_SHARE  ((uint64_t)64 << 20)
#define PICTURES_LEAST ((uint64_t)1 << 30)

/* Replaces a caller's text by a copy; false: out of memory, and *text is NULL. */
static bool copy_text(const char **text) {
  if (*text == NULL) return true;
  *text = kf_strdup(*text);
  return *text != NULL;
}

kf_status kf_ctx_new(const kf_ctx_options *options, kf_ctx **out) {
  KF_NOTHING(out);
  kf_ctx_options chosen = options != NULL ? *options : (kf_ctx_options){0};
  kf_err ignored; /* no context to keep it yet */
  if (out == NULL || chosen.threads > MAX_THREADS ||
      kf_check_reserved(chosen.reserved, sizeof chosen.reserved, __func__, &ignored) != KF_OK)
    return KF_ERR_ARG;
  const kf_kernels *kernels = kf_kernels_for(chosen.isa);
  if (kernels == NULL) return KF_ERR_ARG;
  kf_ctx *ctx = kf_alloc_zero(1, sizeof *ctx);
  if (ctx == NULL) return KF_ERR_MEM;
  ctx->options = chosen;
  if (!copy_text(&ctx->options.device) || !copy_text(&ctx->options.device_plugin)) {
    kf_free((void *)(uintptr_t)ctx->options.device);
    kf_free(ctx);
    return KF_ERR_MEM;
  }
  ctx->threads = chosen.threads > 0 ? chosen.threads : processors();
  if (ctx->threads > MAX_THREADS) ctx->threads = MAX_THREADS;
  ctx->kernels = kernels;
  uint64_t shares = ctx->threads * PICTURE_SHARE;
  kf_budget_start(&ctx->pictures, shares > PICTURES_LEAST ? shares : PICTURES_LEAST);
  KF_HAND_OUT(kf_ranks_start(ctx), out, ctx, kf_ctx_free);
}

void kf_ctx_free(kf_ctx *ctx) {
  if (ctx == NULL) return;
  kf_outputs_abort(ctx);
  pool_free(ctx->pool);
  kf_budget_stop(&ctx->pictures);
  if (ctx->devices != NULL) ctx->free_devices(ctx->devices);
  kf_free((void *)(uintptr_t)ctx->options.device);
  kf_free((void *)(uintptr_t)ctx->options.device_plugin);
  kf_ranks_stop(ctx);
  kf_free(ctx);
}

const char *kf_errmsg(const kf_ctx *ctx) { return ctx == NULL ? "" : ctx->err.message; }
unsigned kf_ctx_threads(const kf_ctx *ctx) { return ctx->ranks.threads; }
kf_isa kf_ctx_isa(const kf_ctx *ctx) { return ctx->ranks.isa; }

kf_hint kf_errhint(const kf_ctx *ctx) { return ctx == NULL ? KF_HINT_NONE : ctx->err.hint; }

kf_err *kf_enter(kf_ctx *ctx) {
  ctx->err.status = KF_OK;
  ctx->err.hint = KF_HINT_NONE;
  ctx->err.message[0] = '\0';
  ctx->reported.what[0] = '\0';
  return &ctx->err;
}

kf_status kf_progress(kf_ctx *ctx, const char *what, uint64_t done, uint64_t total) {
  kf_progress_fn callback = ctx->options.progress;
  if (callback == NULL) return kf_heed_ranks(ctx);
  snprintf(ctx->reported.what, sizeof ctx->reported.what, "%s", what);
  ctx->reported.done = done;
  ctx->reported.total = total;
  return kf_progress_again(ctx);
}

kf_status kf_progress_again(kf_ctx *ctx) {
  KF_TRY(kf_heed_ranks(ctx));
  const char *what = ctx->reported.what;
  if (what[0] == '\0' ||
      ctx->options.progress(ctx->options.user, what, ctx->reported.done, ctx->reported.total) == 0)
    return KF_OK;
  return kf_fail(&ctx->err, KF_ERR_CANCELLED, "stopped during '%s'", what);
}

kf_status kf_task_progress(kf_ctx *ctx, size_t worker, const char *what, uint64_t done,
                           uint64_t total, kf_err *err) {
  if (worker != 0) return KF_OK;
  kf_status status = what != NULL ? kf_progress(ctx, what, done, total) : kf_heed_ranks(ctx);
  if (status != KF_OK) *err = ctx->err;
  return status;
}

void kf_log(kf_ctx *ctx, const char *format, ...) {
  if (ctx->options.log == NULL) return;
  char text[sizeof ctx->err.message], shown[sizeof text]; /* may begin with a path */
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  kf_escape_message(text, shown, sizeof shown);
  ctx->options.log(ctx->options.user, shown);
}
