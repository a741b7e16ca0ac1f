/* export.h - models in the formats of other programs. Sees search and below. */
#ifndef KF_EXPORT_H
#define KF_EXPORT_H

#include "search/gallery.h"

/* --- what a model computes (head.c) ----------------------------------------------------------- */

/* Everything that a file needs to do what kf_transform and kf_classify do, in f32.
 *
 *     x = row / |row|, if unit_rows             a zero row is mapped to zeros
 *     z = T (x - mean)                          mapped row, scaled to unit length if unit_mapped
 *     q = x, z, z / |z| or [x, alpha z / |z|]   what the prototypes are compared with
 *     s_k = q.p_k + offset_k, or for distances -|q - p_k|^2 / 2 + offset_k
 *
 * The score of a class is s_k or, for distances, sqrt(-2 s_k); its probability is
 * softmax(temperature s)_k. */
typedef struct kf_head {
  const kf_model *model;
  uint32_t dim_in, dim_out;
  bool unit_rows;
  bool unit_mapped;
  float *transform; /* T, [dim_out][dim_in] */
  float *mean;      /* [dim_in]; NULL: rows are not centred */
  double *bias;     /* [dim_out] -T mean, with the T above; NULL: rows are not centred */
  kf_prototypes *prototypes;
  bool distances;     /* otherwise cosines, or fused scores */
  bool unit_query;    /* images: z is scaled to unit length */
  uint32_t n, dim;    /* prototypes that take part, and their columns */
  float *rows;        /* p, [n][dim] */
  double *offset;     /* [n]; NULL: none */
  double temperature; /* 0: no probabilities */
  bool own;           /* the scores are those of the model's threshold */
  kf_arena arena;
} kf_head;
/* Fills in the map alone, without prototypes. The head must be cleared even after a failure. Errors
 * go to the context. */
kf_status kf_head_map(kf_head *head, kf_ctx *ctx, const kf_model *model);
/* Fills in all of it. */
kf_status kf_head_make(kf_head *head, kf_ctx *ctx, const kf_model *model,
                       const kf_export_options *options);
void kf_head_clear(kf_head *head);
/* Fails with KF_ERR_MATH: a number of the model is too large for f32. */
kf_status kf_fail_single(kf_err *err);
/* The name of the class of prototype j; its number, written to `number`, if it has none. */
const char *kf_head_name(const kf_head *head, uint32_t j, char number[16]);

/* --- writers ---------------------------------------------------------------------------------- */

/* Each writes its files through kf_out; if the context holds files back (kf_outputs_begin), they
 * appear together. Errors go to the context. */
typedef kf_status (*kf_export_fn)(kf_ctx *ctx, const kf_model *model,
                                  const kf_export_options *options, const char *path);
kf_status kf_export_onnx(kf_ctx *ctx, const kf_model *model, const kf_export_options *options,
                         const char *path);
kf_status kf_export_faiss(kf_ctx *ctx, const kf_model *model, const kf_export_options *options,
                          const char *path);
kf_status kf_export_npz(kf_ctx *ctx, const kf_model *model, const kf_export_options *options,
                        const char *path);
kf_status kf_export_source(kf_ctx *ctx, const kf_model *model, const kf_export_options *options,
                           const char *path);
kf_status kf_export_hub(kf_ctx *ctx, const kf_model *model, const kf_export_options *options,
                        const char *path);

#endif
