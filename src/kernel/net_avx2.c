/* net_avx2.c - towers with AVX2 and FMA. */
#include "kernel/kernel.h"

#ifdef KF_SIMD
#include "kernel/net_fma.h"

static const format avx2_f32 = FORMAT_F32, avx2_bf16 = FORMAT_BF16;
NET_MULTIPLY(avx2_f32)
NET(avx2_f32, KF_F32, NULL, NULL);
NET_MULTIPLY(avx2_bf16)
NET(avx2_bf16, KF_BF16, NULL, NULL);

#endif
