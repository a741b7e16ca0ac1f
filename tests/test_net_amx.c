/* test_net_amx.c - the AMX kernels of towers on emulated tiles, so that their packing and their
 * remainders are tested on every machine with AVX512_BF16. Where the real instructions exist,
 * test_net.c runs them. */
#ifdef KF_SIMD
#include "emulated.h"
#include "nets.h"

/* Beside the real one of the library. */
#define kf_net_amx emulated_net
extern const kf_net_kernel emulated_net;
#include "kernel/net_amx.c"

static void check(void (*by)(const kf_net_kernel *net, const kf_net_kernel *plain)) {
  if (!kf_has_avx512bf16()) test_skip("avx512_bf16");
  by(&emulated_net, &kf_net_plain_bf16);
}

TEST(bits_of_products) { check(check_products); }
TEST(parts) { check(check_parts); }
TEST(bits_of_edges) { check(check_edge_of_denormals); }
TEST(padding) { check(check_padding); }
TEST(bits_of_rows) { check(check_rows_alone); }
TEST(bits_of_attention) { check(check_attentions); }
TEST(attended) { check(check_attended); }

#else
#include "test.h"

TEST(kernels) { test_skip("x86-64 kernel"); }
#endif
