/* products.c - large products of matrices, on devices where that pays, otherwise on the CPU, with the same
 * bits.
 *
 * The right factor is placed on the devices once, line by line, and serves many left ones: all rows that
 * are left out at one lambda meet the same class means. Threads hand left factors to devices in slots
 * (slots.c), some rows of the product at a time. The slots, with their page-locked memory, belong to the
 * context, because a fit has many products and one after the other. */
#include "device/device.h"

#include <string.h>

/* Products of numbers, for each thread of the CPU: a few milliseconds; what it takes to make room, with
 * page-locked memory; and to open a device (measured with bench/cuda/worth.c). */
#define WORTH_A_PUT   0x1p25
#define WORTH_A_COPY  0x1p29
#define WORTH_A_START 0x1p32
/* Without being asked, only devices whose f64 is not much slower than their f32. */
#define MOST_RATIO 4u

/* A slot is for this many bytes of a, and of c, times the rows of slots.c. */
#define IN_BYTES  2048u
#define OUT_BYTES 4096u
#define SMALL     64u /* rows that may take more than their share of memory: the rest is for matrices */
#define MATRICES  4u
#define LINES     ((size_t)1 << 21) /* bytes of a matrix that are copied at a time */

/* What a slot has to do, at the beginning of its memory: lines of a matrix, or rows of a product. */
typedef struct order {
  const kf_matrix *matrix;
  bool lines;
  uint32_t first, n;
} order;
#define ORDER 64u /* bytes; a is aligned */
_Static_assert(sizeof(order) <= ORDER, "an order fits");

static size_t size_of(const kf_matrix *m) {
  return m->b_f32 != NULL ? sizeof(float) : sizeof(double);
}

/* --- the device ------------------------------------------------------------------------------- */

static bool offered(const kf_device *device, bool asked) {
  return device->api->product_new != NULL && (asked || device->info.f64_ratio <= MOST_RATIO);
}

static kf_dev_status make(const kf_device *device, const void *argument, uint32_t batch,
                          uint32_t slots, void **object) {
  (void)argument;
  uint64_t left = 0;
  kf_dev_product_plan plan = {
      .slots = slots, .in = (uint64_t)batch * IN_BYTES - ORDER, .out = (uint64_t)batch * OUT_BYTES};
  kf_dev_product *made = NULL;
  kf_dev_status status = device->api->memory_left(device->dev, &left);
  if (status != KF_DEV_OK) return status;
  if (batch > SMALL && device->api->product_bytes(&plan) > left / MATRICES) return KF_DEV_MEMORY;
  status = device->api->product_new(device->dev, &plan, &made);
  *object = made;
  return status;
}

static void drop(const kf_device *device, void *object) {
  device->api->product_free(device->dev, object);
}

static kf_dev_status put(const kf_slot *slot, uint32_t n) {
  const order *o = slot->in;
  const void *in = (const char *)slot->in + ORDER;
  const kf_device_api *api = slot->device->api;
  void *on = o->matrix->on[slot->place];
  (void)n;
  if (o->lines) return api->matrix_put(slot->object, slot->number, on, o->first, o->n, in);
  return api->product_put(slot->object, slot->number, on, in, o->n, slot->out);
}

static kf_dev_status wait_for(const kf_slot *slot, bool *odd, char *message, size_t size) {
  *odd = false;
  return slot->device->api->product_wait(slot->object, slot->number, message, size);
}

static const kf_slots_kind kind = {.what = "products",
                                   .offered = offered,
                                   .make = make,
                                   .drop = drop,
                                   .put = put,
                                   .wait = wait_for};

static void free_owner(kf_slots_owner *owner) {
  kf_slots_owner_clear(owner);
  kf_free(owner);
}

kf_status kf_products_begin(kf_ctx *ctx, double work, kf_products *out) {
  *out = (kf_products){.ctx = ctx};
  if (ctx->products == NULL) {
    ctx->products = kf_alloc(1, sizeof *ctx->products);
    if (ctx->products == NULL) return kf_fail_memory(&ctx->err);
    kf_slots_owner_make(ctx->products);
    ctx->free_products = free_owner;
  }
  kf_slots_plan plan = {.kind = &kind,
                        .rows = UINT64_MAX,
                        .in = IN_BYTES,
                        .out = OUT_BYTES,
                        .work = work,
                        .worth_a_put = WORTH_A_PUT,
                        .worth_a_copy = WORTH_A_COPY,
                        .worth_a_start = WORTH_A_START,
                        .alone = true};
  return kf_slots_begin(ctx, ctx->products, &plan, &out->use);
}

static void take_away(kf_products *p, kf_matrix *matrix) {
  for (uint32_t i = 0; i < kf_slots_devices(&p->use); i++) {
    kf_device *d = kf_slots_device(&p->use, i);
    if (matrix->on[i] == NULL) continue;
    pthread_mutex_lock(&d->lock);
    d->api->matrix_free(d->dev, matrix->on[i]);
    pthread_mutex_unlock(&d->lock);
    matrix->on[i] = NULL;
  }
}

kf_status kf_products_end(kf_products *p, kf_status status) {
  while (p->n_placed > 0) take_away(p, p->placed[--p->n_placed]);
  return kf_slots_end(p->ctx, &p->use, status);
}

/* --- matrices --------------------------------------------------------------------------------- */

/* A matrix on its way to devices, by stretches of lines; line `depth` is start. */
typedef struct placing {
  const kf_products *p;
  const kf_matrix *matrix;
  size_t step, stretches;
} placing;

/* Lines of a task. */
typedef struct some_lines {
  const kf_matrix *matrix;
  size_t first, n;
} some_lines;

static void fill_lines(void *argument, const kf_slot *slot, uint32_t n) {
  (void)n;
  const some_lines *s = argument;
  const kf_matrix *m = s->matrix;
  size_t line = m->n * size_of(m), whole = s->first + s->n > m->depth ? m->depth - s->first : s->n;
  const char *b = m->b_f32 != NULL ? (const char *)m->b_f32 : (const char *)m->b;
  char *to = (char *)slot->in + ORDER;
  *(order *)slot->in =
      (order){.matrix = m, .lines = true, .first = (uint32_t)s->first, .n = (uint32_t)s->n};
  if (whole > 0) memcpy(to, b + s->first * line, whole * line);
  if (whole == s->n) return;
  if (m->start != NULL)
    memcpy(to + whole * line, m->start, line);
  else
    memset(to + whole * line, 0, line);
}

static void nothing(void *argument, const kf_slot *slot, uint32_t n) {
  (void)argument;
  (void)slot;
  (void)n;
}

static kf_status place_lines(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  const placing *j = argument;
  size_t first = i % j->stretches * j->step, left = j->matrix->depth + 1 - first;
  some_lines s = {.matrix = j->matrix, .first = first, .n = left < j->step ? left : j->step};
  bool done;
  return kf_slots_run_on(&j->p->use, (uint32_t)(i / j->stretches), 1, fill_lines, nothing, &s,
                         &done, err);
}

/* Room for it on every device. */
static kf_status take_room(kf_products *p, kf_matrix *m) {
  kf_dev_matrix_plan plan = {
      .depth = (uint32_t)m->depth, .n = (uint32_t)m->n, .narrow = m->b_f32 != NULL};
  kf_err failure = {0};
  p->placed[p->n_placed++] = m;
  for (uint32_t i = 0; i < kf_slots_devices(&p->use) && failure.status == KF_OK; i++) {
    kf_device *d = kf_slots_device(&p->use, i);
    kf_dev_matrix *made = NULL;
    pthread_mutex_lock(&d->lock);
    kf_dev_status status = d->api->matrix_new(d->dev, &plan, &made);
    if (status != KF_DEV_OK) kf_device_fail(d, status, kind.what, &failure);
    pthread_mutex_unlock(&d->lock);
    m->on[i] = made;
  }
  if (failure.status == KF_OK) return KF_OK;
  take_away(p, m);
  return kf_slots_fail(&p->use, &failure, &p->ctx->err);
}

static size_t in_bytes(const kf_products *p) {
  return (size_t)kf_slots_batch(&p->use) * IN_BYTES - ORDER;
}

static size_t out_bytes(const kf_products *p) {
  return (size_t)kf_slots_batch(&p->use) * OUT_BYTES;
}

kf_status kf_matrix_place(kf_products *p, kf_matrix *matrix) {
  size_t line = matrix->n * size_of(matrix);
  memset(matrix->on, 0, sizeof matrix->on);
  if (p->use.slots == NULL || p->n_placed == KF_MOST_MATRICES || matrix->n == 0 ||
      line > in_bytes(p) || matrix->depth >= UINT32_MAX)
    return KF_OK;
  KF_TRY(take_room(p, matrix));
  if (matrix->on[0] == NULL) return KF_OK;
  size_t together = (in_bytes(p) < LINES ? in_bytes(p) : LINES) / line;
  placing j = {.p = p, .matrix = matrix, .step = together > 0 ? together : 1};
  j.stretches = matrix->depth / j.step + 1;
  return kf_parallel(p->ctx, j.stretches * kf_slots_devices(&p->use), place_lines, &j);
}

/* --- products --------------------------------------------------------------------------------- */

/* Rows of a product, of one put. */
typedef struct some_rows {
  const kf_matrix *matrix;
  const char *a;
  size_t lda, m;
  char *c;
} some_rows;

static void fill_rows(void *argument, const kf_slot *slot, uint32_t n) {
  (void)n;
  const some_rows *r = argument;
  size_t size = size_of(r->matrix), depth = r->matrix->depth;
  char *to = (char *)slot->in + ORDER;
  *(order *)slot->in = (order){.matrix = r->matrix, .n = (uint32_t)r->m};
  if (r->lda == r->m)
    memcpy(to, r->a, depth * r->m * size);
  else
    for (size_t k = 0; k < depth; k++)
      memcpy(to + k * r->m * size, r->a + k * r->lda * size, r->m * size);
}

static void take_rows(void *argument, const kf_slot *slot, uint32_t n) {
  (void)n;
  const some_rows *r = argument;
  memcpy(r->c, slot->out, r->m * r->matrix->n * size_of(r->matrix));
}

static void multiply(const kf_kernels *kernels, const some_rows *r) {
  const kf_matrix *b = r->matrix;
  size_t n = b->n;
  if (b->b_f32 != NULL) {
    float *c = (float *)(void *)r->c;
    memset(c, 0, r->m * n * sizeof *c);
    kernels->gemm_tn_f32((const float *)(const void *)r->a, r->lda, b->b_f32, n, c, n, r->m, n,
                         b->depth);
    return;
  }
  double *c = (double *)(void *)r->c;
  if (b->start == NULL) memset(c, 0, r->m * n * sizeof *c);
  for (size_t i = 0; b->start != NULL && i < r->m; i++) memcpy(c + i * n, b->start, n * sizeof *c);
  kernels->gemm_tn((const double *)(const void *)r->a, r->lda, b->b, n, c, n, r->m, n, b->depth);
}

/* Rows of c that fit a slot. */
static size_t rows_of_put(const kf_products *p, const kf_matrix *matrix) {
  size_t size = size_of(matrix), in = matrix->depth * size, out = matrix->n * size;
  size_t most = out_bytes(p) / out;
  if (in > 0 && in_bytes(p) / in < most) most = in_bytes(p) / in;
  return most;
}

kf_status kf_matrix_times(const kf_products *p, const kf_matrix *matrix, const void *a, size_t lda,
                          size_t m, void *c, kf_err *err) {
  size_t size = size_of(matrix), step = m, some;
  bool placed = p->use.slots != NULL && matrix->on[0] != NULL;
  if (placed) step = rows_of_put(p, matrix);
  if (step == 0) placed = false;
  for (size_t i = 0; i < m; i += some) {
    some = placed && step < m - i ? step : m - i;
    some_rows r = {.matrix = matrix,
                   .a = (const char *)a + i * size,
                   .lda = lda,
                   .m = some,
                   .c = (char *)c + i * matrix->n * size};
    bool done = false;
    if (placed) KF_TRY(kf_slots_run(&p->use, 1, fill_rows, take_rows, &r, &done, err));
    if (!done) multiply(p->ctx->kernels, &r);
  }
  return KF_OK;
}
