/* fit.c - as `koofu fit DATA --labels LABELS --text TEXT -o MODEL`: fit DATA LABELS TEXT MODEL */
#include <koofu_encode.h>
#include <stdio.h>
int main(int argc, char **argv) {
  const char *const *path = (const char *const *)argv;
  if (argc != 5) return fprintf(stderr, "usage: fit DATA LABELS TEXT MODEL\n"), 2;
  kf_ctx *ctx = NULL;
  kf_data *rows = NULL, *words = NULL;
  kf_text *text = NULL;
  kf_model *model = NULL;
  kf_data_options labels = {.labels = path + 2, .n_labels = 1};
  kf_status status = kf_ctx_new(NULL, &ctx);
  if (status == KF_OK) status = kf_data_open(ctx, path + 1, 1, &labels, &rows);
  if (status == KF_OK) status = kf_data_open(ctx, path + 3, 1, NULL, &words);
  if (status == KF_OK) status = kf_text_new(ctx, words, NULL, &text);
  if (status == KF_OK) status = kf_fit(ctx, rows, &(kf_fit_options){.text = text}, &model, NULL);
  if (status == KF_OK) status = kf_model_save(ctx, model, path[4]);
  if (status != KF_OK) fprintf(stderr, "%s\n", kf_errmsg(ctx));
  kf_model_free(model);
  kf_text_free(text);
  kf_data_free(words);
  kf_data_free(rows);
  kf_ctx_free(ctx);
  return status != KF_OK;
}
