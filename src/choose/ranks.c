/* ranks.c - nearest prototypes for many numbers of dimensions at once.
 *
 * With the first L directions, a row z and a prototype p have the product z.p = sum over l <= L of
 * z_l p_l, and one more direction adds one term. So the products with all prototypes are running
 * sums in f32. A value that ranks prototypes follows from each by the prototype's length at L:
 *
 *     cosine:    z.p / |p|             (|z| is the same for all)
 *     distance:  z.p - |p|^2 / 2       (|z - p|^2 = |z|^2 - 2 (z.p - |p|^2 / 2))
 *
 * What is wanted is the rank of the right class: how many others come before it. Its own values are
 * computed first, at every setting. All other classes are looked at once for a stretch of settings,
 * at one of these, the others being so near that no product can differ by more than |z'||p'|, the
 * lengths of row and prototype in the directions between them. A class that cannot reach the right
 * one within the stretch is done with; the few that are left are taken from setting to setting. Ranks
 * beyond KF_RANKS are not told apart, so a row that has fallen so far needs no more classes.
 *
 * A class whose value differs from that of the right one by more than rounding can explain is simply
 * counted; others are compared as kf_eval does, by canonical scores of f32 rows with L columns. So
 * every rank is the one that a model with L dimensions gives. */
#include "choose/ranks_internal.h"

#include <math.h>
#include <string.h>

#define SMALLEST 1e-290 /* has an inverse */
#define LARGEST  1e30   /* in f32: sums stay far from its range */
/* Rows (the most of kf_task_rows) and prototypes at a time: their sums stay in the cache. */
#define ROWS  192u
#define PANEL 640u

/* What is known of the right class of a row at a setting. */
typedef struct right_value {
  double low, high; /* other classes of such a value are close calls */
  double canonical; /* of the nearest right class */
  uint32_t nearest; /* the number of prototypes: not known yet */
} right_value;

/* What a row needs to be looked at in a stretch. */
typedef struct row_stretch {
  float low;   /* no class below can reach the right one */
  float reach; /* the longer part of the row between the setting `at` and an end */
  bool done;   /* its ranks are KF_RANKS throughout */
} row_stretch;

typedef struct work {
  double *mapped;         /* [ROWS][dim_out] */
  double *workspace;      /* for the map */
  float *z;               /* [most][ROWS] mapped rows divided by their size */
  double *scaled;         /* [ROWS][most] the same numbers */
  double *length;         /* [ROWS][n_dims] of the rows of z at each setting */
  right_value *right;     /* [ROWS][n_dims] */
  row_stretch *stretches; /* [ROWS][n_stretches] */
  float *sums;            /* [ROWS][PANEL] */
  uint32_t *list;         /* [PANEL] */
  float *row, *prototype; /* [most + 1] for canonical scores */
} work;

/* A row at work. */
typedef struct ranked_row {
  const kf_ranker *r;
  work *w;
  uint64_t i;
  const kf_right *right;
  unsigned char *ranks; /* [n_dims] */
} ranked_row;

static void take_work(work *w, const kf_ranker *r, kf_arena *arena) {
  uint64_t rows = ROWS;
  KF_TAKE(arena, w->mapped, rows * r->model->map.dim_out);
  KF_TAKE(arena, w->workspace, 2 * kf_map_workspace(&r->model->map));
  KF_TAKE(arena, w->z, rows * r->most);
  KF_TAKE(arena, w->scaled, rows * r->most);
  KF_TAKE(arena, w->length, rows * r->n_dims);
  KF_TAKE(arena, w->right, rows * r->n_dims);
  KF_TAKE(arena, w->stretches, rows * r->n_stretches);
  KF_TAKE(arena, w->sums, rows * PANEL);
  KF_TAKE(arena, w->list, PANEL);
  KF_TAKE(arena, w->row, r->most + 1);
  KF_TAKE(arena, w->prototype, r->most + 1);
}

/* --- a close call: canonical scores ---------------------------------------------------------- */

/* Smaller is nearer: minus the cosine, or the squared distance. w->row holds the row. */
static double canonical_value(const kf_ranker *r, work *w, uint32_t dim, uint32_t j) {
  const kf_kernels *kernels = r->kernels;
  const double *p = r->mapped + (uint64_t)j * r->most;
  const float *rows[1] = {w->prototype};
  double value, length = kf_unit_row(kernels, p, dim, w->prototype);
  if (!r->euclidean) {
    kernels->dots(w->row, rows, 1, dim, &value);
    return -value;
  }
  for (uint32_t i = 0; i < dim; i++) w->prototype[i] = (float)((double)w->prototype[i] * length);
  bool longer = r->model->prior > 0; /* by a column, as in prototypes.c */
  w->prototype[dim] = r->column[j];
  w->row[dim] = 0;
  kernels->distances(w->row, rows, 1, dim + (longer ? 1 : 0), &value);
  return value;
}

/* The nearest right class, by canonical scores. */
static void find_nearest(const ranked_row *row, uint32_t dim, right_value *known) {
  const kf_ranker *r = row->r;
  for (uint32_t s = 0; s < row->right->n; s++) {
    int32_t j = r->place[row->right->classes[s]];
    if (j < 0) continue;
    double value = canonical_value(r, row->w, dim, (uint32_t)j);
    bool tie = value == known->canonical && (uint32_t)j < known->nearest;
    if (known->nearest < r->n && value >= known->canonical && !tie) continue;
    known->canonical = value;
    known->nearest = (uint32_t)j;
  }
}

/* Whether the wrong class j comes before the nearest right one at setting t. */
static bool comes_before(const ranked_row *row, size_t t, uint32_t j) {
  const kf_ranker *r = row->r;
  work *w = row->w;
  const double *z = w->mapped + row->i * r->model->map.dim_out;
  right_value *known = &w->right[row->i * r->n_dims + t];
  uint32_t dim = r->dims[t];
  if (r->euclidean)
    for (uint32_t i = 0; i < dim; i++) w->row[i] = (float)z[i];
  else
    kf_unit_row(r->kernels, z, dim, w->row);
  if (known->nearest == r->n) find_nearest(row, dim, known);
  double value = canonical_value(r, w, dim, j);
  return value < known->canonical || (value == known->canonical && j < known->nearest);
}

/* --- rows ------------------------------------------------------------------------------------ */

/* Mapped rows in f32, divided by their size: |z|, or for distances that of the prototypes. Rows
 * too far from all prototypes for f32 get an infinite length, which leaves them to canonical
 * scores. */
static kf_status take_row(const kf_ranker *r, work *w, uint64_t i, kf_err *err) {
  const double *z = w->mapped + i * r->model->map.dim_out;
  double *scaled = w->scaled + i * r->most, *length = w->length + i * r->n_dims;
  double largest = 0;
  for (uint32_t l = 0; l < r->most; l++) largest = fmax(largest, fabs(z[l]));
  if (!isfinite(largest) || (r->euclidean && largest > 3e38))
    return kf_fail_range(&r->model->map, err);
  double size = r->euclidean ? r->size : largest > SMALLEST ? largest * sqrt(r->most) : 1;
  bool held = largest / size < LARGEST;
  double inverse = held ? 1 / size : 0, length2 = held ? 0 : INFINITY;
  for (size_t t = 0, l = 0; t < r->n_dims; t++) {
    for (; l < r->dims[t]; l++) {
      float x = (float)(z[l] * inverse);
      w->z[l * ROWS + i] = x;
      scaled[l] = (double)x;
      length2 += scaled[l] * scaled[l];
    }
    length[t] = sqrt(length2);
  }
  return KF_OK;
}

/* How far a value at setting t may be from that of the canonical scores: sums of products in f32, at
 * setting `at` if that has more; rounding of rows and prototypes to f32 on both sides, of lengths,
 * offsets and values; and what is lost below the range of f32, 2^-150 each time: numbers and products
 * here, which a scale may make large, and the numbers of canonical distances, which are not divided
 * by size. */
static double doubt(const kf_ranker *r, const kf_stretch *s, size_t t, const double *length) {
  size_t most = t > s->at ? t : s->at;
  double dim = (double)r->dims[most], gamma = (dim + 16) * 0x1p-24 * 1.01, lost = dim * 0x1p-147;
  if (!r->euclidean) return gamma * length[most] * s->growth + lost * (1 + r->steepest[t]);
  double both = length[most] + r->longest[most];
  lost *= 1 + 1 / r->size;
  return gamma * both * both + lost * (1 + both) + lost * lost;
}

/* Products with prototype j and its squared lengths at the settings of a stretch, from its product x at one of
 * them. A prototype without length has the product 0. */
static void find_products(const kf_ranker *r, const double *scaled, const kf_stretch *s, uint32_t j,
                          double x, double *products, double *lengths2) {
  const double *p = r->mapped + (uint64_t)j * r->most, inverse = 1 / r->size;
  double scale = (double)s->first_scale[j], sum = 0;
  double length2 = r->euclidean ? 2 * (double)s->offset[j] : scale > 0 ? 1 / (scale * scale) : 0;
  uint32_t l = r->dims[s->first];
  for (size_t t = s->first; t < s->last; t++) {
    for (; l < r->dims[t]; l++) {
      double y = p[l] * inverse;
      sum += scaled[l] * y;
      length2 += y * y;
    }
    products[t - s->first] = sum;
    lengths2[t - s->first] = length2;
  }
  x -= products[s->at - s->first];
  for (size_t t = 0; t < s->last - s->first; t++)
    products[t] = r->euclidean || lengths2[t] > 0 ? x + products[t] : 0;
}

static double value_of(const kf_ranker *r, double product, double length2) {
  if (r->euclidean) return product - length2 / 2;
  return length2 > 0 ? product / sqrt(length2) : 0;
}

/* Whether that value exceeds a bound, and whether it reaches one: without roots and quotients, which would take most
 * of the time. The bounds have room for what rounding does to squares. */
static double squared(double x) { return x * fabs(x); }
static bool exceeds(const kf_ranker *r, double product, double length2, double bound) {
  if (r->euclidean) return product - length2 / 2 > bound;
  return squared(product) > squared(bound) * (length2 > 0 ? length2 : 1);
}
static bool reaches(const kf_ranker *r, double product, double length2, double bound) {
  if (r->euclidean) return product - length2 / 2 >= bound;
  return squared(product) >= squared(bound) * (length2 > 0 ? length2 : 1);
}

/* The right classes at all settings; false if none takes part. */
static bool take_right(const ranked_row *row) {
  const kf_ranker *r = row->r;
  const double *scaled = row->w->scaled + row->i * r->most;
  right_value *to = row->w->right + row->i * r->n_dims;
  bool any = false;
  for (uint32_t c = 0; c < row->right->n; c++) {
    int32_t j = r->place[row->right->classes[c]];
    double products[KF_STRETCH], lengths2[KF_STRETCH], x = 0;
    uint32_t l = 0;
    for (size_t i = 0; j >= 0 && i < r->n_stretches; i++) {
      const kf_stretch *s = &r->stretches[i];
      for (; l < r->dims[s->at]; l++)
        x += scaled[l] * (r->mapped[(uint64_t)j * r->most + l] / r->size);
      find_products(r, scaled, s, (uint32_t)j, x, products, lengths2);
      for (size_t t = s->first; t < s->last; t++) {
        double value = value_of(r, products[t - s->first], lengths2[t - s->first]);
        to[t].low = any ? fmax(to[t].low, value) : value;
      }
    }
    any |= j >= 0;
  }
  return any;
}

/* The difference of two lengths, of which one is a part of the other. */
static double part(double all, double part) {
  return isfinite(all) ? sqrt(fmax(all * all - part * part, 0) + 0x1p-40 * all * all) : 0;
}

/* What the row needs in each stretch. */
static void take_stretches(const ranked_row *row) {
  const kf_ranker *r = row->r;
  work *w = row->w;
  const double *length = w->length + row->i * r->n_dims;
  right_value *right = w->right + row->i * r->n_dims;
  bool any = take_right(row);
  memset(row->ranks, any ? 0 : KF_RANKS, r->n_dims);
  for (size_t i = 0; i < r->n_stretches; i++) {
    const kf_stretch *s = &r->stretches[i];
    double low = INFINITY, most = 0;
    for (size_t t = s->first; any && t < s->last; t++) {
      double around = doubt(r, s, t, length), value = right[t].low;
      right[t] = (right_value){value - 2 * around, value + 2 * around, 0, r->n};
      low = fmin(low, right[t].low);
      most = fmax(most, around);
    }
    double reach =
        fmax(part(length[s->at], length[s->first]), part(length[s->last - 1], length[s->at]));
    bool alone = s->last == s->first + 1;
    w->stretches[row->i * r->n_stretches + i] =
        (row_stretch){.low = nextafterf((float)(low - most), -INFINITY),
                      .reach = alone ? 0 : (float)(reach * (1 + 0x1p-20)),
                      .done = !any};
  }
}

/* --- ranks ----------------------------------------------------------------------------------- */

/* Takes a wrong class through a stretch; true if all ranks there are KF_RANKS now. */
static bool take_class(const ranked_row *row, const kf_stretch *s, uint32_t j, double x) {
  const kf_ranker *r = row->r;
  const right_value *right = row->w->right + row->i * r->n_dims;
  double products[KF_STRETCH], lengths2[KF_STRETCH];
  bool done = true;
  find_products(r, row->w->scaled + row->i * r->most, s, j, x, products, lengths2);
  for (size_t t = s->first; t < s->last; t++) {
    double product = products[t - s->first], length2 = lengths2[t - s->first];
    if (row->ranks[t] == KF_RANKS) continue;
    if (exceeds(r, product, length2, right[t].high) ||
        (reaches(r, product, length2, right[t].low) && comes_before(row, t, j)))
      row->ranks[t]++;
    done &= row->ranks[t] == KF_RANKS;
  }
  return done;
}

/* Prototypes [from, from + n) in a stretch. */
static void rank_row(const ranked_row *row, size_t number, uint32_t from, uint32_t n) {
  const kf_ranker *r = row->r;
  work *w = row->w;
  const kf_stretch *s = &r->stretches[number];
  row_stretch *known = &w->stretches[row->i * r->n_stretches + number];
  if (known->done) return;
  const float *x = w->sums + row->i * PANEL;
  const float *scale = known->low > 0 ? s->first_scale : s->last_scale; /* products below 0 rise */
  size_t found = r->kernels->list_reaching(x, s->far + from, known->reach, scale + from,
                                           s->offset + from, n, known->low, w->list);
  for (size_t k = 0; !known->done && k < found; k++) {
    uint32_t j = from + w->list[k];
    if (!kf_is_right(row->right, r->number[j]))
      known->done = take_class(row, s, j, (double)x[w->list[k]]);
  }
}

static void rank_rows(const kf_ranker *r, work *w, uint64_t n, const kf_right *right,
                      unsigned char *ranks) {
  for (uint64_t i = 0; i < n; i++)
    take_stretches(&(ranked_row){r, w, i, &right[i], ranks + i * r->n_dims});
  for (uint32_t first = 0; first < r->n; first += PANEL) {
    uint32_t classes = r->n - first < PANEL ? r->n - first : PANEL, from = 0;
    memset(w->sums, 0, n * PANEL * sizeof *w->sums);
    for (size_t s = 0; s < r->n_stretches; s++) {
      uint32_t to = r->dims[r->stretches[s].at];
      r->kernels->gemm_tn_f32(w->z + (uint64_t)from * ROWS, ROWS,
                              r->columns + (uint64_t)from * r->n + first, r->n, w->sums, PANEL, n,
                              classes, to - from);
      from = to;
      for (uint64_t i = 0; i < n; i++)
        rank_row(&(ranked_row){r, w, i, &right[i], ranks + i * r->n_dims}, s, first, classes);
    }
  }
}

static void map_rows(const kf_ranker *r, work *w, const float *rows, const double *norm2,
                     uint64_t n) {
  const kf_map *map = &r->model->map;
  for (uint64_t first = 0; first < n; first += KF_MAP_ROWS) {
    uint64_t count = n - first < KF_MAP_ROWS ? n - first : KF_MAP_ROWS;
    kf_map_rows_f64(map, r->kernels, rows + first * map->dim_in, norm2 + first, NULL, count,
                    w->workspace, w->mapped + first * map->dim_out);
  }
}

kf_status kf_ranker_rank(const kf_ranker *r, const float *rows, const double *norm2, uint64_t n,
                         const kf_right *right, unsigned char *ranks, kf_err *err) {
  kf_arena arena = {0};
  work w;
  take_work(&w, r, &arena);
  kf_status status = arena.failed ? kf_fail_memory(err) : KF_OK;
  for (uint64_t first = 0; status == KF_OK && first < n; first += ROWS) {
    uint64_t count = n - first < ROWS ? n - first : ROWS;
    map_rows(r, &w, rows + first * r->model->map.dim_in, norm2 + first, count);
    for (uint64_t i = 0; status == KF_OK && i < count; i++) status = take_row(r, &w, i, err);
    if (status == KF_OK) rank_rows(r, &w, count, right + first, ranks + first * r->n_dims);
  }
  kf_arena_free(&arena);
  return status;
}

/* --- all rows of a data set ------------------------------------------------------------------ */

typedef struct rank_job {
  const kf_ranker *ranker;
  kf_ranked_fn use;
  void *argument;
} rank_job;

static kf_status rank_judged(void *argument, const kf_judged *rows, kf_err *err) {
  const rank_job *j = argument;
  unsigned char *ranks = rows->workspace; /* [ROWS][n_dims] */
  KF_TRY(kf_ranker_rank(j->ranker, rows->rows, rows->norm2, rows->n, rows->right, ranks, err));
  for (uint64_t i = 0; i < rows->n; i++)
    j->use(j->argument, rows->worker, rows->number[i], ranks + i * j->ranker->n_dims);
  return KF_OK;
}

kf_status kf_rank_data(kf_ctx *ctx, const kf_ranker *ranker, const kf_data *data,
                       const kf_judge *judge, kf_ranked_fn use, void *argument,
                       kf_eval_result *counts) {
  rank_job j = {.ranker = ranker, .use = use, .argument = argument};
  kf_judged_pass pass = {.what = "rank",
                         .rows = kf_task_rows(ctx, data->rows), /* ROWS at most */
                         .judge = judge,
                         .shared = true,
                         .work = rank_judged,
                         .argument = &j,
                         .workspace_size = ROWS * ranker->n_dims};
  return kf_each_judged(ctx, data, &pass, counts);
}
