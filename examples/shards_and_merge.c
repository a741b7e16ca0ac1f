/* shards_and_merge.c - statistics of each shard, merged: the same as those of one pass.
 *
 *     shards_and_merge MODEL.safetensors SHARD…      (without arguments: in a temporary folder)
 *
 * Shards can also be read on different machines, their statistics saved (kf_stats_save) and merged
 * later. Rows are streamed: memory does not grow with their number. */
#include <koofu.h>
#include <koofu_files.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static kf_status one_pass(kf_ctx *ctx, const char *const *paths, size_t n, kf_stats **stats) {
  kf_data *data = NULL;
  kf_status status = kf_data_open(ctx, paths, n, NULL, &data);
  if (status == KF_OK) status = kf_stats_new_from_data(ctx, data, NULL, stats);
  kf_data_free(data);
  return status;
}

static kf_status merge_shards(kf_ctx *ctx, const char *const *paths, size_t n, kf_stats **merged) {
  kf_status status = one_pass(ctx, paths, 1, merged);
  for (size_t i = 1; i < n && status == KF_OK; i++) {
    kf_stats *shard = NULL;
    status = one_pass(ctx, paths + i, 1, &shard);
    if (status == KF_OK) status = kf_stats_merge(ctx, *merged, shard);
    kf_stats_free(shard);
  }
  return status;
}

/* Statistics are integers, so no tolerance is needed. */
static int equal(const kf_stats *a, const kf_stats *b) {
  uint32_t dim = kf_stats_dim(a), classes = kf_stats_classes(a);
  int same = kf_stats_dim(b) == dim && kf_stats_classes(b) == classes;
  for (uint32_t k = 0; same && k < classes; k++)
    same = kf_stats_count(a, k) == kf_stats_count(b, k) &&
           memcmp(kf_stats_class_sum(a, k), kf_stats_class_sum(b, k), dim * sizeof(int64_t)) == 0;
  for (uint32_t i = 0; same && i < dim; i++)
    for (uint32_t j = i; same && j < dim; j++) {
      int64_t hi[2];
      uint64_t lo[2];
      kf_stats_moment(a, i, j, &hi[0], &lo[0]);
      kf_stats_moment(b, i, j, &hi[1], &lo[1]);
      same = hi[0] == hi[1] && lo[0] == lo[1];
    }
  return same;
}

static kf_status fit_shards(kf_ctx *ctx, const char *model_path, const char *const *paths,
                            size_t n) {
  kf_stats *merged = NULL, *whole = NULL;
  kf_model *model = NULL;
  kf_status status = merge_shards(ctx, paths, n, &merged);
  if (status == KF_OK) status = one_pass(ctx, paths, n, &whole);
  if (status == KF_OK && !equal(merged, whole)) status = KF_ERR_INTERNAL; /* does not happen */
  if (status == KF_OK) status = kf_fit_stats(ctx, merged, NULL, &model);
  if (status == KF_OK) status = kf_model_save(ctx, model, model_path);
  if (status == KF_OK) {
    printf("%zu shards, %" PRIu64 " rows: the merged statistics equal those of one pass\n", n,
           kf_stats_rows(merged));
    printf("%s: %" PRIu32 " classes, %" PRIu32 " dimensions, lambda %.4g\n", model_path,
           kf_model_classes(model), kf_model_dim_out(model), kf_model_lambda(model));
  }
  kf_model_free(model);
  kf_stats_free(whole);
  kf_stats_free(merged);
  return status;
}

/* Three shards of the synthetic world, in a temporary folder. */
static kf_status run_on_synthetic(kf_ctx *ctx) {
  static const char *const paths[] = {"a.safetensors", "b.safetensors", "c.safetensors"};
  char folder[] = "/tmp/koofu-example-XXXXXX";
  if (mkdtemp(folder) == NULL || chdir(folder) != 0) return KF_ERR_IO;
  kf_status status = KF_OK;
  for (uint32_t i = 0; i < 3 && status == KF_OK; i++) {
    kf_synth_options options = {.classes = 50, .dim = 64, .per_class = 20, .split = i};
    kf_data *world = NULL;
    status = kf_synth_open(ctx, &options, &world);
    if (status == KF_OK) status = kf_data_save(ctx, world, KF_F16, paths[i]);
    kf_data_free(world);
  }
  if (status == KF_OK) status = fit_shards(ctx, "model.safetensors", paths, 3);
  for (int i = 0; i < 3; i++) unlink(paths[i]);
  unlink("model.safetensors");
  rmdir(folder);
  return status;
}

int main(int argc, char **argv) {
  if (argc == 2) {
    fprintf(stderr, "usage: shards_and_merge [MODEL.safetensors SHARD...]\n");
    return 2;
  }
  kf_ctx *ctx = NULL;
  kf_status status = kf_ctx_new(NULL, &ctx);
  if (status == KF_OK)
    status = argc == 1 ? run_on_synthetic(ctx)
                       : fit_shards(ctx, argv[1], (const char *const *)argv + 2, (size_t)argc - 2);
  if (status != KF_OK)
    fprintf(stderr, "shards_and_merge: %s: %s\n", kf_status_name(status), kf_errmsg(ctx));
  kf_ctx_free(ctx);
  return status == KF_OK ? 0 : 1;
}
