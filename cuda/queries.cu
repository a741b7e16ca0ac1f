/* queries.cu - queries on the device: centred, rounded to bytes with a factor of their own, and
 * their state. */
#include "search.cuh"
#include "table.h"

#include "canonical.cuh"

#include <float.h>
#include <math.h>
#include <new>

/* As in src/search/index.c. */
#define LONGEST 1e15
#define SLACK   (1 + 0x1p-20)
#define MOST    127

/* --- room ------------------------------------------------------------------------------------- */

#define MAXIMA_BYTES (256u << 20)

static uint64_t blocks_for(uint32_t warps, uint64_t hits) {
  return warps + (hits + KF_HIT_BLOCK - KF_HIT_ROOM - 1) / (KF_HIT_BLOCK - KF_HIT_ROOM);
}

static void take_all(kf_dev_queries *q, kf_cuda_room *r, uint32_t warps) {
  uint64_t most = q->most;
  kf_cuda_array(r, &q->centre, q->dim);
  kf_cuda_array(r, &q->x, most * q->dim);
  kf_cuda_array(r, &q->bytes, most * q->padded);
  kf_cuda_array(r, &q->digits, most * q->padded);
  kf_cuda_array(r, &q->picked, most * q->padded);
  kf_cuda_array(r, &q->known, most);
  kf_cuda_array(r, &q->chosen, most);
  kf_cuda_array(r, &q->next, most);
  kf_cuda_array(r, &q->bounds, most);
  kf_cuda_array(r, &q->left_out, most);
  kf_cuda_array(r, &q->host_least, most);
  q->n_blocks = blocks_for(warps, q->room);
  kf_cuda_array(r, &q->hits, (q->n_blocks + 1) * KF_HIT_BLOCK);
  kf_cuda_array(r, &q->masks, q->padded <= KF_COARSE_MOST ? (q->n_blocks + 1) * KF_HIT_BLOCK : 0);
  kf_cuda_array(r, &q->filled, q->n_blocks + 1);
  kf_cuda_array(r, &q->counters, KF_N_COUNTERS);
  kf_cuda_array(r, &q->count, most + 1);
  kf_cuda_array(r, &q->start, most + 1);
  kf_cuda_array(r, &q->list, q->room);
  q->maxima_room = most * 1024 * 4 < MAXIMA_BYTES ? most * 1024 : MAXIMA_BYTES / 4;
  if (q->maxima_room < KF_MOST_PARTS) q->maxima_room = KF_MOST_PARTS;
  kf_cuda_array(r, &q->maxima, q->maxima_room);
  kf_cuda_array(r, &q->best_rows, most * q->best);
}

uint32_t kf_pass_warps(const kf_dev *dev) {
  return (uint32_t)(dev != NULL ? dev->processors : 160) * KF_PASS_WARPS;
}

static void describe(kf_dev_queries *q, const kf_dev_space *space, uint32_t most, uint32_t best,
                     uint64_t hits) {
  q->metric = space->metric;
  q->dim = space->dim;
  q->padded = space->padded;
  q->centre_length = space->centre_length;
  q->longest = space->longest;
  q->least_factor = space->least_factor;
  q->bound_scale = space->bound_scale;
  q->rounding_share = space->rounding_share;
  q->most = most;
  q->best = best;
  q->room = hits > 0 ? hits : 1;
}

uint64_t kf_cuda_queries_bytes(const kf_dev_space *space, uint32_t most, uint32_t best,
                               uint64_t hits) {
  kf_dev_queries q = {};
  kf_cuda_room r = {NULL, 0};
  describe(&q, space, most, best, hits);
  take_all(&q, &r, KF_SCANS * kf_pass_warps(NULL));
  return r.bytes;
}

void kf_cuda_queries_free(kf_dev *dev, kf_dev_queries *q) {
  if (q == NULL) return;
  cudaSetDevice(dev->number);
  kf_cuda_release(&q->arena);
  delete q;
}

kf_dev_status kf_cuda_queries_new(kf_dev *dev, const kf_dev_space *space, uint32_t most,
                                  uint32_t best, uint64_t hits, kf_dev_queries **out) {
  *out = NULL;
  if (most < 1 || best < 1 || best > KF_CUDA_MOST_BEST || space->padded % KF_PAD != 0 ||
      hits >= UINT32_MAX)
    return kf_cuda_refuse(dev, KF_DEV_FAILED, "room for queries of an impossible size");
  KF_CUDA(dev, cudaSetDevice(dev->number), "using");
  kf_dev_queries *q = new (std::nothrow) kf_dev_queries();
  if (q == NULL) return kf_cuda_refuse(dev, KF_DEV_FAILED, "out of memory");
  q->dev = dev;
  describe(q, space, most, best, hits);
  kf_cuda_room r = {&q->arena, 0};
  take_all(q, &r, KF_SCANS * kf_pass_warps(dev));
  cudaError_t error = q->arena.error;
  if (error == cudaSuccess)
    error = cudaMemcpyAsync(q->centre, space->centre, q->dim * sizeof *q->centre, cudaMemcpyDefault,
                            dev->stream);
  if (error == cudaSuccess) error = cudaStreamSynchronize(dev->stream);
  if (error != cudaSuccess) {
    kf_dev_status status = kf_cuda_fail(dev, error, "making room for queries");
    kf_cuda_queries_free(dev, q);
    return status;
  }
  *out = q;
  return KF_DEV_OK;
}

/* --- taking queries --------------------------------------------------------------------------- */

typedef struct start_args {
  const float *x;
  const double *centre;
  const int64_t *leave_out; /* or NULL */
  int8_t *bytes, *digits;
  kf_query_known *known;
  uint32_t *chosen;
  uint32_t first, n, dim, padded;
  kf_dev_metric metric;
  double centre_length, least_factor, rounding_share;
} start_args;

__device__ __forceinline__ float up(double x) {
  float y = (float)(x * SLACK);
  return y < FLT_MAX ? nextafterf(y, INFINITY) : INFINITY;
}

/* kf_query_start, by eight threads; p is the centred query. Returns the largest |p_i|. */
__device__ __forceinline__ double start_query(const start_args &a, const float *x, double *scale,
                                              kf_query_known *k) {
  const int lane = threadIdx.x & 7;
  const bool euclidean = a.metric == KF_DEV_EUCLIDEAN;
  double sum = 0, length2 = 0, base = 0, largest = 0;
  for (uint32_t i = lane; i < a.dim; i += 8) sum += (double)x[i] * (double)x[i];
  k->norm2 = kf_add_lanes(sum);
  *scale = a.metric != KF_DEV_COSINE ? 1 : k->norm2 > 0 ? 1 / sqrt(k->norm2) : 0;
  for (uint32_t i = lane; i < a.dim; i += 8) {
    double q = (double)x[i] * *scale, p = q - a.centre[i];
    length2 += p * p;
    base += q * a.centre[i];
    largest = fmax(largest, fabs(p));
  }
  length2 = kf_add_lanes(length2);
  k->base = euclidean ? length2 : kf_add_lanes(base);
  k->length = sqrt(length2) * SLACK + (euclidean ? 0 : 2 * a.centre_length);
  return k->length < LONGEST ? kf_largest_of_lanes(largest) : INFINITY;
}

/* kf_query_factor and kf_query_round. The second digit halves the step 254 times. */
__device__ __forceinline__ void round_query(const start_args &a, uint32_t query, const float *x,
                                            double scale, double largest, kf_query_known *k) {
  const int lane = threadIdx.x & 7;
  int8_t *bytes = a.bytes + (uint64_t)query * a.padded;
  int8_t *digits = a.digits + (uint64_t)query * a.padded;
  float factor = (float)(largest / MOST * (1 + 0x1p-22));
  if (!(factor > FLT_MIN)) factor = 0;
  if ((double)factor < a.least_factor) factor = up(a.least_factor);
  bool fits = factor > 0 ? largest < (MOST + 0.4) * (double)factor : largest < INFINITY;
  double inverse = fits && factor > 0 ? 1 / (double)factor : 0;
  double error2 = 0, fine_error2 = 0, bytes2 = 0, fine2 = 0;
  for (uint32_t i = lane; i < a.padded; i += 8) {
    double p = i < a.dim ? (double)x[i] * scale - a.centre[i] : 0;
    double b = fits ? rint(p * inverse) : 0, e = p - (double)factor * b;
    double c = fmin(fmax(rint(e * inverse * KF_DIGIT), -127.), 127.);
    double whole = b + c / KF_DIGIT, left = p - (double)factor * whole;
    bytes[i] = (int8_t)b;
    digits[i] = (int8_t)c;
    error2 += e * e;
    fine_error2 += left * left;
    bytes2 += b * b;
    fine2 += whole * whole;
  }
  double error = sqrt(kf_add_lanes(error2)) * SLACK;
  double fine_error = sqrt(kf_add_lanes(fine_error2)) * SLACK;
  k->by_error = (double)factor * sqrt(kf_add_lanes(bytes2)) * (SLACK * SLACK);
  k->fine_by_error = (double)factor * sqrt(kf_add_lanes(fine2)) * (SLACK * SLACK);
  bool euclidean = a.metric == KF_DEV_EUCLIDEAN;
  double share = a.rounding_share * k->length;
  k->fixed = euclidean ? 2 * share * k->length : share * a.centre_length;
  k->by_length = error * SLACK + (euclidean ? 4 * share : share);
  /* 2^-50: for the value of 1, which is rounded here */
  k->fine_by_length = (fine_error + 0x1p-50 * k->length) * SLACK + (euclidean ? 4 * share : share);
  k->factor = factor;
  if (fits) return;
  k->by_length = k->by_error = k->fixed = k->fine_by_length = k->fine_by_error = INFINITY;
  k->factor = 1;
}

__global__ void __launch_bounds__(128) start_queries(const start_args a) {
  uint32_t query = a.first + (blockIdx.x * blockDim.x + threadIdx.x) / 8;
  if (query >= a.first + a.n) return; /* all eight of a group */
  const float *x = a.x + (uint64_t)query * a.dim;
  kf_query_known k;
  double scale;
  double largest = start_query(a, x, &scale, &k);
  round_query(a, query, x, scale, largest, &k);
  k.least = -INFINITY;
  k.n_best = 0;
  k.leave_out = a.leave_out != NULL ? a.leave_out[query] : -1;
  if ((threadIdx.x & 7) != 0) return;
  a.known[query] = k;
  a.chosen[query] = query;
}

#define LATE_BYTES                                                                                 \
  (16u << 20) /* bytes of queries from which on most are copied while the first are searched */
#define EARLY 6912u /* queries copied first: a multiple of all strips */

static kf_dev_status start_some(kf_dev_queries *q, uint32_t first, uint32_t n) {
  kf_dev *dev = q->dev;
  start_args a = {q->x,
                  q->centre,
                  q->leaves_out ? q->left_out : NULL,
                  q->bytes,
                  q->digits,
                  q->known,
                  q->chosen,
                  first,
                  n,
                  q->dim,
                  q->padded,
                  q->metric,
                  q->centre_length,
                  q->least_factor,
                  q->rounding_share};
  start_queries<<<(n + 15) / 16, 128, 0, dev->stream>>>(a);
  KF_CUDA(dev, cudaGetLastError(), "rounding queries");
  return KF_DEV_OK;
}

static kf_dev_status copy_some(kf_dev_queries *q, const float *x, uint32_t first, uint32_t n,
                               cudaStream_t stream) {
  uint64_t at = (uint64_t)first * q->dim;
  KF_CUDA(q->dev,
          cudaMemcpyAsync(q->x + at, x + at, (uint64_t)n * q->dim * sizeof *x, cudaMemcpyDefault,
                          stream),
          "copying queries");
  return KF_DEV_OK;
}

kf_dev_status kf_cuda_queries_put(kf_dev_queries *q, const float *x, uint32_t n,
                                  const int64_t *leave_out) {
  kf_dev *dev = q->dev;
  const char *what = "copying queries";
  if (n > q->most) return kf_cuda_refuse(dev, KF_DEV_FAILED, "more queries than there is room for");
  KF_CUDA(dev, cudaSetDevice(dev->number), "using");
  q->n = q->n_chosen = q->late = n;
  q->all = true;
  q->gathered = q->guess_late = false;
  q->guessed = 0;
  q->n_hits = 0;
  q->leaves_out = leave_out != NULL;
  if (n == 0) return KF_DEV_OK;
  if (q->leaves_out)
    KF_CUDA(dev,
            cudaMemcpyAsync(q->left_out, leave_out, n * sizeof *leave_out, cudaMemcpyDefault,
                            dev->stream),
            what);
  if ((uint64_t)n * q->dim * sizeof *x >= LATE_BYTES && n >= 2 * EARLY) q->late = EARLY;
  KF_CUDA_TRY(copy_some(q, x, 0, q->late, dev->stream));
  if (q->late < n) {
    KF_CUDA(dev, cudaEventRecord(dev->free_again, dev->stream), what);
    KF_CUDA(dev, cudaStreamWaitEvent(dev->copies, dev->free_again, 0), what);
    KF_CUDA_TRY(copy_some(q, x, q->late, n - q->late, dev->copies));
    KF_CUDA(dev, cudaEventRecord(dev->arrived, dev->copies), what);
  }
  return start_some(q, 0, q->late);
}

kf_dev_status kf_cuda_catch_up(kf_dev_queries *q) {
  kf_dev *dev = q->dev;
  uint32_t first = q->late;
  if (first >= q->n) return KF_DEV_OK;
  q->late = q->n;
  KF_CUDA(dev, cudaStreamWaitEvent(dev->stream, dev->arrived, 0), "copying queries");
  KF_CUDA_TRY(start_some(q, first, q->n - first));
  if (!q->guess_late) return KF_DEV_OK;
  q->guess_late = false;
  return kf_cuda_guess_some(q, q->late_rows, q->late_position, 0, first, q->n - first);
}

/* --- which queries take part ------------------------------------------------------------------ */

/* One block: keeps, in order, the chosen queries for which wanted[i] > 0. */
__global__ void __launch_bounds__(1024)
    keep_some(const uint32_t *chosen, const uint32_t *wanted, uint32_t n, uint32_t *out,
              unsigned long long *left) {
  unsigned long long done = 0;
  for (uint32_t base = 0; base < n; base += KF_TAKEN) {
    const uint32_t first = base + threadIdx.x * KF_EACH;
    unsigned long long sum = 0, all;
    bool keep[KF_EACH];
#pragma unroll
    for (uint32_t j = 0; j < KF_EACH; j++) sum += keep[j] = first + j < n && wanted[first + j] > 0;
    unsigned long long at = done + kf_sum_before(sum, &all);
#pragma unroll
    for (uint32_t j = 0; j < KF_EACH; j++)
      if (keep[j]) out[at++] = chosen[first + j];
    done += all;
  }
  if (threadIdx.x == 0) *left = done;
}

typedef struct settle_args {
  const uint32_t *chosen;
  kf_query_known *known;
  const kf_dev_scored *best_rows;
  uint32_t *wanted;
  uint32_t n, best, k;
  kf_dev_metric metric;
  double slack, rounding_share, longest, centre_length;
} settle_args;

__global__ void settle_queries(const settle_args a) {
  uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= a.n) return;
  kf_query_known *known = &a.known[a.chosen[i]];
  double bar = -INFINITY;
  if (known->n_best >= a.k) {
    double score = a.best_rows[(uint64_t)a.chosen[i] * a.best + a.k - 1].score;
    double length = known->length, error;
    if (a.metric == KF_DEV_EUCLIDEAN) {
      error = 2 * (length + sqrt(score));
      error = 2 * a.rounding_share * error * error;
    } else {
      double longest = a.metric == KF_DEV_COSINE ? 2 + a.centre_length : a.longest;
      error = a.rounding_share * length * (longest + a.centre_length);
    }
    bar = kf_key_of(a.metric, known->base, score) - a.slack * error;
    if (bar >= known->least) {
      a.wanted[i] = 0;
      return;
    }
  }
  a.wanted[i] = 1;
  known->least = bar;
  known->n_best = 0;
}

kf_dev_status kf_cuda_settle(kf_dev_queries *q, uint32_t k, double slack, uint32_t *left) {
  kf_dev *dev = q->dev;
  const char *what = "settling queries";
  *left = 0;
  if (q->n_chosen == 0) return KF_DEV_OK;
  if (k > q->best) return kf_cuda_refuse(dev, KF_DEV_FAILED, "more best rows than are kept");
  KF_CUDA(dev, cudaSetDevice(dev->number), "using");
  KF_CUDA_TRY(kf_cuda_catch_up(q));
  settle_args a = {q->chosen, q->known, q->best_rows,      q->count,   q->n_chosen,     q->best, k,
                   q->metric, slack,    q->rounding_share, q->longest, q->centre_length};
  settle_queries<<<(a.n + 127) / 128, 128, 0, dev->stream>>>(a);
  keep_some<<<1, 1024, 0, dev->stream>>>(q->chosen, q->count, a.n, q->next, q->counters + KF_LEFT);
  KF_CUDA(dev, cudaGetLastError(), what);
  unsigned long long *answer = (unsigned long long *)dev->answer;
  KF_CUDA(dev,
          cudaMemcpyAsync(answer, q->counters + KF_LEFT, sizeof *answer, cudaMemcpyDeviceToHost,
                          dev->stream),
          what);
  KF_CUDA(dev, cudaStreamSynchronize(dev->stream), what);
  uint32_t *chosen = q->chosen;
  q->chosen = q->next;
  q->next = chosen;
  q->all = q->all && *answer == q->n_chosen;
  q->guessed = 0;
  q->gathered = false;
  q->n_chosen = *left = (uint32_t)*answer;
  return KF_DEV_OK;
}

__global__ void set_least(const uint32_t *chosen, const double *least, uint32_t n,
                          kf_query_known *known) {
  uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) known[chosen[i]].least = least[i];
}

__global__ void count_up(uint32_t *to, uint32_t n) {
  uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] = i;
}

kf_dev_status kf_cuda_choose(kf_dev_queries *q, const uint32_t *numbers, uint32_t n,
                             const double *least) {
  kf_dev *dev = q->dev;
  const char *what = "choosing queries";
  KF_CUDA(dev, cudaSetDevice(dev->number), "using");
  KF_CUDA_TRY(kf_cuda_catch_up(q));
  q->all = n == UINT32_MAX;
  q->guessed = 0;
  q->gathered = false;
  q->n_chosen = q->all ? q->n : n;
  if (q->n_chosen == 0) return KF_DEV_OK;
  if (q->n_chosen > q->n) return kf_cuda_refuse(dev, KF_DEV_FAILED, "more queries than there are");
  unsigned blocks = (q->n_chosen + 127) / 128;
  if (q->all)
    count_up<<<blocks, 128, 0, dev->stream>>>(q->chosen, q->n);
  else
    KF_CUDA(
        dev,
        cudaMemcpyAsync(q->chosen, numbers, n * sizeof *numbers, cudaMemcpyDefault, dev->stream),
        what);
  if (least != NULL) {
    KF_CUDA(dev,
            cudaMemcpyAsync(q->host_least, least, q->n_chosen * sizeof *least, cudaMemcpyDefault,
                            dev->stream),
            what);
    set_least<<<blocks, 128, 0, dev->stream>>>(q->chosen, q->host_least, q->n_chosen, q->known);
  }
  KF_CUDA(dev, cudaGetLastError(), what);
  return KF_DEV_OK;
}

__global__ void get_least(const uint32_t *chosen, const kf_query_known *known, uint32_t n,
                          double *least) {
  uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) least[i] = known[chosen[i]].least;
}

kf_dev_status kf_cuda_chosen(kf_dev_queries *q, uint32_t *numbers, double *least, uint32_t *n) {
  kf_dev *dev = q->dev;
  const char *what = "reading which queries are chosen";
  *n = q->n_chosen;
  if (q->n_chosen == 0) return KF_DEV_OK;
  KF_CUDA(dev, cudaSetDevice(dev->number), "using");
  KF_CUDA_TRY(kf_cuda_catch_up(q));
  if (numbers != NULL)
    KF_CUDA(dev,
            cudaMemcpyAsync(numbers, q->chosen, q->n_chosen * sizeof *numbers,
                            cudaMemcpyDeviceToHost, dev->stream),
            what);
  if (least != NULL) {
    get_least<<<(q->n_chosen + 127) / 128, 128, 0, dev->stream>>>(q->chosen, q->known, q->n_chosen,
                                                                  q->host_least);
    KF_CUDA(dev, cudaGetLastError(), what);
    KF_CUDA(dev,
            cudaMemcpyAsync(least, q->host_least, q->n_chosen * sizeof *least,
                            cudaMemcpyDeviceToHost, dev->stream),
            what);
  }
  KF_CUDA(dev, cudaStreamSynchronize(dev->stream), what);
  return KF_DEV_OK;
}

/* --- answers ---------------------------------------------------------------------------------- */

__global__ void end_lists(const kf_query_known *known, uint64_t n, uint32_t best,
                          kf_dev_scored *rows) {
  uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n * best || i % best < known[i / best].n_best) return;
  rows[i].score = INFINITY;
  rows[i].row = -1;
}

kf_dev_status kf_cuda_answers(kf_dev_queries *q, uint32_t first, uint32_t n, kf_dev_scored *best) {
  kf_dev *dev = q->dev;
  const char *what = "reading answers";
  if (first > q->n || n > q->n - first)
    return kf_cuda_refuse(dev, KF_DEV_FAILED, "answers of more queries than there are");
  uint64_t places = (uint64_t)n * q->best;
  kf_dev_scored *from = q->best_rows + (uint64_t)first * q->best;
  if (places == 0) return KF_DEV_OK;
  KF_CUDA(dev, cudaSetDevice(dev->number), "using");
  KF_CUDA_TRY(kf_cuda_catch_up(q));
  end_lists<<<(unsigned)((places + 255) / 256), 256, 0, dev->stream>>>(q->known + first, n, q->best,
                                                                       from);
  KF_CUDA(dev, cudaGetLastError(), what);
  KF_CUDA(dev,
          cudaMemcpyAsync(best, from, places * sizeof *best, cudaMemcpyDeviceToHost, dev->stream),
          what);
  KF_CUDA(dev, cudaStreamSynchronize(dev->stream), what);
  return KF_DEV_OK;
}
