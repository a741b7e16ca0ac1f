/* world.c - a world of image and text embeddings that behave like CLIP's.
 *
 * Rows are generated in a latent space of D axes, sorted from noisy to quiet, and a random
 * orthogonal map Q turns them into embeddings. With j = 0 … D-1 and t_j = (j + 1/2) / D:
 *
 *   noise       w_j ~ (j + 3)^(-3/4) (1 - t_j)^(5/8), sum 1: the spectrum of the scatter within
 *               classes, a power law that falls off at the quiet end.
 *   offsets     o = diag(w)^(1/2) H diag(G)^(1/2) g, with g Gaussian, H a fixed orthogonal map and
 *               G_i ~ (i + 2)^(-gamma), with mean 1. Along each axis offsets are about as strong as
 *               the noise (E o_j^2 = w_j but for the finite mixing of H), so whitening matters. But
 *               their spectrum is steeper than that of the noise, and their principal directions
 *               are not its axes.
 *   classes     ten classes make a group, eight groups a super-category:
 *                 c_k = A_s o_super(k) + A_g o_group(k) + A_c h_group(k) o_k
 *               with a gamma for each level, flattest for the classes, and h the spread of the
 *               classes in a group, so that some groups are hard and others easy.
 *   images      u = m + (1 - a) c_k + a c_other + N r diag(w)^(1/2) g
 *               m is the common mean (the cone of embeddings); r^2 = r_k^2 r_i^2 makes some
 *               classes and some pictures vary more than others; and a = U^3, with U uniform, is
 *               how much of the picture shows something else: half of the time a class of the same
 *               group, otherwise any class. Without a, noise alone would limit accuracy, and
 *               whitening would help far more than it does on real data.
 *   text        v_k = m' + diag(V) (T_s o_super + T_g o_group + T_c o_k) + noise on quiet axes,
 *               with its component along m removed. Class names separate siblings better than
 *               pictures do (T_c > 1), and text says little about the axes along which pictures
 *               vary most (V).
 *   gap         two quiet axes, q and p = q - 1, hold a constant for each modality: images are at
 *               IMAGE_P and IMAGE_Q along them, texts scatter around TEXT_P and TEXT_Q. This is the
 *               component of the modality gap that whitening amplifies.
 *   length      the latent row is scaled to unit length, except for p and q, which would otherwise
 *               become noisy. Then Q turns it into the embedding.
 *
 * The same bits on every machine: only +, -, *, / and sqrt in IEEE arithmetic in a fixed order, and
 * 64-bit integers; no function of libm, which may differ. So exponents are in eighths. */
#include "synth/world.h"

#include <math.h>

/* --- constants ------------------------------------------------------------------------------- *
 *
 * Fitted to OpenAI CLIP ViT-B/32 on ImageNet: 4 training and 3 test images of each of 1000 classes,
 * text 'a photo of a …'. S_w is the scatter of unit rows within classes. docs/synth.md compares the
 * measured statistics with those of this world; tools/calibrate_synth.py makes its table. */

/* The spectrum of S_w: shares of eigenvalues 1, 2, 5, 10, 20, 50, 100, 200, 400, 501. */
#define NOISE_SHIFT        3.0
#define NOISE_EIGHTHS      6
#define NOISE_BEND_EIGHTHS 5
#define NOISE_TOTAL        0.225 /* trace S_w / (N - K) = 0.265, of which `a` makes the rest */
/* How much classes and rows differ in variety: the squared distance of test rows to their class
 * mean has a relative deviation of 0.40, 56 % of it (with 3 rows a class) between classes. */
#define NOISE_CLASS_RANGE 0.6
#define NOISE_ROW_RANGE   0.6

/* Squared lengths of the offsets. Their sum is fitted to the trace of the scatter of class means,
 * 0.213 after shrinking by 1 - a; the levels to raw and whitened accuracy, top-1 and top-5. */
#define SUPER_TOTAL 0.120
#define GROUP_TOTAL 0.090
#define CLASS_TOTAL 0.048
#define GROUP_SIZE  10u /* classes in a group */
#define SUPER_SIZE  80u /* classes in a super-category */
/* Exponents gamma, fitted to the spectrum of class means and to accuracy in 32 … 256 dimensions. */
#define OFFSET_SHIFT  2.0
#define SUPER_EIGHTHS 10
#define GROUP_EIGHTHS 8
#define CLASS_EIGHTHS 6
#define GROUP_RANGE   0.6 /* h = 1 - 0.6 … 1 + 0.6: quantiles of cosines of nearest class means */
#define SIBLING_SHARE 0.5 /* how often the other class in a picture is a sibling */

/* The cone: the mean of unit rows has length 0.72 (the mean of the offsets adds to MEAN_LENGTH).
 * Its energy along the axes of S_w is partly that of the noise and partly uniform. */
#define MEAN_LENGTH 0.66
#define MEAN_NOISY  0.4

/* Energy of both means along the quiet axes of S_w (most of it on axes 503 and 508 of 512), and the
 * collapse of zero-shot accuracy when text is whitened without centring. */
#define IMAGE_P       0.19
#define IMAGE_Q       0.09
#define TEXT_P        0.10
#define TEXT_Q        0.74
#define TEXT_P_SPREAD 0.055
#define TEXT_Q_SPREAD 0.04
#define MAX_TAKEN     0.75 /* share of p and q in the squared length of an image; 0.05 as a rule */
#define TEXT_MEAN     0.20 /* of m in m': cosine 0.33 between the means, gap of length 0.87 */
/* V: regression of text on class means along the axes of S_w rises from 0.09 to 0.9. */
#define VIEW_NUMERATOR   10.0
#define VIEW_DENOMINATOR 40.0
/* Fitted to zero-shot accuracy, to the trace of the scatter of unit text rows, 0.388, and to their
 * correlation with class means, 0.40. */
#define TEXT_SUPER       0.9
#define TEXT_GROUP       0.9
#define TEXT_CLASS       3.0
#define TEXT_NOISE_TOTAL 0.20

/* --- random numbers ---------------------------------------------------------------------------- *
 *
 * Counter-based: number i of a key is output i of SplitMix64 started at the key. A key is a hash of
 * (seed, stream, index). */

typedef enum stream {
  STREAM_MEAN,
  STREAM_MAP_Q,
  STREAM_MAP_H,
  STREAM_SUPER,
  STREAM_GROUP,
  STREAM_CLASS,
  STREAM_GROUP_SPREAD,
  STREAM_CLASS_NOISE,
  STREAM_TEXT,
  STREAM_IMAGES = 256 /* + split */
} stream;

static inline uint64_t number(uint64_t key, uint64_t i) {
  return kf_mix64(key + (i + 1) * KF_GOLDEN64);
}

static uint64_t key_of(uint64_t seed, uint64_t from, uint64_t index) {
  return number(number(kf_mix64(seed), from), index);
}

/* Uniform in [0, 1). */
static double uniform(uint64_t key, uint64_t i) { return (double)(number(key, i) >> 11) * 0x1p-53; }

/* Uniform in 0 … n-1. */
static uint32_t below(uint64_t key, uint64_t i, uint32_t n) {
  return (uint32_t)((number(key, i) >> 32) * n >> 32);
}

/* Nearly Gaussian: the number of ones among 48 random bits, plus a uniform dither from the other
 * 16. In units of 2^17 the variance is 48/4 + 1/12; excess kurtosis -0.041, at most 7 standard
 * deviations. An integer below 2^22, hence exact in a float. */
static inline int32_t bell(uint64_t key, uint64_t i) {
  uint64_t z = number(key, i);
  uint64_t dither = z & 0xffff;
  z >>= 16;
  z -= z >> 1 & UINT64_C(0x5555555555555555);
  z = (z & UINT64_C(0x3333333333333333)) + (z >> 2 & UINT64_C(0x3333333333333333));
  z = (z + (z >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
  uint64_t ones = z * UINT64_C(0x0101010101010101) >> 56;
  return (int32_t)(ones << 17 | dither << 1) - (24 << 17) - 65535;
}

/* Scales bell() to unit variance. */
static double bell_unit(void) { return 0x1p-17 / sqrt(12.0 + 1.0 / 12.0); }

/* out[j] = scale[j] * g_j */
static void gaussians(uint64_t key, const float *scale, uint32_t dim, float *out) {
  float unit = (float)bell_unit();
  for (uint32_t j = 0; j < dim; j++) out[j] = (float)bell(key, j) * unit * scale[j];
}

/* --- orthogonal maps --------------------------------------------------------------------------- *
 *
 * A random permutation with random signs, then rounds of 2x2 Hadamard butterflies in constant
 * geometry: the sum and the difference of elements i and i + ceil(D/2) become elements 2i and 2i +
 * 1. After log2(D) rounds every output depends on every input. The factors 2^(-1/2) of all rounds
 * are applied together, before the first. If D is odd, the middle element moves to the end, times
 * sqrt(2). */

typedef struct map {
  uint32_t dim;
  uint32_t rounds;
  float scale;     /* 2^(-rounds/2) */
  uint32_t *order; /* [dim] */
  float *sign;     /* [dim] +1 or -1 */
} map;

/* order and sign are [dim]; order is zeroed. */
static void map_init(map *m, uint64_t key, uint32_t dim) {
  m->dim = dim;
  double scale = 1;
  for (uint64_t reach = 1; reach < dim; reach *= 2, m->rounds++) scale *= 0.5;
  m->scale = (float)sqrt(scale);
  for (uint32_t i = 0; i < dim; i++) {
    uint32_t j = below(key, 2 * (uint64_t)i, i + 1);
    m->order[i] = m->order[j];
    m->order[j] = i;
    m->sign[i] = (number(key, 2 * (uint64_t)i + 1) & 1) != 0 ? 1.0f : -1.0f;
  }
}

static void butterflies(const float *restrict in, uint32_t dim, float *restrict out) {
  uint32_t half = dim / 2, second = dim - half;
  for (uint32_t i = 0; i < half; i++) {
    float a = in[i], b = in[second + i];
    out[2 * (size_t)i] = a + b;
    out[2 * (size_t)i + 1] = a - b;
  }
  if (second != half) out[dim - 1] = in[half] * 1.41421356f;
}

/* out = scale * map(in). Overwrites `in`, which must not be `out`. rest: [dim], workspace. */
static void map_apply(const map *m, float scale, float *in, float *rest, float *out) {
  float all = scale * m->scale;
  for (uint32_t i = 0; i < m->dim; i++) rest[i] = in[m->order[i]] * (m->sign[i] * all);
  float *from = rest, *to = in;
  for (uint32_t r = 0; r + 1 < m->rounds; r++) {
    butterflies(from, m->dim, to);
    float *swap = from;
    from = to;
    to = swap;
  }
  butterflies(from, m->dim, out);
}

/* --- the world ------------------------------------------------------------------------------- */

enum { LEVEL_SUPER, LEVEL_GROUP, LEVEL_CLASS, LEVELS };

struct kf_world {
  uint64_t seed;
  uint32_t n_classes;
  uint32_t dim;
  uint32_t axis;         /* p; q is p + 1 */
  map q;                 /* latent space to embeddings */
  map h;                 /* inside offsets */
  float *noise;          /* [dim] sqrt(w) */
  float *offset[LEVELS]; /* [dim] sqrt(A^2 G) of each level */
  float *mean;           /* [dim] m, and IMAGE_P, IMAGE_Q at p, q */
  float *centre;         /* [n_classes][dim] m + c_k */
  float *variety;        /* [n_classes] r_k^2 */
  float *level[LEVELS];  /* [dim] the offsets of the current class, see next_class */
  float *rest;           /* [2][dim] workspace */
  kf_arena arena;        /* of all arrays */
};

void kf_world_free(kf_world *world) {
  if (world == NULL) return;
  kf_arena_free(&world->arena);
  kf_free(world);
}

/* x^(n/8) for x >= 0, n >= 0 */
static double power(double x, int n) {
  double root = sqrt(sqrt(sqrt(x))), product = 1;
  for (int i = 0; i < n; i++) product *= root;
  return product;
}

static double position(const kf_world *world, uint32_t j) { return (j + 0.5) / world->dim; }

static double noise_weight(const kf_world *world, uint32_t j) {
  return power(1 - position(world, j), NOISE_BEND_EIGHTHS) / power(j + NOISE_SHIFT, NOISE_EIGHTHS);
}

static void make_noise(kf_world *world) {
  double total = 0;
  for (uint32_t j = 0; j < world->dim; j++) total += noise_weight(world, j);
  for (uint32_t j = 0; j < world->dim; j++)
    world->noise[j] = (float)sqrt(noise_weight(world, j) / total);
}

static void make_offsets(kf_world *world) {
  static const struct {
    int eighths;
    double total;
  } levels[LEVELS] = {{SUPER_EIGHTHS, SUPER_TOTAL},
                      {GROUP_EIGHTHS, GROUP_TOTAL},
                      {CLASS_EIGHTHS, CLASS_TOTAL / (1 + GROUP_RANGE * GROUP_RANGE / 3)}};
  for (int level = 0; level < LEVELS; level++) {
    double total = 0;
    for (uint32_t i = 0; i < world->dim; i++)
      total += 1 / power(i + OFFSET_SHIFT, levels[level].eighths);
    double scale = levels[level].total * world->dim / total;
    for (uint32_t i = 0; i < world->dim; i++)
      world->offset[level][i] = (float)sqrt(scale / power(i + OFFSET_SHIFT, levels[level].eighths));
  }
}

static void make_mean(kf_world *world) {
  uint32_t dim = world->dim;
  float *mean = world->mean;
  for (uint32_t j = 0; j < dim; j++) {
    double w = (double)world->noise[j] * world->noise[j];
    mean[j] = (float)sqrt(MEAN_NOISY * w + (1 - MEAN_NOISY) / dim);
  }
  gaussians(key_of(world->seed, STREAM_MEAN, 0), mean, dim, mean);
  mean[world->axis] = mean[world->axis + 1] = 0;
  double norm2 = 0;
  for (uint32_t j = 0; j < dim; j++) norm2 += (double)mean[j] * mean[j];
  float scale = (float)(MEAN_LENGTH / sqrt(norm2));
  for (uint32_t j = 0; j < dim; j++) mean[j] *= scale;
  mean[world->axis] = (float)IMAGE_P;
  mean[world->axis + 1] = (float)IMAGE_Q;
}

/* --- classes --------------------------------------------------------------------------------- */

static void make_offset(kf_world *world, int level, uint32_t index) {
  float *in = world->rest, *rest = world->rest + world->dim, *out = world->level[level];
  gaussians(key_of(world->seed, (uint64_t)(STREAM_SUPER + level), index), world->offset[level],
            world->dim, in);
  map_apply(&world->h, 1, in, rest, out);
  for (uint32_t j = 0; j < world->dim; j++) out[j] *= world->noise[j];
  out[world->axis] = out[world->axis + 1] = 0;
}

/* Makes the offsets of class k on the three levels. Classes must be made in order from 0, so that
 * each offset of the upper levels is made once. */
static void next_class(kf_world *world, uint32_t k) {
  if (k % SUPER_SIZE == 0) make_offset(world, LEVEL_SUPER, k / SUPER_SIZE);
  if (k % GROUP_SIZE == 0) make_offset(world, LEVEL_GROUP, k / GROUP_SIZE);
  make_offset(world, LEVEL_CLASS, k);
}

static void make_classes(kf_world *world) {
  float *const *level = world->level;
  for (uint32_t k = 0; k < world->n_classes; k++) {
    next_class(world, k);
    double u = uniform(key_of(world->seed, STREAM_GROUP_SPREAD, k / GROUP_SIZE), 0);
    float h = (float)(1 + GROUP_RANGE * (2 * u - 1));
    float *centre = world->centre + (size_t)k * world->dim;
    for (uint32_t j = 0; j < world->dim; j++)
      centre[j] = world->mean[j] + (level[LEVEL_SUPER][j] + level[LEVEL_GROUP][j]) +
                  h * level[LEVEL_CLASS][j];
    u = uniform(key_of(world->seed, STREAM_CLASS_NOISE, k), 0);
    world->variety[k] = (float)(1 + NOISE_CLASS_RANGE * (2 * u - 1));
  }
}

static kf_status world_allocate(kf_world *world, kf_err *err) {
  uint32_t dim = world->dim;
  kf_arena *arena = &world->arena;
  KF_TAKE(arena, world->noise, dim);
  KF_TAKE(arena, world->mean, dim);
  KF_TAKE(arena, world->centre, (uint64_t)world->n_classes * dim);
  KF_TAKE(arena, world->variety, world->n_classes);
  for (int level = 0; level < LEVELS; level++) {
    KF_TAKE(arena, world->offset[level], dim);
    KF_TAKE(arena, world->level[level], dim);
  }
  KF_TAKE(arena, world->rest, 2 * (uint64_t)dim);
  KF_TAKE_ZERO(arena, world->q.order, dim);
  KF_TAKE_ZERO(arena, world->h.order, dim);
  KF_TAKE(arena, world->q.sign, dim);
  KF_TAKE(arena, world->h.sign, dim);
  return arena->failed ? kf_fail_memory(err) : KF_OK;
}

kf_status kf_world_new(uint64_t seed, uint32_t n_classes, uint32_t dim, kf_world **out,
                       kf_err *err) {
  kf_world *world = kf_alloc_zero(1, sizeof *world);
  if (world == NULL) return kf_fail_memory(err);
  world->seed = seed;
  world->n_classes = n_classes;
  world->dim = dim;
  world->axis = dim - 2 - dim / 64;
  kf_status status = world_allocate(world, err);
  if (status == KF_OK) {
    map_init(&world->q, key_of(seed, STREAM_MAP_Q, 0), dim);
    map_init(&world->h, key_of(seed, STREAM_MAP_H, 0), dim);
    make_noise(world);
    make_offsets(world);
    make_mean(world);
    make_classes(world);
  }
  KF_HAND_OUT(status, out, world, kf_world_free);
}

/* --- rows ------------------------------------------------------------------------------------ */

/* Scales the latent row to unit length, except for axes p and q, and maps it to an embedding. */
static void finish(const kf_world *world, const kf_kernels *kernels, float *latent, float *rest,
                   float *out) {
  float p = latent[world->axis], q = latent[world->axis + 1];
  latent[world->axis] = latent[world->axis + 1] = 0;
  double taken = (double)p * p + (double)q * q;
  if (taken > MAX_TAKEN) { /* an extreme draw in a world of few dimensions */
    double shrink = sqrt(MAX_TAKEN / taken);
    p = (float)(p * shrink);
    q = (float)(q * shrink);
    taken = MAX_TAKEN;
  }
  float scale = (float)sqrt((1 - taken) / kernels->norm2(latent, world->dim));
  for (uint32_t j = 0; j < world->dim; j++) latent[j] *= scale;
  latent[world->axis] = p;
  latent[world->axis + 1] = q;
  map_apply(&world->q, 1, latent, rest, out);
}

/* The other class in the picture. It may be the class itself. */
static uint32_t other_class(const kf_world *world, uint64_t key, uint32_t k) {
  if (uniform(key, 1) >= SIBLING_SHARE) return below(key, 2, world->n_classes);
  uint32_t first = k - k % GROUP_SIZE, left = world->n_classes - first;
  return first + below(key, 2, left < GROUP_SIZE ? left : GROUP_SIZE);
}

void kf_world_image(const kf_world *world, const kf_kernels *kernels, uint32_t split, uint64_t row,
                    float *workspace, float *out) {
  uint32_t dim = world->dim, k = (uint32_t)(row % world->n_classes);
  uint64_t key = key_of(world->seed, STREAM_IMAGES + (uint64_t)split, row);
  uint64_t key_noise = number(key, 4);

  double u = uniform(key, 0);
  float a = (float)(u * u * u);
  double variety = world->variety[k] * (1 + NOISE_ROW_RANGE * (2 * uniform(key, 3) - 1));
  float scale = (float)(sqrt(NOISE_TOTAL * variety) * bell_unit());

  const float *own = world->centre + (size_t)k * dim;
  const float *other = world->centre + (size_t)other_class(world, key, k) * dim;
  float *latent = workspace;
  for (uint32_t j = 0; j < dim; j++) latent[j] = (float)bell(key_noise, j);
  for (uint32_t j = 0; j < dim; j++)
    latent[j] = own[j] + a * (other[j] - own[j]) + latent[j] * scale * world->noise[j];
  finish(world, kernels, latent, workspace + dim, out);
}

/* What text row k knows about its class, with noise. */
static void text_latent(const kf_world *world, uint32_t k, double noise_scale, float *latent) {
  float *const *level = world->level;
  uint64_t key = key_of(world->seed, STREAM_TEXT, k);
  for (uint32_t j = 0; j < world->dim; j++) {
    double view = (j + VIEW_NUMERATOR) / (j + VIEW_DENOMINATOR);
    double seen = TEXT_SUPER * level[LEVEL_SUPER][j] + TEXT_GROUP * level[LEVEL_GROUP][j] +
                  TEXT_CLASS * level[LEVEL_CLASS][j];
    latent[j] = (float)(view * view * seen + noise_scale * position(world, j) * bell(key, j));
  }
}

/* Moves a text row to its side of the gap. */
static void text_gap(const kf_world *world, uint32_t k, float *latent) {
  uint32_t p = world->axis, q = p + 1;
  double along = 0, norm2 = 0;
  for (uint32_t j = 0; j < world->dim; j++) {
    if (j == p || j == q) continue;
    along += (double)latent[j] * world->mean[j];
    norm2 += (double)world->mean[j] * world->mean[j];
  }
  double shift = TEXT_MEAN - along / norm2;
  for (uint32_t j = 0; j < world->dim; j++) latent[j] += (float)(shift * world->mean[j]);
  uint64_t key = key_of(world->seed, STREAM_TEXT, k);
  latent[p] = (float)(TEXT_P + TEXT_P_SPREAD * bell_unit() * bell(key, world->dim));
  latent[q] = (float)(TEXT_Q + TEXT_Q_SPREAD * bell_unit() * bell(key, world->dim + 1));
}

void kf_world_texts(kf_world *world, const kf_kernels *kernels, float *rows) {
  float *latent = world->rest;
  double total = 0;
  for (uint32_t j = 0; j < world->dim; j++) total += position(world, j) * position(world, j);
  double noise_scale = sqrt(TEXT_NOISE_TOTAL / total) * bell_unit();
  for (uint32_t k = 0; k < world->n_classes; k++) {
    next_class(world, k);
    text_latent(world, k, noise_scale, latent);
    text_gap(world, k, latent);
    /* Texts are scaled with p and q, which vary in any case. */
    float scale = (float)(1 / sqrt(kernels->norm2(latent, world->dim)));
    map_apply(&world->q, scale, latent, latent + world->dim, rows + (size_t)k * world->dim);
  }
}
