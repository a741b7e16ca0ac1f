/* reader.c - reads the rows of a data set, pictures or texts, block by block in order, without bad
 * ones. With several ranks, each reads or encodes its share of a block, and all get the whole
 * block. */
#include "encode/pictures.h"
#include "encode/tower.h"

#include <string.h>

enum { USUAL_BYTES = 16 << 20 };

struct kf_reader {
  const kf_data *data; /* or an encoder, and pictures or texts */
  const kf_encoder *encoder;
  const kf_pictures *pictures;
  const char *const *texts; /* [rows] */
  bool skip_bad;            /* pictures */
  uint64_t rows, next, n_bad, room;
  uint32_t dim;
  kf_arena arena;
  float *block;       /* [room][dim] */
  int32_t *labels;    /* [room] KF_LABEL_BAD marks bad ones */
  uint64_t *numbers;  /* [room] */
  kf_extent *extents; /* [room] of pictures */
  kf_status *status;
};

static kf_status make(kf_ctx *ctx, kf_reader *r, uint64_t block, kf_reader **out) {
  kf_err *err = &ctx->err;
  uint64_t pictures = (uint64_t)KF_PICTURE_BLOCK * ctx->ranks.size;
  r->room = block > 0 ? block : USUAL_BYTES / (r->dim * sizeof(float));
  if (r->encoder != NULL && r->room > pictures) r->room = pictures;
  if (r->room > r->rows) r->room = r->rows;
  if (r->room == 0) r->room = 1;
  kf_reader *reader;
  KF_TAKE(&r->arena, reader, 1);
  KF_TAKE(&r->arena, r->block, r->room * r->dim);
  KF_TAKE(&r->arena, r->labels, r->room);
  KF_TAKE(&r->arena, r->numbers, r->room);
  KF_TAKE(&r->arena, r->extents, r->room);
  KF_TAKE_ZERO(&r->arena, r->status, r->room);
  if (r->arena.failed) {
    kf_arena_free(&r->arena);
    return kf_fail_memory(err);
  }
  *reader = *r;
  *out = reader;
  return KF_OK;
}

kf_status kf_reader_open_data(kf_ctx *ctx, const kf_data *data, const kf_reader_options *options,
                              kf_reader **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, data != NULL && out != NULL);
  KF_OPTIONS(kf_reader_options, o, options);
  kf_reader r = {.data = data, .rows = data->rows, .dim = data->dim};
  return make(ctx, &r, o.block, out);
}

kf_status kf_reader_open_pictures(kf_ctx *ctx, const kf_encoder *encoder,
                                  const kf_pictures *pictures, const kf_reader_options *options,
                                  kf_reader **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, encoder != NULL && pictures != NULL && out != NULL);
  KF_OPTIONS(kf_reader_options, o, options);
  kf_reader r = {.encoder = encoder,
                 .pictures = pictures,
                 .skip_bad = o.skip_bad != 0,
                 .rows = kf_pictures_count(pictures),
                 .dim = kf_encoder_dim(encoder)};
  return make(ctx, &r, o.block, out);
}

kf_status kf_reader_open_texts(kf_ctx *ctx, const kf_encoder *encoder, const char *const *texts,
                               uint64_t n, const kf_reader_options *options, kf_reader **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, encoder != NULL && texts != NULL && out != NULL);
  KF_OPTIONS(kf_reader_options, o, options);
  if (n == 0) return kf_fail(err, KF_ERR_ARG, "kf_reader_open_texts: there is no text");
  kf_reader r = {.encoder = encoder, .texts = texts, .rows = n, .dim = kf_encoder_dim(encoder)};
  return make(ctx, &r, o.block, out);
}

void kf_reader_free(kf_reader *r) {
  if (r == NULL) return;
  kf_arena arena = r->arena; /* the reader is in it */
  kf_arena_free(&arena);
}

uint64_t kf_reader_rows(const kf_reader *r) { return r->rows; }
uint32_t kf_reader_dim(const kf_reader *r) { return r->dim; }
uint64_t kf_reader_bad(const kf_reader *r) { return r->n_bad; }

const char *kf_reader_id(const kf_reader *r, uint64_t number) {
  if (r->texts != NULL) return number < r->rows ? r->texts[number] : NULL;
  return r->pictures != NULL ? kf_pictures_id(r->pictures, number) : NULL;
}

static bool is_zero(const float *row, size_t dim) {
  while (dim > 0 && row[dim - 1] == 0) dim--;
  return dim == 0;
}

/* Refuses a zero row, which has no direction, here where the picture is known. */
static kf_status check_picture(kf_ctx *ctx, kf_reader *r, uint64_t i) {
  r->labels[i] = r->status[i] == KF_OK ? KF_LABEL_NONE : KF_LABEL_BAD;
  if (r->status[i] != KF_OK || !is_zero(r->block + i * r->dim, r->dim)) return KF_OK;
  if (!r->skip_bad)
    return kf_fail_hint(&ctx->err, KF_ERR_DATA, KF_HINT_SKIP_PICTURES, "%s: the embedding is zero",
                        r->extents[i].name);
  kf_log(ctx, "%s: the embedding is zero", r->extents[i].name);
  r->labels[i] = KF_LABEL_BAD;
  return KF_OK;
}

/* Reads rows `own` of the block. */
static kf_status read_pictures(kf_ctx *ctx, kf_reader *r, kf_range own) {
  uint64_t at = own.first, n = own.last - at;
  for (uint64_t i = at; i < own.last; i++)
    r->extents[i] = kf_pictures_extent(r->pictures, r->next + i);
  KF_TRY(kf_encode_extents(ctx, r->encoder, r->extents + at, n, r->block + at * r->dim,
                           r->skip_bad ? r->status + at : NULL, NULL));
  for (uint64_t i = at; i < own.last; i++) KF_TRY(check_picture(ctx, r, i));
  return KF_OK;
}

static kf_status read_texts(kf_ctx *ctx, kf_reader *r, kf_range own) {
  uint64_t at = own.first, n = own.last - at;
  KF_TRY(kf_encode_texts(ctx, r->encoder, r->texts + r->next + at, n, r->block + at * r->dim));
  for (uint64_t i = at; i < own.last; i++) {
    r->labels[i] = KF_LABEL_NONE;
    if (is_zero(r->block + i * r->dim, r->dim))
      return kf_fail(&ctx->err, KF_ERR_DATA, "'%.200s': the embedding is zero",
                     r->texts[r->next + i]);
  }
  return KF_OK;
}

static kf_status read_rows(kf_ctx *ctx, kf_reader *r, kf_range own) {
  if (own.first == own.last) return KF_OK;
  if (r->texts != NULL) return read_texts(ctx, r, own);
  if (r->pictures != NULL) return read_pictures(ctx, r, own);
  return kf_data_fetch(r->data, ctx->kernels, r->next + own.first, own.last - own.first,
                       r->block + own.first * r->dim, r->labels + own.first, NULL, &ctx->err);
}

/* --- ranks ------------------------------------------------------------------------------------ */

/* Sets the ends of the ranks' shares of a block of n rows; rows that only one rank has are in its
 * share. */
static void share_block(const kf_ctx *ctx, const kf_reader *r, uint64_t n) {
  const kf_ranks *ranks = &ctx->ranks;
  const uint64_t *ends = r->data != NULL ? r->data->ends : NULL;
  kf_share_ends(ranks, n, 1);
  for (uint32_t i = 0; ends != NULL && i < ranks->size; i++) {
    uint64_t end = ends[i] > r->next ? ends[i] - r->next : 0;
    ranks->ends[i] = end < n ? end : n;
  }
}

static void keep_note(void *notes, const char *message) {
  kf_string_add(notes, message, strlen(message) + 1);
}

/* Reads the whole block, each rank its share; rank 0 logs the messages about pictures. */
static kf_status read_shared(kf_ctx *ctx, kf_reader *r, uint64_t n) {
  const kf_ranks *ranks = &ctx->ranks;
  if (n == 0 || !kf_is_shared(ranks)) return read_rows(ctx, r, (kf_range){0, n});
  kf_string notes = {0};
  kf_stage stage;
  share_block(ctx, r, n);
  kf_range own = {ranks->rank > 0 ? ranks->ends[ranks->rank - 1] : 0, ranks->ends[ranks->rank]};
  kf_stage_begin(&stage, ctx, NULL, 0);
  stage.hear = keep_note;
  stage.listener = &notes;
  kf_status status = read_rows(ctx, r, own);
  kf_stage_end(&stage);
  if (r->pictures != NULL) status = kf_bring_notes(ctx, status, &notes);
  kf_string_clear(&notes);
  share_block(ctx, r, n);
  KF_TRY(kf_join(ctx, status, r->block, r->dim * sizeof *r->block));
  share_block(ctx, r, n);
  return kf_join(ctx, KF_OK, r->labels, sizeof *r->labels);
}

kf_status kf_reader_next(kf_ctx *ctx, kf_reader *r, kf_reader_block *out) {
  KF_ENTER(ctx, r != NULL && out != NULL);
  uint64_t n = r->rows - r->next < r->room ? r->rows - r->next : r->room, good = 0;
  KF_TRY(read_shared(ctx, r, n));
  for (uint64_t i = 0; i < n; i++) {
    if (r->labels[i] == KF_LABEL_BAD) continue;
    if (good < i)
      memmove(r->block + good * r->dim, r->block + i * r->dim, r->dim * sizeof *r->block);
    r->labels[good] = r->labels[i];
    r->numbers[good++] = r->next + i;
  }
  *out = (kf_reader_block){.first = r->next,
                           .taken = n,
                           .n = good,
                           .rows = r->block,
                           .numbers = r->numbers,
                           .labels = r->data != NULL && r->data->has_labels ? r->labels : NULL};
  r->n_bad += n - good;
  r->next += n;
  return KF_OK;
}
