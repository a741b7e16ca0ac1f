/* utf8.c - UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF. */
#include "base/text.h"

#include <string.h>

static bool trails(unsigned char byte) { return (byte & 0xC0) == 0x80; }

/* The length of the valid sequence at b, where `left` bytes are left; 0: there is none. */
static size_t sequence(const unsigned char *b, size_t left) {
  if (b[0] < 0x80) return 1;
  if (b[0] < 0xC2 || b[0] > 0xF4) return 0;
  if (b[0] < 0xE0) return left >= 2 && trails(b[1]) ? 2 : 0;
  if (b[0] < 0xF0) {
    if (left < 3 || !trails(b[1]) || !trails(b[2])) return 0;
    bool overlong = b[0] == 0xE0 && b[1] < 0xA0, surrogate = b[0] == 0xED && b[1] >= 0xA0;
    return overlong || surrogate ? 0 : 3;
  }
  if (left < 4 || !trails(b[1]) || !trails(b[2]) || !trails(b[3])) return 0;
  bool overlong = b[0] == 0xF0 && b[1] < 0x90, beyond = b[0] == 0xF4 && b[1] >= 0x90;
  return overlong || beyond ? 0 : 4;
}

/* The length of the ASCII prefix of a text, in steps of 8 bytes. */
static size_t ascii(const char *text, size_t length) {
  size_t at = 0;
  for (uint64_t eight; length - at >= sizeof eight; at += sizeof eight) {
    memcpy(&eight, text + at, sizeof eight);
    if (eight & UINT64_C(0x8080808080808080)) break;
  }
  return at;
}

size_t kf_utf8_prefix(const char *text, size_t length) {
  const unsigned char *bytes = (const unsigned char *)text;
  size_t at = ascii(text, length), n = 1;
  for (; at < length && n > 0; at += n) n = sequence(bytes + at, length - at);
  return at;
}

bool kf_utf8_valid(const char *text, size_t length) {
  return kf_utf8_prefix(text, length) == length;
}

uint32_t kf_utf8_next(const char *text, size_t *at) {
  const unsigned char *b = (const unsigned char *)text + *at;
  size_t n = b[0] < 0x80 ? 1 : b[0] < 0xE0 ? 2 : b[0] < 0xF0 ? 3 : 4;
  uint32_t c = n == 1 ? b[0] : b[0] & (0x7Fu >> n);
  for (size_t i = 1; i < n; i++) c = c << 6 | (b[i] & 63u);
  *at += n;
  return c;
}

size_t kf_utf8_put(uint32_t c, unsigned char bytes[4]) {
  if (c < 0x80) {
    bytes[0] = (unsigned char)c;
    return 1;
  }
  size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  static const unsigned char lead[5] = {0, 0, 0xC0, 0xE0, 0xF0};
  for (size_t i = n - 1; i > 0; i--, c >>= 6) bytes[i] = (unsigned char)(0x80 | (c & 63));
  bytes[0] = (unsigned char)(lead[n] | c);
  return n;
}
