/* world.h - the synthetic world: classes, image rows and text rows as functions of a seed. world.c
 * has the model and its constants. */
#ifndef KF_SYNTH_WORLD_H
#define KF_SYNTH_WORLD_H

#include "base/base.h"

typedef struct kf_world kf_world;

/* The first n_classes classes of the world of a seed; memory is O(n_classes * dim). Requires dim >=
 * 8 and n_classes >= 1. */
kf_status kf_world_new(uint64_t seed, uint32_t n_classes, uint32_t dim, kf_world **out,
                       kf_err *err);
void kf_world_free(kf_world *world);

/* Image row `row` of a split, which has class row mod n_classes: out[dim], of unit length.
 * workspace: [2][dim]. Any thread may call it. */
void kf_world_image(const kf_world *world, const kf_kernels *kernels, uint32_t split, uint64_t row,
                    float *workspace, float *out);

/* All text rows, [n_classes][dim], each of unit length. Uses the world's workspace. */
void kf_world_texts(kf_world *world, const kf_kernels *kernels, float *rows);

#endif
