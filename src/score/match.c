/* match.c - translates the classes of labels or of a truth to those of a model or gallery.
 *
 * A row is judged by its label or, if there is a truth, by the set of classes that the truth has
 * for it. Either way classes are translated to the numbers of the model (or gallery) once, before
 * the pass over the rows. Classes that are unknown or do not take part are dropped from a set; a
 * row whose set becomes empty is counted as absent. */
#include "score/score.h"

kf_known kf_known_model(const kf_model *model, kf_part part) {
  return (kf_known){.what = "the model",
                    .n_classes = model->n_classes,
                    .names = &model->names,
                    .counts = kf_model_evidence(model, part)};
}

kf_known kf_known_gallery(const kf_gallery *gallery) {
  return (kf_known){.what = "the gallery",
                    .n_classes = gallery->n_classes,
                    .names = &gallery->names,
                    .counts = gallery->counts};
}

bool kf_read_digits(const char *text, size_t length, uint64_t most, uint64_t *out) {
  *out = 0;
  for (size_t i = 0; i < length; i++) {
    if (text[i] < '0' || text[i] > '9') return false;
    *out = *out * 10 + (uint64_t)(text[i] - '0');
    if (*out > most) *out = most;
  }
  return length > 0;
}

/* --- making a judge --------------------------------------------------------------------------- */

static kf_status check_rows(const kf_data *data, uint64_t rows, const kf_truth *truth,
                            kf_err *err) {
  if (truth != NULL && truth->rows != rows)
    return kf_fail_hint(err, KF_ERR_DATA, KF_HINT_TRUTH_IDS,
                        "%s has entries for %llu rows, but the data have %llu", truth->path,
                        (unsigned long long)truth->rows, (unsigned long long)rows);
  if (truth != NULL && data != NULL) KF_TRY(kf_data_refuse_doubt(data, truth->path, err));
  if (truth == NULL && data != NULL && !data->has_labels)
    return kf_fail_unlabelled(err, data, KF_HINT_LABELS, "the rows have no labels to compare with");
  return KF_OK;
}

static kf_status match_classes(kf_judge *judge, const kf_names *own, kf_err *err) {
  const kf_known *known = &judge->known;
  const kf_truth *truth = judge->truth;
  if (KF_TAKE(&judge->arena, judge->to, judge->n_classes) == NULL) return kf_fail_memory(err);
  kf_classes from = {truth != NULL ? truth->path : "the data", judge->n_classes, own};
  kf_classes to = {known->what, known->n_classes, known->names};
  if (truth != NULL && from.n == 0) return KF_OK; /* neither names nor numbers */
  kf_status status = kf_match_classes(&from, &to, judge->to, err);
  if (status == KF_ERR_DATA && err->hint == KF_HINT_CLASSES && (truth != NULL || own->n > 0))
    err->hint = own->n > 0 ? KF_HINT_NONE : KF_HINT_TRUTH_CLASSES;
  KF_TRY(status);
  for (uint32_t k = 0; k < judge->n_classes; k++) {
    int32_t at = judge->to[k];
    if (at >= 0 && (known->counts[at] == 0 || (known->mask != NULL && !known->mask[at])))
      judge->to[k] = -1;
  }
  return KF_OK;
}

/* Translates the truth to known numbers, without unknown classes. */
static kf_status translate(kf_judge *judge, kf_err *err) {
  const kf_truth *truth = judge->truth;
  uint64_t all = truth->rows > 0 ? truth->ends[truth->rows - 1] : 0, n = 0, at = 0;
  KF_TAKE(&judge->arena, judge->ends, truth->rows);
  KF_TAKE(&judge->arena, judge->right, all);
  if (judge->arena.failed) return kf_fail_memory(err);
  for (uint64_t i = 0; i < truth->rows; i++) {
    for (; at < truth->ends[i]; at++)
      if (judge->to[truth->classes[at]] >= 0) judge->right[n++] = judge->to[truth->classes[at]];
    judge->ends[i] = n;
  }
  return KF_OK;
}

kf_status kf_judge_start(kf_ctx *ctx, kf_judge *judge, kf_known known, const kf_class_set *set,
                         const kf_data *data, uint64_t rows, const kf_truth *truth) {
  kf_err *err = &ctx->err;
  const kf_names *own = truth != NULL ? &truth->names : data != NULL ? &data->names : known.names;
  *judge = (kf_judge){.known = known, .truth = truth};
  judge->n_classes = truth != NULL  ? truth->n_classes
                     : data != NULL ? data->n_classes
                                    : known.n_classes;
  KF_TRY(kf_known_restrict(ctx, &judge->known, set, &judge->arena));
  KF_TRY(check_rows(data, rows, truth, err));
  KF_TRY(match_classes(judge, own, err));
  return truth != NULL ? translate(judge, err) : KF_OK;
}

void kf_judge_clear(kf_judge *judge) { kf_arena_free(&judge->arena); }

/* --- judging ---------------------------------------------------------------------------------- */

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

uint32_t kf_right_position(const kf_right *right, const int32_t *answers, uint32_t top) {
  uint32_t position = 0;
  while (position < top && !kf_is_right(right, answers[position])) position++;
  return position;
}
