/* index.h - the contents of an index, and the error bounds of the first pass of a search. Stays in
 * this room. docs/numerics.md has the proof.
 *
 * With the centre m, a row x and a query q become y = x - m and p = q - m; for cosine, x and q are
 * scaled to unit length first. Rows are ordered by the key
 *
 *     a = p . y - h        h = -m . y   (q . x = a + q . m)
 *                          h = |y|^2/2  (|q - x|^2 = |p|^2 - 2 a)
 *
 * which the first pass computes from 8-bit y and p as v = (8-bit p . 8-bit y) * factor * scale - h,
 * with |v - a| <= margin. If a few leading directions are enough (lead.h), it uses these instead of
 * y and p, and only a <= v + margin is known; survivors are then rescored with finer numbers: 8-bit
 * rows with a scale of their own, 14-bit queries, |v - a| <= margin. */
#ifndef KF_INDEX_H
#define KF_INDEX_H

#include "search/lead.h"
#include "search/search.h"

#include <math.h>

/* Bounds over the rows of one block, except rows that always survive. */
typedef struct kf_row_block {
  float scale;   /* y is about scale * bytes */
  float length;  /* upper bound of |y|, and of its leading directions if these are scanned */
  float error;   /* upper bound of |y - scale * bytes|, for the numbers that are scanned */
  float offset;  /* the largest |h| */
  float fixed;   /* the part of the margin that does not depend on the query */
  float longest; /* upper bound of |y|, of all rows */
} kf_row_block;

struct kf_index {
  kf_source source;
  kf_metric metric;
  uint64_t n;
  uint32_t dim;
  kf_lead lead;
  uint32_t seen, padded; /* numbers of a row that are scanned; kf_scan_dim(seen) */
  bool in_place;
  const float *rows; /* [n][dim] as given, own or resident; NULL: in place, or in `halves` */
  float *kept;       /* `rows`, if the index owns them; otherwise NULL */
  uint16_t *halves;  /* [n][dim] in f16 or bf16, if the source is */
  double *norm2;     /* [n] their canonical squared lengths; cosine only */
  double *centre;
  double centre_length; /* upper bound of the length of the centre */
  double longest;       /* upper bound of |y| */
  double farthest;      /* upper bound of |x| on all ranks, if there are several */

  /* The 8-bit rows, in panels, and h of each: n_blocks * block_rows places, the last ones empty. */
  uint32_t block_rows; /* a multiple of KF_PANELS_STEP * KF_PANEL */
  uint64_t n_blocks;
  uint8_t *packed;
  float *offset; /* h; minus infinity: the row always survives, and its bytes are zero */
  kf_row_block *blocks;
  /* With leading directions: whole rows in 8 bits, row by row. */
  uint32_t fine_dim;              /* columns: dim padded to a multiple of KF_FINE; 0: none */
  uint8_t *fine;                  /* [places][fine_dim], each byte the value + 128 */
  float *fine_scale, *fine_error; /* [places] |y - scale * fine| <= error */
  /* Lower bound of a query's factor: keeps the offsets of most blocks within range in units of a
   * dot product. It matters only for queries next to the centre, which it rounds to almost zero. */
  double least_factor;
  /* Factor of every margin: 1. A test shrinks it and demands wrong answers, to show that the bound
   * is needed. */
  double bound_scale;
  struct kf_index_devices *devices; /* copies of the rows there (device_rows.h) */
  kf_arena arena;
};

/* The parts of a margin: weights for the length of rows and for their error, and a constant. */
typedef struct kf_weights {
  double by_length, by_error, fixed;
} kf_weights;

/* A query: centred, then rounded with the factor of its strip. */
typedef struct kf_query {
  double norm2;   /* the canonical squared length of the query as given */
  double largest; /* the largest |p_i|; infinite: too long, and every row survives */
  double base;    /* q . m, or |p|^2 */
  double length;  /* upper bound of |q| + |m| (dot products) or |p| (distances) */
  double share;   /* of a score that rounding may change: for kf_score_error */
  /* Set by rounding: the parts of the margin (kf_weights). */
  double by_length, by_error, fixed;
  /* For rescoring: the value of 1; the weights for the high halves of the query's numbers, and for
   * whole numbers; what to subtract from the sums of products with the high and low halves. */
  double fine_factor;
  kf_weights fine[2];
  int32_t fine_start[2];
} kf_query;

/* The `share` of a query with this canonical squared length. */
double kf_query_share(const kf_index *index, double norm2);
/* Sets the members up to `share`. workspace: [2 * dim]. */
kf_query kf_query_start(const kf_index *index, const kf_kernels *kernels, const float *x,
                        double *workspace);
/* The factor by which numbers up to `largest` become bytes; 0 if they are too small. */
float kf_query_factor(const kf_index *index, const kf_kernels *kernels, double largest);
/* Rounds a query to bytes [padded], and sets the rest. One that is too long for the factor becomes
 * zeros with an infinite error. seen: its leading directions, [index->seen]; NULL: the query itself
 * is scanned. workspace: [dim + KF_LEAD_TAIL]. */
void kf_query_round(const kf_index *index, const kf_kernels *kernels, const float *x,
                    const float *seen, float factor, double *workspace, kf_query *query,
                    int8_t *bytes);
/* Rounds the whole query to numbers up to KF_FINE_MOST: [2][fine_dim], their high and low halves.
 * workspace: [dim]. */
void kf_query_round_fine(const kf_index *index, const kf_kernels *kernels, const float *x,
                         double *workspace, kf_query *query, int8_t *parts);
/* Measures of a row before it is rounded. */
typedef struct kf_measured {
  double largest; /* of the numbers that are scanned */
  double length2; /* |y|^2 */
  double h;
} kf_measured;
kf_measured kf_measure(const kf_index *index, const kf_kernels *kernels, double largest,
                       const double *y);
/* Rows and queries longer than this do not fit f32 arithmetic: rows always survive. */
#define KF_LONGEST 1e15
static inline bool kf_fits_bytes(const kf_measured *m) {
  return m->length2 < KF_LONGEST * KF_LONGEST && fabs(m->h) < KF_LONGEST * KF_LONGEST;
}
/* The scale by which numbers up to `largest` become integers up to `most`. */
float kf_scale_for(double largest, int most);
/* The nearest integers to y [n] / scale, as bytes, and zeros up to `padded`; y becomes the rounding
 * error. */
void kf_round_row(float scale, double *y, uint32_t n, uint32_t padded, int8_t *bytes);
/* An f32 above x, with room for what f64 may have lost. */
float kf_round_up(double x);
/* The error of a canonical or f64 sum of dim products, and of a handful of further operations, is
 * below this share of the product of lengths. */
double kf_rounding_share(const kf_index *index);

/* The factor that brings a row of this squared length to the length at which it is compared; 1 for
 * zero rows. */
double kf_row_scale(const kf_index *index, double norm2);
double kf_row_scale_at(const kf_index *index, uint64_t row); /* the same for a row of the index */
/* y = scale x - centre; returns the largest |y_i|. */
double kf_centre_row(const kf_index *index, const float *x, double scale, double *y);

/* How far v may be from the key of the canonical score, for the rows of a block. Not finite:
 * unknown. */
static inline double kf_margin(const kf_index *index, const kf_query *query,
                               const kf_row_block *block) {
  return index->bound_scale *
         (query->by_length * (double)block->length + query->by_error * (double)block->error +
          query->fixed + (double)block->fixed);
}
/* The same for a rescored row. */
static inline double kf_fine_margin(const kf_index *index, const kf_weights *weights,
                                    const kf_row_block *block, uint64_t row) {
  return index->bound_scale * (weights->by_length * (double)block->length +
                               weights->by_error * (double)index->fine_error[row] + weights->fixed +
                               (double)block->fixed);
}
/* What 1 in the dot product of a strip with a block is worth as a key; 0 if it is out of range, so
 * that every row must be a hit. */
static inline double kf_value_of_one(float factor, const kf_row_block *block) {
  double value = (double)factor * (double)block->scale;
  bool usable =
      value > 1e-30 && value < 1e30 && (double)block->offset < value * 0.5 * KF_SCAN_LIMIT;
  return usable ? value : 0;
}
/* The least dot - offset, in units of the dot product, at which the key of a row of the block can
 * reach `least`: v + margin >= least, with room for the rounding of offsets and of the floor
 * itself. */
static inline int32_t kf_floor(double least, double margin, double value_of_one,
                               const kf_row_block *block) {
  if (!(value_of_one > 0)) return KF_SCAN_ALL;
  double unit = 1 / value_of_one, floor = (least - margin) * unit;
  floor -= 0x1p-40 * (floor < 0 ? -floor : floor) + 0x1p-22 * (double)block->offset * unit + 3;
  if (floor > KF_SCAN_LIMIT) return KF_SCAN_LIMIT;
  return floor > KF_SCAN_ALL ? (int32_t)floor : KF_SCAN_ALL; /* also if it is NaN */
}
/* The key of a canonical score (cosine, dot product or squared distance): larger is nearer, and a
 * better score never has a smaller key. */
double kf_key(const kf_index *index, const kf_query *query, double score);
/* Upper bound of |y| of a row with this canonical score. */
static inline double kf_row_length(const kf_index *index, const kf_query *query, uint64_t row,
                                   double score) {
  if (index->metric == KF_METRIC_COSINE) return 2 + index->centre_length;
  if (index->metric == KF_METRIC_EUCLIDEAN) return query->length + 2 * sqrt(score);
  bool bounded = index->offset[row] > -INFINITY;
  return bounded ? (double)index->blocks[row / index->block_rows].length : index->longest;
}
/* How far a canonical score may be from the exact one. */
static inline double kf_score_error(const kf_index *index, const kf_query *query, uint64_t row,
                                    double score) {
  if (index->metric == KF_METRIC_COSINE) return query->share;
  if (index->metric == KF_METRIC_EUCLIDEAN) return query->share * score;
  return query->share * (kf_row_length(index, query, row, score) + index->centre_length);
}
/* How far its key may be from the key of the exact score. */
double kf_key_error(const kf_index *index, const kf_query *query, uint64_t row, double score);
/* The canonical cosine of two rows with this dot product and these squared lengths. That of a row
 * with itself is 1. */
static inline double kf_cosine(double dot, double norm2, double other_norm2) {
  double lengths2 = norm2 * other_norm2; /* below 2^545, and at least 2^-596 unless it is zero */
  return lengths2 > 0 ? dot / sqrt(lengths2) : 0;
}

/* Rows lie anywhere in memory, so they are prefetched before they are read; of long rows only the
 * beginning, since the hardware prefetcher follows. (Always inline: gcc drops a call as free of
 * side effects.) */
#define KF_PREFETCHED 256u /* bytes of a row */
static inline __attribute__((always_inline)) void kf_row_prefetch(const kf_index *index,
                                                                  uint64_t row) {
  bool half = index->halves != NULL;
  const char *x = half ? (const char *)(index->halves + row * index->dim)
                       : (const char *)(index->rows + row * index->dim);
  size_t bytes = index->dim * (half ? sizeof *index->halves : sizeof(float));
  for (size_t at = 0; at < bytes && at < KF_PREFETCHED; at += 64) __builtin_prefetch(x + at);
}
/* Copies rows that the index keeps, as f32. */
void kf_index_copy(const kf_index *index, const kf_kernels *kernels, uint64_t first, uint64_t n,
                   float *rows);

/* --- strips of queries (query_strips.c) ------------------------------------------------------- */

/* Queries rounded, packed and cut into strips, which the scan kernel takes one at a time. The
 * queries of a strip share a rounding factor. */
typedef struct kf_query_strips {
  const kf_index *index;
  const kf_kernels *kernels;
  const kf_scan_kernel *scan;
  const float *x;     /* [n][dim] the queries */
  uint32_t n;         /* queries */
  uint32_t n_strips;  /* of scan->strip queries; the last one may be smaller */
  uint32_t *order;    /* [n] place i holds query order[i] */
  kf_query *query;    /* [n] by place, like the arrays below */
  int32_t *floor;     /* [n] set by the caller before a scan */
  float *factor;      /* [n_strips] */
  size_t packed_size; /* bytes of a packed strip */
  char *packed;       /* [n_strips][packed_size] */
  kf_hit *hits;       /* [strip * block_rows] of the last scan */
  /* workspace */
  kf_query *given; /* [n] by query */
  int8_t *bytes;   /* [strip][padded] */
  double *wide;    /* [2 * dim + KF_LEAD_TAIL] */
  /* with leading directions */
  int8_t *fine;   /* [n][2][fine_dim] by place */
  float *seen;    /* [n][index->seen] by query */
  float *columns; /* [dim][KF_LEAD_ROWS], workspace, and [KF_LEAD_ROWS][lead.n] */
} kf_query_strips;

/* Takes memory for up to `most` queries; the caller checks the arena. */
void kf_query_strips_make(kf_query_strips *strips, const kf_index *index, const kf_kernels *kernels,
                          uint32_t most, kf_arena *arena);
/* Takes n queries. by_size: ordered by their largest numbers, so that the queries of a strip are
 * alike and lose little to the shared factor. */
void kf_query_strips_take(kf_query_strips *strips, const float *x, uint32_t n, bool by_size);
static inline const float *kf_strips_row(const kf_query_strips *strips, uint32_t place) {
  return strips->x + (uint64_t)strips->order[place] * strips->index->dim;
}
static inline uint32_t kf_strip_first(const kf_query_strips *strips, uint32_t strip) {
  return strip * (uint32_t)strips->scan->strip; /* its first place */
}
/* A scan of one strip over rows [row, row + rows) of a block, with kf_value_of_one for them. */
kf_scan kf_query_strips_scan(const kf_query_strips *strips, uint32_t strip, uint64_t row,
                             uint64_t rows, double *value_of_one);

#endif
