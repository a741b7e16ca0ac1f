/* A table as labels, and as rows with a column for each dimension. The first byte chooses commas or
 * tabs, the columns and the number of rows; the rest is the table, which is also read as file names
 * and labels of pictures. */
#include "file/file.h"
#include "fuzz.h"

#include <stdlib.h>

static uint8_t kind;

/* Lines count up, and no text is empty. */
static kf_status check(void *argument, uint64_t line, const char *id, const char *label,
                       kf_err *err) {
  uint64_t *last = argument;
  (void)err;
  if (line <= *last || id[0] == '\0' || label[0] == '\0') abort();
  *last = line;
  return KF_OK;
}

static void use(kf_ctx *ctx, const char *path) {
  static const char *const columns[] = {NULL, "label", "1", "2"};
  const char *const labels[] = {path};
  fuzz_read_data(
      ctx, fuzz_plain_rows(1u + (kind >> 4)),
      &(kf_data_options){.labels = labels, .n_labels = 1, .label_column = columns[kind >> 1 & 3]});
  fuzz_read_data(ctx, path, &(kf_data_options){.label_column = columns[kind >> 1 & 3]});
  kf_info *info;
  if (kf_info_read(ctx, path, &info) == KF_OK) kf_info_free(info);
  uint64_t last = 0;
  kf_err err;
  (void)kf_table_each_pair(path, columns[kind >> 5 & 3], columns[kind >> 1 & 3], check, &last,
                           &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) return 0;
  kind = data[0];
  return fuzz_with_file(kind & 1 ? ".tsv" : ".csv", data + 1, size - 1, use);
}
