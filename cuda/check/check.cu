/* check.cu - checks the plug-in alone, on a device: survivors and answers against plain loops, on
 * small sets of every width, metric and type; and timings on large sets.
 *
 *     check [ROWS]                     small sets; exits with 1 if anything is wrong
 *     check few                        fewer of them, for slow tools
 *     check maps                       maps and the sums of softmax alone, and their times
 *     check time D [N [Q [K [KIND]]]]  times, and a sample against brute force. KIND: 0 normal,
 *                                      1 clusters, 2 outliers, 3 copies
 *
 * A last word `mma` selects the pass of devices before Hopper. Without a device the exit status is
 * 77. */
#include "../search.cuh"
#include "../table.h"
#include "check_maps.h"

#include <algorithm>
#include <chrono>
#include <float.h>
#include <math.h>
#include <set>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vector>

extern "C" const kf_device_api *kf_device_plugin(uint32_t version);

static const kf_device_api *api;
static kf_dev *dev;
static int wrong;

static void must(kf_dev_status status, const char *what) {
  if (status == KF_DEV_OK) return;
  printf("%s: %d, %s\n", what, status, api->message(dev));
  exit(1);
}
#define MUST(call) must(call, #call)

static double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/* --- numbers ---------------------------------------------------------------------------------- */

__host__ __device__ static uint64_t mix(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdull;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ull;
  return x ^ x >> 33;
}
/* Roughly normal: the sum of twelve uniform numbers. */
__host__ __device__ static float normal(uint64_t seed) {
  float sum = 0;
  for (int i = 0; i < 3; i++) {
    uint64_t x = mix(seed * 3 + i + 1);
    for (int j = 0; j < 4; j++) sum += (float)(x >> 16 * j & 0xffff) * (1.0f / 65536);
  }
  return sum - 6;
}

/* Row i of a set. kind: 0 normal, 1 clusters, 2 outliers, 3 copies. */
__host__ __device__ static float number(uint64_t seed, int kind, uint64_t i, uint32_t j,
                                        uint32_t dim) {
  if (kind == 3) i = i % 1000 == 0 ? i : i / 7 * 7;
  float x = normal(seed + i * dim + j);
  if (kind == 1) x = 0.5f * x + normal(77 + mix(i + seed) % 1000 * dim + j) + 0.3f;
  if (kind == 2 && mix(i) % 5000 == 0) x = j % 37 == mix(i) % 37 ? x * 40 : x;
  return x;
}

static double add_lanes(const double *l) {
  return ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]));
}
template <class X, class Y> static double dot(const X *x, const Y *y, uint32_t n) {
  double lane[8] = {0};
  for (uint32_t i = 0; i < n; i++) lane[i % 8] += (double)x[i] * (double)y[i];
  return add_lanes(lane);
}
static double distance2(const float *x, const float *y, uint32_t n) {
  double lane[8] = {0};
  for (uint32_t i = 0; i < n; i++) {
    double d = (double)x[i] - (double)y[i];
    lane[i % 8] += d * d;
  }
  return add_lanes(lane);
}

/* --- an index, packed plainly ----------------------------------------------------------------- */

struct packed {
  kf_dev_space space;
  std::vector<double> centre;
  std::vector<int8_t> bytes;
  std::vector<uint32_t> numbers;
  std::vector<kf_dev_tile> tiles;
  std::vector<double> norm2, h;
};

static float up(double x) { return nextafterf((float)(x * (1 + 0x1p-20)), INFINITY); }

static void pack(packed &p, kf_dev_metric metric, const std::vector<float> &rows, uint32_t n,
                 uint32_t dim) {
  uint32_t padded = (dim + api->pad - 1) / api->pad * api->pad, tile_rows = api->tile_rows;
  p.centre.assign(dim, 0);
  p.norm2.resize(n);
  p.h.resize(n);
  std::vector<double> scale(n);
  for (uint32_t i = 0; i < n; i++) {
    p.norm2[i] = dot(&rows[(size_t)i * dim], &rows[(size_t)i * dim], dim);
    scale[i] = metric == KF_DEV_COSINE ? 1 / sqrt(p.norm2[i]) : 1;
    for (uint32_t j = 0; j < dim; j++) p.centre[j] += rows[(size_t)i * dim + j] * scale[i] / n;
  }
  std::vector<double> y((size_t)n * dim), length(n);
  double longest = 0;
  for (uint32_t i = 0; i < n; i++) {
    double *to = &y[(size_t)i * dim];
    for (uint32_t j = 0; j < dim; j++) to[j] = rows[(size_t)i * dim + j] * scale[i] - p.centre[j];
    length[i] = sqrt(dot(to, to, dim));
    longest = std::max(longest, length[i]);
    p.h[i] =
        metric == KF_DEV_EUCLIDEAN ? length[i] * length[i] / 2 : -dot(p.centre.data(), to, dim);
  }
  std::vector<uint32_t> order(n);
  for (uint32_t i = 0; i < n; i++) order[i] = i;
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return p.h[a] < p.h[b]; });
  double gamma = (dim + 64) * 0x1p-51;
  p.space = {metric,
             dim,
             padded,
             sqrt(dot(p.centre.data(), p.centre.data(), dim)) * (1 + 1e-6),
             longest * (1 + 1e-6),
             0,
             1,
             gamma,
             p.centre.data()};
  uint32_t n_tiles = (n + tile_rows - 1) / tile_rows;
  p.bytes.assign((size_t)n_tiles * tile_rows * padded, 0);
  p.numbers.assign((size_t)n_tiles * tile_rows, UINT32_MAX);
  p.tiles.resize(n_tiles);
  for (uint32_t t = 0; t < n_tiles; t++) {
    kf_dev_tile tile = {0, 0, 0, INFINITY, -INFINITY, 0};
    double largest = 0, far = 0, error = 0;
    uint32_t first = t * tile_rows, last = std::min(n, first + tile_rows);
    for (uint32_t i = first; i < last; i++)
      for (uint32_t j = 0; j < dim; j++)
        largest = std::max(largest, fabs(y[(size_t)order[i] * dim + j]));
    tile.scale = (float)(largest / 127 * (1 + 0x1p-22));
    for (uint32_t i = first; i < last; i++) {
      uint32_t r = order[i];
      p.numbers[i] = r;
      double e2 = 0;
      for (uint32_t j = 0; j < dim; j++) {
        double b = rint(y[(size_t)r * dim + j] / tile.scale),
               e = y[(size_t)r * dim + j] - tile.scale * b;
        p.bytes[(size_t)i * padded + j] = (int8_t)b;
        e2 += e * e;
      }
      error = std::max(error, sqrt(e2));
      far = std::max(far, length[r]);
      tile.low = fminf(tile.low, nextafterf((float)p.h[r], -INFINITY));
      tile.high = fmaxf(tile.high, nextafterf((float)p.h[r], INFINITY));
    }
    tile.length = up(far);
    tile.error = up(error);
    tile.fixed = up(4 * gamma * (far + p.space.centre_length) * (far + p.space.centre_length));
    p.tiles[t] = tile;
  }
}

/* --- small sets ------------------------------------------------------------------------------- */

static float round_to(kf_dev_type type, float x) {
  if (type == KF_DEV_F32) return x;
  uint32_t bits;
  memcpy(&bits, &x, 4);
  bits &= type == KF_DEV_BF16 ? 0xffff0000u : 0xffffe000u; /* f16: of numbers of about 1 */
  memcpy(&x, &bits, 4);
  return type == KF_DEV_F16 && fabsf(x) < 0x1p-13f ? 0 : x;
}
static uint16_t half_bits(kf_dev_type type, float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  if (type == KF_DEV_BF16) return (uint16_t)(bits >> 16);
  if (x == 0) return 0;
  return (uint16_t)((bits >> 16 & 0x8000) | ((bits >> 23 & 255) - 112) << 10 |
                    (bits >> 13 & 0x3ff));
}

struct set {
  uint32_t n, q, dim, k;
  kf_dev_metric metric;
  kf_dev_type type;
  int kind;
};

static double score_of(const set &s, const packed &p, const float *x, double norm2,
                       const float *row, uint32_t number) {
  if (s.metric == KF_DEV_EUCLIDEAN) return distance2(x, row, s.dim);
  double value = dot(x, row, s.dim);
  if (s.metric == KF_DEV_COSINE) {
    double lengths2 = norm2 * p.norm2[number];
    value = lengths2 > 0 ? value / sqrt(lengths2) : 0;
  }
  return -value;
}

/* Searches as a caller would; returns the number of rounds. */
static int search(kf_dev_queries *q, const kf_dev_rows *rows, const std::vector<float> &x,
                  uint32_t n, uint32_t k, const int64_t *leave_out, uint64_t *hits) {
  uint32_t left;
  int rounds = 0;
  *hits = 0;
  MUST(api->queries_put(q, x.data(), n, leave_out));
  MUST(api->guess(q, rows, k, 0));
  do {
    uint64_t found;
    MUST(api->scan(q, rows, &found));
    *hits += found;
    MUST(api->score(q, rows));
    MUST(api->settle(q, k, 1, &left));
    if (left > 0) MUST(api->guess(q, rows, k, 1));
    rounds++;
  } while (left > 0 && rounds < 10);
  if (left > 0) {
    printf("%u queries are never settled\n", left);
    wrong++;
  }
  return rounds;
}

/* Every row whose key reaches `least` must be a survivor. */
static void check_survivors(const set &s, const packed &p, kf_dev_queries *q, kf_dev_rows *rows,
                            const std::vector<float> &x, const std::vector<float> &all,
                            const std::vector<int64_t> &leave_out) {
  uint64_t hits, n;
  uint32_t chosen;
  std::vector<double> least(s.q);
  MUST(api->queries_put(q, x.data(), s.q, leave_out.data()));
  MUST(api->guess(q, rows, s.k, 0));
  MUST(api->chosen(q, NULL, least.data(), &chosen));
  MUST(api->scan(q, rows, &hits));
  std::vector<uint32_t> query(hits);
  std::vector<int64_t> row(hits);
  MUST(api->survivors(q, rows, query.data(), row.data(), &n));
  std::vector<std::set<int64_t>> found(s.q);
  for (uint64_t i = 0; i < n; i++)
    if (query[i] >= s.q || row[i] < 1000 || row[i] >= 1000 + s.n || row[i] == leave_out[query[i]] ||
        !found[query[i]].insert(row[i]).second)
      wrong++, printf("  survivor %u %lld is wrong\n", query[i], (long long)row[i]);
  for (uint32_t i = 0; i < s.q; i++) {
    const float *xi = &x[(size_t)i * s.dim];
    double norm2 = dot(xi, xi, s.dim), scale = s.metric == KF_DEV_COSINE ? 1 / sqrt(norm2) : 1;
    double base = 0, missing = 0;
    for (uint32_t j = 0; j < s.dim; j++) {
      double w = xi[j] * scale;
      base +=
          s.metric == KF_DEV_EUCLIDEAN ? (w - p.centre[j]) * (w - p.centre[j]) : w * p.centre[j];
    }
    for (uint32_t r = 0; r < s.n; r++) {
      double score = score_of(s, p, xi, norm2, &all[(size_t)r * s.dim], r);
      double key = s.metric == KF_DEV_EUCLIDEAN ? (base - score) / 2 : -score - base;
      if (key >= least[i] + 1e-12 && 1000 + (int64_t)r != leave_out[i] && !found[i].count(1000 + r))
        missing++;
    }
    if (missing > 0) wrong++, printf("  query %u lacks %.0f survivors\n", i, missing);
  }
  printf("  %.1f survivors for each query;", (double)n / s.q);
}

static void check_set(const set &s) {
  std::vector<float> all((size_t)s.n * s.dim), x((size_t)s.q * s.dim);
  for (size_t i = 0; i < all.size(); i++)
    all[i] = round_to(s.type, number(5, s.kind, i / s.dim, (uint32_t)(i % s.dim), s.dim));
  for (size_t i = 0; i < x.size(); i++)
    x[i] = i / s.dim % 5 == 4 ? all[i % all.size()]
                              : number(1u << 30, s.kind, i / s.dim, (uint32_t)(i % s.dim), s.dim);
  packed p;
  pack(p, s.metric, all, s.n, s.dim);
  kf_dev_piece piece = {&p.space, 1000, s.n, p.tiles.size(), s.type};
  kf_dev_rows *rows;
  kf_dev_queries *q;
  uint32_t best = s.k + 3;
  MUST(api->rows_new(dev, &piece, &rows));
  uint64_t half = p.tiles.size() / 2, places = half * api->tile_rows;
  MUST(api->rows_put_tiles(rows, 0, half, p.bytes.data(), p.numbers.data(), p.tiles.data()));
  MUST(api->rows_put_tiles(rows, half, p.tiles.size() - half, &p.bytes[places * p.space.padded],
                           &p.numbers[places], &p.tiles[half]));
  std::vector<uint16_t> halves(s.type == KF_DEV_F32 ? 0 : all.size());
  for (size_t i = 0; i < halves.size(); i++) halves[i] = half_bits(s.type, all[i]);
  const void *values = halves.empty() ? (void *)all.data() : (void *)halves.data();
  MUST(api->rows_put_values(rows, 0, s.n, values, p.norm2.data()));
  MUST(api->queries_new(dev, &p.space, s.q, best, 4000000, &q));
  std::vector<int64_t> leave_out(s.q);
  for (uint32_t i = 0; i < s.q; i++) leave_out[i] = i % 3 == 0 ? 1000 + (int64_t)i : -1;
  printf("dim %u, metric %d, type %d, kind %d, k %u:", s.dim, s.metric, s.type, s.kind, s.k);
  fflush(stdout);
  int before = wrong;
  check_survivors(s, p, q, rows, x, all, leave_out);
  uint64_t hits;
  int rounds = search(q, rows, x, s.q, s.k, leave_out.data(), &hits);
  std::vector<kf_dev_scored> answers((size_t)s.q * best);
  MUST(api->answers(q, 0, s.q, answers.data()));
  for (uint32_t i = 0; i < s.q; i++) {
    std::vector<std::pair<double, int64_t>> true_rows;
    const float *xi = &x[(size_t)i * s.dim];
    double norm2 = dot(xi, xi, s.dim);
    for (uint32_t r = 0; r < s.n; r++)
      if (1000 + (int64_t)r != leave_out[i])
        true_rows.push_back(
            {score_of(s, p, xi, norm2, &all[(size_t)r * s.dim], r), 1000 + (int64_t)r});
    uint32_t k = std::min<uint32_t>(s.k, (uint32_t)true_rows.size());
    std::partial_sort(true_rows.begin(), true_rows.begin() + k, true_rows.end());
    for (uint32_t j = 0; j < k; j++) {
      kf_dev_scored got = answers[(size_t)i * best + j];
      if (got.row == true_rows[j].second && got.score == true_rows[j].first) continue;
      if (wrong++ < 20)
        printf("\n  query %u place %u: %lld %.17g, not %lld %.17g", i, j, (long long)got.row,
               got.score, (long long)true_rows[j].second, true_rows[j].first);
    }
  }
  printf(" %d rounds, %s\n", rounds, wrong == before ? "right" : "WRONG");
  fflush(stdout);
  api->queries_free(dev, q);
  api->rows_free(dev, rows);
}

/* Too little room must be reported, with the true number. */
static void check_overflow() {
  set s = {5000, 200, 64, 10, KF_DEV_INNER, KF_DEV_F32, 0};
  std::vector<float> all((size_t)s.n * s.dim), x((size_t)s.q * s.dim);
  for (size_t i = 0; i < all.size(); i++) all[i] = normal(i);
  for (size_t i = 0; i < x.size(); i++) x[i] = normal(i + 999999999);
  packed p;
  pack(p, s.metric, all, s.n, s.dim);
  kf_dev_piece piece = {&p.space, 0, s.n, p.tiles.size(), s.type};
  kf_dev_rows *rows;
  kf_dev_queries *q;
  uint64_t hits;
  MUST(api->rows_new(dev, &piece, &rows));
  MUST(api->rows_put_tiles(rows, 0, p.tiles.size(), p.bytes.data(), p.numbers.data(),
                           p.tiles.data()));
  MUST(api->rows_put_values(rows, 0, s.n, all.data(), NULL));
  MUST(api->queries_new(dev, &p.space, s.q, 12, 1000, &q));
  MUST(api->queries_put(q, x.data(), s.q, NULL));
  kf_dev_status status = api->scan(q, rows, &hits); /* least is -infinity: every row */
  bool right = status == KF_DEV_MORE && hits >= (uint64_t)s.n * s.q;
  printf("overflow: status %d, %llu survivors of %llu: %s\n", status, (unsigned long long)hits,
         (unsigned long long)s.n * s.q, right ? "right" : "WRONG");
  wrong += !right;
  api->queries_free(dev, q);
  MUST(api->queries_new(dev, &p.space, s.q, 12, (uint64_t)s.n * s.q, &q));
  MUST(api->queries_put(q, x.data(), s.q, NULL));
  status = api->scan(q, rows, &hits);
  right = status == KF_DEV_OK && hits == (uint64_t)s.n * s.q;
  printf("every row: status %d, %llu survivors: %s\n", status, (unsigned long long)hits,
         right ? "right" : "WRONG");
  wrong += !right;
  MUST(api->score(q, rows));
  uint32_t left;
  MUST(api->settle(q, 10, 1, &left));
  wrong += left > 0;
  api->queries_free(dev, q);
  api->rows_free(dev, rows);
}

/* --- large sets ------------------------------------------------------------------------------- */

/* Rows at unit length; the centre is zero. */
__global__ void make_rows(float *rows, uint64_t first, uint64_t n, uint32_t dim, uint64_t seed,
                          int kind) {
  uint64_t i = (blockIdx.x * (uint64_t)blockDim.x + threadIdx.x) / 32;
  uint32_t lane = threadIdx.x & 31;
  if (i >= n) return;
  float sum = 0, *row = rows + i * dim;
  for (uint32_t j = lane; j < dim; j += 32) {
    row[j] = number(seed, kind, first + i, j, dim);
    sum += row[j] * row[j];
  }
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  for (uint32_t j = lane; j < dim; j += 32) row[j] *= rsqrtf(sum);
}

/* The largest number of each row. */
__global__ void find_largest(const float *rows, uint64_t n, uint32_t dim, float *largest) {
  uint64_t i = (blockIdx.x * (uint64_t)blockDim.x + threadIdx.x) / 32;
  float most = 0;
  if (i >= n) return;
  for (uint32_t j = threadIdx.x & 31; j < dim; j += 32)
    most = fmaxf(most, fabsf(rows[i * dim + j]));
  for (int step = 16; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
  if ((threadIdx.x & 31) == 0) largest[i] = most;
}

/* A block packs a tile: rows in the order of numbers. */
__global__ void pack_tiles(const float *rows, const uint32_t *numbers, uint32_t dim,
                           uint32_t padded, int8_t *bytes, kf_dev_tile *tiles) {
  __shared__ float most, error, length;
  uint64_t first = (uint64_t)blockIdx.x * 192;
  if (threadIdx.x == 0) most = error = length = 0;
  __syncthreads();
  float x = 0;
  for (uint32_t i = threadIdx.x; i < 192 * dim; i += blockDim.x) {
    uint32_t r = numbers[first + i / dim];
    if (r != UINT32_MAX) x = fmaxf(x, fabsf(rows[(uint64_t)r * dim + i % dim]));
  }
  atomicMax((int *)&most, __float_as_int(x));
  __syncthreads();
  float scale = most / 127 * (1 + 0x1p-20f);
  for (uint32_t i = threadIdx.x / 32; i < 192; i += blockDim.x / 32) {
    double e2 = 0, l2 = 0;
    uint32_t r = numbers[first + i];
    for (uint32_t j = threadIdx.x & 31; j < padded; j += 32) {
      double v = j < dim && r != UINT32_MAX ? rows[(uint64_t)r * dim + j] : 0, b = rint(v / scale);
      bytes[(first + i) * padded + j] = (int8_t)b;
      e2 += (v - scale * b) * (v - scale * b);
      l2 += v * v;
    }
    for (int step = 16; step > 0; step /= 2) {
      e2 += __shfl_xor_sync(~0u, e2, step);
      l2 += __shfl_xor_sync(~0u, l2, step);
    }
    if ((threadIdx.x & 31) == 0) {
      atomicMax((int *)&error, __float_as_int((float)(sqrt(e2) * (1 + 1e-6))));
      atomicMax((int *)&length, __float_as_int((float)(sqrt(l2) * (1 + 1e-6))));
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) tiles[blockIdx.x] = {scale, length, error, 0, 0, 1e-12f};
}

__global__ void brute(const float *x, const float *rows, uint64_t n, uint32_t dim, double *out) {
  uint64_t r = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x;
  if (r >= n) return;
  const float *q = x + (uint64_t)blockIdx.y * dim, *y = rows + r * dim;
  double lane[8] = {0};
  for (uint32_t i = 0; i < dim; i++) lane[i % 8] += (double)q[i] * (double)y[i];
  out[blockIdx.y * n + r] =
      -(((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7])));
}

#define CK(call)                                                                                   \
  do {                                                                                             \
    cudaError_t e = (call);                                                                        \
    if (e != cudaSuccess) printf("%s: %s\n", #call, cudaGetErrorString(e)), exit(1);               \
  } while (0)

struct times {
  double put, guess, scan, score, settle, more, answers, all;
  uint64_t hits;
  uint32_t repeated;
};

static times once(kf_dev_queries *q, const kf_dev_rows *rows, const float *x, uint32_t n,
                  uint32_t k, kf_dev_scored *answers, bool parts) {
  times t = {};
  double start = seconds(), now = start;
  auto lap = [&](double *to) {
    if (parts) MUST(api->wait(dev));
    double then = now;
    now = seconds();
    *to += now - then;
  };
  uint64_t hits;
  uint32_t left;
  MUST(api->queries_put(q, x, n, NULL));
  lap(&t.put);
  MUST(api->guess(q, rows, k, 0));
  lap(&t.guess);
  MUST(api->scan(q, rows, &t.hits));
  lap(&t.scan);
  MUST(api->score(q, rows));
  lap(&t.score);
  MUST(api->settle(q, k, 1, &left));
  lap(&t.settle);
  t.repeated = left;
  for (int round = 0; left > 0 && round < 10; round++) {
    MUST(api->guess(q, rows, k, 1));
    MUST(api->scan(q, rows, &hits));
    MUST(api->score(q, rows));
    MUST(api->settle(q, k, 1, &left));
  }
  lap(&t.more);
  MUST(api->answers(q, 0, n, answers));
  lap(&t.answers);
  t.all = seconds() - start;
  return t;
}

static void time_set(uint32_t dim, uint64_t n, uint32_t nq, uint32_t k, int kind) {
  uint32_t padded = (dim + api->pad - 1) / api->pad * api->pad;
  uint64_t n_tiles = (n + 191) / 192, places = n_tiles * 192;
  std::vector<double> centre(dim, 0);
  kf_dev_space space = {KF_DEV_INNER,         dim,          padded, 0, 1.0001, 0, 1,
                        (dim + 64) * 0x1p-51, centre.data()};
  kf_dev_piece piece = {&space, 0, n, n_tiles, KF_DEV_F32};
  kf_dev_rows *rows;
  kf_dev_queries *q;
  uint32_t best = k + 5;
  uint64_t room = (uint64_t)nq * (600 + 6 * k);
  MUST(api->rows_new(dev, &piece, &rows));
  float *made;
  int8_t *bytes;
  kf_dev_tile *tiles;
  CK(cudaMalloc(&made, n * dim * 4));
  CK(cudaMalloc(&bytes, places * padded));
  CK(cudaMalloc(&tiles, n_tiles * sizeof *tiles));
  make_rows<<<(unsigned)((n + 7) / 8), 256>>>(made, 0, n, dim, 1ull << 40, kind);
  std::vector<uint32_t> numbers(places, UINT32_MAX);
  std::vector<kf_dev_tile> host_tiles(n_tiles);
  std::vector<float> largest(n);
  float *device_largest;
  uint32_t *device_numbers;
  CK(cudaMalloc(&device_largest, n * 4));
  CK(cudaMalloc(&device_numbers, places * 4));
  find_largest<<<(unsigned)((n + 7) / 8), 256>>>(made, n, dim, device_largest);
  CK(cudaMemcpy(largest.data(), device_largest, n * 4, cudaMemcpyDefault));
  for (uint64_t i = 0; i < n; i++) numbers[i] = (uint32_t)i;
  std::sort(numbers.begin(), numbers.begin() + n,
            [&](uint32_t a, uint32_t b) { return largest[a] < largest[b]; });
  CK(cudaMemcpy(device_numbers, numbers.data(), places * 4, cudaMemcpyDefault));
  pack_tiles<<<(unsigned)n_tiles, 256>>>(made, device_numbers, dim, padded, bytes, tiles);
  CK(cudaDeviceSynchronize());
  CK(cudaMemcpy(host_tiles.data(), tiles, n_tiles * sizeof *tiles, cudaMemcpyDefault));
  MUST(api->rows_put_tiles(rows, 0, n_tiles, bytes, numbers.data(),
                           host_tiles.data())); /* unified addresses */
  MUST(api->rows_put_values(rows, 0, n, made, NULL));
  MUST(api->wait(dev));
  float *x = (float *)api->host_alloc(dev, (size_t)nq * dim * 4), *device_x;
  kf_dev_scored *answers = (kf_dev_scored *)api->host_alloc(dev, (size_t)nq * best * 16);
  CK(cudaMalloc(&device_x, (size_t)nq * dim * 4));
  make_rows<<<(nq + 7) / 8, 256>>>(device_x, 0, nq, dim, 1ull << 50, kind);
  CK(cudaMemcpy(x, device_x, (size_t)nq * dim * 4, cudaMemcpyDefault));
  MUST(api->queries_new(dev, &space, nq, best, room, &q));
  once(q, rows, x, nq, k, answers, true);
  times t = once(q, rows, x, nq, k, answers, true);
  std::vector<double> all;
  int repeat = nq < 1000 ? 21 : 5;
  for (int i = 0; i < repeat; i++) all.push_back(once(q, rows, x, nq, k, answers, false).all);
  std::sort(all.begin(), all.end());
  double ops = 2.0 * n * nq * padded;
  printf("d %u n %llu q %u k %u kind %d: %.3f ms (%.3f to %.3f); put %.3f guess %.3f scan %.3f "
         "(%.0f TOP/s) score %.3f "
         "settle %.3f repeated %.3f (%u queries) answers %.3f; %.1f survivors\n",
         dim, (unsigned long long)n, nq, k, kind, all[repeat / 2] * 1e3, all[0] * 1e3,
         all[repeat - 1] * 1e3, t.put * 1e3, t.guess * 1e3, t.scan * 1e3, ops / t.scan * 1e-12,
         t.score * 1e3, t.settle * 1e3, t.more * 1e3, t.repeated, t.answers * 1e3,
         (double)t.hits / nq);
  uint32_t checked = std::min(nq, 16u);
  double *scores;
  float *few;
  CK(cudaMalloc(&scores, checked * n * 8));
  CK(cudaMalloc(&few, (size_t)checked * dim * 4));
  for (uint32_t i = 0; i < checked; i++)
    CK(cudaMemcpy(few + (size_t)i * dim, x + (size_t)i * (nq / checked) * dim, dim * 4,
                  cudaMemcpyDefault));
  brute<<<dim3((unsigned)((n + 127) / 128), checked), 128>>>(few, made, n, dim, scores);
  std::vector<double> host(n);
  std::vector<uint32_t> order(n);
  int bad = 0;
  for (uint32_t i = 0; i < checked; i++) {
    CK(cudaMemcpy(host.data(), scores + i * n, n * 8, cudaMemcpyDefault));
    for (uint64_t r = 0; r < n; r++) order[r] = (uint32_t)r;
    auto less = [&](uint32_t a, uint32_t b) {
      return host[a] < host[b] || (host[a] == host[b] && a < b);
    };
    std::nth_element(order.begin(), order.begin() + k, order.end(), less);
    std::sort(order.begin(), order.begin() + k, less);
    for (uint32_t j = 0; j < k; j++) {
      kf_dev_scored got = answers[(size_t)i * (nq / checked) * best + j];
      bad += got.row != order[j] || got.score != host[order[j]];
    }
  }
  printf("   %d wrong of %u\n", bad, checked * k);
  fflush(stdout);
  wrong += bad;
  cudaFree(scores), cudaFree(few), cudaFree(device_x), cudaFree(made), cudaFree(bytes),
      cudaFree(tiles), cudaFree(device_largest), cudaFree(device_numbers);
  api->host_free(dev, x);
  api->host_free(dev, answers);
  api->queries_free(dev, q);
  api->rows_free(dev, rows);
}

/* --- thresholds ------------------------------------------------------------------------------- */

struct threshold_case {
  kf_query_known query;
  kf_dev_tile tile;
  int32_t dot; /* that a threshold may not pass over */
};

__global__ void find_thresholds(const threshold_case *cases, uint32_t n, int32_t *out) {
  uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    out[i] = kf_threshold(kf_bound_query(cases[i].query, 1), kf_bound_tile(cases[i].tile, 1));
}

/* A number of random size between two powers of two. */
static double any_size(uint64_t seed, int from, int to) {
  double mantissa = 1 + (double)(mix(seed) >> 12) * 0x1p-52;
  return ldexp(mantissa, from + (int)(mix(seed + 1) % (uint64_t)(to - from)));
}

/* Bounds of every size that queries and rows can have, including denormals, and the least key that
 * a row with this dot product may have. */
static threshold_case make_threshold(uint64_t seed) {
  threshold_case c = {};
  c.dot = (int32_t)(mix(seed) % 2000001) - 1000000;
  c.query.factor = (float)any_size(seed + 2, -149, 43);
  c.query.by_length = any_size(seed + 4, -149, 40);
  c.query.by_error = any_size(seed + 6, -149, 50);
  c.query.fixed = seed % 3 == 0 ? 0 : any_size(seed + 8, -200, 20);
  c.tile.scale = (float)any_size(seed + 10, -126, 43);
  c.tile.length = (float)any_size(seed + 12, -149, 50);
  c.tile.error = (float)any_size(seed + 14, -149, 48);
  c.tile.low = (float)((seed & 1 ? 1 : -1) * any_size(seed + 16, -149, 60));
  c.tile.fixed = (float)(any_size(seed + 18, -140, 20) + 0x1p-23 * fabs((double)c.tile.low));
  double margin = c.query.by_length * c.tile.length + c.query.by_error * c.tile.error +
                  c.query.fixed + c.tile.fixed;
  c.query.least = (double)c.dot * c.query.factor * c.tile.scale - c.tile.low + margin;
  c.query.least -= 1e-14 * (fabs(c.query.least) + fabs((double)c.tile.low) + margin);
  return c;
}

static void check_thresholds(uint32_t n) {
  std::vector<threshold_case> cases(n);
  std::vector<int32_t> found(n);
  for (uint32_t i = 0; i < n; i++) cases[i] = make_threshold(mix(i));
  threshold_case *on_device;
  int32_t *out;
  uint32_t above = 0;
  cudaMalloc(&on_device, n * sizeof *on_device);
  cudaMalloc(&out, n * sizeof *out);
  cudaMemcpy(on_device, cases.data(), n * sizeof *on_device, cudaMemcpyHostToDevice);
  find_thresholds<<<(n + 127) / 128, 128>>>(on_device, n, out);
  if (cudaMemcpy(found.data(), out, n * sizeof *out, cudaMemcpyDeviceToHost) != cudaSuccess)
    above = n;
  for (uint32_t i = 0; i < n; i++) {
    if (found[i] <= cases[i].dot) continue;
    if (above++ < 4)
      printf("threshold %d above %d: factor %a, scale %a\n", found[i], cases[i].dot,
             (double)cases[i].query.factor, (double)cases[i].tile.scale);
  }
  cudaFree(on_device);
  cudaFree(out);
  printf("thresholds: %u of %u too high\n", above, n);
  wrong += above > 0;
}

int main(int argc, char **argv) {
  char message[512];
  uint32_t n;
  api = kf_device_plugin(KF_DEVICE_VERSION);
  if (api->count(&n, message, sizeof message) != KF_DEV_OK || n == 0 ||
      api->open(0, &dev, message, sizeof message) != KF_DEV_OK) {
    printf("no device: %s\n", message);
    return 77;
  }
  if (argc > 2 && strcmp(argv[argc - 1], "mma") == 0) {
    dev->encode = NULL;
    argc--;
  }
  if (argc > 1 && strcmp(argv[1], "few") == 0) {
    check_set({700, 200, 100, 5, KF_DEV_COSINE, KF_DEV_F32, 0});
    check_set({400, 200, 256, 5, KF_DEV_EUCLIDEAN, KF_DEV_F16, 1});
    check_set({400, 200, 600, 5, KF_DEV_INNER, KF_DEV_F32, 2});
    check_set({400, 140, 900, 5, KF_DEV_INNER, KF_DEV_BF16, 3});
    check_set({400, 2048, 32, 5, KF_DEV_INNER, KF_DEV_F32, 0});
    check_set({400, 2048, 64, 5, KF_DEV_COSINE, KF_DEV_F32, 0});
    check_thresholds(10000);
    wrong += check_maps(api, dev, true);
  } else if (argc > 1 && strcmp(argv[1], "maps") == 0) {
    wrong += check_maps(api, dev, false);
    time_maps(api, dev);
  } else if (argc > 2 && strcmp(argv[1], "time") == 0) {
    auto given = [&](int i, uint64_t other) {
      return argc > i ? strtoull(argv[i], NULL, 10) : other;
    };
    time_set((uint32_t)given(2, 768), given(3, 1281167), (uint32_t)given(4, 50000),
             (uint32_t)given(5, 15), (int)given(6, 0));
  } else {
    uint32_t dims[] = {1,   7,   32,  33,  64,  76,  96,  128, 160,  192,  200,
                       256, 288, 300, 384, 512, 640, 768, 800, 1024, 1280, 1500};
    int i = 0;
    uint32_t size = argc > 1 ? (uint32_t)atoi(argv[1]) : 6000;
    for (uint32_t dim : dims) {
      check_set({size, 230, dim, 15, (kf_dev_metric)(i % 3), (kf_dev_type)(1 + i / 3 % 3), i % 4});
      i++;
    }
    check_set({size / 2, 40, 768, 1, KF_DEV_COSINE, KF_DEV_F32, 3});
    check_set({size / 2, 10, 256, std::min(size / 4, 1024u), KF_DEV_COSINE, KF_DEV_F32, 1});
    check_set({100, 1, 64, 5, KF_DEV_EUCLIDEAN, KF_DEV_F32, 0});
    check_set({1500, 2100, 32, 15, KF_DEV_INNER, KF_DEV_F32, 0});
    check_set({1300, 2900, 50, 15, KF_DEV_COSINE, KF_DEV_F16, 2});
    check_set({1200, 2048, 20, 15, KF_DEV_EUCLIDEAN, KF_DEV_F32, 1});
    check_overflow();
    check_thresholds(4000000);
    wrong += check_maps(api, dev, false);
  }
  api->close(dev);
  printf(wrong ? "%d WRONG\n" : "all right\n", wrong);
  return wrong > 0;
}
