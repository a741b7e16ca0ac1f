/* test_amx.c - the AMX kernels on emulated tiles, so that their packing and their arithmetic are
 * tested on every machine with AVX-512. Where the real instructions exist, test_kernel.c runs them.
 */
#ifdef KF_SIMD
#include "scans.h"
#include "tiles.h"

#include <immintrin.h>

/* The configuration: how many rows a tile has, and how many bytes a row. */
typedef struct shapes {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} shapes;
static shapes shape;
static uint8_t tile[8][16][64];

static void emulate_config(const void *config) {
  memcpy(&shape, config, sizeof shape);
  assert_int_equal(shape.palette, 1);
  memset(tile, 0, sizeof tile);
}

static void emulate_load(int t, const void *from, size_t stride) {
  memset(tile[t], 0, sizeof tile[t]);
  for (size_t r = 0; r < shape.rows[t]; r++)
    memcpy(tile[t][r], (const char *)from + r * stride, shape.row_bytes[t]);
}

static void emulate_store(int t, void *to, size_t stride) {
  for (size_t r = 0; r < shape.rows[t]; r++)
    memcpy((char *)to + r * stride, tile[t][r], shape.row_bytes[t]);
}

/* TDPBSSD and TDPBSUD: each dword of c gains the products of four signed bytes of a's row and four
 * signed or unsigned ones of b's column. */
static void emulate_multiply(int c, int a, int b, bool is_signed) {
  assert_int_equal(shape.row_bytes[a], 4 * shape.rows[b]);
  for (size_t m = 0; m < shape.rows[c]; m++)
    for (size_t n = 0; n < shape.row_bytes[c] / 4; n++) {
      int32_t sum;
      memcpy(&sum, &tile[c][m][4 * n], 4);
      for (size_t k = 0; k < shape.rows[b]; k++)
        for (size_t i = 0; i < 4; i++) {
          uint8_t y = tile[b][k][4 * n + i];
          sum += (int8_t)tile[a][m][4 * k + i] * (is_signed ? (int8_t)y : (int32_t)y);
        }
      memcpy(&tile[c][m][4 * n], &sum, 4);
    }
}

#undef _tile_loadd
#undef _tile_stored
#undef _tile_stream_loadd
#undef _tile_dpbssd
#undef _tile_dpbsud
#undef _tile_zero
#undef _tile_loadconfig
#undef _tile_release
#define _tile_loadd(t, from, stride)        emulate_load(t, from, stride)
#define _tile_stored(t, to, stride)         emulate_store(t, to, stride)
#define _tile_stream_loadd(t, from, stride) emulate_load(t, from, stride)
#define _tile_dpbssd(c, a, b)               emulate_multiply(c, a, b, true)
#define _tile_dpbsud(c, a, b)               emulate_multiply(c, a, b, false)
#define _tile_zero(t)                       memset(tile[t], 0, sizeof tile[t])
#define _tile_loadconfig(config)            emulate_config(config)
#define _tile_release()                     ((void)0)
/* Beside the real ones of the library, and beside each other. */
#define kf_moment_amx emulated_moment
extern const kf_moment_kernel emulated_moment;
#include "kernel/amx.c"

#define kf_scan_amx emulated_scan
extern const kf_scan_kernel emulated_scan;
#define tiles_on  scan_tiles_on
#define tiles_off scan_tiles_off
#include "kernel/scan_amx.c"

static void moments(void **state) {
  (void)state;
  if (!kf_isa_available(KF_ISA_AVX512)) skip();
  check_random_tiles(&emulated_moment);
  check_extreme_tiles(&emulated_moment);
}

static void scans(void **state) {
  (void)state;
  if (!kf_isa_available(KF_ISA_AVX512)) skip();
  check_scans(&emulated_scan);
}

int main(void) {
  static const struct CMUnitTest tests[] = {cmocka_unit_test(moments), cmocka_unit_test(scans)};
  return cmocka_run_group_tests_name("amx", tests, NULL, NULL);
}

#else
int main(void) { return 0; }
#endif
