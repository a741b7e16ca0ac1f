/* search_page.c - makes a page of answers: finds the pictures that ids name, makes thumbnails on
 * all threads, and writes the page. */
#include "encode/encode.h"
#include "recipe/recipe.h"
#include "search/gallery.h"

#include <string.h>
#include <sys/stat.h>

enum { SIDE = 160 };

typedef struct page_job {
  const kf_gallery *gallery;
  const kf_search_page_options *options;
  kf_answers *answers;
  kf_picture *pictures; /* [n][k + 1] */
  uint64_t n_slots;
  /* The slots that have a picture, in order. */
  size_t n;
  uint64_t slots[KF_MAX_THUMBNAILS];
  char *paths[KF_MAX_THUMBNAILS];
  kf_thumbnail thumbnails[KF_MAX_THUMBNAILS];
  kf_budget *budget; /* of their pictures */
} page_job;

/* The name of a query or the id of a row; NULL: none. */
static const char *name_of(const page_job *j, uint64_t slot) {
  const kf_answers *a = j->answers;
  uint64_t query = slot / (a->k + 1), place = slot % (a->k + 1);
  if (place == 0) return a->queries != NULL ? a->queries[query] : NULL;
  return kf_gallery_id(j->gallery, (uint64_t)a->rows[query * a->k + place - 1]);
}

/* Finds the first files that exist; reading will show whether they are pictures. Names of queries
 * are relative to the current folder. */
static kf_status find_files(page_job *j, kf_err *err) {
  const char *folder = j->options->pictures;
  for (uint64_t slot = 0; slot < j->n_slots && j->n < KF_MAX_THUMBNAILS; slot++) {
    const char *name = name_of(j, slot);
    bool joined = folder != NULL && slot % (j->answers->k + 1) > 0;
    if (name == NULL || name[0] == '\0') continue;
    char *path = joined && name[0] != '/' ? kf_path_join(folder, name) : kf_strdup(name);
    if (path == NULL) return kf_fail_memory(err);
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) {
      kf_free(path);
      continue;
    }
    j->slots[j->n] = slot;
    j->paths[j->n++] = path;
  }
  return KF_OK;
}

/* A file that is not a picture is left out of the page. */
static kf_status make_thumbnail(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  page_job *j = argument;
  kf_err own = {0};
  kf_status status = kf_thumbnail_read(j->paths[i], SIDE, j->budget, &j->thumbnails[i], &own);
  return status == KF_ERR_MEM ? kf_fail_memory(err) : KF_OK;
}

static kf_status add_pictures(kf_ctx *ctx, page_job *j, uint64_t *shown) {
  j->budget = &ctx->pictures;
  KF_TRY(find_files(j, &ctx->err));
  KF_TRY(kf_parallel(ctx, j->n, make_thumbnail, j));
  for (size_t i = 0; i < j->n; i++) {
    const kf_thumbnail *t = &j->thumbnails[i];
    j->pictures[j->slots[i]] = (kf_picture){.width = t->width, .height = t->height, .uri = t->uri};
    *shown += t->uri != NULL;
  }
  return KF_OK;
}

static kf_status check_answers(const kf_answers *a, kf_err *err) {
  for (uint64_t i = 0; i < a->n * a->k; i++)
    if (a->rows[i] < 0 || (uint64_t)a->rows[i] >= kf_gallery_rows(a->gallery))
      return kf_fail(err, KF_ERR_ARG, "row %lld is not in the gallery", (long long)a->rows[i]);
  for (uint64_t i = 0; a->queries != NULL && i < a->n; i++)
    if (a->queries[i] == NULL)
      return kf_fail(err, KF_ERR_ARG, "query %llu has no name", (unsigned long long)i);
  return KF_OK;
}

static kf_status write_page(kf_ctx *ctx, page_job *j, const char *path,
                            kf_search_page_result *result) {
  KF_TRY(check_answers(j->answers, &ctx->err));
  if (j->options->thumbnails != KF_OFF) KF_TRY(add_pictures(ctx, j, &result->thumbnails));
  return kf_answers_save(ctx, j->answers, path, &result->bytes);
}

kf_status kf_search_page_write(kf_ctx *ctx, const kf_gallery *gallery, const char *const *queries,
                               uint64_t n, uint32_t k, const int64_t *rows, const double *scores,
                               const kf_search_page_options *options, const char *path,
                               kf_search_page_result *out) {
  KF_ENTER(ctx, gallery != NULL && path != NULL && (n == 0 || (rows != NULL && scores != NULL)));
  KF_OPTIONS(kf_search_page_options, o, options);
  KF_TRY(kf_check_neighbours(k, kf_gallery_rows(gallery), err));
  KF_TRY(kf_gallery_refuse_overwrite(gallery, path, err));
  KF_TRY(kf_check_output(ctx, path, err));
  kf_answers answers = {.title = o.title,
                        .name = o.name,
                        .note = o.note,
                        .gallery = gallery,
                        .n = n,
                        .all = o.queries > n ? o.queries : n,
                        .queries = queries,
                        .k = k,
                        .rows = rows,
                        .scores = scores};
  page_job *j = kf_alloc_zero(1, sizeof *j);
  kf_picture *pictures = kf_alloc_zero(n, (k + 1) * sizeof *pictures);
  kf_search_page_result result = {0};
  kf_status status;
  if (j != NULL && pictures != NULL) {
    *j = (page_job){.gallery = gallery,
                    .options = &o,
                    .answers = &answers,
                    .pictures = pictures,
                    .n_slots = n * (k + 1)};
    answers.pictures = pictures;
    status = write_page(ctx, j, path, &result);
    for (size_t i = 0; i < j->n; i++) {
      kf_free(j->paths[i]);
      kf_thumbnail_clear(&j->thumbnails[i]);
    }
  } else {
    status = kf_fail_memory(err);
  }
  kf_free(pictures);
  kf_free(j);
  if (status == KF_OK && out != NULL) *out = result;
  return status;
}
