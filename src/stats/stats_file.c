/* stats_file.c - writes and reads statistics as a .safetensors file (docs/formats.md).
 *
 * The 128-bit moments are stored as two tensors, signed high halves and unsigned low halves. Only
 * what the rows determine is stored, so equal statistics give equal files. */
#include "stats/stats.h"

#define FORMAT "koofu.stats"
#define COVERS "covers" /* in checkpoints only */

enum { MOMENTS_AT_ONCE = 65536 };

/* Lists the tensors in the order of the file. Moments have another layout in memory. */
enum { COUNTS, SUMS, HIGH, LOW, FIELDS };
static void list_fields(kf_st_field fields[FIELDS], uint32_t dim, uint32_t classes) {
  uint64_t triangle = kf_triangle(dim);
  fields[COUNTS] = (kf_st_field){"counts", KF_TYPE_I64, 1, {classes, 1}, NULL};
  fields[SUMS] = (kf_st_field){"class_sums", KF_TYPE_I64, 2, {classes, dim}, NULL};
  fields[HIGH] = (kf_st_field){"moments_high", KF_TYPE_I64, 1, {triangle, 1}, NULL};
  fields[LOW] = (kf_st_field){"moments_low", KF_TYPE_U64, 1, {triangle, 1}, NULL};
}

/* --- writing --------------------------------------------------------------------------------- */

/* Writes one half of every moment, from bit `shift` on. */
static kf_status write_half(kf_stw *w, const kf_stats *s, int shift, kf_err *err) {
  uint64_t *half = kf_alloc(MOMENTS_AT_ONCE, sizeof *half), total = kf_triangle(s->dim);
  kf_status status = half == NULL ? kf_fail_memory(err) : KF_OK;
  for (uint64_t first = 0; first < total && status == KF_OK; first += MOMENTS_AT_ONCE) {
    uint64_t n = total - first < MOMENTS_AT_ONCE ? total - first : MOMENTS_AT_ONCE;
    for (uint64_t i = 0; i < n; i++) half[i] = (uint64_t)(s->moments[first + i] >> shift);
    status = kf_stw_write(w, half, n * sizeof *half, err);
  }
  kf_free(half);
  return status;
}

static kf_status write_all(kf_stw *w, const kf_stats *s, kf_err *err) {
  kf_st_field fields[FIELDS];
  list_fields(fields, s->dim, s->n_classes);
  fields[COUNTS].memory = s->counts;
  fields[SUMS].memory = s->sums;
  KF_TRY(kf_stw_format(w, FORMAT, err));
  KF_TRY(kf_stw_meta_i64(w, "rows", (int64_t)s->rows, err));
  KF_TRY(kf_stw_meta_i64(w, "dim", s->dim, err));
  KF_TRY(kf_stw_meta_i64(w, "normalized", s->normalized, err));
  KF_TRY(kf_stw_meta_i64(w, "exponent", s->exponent, err));
  if (s->names.n > 0) KF_TRY(kf_stw_meta_names(w, &s->names, err));
  KF_TRY(kf_stw_origin(w, &s->origin, err));
  KF_TRY(kf_stw_declare_fields(w, fields, FIELDS, err));
  KF_TRY(kf_stw_write_fields(w, fields, HIGH, err));
  KF_TRY(write_half(w, s, 64, err));
  return write_half(w, s, 0, err);
}

kf_status kf_stats_save(kf_ctx *ctx, const kf_stats *stats, const char *path) {
  KF_ENTER(ctx, stats != NULL && path != NULL);
  kf_stw *w;
  KF_TRY(kf_stw_open(ctx, path, true, &w, err));
  return kf_stw_end(w, write_all(w, stats, err), err);
}

kf_status kf_stats_write_part(const char *path, const kf_stats *stats, const char *covers,
                              kf_err *err) {
  kf_stw *w;
  KF_TRY(kf_stw_open(NULL, path, true, &w, err));
  kf_status status = kf_stw_meta(w, COVERS, covers, err);
  return kf_stw_end(w, status == KF_OK ? write_all(w, stats, err) : status, err);
}

kf_status kf_bytes_new_of_stats(kf_ctx *ctx, const kf_stats *stats, kf_bytes **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, stats != NULL && out != NULL);
  kf_stw *w = NULL;
  KF_TRY(kf_stw_open_memory(true, &w, err));
  return kf_stw_take(w, write_all(w, stats, err), out, err);
}

kf_status kf_stats_checksum(const kf_stats *stats, uint64_t *out, kf_err *err) {
  kf_stw *w = NULL;
  KF_TRY(kf_stw_open_nowhere(&w, err));
  return kf_stw_end_nowhere(w, write_all(w, stats, err), out, err);
}

/* --- reading --------------------------------------------------------------------------------- */

static kf_status read_half(const kf_st *st, const char *name, kf_stats *s, int shift, kf_err *err) {
  uint64_t *half = kf_alloc(MOMENTS_AT_ONCE, sizeof *half), total = kf_triangle(s->dim);
  uint64_t offset = kf_st_find(st, name)->offset;
  kf_status status = half == NULL ? kf_fail_memory(err) : KF_OK;
  for (uint64_t first = 0; first < total && status == KF_OK; first += MOMENTS_AT_ONCE) {
    uint64_t n = total - first < MOMENTS_AT_ONCE ? total - first : MOMENTS_AT_ONCE;
    status = kf_in_read(&st->in, offset + first * sizeof *half, half, n * sizeof *half, err);
    for (uint64_t i = 0; i < n && status == KF_OK; i++)
      s->moments[first + i] |= (kf_i128)((kf_u128)half[i] << shift);
  }
  kf_free(half);
  return status;
}

typedef struct header {
  int64_t dim, rows, normalized, exponent;
} header;

static kf_status read_header(const kf_st *st, header *h, kf_err *err) {
  KF_TRY(kf_st_check_file(st, FORMAT, "a koofu statistics file", err));
  KF_TRY(kf_check_header(&kf_stats_rules, st, err));
  KF_TRY(kf_st_meta_i64(st, "dim", &h->dim, err));
  KF_TRY(kf_st_meta_i64(st, "rows", &h->rows, err));
  KF_TRY(kf_st_meta_i64(st, "normalized", &h->normalized, err));
  return kf_st_meta_i64(st, "exponent", &h->exponent, err);
}

static kf_status fill(const kf_st *st, kf_stats *s, kf_st_field *fields, int64_t rows,
                      kf_err *err) {
  fields[COUNTS].memory = s->counts;
  fields[SUMS].memory = s->sums;
  KF_TRY(kf_stats_set_from(s, st->in.path, err));
  KF_TRY(kf_st_origin(st, &s->origin, err));
  KF_TRY(kf_st_read_fields(st, fields, HIGH, err));
  KF_TRY(read_half(st, "moments_high", s, 64, err));
  KF_TRY(read_half(st, "moments_low", s, 0, err));
  KF_TRY(kf_check_tensors(&(kf_contents){.rules = &kf_stats_rules,
                                         .path = st->in.path,
                                         .st = st,
                                         .fields = fields,
                                         .n_fields = HIGH,
                                         .moments = s->moments},
                          err));
  s->rows = (uint64_t)rows;
  return KF_OK;
}

static kf_status read_all(const kf_st *st, kf_stats **out, kf_err *err) {
  header h;
  uint32_t classes;
  kf_names names;
  kf_st_field fields[FIELDS];
  KF_TRY(read_header(st, &h, err));
  KF_TRY(kf_st_classes(st, &classes, &names, err));
  list_fields(fields, (uint32_t)h.dim, classes);
  kf_stats *s = NULL;
  kf_status status = kf_st_expect_fields(st, fields, FIELDS, err);
  if (status == KF_OK)
    status = kf_stats_create((uint32_t)h.dim, classes, &names, h.normalized != 0, (int)h.exponent,
                             &s, err);
  kf_names_clear(&names);
  if (status == KF_OK) status = fill(st, s, fields, h.rows, err);
  KF_HAND_OUT(status, out, s, kf_stats_free);
}

/* Closes the file. */
static kf_status load(kf_ctx *ctx, kf_st *st, kf_stats **out) {
  kf_status status = read_all(st, out, &ctx->err);
  kf_st_close(st);
  if (status == KF_OK) (*out)->origin.any = ctx->options.any_encoder != 0;
  return status;
}

kf_status kf_stats_load(kf_ctx *ctx, const char *path, kf_stats **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, path != NULL && out != NULL);
  kf_st st;
  KF_TRY(kf_st_open(&st, path, err));
  return load(ctx, &st, out);
}

kf_status kf_stats_load_bytes(kf_ctx *ctx, const void *bytes, uint64_t n, kf_stats **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, bytes != NULL && out != NULL);
  kf_st st;
  KF_TRY(kf_st_open_memory(&st, bytes, n, err));
  return load(ctx, &st, out);
}

kf_status kf_stats_read_part(const char *path, char **covers, kf_stats **out, kf_err *err) {
  kf_st st;
  kf_stats *s = NULL;
  KF_TRY(kf_st_open(&st, path, err));
  const char *text = kf_st_meta(&st, COVERS);
  char *copy = text != NULL ? kf_strdup(text) : NULL;
  kf_status status = copy != NULL   ? read_all(&st, &s, err)
                     : text != NULL ? kf_fail_memory(err)
                                    : kf_fail_file(err, path, "does not say what it covers");
  kf_st_close(&st);
  if (status != KF_OK) {
    kf_free(copy);
    return status;
  }
  *covers = copy;
  *out = s;
  return KF_OK;
}
