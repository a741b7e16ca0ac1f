/* match.c - which rows of a data set can be scored, and which classes are right for them.
 *
 * A row is judged by its label or, where a truth is given, by the set of classes that this has for
 * it. Either way the classes are brought to the numbers of the model (or gallery) once, before the
 * pass over the rows; a set keeps those of its classes that are known and take part, and a row of
 * which none is left is counted as absent. */
#include "score/score.h"

#include <string.h>

kf_known kf_known_model(const kf_model *model, kf_part part) {
  return (kf_known){.what = "model",
                    .n_classes = model->n_classes,
                    .names = &model->names,
                    .counts = kf_model_evidence(model, part)};
}

kf_known kf_known_gallery(const kf_gallery *gallery) {
  return (kf_known){.what = "gallery",
                    .n_classes = gallery->n_classes,
                    .names = &gallery->names,
                    .counts = gallery->counts};
}

/* --- from labels or truth to known numbers ---------------------------------------------------- */

/* Numbers mean nothing against names that may have been sorted: guessing would give an accuracy
 * that is wrong without a word. */
static kf_status check_names(const kf_known *known, const kf_names *own, const kf_truth *truth,
                             kf_err *err) {
  const char *from = truth != NULL ? truth->path : "the labels";
  const char *be = truth != NULL ? ": the classes" : "";
  if (truth != NULL && truth->n_classes == 0) return KF_OK; /* neither names nor numbers */
  if (own->n > 0 && known->names->n == 0)
    return kf_fail(err, KF_ERR_DATA,
                   "%s%s are names and the classes of the %s have none; give %s as class numbers",
                   from, be, known->what, truth != NULL ? "them" : "the labels");
  if (own->n == 0 && known->names->n > 0)
    return kf_fail(err, KF_ERR_DATA,
                   "%s%s are numbers and the classes of the %s have names; give the names that the "
                   "numbers stand for (%s)",
                   from, be, known->what, truth != NULL ? "--truth-classes" : "--classes");
  return KF_OK;
}

static bool takes_part(const kf_known *known, int64_t class) {
  return class >= 0 && known->counts[class] > 0 && (known->part == NULL || known->part[class]);
}

static kf_status match_classes(kf_judge *judge, const kf_known *known, const kf_names *own,
                               kf_err *err) {
  kf_dict *map = NULL;
  KF_TRY(check_names(known, own, judge->truth, err));
  if (own->n > 0) KF_TRY(kf_dict_new_from_names(known->names, known->what, &map, err));
  for (uint32_t k = 0; k < judge->n_classes; k++) {
    int64_t at = k < known->n_classes ? (int64_t)k : -1;
    if (map != NULL) at = kf_dict_find(map, own->name[k], strlen(own->name[k]));
    judge->to[k] = takes_part(known, at) ? (int32_t)at : -1;
  }
  kf_dict_free(map);
  return KF_OK;
}

/* The truth with known numbers, without the classes that are not known. */
static kf_status translate(kf_judge *judge, kf_err *err) {
  const kf_truth *truth = judge->truth;
  uint64_t all = truth->rows > 0 ? truth->ends[truth->rows - 1] : 0, n = 0, at = 0;
  judge->ends = kf_alloc(truth->rows, sizeof *judge->ends);
  judge->right = kf_alloc(all, sizeof *judge->right);
  if (judge->ends == NULL || judge->right == NULL) return kf_fail_memory(err);
  for (uint64_t i = 0; i < truth->rows; i++) {
    for (; at < truth->ends[i]; at++)
      if (judge->to[truth->classes[at]] >= 0) judge->right[n++] = judge->to[truth->classes[at]];
    judge->ends[i] = n;
  }
  return KF_OK;
}

static kf_status check_own(const kf_data *data, uint64_t rows, const kf_truth *truth, kf_err *err) {
  if (truth != NULL && truth->rows != rows)
    return kf_fail(err, KF_ERR_DATA,
                   "%s is about %llu rows, the data have %llu; give the ids of the rows of the "
                   "data (--ids)",
                   truth->path, (unsigned long long)truth->rows, (unsigned long long)rows);
  if (truth == NULL && data != NULL && !data->has_labels)
    return kf_fail(err, KF_ERR_DATA,
                   "the rows have no labels to compare with; give a label file (--labels)");
  return KF_OK;
}

kf_status kf_judge_start(kf_judge *judge, const kf_known *known, const kf_data *data, uint64_t rows,
                         const kf_truth *truth, kf_err *err) {
  KF_TRY(check_own(data, rows, truth, err));
  const kf_names *own = truth != NULL ? &truth->names : data != NULL ? &data->names : known->names;
  *judge = (kf_judge){.truth = truth};
  judge->n_classes = truth != NULL  ? truth->n_classes
                     : data != NULL ? data->n_classes
                                    : known->n_classes;
  judge->to = kf_alloc(judge->n_classes, sizeof *judge->to);
  kf_status status =
      judge->to != NULL ? match_classes(judge, known, own, err) : kf_fail_memory(err);
  if (status == KF_OK && truth != NULL) status = translate(judge, err);
  if (status != KF_OK) kf_judge_clear(judge);
  return status;
}

void kf_judge_clear(kf_judge *judge) {
  kf_free(judge->to);
  kf_free(judge->ends);
  kf_free(judge->right);
  *judge = (kf_judge){0};
}

static kf_fate judge_by_truth(const kf_judge *judge, uint64_t row, kf_right *right) {
  const kf_truth *truth = judge->truth;
  uint64_t begin = row > 0 ? judge->ends[row - 1] : 0;
  *right = (kf_right){.classes = judge->right + begin, .n = (uint32_t)(judge->ends[row] - begin)};
  if (right->n > 0) return KF_FATE_SCORED;
  return truth->ends[row] == (row > 0 ? truth->ends[row - 1] : 0) ? KF_FATE_EXCLUDED
                                                                  : KF_FATE_ABSENT;
}

kf_fate kf_judge_row(const kf_judge *judge, uint64_t row, int32_t label, kf_right *right) {
  if (label == KF_LABEL_BAD) return KF_FATE_BAD;
  if (judge->truth != NULL) return judge_by_truth(judge, row, right);
  if (label < 0) return KF_FATE_UNLABELLED;
  *right = (kf_right){.classes = judge->to + label, .n = 1};
  return judge->to[label] >= 0 ? KF_FATE_SCORED : KF_FATE_ABSENT;
}

bool kf_is_right(const kf_right *right, int32_t class) {
  for (uint32_t i = 0; i < right->n; i++)
    if (right->classes[i] == class) return true;
  return false;
}

uint32_t kf_right_rank(const kf_right *right, const int32_t *answers, uint32_t top) {
  uint32_t rank = 0;
  while (rank < top && !kf_is_right(right, answers[rank])) rank++;
  return rank;
}

/* --- counting --------------------------------------------------------------------------------- */

kf_tally *kf_tallies_new(const kf_judge *judge, unsigned n) {
  kf_tally *tallies = kf_alloc_zero(n, sizeof *tallies);
  unsigned char *absent = kf_alloc_zero((uint64_t)n * judge->n_classes, 1);
  if (tallies == NULL || absent == NULL) {
    kf_free(tallies);
    kf_free(absent);
    return NULL;
  }
  for (unsigned t = 0; t < n; t++) tallies[t].absent = absent + (uint64_t)t * judge->n_classes;
  return tallies;
}

void kf_tallies_free(kf_tally *tallies) {
  if (tallies == NULL) return;
  kf_free(tallies[0].absent);
  kf_free(tallies);
}

static void add_tally(kf_eval_result *to, const kf_eval_result *from) {
  to->rows += from->rows;
  to->n += from->n;
  to->n_unlabelled += from->n_unlabelled;
  to->n_absent += from->n_absent;
  to->n_bad += from->n_bad;
  to->n_excluded += from->n_excluded;
  to->top1 += from->top1;
  to->top5 += from->top5;
  to->raw_top1 += from->raw_top1;
  to->raw_top5 += from->raw_top5;
}

void kf_tallies_sum(const kf_tally *tallies, unsigned n, const kf_judge *judge,
                    kf_eval_result *sum) {
  memset(sum, 0, sizeof *sum);
  for (unsigned t = 0; t < n; t++) add_tally(sum, &tallies[t].sum);
  for (uint32_t k = 0; k < judge->n_classes; k++) {
    bool seen = false;
    for (unsigned t = 0; t < n; t++) seen |= tallies[t].absent[k] != 0;
    sum->absent_classes += seen;
  }
}

static void mark_absent(kf_tally *tally, const kf_judge *judge, uint64_t row, int32_t label) {
  const kf_truth *truth = judge->truth;
  if (truth == NULL) {
    tally->absent[label] = 1;
    return;
  }
  for (uint64_t at = row > 0 ? truth->ends[row - 1] : 0; at < truth->ends[row]; at++)
    tally->absent[truth->classes[at]] = 1;
}

kf_fate kf_count_row(kf_tally *tally, const kf_judge *judge, uint64_t row, int32_t label,
                     kf_right *right) {
  kf_fate fate = kf_judge_row(judge, row, label, right);
  kf_eval_result *sum = &tally->sum;
  sum->rows++;
  switch (fate) {
  case KF_FATE_SCORED: sum->n++; break;
  case KF_FATE_UNLABELLED: sum->n_unlabelled++; break;
  case KF_FATE_BAD: sum->n_bad++; break;
  case KF_FATE_EXCLUDED: sum->n_excluded++; break;
  case KF_FATE_ABSENT:
    sum->n_absent++;
    mark_absent(tally, judge, row, label);
    break;
  }
  return fate;
}

uint64_t kf_keep_scored(kf_tally *tally, const kf_judge *judge, uint64_t first, uint64_t n,
                        uint32_t dim, float *rows, const int32_t *labels, double *norm2,
                        kf_right *right, uint64_t *numbers) {
  uint64_t kept = 0;
  for (uint64_t i = 0; i < n; i++) {
    if (kf_count_row(tally, judge, first + i, labels[i], &right[kept]) != KF_FATE_SCORED) continue;
    memmove(rows + kept * dim, rows + i * dim, dim * sizeof *rows);
    if (norm2 != NULL) norm2[kept] = norm2[i];
    if (numbers != NULL) numbers[kept] = first + i;
    kept++;
  }
  return kept;
}

kf_status kf_check_scored(const kf_known *known, const kf_eval_result *sum, kf_err *err) {
  if (sum->n > 0) return KF_OK;
  return kf_fail(err, KF_ERR_DATA,
                 "none of the %llu rows can be scored: %llu have no label, %llu belong to classes "
                 "that the %s does not know or that do not take part, %llu are bad, %llu are left "
                 "out by the truth",
                 (unsigned long long)sum->rows, (unsigned long long)sum->n_unlabelled,
                 (unsigned long long)sum->n_absent, known->what, (unsigned long long)sum->n_bad,
                 (unsigned long long)sum->n_excluded);
}
