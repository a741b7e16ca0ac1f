/* moments.c - exact sums of X X^T over integer rows.
 *
 * Each worker collects rows in a block, packed for its kernel, and multiplies full blocks, panel by
 * panel, into 64-bit sums: |X X'| <= 2^44, so 2^18 rows stay below 2^62. The sums are added to
 * 128-bit totals before they could overflow. */
#include "stats/stats.h"

#include <pthread.h>
#include <string.h>

#define FLUSH_ROWS ((uint64_t)1 << 18)
/* Each worker takes slightly more than 4 dim^2 bytes. All of them together take at most this, but
 * there is always one. */
#define WORKER_BYTES ((uint64_t)512 << 20)

typedef struct worker {
  char *packed;      /* [panels][panel_size]: a block */
  size_t filled;     /* rows in the block, a multiple of the kernel's step */
  int64_t *products; /* [tiles][edge][edge], see tile_at */
  uint64_t pending;  /* rows in products and in the block */
} worker;

struct kf_moments {
  kf_ctx *ctx;
  const kf_moment_kernel *kernel;
  uint32_t dim;
  size_t panels;
  size_t n_workers;
  worker *workers;
  kf_i128 *totals;      /* the caller's triangle */
  pthread_mutex_t lock; /* of totals */
  kf_arena arena;       /* of the workers */
};

/* The offset of the tile of panels p <= q; a row of tiles begins on the diagonal. */
static uint64_t tile_at(const kf_moments *m, uint64_t p, uint64_t q) {
  uint64_t before = p * m->panels - p * (p + 1) / 2;
  return (before + q) * m->kernel->edge * m->kernel->edge;
}

/* The number of sums of a worker. */
static uint64_t product_count(const kf_moments *m) { return tile_at(m, m->panels, m->panels); }

static size_t worker_count(const kf_ctx *ctx, const kf_moments *m, uint64_t calls) {
  uint64_t most = WORKER_BYTES / (product_count(m) * sizeof(int64_t));
  if (most > calls) most = calls;
  if (most > ctx->threads) most = ctx->threads;
  return most > 0 ? (size_t)most : 1;
}

kf_status kf_moments_new(kf_ctx *ctx, uint32_t dim, uint64_t calls, kf_i128 *totals,
                         kf_moments **out) {
  kf_moments *m = kf_alloc_zero(1, sizeof *m);
  if (m == NULL) return kf_fail_memory(&ctx->err);
  m->ctx = ctx;
  m->kernel = ctx->kernels->moment;
  m->dim = dim;
  m->panels = (dim + m->kernel->edge - 1) / m->kernel->edge;
  m->totals = totals;
  pthread_mutex_init(&m->lock, NULL);
  m->n_workers = worker_count(ctx, m, calls);
  int64_t *products; /* of all workers in one piece, for large pages */
  KF_TAKE_ZERO(&m->arena, m->workers, m->n_workers);
  KF_TAKE_ZERO(&m->arena, products, m->n_workers * product_count(m));
  for (size_t t = 0; !m->arena.failed && t < m->n_workers; t++) {
    worker *w = &m->workers[t];
    w->packed = kf_arena_take(&m->arena, m->panels, m->kernel->panel_size);
    w->products = products + t * product_count(m);
  }
  KF_HAND_OUT(m->arena.failed ? kf_fail_memory(&ctx->err) : KF_OK, out, m, kf_moments_free);
}

void kf_moments_free(kf_moments *m) {
  if (m == NULL) return;
  kf_arena_free(&m->arena);
  pthread_mutex_destroy(&m->lock);
  kf_free(m);
}

size_t kf_moments_workers(const kf_moments *m) { return m->n_workers; }

/* Adds the products of the block to the sums and empties it. Four panels are multiplied with each
 * panel to their right in turn, which is then read from memory for every fourth tile only. */
static void multiply(const kf_moments *m, worker *w) {
  enum { TOGETHER = 4 };
  const kf_moment_kernel *kernel = m->kernel;
  size_t size = kernel->panel_size;
  if (kernel->begin != NULL) kernel->begin();
  for (size_t first = 0; first < m->panels; first += TOGETHER)
    for (size_t q = first; q < m->panels; q++)
      for (size_t p = first; p < first + TOGETHER && p <= q; p++)
        kernel->tile(w->packed + p * size, w->packed + q * size, w->filled,
                     w->products + tile_at(m, p, q), kernel->edge);
  if (kernel->end != NULL) kernel->end();
  w->filled = 0;
}

/* Adds row r of a worker's sums to the totals. */
static void add_row(const kf_moments *m, const worker *w, size_t r, int64_t weight) {
  size_t edge = m->kernel->edge;
  kf_i128 *to = m->totals + kf_triangle_at(m->dim, (uint32_t)r, (uint32_t)r);
  for (size_t q = r / edge; q < m->panels; q++) {
    const int64_t *from = w->products + tile_at(m, r / edge, q) + r % edge * edge;
    size_t first = q * edge < r ? r - q * edge : 0;
    size_t end = m->dim - q * edge < edge ? m->dim - q * edge : edge;
    for (size_t c = first; c < end; c++) *to++ += (kf_i128)from[c] * weight;
  }
}

static void empty(const kf_moments *m, worker *w) {
  memset(w->products, 0, product_count(m) * sizeof *w->products);
  w->pending = 0;
}

/* Adds the sums of one worker to the totals while other workers continue. */
static void flush(kf_moments *m, worker *w, int64_t weight) {
  if (w->pending == 0) return;
  if (w->filled > 0) multiply(m, w);
  pthread_mutex_lock(&m->lock);
  for (size_t r = 0; r < m->dim; r++) add_row(m, w, r, weight);
  pthread_mutex_unlock(&m->lock);
  empty(m, w);
}

/* --- adding the sums of all workers on all threads -------------------------------------------- */

#define ROW_BLOCK 32u

typedef struct ending {
  const kf_moments *m;
  int64_t weight;
} ending;

static kf_status finish_block(void *argument, size_t t, size_t number, kf_err *err) {
  (void)number;
  (void)err;
  const kf_moments *m = ((const ending *)argument)->m;
  if (m->workers[t].filled > 0) multiply(m, &m->workers[t]);
  return KF_OK;
}

static kf_status add_rows(void *argument, size_t i, size_t number, kf_err *err) {
  (void)number;
  (void)err;
  const ending *e = argument;
  const kf_moments *m = e->m;
  for (size_t t = 0; t < m->n_workers; t++)
    for (size_t r = i * ROW_BLOCK; r < m->dim && r < (i + 1) * ROW_BLOCK; r++)
      if (m->workers[t].pending > 0) add_row(m, &m->workers[t], r, e->weight);
  return KF_OK;
}

static kf_status empty_sums(void *argument, size_t t, size_t number, kf_err *err) {
  (void)number;
  (void)err;
  const kf_moments *m = ((const ending *)argument)->m;
  if (m->workers[t].pending > 0) empty(m, &m->workers[t]);
  return KF_OK;
}

kf_status kf_moments_flush(kf_moments *m, int64_t weight) {
  ending e = {m, weight};
  KF_TRY(kf_parallel(m->ctx, m->n_workers, finish_block, &e));
  KF_TRY(kf_parallel(m->ctx, (m->dim + ROW_BLOCK - 1) / ROW_BLOCK, add_rows, &e));
  return kf_parallel(m->ctx, m->n_workers, empty_sums, &e);
}

void kf_moments_add(kf_moments *m, size_t number, const int32_t *x, size_t n, int64_t weight) {
  const kf_moment_kernel *kernel = m->kernel;
  worker *w = &m->workers[number];
  if (w->pending + n > FLUSH_ROWS) flush(m, w, weight);
  w->pending += n;
  while (n > 0) {
    size_t room = kernel->rows - w->filled, taken = n < room ? n : room;
    for (size_t p = 0; p < m->panels; p++)
      kernel->pack(x, taken, m->dim, p, w->filled, w->packed + p * kernel->panel_size);
    w->filled += (taken + kernel->step - 1) / kernel->step * kernel->step;
    if (w->filled == kernel->rows) multiply(m, w);
    x += taken * m->dim;
    n -= taken;
  }
}
