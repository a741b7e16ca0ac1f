/* lead.h - the leading directions of rows, which a first pass can do with. Stays in this room. */
#ifndef KF_SEARCH_LEAD_H
#define KF_SEARCH_LEAD_H

#include "base/base.h"

struct kf_index;

/* Rows of embeddings vary much in a few directions and little in the rest. With the centred row y, a
 * query p, n directions as rows of P, u = P y and t not less than the length of what is left of y,
 *
 *     p . y <= u_p . u_y + t_p t_y + share (|p| + TINY) (|y| + TINY)
 *
 * so the first pass can take n + 4 numbers in the place of D (lead.c): u, and t in four parts of t/2,
 * which are not much larger than the others and so leave them their bits. */
typedef struct kf_lead {
  uint32_t n;   /* directions; 0: none, the first pass takes rows whole and as they are */
  float *basis; /* [dim][n] */
  double share; /* of the lengths: what rounding may hide, see lead.c */
} kf_lead;
#define KF_LEAD_TINY 1e-30
#define KF_LEAD_TAIL 4u  /* numbers after u */
#define KF_LEAD_ROWS 32u /* that are turned at a time */

/* Finds the directions of an index whose centre is known, if they pay; given > 0: this many in any
 * case. */
kf_status kf_lead_find(kf_ctx *ctx, struct kf_index *index, uint32_t given);

/* What the first pass takes for up to KF_LEAD_ROWS rows, out [rows][n + KF_LEAD_TAIL], from their
 * columns [dim][KF_LEAD_ROWS] and squared lengths. */
void kf_lead_see(const kf_lead *lead, const kf_kernels *kernels, uint32_t dim, const float *columns,
                 const double *length2, uint32_t rows, float *workspace, float *out);
/* The largest of these numbers. */
double kf_lead_largest(const kf_lead *lead, const float *seen);

#endif
