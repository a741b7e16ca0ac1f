/* check_maps.cu - checks maps and the sums of softmax against plain loops, to the bit, and times
 * them. */
#include "check_maps.h"
#include "../../tests/twin/twin_exp.h"

#include <chrono>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vector>

static const kf_device_api *api;
static kf_dev *dev;

static void must(kf_dev_status status, const char *what, const char *message) {
  if (status == KF_DEV_OK) return;
  printf("%s: %d, %s\n", what, status, message);
  exit(1);
}
#define MUST(call) must(call, #call, api->message(dev))

static double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/* Uniform in [-1, 1). */
static double uniform(uint64_t seed) {
  uint64_t x = seed * 0x9E3779B97F4A7C15u;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return (double)(int64_t)(x ^ x >> 31) * 0x1p-63;
}

static double add_lanes(const double *l) {
  return ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]));
}

/* --- maps ------------------------------------------------------------------------------------- */

struct mapping {
  kf_dev_map_plan plan;
  uint32_t n;
  std::vector<double> matrix, centre, norm2;
  std::vector<float> rows, out;
};

static mapping make_mapping(uint32_t in, uint32_t out, uint32_t n, int normalized, int unit) {
  mapping m;
  m.n = n;
  m.matrix.resize((size_t)in * out);
  m.centre.resize(in);
  m.rows.resize((size_t)n * in);
  m.out.resize((size_t)n * out);
  m.norm2.resize(n);
  for (size_t i = 0; i < m.matrix.size(); i++) m.matrix[i] = uniform(i + 7);
  for (uint32_t i = 0; i < in; i++) m.centre[i] = 0.1 * uniform(i + 1000003);
  for (size_t i = 0; i < m.rows.size(); i++) m.rows[i] = (float)uniform(i + 5000011);
  for (uint32_t i = 0; i < n; i++) {
    double lane[8] = {0};
    for (uint32_t k = 0; k < in; k++) {
      if (i == 3) m.rows[(size_t)i * in + k] = 0; /* a row of zeros */
      double x = m.rows[(size_t)i * in + k];
      lane[k % 8] += x * x;
    }
    m.norm2[i] = add_lanes(lane);
  }
  m.plan = {in, out, normalized, unit, n, 2, m.matrix.data(), m.centre.data()};
  return m;
}

/* 1 + the number of the first odd row. */
static uint32_t map_plainly(const mapping &m, std::vector<float> &out) {
  uint32_t odd = 0, in = m.plan.dim_in, wide = m.plan.dim_out;
  std::vector<double> z(wide);
  for (uint32_t i = 0; i < m.n; i++) {
    double scale = !m.plan.normalized ? 1 : m.norm2[i] > 0 ? 1 / sqrt(m.norm2[i]) : 0, lane[8] = {};
    for (double &x : z) x = 0;
    for (uint32_t k = 0; k < in; k++) {
      double y = (double)m.rows[(size_t)i * in + k] * scale;
      if (m.plan.centre != NULL) y -= m.plan.centre[k];
      for (uint32_t j = 0; j < wide; j++) z[j] = fma(y, m.matrix[(size_t)k * wide + j], z[j]);
    }
    for (uint32_t j = 0; j < wide; j++) lane[j % 8] = fma(z[j], z[j], lane[j % 8]);
    double square = add_lanes(lane), factor = m.plan.unit ? 1 / sqrt(square) : 1;
    bool is_odd = m.plan.unit && !(square > 1e-280 && square < 1e280);
    for (uint32_t j = 0; j < wide; j++) {
      float x = (float)(z[j] * factor);
      is_odd = is_odd || !isfinite(x);
      out[(size_t)i * wide + j] = m.norm2[i] == 0 ? 0 : x;
    }
    if (is_odd && m.norm2[i] != 0 && odd == 0) odd = i + 1;
  }
  return odd;
}

/* Both slots get half of the rows each. */
static int check_mapping(mapping &m, const char *what) {
  kf_dev_map *map;
  char message[256] = "";
  uint32_t half = m.n / 2, odd[2] = {0, 0}, in = m.plan.dim_in, out = m.plan.dim_out;
  MUST(api->map_new(dev, &m.plan, &map));
  for (int again = 0; again < 2; again++) {
    MUST(api->map_put(map, 0, m.rows.data(), m.norm2.data(), half, m.out.data()));
    MUST(api->map_put(map, 1, &m.rows[(size_t)half * in], &m.norm2[half], m.n - half,
                      &m.out[(size_t)half * out]));
    for (uint32_t s = 0; s < 2; s++)
      must(api->map_wait(map, s, &odd[s], message, sizeof message), "map_wait", message);
  }
  api->map_free(dev, map);
  std::vector<float> plain(m.out.size());
  uint32_t plainly = map_plainly(m, plain);
  uint32_t found = odd[0] > 0 ? odd[0] : odd[1] > 0 ? half + odd[1] : 0;
  bool right = found == plainly && (plainly > 0 || memcmp(plain.data(), m.out.data(),
                                                          plain.size() * sizeof(float)) == 0);
  printf("map %u to %u, normalized %d, unit %d%s: %s\n", in, out, m.plan.normalized, m.plan.unit,
         what, right ? "right" : "WRONG");
  return !right;
}

static int check_mappings() {
  const uint32_t sizes[][2] = {{1, 1},     {5, 3},    {64, 64},  {100, 33},
                               {256, 256}, {300, 65}, {768, 200}};
  int wrong = 0, i = 0;
  for (const uint32_t *size : sizes)
    for (int unit = 0; unit < 2; unit++, i++) {
      mapping m = make_mapping(size[0], size[1], 150, i / 2 % 2, unit);
      if (i % 3 == 0) m.plan.centre = NULL;
      wrong += check_mapping(m, "");
    }
  mapping large = make_mapping(40, 20, 90, 0, 0), small = make_mapping(40, 20, 90, 0, 1);
  for (int k = 0; k < 40; k++) large.rows[60 * 40 + k] = 3e38f;
  wrong += check_mapping(large, ", one row too large");
  small.plan.centre = NULL;
  for (double &x : small.matrix) x *= 1e-150;
  return wrong + check_mapping(small, ", all too small");
}

/* --- probabilities ---------------------------------------------------------------------------- */

struct odds_case {
  kf_dev_metric metric;
  int narrow;
  uint32_t dim, n_rows, n, n_scales;
};

static double score_of(const odds_case &c, const float *x, const float *y) {
  double lane[8] = {0};
  float sum = 0;
  for (uint32_t k = 0; k < c.dim; k++) {
    double d = (double)x[k] - (double)y[k];
    sum = fmaf(x[k], y[k], sum);
    lane[k % 8] += c.metric == KF_DEV_EUCLIDEAN ? d * d : (double)x[k] * (double)y[k];
  }
  if (c.narrow) return (double)sum;
  return c.metric == KF_DEV_EUCLIDEAN ? -0.5 * add_lanes(lane) : add_lanes(lane);
}

static kf_dev_sums sums_plainly(const odds_case &c, const double *scales, const float *x,
                                const float *rows) {
  std::vector<double> scores(c.n_rows);
  kf_dev_sums out = {-INFINITY, {0, 0}};
  for (uint32_t i = 0; i < c.n_rows; i++) {
    scores[i] = score_of(c, x, rows + (size_t)i * c.dim);
    if (scores[i] > out.most) out.most = scores[i];
  }
  for (uint32_t s = 0; s < c.n_scales; s++) {
    double lane[4] = {0};
    for (uint32_t i = 0; i < c.n_rows; i++)
      lane[i % 4] += kf_twin_exp(scales[s] * (scores[i] - out.most));
    out.sum[s] = (lane[0] + lane[1]) + (lane[2] + lane[3]);
  }
  return out;
}

static int check_odds(const odds_case &c) {
  std::vector<float> rows((size_t)c.n_rows * c.dim), x((size_t)c.n * c.dim);
  for (size_t i = 0; i < rows.size(); i++) rows[i] = (float)uniform(i + 3);
  for (size_t i = 0; i < x.size(); i++) x[i] = (float)uniform(i + 900001);
  kf_dev_odds_plan plan = {c.metric,   c.dim, c.n_rows, c.narrow,   c.n_scales,
                           {1.7, 300}, c.n,   2,        rows.data()};
  kf_dev_odds *odds;
  char message[256] = "";
  std::vector<kf_dev_sums> sums(c.n);
  MUST(api->odds_new(dev, &plan, &odds));
  MUST(api->odds_put(odds, 1, x.data(), c.n, sums.data()));
  must(api->odds_wait(odds, 1, message, sizeof message), "odds_wait", message);
  MUST(api->odds_put(odds, 0, x.data(), c.n, sums.data()));
  must(api->odds_wait(odds, 0, message, sizeof message), "odds_wait", message);
  api->odds_free(dev, odds);
  int wrong = 0;
  for (uint32_t i = 0; i < c.n; i++) {
    kf_dev_sums plain = sums_plainly(c, plan.scales, &x[(size_t)i * c.dim], rows.data());
    wrong += memcmp(&plain.most, &sums[i].most, sizeof plain.most) != 0 ||
             memcmp(plain.sum, sums[i].sum, c.n_scales * sizeof(double)) != 0;
  }
  printf("odds, metric %d%s, %u rows of %u: %s\n", c.metric, c.narrow ? " narrow" : "", c.n_rows,
         c.dim, wrong ? "WRONG" : "right");
  return wrong > 0;
}

int check_maps(const kf_device_api *table, kf_dev *device, bool few) {
  api = table;
  dev = device;
  const odds_case cases[] = {
      {KF_DEV_INNER, 0, 100, 130, 70, 2},    {KF_DEV_INNER, 1, 100, 130, 70, 2},
      {KF_DEV_EUCLIDEAN, 0, 33, 700, 9, 1},  {KF_DEV_INNER, 0, 1, 1, 1, 1},
      {KF_DEV_INNER, 0, 256, 1025, 130, 1},  {KF_DEV_INNER, 1, 7, 5, 64, 1},
      {KF_DEV_EUCLIDEAN, 0, 512, 64, 65, 2}, {KF_DEV_INNER, 0, 64, 66000, 200, 2}};
  int wrong = check_mappings();
  for (const odds_case &c : cases)
    if (!few || c.n_rows < 1000) wrong += check_odds(c);
  return wrong;
}

/* --- times ------------------------------------------------------------------------------------ */

#define BATCH 2048u

static void time_map(uint32_t in, uint32_t out) {
  mapping m = make_mapping(in, out, BATCH, 1, 1);
  char message[256] = "";
  uint32_t odd, slots = KF_DEV_SLOTS, rounds = 400;
  kf_dev_map *map;
  m.plan.slots = slots;
  MUST(api->map_new(dev, &m.plan, &map));
  float *rows = (float *)api->host_alloc(dev, (size_t)slots * BATCH * in * 4);
  float *mapped = (float *)api->host_alloc(dev, (size_t)slots * BATCH * out * 4);
  for (uint32_t s = 0; s < slots; s++)
    memcpy(rows + (size_t)s * BATCH * in, m.rows.data(), (size_t)BATCH * in * 4);
  double start = 0;
  for (uint32_t i = 0; i < rounds; i++) {
    uint32_t s = i % slots;
    if (i == 2 * slots) start = seconds();
    if (i >= slots) must(api->map_wait(map, s, &odd, message, sizeof message), "wait", message);
    MUST(api->map_put(map, s, rows + (size_t)s * BATCH * in, m.norm2.data(), BATCH,
                      mapped + (size_t)s * BATCH * out));
  }
  MUST(api->wait(dev));
  double took = seconds() - start, n = (double)(rounds - 2 * slots) * BATCH;
  printf("map %u to %u: %.2f million rows/s, %.2f T products/s\n", in, out, n / took * 1e-6,
         n * in * out / took * 1e-12);
  api->host_free(dev, rows);
  api->host_free(dev, mapped);
  api->map_free(dev, map);
}

static void time_odds(const odds_case &c) {
  std::vector<float> rows((size_t)c.n_rows * c.dim);
  for (size_t i = 0; i < rows.size(); i++) rows[i] = (float)uniform(i + 3);
  uint32_t slots = 4, rounds = 60;
  kf_dev_odds_plan plan = {c.metric,   c.dim, c.n_rows, c.narrow,   c.n_scales,
                           {1.7, 300}, c.n,   slots,    rows.data()};
  char message[256] = "";
  kf_dev_odds *odds;
  MUST(api->odds_new(dev, &plan, &odds));
  float *x = (float *)api->host_alloc(dev, (size_t)c.n * c.dim * 4);
  kf_dev_sums *sums = (kf_dev_sums *)api->host_alloc(dev, slots * c.n * sizeof *sums);
  for (size_t i = 0; i < (size_t)c.n * c.dim; i++) x[i] = (float)uniform(i + 900001);
  double start = 0;
  for (uint32_t i = 0; i < rounds; i++) {
    if (i == 2 * slots) start = seconds();
    if (i >= slots) must(api->odds_wait(odds, i % slots, message, sizeof message), "wait", message);
    MUST(api->odds_put(odds, i % slots, x, c.n, sums + i % slots * c.n));
  }
  MUST(api->wait(dev));
  double took = seconds() - start, n = (double)(rounds - 2 * slots) * c.n;
  printf("odds, metric %d%s, %u rows of %u: %.3f million queries/s, %.2f T products/s\n", c.metric,
         c.narrow ? " narrow" : "", c.n_rows, c.dim, n / took * 1e-6,
         n * c.n_rows * c.dim / took * 1e-12);
  api->host_free(dev, x);
  api->host_free(dev, sums);
  api->odds_free(dev, odds);
}

void time_maps(const kf_device_api *table, kf_dev *device) {
  api = table;
  dev = device;
  const uint32_t sizes[][2] = {{768, 768}, {768, 256}, {512, 512}, {1024, 128}};
  for (const uint32_t *size : sizes) time_map(size[0], size[1]);
  time_odds({KF_DEV_INNER, 0, 256, 1000, 2048, 1});
  time_odds({KF_DEV_INNER, 1, 256, 1000, 2048, 1});
  time_odds({KF_DEV_INNER, 0, 768, 21841, 2048, 2});
  time_odds({KF_DEV_EUCLIDEAN, 0, 256, 1000, 2048, 1});
}
