/* embed.c - many pictures to a data set, in shards that outlive the process.
 *
 * Pictures are embedded shard by shard; a finished one goes to the folder OUT.parts (parts.c). When all
 * are there the file is put together out of them, piece by piece, and the folder is removed. An
 * embedding does not depend on the others of its shard, so neither kills nor the size of shards change
 * a bit of the result.
 *
 * A shard bears a stamp, made of the sizes and times of its pictures, so that a picture that changed
 * between two runs is embedded again. What was said of pictures that could not be read is kept with the
 * shard and said again, so that a run that goes on reports what one in a single go would have. */
#include "encode/shards.h"
#include "encode/pictures.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

enum { SHARD = 256, COPY = 1 << 20, LABELS_AT_ONCE = 4096 };

typedef struct embedding {
  kf_ctx *ctx;
  const kf_encoder *encoder;
  const kf_pictures *pictures;
  kf_embed_options options;
  kf_parts parts;
  uint64_t *stamps;    /* [shards] */
  unsigned char *bad;  /* [pictures] 1: it has no row */
  const char **paths;  /* [shard] in hand */
  float *rows;         /* [shard][dim] */
  unsigned char *code; /* the same in the type of the file */
  kf_status *status;   /* [shard] */
  uint64_t finished;   /* shards that are there */
  kf_embed_report report;
} embedding;

/* --- what the run is about ---------------------------------------------------------------------- */

static uint64_t hash_list(const kf_pictures *list) {
  kf_checksum hash;
  kf_checksum_start(&hash);
  for (uint64_t i = 0; i < kf_pictures_count(list); i++) {
    const char *path = kf_pictures_path(list, i), *id = kf_pictures_id(list, i);
    int32_t label = kf_pictures_label(list, i);
    kf_checksum_add(&hash, path, strlen(path) + 1);
    kf_checksum_add(&hash, id, strlen(id) + 1);
    kf_checksum_add(&hash, &label, sizeof label);
  }
  for (uint32_t k = 0; k < kf_pictures_classes(list); k++) {
    const char *name = kf_pictures_class_name(list, k);
    kf_checksum_add(&hash, name, strlen(name) + 1);
  }
  return kf_checksum_value(&hash);
}

static kf_status check_options(const embedding *e, kf_err *err) {
  kf_dtype dtype = e->options.dtype;
  if (dtype != KF_F32 && dtype != KF_F16 && dtype != KF_BF16)
    return kf_fail(err, KF_ERR_ARG, "kf_embed: rows are written as f32, f16 or bf16");
  if (kf_encoder_image_size(e->encoder) == 0)
    return kf_fail(err, KF_ERR_ARG, "kf_embed: the encoder has no image tower");
  return KF_OK;
}

/* Whether the file can be written at all: said before the work rather than after it. */
static kf_status check_output(const char *path, kf_err *err) {
  kf_stw *w;
  KF_TRY(kf_stw_open(path, false, &w, err));
  kf_stw_abort(w);
  return KF_OK;
}

/* Size and time of a picture. One that is not there is told before the work, too. */
static kf_status stamp_picture(const embedding *e, uint64_t i, kf_checksum *hash, kf_err *err) {
  const char *path = kf_pictures_path(e->pictures, i);
  struct stat info;
  int64_t stamp[3] = {-1, -1, -1};
  if (stat(path, &info) == 0) {
    stamp[0] = info.st_size;
    stamp[1] = info.st_mtim.tv_sec;
    stamp[2] = info.st_mtim.tv_nsec;
  } else if (!e->options.skip_bad) {
    return kf_fail_errno(err, path, "cannot be opened", errno);
  }
  kf_checksum_add(hash, stamp, sizeof stamp);
  return KF_OK;
}

static kf_status stamp_shards(embedding *e, const kf_parts_id *id, kf_err *err) {
  kf_parts shape = {.id = *id};
  uint64_t shards = kf_parts_shards(&shape);
  e->stamps = kf_alloc(shards, sizeof *e->stamps);
  if (e->stamps == NULL) return kf_fail_memory(err);
  for (uint64_t s = 0; s < shards; s++) {
    uint64_t first, n = kf_parts_range(&shape, s, &first);
    kf_checksum hash;
    kf_checksum_start(&hash);
    for (uint64_t i = 0; i < n; i++) KF_TRY(stamp_picture(e, first + i, &hash, err));
    e->stamps[s] = kf_checksum_value(&hash);
  }
  return KF_OK;
}

/* --- one shard ---------------------------------------------------------------------------------- */

/* Keeps what the encoder says, each message with its NUL. */
static void hear(void *listener, const char *message) {
  kf_string_add(listener, message, strlen(message) + 1);
}

/* An embedding without a direction is of no use, and no data set may hold it. */
static kf_status check_row(embedding *e, uint64_t i, double norm2, unsigned char *bad,
                           kf_err *err) {
  if (norm2 > 0 && isfinite(norm2)) return KF_OK;
  const char *path = e->paths[i];
  *bad = 1;
  if (!e->options.skip_bad)
    return kf_fail(err, KF_ERR_DATA, "%s: the embedding is zero or not finite", path);
  kf_log(e->ctx, "%s: the embedding is zero or not finite", path);
  return KF_OK;
}

/* Rows of good pictures, one behind the other, as they will be in the file. */
static kf_status code_rows(embedding *e, uint64_t n, unsigned char *bad, kf_err *err) {
  const kf_kernels *kernels = e->ctx->kernels;
  uint32_t dim = e->parts.id.dim;
  kf_type type = kf_type_of(e->options.dtype);
  uint64_t size = dim * kf_type_size(type), kept = 0;
  for (uint64_t i = 0; i < n; i++) {
    if (bad[i] != 0) continue;
    float *row = e->rows + i * dim;
    double norm2 = kernels->norm2(row, dim);
    KF_TRY(check_row(e, i, norm2, &bad[i], err));
    if (bad[i] != 0) continue;
    double scale = 1 / sqrt(norm2);
    for (uint32_t d = 0; e->options.normalize && d < dim; d++)
      row[d] = (float)((double)row[d] * scale);
    size_t fits = kf_encode_f32(kernels, type, row, dim, e->code + kept++ * size);
    if (fits < dim)
      return kf_fail(err, KF_ERR_DATA, "%s: column %zu of the embedding is %g, too large for %s",
                     e->paths[i], fits, (double)row[fits], kf_dtype_name(e->options.dtype));
  }
  return KF_OK;
}

/* What is wrong with a picture, and what can be done about it. */
static kf_status advise(const embedding *e, kf_status status, kf_err *err) {
  if (e->options.skip_bad || status != KF_ERR_DATA) return status;
  char cause[sizeof err->message];
  memcpy(cause, err->message, sizeof cause);
  return kf_fail(err, status, "%.5000s (such pictures can be skipped: --skip-bad)", cause);
}

static kf_status encode_shard(embedding *e, uint64_t s, uint64_t n, unsigned char *bad,
                              kf_string *said) {
  kf_err *err = &e->ctx->err;
  KF_TRY(advise(e,
                kf_encode_images(e->ctx, e->encoder, e->paths, n, e->rows,
                                 e->options.skip_bad ? e->status : NULL),
                err));
  for (uint64_t i = 0; i < n; i++) bad[i] = e->options.skip_bad && e->status[i] != KF_OK;
  KF_TRY(code_rows(e, n, bad, err));
  if (said->failed) return kf_fail_memory(err);
  return kf_piece_save(&e->parts, s, e->stamps[s], bad, e->code, said, err);
}

static kf_status make_shard(embedding *e, uint64_t s, uint64_t first, uint64_t n) {
  kf_string said = {0};
  kf_stage stage;
  for (uint64_t i = 0; i < n; i++) e->paths[i] = kf_pictures_path(e->pictures, first + i);
  kf_stage_begin(&stage, e->ctx, "embed", e->parts.id.pictures);
  stage.done = first;
  stage.inside = true;
  stage.hear = hear;
  stage.listener = &said;
  kf_status status = encode_shard(e, s, n, e->bad + first, &said);
  kf_stage_end(&stage);
  kf_string_clear(&said);
  return status;
}

/* Takes over a shard that an earlier run has finished. One with bad pictures is no use to a run that
 * does not want to be without them. */
static kf_status take_shard(embedding *e, uint64_t s, uint64_t first, bool *taken) {
  kf_piece part;
  char why[KF_WHERE_SIZE];
  KF_TRY(kf_piece_open(&e->parts, s, e->stamps[s], &part, taken, why, &e->ctx->err));
  if (why[0] != '\0') kf_log(e->ctx, "%s", why);
  if (!*taken) return KF_OK;
  *taken = part.kept == part.n || e->options.skip_bad;
  if (*taken) {
    memcpy(e->bad + first, part.bad, part.n);
    e->report.resumed += part.n;
    for (const char *m = part.messages; m < part.messages + part.n_messages; m += strlen(m) + 1)
      kf_log(e->ctx, "%s", m);
  }
  kf_piece_close(&part);
  return KF_OK;
}

static kf_status make_room(embedding *e, kf_err *err) {
  uint64_t room =
      e->parts.id.shard < e->parts.id.pictures ? e->parts.id.shard : e->parts.id.pictures;
  uint64_t dim = e->parts.id.dim;
  e->bad = kf_alloc_zero(e->parts.id.pictures, 1);
  e->paths = kf_alloc(room, sizeof *e->paths);
  e->status = kf_alloc(room, sizeof *e->status);
  e->rows = kf_alloc(room, dim * sizeof *e->rows);
  e->code = kf_alloc(room, dim * kf_type_size(kf_type_of(e->options.dtype)));
  bool ok =
      e->bad != NULL && e->paths != NULL && e->status != NULL && e->rows != NULL && e->code != NULL;
  return ok ? KF_OK : kf_fail_memory(err);
}

static kf_status make_shards(embedding *e, kf_err *err) {
  KF_TRY(make_room(e, err));
  for (uint64_t s = 0; s < kf_parts_shards(&e->parts); s++) {
    uint64_t first, n = kf_parts_range(&e->parts, s, &first);
    bool taken;
    KF_TRY(kf_progress(e->ctx, "embed", first, e->parts.id.pictures));
    KF_TRY(take_shard(e, s, first, &taken));
    if (!taken) KF_TRY(make_shard(e, s, first, n));
    e->finished++;
  }
  for (uint64_t i = 0; i < e->parts.id.pictures; i++) e->report.skipped += e->bad[i];
  e->report.rows = e->parts.id.pictures - e->report.skipped;
  if (e->report.rows > 0)
    return kf_progress(e->ctx, "embed", e->parts.id.pictures, e->parts.id.pictures);
  return kf_fail(err, KF_ERR_DATA, "none of the %" PRIu64 " pictures can be read",
                 e->parts.id.pictures);
}

/* --- the file ----------------------------------------------------------------------------------- */

/* As kf_data_save writes it. */
static kf_status declare(const embedding *e, kf_stw *w, kf_err *err) {
  const kf_names *names = kf_pictures_names(e->pictures);
  uint64_t rows = e->report.rows, bytes = 0;
  for (uint64_t i = 0; i < e->parts.id.pictures; i++)
    if (e->bad[i] == 0) bytes += strlen(kf_pictures_id(e->pictures, i));
  KF_TRY(kf_stw_meta(w, "format", "koofu.dataset", err));
  KF_TRY(kf_stw_meta(w, "version", "1", err));
  if (names->n > 0) KF_TRY(kf_stw_meta_names(w, names, err));
  KF_TRY(kf_stw_declare(w, "id_ends", KF_TYPE_I64, 1, &rows, err));
  KF_TRY(kf_stw_declare(w, "embeddings", kf_type_of(e->options.dtype), 2,
                        (uint64_t[]){rows, e->parts.id.dim}, err));
  if (names->n > 0) KF_TRY(kf_stw_declare(w, "labels", KF_TYPE_I32, 1, &rows, err));
  return kf_stw_declare(w, "id_bytes", KF_TYPE_U8, 1, &bytes, err);
}

static kf_status copy_rows(const kf_piece *part, unsigned char *buffer, kf_stw *w, kf_err *err) {
  for (uint64_t done = 0; done < part->rows->bytes;) {
    uint64_t left = part->rows->bytes - done, n = left < COPY ? left : COPY;
    KF_TRY(kf_in_read(&part->file.in, part->rows->offset + done, buffer, n, err));
    KF_TRY(kf_stw_write(w, buffer, n, err));
    done += n;
  }
  return KF_OK;
}

static kf_status copy_shard(const embedding *e, uint64_t s, unsigned char *buffer, kf_stw *w,
                            kf_err *err) {
  kf_piece part;
  bool there;
  char why[KF_WHERE_SIZE];
  uint64_t first, n = kf_parts_range(&e->parts, s, &first);
  KF_TRY(kf_piece_open(&e->parts, s, e->stamps[s], &part, &there, why, err));
  if (!there || memcmp(part.bad, e->bad + first, n) != 0) {
    if (there) kf_piece_close(&part);
    return kf_fail(err, KF_ERR_IO, "%s: shard %" PRIu64 " is gone or damaged; run it again",
                   e->parts.folder, s);
  }
  kf_status status = copy_rows(&part, buffer, w, err);
  kf_piece_close(&part);
  return status;
}

static kf_status copy_shards(const embedding *e, kf_stw *w, kf_err *err) {
  unsigned char *buffer = kf_alloc(COPY, 1);
  kf_status status = buffer != NULL ? KF_OK : kf_fail_memory(err);
  for (uint64_t s = 0; status == KF_OK && s < kf_parts_shards(&e->parts); s++) {
    status = copy_shard(e, s, buffer, w, err);
    if (status == KF_OK) status = kf_progress(e->ctx, "write", s + 1, kf_parts_shards(&e->parts));
  }
  kf_free(buffer);
  return status;
}

static kf_status write_labels(const embedding *e, kf_stw *w, kf_err *err) {
  int32_t labels[LABELS_AT_ONCE];
  size_t n = 0;
  for (uint64_t i = 0; i < e->parts.id.pictures; i++) {
    if (e->bad[i] == 0) labels[n++] = kf_pictures_label(e->pictures, i);
    if (n == LABELS_AT_ONCE || i + 1 == e->parts.id.pictures) {
      KF_TRY(kf_stw_write(w, labels, n * sizeof *labels, err));
      n = 0;
    }
  }
  return KF_OK;
}

static kf_status write_ids(const embedding *e, bool ends, kf_stw *w, kf_err *err) {
  int64_t end = 0;
  for (uint64_t i = 0; i < e->parts.id.pictures; i++) {
    if (e->bad[i] != 0) continue;
    const char *id = kf_pictures_id(e->pictures, i);
    size_t length = strlen(id);
    end += (int64_t)length;
    KF_TRY(ends ? kf_stw_write(w, &end, sizeof end, err) : kf_stw_write(w, id, length, err));
  }
  return KF_OK;
}

static kf_status fill(const embedding *e, kf_stw *w, kf_err *err) {
  KF_TRY(declare(e, w, err));
  KF_TRY(write_ids(e, true, w, err));
  KF_TRY(copy_shards(e, w, err));
  if (kf_pictures_classes(e->pictures) > 0) KF_TRY(write_labels(e, w, err));
  return write_ids(e, false, w, err);
}

static kf_status assemble(const embedding *e, const char *path, kf_err *err) {
  kf_stw *w;
  KF_TRY(kf_stw_open(path, false, &w, err));
  kf_status status = fill(e, w, err);
  if (status == KF_OK) return kf_stw_commit(w, err);
  kf_stw_abort(w);
  return status;
}

/* --- all of it ---------------------------------------------------------------------------------- */

static kf_status embed(embedding *e, const char *path, kf_err *err) {
  kf_parts_id id = {.pictures = kf_pictures_count(e->pictures),
                    .list = hash_list(e->pictures),
                    .encoder = kf_encoder_checksum(e->encoder),
                    .dim = kf_encoder_dim(e->encoder),
                    .dtype = e->options.dtype,
                    .normalize = e->options.normalize != 0,
                    .shard = e->options.shard > 0 ? e->options.shard : SHARD};
  KF_TRY(check_options(e, err));
  KF_TRY(check_output(path, err));
  KF_TRY(stamp_shards(e, &id, err));
  KF_TRY(kf_parts_open(&e->parts, path, &id, (e->options.resume == KF_OFF), err));
  kf_status status = make_shards(e, err);
  if (status == KF_OK) status = assemble(e, path, err);
  bool useless = e->parts.begun && (e->finished == 0 || e->report.skipped == id.pictures);
  if (status == KF_OK || useless) kf_parts_remove(&e->parts);
  return status;
}

kf_status kf_embed(kf_ctx *ctx, const kf_encoder *encoder, const kf_pictures *pictures,
                   const kf_embed_options *options, const char *path, kf_embed_report *report) {
  KF_ENTER(ctx, encoder != NULL && pictures != NULL && path != NULL);
  embedding e = {.ctx = ctx, .encoder = encoder, .pictures = pictures, .parts = {.lock = -1}};
  if (options != NULL) e.options = *options;
  kf_status status = embed(&e, path, err);
  kf_parts_close(&e.parts);
  kf_free(e.stamps);
  kf_free(e.bad);
  kf_free(e.paths);
  kf_free(e.rows);
  kf_free(e.code);
  kf_free(e.status);
  if (status == KF_OK && report != NULL) *report = e.report;
  return status;
}
