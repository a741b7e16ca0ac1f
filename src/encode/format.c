/* format.c - recognises the format of a picture by its magic bytes, since extensions are often
 * wrong. Formats that cannot be read are recognised too, so that such pictures are reported and not
 * silently skipped. */
#include "encode/image.h"
#include "file/file.h"

#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FIRST = 32 }; /* bytes: enough to recognise every format */

typedef struct mark {
  const char *name;
  size_t at, n;
  const char *bytes;
  bool readable;
} mark;

#define MARK(at, bytes) (at), sizeof(bytes) - 1, (bytes)
static const mark marks[] = {
    {"JPEG", MARK(0, "\xff\xd8\xff"), true},
    {"PNG", MARK(0, "\x89PNG\r\n\x1a\n"), true},
    {"WebP", MARK(8, "WEBP"), true}, /* after "RIFF" */
    {"GIF", MARK(0, "GIF87a"), false},
    {"GIF", MARK(0, "GIF89a"), false},
    {"TIFF", MARK(0, "II*\0"), false},
    {"TIFF", MARK(0, "MM\0*"), false},
    {"HEIC", MARK(4, "ftyphei"), false},
    {"HEIC", MARK(4, "ftyphev"), false},
    {"HEIC", MARK(4, "ftypmif1"), false},
    {"HEIC", MARK(4, "ftypmsf1"), false},
    {"AVIF", MARK(4, "ftypavi"), false},
    {"JPEG XL", MARK(0, "\xff\x0a"), false},
    {"JPEG XL", MARK(4, "JXL \r\n\x87\n"), false},
    {"JPEG 2000", MARK(4, "jP  \r\n\x87\n"), false},
    {"Photoshop", MARK(0, "8BPS"), false},
};

static bool has(const uint8_t *bytes, size_t n, size_t at, const char *wanted, size_t length) {
  return n >= at + length && memcmp(bytes + at, wanted, length) == 0;
}

/* "BM" alone may begin a text: four zero bytes and the size of the second header must follow. */
static bool is_bmp(const uint8_t *bytes, size_t n) {
  static const uint8_t sizes[] = {12, 40, 52, 56, 64, 108, 124};
  return has(bytes, n, 0, "BM", 2) && has(bytes, n, 6, "\0\0\0\0", 4) &&
         has(bytes, n, 15, "\0\0\0", 3) && memchr(sizes, bytes[14], sizeof sizes) != NULL;
}

const char *kf_picture_format(const uint8_t *bytes, size_t n, bool *readable) {
  *readable = false;
  if (is_bmp(bytes, n)) return "BMP";
  for (const mark *m = marks; m < marks + sizeof marks / sizeof *marks; m++) {
    if (!has(bytes, n, m->at, m->bytes, m->n)) continue;
    if (m->at == 8 && !has(bytes, n, 0, "RIFF", 4)) continue;
    *readable = m->readable;
    return m->name;
  }
  return NULL;
}

/* --- files ------------------------------------------------------------------------------------ */

/* Whether the extension is that of a format that cannot be read. */
static bool has_unread_extension(const char *path) {
  static const char *const extensions[] = {".gif",  ".bmp",  ".tif", ".tiff", ".heic",
                                           ".heif", ".avif", ".jxl", ".jp2",  ".psd"};
  const char *dot = strrchr(path, '.');
  for (size_t i = 0; dot != NULL && i < sizeof extensions / sizeof *extensions; i++)
    if (strcasecmp(dot, extensions[i]) == 0) return true;
  return false;
}

/* Reads the first bytes of a regular file; returns how many, 0 if it cannot be read. Does not wait
 * for pipes. */
static size_t first_bytes(const char *path, uint8_t bytes[FIRST]) {
  int fd = kf_open(path, O_RDONLY | O_NONBLOCK);
  if (fd < 0) return 0;
  struct stat info;
  ssize_t n = fstat(fd, &info) == 0 && S_ISREG(info.st_mode) ? pread(fd, bytes, FIRST, 0) : 0;
  close(fd);
  return n > 0 ? (size_t)n : 0;
}

kf_look kf_look_at(const char *path) {
  uint8_t bytes[FIRST];
  bool readable;
  if (kf_is_picture(path)) return KF_LOOK_PICTURE; /* reading it will report the error */
  if (kf_picture_format(bytes, first_bytes(path, bytes), &readable) != NULL)
    return readable ? KF_LOOK_PICTURE : KF_LOOK_UNREAD;
  return has_unread_extension(path) ? KF_LOOK_UNREAD : KF_LOOK_OTHER;
}
