/* A gallery file; what loads must answer a query, leave one out and vote, and be a data set. */
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
