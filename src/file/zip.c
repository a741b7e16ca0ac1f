/* zip.c - ZIP archives, as NumPy writes them: the directory, and stored or deflated members.
 *
 * The directory at the end of the file is authoritative; local headers must agree with it. Its
 * place, the sizes and the names are checked before anything else is read, so no member lies
 * outside the file and no name occurs twice. A stored member is read in place. A deflated one has
 * no random access, so it is unpacked once to an unnamed file on the disk of the archive (or in
 * /tmp, if that disk is not writable); memory stays small, and nothing is left behind. Both are
 * checked against the CRC-32 of the directory. */
#include "file/file_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef KF_WITH_ZLIB
#include <zlib.h>
#endif

enum {
  CHUNK = 65536,
  END_SIZE = 22,   /* size of the end record, without its comment */
  END64_SIZE = 56, /* of its 64-bit version, and of the locator of that */
  LOCATOR_SIZE = 20,
  ENTRY_SIZE = 46, /* of a directory entry, without name, extra field and comment */
  LOCAL_SIZE = 30,
  MAX_MEMBERS = 65536
};
#define MAX_DIRECTORY (16u << 20)

/* --- little-endian numbers ----------------------------------------------------------------- */

static unsigned get16(const unsigned char *p) { return (unsigned)p[0] | (unsigned)p[1] << 8; }

static uint32_t get32(const unsigned char *p) { return get16(p) | (uint32_t)get16(p + 2) << 16; }

static uint64_t get64(const unsigned char *p) { return get32(p) | (uint64_t)get32(p + 4) << 32; }

/* --- the directory ------------------------------------------------------------------------- */

typedef struct directory {
  uint64_t entries, size, offset;
} directory;

static kf_status fail_archive(const kf_zip *zip, const char *what, kf_err *err) {
  return kf_fail_file(err, zip->in.path, "is not a valid .npz file: %s", what);
}

/* Finds the end record: the last one whose comment ends with the file. */
static kf_status find_end(const kf_zip *zip, uint64_t *offset, unsigned char record[END_SIZE],
                          kf_err *err) {
  unsigned char *tail = NULL;
  uint64_t size = zip->in.size, most = END_SIZE + 65535, n = size < most ? size : most;
  *offset = UINT64_MAX;
  if (n >= END_SIZE && (tail = kf_alloc(n, 1)) == NULL) return kf_fail_memory(err);
  kf_status status = tail != NULL ? kf_in_read(&zip->in, size - n, tail, n, err) : KF_OK;
  for (uint64_t left = END_SIZE; status == KF_OK && left <= n; left++) {
    const unsigned char *p = tail + (n - left);
    if (memcmp(p, "PK\5\6", 4) != 0 || END_SIZE + get16(p + 20) != left) continue;
    *offset = size - left;
    memcpy(record, p, END_SIZE);
    break;
  }
  kf_free(tail);
  if (status != KF_OK || *offset != UINT64_MAX) return status;
  return fail_archive(zip, "it has no directory at its end (cut short?)", err);
}

/* Reads the 64-bit end record before the other one; *end becomes its offset. */
static kf_status read_end64(const kf_zip *zip, uint64_t *end, directory *d, kf_err *err) {
  unsigned char p[END64_SIZE];
  static const char damaged[] = "its 64-bit directory is damaged";
  if (*end < LOCATOR_SIZE + END64_SIZE) return fail_archive(zip, damaged, err);
  uint64_t locator = *end - LOCATOR_SIZE;
  KF_TRY(kf_in_read(&zip->in, locator, p, LOCATOR_SIZE, err));
  uint64_t offset = get64(p + 8);
  if (memcmp(p, "PK\6\7", 4) != 0 || get32(p + 4) != 0 || get32(p + 16) > 1 ||
      offset > locator - END64_SIZE)
    return fail_archive(zip, damaged, err);
  KF_TRY(kf_in_read(&zip->in, offset, p, END64_SIZE, err));
  if (memcmp(p, "PK\6\6", 4) != 0 || get64(p + 4) != locator - offset - 12 || get32(p + 16) != 0 ||
      get32(p + 20) != 0 || get64(p + 24) != get64(p + 32))
    return fail_archive(zip, damaged, err);
  *d = (directory){.entries = get64(p + 32), .size = get64(p + 40), .offset = get64(p + 48)};
  *end = offset;
  return KF_OK;
}

static kf_status find_directory(const kf_zip *zip, directory *d, kf_err *err) {
  unsigned char p[END_SIZE] = {0};
  uint64_t end;
  KF_TRY(find_end(zip, &end, p, err));
  *d = (directory){.entries = get16(p + 10), .size = get32(p + 12), .offset = get32(p + 16)};
  bool wide = d->entries == UINT16_MAX || d->size == UINT32_MAX || d->offset == UINT32_MAX;
  if (wide)
    KF_TRY(read_end64(zip, &end, d, err));
  else if (get16(p + 4) != 0 || get16(p + 6) != 0 || get16(p + 8) != d->entries)
    return fail_archive(zip, "it is one part of several", err);
  if (d->offset > end || d->size != end - d->offset)
    return fail_archive(zip, "its directory is not where the end record says", err);
  if (d->size > MAX_DIRECTORY || d->entries > MAX_MEMBERS || d->entries * ENTRY_SIZE > d->size)
    return kf_fail_file(err, zip->in.path,
                        "the directory has %" PRIu64 " entries in %" PRIu64
                        " bytes, too many or too few",
                        d->entries, d->size);
  return KF_OK;
}

/* Reads 64-bit sizes and offset from the extra field, for those that are all ones. */
static bool read_extra(kf_zip_member *m, const unsigned char *extra, size_t n) {
  uint64_t *wide[3] = {&m->size, &m->packed, &m->header};
  bool wanted = false;
  for (int i = 0; i < 3; i++) wanted |= *wide[i] == UINT32_MAX;
  if (!wanted) return true;
  while (n >= 4) {
    size_t length = get16(extra + 2);
    if (length > n - 4) return false;
    if (get16(extra) != 1) {
      extra += 4 + length;
      n -= 4 + length;
      continue;
    }
    const unsigned char *p = extra + 4;
    for (int i = 0; i < 3; i++) {
      if (*wide[i] != UINT32_MAX) continue;
      if (length < 8) return false;
      *wide[i] = get64(p);
      p += 8;
      length -= 8;
    }
    return true;
  }
  return false;
}

static kf_status bad_member(const kf_zip *zip, const kf_zip_member *m, const char *what,
                            kf_err *err) {
  return kf_fail_file(err, zip->in.path, "the member '%.64s' %s", m->name, what);
}

static kf_status check_member(const kf_zip *zip, const kf_zip_member *m, kf_err *err) {
  const char *wrong = NULL;
  if (m->header > zip->end || zip->end - m->header < LOCAL_SIZE ||
      m->packed > zip->end - m->header - LOCAL_SIZE)
    wrong = "lies outside the file";
  else if (m->method == 0 && m->packed != m->size)
    wrong = "is stored with two different sizes";
  else if (m->method == 8 && m->size / 1032 > m->packed) /* the best ratio of deflate */
    wrong = "claims to be larger than it can be";
  return wrong != NULL ? bad_member(zip, m, wrong, err) : KF_OK;
}

/* Reads the entry at *at and moves *at past it. */
static kf_status read_entry(kf_zip *zip, kf_zip_member *m, const unsigned char **at,
                            const unsigned char *end, kf_err *err) {
  const unsigned char *p = *at;
  static const char damaged[] = "its directory is damaged";
  if (end - p < ENTRY_SIZE || memcmp(p, "PK\1\2", 4) != 0) return fail_archive(zip, damaged, err);
  size_t name = get16(p + 28), extra = get16(p + 30), comment = get16(p + 32);
  if ((size_t)(end - p) - ENTRY_SIZE < name + extra + comment || get16(p + 34) != 0)
    return fail_archive(zip, damaged, err);
  *m = (kf_zip_member){.header = get32(p + 42),
                       .packed = get32(p + 20),
                       .size = get32(p + 24),
                       .crc = get32(p + 16),
                       .method = get16(p + 10),
                       .encrypted = (get16(p + 8) & 1) != 0};
  const char *text = (const char *)p + ENTRY_SIZE;
  if (memchr(text, '\0', name) != NULL || !kf_utf8_valid(text, name))
    return fail_archive(zip, "the name of a member is not UTF-8", err);
  m->name = kf_copy_text(&zip->arena, text, name);
  if (m->name == NULL) return kf_fail_memory(err);
  if (!read_extra(m, p + ENTRY_SIZE + name, extra)) return fail_archive(zip, damaged, err);
  *at = p + ENTRY_SIZE + name + extra + comment;
  return check_member(zip, m, err);
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const kf_zip_member *)a)->name, ((const kf_zip_member *)b)->name);
}

static kf_status read_entries(kf_zip *zip, const directory *d, const unsigned char *bytes,
                              kf_err *err) {
  const unsigned char *at = bytes, *end = bytes + d->size;
  KF_TAKE(&zip->arena, zip->members, d->entries);
  if (zip->arena.failed) return kf_fail_memory(err);
  for (uint64_t i = 0; i < d->entries; i++, zip->n++)
    KF_TRY(read_entry(zip, &zip->members[zip->n], &at, end, err));
  if (at != end) return fail_archive(zip, "its directory has bytes after the last entry", err);
  if (zip->n > 0) qsort(zip->members, zip->n, sizeof *zip->members, by_name);
  for (size_t i = 1; i < zip->n; i++)
    if (by_name(&zip->members[i - 1], &zip->members[i]) == 0)
      return kf_fail_file(err, zip->in.path, "holds '%.64s' twice", zip->members[i].name);
  return KF_OK;
}

kf_status kf_zip_open(kf_zip *zip, const char *path, kf_err *err) {
  *zip = (kf_zip){0};
  directory d;
  KF_TRY(kf_in_open(&zip->in, path, err));
  KF_TRY(find_directory(zip, &d, err));
  zip->end = d.offset;
  unsigned char *bytes = kf_alloc(d.size, 1);
  if (bytes == NULL) return kf_fail_memory(err);
  kf_status status = kf_in_read(&zip->in, d.offset, bytes, d.size, err);
  if (status == KF_OK) status = read_entries(zip, &d, bytes, err);
  kf_free(bytes);
  return status;
}

void kf_zip_close(kf_zip *zip) {
  kf_in_close(&zip->in);
  kf_arena_free(&zip->arena);
}

/* --- members ------------------------------------------------------------------------------- */

/* Finds where the bytes of a member begin. Its local header must agree with the directory. */
static kf_status find_bytes(const kf_zip *zip, const kf_zip_member *m, uint64_t *offset,
                            kf_err *err) {
  unsigned char p[LOCAL_SIZE];
  if (m->encrypted) return bad_member(zip, m, "is encrypted", err);
  if (m->method != 0 && m->method != 8)
    return kf_fail_file(err, zip->in.path,
                        "the member '%.64s' is packed by method %u; only stored and deflated ones "
                        "are read",
                        m->name, m->method);
  KF_TRY(kf_in_read(&zip->in, m->header, p, LOCAL_SIZE, err));
  size_t name = get16(p + 26);
  uint64_t begin = m->header + LOCAL_SIZE + name + get16(p + 28);
  if (memcmp(p, "PK\3\4", 4) != 0 || get16(p + 8) != m->method || name != strlen(m->name) ||
      begin > zip->end || m->packed > zip->end - begin)
    return bad_member(zip, m, "is not where the directory says", err);
  char *copy = kf_alloc(name + 1, 1);
  if (copy == NULL) return kf_fail_memory(err);
  kf_status status = kf_in_read(&zip->in, m->header + LOCAL_SIZE, copy, name, err);
  bool same = status == KF_OK && memcmp(copy, m->name, name) == 0;
  kf_free(copy);
  *offset = begin;
  return status != KF_OK || same ? status : bad_member(zip, m, "has another name in the file", err);
}

static kf_status check_crc(const kf_zip *zip, const kf_zip_member *m, const kf_crc *c,
                           kf_err *err) {
  if (kf_crc_value(c) == m->crc) return KF_OK;
  return bad_member(zip, m, "is damaged: its checksum does not match", err);
}

static kf_status verify_stored(const kf_zip *zip, const kf_zip_member *m, uint64_t offset,
                               kf_err *err) {
  kf_crc c;
  unsigned char bytes[CHUNK];
  kf_crc_start(&c);
  for (uint64_t done = 0; done < m->size;) {
    size_t n = m->size - done < CHUNK ? (size_t)(m->size - done) : CHUNK;
    KF_TRY(kf_in_read(&zip->in, offset + done, bytes, n, err));
    kf_crc_add(&c, bytes, n);
    done += n;
  }
  return check_crc(zip, m, &c, err);
}

/* --- deflated members ---------------------------------------------------------------------- */

#ifdef KF_WITH_ZLIB

typedef struct inflater {
  const kf_zip *zip;
  const kf_zip_member *member;
  z_stream z;
  uint64_t offset, left; /* of the unread input */
  uint64_t done;         /* bytes unpacked */
  bool ended;
  unsigned char in[CHUNK], out[CHUNK];
} inflater;

static kf_status start(inflater *f, const kf_zip *zip, const kf_zip_member *m, kf_err *err) {
  *f = (inflater){.zip = zip, .member = m, .left = m->packed};
  KF_TRY(find_bytes(zip, m, &f->offset, err));
  return inflateInit2(&f->z, -MAX_WBITS) == Z_OK ? KF_OK : kf_fail_memory(err);
}

/* Unpacks the next n bytes; fewer only at the end. */
static kf_status inflate_next(inflater *f, unsigned char *bytes, size_t n, size_t *got,
                              kf_err *err) {
  f->z.next_out = bytes;
  f->z.avail_out = (uInt)n;
  while (f->z.avail_out > 0 && !f->ended) {
    if (f->z.avail_in == 0 && f->left > 0) {
      size_t count = f->left < CHUNK ? (size_t)f->left : CHUNK;
      KF_TRY(kf_in_read(&f->zip->in, f->offset, f->in, count, err));
      f->z.next_in = f->in;
      f->z.avail_in = (uInt)count;
      f->offset += count;
      f->left -= count;
    }
    int code = inflate(&f->z, Z_NO_FLUSH);
    if (code == Z_MEM_ERROR) return kf_fail_memory(err);
    if (code != Z_OK && code != Z_STREAM_END)
      return bad_member(f->zip, f->member, "is damaged: it cannot be unpacked", err);
    f->ended = code == Z_STREAM_END;
  }
  *got = n - f->z.avail_out;
  f->done += *got;
  return KF_OK;
}

static const char no_place[] = "its arrays are compressed, and there is no place to unpack them "
                               "(numpy.savez does not compress)";
static const char not_written[] =
    "its arrays are compressed and cannot be unpacked (numpy.savez does not compress)";

static kf_status unpack_all(inflater *f, int fd, kf_err *err) {
  kf_crc c;
  kf_crc_start(&c);
  for (size_t got = CHUNK; got == CHUNK;) {
    KF_TRY(inflate_next(f, f->out, CHUNK, &got, err));
    if (f->done > f->member->size) break;
    kf_crc_add(&c, f->out, got);
    KF_TRY(kf_temporary_write(&f->zip->in, not_written, fd, f->out, got, err));
  }
  if (f->done != f->member->size || f->left > 0 || f->z.avail_in > 0)
    return bad_member(f->zip, f->member, "does not have the size that the directory gives", err);
  return check_crc(f->zip, f->member, &c, err);
}

static kf_status unpack(const kf_zip *zip, const kf_zip_member *m, int *fd, kf_err *err) {
  inflater f;
  KF_TRY(start(&f, zip, m, err));
  kf_status status = kf_temporary_open(&zip->in, no_place, fd, err);
  if (status == KF_OK) status = unpack_all(&f, *fd, err);
  inflateEnd(&f.z);
  if (status != KF_OK && *fd >= 0) {
    close(*fd);
    *fd = -1;
  }
  return status;
}

static kf_status peek_deflated(const kf_zip *zip, const kf_zip_member *m, unsigned char *bytes,
                               size_t n, size_t *got, kf_err *err) {
  inflater f;
  KF_TRY(start(&f, zip, m, err));
  kf_status status = inflate_next(&f, bytes, n, got, err);
  inflateEnd(&f.z);
  return status;
}

#else

static kf_status unpack(const kf_zip *zip, const kf_zip_member *m, int *fd, kf_err *err) {
  *fd = -1;
  return bad_member(
      zip, m, "is compressed, and koofu was built without zlib (numpy.savez does not compress)",
      err);
}

static kf_status peek_deflated(const kf_zip *zip, const kf_zip_member *m, unsigned char *bytes,
                               size_t n, size_t *got, kf_err *err) {
  (void)bytes;
  (void)n;
  *got = 0;
  int fd;
  return unpack(zip, m, &fd, err);
}

#endif

/* --- any ----------------------------------------------------------------------------------- */

kf_status kf_zip_peek(const kf_zip *zip, const kf_zip_member *m, unsigned char *bytes, size_t n,
                      size_t *got, kf_err *err) {
  uint64_t offset = 0;
  if (m->size < n) n = (size_t)m->size;
  if (m->method == 8) return peek_deflated(zip, m, bytes, n, got, err);
  KF_TRY(find_bytes(zip, m, &offset, err));
  *got = n;
  return kf_in_read(&zip->in, offset, bytes, n, err);
}

static kf_status open_stored(const kf_zip *zip, const kf_zip_member *m, kf_in *out, kf_err *err) {
  KF_TRY(find_bytes(zip, m, &out->base, err));
  KF_TRY(verify_stored(zip, m, out->base, err));
  out->fd = fcntl(zip->in.fd, F_DUPFD_CLOEXEC, 0);
  return out->fd >= 0 ? KF_OK : kf_fail_errno(err, zip->in.path, "cannot be opened", errno);
}

/* "FILE.npz:NAME", for messages. */
static char *path_of(const kf_zip *zip, const kf_zip_member *m) {
  size_t name = strlen(m->name), size = strlen(zip->in.path) + name + 2;
  if (kf_ends_with(m->name, ".npy")) name -= 4;
  char *path = kf_alloc(size, 1);
  if (path != NULL) snprintf(path, size, "%s:%.*s", zip->in.path, (int)name, m->name);
  return path;
}

kf_status kf_zip_open_member(const kf_zip *zip, const kf_zip_member *m, kf_in *out, kf_err *err) {
  *out = (kf_in){.fd = -1, .size = m->size, .state = zip->in.state};
  if (m->size == 0) return bad_member(zip, m, "is empty", err);
  char *path = path_of(zip, m);
  if (path == NULL) return kf_fail_memory(err);
  kf_status status = m->method == 8 ? unpack(zip, m, &out->fd, err) : open_stored(zip, m, out, err);
  if (status == KF_OK)
    out->path = path;
  else
    kf_free(path);
  return status;
}
