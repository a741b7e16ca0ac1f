/* metric.c - names of metrics, and the error for a number that is none. */
#include "model/model.h"

const char *kf_metric_name(kf_metric metric) {
  static const char *const name[] = {"default", "cosine", "euclidean", "inner"};
  return (unsigned)metric < sizeof name / sizeof *name ? name[metric] : NULL;
}

kf_status kf_fail_metric(kf_metric metric, kf_err *err) {
  return kf_fail(err, KF_ERR_ARG, "invalid metric %d", (int)metric);
}
