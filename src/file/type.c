/* type.c - element types and their conversion.
 *
 * Files have little-endian numbers, as do all machines koofu runs on; a port to another one starts
 * at the assertion below. */
#include "file/file_internal.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files are read without swapping bytes");

bool kf_type_is_float(kf_type type) { return type <= KF_TYPE_F64; }

bool kf_type_is_integer(kf_type type) { return type >= KF_TYPE_I8 && type <= KF_TYPE_U64; }

bool kf_type_is_raw(kf_type type) { return type <= KF_TYPE_F32; }

static const struct {
  kf_type type;
  const char *name;
} dtypes[] = {[KF_F32] = {KF_TYPE_F32, "f32"},
              [KF_F16] = {KF_TYPE_F16, "f16"},
              [KF_BF16] = {KF_TYPE_BF16, "bf16"},
              [KF_F64] = {KF_TYPE_F64, "f64"}};

kf_type kf_type_of(kf_dtype dtype) {
  return (unsigned)dtype <= KF_F64 ? dtypes[dtype].type : KF_TYPE_OTHER;
}

const char *kf_dtype_name(kf_dtype dtype) {
  return (unsigned)dtype <= KF_F64 ? dtypes[dtype].name : NULL;
}

/* --- floats -------------------------------------------------------------------------------- */

/* A bf16 is the upper half of an f32. */
static void decode_bf16(const uint16_t *in, size_t n, float *out) {
  for (size_t i = 0; i < n; i++) {
    uint32_t bits = (uint32_t)in[i] << 16;
    memcpy(out + i, &bits, sizeof bits);
  }
}

void kf_decode_f32(const kf_kernels *kernels, kf_type type, const void *in, size_t n, float *out) {
  if (type == KF_TYPE_F16) {
    kernels->f16_to_f32(in, n, out);
  } else if (type == KF_TYPE_BF16) {
    decode_bf16(in, n, out);
  } else if (type == KF_TYPE_F32) {
    memcpy(out, in, n * sizeof *out);
  } else if (type == KF_TYPE_U8) {
    const uint8_t *bytes = in;
    for (size_t i = 0; i < n; i++) out[i] = bytes[i];
  } else if (type == KF_TYPE_I8) {
    const int8_t *bytes = in;
    for (size_t i = 0; i < n; i++) out[i] = bytes[i];
  } else {
    const double *wide = in;
    for (size_t i = 0; i < n; i++) out[i] = (float)wide[i];
  }
}

static uint16_t encode_bf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  if (!isfinite(value)) return (uint16_t)(bits >> 16);
  bits += 0x7FFF + ((bits >> 16) & 1); /* round to nearest even; may carry into the exponent */
  return (uint16_t)(bits >> 16);
}

/* The first finite element that was rounded to infinity, or n. infinity: the exponent
 * mask of the narrow type. */
static size_t find_overflow(const float *in, const uint16_t *out, size_t n, uint16_t infinity) {
  for (size_t i = 0; i < n; i++)
    if ((out[i] & infinity) == infinity && isfinite(in[i])) return i;
  return n;
}

size_t kf_encode_f32(const kf_kernels *kernels, kf_type type, const float *in, size_t n,
                     void *out) {
  if (type == KF_TYPE_F16) {
    kernels->f32_to_f16(in, n, out);
    return find_overflow(in, out, n, 0x7C00);
  }
  if (type == KF_TYPE_BF16) {
    uint16_t *narrow = out;
    for (size_t i = 0; i < n; i++) narrow[i] = encode_bf16(in[i]);
    return find_overflow(in, out, n, 0x7F80);
  }
  memcpy(out, in, n * sizeof *in);
  return n;
}

/* --- integers ------------------------------------------------------------------------------ */

static int64_t integer_at(kf_type type, size_t size, const unsigned char *in) {
  uint64_t bits = 0;
  memcpy(&bits, in, size);
  switch (type) {
  case KF_TYPE_I8: return (int8_t)bits;
  case KF_TYPE_I16: return (int16_t)bits;
  case KF_TYPE_I32: return (int32_t)bits;
  case KF_TYPE_I64: return (int64_t)bits;
  default: return bits > INT64_MAX ? INT64_MAX : (int64_t)bits;
  }
}

void kf_decode_i64(kf_type type, const void *in, size_t n, int64_t *out) {
  const unsigned char *bytes = in;
  size_t size = kf_type_size(type);
  for (size_t i = 0; i < n; i++) out[i] = integer_at(type, size, bytes + i * size);
}
