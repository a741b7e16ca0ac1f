/* index.h - what an index holds, and the numbers by which the first pass of a search is trusted.
 * Stays in this room. docs/numerics.md has the proof.
 *
 * With the centre m, a row x and a query q are y = x - m and p = q - m. What ranks rows is the key
 *
 *     a = p . y - h        h = -m . y   (q . x = a + q . m)
 *                          h = |y|^2/2  (|q - x|^2 = |p|^2 - 2 a)
 *
 * and the first pass has it from 8-bit y and p as v = (8-bit p . 8-bit y) * factor * scale - h,
 * with |v - a| <= margin. */
#ifndef KF_INDEX_H
#define KF_INDEX_H

#include "search/search.h"

/* What the rows of a block have in common, except those that are always candidates. */
typedef struct kf_block {
  float scale;  /* y is about scale * bytes */
  float length; /* not less than any |y| */
  float error;  /* not less than any |y - scale * bytes| */
  float offset; /* the largest |h| */
  float fixed;  /* what does not depend on the query in the margin */
} kf_block;

struct kf_index {
  kf_source source;
  kf_metric metric;
  uint64_t n;
  uint32_t dim, padded; /* kf_scan_dim(dim) */
  bool in_place;
  float *rows; /* [n][dim]; NULL: in place */
  double *centre;
  double centre_length; /* not less than the length of the centre */

  /* The 8-bit copy, in panels, and h of each row; places past n are filled up to a whole block. */
  uint32_t block_rows; /* a multiple of KF_PANELS_STEP * KF_PANEL */
  uint64_t n_blocks;
  uint8_t *packed;
  float *offset; /* h; minus infinity: the row is always a candidate, and its bytes are zero */
  kf_block *blocks;
  /* A query's factor is not below this, so that offsets of most blocks are not too large in units of
   * a dot product. It matters for queries that are next to the centre, and rounds them to little. */
  double least_factor;
};

/* A query. First it is centred, then rounded with a factor that several queries may share. */
typedef struct kf_query {
  double largest; /* |p_i|; infinite: too long, and every row is a candidate */
  double base;    /* q . m, or |p|^2 */
  double length;  /* not less than |q| + |m| (dot products) or |p| (distances) */
  /* Once it is rounded: what a block's length and error contribute to the margin, and what is always
   * there. */
  double by_length, by_error, fixed;
} kf_query;

/* Everything but the last three. scratch: [2 * dim]. */
kf_query kf_query_start(const kf_index *index, const kf_kernels *kernels, const float *x,
                        double *scratch);
/* The factor by which numbers up to `largest` become bytes; 0: they are too small. */
float kf_query_factor(const kf_index *index, const kf_kernels *kernels, double largest);
/* Rounds a query to bytes [padded], and fills in the rest. One that is longer than the factor allows
 * becomes zeros with an infinite error. scratch: [dim]. */
void kf_query_round(const kf_index *index, const kf_kernels *kernels, const float *x, float factor,
                    double *scratch, kf_query *query, int8_t *bytes);

/* How far v may be from the key of the canonical score, for the rows of a block. Not finite: anything
 * is possible. */
extern double kf_bound_scale; /* 1, except in a test */
static inline double kf_margin(const kf_query *query, const kf_block *block) {
  return kf_bound_scale *
         (query->by_length * (double)block->length + query->by_error * (double)block->error +
          query->fixed + (double)block->fixed);
}
/* What 1 in a dot product of a group of queries with a block is worth, in the key; 0 where that is of
 * no use, and every row is to be a hit. */
static inline double kf_value_of_one(float factor, const kf_block *block) {
  double value = (double)factor * (double)block->scale;
  bool usable =
      value > 1e-30 && value < 1e30 && (double)block->offset < value * 0.5 * KF_SCAN_LIMIT;
  return usable ? value : 0;
}
/* What dot - offset, in units of the dot product, must reach for the key of a row of the block to be
 * `least` or more: v + margin >= least, with room for the rounding of offsets and of itself. */
static inline int32_t kf_floor(double least, double margin, double value_of_one,
                               const kf_block *block) {
  if (!(value_of_one > 0)) return KF_SCAN_ALL;
  double unit = 1 / value_of_one, floor = (least - margin) * unit;
  floor -= 0x1p-40 * (floor < 0 ? -floor : floor) + 0x1p-22 * (double)block->offset * unit + 3;
  if (floor > KF_SCAN_LIMIT) return KF_SCAN_LIMIT;
  return floor > KF_SCAN_ALL ? (int32_t)floor : KF_SCAN_ALL; /* also where it is NaN */
}
/* The key of a canonical score (dot product or squared distance): larger is nearer. It never falls
 * where the score gets better. */
double kf_key(const kf_index *index, const kf_query *query, double score);

#endif
