/* match.c - which rows of a data set can be scored, and as what. */
#include "score/match.h"

#include <string.h>

kf_status kf_check_labelled(const kf_data *data, kf_err *err) {
  if (data->has_labels) return KF_OK;
  return kf_fail(err, KF_ERR_DATA,
                 "the rows have no labels to compare with; give a label file (--labels)");
}

kf_status kf_match_classes(const kf_known *known, const kf_data *data, int32_t *to, kf_err *err) {
  kf_map *map = NULL;
  bool named = known->names->n > 0;
  /* Numbers mean nothing against names that may have been sorted: guessing would give an accuracy
   * that is wrong without a word. */
  if (data->names.n > 0 && !named)
    return kf_fail(err, KF_ERR_DATA,
                   "the labels are names and the classes of the %s have none; give the labels as "
                   "class numbers",
                   known->what);
  if (data->names.n == 0 && named)
    return kf_fail(err, KF_ERR_DATA,
                   "the labels are numbers and the classes of the %s have names; give the names "
                   "that the numbers stand for (--classes)",
                   known->what);
  if (named) KF_TRY(kf_map_new_from_names(known->names, known->what, &map, err));
  for (uint32_t k = 0; k < data->n_classes; k++) {
    int64_t at = k < known->n_classes ? (int64_t)k : -1;
    if (named) at = kf_map_find(map, data->names.name[k], strlen(data->names.name[k]));
    to[k] = at >= 0 && known->counts[at] > 0 ? (int32_t)at : -1;
  }
  kf_map_free(map);
  return KF_OK;
}

uint64_t kf_keep_scored(kf_tally *tally, const int32_t *match, uint32_t dim, uint64_t n,
                        float *rows, int32_t *labels, double *norm2) {
  kf_eval_result *sum = &tally->sum;
  uint64_t kept = 0;
  for (uint64_t i = 0; i < n; i++) {
    int32_t label = labels[i];
    sum->rows++;
    if (label == KF_LABEL_BAD) {
      sum->n_bad++;
    } else if (label == KF_LABEL_NONE) {
      sum->n_unlabelled++;
    } else if (match[label] < 0) {
      sum->n_absent++;
      tally->absent[label] = 1;
    } else {
      memmove(rows + kept * dim, rows + i * dim, dim * sizeof *rows);
      if (norm2 != NULL) norm2[kept] = norm2[i];
      labels[kept++] = match[label];
    }
  }
  sum->n += kept;
  return kept;
}

kf_status kf_check_scored(const kf_known *known, const kf_eval_result *sum, kf_err *err) {
  if (sum->n > 0) return KF_OK;
  return kf_fail(err, KF_ERR_DATA,
                 "none of the %llu rows can be scored: %llu have no label, %llu belong to classes "
                 "that the %s does not know, %llu are bad",
                 (unsigned long long)sum->rows, (unsigned long long)sum->n_unlabelled,
                 (unsigned long long)sum->n_absent, known->what, (unsigned long long)sum->n_bad);
}
