/* kernel.h - the hot loops. One table of functions for each instruction set; every table gives the
 * same bits (tests/test_kernel.c). This room sees the public headers and nothing else. */
#ifndef KF_KERNEL_H
#define KF_KERNEL_H

#include "koofu_comm.h"
#include "kernel/net.h"

#include <stdbool.h>

/* Rows become integers in units of 2^-22 of their length, so |X| <= KF_FIXED_ONE. */
#define KF_FIXED_BITS 22
#define KF_FIXED_ONE  (1 << KF_FIXED_BITS)

/* Second moments are accumulated in tiles of the upper triangle. A kernel packs a block of integer
 * rows once, in digits of its own choice, and then adds the products of two column panels to a tile
 * of 64-bit sums. */
typedef struct kf_moment_kernel {
  size_t edge;       /* columns of a panel; a tile is edge x edge */
  size_t rows;       /* of a full block, so that no partial sum overflows; a multiple of step */
  size_t step;       /* packing starts at a multiple of this many rows */
  size_t panel_size; /* bytes of one packed panel; a multiple of 64 */
  /* Packs columns [panel*edge, panel*edge + edge) of x[n][dim] as rows [at, at + n) of the block;
   * columns past dim, and rows from at + n to the next multiple of step, become zero. */
  void (*pack)(const int32_t *x, size_t n, size_t dim, size_t panel, size_t at, void *packed);
  /* sums[r*stride + c] += sum over the first n rows of column r of panel a times column c of panel
   * b. */
  void (*tile)(const void *a, const void *b, size_t n, int64_t *sums, size_t stride);
  /* Called on a thread before its first `tile` of a block, and after the last (may be NULL). */
  void (*begin)(void);
  void (*end)(void);
} kf_moment_kernel;

/* The first pass of a search multiplies 8-bit rows with 8-bit queries. Rows are packed in panels of
 * KF_PANEL: packed[dim/4][KF_PANEL][4], four adjacent columns of a row together, each byte the
 * value + 128. Every instruction set reads the same panels. */
#define KF_PANEL       16u
#define KF_PANELS_STEP 4u /* a scan takes a multiple of this many panels */
#define KF_PEAKS       (KF_PANELS_STEP * KF_PANEL)

/* The columns of packed rows: the fewest that make equal parts of at most 64, each a multiple of
 * 4. */
static inline uint32_t kf_scan_dim(uint32_t dim) {
  if (dim == 0) dim = 1;
  uint32_t parts = (dim + 63) / 64;
  return ((dim + parts - 1) / parts + 3) / 4 * 4 * parts;
}

/* A row that may matter to a query of the group, and their dot product. Rows are counted from the
 * first one scanned. */
typedef struct kf_hit {
  uint32_t query, row;
  int32_t dot;
} kf_hit;

/* One group of queries against some panels. Row r is a hit of query q if
 *
 *     dot - kf_scan_offset(offset[r], unit) >= floor[q]
 *
 * The rows of each query are written in rising order, and every kernel finds the same ones. */
typedef struct kf_scan {
  uint32_t dim;          /* kf_scan_dim */
  const uint8_t *panels; /* [n_panels][dim * KF_PANEL], 64-byte aligned */
  size_t n_panels;       /* a multiple of KF_PANELS_STEP */
  const float *offset;   /* [n_panels * KF_PANEL], 64-byte aligned; may be infinite */
  float unit;            /* 1 in units of a dot product; not zero */
  const void *queries;   /* packed by the kernel */
  size_t n;              /* queries in the group, at most kernel->group */
  const int32_t *floor;  /* [n], from KF_SCAN_ALL to KF_SCAN_LIMIT */
  kf_hit *hits;          /* room for n * n_panels * KF_PANEL */
  const uint8_t *next;   /* what later scans read, to be prefetched */
  size_t next_size;      /* in bytes; may be 0 */
} kf_scan;

/* An offset in units of a dot product, clamped at a limit that no dot product reaches. With a floor
 * of KF_SCAN_ALL every row is a hit; with any other floor, so is a row of zeros (bytes of 128)
 * whose offset is minus infinity. */
#define KF_SCAN_LIMIT (1 << 29)
#define KF_SCAN_ALL   (-(1 << 30))
static inline int32_t kf_scan_offset(float offset, float unit) {
  float x = offset * unit;
  x = x > (float)-KF_SCAN_LIMIT ? x : (float)-KF_SCAN_LIMIT;
  x = x < (float)KF_SCAN_LIMIT ? x : (float)KF_SCAN_LIMIT;
  return (int32_t)x;
}

/* Prefetches what later scans read, a little at each step of this one: otherwise the memory would
 * idle while a scan computes, and the first scan of a block would wait for it. */
typedef struct kf_ahead {
  const uint8_t *at, *end;
  size_t step; /* bytes */
} kf_ahead;
static inline kf_ahead kf_ahead_of(const kf_scan *s, size_t steps) {
  const uint8_t *end = s->next_size > 0 ? s->next + s->next_size : s->next; /* which may be NULL */
  return (kf_ahead){s->next, end, (s->next_size / steps + 64) / 64 * 64};
}
static inline void kf_ahead_step(kf_ahead *a) {
  for (size_t i = 0; i < a->step && a->at < a->end; i += 64, a->at += 64)
    __builtin_prefetch(a->at, 0, 2);
}

/* Raises peaks[i] to sums[i] + more if that is larger. */
static inline void kf_raise_peaks(int32_t *peaks, const int32_t *sums, int32_t more, size_t n) {
  for (size_t i = 0; i < n; i++) peaks[i] = sums[i] + more > peaks[i] ? sums[i] + more : peaks[i];
}

typedef struct kf_scan_kernel {
  size_t group; /* queries that are scanned together */
  int most;     /* the largest magnitude of their bytes, see kf_scan_most */
  /* Bytes of a packed group; a multiple of 64. */
  size_t (*size)(uint32_t dim);
  /* Packs n <= group queries [n][dim]. */
  void (*pack)(const int8_t *queries, size_t n, uint32_t dim, void *packed);
  /* Returns how many hits were written. */
  size_t (*scan)(const kf_scan *scan);
  /* The largest dot - kf_scan_offset of each query among the rows r, r + KF_PEAKS, r + 2 *
   * KF_PEAKS, … for each r < KF_PEAKS: peaks[n][KF_PEAKS], 64-byte aligned. Floors and hits are not
   * used. */
  void (*peaks)(const kf_scan *scan, int32_t *peaks);
  /* Called on a thread before its first `scan` or `peaks` for rows of `dim` columns, and after the
   * last (may be NULL). */
  void (*begin)(uint32_t dim);
  void (*end)(void);
} kf_scan_kernel;

/* Minus the excess of a sum in which rows are taken as value + 128: where the sum may start. */
static inline int32_t kf_scan_start(const int8_t *query, uint32_t dim) {
  int32_t sum = 0;
  for (uint32_t i = 0; i < dim; i++) sum += query[i];
  return -128 * sum;
}

/* The largest magnitude of bytes of queries: what the kernel allows, and less for very wide rows,
 * so that all sums, with rows taken as value + 128, are below 2^29. Bytes of rows go from -127 to
 * 127. */
static inline int kf_scan_most(const kf_scan_kernel *kernel, uint32_t dim) {
  return dim <= 16384 ? kernel->most : 31;
}

/* Rows are looked at again one by one: bytes, each the value + 128, with queries whose numbers are 128
 * high + low, both of them bytes. The high parts alone rule out most rows. */
#define KF_FINE      64u /* columns are a multiple of this */
#define KF_FINE_MOST (127 * 128 + 63)
static inline int8_t kf_fine_high(int32_t x) { return (int8_t)((x + 128 * 128 + 64) / 128 - 128); }
static inline int8_t kf_fine_low(int32_t x) { return (int8_t)(x - 128 * kf_fine_high(x)); }

/* The tree over the eight lanes of a canonical sum, the same for every instruction set. */
static inline double kf_add_lanes(const double lane[8]) {
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

typedef struct kf_kernels {
  kf_isa isa;

  /* --- reading ------------------------------------------------------------------------------- */
  void (*f16_to_f32)(const uint16_t *in, size_t n, float *out);
  void (*f32_to_f16)(const float *in, size_t n, uint16_t *out);

  /* --- canonical sums: eight strided lanes in f64, then a fixed tree ------------------------- */
  /* sum x_i^2; not finite if x holds a NaN or an infinity. */
  double (*norm2)(const float *x, size_t dim);
  /* The canonical dot products of one row with m others. */
  void (*dots)(const float *x, const float *const *rows, size_t m, size_t dim, double *out);
  /* The canonical squared distances, likewise. */
  void (*distances)(const float *x, const float *const *rows, size_t m, size_t dim, double *out);

  /* --- searching ----------------------------------------------------------------------------- */
  const kf_scan_kernel *scan;
  /* The sum of query_i row_i over i < n, of bytes as they are; n is a multiple of KF_FINE and at most
   * KF_MAX_DIM, and query_i at least -127, so no sum overflows. */
  int32_t (*byte_dot)(const int8_t *query, const uint8_t *row, size_t n);

  /* --- exact moments ------------------------------------------------------------------------- */
  /* out[i] = x[i] * scale, rounded to nearest even; every result must fit 32 bits. */
  void (*quantize)(const float *x, size_t dim, double scale, int32_t *out);
  const kf_moment_kernel *moment;

  /* --- linear algebra; a step of a sum of products is kf_fma or kf_fmaf (fused.h) ------------ */
  /* c[i][j] += sum_k a[k][i] * b[k][j] for i < m, j < n, over k = 0, 1, … depth - 1 in order. */
  void (*gemm_tn)(const double *a, size_t lda, const double *b, size_t ldb, double *c, size_t ldc,
                  size_t m, size_t n, size_t depth);
  /* The same in f32. */
  void (*gemm_tn_f32)(const float *a, size_t lda, const float *b, size_t ldb, float *c, size_t ldc,
                      size_t m, size_t n, size_t depth);
  /* Lists, rising, the i < n with (x[i] + reach * far[i]) * scale[i] - offset[i] >= low, each step
   * rounded to f32, in list [n]; returns how many there are. */
  size_t (*list_reaching)(const float *x, const float *far, float reach, const float *scale,
                          const float *offset, size_t n, float low, uint32_t *list);
  /* out[k] = the canonical dot product of x with row k of rows [m][ld], over n columns. */
  void (*row_dots)(const double *rows, size_t ld, size_t m, size_t n, const double *x, double *out);
  /* y[i] += sum_k factor[k] * rows[k][i] for i < n, over k = 0, 1, … m - 1 in order. */
  void (*add_rows)(const double *rows, size_t ld, size_t m, size_t n, const double *factor,
                   double *y);
  /* Eight rows of a symmetric matrix times x, added to y: rows n … n + 7 of the lower triangle with
   * the whole of the 8 x 8 block on the diagonal; a [8][ld], n a multiple of 8. First
   * y[i] += a[t][i] * x[n + t] for i < n + 8, t = 0, 1, …; then y[n + t] += the canonical dot
   * product of the first n elements of a[t] and x. */
  void (*symmetric_rows)(size_t n, const double *a, size_t ld, const double *x, double *y);
  /* The canonical dot product of two f64 vectors. */
  double (*dot)(size_t n, const double *x, const double *y);
  /* Applies `count` plane rotations in turn to rows of q [..][stride], columns [0, n), every operation
   * rounded: rotation t takes rows p = first - t and p + 1 to (c*q_p - s*q_{p+1}, s*q_p + c*q_{p+1}). */
  void (*rotate)(double *q, size_t stride, size_t n, size_t first, const double *c, const double *s,
                 size_t count);

  /* --- the secular equation (src/model/secular.c); the gap of pole j is (d[j] - origin) - x; every
   *     operation is rounded --------------------------------------------------------------------- */
  /* sums[0] = sum of z[j] * q, sums[1] = sum of q * q with q = z[j] / gap, both canonical. */
  void (*secular_sums)(size_t n, const double *d, const double *z, double origin, double x,
                       double sums[2]);
  /* out[j] = the product over i = 0, 1, … n - 1 of the gap of pole j to root i, with origin[i] and
   * x[i], divided by d[j] - d[i] unless i = j; for j in [first, last). */
  void (*secular_weights)(size_t n, const double *d, const double *origin, const double *x,
                          size_t first, size_t last, double *out);
  /* out[j] = z[j] / gap; returns their canonical sum of squares. */
  double (*secular_vector)(size_t n, const double *d, const double *z, double origin, double x,
                           double *out);

  /* --- towers (net.h) ------------------------------------------------------------------------ */
  const kf_net_kernel *net_f32, *net_bf16;
} kf_kernels;

/* NULL if this machine or this build does not have the instruction set. */
const kf_kernels *kf_kernels_for(kf_isa isa);
/* Whether this machine has VDPBF16PS, which kf_kernels_for uses only where it is faster
 * (KF_SIMD). */
bool kf_has_avx512bf16(void);

/* The tables; all but the plain ones exist on x86-64 only (KF_SIMD). */
extern const kf_kernels kf_kernels_plain;
extern const kf_kernels kf_kernels_avx2;
extern const kf_kernels kf_kernels_avx512;
extern const kf_kernels kf_kernels_avx512bf16; /* the same with VDPBF16PS, for AMD */
extern const kf_kernels kf_kernels_amx;
extern const kf_moment_kernel kf_moment_amx;
extern const kf_scan_kernel kf_scan_plain;
extern const kf_scan_kernel kf_scan_avx2;
extern const kf_scan_kernel kf_scan_avx512;
extern const kf_scan_kernel kf_scan_amx;
extern const kf_net_kernel kf_net_plain_f32, kf_net_plain_bf16;
extern const kf_net_kernel kf_net_avx2_f32, kf_net_avx2_bf16;
extern const kf_net_kernel kf_net_avx512_f32, kf_net_avx512_bf16;
extern const kf_net_kernel kf_net_avx512bf16, kf_net_amx;

#endif
