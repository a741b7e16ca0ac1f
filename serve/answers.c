/* answers.c - encoding, classifying and searching, and the answers as JSON. Scores are written so
 * that they read back as the same numbers: an answer is, to the bit, that of the command line. */
#include "server.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- encoding --------------------------------------------------------------------------------- */

static bool is_text(const sv_input *in, uint64_t i) { return in->texts && in->texts[i]; }

/* All pictures, or all texts, of several requests, for one call of the library. */
typedef struct batch {
  kf_image_bytes *pictures; /* [n] */
  const char **texts;
  float *rows; /* [n][dim] */
  kf_status *status;
  uint64_t n;
} batch;

static bool batch_make(batch *b, uint64_t n, uint32_t dim) {
  *b = (batch){.pictures = calloc(n, sizeof *b->pictures),
               .texts = malloc(n * sizeof *b->texts),
               .rows = calloc(n * dim, sizeof *b->rows),
               .status = calloc(n, sizeof *b->status)};
  return b->pictures && b->texts && b->rows && b->status;
}

static void batch_clear(batch *b) {
  free(b->pictures);
  free(b->texts);
  free(b->rows);
  free(b->status);
}

static void gather(batch *b, const sv_request *first, bool text) {
  b->n = 0;
  for (const sv_request *r = first; r; r = r->next)
    for (uint64_t i = 0; i < r->in.n; i++) {
      if (is_text(&r->in, i) != text) continue;
      if (text)
        b->texts[b->n++] = r->in.texts[i];
      else
        b->pictures[b->n++] = r->in.pictures[i];
    }
}

/* Encodes a bad picture again, alone, to get its own message for the client. */
static void fail_picture(sv_request *r, kf_ctx *ctx, uint64_t i) {
  const kf_encoder *encoder = r->server->encoder;
  kf_status status = kf_encode_image_bytes(ctx, encoder, &r->in.pictures[i], 1,
                                           r->in.rows + i * kf_encoder_dim(encoder), NULL);
  const char *message = kf_errmsg(ctx), *colon = strstr(message, ": ");
  char number[40];
  snprintf(number, sizeof number, "picture %llu", (unsigned long long)i);
  const char *name = r->in.n_files > 0 && r->in.files[i] ? r->in.files[i] : number;
  if (status == KF_ERR_DATA)
    sv_fail(r, 422, "%s: %s%s", name, colon ? colon + 2 : message,
            kf_errhint(ctx) == KF_HINT_MAX_PIXELS ? "; the server's --max-pixels raises the limit"
                                                  : "");
  else
    sv_fail(r, 503, "%s could not be encoded; try again later", name);
}

/* Hands the rows of a batch back to the requests. */
static void scatter(const batch *b, sv_request *first, bool text, kf_ctx *ctx) {
  uint32_t dim = kf_encoder_dim(first->server->encoder);
  uint64_t at = 0;
  for (sv_request *r = first; r; r = r->next)
    for (uint64_t i = 0; i < r->in.n; i++) {
      if (is_text(&r->in, i) != text) continue;
      if (r->stage != SV_DONE)
        memcpy(r->in.rows + i * dim, b->rows + at * dim, dim * sizeof *b->rows);
      if (!text && b->status[at] != KF_OK && r->stage != SV_DONE) fail_picture(r, ctx, i);
      at++;
    }
}

static kf_status encode(batch *b, sv_request *first, bool text, kf_ctx *ctx) {
  sv_metrics *m = &first->server->metrics;
  const kf_encoder *encoder = first->server->encoder;
  gather(b, first, text);
  if (b->n == 0) return KF_OK;
  kf_status status =
      text ? kf_encode_texts(ctx, encoder, b->texts, b->n, b->rows)
           : kf_encode_image_bytes(ctx, encoder, b->pictures, b->n, b->rows, b->status);
  if (status != KF_OK) return status;
  scatter(b, first, text, ctx);
  atomic_fetch_add(text ? &m->texts : &m->pictures, b->n);
  if (!text) atomic_fetch_add(&m->picture_batches, 1);
  return KF_OK;
}

/* The mean that is subtracted from embedded texts; computed once, by the encoder's lane. */
static kf_status find_text_mean(sv_server *s, kf_ctx *ctx) {
  if (kf_encoder_context(s->encoder) == 0 || atomic_load(&s->text_mean_known)) return KF_OK;
  kf_status status = kf_encoder_text_mean(ctx, s->encoder, s->text_mean);
  if (status == KF_OK) atomic_store(&s->text_mean_known, 1);
  return status;
}

static void fail_all(sv_request *first, kf_ctx *ctx, kf_status status) {
  for (sv_request *r = first; r; r = r->next)
    if (r->stage != SV_DONE) sv_fail_status(r, ctx, status);
}

void sv_encode(sv_request *first, kf_ctx *ctx) {
  uint32_t dim = kf_encoder_dim(first->server->encoder);
  uint64_t n = 0;
  for (sv_request *r = first; r; r = r->next) {
    n += r->in.n;
    r->in.rows = sv_take(&r->arena, r->in.n * dim, sizeof *r->in.rows);
    if (!r->in.rows) sv_fail_memory(r);
  }
  batch b;
  kf_status status = batch_make(&b, n, dim) ? encode(&b, first, false, ctx) : KF_ERR_MEM;
  if (status == KF_OK) status = encode(&b, first, true, ctx);
  if (status == KF_OK) status = find_text_mean(first->server, ctx);
  if (status != KF_OK) fail_all(first, ctx, status);
  batch_clear(&b);
  for (sv_request *r = first; r; r = r->next)
    if (r->stage != SV_DONE) r->stage = SV_WORK;
}

/* Embedded text is offset from pictures, so its mean is replaced by that of the model's training
 * rows. */
static void shift_text(const sv_request *r, float *row) {
  const double *own = r->server->text_mean, *mean = kf_model_mean(r->world->model);
  uint32_t dim = kf_model_dim_in(r->world->model);
  double length = 0;
  for (uint32_t i = 0; i < dim; i++) length += (double)row[i] * row[i];
  length = sqrt(length);
  if (!(length > 0)) return;
  for (uint32_t i = 0; i < dim; i++) row[i] = (float)(row[i] / length - own[i] + mean[i]);
}

static void shift_texts(sv_request *r) {
  uint32_t dim = kf_model_dim_in(r->world->model);
  if (!kf_model_normalized(r->world->model)) return;
  for (uint64_t i = 0; i < r->in.n; i++)
    if (is_text(&r->in, i)) shift_text(r, r->in.rows + i * dim);
}

/* The model must take the rows of the encoder. */
static bool fits_model(sv_request *r) {
  const sv_input *in = &r->in;
  if (in->kind != SV_PICTURES && in->kind != SV_TEXTS) return true;
  uint32_t dim = kf_encoder_dim(r->server->encoder), wanted = kf_model_dim_in(r->world->model);
  if (dim == wanted) return true;
  return sv_fail(r, 422, "the encoder has %u dimensions, the model takes %u", dim, wanted);
}

/* --- classify --------------------------------------------------------------------------------- */

typedef struct ranking {
  uint32_t finds;                 /* classes per row */
  int32_t *classes;               /* [n][finds] */
  double *scores, *probabilities; /* the latter NULL: the model has no temperature */
} ranking;

static kf_status classify(sv_request *r, kf_ctx *ctx, uint32_t top, ranking *f) {
  const sv_input *in = &r->in;
  const kf_classifier *classifier;
  kf_status status = sv_world_classifier(r->world, ctx, top, &classifier, &f->finds);
  if (status != KF_OK) return status;
  uint64_t n = in->n * f->finds;
  f->classes = sv_take(&r->arena, n, sizeof *f->classes);
  f->scores = sv_take(&r->arena, n, sizeof *f->scores);
  f->probabilities =
      r->world->probabilities ? sv_take(&r->arena, n, sizeof *f->probabilities) : NULL;
  if (!f->classes || !f->scores || (r->world->probabilities && !f->probabilities))
    return KF_ERR_MEM;
  atomic_fetch_add(&r->server->metrics.rows, in->n);
  return f->probabilities
             ? kf_classifier_probabilities(ctx, classifier, in->rows, in->n, f->classes, f->scores,
                                           f->probabilities)
             : kf_classifier_classify(ctx, classifier, in->rows, in->n, f->classes, f->scores);
}

static void put_answer(sv_request *r, const ranking *f, uint64_t i) {
  const kf_model *model = r->world->model;
  sv_text *t = &r->out;
  uint64_t first = i * f->finds;
  double share;
  kf_model_reject(model, &share);
  sv_json_open(t, NULL, '{');
  sv_json_open(t, "classes", '[');
  for (uint64_t at = first; at < first + r->in.top; at++) {
    const char *name = kf_model_class_name(model, (uint32_t)f->classes[at]);
    sv_json_open(t, NULL, '{');
    sv_json_class(t, "class", name, f->classes[at]);
    sv_put_name(t, r->world, (uint32_t)f->classes[at]);
    sv_json_real(t, "score", f->scores[at]);
    f->probabilities ? sv_json_real(t, "probability", f->probabilities[at])
                     : sv_json_null(t, "probability");
    sv_json_bool(t, "added", r->world->n_added > 0 && name && sv_world_added(r->world, name));
    sv_json_close(t, '}');
  }
  sv_json_close(t, ']');
  if (f->finds > 1)
    sv_json_real(t, "margin", fabs(f->scores[first] - f->scores[first + 1]));
  else
    sv_json_null(t, "margin");
  sv_json_bool(t, "unknown", share > 0 && !kf_model_knows(model, f->scores[first]));
  sv_json_close(t, '}');
}

void sv_work_classify(sv_request *r, kf_ctx *ctx) {
  ranking f;
  if (!fits_model(r)) return;
  shift_texts(r);
  kf_status status = classify(r, ctx, r->in.top < 2 ? 2 : r->in.top, &f);
  if (status != KF_OK) {
    status == KF_ERR_MEM ? sv_fail_memory(r) : sv_fail_status(r, ctx, status);
    return;
  }
  sv_text *t = &r->out;
  sv_json_open(t, NULL, '{');
  sv_json_open(t, "results", '[');
  for (uint64_t i = 0; i < r->in.n; i++) put_answer(r, &f, i);
  sv_json_close(t, ']');
  sv_json_string(t, "space", "koofu");
  sv_json_real(t, "ms", round(1e5 * (sv_now() - r->begun)) / 100);
  sv_put_command(r, sv_classify_command);
  sv_answer_json(r, 200);
}

/* --- search ----------------------------------------------------------------------------------- */

static const kf_gallery *gallery_of(const sv_request *r) {
  return r->in.raw ? r->world->shelf->raw : r->world->shelf->koofu;
}

bool sv_same_search(const sv_request *a, const sv_request *b) {
  if (a->route->work != sv_work_search || b->route->work != sv_work_search ||
      a->world->shelf != b->world->shelf)
    return false;
  bool numbers = a->in.kind == SV_ROW_NUMBERS || b->in.kind == SV_ROW_NUMBERS;
  return !numbers && a->in.raw == b->in.raw && a->in.k == b->in.k &&
         (a->in.kind == SV_TEXTS) == (b->in.kind == SV_TEXTS) &&
         a->in.n + b->in.n <= SV_MAX_PICTURES;
}

/* The answers of a search. */
typedef struct neighbours {
  int64_t *rows; /* [n][k] */
  double *scores;
} neighbours;

static bool take_neighbours(sv_request *r, neighbours *out) {
  uint64_t n = r->in.n * r->in.k;
  out->rows = sv_take(&r->arena, n, sizeof *out->rows);
  out->scores = sv_take(&r->arena, n, sizeof *out->scores);
  if (out->rows && out->scores) return true;
  return sv_fail_memory(r);
}

static kf_search_options search_options(const sv_request *r) {
  bool shift = r->in.kind == SV_TEXTS && kf_gallery_mapped(gallery_of(r));
  return (kf_search_options){.text_mean = shift ? r->server->text_mean : NULL};
}

static void put_row(sv_request *r, uint64_t row) {
  const sv_shelf *shelf = r->world->shelf;
  sv_text *t = &r->out;
  int32_t label = kf_gallery_label(shelf->any, row);
  char image[64];
  sv_json_count(t, "row", row);
  sv_json_string(t, "id", sv_shelf_id(shelf, row));
  const char *name = label >= 0 ? kf_gallery_class_name(shelf->any, (uint32_t)label) : NULL;
  sv_json_class(t, "label", name, label);
  snprintf(image, sizeof image, "/v1/images/%llu", (unsigned long long)row);
  sv_json_string(t, "image", sv_has_images(r->server) ? image : NULL);
}

/* The class with the most votes; in a tie, the one with the nearest member. */
static int32_t vote(const kf_gallery *gallery, const int64_t *rows, uint32_t k) {
  int32_t best = KF_LABEL_NONE;
  uint32_t most = 0;
  for (uint32_t i = 0; i < k; i++) {
    int32_t label = kf_gallery_label(gallery, (uint64_t)rows[i]);
    uint32_t votes = 0;
    for (uint32_t j = i; j < k && label >= 0; j++)
      votes += kf_gallery_label(gallery, (uint64_t)rows[j]) == label;
    if (votes <= most) continue;
    most = votes;
    best = label;
  }
  return best;
}

static void put_vote(sv_request *r, const int64_t *rows) {
  const kf_gallery *gallery = r->world->shelf->any;
  int32_t label = vote(gallery, rows, r->in.k);
  const char *name = label >= 0 ? kf_gallery_class_name(gallery, (uint32_t)label) : NULL;
  sv_json_class(&r->out, "vote", name, label);
}

static void put_neighbours(sv_request *r, const neighbours *found, uint64_t i) {
  sv_text *t = &r->out;
  uint64_t first = i * r->in.k;
  sv_json_open(t, NULL, '{');
  if (r->in.kind == SV_ROW_NUMBERS) {
    sv_json_open(t, "query", '{');
    put_row(r, r->in.numbers[i]);
    sv_json_close(t, '}');
  } else {
    sv_json_null(t, "query");
  }
  sv_json_open(t, "neighbours", '[');
  for (uint64_t at = first; at < first + r->in.k; at++) {
    sv_json_open(t, NULL, '{');
    put_row(r, (uint64_t)found->rows[at]);
    sv_json_real(t, "score", found->scores[at]);
    sv_json_close(t, '}');
  }
  sv_json_close(t, ']');
  put_vote(r, found->rows + first);
  sv_json_close(t, '}');
}

static void print_search(sv_request *r, const neighbours *found) {
  sv_text *t = &r->out;
  sv_json_open(t, NULL, '{');
  sv_json_open(t, "results", '[');
  for (uint64_t i = 0; i < r->in.n; i++) put_neighbours(r, found, i);
  sv_json_close(t, ']');
  sv_json_string(t, "space", r->in.raw ? "raw" : "koofu");
  sv_json_string(t, "metric", kf_metric_name(kf_gallery_metric(gallery_of(r))));
  sv_json_real(t, "ms", round(1e5 * (sv_now() - r->begun)) / 100);
  sv_put_command(r, sv_search_command);
  sv_answer_json(r, 200);
}

static kf_status search_numbers(sv_request *r, kf_ctx *ctx, neighbours *found) {
  kf_status status = KF_OK;
  for (uint64_t i = 0; status == KF_OK && i < r->in.n; i++)
    status = kf_gallery_search_itself(ctx, gallery_of(r), r->in.numbers[i], 1, r->in.k,
                                      found->rows + i * r->in.k, found->scores + i * r->in.k, NULL);
  return status;
}

void sv_work_search(sv_request *r, kf_ctx *ctx) {
  neighbours found;
  kf_search_options options = search_options(r);
  if (!fits_model(r) || !take_neighbours(r, &found)) return;
  atomic_fetch_add(&r->server->metrics.searches, r->in.n);
  atomic_fetch_add(&r->server->metrics.search_batches, 1);
  kf_status status = r->in.kind == SV_ROW_NUMBERS
                         ? search_numbers(r, ctx, &found)
                         : kf_gallery_search(ctx, gallery_of(r), r->in.rows, r->in.n, r->in.k,
                                             &options, found.rows, found.scores, NULL);
  if (status != KF_OK)
    sv_fail_status(r, ctx, status);
  else
    print_search(r, &found);
}

/* On failure nothing is answered: one bad row fails the call for all, so the requests then run one
 * by one. */
static void search_batch(sv_request *first, kf_ctx *ctx, uint64_t n, float *rows, neighbours *all) {
  uint32_t dim = kf_model_dim_in(first->world->model), k = first->in.k;
  kf_search_options options = search_options(first);
  uint64_t at = 0;
  for (sv_request *r = first; r; r = r->next) {
    memcpy(rows + at * dim, r->in.rows, r->in.n * dim * sizeof *rows);
    at += r->in.n;
  }
  if (kf_gallery_search(ctx, gallery_of(first), rows, n, k, &options, all->rows, all->scores,
                        NULL) != KF_OK)
    return;
  atomic_fetch_add(&first->server->metrics.searches, n);
  atomic_fetch_add(&first->server->metrics.search_batches, 1);
  at = 0;
  for (sv_request *r = first; r; r = r->next) {
    neighbours own = {all->rows + at * k, all->scores + at * k};
    print_search(r, &own);
    at += r->in.n;
  }
}

void sv_search_together(sv_request *first, kf_ctx *ctx) {
  uint64_t n = 0, k = first->in.k;
  for (sv_request *r = first; r; r = r->next) {
    if (!fits_model(r)) return; /* each reports it alone */
    n += r->in.n;
  }
  uint64_t values = n * k;
  sv_arena *arena = &first->arena;
  float *rows = sv_take(arena, n, kf_model_dim_in(first->world->model) * sizeof *rows);
  neighbours all = {sv_take(arena, values, sizeof *all.rows),
                    sv_take(arena, values, sizeof *all.scores)};
  if (rows && all.rows && all.scores) search_batch(first, ctx, n, rows, &all);
  sv_give(arena, rows);
  sv_give(arena, all.rows);
  sv_give(arena, all.scores);
}

/* --- embeddings ------------------------------------------------------------------------------- */

/* Maps the rows, keeps the requested dimensions and scales rows to unit length again. */
static bool map_rows(sv_request *r, kf_ctx *ctx, float **out, uint32_t *dim) {
  const kf_model *model = r->world->model;
  uint32_t all = kf_model_dim_out(model), cut = r->in.dimensions ? r->in.dimensions : all;
  float *mapped = sv_take(&r->arena, r->in.n * all, sizeof *mapped);
  if (!mapped) return sv_fail_memory(r);
  shift_texts(r);
  kf_status status = kf_transform(ctx, model, r->in.rows, r->in.n, NULL, mapped);
  if (status != KF_OK) return sv_fail_status(r, ctx, status);
  for (uint64_t i = 0; cut < all && i < r->in.n; i++) {
    double length = 0;
    memmove(mapped + i * cut, mapped + i * all, cut * sizeof *mapped);
    for (uint32_t d = 0; d < cut; d++) length += (double)mapped[i * cut + d] * mapped[i * cut + d];
    length = kf_model_normalized(model) && length > 0 ? sqrt(length) : 1;
    for (uint32_t d = 0; d < cut; d++) mapped[i * cut + d] = (float)(mapped[i * cut + d] / length);
  }
  *out = mapped;
  *dim = cut;
  return true;
}

static uint64_t count_tokens(sv_request *r, kf_ctx *ctx) {
  uint32_t room = kf_encoder_context(r->server->encoder), n;
  int32_t *tokens = room ? sv_take(&r->arena, room, sizeof *tokens) : NULL;
  uint64_t all = 0;
  for (uint64_t i = 0; tokens && i < r->in.n; i++)
    if (is_text(&r->in, i) &&
        kf_tokenize(ctx, r->server->encoder, r->in.texts[i], tokens, &n) == KF_OK)
      all += n;
  return all;
}

static void put_embedding(sv_request *r, const float *row, uint32_t dim, uint64_t i) {
  sv_text *t = &r->out;
  sv_json_open(t, NULL, '{');
  sv_json_string(t, "object", "embedding");
  sv_json_count(t, "index", i);
  if (r->in.base64) {
    sv_json_base64(t, "embedding", row, dim * sizeof *row);
  } else {
    sv_json_open(t, "embedding", '[');
    for (uint32_t d = 0; d < dim; d++) sv_json_float(t, row[d]);
    sv_json_close(t, ']');
  }
  sv_json_close(t, '}');
}

void sv_work_embeddings(sv_request *r, kf_ctx *ctx) {
  sv_text *t = &r->out;
  float *rows = r->in.rows;
  uint32_t dim = kf_encoder_dim(r->server->encoder);
  if (!r->in.raw && !map_rows(r, ctx, &rows, &dim)) return;
  sv_json_open(t, NULL, '{');
  sv_json_string(t, "object", "list");
  sv_json_open(t, "data", '[');
  for (uint64_t i = 0; i < r->in.n; i++) put_embedding(r, rows + i * dim, dim, i);
  sv_json_close(t, ']');
  sv_json_string(t, "model", kf_origin_name(kf_encoder_origin(r->server->encoder)));
  uint64_t tokens = count_tokens(r, ctx);
  sv_json_open(t, "usage", '{');
  sv_json_count(t, "prompt_tokens", tokens);
  sv_json_count(t, "total_tokens", tokens);
  sv_json_close(t, '}');
  sv_answer_json(r, 200);
}
