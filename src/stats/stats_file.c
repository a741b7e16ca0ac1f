/* stats_file.c - statistics as a .safetensors file (docs/formats.md).
 *
 * The 128-bit moments are stored as two tensors, the high halves signed and the low ones unsigned.
 * Nothing else is stored than what the rows determine, so equal statistics are equal files. */
#include "stats/stats.h"

#include <string.h>

#define FORMAT "koofu.stats"

/* Moments are written and read through a buffer of this many. */
#define PIECE 65536u

/* --- writing --------------------------------------------------------------------------------- */

static kf_status declare(kf_stw *w, const kf_stats *s, kf_err *err) {
  uint64_t k = s->n_classes, d = s->dim, triangle = kf_triangle(s->dim);
  KF_TRY(kf_stw_meta(w, "format", FORMAT, err));
  KF_TRY(kf_stw_meta_i64(w, "version", 1, err));
  KF_TRY(kf_stw_meta_i64(w, "rows", (int64_t)s->rows, err));
  KF_TRY(kf_stw_meta_i64(w, "dim", s->dim, err));
  KF_TRY(kf_stw_meta_i64(w, "normalized", s->normalized, err));
  KF_TRY(kf_stw_meta_i64(w, "exponent", s->exponent, err));
  if (s->names.n > 0) KF_TRY(kf_stw_meta_names(w, &s->names, err));
  KF_TRY(kf_stw_declare(w, "counts", KF_TYPE_I64, 1, (uint64_t[]){k}, err));
  KF_TRY(kf_stw_declare(w, "class_sums", KF_TYPE_I64, 2, (uint64_t[]){k, d}, err));
  KF_TRY(kf_stw_declare(w, "moments_high", KF_TYPE_I64, 1, (uint64_t[]){triangle}, err));
  return kf_stw_declare(w, "moments_low", KF_TYPE_U64, 1, (uint64_t[]){triangle}, err);
}

/* One half of every moment, `shift` bits up. */
static kf_status write_half(kf_stw *w, const kf_stats *s, int shift, kf_err *err) {
  uint64_t *piece = kf_alloc(PIECE, sizeof *piece), total = kf_triangle(s->dim);
  kf_status status = piece == NULL ? kf_fail_memory(err) : KF_OK;
  for (uint64_t first = 0; first < total && status == KF_OK; first += PIECE) {
    uint64_t n = total - first < PIECE ? total - first : PIECE;
    for (uint64_t i = 0; i < n; i++) piece[i] = (uint64_t)(s->moments[first + i] >> shift);
    status = kf_stw_write(w, piece, n * sizeof *piece, err);
  }
  kf_free(piece);
  return status;
}

static kf_status write_all(kf_stw *w, const kf_stats *s, kf_err *err) {
  KF_TRY(declare(w, s, err));
  KF_TRY(kf_stw_write(w, s->counts, s->n_classes * sizeof *s->counts, err));
  KF_TRY(kf_stw_write(w, s->sums, (uint64_t)s->n_classes * s->dim * sizeof *s->sums, err));
  KF_TRY(write_half(w, s, 64, err));
  return write_half(w, s, 0, err);
}

kf_status kf_stats_save(kf_ctx *ctx, const kf_stats *stats, const char *path) {
  KF_ENTER(ctx, stats != NULL && path != NULL);
  kf_stw *w;
  KF_TRY(kf_stw_open(path, true, &w, err));
  kf_status status = write_all(w, stats, err);
  if (status == KF_OK) return kf_stw_commit(w, err);
  kf_stw_abort(w);
  return status;
}

/* --- reading --------------------------------------------------------------------------------- */

static kf_status read_moments(const kf_st *st, kf_stats *s, kf_err *err) {
  const kf_st_tensor *high, *low;
  int64_t shape[1] = {(int64_t)kf_triangle(s->dim)};
  KF_TRY(kf_st_expect(st, "moments_high", KF_TYPE_I64, 1, shape, &high, err));
  KF_TRY(kf_st_expect(st, "moments_low", KF_TYPE_U64, 1, shape, &low, err));
  int64_t *h = kf_alloc(PIECE, sizeof *h);
  uint64_t *l = kf_alloc(PIECE, sizeof *l), total = kf_triangle(s->dim);
  kf_status status = h == NULL || l == NULL ? kf_fail_memory(err) : KF_OK;
  for (uint64_t first = 0; first < total && status == KF_OK; first += PIECE) {
    uint64_t n = total - first < PIECE ? total - first : PIECE;
    status = kf_in_read(&st->in, high->offset + first * 8, h, n * 8, err);
    if (status == KF_OK) status = kf_in_read(&st->in, low->offset + first * 8, l, n * 8, err);
    for (uint64_t i = 0; i < n && status == KF_OK; i++)
      s->moments[first + i] = (kf_i128)((kf_u128)h[i] << 64 | l[i]);
  }
  kf_free(h);
  kf_free(l);
  return status;
}

/* Sums that no rows could have given would overflow later, so they are refused here: |X| <= 2^22
 * bounds a class sum by 2^22 n_k and a moment by 2^44 N. */
static kf_status check_sums(const kf_st *st, kf_stats *s, int64_t rows, kf_err *err) {
  const char *path = st->in.path;
  for (uint32_t k = 0; k < s->n_classes; k++) {
    int64_t n = s->counts[k];
    if (n < 0 || (uint64_t)n > KF_MAX_ROWS - s->rows)
      return kf_fail(err, KF_ERR_DATA, "%s: class %u cannot have %lld rows", path, k, (long long)n);
    s->rows += (uint64_t)n;
    for (uint32_t i = 0; i < s->dim; i++) {
      int64_t sum = s->sums[(uint64_t)k * s->dim + i];
      if (sum > n * KF_FIXED_ONE || sum < -n * KF_FIXED_ONE)
        return kf_fail(err, KF_ERR_DATA,
                       "%s: the sum of class %u, column %u is too large for %lld "
                       "rows",
                       path, k, i, (long long)n);
    }
  }
  if (rows < 0 || s->rows != (uint64_t)rows)
    return kf_fail(err, KF_ERR_DATA,
                   "%s: the counts of the classes add up to %llu rows, the header "
                   "says %lld",
                   path, (unsigned long long)s->rows, (long long)rows);
  kf_i128 limit = (kf_i128)s->rows << (2 * KF_FIXED_BITS);
  for (uint64_t i = 0; i < kf_triangle(s->dim); i++)
    if (s->moments[i] > limit || s->moments[i] < -limit)
      return kf_fail(err, KF_ERR_DATA, "%s: second moment number %llu is too large for %llu rows",
                     path, (unsigned long long)i, (unsigned long long)s->rows);
  return KF_OK;
}

typedef struct header {
  int64_t dim, rows, normalized, exponent;
  const kf_st_tensor *counts, *sums;
} header;

static kf_status read_header(const kf_st *st, header *h, kf_err *err) {
  const char *path = st->in.path;
  KF_TRY(kf_st_check_format(st, FORMAT, "a koofu statistics file", err));
  KF_TRY(kf_st_meta_i64(st, "dim", &h->dim, err));
  KF_TRY(kf_st_meta_i64(st, "rows", &h->rows, err));
  KF_TRY(kf_st_meta_i64(st, "normalized", &h->normalized, err));
  KF_TRY(kf_st_meta_i64(st, "exponent", &h->exponent, err));
  bool plausible = h->dim >= 1 && h->dim <= KF_MAX_DIM && h->exponent >= -200 &&
                   h->exponent <= 200 && (h->normalized == 0 || h->exponent == KF_FIXED_BITS);
  if (!plausible)
    return kf_fail(err, KF_ERR_DATA, "%s: dim %lld with exponent %lld cannot be", path,
                   (long long)h->dim, (long long)h->exponent);
  KF_TRY(kf_st_expect(st, "counts", KF_TYPE_I64, 1, (int64_t[]){-1}, &h->counts, err));
  uint64_t classes = h->counts->shape[0];
  if (classes < 1 || classes > KF_MAX_CLASSES)
    return kf_fail(err, KF_ERR_DATA, "%s: has %llu classes, there must be 1 to %u", path,
                   (unsigned long long)classes, KF_MAX_CLASSES);
  return kf_st_expect(st, "class_sums", KF_TYPE_I64, 2, (int64_t[]){(int64_t)classes, h->dim},
                      &h->sums, err);
}

static kf_status read_all(const kf_st *st, kf_stats **out, kf_err *err) {
  header h;
  KF_TRY(read_header(st, &h, err));
  /* The triangle must be in the file before memory is taken for it. */
  int64_t triangle[1] = {(int64_t)kf_triangle((uint32_t)h.dim)};
  const kf_st_tensor *ignored;
  KF_TRY(kf_st_expect(st, "moments_high", KF_TYPE_I64, 1, triangle, &ignored, err));
  uint32_t classes = (uint32_t)h.counts->shape[0];
  kf_names names;
  KF_TRY(kf_st_meta_names(st, &names, err));
  kf_status status = KF_OK;
  if (names.n != 0 && names.n != classes)
    status = kf_fail(err, KF_ERR_DATA, "%s: has %u classes and %u class names", st->in.path,
                     classes, names.n);
  kf_stats *s = NULL;
  if (status == KF_OK)
    status = kf_stats_create((uint32_t)h.dim, classes, &names, h.normalized != 0, (int)h.exponent,
                             &s, err);
  kf_names_clear(&names);
  if (status == KF_OK) status = kf_st_read_all(st, h.counts, s->counts, err);
  if (status == KF_OK) status = kf_st_read_all(st, h.sums, s->sums, err);
  if (status == KF_OK) status = read_moments(st, s, err);
  if (status == KF_OK) status = check_sums(st, s, h.rows, err);
  if (status == KF_OK)
    *out = s;
  else
    kf_stats_free(s);
  return status;
}

kf_status kf_stats_load(kf_ctx *ctx, const char *path, kf_stats **out) {
  KF_ENTER(ctx, path != NULL && out != NULL);
  kf_st st;
  KF_TRY(kf_st_open(&st, path, err));
  kf_status status = read_all(&st, out, err);
  kf_st_close(&st);
  return status;
}
