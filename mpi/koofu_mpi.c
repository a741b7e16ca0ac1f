/* koofu_mpi.c - a communicator on MPI 3, and a watchdog for lost ranks.
 *
 * A 128-bit integer is an MPI type of two 64-bit words with its own addition. This is exact, so any
 * tree of additions gives the same bits. Arrays are sent in pieces, since MPI 3 counts in int.
 *
 * Waiting: MPI would spin, which is slow where ranks share a processor. So requests are polled, and
 * the processor is yielded in between.
 *
 * Lost ranks: MPI does not say when a host is gone, and a collective call then waits for ever. So a
 * thread on each rank sends a heartbeat to rank 0 every second, and rank 0 sends one to all; a rank
 * that is silent for too long is lost. Beats have a communicator of their own. They also carry the
 * progress of a rank, and which rank has failed. */
#include "koofu_mpi.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SUM_PIECE = 1 << 20, BEAT_TAG = 1, PIECE_TAG = 2 };
#define BYTE_PIECE      ((uint64_t)1 << 30)
#define DEFAULT_TIMEOUT 20.0
#define ABORT_SECONDS   2u

/* The 64-bit words of a beat. */
enum {
  BEAT_KIND,
  BEAT_FAILED, /* 1 + the lowest rank known to have failed; 0: none */
  BEAT_STAGE,  /* the stage that the sender is at, */
  BEAT_DONE,   /* and how much of it is done */
  BEAT_WORDS
};

typedef struct peer {
  double heard;              /* time of its last beat */
  uint64_t sent, received;   /* beats to and from it */
  uint64_t beat[BEAT_WORDS]; /* being sent */
  MPI_Request sending;
  atomic_uint_fast64_t stage, done; /* of its last beat */
} peer;

struct kf_mpi {
  MPI_Comm comm, beats;
  MPI_Datatype wide; /* a 128-bit integer */
  MPI_Op add;
  kf_comm face;
  kf_mpi_options options;
  double timeout;
  peer *peers; /* on rank 0: [size]; elsewhere: rank 0 alone */
  int n_peers;
  uint64_t *counts; /* [size] of beats, for drain */
  int watching;
  pthread_t watcher;
  pthread_mutex_t lock;
  pthread_cond_t wake;
  int stop;
  atomic_uint_fast64_t stage, done; /* of this rank */
  atomic_uint failed;               /* as BEAT_FAILED */
};

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* --- waiting ---------------------------------------------------------------------------------- */

static int finish(int code, MPI_Request *request) {
  enum { SPINS = 1000, YIELDS = 20000 };
  int done = 0;
  /* i stops at YIELDS: ranks may wait for days. */
  for (int i = 0; code == MPI_SUCCESS && !done; i += i < YIELDS) {
    code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
    if (done || i < SPINS) continue;
    if (i < YIELDS)
      sched_yield();
    else
      nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
  }
  return code != MPI_SUCCESS;
}

/* --- the communicator ------------------------------------------------------------------------- */

static void add_wide(void *from, void *into, int *n, MPI_Datatype *type) {
  (void)type;
  const uint64_t *x = from;
  uint64_t *y = into;
  for (int i = 0; i < *n; i++, x += 2, y += 2) {
    uint64_t low = x[0] + y[0];
    y[1] += x[1] + (low < x[0]);
    y[0] = low;
  }
}

static int sum(void *self, uint64_t *words, uint64_t n) {
  const kf_mpi *m = self;
  for (uint64_t first = 0; first < n; first += SUM_PIECE) {
    int count = n - first < SUM_PIECE ? (int)(n - first) : SUM_PIECE;
    MPI_Request request;
    int code =
        MPI_Iallreduce(MPI_IN_PLACE, words + 2 * first, count, m->wide, m->add, m->comm, &request);
    if (finish(code, &request)) return 1;
  }
  return 0;
}

static int broadcast(void *self, void *bytes, uint64_t n, uint32_t from) {
  const kf_mpi *m = self;
  for (uint64_t first = 0; first < n; first += BYTE_PIECE) {
    uint64_t count = n - first < BYTE_PIECE ? n - first : BYTE_PIECE;
    MPI_Request request;
    int code =
        MPI_Ibcast((char *)bytes + first, (int)count, MPI_BYTE, (int)from, m->comm, &request);
    if (finish(code, &request)) return 1;
  }
  return 0;
}

/* For arrays whose counts fit in an int. */
static int gather_small(const kf_mpi *m, const void *part, void *all, const uint64_t *ends,
                        uint32_t to) {
  uint32_t size = m->face.size, rank = m->face.rank;
  int *counts = calloc(size, 2 * sizeof *counts);
  if (counts == NULL) return 1;
  int *at = counts + size;
  for (uint32_t i = 0; i < size; i++) {
    at[i] = i > 0 ? (int)ends[i - 1] : 0;
    counts[i] = (int)ends[i] - at[i];
  }
  int here = to == KF_ALL_RANKS || to == rank, code;
  const void *from = here && part == (const char *)all + at[rank] ? MPI_IN_PLACE : part;
  MPI_Request request;
  if (to == KF_ALL_RANKS)
    code =
        MPI_Iallgatherv(from, counts[rank], MPI_BYTE, all, counts, at, MPI_BYTE, m->comm, &request);
  else
    code = MPI_Igatherv(from, counts[rank], MPI_BYTE, all, counts, at, MPI_BYTE, (int)to, m->comm,
                        &request);
  int failed = finish(code, &request);
  free(counts);
  return failed;
}

/* Sends n bytes of rank `from` to rank `to`. */
static int send_part(const kf_mpi *m, const char *part, char *place, uint64_t n, uint32_t from,
                     uint32_t to) {
  uint32_t rank = m->face.rank;
  if (rank == from && rank == to) {
    if (place != NULL && part != place) memcpy(place, part, n);
    return 0;
  }
  for (uint64_t first = 0; first < n && (rank == from || rank == to); first += BYTE_PIECE) {
    int count = (int)(n - first < BYTE_PIECE ? n - first : BYTE_PIECE);
    MPI_Request request;
    int code =
        rank == from
            ? MPI_Isend(part + first, count, MPI_BYTE, (int)to, PIECE_TAG, m->comm, &request)
            : MPI_Irecv(place + first, count, MPI_BYTE, (int)from, PIECE_TAG, m->comm, &request);
    if (finish(code, &request)) return 1;
  }
  return 0;
}

static int gather(void *self, const void *part, void *all, const uint64_t *ends, uint32_t to) {
  kf_mpi *m = self;
  uint32_t size = m->face.size;
  if (ends[size - 1] <= BYTE_PIECE) return gather_small(m, part, all, ends, to);
  for (uint32_t i = 0; i < size; i++) {
    uint64_t begin = i > 0 ? ends[i - 1] : 0, n = ends[i] - begin;
    char *place = all != NULL ? (char *)all + begin : NULL;
    if (to != KF_ALL_RANKS) {
      if (send_part(m, part, place, n, i, to)) return 1;
      continue;
    }
    if (i == m->face.rank && place != NULL && part != place) memcpy(place, part, n);
    if (broadcast(m, place, n, i)) return 1;
  }
  return 0;
}

/* --- the watchdog ----------------------------------------------------------------------------- */

enum { ALIVE = 1, RUN_LOST = 2 };

static void end_now(int number) {
  (void)number;
  _exit(1);
}

/* MPI_Abort involves the other ranks, so it may not return. message NULL: another rank prints
 * it. */
static void end_all(const kf_mpi *m, const char *message) {
  if (message != NULL) dprintf(m->options.errors, "koofu: %s\n", message);
  signal(SIGALRM, end_now);
  alarm(ABORT_SECONDS);
  MPI_Abort(m->comm, 1);
  _exit(1);
}

static int rank_of(const kf_mpi *m, int i) { return m->face.rank == 0 ? i : 0; }

/* Does nothing while the last beat is still under way. */
static void send_beat(kf_mpi *m, int i, uint64_t kind) {
  peer *p = &m->peers[i];
  int done = 1;
  if (p->sending != MPI_REQUEST_NULL) MPI_Test(&p->sending, &done, MPI_STATUS_IGNORE);
  if (!done) return;
  p->beat[BEAT_KIND] = kind;
  p->beat[BEAT_FAILED] = m->failed;
  p->beat[BEAT_DONE] = m->done;
  p->beat[BEAT_STAGE] = m->stage;
  p->sent++;
  MPI_Isend(p->beat, BEAT_WORDS, MPI_UINT64_T, rank_of(m, i), BEAT_TAG, m->beats, &p->sending);
}

static void send_beats(kf_mpi *m) {
  for (int i = m->face.rank == 0; i < m->n_peers; i++) send_beat(m, i, ALIVE);
}

/* Returns 1 if that is news. */
static int note_failed(kf_mpi *m, uint64_t failed) {
  unsigned known = m->failed;
  while (failed > 0 && (known == 0 || failed < known))
    if (atomic_compare_exchange_weak(&m->failed, &known, (unsigned)failed)) return 1;
  return 0;
}

static void take_beats(kf_mpi *m) {
  int news = 0;
  for (;;) {
    int there = 0;
    uint64_t beat[BEAT_WORDS] = {0};
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, BEAT_TAG, m->beats, &there, &status);
    if (!there) break;
    MPI_Recv(beat, BEAT_WORDS, MPI_UINT64_T, status.MPI_SOURCE, BEAT_TAG, m->beats,
             MPI_STATUS_IGNORE);
    peer *p = &m->peers[m->face.rank == 0 ? status.MPI_SOURCE : 0];
    p->heard = now();
    p->received++;
    p->stage = beat[BEAT_STAGE];
    p->done = beat[BEAT_DONE];
    if (beat[BEAT_KIND] == RUN_LOST) end_all(m, NULL);
    news |= note_failed(m, beat[BEAT_FAILED]);
  }
  if (news && m->face.rank == 0) send_beats(m);
}

/* kf_comm.abort */
static void report_failure(void *self) {
  kf_mpi *m = self;
  note_failed(m, m->face.rank + 1u);
  pthread_mutex_lock(&m->lock);
  pthread_cond_signal(&m->wake);
  pthread_mutex_unlock(&m->lock);
}

/* kf_comm.progress */
static uint32_t report_progress(void *self, uint64_t stage, uint64_t done, uint64_t *all) {
  kf_mpi *m = self;
  m->stage = stage;
  m->done = *all = done;
  for (int i = 1; m->face.rank == 0 && i < m->n_peers; i++)
    if (m->peers[i].stage == stage) *all += m->peers[i].done;
  return m->failed;
}

static void check_lost(kf_mpi *m) {
  for (int i = m->face.rank == 0; i < m->n_peers; i++) {
    if (now() - m->peers[i].heard < m->timeout) continue;
    char message[160];
    snprintf(message, sizeof message,
             "rank %d has been silent for %g seconds: its process, its host or the network to it "
             "is gone",
             rank_of(m, i), m->timeout);
    for (int other = 1; other < m->n_peers; other++) send_beat(m, other, RUN_LOST);
    end_all(m, message);
  }
}

static void *watch(void *argument) {
  kf_mpi *m = argument;
  pthread_mutex_lock(&m->lock);
  while (!m->stop) {
    pthread_mutex_unlock(&m->lock);
    send_beats(m);
    take_beats(m);
    check_lost(m);
    struct timespec next;
    clock_gettime(CLOCK_REALTIME, &next);
    next.tv_sec++;
    pthread_mutex_lock(&m->lock);
    if (!m->stop) pthread_cond_timedwait(&m->wake, &m->lock, &next);
  }
  pthread_mutex_unlock(&m->lock);
  return NULL;
}

/* All ranks have peers or none has, since those with peers wait for each other at the end. */
static int make_peers(kf_mpi *m) {
  m->n_peers = m->face.rank == 0 ? (int)m->face.size : 1;
  m->peers = calloc((size_t)m->n_peers, sizeof *m->peers);
  m->counts = calloc(m->face.size, sizeof *m->counts);
  int ready = m->peers != NULL && m->counts != NULL;
  MPI_Allreduce(MPI_IN_PLACE, &ready, 1, MPI_INT, MPI_MIN, m->comm);
  if (ready) return 1;
  free(m->peers);
  m->peers = NULL;
  return 0;
}

static kf_status start_watch(kf_mpi *m) {
  int provided = MPI_THREAD_SINGLE;
  MPI_Query_thread(&provided);
  /* All ranks watch or none does. */
  int able = provided == MPI_THREAD_MULTIPLE && m->timeout > 0 && m->face.size > 1, all = 0;
  MPI_Allreduce(&able, &all, 1, MPI_INT, MPI_MIN, m->comm);
  if (!all) return KF_OK;
  if (!make_peers(m)) return KF_ERR_MEM;
  for (int i = 0; i < m->n_peers; i++)
    m->peers[i] = (peer){.heard = now(), .sending = MPI_REQUEST_NULL};
  m->watching = pthread_create(&m->watcher, NULL, watch, m) == 0;
  int ready = m->watching;
  MPI_Allreduce(MPI_IN_PLACE, &ready, 1, MPI_INT, MPI_MIN, m->comm);
  m->face.abort = report_failure;
  m->face.progress = report_progress;
  return ready ? KF_OK : KF_ERR_MEM;
}

/* Receives the beats still under way, so that none is left for MPI_Finalize. */
static void drain(kf_mpi *m) {
  uint64_t *sent = m->counts, mine = 0, to_first = m->peers[0].sent;
  for (int i = 0; m->face.rank == 0 && i < m->n_peers; i++) sent[i] = m->peers[i].sent;
  MPI_Scatter(sent, 1, MPI_UINT64_T, &mine, 1, MPI_UINT64_T, 0, m->comm);
  MPI_Gather(&to_first, 1, MPI_UINT64_T, sent, 1, MPI_UINT64_T, 0, m->comm);
  for (int i = m->face.rank == 0; i < m->n_peers; i++) {
    uint64_t due = m->face.rank == 0 ? sent[i] : mine;
    for (uint64_t beat[BEAT_WORDS]; m->peers[i].received < due; m->peers[i].received++)
      MPI_Recv(beat, BEAT_WORDS, MPI_UINT64_T, rank_of(m, i), BEAT_TAG, m->beats,
               MPI_STATUS_IGNORE);
  }
  for (int i = 0; i < m->n_peers; i++)
    if (m->peers[i].sending != MPI_REQUEST_NULL) MPI_Wait(&m->peers[i].sending, MPI_STATUS_IGNORE);
}

static void stop_watch(kf_mpi *m) {
  if (m->peers == NULL) return;
  /* The watchdog runs until all ranks are here; until then only its thread may use `beats`. */
  MPI_Request request;
  finish(MPI_Ibarrier(m->comm, &request), &request);
  pthread_mutex_lock(&m->lock);
  m->stop = 1;
  pthread_cond_signal(&m->wake);
  pthread_mutex_unlock(&m->lock);
  if (m->watching) pthread_join(m->watcher, NULL);
  drain(m);
  free(m->peers);
}

/* --- creation --------------------------------------------------------------------------------- */

static int make_types(kf_mpi *m, MPI_Comm parent) {
  int rank, size;
  if (MPI_Comm_dup(parent, &m->comm) != MPI_SUCCESS) return 1;
  if (MPI_Comm_dup(parent, &m->beats) != MPI_SUCCESS) return 1;
  MPI_Comm_set_errhandler(m->comm, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(m->beats, MPI_ERRORS_RETURN);
  MPI_Comm_rank(m->comm, &rank);
  MPI_Comm_size(m->comm, &size);
  m->face = (kf_comm){.rank = (uint32_t)rank,
                      .size = (uint32_t)size,
                      .self = m,
                      .sum = sum,
                      .gather = gather,
                      .broadcast = broadcast};
  return MPI_Type_contiguous(2, MPI_UINT64_T, &m->wide) != MPI_SUCCESS ||
         MPI_Type_commit(&m->wide) != MPI_SUCCESS ||
         MPI_Op_create(add_wide, 1, &m->add) != MPI_SUCCESS;
}

kf_status kf_mpi_new(MPI_Comm parent, const kf_mpi_options *options, kf_mpi **out) {
  if (out == NULL) return KF_ERR_ARG;
  *out = NULL;
  int ready = 0;
  kf_mpi_options o = options != NULL ? *options : (kf_mpi_options){0};
  MPI_Initialized(&ready);
  for (size_t i = 0; i < sizeof o.reserved / sizeof *o.reserved; i++) ready &= o.reserved[i] == 0;
  if (!ready || isnan(o.timeout)) return KF_ERR_ARG;
  kf_mpi *m = calloc(1, sizeof *m);
  if (m == NULL) return KF_ERR_MEM;
  m->comm = m->beats = MPI_COMM_NULL;
  m->wide = MPI_DATATYPE_NULL;
  m->add = MPI_OP_NULL;
  m->options = o;
  if (o.errors == 0) m->options.errors = STDERR_FILENO;
  m->timeout = o.timeout != 0 ? o.timeout : DEFAULT_TIMEOUT;
  pthread_mutex_init(&m->lock, NULL);
  pthread_cond_init(&m->wake, NULL);
  kf_status status = make_types(m, parent) ? KF_ERR_IO : start_watch(m);
  if (status == KF_OK)
    *out = m;
  else
    kf_mpi_free(m);
  return status;
}

void kf_mpi_free(kf_mpi *m) {
  if (m == NULL) return;
  stop_watch(m);
  if (m->add != MPI_OP_NULL) MPI_Op_free(&m->add);
  if (m->wide != MPI_DATATYPE_NULL) MPI_Type_free(&m->wide);
  if (m->comm != MPI_COMM_NULL) MPI_Comm_free(&m->comm);
  if (m->beats != MPI_COMM_NULL) MPI_Comm_free(&m->beats);
  pthread_cond_destroy(&m->wake);
  pthread_mutex_destroy(&m->lock);
  free(m->counts);
  free(m);
}

const kf_comm *kf_mpi_comm(const kf_mpi *m) { return &m->face; }
