/* report.c - as `koofu report TRAIN --test TEST -o PAGE.html`: report TRAIN TEST PAGE.html */
#include <koofu_judge.h>
#include <stdio.h>

int main(int argc, char **argv) {
  const char *const *path = (const char *const *)argv;
  if (argc != 4) return fprintf(stderr, "usage: report TRAIN TEST PAGE.html\n"), 2;
  kf_ctx *ctx = NULL;
  kf_data *train = NULL, *test = NULL;
  kf_status status = kf_ctx_new(NULL, &ctx);
  if (status == KF_OK) status = kf_data_open(ctx, path + 1, 1, NULL, &train);
  if (status == KF_OK) status = kf_data_open(ctx, path + 2, 1, NULL, &test);
  kf_report_options options = {.train_name = path[1], .test_name = path[2], .test = test};
  if (status == KF_OK) status = kf_report_write(ctx, train, &options, path[3], NULL);
  if (status != KF_OK) fprintf(stderr, "%s\n", kf_errmsg(ctx));
  kf_data_free(test);
  kf_data_free(train);
  kf_ctx_free(ctx);
  return status != KF_OK;
}
