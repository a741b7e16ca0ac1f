/* text_count.c - how many lines a text file has, and how many different ones. */
#include "file/file_internal.h"

kf_status kf_lines_count(const char *path, uint64_t *lines, uint64_t *distinct, kf_err *err) {
  kf_labels labels = {0};
  kf_label_rules rules = {.allow_unlabelled = true};
  kf_label_census census = {.largest = -1};
  KF_TRY(kf_labels_open(&labels, path, err));
  kf_status status = kf_labels_scan(&labels, &rules, &census, err);
  *lines = labels.count;
  *distinct = census.found.n;
  kf_name_set_clear(&census.found);
  kf_labels_close(&labels);
  return status;
}
