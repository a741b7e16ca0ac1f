/* parquet_values.c - decodes a page: its levels, then its values in any encoding.
 *
 * In the common case, PLAIN values without nulls, the values stay where they are. Otherwise values
 * are decoded, and nulls are inserted.
 *
 * Nothing in a page is trusted: it says how many values it has, and every allocation is bounded. */
#include "file/parquet.h"
#include "file/parquet_bits.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct reader {
  const kf_in *in;
  const kf_pq_leaf *leaf;
  const kf_pq_page *page;
  kf_pq_block *out;
  const kf_pq_block *dictionary;
  kf_pq_span rest;     /* unread part of the page */
  unsigned char *defs; /* [page->n] definition levels; NULL: every value is there */
  unsigned char *reps; /* [page->n] repetition levels of lists */
  uint32_t n;          /* values that are present */
  size_t n_own;
  kf_err *err;
} reader;

static kf_status bad(const reader *r, const char *what) {
  return kf_fail_file(r->err, r->in->path, "the page at byte %" PRIu64 " %s", r->page->offset,
                      what);
}

/* NULL if *status is not KF_OK: too large, or out of memory. */
static void *allocate(const reader *r, uint64_t count, uint64_t size, kf_status *status) {
  uint64_t bytes;
  void *memory = NULL;
  if (!kf_mul_u64(count, size, &bytes) || bytes > KF_PQ_LARGEST) {
    *status = kf_pq_too_large(r->in, r->page->offset, r->leaf->name, "would take", r->err);
  } else {
    memory = kf_alloc(count, size);
    *status = memory != NULL ? KF_OK : kf_fail_memory(r->err);
  }
  return memory;
}

/* The same for memory that the block owns. */
static void *take(reader *r, uint64_t count, uint64_t size, kf_status *status) {
  void *memory = allocate(r, count, size, status);
  if (memory != NULL) {
    r->out->own[r->n_own++] = memory;
    r->out->bytes += count * size;
  }
  return memory;
}

void kf_pq_block_free(kf_pq_block *block) {
  for (size_t i = 0; i < sizeof block->own / sizeof block->own[0]; i++) kf_free(block->own[i]);
  *block = (kf_pq_block){0};
}

/* --- levels -------------------------------------------------------------------------------- */

static unsigned width_of(unsigned most) {
  unsigned width = 0;
  for (; most > 0; most >>= 1) width++;
  return width;
}

/* Finds the bytes of one kind of levels. */
static kf_status take_levels(reader *r, unsigned most, uint32_t v2_bytes, bool odd,
                             kf_pq_runs *out) {
  uint32_t n = v2_bytes;
  *out = (kf_pq_runs){0};
  if (r->page->version == 2) { /* always has lengths of levels */
    if (n > r->rest.end - r->rest.at) return bad(r, "ends in its levels");
  } else if (most > 0) {
    if (odd) return bad(r, "has levels in an encoding that koofu does not read");
    if (r->rest.end - r->rest.at < 4) return bad(r, "ends in its levels");
    memcpy(&n, r->rest.at, 4);
    r->rest.at += 4;
    if (n > (uint64_t)(r->rest.end - r->rest.at)) return bad(r, "ends in its levels");
  } else {
    n = 0;
  }
  kf_pq_span in = {r->rest.at, r->rest.at + n};
  r->rest.at += n;
  *out = kf_pq_runs_start(in, width_of(most));
  return KF_OK;
}

/* Levels as bytes, none above `most`. */
static kf_status read_levels(reader *r, kf_pq_runs runs, unsigned most, unsigned char **out) {
  kf_status status;
  uint32_t n = r->page->n;
  *out = allocate(r, n, 1, &status);
  if (status != KF_OK) return status;
  if (!kf_pq_runs_read_levels(&runs, *out, n)) return bad(r, "has too few levels");
  const unsigned char *levels = *out;
  unsigned char largest = 0;
  for (uint32_t i = 0; i < n; i++) largest = levels[i] > largest ? levels[i] : largest;
  return largest <= most ? KF_OK : bad(r, "has a level that its column cannot have");
}

/* Finds which values are present. r->defs stays NULL if all are. */
static kf_status read_defs(reader *r, kf_pq_runs runs) {
  unsigned most = r->leaf->most_def;
  if (most == 0) return KF_OK;
  KF_TRY(read_levels(r, runs, most, &r->defs));
  const unsigned char *defs = r->defs;
  uint32_t present = 0;
  for (uint32_t i = 0; i < r->page->n; i++) present += defs[i] == most;
  r->n = present;
  if (r->n < r->page->n) return KF_OK;
  kf_free(r->defs);
  r->defs = NULL;
  return KF_OK;
}

/* Finds where rows begin. An empty or missing list has one slot, which is not `there`. */
static kf_status find_starts(reader *r) {
  kf_pq_block *out = r->out;
  uint32_t n = r->page->n, found = 0;
  kf_status status;
  for (uint32_t i = 0; i < n; i++) out->n_starts += r->reps[i] == 0;
  out->starts = take(r, out->n_starts, sizeof *out->starts, &status);
  if (status != KF_OK) return status;
  out->there = take(r, n, 1, &status);
  if (status != KF_OK) return status;
  for (uint32_t i = 0; i < n; i++) {
    if (r->reps[i] == 0) out->starts[found++] = i;
    out->there[i] = r->defs == NULL || r->defs[i] >= r->leaf->list_def;
  }
  return KF_OK;
}

/* Every list must have shape->dim values. DuckDB writes missing arrays with a slot for each of
 * their values, which has the same shape. */
static kf_status check_lengths(const reader *r, const kf_pq_shape *shape) {
  uint64_t at = 0, n = r->page->n, start = shape->phase > 0 ? shape->dim - shape->phase : 0;
  for (; at < n; at = start + 1, start += shape->dim) {
    uint64_t end = start < n ? start : n;
    if (memchr(r->reps + at, 0, end - at) != NULL || (end < n && r->reps[end] != 0))
      return kf_fail_file(r->err, r->in->path,
                          "the page at byte %" PRIu64
                          " has a list whose length is not that of the others",
                          r->page->offset);
  }
  return KF_OK;
}

static kf_status decode_levels(reader *r, const kf_pq_shape *shape) {
  const kf_pq_leaf *leaf = r->leaf;
  const kf_pq_page *page = r->page;
  kf_pq_runs reps, defs;
  KF_TRY(take_levels(r, leaf->most_rep, page->rep_bytes, page->odd_rep, &reps));
  KF_TRY(take_levels(r, leaf->most_def, page->def_bytes, page->odd_def, &defs));
  KF_TRY(read_defs(r, defs));
  if (leaf->most_rep == 0) return KF_OK;
  KF_TRY(read_levels(r, reps, leaf->most_rep, &r->reps));
  return shape->dim == 0 ? find_starts(r) : check_lengths(r, shape);
}

/* --- indices ------------------------------------------------------------------------------- */

static bool is_dictionary(const reader *r) {
  return r->page->version > 0 &&
         (r->page->encoding == KF_PQ_PLAIN_DICTIONARY || r->page->encoding == KF_PQ_RLE_DICTIONARY);
}

/* Reads the index into the dictionary of each value. */
static kf_status read_indices(reader *r, uint32_t *to) {
  if (r->dictionary == NULL) return bad(r, "needs a dictionary, but there is none");
  if (r->n == 0) return KF_OK;
  if (r->rest.at == r->rest.end || *r->rest.at > 32) return bad(r, "has damaged indices");
  unsigned width = *r->rest.at++;
  kf_pq_runs runs = kf_pq_runs_start(r->rest, width);
  if (!kf_pq_runs_read(&runs, to, r->n)) return bad(r, "has too few values");
  uint32_t most = 0;
  for (uint32_t i = 0; i < r->n; i++) most = to[i] > most ? to[i] : most;
  return most < r->dictionary->n ? KF_OK : bad(r, "has a value that is not in its dictionary");
}

static kf_status unknown_encoding(const reader *r) {
  return kf_fail_file(r->err, r->in->path,
                      "the page at byte %" PRIu64
                      " has values in encoding %d, which koofu does not "
                      "read for this type",
                      r->page->offset, r->page->encoding);
}

static bool is_plain(const reader *r) {
  /* old writers label dictionaries PLAIN_DICTIONARY */
  return r->page->encoding == KF_PQ_PLAIN || (r->page->version == 0 && r->page->encoding == 2);
}

/* --- numbers ------------------------------------------------------------------------------- */

static size_t stored_size(const kf_pq_leaf *leaf) {
  switch (leaf->physical) {
  case KF_PQ_INT32:
  case KF_PQ_FLOAT: return 4;
  case KF_PQ_FIXED: return leaf->length;
  default: return 8;
  }
}

/* BYTE_STREAM_SPLIT: byte b of value i is at b n + i. */
static void unsplit(const unsigned char *in, size_t n, size_t size, unsigned char *out) {
  for (size_t b = 0; b < size; b++)
    for (size_t i = 0; i < n; i++) out[i * size + b] = in[b * n + i];
}

/* *at: n values of `size` bytes, as stored. PLAIN values stay in the page. */
static kf_status read_stored(reader *r, size_t size, const unsigned char **at) {
  uint64_t bytes = (uint64_t)r->n * size;
  kf_status status;
  if (bytes > (uint64_t)(r->rest.end - r->rest.at)) return bad(r, "has too few values");
  *at = r->rest.at;
  if (is_plain(r)) return KF_OK;
  if (r->page->encoding != KF_PQ_BYTE_STREAM_SPLIT) return unknown_encoding(r);
  unsigned char *out = take(r, r->n, size, &status);
  if (status != KF_OK) return status;
  unsplit(r->rest.at, r->n, size, out);
  *at = out;
  return KF_OK;
}

/* Copies values of `size` bytes to their slots, and `null` to the other slots. */
static void spread(const reader *r, const unsigned char *values, size_t size, const void *null,
                   unsigned char *slots) {
  for (uint32_t i = 0; i < r->page->n; i++, slots += size) {
    bool there = r->defs == NULL || r->defs[i] == r->leaf->most_def;
    memcpy(slots, there ? values : null, size);
    if (there) values += size;
  }
}

/* Values become slots. If some are null, `null` takes their place. */
static kf_status fill_slots(reader *r, const void *values, size_t size, const void *null) {
  kf_status status = KF_OK;
  r->out->slots = (void *)(uintptr_t)values;
  if (r->defs == NULL) return KF_OK;
  r->out->slots = take(r, r->page->n, size, &status);
  if (status == KF_OK) spread(r, values, size, null, r->out->slots);
  return status;
}

/* Callers pass a constant `size`, so that each copy is one instruction. */
static inline void pick_values(const unsigned char *from, const uint32_t *index, uint32_t n,
                               size_t size, unsigned char *out) {
  for (uint32_t i = 0; i < n; i++) memcpy(out + i * size, from + index[i] * size, size);
}

/* Gathers values of `size` bytes from the dictionary. */
static kf_status gather(reader *r, size_t size, unsigned char *out) {
  const unsigned char *from = r->dictionary != NULL ? r->dictionary->slots : NULL;
  uint32_t *index = kf_alloc(r->n, sizeof *index);
  if (index == NULL) return kf_fail_memory(r->err);
  kf_status status = read_indices(r, index);
  if (status == KF_OK) switch (size) {
    case 2: pick_values(from, index, r->n, 2, out); break;
    case 4: pick_values(from, index, r->n, 4, out); break;
    case 8: pick_values(from, index, r->n, 8, out); break;
    default: pick_values(from, index, r->n, size, out);
    }
  kf_free(index);
  return status;
}

static kf_status decode_floats(reader *r) {
  size_t size = stored_size(r->leaf);
  static const uint16_t nan16 = 0x7E00;
  static const float nan32 = NAN;
  static const double nan64 = (double)NAN;
  const void *null = size == 2 ? (const void *)&nan16 : size == 4 ? (const void *)&nan32 : &nan64;
  const unsigned char *values;
  kf_status status;
  if (is_dictionary(r)) {
    unsigned char *gathered = take(r, r->n, size, &status);
    if (status != KF_OK) return status;
    KF_TRY(gather(r, size, gathered));
    values = gathered;
  } else {
    KF_TRY(read_stored(r, size, &values));
  }
  return fill_slots(r, values, size, null);
}

static kf_status read_integers(reader *r, int64_t *out) {
  size_t size = stored_size(r->leaf);
  const unsigned char *stored;
  if (is_dictionary(r)) return gather(r, sizeof *out, (unsigned char *)out);
  if (r->page->encoding != KF_PQ_DELTA_BINARY_PACKED) {
    KF_TRY(read_stored(r, size, &stored));
    kf_decode_i64(r->leaf->element, stored, r->n, out);
    return KF_OK;
  }
  if (!kf_pq_deltas(&r->rest, r->n, out)) return bad(r, "has damaged deltas");
  for (uint32_t i = 0; i < r->n; i++) /* sums wrap at 32 or 64 bits */
    kf_decode_i64(r->leaf->element, out + i, 1, out + i);
  return KF_OK;
}

static kf_status decode_integers(reader *r) {
  static const int64_t null = INT64_MIN;
  kf_status status;
  int64_t *values = take(r, r->n, sizeof *values, &status);
  if (status != KF_OK) return status;
  KF_TRY(read_integers(r, values));
  return fill_slots(r, values, sizeof *values, &null);
}

/* --- text ---------------------------------------------------------------------------------- */

static bool read_plain_texts(reader *r, kf_pq_text *out) {
  for (uint32_t i = 0; i < r->n; i++) {
    uint32_t n = r->leaf->length;
    if (r->leaf->physical == KF_PQ_BYTES) {
      if (r->rest.end - r->rest.at < 4) return false;
      memcpy(&n, r->rest.at, 4);
      r->rest.at += 4;
    }
    if (n > (uint64_t)(r->rest.end - r->rest.at)) return false;
    out[i] = (kf_pq_text){(const char *)r->rest.at, n};
    r->rest.at += n;
  }
  return true;
}

/* Reads lengths as deltas, then the bytes. */
static bool read_lengths(reader *r, int64_t *lengths, kf_pq_text *out) {
  if (!kf_pq_deltas(&r->rest, r->n, lengths)) return false;
  for (uint32_t i = 0; i < r->n; i++) {
    if (lengths[i] < 0 || lengths[i] > r->rest.end - r->rest.at) return false;
    out[i] = (kf_pq_text){(const char *)r->rest.at, (uint32_t)lengths[i]};
    r->rest.at += lengths[i];
  }
  return true;
}

/* Prepends to each text the prefix it shares with the one before it. */
static kf_status join_prefixes(reader *r, const int64_t *prefixes, kf_pq_text *out) {
  uint64_t total = 0;
  kf_status status;
  for (uint32_t i = 0, before = 0; i < r->n; i++) {
    if (prefixes[i] < 0 || prefixes[i] > before || total > KF_PQ_LARGEST)
      return bad(r, "has damaged text");
    before = out[i].n + (uint32_t)prefixes[i];
    total += before;
    if (before > KF_PQ_LARGEST) return bad(r, "has damaged text");
  }
  char *to = take(r, total, 1, &status);
  for (uint32_t i = 0; status == KF_OK && i < r->n; i++) {
    uint32_t prefix = (uint32_t)prefixes[i], n = out[i].n;
    char *whole = to;
    if (prefix > 0) memcpy(to, out[i - 1].at, prefix);
    if (n > 0) memcpy(to + prefix, out[i].at, n);
    out[i] = (kf_pq_text){whole, prefix + n};
    to += prefix + n;
  }
  return status;
}

static kf_status read_delta_texts(reader *r, kf_pq_text *out) {
  bool prefixed = r->page->encoding == KF_PQ_DELTA_BYTE_ARRAY;
  int64_t *lengths = kf_alloc(r->n, sizeof *lengths), *prefixes = NULL;
  if (prefixed) prefixes = kf_alloc(r->n, sizeof *prefixes);
  kf_status status = KF_OK;
  if (lengths == NULL || (prefixed && prefixes == NULL))
    status = kf_fail_memory(r->err);
  else if ((prefixed && !kf_pq_deltas(&r->rest, r->n, prefixes)) || !read_lengths(r, lengths, out))
    status = bad(r, "has damaged text");
  else if (prefixed)
    status = join_prefixes(r, prefixes, out);
  kf_free(prefixes);
  kf_free(lengths);
  return status;
}

static kf_status read_texts(reader *r, kf_pq_text *out) {
  int encoding = r->page->encoding;
  if (is_dictionary(r)) return gather(r, sizeof *out, (unsigned char *)out);
  if (is_plain(r)) return read_plain_texts(r, out) ? KF_OK : bad(r, "has damaged text");
  if (r->leaf->physical == KF_PQ_BYTES &&
      (encoding == KF_PQ_DELTA_LENGTH_BYTE_ARRAY || encoding == KF_PQ_DELTA_BYTE_ARRAY))
    return read_delta_texts(r, out);
  return unknown_encoding(r);
}

static kf_status decode_texts(reader *r) {
  static const kf_pq_text null = {NULL, 0};
  kf_status status;
  kf_pq_text *texts = take(r, r->n, sizeof *texts, &status);
  if (status != KF_OK) return status;
  KF_TRY(read_texts(r, texts));
  return fill_slots(r, texts, sizeof *texts, &null);
}

/* --- a page -------------------------------------------------------------------------------- */

static kf_status decode(reader *r, const kf_pq_shape *shape) {
  unsigned char *bytes = NULL;
  KF_TRY(kf_pq_page_load(r->in, r->page, &bytes, r->err));
  r->out->own[r->n_own++] = bytes;
  r->out->bytes = r->page->size;
  r->rest = (kf_pq_span){bytes, bytes + r->page->size};
  r->out->n = r->n = r->page->n;
  if (r->page->version > 0) KF_TRY(decode_levels(r, shape));
  if (r->leaf->kind == KF_PQ_ROWS || r->leaf->kind == KF_PQ_FLOATS) return decode_floats(r);
  return r->leaf->kind == KF_PQ_INTEGERS ? decode_integers(r) : decode_texts(r);
}

kf_status kf_pq_decode(const kf_in *in, const kf_pq_leaf *leaf, const kf_pq_page *page,
                       const kf_pq_shape *shape, const kf_pq_block *dictionary, kf_pq_block *out,
                       kf_err *err) {
  *out = (kf_pq_block){0};
  reader r = {
      .in = in, .leaf = leaf, .page = page, .out = out, .dictionary = dictionary, .err = err};
  kf_status status = decode(&r, shape);
  kf_free(r.defs);
  kf_free(r.reps);
  if (status != KF_OK) kf_pq_block_free(out);
  return status;
}
