/* test_amx.c - the AMX kernel on emulated tiles, so that its packing and its digit arithmetic are
 * tested on every machine with AVX-512. Where the real instructions exist, test_kernel.c runs them.
 */
#ifdef KF_SIMD
#include "tiles.h"

#include <immintrin.h>

static uint8_t tile[8][16][64];

static void emulate_load(int t, const void *from, size_t stride) {
  for (size_t r = 0; r < 16; r++) memcpy(tile[t][r], (const char *)from + r * stride, 64);
}

static void emulate_store(int t, void *to, size_t stride) {
  for (size_t r = 0; r < 16; r++) memcpy((char *)to + r * stride, tile[t][r], 64);
}

/* TDPBSSD: each dword of c gains the products of four signed bytes of a's row and b's column. */
static void emulate_dpbssd(int c, int a, int b) {
  for (size_t m = 0; m < 16; m++)
    for (size_t n = 0; n < 16; n++) {
      int32_t sum;
      memcpy(&sum, &tile[c][m][4 * n], 4);
      for (size_t k = 0; k < 16; k++)
        for (size_t i = 0; i < 4; i++)
          sum += (int8_t)tile[a][m][4 * k + i] * (int8_t)tile[b][k][4 * n + i];
      memcpy(&tile[c][m][4 * n], &sum, 4);
    }
}

#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbssd
#undef _tile_zero
#undef _tile_loadconfig
#undef _tile_release
#define _tile_loadd(t, from, stride) emulate_load(t, from, stride)
#define _tile_stored(t, to, stride)  emulate_store(t, to, stride)
#define _tile_dpbssd(c, a, b)        emulate_dpbssd(c, a, b)
#define _tile_zero(t)                memset(tile[t], 0, sizeof tile[t])
#define _tile_loadconfig(config)     ((void)(config))
#define _tile_release()              ((void)0)
#define kf_moment_amx                emulated_amx /* beside the real one of the library */
extern const kf_moment_kernel emulated_amx;
#include "kernel/amx.c"

static void tiles(void **state) {
  (void)state;
  if (!kf_isa_available(KF_ISA_AVX512)) skip();
  check_random_tiles(&emulated_amx);
  check_extreme_tiles(&emulated_amx);
}

int main(void) {
  static const struct CMUnitTest tests[] = {cmocka_unit_test(tiles)};
  return cmocka_run_group_tests_name("amx", tests, NULL, NULL);
}

#else
int main(void) { return 0; }
#endif
