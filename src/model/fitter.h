/* fitter.h - what fitter.c and directions.c share, for each other alone. */
#ifndef KF_FITTER_H
#define KF_FITTER_H

#include "model/model.h"

struct kf_fitter {
  kf_ctx *ctx;
  const kf_stats *within, *between;
  uint32_t dim;
  kf_method method; /* never KF_METHOD_DEFAULT */
  kf_priors priors;
  bool total;             /* S_w is zero, and the scatter of all rows takes its place */
  double *mean;           /* [D] */
  double *column;         /* [D] 1 / s, by which columns are multiplied; ones: the paper's method */
  double *s_w, *s_b;      /* [D][D] with their columns scaled */
  double trace, norm2;    /* of S_w, before columns are scaled */
  double mean_eigenvalue; /* of S_w */
  /* Found when they are first asked for. */
  bool has_values, has_vectors, has_between;
  double *values;       /* [D] eigenvalues w of S_w, falling; those below `noise` are 0 */
  double noise;         /* an eigenvalue this small is rounding */
  uint32_t rank;        /* of S_w */
  double *vectors;      /* [D][D] rows are eigenvectors: V; NULL before */
  double *between_in_v; /* [D][D] V S_b V^T, its upper triangle; NULL before */
  /* At one lambda; NaN: at none. */
  double mapped, turned; /* the lambda of `map` and of u with `scale` */
  double *map;           /* [D][D] T in columns, for scaled columns */
  double *u;        /* [D][D] rows are the directions in the basis diag(scale) V; or workspace; with
                          * room for the eigenvalues of S_w */
  double *scale;    /* [D] (w + lambda)^(-1/2) */
  double *gamma;    /* [D] falling; of whichever of the two is there */
  kf_factor factor; /* of S_w + lambda I, in units of a power of two */
  double *c;        /* [D][D] workspace, with `map` in one place */
  double *room;     /* of the eigensolver; c is its end */
  double *matrices; /* all of these but V and V S_b V^T: spare memory of the context */
  uint64_t checksum; /* of the statistics; 0: not yet */
  kf_arena arena;
};

/* Steps of a fit, for progress: scatter, directions, the map, classes. */
enum { KF_FIT_STEPS = 4 };

/* Rows [first, end) of a matrix, for a task. */
#define KF_ROW_BLOCK 32u
static inline uint64_t kf_block_end(uint64_t n, size_t block) {
  uint64_t end = (block + (uint64_t)1) * KF_ROW_BLOCK;
  return end < n ? end : n;
}

static inline kf_status kf_by_rows(kf_ctx *ctx, uint64_t rows, kf_task_fn task, void *argument) {
  return kf_parallel(ctx, (size_t)((rows + KF_ROW_BLOCK - 1) / KF_ROW_BLOCK), task, argument);
}

/* directions.c: makes room for what is found there, most of which can be used otherwise before. */
void kf_directions_make(kf_fitter *fitter);
kf_lent kf_directions_lend(const kf_fitter *fitter);
/* `map` and `gamma` at one lambda, and `values`. */
kf_status kf_find_map(kf_fitter *fitter, double lambda);

#endif
