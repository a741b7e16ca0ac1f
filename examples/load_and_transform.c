/* load_and_transform.c - loads a model, maps rows, prints where they went.
 *
 *     load_and_transform MODEL.safetensors [DATA]
 *
 * Without DATA, rows of the synthetic world are mapped; without MODEL, one is made first. */
#include <koofu.h>
#include <koofu_files.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { ROWS = 4, SHOWN = 6 };

/* Without a model: fits one and saves it, as another program would have done. */
static kf_status make_model(kf_ctx *ctx, const char *path) {
  kf_data *data = NULL;
  kf_model *model = NULL;
  kf_status status = kf_synth_open(ctx, &(kf_synth_options){.classes = 50, .dim = 64}, &data);
  if (status == KF_OK) status = kf_fit(ctx, data, &(kf_fit_options){.dim = 32}, &model, NULL);
  if (status == KF_OK) status = kf_model_save(ctx, model, path);
  kf_model_free(model);
  kf_data_free(data);
  return status;
}

/* Maps the first rows of a data set. kf_transform cannot know their length, so the caller checks
 * it. */
static kf_status transform(kf_ctx *ctx, const kf_model *model, const kf_data *data) {
  uint32_t dim_in = kf_model_dim_in(model), dim_out = kf_model_dim_out(model);
  if (kf_data_dim(data) != dim_in) {
    fprintf(stderr, "the rows have %" PRIu32 " values, the model takes %" PRIu32 "\n",
            kf_data_dim(data), dim_in);
    return KF_ERR_DATA;
  }
  uint64_t n = kf_data_rows(data) < ROWS ? kf_data_rows(data) : ROWS;
  float *rows = calloc(n * dim_in, sizeof *rows), *mapped = calloc(n * dim_out, sizeof *mapped);
  kf_status status = rows != NULL && mapped != NULL ? KF_OK : KF_ERR_MEM;
  if (status == KF_OK) status = kf_data_get(ctx, data, 0, n, rows, NULL);
  if (status == KF_OK) status = kf_transform(ctx, model, rows, n, NULL, mapped);
  for (uint64_t i = 0; i < n && status == KF_OK; i++) {
    printf("row %" PRIu64 ":", i);
    for (uint32_t j = 0; j < dim_out && j < SHOWN; j++)
      printf(" %8.4f", (double)mapped[i * dim_out + j]);
    printf("%s\n", dim_out > SHOWN ? " ..." : "");
  }
  free(mapped);
  free(rows);
  return status;
}

static kf_status load_and_map(kf_ctx *ctx, const char *model_path, const char *const *data_path) {
  kf_model *model = NULL;
  kf_data *data = NULL;
  kf_status status = kf_model_load(ctx, model_path, &model); /* verifies its checksum */
  if (status == KF_OK && data_path != NULL) status = kf_data_open(ctx, data_path, 1, NULL, &data);
  if (status == KF_OK && data_path == NULL)
    status = kf_synth_open(ctx, &(kf_synth_options){.dim = kf_model_dim_in(model)}, &data);
  if (status == KF_OK) {
    printf("%s: %" PRIu32 " -> %" PRIu32 " dimensions, %" PRIu32 " classes\n", model_path,
           kf_model_dim_in(model), kf_model_dim_out(model), kf_model_classes(model));
    status = transform(ctx, model, data);
  }
  kf_data_free(data);
  kf_model_free(model);
  return status;
}

int main(int argc, char **argv) {
  char made[] = "/tmp/koofu-example-XXXXXX.safetensors";
  const char *model_path = argc == 1 ? made : argv[1];
  kf_ctx *ctx = NULL;
  kf_status status = kf_ctx_new(NULL, &ctx);
  if (status == KF_OK && argc == 1) {
    int file = mkstemps(made, sizeof ".safetensors" - 1); /* a new name */
    if (file >= 0) close(file);
    status = file >= 0 ? make_model(ctx, made) : KF_ERR_IO;
  }
  if (status == KF_OK)
    status = load_and_map(ctx, model_path, argc > 2 ? (const char *const *)argv + 2 : NULL);
  if (status != KF_OK)
    fprintf(stderr, "load_and_transform: %s: %s\n", kf_status_name(status), kf_errmsg(ctx));
  if (argc == 1) unlink(made);
  kf_ctx_free(ctx);
  return status == KF_OK ? 0 : 1;
}
