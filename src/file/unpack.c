/* unpack.c - the codecs of Parquet: Snappy and LZ4 here, gzip by zlib, Zstandard by libzstd.
 *
 * The unpacked size is known in advance. Nothing is written past it, nothing is read past the end
 * of the input, and any other size means damage. */
#include "file/file_internal.h"

#include <string.h>
#ifdef KF_WITH_ZLIB
#include <zlib.h>
#endif
#ifdef KF_WITH_ZSTD
#include <zstd.h>
#include <zstd_errors.h>
#endif

const char *kf_codec_refusal(int codec) {
  switch (codec) {
  case KF_CODEC_NONE:
  case KF_CODEC_SNAPPY:
#ifdef KF_WITH_ZLIB
  case KF_CODEC_GZIP:
#endif
#ifdef KF_WITH_ZSTD
  case KF_CODEC_ZSTD:
#endif
  case KF_CODEC_LZ4: return NULL;
#ifndef KF_WITH_ZLIB
  case KF_CODEC_GZIP: return "gzip, but this koofu was built without zlib";
#endif
#ifndef KF_WITH_ZSTD
  case KF_CODEC_ZSTD: return "Zstandard, but this koofu was built without libzstd";
#endif
  case 3: return "LZO, which koofu does not read";
  case 4: return "Brotli, which koofu does not read";
  case 5: return "LZ4 in Hadoop framing, which koofu does not read (it reads LZ4_RAW)";
  default: return "a codec that koofu does not know";
  }
}

/* Copies n bytes from `back` bytes before `to`. If they overlap, the last `back` bytes repeat. */
static void repeat(unsigned char *to, size_t back, size_t n) {
  const unsigned char *from = to - back;
  if (back >= n) {
    memcpy(to, from, n);
    return;
  }
  for (size_t i = 0; i < n; i++) to[i] = from[i];
}

/* --- Snappy -------------------------------------------------------------------------------- */

/* The length of the varint at the beginning, which must be m; 0: it is not. */
static size_t snappy_size(const unsigned char *in, size_t n, size_t m) {
  uint64_t size = 0;
  unsigned shift = 0;
  size_t at = 0;
  do {
    if (at == n || shift > 28) return 0;
    size |= (uint64_t)(in[at] & 0x7F) << shift;
    shift += 7;
  } while (in[at++] >= 0x80);
  return size == m ? at : 0;
}

/* Reads the head of an element and returns its length; 0: it does not end within n bytes. *length:
 * the bytes it stands for; *back: how far back they are, 0 for a literal, which follows. The low
 * two bits of the first byte tell a literal from copies with 1, 2 or 4 bytes of distance. */
static size_t snappy_head(const unsigned char *in, size_t n, size_t *length, size_t *back) {
  unsigned tag = n > 0 ? *in : 0, kind = tag & 3;
  size_t more = (tag >> 2) + 1, number = 0;
  size_t extra = kind == 0 ? (more > 60 ? more - 60 : 0) : kind == 3 ? 4 : kind;
  if (n < extra + 1) return 0;
  for (size_t i = 0; i < extra; i++) number |= (size_t)in[i + 1] << 8 * i;
  *length = kind == 0 && extra > 0 ? number + 1 : kind == 1 ? (tag >> 2 & 7) + 4 : more;
  if (kind == 1) number |= (size_t)(tag >> 5) << 8;
  /* a distance of 0 is invalid */
  *back = kind == 0 ? 0 : number > 0 ? number : SIZE_MAX;
  return extra + 1;
}

/* Unpacks to exactly m bytes; false: damaged. */
static bool unpack_snappy(const unsigned char *in, size_t n, unsigned char *out, size_t m) {
  const unsigned char *end = in + n;
  unsigned char *to = out, *limit = out + m;
  while (in < end) {
    size_t length, back, head = snappy_head(in, (size_t)(end - in), &length, &back);
    if (head == 0 || length > (size_t)(limit - to) || back > (size_t)(to - out)) return false;
    in += head;
    if (back == 0) {
      if (length > (size_t)(end - in)) return false;
      memcpy(to, in, length);
      in += length;
    } else {
      repeat(to, back, length);
    }
    to += length;
  }
  return to == limit;
}

/* --- LZ4 ----------------------------------------------------------------------------------- */

/* A length of 15 continues in the next bytes, up to one that is not 255. */
static bool get_length(const unsigned char **in, const unsigned char *end, size_t *length) {
  if (*length < 15) return true;
  for (unsigned byte = 255; byte == 255;) {
    if (*in == end || *length > (size_t)1 << 32) return false;
    byte = *(*in)++;
    *length += byte;
  }
  return true;
}

/* Unpacks sequences of literals and a copy; the last one has no copy. */
static bool unpack_lz4(const unsigned char *in, size_t n, unsigned char *out, size_t m) {
  const unsigned char *end = in + n;
  unsigned char *to = out, *limit = out + m;
  for (;;) {
    if (in == end) return false;
    unsigned token = *in++;
    size_t length = token >> 4;
    if (!get_length(&in, end, &length)) return false;
    if (length > (size_t)(end - in) || length > (size_t)(limit - to)) return false;
    if (length > 0) memcpy(to, in, length);
    in += length;
    to += length;
    if (in == end) return to == limit;
    if (end - in < 2) return false;
    size_t back = in[0] | (size_t)in[1] << 8;
    in += 2;
    length = token & 15;
    if (!get_length(&in, end, &length)) return false;
    length += 4;
    if (back == 0 || back > (size_t)(to - out) || length > (size_t)(limit - to)) return false;
    repeat(to, back, length);
    to += length;
  }
}

/* --- gzip and Zstandard -------------------------------------------------------------------- */

/* Both allocate memory themselves, which may fail. */

#ifdef KF_WITH_ZLIB
static kf_status unpack_gzip(const unsigned char *in, size_t n, unsigned char *out, size_t m) {
  enum { GZIP_OR_ZLIB = 32 };
  z_stream z = {.next_in = (unsigned char *)(uintptr_t)in,
                .avail_in = (uInt)n,
                .next_out = out,
                .avail_out = (uInt)m};
  if (inflateInit2(&z, GZIP_OR_ZLIB + MAX_WBITS) != Z_OK) return KF_ERR_MEM;
  int code = inflate(&z, Z_FINISH);
  inflateEnd(&z);
  if (code == Z_MEM_ERROR) return KF_ERR_MEM;
  return code == Z_STREAM_END && z.avail_out == 0 && z.avail_in == 0 ? KF_OK : KF_ERR_DATA;
}
#endif

#ifdef KF_WITH_ZSTD
static kf_status unpack_zstd(const unsigned char *in, size_t n, unsigned char *out, size_t m) {
  size_t got = ZSTD_decompress(out, m, in, n);
  if (ZSTD_getErrorCode(got) == ZSTD_error_memory_allocation) return KF_ERR_MEM;
  return got == m ? KF_OK : KF_ERR_DATA;
}
#endif

static kf_status data_status(bool valid) { return valid ? KF_OK : KF_ERR_DATA; }

kf_status kf_unpack(kf_codec codec, const unsigned char *in, size_t n, unsigned char *out,
                    size_t m) {
  if (n == 0 && m == 0) return KF_OK; /* a page with nulls only */
  size_t size = codec == KF_CODEC_SNAPPY ? snappy_size(in, n, m) : 0;
  switch (codec) {
  case KF_CODEC_SNAPPY: return data_status(size > 0 && unpack_snappy(in + size, n - size, out, m));
  case KF_CODEC_LZ4: return data_status(unpack_lz4(in, n, out, m));
#ifdef KF_WITH_ZLIB
  case KF_CODEC_GZIP: return unpack_gzip(in, n, out, m);
#endif
#ifdef KF_WITH_ZSTD
  case KF_CODEC_ZSTD: return unpack_zstd(in, n, out, m);
#endif
  default:
    if (n == m) memcpy(out, in, n);
    return data_status(n == m);
  }
}
