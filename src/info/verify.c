/* verify.c - checks a file completely: what kf_info_read checks, and every row, label and id. */
#include "search/gallery.h"

#include <string.h>

const char *kf_info_meta(const kf_info *info, const char *key) {
  for (size_t i = 0; info != NULL && key != NULL && i < info->n_meta; i++)
    if (strcmp(info->meta_keys[i], key) == 0) return info->meta_values[i];
  return NULL;
}

/* A no-op: the pass itself refuses bad rows. */
static kf_status ignore_batch(void *argument, const kf_batch *batch, kf_err *err) {
  (void)argument;
  (void)batch;
  (void)err;
  return KF_OK;
}

static kf_status check_rows(kf_ctx *ctx, const char *path) {
  kf_data *data;
  kf_data_options options = {.allow_unlabelled = 1};
  KF_TRY(kf_data_open(ctx, &path, 1, &options, &data));
  kf_status status =
      kf_each_batch(ctx, data, &(kf_pass){.what = "verify", .work = ignore_batch, .shared = true});
  kf_data_free(data);
  return status;
}

/* Whether it is a data set, or would be one if it were valid. */
static bool has_rows(const kf_info *info) {
  if (strcmp(info->kind, "data set") == 0 || strcmp(info->kind, "embeddings") == 0) return true;
  for (size_t i = 0; strcmp(info->kind, "tensors") == 0 && i < info->n_tensors; i++)
    if (strcmp(info->tensors[i].name, "embeddings") == 0) return true;
  return false;
}

kf_status kf_verify(kf_ctx *ctx, const char *path, kf_info **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, path != NULL && out != NULL);
  kf_info *info;
  KF_TRY(kf_info_read(ctx, path, &info));
  kf_status status = has_rows(info) ? check_rows(ctx, path) : KF_OK;
  KF_HAND_OUT(status, out, info, kf_info_free);
}
