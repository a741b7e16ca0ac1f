/* thread_ranks.h - ranks that are threads of one process: a communicator without MPI, and a runner
 * of sessions, each of which must give the same bytes on every rank. */
#ifndef KF_THREAD_RANKS_H
#define KF_THREAD_RANKS_H

#include "test.h"

#include <pthread.h>

#define MOST_RANKS 8u

typedef struct thread_group {
  uint32_t size;
  pthread_barrier_t barrier;
  void *shown[MOST_RANKS]; /* the buffer that each rank lets the others read */
  pthread_mutex_t lock;    /* of all that follows */
  uint64_t stage[MOST_RANKS], done[MOST_RANKS];
  uint32_t failed; /* 1 + the lowest rank that failed; 0: none */
} thread_group;

typedef struct thread_rank {
  thread_group *group;
  uint32_t rank;
  kf_comm comm;
  uint64_t steps;   /* calls so far */
  uint64_t fail;    /* the number, from 1, of the call that fails; 0: none */
  uint64_t brought; /* bytes that this rank sent to a single rank */
} thread_rank;

static inline int thread_step(thread_rank *r) { return ++r->steps == r->fail; }

static inline void thread_show(thread_rank *r, void *memory) {
  r->group->shown[r->rank] = memory;
  pthread_barrier_wait(&r->group->barrier);
}

static inline void thread_end(thread_rank *r) { pthread_barrier_wait(&r->group->barrier); }

static inline int thread_sum(void *self, uint64_t *pairs, uint64_t n) {
  thread_rank *r = self;
  __extension__ typedef unsigned __int128 wide;
  AUTOFREE wide *sums = calloc(n + 1, sizeof *sums);
  thread_show(r, pairs);
  for (uint32_t i = 0; i < r->group->size; i++) {
    const uint64_t *of = r->group->shown[i];
    for (uint64_t k = 0; k < n; k++) sums[k] += (wide)of[2 * k + 1] << 64 | of[2 * k];
  }
  thread_end(r);
  memcpy(pairs, sums, n * sizeof *sums);
  return thread_step(r);
}

static inline int thread_gather(void *self, const void *part, void *all, const uint64_t *ends,
                                uint32_t to) {
  thread_rank *r = self;
  bool wanted = to == KF_ALL_RANKS || to == r->rank;
  if (to != KF_ALL_RANKS) r->brought += ends[r->rank] - (r->rank > 0 ? ends[r->rank - 1] : 0);
  thread_show(r, (void *)(uintptr_t)part);
  for (uint32_t i = 0; wanted && i < r->group->size; i++) {
    uint64_t begin = i > 0 ? ends[i - 1] : 0;
    if (i != r->rank || part != (const char *)all + begin)
      if (ends[i] > begin) memcpy((char *)all + begin, r->group->shown[i], ends[i] - begin);
  }
  thread_end(r);
  return thread_step(r);
}

static inline int thread_broadcast(void *self, void *bytes, uint64_t n, uint32_t from) {
  thread_rank *r = self;
  thread_show(r, bytes);
  if (r->rank != from) memcpy(bytes, r->group->shown[from], n);
  thread_end(r);
  return thread_step(r);
}

static inline void thread_abort(void *self) {
  thread_rank *r = self;
  thread_group *g = r->group;
  pthread_mutex_lock(&g->lock);
  if (g->failed == 0 || g->failed > r->rank + 1) g->failed = r->rank + 1;
  pthread_mutex_unlock(&g->lock);
}

static inline uint32_t thread_progress(void *self, uint64_t stage, uint64_t done, uint64_t *all) {
  thread_rank *r = self;
  thread_group *g = r->group;
  pthread_mutex_lock(&g->lock);
  g->stage[r->rank] = stage;
  g->done[r->rank] = done;
  *all = 0;
  for (uint32_t i = 0; i < g->size; i++) *all += g->stage[i] == stage ? g->done[i] : 0;
  uint32_t failed = g->failed;
  pthread_mutex_unlock(&g->lock);
  return failed;
}

/* --- sessions --------------------------------------------------------------------------------- */

/* The results of a session, as bytes. */
typedef struct session_log {
  unsigned char *bytes;
  size_t n, room;
} session_log;

static inline void note(session_log *log, const void *bytes, size_t n) {
  if (log->n + n > log->room) {
    log->room = 2 * (log->n + n);
    log->bytes = realloc(log->bytes, log->room);
  }
  if (n > 0) memcpy(log->bytes + log->n, bytes, n);
  log->n += n;
}
#define NOTE(log, value) note(log, &(value), sizeof(value))

/* Objects freed at the end of a session, even if it fails. */
typedef struct kept_objects {
  struct {
    void *object;
    void (*release)(void *object);
  } at[16];
  size_t n;
} kept_objects;
static _Thread_local kept_objects session_kept;

static inline void keep_object(void *object, void (*release)(void *object)) {
  session_kept.at[session_kept.n].object = object;
  session_kept.at[session_kept.n++].release = release;
}

static inline void free_kept(void) {
  while (session_kept.n > 0) {
    session_kept.n--;
    session_kept.at[session_kept.n].release(session_kept.at[session_kept.n].object);
  }
}
#define KEPT(TYPE)                                                                                 \
  static inline void release_##TYPE(void *object) { kf_##TYPE##_free(object); }                    \
  static inline void keep_##TYPE(kf_##TYPE *object) { keep_object(object, release_##TYPE); }
KEPT(calibration)
KEPT(data)
KEPT(model)
KEPT(stats)
KEPT(text)
KEPT(verdicts)

typedef struct session {
  /* Runs on its own thread: no assertions. */
  kf_status (*run)(kf_ctx *ctx, void *argument, session_log *log);
  void *argument;
  thread_rank rank;
  unsigned threads;
  kf_isa isa;
  session_log log;
  kf_status status;
  char message[512];
} session;

/* The devices of ranks; NULL: auto. If set, a session that runs alone uses the CPU. */
static const char *ranks_device, *ranks_plugin;

static inline void *session_main(void *argument) {
  session *s = argument;
  AUTO(kf_ctx) *ctx = NULL;
  kf_ctx_options options = {.threads = s->threads, .isa = s->isa};
  if (s->rank.group != NULL) options.comm = &s->rank.comm;
  if (ranks_device != NULL) options.device = s->rank.group != NULL ? ranks_device : "cpu";
  options.device_plugin = ranks_plugin;
  s->status = kf_ctx_new(&options, &ctx);
  if (s->status == KF_OK) s->status = s->run(ctx, s->argument, &s->log);
  snprintf(s->message, sizeof s->message, "%s", kf_errmsg(ctx));
  if (ctx != NULL) { /* if only this rank failed, it tells the others */
    kf_status agreed = kf_agree(ctx, s->status, s->status != KF_OK ? s->message : NULL);
    if (agreed != KF_OK) snprintf(s->message, sizeof s->message, "%s", kf_errmsg(ctx));
    s->status = agreed;
  }
  free_kept();
  return NULL;
}

/* Runs a session on all ranks, which have one or two threads in turn; rank 1 uses plain kernels. */
static inline void run_ranks(session *sessions, uint32_t size,
                             kf_status (*run)(kf_ctx *ctx, void *argument, session_log *log),
                             void *argument) {
  static thread_group group;
  pthread_t threads[MOST_RANKS];
  group = (thread_group){.size = size};
  pthread_barrier_init(&group.barrier, NULL, size);
  pthread_mutex_init(&group.lock, NULL);
  for (uint32_t i = 0; i < size; i++) {
    session *s = &sessions[i];
    uint64_t fail = s->rank.fail;
    *s = (session){.run = run,
                   .argument = argument,
                   .rank = {.group = &group, .rank = i, .fail = fail},
                   .threads = 1 + i % 2,
                   .isa = i == 1 ? KF_ISA_PLAIN : KF_ISA_AUTO};
    s->rank.comm = (kf_comm){.rank = i,
                             .size = size,
                             .self = &s->rank,
                             .sum = thread_sum,
                             .gather = thread_gather,
                             .broadcast = thread_broadcast,
                             .abort = thread_abort,
                             .progress = thread_progress};
    assert_int_equal(pthread_create(&threads[i], NULL, session_main, s), 0);
  }
  for (uint32_t i = 0; i < size; i++) pthread_join(threads[i], NULL);
  pthread_barrier_destroy(&group.barrier);
  pthread_mutex_destroy(&group.lock);
}

static inline void run_alone(session *s,
                             kf_status (*run)(kf_ctx *ctx, void *argument, session_log *log),
                             void *argument) {
  *s = (session){.run = run, .argument = argument, .threads = 2};
  session_main(s);
}

static inline void clear_log(session_log *log) { free(log->bytes); }
AUTO_STRUCT(session_log, clear_log)

/* The results of a session without ranks. */
static inline session_log found_alone(kf_status (*run)(kf_ctx *, void *, session_log *),
                                      void *argument) {
  session alone;
  run_alone(&alone, run, argument);
  if (alone.status != KF_OK) fail_msg("alone: %s", alone.message);
  assert_true(alone.log.n > 0);
  return alone.log;
}

/* Each of n ranks must give these results. */
static inline void assert_found(uint32_t n, kf_status (*run)(kf_ctx *, void *, session_log *),
                                void *argument, const session_log *wanted) {
  session of[MOST_RANKS] = {{0}};
  run_ranks(of, n, run, argument);
  for (uint32_t i = 0; i < n; i++) {
    if (of[i].status != KF_OK) fail_msg("rank %u of %u: %s", i, n, of[i].message);
    assert_int_equal(of[i].log.n, wanted->n);
    if (memcmp(of[i].log.bytes, wanted->bytes, wanted->n) != 0)
      fail_msg("rank %u of %u has other bytes", i, n);
    free(of[i].log.bytes);
  }
}

/* Each of n ranks must fail with this status and the same message, which holds the text. */
static inline void assert_fail(uint32_t n, kf_status (*run)(kf_ctx *, void *, session_log *),
                               void *argument, kf_status status, const char *text) {
  session of[MOST_RANKS] = {{0}};
  run_ranks(of, n, run, argument);
  for (uint32_t i = 0; i < n; i++) {
    assert_int_equal(of[i].status, status);
    if (strstr(of[i].message, text) == NULL) fail_msg("rank %u: %s", i, of[i].message);
    assert_string_equal(of[i].message, of[0].message);
    free(of[i].log.bytes);
  }
}

/* The session must give the same results on 1, 2, 3, 4 and 7 ranks as without ranks. */
static inline void assert_same_on_ranks(kf_status (*run)(kf_ctx *, void *, session_log *),
                                        void *argument) {
  static const uint32_t sizes[] = {1, 2, 3, 4, 7};
  AUTO(session_log) alone = found_alone(run, argument);
  for (size_t t = 0; t < sizeof sizes / sizeof *sizes; t++)
    assert_found(sizes[t], run, argument, &alone);
}

#endif
