/* resize.c - Pillow's resize of 8-bit pictures with antialiasing, to the bit.
 *
 * An output pixel is a weighted mean of input pixels, along one axis first and then along the
 * other. With scale s = input / output, t = max(s, 1) and the filter f of support r, output i has
 * its centre at c = (i + 1/2) s and the weights
 *
 *   w_j = f((j + 1/2 - c) / t) / sum,   floor(c - r t + 1/2) <= j < floor(c + r t + 1/2)
 *
 * in f64, rounded to multiples of 2^-22. Sums are 32-bit integers that start at a half; results are
 * clamped to 0 ... 255 after each of the two passes. A pass that changes no size is skipped. The
 * pass along rows comes first, unless the height shrinks by more than twice as much as the width (H
 * - h > 2 (W - w), H > h): so does Pillow since version 13, and the order changes the bytes. Models
 * are evaluated on such pixels, so all of this matters.
 *
 * An output pixel depends only on the input pixels under its weights, so a part of the result (a
 * centre crop) costs only the columns of the part and the rows under it. Rows of the first pass are
 * kept in a ring buffer while the second pass needs them; a picture of 1 x 4000 that becomes 224 x
 * 896,000 takes no more memory than any other. */
#include "encode/image.h"

#include <math.h>
#include <string.h>

enum { FRACTION = 22 };

/* --- filters ---------------------------------------------------------------------------------- */

static double bilinear(double x) {
  x = fabs(x);
  return x < 1 ? 1 - x : 0;
}

static double bicubic(double x) {
  const double a = -0.5;
  x = fabs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

static double sinc(double x) {
  const double pi = 3.14159265358979323846;
  return x == 0 ? 1 : sin(x * pi) / (x * pi);
}

static double lanczos(double x) { return x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0; }

typedef struct filter {
  double (*weight)(double x);
  double support;
} filter;

static filter filter_of(kf_resample resample) {
  switch (resample) {
  case KF_RESAMPLE_BILINEAR: return (filter){bilinear, 1};
  case KF_RESAMPLE_LANCZOS: return (filter){lanczos, 3};
  default: return (filter){bicubic, 2};
  }
}

/* --- weights ---------------------------------------------------------------------------------- */

/* Weights of a range of outputs along one axis. */
typedef struct weights {
  uint32_t n;      /* outputs */
  uint32_t most;   /* the most weights of one output */
  uint32_t *first; /* [n] the first input of each */
  uint32_t *count; /* [n] */
  int32_t *w;      /* [n][most] */
} weights;

/* Weights of one output, scaled to a sum of 1, then rounded. */
static void weigh(const filter *f, double centre, double stretch, uint32_t first, uint32_t count,
                  double *exact, int32_t *w) {
  double sum = 0, shrink = 1 / stretch;
  for (uint32_t j = 0; j < count; j++) {
    exact[j] = f->weight((j + first - centre + 0.5) * shrink);
    sum += exact[j];
  }
  for (uint32_t j = 0; j < count; j++) {
    double value = (sum != 0 ? exact[j] / sum : exact[j]) * (1 << FRACTION);
    w[j] = (int32_t)(value < 0 ? value - 0.5 : value + 0.5);
  }
}

/* For outputs start … start + n - 1 of `size`. */
static kf_status weights_make(weights *set, const filter *f, uint32_t input, uint32_t size,
                              uint32_t start, uint32_t n, kf_arena *arena, kf_err *err) {
  double scale = (double)input / size, stretch = scale < 1 ? 1 : scale;
  double support = f->support * stretch;
  uint32_t most = (uint32_t)ceil(support) * 2 + 1;
  double *exact;
  *set = (weights){.n = n, .most = most};
  KF_TAKE(arena, set->first, n);
  KF_TAKE(arena, set->count, n);
  KF_TAKE(arena, set->w, (uint64_t)n * most);
  if (KF_TAKE(arena, exact, most) == NULL) return kf_fail_memory(err);
  for (uint32_t i = 0; i < n; i++) {
    double centre = ((double)start + i + 0.5) * scale;
    double low = centre - support + 0.5, high = centre + support + 0.5;
    uint32_t first = low > 0 ? (uint32_t)low : 0;
    uint32_t end = high < input ? (uint32_t)high : input;
    set->first[i] = first;
    set->count[i] = end - first;
    weigh(f, centre, stretch, first, end - first, exact, set->w + (size_t)i * most);
  }
  return KF_OK;
}

/* --- passes ----------------------------------------------------------------------------------- */

/* The same C is compiled for two instruction sets (kf_resize): all that follows is inlined there.
 * Sums are integers, so the bits agree. */
#define INLINE static inline __attribute__((always_inline))

#define HALF ((uint32_t)1 << (FRACTION - 1))

/* Sums are unsigned because they might wrap for absurd sizes. */
static uint8_t clamp(uint32_t sum) {
  int32_t value = (int32_t)sum >> FRACTION;
  return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

typedef uint32_t words4 __attribute__((vector_size(16)));

/* The input rows of a pass, `room` of them in a ring: row y is at y % room. */
typedef struct ring {
  const uint8_t *rows;
  size_t stride; /* bytes */
  uint32_t room;
} ring;

static const uint8_t *ring_row(const ring *rows, uint32_t y) {
  return rows->rows + (size_t)(y % rows->room) * rows->stride;
}

/* Across rows: n bytes of output i. */
INLINE void down(const weights *set, uint32_t i, const ring *rows, size_t n, uint32_t *sums,
                 uint8_t *out) {
  const int32_t *w = set->w + (size_t)i * set->most;
  for (size_t k = 0; k < n; k++) sums[k] = HALF;
  for (uint32_t j = 0; j < set->count[i]; j++) {
    const uint8_t *row = ring_row(rows, set->first[i] + j);
    for (size_t k = 0; k < n; k++) sums[k] += row[k] * (uint32_t)w[j];
  }
  for (size_t k = 0; k < n; k++) out[k] = clamp(sums[k]);
}

/* --- orders ----------------------------------------------------------------------------------- */

/* A resize under way. An axis that keeps its size has no weights (n = 0). */
typedef struct resizing {
  kf_arena memory;
  const kf_image *image;
  const kf_box *box;
  weights columns, rows;
  uint32_t left, right; /* the columns under the weights */
  uint32_t *words;      /* for one row of these columns */
  uint8_t *between;     /* rows, or one row, between the passes */
  uint32_t *sums;       /* for one row of them */
  uint8_t *out;
} resizing;

/* Along a row, which begins at column `left`: out[n][3]. Its bytes are widened to words first, with
 * room for one more; then four lanes take a pixel at a time. The fourth is unused. */
INLINE void across(const resizing *j, const uint8_t *row, uint8_t *out) {
  const weights *set = &j->columns;
  uint32_t *words = j->words;
  size_t n_row = (size_t)(j->right - j->left) * 3;
  for (size_t k = 0; k < n_row; k++) words[k] = row[k];
  for (uint32_t i = 0; i < set->n; i++, out += 3) {
    const uint32_t *p = words + (size_t)(set->first[i] - j->left) * 3;
    const int32_t *w = set->w + (size_t)i * set->most;
    words4 sum = {HALF, HALF, HALF, HALF};
    for (uint32_t k = 0; k < set->count[i]; k++, p += 3) {
      words4 pixel;
      memcpy(&pixel, p, sizeof pixel);
      sum += pixel * (uint32_t)w[k];
    }
    for (int c = 0; c < 3; c++) out[c] = clamp(sum[c]);
  }
}

/* A row of the picture after the pass along rows. */
INLINE void row_across(const resizing *j, uint32_t y, uint8_t *out) {
  const uint8_t *row = j->image->rgb + (size_t)y * j->image->width * 3;
  if (j->columns.n > 0)
    across(j, row + (size_t)j->left * 3, out);
  else
    memcpy(out, row + (size_t)j->box->left * 3, (size_t)j->box->width * 3);
}

INLINE kf_status rows_only(const resizing *j) {
  for (uint32_t y = 0; y < j->box->height; y++)
    row_across(j, j->box->top + y, j->out + (size_t)y * j->box->width * 3);
  return KF_OK;
}

INLINE kf_status rows_first(resizing *j, kf_err *err) {
  ring kept = {.stride = (size_t)j->box->width * 3, .room = j->rows.most};
  KF_TAKE(&j->memory, j->between, kept.room * kept.stride);
  if (KF_TAKE(&j->memory, j->sums, kept.stride) == NULL) return kf_fail_memory(err);
  kept.rows = j->between;
  uint32_t next = 0;
  for (uint32_t i = 0; i < j->rows.n; i++) {
    uint32_t first = j->rows.first[i], end = first + j->rows.count[i];
    for (next = next < first ? first : next; next < end; next++)
      row_across(j, next, j->between + (size_t)(next % kept.room) * kept.stride);
    down(&j->rows, i, &kept, kept.stride, j->sums, j->out + i * kept.stride);
  }
  return KF_OK;
}

INLINE kf_status columns_first(resizing *j, kf_err *err) {
  size_t n = (size_t)(j->right - j->left) * 3;
  ring all = {.rows = j->image->rgb + (size_t)j->left * 3,
              .stride = (size_t)j->image->width * 3,
              .room = j->image->height};
  KF_TAKE(&j->memory, j->between, n);
  if (KF_TAKE(&j->memory, j->sums, n) == NULL) return kf_fail_memory(err);
  for (uint32_t i = 0; i < j->rows.n; i++) {
    down(&j->rows, i, &all, n, j->sums, j->between);
    across(j, j->between, j->out + (size_t)i * j->box->width * 3);
  }
  return KF_OK;
}

static bool mostly_shorter(const kf_image *image, uint32_t width, uint32_t height) {
  int64_t shorter = (int64_t)image->height - height, thinner = (int64_t)image->width - width;
  return shorter > 0 && shorter > 2 * thinner;
}

static kf_status prepare_columns(resizing *j, const filter *f, uint32_t width, kf_err *err) {
  weights *set = &j->columns;
  KF_TRY(
      weights_make(set, f, j->image->width, width, j->box->left, j->box->width, &j->memory, err));
  j->left = set->first[0];
  j->right = set->first[set->n - 1] + set->count[set->n - 1];
  uint64_t n = (uint64_t)(j->right - j->left) * 3 + 1;
  if (KF_TAKE(&j->memory, j->words, n) == NULL) return kf_fail_memory(err);
  j->words[n - 1] = 0;
  return KF_OK;
}

INLINE kf_status resize(resizing *j, const filter *f, uint32_t width, uint32_t height,
                        kf_err *err) {
  const kf_image *image = j->image;
  bool wide = width != image->width, high = height != image->height;
  if (wide) KF_TRY(prepare_columns(j, f, width, err));
  if (!high) return rows_only(j);
  KF_TRY(weights_make(&j->rows, f, image->height, height, j->box->top, j->box->height, &j->memory,
                      err));
  return wide && mostly_shorter(image, width, height) ? columns_first(j, err) : rows_first(j, err);
}

static kf_status resize_plain(resizing *j, const filter *f, uint32_t width, uint32_t height,
                              kf_err *err) {
  return resize(j, f, width, height, err);
}

#ifdef KF_SIMD
__attribute__((target("avx2"))) static kf_status
resize_avx2(resizing *j, const filter *f, uint32_t width, uint32_t height, kf_err *err) {
  return resize(j, f, width, height, err);
}
#endif

kf_status kf_resize(const kf_image *image, uint32_t width, uint32_t height, kf_resample resample,
                    const kf_box *box, uint8_t *out, kf_err *err) {
  filter f = filter_of(resample);
  resizing j = {.image = image, .box = box, .out = out};
  kf_status (*run)(resizing *, const filter *, uint32_t, uint32_t, kf_err *) = resize_plain;
#ifdef KF_SIMD
  if (__builtin_cpu_supports("avx2")) run = resize_avx2;
#endif
  kf_status status = run(&j, &f, width, height, err);
  kf_arena_free(&j.memory);
  return status;
}
