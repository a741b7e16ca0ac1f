/* unicode.c - normalisation form C and lower case.
 *
 * Form C takes three steps (UAX 15): every character is replaced by its full decomposition; runs of
 * marks are sorted by combining class, stably; then each mark is joined with the starter before it
 * if a composed character exists and no mark of the same or a higher class is between them. Hangul
 * syllables have a formula instead of tables. Most texts have no character that this could change;
 * one table lookup per character tells.
 *
 * Runs of marks can be as long as the text. Short ones are sorted by insertion, long ones by
 * counting classes, so the time stays linear. */
#include "encode/unicode.h"

#include <string.h>

/* --- decomposing ------------------------------------------------------------------------------ */

enum {
  HANGUL = 0xAC00,
  LEADS = 0x1100,
  VOWELS = 0x1161,
  TAILS = 0x11A7, /* the tail number 0 is 'none' */
  N_LEADS = 19,
  N_VOWELS = 21,
  N_TAILS = 28,
  N_HANGUL = N_LEADS * N_VOWELS * N_TAILS
};

static size_t decompose_hangul(uint32_t c, uint32_t *out) {
  uint32_t s = c - HANGUL, tail = s % N_TAILS;
  out[0] = LEADS + s / (N_VOWELS * N_TAILS);
  out[1] = VOWELS + s / N_TAILS % N_VOWELS;
  if (tail == 0) return 2;
  out[2] = TAILS + tail;
  return 3;
}

/* The last run that begins at or before a code point, or a number. */
static const kf_unicode_run *find_run(uint32_t value, bool by_number) {
  uint32_t low = 0, high = kf_unicode_n_runs;
  while (high - low > 1) {
    uint32_t middle = (low + high) / 2;
    const kf_unicode_run *run = &kf_unicode_runs[middle];
    if ((by_number ? run->number : run->begin) <= value)
      low = middle;
    else
      high = middle;
  }
  return &kf_unicode_runs[low];
}

/* Writes the full decomposition; at most twice as many code points as c has bytes. */
static size_t decompose(uint32_t c, uint32_t *out) {
  if (c - HANGUL < N_HANGUL) return decompose_hangul(c, out);
  if (!kf_unicode_get(c)->decomposes) {
    out[0] = c;
    return 1;
  }
  const kf_unicode_run *run = find_run(c, false);
  uint32_t number = run->number + (c - run->begin);
  uint32_t second = kf_unicode_mark[kf_unicode_second[number]];
  size_t n = decompose(kf_unicode_first[number], out);
  if (second != 0) out[n++] = second;
  return n;
}

/* --- ordering --------------------------------------------------------------------------------- */

#define SHORT_RUN 32u

static uint8_t class_of(uint32_t c) { return kf_unicode_get(c)->combining_class; }

static void insertion_sort(uint32_t *marks, size_t n) {
  for (size_t i = 1; i < n; i++) {
    uint32_t mark = marks[i];
    uint8_t class = class_of(mark);
    size_t j = i;
    for (; j > 0 && class_of(marks[j - 1]) > class; j--) marks[j] = marks[j - 1];
    marks[j] = mark;
  }
}

static kf_status counting_sort(uint32_t *marks, size_t n, kf_err *err) {
  uint32_t *copy = kf_alloc(n, sizeof *copy);
  if (copy == NULL) return kf_fail_memory(err);
  memcpy(copy, marks, n * sizeof *copy);
  size_t begin[257] = {0};
  for (size_t i = 0; i < n; i++) begin[class_of(marks[i]) + 1]++;
  for (size_t k = 1; k < 257; k++) begin[k] += begin[k - 1];
  for (size_t i = 0; i < n; i++) marks[begin[class_of(copy[i])]++] = copy[i];
  kf_free(copy);
  return KF_OK;
}

static kf_status order(uint32_t *text, size_t n, kf_err *err) {
  for (size_t i = 0; i < n;) {
    size_t end = i;
    while (end < n && class_of(text[end]) != 0) end++;
    if (end - i > SHORT_RUN)
      KF_TRY(counting_sort(text + i, end - i, err));
    else
      insertion_sort(text + i, end - i);
    i = end + 1;
  }
  return KF_OK;
}

/* --- composing -------------------------------------------------------------------------------- */

/* The composition of two characters; 0: none. */
static uint32_t compose_pair(uint32_t a, uint32_t b) {
  if (a - LEADS < N_LEADS && b - VOWELS < N_VOWELS)
    return HANGUL + ((a - LEADS) * N_VOWELS + (b - VOWELS)) * N_TAILS;
  if (a - HANGUL < N_HANGUL && (a - HANGUL) % N_TAILS == 0 && b - TAILS - 1 < N_TAILS - 1)
    return a + (b - TAILS);
  if (!kf_unicode_get(b)->unstable) return 0;
  uint32_t low = 0, high = kf_unicode_n_pairs;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    uint32_t number = kf_unicode_pairs[middle], first = kf_unicode_first[number];
    uint32_t second = kf_unicode_mark[kf_unicode_second[number]];
    if (first == a && second == b) {
      const kf_unicode_run *run = find_run(number, true);
      return run->begin + (number - run->number);
    }
    if (first < a || (first == a && second < b))
      low = middle + 1;
    else
      high = middle;
  }
  return 0;
}

/* In place: the text only becomes shorter. */
static size_t compose(uint32_t *text, size_t n) {
  size_t to = 0, starter = SIZE_MAX;
  int last = -1; /* class of the last mark kept after the starter; -1: none */
  for (size_t i = 0; i < n; i++) {
    uint32_t c = text[i];
    int class = class_of(c);
    uint32_t together = starter != SIZE_MAX && last < class ? compose_pair(text[starter], c) : 0;
    if (together != 0) {
      text[starter] = together;
      continue;
    }
    text[to] = c;
    if (class == 0) {
      starter = to;
      last = -1;
    } else {
      last = class;
    }
    to++;
  }
  return to;
}

/* --- whole texts ------------------------------------------------------------------------------ */

/* Decodes to code points; true if form C may differ. */
static bool decode(const char *text, size_t length, uint32_t *out, size_t *n) {
  unsigned unstable = 0;
  size_t count = 0;
  for (size_t at = 0; at < length;) {
    uint32_t c = kf_utf8_next(text, &at);
    if (c >= 0x80) unstable |= kf_unicode_get(c)->unstable;
    out[count++] = c;
  }
  *n = count;
  return unstable != 0;
}

kf_status kf_unicode_nfc(const char *text, size_t length, uint32_t *out, size_t *n, kf_err *err) {
  if (!decode(text, length, out, n)) return KF_OK;
  size_t count = 0;
  for (size_t at = 0; at < length;) count += decompose(kf_utf8_next(text, &at), out + count);
  KF_TRY(order(out, count, err));
  *n = compose(out, count);
  return KF_OK;
}

/* Expands the one letter that becomes two; from the end, so that nothing is overwritten unread. */
static void lower_dotted(uint32_t *text, size_t n, size_t dotted) {
  for (size_t from = n, to = n + dotted; from < to;) {
    uint32_t c = text[--from];
    if (c == KF_UNICODE_DOTTED_I) {
      text[--to] = KF_UNICODE_DOT_ABOVE;
      c = 'i';
    }
    text[--to] = c;
  }
}

kf_status kf_unicode_fold(const char *text, size_t length, uint32_t *out, size_t *n, kf_err *err) {
  KF_TRY(kf_unicode_nfc(text, length, out, n, err));
  size_t dotted = 0;
  for (size_t i = 0; i < *n; i++) {
    uint32_t c = out[i];
    if (c < 0x80)
      out[i] = c - 'A' < 26u ? c + 32 : c;
    else if (c == KF_UNICODE_DOTTED_I)
      dotted++;
    else
      out[i] = (uint32_t)((int32_t)c + kf_unicode_get(c)->lower);
  }
  if (dotted > 0) lower_dotted(out, *n, dotted);
  *n += dotted;
  return KF_OK;
}
