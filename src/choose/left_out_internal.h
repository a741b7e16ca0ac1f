/* left_out_internal.h - shared by left_out*.c; dim_temperature.c also uses the likelihood. */
#ifndef KF_CHOOSE_LEFT_OUT_INTERNAL_H
#define KF_CHOOSE_LEFT_OUT_INTERNAL_H

#include "choose/left_out.h"

#include <math.h>

typedef struct kf_class_kind {
  double count;         /* rows of each of its classes */
  uint32_t first, last; /* in by_kind */
} kf_class_kind;

/* Everything that depends on lambda (left_out_view.c). Class means lie in n_dirs directions. */
typedef struct kf_view {
  const kf_left_out *l;
  bool shrunk; /* class means are; if not, directions are the columns, n_dirs = D */
  double kappa;
  double noise;   /* 1 / the variance of a row in any direction of the whitened space: N - K */
  double prior;   /* of kf_prior2, by distance; 0: none */
  double largest; /* rows of the largest class */
  uint32_t n_dirs;
  uint32_t metrics;      /* 3, or 1 if class means are not shrunk */
  bool fast;             /* products in f32 */
  double *root;          /* [D] of 1 / (w + lambda) */
  double *gamma;         /* [n_dirs] */
  double *directions;    /* [D][n_dirs] in columns */
  double *means;         /* [n][n_dirs] class means along them */
  double *columns[3];    /* [n_dirs][n] the same transposed: plain, divided by D, by D^2 */
  float *directions_f32; /* with `fast` */
  float *columns_f32[3]; /* with `fast`, in the memory of `columns` */
  double *squares[3];    /* [n] squared lengths in the three metrics */
  /* [n_dirs][2 n_kinds] D^-1 - 1, then D^-2 - 1, of each kind; NULL: kinds are handled one by
   * one */
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
  bool centred;   /* on the mean of all rows; always so for distances */
  bool fast_hits; /* all trials are in f32 */
  uint32_t dim;
  uint32_t n;        /* classes with rows */
  int32_t *number;   /* [n] the number of each */
  int32_t *place;    /* [n_classes] index among them, or -1 */
  uint32_t *by_kind; /* [n] indices, by rising number of rows */
  kf_class_kind *kinds;
  uint32_t n_kinds;
  /* [D][D] columns are eigenvectors of S_w, rows are scaled as the columns of S_w. It starts from
   * minus the turned mean of all rows. */
  kf_matrix turn;
  double *means; /* [n][D] class means, turned and centred */
  bool with_text;
  /* [D][n] turned text prototypes in columns. It starts from their products with the mean of all
   * rows. */
  kf_matrix text;
  double *weights; /* [n] rows of each class, as priors next to cosines; NULL: none */
  /* The rows to leave out, block by block; a block is a group or one row. */
  kf_row_list rows;
  uint64_t *start; /* [n_blocks + 1] */
  uint64_t n_blocks;
  uint64_t largest; /* rows of the largest block that is not fitted again */
  double **turned;  /* [rows.n] turned and centred rows [D]; NULL: not read yet */
  double *read;     /* [n_read][D] their memory, in the order of reading */
  uint64_t n_read;
  double *length; /* [rows.n] of each row before centring; with text */
  kf_left_out_count count;
  /* Memory of the trials, of which there is one at a time. */
  kf_view view;
  struct kf_left_out_workspace *workspaces; /* [threads] */
  uint64_t most_rows;                       /* of a batch */
  kf_arena arena;
};

/* --- which rows are left out together (left_out_plan.c) --------------------------------------- */

/* Sets rows, blocks and count. */
kf_status kf_left_out_plan(kf_left_out *l, uint64_t sample);

/* --- rows (left_out.c) ------------------------------------------------------------------------ */

/* Reads those rows of these blocks [n_blocks] that have not been read yet. */
kf_status kf_left_out_read(kf_left_out *l, const bool *blocks);

/* --- a trial (left_out_trial.c) --------------------------------------------------------------- */

/* Takes memory for all threads. */
void kf_left_out_make_workspaces(kf_left_out *l, kf_arena *arena);

/* --- a lambda (left_out_view.c) --------------------------------------------------------------- */

/* The largest n_dirs there can be. */
uint64_t kf_view_most_directions(const kf_left_out *l);
/* Takes memory for every lambda. */
void kf_view_make(kf_view *v, const kf_left_out *l, kf_arena *arena);
/* Sets the view to a lambda (absolute). fast: products of cosines may be in f32. */
kf_status kf_view_set(kf_view *v, double lambda, bool curve, bool fast);
/* Turns m whitened rows, given in columns [D][m], to the directions: out [m][n_dirs]. floats:
 * workspace for `fast`, [m][D + n_dirs]. On any thread. */
void kf_view_turn(const kf_view *v, const double *columns, size_t m, float *floats, double *out);
/* c [m][n] = a^T b in f32, a [depth][m], b [depth][n]. On any thread. */
void kf_times_f32(const kf_kernels *kernels, const float *a, size_t m, const float *b, size_t n,
                  size_t depth, float *c);
/* D^-1 of a class with `count` rows, in direction d < n_dirs. */
static inline double kf_view_narrowing(const kf_view *v, double count, uint64_t d) {
  return v->shrunk ? 1 / (1 + count * v->kappa * v->gamma[d]) : 1;
}

/* What the prior of a class with `count` rows adds to the squared length of its mean. */
static inline double kf_view_prior2(const kf_view *v, double count) {
  return kf_prior2(v->prior, v->largest, count);
}

/* The score of a row and a class mean, from their squared lengths and their product. */
static inline double kf_view_score(const kf_view *v, double row2, double product, double mean2) {
  if (v->l->euclidean) return -0.5 * v->noise * (row2 - 2 * product + mean2);
  return row2 > 0 && mean2 > 0 ? product / (sqrt(row2) * sqrt(mean2)) : 0;
}

/* --- one block (left_out_block.c) ------------------------------------------------------------- */

/* A class mean that moves when the block is left out, to mean + U^T c. */
typedef struct kf_moved_mean {
  double *c;         /* [2r] */
  double *g0c, *g1c; /* [2r] U U^T c, U D^-1 U^T c */
  double c_g0_c, c_g1_c;
} kf_moved_mean;

/* r rows. Matrices with 2r rows belong to U = [V; Z]. The caller sets the first members. */
typedef struct kf_block {
  uint32_t r;
  const int32_t *label; /* [r] */
  const double *wide;   /* [2r][D] U in the whitened space */
  const double *u;      /* [2r][n_dirs] along the directions of class means */
  double *product[3];   /* [2r][n] with class means, in the three metrics */
  double inverse_left;  /* 1 / (N - g), for the mean of all rows; 0 if that is not subtracted */
  double *omega;        /* [r][r] */
  double *b;            /* [r][r] (Omega^-1 - V V^T)^-1 */
  double *g0, *g1, *g2; /* [2r][2r] U U^T, U D^-1 U^T, U D^-2 U^T; the last two for one count */
  double *e;            /* [2r][2r] for one count */
  double *query;        /* [r][2r] the row itself is U^T query */
  double *by_w;         /* [r][2r] x.W^-1 m = by_w.(U m) */
  double *by_c;         /* [r][2r] x.C^-1 m = by_c.(U D^-1 m), for one count */
  double *length2;      /* [r] x.W^-1 x */
  kf_moved_mean moved;  /* of classes that lose no row */
  kf_moved_mean own;    /* of one that does */
  /* Workspace. */
  double *left;     /* [2r][2r] */
  double *weighted; /* [n_dirs][2r] */
  double *columns;  /* [n_dirs][2r] U, transposed */
  double *squares;  /* [n_dirs][3] v v, v z and z z of one row; if the view has narrowings */
  double *of_kinds; /* [3][2 n_kinds] the elements of g1, then of g2, for all kinds */
  double *own_h;    /* [3][2r] */
  double *t[4];     /* [2r] */
} kf_block;
/* Takes the arrays for blocks of up to r rows and n_dirs directions, except `product`. */
void kf_block_make(kf_block *b, const kf_view *v, uint64_t r, uint64_t n_dirs, kf_arena *arena);
/* Sets scores [r][n]; NaN for classes without other rows. */
void kf_block_score(const kf_view *v, kf_block *b, double *scores);

/* --- a large block (left_out_again.c) --------------------------------------------------------- */

/* Whether fitting again without a group of r rows is faster than the formulas. */
bool kf_again_pays(const kf_left_out *l, uint64_t r);
/* Sets scores [r][n] of r rows that are left out together; label [r], turned [r][D]. Runs on the
 * caller's thread; errors go to the context. */
kf_status kf_again_score(const kf_view *v, uint64_t r, const int32_t *label, const double *turned,
                         double *scores);

/* --- likelihood (likelihood.c) ---------------------------------------------------------------- */

#define KF_TEMPERATURES 9u /* each twice the one before */

/* Sums over rows at each temperature, as integers in units of 2^-40: -ln p, its derivative, and the
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
/* Adds a row by the scores of n classes, NaN for those to ignore. weights: [n] priors of the
 * classes, up to a common factor, which hits ignore; NULL: all are equal. workspace: [2n]. */
void kf_likelihood_add(kf_likelihood *s, const double *scores, const double *weights, uint32_t n,
                       uint32_t own, double *workspace);
/* Counts a row's position alone, without its likelihood, and returns it: how many classes come
 * before its own. */
uint32_t kf_likelihood_count(kf_likelihood *s, const double *scores, uint32_t n, uint32_t own);
void kf_likelihood_join(kf_likelihood *s, const kf_likelihood *other);
/* Sums n likelihoods over the ranks, each of which has added its own rows. */
kf_status kf_likelihood_add_ranks(kf_ctx *ctx, kf_status status, kf_likelihood *s, size_t n);
/* Finds the temperature with the least loss. Does nothing without rows. */
void kf_likelihood_find(const kf_likelihood *s, kf_left_out_point *point);

#endif
