/* amx_tiles.h - the configuration of AMX tiles. */
#ifndef KF_AMX_TILES_H
#define KF_AMX_TILES_H

#include <immintrin.h>
#include <stdint.h>

/* Tiles 0 to 3 are sums: 16 rows of 64 bytes. Tiles 4 and 5 are left factors with 16 rows of
 * `columns` bytes, tiles 6 and 7 right factors with columns / 4 rows of 64 bytes. With 64 columns
 * all eight are full. */
static inline void kf_tiles_on(uint8_t columns) {
  struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  } config = {.palette = 1,
              .row_bytes = {64, 64, 64, 64, columns, columns, 64, 64},
              .rows = {16, 16, 16, 16, 16, 16, columns / 4, columns / 4}};
  __asm__ volatile(""
                   :
                   : "r"(&config)
                   : "memory"); /* compilers do not know that LDTILECFG reads all of it */
  _tile_loadconfig(&config);
}

static inline void kf_full_tiles_on(void) { kf_tiles_on(64); }
static inline void kf_tiles_off(void) { _tile_release(); }

#endif
