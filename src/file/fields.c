/* fields.c - lists of tensors that live in memory: declared, written, checked and read by one table.
 * Numbers that no writer of ours produces are refused here, so that nobody has to expect them. */
#include "file/file.h"

#include <inttypes.h>
#include <math.h>

kf_status kf_stw_declare_fields(kf_stw *w, const kf_st_field *fields, size_t n, kf_err *err) {
  for (const kf_st_field *f = fields; f < fields + n; f++)
    KF_TRY(kf_stw_declare(w, f->name, f->type, f->ndim, f->shape, err));
  return KF_OK;
}

kf_status kf_stw_write_fields(kf_stw *w, const kf_st_field *fields, size_t n, kf_err *err) {
  for (const kf_st_field *f = fields; f < fields + n; f++)
    KF_TRY(kf_stw_write(w, f->memory, f->shape[0] * f->shape[1] * kf_type_size(f->type), err));
  return KF_OK;
}

static kf_status expect(const kf_st *st, const kf_st_field *f, const kf_st_tensor **out,
                        kf_err *err) {
  int64_t shape[2] = {(int64_t)f->shape[0], (int64_t)f->shape[1]};
  return kf_st_expect(st, f->name, f->type, f->ndim, shape, out, err);
}

kf_status kf_st_expect_fields(const kf_st *st, const kf_st_field *fields, size_t n, kf_err *err) {
  const kf_st_tensor *ignored;
  for (const kf_st_field *f = fields; f < fields + n; f++) KF_TRY(expect(st, f, &ignored, err));
  return KF_OK;
}

/* The first element that is not allowed; the number of elements if there is none. */
static uint64_t find_bad(const kf_st_field *f) {
  uint64_t n = f->shape[0] * f->shape[1], i = 0;
  const double *f64 = f->memory;
  const float *f32 = f->memory;
  const int64_t *i64 = f->memory;
  switch (f->type) {
  case KF_TYPE_F64:
    while (i < n && isfinite(f64[i])) i++;
    return i;
  case KF_TYPE_F32:
    while (i < n && isfinite(f32[i])) i++;
    return i;
  case KF_TYPE_I64:
    while (i < n && (f->any_sign || i64[i] >= 0)) i++;
    return i;
  default: return n;
  }
}

kf_status kf_st_read_fields(const kf_st *st, const kf_st_field *fields, size_t n, kf_err *err) {
  for (const kf_st_field *f = fields; f < fields + n; f++) {
    const kf_st_tensor *tensor;
    KF_TRY(expect(st, f, &tensor, err));
    KF_TRY(kf_st_read_all(st, tensor, f->memory, err));
    uint64_t bad = find_bad(f);
    if (bad < f->shape[0] * f->shape[1])
      return kf_fail_file(err, st->in.path, "element %" PRIu64 " of tensor '%s' is %s", bad,
                          f->name, f->type == KF_TYPE_I64 ? "negative" : "not finite");
  }
  return KF_OK;
}

kf_status kf_st_classes(const kf_st *st, uint32_t *n, kf_names *names, kf_err *err) {
  const kf_st_tensor *counts;
  KF_TRY(kf_st_expect(st, "counts", KF_TYPE_I64, 1, (int64_t[]){-1}, &counts, err));
  uint64_t classes = counts->shape[0];
  if (classes < 1 || classes > KF_MAX_CLASSES)
    return kf_fail_file(err, st->in.path, "has %" PRIu64 " classes, but must have 1 to %u", classes,
                        KF_MAX_CLASSES);
  KF_TRY(kf_st_meta_names(st, names, err));
  *n = (uint32_t)classes;
  if (names->n == 0 || names->n == *n) return KF_OK;
  kf_status status =
      kf_fail_file(err, st->in.path, "has %u classes but %u class names", *n, names->n);
  kf_names_clear(names);
  return status;
}
