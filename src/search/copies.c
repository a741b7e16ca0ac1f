/* copies.c - finds equal rows of an index. Devices search only the first of equal rows, and the
 * host adds the others to the answers, so copies never crowd different rows out of a device's list.
 *
 * Rows are sorted by a hash of their bytes; those with equal hashes are compared. On a hash
 * collision later rows are treated as unique, which is always safe. */
#include "search/copies.h"

#include <string.h>

#define ROWS_AT_ONCE 1024u
#define FETCHED      32u /* rows that a worker fetches at a time, if they are not in the index */

typedef struct hashed {
  uint64_t hash;
  uint32_t row;
} hashed;

typedef struct job {
  const kf_index *index;
  const kf_kernels *kernels;
  const char *rows; /* NULL: in place, to be fetched */
  uint64_t n, size; /* bytes of a row, a multiple of 2 */
  hashed *all;
  float *fetched; /* [workers][FETCHED][dim] */
} job;

static kf_status fetch(const job *j, uint64_t first, uint64_t n, float *to, kf_err *err) {
  return j->index->source.fetch(j->index->source.self, j->kernels, first, n, to, err);
}

/* Eight independent lanes, so that multiplications overlap. */
static uint64_t hash_of(const char *bytes, uint64_t size) {
  uint64_t lane[8], sum = size;
  for (unsigned l = 0; l < 8; l++) lane[l] = UINT64_C(0x9e3779b97f4a7c15) * (l + 1);
  while (size > 0) {
    uint64_t words[8] = {0};
    uint64_t taken = size < sizeof words ? size : sizeof words;
    memcpy(words, bytes, taken);
    for (unsigned l = 0; l < 8; l++)
      lane[l] = (lane[l] ^ words[l]) * UINT64_C(0xff51afd7ed558ccd) + (lane[l] >> 29);
    bytes += taken;
    size -= taken;
  }
  for (unsigned l = 0; l < 8; l++)
    sum = (sum ^ lane[l] ^ lane[l] >> 32) * UINT64_C(0xc4ceb9fe1a85ec53);
  return sum ^ sum >> 31;
}

static kf_status hash_rows(void *argument, size_t i, size_t worker, kf_err *err) {
  const job *j = argument;
  uint64_t first = (uint64_t)i * ROWS_AT_ONCE;
  uint64_t end = first + ROWS_AT_ONCE < j->n ? first + ROWS_AT_ONCE : j->n;
  float *buffer = j->rows == NULL ? j->fetched + worker * FETCHED * j->index->dim : NULL;
  for (uint64_t row = first, n; row < end; row += n) {
    const char *bytes = j->rows != NULL ? j->rows + row * j->size : (const char *)buffer;
    n = end - row;
    if (buffer != NULL && n > FETCHED) n = FETCHED;
    if (buffer != NULL) KF_TRY(fetch(j, row, n, buffer, err));
    for (uint64_t t = 0; t < n; t++)
      j->all[row + t] = (hashed){hash_of(bytes + t * j->size, j->size), (uint32_t)(row + t)};
  }
  return KF_OK;
}

static kf_status compare_rows(const job *j, uint32_t a, uint32_t b, bool *same, kf_err *err) {
  if (j->rows != NULL) {
    *same = memcmp(j->rows + a * j->size, j->rows + b * j->size, j->size) == 0;
    return KF_OK;
  }
  float *one = j->fetched, *other = one + j->index->dim;
  KF_TRY(fetch(j, a, 1, one, err));
  KF_TRY(fetch(j, b, 1, other, err));
  *same = memcmp(one, other, j->size) == 0;
  return KF_OK;
}

/* A stable radix sort by hash; returns the array that holds the result. */
static hashed *sort(hashed *from, hashed *to, uint64_t n) {
  for (unsigned shift = 0; shift < 64; shift += 8) {
    uint64_t count[257] = {0};
    for (uint64_t i = 0; i < n; i++) count[(from[i].hash >> shift & 255) + 1]++;
    for (unsigned b = 1; b <= 256; b++) count[b] += count[b - 1];
    for (uint64_t i = 0; i < n; i++) to[count[from[i].hash >> shift & 255]++] = from[i];
    hashed *other = from;
    from = to;
    to = other;
  }
  return from;
}

static bool any_equal(const hashed *sorted, uint64_t n) {
  for (uint64_t i = 1; i < n; i++)
    if (sorted[i].hash == sorted[i - 1].hash) return true;
  return false;
}

/* Chains the rows that are equal. */
static kf_status chain(const job *j, const hashed *sorted, kf_copies *out, kf_err *err) {
  for (uint64_t i = 0, end; i < j->n; i = end) {
    uint32_t first = sorted[i].row, last = first;
    for (end = i + 1; end < j->n && sorted[end].hash == sorted[i].hash; end++) {
      uint32_t row = sorted[end].row;
      bool same;
      KF_TRY(compare_rows(j, first, row, &same, err));
      if (!same) continue;
      out->next[last] = row;
      last = row;
      out->is_copy[row / 8] |= (unsigned char)(1u << row % 8);
      out->n++;
    }
  }
  return KF_OK;
}

kf_status kf_copies_find(kf_ctx *ctx, const kf_index *index, kf_copies *out) {
  *out = (kf_copies){0};
  job j = {.index = index, .kernels = ctx->kernels, .n = index->n};
  if (index->n >= UINT32_MAX) return KF_OK;
  j.rows = index->halves != NULL ? (const char *)index->halves : (const char *)index->rows;
  j.size = index->dim * (index->halves != NULL ? sizeof *index->halves : sizeof *index->rows);
  kf_arena arena = {0};
  hashed *other;
  if (j.rows == NULL) KF_TAKE(&arena, j.fetched, (uint64_t)ctx->threads * FETCHED * index->dim);
  KF_TAKE(&arena, j.all, j.n);
  KF_TAKE(&arena, other, j.n);
  kf_status status = arena.failed ? kf_fail_memory(&ctx->err) : KF_OK;
  if (status == KF_OK)
    status = kf_parallel(ctx, (size_t)((j.n + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE), hash_rows, &j);
  const hashed *sorted = status == KF_OK ? sort(j.all, other, j.n) : NULL;
  if (status == KF_OK && any_equal(sorted, j.n)) {
    KF_TAKE(&out->arena, out->next, j.n);
    KF_TAKE_ZERO(&out->arena, out->is_copy, j.n / 8 + 1);
    status = out->arena.failed ? kf_fail_memory(&ctx->err) : KF_OK;
    if (status == KF_OK) memset(out->next, 0xff, j.n * sizeof *out->next);
    if (status == KF_OK) status = chain(&j, sorted, out, &ctx->err);
  }
  kf_arena_free(&arena);
  if (status != KF_OK || out->n == 0) kf_copies_clear(out);
  return status;
}

void kf_copies_clear(kf_copies *copies) {
  kf_arena_free(&copies->arena);
  *copies = (kf_copies){0};
}

uint64_t kf_copies_in(const kf_copies *copies, uint64_t first, uint64_t n) {
  uint64_t sum = 0;
  if (copies->n == 0) return 0;
  for (uint64_t row = first; row < first + n; row++) sum += kf_is_copy(copies, row);
  return sum;
}
