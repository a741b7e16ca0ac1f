/* stats.c - makes, fills, merges and subtracts statistics. */
#include "stats/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- making and freeing ---------------------------------------------------------------------- */

kf_status kf_stats_create(uint32_t dim, uint32_t n_classes, const kf_names *names, bool normalized,
                          int exponent, kf_stats **out, kf_err *err) {
  if (dim < 1 || dim > KF_MAX_DIM)
    return kf_fail(err, KF_ERR_ARG, "%u columns; a row has 1 to %u", dim, KF_MAX_DIM);
  if (n_classes < 1 || n_classes > KF_MAX_CLASSES)
    return kf_fail(err, KF_ERR_ARG, "%u classes; there must be 1 to %u", n_classes, KF_MAX_CLASSES);
  if (exponent < -200 || exponent > 200)
    return kf_fail(err, KF_ERR_ARG, "exponent %d is not in -200 … 200", exponent);
  kf_stats *s = kf_alloc_zero(1, sizeof *s);
  if (s == NULL) return kf_fail_memory(err);
  s->dim = dim;
  s->n_classes = n_classes;
  s->normalized = normalized;
  s->exponent = exponent;
  KF_TAKE_ZERO(&s->arena, s->counts, n_classes);
  KF_TAKE_ZERO(&s->arena, s->sums, (uint64_t)n_classes * dim);
  KF_TAKE_ZERO(&s->arena, s->moments, kf_triangle(dim));
  kf_status status = s->arena.failed ? kf_fail_memory(err) : KF_OK;
  if (status == KF_OK && names != NULL) status = kf_names_clone(names, &s->names, err);
  KF_HAND_OUT(status, out, s, kf_stats_free);
}

void kf_stats_free(kf_stats *s) {
  if (s == NULL) return;
  kf_names_clear(&s->names);
  kf_free(s->from);
  kf_arena_free(&s->arena);
  kf_free(s);
}

kf_status kf_stats_set_from(kf_stats *s, const char *from, kf_err *err) {
  char *copy = from != NULL ? kf_strdup(from) : NULL;
  if (from != NULL && copy == NULL) return kf_fail_memory(err);
  kf_free(s->from);
  s->from = copy;
  return KF_OK;
}

kf_status kf_stats_new(kf_ctx *ctx, uint32_t dim, uint32_t n_classes, const char *const *names,
                       const kf_stats_options *options, kf_stats **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, out != NULL);
  KF_OPTIONS(kf_stats_options, o, options);
  kf_names list = {0};
  if (names != NULL && n_classes <= KF_MAX_CLASSES)
    KF_TRY(kf_names_take(names, n_classes, &list, err));
  bool normalize = o.normalize != KF_OFF;
  kf_status status = kf_stats_create(dim, n_classes, &list, normalize,
                                     normalize ? KF_FIXED_BITS : o.exponent, out, err);
  kf_names_clear(&list);
  return status;
}

/* --- filling --------------------------------------------------------------------------------- */

typedef struct check_job {
  const kf_stats *stats;
  const kf_data *data; /* the rows */
  const int32_t *labels;
} check_job;

/* Checks everything that could make adding these rows fail halfway. */
static kf_status check_rows(void *argument, const kf_batch *b, kf_err *err) {
  const check_job *j = argument;
  const kf_stats *s = j->stats;
  for (uint64_t i = 0, row = b->first; i < b->n; i++, row++) {
    int32_t label = j->labels[row];
    if (label == KF_LABEL_NONE || label == KF_LABEL_BAD) continue;
    if (label < 0 || (uint32_t)label >= s->n_classes)
      return kf_fail_row(err, j->data, row, KF_HINT_NONE, "label %d is not in 0 … %u", label,
                         s->n_classes - 1);
    if (b->norm2[i] == 0)
      return kf_fail_row(err, j->data, row, KF_HINT_NONE, "is NaN, infinite or zero");
    if (!s->normalized)
      KF_TRY(kf_check_magnitude(b->rows + i * s->dim, s->dim, s->exponent, j->data, row, err));
  }
  return KF_OK;
}

kf_status kf_stats_add(kf_ctx *ctx, kf_stats *stats, const float *rows, const int32_t *labels,
                       uint64_t n) {
  KF_ENTER(ctx, stats != NULL && (n == 0 || (rows != NULL && labels != NULL)));
  (void)err;
  if (n == 0) return KF_OK;
  kf_data *data;
  KF_TRY(kf_data_open_memory(ctx, rows, n, stats->dim, NULL, NULL, 0, &data));
  data->skip_bad = true; /* unlabelled rows may hold anything; others are checked here */
  check_job j = {stats, data, labels};
  kf_pass pass = {.rows_only = true, .work = check_rows, .argument = &j};
  kf_status status = kf_each_batch(ctx, data, &pass);
  if (status == KF_OK) status = kf_stats_accumulate(ctx, stats, data, labels, NULL);
  kf_data_free(data);
  return status;
}

typedef struct largest_job {
  uint32_t dim;
  bool unlabelled;
  float *largest; /* [threads] */
} largest_job;

static kf_status find_largest(void *argument, const kf_batch *b, kf_err *err) {
  (void)err;
  const largest_job *j = argument;
  int32_t least = j->unlabelled ? KF_LABEL_NONE : 0;
  float largest = j->largest[b->worker];
  for (uint64_t r = 0; r < b->n; r++)
    for (uint32_t c = 0; b->labels[r] >= least && c < j->dim; c++)
      largest = fmaxf(largest, fabsf(b->rows[r * j->dim + c]));
  j->largest[b->worker] = largest;
  return KF_OK;
}

static kf_status largest_of_ranks(kf_ctx *ctx, float *largest) {
  const kf_ranks *r = &ctx->ranks;
  float *each = kf_alloc(r->size, sizeof *each);
  kf_status status = each != NULL ? KF_OK : kf_fail_memory(&ctx->err);
  if (status == KF_OK) each[r->rank] = *largest;
  status = kf_join_each(ctx, status, each, sizeof *each);
  for (uint32_t i = 0; status == KF_OK && i < r->size; i++) *largest = fmaxf(*largest, each[i]);
  kf_free(each);
  return status;
}

kf_status kf_find_exponent(kf_ctx *ctx, const kf_data *data, bool unlabelled, int *exponent) {
  largest_job j = {.dim = data->dim, .unlabelled = unlabelled};
  j.largest = kf_alloc_zero(ctx->threads, sizeof *j.largest);
  if (j.largest == NULL) return kf_fail_memory(&ctx->err);
  kf_status status = kf_each_batch(
      ctx, data,
      &(kf_pass){.what = "largest value", .shared = true, .work = find_largest, .argument = &j});
  float largest = 0;
  for (unsigned t = 0; t < ctx->threads; t++) largest = fmaxf(largest, j.largest[t]);
  kf_free(j.largest);
  if (status == KF_OK) status = largest_of_ranks(ctx, &largest);
  int power = 0; /* largest < 2^power */
  frexp((double)largest, &power);
  if (largest > 0 && (double)largest == ldexp(1.0, power - 1)) power--; /* 2^22 itself is allowed */
  *exponent = KF_FIXED_BITS - power;
  return status;
}

static kf_status name_after(kf_stats *s, const kf_data *data, kf_err *err) {
  char where[KF_WHERE_SIZE];
  data->where(data, KF_ALL_ROWS, where, sizeof where);
  return kf_stats_set_from(s, where, err);
}

static kf_status fail_without_label(const kf_data *data, kf_err *err) {
  return kf_fail_row(err, data, KF_ALL_ROWS, KF_HINT_NONE, "no row of the data set has a label");
}

/* Makes empty statistics with the classes of a data set and an exponent that fits its values. */
static kf_status new_for(kf_ctx *ctx, const kf_data *data, const kf_stats_options *o,
                         kf_stats **out) {
  kf_err *err = &ctx->err;
  KF_TRY(kf_check_reserved(o->reserved, sizeof o->reserved, "kf_stats_new_from_data", err));
  if (!data->has_labels)
    return kf_fail_unlabelled(err, data, KF_HINT_LABEL_TENSOR, "the rows have no labels");
  if (data->n_classes == 0) return fail_without_label(data, err);
  bool normalize = o->normalize != KF_OFF;
  int exponent = normalize ? KF_FIXED_BITS : o->exponent;
  if (!normalize && !o->fixed_exponent) KF_TRY(kf_find_exponent(ctx, data, false, &exponent));
  kf_stats *s;
  KF_TRY(kf_stats_create(data->dim, data->n_classes, &data->names, normalize, exponent, &s, err));
  s->origin = data->origin;
  KF_HAND_OUT(name_after(s, data, err), out, s, kf_stats_free);
}

static kf_status check_counted(const kf_stats *s, const kf_data *data, kf_err *err) {
  return s->rows > 0 ? KF_OK : fail_without_label(data, err);
}

kf_status kf_stats_of_data(kf_ctx *ctx, const kf_data *data, const kf_stats_options *o,
                           kf_stats **out) {
  kf_stats *s = NULL;
  KF_TRY(new_for(ctx, data, o, &s));
  kf_status status = kf_stats_accumulate(ctx, s, data, NULL, "stats");
  if (status == KF_OK) status = check_counted(s, data, &ctx->err);
  KF_HAND_OUT(status, out, s, kf_stats_free);
}

kf_status kf_stats_new_from_data(kf_ctx *ctx, const kf_data *data, const kf_stats_options *options,
                                 kf_stats **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, data != NULL && out != NULL);
  KF_OPTIONS(kf_stats_options, o, options);
  if (o.checkpoint == NULL) return kf_stats_of_data(ctx, data, &o, out);
  kf_stats *s = NULL;
  KF_TRY(new_for(ctx, data, &o, &s));
  kf_status status = kf_stats_accumulate_kept(ctx, s, data, o.checkpoint, "stats");
  if (status == KF_OK) status = check_counted(s, data, err);
  KF_HAND_OUT(status, out, s, kf_stats_free);
}

/* --- adding and subtracting sets ------------------------------------------------------------- */

static kf_status check_alike(const kf_stats *a, const kf_stats *b, kf_err *err) {
  if (a->dim != b->dim)
    return kf_fail(err, KF_ERR_DATA, "statistics of %u and of %u columns cannot be combined",
                   a->dim, b->dim);
  if (a->normalized != b->normalized)
    return kf_fail(err, KF_ERR_DATA,
                   "statistics of unit-length rows and of raw rows cannot be combined");
  KF_TRY(kf_origin_agree(&b->origin, &a->origin, err));
  if (a->exponent == b->exponent) return KF_OK;
  return kf_fail_hint(
      err, KF_ERR_DATA, KF_HINT_EXPONENT,
      "statistics with exponents %d and %d cannot be combined; both need the smaller one",
      a->exponent, b->exponent);
}

/* The sorted union of two lists of names, which the result points into. */
static kf_status union_of(const kf_names *a, const kf_names *b, kf_names *out, kf_err *err) {
  uint32_t n = a->n + b->n, kept = 0;
  char **list = kf_alloc(n, sizeof *list);
  if (list == NULL) return kf_fail_memory(err);
  memcpy(list, a->name, a->n * sizeof *list);
  if (b->n > 0) memcpy(list + a->n, b->name, b->n * sizeof *list);
  qsort(list, n, sizeof *list, kf_by_bytes);
  for (uint32_t k = 0; k < n; k++)
    if (kept == 0 || strcmp(list[k], list[kept - 1]) != 0) list[kept++] = list[k];
  *out = (kf_names){.n = kept, .name = list};
  return KF_OK;
}

/* place[k]: the class of `to` that is class k of `from`; -1: none. */
static kf_status match(const kf_stats *from, const kf_stats *to, int32_t **place, kf_err *err) {
  *place = kf_alloc(from->n_classes, sizeof **place);
  if (*place == NULL) return kf_fail_memory(err);
  kf_classes a = {"one set of statistics", from->n_classes, &from->names};
  kf_classes b = {"the other", to->n_classes, &to->names};
  return kf_match_classes(&a, &b, *place, err);
}

static void add_class(kf_stats *to, int32_t at, const kf_stats *from, uint32_t k, int sign) {
  to->counts[at] += sign * from->counts[k];
  int64_t *sum = to->sums + (uint64_t)at * to->dim;
  const int64_t *other = from->sums + (uint64_t)k * from->dim;
  for (uint32_t i = 0; i < to->dim; i++) sum[i] += sign * other[i];
}

/* place NULL: the classes are the same. */
static void add_all(kf_stats *to, const int32_t *place, const kf_stats *from, int sign) {
  for (uint32_t k = 0; k < from->n_classes; k++)
    if (from->counts[k] != 0) add_class(to, place != NULL ? place[k] : (int32_t)k, from, k, sign);
  uint64_t n = kf_triangle(to->dim);
  for (uint64_t i = 0; i < n; i++) to->moments[i] += sign * from->moments[i];
  to->rows = sign > 0 ? to->rows + from->rows : to->rows - from->rows;
}

void kf_stats_clear(kf_stats *s) {
  memset(s->counts, 0, s->n_classes * sizeof *s->counts);
  memset(s->sums, 0, (uint64_t)s->n_classes * s->dim * sizeof *s->sums);
  memset(s->moments, 0, kf_triangle(s->dim) * sizeof *s->moments);
}

void kf_stats_add_same(kf_stats *to, const kf_stats *from) { add_all(to, NULL, from, 1); }

static kf_status match_and_add(kf_stats *to, const kf_stats *from, kf_err *err) {
  int32_t *place;
  kf_status status = match(from, to, &place, err);
  if (status == KF_OK) add_all(to, place, from, 1);
  kf_free(place);
  return status;
}

/* Makes empty statistics with the classes of both. */
static kf_status new_for_both(const kf_stats *a, const kf_stats *b, kf_stats **out, kf_err *err) {
  if (a->names.n == 0 || kf_names_equal(&a->names, &b->names)) {
    uint32_t n = a->n_classes > b->n_classes ? a->n_classes : b->n_classes;
    return kf_stats_create(a->dim, n, &a->names, a->normalized, a->exponent, out, err);
  }
  kf_names both = {0};
  KF_TRY(union_of(&a->names, &b->names, &both, err));
  kf_status status = kf_stats_create(a->dim, both.n, &both, a->normalized, a->exponent, out, err);
  kf_free(both.name);
  return status;
}

kf_status kf_stats_merge(kf_ctx *ctx, kf_stats *into, const kf_stats *other) {
  KF_ENTER(ctx, into != NULL && other != NULL);
  KF_TRY(check_alike(into, other, err));
  if (into->rows > KF_MAX_ROWS - other->rows)
    return kf_fail(err, KF_ERR_DATA, "more than 2^40 rows in one set of statistics");
  kf_stats *sum;
  KF_TRY(new_for_both(into, other, &sum, err));
  sum->origin = into->origin;
  kf_status status = kf_origin_join(&sum->origin, &other->origin, err);
  if (status == KF_OK) status = match_and_add(sum, into, err);
  if (status == KF_OK) status = match_and_add(sum, other, err);
  if (status == KF_OK) {
    kf_stats old = *into; /* swap the contents; the old ones are freed with `sum` */
    *into = *sum;
    *sum = old;
  }
  kf_stats_free(sum);
  return status;
}

/* Whether the difference may be statistics of rows: since |X| <= 2^22, counts bound all sums. */
static bool difference_fits(const kf_stats *a, const int32_t *place, const kf_stats *b) {
  for (uint32_t k = 0; k < b->n_classes; k++) {
    if (b->counts[k] == 0) continue;
    int64_t most = (a->counts[place[k]] - b->counts[k]) * KF_FIXED_ONE;
    const int64_t *x = a->sums + (uint64_t)place[k] * a->dim, *y = b->sums + (uint64_t)k * b->dim;
    for (uint32_t i = 0; i < a->dim; i++)
      if (x[i] - y[i] > most || x[i] - y[i] < -most) return false;
  }
  kf_i128 most = (kf_i128)(a->rows - b->rows) << (2 * KF_FIXED_BITS);
  for (uint64_t i = 0; i < kf_triangle(a->dim); i++) {
    kf_i128 rest = a->moments[i] - b->moments[i];
    if (rest > most || rest < -most) return false;
  }
  return true;
}

static kf_status check_difference(const kf_stats *a, const int32_t *place, const kf_stats *b,
                                  kf_err *err) {
  for (uint32_t k = 0; k < b->n_classes; k++)
    if (b->counts[k] != 0 && (place[k] < 0 || a->counts[place[k]] < b->counts[k]))
      return kf_fail(err, KF_ERR_DATA, "class %u has fewer rows than are to be subtracted", k);
  if (difference_fits(a, place, b)) return KF_OK;
  return kf_fail(err, KF_ERR_DATA,
                 "the statistics to subtract are not those of a subset of the same rows");
}

kf_status kf_stats_subtract(kf_ctx *ctx, kf_stats *into, const kf_stats *other) {
  KF_ENTER(ctx, into != NULL && other != NULL);
  KF_TRY(check_alike(into, other, err));
  int32_t *place;
  kf_status status = match(other, into, &place, err);
  if (status == KF_OK) status = check_difference(into, place, other, err);
  if (status == KF_OK) add_all(into, place, other, -1);
  kf_free(place);
  if (status != KF_OK) return status;
  return kf_stats_set_from(into, NULL, err);
}

/* --- access ---------------------------------------------------------------------------------- */

uint32_t kf_stats_dim(const kf_stats *s) { return s->dim; }
uint32_t kf_stats_classes(const kf_stats *s) { return s->n_classes; }
uint64_t kf_stats_rows(const kf_stats *s) { return s->rows; }
int kf_stats_normalized(const kf_stats *s) { return s->normalized; }
int kf_stats_exponent(const kf_stats *s) { return s->exponent; }
const kf_origin *kf_stats_origin(const kf_stats *s) { return kf_origin_known(&s->origin); }

int64_t kf_stats_count(const kf_stats *s, uint32_t k) {
  return k < s->n_classes ? s->counts[k] : 0;
}

const char *kf_stats_class_name(const kf_stats *s, uint32_t k) {
  return k < s->names.n ? s->names.name[k] : NULL;
}

const int64_t *kf_stats_class_sum(const kf_stats *s, uint32_t k) {
  return k < s->n_classes ? s->sums + (uint64_t)k * s->dim : NULL;
}

void kf_stats_moment(const kf_stats *s, uint32_t i, uint32_t j, int64_t *hi, uint64_t *lo) {
  uint32_t least = i < j ? i : j, most = i < j ? j : i;
  kf_i128 value = most < s->dim ? s->moments[kf_triangle_at(s->dim, least, most)] : 0;
  *hi = (int64_t)(value >> 64);
  *lo = (uint64_t)value;
}

kf_status kf_stats_copy(kf_ctx *ctx, const kf_stats *stats, kf_stats **out) {
  kf_stats *s = NULL;
  KF_TRY(kf_stats_create(stats->dim, stats->n_classes, &stats->names, stats->normalized,
                         stats->exponent, &s, &ctx->err));
  kf_status status = kf_stats_merge(ctx, s, stats);
  if (status == KF_OK) status = kf_stats_set_from(s, stats->from, &ctx->err);
  KF_HAND_OUT(status, out, s, kf_stats_free);
}

kf_status kf_check_statistics_of(const kf_stats *stats, const kf_data *data, kf_err *err) {
  KF_TRY(kf_data_refuse_mapped(data, err));
  KF_TRY(kf_origin_agree(&data->origin, &stats->origin, err));
  if (!data->has_labels)
    return kf_fail_unlabelled(err, data, KF_HINT_LABELS, "the rows have no labels");
  bool bad = data->skip_bad; /* there may be fewer rows */
  if (stats->dim != data->dim || stats->n_classes != data->n_classes ||
      !kf_names_equal(&stats->names, &data->names) ||
      (bad ? stats->rows > data->rows : stats->rows != data->rows - data->unlabelled))
    return kf_fail(err, KF_ERR_ARG,
                   "the statistics (%llu rows of %u columns, %u classes) are not those of the data "
                   "(%llu labelled rows of %u columns, %u classes)",
                   (unsigned long long)stats->rows, stats->dim, stats->n_classes,
                   (unsigned long long)(data->rows - data->unlabelled), data->dim, data->n_classes);
  return KF_OK;
}
