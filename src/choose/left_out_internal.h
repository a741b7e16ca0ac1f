/* left_out_internal.h - shared by the files left_out*.c; the likelihood by dim_temperature.c, too. */
#ifndef KF_CHOOSE_LEFT_OUT_INTERNAL_H
#define KF_CHOOSE_LEFT_OUT_INTERNAL_H

#include "choose/left_out.h"

#include <math.h>

typedef struct kf_class_kind {
  double count;         /* rows of each of its classes */
  uint32_t first, last; /* in by_kind */
} kf_class_kind;

/* Everything that depends on lambda (left_out_view.c). Class means have a part in `rank` directions
 * only. */
typedef struct kf_view {
  const kf_left_out *l;
  bool shrunk; /* otherwise directions are the columns: rank = D */
  double kappa;
  double noise;   /* 1 / the variance of a row in any direction of the whitened space: N - K */
  double prior;   /* of kf_prior2, by distances; 0: none */
  double largest; /* number of rows of a class */
  uint32_t rank;
  uint32_t metrics;      /* 3, or 1 if class means are not shrunk */
  bool fast;             /* products are in f32 */
  double *root;          /* [D] of 1 / (w + lambda) */
  double *gamma;         /* [rank] */
  double *directions;    /* [D][rank] in columns */
  double *means;         /* [n][rank] class means along them */
  double *columns[3];    /* [rank][n] the same in columns: as they are, divided by D, by D^2 */
  float *directions_f32; /* the same, if products are in f32 */
  float *columns_f32[3]; /* and in the memory of `columns` */
  double *squares[3];    /* [n] squared lengths in the three metrics */
  /* [rank][2 n_kinds] D^-1 - 1, then D^-2 - 1, of each kind; NULL: kinds are taken one by one */
  double *narrowings;
  /* Workspace. */
  double *whitened, *weighted; /* [D][n], [n][D] */
  double *square, *vectors;    /* [n][n] */
} kf_view;

struct kf_left_out {
  kf_ctx *ctx;
  kf_fitter *fitter;
  const kf_stats *stats;
  const kf_data *data;
  const uint32_t *groups;
  bool euclidean;
  bool centred;   /* on the mean of all rows, as always by distances */
  bool fast_hits; /* all trials are in f32 */
  uint32_t dim;
  uint32_t n;        /* classes with rows */
  int32_t *number;   /* [n] of each */
  int32_t *place;    /* [n_classes] among them, or -1 */
  uint32_t *by_kind; /* [n] places, by rising number of rows */
  kf_class_kind *kinds;
  uint32_t n_kinds;
  /* [D][D] columns are eigenvectors of S_w, rows scaled as its columns are; from minus the mean of all
   * rows, turned. */
  kf_matrix turn;
  double *means; /* [n][D] class means, turned and centred */
  bool with_text;
  kf_matrix
      text; /* [D][n] prototypes, turned, in columns; from their products with the mean of all rows */
  double *weights; /* [n] rows of each class, as priors next to cosines; NULL: none */
  /* The rows to leave out, block by block: a group, or one row. */
  kf_row_list rows;
  uint64_t *start; /* [n_blocks + 1] */
  uint64_t n_blocks;
  uint64_t largest; /* rows of a block, without those that are fitted again */
  double **turned;  /* [rows.n] rows [D], centred; NULL: not read yet */
  double *read;     /* [n_read][D] they are in, one after the other as they were read */
  uint64_t n_read;
  double *length; /* [rows.n] of each row, not centred; with text */
  kf_left_out_count count;
  /* Memory of trials, which come one after the other. */
  kf_view view;
  struct kf_bench *benches; /* [threads] */
  uint64_t most_rows;       /* of a batch */
  kf_arena arena;
};

/* --- which rows are left out together (left_out_plan.c) ---------------------------------------- */

/* Sets rows, blocks and count. */
kf_status kf_left_out_plan(kf_left_out *l, uint64_t sample);

/* --- rows (left_out.c) ------------------------------------------------------------------------- */

/* Reads the rows of these blocks [n_blocks] that were not read yet. */
kf_status kf_left_out_read(kf_left_out *l, const bool *blocks);

/* --- a trial (left_out_trial.c) ---------------------------------------------------------------- */

/* Takes the memory of all workers. */
void kf_benches_make(kf_left_out *l, kf_arena *arena);

/* --- a lambda (left_out_view.c) ---------------------------------------------------------------- */

/* The largest rank. */
uint64_t kf_view_most_directions(const kf_left_out *l);
/* Takes the memory. */
void kf_view_make(kf_view *v, const kf_left_out *l, kf_arena *arena);
/* Goes to a lambda (absolute). fast: products of cosines in f32 are good enough. */
kf_status kf_view_set(kf_view *v, double lambda, bool curve, bool fast);
/* c [m][n] = a^T b in f32, a [depth][m], b [depth][n]. On any thread. */
void kf_times_f32(const kf_kernels *kernels, const float *a, size_t m, const float *b, size_t n,
                  size_t depth, float *c);
/* D^-1 of a class with `count` rows, in direction d < rank. */
static inline double kf_view_narrowing(const kf_view *v, double count, uint64_t d) {
  return v->shrunk ? 1 / (1 + count * v->kappa * v->gamma[d]) : 1;
}

/* What the prior of a class with `count` rows adds to the squared length of its mean. */
static inline double kf_view_prior2(const kf_view *v, double count) {
  return kf_prior2(v->prior, v->largest, count);
}

/* Of a row and a class mean of these squared lengths. */
static inline double kf_view_score(const kf_view *v, double row2, double product, double mean2) {
  if (v->l->euclidean) return -0.5 * v->noise * (row2 - 2 * product + mean2);
  return row2 > 0 && mean2 > 0 ? product / (sqrt(row2) * sqrt(mean2)) : 0;
}

/* --- one block (left_out_block.c) -------------------------------------------------------------- */

/* What a class mean adds to the products of its block: it is mean + U^T c. */
typedef struct kf_moved_mean {
  double *c;         /* [2r] */
  double *g0c, *g1c; /* [2r] U U^T c, U D^-1 U^T c */
  double c_g0_c, c_g1_c;
} kf_moved_mean;

/* r rows. Matrices of 2r rows belong to U = [V; Z]. The caller sets the first members. */
typedef struct kf_block {
  uint32_t r;
  const int32_t *label; /* [r] */
  const double *wide;   /* [2r][D] U in the whitened space */
  const double *u;      /* [2r][rank] along the directions of class means */
  double *product[3];   /* [2r][n] with class means, in the three metrics */
  double
      inverse_left; /* 1 / (N - g), by which the mean of all rows moves; 0 if it is not subtracted */
  double *omega;    /* [r][r] */
  double *b;        /* [r][r] (Omega^-1 - V V^T)^-1 */
  double *g0, *g1, *g2; /* [2r][2r] U U^T, U D^-1 U^T, U D^-2 U^T; the latter two of one count */
  double *e;            /* [2r][2r] of one count */
  double *query;        /* [r][2r] the row itself is U^T query */
  double *by_w;         /* [r][2r] x.W^-1 m = by_w.(U m) */
  double *by_c;         /* [r][2r] x.C^-1 m = by_c.(U D^-1 m), of one count */
  double *length2;      /* [r] x.W^-1 x */
  kf_moved_mean moved;  /* of classes that lose no row */
  kf_moved_mean own;    /* of one that does */
  double *left;         /* [2r][2r] workspace for solving */
  double *weighted;     /* [rank][2r] workspace, like what follows */
  double *columns;      /* [rank][2r] */
  double *pairs;        /* [rank][3] v v, v z and z z of one row; if the view has narrowings */
  double *of_kinds;     /* [3][2 n_kinds] the elements of g1, then of g2, for all kinds */
  double *own_h;        /* [3][2r] */
  double *t[4];         /* [2r] */
} kf_block;
/* Takes the arrays for blocks of up to r rows and this rank, except `product`. */
void kf_block_make(kf_block *b, const kf_view *v, uint64_t r, uint64_t rank, kf_arena *arena);
/* Scores [r][n]; NaN for classes that have no rows left. */
void kf_block_score(const kf_view *v, kf_block *b, double *scores);

/* --- a large block (left_out_again.c) ----------------------------------------------------------- */

/* Whether fitting again without r rows is faster than the formulas. */
bool kf_again_pays(const kf_left_out *l, uint64_t r);
/* Scores [r][n] of r rows that are left out together: their labels [r], and the rows as in `turned`.
 * On the caller's thread; errors go to the context. */
kf_status kf_again_score(const kf_view *v, uint64_t r, const int32_t *label, const double *turned,
                         double *scores);

/* --- likelihood (likelihood.c) -------------------------------------------------------------------- */

#define KF_TEMPERATURES 9u /* each twice the one before */

/* Sums over rows, as integers of 2^-40: of -ln p at each temperature, of its derivative, and of the
 * squares of both; then numbers of rows. */
typedef struct kf_likelihood_sums {
  kf_i128 loss[KF_TEMPERATURES], slope[KF_TEMPERATURES], square[KF_TEMPERATURES];
  kf_i128 slope_square[KF_TEMPERATURES];
  kf_i128 n, top1, top5;
} kf_likelihood_sums;
typedef struct kf_likelihood {
  double first; /* temperature */
  kf_likelihood_sums sums;
} kf_likelihood;
kf_likelihood kf_likelihood_new(bool euclidean);
/* Adds a row: the scores of n classes, NaN for those that are out. weights: [n] priors of the
 * classes, up to a factor; hits are those of the scores alone. NULL: all are equal. workspace: [2n]. */
void kf_likelihood_add(kf_likelihood *s, const double *scores, const double *weights, uint32_t n,
                       uint32_t own, double *workspace);
/* Counts a row as a hit, or not, without its likelihood. Returns how many classes come before its own. */
uint32_t kf_likelihood_count(kf_likelihood *s, const double *scores, uint32_t n, uint32_t own);
void kf_likelihood_join(kf_likelihood *s, const kf_likelihood *other);
/* n of them, of rows that ranks have shared out, become those of all rows. */
kf_status kf_likelihood_add_ranks(kf_ctx *ctx, kf_status status, kf_likelihood *s, size_t n);
/* The temperature with the least loss, if there are rows. */
void kf_likelihood_find(const kf_likelihood *s, kf_left_out_point *point);

#endif
