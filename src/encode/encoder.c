/* encoder.c - encoders as the world sees them: loading, pictures, texts.
 *
 * The unit of work is a group of pictures or texts of some hundred rows: enough that a product with the
 * weights, which come from memory, is worth their way, and no more, since all between lies in caches. A
 * thread reads the pictures of its group, makes pixels of them and takes them through the tower with
 * room of its own; another thread meanwhile does the same with the next group. So decoding and
 * computing overlap by themselves, and nobody waits for anybody. Where there are fewer pictures than
 * would keep all threads busy, they share the work on each group instead. */
#include "encode/tower.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#define GROUP_ROWS    512u
#define TEXTS_AT_ONCE 64u /* texts that a thread takes at a time */

/* --- loading --------------------------------------------------------------------------------- */

static void describe_tower(kf_string *text, const char *name, const kf_tower_config *c) {
  char eps[32];
  if (!c->present) return;
  kf_format_f64((double)c->eps, eps);
  kf_string_addf(text,
                 "%s %" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRIu32 " %d %s %" PRIu32 " %" PRIu32
                 " %" PRIu32 " %" PRIu32 " %" PRId64 "\n",
                 name, c->width, c->inner, c->layers, c->heads, (int)c->activation, eps,
                 c->image_size, c->patch_size, c->context, c->vocabulary, c->end);
}

static void describe_preprocess(kf_string *text, const kf_preprocess *p) {
  kf_string_addf(text, "pixels %d %" PRIu32 " %" PRIu32 " %" PRIu32 " %d %d %" PRIu32 " %" PRIu32,
                 p->resize, p->shortest_edge, p->resize_width, p->resize_height, (int)p->resample,
                 p->crop, p->crop_width, p->crop_height);
  const double values[] = {p->rescale ? p->rescale_factor : 1,
                           p->mean[0],
                           p->mean[1],
                           p->mean[2],
                           p->std[0],
                           p->std[1],
                           p->std[2]};
  for (size_t i = 0; i < (p->normalize ? 7u : 1u); i++) {
    char number[32];
    kf_format_f64(values[i], number);
    kf_string_addf(text, " %s", number);
  }
}

/* Everything besides the weights that embeddings depend on. */
static kf_status hash_settings(const kf_encoder *e, kf_checksum *hash, kf_err *err) {
  kf_string text = {0};
  kf_string_addf(&text, "koofu.encoder 1 %d %d %" PRIu32 "\n", (int)e->precision,
                 (int)e->config.family, e->config.dim);
  describe_tower(&text, "image", &e->config.image);
  describe_tower(&text, "text", &e->config.text);
  if (e->config.image.present) describe_preprocess(&text, &e->preprocess);
  bool ok = !text.failed;
  if (ok) kf_checksum_add(hash, text.data, text.n);
  kf_string_clear(&text);
  return ok ? KF_OK : kf_fail_memory(err);
}

static kf_status choose_towers(kf_encoder *e, const char *folder, const kf_encoder_options *options,
                               kf_err *err) {
  if ((options->images == KF_OFF)) e->config.image.present = false;
  if ((options->text == KF_OFF)) e->config.text.present = false;
  if (e->config.image.present || e->config.text.present) return KF_OK;
  if ((options->images == KF_OFF) && (options->text == KF_OFF))
    return kf_fail(err, KF_ERR_ARG, "kf_encoder_load: neither images nor text are wanted");
  return kf_fail(err, KF_ERR_ARG, "%s: the model has no %s", folder,
                 (options->images != KF_OFF)                    ? "image tower"
                 : e->config.family == KF_FAMILY_SIGLIP ? "text tower that koofu reads (SigLIP)"
                                                        : "text tower");
}

static kf_status load_tokenizer(kf_encoder *e, const char *folder, kf_err *err) {
  KF_TRY(kf_tokenizer_load(folder, &e->tokenizer, err));
  int64_t end = e->config.text.end;
  if (end == 2 || end == kf_tokenizer_end(e->tokenizer)) return KF_OK;
  return kf_fail(err, KF_ERR_DATA,
                 "%s: the tokenizer ends a text with token %" PRId32
                 ", but config.json says eos_token_id %" PRId64,
                 folder, kf_tokenizer_end(e->tokenizer), end);
}

static kf_status load(kf_ctx *ctx, const char *folder, const kf_encoder_options *options,
                      kf_encoder *e) {
  kf_err *err = &ctx->err;
  KF_TRY(kf_config_read(folder, &e->config, err));
  KF_TRY(choose_towers(e, folder, options, err));
  e->precision = options->precision == KF_PRECISION_AUTO ? KF_PRECISION_BF16 : options->precision;
  e->net = e->precision == KF_PRECISION_F32 ? ctx->kernels->net_f32 : ctx->kernels->net_bf16;
  e->max_pixels = options->max_pixels;
  if (e->config.image.present)
    KF_TRY(kf_preprocess_read(folder, e->config.image.image_size, &e->preprocess, err));
  if (e->config.text.present) KF_TRY(load_tokenizer(e, folder, err));
  kf_checksum hash;
  kf_checksum_start(&hash);
  KF_TRY(hash_settings(e, &hash, err));
  KF_TRY(kf_towers_load(ctx, e, folder, &hash));
  e->checksum = kf_checksum_value(&hash);
  return KF_OK;
}

kf_status kf_encoder_load(kf_ctx *ctx, const char *folder, const kf_encoder_options *options,
                          kf_encoder **out) {
  KF_ENTER(ctx, folder != NULL && out != NULL);
  kf_encoder_options chosen = options != NULL ? *options : (kf_encoder_options){0};
  if (chosen.precision > KF_PRECISION_BF16 || (int)chosen.precision < 0)
    return kf_fail(err, KF_ERR_ARG, "kf_encoder_load: there is no precision %d",
                   (int)chosen.precision);
  kf_encoder *e = kf_alloc_zero(1, sizeof *e);
  if (e == NULL) return kf_fail_memory(err);
  kf_status status = load(ctx, folder, &chosen, e);
  if (status == KF_OK)
    *out = e;
  else
    kf_encoder_free(e);
  return status;
}

void kf_encoder_free(kf_encoder *encoder) {
  if (encoder == NULL) return;
  kf_tokenizer_free(encoder->tokenizer);
  kf_free(encoder->image.layers);
  kf_free(encoder->text.layers);
  kf_free(encoder->memory);
  kf_free(encoder);
}

uint32_t kf_encoder_dim(const kf_encoder *encoder) { return encoder->config.dim; }
uint32_t kf_encoder_image_size(const kf_encoder *encoder) {
  return encoder->config.image.present ? encoder->config.image.image_size : 0;
}
uint32_t kf_encoder_context(const kf_encoder *encoder) {
  return encoder->config.text.present ? encoder->config.text.context : 0;
}
kf_precision kf_encoder_precision(const kf_encoder *encoder) { return encoder->precision; }
uint64_t kf_encoder_bytes(const kf_encoder *encoder) { return encoder->bytes; }
uint64_t kf_encoder_checksum(const kf_encoder *encoder) { return encoder->checksum; }

static kf_status want_images(const kf_encoder *encoder, kf_err *err) {
  if (encoder->config.image.present) return KF_OK;
  return kf_fail(err, KF_ERR_ARG, "the encoder was loaded without an image tower");
}

static kf_status want_text(const kf_encoder *encoder, kf_err *err) {
  if (encoder->config.text.present) return KF_OK;
  return kf_fail(err, KF_ERR_ARG, "the encoder was loaded without a text tower");
}

/* --- one picture ----------------------------------------------------------------------------- */

/* A file to pixels[3][size][size]. */
static kf_status read_picture(const kf_encoder *e, const char *path, float *pixels, kf_err *err) {
  kf_image image;
  KF_TRY(kf_image_read(path, e->max_pixels, &image, err));
  kf_status status = kf_preprocess_run(&e->preprocess, &image, path, pixels, err);
  kf_image_clear(&image);
  return status;
}

kf_status kf_preprocess_image(kf_ctx *ctx, const kf_encoder *encoder, const char *path,
                              float *pixels) {
  KF_ENTER(ctx, encoder != NULL && path != NULL && pixels != NULL);
  KF_TRY(want_images(encoder, err));
  return read_picture(encoder, path, pixels, err);
}

/* --- groups ---------------------------------------------------------------------------------- */

typedef struct job {
  kf_ctx *ctx;
  const kf_encoder *e;
  const char *what;
  uint64_t n;
  size_t group; /* pictures or texts of a task */
  bool split;
  kf_walk **walks; /* [threads] made when they are needed */
  float *out;
  atomic_uint_fast64_t done;
  uint64_t reported; /* by the caller's thread */
  /* Pictures. */
  const char *const *paths; /* NULL: pixels */
  const float *pixels;
  kf_status *status;
  char **messages; /* [n] of pictures that cannot be read; NULL without status */
  float **buffers; /* [threads] pixels of a picture; `split`: of each in the group */
  /* Texts. */
  const char *const *texts; /* NULL: tokens */
  const int32_t *tokens;
} job;

/* As many in a task as fill a group, in tasks of equal size, so that no thread is left behind. */
static size_t group_size(uint64_t n, size_t threads, size_t most) {
  uint64_t wave = (uint64_t)threads * most;
  uint64_t tasks = (n + wave - 1) / wave * threads;
  return (size_t)((n + tasks - 1) / tasks);
}

static kf_status make_job(job *j, kf_err *err) {
  j->walks = kf_alloc_zero(j->ctx->threads, sizeof(kf_walk *));
  j->buffers = kf_alloc_zero(j->ctx->threads, sizeof(float *));
  if (j->status != NULL) j->messages = kf_alloc_zero(j->n, sizeof(char *));
  bool ok = j->walks != NULL && j->buffers != NULL && (j->status == NULL || j->messages != NULL);
  return ok ? KF_OK : kf_fail_memory(err);
}

static void clear_job(job *j) {
  for (unsigned t = 0; j->walks != NULL && t < j->ctx->threads; t++) kf_walk_free(j->walks[t]);
  for (unsigned t = 0; j->buffers != NULL && t < j->ctx->threads; t++) kf_free(j->buffers[t]);
  for (uint64_t i = 0; j->messages != NULL && i < j->n; i++) kf_free(j->messages[i]);
  kf_free(j->walks);
  kf_free(j->buffers);
  kf_free(j->messages);
}

/* Reports `more` finished ones, if this is the caller's own thread. */
static kf_status report(job *j, size_t more, size_t worker, kf_err *err) {
  uint64_t done = atomic_fetch_add(&j->done, more) + more;
  if (worker != 0) return KF_OK;
  j->reported = done;
  kf_status status = kf_progress(j->ctx, j->what, done, j->n);
  if (status != KF_OK && err != &j->ctx->err) *err = j->ctx->err;
  return status;
}

/* Runs the tasks: by all threads at once, or one after the other with all threads on each. */
static kf_status run_tasks(job *j, kf_task_fn task) {
  size_t tasks = (size_t)((j->n + j->group - 1) / j->group);
  if (!j->split) KF_TRY(kf_parallel(j->ctx, tasks, task, j));
  for (size_t i = 0; j->split && i < tasks; i++) KF_TRY(task(j, i, 0, &j->ctx->err));
  return j->reported == j->n ? KF_OK : kf_progress(j->ctx, j->what, j->n, j->n);
}

/* Keeps what is wrong with picture i, if the caller wants to go on without it. */
static kf_status note_bad(job *j, uint64_t i, kf_status status, kf_err *err) {
  if (j->status == NULL || (status != KF_ERR_DATA && status != KF_ERR_IO)) return status;
  j->status[i] = status;
  j->messages[i] = kf_strdup(err->message);
  return j->messages[i] != NULL ? KF_OK : kf_fail_memory(err);
}

static kf_status not_finite(const job *j, uint64_t i, kf_err *err) {
  if (j->paths != NULL)
    return kf_fail(err, KF_ERR_DATA, "%s: the embedding is not finite", j->paths[i]);
  return kf_fail(err, KF_ERR_DATA, "%s %" PRIu64 ": the embedding is not finite",
                 j->pixels != NULL ? "picture" : "text", i);
}

/* Weights and pixels that are finite can still overflow on the way. */
static kf_status check_rows(job *j, uint64_t first, size_t n, kf_err *err) {
  uint32_t dim = j->e->config.dim;
  for (uint64_t i = first; i < first + n; i++) {
    float *row = j->out + i * dim;
    double norm2 = j->ctx->kernels->norm2(row, dim);
    if (norm2 - norm2 == 0) continue;
    KF_TRY(note_bad(j, i, not_finite(j, i, err), err));
    memset(row, 0, dim * sizeof *row);
  }
  return KF_OK;
}

/* --- pictures -------------------------------------------------------------------------------- */

static kf_status image_walk(job *j, size_t worker, kf_walk **out, kf_err *err) {
  size_t rows = j->group * kf_image_rows(j->e);
  if (j->walks[worker] == NULL)
    KF_TRY(
        kf_walk_new(j->ctx, j->e, &j->e->image, rows, j->group, j->split, &j->walks[worker], err));
  *out = j->walks[worker];
  return KF_OK;
}

static size_t pixel_count(const kf_encoder *e) {
  return (size_t)3 * e->config.image.image_size * e->config.image.image_size;
}

/* The pixels of picture i: the caller's, or what is read into a buffer. *out is NULL where it cannot be
 * read and that is no failure. */
static kf_status fetch_picture(job *j, uint64_t i, size_t buffer, const float **out, kf_err *err) {
  size_t n = pixel_count(j->e);
  *out = NULL;
  if (j->paths == NULL) {
    *out = j->pixels + i * n;
    return KF_OK;
  }
  if (j->buffers[buffer] == NULL) j->buffers[buffer] = kf_alloc(n, sizeof(float));
  if (j->buffers[buffer] == NULL) return kf_fail_memory(err);
  kf_status status = read_picture(j->e, j->paths[i], j->buffers[buffer], err);
  if (status != KF_OK) return note_bad(j, i, status, err);
  *out = j->buffers[buffer];
  return KF_OK;
}

/* With all threads on one group, each picture of it is read by one of them first. */
typedef struct fetching {
  job *j;
  uint64_t first;
  const float **pixels; /* [n] */
} fetching;

static kf_status fetch_task(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)worker;
  fetching *f = argument;
  return fetch_picture(f->j, f->first + i, i, &f->pixels[i], err);
}

/* Puts pictures [first, first + n) into the group, those that can be read, `kept` in number;
 * pixels[i] is NULL for the others. */
static kf_status put_group(job *j, kf_walk *walk, uint64_t first, size_t n, size_t worker,
                           const float **pixels, size_t *kept, kf_err *err) {
  if (j->split)
    KF_TRY(
        kf_parallel(j->ctx, n, fetch_task, &(fetching){.j = j, .first = first, .pixels = pixels}));
  *kept = 0;
  for (size_t i = 0; i < n; i++) {
    if (!j->split) KF_TRY(fetch_picture(j, first + i, worker, &pixels[i], err));
    if (pixels[i] != NULL) kf_walk_put_image(walk, (*kept)++, pixels[i]);
  }
  return KF_OK;
}

/* Moves rows that were computed one after the other to the pictures they belong to, the last first. */
static void spread_rows(float *out, size_t dim, const float *const *pixels, size_t n, size_t kept) {
  for (size_t i = n; i-- > 0;) {
    if (pixels[i] == NULL)
      memset(out + i * dim, 0, dim * sizeof *out);
    else if (--kept != i)
      memcpy(out + i * dim, out + kept * dim, dim * sizeof *out);
  }
}

static kf_status encode_group(job *j, uint64_t first, size_t n, size_t worker, const float **pixels,
                              kf_err *err) {
  float *out = j->out + first * j->e->config.dim;
  kf_walk *walk;
  size_t kept;
  KF_TRY(image_walk(j, worker, &walk, err));
  KF_TRY(put_group(j, walk, first, n, worker, pixels, &kept, err));
  if (kept > 0) KF_TRY(kf_walk_images(walk, kept, out));
  spread_rows(out, j->e->config.dim, (const float *const *)pixels, n, kept);
  return check_rows(j, first, n, err);
}

static kf_status image_task(void *argument, size_t i, size_t worker, kf_err *err) {
  job *j = argument;
  uint64_t first = (uint64_t)i * j->group;
  size_t n = j->n - first < j->group ? (size_t)(j->n - first) : j->group;
  const float **pixels = kf_alloc(n, sizeof *pixels);
  if (pixels == NULL) return kf_fail_memory(err);
  kf_status status = encode_group(j, first, n, worker, pixels, err);
  kf_free(pixels);
  return status == KF_OK ? report(j, n, worker, err) : status;
}

static kf_status encode_images(job *j, kf_err *err) {
  j->what = "images";
  if (j->n == 0) return KF_OK;
  size_t threads = j->ctx->threads, rows = kf_image_rows(j->e);
  size_t most = rows < GROUP_ROWS ? (GROUP_ROWS + rows / 2) / rows : 1;
  j->split = threads > 1 && 2 * j->n <= threads;
  j->group = group_size(j->n, j->split ? 1 : threads, most);
  kf_status status = make_job(j, err);
  if (status == KF_OK) status = run_tasks(j, image_task);
  for (uint64_t i = 0; status == KF_OK && j->messages != NULL && i < j->n; i++)
    if (j->messages[i] != NULL) kf_log(j->ctx, "%s", j->messages[i]);
  clear_job(j);
  return status;
}

kf_status kf_encode_images(kf_ctx *ctx, const kf_encoder *encoder, const char *const *paths,
                           uint64_t n, float *out, kf_status *status) {
  KF_ENTER(ctx, encoder != NULL && (n == 0 || (paths != NULL && out != NULL)));
  KF_TRY(want_images(encoder, err));
  for (uint64_t i = 0; i < n; i++) {
    if (paths[i] == NULL)
      return kf_fail(err, KF_ERR_ARG, "kf_encode_images: path %" PRIu64 " is NULL", i);
    if (status != NULL) status[i] = KF_OK;
  }
  job j = {.ctx = ctx, .e = encoder, .n = n, .out = out, .paths = paths, .status = status};
  return encode_images(&j, err);
}

kf_status kf_encode_pixels(kf_ctx *ctx, const kf_encoder *encoder, const float *pixels, uint64_t n,
                           float *out) {
  KF_ENTER(ctx, encoder != NULL && (n == 0 || (pixels != NULL && out != NULL)));
  KF_TRY(want_images(encoder, err));
  job j = {.ctx = ctx, .e = encoder, .n = n, .out = out, .pixels = pixels};
  return encode_images(&j, err);
}

/* --- texts ----------------------------------------------------------------------------------- */

kf_status kf_tokenize(kf_ctx *ctx, const kf_encoder *encoder, const char *text, int32_t *tokens,
                      uint32_t *n) {
  KF_ENTER(ctx, encoder != NULL && text != NULL && tokens != NULL && n != NULL);
  KF_TRY(want_text(encoder, err));
  return kf_tokenize_text(encoder->tokenizer, text, strlen(text), encoder->config.text.context,
                          "the text", tokens, n, err);
}

/* The tokens of a task: [group][context], where each text begins, and its length up to its end. */
typedef struct text_group {
  int32_t *tokens;
  const int32_t **begin;
  uint32_t *lengths;
} text_group;

static kf_status fetch_text(const job *j, uint64_t i, size_t place, const text_group *g,
                            kf_err *err) {
  const kf_tower_config *c = &j->e->config.text;
  g->begin[place] = g->tokens + place * c->context;
  if (j->texts == NULL) {
    g->begin[place] = j->tokens + i * c->context;
  } else {
    char name[40];
    uint32_t n;
    snprintf(name, sizeof name, "text %" PRIu64, i);
    KF_TRY(kf_tokenize_text(j->e->tokenizer, j->texts[i], strlen(j->texts[i]), c->context, name,
                            g->tokens + place * c->context, &n, err));
  }
  g->lengths[place] = kf_text_end(c, g->begin[place]) + 1;
  for (uint32_t t = 0; t < g->lengths[place]; t++) {
    int32_t token = g->begin[place][t];
    if (token < 0 || (uint32_t)token >= c->vocabulary) {
      return kf_fail(err, KF_ERR_DATA,
                     "text %" PRIu64 ": token %" PRId32
                     " is not below the model's vocab_size %" PRIu32,
                     i, token, c->vocabulary);
    }
  }
  return KF_OK;
}

/* Takes n texts through the tower, as many at a time as there is room for. */
static kf_status walk_texts(kf_walk *walk, const text_group *g, size_t n, size_t room, float *out,
                            size_t dim) {
  for (size_t first = 0, end; first < n; first = end) {
    size_t rows = 0;
    for (end = first; end < n && rows + g->lengths[end] <= room; end++) rows += g->lengths[end];
    KF_TRY(
        kf_walk_texts(walk, g->begin + first, g->lengths + first, end - first, out + first * dim));
  }
  return KF_OK;
}

static kf_status encode_text_group(job *j, uint64_t first, size_t n, size_t worker,
                                   const text_group *g, kf_err *err) {
  size_t context = j->e->config.text.context, dim = j->e->config.dim;
  size_t all = j->group * context, room = all < GROUP_ROWS ? all : GROUP_ROWS;
  if (room < context) room = context;
  if (j->walks[worker] == NULL)
    KF_TRY(
        kf_walk_new(j->ctx, j->e, &j->e->text, room, j->group, j->split, &j->walks[worker], err));
  for (size_t i = 0; i < n; i++) KF_TRY(fetch_text(j, first + i, i, g, err));
  KF_TRY(walk_texts(j->walks[worker], g, n, room, j->out + first * dim, dim));
  return check_rows(j, first, n, err);
}

static kf_status text_task(void *argument, size_t i, size_t worker, kf_err *err) {
  job *j = argument;
  uint64_t first = (uint64_t)i * j->group;
  size_t n = j->n - first < j->group ? (size_t)(j->n - first) : j->group;
  text_group g = {.tokens = kf_alloc(n * j->e->config.text.context, sizeof *g.tokens),
                  .begin = kf_alloc(n, sizeof *g.begin),
                  .lengths = kf_alloc(n, sizeof *g.lengths)};
  kf_status status = g.tokens != NULL && g.begin != NULL && g.lengths != NULL
                         ? encode_text_group(j, first, n, worker, &g, err)
                         : kf_fail_memory(err);
  kf_free(g.tokens);
  kf_free(g.begin);
  kf_free(g.lengths);
  return status == KF_OK ? report(j, n, worker, err) : status;
}

static kf_status encode_texts(job *j, kf_err *err) {
  j->what = "texts";
  if (j->n == 0) return KF_OK;
  size_t threads = j->ctx->threads;
  j->split = threads > 1 && 2 * j->n <= threads;
  j->group = group_size(j->n, j->split ? 1 : threads, TEXTS_AT_ONCE);
  kf_status status = make_job(j, err);
  if (status == KF_OK) status = run_tasks(j, text_task);
  clear_job(j);
  return status;
}

kf_status kf_encode_texts(kf_ctx *ctx, const kf_encoder *encoder, const char *const *texts,
                          uint64_t n, float *out) {
  KF_ENTER(ctx, encoder != NULL && (n == 0 || (texts != NULL && out != NULL)));
  KF_TRY(want_text(encoder, err));
  for (uint64_t i = 0; i < n; i++)
    if (texts[i] == NULL)
      return kf_fail(err, KF_ERR_ARG, "kf_encode_texts: text %" PRIu64 " is NULL", i);
  job j = {.ctx = ctx, .e = encoder, .n = n, .out = out, .texts = texts};
  return encode_texts(&j, err);
}

kf_status kf_encode_tokens(kf_ctx *ctx, const kf_encoder *encoder, const int32_t *tokens,
                           uint64_t n, float *out) {
  KF_ENTER(ctx, encoder != NULL && (n == 0 || (tokens != NULL && out != NULL)));
  KF_TRY(want_text(encoder, err));
  job j = {.ctx = ctx, .e = encoder, .n = n, .out = out, .tokens = tokens};
  return encode_texts(&j, err);
}
