/* device_api.h - the interface of a plug-in for devices: a table of plain C functions. `cuda/`
 * implements it for NVIDIA GPUs, `tests/twin/` in plain C, so that everything above it is tested
 * without a device. Includes nothing of koofu.
 *
 * A plug-in is a shared library with one symbol, `kf_device_plugin`. It computes integers (moments,
 * dot products of bytes), canonical sums in f64 (docs/numerics.md), whose bits are defined, and
 * bounds that only need to hold. The library takes all decisions.
 *
 * Only one thread at a time calls functions on a kf_dev. Each returns a kf_dev_status and, unless
 * that is KF_DEV_OK, leaves a sentence in message(dev). After KF_DEV_LOST only `free` and `close`
 * calls are allowed. Host pointers may be pageable; memory from host_alloc makes copies faster.
 * Unless said otherwise a call may return before the device is done; the caller's arrays may be
 * reused when it returns if they are pageable, and after `wait` if they are page-locked. */
#ifndef KF_DEVICE_API_H
#define KF_DEVICE_API_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KF_DEVICE_VERSION 6

typedef enum kf_dev_status {
  KF_DEV_OK = 0,
  KF_DEV_NONE = 1,   /* no such device, or no driver; the message says which */
  KF_DEV_MEMORY = 2, /* too little memory on the device; nothing has changed */
  KF_DEV_LOST = 3,   /* the device has failed for good */
  KF_DEV_FAILED = 4, /* anything else */
  KF_DEV_MORE = 5    /* a list is too short, see `scan` */
} kf_dev_status;

typedef struct kf_dev kf_dev;                 /* an open device */
typedef struct kf_dev_rows kf_dev_rows;       /* rows of an index on a device */
typedef struct kf_dev_queries kf_dev_queries; /* queries and their state */
typedef struct kf_dev_moments kf_dev_moments; /* statistics being accumulated */
typedef struct kf_dev_map kf_dev_map;         /* a map */
typedef struct kf_dev_odds kf_dev_odds;       /* prototypes, for probabilities */

typedef struct kf_dev_info {
  char name[256];        /* "NVIDIA H200" */
  char driver[64];       /* its version, as text */
  uint64_t memory;       /* bytes */
  uint32_t processors;   /* streaming multiprocessors or the like */
  uint32_t major, minor; /* compute capability */
  uint32_t f64_ratio;    /* how many times as fast f32 is as f64 */
} kf_dev_info;

/* How rows and queries are stored. */
typedef enum kf_dev_type {
  KF_DEV_NO_VALUES = 0,
  KF_DEV_F32 = 1,
  KF_DEV_F16 = 2,
  KF_DEV_BF16 = 3
} kf_dev_type;
typedef enum kf_dev_metric {
  KF_DEV_COSINE = 0,
  KF_DEV_INNER = 1,
  KF_DEV_EUCLIDEAN = 2
} kf_dev_metric;

/* --- search ----------------------------------------------------------------------------------
 *
 * The terms are those of src/search/index.h. With the centre m, rows y = x - m and queries p = q -
 * m (x and q at unit length for cosine) are ordered by the key a = p . y - h, and their bytes give
 * v = (bytes of p . bytes of y) * factor * scale. For every row of a tile
 *
 *     v - tile.high - margin <= a <= v - tile.low + margin
 *     margin = bound_scale * (by_length * tile.length + by_error * tile.error + fixed + tile.fixed)
 *
 * where a query's factor, by_length, by_error and fixed are those of kf_query_factor and
 * kf_query_round (src/search/index.c) with bytes up to 127, summed in any order.
 *
 * The key of a canonical score c (kf_key) is c - q . m, or (|p|^2 - c) / 2 for distances. Its
 * rounding error is at most (kf_key_error)
 *
 *     rounding_share * length * (longest + centre_length)      dot products and cosines
 *     2 * rounding_share * (2 * length + 2 * sqrt(c))^2        distances
 *
 * with the query's `length` from kf_query_start; for cosines longest is 2 + centre_length. */

/* What all rows and queries of an index share. */
typedef struct kf_dev_space {
  kf_dev_metric metric;
  uint32_t dim;
  uint32_t padded; /* columns of bytes: dim, padded with zeros to a multiple of `pad` (below) */
  double centre_length;  /* upper bound of |m| */
  double longest;        /* upper bound of |y| in the index, outliers included */
  double least_factor;   /* lower bound for the factor of a query, which is raised to it */
  double bound_scale;    /* 1; tests use less */
  double rounding_share; /* gamma in index.c */
  const double *centre;  /* [dim] */
} kf_dev_space;

/* tile_rows rows that share a scale. Their h are close, since the host sorts rows by h. */
typedef struct kf_dev_tile {
  float scale;  /* y is about scale * bytes; 0: each row of the tile is a hit of each query */
  float length; /* upper bound of |y| */
  float error;  /* upper bound of |y - scale * bytes| */
  float low;    /* lower bound of h */
  float high;   /* upper bound of h */
  float fixed;  /* see margin */
} kf_dev_tile;

/* A piece of an index: rows [first, first + n), in tiles. */
typedef struct kf_dev_piece {
  const kf_dev_space *space;
  int64_t first;
  uint64_t n;         /* rows, fewer than 2^32 */
  uint64_t n_tiles;   /* duplicates of other rows are in no tile */
  kf_dev_type values; /* how rows are stored for scoring; KF_DEV_NO_VALUES: the host scores */
} kf_dev_piece;

/* A scored row. The smaller the score, the nearer: the canonical squared distance, or minus the
 * canonical dot product or cosine. row counts from the start of the index: the piece's `first` plus
 * the number in the piece. */
typedef struct kf_dev_scored {
  double score;
  int64_t row; /* negative: none */
} kf_dev_scored;

/* --- statistics ------------------------------------------------------------------------------
 *
 * Exact moments (src/stats/accumulate.c): a row becomes integers, rounded to nearest even, which
 * are added to the sums of its class; their products are added to the moments. */

#define KF_DEV_PUTS 4u

typedef struct kf_dev_moments_plan {
  uint32_t dim;
  uint32_t n_classes;
  kf_dev_type type; /* of the rows */
  int normalized;   /* multiply rows by 2^22 / sqrt(their canonical squared length), */
  int exponent;     /* otherwise by 2^exponent */
  uint32_t batch;   /* the most rows of a put, 1 … 2^18 */
} kf_dev_moments_plan;

/* --- maps -------------------------------------------------------------------------------------
 *
 * Rows x become rows of dim_out numbers (src/model/map.c). Every operation is rounded to f64; a
 * step of a sum is one operation, sum = fma(x, y, sum):
 *
 *     scale = normalized ? (norm2 > 0 ? 1 / sqrt(norm2) : 0) : 1
 *     y_k   = x_k * scale - centre_k
 *     z_j   = the sum of y_k * transposed[k][j] over k = 0, 1, ... in order, from 0
 *     s     = the canonical sum of z_j * z_j
 *     out_j = unit ? (float)(z_j * (1 / sqrt(s))) : (float)z_j
 *
 * A row whose norm2 is 0 becomes zeros. A row is odd, and mapped by the host, if not 1e-280 < s <
 * 1e280 (unit) or if an out_j is not finite (otherwise). */

#define KF_DEV_SLOTS 8u

typedef struct kf_dev_map_plan {
  uint32_t dim_in, dim_out;
  int normalized, unit;
  uint32_t batch;           /* rows of the largest put, 1 … 2^16 */
  uint32_t slots;           /* puts in flight at the same time, 1 … KF_DEV_SLOTS */
  const double *transposed; /* [dim_in][dim_out] */
  const double *centre;     /* [dim_in]; NULL: zeros */
} kf_dev_map_plan;

/* --- probabilities ----------------------------------------------------------------------------
 *
 * What softmax needs of a query's scores for all prototypes (src/search/probabilities.c): the
 * largest score, and kf_sum_exp(scores, n_rows, largest, scale) for each scale, with kf_exp as in
 * src/base/explog.c: row i goes to lane i mod 4, each lane adds in rising i from 0, and the lanes
 * are added as (l0 + l1) + (l2 + l3). A score is
 *
 *     KF_DEV_INNER       the canonical dot product or, if narrow, the sum over columns 0, 1, ... in
 *                        order, from 0, each step fmaf(x, y, sum)
 *     KF_DEV_EUCLIDEAN   minus half the canonical squared distance
 *
 * All scores are finite. */

typedef struct kf_dev_odds_plan {
  kf_dev_metric metric;
  uint32_t dim, n_rows;
  int narrow;
  uint32_t n_scales; /* 1 or 2 */
  double scales[2];
  uint32_t batch;    /* the most queries of a put, 1 … 2^16 */
  uint32_t slots;    /* as in kf_dev_map_plan */
  const float *rows; /* [n_rows][dim] */
} kf_dev_odds_plan;

typedef struct kf_dev_sums {
  double most;   /* the largest score */
  double sum[2]; /* for each scale */
} kf_dev_sums;

/* --- the table -------------------------------------------------------------------------------- */

typedef struct kf_device_api {
  uint32_t version;   /* KF_DEVICE_VERSION */
  uint32_t size;      /* sizeof(kf_device_api) */
  uint32_t tile_rows; /* of kf_dev_tile */
  uint32_t pad;       /* `padded` is a multiple of this */
  uint32_t most_best; /* the longest list of a query's best rows */
  const char *name;   /* "cuda", "twin" */
  const char *build;  /* how it was built, as text: "CUDA 13.0, sm_80 sm_90a" */

  /* --- devices ------------------------------------------------------------------------------- */
  /* Counts devices. KF_DEV_NONE, with a sentence in message [size], if there is no driver. */
  kf_dev_status (*count)(uint32_t *n, char *message, size_t size);
  kf_dev_status (*describe)(uint32_t number, kf_dev_info *out, char *message, size_t size);
  kf_dev_status (*open)(uint32_t number, kf_dev **out, char *message, size_t size);
  void (*close)(kf_dev *dev); /* NULL: no-op */
  const char *(*message)(const kf_dev *dev);
  kf_dev_status (*memory_left)(kf_dev *dev, uint64_t *bytes);
  kf_dev_status (*wait)(kf_dev *dev); /* until all work on it is done */
  /* Page-locked host memory; NULL if there is none left. */
  void *(*host_alloc)(kf_dev *dev, size_t bytes);
  void (*host_free)(kf_dev *dev, void *memory);
  /* Whether host memory is page-locked, by whatever means: 1 or 0. */
  int (*host_locked)(kf_dev *dev, const void *memory);

  /* --- search: rows -------------------------------------------------------------------------- */
  uint64_t (*rows_bytes)(const kf_dev_piece *piece); /* on the device */
  kf_dev_status (*rows_new)(kf_dev *dev, const kf_dev_piece *piece, kf_dev_rows **out);
  void (*rows_free)(kf_dev *dev, kf_dev_rows *rows);
  /* Sets tiles [first, first + n): bytes [n * tile_rows][padded] from -127 to 127, and the number
   * in the piece of the row at each place [n * tile_rows]; UINT32_MAX: no row, and bytes of
   * zero. */
  kf_dev_status (*rows_put_tiles)(kf_dev_rows *rows, uint64_t first, uint64_t n,
                                  const int8_t *bytes, const uint32_t *numbers,
                                  const kf_dev_tile *tiles);
  /* Sets the values of rows [first, first + n) of the piece, in its type, and for cosine their
   * canonical squared lengths (otherwise NULL). */
  kf_dev_status (*rows_put_values)(kf_dev_rows *rows, uint64_t first, uint64_t n,
                                   const void *values, const double *norm2);

  /* --- search: queries ----------------------------------------------------------------------- */
  /* Memory for at most `most` queries, `best` best rows of each, and `hits` survivors of a scan in
   * all. */
  uint64_t (*queries_bytes)(const kf_dev_space *space, uint32_t most, uint32_t best, uint64_t hits);
  kf_dev_status (*queries_new)(kf_dev *dev, const kf_dev_space *space, uint32_t most, uint32_t best,
                               uint64_t hits, kf_dev_queries **out);
  void (*queries_free)(kf_dev *dev, kf_dev_queries *queries);
  /* Replaces all queries by n queries [n][dim]: centres and rounds them and sets their bounds,
   * which are infinite for a query that is too long, so that every row is a hit. Sets `least` to
   * -infinity, clears their best rows and chooses all of them. leave_out [n], or NULL: the row of
   * the index that a query must not find, negative: none. */
  kf_dev_status (*queries_put)(kf_dev_queries *queries, const float *x, uint32_t n,
                               const int64_t *leave_out);
  /* Sets `least` of each chosen query from a sample of tiles spread over the piece. proven = 0: to
   * a key that probably at least `count` rows of the piece reach, and not many more; settle detects
   * a key that is too high. proven = 1: raises it to a key that at least `count` rows the query may
   * find certainly reach; it stays where the sample proves nothing. */
  kf_dev_status (*guess)(kf_dev_queries *queries, const kf_dev_rows *rows, uint32_t count,
                         int proven);
  /* The first pass: collects, for every chosen query, at least the rows whose key may reach
   * `least`. If `least` is a guess and the rows have values, a device may raise it on the way; it
   * then collects for the raised value, and settle judges by that. Waits. *hits: an upper bound of
   * the number of survivors. KF_DEV_MORE: they do not fit and are lost; the caller makes more room
   * or chooses fewer queries. */
  kf_dev_status (*scan)(kf_dev_queries *queries, const kf_dev_rows *rows, uint64_t *hits);
  /* Scores the survivors canonically, except rows to be left out, and merges them into their
   * queries' best rows, ordered by score and then by row. The rows need values. No row appears
   * twice: the caller rescans a piece only after a query's best rows have been dropped. */
  kf_dev_status (*score)(kf_dev_queries *queries, const kf_dev_rows *rows);
  /* Instead of `score`: copies the survivors to the host, at most [hits] of query[i] and row[i] in
   * any order, without rows to be left out, and with rows as in kf_dev_scored. *n: their number.
   * Waits. */
  kf_dev_status (*survivors)(kf_dev_queries *queries, const kf_dev_rows *rows, uint32_t *query,
                             int64_t *row, uint64_t *n);
  /* Keeps only those chosen queries that may be incomplete: with fewer than k best rows, or whose
   * k-th key minus `slack` (0 or 1) times its rounding error (above) is below `least`. Drops their
   * best rows and sets their `least` to what is proven: that difference, or -infinity with fewer
   * than k rows. *left: how many stay chosen. Waits. */
  kf_dev_status (*settle)(kf_dev_queries *queries, uint32_t k, double slack, uint32_t *left);
  /* Chooses queries by number, or all if n is UINT32_MAX. least: [n], or NULL to leave it
   * unchanged. */
  kf_dev_status (*choose)(kf_dev_queries *queries, const uint32_t *numbers, uint32_t n,
                          const double *least);
  /* Returns the numbers of the chosen queries in rising order [*n] and their `least`; either array
   * may be NULL. Waits. */
  kf_dev_status (*chosen)(kf_dev_queries *queries, uint32_t *numbers, double *least, uint32_t *n);
  /* Copies the best rows of queries [first, first + n) to best [n][best]. Waits. */
  kf_dev_status (*answers)(kf_dev_queries *queries, uint32_t first, uint32_t n,
                           kf_dev_scored *best);

  /* --- statistics ---------------------------------------------------------------------------- */
  kf_dev_status (*moments_new)(kf_dev *dev, const kf_dev_moments_plan *plan, kf_dev_moments **out);
  void (*moments_free)(kf_dev *dev, kf_dev_moments *moments);
  /* Adds the rows [n][dim] whose label is not negative; n <= batch. Rows and labels may be reused
   * once the put has been waited for. At most KF_DEV_PUTS puts may be in flight. */
  kf_dev_status (*moments_put)(kf_dev_moments *moments, const void *rows, const int32_t *labels,
                               uint32_t n);
  /* Waits for the oldest put in flight. *bad: 0, or 1 + the number of its first bad row: any row
   * that is zero or holds a NaN or an infinity, or a labelled row with a value too large for the
   * exponent. Bad rows are not added. */
  kf_dev_status (*moments_wait)(kf_dev_moments *moments, uint32_t *bad);
  /* Adds everything to the caller's totals and starts anew; no put may be in flight. totals: the
   * upper triangle by rows, each number as two 64-bit words, low and high; sums [n_classes][dim];
   * counts [n_classes]. After a failure their contents are undefined. */
  kf_dev_status (*moments_take)(kf_dev_moments *moments, uint64_t *totals, int64_t *sums,
                                int64_t *counts);

  /* --- maps and probabilities --------------------------------------------------------
   * Many threads share these: while one waits for its slot, others may call anything on the device.
   * So `wait` is exempt from the rule of one thread at a time, but is called at most once at a time
   * for each slot; it writes nothing that other slots see and puts its sentence into message
   * [size]. The caller's arrays may be reused after it, and a slot only after it was waited for.
   * `new` copies what a plan points to. */
  kf_dev_status (*map_new)(kf_dev *dev, const kf_dev_map_plan *plan, kf_dev_map **out);
  void (*map_free)(kf_dev *dev, kf_dev_map *map);
  /* Maps rows [n][dim_in], with canonical squared lengths norm2 [n], to out [n][dim_out]; n <=
   * batch. */
  kf_dev_status (*map_put)(kf_dev_map *map, uint32_t slot, const float *rows, const double *norm2,
                           uint32_t n, float *out);
  /* *odd: 0, or 1 + the number of the put's first odd row. */
  kf_dev_status (*map_wait)(kf_dev_map *map, uint32_t slot, uint32_t *odd, char *message,
                            size_t size);

  kf_dev_status (*odds_new)(kf_dev *dev, const kf_dev_odds_plan *plan, kf_dev_odds **out);
  void (*odds_free)(kf_dev *dev, kf_dev_odds *odds);
  /* Computes out [n] for queries [n][dim]; n <= batch. */
  kf_dev_status (*odds_put)(kf_dev_odds *odds, uint32_t slot, const float *queries, uint32_t n,
                            kf_dev_sums *out);
  kf_dev_status (*odds_wait)(kf_dev_odds *odds, uint32_t slot, char *message, size_t size);
} kf_device_api;

/* The one symbol of a plug-in. Returns NULL if it does not support this version. */
typedef const kf_device_api *(*kf_device_plugin_fn)(uint32_t version);
#define KF_DEVICE_SYMBOL "kf_device_plugin"

#ifdef __cplusplus
}
#endif
#endif
