/* tokenizer.c - turns a text into tokens.
 *
 * The steps are those of the reference (CLIPTokenizer of the transformers library, which uses the
 * tokenizers library):
 *
 *   1. Added tokens, such as <|endoftext|>, are found in the text as it is: the leftmost first, and
 *      the longest of those that begin there.
 *   2. The text between them is brought into form C and lower case. Added tokens that are
 *      `normalized` are found now.
 *   3. The rest is split into words at white space and by the regular expression
 *     <\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+
 *      Each word is split again by the expression of GPT-2, which only affects the first two: <|,
 *      endoftext, |>.
 *   4. Each byte of a word is a token, the last one marked as the end of the word. Merges are
 *      numbered in the order of their list; the neighbours with the lowest merge are joined, the
 *      leftmost first, until none can be joined.
 *   5. The result is start, tokens, end, cut to the context or padded.
 *
 * Merges wait in a heap, so that a text of one endless word takes n log n. */
#include "encode/tokenizer_internal.h"
#include "encode/unicode.h"

#include <string.h>

/* Collects tokens. Once it is full, the rest of the text need not be read. */
typedef struct token_sink {
  const kf_tokenizer *t;
  int32_t *tokens;
  uint32_t n, room;
  kf_err *err;
} token_sink;

static bool full(const token_sink *s) { return s->n >= s->room; }

static void put(token_sink *s, int32_t token) {
  if (!full(s)) s->tokens[s->n++] = token;
}

/* --- 4. merging ------------------------------------------------------------------------------- */

/* A word: a linked list of tokens, and a heap of merge << 32 | index. An entry of the heap is stale
 * if the tokens at its index have another merge by now. */
typedef struct merging {
  uint32_t *id, *previous, *next; /* [n]; next == n: last; previous == n: first */
  uint64_t *heap;                 /* [3 n]: a merge removes one entry and adds at most two */
  size_t n, in_heap;
} merging;

static void heap_push(merging *w, uint64_t key) {
  size_t i = w->in_heap++;
  while (i > 0 && w->heap[(i - 1) / 2] > key) {
    w->heap[i] = w->heap[(i - 1) / 2];
    i = (i - 1) / 2;
  }
  w->heap[i] = key;
}

static uint64_t heap_pop(merging *w) {
  uint64_t top = w->heap[0], last = w->heap[--w->in_heap];
  size_t i = 0;
  for (size_t child; (child = 2 * i + 1) < w->in_heap; i = child) {
    if (child + 1 < w->in_heap && w->heap[child + 1] < w->heap[child]) child++;
    if (w->heap[child] >= last) break;
    w->heap[i] = w->heap[child];
  }
  w->heap[i] = last;
  return top;
}

/* The merge that joins the token at an index with the next one. */
static uint32_t merge_at(const kf_tokenizer *t, const merging *w, uint32_t at) {
  uint32_t right = w->next[at];
  return right == w->n ? KF_NO_MERGE : kf_merge_find(t, w->id[at], w->id[right])->merge;
}

static void push_pair(const kf_tokenizer *t, merging *w, uint32_t at) {
  uint32_t merge = merge_at(t, w, at);
  if (merge != KF_NO_MERGE) heap_push(w, (uint64_t)merge << 32 | at);
}

static void merge_all(const kf_tokenizer *t, merging *w) {
  uint32_t n = (uint32_t)w->n;
  for (uint32_t i = 0; i + 1 < n; i++) push_pair(t, w, i);
  while (w->in_heap > 0) {
    uint64_t top = heap_pop(w);
    uint32_t at = (uint32_t)top, merge = (uint32_t)(top >> 32);
    if (merge_at(t, w, at) != merge) continue;
    uint32_t right = w->next[at];
    w->id[at] = t->merged[merge];
    w->id[right] = UINT32_MAX; /* not a token, so its entries in the heap are stale */
    w->next[at] = w->next[right];
    if (w->next[at] != n) w->previous[w->next[at]] = at;
    if (w->previous[at] != n) push_pair(t, w, w->previous[at]);
    push_pair(t, w, at);
  }
}

static kf_status take_word(merging *w, kf_arena *arena, const uint32_t *codes, size_t n,
                           const kf_tokenizer *t, kf_err *err) {
  unsigned char *bytes = kf_arena_take(arena, n, 4);
  for (size_t i = 0; bytes != NULL && i < n; i++) w->n += kf_utf8_put(codes[i], bytes + w->n);
  KF_TAKE(arena, w->id, w->n);
  KF_TAKE(arena, w->previous, w->n);
  KF_TAKE(arena, w->next, w->n);
  KF_TAKE(arena, w->heap, 3 * w->n);
  if (arena->failed) return kf_fail_memory(err);
  for (size_t i = 0; i < w->n; i++) {
    w->id[i] = (uint32_t)t->byte[i + 1 == w->n][bytes[i]];
    w->previous[i] = (uint32_t)(i == 0 ? w->n : i - 1);
    w->next[i] = (uint32_t)(i + 1);
  }
  return KF_OK;
}

static kf_status put_word(token_sink *s, const uint32_t *codes, size_t n) {
  if (full(s)) return KF_OK;
  kf_arena arena = {0};
  merging w = {0};
  kf_status status = take_word(&w, &arena, codes, n, s->t, s->err);
  if (status == KF_OK) merge_all(s->t, &w);
  for (size_t i = 0; status == KF_OK && i < w.n; i = w.next[i]) put(s, (int32_t)w.id[i]);
  kf_arena_free(&arena);
  return status;
}

/* --- 3. words --------------------------------------------------------------------------------- */

static bool matches(const uint32_t *codes, size_t n, const char *ascii, size_t length) {
  if (n < length) return false;
  for (size_t i = 0; i < length; i++)
    if (codes[i] != (unsigned char)ascii[i]) return false;
  return true;
}

/* The length of <|startoftext|> or <|endoftext|>, which may occur here although they are added
 * tokens (in capitals in the text, say); 0: neither. */
static size_t special_word(const uint32_t *codes, size_t n) {
  if (matches(codes, n, "<|startoftext|>", 15)) return 15;
  return matches(codes, n, "<|endoftext|>", 13) ? 13 : 0;
}

/* The length of 's 't 're 've 'm 'll 'd; 0: none of them. */
static size_t contraction(const uint32_t *codes, size_t n) {
  if (n < 2) return 0;
  uint32_t c = codes[1];
  if (c == 's' || c == 't' || c == 'm' || c == 'd') return 2;
  bool two = matches(codes + 1, n - 1, "re", 2) || matches(codes + 1, n - 1, "ve", 2) ||
             matches(codes + 1, n - 1, "ll", 2);
  return two ? 3 : 0;
}

static size_t run_of(const uint32_t *codes, size_t n, kf_unicode_kind kind) {
  size_t end = 1;
  while (end < n && kf_unicode_kind_of(codes[end]) == kind) end++;
  return end;
}

static kf_status put_words(token_sink *s, const uint32_t *codes, size_t n) {
  for (size_t at = 0, length; at < n && !full(s); at += length) {
    const uint32_t *word = codes + at;
    size_t left = n - at;
    kf_unicode_kind kind = kf_unicode_kind_of(*word);
    length = 1;
    if (kind == KF_UNICODE_SPACE) continue;
    size_t special = *word == '<' ? special_word(word, left) : 0;
    if (special > 0) {
      KF_TRY(put_word(s, word, 2));
      KF_TRY(put_word(s, word + 2, special - 4));
      KF_TRY(put_word(s, word + special - 2, 2));
      length = special;
      continue;
    }
    if (*word == '\'' && (length = contraction(word, left)) > 0) {
      KF_TRY(put_word(s, word, length));
      continue;
    }
    length = kind == KF_UNICODE_NUMBER ? 1 : run_of(word, left, kind);
    KF_TRY(put_word(s, word, length));
  }
  return KF_OK;
}

/* --- 2. normalised text and its added tokens -------------------------------------------------- */

static const kf_added *added_code(const kf_tokenizer *t, const uint32_t *codes, size_t n) {
  const kf_added *longest = NULL;
  for (uint32_t i = 0; i < t->n_added; i++) {
    const kf_added *a = &t->added[i];
    if (a->codes == NULL || a->n_codes > n || a->codes[0] != codes[0]) continue;
    if (longest != NULL && longest->n_codes >= a->n_codes) continue;
    if (memcmp(a->codes, codes, a->n_codes * sizeof *codes) == 0) longest = a;
  }
  return longest;
}

static kf_status put_normalized(token_sink *s, const uint32_t *codes, size_t n) {
  size_t done = 0;
  for (size_t at = 0; s->t->n_normalized > 0 && at < n && !full(s);) {
    const kf_added *found = added_code(s->t, codes + at, n - at);
    if (found == NULL) {
      at++;
      continue;
    }
    KF_TRY(put_words(s, codes + done, at - done));
    put(s, found->id);
    at += found->n_codes;
    done = at;
  }
  return put_words(s, codes + done, n - done);
}

static kf_status put_between(token_sink *s, const char *text, size_t length) {
  uint32_t buffer[512], *codes = buffer;
  if (length == 0) return KF_OK;
  if (length > sizeof buffer / sizeof *buffer / 2) codes = kf_alloc(length, 2 * sizeof *codes);
  if (codes == NULL) return kf_fail_memory(s->err);
  size_t n;
  kf_status status = kf_unicode_fold(text, length, codes, &n, s->err);
  if (status == KF_OK) status = put_normalized(s, codes, n);
  if (codes != buffer) kf_free(codes);
  return status;
}

/* --- 1. the text as it is and its added tokens ------------------------------------------------ */

static const kf_added *added_text(const kf_tokenizer *t, const char *text, size_t n) {
  const kf_added *longest = NULL;
  for (uint32_t i = 0; i < t->n_added; i++) {
    const kf_added *a = &t->added[i];
    if (a->codes != NULL || a->length > n) continue;
    if (longest != NULL && longest->length >= a->length) continue;
    if (memcmp(a->text, text, a->length) == 0) longest = a;
  }
  return longest;
}

static kf_status put_text(token_sink *s, const char *text, size_t length) {
  size_t done = 0;
  for (size_t at = 0; at < length && !full(s);) {
    const kf_added *found = added_text(s->t, text + at, length - at);
    if (found == NULL) {
      at++;
      continue;
    }
    KF_TRY(put_between(s, text + done, at - done));
    put(s, found->id);
    at += found->length;
    done = at;
  }
  return full(s) ? KF_OK : put_between(s, text + done, length - done);
}

/* --- 5. the result ---------------------------------------------------------------------------- */

kf_status kf_tokenize_text(const kf_tokenizer *tokenizer, const char *text, size_t length,
                           uint32_t context, const char *name, int32_t *tokens, uint32_t *n,
                           kf_err *err) {
  if (context == 0)
    return kf_fail(err, KF_ERR_ARG, "%s: the context must have at least one token", name);
  if (length >= (size_t)1 << 30)
    return kf_fail_file(err, name, "has %zu bytes; a text may have at most 2^30 - 1", length);
  size_t valid = kf_utf8_prefix(text, length);
  if (valid < length) return kf_fail_file(err, name, "is not valid UTF-8 at its byte %zu", valid);
  token_sink s = {.t = tokenizer, .tokens = tokens, .room = context - 1, .err = err};
  put(&s, tokenizer->start);
  if (length > 0) KF_TRY(put_text(&s, text, length)); /* an empty text may be NULL */
  tokens[s.n] = tokenizer->end;
  *n = s.n + 1;
  for (uint32_t i = *n; i < context; i++) tokens[i] = tokenizer->pad;
  return KF_OK;
}

void kf_tokenizer_free(kf_tokenizer *t) {
  if (t == NULL) return;
  kf_arena_free(&t->memory);
  kf_free(t);
}

int32_t kf_tokenizer_end(const kf_tokenizer *tokenizer) { return tokenizer->end; }
