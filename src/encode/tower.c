/* tower.c - takes rows through a tower.
 *
 * A picture is cut into patches, each of which a product turns into a row; CLIP puts another row,
 * the class token, before them. A text has one row for each token. To each row the embedding of its
 * position is added. Then, with x all rows of the batch, each layer computes
 *
 *     x += out(attention(qkv(norm_attention(x))))   within each sequence; in texts, to the left
 *     x += fc2(activation(fc1(norm_mlp(x))))
 *
 * and the embedding is projection(norm(row)) of one row of each sequence: the class token, or the
 * end of the text. SigLIP has one learnt query attend to all rows instead.
 *
 *     kf_walk_images   place_images ┐
 *     kf_walk_texts    place_text   ┴ run_layers: normalize, multiply, attend, finish_layer, …
 *
 * Skipped, without changing a bit: rows of a text after its end, which no earlier row sees; and in
 * the last layer queries and everything after the attention, except for the one row of each
 * sequence.
 *
 * Every row is computed by itself, so its bits depend neither on the rest of the batch nor on how
 * the work is shared. Without `split` one thread does all of it. With `split`, do_step divides the
 * columns of products, the heads of attention and blocks of rows among the threads of the context,
 * to reduce the latency of a single picture. Only products and attention run between the kernel's
 * begin and end, which may change how the processor treats denormals. */
#include "encode/tower.h"

#include <math.h>
#include <string.h>

#define BLOCK        16u  /* rows of a share */
#define NORM_ROWS    4u   /* rows normalised at a time, still in the cache when they are prepared */
#define HEAD_COLUMNS 256u /* of the heads processed at a time, to stay in the cache */
#define PREFETCH     (256u << 10) /* bytes of weights that are prefetched for the next product */

struct kf_walk {
  kf_ctx *ctx;
  bool split;
  size_t workers; /* 1, or the threads of the context */
  const kf_net_kernel *net;
  const kf_encoder *encoder;
  const kf_tower *tower;
  size_t width;

  /* The batch. */
  size_t n;      /* sequences */
  size_t *first; /* [n + 1] the first row of each */
  float *x;      /* [rows][width] */
  float *qkv;    /* queries, keys and values of some heads (head_rows); before, patches [][width] */
  size_t room;   /* its capacity in rows */
  unsigned char *ready;    /* [rows + 1] prepared for a product of depth width */
  unsigned char *attended; /* [rows] the same, after attention */
  /* Rows prepared for depth inner; or patches; or rows with a query; or attended rows in f32. */
  unsigned char *wide;
  float *lines; /* [workers][line] */
  size_t line;
  unsigned char *workspace; /* [workers][workspace_size], for attention */
  size_t workspace_size;

  /* The step in progress, done in shares. */
  void (*step)(kf_walk *walk, size_t i, size_t worker);
  size_t m; /* its rows */
  const kf_norm *norm;
  kf_net_product product;
  size_t shares;      /* of the product's columns */
  bool one_query;     /* attention: of one row for each sequence */
  size_t head, heads; /* attention: the heads [head, head + heads) */
  const int32_t *const *tokens;
};

static void multiply_share(kf_walk *w, size_t i, size_t worker);
static void attend(kf_walk *w, size_t i, size_t worker);

/* --- sharing --------------------------------------------------------------------------------- */

static void do_shares(kf_walk *w, size_t first, size_t n, size_t worker) {
  bool enclosed = w->step == multiply_share || w->step == attend;
  if (enclosed && w->net->begin != NULL) w->net->begin();
  for (size_t i = first; i < first + n; i++) w->step(w, i, worker);
  if (enclosed && w->net->end != NULL) w->net->end();
}

static kf_status shared_task(void *argument, size_t i, size_t worker, kf_err *err) {
  (void)err;
  do_shares(argument, i, 1, worker);
  return KF_OK;
}

/* Does shares 0 … n-1 of a step. */
static kf_status do_step(kf_walk *w, size_t n, void (*step)(kf_walk *, size_t, size_t)) {
  w->step = step;
  if (w->split) return kf_parallel(w->ctx, n, shared_task, w);
  do_shares(w, 0, n, 0);
  return KF_OK;
}

static size_t blocks(size_t rows) { return (rows + BLOCK - 1) / BLOCK; }

static float *line_of(const kf_walk *w, size_t worker) { return w->lines + worker * w->line; }

/* --- products -------------------------------------------------------------------------------- */

static size_t panels_of(size_t n) { return (n + KF_NET_PANEL - 1) / KF_NET_PANEL; }

static void multiply_share(kf_walk *w, size_t i, size_t worker) {
  (void)worker;
  kf_net_product p = w->product;
  size_t panels = panels_of(p.n);
  p.first = panels * i / w->shares * KF_NET_PANEL;
  p.end = panels * (i + 1) / w->shares * KF_NET_PANEL;
  if (p.end > p.n) p.end = p.n;
  w->net->multiply(&p);
}

/* The product of m prepared rows with a matrix; `to` says where it goes. */
static kf_status multiply(kf_walk *w, const void *x, size_t m, const kf_linear *linear,
                          kf_net_product to) {
  w->product = to;
  w->product.x = x;
  w->product.m = m;
  w->product.n = linear->n;
  w->product.k = linear->k;
  w->product.weights = linear->weights;
  w->product.bias = linear->bias;
  size_t panels = panels_of(linear->n);
  w->shares = w->workers < panels ? w->workers : panels;
  return do_step(w, w->shares, multiply_share);
}

/* Adds to a product which weights to prefetch: the first ones of the next product. */
static kf_net_product with_prefetch(const kf_walk *w, const kf_linear *next, kf_net_product to) {
  if (next == NULL) return to;
  size_t first = w->net->weights_size(KF_NET_PANEL < next->n ? KF_NET_PANEL : next->n, next->k);
  size_t all = w->net->weights_size(next->n, next->k), most = PREFETCH / first * first;
  to.next = next->weights;
  to.next_size = all < most ? all : most;
  return to;
}

/* --- rows ------------------------------------------------------------------------------------ */

/* Normalises rows of x into `ready`. */
static void norm_block(kf_walk *w, size_t i, size_t worker) {
  size_t row = i * BLOCK, end = row + BLOCK < w->m ? row + BLOCK : w->m, d = w->width;
  float *line = line_of(w, worker);
  for (; row < end; row += NORM_ROWS) {
    size_t n = end - row < NORM_ROWS ? end - row : NORM_ROWS;
    w->net->layer_norm(w->x + row * d, d, n, d, w->norm->gamma, w->norm->beta, w->tower->config.eps,
                       line, d);
    w->net->prepare(line, d, row, n, d, w->ready);
  }
}

static kf_status normalize(kf_walk *w, const kf_norm *norm, size_t m) {
  w->norm = norm;
  w->m = m;
  return do_step(w, blocks(m), norm_block);
}

/* Prepares attended rows. */
static void attended_block(kf_walk *w, size_t i, size_t worker) {
  (void)worker;
  size_t row = i * BLOCK, n = w->m - row < BLOCK ? w->m - row : BLOCK, d = w->width;
  const float *attended = (const float *)(const void *)w->wide;
  w->net->prepare(attended + row * d, d, row, n, d, w->attended);
}

/* --- attention ------------------------------------------------------------------------------- */

/* The row at which a sequence is embedded. */
static size_t pooled_row(const kf_walk *w, size_t sequence) {
  return w->tokens != NULL ? w->first[sequence + 1] - 1 : w->first[sequence];
}

/* Whether queries, keys and values of each head are stored in contiguous rows, which are read
 * faster than parts of long rows; attention then writes prepared rows. The columns of a head must
 * be whole panels. */
static bool heads_apart(const kf_walk *w) {
  return w->width / w->tower->config.heads % KF_NET_PANEL == 0;
}

/* Heads whose queries, keys and values are computed at a time, so that attention finds them in the
 * cache. Threads that share the work take all heads at once, so that each has some. */
static size_t heads_at_once(const kf_walk *w) {
  size_t heads = w->tower->config.heads, dim = w->width / heads;
  if (w->split || !heads_apart(w)) return heads;
  size_t fit = dim < HEAD_COLUMNS ? HEAD_COLUMNS / dim : 1;
  return fit < heads ? fit : heads;
}

/* n outputs of a matrix from `first` on, both multiples of a panel. */
static kf_linear part_of(const kf_walk *w, const kf_linear *linear, size_t first, size_t n) {
  const char *weights = linear->weights;
  return (kf_linear){.n = n,
                     .k = linear->k,
                     .weights = weights + w->net->weights_size(first, linear->k),
                     .bias = linear->bias != NULL ? linear->bias + first : NULL};
}

/* The address of row `row` of the queries (kind 0), keys (1) or values (2) of a head. */
static float *head_rows(const kf_walk *w, size_t kind, size_t head, size_t row) {
  size_t dim = w->width / w->tower->config.heads;
  if (!heads_apart(w)) return w->qkv + (row * 3 + kind) * w->width + head * dim;
  return w->qkv + ((kind * w->heads + head - w->head) * w->room + row) * dim;
}

static size_t queries_alone(const kf_walk *w) { return w->tower->probe != NULL ? 1 : w->n; }

/* With one query: prepares the row of each sequence that has it, or the probe, in `wide`. */
static void prepare_query(kf_walk *w, size_t sequence, size_t worker) {
  size_t d = w->width;
  const float *row = w->tower->probe;
  if (row == NULL) {
    const float *x = w->x + pooled_row(w, sequence) * d;
    w->net->layer_norm(x, d, 1, d, w->norm->gamma, w->norm->beta, w->tower->config.eps,
                       line_of(w, worker), d);
    row = line_of(w, worker);
  }
  w->net->prepare(row, d, sequence, 1, d, w->wide);
}

/* Queries (kind 0), keys (1) or values (2) of the heads of this step, or of the next. */
static kf_linear heads_of(const kf_walk *w, const kf_linear *qkv, size_t kind, bool next) {
  size_t dim = w->width / w->tower->config.heads, head = w->head + (next ? w->heads : 0);
  return part_of(w, qkv, kind * w->width + head * dim, w->heads * dim);
}

/* Computes queries, keys and values of the first m prepared rows, for the heads of this step; with
 * one query for each sequence, no others. */
static kf_status make_qkv(kf_walk *w, size_t m, const kf_layer *layer) {
  size_t heads = w->tower->config.heads, dim = w->width / heads;
  kf_net_product to = {.out = w->qkv, .stride = 3 * w->width};
  if (heads_apart(w)) to.stride = to.part = dim, to.part_step = w->room * dim;
  if (!heads_apart(w) || (w->heads == heads && !w->one_query))
    return multiply(w, w->ready, m, &layer->qkv, with_prefetch(w, &layer->out, to));
  for (size_t kind = 0; kind < 3; kind++) {
    bool alone = w->one_query && kind == 0, more = kind < 2 || w->head + w->heads < heads;
    kf_linear part = heads_of(w, &layer->qkv, kind, false);
    kf_linear next = more ? heads_of(w, &layer->qkv, (kind + 1) % 3, kind == 2) : layer->out;
    to.out = head_rows(w, kind, w->head, 0);
    KF_TRY(multiply(w, alone ? w->wide : w->ready, alone ? queries_alone(w) : m, &part,
                    with_prefetch(w, &next, to)));
  }
  return KF_OK;
}

/* One head of one sequence. With one query, the result is one row for each sequence. */
static void attend(kf_walk *w, size_t i, size_t worker) {
  size_t d = w->width, dim = d / w->tower->config.heads;
  size_t sequence = i / w->heads, head = w->head + i % w->heads;
  size_t stride = heads_apart(w) ? dim : 3 * d;
  size_t row = w->first[sequence], keys = w->first[sequence + 1] - row;
  size_t query = row, to = row;
  if (w->one_query) {
    query = w->tower->probe != NULL ? w->first[w->n] : pooled_row(w, sequence);
    if (heads_apart(w)) query = w->tower->probe != NULL ? 0 : sequence;
    to = sequence;
  }
  kf_net_attention a = {.q = head_rows(w, 0, head, query),
                        .k = head_rows(w, 1, head, row),
                        .v = head_rows(w, 2, head, row),
                        .q_stride = stride,
                        .kv_stride = stride,
                        .queries = w->one_query ? 1 : keys,
                        .keys = keys,
                        .dim = dim,
                        .scale = (float)(1 / sqrt((double)dim)),
                        .causal = w->tokens != NULL && !w->one_query,
                        .workspace = w->workspace + worker * w->workspace_size};
  if (heads_apart(w))
    a.prepared = w->attended, a.row = to, a.column = head * dim, a.depth = d;
  else
    a.out = (float *)(void *)w->wide + to * d + head * dim, a.out_stride = d;
  w->net->attention(&a);
}

/* Attention of m prepared rows; with one query, of one row for each sequence. */
static kf_status attend_all(kf_walk *w, size_t m, const kf_layer *layer, bool one_query) {
  size_t heads = w->tower->config.heads, at_once = heads_at_once(w);
  w->one_query = one_query;
  w->norm = &layer->norm_attention;
  if (one_query && heads_apart(w)) KF_TRY(do_step(w, queries_alone(w), prepare_query));
  for (w->head = 0; w->head < heads; w->head += at_once) {
    w->heads = heads - w->head < at_once ? heads - w->head : at_once;
    KF_TRY(make_qkv(w, m, layer));
    KF_TRY(do_step(w, w->n * w->heads, attend));
  }
  return KF_OK;
}

/* The rest of a layer, for m rows: the output projection, added to x or replacing it, and the two
 * products of the MLP. `next`: the matrix of the product after these. */
static kf_status finish_layer(kf_walk *w, const kf_layer *layer, size_t m, bool add,
                              const kf_linear *next) {
  kf_net_product to_x = {.out = w->x, .stride = w->width, .add = add};
  kf_net_product to_wide = {.prepared = w->wide, .activation = w->tower->config.activation};
  w->m = m;
  if (!heads_apart(w)) KF_TRY(do_step(w, blocks(m), attended_block));
  KF_TRY(multiply(w, w->attended, m, &layer->out, with_prefetch(w, &layer->fc1, to_x)));
  KF_TRY(normalize(w, &layer->norm_mlp, m));
  KF_TRY(multiply(w, w->ready, m, &layer->fc1, with_prefetch(w, &layer->fc2, to_wide)));
  to_x.add = true;
  return multiply(w, w->wide, m, &layer->fc2, with_prefetch(w, next, to_x));
}

/* Keeps one row of x for each sequence. */
static void keep_pooled(kf_walk *w) {
  for (size_t s = 0; s < w->n; s++)
    memmove(w->x + s * w->width, w->x + pooled_row(w, s) * w->width, w->width * sizeof *w->x);
}

static kf_status run_layer(kf_walk *w, const kf_layer *layer, bool last, const kf_linear *next) {
  size_t rows = w->first[w->n];
  KF_TRY(normalize(w, &layer->norm_attention, rows));
  KF_TRY(attend_all(w, rows, layer, last));
  if (last) keep_pooled(w);
  return finish_layer(w, layer, last ? w->n : rows, true, next);
}

/* --- the whole tower ------------------------------------------------------------------------- */

static void prepare_probe(kf_walk *w, size_t i, size_t worker) {
  (void)i, (void)worker;
  w->net->prepare(w->tower->probe, w->width, w->first[w->n], 1, w->width, w->ready);
}

/* SigLIP: the probe attends to every sequence. If its query is not computed alone, the probe is one
 * more row after all others. */
static kf_status run_head(kf_walk *w, float *out) {
  const kf_tower *t = w->tower;
  size_t rows = w->first[w->n], d = w->width;
  KF_TRY(normalize(w, &t->after, rows));
  if (!heads_apart(w)) KF_TRY(do_step(w, 1, prepare_probe));
  KF_TRY(attend_all(w, heads_apart(w) ? rows : rows + 1, &t->head, true));
  KF_TRY(finish_layer(w, &t->head, w->n, false, NULL));
  memcpy(out, w->x, w->n * d * sizeof *out);
  return KF_OK;
}

static kf_status run_layers(kf_walk *w, float *out) {
  const kf_tower *t = w->tower;
  bool pool = t->probe == NULL;
  for (uint32_t i = 0; i < t->config.layers; i++) {
    bool last = i + 1 == t->config.layers;
    const kf_linear *end = pool ? &t->projection : &t->head.qkv;
    KF_TRY(run_layer(w, &t->layers[i], pool && last, last ? end : &t->layers[i + 1].qkv));
  }
  if (!pool) return run_head(w, out);
  KF_TRY(normalize(w, &t->after, w->n));
  return multiply(w, w->ready, w->n, &t->projection,
                  (kf_net_product){.out = out, .stride = t->projection.n});
}

/* --- pictures -------------------------------------------------------------------------------- */

size_t kf_image_rows(const kf_encoder *encoder) {
  return kf_patches(&encoder->config.image) + (encoder->image.class_token != NULL ? 1u : 0u);
}

/* Patches, row by row, each as [3][side][side], the layout of the weights. */
void kf_walk_put_image(kf_walk *w, size_t i, const float *pixels) {
  const kf_tower_config *c = &w->tower->config;
  size_t size = c->image_size, side = c->patch_size, across = size / side;
  size_t k = w->tower->patch.k;
  float *line = line_of(w, 0);
  for (size_t patch = 0; patch < across * across; patch++) {
    const float *corner = pixels + patch / across * side * size + patch % across * side;
    for (size_t channel = 0; channel < 3; channel++)
      for (size_t y = 0; y < side; y++)
        memcpy(line + (channel * side + y) * side, corner + (channel * size + y) * size,
               side * sizeof *line);
    w->net->prepare(line, k, i * across * across + patch, 1, k, w->wide);
  }
}

/* Writes class token and patches, plus positions, to x; normalised for CLIP. */
static void place_block(kf_walk *w, size_t i, size_t worker) {
  const kf_tower *t = w->tower;
  bool clip = t->class_token != NULL;
  size_t d = w->width, row = i * BLOCK, n = w->m - row < BLOCK ? w->m - row : BLOCK;
  size_t patches = kf_patches(&t->config), length = patches + (clip ? 1u : 0u);
  float *lines = clip ? line_of(w, worker) : w->x + row * d;
  for (size_t r = row; r < row + n; r++) {
    size_t sequence = r / length, position = r % length;
    const float *from = clip && position == 0
                            ? t->class_token
                            : w->qkv + (sequence * patches + position - (clip ? 1u : 0u)) * d;
    const float *place = t->positions + position * d;
    float *line = lines + (r - row) * d;
    for (size_t j = 0; j < d; j++) line[j] = from[j] + place[j];
  }
  if (clip)
    w->net->layer_norm(lines, d, n, d, t->before.gamma, t->before.beta, t->config.eps,
                       w->x + row * d, d);
}

static kf_status place_images(kf_walk *w) {
  size_t patches = kf_patches(&w->tower->config);
  KF_TRY(multiply(w, w->wide, w->n * patches, &w->tower->patch,
                  (kf_net_product){.out = w->qkv, .stride = w->width}));
  w->m = w->first[w->n];
  return do_step(w, blocks(w->m), place_block);
}

kf_status kf_walk_images(kf_walk *w, size_t n, float *out) {
  size_t rows = kf_image_rows(w->encoder);
  w->n = n;
  for (size_t s = 0; s <= n; s++) w->first[s] = s * rows;
  KF_TRY(place_images(w));
  return run_layers(w, out);
}

/* --- texts ----------------------------------------------------------------------------------- */

static void place_text(kf_walk *w, size_t i, size_t worker) {
  (void)worker;
  const kf_tower *t = w->tower;
  size_t d = w->width, bytes = d * kf_type_size(t->tokens_type);
  for (size_t row = w->first[i]; row < w->first[i + 1]; row++) {
    size_t position = row - w->first[i];
    const unsigned char *table = t->tokens;
    const float *place = t->positions + position * d;
    float *x = w->x + row * d;
    kf_decode_f32(w->ctx->kernels, t->tokens_type, table + (size_t)w->tokens[i][position] * bytes,
                  d, x);
    for (size_t j = 0; j < d; j++) x[j] += place[j];
  }
}

kf_status kf_walk_texts(kf_walk *w, const int32_t *const *tokens, const uint32_t *lengths, size_t n,
                        float *out) {
  w->n = n;
  w->tokens = tokens;
  w->first[0] = 0;
  for (size_t s = 0; s < n; s++) w->first[s + 1] = w->first[s] + lengths[s];
  KF_TRY(do_step(w, n, place_text));
  return run_layers(w, out);
}

uint32_t kf_text_end(const kf_tower_config *config, const int32_t *tokens) {
  uint32_t at = 0;
  if (config->end == 2) { /* the first of the largest */
    for (uint32_t i = 1; i < config->context; i++)
      if (tokens[i] > tokens[at]) at = i;
    return at;
  }
  while (at < config->context && tokens[at] != config->end) at++;
  return at < config->context ? at : 0;
}

/* --- room ------------------------------------------------------------------------------------ */

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

/* Sizes come from a config or from encode.c, and products of three of them fit. */
kf_walk *kf_walk_new(kf_ctx *ctx, const kf_encoder *encoder, const kf_tower *tower, size_t rows,
                     size_t sequences, bool split, kf_arena *arena) {
  kf_walk *w;
  if (KF_TAKE_ZERO(arena, w, 1) == NULL) return NULL;
  const kf_net_kernel *net = encoder->net;
  const kf_tower_config *c = &tower->config;
  w->ctx = ctx;
  w->split = split;
  w->workers = split ? ctx->threads : 1;
  w->net = net;
  w->encoder = encoder;
  w->tower = tower;
  w->width = c->width;
  bool images = c->patch_size > 0;
  size_t d = c->width, keys = images ? kf_image_rows(encoder) : c->context;
  size_t wide = larger(net->rows_size(rows, c->inner), net->rows_size(sequences, d));
  if (!heads_apart(w)) wide = larger(wide, rows * d * sizeof(float));
  if (images) wide = larger(wide, net->rows_size(sequences * kf_patches(c), tower->patch.k));
  w->line = (larger(BLOCK * d, tower->patch.k) + 15) / 16 * 16;
  w->workspace_size = (net->attention_size(keys, d / c->heads) + 63) / 64 * 64;
  KF_TAKE(arena, w->first, sequences + 1);
  KF_TAKE(arena, w->x, rows * d);
  w->room = rows + 1; /* with the probe */
  KF_TAKE(arena, w->qkv, w->room * larger(3 * heads_at_once(w) * (d / c->heads), d));
  KF_TAKE(arena, w->ready, net->rows_size(rows + 1, d));
  KF_TAKE(arena, w->attended, net->rows_size(rows, d));
  KF_TAKE(arena, w->wide, wide);
  KF_TAKE(arena, w->lines, w->workers * w->line);
  KF_TAKE(arena, w->workspace, w->workers * w->workspace_size);
  return arena->failed ? NULL : w;
}
