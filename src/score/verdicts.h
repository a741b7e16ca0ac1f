/* verdicts.h - right or wrong, row by row; no other room sees it. */
#ifndef KF_SCORE_VERDICTS_H
#define KF_SCORE_VERDICTS_H

#include "base/json.h"
#include "score/score.h"

enum { KF_VERDICT_NONE = 0, KF_VERDICT_RIGHT = 1, KF_VERDICT_WRONG = 2 };

struct kf_verdicts {
  uint64_t rows;
  kf_eval_result counts;
  unsigned char of[]; /* [rows] */
};

#endif
