/* check_products.cu - products of matrices against plain loops, to the bit; and how fast they are. */
#include "check_products.h"

#include <algorithm>
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

static void wait(kf_dev_product *p, uint32_t slot) {
  char message[256] = "";
  must(api->product_wait(p, slot, message, sizeof message), "product_wait", message);
}

static double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static uint64_t mix(uint64_t x) {
  x *= 0x9E3779B97F4A7C15u;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

/* Numbers of both signs. wild: of all sizes, so that sums lose bits, vanish and become denormal; zeros of
 * both signs among them. */
static double number(uint64_t seed, bool wild, bool narrow) {
  uint64_t x = mix(seed);
  double y = (double)(int64_t)x * 0x1p-63;
  if (!wild) return y;
  if (x % 7 == 0) return x & 8 ? 0.0 : -0.0;
  return ldexp(y, (int)(mix(seed + 99) % (narrow ? 80u : 600u)) - (narrow ? 70 : 540));
}

struct product_case {
  uint32_t m, n, depth;
  bool narrow, wild;
};

/* --- right ------------------------------------------------------------------------------------ */

template <class T>
static std::vector<T> plainly(const product_case &c, const std::vector<T> &a,
                              const std::vector<T> &b) {
  std::vector<T> out((size_t)c.m * c.n);
  for (uint32_t i = 0; i < c.m; i++) {
    T *to = &out[(size_t)i * c.n];
    for (uint32_t j = 0; j < c.n; j++) to[j] = b[(size_t)c.depth * c.n + j];
    for (uint32_t k = 0; k < c.depth; k++) {
      T x = a[(size_t)k * c.m + i];
      for (uint32_t j = 0; j < c.n; j++) to[j] = std::fma(x, b[(size_t)k * c.n + j], to[j]);
    }
  }
  return out;
}

/* The matrix comes in three parts, and goes into the product of two slots, twice. */
template <class T> static int check(const product_case &c) {
  std::vector<T> a((size_t)c.depth * c.m), b(((size_t)c.depth + 1) * c.n);
  std::vector<T> got[2] = {std::vector<T>((size_t)c.m * c.n), std::vector<T>((size_t)c.m * c.n)};
  for (size_t i = 0; i < a.size(); i++) a[i] = (T)number(i + 3, c.wild, c.narrow);
  for (size_t i = 0; i < b.size(); i++) b[i] = (T)number(i + 7000001, c.wild, c.narrow);
  kf_dev_product_plan room = {2, std::max(a.size(), b.size()) * sizeof(T),
                              got[0].size() * sizeof(T)};
  kf_dev_matrix_plan plan = {c.depth, c.n, c.narrow};
  kf_dev_product *p;
  kf_dev_matrix *matrix;
  MUST(api->product_new(dev, &room, &p));
  MUST(api->matrix_new(dev, &plan, &matrix));
  uint32_t part = (c.depth + 3) / 3;
  for (uint32_t first = 0; first <= c.depth; first += part) {
    uint32_t lines = std::min(part, c.depth + 1 - first);
    MUST(api->matrix_put(p, first / part % 2, matrix, first, lines, &b[(size_t)first * c.n]));
    wait(p, first / part % 2);
  }
  for (int again = 0; again < 2; again++) {
    for (uint32_t s = 0; s < 2; s++)
      MUST(api->product_put(p, s, matrix, a.data(), c.m, got[s].data()));
    for (uint32_t s = 0; s < 2; s++) wait(p, s);
  }
  api->matrix_free(dev, matrix);
  api->product_free(dev, p);
  std::vector<T> want = plainly(c, a, b);
  bool right = true;
  for (const std::vector<T> &x : got)
    right = right && memcmp(x.data(), want.data(), want.size() * sizeof(T)) == 0;
  printf("product %u x %u of %u lines, %s%s: %s\n", c.m, c.n, c.depth, c.narrow ? "f32" : "f64",
         c.wild ? " of all sizes" : "", right ? "right" : "WRONG");
  return !right;
}

int check_products(const kf_device_api *table, kf_dev *device, bool few) {
  api = table;
  dev = device;
  const uint32_t sizes[][3] = {{1, 1, 0},       {1, 1, 1},       {3, 5, 17},     {32, 1000, 48},
                               {33, 31, 15},    {64, 64, 16},    {65, 129, 33},  {100, 7, 100},
                               {7, 2100, 5},    {128, 4096, 31}, {500, 700, 60}, {129, 2200, 768},
                               {777, 333, 250}, {2048, 500, 77}, {47, 21841, 64}};
  int wrong = 0;
  for (const uint32_t *size : sizes) {
    bool small = (uint64_t)size[0] * size[1] * size[2] < 3000000;
    for (int wild = 0; wild < 2 && (!few || small); wild++) {
      wrong += check<double>({size[0], size[1], size[2], false, wild != 0});
      wrong += check<float>({size[0], size[1], size[2], true, wild != 0});
    }
  }
  return wrong;
}

/* --- times ------------------------------------------------------------------------------------ */

/* From and to page-locked memory, in eight slots. */
static void time_product(const product_case &c) {
  uint64_t size = c.narrow ? 4 : 8, in = size * c.depth * c.m, out = size * c.m * c.n;
  uint64_t lines = ((uint64_t)c.depth + 1) * c.n * size;
  uint32_t slots = KF_DEV_SLOTS, rounds = 120;
  kf_dev_product_plan room = {slots, in, out};
  kf_dev_matrix_plan plan = {c.depth, c.n, c.narrow};
  kf_dev_product *p;
  kf_dev_matrix *matrix;
  double begin = seconds();
  MUST(api->product_new(dev, &room, &p));
  char *a = (char *)api->host_alloc(dev, in * slots),
       *to = (char *)api->host_alloc(dev, out * slots);
  char *b = (char *)api->host_alloc(dev, lines);
  double made = seconds() - begin;
  memset(a, 0, in * slots);
  memset(b, 0, lines);
  begin = seconds();
  MUST(api->matrix_new(dev, &plan, &matrix));
  double taken = seconds() - begin;
  begin = seconds();
  MUST(api->matrix_put(p, 0, matrix, 0, c.depth + 1, b));
  wait(p, 0);
  double put = seconds() - begin;
  begin = seconds();
  MUST(api->product_put(p, 0, matrix, a, c.m, to));
  wait(p, 0);
  MUST(api->product_put(p, 0, matrix, a, c.m, to));
  wait(p, 0);
  double one = (seconds() - begin) / 2, start = 0;
  for (uint32_t i = 0; i < rounds; i++) {
    uint32_t s = i % slots;
    if (i == 2 * slots) start = seconds();
    if (i >= slots) wait(p, s);
    MUST(api->product_put(p, s, matrix, a + in * s, c.m, to + out * s));
  }
  MUST(api->wait(dev));
  double took = (seconds() - start) / (rounds - 2 * slots);
  printf("product %u x %u of %u lines, %s: %.3f ms one by one, %.3f ms together, %.2f T "
         "products/s, %.1f "
         "GB/s; room %.1f ms for %.0f MB, matrix %.2f + %.2f ms for %.0f MB\n",
         c.m, c.n, c.depth, c.narrow ? "f32" : "f64", 1e3 * one, 1e3 * took,
         (double)c.m * c.n * c.depth / took * 1e-12, (double)(in + out) / took * 1e-9, 1e3 * made,
         (double)(2 * (in + out) * slots + lines) * 1e-6, 1e3 * taken, 1e3 * put,
         (double)lines * 1e-6);
  api->host_free(dev, a);
  api->host_free(dev, b);
  api->host_free(dev, to);
  api->matrix_free(dev, matrix);
  api->product_free(dev, p);
}

void time_products(const kf_device_api *table, kf_dev *device) {
  api = table;
  dev = device;
  const product_case cases[] = {{2048, 768, 768, false, false},  {2048, 768, 768, true, false},
                                {1024, 4096, 768, false, false}, {1024, 4096, 768, true, false},
                                {262, 1000, 768, false, false},  {262, 1000, 768, true, false},
                                {32, 1000, 768, false, false},   {32, 1000, 768, true, false},
                                {96, 768, 768, false, false},    {96, 768, 768, true, false},
                                {32, 21841, 768, false, false},  {32, 21841, 768, true, false},
                                {768, 768, 768, false, false},   {16, 16, 16, false, false}};
  for (const product_case &c : cases) time_product(c);
}
