/* vecs.c - the plain vector formats of nearest-neighbour benchmarks.
 *
 * .fvecs: each row is an int32 with the dimension, then as many f32. All dimensions must be equal;
 *         those after the first are checked when their rows are read.
 * .fbin:  uint32 rows, uint32 dimension, then the rows in f32; .f16bin, .u8bin and .i8bin are the
 *         same with other element types. */
#include "file/file_internal.h"

#include <inttypes.h>

kf_status kf_fvecs_open(kf_in *in, kf_table *table, const char *path, kf_err *err) {
  KF_TRY(kf_in_open(in, path, err));
  if (in->size < 4)
    return kf_fail_file(err, in->path, "the file has %" PRIu64 " bytes, too few for a .fvecs row",
                        in->size);
  int32_t dim;
  KF_TRY(kf_in_read(in, 0, &dim, sizeof dim, err));
  if (dim < 0) return kf_fail_file(err, in->path, "row 0 says it has %" PRId32 " columns", dim);
  uint64_t stride = 4 + 4 * (uint64_t)dim;
  KF_TRY(kf_table_size(table, in->path, 1 + in->size / stride, (uint64_t)dim, err));
  if (in->size % stride != 0)
    return kf_fail_file(err, in->path,
                        "the file has %" PRIu64 " bytes, not a multiple of the %" PRIu64
                        " bytes of a row with %" PRId32 " columns",
                        in->size, stride, dim);
  table->rows = in->size / stride;
  table->type = KF_TYPE_F32;
  table->layout = KF_LAYOUT_TAGGED_ROWS;
  table->offset = 0;
  return KF_OK;
}

static const struct {
  const char *ending;
  kf_type type;
} bins[] = {{".fbin", KF_TYPE_F32},
            {".f16bin", KF_TYPE_F16},
            {".u8bin", KF_TYPE_U8},
            {".i8bin", KF_TYPE_I8}};

const char *kf_bin_ending(const char *path, kf_type *type) {
  for (size_t i = 0; i < sizeof bins / sizeof *bins; i++)
    if (kf_ends_with(path, bins[i].ending)) {
      if (type != NULL) *type = bins[i].type;
      return bins[i].ending;
    }
  return NULL;
}

kf_status kf_bin_open(kf_in *in, kf_table *table, const char *path, kf_err *err) {
  const char *ending = kf_bin_ending(path, &table->type);
  uint32_t header[2];
  KF_TRY(kf_in_open(in, path, err));
  if (in->size < sizeof header)
    return kf_fail_file(err, in->path,
                        "the file has %" PRIu64 " bytes, but the header of a %s file has 8",
                        in->size, ending);
  KF_TRY(kf_in_read(in, 0, header, sizeof header, err));
  KF_TRY(kf_table_size(table, in->path, header[0], header[1], err));
  uint64_t expected =
      sizeof header + kf_type_size(table->type) * header[0] * header[1]; /* below 2^51 */
  if (in->size != expected)
    return kf_fail_file(err, in->path,
                        "%" PRIu32 " rows of %" PRIu32 " columns take %" PRIu64
                        " bytes, but the file has %" PRIu64,
                        header[0], header[1], expected, in->size);
  table->layout = KF_LAYOUT_ROWS;
  table->offset = sizeof header;
  return KF_OK;
}
