/* A gallery file. If it loads, it must answer a query, search itself, vote, take one more row, and
 * open as a data set. */
#include "fuzz.h"

#include <stdlib.h>

/* Every row has a label in its range, and an id that ends where it must. */
static void look(const kf_gallery *gallery) {
  uint64_t bytes = 0;
  for (uint64_t i = 0; i < kf_gallery_rows(gallery); i++) {
    int64_t label = kf_gallery_label(gallery, i);
    if (label < KF_LABEL_NONE || label >= (int64_t)kf_gallery_classes(gallery)) abort();
    const char *id = kf_gallery_id(gallery, i);
    while (id != NULL && *id != '\0') bytes += (unsigned char)*id++;
  }
  if (kf_gallery_id(gallery, 0) != NULL && bytes == 0) abort();
}

static void ask(kf_ctx *ctx, const kf_gallery *gallery, float *row) {
  int64_t nearest;
  double score;
  int32_t class;
  kf_eval_result counts;
  kf_hits hits;
  const uint32_t one = 1;
  kf_gallery_search(ctx, gallery, row, 1, 1, NULL, &nearest, &score, NULL);
  kf_gallery_search_itself(ctx, gallery, 0, 1, 1, &nearest, &score, NULL);
  kf_gallery_classify(ctx, gallery, row, 1, &(kf_vote_options){.k = 1, .weighted = 1}, &class,
                      &score, NULL);
  kf_gallery_eval(ctx, gallery, NULL, &(kf_gallery_eval_options){.k = &one, .n_k = 1}, &counts,
                  &hits, NULL);
}

/* Appends a row, which may not fit. */
static void grow(kf_ctx *ctx, const char *path, const kf_gallery *gallery, const float *row) {
  static const int32_t label = 0;
  int labelled = kf_gallery_has_labels(gallery), named = kf_gallery_id(gallery, 0) != NULL;
  const char *grown = fuzz_path("grown.safetensors");
  kf_gallery_options options = {.append_to = path,
                                .ids = named ? fuzz_write("ids.txt", "new\n", 4) : NULL};
  kf_data *data;
  if (kf_data_open_memory(ctx, row, 1, kf_gallery_dim_in(gallery), labelled ? &label : NULL, NULL,
                          0, &data) != KF_OK)
    abort();
  if (kf_gallery_save(ctx, data, NULL, &options, grown) == KF_OK) {
    kf_gallery *larger;
    if (kf_gallery_load(ctx, grown, NULL, &larger) != KF_OK) abort();
    if (kf_gallery_rows(larger) != kf_gallery_rows(gallery) + 1) abort();
    look(larger);
    kf_gallery_free(larger);
  }
  kf_data_free(data);
}

static void use(kf_ctx *ctx, const char *path) {
  for (int from_disk = 0; from_disk < 2; from_disk++) {
    kf_gallery *gallery;
    kf_gallery_load_options options = {.rerank_from_disk = from_disk};
    if (kf_gallery_load(ctx, path, &options, &gallery) != KF_OK) return;
    uint32_t dim = kf_gallery_dim_in(gallery);
    float *row = malloc(dim * sizeof *row);
    if (row == NULL) abort();
    for (uint32_t i = 0; i < dim; i++) row[i] = 1;
    look(gallery);
    ask(ctx, gallery, row);
    if (from_disk) grow(ctx, path, gallery, row);
    free(row);
    kf_gallery_free(gallery);
  }
  kf_info *info;
  if (kf_info_read(ctx, path, &info) != KF_OK) abort(); /* it has just been loaded */
  kf_info_free(info);
  fuzz_read_data(ctx, path, &(kf_data_options){0});
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  return fuzz_with_checked_file(data, size, use);
}
