/* fields.c - tensors in memory, declared, written, expected and read by one list. */
#include "file/file.h"

#include <inttypes.h>

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
  return kf_st_expect(st, f->name, f->type, f->ndim, (const int64_t *)f->shape, out, err);
}

kf_status kf_st_expect_fields(const kf_st *st, const kf_st_field *fields, size_t n, kf_err *err) {
  const kf_st_tensor *ignored;
  for (const kf_st_field *f = fields; f < fields + n; f++) KF_TRY(expect(st, f, &ignored, err));
  return KF_OK;
}

kf_status kf_st_read_fields(const kf_st *st, const kf_st_field *fields, size_t n, kf_err *err) {
  for (const kf_st_field *f = fields; f < fields + n; f++) {
    const kf_st_tensor *tensor;
    KF_TRY(expect(st, f, &tensor, err));
    KF_TRY(kf_st_read_all(st, tensor, f->memory, err));
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
