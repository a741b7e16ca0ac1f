/* exif.c - the orientation of a picture, from EXIF or XMP.
 *
 * EXIF is a TIFF file inside the picture: the byte order, then the offset of a list of entries of
 * 12 bytes. A damaged block is ignored. The first entry counts, as in Pillow; XMP is used if EXIF
 * has no orientation. */
#include "encode/codec.h"

#include <string.h>

enum { ORIENTATION = 274, ENTRY = 12 };

typedef struct tiff {
  const uint8_t *bytes;
  size_t n;
  bool big_endian;
} tiff;

static uint32_t get16(const tiff *t, size_t at) {
  uint32_t a = t->bytes[at], b = t->bytes[at + 1];
  return t->big_endian ? a << 8 | b : b << 8 | a;
}

static uint32_t get32(const tiff *t, size_t at) {
  uint32_t a = get16(t, at), b = get16(t, at + 2);
  return t->big_endian ? a << 16 | b : b << 16 | a;
}

/* Bytes of a value of an integer type; 0: another type. */
static size_t width_of(uint32_t type) {
  switch (type) {
  case 6: return 1; /* signed byte */
  case 3:
  case 8: return 2; /* short, signed short */
  case 4:
  case 9:
  case 13: return 4; /* long, signed long, directory */
  default: return 0;
  }
}

/* The first value of an entry; 0: it cannot be read. */
static int value_of(const tiff *t, size_t entry) {
  size_t width = width_of(get16(t, entry + 2)), at = entry + 8;
  uint64_t count = get32(t, entry + 4);
  if (width == 0 || count == 0) return 0;
  if (count * width > 4) {
    at = get32(t, at);
    if (at > t->n || count * width > t->n - at) return 0;
  }
  uint32_t value = width == 1 ? t->bytes[at] : width == 2 ? get16(t, at) : get32(t, at);
  return value <= 8 ? (int)value : 9; /* 9: present but invalid */
}

int kf_exif_orientation(const uint8_t *bytes, size_t n) {
  static const char mark[] = "Exif\0"; /* and the NUL of the string */
  for (int i = 0; i < 2 && n >= sizeof mark && memcmp(bytes, mark, sizeof mark) == 0; i++) {
    bytes += sizeof mark;
    n -= sizeof mark;
  }
  tiff t = {.bytes = bytes, .n = n};
  if (n < 8) return 0;
  if (memcmp(bytes, "MM\0\x2a", 4) == 0)
    t.big_endian = true;
  else if (memcmp(bytes, "II\x2a\0", 4) != 0)
    return 0;
  size_t at = get32(&t, 4);
  if (at > n || n - at < 2) return 0;
  uint32_t entries = get16(&t, at);
  at += 2;
  for (uint32_t i = 0; i < entries && n - at >= ENTRY; i++, at += ENTRY) {
    if (get16(&t, at) != ORIENTATION) continue;
    int value = value_of(&t, at);
    if (value != 0) return value;
  }
  return 0;
}

/* tiff:Orientation="6" or <tiff:Orientation>6 */
int kf_xmp_orientation(const uint8_t *bytes, size_t n) {
  static const char key[] = "tiff:Orientation";
  const size_t length = sizeof key - 1;
  const uint8_t *end = bytes + n, *p = bytes;
  while (n > 0 && (p = memmem(p, (size_t)(end - p), key, length)) != NULL) {
    p += length;
    if (end - p >= 2 && p[0] == '>')
      p += 1;
    else if (end - p >= 3 && p[0] == '=' && p[1] == '"')
      p += 2;
    else
      continue;
    if (*p >= '0' && *p <= '9') return *p - '0';
  }
  return 0;
}

int kf_orientation(int exif, int xmp) {
  int value = exif != 0 ? exif : xmp;
  return value >= 1 && value <= 8 ? value : 1;
}
