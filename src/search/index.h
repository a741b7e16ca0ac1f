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

/* What is known of all rows of a block: the largest length, error and |offset|. */
typedef struct kf_block {
  float length, error, offset;
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

  /* The 8-bit copy, in panels, and four numbers for each row; rows past n are filled up to a whole
   * block. */
  uint32_t block_rows; /* a multiple of KF_PANELS_STEP * KF_PANEL */
  uint64_t n_blocks;
  uint8_t *packed;
  float *scale;  /* y is about scale * bytes */
  float *offset; /* h */
  float *length; /* not less than |y|; infinite: the row is always a candidate */
  float *error;  /* not less than |y - scale * bytes| */
  kf_block *blocks;
};

/* A query in 8 bits. */
typedef struct kf_query {
  float factor;  /* p is about factor * bytes */
  double error;  /* not less than |p - factor * bytes|; infinite: every row is a candidate */
  double bytes;  /* not less than |factor * bytes| */
  double length; /* not less than |q| + |m| (dot products) or |p| (distances) */
  double base;   /* q . m, or |p|^2 */
} kf_query;

/* Centres a query and rounds it to bytes [padded]. scratch: [2 * dim]. */
kf_query kf_index_query(const kf_index *index, const kf_kernels *kernels, const float *x,
                        double *scratch, int8_t *bytes);

/* How far v may be from the key of the canonical score, for rows that are no longer, have no larger
 * error and no larger |offset| than this. Not finite: anything is possible. */
double kf_margin(const kf_index *index, const kf_query *query, double length, double error,
                 double offset);
/* What v, computed in f32, may differ from itself, for the same rows. */
double kf_f32_margin(const kf_query *query, double length, double error, double offset);
/* The key of a canonical score (dot product or squared distance): larger is nearer. It never falls
 * where the score gets better. */
double kf_key(const kf_index *index, const kf_query *query, double score);

#endif
