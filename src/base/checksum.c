/* checksum.c - XXH64, the checksum in files written by koofu. It runs at memory speed, and anyone
 * can verify it with the `xxhash` package. Four lanes of 8 bytes make a stripe of 32. */
#include "base/base.h"

#include <string.h>

#define P1 0x9E3779B185EBCA87u
#define P2 0xC2B2AE3D27D4EB4Fu
#define P3 0x165667B19E3779F9u
#define P4 0x85EBCA77C2B2AE63u
#define P5 0x27D4EB2F165667C5u

static uint64_t rotate_left(uint64_t x, int r) { return (x << r) | (x >> (64 - r)); }

static uint64_t load64(const unsigned char *p) {
  uint64_t x = 0;
  for (int i = 7; i >= 0; i--) x = x << 8 | p[i];
  return x;
}

static uint64_t load32(const unsigned char *p) {
  return (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24;
}

static uint64_t round64(uint64_t lane, uint64_t input) {
  return rotate_left(lane + input * P2, 31) * P1;
}

static void stripe(kf_checksum *sum, const unsigned char *p) {
  for (int i = 0; i < 4; i++) sum->lane[i] = round64(sum->lane[i], load64(p + 8 * i));
}

void kf_checksum_start(kf_checksum *sum) {
  memset(sum, 0, sizeof *sum);
  sum->lane[0] = P1 + P2;
  sum->lane[1] = P2;
  sum->lane[3] = 0 - P1;
}

void kf_checksum_add(kf_checksum *sum, const void *bytes, uint64_t n) {
  const unsigned char *p = bytes;
  uint64_t held = sum->total % 32;
  sum->total += n;
  if (held + n < 32) {
    if (n > 0) memcpy(sum->tail + held, p, n);
    return;
  }
  if (held > 0) {
    memcpy(sum->tail + held, p, 32 - held);
    stripe(sum, sum->tail);
    p += 32 - held;
    n -= 32 - held;
  }
  for (; n >= 32; p += 32, n -= 32) stripe(sum, p);
  if (n > 0) memcpy(sum->tail, p, n);
}

uint64_t kf_checksum_value(const kf_checksum *sum) {
  uint64_t h = P5;
  if (sum->total >= 32) {
    const uint64_t *v = sum->lane;
    h = rotate_left(v[0], 1) + rotate_left(v[1], 7) + rotate_left(v[2], 12) + rotate_left(v[3], 18);
    for (int i = 0; i < 4; i++) h = (h ^ round64(0, v[i])) * P1 + P4;
  }
  h += sum->total;
  const unsigned char *p = sum->tail;
  uint64_t n = sum->total % 32;
  for (; n >= 8; p += 8, n -= 8) h = rotate_left(h ^ round64(0, load64(p)), 27) * P1 + P4;
  for (; n >= 4; p += 4, n -= 4) h = rotate_left(h ^ load32(p) * P1, 23) * P2 + P3;
  for (; n > 0; p++, n--) h = rotate_left(h ^ *p * P5, 11) * P1;
  h = (h ^ h >> 33) * P2;
  h = (h ^ h >> 29) * P3;
  return h ^ h >> 32;
}
