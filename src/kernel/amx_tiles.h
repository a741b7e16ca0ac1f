/* amx_tiles.h - the configuration of AMX tiles. */
#ifndef KF_AMX_TILES_H
#define KF_AMX_TILES_H

#include <immintrin.h>
#include <stdint.h>

/* What LDTILECFG reads. Objects of it are constant: the compiler does not know that the instruction
 * reads all of it, and would leave out the stores that fill in a local one. */
typedef struct kf_tile_config {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} kf_tile_config;

/* Tiles 0 to 5 of 16 rows, tiles 6 and 7 of `columns` / 4; 64 bytes a row, but `columns` in tiles 4
 * and 5. With 64, all eight are full. */
#define KF_TILES(columns)                                                                          \
  {                                                                                                \
    .palette = 1, .row_bytes = {64, 64, 64, 64, columns, columns, 64, 64}, .rows = {               \
      16,                                                                                          \
      16,                                                                                          \
      16,                                                                                          \
      16,                                                                                          \
      16,                                                                                          \
      16,                                                                                          \
      (columns) / 4,                                                                               \
      (columns) / 4                                                                                \
    }                                                                                              \
  }

static const kf_tile_config kf_full_tiles = KF_TILES(64);

static inline void kf_full_tiles_on(void) { _tile_loadconfig(&kf_full_tiles); }
static inline void kf_tiles_off(void) { _tile_release(); }

#endif
