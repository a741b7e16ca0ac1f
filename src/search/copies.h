/* copies.h - rows of an index that are equal, byte by byte. Stays in this room. */
#ifndef KF_COPIES_H
#define KF_COPIES_H

#include "search/index.h"

#define KF_NO_COPY UINT32_MAX

typedef struct kf_copies {
  uint64_t n;             /* rows that are copies of an earlier one; 0: the arrays are NULL */
  uint32_t *next;         /* [rows] the next row that is equal; KF_NO_COPY: none */
  unsigned char *is_copy; /* a bit for each row */
  kf_arena arena;
} kf_copies;

/* Finds the copies in an index (rows in place are fetched). Finds none in 2^32 rows or more. */
kf_status kf_copies_find(kf_ctx *ctx, const kf_index *index, kf_copies *out);
void kf_copies_clear(kf_copies *copies);
static inline bool kf_is_copy(const kf_copies *copies, uint64_t row) {
  return copies->n > 0 && (copies->is_copy[row / 8] >> row % 8 & 1) != 0;
}
/* Whether other rows are equal to this one. */
static inline bool kf_has_copies(const kf_copies *copies, uint64_t row) {
  return copies->n > 0 && (copies->next[row] != KF_NO_COPY || kf_is_copy(copies, row));
}
/* How many of rows [first, first + n) are copies. */
uint64_t kf_copies_in(const kf_copies *copies, uint64_t first, uint64_t n);

#endif
