/* parquet_page.c - pages of a .parquet file: a Thrift header, then bytes that may be compressed.
 *
 * The levels of a version 1 page are compressed together with its values; those of version 2
 * precede the values and are not compressed. */
#include "file/parquet.h"

#include <inttypes.h>
#include <string.h>

/* Statistics in a header may contain long text, so it is read in growing steps up to a limit. */
enum { FIRST_HEADER_BYTES = 512, MAX_HEADER_BYTES = 1 << 20 };

enum { DATA_PAGE, INDEX_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2 };

typedef struct header {
  int type;
  int64_t size, packed, n, rep, def;
  int encoding, levels[2];
  bool is_packed, has_crc;
  uint32_t crc;
} header;

/* Reads the inner header, whose fields depend on the kind of page. */
static void read_inner(const kf_thrift_struct *s, header *h, int kind) {
  kf_thrift_struct inner = kf_thrift_enter_field(s);
  while (kf_thrift_field(&inner)) {
    int id = inner.id;
    if (id == 1)
      h->n = kf_thrift_i32(&inner);
    else if (id == (kind == DATA_PAGE_V2 ? 4 : 2))
      h->encoding = kf_thrift_i32(&inner);
    else if (kind == DATA_PAGE && (id == 3 || id == 4))
      h->levels[id - 3] = kf_thrift_i32(&inner);
    else if (kind == DATA_PAGE_V2 && id == 5)
      h->def = kf_thrift_i32(&inner);
    else if (kind == DATA_PAGE_V2 && id == 6)
      h->rep = kf_thrift_i32(&inner);
    else if (kind == DATA_PAGE_V2 && id == 7)
      h->is_packed = kf_thrift_bool(&inner);
    else
      kf_thrift_skip(&inner);
  }
}

static void read_header(kf_thrift *in, header *h) {
  static const int kinds[] = {[5] = DATA_PAGE, [7] = DICTIONARY_PAGE, [8] = DATA_PAGE_V2};
  *h = (header){.type = -1, .size = -1, .packed = -1, .n = -1, .encoding = -1, .is_packed = true};
  h->levels[0] = h->levels[1] = KF_PQ_RLE;
  kf_thrift_struct s = kf_thrift_enter(in);
  while (kf_thrift_field(&s)) {
    switch (s.id) {
    case 1: h->type = kf_thrift_i32(&s); break;
    case 2: h->size = kf_thrift_i32(&s); break;
    case 3: h->packed = kf_thrift_i32(&s); break;
    case 4:
      h->crc = (uint32_t)kf_thrift_i32(&s);
      h->has_crc = true;
      break;
    case 5:
    case 7:
    case 8:
      if (h->type == kinds[s.id])
        read_inner(&s, h, h->type);
      else
        kf_thrift_skip(&s);
      break;
    default: kf_thrift_skip(&s);
    }
  }
}

static kf_status bad_page(const kf_in *in, uint64_t at, const char *what, kf_err *err) {
  return kf_fail_file(err, in->path, "the page at byte %" PRIu64 " %s", at, what);
}

/* Reads a header of unknown length, *length. */
static kf_status find_header(const kf_in *in, uint64_t at, uint64_t end, header *h, size_t *length,
                             kf_err *err) {
  unsigned char first[FIRST_HEADER_BYTES], *bytes = first;
  kf_status status = KF_OK;
  for (size_t room = FIRST_HEADER_BYTES;; room *= 4) {
    size_t n = end - at < room ? (size_t)(end - at) : room;
    if (bytes != first) kf_free(bytes);
    bytes = room == FIRST_HEADER_BYTES ? first : kf_alloc(n, 1);
    if (bytes == NULL) return kf_fail_memory(err);
    status = kf_in_read(in, at, bytes, n, err);
    if (status != KF_OK) break;
    kf_thrift thrift = kf_thrift_start(bytes, n);
    read_header(&thrift, h);
    *length = (size_t)(thrift.at - bytes);
    if (thrift.ended && n < end - at && room < MAX_HEADER_BYTES) continue;
    if (thrift.bad != NULL) status = bad_page(in, at, "has a damaged header", err);
    break;
  }
  if (bytes != first) kf_free(bytes);
  return status;
}

kf_status kf_pq_too_large(const kf_in *in, uint64_t at, const char *column, const char *what,
                          kf_err *err) {
  return kf_fail_file(
      err, in->path,
      "the page at byte %" PRIu64
      " of column '%.64s' %s more than %u MiB, the most that koofu takes for a page",
      at, column, what, (unsigned)(KF_PQ_LARGEST >> 20));
}

static kf_status check_header(const kf_in *in, const char *column, uint64_t at, const header *h,
                              kf_err *err) {
  bool v2 = h->type == DATA_PAGE_V2;
  if (h->type < DATA_PAGE || h->type > DATA_PAGE_V2 || h->packed < 0 || h->size < 0)
    return bad_page(in, at, "has an impossible header", err);
  if ((uint64_t)h->packed > KF_PQ_LARGEST || (uint64_t)h->size > KF_PQ_LARGEST)
    return kf_pq_too_large(in, at, column, "has", err);
  if (h->type == INDEX_PAGE) return KF_OK;
  if (h->n < 0 || h->encoding < 0 || h->encoding > UINT8_MAX)
    return bad_page(in, at, "does not say how many values it has, or how they are encoded", err);
  if (v2 && (h->rep < 0 || h->def < 0 || h->rep + h->def > h->packed || h->rep + h->def > h->size))
    return bad_page(in, at, "has levels longer than the page", err);
  return KF_OK;
}

kf_status kf_pq_page_read(const kf_in *in, const char *column, uint64_t *at, uint64_t end,
                          kf_pq_page *page, bool *data, kf_err *err) {
  header h = {0};
  size_t length = 0;
  if (*at >= end) return bad_page(in, *at, "lies after the end of its column", err);
  KF_TRY(find_header(in, *at, end, &h, &length, err));
  KF_TRY(check_header(in, column, *at, &h, err));
  uint64_t offset = *at + length;
  if ((uint64_t)h.packed > end - offset)
    return bad_page(in, *at, "goes past the end of its column", err);
  *data = h.type != INDEX_PAGE;
  *page = (kf_pq_page){.offset = offset,
                       .packed = (uint32_t)h.packed,
                       .size = (uint32_t)h.size,
                       .n = h.n > 0 ? (uint32_t)h.n : 0,
                       .crc = h.crc,
                       .has_crc = h.has_crc,
                       .encoding = (uint8_t)h.encoding,
                       .version = h.type == DATA_PAGE      ? 1
                                  : h.type == DATA_PAGE_V2 ? 2
                                                           : 0,
                       .codec = h.is_packed ? 1 : 0, /* the caller sets the codec */
                       .odd_def = h.levels[0] != KF_PQ_RLE,
                       .odd_rep = h.levels[1] != KF_PQ_RLE,
                       .rep_bytes = (uint32_t)h.rep,
                       .def_bytes = (uint32_t)h.def};
  *at = offset + (uint64_t)h.packed;
  return KF_OK;
}

/* --- bytes --------------------------------------------------------------------------------- */

static kf_status check_crc(const kf_in *in, const kf_pq_page *page, const unsigned char *bytes,
                           kf_err *err) {
  kf_crc crc;
  if (!page->has_crc) return KF_OK;
  kf_crc_start(&crc);
  kf_crc_add(&crc, bytes, page->packed);
  if (kf_crc_value(&crc) == page->crc) return KF_OK;
  return kf_fail_file(err, in->path,
                      "the page at byte %" PRIu64 " is damaged: its checksum is wrong",
                      page->offset);
}

static kf_status unpack(const kf_in *in, const kf_pq_page *page, const unsigned char *packed,
                        unsigned char *bytes, kf_err *err) {
  size_t levels = page->version == 2 ? (size_t)page->rep_bytes + page->def_bytes : 0;
  memcpy(bytes, packed, levels);
  kf_status status = kf_unpack((kf_codec)page->codec, packed + levels, page->packed - levels,
                               bytes + levels, page->size - levels);
  if (status == KF_OK) return KF_OK;
  if (status == KF_ERR_MEM) return kf_fail_memory(err);
  return kf_fail_file(err, in->path,
                      "the page at byte %" PRIu64 " is damaged: it cannot be unpacked",
                      page->offset);
}

static kf_status load_packed(const kf_in *in, const kf_pq_page *page, unsigned char *bytes,
                             kf_err *err) {
  unsigned char *packed = kf_alloc(page->packed, 1);
  if (packed == NULL) return kf_fail_memory(err);
  kf_status status = kf_in_read(in, page->offset, packed, page->packed, err);
  if (status == KF_OK) status = check_crc(in, page, packed, err);
  if (status == KF_OK) status = unpack(in, page, packed, bytes, err);
  kf_free(packed);
  return status;
}

static kf_status load(const kf_in *in, const kf_pq_page *page, unsigned char *bytes, kf_err *err) {
  if (page->codec != KF_CODEC_NONE) return load_packed(in, page, bytes, err);
  if (page->size != page->packed)
    return kf_fail_file(err, in->path,
                        "the page at byte %" PRIu64 " is not compressed, but has two sizes",
                        page->offset);
  KF_TRY(kf_in_read(in, page->offset, bytes, page->size, err));
  return check_crc(in, page, bytes, err);
}

kf_status kf_pq_page_load(const kf_in *in, const kf_pq_page *page, unsigned char **out,
                          kf_err *err) {
  unsigned char *bytes = kf_alloc(page->size, 1);
  if (bytes == NULL) return kf_fail_memory(err);
  KF_HAND_OUT(load(in, page, bytes, err), out, bytes, kf_free);
}
