/* kernel.h - the hot loops: one table of functions for each instruction set. The comments here
 * define each function exactly, plain.c is the same in C, and all tables give the same bits
 * (tests/test_kernel.c). This room sees the public headers and nothing else. */
#ifndef KF_KERNEL_H
#define KF_KERNEL_H

#include "koofu_comm.h"
#include "kernel/net.h"

#include <stdbool.h>

/* For exact moments rows become integers in units of 2^-22 of their length: |X| <= KF_FIXED_ONE. */
#define KF_FIXED_BITS 22
#define KF_FIXED_ONE  (1 << KF_FIXED_BITS)

/* Second moments are accumulated tile by tile. A kernel packs a block of integer rows once, in
 * digits of its own choice, and then adds the products of two panels of columns to a tile of 64-bit
 * sums. */
typedef struct kf_moment_kernel {
  size_t edge;       /* columns of a panel; a tile is edge x edge */
  size_t rows;       /* at most this many in a block, so that no partial sum overflows */
  size_t step;       /* rows are packed from a multiple of this, and `rows` is a multiple */
  size_t panel_size; /* bytes of one packed panel; a multiple of 64 */
  /* Packs columns [panel*edge, panel*edge + edge) of x[n][dim] as rows [at, at + n) of the block.
   * Columns past dim become zero, and so do rows from at + n to the next multiple of step. */
  void (*pack)(const int32_t *x, size_t n, size_t dim, size_t panel, size_t at, void *packed);
  /* sums[r*stride + c] += sum over n rows of (column r of panel a) * (column c of panel b). */
  void (*tile)(const void *a, const void *b, size_t n, int64_t *sums, size_t stride);
  /* Called on a thread before its first `tile` of a block and after the last; may be NULL. */
  void (*begin)(void);
  void (*end)(void);
} kf_moment_kernel;

/* The first pass of a search multiplies 8-bit rows with 8-bit queries. Rows are packed in panels of
 * KF_PANEL, packed[dim/4][KF_PANEL][4]: four adjacent columns of a row side by side, each byte
 * being the value + 128. All instruction sets read the same panels. */
#define KF_PANEL       16u
#define KF_PANELS_STEP 4u /* a scan covers a multiple of this many panels */
#define KF_PEAKS       (KF_PANELS_STEP * KF_PANEL)

/* Columns of packed rows: the fewest that split into equal parts of at most 64 columns, each part a
 * multiple of 4. */
static inline uint32_t kf_scan_dim(uint32_t dim) {
  if (dim == 0) dim = 1;
  uint32_t parts = (dim + 63) / 64;
  return ((dim + parts - 1) / parts + 3) / 4 * 4 * parts;
}

/* A row that may matter to a query of the strip, and their dot product. Rows are counted from the
 * first one scanned. */
typedef struct kf_hit {
  uint32_t query, row;
  int32_t dot;
} kf_hit;

/* A strip of queries (which share a rounding factor) against some panels. Row r is a hit of query q
 * if
 *
 *     dot - kf_scan_offset(offset[r], unit) >= floor[q]
 *
 * All kernels find the same hits; those of one query are written in rising order of rows. */
typedef struct kf_scan {
  uint32_t dim;          /* kf_scan_dim */
  const uint8_t *panels; /* [n_panels][dim * KF_PANEL], 64-byte aligned */
  size_t n_panels;       /* a multiple of KF_PANELS_STEP */
  const float *offset;   /* [n_panels * KF_PANEL], 64-byte aligned; may be infinite */
  float unit;            /* turns offsets into units of a dot product; not zero */
  const void *queries;   /* packed by the kernel */
  size_t n;              /* queries in the strip, at most kernel->strip */
  const int32_t *floor;  /* [n], from KF_SCAN_ALL to KF_SCAN_LIMIT */
  kf_hit *hits;          /* room for n * n_panels * KF_PANEL */
  const uint8_t *next;   /* memory that later scans read, to prefetch */
  size_t next_size;      /* bytes; may be 0 */
} kf_scan;

/* An offset in units of a dot product, clamped to a limit that no dot product reaches. With a floor
 * of KF_SCAN_ALL every row is a hit. With any other floor a row of zeros (bytes of 128) is a hit if
 * its offset is minus infinity. */
#define KF_SCAN_LIMIT (1 << 29)
#define KF_SCAN_ALL   (-(1 << 30))
static inline int32_t kf_scan_offset(float offset, float unit) {
  float x = offset * unit;
  x = x > (float)-KF_SCAN_LIMIT ? x : (float)-KF_SCAN_LIMIT;
  x = x < (float)KF_SCAN_LIMIT ? x : (float)KF_SCAN_LIMIT;
  return (int32_t)x;
}

/* Prefetches what later scans read, a little at each step. Otherwise memory would idle while a scan
 * computes, and the first scan of a block would wait for it. */
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

/* Raises peaks[i] to sums[i] + more where that is larger. */
static inline void kf_raise_peaks(int32_t *peaks, const int32_t *sums, int32_t more, size_t n) {
  for (size_t i = 0; i < n; i++) peaks[i] = sums[i] + more > peaks[i] ? sums[i] + more : peaks[i];
}

typedef struct kf_scan_kernel {
  size_t strip; /* queries of a full strip */
  int most;     /* the largest magnitude of their bytes; callers ask kf_scan_most */
  /* Bytes of a packed strip; a multiple of 64. */
  size_t (*size)(uint32_t dim);
  /* Packs n <= strip queries [n][dim]. */
  void (*pack)(const int8_t *queries, size_t n, uint32_t dim, void *packed);
  /* Returns the number of hits written. */
  size_t (*scan)(const kf_scan *scan);
  /* peaks[q][r], r < KF_PEAKS: the largest dot - kf_scan_offset of query q among rows r, r +
   * KF_PEAKS, r + 2 * KF_PEAKS, …; 64-byte aligned. Ignores floors and hits. */
  void (*peaks)(const kf_scan *scan, int32_t *peaks);
  /* Called on a thread before its first `scan` or `peaks` of rows with `dim` columns and after the
   * last; may be NULL. */
  void (*begin)(uint32_t dim);
  void (*end)(void);
} kf_scan_kernel;

/* Minus the excess of a sum over bytes that are the value + 128; a sum that starts here comes out
 * right. */
static inline int32_t kf_scan_start(const int8_t *query, uint32_t dim) {
  int32_t sum = 0;
  for (uint32_t i = 0; i < dim; i++) sum += query[i];
  return -128 * sum;
}

/* The largest magnitude of a query's bytes: the kernel's, or less for very wide rows, so that all
 * sums over value + 128 stay below 2^29. Rows have values from -127 to 127. */
static inline int kf_scan_most(const kf_scan_kernel *kernel, uint32_t dim) {
  return dim <= 16384 ? kernel->most : 31;
}

/* Survivors are rescored one by one with finer queries, whose numbers are 128 * high + low, two
 * bytes. The high parts alone rule out most rows. Columns are padded to a multiple of KF_FINE. */
#define KF_FINE      64u
#define KF_FINE_MOST (127 * 128 + 63)
static inline int8_t kf_fine_high(int32_t x) { return (int8_t)((x + 128 * 128 + 64) / 128 - 128); }
static inline int8_t kf_fine_low(int32_t x) { return (int8_t)(x - 128 * kf_fine_high(x)); }

/* A canonical sum adds x_i to lane i mod 8, in rising i, and then adds up the lanes like this. */
static inline double kf_add_lanes(const double lane[8]) {
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

typedef struct kf_kernels {
  kf_isa isa;

  /* --- reading ------------------------------------------------------------------------------- */
  void (*f16_to_f32)(const uint16_t *in, size_t n, float *out);
  void (*f32_to_f16)(const float *in, size_t n, uint16_t *out);

  /* --- canonical sums of f32 rows, in f64 (kf_add_lanes) ------------------------------------- */
  /* sum x_i^2; not finite if x holds a NaN or an infinity. */
  double (*norm2)(const float *x, size_t dim);
  /* The dot products of one row with m others. */
  void (*dots)(const float *x, const float *const *rows, size_t m, size_t dim, double *out);
  /* The squared distances of one row from m others. */
  void (*distances)(const float *x, const float *const *rows, size_t m, size_t dim, double *out);

  /* --- searching ----------------------------------------------------------------------------- */
  const kf_scan_kernel *scan;
  /* sum query_i * row_i of plain bytes; n is a multiple of KF_FINE, at most KF_MAX_DIM, and query_i
   * is at least -127, so no sum overflows. */
  int32_t (*byte_dot)(const int8_t *query, const uint8_t *row, size_t n);

  /* --- exact moments ------------------------------------------------------------------------- */
  /* out[i] = x[i] * scale, rounded to nearest even; results must fit 32 bits. */
  void (*quantize)(const float *x, size_t dim, double scale, int32_t *out);
  const kf_moment_kernel *moment;

  /* --- linear algebra; each product is added by kf_fma or kf_fmaf (fused.h) ------------------ */
  /* c[i][j] += sum_k a[k][i] * b[k][j] for i < m, j < n, over k = 0, 1, … depth - 1 in order. */
  void (*gemm_tn)(const double *a, size_t lda, const double *b, size_t ldb, double *c, size_t ldc,
                  size_t m, size_t n, size_t depth);
  /* gemm_tn in f32. */
  void (*gemm_tn_f32)(const float *a, size_t lda, const float *b, size_t ldb, float *c, size_t ldc,
                      size_t m, size_t n, size_t depth);
  /* Writes to list [n], in rising order, the i < n with (x[i] + reach * far[i]) * scale[i] -
   * offset[i] >= low, each step rounded to f32. Returns their number. */
  size_t (*list_reaching)(const float *x, const float *far, float reach, const float *scale,
                          const float *offset, size_t n, float low, uint32_t *list);
  /* out[k] = the canonical dot product of x with row k of rows [m][ld], of n columns. */
  void (*row_dots)(const double *rows, size_t ld, size_t m, size_t n, const double *x, double *out);
  /* y[i] += sum_k factor[k] * rows[k][i] for i < n, over k = 0, 1, … m - 1 in order. */
  void (*add_rows)(const double *rows, size_t ld, size_t m, size_t n, const double *factor,
                   double *y);
  /* y += A x for eight rows of a symmetric matrix, and by symmetry eight columns: a [8][ld] holds
   * rows n … n + 7 of the lower triangle and the whole 8 x 8 block on the diagonal; n is a multiple
   * of 8. First y[i] += a[t][i] * x[n + t] for i < n + 8 and t = 0, 1, …, 7; then y[n + t] += the
   * canonical dot product of the first n elements of a[t] and x. */
  void (*symmetric_rows)(size_t n, const double *a, size_t ld, const double *x, double *y);
  /* The canonical dot product of two f64 vectors. */
  double (*dot)(size_t n, const double *x, const double *y);
  /* Applies `count` plane rotations, one after the other, to columns [0, n) of q [..][stride]:
   * rotation t maps rows p = first - t and p + 1 to (c*q_p - s*q_{p+1}, s*q_p + c*q_{p+1}). Every
   * operation is rounded. */
  void (*rotate)(double *q, size_t stride, size_t n, size_t first, const double *c, const double *s,
                 size_t count);

  /* --- the secular equation (src/model/secular.c); every operation is rounded ---------------- */
  /* The gap of pole j is (d[j] - origin) - x. With q = z[j] / gap, sums[0] = sum of z[j] * q and
   * sums[1] = sum of q * q, both canonical. */
  void (*secular_sums)(size_t n, const double *d, const double *z, double origin, double x,
                       double sums[2]);
  /* For j in [first, last): out[j] = the product over i = 0, 1, … n - 1 of the gap of pole j for
   * origin[i] and x[i], divided by d[j] - d[i] unless i = j. */
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
/* Whether this machine has VDPBF16PS; kf_kernels_for uses it only where it is faster (KF_SIMD). */
bool kf_has_avx512bf16(void);

/* The tables. All but the plain ones exist on x86-64 only (KF_SIMD). */
extern const kf_kernels kf_kernels_plain;
extern const kf_kernels kf_kernels_avx2;
extern const kf_kernels kf_kernels_avx512;
extern const kf_kernels kf_kernels_avx512bf16; /* avx512 with VDPBF16PS, for AMD */
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
