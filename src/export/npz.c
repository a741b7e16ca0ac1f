/* npz.c - a model as arrays of numpy: an archive (zip, without compression) of .npy files.
 *
 * Sizes and offsets are always in the 64-bit extra fields of zip, so small and large members have
 * the same layout. The checksum of a member is known once it has been written; it is then put into
 * the member's header. */
#include "export/export.h"

#include <inttypes.h>
#include <string.h>

enum { MAX_ARRAYS = 24, MAX_NAME = 32, NPY_HEADER = 128 };
enum { LOCAL_SIZE = 30, LOCAL_EXTRA = 20, CENTRAL_SIZE = 46, CENTRAL_EXTRA = 28 };
enum { END64_SIZE = 56, LOCATOR_SIZE = 20, END_SIZE = 22 };
enum { NEEDED = 45, DATE = 33 }; /* version 4.5; 1 January 1980, so equal models have equal bytes */
#define MAX_NAMES_BYTES ((uint64_t)1 << 30) /* class names in numpy's form */

typedef struct member {
  char name[MAX_NAME];
  uint64_t size, offset;
  uint32_t crc;
} member;

typedef struct archive {
  kf_out out;
  kf_err *err;
  size_t n;
  member members[MAX_ARRAYS];
  kf_crc crc; /* of the current member */
} archive;

/* --- the archive ------------------------------------------------------------------------------ */

/* A little-endian number; returns what follows it. */
static unsigned char *set(unsigned char *p, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; i++) *p++ = (unsigned char)(value >> 8 * i & 255);
  return p;
}

/* The part that both headers of a member share: from the version to the length of its name. */
static unsigned char *set_common(unsigned char *p, const member *m, int extra) {
  p = set(p, NEEDED, 2);
  p = set(p, 0, 4); /* no flags, stored */
  p = set(p, 0, 2);
  p = set(p, DATE, 2);
  p = set(p, m->crc, 4);
  p = set(p, UINT64_MAX, 8); /* both sizes are in the extra field */
  p = set(p, strlen(m->name), 2);
  return set(p, (uint64_t)extra, 2);
}

static kf_status begin_member(archive *a, const char *name, uint64_t size) {
  member *m = &a->members[a->n];
  unsigned char header[LOCAL_SIZE] = "PK\3\4", extra[LOCAL_EXTRA];
  *m = (member){.size = size, .offset = a->out.written};
  kf_crc_start(&a->crc);
  snprintf(m->name, sizeof m->name, "%s.npy", name);
  set_common(header + 4, m, LOCAL_EXTRA);
  set(set(set(set(extra, 1, 2), 16, 2), size, 8), size, 8);
  KF_TRY(kf_out_write(&a->out, header, sizeof header, a->err));
  KF_TRY(kf_out_write(&a->out, m->name, strlen(m->name), a->err));
  return kf_out_write(&a->out, extra, sizeof extra, a->err);
}

static kf_status put(archive *a, const void *bytes, uint64_t n) {
  kf_crc_add(&a->crc, bytes, n);
  return kf_out_write(&a->out, bytes, n, a->err);
}

static kf_status end_member(archive *a) {
  member *m = &a->members[a->n++];
  unsigned char crc[4];
  m->crc = kf_crc_value(&a->crc);
  set(crc, m->crc, 4);
  return kf_out_write_at(&a->out, m->offset + 14, crc, sizeof crc, a->err);
}

static kf_status put_entry(archive *a, const member *m) {
  unsigned char header[CENTRAL_SIZE] = "PK\1\2", extra[CENTRAL_EXTRA];
  unsigned char *p = set_common(set(header + 4, NEEDED, 2), m, CENTRAL_EXTRA);
  p = set(set(p, 0, 8), 0, 2); /* no comment, no attributes */
  set(p, UINT32_MAX, 4);       /* the offset is in the extra field */
  set(set(set(set(set(extra, 1, 2), 24, 2), m->size, 8), m->size, 8), m->offset, 8);
  KF_TRY(kf_out_write(&a->out, header, sizeof header, a->err));
  KF_TRY(kf_out_write(&a->out, m->name, strlen(m->name), a->err));
  return kf_out_write(&a->out, extra, sizeof extra, a->err);
}

static kf_status put_directory(archive *a) {
  uint64_t first = a->out.written;
  for (size_t i = 0; i < a->n; i++) KF_TRY(put_entry(a, &a->members[i]));
  uint64_t end = a->out.written;
  unsigned char record[END64_SIZE + LOCATOR_SIZE + END_SIZE] = "PK\6\6";
  unsigned char *p = set(record + 4, END64_SIZE - 12, 8);
  p = set(set(p, NEEDED, 2), NEEDED, 2);
  p = set(p, 0, 8);
  p = set(set(p, a->n, 8), a->n, 8);
  p = set(set(p, end - first, 8), first, 8);
  memcpy(p, "PK\6\7", 4);
  p = set(set(set(p + 4, 0, 4), end, 8), 1, 4);
  memcpy(p, "PK\5\6", 4);
  p = set(set(p + 4, 0, 4), UINT32_MAX, 4);
  set(set(set(p, UINT32_MAX, 4), UINT32_MAX, 4), 0, 2);
  return kf_out_write(&a->out, record, sizeof record, a->err);
}

/* --- arrays ----------------------------------------------------------------------------------- */

/* The header of an array, and the member around it. */
static kf_status begin_array(archive *a, const char *name, const char *type, uint32_t ndim,
                             const uint64_t *shape, uint64_t bytes) {
  enum { PREAMBLE = 10 };
  char header[NPY_HEADER + 1] = "\x93NUMPY\x01", dims[48] = "";
  header[8] = NPY_HEADER - PREAMBLE;
  if (ndim == 1) snprintf(dims, sizeof dims, "%" PRIu64 ",", shape[0]);
  if (ndim == 2) snprintf(dims, sizeof dims, "%" PRIu64 ", %" PRIu64, shape[0], shape[1]);
  int n = snprintf(header + PREAMBLE, sizeof header - PREAMBLE,
                   "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", type, dims);
  memset(header + PREAMBLE + n, ' ', (size_t)(NPY_HEADER - PREAMBLE - n - 1));
  header[NPY_HEADER - 1] = '\n';
  KF_TRY(begin_member(a, name, NPY_HEADER + bytes));
  return put(a, header, NPY_HEADER);
}

static kf_status put_array(archive *a, const kf_st_field *f) {
  const char *type = f->type == KF_TYPE_F64   ? "<f8"
                     : f->type == KF_TYPE_F32 ? "<f4"
                     : f->type == KF_TYPE_I64 ? "<i8"
                                              : "|u1";
  uint64_t bytes = kf_type_size(f->type); /* of what is in memory */
  for (uint32_t i = 0; i < f->ndim; i++) bytes *= f->shape[i];
  KF_TRY(begin_array(a, f->name, type, f->ndim, f->shape, bytes));
  KF_TRY(put(a, f->memory, bytes));
  return end_member(a);
}

/* Class names in UTF-32, padded to the longest. */
static kf_status put_names(archive *a, const kf_names *names) {
  uint64_t longest = 1, shape[] = {names->n, 1}, bytes;
  char type[24];
  for (uint32_t k = 0; k < names->n; k++) {
    uint64_t length = 0;
    for (size_t at = 0; names->name[k][at] != '\0'; length++) kf_utf8_next(names->name[k], &at);
    if (length > longest) longest = length;
  }
  if (!kf_mul_u64(longest * 4, names->n, &bytes) || bytes > MAX_NAMES_BYTES)
    return kf_fail(a->err, KF_ERR_DATA, "%s: the class names are too long for an array",
                   a->out.path);
  uint32_t *row = kf_alloc(longest, sizeof *row);
  if (row == NULL) return kf_fail_memory(a->err);
  snprintf(type, sizeof type, "<U%" PRIu64, longest);
  kf_status status = begin_array(a, "classes", type, 1, shape, bytes);
  for (uint32_t k = 0; status == KF_OK && k < names->n; k++) {
    memset(row, 0, longest * sizeof *row);
    size_t at = 0;
    for (uint64_t i = 0; names->name[k][at] != '\0'; i++)
      row[i] = kf_utf8_next(names->name[k], &at);
    status = put(a, row, longest * sizeof *row);
  }
  kf_free(row);
  return status == KF_OK ? end_member(a) : status;
}

static kf_status put_number(archive *a, const char *name, double value) {
  return put_array(a, &(kf_st_field){name, KF_TYPE_F64, 0, {0}, &value});
}

static kf_status put_flag(archive *a, const char *name, bool value) {
  uint8_t byte = value;
  return put_array(a, &(kf_st_field){name, KF_TYPE_U8, 0, {0}, &byte});
}

/* The tensors of the model's own file, and its metadata as numbers. */
static kf_status put_model(archive *a, const kf_model *m) {
  kf_st_field fields[KF_MODEL_FIELDS];
  size_t n = kf_model_fields(m, fields);
  for (size_t i = 0; i < n; i++) KF_TRY(put_array(a, &fields[i]));
  KF_TRY(put_flag(a, "normalized", m->map.normalized));
  KF_TRY(put_flag(a, "centred", m->map.centre == KF_CENTRE_MEAN));
  KF_TRY(put_number(a, "lambda", m->map.lambda));
  KF_TRY(put_number(a, "prior", m->prior));
  if (m->text != NULL) KF_TRY(put_number(a, "alpha", m->alpha));
  if (m->temperature > 0) KF_TRY(put_number(a, "temperature", m->temperature));
  if (m->reject_share > 0) KF_TRY(put_number(a, "reject", m->reject));
  if (m->reject_share > 0) KF_TRY(put_number(a, "reject_share", m->reject_share));
  return m->names.n > 0 ? put_names(a, &m->names) : KF_OK;
}

kf_status kf_export_npz(kf_ctx *ctx, const kf_model *model, const kf_export_options *o,
                        const char *path) {
  (void)o;
  archive a = {.err = &ctx->err};
  kf_status status = kf_out_open(&a.out, ctx, path, a.err);
  if (status == KF_OK) status = put_model(&a, model);
  if (status == KF_OK) status = put_directory(&a);
  if (status == KF_OK) status = kf_out_commit(&a.out, a.err);
  kf_out_abort(&a.out);
  return status;
}
