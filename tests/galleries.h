/* galleries.h - small galleries and their models, for the tests of galleries. */
#ifndef KF_TEST_GALLERIES_H
#define KF_TEST_GALLERIES_H

#include "world.h"

#include "files.h"
#include "search/gallery.h"

#include <unistd.h>

static const char *const names[] = {"ant", "bee", "cat", "dog", "eel", "fox"};

enum { CLASSES = 6, DIM = 24, L = 9 };

static inline kf_data *data_of(const float *rows, uint64_t n, uint32_t dim, const int32_t *labels,
                               uint32_t named) {
  kf_data *data;
  assert_ok(ctx,
            kf_data_open_memory(ctx, rows, n, dim, labels, named > 0 ? names : NULL, named, &data));
  return data;
}

static inline kf_gallery *load(const char *path, int from_disk) {
  kf_gallery *g = NULL;
  kf_gallery_load_options options = {.rerank_from_disk = from_disk};
  assert_ok(ctx, kf_gallery_load(ctx, path, &options, &g));
  return g;
}

static inline kf_gallery *save_and_load(const kf_data *data, const kf_model *model,
                                        kf_metric metric) {
  const char *path = at("g.safetensors");
  assert_ok(ctx, kf_gallery_save(ctx, data, model, &(kf_gallery_options){.metric = metric}, path));
  return load(path, 0);
}

/* A gallery of rows with numbers for classes, in the original space. */
static inline kf_gallery *plain_gallery(const float *rows, uint64_t n, uint32_t dim,
                                        const int32_t *labels, kf_metric metric) {
  AUTO(kf_data) *data = data_of(rows, n, dim, labels, 0);
  kf_gallery *g = save_and_load(data, NULL, metric);
  return g;
}

static inline kf_model *fit_world(const world *w, int raw, kf_centre centre) {
  AUTO(kf_stats) *s = stats_of(ctx, w, raw);
  kf_model *m;
  assert_ok(ctx, kf_fit_stats(
                     ctx, s,
                     &(kf_fit_options){.method = KF_METHOD_PAPER, .dim = L, .centre = centre}, &m));
  return m;
}

/* "row-000017" and so on; those of rows [first, first + n). */
static inline const char *write_ids(const char *name, uint64_t first, uint64_t n) {
  char *text = malloc(n * 16 + 1), *end = text;
  for (uint64_t i = 0; i < n; i++)
    end += sprintf(end, "%s%llu\n", (first + i) % 3 == 0 ? "\xC3\xA9-" : "row-",
                   (unsigned long long)(first + i));
  const char *path = write_bytes(name, text, (size_t)(end - text));
  free(text);
  return path;
}

static inline void check_id(const kf_gallery *g, uint64_t row, uint64_t written) {
  char wanted[32];
  sprintf(wanted, "%s%llu", written % 3 == 0 ? "\xC3\xA9-" : "row-", (unsigned long long)written);
  assert_string_equal(kf_gallery_id(g, row), wanted);
}

#endif
