/* text_map.c - how text is mapped to the space of a model.
 *
 * T whitens by the scatter of images within classes, which says nothing about text: it stretches
 * the directions in which images of one class agree, not those in which words do. So text is
 * rotated to the directions of the map without stretching, by the orthogonal part of T = (T
 * T^T)^(1/2) Q:
 *
 *     Q = (T T^T)^(-1/2) T = V^T diag(w^(-1/2)) V T,      T T^T = V^T diag(w) V.
 *
 * The product of a text t and an image x is then t.(T^T T)^(1/2) x, half way between the original
 * and the whitened space. docs/text.md has figures. The paper's method maps text like images. */
#include "model/model.h"

#include <float.h>
#include <math.h>

kf_status kf_map_for_text(kf_ctx *ctx, const kf_map *map, kf_map *out, kf_arena *arena) {
  uint64_t d = map->dim_in, l = map->dim_out;
  kf_arena own = {0};
  double *square, *values, *vectors, *columns, *turned;
  kf_map_make(out, map->dim_in, map->dim_out, arena);
  KF_TAKE(&own, square, l * l);
  KF_TAKE(&own, values, l);
  KF_TAKE(&own, vectors, l * l);
  KF_TAKE(&own, columns, l * l);
  KF_TAKE(&own, turned, l * d);
  kf_status status = arena->failed || own.failed ? kf_fail_memory(&ctx->err) : KF_OK;
  if (status == KF_OK) {
    kf_map_copy(map, out);
    status = kf_multiply(
        ctx,
        (kf_product){
            .a = map->transposed, .b = map->transposed, .c = square, .m = l, .n = l, .depth = d});
  }
  if (status == KF_OK) status = kf_eigen(ctx, map->dim_out, square, values, vectors);
  if (status == KF_OK) {
    kf_transpose(l, l, vectors, columns);
    status = kf_multiply(
        ctx,
        (kf_product){.a = columns, .b = map->transform, .c = turned, .m = l, .n = d, .depth = l});
  }
  if (status == KF_OK) {
    for (uint64_t i = 0; i < l; i++) {
      bool none = !(values[i] > (double)l * DBL_EPSILON * values[0]);
      double scale = none ? 0 : 1 / sqrt(values[i]);
      for (uint64_t k = 0; k < d; k++) turned[i * d + k] *= scale;
    }
    status = kf_multiply(
        ctx,
        (kf_product){.a = vectors, .b = turned, .c = out->transform, .m = l, .n = d, .depth = l});
  }
  if (status == KF_OK) kf_map_finish(out);
  kf_arena_free(&own);
  return status;
}
