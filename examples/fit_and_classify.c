/* fit_and_classify.c - rows in memory: fit a model, classify other rows, count the hits.
 *
 * Here the rows come from koofu's synthetic world. In your program they are the embeddings from
 * your encoder: N rows of DIM floats, one after another, and a class number for each.
 *
 * cc fit_and_classify.c $(pkg-config --cflags --libs koofu) */
#include <koofu.h>
#include <koofu_files.h>
#include <koofu_judge.h>

#include <inttypes.h>
#include <stdio.h>

enum { CLASSES = 100, DIM = 256, N_TRAIN = 16 * CLASSES, N_TEST = 20 * CLASSES };

static float train[N_TRAIN * DIM], test[N_TEST * DIM];
static int32_t train_labels[N_TRAIN], test_labels[N_TEST];

static kf_status make_rows(kf_ctx *ctx, uint32_t split, uint64_t n, float *rows, int32_t *labels) {
  kf_synth_options options = {
      .classes = CLASSES, .dim = DIM, .per_class = n / CLASSES, .split = split};
  kf_data *world = NULL;
  kf_status status = kf_synth_open(ctx, &options, &world);
  if (status == KF_OK) status = kf_data_get(ctx, world, 0, n, rows, labels);
  kf_data_free(world);
  return status;
}

/* Statistics can be added to whenever there are new rows; the rows are not kept. */
static kf_status fit(kf_ctx *ctx, kf_model **model) {
  kf_stats *stats = NULL;
  kf_status status = kf_stats_new(ctx, DIM, CLASSES, NULL, NULL, &stats);
  if (status == KF_OK) status = kf_stats_add(ctx, stats, train, train_labels, N_TRAIN);
  if (status == KF_OK) status = kf_fit_stats(ctx, stats, NULL, model);
  kf_stats_free(stats);
  return status;
}

/* Classifies the test rows in the model's space or the original one, and prints the accuracy. */
static kf_status score(kf_ctx *ctx, const kf_model *model, int raw) {
  static int32_t classes[N_TEST];
  kf_classify_options options = {.raw = raw};
  kf_status status = kf_classify(ctx, model, test, N_TEST, &options, classes, NULL);
  if (status != KF_OK) return status;

  uint64_t hits = 0;
  for (size_t i = 0; i < N_TEST; i++) hits += classes[i] == test_labels[i];
  double low, high;
  kf_interval95(hits, N_TEST, &low, &high);
  printf("%-14s %5.1f %% of %d rows (95 %% interval %.1f to %.1f)\n",
         raw ? "original space" : "Koo-Fu space", 100.0 * (double)hits / N_TEST, N_TEST, 100 * low,
         100 * high);
  return KF_OK;
}

/* Stops at the first step that fails. */
static kf_status fit_and_evaluate(kf_ctx *ctx) {
  kf_model *model = NULL;
  kf_status status = make_rows(ctx, 0, N_TRAIN, train, train_labels);
  if (status == KF_OK) status = make_rows(ctx, 1, N_TEST, test, test_labels);
  if (status == KF_OK) status = fit(ctx, &model);
  if (status == KF_OK) status = score(ctx, model, 1);
  if (status == KF_OK) status = score(ctx, model, 0);
  kf_model_free(model);
  return status;
}

int main(void) {
  kf_ctx *ctx = NULL;
  kf_status status = kf_ctx_new(NULL, &ctx);
  if (status == KF_OK) status = fit_and_evaluate(ctx);
  if (status != KF_OK)
    fprintf(stderr, "fit_and_classify: %s: %s\n", kf_status_name(status), kf_errmsg(ctx));
  kf_ctx_free(ctx);
  return status == KF_OK ? 0 : 1;
}
