/* Files of correct classes. The first byte chooses JSON, CSV or text, with or without a list of
 * names, matched by id (the file's own or others) or by order; also hierarchies and answers. */
#include "fuzz.h"

#include <stdlib.h>

static uint8_t kind;

static const char *names_file(void) { return fuzz_write("names.txt", "cat\ndog\neel\n", 12); }

static void read_truth(kf_ctx *ctx, const char *path) {
  static const char ids[] = "x_val_00000001.JPEG\nval/x_val_2\na.png\n";
  kf_truth_options options = {.classes = kind & 8 ? names_file() : NULL,
                              .ids = kind & 32   ? path
                                     : kind & 16 ? fuzz_write("ids.txt", ids, sizeof ids - 1)
                                                 : NULL};
  kf_truth *truth;
  if (kf_truth_load(ctx, path, &options, &truth) != KF_OK) {
    if (kf_errmsg(ctx)[0] == '\0') abort(); /* every failure has a message */
    return;
  }
  for (uint32_t k = 0; k < kf_truth_classes(truth); k++) {
    const char *name = kf_truth_class_name(truth, k);
    if (name != NULL && name[0] == '\0') abort();
  }
  for (uint64_t row = 0; row < kf_truth_rows(truth); row++) {
    const int32_t *classes = NULL;
    size_t n = kf_truth_row(truth, row, &classes);
    for (size_t i = 0; i < n; i++)
      if (classes[i] < 0 || (uint32_t)classes[i] >= kf_truth_classes(truth)) abort();
  }
  kf_truth_free(truth);
}

static void read_hierarchy(kf_ctx *ctx, const char *path) {
  kf_hierarchy *hierarchy;
  kf_class_set *set, *found;
  if (kf_hierarchy_load(ctx, path, kind & 8 ? path : NULL, &hierarchy) != KF_OK) return;
  if (kf_class_set_load(ctx, names_file(), &set) != KF_OK) abort();
  for (int kin = KF_KIN_LEAVES; kin <= KF_KIN_DESCENDANTS; kin++)
    if (kf_class_set_new_kin(ctx, hierarchy, set, (kf_kin)kin, &found) == KF_OK)
      kf_class_set_free(found);
  kf_class_set_free(set);
  kf_hierarchy_free(hierarchy);
}

static void read_answers(kf_ctx *ctx, const char *path) {
  kf_truth *truth;
  kf_verdicts *verdicts;
  const char *names = kind & 8 ? fuzz_write("right.txt", "cat\ndog,eel\n\n", 13)
                               : fuzz_write("right.txt", "1\n2,0\n\n", 7);
  if (kf_truth_load(ctx, names, NULL, &truth) != KF_OK) abort();
  if (kf_verdicts_read(ctx, path, NULL, truth, NULL, &verdicts) == KF_OK)
    kf_verdicts_free(verdicts);
  kf_truth_free(truth);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) return 0;
  static const char *const endings[] = {".json", ".csv", ".txt"};
  kind = data[0];
  unsigned what = kind & 7;
  if (what < 3) return fuzz_with_file(endings[what], data + 1, size - 1, read_truth);
  return fuzz_with_file(".txt", data + 1, size - 1, what == 3 ? read_hierarchy : read_answers);
}
