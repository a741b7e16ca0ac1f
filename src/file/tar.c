/* tar.c - tar archives: lists the members and where their bytes are.
 *
 * A member is a header of 512 bytes and the content, padded to a multiple of 512. Two headers of
 * zeros end the archive; here one is enough, and none means that the file was cut off. Names and
 * sizes that do not fit the header precede it in a member of their own: GNU's 'L', or the records
 * "LENGTH KEY=VALUE\n" of POSIX's 'x'. Only headers are read. Sizes are checked against the file
 * before anything is allocated. */
#include "file/file_internal.h"

#include <inttypes.h>
#include <string.h>

enum {
  BLOCK = 512,
  NAME = 0, /* offsets and sizes of the fields */
  NAME_SIZE = 100,
  SIZE = 124,
  SIZE_SIZE = 12,
  SUM = 148,
  SUM_SIZE = 8,
  KIND = 156,
  MAGIC = 257,
  PREFIX = 345,
  PREFIX_SIZE = 155
};
#define MAX_EXTENSION (1u << 16) /* limit for a long name, or for records */

static const char cut_off[] =
    "the archive ends without its end mark after %" PRIu64 " bytes: it was cut off";

/* --- fields -------------------------------------------------------------------------------- */

/* An octal number with optional spaces before and a NUL or space after it, or GNU's binary
 * form; false: neither. */
static bool number(const unsigned char *field, size_t n, uint64_t *out) {
  size_t i = 0;
  uint64_t value = 0;
  if (field[0] == 0x80) {
    for (i = 1; i < n; i++) {
      if (value >> 55 != 0) return false;
      value = value << 8 | field[i];
    }
    *out = value;
    return true;
  }
  while (i < n && field[i] == ' ') i++;
  for (; i < n && field[i] >= '0' && field[i] <= '7'; i++) value = value << 3 | (field[i] - '0');
  *out = value;
  return i == n || field[i] == '\0' || field[i] == ' ';
}

/* Checks the sum of the header bytes, with its own field counted as spaces. Some old
 * programs added signed bytes. */
static bool sum_is_right(const unsigned char *header) {
  uint64_t said;
  int64_t sum = 0, as_signed = 0;
  for (size_t i = 0; i < BLOCK; i++) {
    unsigned char c = i >= SUM && i < SUM + SUM_SIZE ? ' ' : header[i];
    sum += c;
    as_signed += (signed char)c;
  }
  return number(header + SUM, SUM_SIZE, &said) &&
         ((int64_t)said == sum || (int64_t)said == as_signed);
}

static bool is_zero(const unsigned char *header) {
  for (size_t i = 0; i < BLOCK; i++)
    if (header[i] != 0) return false;
  return true;
}

/* Takes the name from the header: "PREFIX/NAME" in POSIX archives. */
static void name_of(kf_tar *tar, const unsigned char *header) {
  const char *name = (const char *)header + NAME, *prefix = (const char *)header + PREFIX;
  size_t n = strnlen(prefix, PREFIX_SIZE);
  bool posix = memcmp(header + MAGIC, "ustar", 6) == 0; /* POSIX has a NUL here, GNU a space */
  tar->name.n = 0;
  if (posix && n > 0) {
    kf_string_add(&tar->name, prefix, n);
    kf_string_add(&tar->name, "/", 1);
  }
  kf_string_add(&tar->name, name, strnlen(name, NAME_SIZE));
}

/* --- what comes before a member ------------------------------------------------------------ */

/* A decimal number followed by the character `after`; *length includes it. 0:
 * none, or absurdly large. */
static size_t decimal(const char *text, size_t n, char after, size_t *length) {
  size_t i = 0, value = 0;
  for (; i < n && i < 18 && text[i] >= '0' && text[i] <= '9'; i++)
    value = value * 10 + (size_t)(text[i] - '0');
  *length = i + 1;
  return i > 0 && i < n && text[i] == after ? value : 0;
}

/* Reads POSIX records. Only path and size matter. */
static kf_status read_records(kf_tar *tar, const char *text, size_t n, kf_err *err) {
  while (n > 0) {
    size_t digits, length = decimal(text, n, ' ', &digits);
    if (length <= digits || length > n || text[length - 1] != '\n')
      return kf_fail_file(err, tar->in.path,
                          "the records before the member at byte %" PRIu64 " are damaged",
                          tar->next);
    const char *key = text + digits, *end = text + length - 1;
    if (end - key > 5 && memcmp(key, "path=", 5) == 0) {
      tar->name.n = 0;
      kf_string_add(&tar->name, key + 5, (size_t)(end - key - 5));
      tar->named = true;
    }
    if (end - key > 5 && memcmp(key, "size=", 5) == 0) {
      size_t used;
      tar->size = decimal(key + 5, (size_t)(end - key - 4), '\n', &used);
      tar->sized = true;
      if (tar->size == 0 && key[5] != '0')
        return kf_fail_file(err, tar->in.path, "the member at byte %" PRIu64 " has an invalid size",
                            tar->next);
    }
    text += length;
    n -= length;
  }
  return KF_OK;
}

/* Reads a long name or records; tar->next is already after them. */
static kf_status read_extension(kf_tar *tar, unsigned char kind, uint64_t at, uint64_t size,
                                kf_err *err) {
  if (size > MAX_EXTENSION)
    return kf_fail_file(err, tar->in.path,
                        "%" PRIu64 " bytes of names and records at byte %" PRIu64
                        " are more than the limit of %u",
                        size, at, MAX_EXTENSION);
  char text[MAX_EXTENSION];
  KF_TRY(kf_in_read(&tar->in, at, text, size, err));
  if (kind == 'x') return read_records(tar, text, (size_t)size, err);
  tar->name.n = 0;
  kf_string_add(&tar->name, text, strnlen(text, (size_t)size));
  tar->named = true;
  return KF_OK;
}

/* --- members ------------------------------------------------------------------------------- */

kf_status kf_tar_open(kf_tar *tar, const char *path, kf_err *err) {
  *tar = (kf_tar){.in = {.fd = -1}};
  return kf_in_open(&tar->in, path, err);
}

void kf_tar_close(kf_tar *tar) {
  kf_in_close(&tar->in);
  kf_string_clear(&tar->name);
}

static kf_status read_header(const kf_tar *tar, unsigned char *header, kf_err *err) {
  uint64_t left = tar->in.size - tar->next;
  if (left == 0) return kf_fail_file(err, tar->in.path, cut_off, tar->in.size);
  if (left < BLOCK) {
    if (tar->next == 0)
      return kf_fail_file(err, tar->in.path, "is not a tar archive: it has %" PRIu64 " bytes",
                          left);
    return kf_fail_file(err, tar->in.path, cut_off, tar->in.size);
  }
  KF_TRY(kf_in_read(&tar->in, tar->next, header, BLOCK, err));
  if (is_zero(header) || sum_is_right(header)) return KF_OK;
  bool gzip = tar->next == 0 && header[0] == 0x1F && header[1] == 0x8B;
  if (tar->next == 0)
    return kf_fail_file(err, tar->in.path, "is not a tar archive%s",
                        gzip ? ", but compressed: unpack it with gunzip" : "");
  return kf_fail_file(err, tar->in.path,
                      "the header at byte %" PRIu64 " is damaged: its checksum is wrong",
                      tar->next);
}

/* Moves past a header and its content, and returns where the content is. */
static kf_status skip_content(kf_tar *tar, const unsigned char *header, uint64_t *at,
                              uint64_t *size, kf_err *err) {
  if (tar->sized)
    *size = tar->size;
  else if (!number(header + SIZE, SIZE_SIZE, size))
    return kf_fail_file(err, tar->in.path, "the member at byte %" PRIu64 " has an invalid size",
                        tar->next);
  *at = tar->next + BLOCK;
  uint64_t left = tar->in.size - *at;
  if (*size > left)
    return kf_fail_file(err, tar->in.path,
                        "the member at byte %" PRIu64 " has %" PRIu64
                        " bytes, but the archive ends after %" PRIu64 ": it was cut off",
                        tar->next, *size, left);
  uint64_t padded = (*size + BLOCK - 1) / BLOCK * BLOCK;
  tar->next = *at + (padded < left ? padded : left);
  return KF_OK;
}

kf_status kf_tar_next(kf_tar *tar, kf_tar_member *out, bool *found, kf_err *err) {
  tar->named = tar->sized = *found = false;
  for (;;) {
    unsigned char header[BLOCK];
    uint64_t at = 0, size = 0;
    KF_TRY(read_header(tar, header, err));
    if (is_zero(header)) return KF_OK;
    unsigned char kind = header[KIND];
    bool before = kind == 'L' || kind == 'K' || kind == 'x' || kind == 'g';
    bool sized = tar->sized;
    if (before) tar->sized = false; /* it applies to the next member */
    KF_TRY(skip_content(tar, header, &at, &size, err));
    tar->sized = sized;
    if (kind == 'S')
      return kf_fail_file(err, tar->in.path, "the member at byte %" PRIu64 " is sparse",
                          at - BLOCK);
    if (kind == 'L' || kind == 'x') KF_TRY(read_extension(tar, kind, at, size, err));
    if (before) continue;
    if (!tar->named) name_of(tar, header);
    if (tar->name.failed) return kf_fail_memory(err);
    if (kind == '0' || kind == '\0' || kind == '7') {
      *out = (kf_tar_member){.name = tar->name.data, .at = at, .size = size};
      *found = true;
      return KF_OK;
    }
    tar->named = tar->sized = false; /* a folder, a link, a device */
  }
}
