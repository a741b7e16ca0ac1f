/* parquet_bits.c - bit-packed integers in Parquet pages.
 *
 * Levels and indices are runs. The lowest bit of a varint says whether one value is repeated (the
 * other bits are the count) or packed values follow, lowest bit first (the other bits are the count
 * divided by 8). The last run may have more values than are needed.
 *
 * Deltas come in blocks: the smallest delta, the widths of a few miniblocks, then the miniblocks,
 * which store each delta minus the smallest one. */
#include "file/parquet_bits.h"

#include <string.h>

/* false: the bytes end too early, or the value does not fit. */
static bool get_varint(kf_pq_span *in, uint64_t *out) {
  *out = 0;
  for (unsigned shift = 0; shift < 64 && in->at < in->end; shift += 7) {
    uint64_t byte = *in->at++;
    if (shift == 63 && byte > 1) return false;
    *out |= (byte & 0x7F) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

static uint64_t mask_of(unsigned width) {
  return width >= 64 ? UINT64_MAX : ((uint64_t)1 << width) - 1;
}

/* The value of `width` bits, up to 64, at a bit offset. Bits past `end` are zeros. */
static uint64_t bits_at(const unsigned char *from, const unsigned char *end, uint64_t bit,
                        unsigned width) {
  const unsigned char *at = from + bit / 8;
  unsigned shift = (unsigned)(bit % 8);
  uint64_t low = 0, high = 0;
  size_t left = (size_t)(end - at);
  memcpy(&low, at, left < 8 ? left : 8);
  low >>= shift;
  if (shift + width > 64 && left > 8) {
    high = at[8];
    low |= high << (64 - shift);
  }
  return low & mask_of(width);
}

/* --- runs ---------------------------------------------------------------------------------- */

kf_pq_runs kf_pq_runs_start(kf_pq_span in, unsigned width) {
  return (kf_pq_runs){.in = in, .width = width};
}

/* Some writers cut the last run of packed values short; it ends where the bytes end. */
static bool next_packed(kf_pq_runs *r, uint64_t eights) {
  uint64_t left = (uint64_t)(r->in.end - r->in.at), bytes = eights * r->width, n = eights * 8;
  if (bytes > left) {
    bytes = left;
    n = bytes * 8 / r->width;
  }
  r->left = n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
  r->from = r->in.at;
  r->bit = 0;
  r->in.at += bytes;
  return n > 0;
}

static bool next_run(kf_pq_runs *r) {
  uint64_t head;
  if (!get_varint(&r->in, &head) || head >> 1 > UINT32_MAX) return false;
  r->packed = head & 1;
  if (r->packed) return next_packed(r, head >> 1);
  size_t size = (r->width + 7) / 8;
  if ((size_t)(r->in.end - r->in.at) < size) return false;
  r->value = 0;
  memcpy(&r->value, r->in.at, size);
  r->in.at += size;
  r->left = (uint32_t)(head >> 1);
  return r->left > 0 && (uint64_t)r->value >> r->width == 0;
}

/* Takes at most n values of the current or next run. 0: the bytes end. */
static uint32_t take(kf_pq_runs *r, uint32_t n) {
  if (r->left == 0 && !next_run(r)) return 0;
  uint32_t count = r->left < n ? r->left : n;
  r->left -= count;
  return count;
}

static uint32_t value_at(const kf_pq_runs *r, uint32_t i) {
  return (uint32_t)bits_at(r->from, r->in.at, r->bit + (uint64_t)i * r->width, r->width);
}

/* All but the last few values are at least eight bytes before the end of their run. */
static void read_packed(const kf_pq_runs *r, uint32_t *out, uint32_t n) {
  uint64_t bytes = (uint64_t)(r->in.at - r->from), bit = r->bit, mask = mask_of(r->width);
  uint32_t i = 0;
  for (; i < n && bit / 8 + 8 <= bytes; i++, bit += r->width) {
    uint64_t word;
    memcpy(&word, r->from + bit / 8, sizeof word);
    out[i] = (uint32_t)(word >> bit % 8 & mask);
  }
  for (; i < n; i++) out[i] = value_at(r, i);
}

bool kf_pq_runs_read(kf_pq_runs *r, uint32_t *out, uint32_t n) {
  while (n > 0) {
    uint32_t count = take(r, n);
    if (count == 0) return false;
    if (r->packed) read_packed(r, out, count);
    for (uint32_t i = 0; !r->packed && i < count; i++) out[i] = r->value;
    r->bit += (uint64_t)count * r->width;
    out += count;
    n -= count;
  }
  return true;
}

bool kf_pq_runs_read_levels(kf_pq_runs *r, unsigned char *out, uint32_t n) {
  uint32_t values[1024];
  while (n > 0) {
    uint32_t count = take(r, n < 1024 ? n : 1024);
    if (count == 0) return false;
    if (r->packed) read_packed(r, values, count);
    for (uint32_t i = 0; r->packed && i < count; i++) out[i] = (unsigned char)values[i];
    if (!r->packed) memset(out, (int)r->value, count);
    r->bit += (uint64_t)count * r->width;
    out += count;
    n -= count;
  }
  return true;
}

/* --- deltas -------------------------------------------------------------------------------- */

static bool get_zigzag(kf_pq_span *in, uint64_t *out) {
  uint64_t value;
  if (!get_varint(in, &value)) return false;
  *out = value >> 1 ^ (~(value & 1) + 1);
  return true;
}

/* Reads a miniblock of `size` deltas and adds up the first `wanted`. */
static bool read_miniblock(kf_pq_span *in, unsigned width, uint64_t size, uint32_t wanted,
                           uint64_t least, uint64_t *value, int64_t *out) {
  uint64_t bytes = size / 8 * width;
  if (width > 64 || bytes > (uint64_t)(in->end - in->at)) return false;
  for (uint32_t i = 0; i < wanted; i++) {
    uint64_t delta = width > 0 ? bits_at(in->at, in->at + bytes, (uint64_t)i * width, width) : 0;
    *value += least + delta; /* modulo 2^64, as specified */
    out[i] = (int64_t)*value;
  }
  in->at += bytes;
  return true;
}

bool kf_pq_deltas(kf_pq_span *in, uint32_t n, int64_t *out) {
  uint64_t block, minis, total, value, least;
  if (!get_varint(in, &block) || !get_varint(in, &minis) || !get_varint(in, &total) ||
      !get_zigzag(in, &value))
    return false;
  if (total != n || minis == 0 || minis > 512 || block == 0 || block > 1 << 24 ||
      block % minis != 0 || block / minis % 8 != 0)
    return false;
  if (n > 0) out[0] = (int64_t)value;
  uint64_t size = block / minis;
  for (uint32_t done = 1; done < n;) {
    if (!get_zigzag(in, &least) || (uint64_t)(in->end - in->at) < minis) return false;
    const unsigned char *widths = in->at;
    in->at += minis;
    for (uint64_t m = 0; m < minis && done < n; m++) {
      uint32_t wanted = n - done < size ? n - done : (uint32_t)size;
      if (!read_miniblock(in, widths[m], size, wanted, least, &value, out + done)) return false;
      done += wanted;
    }
  }
  return true;
}
