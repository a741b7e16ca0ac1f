/* test_tower.c - whole towers with random weights: against the formulas in f64, and the same to the
 * bit for any batch, number of threads and instruction set. The heads of the golden models
 * (test_encoder.c) are smaller than a panel; the sizes of real ones, which attention handles
 * separately and a few at a time, are tested here. */
#include "test.h"

#include "encode/tower.h"

#include <math.h>

enum { LAYERS = 2, PICTURE = 12, PATCH = 4, PATCHES = 9, PIXELS = 3 * PICTURE * PICTURE, DIM = 24 };
enum { PICTURES = 24, DIFFERENT = 3 }; /* the first ones again and again; 9 or 10 rows each */

typedef struct shape {
  uint32_t width, heads, inner;
  bool probe; /* SigLIP */
} shape;

/* Heads of one panel, of two in two steps, and of less than one. */
static const shape shapes[] = {
    {64, 2, 100, false}, {64, 2, 100, true}, {320, 5, 70, false},
    {320, 5, 70, true},  {40, 2, 50, false}, {40, 2, 50, true},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

/* --- models ---------------------------------------------------------------------------------- */

/* A matrix as packed, and as it is. */
typedef struct matrix {
  kf_linear packed;
  const float *w;
} matrix;

typedef struct layer {
  kf_norm norm_attention, norm_mlp;
  matrix qkv, out, fc1, fc2;
} layer;

typedef struct model {
  kf_encoder e;
  kf_arena memory;
  matrix patch, projection;
  layer layers[LAYERS], head;
} model;

static float *numbers(model *m, size_t n, double around, double scale, uint64_t *seed) {
  float *x;
  assert_non_null(KF_TAKE(&m->memory, x, n));
  for (size_t i = 0; i < n; i++) x[i] = (float)(around + scale * test_uniform(seed));
  return x;
}

static matrix make_matrix(model *m, size_t n, size_t k, uint64_t *seed) {
  const kf_net_kernel *net = m->e.net;
  unsigned char *packed;
  assert_non_null(KF_TAKE(&m->memory, packed, net->weights_size(n, k)));
  matrix a = {.w = numbers(m, n * k, 0, 1.7 / sqrt((double)k), seed)};
  for (size_t j = 0; j < n; j += KF_NET_PANEL)
    net->pack(a.w + j * k, n, k, j, n - j < KF_NET_PANEL ? n - j : KF_NET_PANEL, packed);
  a.packed = (kf_linear){.n = n, .k = k, .weights = packed, .bias = numbers(m, n, 0, 0.3, seed)};
  return a;
}

static kf_norm make_norm(model *m, size_t width, uint64_t *seed) {
  const float *gamma = numbers(m, width, 1, 0.3, seed);
  return (kf_norm){.gamma = gamma, .beta = numbers(m, width, 0, 0.3, seed)};
}

static layer make_layer(model *m, const shape *s, uint64_t *seed) {
  layer l = {.norm_attention = make_norm(m, s->width, seed),
             .norm_mlp = make_norm(m, s->width, seed)};
  l.qkv = make_matrix(m, (size_t)3 * s->width, s->width, seed);
  l.out = make_matrix(m, s->width, s->width, seed);
  l.fc1 = make_matrix(m, s->inner, s->width, seed);
  l.fc2 = make_matrix(m, s->width, s->inner, seed);
  return l;
}

static kf_layer packed_layer(const layer *l) {
  return (kf_layer){.norm_attention = l->norm_attention,
                    .norm_mlp = l->norm_mlp,
                    .qkv = l->qkv.packed,
                    .out = l->out.packed,
                    .fc1 = l->fc1.packed,
                    .fc2 = l->fc2.packed};
}

/* The same numbers for every kernel. */
static model *make_model(const shape *s, const kf_net_kernel *net) {
  uint64_t seed = 5;
  model *m = calloc(1, sizeof *m);
  assert_non_null(m);
  size_t d = s->width, rows = PATCHES + (s->probe ? 0 : 1);
  m->e.net = net;
  m->e.config = (kf_encoder_config){.family = s->probe ? KF_FAMILY_SIGLIP : KF_FAMILY_CLIP,
                                    .dim = s->probe ? s->width : DIM};
  m->e.config.image = (kf_tower_config){.present = true,
                                        .width = s->width,
                                        .inner = s->inner,
                                        .layers = LAYERS,
                                        .heads = s->heads,
                                        .activation = KF_ACT_QUICK_GELU,
                                        .eps = 1e-5f,
                                        .image_size = PICTURE,
                                        .patch_size = PATCH};
  kf_tower *t = &m->e.image;
  t->config = m->e.config.image;
  m->patch = make_matrix(m, d, (size_t)3 * PATCH * PATCH, &seed);
  m->projection = make_matrix(m, DIM, d, &seed);
  assert_non_null(KF_TAKE(&m->memory, t->layers, LAYERS));
  for (int i = 0; i < LAYERS; i++) {
    m->layers[i] = make_layer(m, s, &seed);
    t->layers[i] = packed_layer(&m->layers[i]);
  }
  t->positions = numbers(m, rows * d, 0, 1, &seed);
  t->patch = m->patch.packed;
  t->before = make_norm(m, d, &seed);
  t->after = make_norm(m, d, &seed);
  t->projection = m->projection.packed;
  const float *vector = numbers(m, d, 0, 1, &seed);
  *(s->probe ? &t->probe : &t->class_token) = vector;
  m->head = make_layer(m, s, &seed);
  t->head = packed_layer(&m->head);
  return m;
}

static void free_model(model *m) {
  kf_arena_free(&m->memory);
  free(m);
}

/* --- in f64 ---------------------------------------------------------------------------------- */

enum { MOST_ROWS = PATCHES + 1, MOST_WIDTH = 320 };

/* out[rows][n] = x[rows][k] . w^T + bias */
static void multiply(const matrix *a, const double *x, size_t rows, double *out) {
  size_t n = a->packed.n, k = a->packed.k;
  for (size_t i = 0; i < rows; i++)
    for (size_t j = 0; j < n; j++) {
      double sum = (double)a->packed.bias[j];
      for (size_t c = 0; c < k; c++) sum += x[i * k + c] * (double)a->w[j * k + c];
      out[i * n + j] = sum;
    }
}

static void normalize(const kf_norm *norm, const double *x, size_t rows, size_t d, double *out) {
  for (size_t i = 0; i < rows; i++, x += d, out += d) {
    double mean = 0, variance = 0;
    for (size_t c = 0; c < d; c++) mean += x[c] / (double)d;
    for (size_t c = 0; c < d; c++) variance += (x[c] - mean) * (x[c] - mean) / (double)d;
    for (size_t c = 0; c < d; c++)
      out[c] =
          (x[c] - mean) / sqrt(variance + 1e-5) * (double)norm->gamma[c] + (double)norm->beta[c];
  }
}

/* One query row among the keys and values of all rows of qkv[rows][3 * d]. */
static void attend(const double *query, const double *qkv, size_t rows, size_t d, size_t heads,
                   double *out) {
  size_t dim = d / heads;
  for (size_t h = 0; h < heads; h++) {
    double weight[MOST_ROWS], sum = 0;
    for (size_t j = 0; j < rows; j++) {
      double score = 0;
      for (size_t c = h * dim; c < (h + 1) * dim; c++) score += query[c] * qkv[j * 3 * d + d + c];
      sum += weight[j] = exp(score / sqrt((double)dim));
    }
    for (size_t c = h * dim; c < (h + 1) * dim; c++) {
      out[c] = 0;
      for (size_t j = 0; j < rows; j++) out[c] += weight[j] / sum * qkv[j * 3 * d + 2 * d + c];
    }
  }
}

/* x[rows][d] += MLP of it. */
static void add_mlp(const layer *l, double *x, size_t rows, size_t d) {
  static double normal[MOST_ROWS * MOST_WIDTH], inner[MOST_ROWS * 100],
      more[MOST_ROWS * MOST_WIDTH];
  normalize(&l->norm_mlp, x, rows, d, normal);
  multiply(&l->fc1, normal, rows, inner);
  for (size_t i = 0; i < rows * l->fc1.packed.n; i++) inner[i] /= 1 + exp(-1.702 * inner[i]);
  multiply(&l->fc2, inner, rows, more);
  for (size_t i = 0; i < rows * d; i++) x[i] += more[i];
}

static void run_layer(const layer *l, double *x, size_t rows, size_t d, size_t heads, bool causal) {
  static double normal[MOST_ROWS * MOST_WIDTH], qkv[3 * MOST_ROWS * MOST_WIDTH];
  static double attended[MOST_ROWS * MOST_WIDTH], more[MOST_ROWS * MOST_WIDTH];
  normalize(&l->norm_attention, x, rows, d, normal);
  multiply(&l->qkv, normal, rows, qkv);
  for (size_t i = 0; i < rows; i++)
    attend(qkv + i * 3 * d, qkv, causal ? i + 1 : rows, d, heads, attended + i * d);
  multiply(&l->out, attended, rows, more);
  for (size_t i = 0; i < rows * d; i++) x[i] += more[i];
  add_mlp(l, x, rows, d);
}

/* The patches of a picture, the class token before them, and positions. */
static void place(const model *m, const float *pixels, double *x) {
  const kf_tower *t = &m->e.image;
  size_t d = t->config.width, token = t->class_token != NULL ? 1 : 0;
  for (size_t p = 0; p < PATCHES; p++) {
    double values[3 * PATCH * PATCH];
    for (size_t i = 0; i < 3 * PATCH * PATCH; i++) {
      size_t channel = i / (PATCH * PATCH), y = p / 3 * PATCH + i / PATCH % PATCH;
      values[i] = (double)pixels[(channel * PICTURE + y) * PICTURE + p % 3 * PATCH + i % PATCH];
    }
    multiply(&m->patch, values, 1, x + (p + token) * d);
  }
  for (size_t c = 0; c < token * d; c++) x[c] = (double)t->class_token[c];
  for (size_t i = 0; i < (PATCHES + token) * d; i++) x[i] += (double)t->positions[i];
}

static void run_tower(const model *m, const float *pixels, double *out) {
  static double x[MOST_ROWS * MOST_WIDTH], y[MOST_ROWS * MOST_WIDTH],
      qkv[3 * MOST_ROWS * MOST_WIDTH];
  const kf_tower *t = &m->e.image;
  size_t d = t->config.width, heads = t->config.heads, rows = PATCHES;
  place(m, pixels, x);
  if (t->class_token != NULL) normalize(&t->before, x, ++rows, d, x);
  for (int i = 0; i < LAYERS; i++) run_layer(&m->layers[i], x, rows, d, heads, false);
  normalize(&t->after, x, rows, d, y);
  if (t->probe == NULL) {
    multiply(&m->projection, y, 1, out);
    return;
  }
  double probe[MOST_WIDTH], query[3 * MOST_WIDTH], attended[MOST_WIDTH];
  for (size_t c = 0; c < d; c++) probe[c] = (double)t->probe[c];
  multiply(&m->head.qkv, y, rows, qkv);
  multiply(&m->head.qkv, probe, 1, query);
  attend(query, qkv, rows, d, heads, attended);
  multiply(&m->head.out, attended, 1, out);
  add_mlp(&m->head, out, 1, d);
}

/* --- texts ------------------------------------------------------------------------------------ */

enum { CONTEXT = MOST_ROWS, WORDS = 30, TEXTS = 40 };

/* The text tower of a model: its layers, and tokens in the place of patches. */
static void make_text(model *m) {
  uint64_t seed = 9;
  kf_tower *t = &m->e.text;
  *t = m->e.image;
  t->class_token = t->probe = NULL;
  t->config.image_size = t->config.patch_size = 0;
  t->config.context = CONTEXT;
  t->config.vocabulary = WORDS;
  t->tokens = numbers(m, (size_t)WORDS * t->config.width, 0, 1, &seed);
  t->tokens_type = KF_TYPE_F32;
  t->positions = numbers(m, (size_t)CONTEXT * t->config.width, 0, 1, &seed);
  m->e.config.dim = DIM;
}

/* Text i has 1 + 7 i % CONTEXT tokens. */
static uint32_t make_tokens(size_t i, int32_t *tokens) {
  uint64_t seed = i;
  for (size_t c = 0; c < CONTEXT; c++) tokens[c] = (int32_t)(test_random(&seed) % WORDS);
  return (uint32_t)(1 + 7 * i % CONTEXT);
}

static void run_text(const model *m, const int32_t *tokens, size_t rows, double *out) {
  static double x[MOST_ROWS * MOST_WIDTH], y[MOST_WIDTH];
  const kf_tower *t = &m->e.text;
  size_t d = t->config.width;
  for (size_t i = 0; i < rows * d; i++)
    x[i] = (double)((const float *)t->tokens)[(size_t)tokens[i / d] * d + i % d] +
           (double)t->positions[i];
  for (int i = 0; i < LAYERS; i++) run_layer(&m->layers[i], x, rows, d, t->config.heads, true);
  normalize(&t->after, x + (rows - 1) * d, 1, d, y);
  multiply(&m->projection, y, 1, out);
}

static void walk_texts(kf_ctx *ctx, const model *m, size_t group, bool split, float *out) {
  static int32_t tokens[TEXTS][CONTEXT];
  const int32_t *begin[TEXTS];
  uint32_t lengths[TEXTS];
  kf_arena arena = {0};
  kf_walk *w = kf_walk_new(ctx, &m->e, &m->e.text, group * CONTEXT, group, split, &arena);
  assert_non_null(w);
  for (size_t i = 0; i < TEXTS; i++) begin[i] = tokens[i], lengths[i] = make_tokens(i, tokens[i]);
  for (size_t i = 0; i < TEXTS; i += group)
    assert_int_equal(kf_walk_texts(w, begin + i, lengths + i, TEXTS - i < group ? TEXTS - i : group,
                                   out + i * DIM),
                     KF_OK);
  kf_arena_free(&arena);
}

/* --- tests ----------------------------------------------------------------------------------- */

static float *make_pixels(void) {
  uint64_t seed = 77;
  float *pixels = malloc(PICTURES * PIXELS * sizeof *pixels);
  assert_non_null(pixels);
  for (size_t i = 0; i < PICTURES * PIXELS; i++)
    pixels[i] = i < DIFFERENT * PIXELS ? (float)test_normal(&seed) : pixels[i - DIFFERENT * PIXELS];
  return pixels;
}

/* Pictures through one walk, in batches of this many. */
static void walk(kf_ctx *ctx, const model *m, const float *pixels, size_t pictures, size_t group,
                 bool split, float *out) {
  kf_arena arena = {0};
  size_t rows = group * kf_image_rows(&m->e), dim = m->e.config.dim;
  kf_walk *w = kf_walk_new(ctx, &m->e, &m->e.image, rows, group, split, &arena);
  assert_non_null(w);
  for (size_t first = 0; first < pictures; first += group) {
    size_t n = pictures - first < group ? pictures - first : group;
    for (size_t i = 0; i < n; i++) kf_walk_put_image(w, i, pixels + (first + i) * PIXELS);
    assert_int_equal(kf_walk_images(w, n, out + first * dim), KF_OK);
  }
  kf_arena_free(&arena);
}

TEST(equals_the_formulas) {
  static const double tolerance[2] = {2e-5, 0.06};
  AUTOFREE float *pixels = make_pixels();
  AUTO(kf_ctx) *ctx = test_ctx(1, KF_ISA_PLAIN);
  for (int s = 0; s < N_SHAPES; s++)
    for (int p = 0; p < 2; p++) {
      model *m = make_model(&shapes[s], p == 0 ? &kf_net_plain_f32 : &kf_net_plain_bf16);
      float out[DIFFERENT * MOST_WIDTH];
      walk(ctx, m, pixels, DIFFERENT, DIFFERENT, false, out);
      for (size_t i = 0; i < DIFFERENT; i++) {
        double want[MOST_WIDTH];
        run_tower(m, pixels + i * PIXELS, want);
        for (size_t c = 0; c < m->e.config.dim; c++)
          if (fabs((double)out[i * m->e.config.dim + c] - want[c]) > tolerance[p])
            fail_msg("shape %d, precision %d, picture %zu, column %zu: %g, not %g", s, p, i, c,
                     (double)out[i * m->e.config.dim + c], want[c]);
      }
      free_model(m);
    }
}

/* Batches of every size, the last one smaller; the threads of a context together; all kernels. */
TEST(same_bits) {
  static const size_t groups[] = {1, 7, 13, PICTURES};
  float *pixels = make_pixels(), *want = malloc(PICTURES * MOST_WIDTH * sizeof *want);
  float *got = malloc(PICTURES * MOST_WIDTH * sizeof *got);
  kf_ctx *one = test_ctx(1, KF_ISA_PLAIN), *three = test_ctx(3, KF_ISA_PLAIN);
  for (int s = 0; s < N_SHAPES; s++)
    for (int p = 0; p < 2; p++) {
      model *plain = make_model(&shapes[s], p == 0 ? &kf_net_plain_f32 : &kf_net_plain_bf16);
      size_t some = DIFFERENT * plain->e.config.dim, all = PICTURES / DIFFERENT * some;
      walk(one, plain, pixels, DIFFERENT, 1, false, want);
      for (size_t i = some; i < all; i++) want[i] = want[i - some];
      free_model(plain);
      for (int isa = KF_ISA_AVX2; isa <= KF_ISA_AMX; isa++) {
        if (!test_has_isa((kf_isa)isa)) continue;
        const kf_kernels *kernels = kf_kernels_for((kf_isa)isa);
        model *m = make_model(&shapes[s], p == 0 ? kernels->net_f32 : kernels->net_bf16);
        for (int g = 0; g < 4; g++) {
          walk(one, m, pixels, PICTURES, groups[g], false, got);
          assert_memory_equal(got, want, all * sizeof *want);
        }
        walk(three, m, pixels, PICTURES, 15, true, got);
        assert_memory_equal(got, want, all * sizeof *want);
        free_model(m);
      }
    }
  kf_ctx_free(one), kf_ctx_free(three);
  free(pixels), free(want), free(got);
}

TEST(texts) {
  static float want[TEXTS * DIM], got[TEXTS * DIM];
  kf_ctx *one = test_ctx(1, KF_ISA_PLAIN), *three = test_ctx(3, KF_ISA_PLAIN);
  for (int s = 0; s < N_SHAPES; s += 2) {
    model *plain = make_model(&shapes[s], &kf_net_plain_f32);
    make_text(plain);
    walk_texts(one, plain, 1, false, want);
    for (size_t i = 0; i < 10; i++) {
      int32_t tokens[CONTEXT];
      double exact[DIM];
      uint32_t length = make_tokens(i, tokens);
      run_text(plain, tokens, length, exact);
      for (size_t c = 0; c < DIM; c++)
        if (fabs((double)want[i * DIM + c] - exact[c]) > 2e-5)
          fail_msg("shape %d, text %zu, column %zu: %g, not %g", s, i, c, (double)want[i * DIM + c],
                   exact[c]);
    }
    walk_texts(one, plain, TEXTS, false, got);
    assert_memory_equal(got, want, sizeof want);
    walk_texts(three, plain, 25, true, got);
    assert_memory_equal(got, want, sizeof want);
    free_model(plain);
  }
  kf_ctx_free(one), kf_ctx_free(three);
}
