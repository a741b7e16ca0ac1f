/* picture_rows.c - the rows of pictures as a data set in memory, for callers that read rows more
 * than once and keep no file of them. */
#include "encode/encode.h"
#include "encode/pictures.h"

#include <string.h>

typedef struct picture_rows {
  kf_data data; /* first, so that a kf_data * can be cast to a picture_rows * */
  const kf_pictures *pictures;
  float *rows;      /* [data.rows][dim] */
  uint64_t *number; /* [data.rows] of each picture in the list */
  kf_arena arena;
} picture_rows;

static kf_status fetch(const kf_data *data, const kf_kernels *kernels, uint64_t first, uint64_t n,
                       float *rows, int32_t *labels, kf_err *err) {
  (void)kernels;
  (void)err;
  const picture_rows *p = (const picture_rows *)data;
  if (rows != NULL) memcpy(rows, p->rows + first * data->dim, n * data->dim * sizeof *rows);
  for (uint64_t i = 0; labels != NULL && i < n; i++)
    labels[i] = kf_pictures_label(p->pictures, p->number[first + i]);
  return KF_OK;
}

static kf_status fetch_ids(const kf_data *data, uint64_t first, uint64_t n, uint64_t *lengths,
                           kf_string *bytes, kf_err *err) {
  const picture_rows *p = (const picture_rows *)data;
  for (uint64_t i = 0; i < n; i++) {
    const char *id = kf_pictures_id(p->pictures, p->number[first + i]);
    lengths[i] = strlen(id);
    kf_string_add(bytes, id, lengths[i]);
  }
  return bytes->failed ? kf_fail_memory(err) : KF_OK;
}

static void where(const kf_data *data, uint64_t row, char *text, size_t size) {
  const picture_rows *p = (const picture_rows *)data;
  const char *path = row < data->rows ? kf_pictures_path(p->pictures, p->number[row]) : NULL;
  snprintf(text, size, "%s", path != NULL ? path : "the pictures");
}

static void destroy(kf_data *data) {
  kf_arena arena = ((picture_rows *)data)->arena;
  kf_free(data);
  kf_arena_free(&arena);
}

static kf_status read_rows(kf_ctx *ctx, kf_reader *reader, picture_rows *p) {
  kf_data *d = &p->data;
  kf_reader_block block = {0};
  kf_stage stage;
  kf_stage_begin(&stage, ctx, "embed", kf_reader_rows(reader));
  stage.inside = true;
  kf_status status = KF_OK;
  do {
    stage.done = block.first + block.taken;
    status = kf_reader_next(ctx, reader, &block);
    if (status != KF_OK || block.n == 0) continue;
    memcpy(p->rows + d->rows * d->dim, block.rows, block.n * d->dim * sizeof *block.rows);
    memcpy(p->number + d->rows, block.numbers, block.n * sizeof *block.numbers);
    d->rows += block.n;
  } while (status == KF_OK && block.taken > 0);
  kf_stage_end(&stage);
  return status;
}

static kf_status fill(kf_ctx *ctx, const kf_encoder *encoder, const kf_reader_options *o,
                      picture_rows *p) {
  kf_data *d = &p->data;
  kf_reader *reader;
  const kf_names *names = kf_pictures_names(p->pictures);
  uint64_t n = kf_pictures_count(p->pictures);
  d->dim = kf_encoder_dim(encoder);
  KF_TAKE(&p->arena, p->rows, n * d->dim);
  KF_TAKE(&p->arena, p->number, n);
  if (p->arena.failed) return kf_fail_memory(&ctx->err);
  KF_TRY(kf_reader_open_pictures(ctx, encoder, p->pictures, o, &reader));
  kf_status status = read_rows(ctx, reader, p);
  kf_reader_free(reader);
  KF_TRY(status);
  if (d->rows == 0)
    return kf_fail(&ctx->err, KF_ERR_DATA, "none of the %llu pictures can be read",
                   (unsigned long long)n);
  for (uint64_t i = 0; i < d->rows; i++)
    d->unlabelled += kf_pictures_label(p->pictures, p->number[i]) == KF_LABEL_NONE;
  d->has_labels = names->n > 0;
  d->n_classes = names->n;
  d->origin = *kf_encoder_origin(encoder);
  return kf_names_copy((const char *const *)names->name, names->n, &d->names, &ctx->err);
}

kf_status kf_data_new_from_pictures(kf_ctx *ctx, const kf_encoder *encoder,
                                    const kf_pictures *pictures, const kf_reader_options *options,
                                    kf_data **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, encoder != NULL && pictures != NULL && out != NULL);
  KF_OPTIONS(kf_reader_options, o, options);
  picture_rows *p = kf_alloc_zero(1, sizeof *p);
  if (p == NULL) return kf_fail_memory(err);
  p->pictures = pictures;
  p->data.fetch = fetch;
  p->data.fetch_ids = fetch_ids;
  p->data.where = where;
  p->data.destroy = destroy;
  KF_HAND_OUT(fill(ctx, encoder, &o, p), out, &p->data, kf_data_free);
}
