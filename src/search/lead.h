/* lead.h - leading directions: a shorter first pass. Stays in this room. */
#ifndef KF_SEARCH_LEAD_H
#define KF_SEARCH_LEAD_H

#include "base/base.h"

struct kf_index;

/* Embeddings vary much in a few directions and little in the rest. With a centred row y, a query p,
 * n directions as rows of P, u = P y, and t an upper bound of the length of the rest of y,
 *
 *     p . y <= u_p . u_y + t_p t_y + share (|p| + TINY) (|y| + TINY)
 *
 * so the first pass can scan n + 4 numbers instead of D (lead.c): u, and t as four numbers t/2,
 * which are not much larger than the others and so do not cost them bits. */
typedef struct kf_lead {
  uint32_t n;   /* directions; 0: none, whole rows are scanned */
  float *basis; /* [dim][n] */
  double share; /* of the lengths: the rounding error, see lead.c */
} kf_lead;
#define KF_LEAD_TINY 1e-30
#define KF_LEAD_TAIL 4u  /* numbers after u */
#define KF_LEAD_ROWS 32u /* projected at a time */

/* Finds the directions of an index whose centre is known, if they pay; given > 0: this many in any
 * case. */
kf_status kf_lead_find(kf_ctx *ctx, struct kf_index *index, uint32_t given);

/* The numbers to scan for up to KF_LEAD_ROWS rows, out [rows][n + KF_LEAD_TAIL], from their columns
 * [dim][KF_LEAD_ROWS] and squared lengths. */
void kf_lead_see(const kf_lead *lead, const kf_kernels *kernels, uint32_t dim, const float *columns,
                 const double *length2, uint32_t rows, float *workspace, float *out);
/* The largest of these numbers. */
double kf_lead_largest(const kf_lead *lead, const float *seen);

#endif
