/* A table as labels, and as rows with a column for each dimension. The first byte chooses commas or tabs, the column and the number of rows; the
 * rest is the table. */
#include "fuzz.h"

static uint8_t kind;

static void use(kf_ctx *ctx, const char *path) {
  static const char *const columns[] = {NULL, "label", "1", "2"};
  const char *const labels[] = {path};
  fuzz_read_data(
      ctx, fuzz_plain_rows(1u + (kind >> 4)),
      &(kf_data_options){.labels = labels, .n_labels = 1, .label_column = columns[kind >> 1 & 3]});
  fuzz_read_data(ctx, path, &(kf_data_options){.label_column = columns[kind >> 1 & 3]});
  kf_info *info;
  if (kf_info_read(ctx, path, &info) == KF_OK) kf_info_free(info);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) return 0;
  kind = data[0];
  return fuzz_with_file(kind & 1 ? ".tsv" : ".csv", data + 1, size - 1, use);
}
