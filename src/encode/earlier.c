/* earlier.c - reuses rows from the output of an earlier run of kf_embed.
 *
 * A row depends only on the bytes of its picture, the encoder and a few settings. The file holds a
 * checksum of the picture for every row, and one of encoder and settings. So a picture gets the row
 * of equal bytes, whatever its name and position. File times are ignored, since copying a folder
 * changes them. */
#include "encode/earlier.h"
#include "encode/pictures.h"
#include "encode/image.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

/* --- the file --------------------------------------------------------------------------------- */

/* KF_ERR_DATA if the tensors do not match the metadata. */
static kf_status read_file(kf_earlier *e, uint32_t dim, kf_type type, kf_err *err) {
  const kf_st_tensor *rows, *sums;
  KF_TRY(kf_st_expect(&e->file, KF_TENSOR_ROWS, type, 2, (int64_t[]){-1, dim}, &rows, err));
  e->n = rows->shape[0];
  KF_TRY(kf_st_expect(&e->file, KF_TENSOR_SUMS, KF_TYPE_U64, 1, (int64_t[]){(int64_t)e->n}, &sums,
                      err));
  if (e->n > UINT32_MAX) return kf_fail_file(err, e->file.in.path, "has too many rows");
  KF_TAKE(&e->memory, e->sums, e->n);
  e->map = kf_dict_new((uint32_t)e->n);
  if (e->memory.failed || e->map == NULL) return kf_fail_memory(err);
  KF_TRY(kf_st_read_all(&e->file, sums, e->sums, err));
  for (uint64_t i = 0; i < e->n; i++) {
    uint64_t *sum = &e->sums[i], row; /* rows of equal pictures are equal */
    if (!kf_earlier_find(e, *sum, &row) &&
        !kf_dict_add(e->map, (const char *)sum, sizeof *sum, (uint32_t)i))
      return kf_fail_memory(err);
  }
  e->rows = rows;
  return KF_OK;
}

kf_status kf_earlier_open(kf_earlier *e, const char *path, uint64_t made_with, uint64_t made_of,
                          uint32_t dim, kf_type type, kf_err *err) {
  kf_err ignored;
  *e = (kf_earlier){.file = {.in = {.fd = -1}}};
  if (access(path, R_OK) != 0) return KF_OK;
  kf_status status = kf_st_open(&e->file, path, &ignored);
  if (status == KF_OK && kf_st_meta_is_hex(&e->file, KF_MADE_WITH, made_with)) {
    e->same_list = kf_st_meta_is_hex(&e->file, KF_MADE_OF, made_of);
    status = kf_st_origin(&e->file, &e->origin, &ignored);
    if (status == KF_OK) status = read_file(e, dim, type, &ignored);
  }
  if (e->rows == NULL) kf_earlier_close(e);
  return status == KF_ERR_MEM ? kf_fail_memory(err) : KF_OK;
}

void kf_earlier_close(kf_earlier *e) {
  kf_st_close(&e->file);
  kf_dict_free(e->map);
  kf_arena_free(&e->memory);
  *e = (kf_earlier){.file = {.in = {.fd = -1}}};
}

bool kf_earlier_find(const kf_earlier *e, uint64_t sum, uint64_t *row) {
  if (e->map == NULL || sum == KF_NO_SUM) return false;
  int64_t found = kf_dict_find(e->map, (const char *)&sum, sizeof sum);
  *row = (uint64_t)found;
  return found >= 0;
}

kf_status kf_earlier_read(const kf_earlier *e, uint64_t row, void *to, kf_err *err) {
  uint64_t size = e->rows->bytes / e->n;
  return kf_in_read(&e->file.in, e->rows->offset + row * size, to, size, err);
}

/* --- the pictures ----------------------------------------------------------------------------- */

enum { PIECE = 1 << 18 }; /* bytes */

typedef struct summing {
  kf_ctx *ctx;
  const kf_pictures *pictures;
  uint64_t *sums;
  unsigned char *pieces; /* [threads][PIECE] */
  atomic_uint_fast64_t done;
} summing;

static kf_status sum_bytes(const kf_in *in, unsigned char *piece, uint64_t *sum, kf_err *err) {
  kf_checksum of_bytes;
  kf_checksum_start(&of_bytes);
  for (uint64_t at = 0; at < in->size;) {
    uint64_t n = in->size - at < PIECE ? in->size - at : PIECE;
    KF_TRY(kf_in_read(in, at, piece, n, err));
    kf_checksum_add(&of_bytes, piece, n);
    at += n;
  }
  *sum = kf_checksum_value(&of_bytes);
  return KF_OK;
}

/* A picture that cannot be read gets KF_NO_SUM; embedding it will report the error. */
static kf_status sum_task(void *argument, size_t i, size_t worker, kf_err *err) {
  summing *s = argument;
  kf_err ignored;
  kf_in in;
  kf_extent extent = kf_pictures_extent(s->pictures, i);
  s->sums[i] = KF_NO_SUM;
  kf_status status = kf_in_open_extent(&in, &extent, &ignored);
  if (status == KF_ERR_MEM) return kf_fail_memory(err);
  if (status == KF_OK) {
    uint64_t sum;
    if (in.size <= KF_MAX_IMAGE_FILE &&
        sum_bytes(&in, s->pieces + worker * PIECE, &sum, &ignored) == KF_OK)
      s->sums[i] = sum;
    kf_in_close(&in);
  }
  uint64_t done = atomic_fetch_add(&s->done, 1) + 1;
  return kf_task_progress(s->ctx, worker, "check", done, kf_pictures_count(s->pictures), err);
}

kf_status kf_sum_pictures(kf_ctx *ctx, const kf_pictures *pictures, uint64_t *sums) {
  summing s = {.ctx = ctx, .pictures = pictures, .sums = sums};
  s.pieces = kf_alloc(ctx->threads, PIECE);
  if (s.pieces == NULL) return kf_fail_memory(&ctx->err);
  kf_status status = kf_parallel(ctx, (size_t)kf_pictures_count(pictures), sum_task, &s);
  kf_free(s.pieces);
  return status;
}
