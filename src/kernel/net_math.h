/* net_math.h - the polynomials behind the activations and softmax, lowest power first. All
 * instruction sets evaluate them in f32 by Horner's rule with fused multiply-adds, so the bits
 * agree. They are minimax fits whose coefficients were rounded to f32 one by one, refitting the
 * others each time.
 *
 *     exp(x)  = 2^n exp(r), n = x / ln 2 to the nearest integer, |r| <= ln 2 / 2,
 *     exp(r)  = 1 + r + r^2 E(r)                              within 2^-28
 *     erf(x)  = x + x S(x^2)                for |x| < 1       within 2^-29
 *     erf(x)  = 1 - exp(L(x))               for 1 <= x <= 4   within 2^-29; and 1 beyond */
#ifndef KF_NET_MATH_H
#define KF_NET_MATH_H

#define KF_EXP_MOST 87.0f /* arguments are clamped to +-this: no overflow, no denormals */
#define KF_LOG2_E   0x1.715476p+0f
#define KF_LN2_HIGH 0x1.62e4p-1f /* 15 bits: n times it is exact */
#define KF_LN2_LOW  0x1.7f7d1cp-20f
#define KF_ROUND    0x1.8p+23f /* adding it rounds to an integer */
#define KF_ERF_MOST 4.0f

#define KF_EXP_TERMS 5
static const float kf_exp_poly[KF_EXP_TERMS] = {0x1.fffffcp-2f, 0x1.555492p-3f, 0x1.5558bep-5f,
                                                0x1.1239ep-7f, 0x1.6a3fb8p-10f};
#define KF_ERF_TERMS 7
static const float kf_erf_poly[KF_ERF_TERMS] = {0x1.06eba8p-3f,  -0x1.81273ep-2f, 0x1.ce2ce6p-4f,
                                                -0x1.b7f71ap-6f, 0x1.53f224p-8f,  -0x1.a3515ep-11f,
                                                0x1.4771fcp-14f};
#define KF_ERFC_TERMS 7
static const float kf_erfc_poly[KF_ERFC_TERMS] = {
    -0x1.661ce4p-12f, -0x1.2088eap+0f, -0x1.46bafp-1f, -0x1.a6531ep-4f,
    0x1.65cb36p-6f,   -0x1.825ab2p-9f, 0x1.86dddcp-13f};

#define KF_QUICK_GELU 1.702f
#define KF_SQRT_HALF  0x1.6a09e6p-1f
/* GELU by tanh: x (1 + tanh u) / 2 = x / (1 + exp(-2u)), 2u = x (A + B x^2). */
#define KF_GELU_TANH_A 0x1.988454p+0f /* 2 sqrt(2 / pi) */
#define KF_GELU_TANH_B 0x1.2444f2p-4f /* that times 0.044715 */

#endif
