/* parquet_pieces.c - pages that are read in pieces, without ever being in memory as a whole.
 *
 * Pages of some programs are large: DuckDB's hold all values of a row group, up to 100 MB. To unpack one takes
 * twice its memory, which the system clears first, and that alone costs several times what reading does. But
 * every compressor of Snappy that is in use works on 64 KiB at a time, from scratch: no element crosses such a
 * border and no copy reaches across it. So a page is a row of pieces that can be unpacked alone, in any order
 * and by any thread, in buffers that stay in the cache of the processor; whole pieces go right where the rows
 * are wanted.
 *
 * The format does not promise it, so it is looked at: a walk over the elements of a page, which skips the bytes
 * of literals, finds where pieces begin. A page with a copy or an element across a border is decoded as a
 * whole, as one that is damaged is, which then says so. A page that is not packed needs no walk. */
#include "file/parquet.h"

#include <inttypes.h>
#include <string.h>

/* --- finding them ---------------------------------------------------------------------------- */

/* A walk over packed bytes, through a window. */
typedef struct walk {
  const kf_in *in;
  const kf_pq_pieces *pieces;
  uint32_t at; /* packed bytes before the next element */
  unsigned char *window;
  uint32_t from, n; /* packed bytes in the window */
  kf_err *err;
} walk;

enum { WINDOW = 4096, HEAD_MOST = 5 };

/* The bytes of the next element, as many as there are up to HEAD_MOST; more may follow them. */
static kf_status look(walk *w, const unsigned char **at, size_t *n) {
  uint32_t left = w->pieces->packed - w->at, end = w->from + w->n;
  uint32_t wanted = left < HEAD_MOST ? left : HEAD_MOST;
  if (w->at > end || end - w->at < wanted) {
    uint32_t count = left < WINDOW ? left : WINDOW;
    KF_TRY(kf_in_read(w->in, w->pieces->offset + w->at, w->window, count, w->err));
    w->from = w->at;
    w->n = count;
  }
  *at = w->window + (w->at - w->from);
  *n = w->from + w->n - w->at;
  return KF_OK;
}

/* The next element, before which there are *done bytes. *cut: it lies in one piece, with what it copies. */
static kf_status step(walk *w, uint32_t *done, bool *cut) {
  const unsigned char *at;
  size_t n, length = 0, back = 0;
  uint32_t inside = *done % KF_PQ_PIECE, room = KF_PQ_PIECE - inside;
  if (room > w->pieces->size - *done) room = w->pieces->size - *done;
  KF_TRY(look(w, &at, &n));
  size_t head = kf_snappy_head(at, n, &length, &back);
  *cut = head > 0 && length <= room && back <= inside;
  if (!*cut) return KF_OK;
  w->at += (uint32_t)head;
  *done += (uint32_t)length;
  if (back > 0) return KF_OK;
  *cut = length <= w->pieces->packed - w->at;
  w->at += (uint32_t)length;
  return KF_OK;
}

static kf_status find(kf_pq_pieces *p, walk *w, bool *cut) {
  const unsigned char *at;
  size_t n;
  uint32_t done = 0;
  KF_TRY(look(w, &at, &n));
  w->at = (uint32_t)kf_snappy_size(at, n, p->size);
  *cut = w->at > 0;
  while (*cut && done < p->size) {
    if (done % KF_PQ_PIECE == 0) p->at[p->n++] = w->at;
    KF_TRY(step(w, &done, cut));
    *cut = *cut && w->at - p->at[p->n - 1] <= KF_PQ_PIECE_PACKED;
  }
  p->at[p->n] = w->at;
  *cut = *cut && w->at == p->packed;
  return KF_OK;
}

kf_status kf_pq_pieces_find(const kf_in *in, const kf_pq_page *page, kf_pq_scratch *scratch,
                            kf_pq_pieces *out, bool *cut, kf_err *err) {
  uint32_t levels = page->version == 2 ? page->rep_bytes + page->def_bytes : 0;
  *out = (kf_pq_pieces){.offset = page->offset + levels,
                        .packed = page->packed - levels,
                        .size = page->size - levels};
  *cut = page->packed == page->size;
  if (page->codec == KF_CODEC_NONE) return KF_OK;
  *cut = false;
  if (out->size == 0 || out->packed == 0) return KF_OK;
  out->at = kf_alloc(out->size / KF_PQ_PIECE + 2, sizeof *out->at);
  if (out->at == NULL) return kf_fail_memory(err);
  walk w = {.in = in, .pieces = out, .window = scratch->packed, .err = err};
  kf_status status = find(out, &w, cut);
  if (status == KF_OK && *cut) return KF_OK;
  kf_free(out->at);
  out->at = NULL;
  return status;
}

/* --- reading them ---------------------------------------------------------------------------- */

/* Unpacks piece k, of n bytes. */
static kf_status unpack(const kf_in *in, const kf_pq_pieces *p, uint32_t k, kf_pq_scratch *scratch,
                        unsigned char *to, uint32_t n, kf_err *err) {
  uint32_t packed = p->at[k + 1] - p->at[k];
  KF_TRY(kf_in_read(in, p->offset + p->at[k], scratch->packed, packed, err));
  if (kf_unpack_snappy(scratch->packed, packed, to, n)) return KF_OK;
  return kf_fail_file(err, in->path, "the page at byte %" PRIu64 " has changed since it was opened",
                      p->offset);
}

kf_status kf_pq_pieces_read(const kf_in *in, const kf_pq_pieces *p, kf_pq_scratch *scratch,
                            uint64_t first, uint64_t n, unsigned char *to, kf_err *err) {
  if (p->at == NULL) return kf_in_read(in, p->offset + first, to, n, err);
  while (n > 0) {
    uint32_t k = (uint32_t)(first / KF_PQ_PIECE), skip = (uint32_t)(first % KF_PQ_PIECE);
    uint32_t size = k + 1 < p->n ? KF_PQ_PIECE : p->size - k * KF_PQ_PIECE;
    uint32_t count = n < size - skip ? (uint32_t)n : size - skip;
    if (count == size) { /* straight to its place */
      KF_TRY(unpack(in, p, k, scratch, to, size, err));
    } else {
      if (scratch->of != p || scratch->piece != k) {
        scratch->of = NULL;
        KF_TRY(unpack(in, p, k, scratch, scratch->bytes, size, err));
        scratch->of = p;
        scratch->piece = k;
      }
      memcpy(to, scratch->bytes + skip, count);
    }
    first += count;
    to += count;
    n -= count;
  }
  return KF_OK;
}
