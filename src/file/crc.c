/* crc.c - CRC-32, for ZIP archives and Parquet pages. */
#include "file/file.h"

#include <string.h>

/* Slicing by eight: table[k][b] is the effect of byte b followed by k zero bytes. */
void kf_crc_start(kf_crc *c) {
  c->state = UINT32_MAX;
  for (uint32_t b = 0; b < 256; b++) {
    uint32_t x = b;
    for (int bit = 0; bit < 8; bit++) x = x & 1 ? x >> 1 ^ 0xEDB88320u : x >> 1;
    c->table[0][b] = x;
  }
  for (int k = 1; k < 8; k++)
    for (uint32_t b = 0; b < 256; b++) {
      uint32_t x = c->table[k - 1][b];
      c->table[k][b] = x >> 8 ^ c->table[0][x & 255];
    }
}

void kf_crc_add(kf_crc *c, const unsigned char *p, size_t n) {
  uint32_t v = c->state;
  for (; n >= 8; n -= 8, p += 8) {
    uint32_t low, high;
    memcpy(&low, p, 4);
    memcpy(&high, p + 4, 4);
    low ^= v;
    v = c->table[7][low & 255] ^ c->table[6][low >> 8 & 255] ^ c->table[5][low >> 16 & 255] ^
        c->table[4][low >> 24] ^ c->table[3][high & 255] ^ c->table[2][high >> 8 & 255] ^
        c->table[1][high >> 16 & 255] ^ c->table[0][high >> 24];
  }
  for (; n > 0; n--, p++) v = v >> 8 ^ c->table[0][(v ^ *p) & 255];
  c->state = v;
}

uint32_t kf_crc_value(const kf_crc *c) { return ~c->state; }
