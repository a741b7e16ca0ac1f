/* output.c - files that the caller fills, written by the library's one writer (out.c). */
#include "base/base.h"

struct kf_output {
  kf_out out;
  kf_err err; /* the first failure, reported again by later calls */
};

/* Records a failure for later calls. */
static kf_status note(kf_output *output, kf_status status, kf_err *err) {
  if (status != KF_OK) output->err = *err;
  return status;
}

static kf_status failed_before(const kf_output *output, kf_err *err) {
  if (output->err.status != KF_OK) *err = output->err;
  return output->err.status;
}

kf_status kf_output_open(kf_ctx *ctx, const char *path, kf_output **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, path != NULL && out != NULL);
  kf_output *output = kf_alloc_zero(1, sizeof *output);
  if (output == NULL) return kf_fail_memory(err);
  KF_HAND_OUT(kf_out_open(&output->out, ctx, path, err), out, output, kf_output_free);
}

kf_status kf_output_write(kf_ctx *ctx, kf_output *output, const void *bytes, uint64_t n) {
  KF_ENTER(ctx, output != NULL && (n == 0 || bytes != NULL));
  KF_TRY(failed_before(output, err));
  return note(output, kf_out_write(&output->out, bytes, n, err), err);
}

kf_status kf_output_write_at(kf_ctx *ctx, kf_output *output, uint64_t offset, const void *bytes,
                             uint64_t n) {
  KF_ENTER(ctx, output != NULL && (n == 0 || bytes != NULL));
  KF_TRY(failed_before(output, err));
  if (offset > INT64_MAX || n > INT64_MAX - offset)
    return kf_fail(err, KF_ERR_ARG, "%s: no file is that long", output->out.path);
  return note(output, kf_out_write_at(&output->out, offset, bytes, n, err), err);
}

kf_status kf_output_commit(kf_ctx *ctx, kf_output *output) {
  KF_ENTER(ctx, output != NULL);
  kf_status status = failed_before(output, err);
  if (status == KF_OK) status = kf_out_commit(&output->out, err);
  kf_output_free(output);
  return status;
}

void kf_output_free(kf_output *output) {
  if (output == NULL) return;
  kf_out_abort(&output->out);
  kf_free(output);
}
