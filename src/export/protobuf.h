/* protobuf.h - writes messages of protobuf, as far as onnx.c needs them. Private to this room. */
#ifndef KF_PROTOBUF_H
#define KF_PROTOBUF_H

#include "export/export.h"

/* All of these append to a string, which stays `failed` once memory has run out. */
void kf_pb_varint(kf_string *to, uint64_t value);
uint64_t kf_pb_varint_size(uint64_t value);
void kf_pb_number(kf_string *to, unsigned field, uint64_t value);
/* A tag and a length; the caller must append n bytes. */
void kf_pb_length(kf_string *to, unsigned field, uint64_t n);
void kf_pb_bytes(kf_string *to, unsigned field, const char *bytes, size_t n);
void kf_pb_text(kf_string *to, unsigned field, const char *text);
/* Clears the message. */
void kf_pb_message(kf_string *to, unsigned field, kf_string *message);
/* A message of two strings, a key and its value. */
void kf_pb_entry(kf_string *to, unsigned field, const char *key, const char *value);

#endif
