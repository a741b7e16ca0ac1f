/* net.h - the arithmetic of transformer towers: products with packed weights, layer norms,
 * activations and attention. Other rooms see it through kernel.h.
 *
 * The bits of every result are defined and are the same on every instruction set. In f32 an element
 * of a product is one chain of fused multiply-adds over k = 0, 1, …, from zero. In bf16 it is what
 * AMX's TDPBF16PS computes: each block of 32 products makes two chains from zero, over even and
 * over odd k, in order; their sum is added to the sum of the blocks before. The product of two bf16
 * is exact in f32, so AMX tiles, f32 FMA and VDPBF16PS give the same bits. (VDPBF16PS adds the
 * upper product of a pair first, so its pairs are k and k + 2 of one chain.) All of them take
 * denormals as zero and flush them to zero (MXCSR's DAZ and FTZ).
 *
 * No row's result depends on other rows, so an embedding does not depend on its batch. */
#ifndef KF_NET_H
#define KF_NET_H

#include "koofu.h"

#include <stdbool.h>

typedef enum kf_activation {
  KF_ACT_NONE = 0,
  KF_ACT_QUICK_GELU, /* x * sigmoid(1.702 x) */
  KF_ACT_GELU,       /* x * (1 + erf(x / sqrt 2)) / 2 */
  KF_ACT_GELU_TANH   /* GELU approximated by tanh */
} kf_activation;

/* Prepared rows and packed weights are padded with zeros to a multiple of this many columns (k). */
#define KF_NET_STEP 32u
/* Outputs (n, the rows of the weights) are packed in panels of this many. */
#define KF_NET_PANEL 32u

/* out = activation(x . W^T + bias) for m rows and outputs [first, end). */
typedef struct kf_net_product {
  const void *x; /* prepared rows [m], 64-byte aligned */
  size_t m, k;
  const void *weights; /* packed [n][k] */
  size_t n;
  size_t first, end;        /* multiples of KF_NET_PANEL, or end = n */
  const float *bias;        /* [n]; NULL: none */
  kf_activation activation; /* of sum + bias */
  /* Results go to f32 rows, `stride` floats apart, or, if `out` is NULL, to rows prepared for a
   * product of depth n, whose columns from n to the next multiple of KF_NET_STEP become zero. */
  float *out;
  size_t stride;
  /* Splits f32 rows into parts of this many outputs (a multiple of KF_NET_PANEL), `part_step`
   * floats apart; 0: one part. */
  size_t part, part_step;
  bool add;       /* f32 rows: add the result to them instead of storing it */
  void *prepared; /* rows_size(m, n) bytes */
  /* The first packed weights of a later product, to prefetch; NULL: none. */
  const void *next;
  size_t next_size; /* bytes */
} kf_net_product;

/* The place of output j of row i in f32 rows. */
static inline float *kf_net_out(const kf_net_product *p, size_t i, size_t j) {
  size_t column = p->part > 0 ? j / p->part * p->part_step + j % p->part : j;
  return p->out + i * p->stride + column;
}

/* Attention of one head: out = softmax(scale * q . k^T) . v, over the keys that a query sees. */
typedef struct kf_net_attention {
  const float *q, *k, *v; /* rows of `dim` columns, q_stride and kv_stride floats apart */
  size_t q_stride, kv_stride;
  size_t queries, keys, dim;
  float scale;
  bool causal; /* query i sees keys 0 … i; then queries == keys */
  /* Results go to f32 rows, out_stride floats apart, or, if `out` is NULL, to rows prepared for a
   * product of depth `depth`, from row `row` and column `column` on; then column, dim and depth are
   * multiples of KF_NET_STEP. */
  float *out;
  size_t out_stride;
  void *prepared;
  size_t row, column, depth;
  void *workspace; /* attention_size(keys, dim) bytes, 64-byte aligned */
} kf_net_attention;

typedef struct kf_net_kernel {
  /* out = (x - mean) / sqrt(variance + eps) * gamma + beta for m rows of d columns. Mean and
   * variance are canonical sums in f64 (kf_add_lanes) divided by d. out may be x. */
  void (*layer_norm)(const float *x, size_t stride, size_t m, size_t d, const float *gamma,
                     const float *beta, float eps, float *out, size_t out_stride);
  kf_dtype precision;                      /* of products: KF_F32 or KF_BF16 */
  size_t (*rows_size)(size_t m, size_t k); /* bytes of m prepared rows; a multiple of 64 */
  /* Prepares rows [first, first + m) of such a buffer. */
  void (*prepare)(const float *x, size_t stride, size_t first, size_t m, size_t k, void *prepared);
  size_t (*weights_size)(size_t n, size_t k); /* bytes; a multiple of 64 */
  /* Packs rows [first, first + count) of W [n][k], given as w[count][k]; first is a multiple of
   * KF_NET_PANEL, and count is KF_NET_PANEL or the rest. In bf16 denormals become zero. */
  void (*pack)(const float *w, size_t n, size_t k, size_t first, size_t count, void *packed);
  void (*multiply)(const kf_net_product *product);
  size_t (*attention_size)(size_t keys, size_t dim);
  void (*attention)(const kf_net_attention *attention);
  /* Called on a thread before its first multiply or attention and after the last; may be NULL. */
  void (*begin)(void);
  void (*end)(void);
} kf_net_kernel;

#endif
