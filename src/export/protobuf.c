/* protobuf.c - writes messages of protobuf: a message is a list of fields, each a tag (number << 3
 * | kind) followed by a varint (kind 0) or by a length and that many bytes (kind 2). */
#include "export/protobuf.h"

#include <string.h>

void kf_pb_varint(kf_string *to, uint64_t value) {
  char bytes[10];
  size_t n = 0;
  for (; value >= 128; value >>= 7) bytes[n++] = (char)(unsigned char)(value | 128);
  bytes[n++] = (char)value;
  kf_string_add(to, bytes, n);
}

uint64_t kf_pb_varint_size(uint64_t value) {
  uint64_t n = 1;
  while (value >>= 7) n++;
  return n;
}

void kf_pb_number(kf_string *to, unsigned field, uint64_t value) {
  kf_pb_varint(to, field << 3);
  kf_pb_varint(to, value);
}

void kf_pb_length(kf_string *to, unsigned field, uint64_t n) {
  kf_pb_varint(to, field << 3 | 2);
  kf_pb_varint(to, n);
}

void kf_pb_bytes(kf_string *to, unsigned field, const char *bytes, size_t n) {
  kf_pb_length(to, field, n);
  kf_string_add(to, bytes, n);
}

void kf_pb_text(kf_string *to, unsigned field, const char *text) {
  kf_pb_bytes(to, field, text, strlen(text));
}

void kf_pb_message(kf_string *to, unsigned field, kf_string *message) {
  kf_pb_bytes(to, field, message->data != NULL ? message->data : "", message->n);
  to->failed |= message->failed;
  kf_string_clear(message);
}

void kf_pb_entry(kf_string *to, unsigned field, const char *key, const char *value) {
  kf_string entry = {0};
  kf_pb_text(&entry, 1, key);
  kf_pb_text(&entry, 2, value);
  kf_pb_message(to, field, &entry);
}
