/* net_avx512.c - towers with AVX-512; bf16 without bf16 instructions. */
#include "kernel/kernel.h"

#ifdef KF_SIMD
#include "kernel/net_fma.h"

static const format avx512_f32 = FORMAT_F32, avx512_bf16 = FORMAT_BF16;
NET_MULTIPLY(avx512_f32)
NET(avx512_f32, KF_F32, NULL, NULL);
NET_MULTIPLY(avx512_bf16)
NET(avx512_bf16, KF_BF16, NULL, NULL);

#endif
