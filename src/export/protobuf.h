/* protobuf.h - writes messages of protobuf, as onnx.c needs them. Stays in this room. */
#ifndef KF_PROTOBUF_H
#define KF_PROTOBUF_H

#include "export/export.h"

/* Each adds to a growing text, which stays `failed` once memory has run out. */
void kf_pb_varint(kf_string *to, uint64_t value);
uint64_t kf_pb_varint_size(uint64_t value);
void kf_pb_number(kf_string *to, unsigned field, uint64_t value);
/* A tag and a length; as many bytes must follow. */
void kf_pb_length(kf_string *to, unsigned field, uint64_t n);
void kf_pb_bytes(kf_string *to, unsigned field, const char *bytes, size_t n);
void kf_pb_text(kf_string *to, unsigned field, const char *text);
/* Takes the message over. */
void kf_pb_message(kf_string *to, unsigned field, kf_string *message);
/* A message of two texts: a key and its value. */
void kf_pb_entry(kf_string *to, unsigned field, const char *key, const char *value);

#endif
