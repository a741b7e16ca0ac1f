/* vecs.c - the two plain vector formats of nearest-neighbour benchmarks.
 *
 * .fvecs: each row is an int32 with the dimension and as many f32. All dimensions must be equal; those
 *         after the first are checked when their rows are read.
 * .fbin:  uint32 rows, uint32 dimension, then the rows in f32. */
#include "file/file_internal.h"

#include <inttypes.h>

static kf_status read_fvecs(kf_in *in, kf_table *table, kf_err *err) {
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

static kf_status read_fbin(kf_in *in, kf_table *table, kf_err *err) {
  uint32_t header[2];
  if (in->size < sizeof header)
    return kf_fail_file(err, in->path, "the file has %" PRIu64 " bytes, but a .fbin header has 8",
                        in->size);
  KF_TRY(kf_in_read(in, 0, header, sizeof header, err));
  KF_TRY(kf_table_size(table, in->path, header[0], header[1], err));
  uint64_t expected = sizeof header + 4 * (uint64_t)header[0] * header[1]; /* below 2^51 */
  if (in->size != expected)
    return kf_fail_file(err, in->path,
                        "%" PRIu32 " rows of %" PRIu32 " columns take %" PRIu64
                        " bytes, but the file has %" PRIu64,
                        header[0], header[1], expected, in->size);
  table->type = KF_TYPE_F32;
  table->layout = KF_LAYOUT_ROWS;
  table->offset = sizeof header;
  return KF_OK;
}

static kf_status open_file(kf_in *in, kf_table *table, const char *path,
                           kf_status (*read)(kf_in *in, kf_table *table, kf_err *err),
                           kf_err *err) {
  KF_TRY(kf_in_open(in, path, err));
  kf_status status = read(in, table, err);
  if (status != KF_OK) kf_in_close(in);
  return status;
}

kf_status kf_fvecs_open(kf_in *in, kf_table *table, const char *path, kf_err *err) {
  return open_file(in, table, path, read_fvecs, err);
}

kf_status kf_fbin_open(kf_in *in, kf_table *table, const char *path, kf_err *err) {
  return open_file(in, table, path, read_fbin, err);
}
