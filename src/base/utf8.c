/* utf8.c - checks whether text is UTF-8: no overlong forms, no surrogates. */
#include "base/text.h"

/* The length of the sequence that a lead byte opens, or 0 if it opens none; *least: the smallest
 * character that needs this length. */
static size_t sequence_length(unsigned char lead, uint32_t *least) {
  *least = 0;
  if (lead < 0x80) return 1;
  *least = 0x80;
  if (lead >= 0xC2 && lead < 0xE0) return 2;
  *least = 0x800;
  if (lead >= 0xE0 && lead < 0xF0) return 3;
  *least = 0x10000;
  return lead >= 0xF0 && lead < 0xF5 ? 4 : 0;
}

bool kf_utf8_valid(const char *text, size_t length) {
  const unsigned char *bytes = (const unsigned char *)text;
  for (size_t i = 0; i < length;) {
    uint32_t least;
    size_t n = sequence_length(bytes[i], &least);
    if (n == 0 || n > length - i) return false;
    uint32_t character = n == 1 ? bytes[i] : bytes[i] & (0x7Fu >> n);
    for (size_t j = 1; j < n; j++) {
      if ((bytes[i + j] & 0xC0) != 0x80) return false;
      character = character << 6 | (bytes[i + j] & 0x3F);
    }
    bool surrogate = character >= 0xD800 && character <= 0xDFFF;
    if (character < least || surrogate || character > 0x10FFFF) return false;
    i += n;
  }
  return true;
}
