/* thrift.h - the compact protocol of Thrift, as far as Parquet metadata need it: bounded
 * reading, and writing. */
#ifndef KF_THRIFT_H
#define KF_THRIFT_H

#include "base/text.h"

typedef enum kf_thrift_type {
  KF_THRIFT_STOP = 0, /* ends a struct */
  KF_THRIFT_TRUE = 1,
  KF_THRIFT_FALSE = 2,
  KF_THRIFT_I8 = 3,
  KF_THRIFT_I16 = 4,
  KF_THRIFT_I32 = 5,
  KF_THRIFT_I64 = 6,
  KF_THRIFT_DOUBLE = 7,
  KF_THRIFT_BINARY = 8,
  KF_THRIFT_LIST = 9,
  KF_THRIFT_SET = 10,
  KF_THRIFT_MAP = 11,
  KF_THRIFT_STRUCT = 12
} kf_thrift_type;

/* A reader of bytes. After the first error `bad` stays set and everything reads as zero, so one
 * check at the end of a struct is enough. */
typedef struct kf_thrift {
  const unsigned char *at, *end;
  const char *bad; /* the error; NULL: none */
  bool ended;      /* the error is that the bytes end too early */
  unsigned depth;  /* nesting of structs and lists */
} kf_thrift;

/* A struct being read, field by field. */
typedef struct kf_thrift_struct {
  kf_thrift *in;
  int16_t id; /* of the field */
  kf_thrift_type type;
} kf_thrift_struct;

kf_thrift kf_thrift_start(const void *bytes, size_t n);
kf_thrift_struct kf_thrift_enter(kf_thrift *in);
kf_thrift_struct kf_thrift_enter_field(const kf_thrift_struct *s); /* the field must be a struct */
/* The next field; false at the end of the struct and on errors. The caller
 * reads or skips its value. */
bool kf_thrift_field(kf_thrift_struct *s);
/* Integers of any width; sets `bad` for other types. */
int64_t kf_thrift_integer(kf_thrift_struct *s);
int32_t kf_thrift_i32(kf_thrift_struct *s); /* sets `bad` if it does not fit */
bool kf_thrift_bool(kf_thrift_struct *s);
/* Bytes inside the input. */
const char *kf_thrift_binary(kf_thrift_struct *s, uint32_t *n);
/* The number of elements of a list, each of `type`. An element takes at least one byte, so the
 * input bounds the number. */
uint32_t kf_thrift_list(kf_thrift_struct *s, kf_thrift_type type);
void kf_thrift_skip(kf_thrift_struct *s);

/* --- writing ------------------------------------------------------------------------------- */

/* A struct being written; fields come in ascending order. */
typedef struct kf_thrift_out {
  kf_string *to;
  int16_t last;
} kf_thrift_out;
void kf_thrift_put_varint(kf_string *to, uint64_t value);
void kf_thrift_put_i32(kf_thrift_out *s, int16_t id, int32_t value);
void kf_thrift_put_i64(kf_thrift_out *s, int16_t id, int64_t value);
void kf_thrift_put_text(kf_thrift_out *s, int16_t id, const char *text);
/* The header of a list; its elements follow. */
void kf_thrift_put_list(kf_thrift_out *s, int16_t id, kf_thrift_type type, uint32_t n);
void kf_thrift_put_element_i32(kf_string *to, int32_t value);
void kf_thrift_put_element_text(kf_string *to, const char *text);
/* A struct as a field, to be ended by kf_thrift_put_end. As a list element, start
 * one with `to` alone. */
kf_thrift_out kf_thrift_put_struct(kf_thrift_out *s, int16_t id);
void kf_thrift_put_end(kf_thrift_out *s);

#endif
