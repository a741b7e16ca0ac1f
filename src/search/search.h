/* search.h - nearest rows. Sees model and below. */
#ifndef KF_SEARCH_H
#define KF_SEARCH_H

#include "device/device.h"
#include "model/model.h"

/* --- the engine ------------------------------------------------------------------------------ */

/* Where the rows of an index come from. A zero row has a cosine of 0 with any other. `fetch` may be
 * called from any worker thread. */
typedef struct kf_source {
  uint64_t rows;
  uint32_t dim;
  kf_status (*fetch)(const void *self, const kf_kernels *kernels, uint64_t first, uint64_t n,
                     float *rows, kf_err *err);
  const void *self;
  /* The same rows in memory, which must outlive the index and not change, so that it keeps no copy.
   * f32 only, and not with in_place. NULL: rows are fetched. */
  const float *resident;
  void *owned;      /* freed with the index, or when building it fails; may be NULL */
  bool canonical;   /* canonical scores decide; otherwise exact ones do */
  uint64_t queries; /* expected; see kf_index_options */
  uint32_t lead;    /* directions of the first pass, for tests; 0: chosen */
  kf_dtype dtype;   /* of all numbers, and of the rows the index keeps: f32, f16 or bf16 */
  /* These are rows [first, first + rows) of `all`; other ranks have the others. `fetch` gives
   * those, too: row i of all is i - first, modulo 2^64. all 0: these are all. */
  uint64_t first, all;
} kf_source;

/* in_place: survivors are fetched again from the source, which must outlive the index; otherwise
 * the index keeps all rows, unless they are resident. */
kf_status kf_index_build(kf_ctx *ctx, const kf_source *source, kf_metric metric, bool in_place,
                         kf_index **out);

/* An upper bound of the length of any row of the index; and raising it to that of rows of other
 * ranks. */
double kf_index_own_max_length(const kf_index *index);
void kf_index_raise_max_length(kf_index *index, double length);

/* Which rows of an index take part. */
struct kf_filter {
  const void *of; /* the gallery */
  uint64_t n;
  uint64_t *rows; /* [n] rising */
  uint64_t *bits; /* one for each row of the index */
  bool sparse;    /* so few that scoring each is faster than a pass over all rows */
};
static inline bool kf_filter_takes(const kf_filter *filter, uint64_t row) {
  return filter == NULL || (filter->bits[row / 64] >> row % 64 & 1) != 0;
}
/* How many of rows [first, end) take part; and a filter of these alone, counted from `first`, which
 * the caller frees. */
uint64_t kf_filter_count(const kf_filter *filter, uint64_t first, uint64_t end);
kf_status kf_filter_narrow(const kf_filter *filter, uint64_t first, uint64_t end, kf_filter **out,
                           kf_err *err);

/* A search: the k nearest rows for each of n queries in the space of the rows. Callers name the
 * fields they need; the others are zero. */
typedef struct kf_request {
  const kf_index *index;
  const float *queries; /* [n][dim] */
  uint64_t n;
  uint32_t k;               /* has passed kf_check_neighbours */
  bool check;               /* queries are still to be checked (kf_check_norm2) */
  const int64_t *leave_out; /* [n] a row that does not count for this query; NULL: none */
  const kf_filter *only;    /* the rows that take part; NULL: all */
  int64_t *rows;            /* [n][k] the answers, best first */
  double *scores;           /* [n][k] or NULL */
  uint64_t *candidates;     /* the number of rows scored is added; may be NULL */
  /* Set inside this room. */
  const kf_kernels *kernels;
  struct kf_scored
      *scored; /* [n][k] canonical scores instead of rows and scores; NULL: not wanted */
} kf_request;

/* Searches on all threads and ranks of the context, and on its devices where that pays. */
kf_status kf_nearest(kf_ctx *ctx, const kf_request *request);

/* The same on the threads of a pass, each with queries of its own; `check` and `only` are not
 * supported. Before the pass, `begin` is told how many queries there will be in all and at a time;
 * after it, `end` passes on the status of the pass, or says what went wrong with a device. */
typedef struct kf_nearest_use {
  const kf_index *index;
  const kf_kernels *kernels;
  const kf_devices *devices; /* NULL: the CPU searches */
  bool failed;               /* a device has; with the lock of the index */
  kf_err err;
} kf_nearest_use;
kf_status kf_nearest_begin(kf_ctx *ctx, const kf_index *index, uint64_t n, uint64_t each,
                           uint32_t k, kf_nearest_use *use);
kf_status kf_nearest_end(kf_ctx *ctx, kf_nearest_use *use, kf_status status);
kf_status kf_nearest_in_pass(kf_nearest_use *use, const kf_request *request, kf_err *err);

/* Calls `use`, for each of n < 2^32 queries, for every row whose canonical score (cosine, dot
 * product or squared distance) is least_score[i] or better, and for some others, in no order, among
 * the rows of blocks [block, end). On the calling thread. */
typedef void (*kf_reach_fn)(void *argument, uint64_t query, uint64_t row);
kf_status kf_index_reaching(const kf_index *index, const kf_kernels *kernels, const float *queries,
                            uint64_t n, const double *least_score, uint64_t block, uint64_t end,
                            kf_reach_fn use, void *argument, kf_err *err);
/* How many of `rows` rows every query can find: one less if a query leaves one out. */
uint64_t kf_rows_taking_part(uint64_t rows, const int64_t *leave_out, uint64_t n);
/* KF_ERR_ARG if k is out of range for `rows` rows that can be found. */
kf_status kf_check_neighbours(uint32_t k, uint64_t rows, kf_err *err);

/* KF_ERR_DATA, naming a row or query by `what` and its number, if its squared length is not finite,
 * or zero where its direction matters. */
kf_status kf_check_norm2(const char *what, uint64_t number, double norm2, bool direction,
                         kf_err *err);
/* KF_ERR_ARG unless rows of an index can have this type. */
kf_status kf_check_rows_dtype(kf_dtype dtype, kf_err *err);
/* Rounds rows [n][dim] to f16 or bf16, to nearest even; f32 rows stay as they are. KF_ERR_DATA,
 * naming a row of the data set (NULL: by its number, counted from `first`), if a number is too
 * large or, with `direction`, a row becomes zero. */
kf_status kf_round_rows(const kf_kernels *kernels, kf_dtype dtype, const kf_data *data,
                        uint64_t first, uint64_t n, uint32_t dim, bool direction, float *rows,
                        kf_err *err);
/* out = x scaled to unit length by its canonical squared length, rounded once; zeros stay zeros. */
void kf_unit_f32(const float *x, double norm2, uint32_t dim, float *out);

/* --- prototypes ------------------------------------------------------------------------------ */

#define KF_CLASSIFY_ROWS 256u /* queries that pass over the prototypes together, at most */

/* The prototypes of a model, ready to be searched: in the mapped or the original space, at unit
 * length for cosine. Only classes that take part have one: not those without rows. */
typedef struct kf_prototypes {
  const kf_model *model;
  const kf_kernels *kernels;
  kf_metric metric; /* cosine or Euclidean */
  bool raw;
  kf_part part; /* images, text or fused */
  bool prior;   /* the last column holds the effect of priors on distances or cosines */
  uint32_t n, dim;
  double largest; /* rows of the largest class of the model */
  int32_t *ids;   /* [n] class numbers, rising */
  kf_index *index;
  struct kf_prototypes_devices *devices; /* changes while they are used */
  kf_arena arena;
} kf_prototypes;

/* raw: in the original space, by class means. mask: [classes of the model] 1 if a class takes part;
 * NULL: all do. */
kf_status kf_prototypes_new(kf_ctx *ctx, const kf_model *model, kf_metric metric, bool raw,
                            kf_part part, const unsigned char *mask, kf_prototypes **out);
void kf_prototypes_free(kf_prototypes *p);

/* What the threads of a pass need to classify rows, on devices where that pays. */
typedef struct kf_prototypes_use {
  const kf_prototypes *p;
  kf_mapping mapping;
  kf_nearest_use search;
  kf_slots_use sums;
  double temperature; /* of probabilities; 0: not wanted */
  bool squares;       /* sums of their squares are wanted, too */
  uint64_t batch;     /* rows that a thread should take at a time; 0: no device takes part */
} kf_prototypes_use;

/* What a pass over `rows` rows will ask for: the `top` nearest prototypes; probabilities, if there
 * is a temperature, with `squares` in kf_odds if set. */
typedef struct kf_prototypes_plan {
  uint64_t rows;
  uint32_t top;
  double temperature;
  bool squares;
} kf_prototypes_plan;
/* Before the pass, and after it, on the thread of the context. */
kf_status kf_prototypes_begin(kf_ctx *ctx, const kf_prototypes *p, const kf_prototypes_plan *plan,
                              kf_prototypes_use *use);
kf_status kf_prototypes_end(kf_ctx *ctx, kf_prototypes_use *use, kf_status status);

/* The `top` <= p->n nearest prototypes of n rows of the original space, best first, as kf_classify
 * gives them. scores may be NULL. Any worker thread may call it. */
kf_status kf_prototypes_nearest(kf_prototypes_use *use, const float *rows, const double *norm2,
                                uint64_t n, uint32_t top, int32_t *classes, double *scores,
                                kf_err *err);
/* Its two steps: rows of the original space to the space of the prototypes, out [n][p->dim], and
 * the nearest prototypes of these. */
kf_status kf_prototypes_queries(const kf_prototypes_use *use, const float *rows,
                                const double *norm2, uint64_t n, float *out, kf_err *err);
kf_status kf_prototypes_find(kf_prototypes_use *use, const float *queries, uint64_t n, uint32_t top,
                             int32_t *classes, double *scores, kf_err *err);
/* Their rows, [p->n][p->dim], as queries are compared with them. */
void kf_prototypes_copy(const kf_prototypes *p, float *rows);
/* The place of a class among the prototypes; it must take part. */
static inline uint32_t kf_prototypes_place(const kf_prototypes *p, int32_t class) {
  uint32_t low = 0, high = p->n;
  while (high - low > 1) {
    uint32_t middle = low + (high - low) / 2;
    if (p->ids[middle] <= class)
      low = middle;
    else
      high = middle;
  }
  return low;
}

/* --- probabilities (probabilities.c) ---------------------------------------------------------- */

/* The scores of a row for all prototypes, [p->n]: larger is nearer; distances count as minus half
 * their squares. Canonical, but with very many prototypes cosines are sums in f32. */
typedef void (*kf_scores_fn)(void *argument, uint64_t row, const double *scores);
/* Calls `use` for each of n queries (from kf_prototypes_queries), in order, on the calling
 * thread. */
kf_status kf_prototypes_scores(const kf_prototypes *p, const float *queries, uint64_t n,
                               kf_scores_fn use, void *argument, kf_err *err);

/* What turns the scores of a row into probabilities. */
typedef struct kf_odds {
  double temperature, most, sum; /* sum of exp(temperature (score - most)) */
  double squares;                /* sum of exp(2 temperature (score - most)), if asked for */
} kf_odds;
double kf_probability(const kf_odds *odds, double score);
/* The scores of one query, computed one at a time unless all are there. */
typedef struct kf_row_scores {
  const kf_prototypes *p;
  const float *query;
  const double *all; /* [p->n] or NULL */
} kf_row_scores;
double kf_row_score(const kf_row_scores *scores, uint32_t place);
/* Calls `fn` with the odds of each of n queries, in order, on the calling thread. */
typedef void (*kf_odds_fn)(void *argument, uint64_t row, const kf_odds *odds,
                           const kf_row_scores *scores);
kf_status kf_prototypes_odds(const kf_prototypes_use *use, const float *queries, uint64_t n,
                             kf_odds_fn fn, void *argument, kf_err *err);

/* Whether the model's temperature and threshold apply to these prototypes: its own space, metric
 * and part. */
bool kf_prototypes_own(const kf_prototypes *p);
/* The temperature of these prototypes: the given one or, if that is 0, the model's. KF_ERR_ARG if
 * there is none for them. */
kf_status kf_prototypes_temperature(const kf_prototypes *p, double given, double *out, kf_err *err);

#endif
