/* device_stats.c - exact statistics on the devices of the context, with the integers of the CPU.
 *
 * All threads read. The rows of a batch, in the type of the files, go to page-locked memory in
 * pieces, one task each. The thread that reads the last piece of a batch sends it to its device,
 * which adds it while the next ones are read; batches go to all devices in turn. A device holds up
 * to KF_DEV_PUTS batches, so a piece may have to wait for an earlier batch. Tasks start in rising
 * order, and no batch waits for a later one.
 *
 * Errors are those of the CPU. A device skips bad rows and reports that there was one. The CPU then
 * checks the batch again and fails with its usual message or, if bad rows are to be skipped, finds
 * nothing wrong. The lowest failing batch is reported.
 *
 * The sums are fetched from the devices at the end. If a device fails, the statistics are
 * unchanged, and the CPU can still add all rows. */
#include "stats/stats.h"
#include "device/device.h"

#include <string.h>

#define BATCH_BYTES ((uint64_t)8 << 20)
#define PIECE_BYTES ((uint64_t)512 << 10)
#define AHEAD_BYTES ((uint64_t)8 << 20) /* requested from the system before they are needed */
#define MOST_BATCH  ((uint64_t)1 << 18) /* rows, kf_dev_moments_plan */
/* Unless a device was requested, it is used only if each CPU thread would add more products than
 * these: about what it adds while a device is opened (half a second), or while an open one
 * allocates memory (measured with bench/cuda/worth.c). */
#define WHILE_OPENING  ((uint64_t)1 << 35)
#define WHILE_STARTING ((uint64_t)1 << 31)

typedef struct slot {
  void *rows; /* [batch][dim] */
  int32_t *labels;
  uint64_t left; /* pieces still to be read; 0: full */
  bool locked;   /* page-locked memory of the device */
} slot;

/* A device and its share of the batches, which have their own numbers. */
typedef struct feed {
  kf_device *device;
  kf_dev_moments *moments;
  slot slots[KF_DEV_PUTS];
  uint64_t puts, waited; /* batches sent, and waited for */
  bool busy;             /* a thread is calling the device */
} feed;

typedef struct job {
  kf_ctx *ctx;
  const kf_stats *stats;
  const kf_data *data;
  const int32_t *labels; /* instead of the data set's, or NULL */
  const char *what;
  uint64_t start, rows; /* the rows of the data set to add */
  kf_dev_moments_plan plan;
  uint64_t width;  /* bytes of a row */
  uint64_t piece;  /* rows */
  uint64_t pieces; /* of a batch */
  size_t n_feeds;
  feed feeds[KF_MOST_DEVICES];
  pthread_mutex_t lock;
  pthread_cond_t changed;
  uint64_t failed; /* the lowest failed batch; UINT64_MAX: none */
  bool checked;    /* its error comes from the CPU */
  bool lost;       /* a device has failed */
  kf_err err;      /* of the device, or of the batch */
} job;

static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }
static uint64_t parts_of(uint64_t n, uint64_t part) { return (n + part - 1) / part; }

/* --- errors ----------------------------------------------------------------------------------- */

/* With the lock. */
static void note_failure(job *j, uint64_t batch, const kf_err *err, bool checked) {
  if (j->lost || batch >= j->failed) return;
  j->failed = batch;
  j->checked = checked;
  j->err = *err;
  pthread_cond_broadcast(&j->changed);
}

/* With the lock. */
static void note_lost(job *j, const kf_err *err) {
  if (!j->lost) j->err = *err;
  j->lost = true;
  pthread_cond_broadcast(&j->changed);
}

/* Checks rows as the CPU would. */
static kf_status check_rows(const job *j, uint64_t first, uint64_t n, const kf_batch *b,
                            kf_err *err) {
  const kf_stats *s = j->stats;
  KF_TRY(kf_data_fetch(j->data, j->ctx->kernels, first, n, b->rows, b->labels, b->norm2, err));
  for (uint64_t r = 0; !s->normalized && r < n; r++) {
    int32_t label = b->labels[r];
    if (j->labels != NULL && label != KF_LABEL_BAD) label = j->labels[first + r];
    if (label < 0) continue;
    KF_TRY(kf_check_magnitude(b->rows + r * s->dim, s->dim, s->exponent, j->data, first + r, err));
  }
  return KF_OK;
}

/* Checks a batch from row `from` on, in the steps of the CPU. */
static kf_status check_batch(const job *j, uint64_t batch, uint64_t from, kf_err *err) {
  uint64_t step = kf_stats_batch(j->plan.dim), start = j->start + batch * j->plan.batch;
  uint64_t first = start + from / step * step;
  uint64_t end = smaller(start + j->plan.batch, j->start + j->rows);
  kf_arena arena = {0};
  kf_batch b = {0};
  KF_TAKE(&arena, b.rows, step * j->plan.dim);
  KF_TAKE(&arena, b.labels, step);
  KF_TAKE(&arena, b.norm2, step);
  kf_status status = arena.failed ? kf_fail_memory(err) : KF_OK;
  for (; status == KF_OK && first < end; first += step)
    status = check_rows(j, first, smaller(step, end - first), &b, err);
  kf_arena_free(&arena);
  return status;
}

/* --- batches ---------------------------------------------------------------------------------- */

static uint64_t batch_count(const job *j) { return parts_of(j->rows, j->plan.batch); }

/* The number of rows of a batch; 0 after the last. */
static uint64_t batch_rows(const job *j, uint64_t batch) {
  uint64_t first = batch * j->plan.batch;
  return first < j->rows ? smaller(j->plan.batch, j->rows - first) : 0;
}

/* The number, among all, of batch `own` of a feed. */
static uint64_t batch_of(const job *j, const feed *f, uint64_t own) {
  return own * j->n_feeds + (uint64_t)(f - j->feeds);
}

/* Prepares the slot of a batch for reading. */
static void empty_slot(const job *j, feed *f, uint64_t own) {
  f->slots[own % KF_DEV_PUTS].left = parts_of(batch_rows(j, batch_of(j, f, own)), j->piece);
}

/* Sends the next full batches to the device. Called with the lock, which is released meanwhile. */
static void start_puts(job *j, feed *f) {
  kf_device *d = f->device;
  kf_err err;
  while (!f->busy && !j->lost && f->puts < f->waited + KF_DEV_PUTS) {
    const slot *s = &f->slots[f->puts % KF_DEV_PUTS];
    uint64_t n = batch_rows(j, batch_of(j, f, f->puts));
    if (n == 0 || s->left > 0) return;
    f->busy = true;
    pthread_mutex_unlock(&j->lock);
    pthread_mutex_lock(&d->lock);
    kf_dev_status status = d->api->moments_put(f->moments, s->rows, s->labels, (uint32_t)n);
    if (status != KF_DEV_OK) kf_device_fail(d, status, "statistics", &err);
    pthread_mutex_unlock(&d->lock);
    pthread_mutex_lock(&j->lock);
    f->busy = false;
    f->puts++;
    if (status != KF_DEV_OK) note_lost(j, &err);
    pthread_cond_broadcast(&j->changed);
  }
}

/* Waits for the oldest batch of a feed, which has one and is not busy. Called with the lock, which
 * is released meanwhile. */
static void wait_for_put(job *j, feed *f) {
  kf_device *d = f->device;
  uint64_t own = f->waited, batch = batch_of(j, f, own);
  uint32_t bad = 0;
  kf_err err;
  f->busy = true;
  pthread_mutex_unlock(&j->lock);
  pthread_mutex_lock(&d->lock);
  kf_dev_status status = d->api->moments_wait(f->moments, &bad);
  if (status != KF_DEV_OK) kf_device_fail(d, status, "statistics", &err);
  pthread_mutex_unlock(&d->lock);
  pthread_mutex_lock(&j->lock);
  f->busy = false;
  f->waited++;
  empty_slot(j, f, own + KF_DEV_PUTS);
  if (status != KF_DEV_OK) note_lost(j, &err);
  pthread_cond_broadcast(&j->changed);
  start_puts(j, f);
  if (status != KF_DEV_OK || bad == 0) return;
  pthread_mutex_unlock(&j->lock);
  bool wrong = check_batch(j, batch, bad - 1, &err) != KF_OK;
  pthread_mutex_lock(&j->lock);
  if (wrong) note_failure(j, batch, &err, true);
}

/* Waits for the slot of a batch. False if the batch is no longer needed. */
static bool wait_for_slot(job *j, feed *f, uint64_t own) {
  uint64_t batch = batch_of(j, f, own);
  pthread_mutex_lock(&j->lock);
  while (own >= f->waited + KF_DEV_PUTS && !j->lost && batch <= j->failed) {
    if (!f->busy && f->waited < f->puts)
      wait_for_put(j, f);
    else
      pthread_cond_wait(&j->changed, &j->lock);
  }
  bool needed = !j->lost && batch <= j->failed;
  pthread_mutex_unlock(&j->lock);
  return needed;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* Reads rows [first, first + n) into a slot, from its row `at` on. */
static kf_status read_rows(const job *j, const slot *s, uint64_t first, uint64_t n, uint64_t at,
                           kf_err *err) {
  const kf_data *data = j->data;
  const kf_kernels *kernels = j->ctx->kernels;
  void *rows = (char *)s->rows + at * j->width;
  int32_t *labels = s->labels + at;
  uint64_t ahead = first + parts_of(AHEAD_BYTES, j->width * j->piece) * j->piece;
  uint64_t last = j->start + j->rows;
  if (data->ahead != NULL && ahead < last) data->ahead(data, ahead, smaller(n, last - ahead));
  KF_TRY(kf_data_fetch(data, kernels, first, n, NULL, labels, NULL, err));
  if (j->labels != NULL) memcpy(labels, j->labels + first, n * sizeof *labels);
  if (data->fetch_raw != NULL) return data->fetch_raw(data, first, n, rows, err);
  return data->fetch(data, kernels, first, n, rows, NULL, err);
}

/* Estimates the rows done on all ranks, assuming they are as fast as this one. */
static uint64_t rows_done(const job *j, uint64_t done) {
  return (uint64_t)((kf_u128)done * j->data->rows / j->rows);
}

static kf_status run_piece(void *argument, size_t i, size_t worker, kf_err *err) {
  job *j = argument;
  uint64_t batch = i / j->pieces, own = batch / j->n_feeds, first = i * j->piece;
  uint64_t n = smaller(j->piece, j->rows - first);
  feed *f = &j->feeds[batch % j->n_feeds];
  slot *s = &f->slots[own % KF_DEV_PUTS];
  if (!wait_for_slot(j, f, own)) return kf_fail(err, KF_ERR_CANCELLED, "other rows have failed");
  kf_status status = read_rows(j, s, j->start + first, n, first % j->plan.batch, err);
  bool stopped = false;
  if (status == KF_OK) {
    status = kf_task_progress(j->ctx, worker, j->what, rows_done(j, first + n), j->data->rows, err);
    stopped = status != KF_OK;
  }
  pthread_mutex_lock(&j->lock);
  if (status != KF_OK)
    note_failure(j, batch, err, stopped);
  else if (--s->left == 0)
    start_puts(j, f);
  pthread_mutex_unlock(&j->lock);
  return status;
}

/* --- memory ----------------------------------------------------------------------------------- */

static void free_feed(feed *f) {
  kf_device *d = f->device;
  pthread_mutex_lock(&d->lock);
  for (size_t i = 0; i < KF_DEV_PUTS; i++) {
    slot *s = &f->slots[i];
    if (s->locked)
      d->api->host_free(d->dev, s->rows);
    else
      kf_free(s->rows);
    kf_free(s->labels);
    *s = (slot){0};
  }
  if (f->moments != NULL) d->api->moments_free(d->dev, f->moments);
  f->moments = NULL;
  pthread_mutex_unlock(&d->lock);
}

static void free_feeds(job *j) {
  for (size_t i = 0; i < j->n_feeds; i++) free_feed(&j->feeds[i]);
}

/* Plans pieces, and batches of about this many bytes, in whole steps of the CPU. */
static void plan_batch(job *j, uint64_t bytes) {
  uint64_t step = kf_stats_batch(j->plan.dim), rows = parts_of(j->rows, step) * step;
  uint64_t most = smaller(bytes / j->width, smaller(rows, MOST_BATCH));
  j->piece = smaller(PIECE_BYTES / j->width, most) / step * step;
  if (j->piece == 0) j->piece = step;
  j->pieces = most / j->piece;
  if (j->pieces == 0) j->pieces = 1;
  j->plan.batch = (uint32_t)(j->piece * j->pieces);
}

/* Memory that is not page-locked works too, only slower. */
static bool make_slots(const job *j, feed *f) {
  const kf_device *d = f->device;
  for (uint64_t i = 0; i < KF_DEV_PUTS && i * j->n_feeds < batch_count(j); i++) {
    slot *s = &f->slots[i];
    s->rows = d->api->host_alloc(d->dev, j->plan.batch * j->width);
    s->locked = s->rows != NULL;
    if (s->rows == NULL) s->rows = kf_alloc(j->plan.batch, j->width);
    s->labels = kf_alloc(j->plan.batch, sizeof *s->labels);
    if (s->rows == NULL || s->labels == NULL) return false;
    empty_slot(j, f, i);
  }
  return true;
}

/* *status: the failure of a device, if any. */
static kf_status make_feeds(job *j, kf_dev_status *status) {
  for (size_t i = 0; i < j->n_feeds; i++) {
    feed *f = &j->feeds[i];
    kf_device *d = f->device;
    pthread_mutex_lock(&d->lock);
    *status = d->api->moments_new(d->dev, &j->plan, &f->moments);
    bool made = *status == KF_DEV_OK && make_slots(j, f);
    if (*status != KF_DEV_OK) kf_device_fail(d, *status, "statistics", &j->err);
    pthread_mutex_unlock(&d->lock);
    if (*status != KF_DEV_OK) return j->err.status;
    if (!made) return kf_fail_memory(&j->err);
  }
  return KF_OK;
}

/* Uses smaller batches if a device has little memory left. */
static kf_status prepare(job *j) {
  for (uint64_t bytes = BATCH_BYTES;; bytes /= 4) {
    kf_dev_status status = KF_DEV_OK;
    plan_batch(j, bytes);
    if (make_feeds(j, &status) == KF_OK) return KF_OK;
    free_feeds(j);
    if (status != KF_DEV_MEMORY || j->plan.batch <= kf_stats_batch(j->plan.dim))
      return j->err.status;
  }
}

/* --- together --------------------------------------------------------------------------------- */

/* Waits for the devices and determines which error to report. */
static kf_status settle(job *j) {
  kf_err err;
  pthread_mutex_lock(&j->lock);
  for (size_t i = 0; i < j->n_feeds; i++)
    while (!j->lost && j->feeds[i].waited < j->feeds[i].puts) wait_for_put(j, &j->feeds[i]);
  pthread_mutex_unlock(&j->lock);
  if (j->lost || j->failed == UINT64_MAX) return j->lost ? j->err.status : KF_OK;
  if (!j->checked && check_batch(j, j->failed, 0, &err) != KF_OK) j->err = err;
  return j->err.status;
}

static kf_status feed_all(job *j) {
  uint64_t rows = j->data->rows;
  if (j->what != NULL) KF_TRY(kf_progress(j->ctx, j->what, 0, rows));
  kf_status status = kf_parallel(j->ctx, (size_t)parts_of(j->rows, j->piece), run_piece, j);
  kf_status settled = settle(j); /* more specific than the status of a cancelled task */
  if (settled != KF_OK && !j->lost) j->ctx->err = j->err;
  if (settled != KF_OK) return settled;
  if (status != KF_OK) return status;
  return j->what != NULL ? kf_progress(j->ctx, j->what, rows, rows) : KF_OK;
}

/* Adds the sums of all devices to `part`. */
static kf_status take_all(job *j, kf_stats *part) {
  for (size_t i = 0; i < j->n_feeds; i++) {
    const feed *f = &j->feeds[i];
    kf_device *d = f->device;
    pthread_mutex_lock(&d->lock);
    kf_dev_status status =
        d->api->moments_take(f->moments, (void *)part->moments, part->sums, part->counts);
    if (status != KF_DEV_OK) {
      kf_device_fail(d, status, "statistics", &j->err);
      j->lost = true;
    }
    pthread_mutex_unlock(&d->lock);
    if (j->lost) return j->err.status;
  }
  return KF_OK;
}

static kf_status add_on_devices(job *j, kf_stats *part) {
  kf_status status = prepare(j);
  j->lost = status != KF_OK; /* also if the host has no memory */
  if (status == KF_OK) status = feed_all(j);
  if (status == KF_OK) status = take_all(j, part);
  free_feeds(j);
  return status;
}

/* Leaves the statistics unchanged on failure. */
static kf_status add_or_nothing(job *j, kf_stats *stats) {
  kf_stats *part = NULL;
  if (stats->rows == 0) {
    kf_status status = add_on_devices(j, stats);
    if (status != KF_OK) kf_stats_clear(stats);
    return status;
  }
  KF_TRY(kf_stats_create(stats->dim, stats->n_classes, NULL, stats->normalized, stats->exponent,
                         &part, &j->ctx->err));
  kf_status status = add_on_devices(j, part);
  if (status == KF_OK) kf_stats_add_same(stats, part);
  kf_stats_free(part);
  return status;
}

static kf_dev_type type_of(const kf_data *data) {
  if (data->fetch_raw == NULL || data->raw_type == KF_TYPE_F32) return KF_DEV_F32;
  return data->raw_type == KF_TYPE_F16 ? KF_DEV_F16 : KF_DEV_BF16;
}

/* Whether using a device pays. Opens none. */
static bool pays(const kf_ctx *ctx, uint64_t rows, uint32_t dim) {
  uint64_t square = (uint64_t)dim * dim, products;
  uint64_t least = kf_devices_known(ctx) ? WHILE_STARTING : WHILE_OPENING;
  if (kf_devices_asked(ctx) || !kf_mul_u64(rows, square, &products)) return true;
  return products / ctx->threads >= least;
}

kf_status kf_stats_accumulate_on_device(kf_ctx *ctx, kf_stats *stats, const kf_data *data,
                                        kf_range rows, const int32_t *labels, const char *what,
                                        bool *done) {
  kf_devices *devices = NULL;
  *done = false;
  uint64_t n = rows.last - rows.first;
  if (n == 0 || !pays(ctx, n, data->dim)) return KF_OK;
  KF_TRY(kf_devices_for(ctx, &devices));
  if (devices->n == 0) return KF_OK;
  job *j = kf_alloc_zero(1, sizeof *j);
  if (j == NULL) return kf_fail_memory(&ctx->err);
  kf_dev_type type = type_of(data);
  *j = (job){.ctx = ctx, .stats = stats, .data = data, .labels = labels, .what = what};
  j->start = rows.first;
  j->rows = n;
  j->plan = (kf_dev_moments_plan){.dim = stats->dim,
                                  .n_classes = stats->n_classes,
                                  .type = type,
                                  .normalized = stats->normalized,
                                  .exponent = stats->exponent};
  j->width = (uint64_t)stats->dim * (type == KF_DEV_F32 ? 4 : 2);
  j->failed = UINT64_MAX;
  j->n_feeds = devices->n;
  for (size_t i = 0; i < j->n_feeds; i++) j->feeds[i].device = devices->device[i];
  pthread_mutex_init(&j->lock, NULL);
  pthread_cond_init(&j->changed, NULL);
  kf_status status = add_or_nothing(j, stats);
  *done = status == KF_OK;
  if (j->lost) status = kf_devices_failed(ctx, &j->err);
  pthread_cond_destroy(&j->changed);
  pthread_mutex_destroy(&j->lock);
  kf_free(j);
  return status;
}
