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

static void bits_of_products(void **state) {
  (void)state;
  check(check_products);
}
static void parts(void **state) {
  (void)state;
  check(check_parts);
}
static void bits_of_edges(void **state) {
  (void)state;
  check(check_edge_of_denormals);
}
static void padding(void **state) {
  (void)state;
  check(check_padding);
}
static void bits_of_rows(void **state) {
  (void)state;
  check(check_rows_alone);
}
static void bits_of_attention(void **state) {
  (void)state;
  check(check_attentions);
}
static void attended(void **state) {
  (void)state;
  check(check_attended);
}

int main(void) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test(bits_of_products), cmocka_unit_test(parts),
      cmocka_unit_test(bits_of_edges),    cmocka_unit_test(padding),
      cmocka_unit_test(bits_of_rows),     cmocka_unit_test(bits_of_attention),
      cmocka_unit_test(attended)};
  return test_result(cmocka_run_group_tests_name("net_amx", tests, NULL, NULL),
                     sizeof tests / sizeof *tests);
}

#else
#include <stdio.h>

int main(void) {
  puts("skipped: no x86-64 kernels in this build");
  return 77;
}
#endif
