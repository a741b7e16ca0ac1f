/* positions.c - the position of the right class for many numbers of dimensions at once.
 *
 * With the first L directions, a row z and a prototype p have the product z.p = sum over l <= L of
 * z_l p_l, and one more direction adds one term. So the products with all prototypes are running
 * sums in f32. From the product and the length of the prototype at L follows a value that orders
 * prototypes:
 *
 *     cosine:    z.p / |p|             (|z| is the same for all)
 *     distance:  z.p - |p|^2 / 2       (|z - p|^2 = |z|^2 - 2 (z.p - |p|^2 / 2))
 *
 * The position of the right class is the number of classes before it. Its own values are computed
 * first, at every setting. All other classes are scanned once for each stretch of settings, at one
 * setting of the stretch. At the others a product differs by at most |z'||p'|, the lengths of row
 * and prototype in the directions between. Classes that cannot reach the right one within the
 * stretch are done with; the survivors are followed from setting to setting. Positions beyond
 * KF_POSITIONS are not told apart, so a row that has fallen so far needs no more classes.
 *
 * A class whose value differs from that of the right one by more than rounding errors is simply
 * counted. Others are compared as kf_eval does, by canonical scores of f32 rows with L columns. So
 * every position is the one that a model with L dimensions gives. */
#include "choose/positions_internal.h"

#include <math.h>
#include <string.h>

#define SMALLEST 1e-290 /* has an inverse */
#define LARGEST  1e30   /* in f32: sums stay far from overflow */
/* Rows (the most of kf_task_rows) and prototypes at a time, whose sums fit the cache. */
#define ROWS  192u
#define PANEL 640u

/* The right class of a row at one setting. */
typedef struct right_value {
  double low, high; /* other classes with a value between these are close calls */
  double canonical; /* of the nearest right class */
  uint32_t nearest; /* its number; the number of prototypes: not known yet */
} right_value;

/* A row in a stretch. */
typedef struct row_stretch {
  float low;   /* classes below cannot reach the right one */
  float reach; /* the longer part of the row between the setting `at` and an end */
  bool done;   /* its positions are KF_POSITIONS throughout */
} row_stretch;

typedef struct finder_workspace {
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
} finder_workspace;

typedef struct placed_row {
  const kf_position_finder *f;
  finder_workspace *w;
  uint64_t i;
  const kf_right *right;
  unsigned char *positions; /* [n_dims] */
} placed_row;

static void take_workspace(finder_workspace *w, const kf_position_finder *f, kf_arena *arena) {
  uint64_t rows = ROWS;
  KF_TAKE(arena, w->mapped, rows * f->model->map.dim_out);
  KF_TAKE(arena, w->workspace, 2 * kf_map_workspace(&f->model->map));
  KF_TAKE(arena, w->z, rows * f->most);
  KF_TAKE(arena, w->scaled, rows * f->most);
  KF_TAKE(arena, w->length, rows * f->n_dims);
  KF_TAKE(arena, w->right, rows * f->n_dims);
  KF_TAKE(arena, w->stretches, rows * f->n_stretches);
  KF_TAKE(arena, w->sums, rows * PANEL);
  KF_TAKE(arena, w->list, PANEL);
  KF_TAKE(arena, w->row, f->most + 1);
  KF_TAKE(arena, w->prototype, f->most + 1);
}

/* --- close calls: canonical scores ----------------------------------------------------------- */

/* Smaller is nearer: minus the cosine, or the squared distance. w->row holds the row. */
static double canonical_value(const kf_position_finder *f, finder_workspace *w, uint32_t dim,
                              uint32_t j) {
  const kf_kernels *kernels = f->kernels;
  const double *p = f->mapped + (uint64_t)j * f->most;
  const float *rows[1] = {w->prototype};
  double value, length = kf_unit_row(kernels, p, dim, w->prototype);
  if (!f->euclidean) {
    kernels->dots(w->row, rows, 1, dim, &value);
    return -value;
  }
  for (uint32_t i = 0; i < dim; i++) w->prototype[i] = (float)((double)w->prototype[i] * length);
  bool longer = f->model->prior > 0; /* by a column, as in prototypes.c */
  w->prototype[dim] = f->column[j];
  w->row[dim] = 0;
  kernels->distances(w->row, rows, 1, dim + (longer ? 1 : 0), &value);
  return value;
}

/* Finds the nearest right class by canonical scores. */
static void find_nearest(const placed_row *row, uint32_t dim, right_value *known) {
  const kf_position_finder *f = row->f;
  for (uint32_t s = 0; s < row->right->n; s++) {
    int32_t j = f->place[row->right->classes[s]];
    if (j < 0) continue;
    double value = canonical_value(f, row->w, dim, (uint32_t)j);
    bool tie = value == known->canonical && (uint32_t)j < known->nearest;
    if (known->nearest < f->n && value >= known->canonical && !tie) continue;
    known->canonical = value;
    known->nearest = (uint32_t)j;
  }
}

/* Whether the wrong class j comes before the nearest right one at setting t. */
static bool comes_before(const placed_row *row, size_t t, uint32_t j) {
  const kf_position_finder *f = row->f;
  finder_workspace *w = row->w;
  const double *z = w->mapped + row->i * f->model->map.dim_out;
  right_value *known = &w->right[row->i * f->n_dims + t];
  uint32_t dim = f->dims[t];
  if (f->euclidean)
    for (uint32_t i = 0; i < dim; i++) w->row[i] = (float)z[i];
  else
    kf_unit_row(f->kernels, z, dim, w->row);
  if (known->nearest == f->n) find_nearest(row, dim, known);
  double value = canonical_value(f, w, dim, j);
  return value < known->canonical || (value == known->canonical && j < known->nearest);
}

/* --- rows ------------------------------------------------------------------------------------ */

/* Takes a mapped row in f32, divided by its size: |z|, or for distances the size of the prototypes.
 * A row too far from all prototypes for f32 gets an infinite length, which leaves it to canonical
 * scores. */
static kf_status take_row(const kf_position_finder *f, finder_workspace *w, uint64_t i,
                          kf_err *err) {
  const double *z = w->mapped + i * f->model->map.dim_out;
  double *scaled = w->scaled + i * f->most, *length = w->length + i * f->n_dims;
  double largest = 0;
  for (uint32_t l = 0; l < f->most; l++) largest = fmax(largest, fabs(z[l]));
  if (!isfinite(largest) || (f->euclidean && largest > 3e38))
    return kf_fail_range(&f->model->map, err);
  double size = f->euclidean ? f->size : largest > SMALLEST ? largest * sqrt(f->most) : 1;
  bool held = largest / size < LARGEST;
  double inverse = held ? 1 / size : 0, length2 = held ? 0 : INFINITY;
  for (size_t t = 0, l = 0; t < f->n_dims; t++) {
    for (; l < f->dims[t]; l++) {
      float x = (float)(z[l] * inverse);
      w->z[l * ROWS + i] = x;
      scaled[l] = (double)x;
      length2 += scaled[l] * scaled[l];
    }
    length[t] = sqrt(length2);
  }
  return KF_OK;
}

/* How far a value at setting t may be from that of the canonical scores. The bound covers f32 sums
 * of products (at setting `at` if that has more terms); the rounding of rows and prototypes to f32
 * on both sides, and of lengths, offsets and values; and underflow, 2^-150 each time, of values and
 * products here, which a scale may enlarge, and of the values in canonical distances, which are not
 * divided by size. */
static double doubt(const kf_position_finder *f, const kf_stretch *s, size_t t,
                    const double *length) {
  size_t most = t > s->at ? t : s->at;
  double dim = (double)f->dims[most], gamma = (dim + 16) * 0x1p-24 * 1.01, lost = dim * 0x1p-147;
  if (!f->euclidean) return gamma * length[most] * s->growth + lost * (1 + f->steepest[t]);
  double both = length[most] + f->longest[most];
  lost *= 1 + 1 / f->size;
  return gamma * both * both + lost * (1 + both) + lost * lost;
}

/* The products with prototype j and its squared lengths at the settings of a stretch, from its
 * product x at one of them. A prototype without length has the product 0. */
static void find_products(const kf_position_finder *f, const double *scaled, const kf_stretch *s,
                          uint32_t j, double x, double *products, double *lengths2) {
  const double *p = f->mapped + (uint64_t)j * f->most, inverse = 1 / f->size;
  double scale = (double)s->first_scale[j], sum = 0;
  double length2 = f->euclidean ? 2 * (double)s->offset[j] : scale > 0 ? 1 / (scale * scale) : 0;
  uint32_t l = f->dims[s->first];
  for (size_t t = s->first; t < s->last; t++) {
    for (; l < f->dims[t]; l++) {
      double y = p[l] * inverse;
      sum += scaled[l] * y;
      length2 += y * y;
    }
    products[t - s->first] = sum;
    lengths2[t - s->first] = length2;
  }
  x -= products[s->at - s->first];
  for (size_t t = 0; t < s->last - s->first; t++)
    products[t] = f->euclidean || lengths2[t] > 0 ? x + products[t] : 0;
}

static double value_of(const kf_position_finder *f, double product, double length2) {
  if (f->euclidean) return product - length2 / 2;
  return length2 > 0 ? product / sqrt(length2) : 0;
}

/* Whether that value exceeds a bound, and whether it reaches one, without square roots and
 * divisions, which would take most of the time. Bounds allow for the rounding of squares. */
static double squared(double x) { return x * fabs(x); }
static bool exceeds(const kf_position_finder *f, double product, double length2, double bound) {
  if (f->euclidean) return product - length2 / 2 > bound;
  return squared(product) > squared(bound) * (length2 > 0 ? length2 : 1);
}
static bool reaches(const kf_position_finder *f, double product, double length2, double bound) {
  if (f->euclidean) return product - length2 / 2 >= bound;
  return squared(product) >= squared(bound) * (length2 > 0 ? length2 : 1);
}

/* Finds the best value of the right classes at all settings; false if none takes part. */
static bool take_right(const placed_row *row) {
  const kf_position_finder *f = row->f;
  const double *scaled = row->w->scaled + row->i * f->most;
  right_value *to = row->w->right + row->i * f->n_dims;
  bool any = false;
  for (uint32_t c = 0; c < row->right->n; c++) {
    int32_t j = f->place[row->right->classes[c]];
    double products[KF_STRETCH], lengths2[KF_STRETCH], x = 0;
    uint32_t l = 0;
    for (size_t i = 0; j >= 0 && i < f->n_stretches; i++) {
      const kf_stretch *s = &f->stretches[i];
      for (; l < f->dims[s->at]; l++)
        x += scaled[l] * (f->mapped[(uint64_t)j * f->most + l] / f->size);
      find_products(f, scaled, s, (uint32_t)j, x, products, lengths2);
      for (size_t t = s->first; t < s->last; t++) {
        double value = value_of(f, products[t - s->first], lengths2[t - s->first]);
        to[t].low = any ? fmax(to[t].low, value) : value;
      }
    }
    any |= j >= 0;
  }
  return any;
}

/* The length of the rest of a vector, from its length and that of a part. */
static double rest_of(double all, double part) {
  return isfinite(all) ? sqrt(fmax(all * all - part * part, 0) + 0x1p-40 * all * all) : 0;
}

/* Sets the right values and stretches of a row. */
static void take_stretches(const placed_row *row) {
  const kf_position_finder *f = row->f;
  finder_workspace *w = row->w;
  const double *length = w->length + row->i * f->n_dims;
  right_value *right = w->right + row->i * f->n_dims;
  bool any = take_right(row);
  memset(row->positions, any ? 0 : KF_POSITIONS, f->n_dims);
  for (size_t i = 0; i < f->n_stretches; i++) {
    const kf_stretch *s = &f->stretches[i];
    double low = INFINITY, most = 0;
    for (size_t t = s->first; any && t < s->last; t++) {
      double around = doubt(f, s, t, length), value = right[t].low;
      right[t] = (right_value){value - 2 * around, value + 2 * around, 0, f->n};
      low = fmin(low, right[t].low);
      most = fmax(most, around);
    }
    double reach =
        fmax(rest_of(length[s->at], length[s->first]), rest_of(length[s->last - 1], length[s->at]));
    bool alone = s->last == s->first + 1;
    w->stretches[row->i * f->n_stretches + i] =
        (row_stretch){.low = nextafterf((float)(low - most), -INFINITY),
                      .reach = alone ? 0 : (float)(reach * (1 + 0x1p-20)),
                      .done = !any};
  }
}

/* --- positions -------------------------------------------------------------------------------- */

/* Follows a wrong class through a stretch; true if all positions there have reached
 * KF_POSITIONS. */
static bool take_class(const placed_row *row, const kf_stretch *s, uint32_t j, double x) {
  const kf_position_finder *f = row->f;
  const right_value *right = row->w->right + row->i * f->n_dims;
  double products[KF_STRETCH], lengths2[KF_STRETCH];
  bool done = true;
  find_products(f, row->w->scaled + row->i * f->most, s, j, x, products, lengths2);
  for (size_t t = s->first; t < s->last; t++) {
    double product = products[t - s->first], length2 = lengths2[t - s->first];
    if (row->positions[t] == KF_POSITIONS) continue;
    if (exceeds(f, product, length2, right[t].high) ||
        (reaches(f, product, length2, right[t].low) && comes_before(row, t, j)))
      row->positions[t]++;
    done &= row->positions[t] == KF_POSITIONS;
  }
  return done;
}

/* Compares a row with prototypes [from, from + n) in a stretch. */
static void place_row(const placed_row *row, size_t number, uint32_t from, uint32_t n) {
  const kf_position_finder *f = row->f;
  finder_workspace *w = row->w;
  const kf_stretch *s = &f->stretches[number];
  row_stretch *known = &w->stretches[row->i * f->n_stretches + number];
  if (known->done) return;
  const float *x = w->sums + row->i * PANEL;
  const float *scale = known->low > 0 ? s->first_scale : s->last_scale; /* products below 0 rise */
  size_t found = f->kernels->list_reaching(x, s->far + from, known->reach, scale + from,
                                           s->offset + from, n, known->low, w->list);
  for (size_t k = 0; !known->done && k < found; k++) {
    uint32_t j = from + w->list[k];
    if (!kf_is_right(row->right, f->number[j]))
      known->done = take_class(row, s, j, (double)x[w->list[k]]);
  }
}

static void place_rows(const kf_position_finder *f, finder_workspace *w, uint64_t n,
                       const kf_right *right, unsigned char *positions) {
  for (uint64_t i = 0; i < n; i++)
    take_stretches(&(placed_row){f, w, i, &right[i], positions + i * f->n_dims});
  for (uint32_t first = 0; first < f->n; first += PANEL) {
    uint32_t classes = f->n - first < PANEL ? f->n - first : PANEL, from = 0;
    memset(w->sums, 0, n * PANEL * sizeof *w->sums);
    for (size_t s = 0; s < f->n_stretches; s++) {
      uint32_t to = f->dims[f->stretches[s].at];
      f->kernels->gemm_tn_f32(w->z + (uint64_t)from * ROWS, ROWS,
                              f->columns + (uint64_t)from * f->n + first, f->n, w->sums, PANEL, n,
                              classes, to - from);
      from = to;
      for (uint64_t i = 0; i < n; i++)
        place_row(&(placed_row){f, w, i, &right[i], positions + i * f->n_dims}, s, first, classes);
    }
  }
}

static void map_rows(const kf_position_finder *f, finder_workspace *w, const float *rows,
                     const double *norm2, uint64_t n) {
  const kf_map *map = &f->model->map;
  for (uint64_t first = 0; first < n; first += KF_MAP_ROWS) {
    uint64_t count = n - first < KF_MAP_ROWS ? n - first : KF_MAP_ROWS;
    kf_map_rows_f64(map, f->kernels, rows + first * map->dim_in, norm2 + first, NULL, count,
                    w->workspace, w->mapped + first * map->dim_out);
  }
}

kf_status kf_find_positions(const kf_position_finder *f, const float *rows, const double *norm2,
                            uint64_t n, const kf_right *right, unsigned char *positions,
                            kf_err *err) {
  kf_arena arena = {0};
  finder_workspace w;
  take_workspace(&w, f, &arena);
  kf_status status = arena.failed ? kf_fail_memory(err) : KF_OK;
  for (uint64_t first = 0; status == KF_OK && first < n; first += ROWS) {
    uint64_t count = n - first < ROWS ? n - first : ROWS;
    map_rows(f, &w, rows + first * f->model->map.dim_in, norm2 + first, count);
    for (uint64_t i = 0; status == KF_OK && i < count; i++) status = take_row(f, &w, i, err);
    if (status == KF_OK) place_rows(f, &w, count, right + first, positions + first * f->n_dims);
  }
  kf_arena_free(&arena);
  return status;
}

/* --- all rows of a data set ------------------------------------------------------------------ */

enum { TOP1, TOP5, LOST, WON, COUNTS };

typedef struct counting {
  const kf_position_finder *finder;
  uint64_t *counts; /* [threads][n_dims][COUNTS] */
} counting;

static kf_status count_judged(void *argument, const kf_judged *rows, kf_err *err) {
  const counting *c = argument;
  size_t n_dims = c->finder->n_dims;
  unsigned char *positions = rows->workspace; /* [ROWS][n_dims] */
  KF_TRY(
      kf_find_positions(c->finder, rows->rows, rows->norm2, rows->n, rows->right, positions, err));
  for (uint64_t i = 0; i < rows->n; i++, positions += n_dims) {
    uint64_t *to = c->counts + rows->worker * n_dims * COUNTS;
    bool last = positions[n_dims - 1] == 0;
    for (size_t t = 0; t < n_dims; t++, to += COUNTS) {
      bool here = positions[t] == 0;
      to[TOP1] += here;
      to[TOP5] += positions[t] < KF_POSITIONS;
      to[LOST] += last && !here;
      to[WON] += here && !last;
    }
  }
  return KF_OK;
}

kf_status kf_count_positions(kf_ctx *ctx, const kf_position_finder *finder, const kf_data *data,
                             const kf_judge *judge, kf_dim_point *points, kf_eval_result *counts) {
  uint64_t n = finder->n_dims * COUNTS;
  counting c = {.finder = finder, .counts = kf_alloc_zero(ctx->threads, n * sizeof *c.counts)};
  kf_judged_pass pass = {.what = "positions",
                         .rows = kf_task_rows(ctx, data->rows), /* ROWS at most */
                         .judge = judge,
                         .shared = true,
                         .work = count_judged,
                         .argument = &c,
                         .workspace_size = ROWS * finder->n_dims};
  kf_status status = kf_agree_on(ctx, c.counts != NULL ? KF_OK : kf_fail_memory(&ctx->err));
  if (status == KF_OK) status = kf_each_judged(ctx, data, &pass, counts);
  for (uint64_t i = n; status == KF_OK && i < ctx->threads * n; i++) c.counts[i % n] += c.counts[i];
  if (status == KF_OK) status = kf_sum_u64(ctx, KF_OK, c.counts, n);
  for (size_t t = 0; status == KF_OK && t < finder->n_dims; t++) {
    const uint64_t *from = c.counts + t * COUNTS;
    points[t].top1 += from[TOP1];
    points[t].top5 += from[TOP5];
    points[t].lost += from[LOST];
    points[t].won += from[WON];
  }
  kf_free(c.counts);
  return status;
}
