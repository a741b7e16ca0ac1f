/* queue.c - lanes: waiting requests, and the threads that batch and process them.
 *
 * A lane is a list with one thread or two, each with its own context. The encoder's thread takes
 * the pictures and words of all waiting requests through the towers in one call; the one that
 * searches takes all equal searches of the same gallery. Answers do not depend on this, since those
 * of the library do not depend on what else is in a call. */
#include "server.h"

#include <stdlib.h>

enum { FILE_THREADS = 2, THREADS = SV_LANES - 1 + FILE_THREADS };

typedef struct lane_list {
  sv_request *first, **last;
} lane_list;

typedef struct worker {
  sv_queue *queue;
  sv_lane lane;
  kf_ctx *ctx;
  pthread_t thread;
  bool running;
} worker;

struct sv_queue {
  sv_server *server;
  pthread_mutex_t lock;
  pthread_cond_t wake[SV_LANES];
  lane_list lanes[SV_LANES];
  atomic_uint n; /* waiting requests */
  bool stop;
  worker workers[THREADS];
};

sv_queue *sv_queue_new(sv_server *server) {
  sv_queue *q = calloc(1, sizeof *q);
  if (!q) return NULL;
  q->server = server;
  pthread_mutex_init(&q->lock, NULL);
  for (int i = 0; i < SV_LANES; i++) {
    pthread_cond_init(&q->wake[i], NULL);
    q->lanes[i].last = &q->lanes[i].first;
  }
  return q;
}

unsigned sv_queue_length(const sv_queue *q) { return q ? atomic_load(&q->n) : 0; }

static void append(sv_queue *q, sv_request *r) {
  lane_list *lane = &q->lanes[sv_lane_of(r)];
  r->next = NULL;
  *lane->last = r;
  lane->last = &r->next;
  atomic_fetch_add(&q->n, 1);
  pthread_cond_signal(&q->wake[lane - q->lanes]);
}

bool sv_queue_push(sv_queue *q, sv_request *r) {
  pthread_mutex_lock(&q->lock);
  bool fits = atomic_load(&q->n) < q->server->options.queue && !q->stop;
  r->queued = sv_now();
  if (fits) append(q, r);
  pthread_mutex_unlock(&q->lock);
  return fits;
}

/* --- taking requests -------------------------------------------------------------------------- */

static uint64_t weight(const sv_request *r) { return r->stage == SV_EMBED ? r->in.n : 1; }

static bool goes_with(const sv_request *first, const sv_request *other) {
  if (first->stage == SV_EMBED) return other->stage == SV_EMBED;
  return first->stage == SV_WORK && other->stage == SV_WORK && sv_same_search(first, other);
}

static sv_request *take_at(sv_queue *q, lane_list *lane, sv_request **place) {
  sv_request *r = *place;
  *place = r->next;
  if (!*place) lane->last = place;
  r->next = NULL;
  atomic_fetch_sub(&q->n, 1);
  return r;
}

/* Waits for a request, and takes it with those that go with it, in order. NULL: the queue stops. */
static sv_request *take(sv_queue *q, sv_lane number) {
  lane_list *lane = &q->lanes[number];
  pthread_mutex_lock(&q->lock);
  while (!lane->first && !q->stop) pthread_cond_wait(&q->wake[number], &q->lock);
  sv_request *first = NULL, *last;
  if (lane->first) {
    first = last = take_at(q, lane, &lane->first);
    uint64_t n = weight(first);
    for (sv_request **at = &lane->first; *at;) {
      if (!goes_with(first, *at) || n + weight(*at) > SV_MAX_PICTURES) {
        at = &(*at)->next;
        continue;
      }
      n += weight(*at);
      last = last->next = take_at(q, lane, at);
    }
  }
  pthread_mutex_unlock(&q->lock);
  return first;
}

/* --- processing ------------------------------------------------------------------------------- */

/* Drops requests that have waited too long: their clients are gone, or soon will be. */
static sv_request *drop_late(sv_request *first, double limit) {
  sv_request *kept = NULL, **end = &kept, *next;
  double now = sv_now();
  for (sv_request *r = first; r; r = next) {
    next = r->next;
    r->next = NULL;
    if (now - r->queued > limit) {
      sv_fail(r, 503, "the server is too busy; try again later");
      sv_http_resume(r);
    } else {
      *end = r;
      end = &r->next;
    }
  }
  return kept;
}

static void pass_on(sv_queue *q, sv_request *r) {
  if (r->stage == SV_DONE) {
    sv_http_resume(r);
    return;
  }
  pthread_mutex_lock(&q->lock);
  bool stop = q->stop;
  if (!stop) append(q, r);
  pthread_mutex_unlock(&q->lock);
  if (!stop) return;
  sv_fail(r, 503, "the server is stopping");
  sv_http_resume(r);
}

static void serve_batch(worker *w, sv_request *first) {
  if (first->stage == SV_EMBED)
    sv_encode(first, w->ctx);
  else if (first->next)
    sv_search_together(first, w->ctx);
  for (sv_request *r = first, *next; r; r = next) {
    next = r->next;
    r->next = NULL;
    sv_advance(r, w->ctx, w->lane);
    pass_on(w->queue, r);
  }
}

static void *work(void *argument) {
  worker *w = argument;
  sv_request *batch;
  while ((batch = take(w->queue, w->lane))) {
    batch = drop_late(batch, w->queue->server->options.timeout);
    if (batch) serve_batch(w, batch);
  }
  return NULL;
}

bool sv_queue_start(sv_queue *q) {
  for (int i = 0; i < THREADS; i++) {
    worker *w = &q->workers[i];
    w->queue = q;
    w->lane = i < SV_FILES ? (sv_lane)i : SV_FILES;
    bool many = w->lane == SV_ROWS || w->lane == SV_ENCODER;
    /* notes of changes matter: one may say that a power failure could undo the change */
    w->ctx = sv_context(q->server, many ? q->server->options.threads : 1, w->lane == SV_CHANGES);
    if (!w->ctx || pthread_create(&w->thread, NULL, work, w) != 0) return false;
    w->running = true;
  }
  return true;
}

void sv_queue_stop(sv_queue *q) {
  pthread_mutex_lock(&q->lock);
  q->stop = true;
  for (int i = 0; i < SV_LANES; i++) pthread_cond_broadcast(&q->wake[i]);
  pthread_mutex_unlock(&q->lock);
  for (int i = 0; i < THREADS; i++) {
    worker *w = &q->workers[i];
    if (w->running) pthread_join(w->thread, NULL);
    w->running = false;
  }
}

void sv_queue_free(sv_queue *q) {
  if (!q) return;
  sv_queue_stop(q);
  for (int i = 0; i < THREADS; i++) kf_ctx_free(q->workers[i].ctx);
  for (int i = 0; i < SV_LANES; i++) pthread_cond_destroy(&q->wake[i]);
  pthread_mutex_destroy(&q->lock);
  free(q);
}
