/* metric.c - names of metrics, and errors for invalid metrics and dimensions. */
#include "model/model.h"

const char *kf_metric_name(kf_metric metric) {
  static const char *const name[] = {"default", "cosine", "euclidean", "inner"};
  return (unsigned)metric < sizeof name / sizeof *name ? name[metric] : NULL;
}

kf_status kf_fail_metric(kf_metric metric, kf_err *err) {
  return kf_fail(err, KF_ERR_ARG, "invalid metric %d", (int)metric);
}

kf_status kf_fail_dim(uint32_t asked, uint32_t dim, kf_err *err) {
  return kf_fail(err, KF_ERR_ARG, "%u dimensions were requested, but the embeddings have %u", asked,
                 dim);
}
