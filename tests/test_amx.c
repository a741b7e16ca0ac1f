/* test_amx.c - the AMX kernels on emulated tiles, so that their packing and their arithmetic are
 * tested on every machine with AVX-512. Where the real instructions exist, test_kernel.c runs them.
 */
#ifdef KF_SIMD
#include "emulated.h"
#include "scans.h"
#include "tiles.h"

/* Beside the real ones of the library, and beside each other. */
#define kf_moment_amx emulated_moment
extern const kf_moment_kernel emulated_moment;
#include "kernel/amx.c"

#define kf_scan_amx emulated_scan
extern const kf_scan_kernel emulated_scan;
#define tiles_on  scan_tiles_on
#define tiles_off scan_tiles_off
#include "kernel/scan_amx.c"

TEST(moments) {
  if (!kf_isa_available(KF_ISA_AVX512)) test_skip("avx512");
  check_random_tiles(&emulated_moment);
  check_extreme_tiles(&emulated_moment);
}

TEST(scans) {
  if (!kf_isa_available(KF_ISA_AVX512)) test_skip("avx512");
  check_scans(&emulated_scan);
}

#else
#include "test.h"

TEST(kernels) { test_skip("x86-64 kernel"); }
#endif
