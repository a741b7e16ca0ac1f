/* search_gallery.c - makes a gallery in the space of a model, searches it, and lets neighbours
 * vote.
 *
 *     search_gallery [GALLERY.safetensors QUERIES]
 *
 * Without arguments, a gallery of the synthetic world is made first.
 *
 * cc search_gallery.c $(pkg-config --cflags --libs koofu) */
/* mkstemps, also with -std=c11. NOLINTNEXTLINE(bugprone-reserved-identifier,cert-*) */
#define _DEFAULT_SOURCE
#include <koofu.h>
#include <koofu_files.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { QUERIES = 4, NEIGHBOURS = 3, VOTERS = 15 };

static const kf_synth_options train = {.classes = 50, .dim = 64};
static const kf_synth_options test = {.classes = 50, .dim = 64, .split = 1};

/* Without a gallery: fits a model and maps the rows it was fitted to. The map goes into the file
 * with them, so searching needs no model. */
static kf_status make_gallery(kf_ctx *ctx, const char *path) {
  kf_data *data = NULL;
  kf_model *model = NULL;
  kf_status status = kf_synth_open(ctx, &train, &data);
  if (status == KF_OK) status = kf_fit(ctx, data, &(kf_fit_options){.dim = 32}, &model, NULL);
  if (status == KF_OK) status = kf_gallery_save(ctx, data, model, NULL, path);
  kf_model_free(model);
  kf_data_free(data);
  return status;
}

static const char *name_of(const kf_gallery *gallery, int32_t class) {
  const char *name = class >= 0 ? kf_gallery_class_name(gallery, (uint32_t) class) : NULL;
  return name != NULL ? name : "-";
}

/* The nearest rows of each query [n][dim_in], and the class that most of the voters belong to. */
static kf_status answer(kf_ctx *ctx, const kf_gallery *gallery, const float *queries, uint64_t n) {
  int64_t rows[QUERIES * NEIGHBOURS];
  double scores[QUERIES * NEIGHBOURS], votes[QUERIES] = {0};
  int32_t classes[QUERIES] = {0};
  kf_vote_options options = {.k = VOTERS};
  kf_status status =
      kf_gallery_search(ctx, gallery, queries, n, NEIGHBOURS, NULL, rows, scores, NULL);
  if (status == KF_OK && kf_gallery_has_labels(gallery))
    status = kf_gallery_classify(ctx, gallery, queries, n, &options, classes, votes, NULL);
  for (uint64_t i = 0; i < n && status == KF_OK; i++) {
    printf("query %" PRIu64 ":", i);
    for (uint64_t at = i * NEIGHBOURS; at < (i + 1) * NEIGHBOURS; at++)
      printf("  row %" PRId64 " of %s (%.4f)", rows[at],
             name_of(gallery, kf_gallery_label(gallery, (uint64_t)rows[at])), scores[at]);
    if (kf_gallery_has_labels(gallery))
      printf("; %.0f of %d neighbours say %s", votes[i], VOTERS, name_of(gallery, classes[i]));
    putchar('\n');
  }
  return status;
}

/* The first rows of a data set are the queries. kf_gallery_search cannot know their length, so the
 * caller checks it. */
static kf_status search(kf_ctx *ctx, const kf_gallery *gallery, const kf_data *data) {
  uint32_t dim = kf_gallery_dim_in(gallery);
  if (kf_data_dim(data) != dim || kf_gallery_rows(gallery) < VOTERS) {
    fprintf(stderr,
            "search_gallery: needs queries of %" PRIu32
            " values and a gallery of at least %d rows, "
            "not of %" PRIu32 " and %" PRIu64 "\n",
            dim, VOTERS, kf_data_dim(data), kf_gallery_rows(gallery));
    return KF_ERR_DATA;
  }
  uint64_t n = kf_data_rows(data) < QUERIES ? kf_data_rows(data) : QUERIES;
  float *queries = calloc(n * dim, sizeof *queries);
  kf_status status = queries != NULL ? KF_OK : KF_ERR_MEM;
  if (status == KF_OK) status = kf_data_get(ctx, data, 0, n, queries, NULL);
  if (status == KF_OK) status = answer(ctx, gallery, queries, n);
  free(queries);
  return status;
}

static kf_status load_and_search(kf_ctx *ctx, const char *path, const char *const *queries) {
  kf_gallery *gallery = NULL;
  kf_data *data = NULL;
  kf_status status = kf_gallery_load(ctx, path, NULL, &gallery); /* verifies its checksum */
  if (status == KF_OK)
    status = queries != NULL ? kf_data_open(ctx, queries, 1, NULL, &data)
                             : kf_synth_open(ctx, &test, &data);
  if (status == KF_OK) {
    printf("%s: %" PRIu64 " rows, %" PRIu32 " -> %" PRIu32 " dimensions, %" PRIu32 " classes\n",
           path, kf_gallery_rows(gallery), kf_gallery_dim_in(gallery), kf_gallery_dim(gallery),
           kf_gallery_classes(gallery));
    status = search(ctx, gallery, data);
  }
  kf_data_free(data);
  kf_gallery_free(gallery);
  return status;
}

/* Some errors are not the library's. */
static void print_error(kf_ctx *ctx, kf_status status) {
  const char *message = kf_errmsg(ctx);
  fprintf(stderr, "search_gallery: %s\n", *message ? message : kf_status_name(status));
}

int main(int argc, char **argv) {
  char made[] = "/tmp/koofu-example-XXXXXX.safetensors";
  int given = argc == 3;
  if (argc != 1 && !given) {
    fprintf(stderr, "usage: search_gallery [GALLERY.safetensors QUERIES]\n");
    return 2;
  }
  kf_ctx *ctx = NULL;
  kf_status status = kf_ctx_new(NULL, &ctx);
  if (status == KF_OK && !given) {
    int file = mkstemps(made, sizeof ".safetensors" - 1); /* a new name */
    if (file >= 0) close(file);
    status = file >= 0 ? make_gallery(ctx, made) : KF_ERR_IO;
  }
  if (status == KF_OK)
    status =
        load_and_search(ctx, given ? argv[1] : made, given ? (const char *const *)argv + 2 : NULL);
  if (status != KF_OK) print_error(ctx, status);
  if (!given) unlink(made);
  kf_ctx_free(ctx);
  return status == KF_OK ? 0 : 1;
}
