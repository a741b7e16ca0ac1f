/* encode.c - pictures and texts to embeddings.
 *
 *     kf_encode_images   encode: tasks of a batch each; image_task: read_picture (image.c,
 *                        preprocess.c) for each picture, then the tower (tower.c)
 *     kf_encode_texts    encode; text_task: tokens (tokenizer.c), then the tower
 *
 * The unit of work is a batch of pictures or texts with a few hundred rows: enough to amortise
 * reading the weights from memory, and few enough for everything else to stay in the caches. A
 * thread decodes and preprocesses the pictures of its batch and takes them through the tower in its
 * own workspace, while other threads work on other batches. So decoding and computing overlap, and
 * no thread waits. If there are too few pictures to keep all threads busy, the threads share the
 * work on each batch instead (`split`). */
#include "encode/tower.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#define BATCH_ROWS    512u
#define TEXTS_AT_ONCE 64u /* in a batch, at most */

/* Fails if the encoder lacks a tower; which: "an image" or "a text". */
static kf_status want(const kf_tower_config *tower, const char *which, kf_err *err) {
  if (tower->present) return KF_OK;
  return kf_fail(err, KF_ERR_ARG, "the encoder was loaded without %s tower", which);
}

/* --- one picture ----------------------------------------------------------------------------- */

/* Reads a file into pixels[3][size][size]. */
static kf_status read_picture(kf_ctx *ctx, const kf_encoder *e, const kf_extent *from,
                              float *pixels, uint64_t *sum, kf_err *err) {
  kf_image image;
  KF_TRY(kf_image_read_sum(from, e->max_pixels, &ctx->pictures, &image, sum, err));
  kf_status status = kf_preprocess_run(&e->preprocess, &image, from->name, pixels, err);
  kf_image_clear(&image);
  return status;
}

/* The same for a picture in memory, number i of the call. */
static kf_status take_picture(kf_ctx *ctx, const kf_encoder *e, const kf_image_bytes *p, uint64_t i,
                              float *pixels, kf_err *err) {
  char name[40];
  snprintf(name, sizeof name, "picture %" PRIu64, i);
  kf_image image = {.width = p->width, .height = p->height, .rgb = (uint8_t *)(uintptr_t)p->bytes};
  if (p->width != 0 || p->height != 0) {
    KF_TRY(kf_image_check(&image, e->max_pixels, name, err));
    return kf_preprocess_run(&e->preprocess, &image, name, pixels, err);
  }
  KF_TRY(kf_image_decode_within(p->bytes, (size_t)p->n, e->max_pixels, &ctx->pictures, name, &image,
                                err));
  kf_status status = kf_preprocess_run(&e->preprocess, &image, name, pixels, err);
  kf_image_clear(&image);
  return status;
}

kf_status kf_preprocess_image(kf_ctx *ctx, const kf_encoder *encoder, const char *path,
                              float *pixels) {
  KF_ENTER(ctx, encoder != NULL && path != NULL && pixels != NULL);
  KF_TRY(want(&encoder->config.image, "an image", err));
  kf_extent extent = kf_extent_file(path);
  return read_picture(ctx, encoder, &extent, pixels, NULL, err);
}

/* --- batches ---------------------------------------------------------------------------------- */

typedef struct workspace {
  kf_walk *walk;
  float *buffer;         /* pixels of a picture in a file; `split`: of each in the batch */
  const float **pixels;  /* [batch] of each picture; NULL: it cannot be read */
  int32_t *tokens;       /* [batch][context] */
  const int32_t **begin; /* [batch] the tokens of each text */
  uint32_t *lengths;     /* [batch] tokens up to the end of each text */
} workspace;

typedef struct encoding {
  kf_ctx *ctx;
  const kf_encoder *e;
  const kf_tower *tower;
  /* One of these. */
  const kf_extent *extents; /* of pictures in files */
  const kf_image_bytes *pictures;
  const float *pixels;
  const char *const *texts;
  const int32_t *tokens;
  uint64_t n; /* pictures or texts */
  float *out;
  kf_status *status; /* as in kf_encode_images */
  char **messages;   /* [n] of pictures that cannot be read; NULL without status */
  uint64_t *sums;    /* [n] of the files of pictures; NULL: not wanted */
  size_t batch;      /* pictures or texts of a task */
  size_t rows;       /* of a batch, at most */
  bool split;
  kf_arena memory;
  workspace *workspaces; /* [workers] */
  atomic_uint_fast64_t done;
} encoding;

static bool of_images(const encoding *j) { return j->tower == &j->e->image; }

/* Pictures or texts of a task: at most `most`, so that tasks have equal sizes and threads end
 * together. */
static size_t batch_size(uint64_t n, size_t threads, size_t most) {
  uint64_t wave = (uint64_t)threads * most;
  uint64_t tasks = (n + wave - 1) / wave * threads;
  return (size_t)((n + tasks - 1) / tasks);
}

static size_t pixel_count(const kf_encoder *e) {
  return (size_t)3 * e->config.image.image_size * e->config.image.image_size;
}

static kf_status make_workspaces(encoding *j, size_t workers, kf_err *err) {
  kf_arena *a = &j->memory;
  size_t n = j->batch;
  if (j->status != NULL) KF_TAKE_ZERO(a, j->messages, j->n);
  KF_TAKE_ZERO(a, j->workspaces, workers);
  for (size_t i = 0; !a->failed && i < workers; i++) {
    workspace *w = &j->workspaces[i];
    w->walk = kf_walk_new(j->ctx, j->e, j->tower, j->rows, n, j->split, a);
    if (j->extents != NULL || j->pictures != NULL)
      KF_TAKE(a, w->buffer, (j->split ? n : 1) * pixel_count(j->e));
    if (of_images(j)) KF_TAKE(a, w->pixels, n);
    if (j->texts != NULL) KF_TAKE(a, w->tokens, n * j->tower->config.context);
    if (!of_images(j)) {
      KF_TAKE(a, w->begin, n);
      KF_TAKE(a, w->lengths, n);
    }
  }
  return a->failed ? kf_fail_memory(err) : KF_OK;
}

/* Runs the tasks in parallel or, with `split`, one after the other with all threads on each. */
static kf_status run_tasks(encoding *j, size_t workers, size_t tasks, kf_task_fn task,
                           kf_err *err) {
  KF_TRY(make_workspaces(j, workers, err));
  if (!j->split) KF_TRY(kf_parallel_limited(j->ctx, workers, tasks, task, j));
  for (size_t i = 0; j->split && i < tasks; i++) KF_TRY(task(j, i, 0, err));
  return kf_progress(j->ctx, of_images(j) ? "images" : "texts", j->n, j->n);
}

/* Encodes everything, at most `most` pictures or texts to a batch. */
static kf_status encode(encoding *j, size_t most, kf_task_fn task, kf_err *err) {
  if (j->n == 0) return KF_OK;
  size_t threads = j->ctx->threads;
  j->split = threads > 1 && 2 * j->n <= threads;
  j->batch = batch_size(j->n, j->split ? 1 : threads, most);
  j->rows = j->batch * (of_images(j) ? kf_image_rows(j->e) : j->tower->config.context);
  if (!of_images(j) && j->rows > BATCH_ROWS) /* text_task takes as many texts as fit */
    j->rows = BATCH_ROWS > j->tower->config.context ? BATCH_ROWS : j->tower->config.context;
  size_t tasks = (size_t)((j->n + j->batch - 1) / j->batch);
  kf_status status = run_tasks(j,
                               j->split          ? 1
                               : tasks < threads ? tasks
                                                 : threads,
                               tasks, task, err);
  for (uint64_t i = 0; j->messages != NULL && i < j->n; i++) {
    if (status == KF_OK && j->messages[i] != NULL) kf_log(j->ctx, "%s", j->messages[i]);
    kf_free(j->messages[i]);
  }
  kf_arena_free(&j->memory);
  return status;
}

/* The pictures or texts of task i, from *first on. */
static size_t batch_of(const encoding *j, size_t i, uint64_t *first) {
  *first = (uint64_t)i * j->batch;
  return j->n - *first < j->batch ? (size_t)(j->n - *first) : j->batch;
}

/* Keeps the error of picture i if the caller skips bad pictures. */
static kf_status note_bad(encoding *j, uint64_t i, kf_status status, kf_err *err) {
  if (j->status == NULL || (status != KF_ERR_DATA && status != KF_ERR_IO)) return status;
  j->status[i] = status;
  j->messages[i] = kf_strdup(err->message);
  return j->messages[i] != NULL ? KF_OK : kf_fail_memory(err);
}

static kf_status not_finite(const encoding *j, uint64_t i, kf_err *err) {
  if (j->extents != NULL)
    return kf_fail_file(err, j->extents[i].name, "the embedding is not finite");
  return kf_fail(err, KF_ERR_DATA, "%s %" PRIu64 ": the embedding is not finite",
                 of_images(j) ? "picture" : "text", i);
}

/* Checks the rows of a batch, since even finite weights and pixels may overflow, and reports
 * progress. */
static kf_status finish_batch(encoding *j, uint64_t first, size_t n, size_t worker, kf_err *err) {
  uint32_t dim = j->e->config.dim;
  for (uint64_t i = first; i < first + n; i++) {
    float *row = j->out + i * dim;
    double norm2 = j->ctx->kernels->norm2(row, dim);
    if (norm2 - norm2 == 0) continue;
    KF_TRY(note_bad(j, i, not_finite(j, i, err), err));
    memset(row, 0, dim * sizeof *row);
  }
  uint64_t done = atomic_fetch_add(&j->done, n) + n;
  return kf_task_progress(j->ctx, worker, of_images(j) ? "images" : "texts", done, j->n, err);
}

/* --- pictures -------------------------------------------------------------------------------- */

/* The pixels of picture i: the caller's, or read into the buffer. *out is NULL for a bad picture
 * that is skipped. */
static kf_status fetch_picture(encoding *j, uint64_t i, float *buffer, const float **out,
                               kf_err *err) {
  *out = NULL;
  if (j->pixels != NULL) {
    *out = j->pixels + i * pixel_count(j->e);
    return KF_OK;
  }
  uint64_t *sum = j->sums != NULL ? &j->sums[i] : NULL;
  kf_status status = j->extents != NULL
                         ? read_picture(j->ctx, j->e, &j->extents[i], buffer, sum, err)
                         : take_picture(j->ctx, j->e, &j->pictures[i], i, buffer, err);
  if (status != KF_OK) return note_bad(j, i, status, err);
  *out = buffer;
  return KF_OK;
}

/* With `split`, the threads first read the pictures of the batch in parallel. */
typedef struct fetching {
  encoding *j;
  uint64_t first;
  const workspace *to;
} fetching;

static kf_status fetch_task(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  const fetching *f = argument;
  float *buffer = f->to->buffer != NULL ? f->to->buffer + i * pixel_count(f->j->e) : NULL;
  return fetch_picture(f->j, f->first + i, buffer, &f->to->pixels[i], err);
}

/* Puts the readable pictures of [first, first + n) into the walk; *kept: how many. pixels[i] is
 * NULL for the others. */
static kf_status put_batch(encoding *j, const workspace *w, uint64_t first, size_t n, size_t *kept,
                           kf_err *err) {
  if (j->split)
    KF_TRY(kf_parallel(j->ctx, n, fetch_task, &(fetching){.j = j, .first = first, .to = w}));
  *kept = 0;
  for (size_t i = 0; i < n; i++) {
    if (!j->split) KF_TRY(fetch_picture(j, first + i, w->buffer, &w->pixels[i], err));
    if (w->pixels[i] != NULL) kf_walk_put_image(w->walk, (*kept)++, w->pixels[i]);
  }
  return KF_OK;
}

/* Moves the rows of readable pictures to their places, from the last to the first. */
static void spread_rows(float *out, size_t dim, const float *const *pixels, size_t n, size_t kept) {
  for (size_t i = n; i-- > 0;) {
    if (pixels[i] == NULL)
      memset(out + i * dim, 0, dim * sizeof *out);
    else if (--kept != i)
      memcpy(out + i * dim, out + kept * dim, dim * sizeof *out);
  }
}

static kf_status image_task(void *argument, size_t i, size_t worker, kf_err *err) {
  encoding *j = argument;
  const workspace *w = &j->workspaces[worker];
  uint64_t first;
  size_t kept, n = batch_of(j, i, &first);
  float *out = j->out + first * j->e->config.dim;
  KF_TRY(put_batch(j, w, first, n, &kept, err));
  if (kept > 0) KF_TRY(kf_walk_images(w->walk, kept, out));
  spread_rows(out, j->e->config.dim, (const float *const *)w->pixels, n, kept);
  return finish_batch(j, first, n, worker, err);
}

static kf_status encode_images(encoding *j, kf_err *err) {
  KF_TRY(want(&j->e->config.image, "an image", err));
  size_t rows = kf_image_rows(j->e);
  j->tower = &j->e->image;
  for (uint64_t i = 0; j->status != NULL && i < j->n; i++) j->status[i] = KF_OK;
  return encode(j, rows < BATCH_ROWS ? (BATCH_ROWS + rows / 2) / rows : 1, image_task, err);
}

kf_status kf_encode_images(kf_ctx *ctx, const kf_encoder *encoder, const char *const *paths,
                           uint64_t n, float *out, kf_status *status) {
  KF_ENTER(ctx, encoder != NULL && (n == 0 || (paths != NULL && out != NULL)));
  for (uint64_t i = 0; i < n; i++)
    if (paths[i] == NULL)
      return kf_fail(err, KF_ERR_ARG, "kf_encode_images: path %" PRIu64 " is NULL", i);
  kf_extent *extents = kf_alloc(n, sizeof *extents);
  if (extents == NULL) return kf_fail_memory(err);
  for (uint64_t i = 0; i < n; i++) extents[i] = kf_extent_file(paths[i]);
  encoding j = {.ctx = ctx, .e = encoder, .n = n, .out = out, .extents = extents, .status = status};
  kf_status result = encode_images(&j, err);
  kf_free(extents);
  return result;
}

kf_status kf_encode_extents(kf_ctx *ctx, const kf_encoder *encoder, const kf_extent *extents,
                            uint64_t n, float *out, kf_status *status, uint64_t *sums) {
  KF_ENTER(ctx, encoder != NULL && (n == 0 || (extents != NULL && out != NULL)));
  encoding j = {.ctx = ctx,
                .e = encoder,
                .n = n,
                .out = out,
                .extents = extents,
                .status = status,
                .sums = sums};
  kf_status result = encode_images(&j, err);
  bool unreadable = result == KF_ERR_DATA || result == KF_ERR_IO;
  if (unreadable && status == NULL && err->hint == KF_HINT_NONE) err->hint = KF_HINT_SKIP_PICTURES;
  return result;
}

kf_status kf_encode_image_bytes(kf_ctx *ctx, const kf_encoder *encoder,
                                const kf_image_bytes *pictures, uint64_t n, float *out,
                                kf_status *status) {
  KF_ENTER(ctx, encoder != NULL && (n == 0 || (pictures != NULL && out != NULL)));
  for (uint64_t i = 0; i < n; i++) {
    const kf_image_bytes *p = &pictures[i];
    KF_TRY(kf_check_reserved(p->reserved, sizeof p->reserved, __func__, err));
    if (p->bytes == NULL ||
        ((p->width != 0 || p->height != 0) && p->n != (uint64_t)3 * p->width * p->height))
      return kf_fail(
          err, KF_ERR_ARG,
          "kf_encode_image_bytes: picture %" PRIu64 " has no bytes, or not 3 for each pixel", i);
  }
  encoding j = {
      .ctx = ctx, .e = encoder, .n = n, .out = out, .pictures = pictures, .status = status};
  return encode_images(&j, err);
}

kf_status kf_encode_pixels(kf_ctx *ctx, const kf_encoder *encoder, const float *pixels, uint64_t n,
                           float *out) {
  KF_ENTER(ctx, encoder != NULL && (n == 0 || (pixels != NULL && out != NULL)));
  encoding j = {.ctx = ctx, .e = encoder, .n = n, .out = out, .pixels = pixels};
  return encode_images(&j, err);
}

/* --- texts ----------------------------------------------------------------------------------- */

kf_status kf_tokenize(kf_ctx *ctx, const kf_encoder *encoder, const char *text, int32_t *tokens,
                      uint32_t *n) {
  KF_ENTER(ctx, encoder != NULL && text != NULL && tokens != NULL && n != NULL);
  KF_TRY(want(&encoder->config.text, "a text", err));
  return kf_tokenize_text(encoder->tokenizer, text, strlen(text), encoder->config.text.context,
                          "the text", tokens, n, err);
}

/* Puts text i into the batch. */
static kf_status fetch_text(const encoding *j, uint64_t i, size_t place, const workspace *w,
                            kf_err *err) {
  const kf_tower_config *c = &j->tower->config;
  if (j->texts == NULL) {
    w->begin[place] = j->tokens + i * c->context;
  } else {
    char name[40];
    uint32_t n;
    int32_t *tokens = w->tokens + place * c->context;
    snprintf(name, sizeof name, "text %" PRIu64, i);
    KF_TRY(kf_tokenize_text(j->e->tokenizer, j->texts[i], strlen(j->texts[i]), c->context, name,
                            tokens, &n, err));
    w->begin[place] = tokens;
  }
  w->lengths[place] = kf_text_end(c, w->begin[place]) + 1;
  for (uint32_t t = 0; t < w->lengths[place]; t++) {
    int32_t token = w->begin[place][t];
    if (token < 0 || (uint32_t)token >= c->vocabulary)
      return kf_fail(err, KF_ERR_DATA,
                     "text %" PRIu64 ": token %" PRId32
                     " is not below the model's vocab_size %" PRIu32,
                     i, token, c->vocabulary);
  }
  return KF_OK;
}

/* Takes the texts of a batch through the tower, as many at a time as fit in the workspace. */
static kf_status text_task(void *argument, size_t i, size_t worker, kf_err *err) {
  encoding *j = argument;
  const workspace *w = &j->workspaces[worker];
  uint64_t start;
  size_t n = batch_of(j, i, &start), dim = j->e->config.dim;
  for (size_t k = 0; k < n; k++) KF_TRY(fetch_text(j, start + k, k, w, err));
  for (size_t first = 0, end; first < n; first = end) {
    size_t rows = 0;
    for (end = first; end < n && rows + w->lengths[end] <= j->rows; end++) rows += w->lengths[end];
    KF_TRY(kf_walk_texts(w->walk, w->begin + first, w->lengths + first, end - first,
                         j->out + (start + first) * dim));
  }
  return finish_batch(j, start, n, worker, err);
}

static kf_status encode_texts(encoding *j, kf_err *err) {
  KF_TRY(want(&j->e->config.text, "a text", err));
  j->tower = &j->e->text;
  return encode(j, TEXTS_AT_ONCE, text_task, err);
}

kf_status kf_encode_texts(kf_ctx *ctx, const kf_encoder *encoder, const char *const *texts,
                          uint64_t n, float *out) {
  KF_ENTER(ctx, encoder != NULL && (n == 0 || (texts != NULL && out != NULL)));
  for (uint64_t i = 0; i < n; i++)
    if (texts[i] == NULL)
      return kf_fail(err, KF_ERR_ARG, "kf_encode_texts: text %" PRIu64 " is NULL", i);
  encoding j = {.ctx = ctx, .e = encoder, .n = n, .out = out, .texts = texts};
  return encode_texts(&j, err);
}

kf_status kf_encode_tokens(kf_ctx *ctx, const kf_encoder *encoder, const int32_t *tokens,
                           uint64_t n, float *out) {
  KF_ENTER(ctx, encoder != NULL && (n == 0 || (tokens != NULL && out != NULL)));
  encoding j = {.ctx = ctx, .e = encoder, .n = n, .out = out, .tokens = tokens};
  return encode_texts(&j, err);
}
