/* fused.h - a * b + c, rounded once: the step of products of matrices, of what eigenvectors need and of the
 * towers. Where the machine cannot do it in one instruction, fused.c does. */
#ifndef KF_FUSED_H
#define KF_FUSED_H

#include <math.h>

/* The same bits by sums and products, in some 14 ns. */
double kf_fma_by_parts(double a, double b, double c);
float kf_fmaf_by_parts(float a, float b, float c);

/* Compilers say in different ways that there is an instruction. */
#if defined(__FMA__) || defined(__FP_FAST_FMA) || defined(__ARM_FEATURE_FMA)
static inline double kf_fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
static inline float kf_fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
#else
/* glibc looks for the instruction at run time; without it, it takes 280 ns. */
#ifdef KF_SIMD
#define KF_HAS_FMA __builtin_cpu_supports("fma")
#else
#define KF_HAS_FMA 0
#endif
static inline double kf_fma(double a, double b, double c) {
  return KF_HAS_FMA ? fma(a, b, c) : kf_fma_by_parts(a, b, c);
}
static inline float kf_fmaf(float a, float b, float c) {
  return KF_HAS_FMA ? fmaf(a, b, c) : kf_fmaf_by_parts(a, b, c);
}
#endif

#endif
