/* embed.c - embeds many pictures into a data set, in shards that outlive the process.
 *
 *     kf_embed     check_options, check_output, stamp_shards; find_earlier: rows of an earlier run
 *                  (earlier.c), which may leave nothing to do; kf_shards_open (shards.c)
 *     make_shards  for each shard: take_shard, or else make_shard: kf_encode_extents (encode.c) for
 *                  the pictures that have no row in the earlier file
 *     assemble     copies the shards into the file
 *
 * Finished shards are kept in the folder OUT.parts. When all are there, the file is assembled from
 * them and the folder is removed. Embeddings do not depend on each other, so neither interruptions
 * nor the size of shards change a bit of the result.
 *
 * A shard has a stamp, a checksum of the sizes and times of its pictures, so that a picture that
 * changed between two runs is embedded again. Messages about unreadable pictures are kept in the
 * shard and logged again by a resumed run. */
#include "encode/earlier.h"
#include "encode/pictures.h"
#include "encode/shards.h"
#include "encode/tower.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

enum { SHARD = 256 /* pictures */, COPY = 1 << 20 /* bytes */ };

typedef struct embedding {
  kf_ctx *ctx;
  const kf_encoder *encoder;
  const kf_pictures *pictures;
  kf_embed_options options;
  kf_embed_run run;
  kf_shards shards;
  kf_arena memory;
  uint64_t *stamps;   /* [shards] */
  unsigned char *bad; /* [pictures] 1: it has no row */
  uint64_t *sums;     /* [pictures] checksums of their files */
  uint64_t made_with, made_of;
  kf_earlier earlier; /* the existing output */
  bool summed;        /* the sums of all pictures are known */
  /* The current shard. */
  unsigned char *known; /* [shard] 1: the picture has a row in the earlier file */
  kf_extent *extents;   /* [shard] of the pictures without one; so are the arrays below */
  float *rows;          /* [shard][dim] */
  kf_status *status;    /* [shard] */
  uint64_t *fresh;      /* [shard] sums */
  unsigned char *code;  /* rows of all good ones in the type of the file */
  uint64_t finished;    /* shards */
  kf_embed_report report;
} embedding;

/* --- identity of the run -------------------------------------------------------------------- */

/* A checksum of ids, labels and classes and, with `paths`, of where the pictures are. */
static uint64_t list_checksum(const kf_pictures *list, bool paths) {
  kf_checksum sum;
  kf_checksum_start(&sum);
  for (uint64_t i = 0; i < kf_pictures_count(list); i++) {
    const char *path = kf_pictures_path(list, i), *id = kf_pictures_id(list, i);
    int32_t label = kf_pictures_label(list, i);
    if (paths) kf_checksum_add(&sum, path, strlen(path) + 1);
    kf_checksum_add(&sum, id, strlen(id) + 1);
    kf_checksum_add(&sum, &label, sizeof label);
  }
  for (uint32_t k = 0; k < kf_pictures_classes(list); k++) {
    const char *name = kf_pictures_class_name(list, k);
    kf_checksum_add(&sum, name, strlen(name) + 1);
  }
  return kf_checksum_value(&sum);
}

/* A checksum of everything that a row depends on besides its picture. */
static uint64_t settings_checksum(const embedding *e) {
  const uint64_t all[] = {1 /* version */, e->run.encoder, e->run.dtype, e->run.normalize,
                          e->encoder->max_pixels};
  kf_checksum sum;
  kf_checksum_start(&sum);
  kf_checksum_add(&sum, all, sizeof all);
  return kf_checksum_value(&sum);
}

static kf_status check_options(const embedding *e, kf_err *err) {
  kf_dtype dtype = e->options.dtype;
  if (dtype != KF_F32 && dtype != KF_F16 && dtype != KF_BF16)
    return kf_fail(err, KF_ERR_ARG, "kf_embed: rows are written as f32, f16 or bf16");
  if (kf_encoder_image_size(e->encoder) == 0)
    return kf_fail(err, KF_ERR_ARG, "kf_embed: the encoder has no image tower");
  return KF_OK;
}

/* Fails early if the file cannot be written. */
static kf_status check_output(const char *path, kf_err *err) {
  kf_stw *w;
  KF_TRY(kf_stw_open(NULL, path, false, &w, err));
  kf_stw_abort(w);
  return KF_OK;
}

/* Adds size and time of a picture. Fails early if it is missing. */
static kf_status stamp_picture(const embedding *e, uint64_t i, kf_checksum *sum, kf_err *err) {
  kf_extent extent = kf_pictures_extent(e->pictures, i);
  struct stat info;
  int64_t stamp[3] = {-1, -1, -1};
  if (extent.size != KF_WHOLE_FILE) { /* an archive with other contents has another time */
    kf_checksum_add(sum, &extent.at, sizeof extent.at);
    kf_checksum_add(sum, &extent.size, sizeof extent.size);
  }
  if (stat(extent.file, &info) == 0) {
    stamp[0] = info.st_size;
    stamp[1] = info.st_mtim.tv_sec;
    stamp[2] = info.st_mtim.tv_nsec;
  } else if (!e->options.skip_bad) {
    kf_status status = kf_fail_errno(err, extent.file, "cannot be opened", errno);
    err->hint = KF_HINT_SKIP_PICTURES;
    return status;
  }
  kf_checksum_add(sum, stamp, sizeof stamp);
  return KF_OK;
}

static kf_status stamp_shards(embedding *e, kf_err *err) {
  uint64_t shards = kf_shards_count(&e->run);
  if (KF_TAKE(&e->memory, e->stamps, shards) == NULL) return kf_fail_memory(err);
  for (uint64_t s = 0; s < shards; s++) {
    uint64_t first, n = kf_shards_range(&e->run, s, &first);
    kf_checksum sum;
    kf_checksum_start(&sum);
    for (uint64_t i = 0; i < n; i++) KF_TRY(stamp_picture(e, first + i, &sum, err));
    e->stamps[s] = kf_checksum_value(&sum);
  }
  return KF_OK;
}

/* --- one shard -------------------------------------------------------------------------------- */

/* Keeps the messages of the encoder, a NUL after each. */
static void keep_note(void *notes, const char *message) {
  kf_string_add(notes, message, strlen(message) + 1);
}

/* No data set may hold a row without a direction. */
static kf_status check_row(embedding *e, uint64_t i, double norm2, unsigned char *bad,
                           kf_err *err) {
  if (norm2 > 0 && isfinite(norm2)) return KF_OK;
  static const char wrong[] = "%s: the embedding is zero or not finite";
  *bad = 1;
  if (!e->options.skip_bad)
    return kf_fail_hint(err, KF_ERR_DATA, KF_HINT_SKIP_PICTURES, wrong, e->extents[i].name);
  kf_log(e->ctx, wrong, e->extents[i].name);
  return KF_OK;
}

/* Writes row i of the current shard to `code`. */
static kf_status code_row(embedding *e, uint64_t i, unsigned char *bad, void *code, kf_err *err) {
  const kf_kernels *kernels = e->ctx->kernels;
  uint32_t dim = e->run.dim;
  float *row = e->rows + i * dim;
  double norm2 = kernels->norm2(row, dim);
  KF_TRY(check_row(e, i, norm2, bad, err));
  if (*bad != 0) return KF_OK;
  double scale = 1 / sqrt(norm2);
  for (uint32_t d = 0; e->run.normalize && d < dim; d++) row[d] = (float)((double)row[d] * scale);
  size_t fits = kf_encode_f32(kernels, kf_type_of(e->run.dtype), row, dim, code);
  if (fits == dim) return KF_OK;
  return kf_fail_file(err, e->extents[i].name,
                      "column %zu of the embedding is %g, too large for %s", fits,
                      (double)row[fits], kf_dtype_name(e->run.dtype));
}

/* Writes the rows of good pictures to `code`, one after the other. */
static kf_status code_rows(embedding *e, uint64_t first, uint64_t n, unsigned char *bad,
                           kf_err *err) {
  uint64_t size = e->run.dim * kf_type_size(kf_type_of(e->run.dtype)), kept = 0, at = 0;
  for (uint64_t i = 0; i < n; i++) {
    unsigned char *code = e->code + kept * size;
    uint64_t row = 0;
    bad[i] = 0;
    if (e->known[i] != 0) {
      kf_earlier_find(&e->earlier, e->sums[first + i], &row);
      KF_TRY(kf_earlier_read(&e->earlier, row, code, err));
    } else {
      e->sums[first + i] = e->fresh[at]; /* of the bytes that were embedded */
      bad[i] = e->options.skip_bad && e->status[at] != KF_OK;
      if (bad[i] == 0) KF_TRY(code_row(e, at, &bad[i], code, err));
      at++;
    }
    kept += bad[i] == 0;
  }
  return KF_OK;
}

/* Lists the pictures that have no row yet; returns their number. */
static uint64_t find_new(embedding *e, uint64_t first, uint64_t n) {
  uint64_t fresh = 0, row;
  for (uint64_t i = 0; i < n; i++) {
    e->known[i] = e->summed && kf_earlier_find(&e->earlier, e->sums[first + i], &row);
    if (e->known[i] == 0) e->extents[fresh++] = kf_pictures_extent(e->pictures, first + i);
  }
  return fresh;
}

static kf_status encode_shard(embedding *e, uint64_t s, uint64_t first, uint64_t n,
                              kf_string *notes) {
  kf_err *err = &e->ctx->err;
  unsigned char *bad = e->bad + first;
  uint64_t fresh = find_new(e, first, n);
  KF_TRY(kf_encode_extents(e->ctx, e->encoder, e->extents, fresh, e->rows,
                           e->options.skip_bad ? e->status : NULL, e->fresh));
  KF_TRY(code_rows(e, first, n, bad, err));
  if (notes->failed) return kf_fail_memory(err);
  kf_shard_content content = {.stamp = e->stamps[s],
                              .bad = bad,
                              .sums = e->sums + first,
                              .rows = e->code,
                              .messages = notes};
  KF_TRY(kf_shards_save(&e->shards, s, &content, err));
  e->report.reused += n - fresh;
  return KF_OK;
}

/* done: pictures, of all ranks. */
static kf_status make_shard(embedding *e, uint64_t s, uint64_t first, uint64_t n, uint64_t done) {
  kf_string notes = {0};
  kf_stage stage;
  kf_stage_begin(&stage, e->ctx, "embed", e->run.pictures);
  stage.done = done;
  stage.inside = true;
  stage.hear = keep_note;
  stage.listener = &notes;
  kf_status status = encode_shard(e, s, first, n, &notes);
  kf_stage_end(&stage);
  kf_string_clear(&notes);
  return status;
}

/* Takes a shard that an earlier run has finished. One with bad pictures is not reused when skipping
 * is off. */
static kf_status take_shard(embedding *e, uint64_t s, uint64_t first, bool *taken) {
  kf_finished shard;
  char why[KF_WHERE_SIZE];
  KF_TRY(kf_shards_find(&e->shards, s, e->stamps[s], &shard, taken, why, &e->ctx->err));
  if (why[0] != '\0') kf_log(e->ctx, "%s", why);
  if (!*taken) return KF_OK;
  *taken = shard.kept == shard.n || e->options.skip_bad;
  if (*taken) {
    memcpy(e->bad + first, shard.bad, shard.n);
    memcpy(e->sums + first, shard.sums, shard.n * sizeof *e->sums);
    e->report.resumed += shard.n;
    for (const char *m = shard.messages; m < shard.messages + shard.n_messages; m += strlen(m) + 1)
      kf_log(e->ctx, "%s", m);
  }
  kf_finished_close(&shard);
  return KF_OK;
}

static kf_status make_room(embedding *e, kf_err *err) {
  const kf_embed_run *run = &e->run;
  uint64_t room = run->shard_size < run->pictures ? run->shard_size : run->pictures,
           size = room * run->dim;
  KF_TAKE_ZERO(&e->memory, e->bad, run->pictures);
  KF_TAKE(&e->memory, e->known, room);
  KF_TAKE(&e->memory, e->fresh, room);
  KF_TAKE(&e->memory, e->extents, room);
  KF_TAKE(&e->memory, e->status, room);
  KF_TAKE(&e->memory, e->rows, size);
  e->code = kf_arena_take(&e->memory, size, kf_type_size(kf_type_of(run->dtype)));
  return e->memory.failed ? kf_fail_memory(err) : KF_OK;
}

static kf_status make_own(embedding *e, kf_range own, kf_err *err) {
  uint64_t all = e->run.pictures, done = 0, share = (own.last - own.first) * e->run.shard_size;
  KF_TRY(make_room(e, err));
  kf_share_begin(e->ctx, 0);
  for (uint64_t s = own.first; s < own.last; s++) {
    uint64_t first, n = kf_shards_range(&e->run, s, &first);
    uint64_t of_all = kf_done_by_all(e->ctx, done, share, all);
    bool taken;
    KF_TRY(kf_progress(e->ctx, "embed", of_all, all));
    KF_TRY(take_shard(e, s, first, &taken));
    if (!taken) KF_TRY(make_shard(e, s, first, n, of_all));
    e->finished++;
    done += n;
  }
  return kf_progress(e->ctx, "embed", kf_done_by_all(e->ctx, done, share, all), all);
}

/* Makes the shards of a rank; rank 0 logs the notes of all ranks, in the order of pictures. */
static kf_status make_noted(embedding *e, kf_range own, kf_err *err) {
  kf_string notes = {0};
  kf_stage stage;
  kf_stage_begin(&stage, e->ctx, NULL, 0);
  stage.hear = keep_note;
  stage.listener = &notes;
  kf_status status = make_own(e, own, err);
  kf_stage_end(&stage);
  status = kf_bring_notes(e->ctx, status, &notes);
  kf_string_clear(&notes);
  return status;
}

/* Combines the results of all ranks. */
static kf_status join_shards(embedding *e) {
  kf_ctx *ctx = e->ctx;
  uint64_t counts[] = {e->report.resumed, e->report.reused};
  kf_share_ends(&ctx->ranks, e->run.pictures, e->run.shard_size);
  KF_TRY(kf_join(ctx, KF_OK, e->bad, 1));
  kf_share_ends(&ctx->ranks, e->run.pictures, e->run.shard_size);
  KF_TRY(kf_join(ctx, KF_OK, e->sums, sizeof *e->sums));
  KF_TRY(kf_sum_u64(ctx, KF_OK, counts, 2));
  e->report.resumed = counts[0];
  e->report.reused = counts[1];
  return KF_OK;
}

/* Divides the shards among ranks. */
static kf_status make_shards(embedding *e, kf_err *err) {
  uint64_t total = e->run.pictures;
  kf_range own = kf_share_of(&e->ctx->ranks, kf_shards_count(&e->run), 1);
  KF_TRY(kf_is_shared(&e->ctx->ranks) ? make_noted(e, own, err) : make_own(e, own, err));
  KF_TRY(join_shards(e));
  for (uint64_t i = 0; i < total; i++) e->report.skipped += e->bad[i];
  e->report.rows = total - e->report.skipped;
  if (e->report.rows > 0) return kf_progress(e->ctx, "embed", total, total);
  return kf_fail(err, KF_ERR_DATA, "none of the %" PRIu64 " pictures can be read", total);
}

/* --- the file --------------------------------------------------------------------------------- */

static kf_status declare(const embedding *e, kf_stw *w, kf_err *err) {
  kf_set_layout layout = {.rows = e->report.rows,
                          .dim = e->run.dim,
                          .type = kf_type_of(e->run.dtype),
                          .labels = kf_pictures_classes(e->pictures) > 0,
                          .names = kf_pictures_names(e->pictures),
                          .sums = true,
                          .origin = kf_encoder_origin(e->encoder)};
  for (uint64_t i = 0; i < e->run.pictures; i++)
    if (e->bad[i] == 0) layout.id_bytes += strlen(kf_pictures_id(e->pictures, i));
  KF_TRY(kf_stw_format(w, "koofu.dataset", err));
  KF_TRY(kf_stw_declare_set(w, &layout, err));
  KF_TRY(kf_stw_meta_hex(w, KF_MADE_WITH, e->made_with, err));
  return kf_stw_meta_hex(w, KF_MADE_OF, e->made_of, err);
}

static kf_status copy_rows(const kf_finished *shard, unsigned char *buffer, kf_stw *w,
                           kf_err *err) {
  for (uint64_t done = 0; done < shard->rows->bytes;) {
    uint64_t left = shard->rows->bytes - done, n = left < COPY ? left : COPY;
    KF_TRY(kf_in_read(&shard->file.in, shard->rows->offset + done, buffer, n, err));
    KF_TRY(kf_stw_write(w, buffer, n, err));
    done += n;
  }
  return KF_OK;
}

static kf_status copy_shard(const embedding *e, uint64_t s, unsigned char *buffer, kf_stw *w,
                            kf_err *err) {
  kf_finished shard;
  bool found;
  char why[KF_WHERE_SIZE];
  uint64_t first, n = kf_shards_range(&e->run, s, &first);
  KF_TRY(kf_shards_find(&e->shards, s, e->stamps[s], &shard, &found, why, err));
  bool same = found && memcmp(shard.bad, e->bad + first, n) == 0;
  kf_status status =
      same ? copy_rows(&shard, buffer, w, err)
           : kf_fail(err, KF_ERR_IO, "%s: shard %" PRIu64 " is gone or damaged; run it again",
                     e->shards.folder, s);
  if (found) kf_finished_close(&shard);
  return status;
}

static kf_status copy_shards(embedding *e, kf_stw *w, kf_err *err) {
  unsigned char *buffer;
  if (KF_TAKE(&e->memory, buffer, COPY) == NULL) return kf_fail_memory(err);
  uint64_t shards = kf_shards_count(&e->run);
  for (uint64_t s = 0; s < shards; s++) {
    KF_TRY(copy_shard(e, s, buffer, w, err));
    KF_TRY(kf_progress(e->ctx, "write", s + 1, shards));
  }
  return KF_OK;
}

static kf_status write_labels(const embedding *e, kf_stw *w, kf_err *err) {
  for (uint64_t i = 0; i < e->run.pictures; i++) {
    int32_t label = kf_pictures_label(e->pictures, i);
    if (e->bad[i] == 0) KF_TRY(kf_stw_write(w, &label, sizeof label, err));
  }
  return KF_OK;
}

static kf_status write_ids(const embedding *e, bool ends, kf_stw *w, kf_err *err) {
  int64_t end = 0;
  for (uint64_t i = 0; i < e->run.pictures; i++) {
    if (e->bad[i] != 0) continue;
    const char *id = kf_pictures_id(e->pictures, i);
    size_t length = strlen(id);
    end += (int64_t)length;
    KF_TRY(ends ? kf_stw_write(w, &end, sizeof end, err) : kf_stw_write(w, id, length, err));
  }
  return KF_OK;
}

static kf_status write_sums(const embedding *e, kf_stw *w, kf_err *err) {
  for (uint64_t i = 0; i < e->run.pictures; i++)
    if (e->bad[i] == 0) KF_TRY(kf_stw_write(w, &e->sums[i], sizeof *e->sums, err));
  return KF_OK;
}

static kf_status fill(embedding *e, kf_stw *w, kf_err *err) {
  KF_TRY(declare(e, w, err));
  KF_TRY(write_ids(e, true, w, err));
  KF_TRY(write_sums(e, w, err));
  KF_TRY(copy_shards(e, w, err));
  if (kf_pictures_classes(e->pictures) > 0) KF_TRY(write_labels(e, w, err));
  return write_ids(e, false, w, err);
}

static kf_status assemble(embedding *e, const char *path, kf_err *err) {
  kf_stw *w;
  KF_TRY(kf_stw_open(e->ctx, path, false, &w, err));
  bool writes = e->ctx->ranks.rank == 0;
  return kf_stw_end(w, writes ? fill(e, w, err) : KF_OK, err);
}

/* Writes the metadata, a line for each row, if asked for. */
static kf_status write_metadata(embedding *e, kf_err *err) {
  const kf_embed_options *o = &e->options;
  if (o->metadata == NULL) return KF_OK;
  return kf_metadata_write(e->ctx, e->pictures, e->bad, o->skip_bad, o->metadata, err);
}

/* Writes the data set and its metadata: both or neither. */
static kf_status write_files(embedding *e, const char *path, kf_err *err) {
  if (e->options.metadata == NULL) return assemble(e, path, err);
  KF_TRY(kf_outputs_begin(e->ctx));
  kf_status status = assemble(e, path, err);
  if (status == KF_OK) status = write_metadata(e, err);
  if (status == KF_OK) status = kf_outputs_commit(e->ctx);
  kf_outputs_abort(e->ctx);
  return status;
}

/* Looks for rows in the file of an earlier run and, if it has any, computes the checksums of the
 * pictures. *unchanged: this run would write the same file. */
static kf_status find_earlier(embedding *e, const char *path, bool *unchanged, kf_err *err) {
  uint64_t n = e->run.pictures;
  *unchanged = false;
  if (KF_TAKE(&e->memory, e->sums, n) == NULL) return kf_fail_memory(err);
  if (e->options.resume == KF_OFF) return KF_OK;
  KF_TRY(kf_earlier_open(&e->earlier, path, e->made_with, e->made_of, e->run.dim,
                         kf_type_of(e->run.dtype), err));
  if (e->earlier.rows == NULL) return KF_OK;
  KF_TRY(kf_sum_pictures(e->ctx, e->pictures, e->sums));
  e->summed = true;
  *unchanged = e->earlier.same_list && e->earlier.n == n &&
               strcmp(e->earlier.origin.name, e->encoder->origin.name) == 0 &&
               memcmp(e->earlier.sums, e->sums, n * sizeof *e->sums) == 0;
  if (*unchanged) e->report = (kf_embed_report){.rows = n, .reused = n, .unchanged = 1};
  return KF_OK;
}

/* Removes shards left by a run that was killed after writing the file. */
static void remove_left_over(embedding *e, const char *path) {
  kf_err ignored;
  if (e->ctx->ranks.rank == 0 &&
      kf_shards_open(&e->shards, path, &e->run, false, &ignored) == KF_OK)
    kf_shards_remove(&e->shards);
}

static kf_status embed(embedding *e, const char *path, kf_err *err) {
  const kf_embed_options *o = &e->options;
  e->run = (kf_embed_run){.pictures = kf_pictures_count(e->pictures),
                          .list = list_checksum(e->pictures, true),
                          .encoder = e->encoder->image_checksum,
                          .dim = kf_encoder_dim(e->encoder),
                          .dtype = o->dtype,
                          .normalize = o->normalize == KF_ON,
                          .shard_size = o->shard > 0 ? o->shard : SHARD};
  e->made_with = settings_checksum(e);
  e->made_of = list_checksum(e->pictures, false);
  KF_TRY(kf_refuse_held(e->ctx, "kf_embed", err));
  KF_TRY(check_options(e, err));
  KF_TRY(check_output(path, err));
  if (o->metadata != NULL) KF_TRY(kf_check_output(e->ctx, o->metadata, err));
  KF_TRY(stamp_shards(e, err));
  bool unchanged;
  KF_TRY(find_earlier(e, path, &unchanged, err));
  if (unchanged) {
    remove_left_over(e, path);
    return write_metadata(e, err);
  }
  bool first = e->ctx->ranks.rank == 0; /* the rank with the lock */
  kf_status status =
      first ? kf_shards_open(&e->shards, path, &e->run, o->resume == KF_OFF, err) : KF_OK;
  KF_TRY(kf_agree_on(e->ctx, status));
  if (!first) KF_TRY(kf_shards_follow(&e->shards, path, &e->run, err));
  status = make_shards(e, err);
  if (status == KF_OK) status = write_files(e, path, err);
  bool useless = e->shards.begun && (e->finished == 0 || e->report.skipped == e->run.pictures);
  if (kf_is_shared(&e->ctx->ranks)) useless = false; /* other ranks may be at work there */
  if (first && (status == KF_OK || useless)) kf_shards_remove(&e->shards);
  return status;
}

kf_status kf_embed(kf_ctx *ctx, const kf_encoder *encoder, const kf_pictures *pictures,
                   const kf_embed_options *options, const char *path, kf_embed_report *report) {
  KF_ENTER(ctx, encoder != NULL && pictures != NULL && path != NULL);
  KF_OPTIONS(kf_embed_options, o, options);
  embedding e = {.ctx = ctx,
                 .encoder = encoder,
                 .pictures = pictures,
                 .options = o,
                 .shards = {.locked = -1},
                 .earlier = {.file = {.in = {.fd = -1}}}};
  kf_status status = embed(&e, path, err);
  kf_earlier_close(&e.earlier);
  kf_shards_close(&e.shards);
  kf_arena_free(&e.memory);
  if (status == KF_OK && report != NULL) *report = e.report;
  return status;
}
