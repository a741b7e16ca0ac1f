/* unicode.c - normalisation form C and lower case.
 *
 * Form C takes three steps (UAX 15): every character is replaced by its full decomposition; runs of
 * marks are stably sorted by combining class; then each mark is joined with the starter before it
 * if a composed character exists and no mark of the same or a higher class is between them. Hangul
 * syllables have a formula instead of tables.
 *
 * Runs of marks can be as long as the text, so they are sorted by counting classes, in linear
 * time. */
#include "encode/unicode.h"

#include <string.h>

/* --- lists of ranges -------------------------------------------------------------------------- */

/* The last range that begins at or before c; NULL: none. */
static const kf_unicode_range *find(const kf_unicode_list *list, uint32_t c) {
  uint32_t low = 0, high = list->n;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (list->ranges[middle].first <= c)
      low = middle + 1;
    else
      high = middle;
  }
  return low > 0 ? &list->ranges[low - 1] : NULL;
}

static int32_t value_of(const kf_unicode_list *list, uint32_t c) {
  const kf_unicode_range *r = find(list, c);
  return r != NULL && c - r->first < r->n ? r->value : 0;
}

/* The number of a code point that is counted in a list; -1: not in it. */
static int64_t number_of(const kf_unicode_list *list, uint32_t c) {
  const kf_unicode_range *r = find(list, c);
  return r != NULL && c - r->first < r->n ? (int64_t)r->value + (c - r->first) : -1;
}

kf_unicode_kind kf_unicode_kind_of(uint32_t c) {
  return (kf_unicode_kind)value_of(&kf_unicode_kinds, c);
}

/* Lower case - c. */
static int32_t lower_of(uint32_t c) {
  const kf_unicode_range *r = find(&kf_unicode_lower_apart, c);
  bool apart = r != NULL && (c - r->first) % 2 == 0 && (c - r->first) / 2 < r->n;
  return apart ? r->value : value_of(&kf_unicode_lower, c);
}

/* --- decomposing ------------------------------------------------------------------------------ */

enum {
  STABLE = 0x300, /* form C leaves the code points below alone */
  DOTTED_I = 0x130,
  DOT_ABOVE = 0x307, /* the lower case of DOTTED_I is 'i' and this */
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

/* Writes the full decomposition; at most twice as many code points as c has bytes. */
static size_t decompose(uint32_t c, uint32_t *out) {
  int64_t number;
  if (c - HANGUL < N_HANGUL) return decompose_hangul(c, out);
  if ((number = number_of(&kf_unicode_singles, c)) >= 0) {
    *out = kf_unicode_single[number];
    return 1;
  }
  if ((number = number_of(&kf_unicode_doubles, c)) >= 0) {
    size_t n = decompose(kf_unicode_first[number], out);
    out[n] = kf_unicode_mark[kf_unicode_second[number]];
    return n + 1;
  }
  *out = c;
  return 1;
}

/* --- ordering --------------------------------------------------------------------------------- */

static int class_of(uint32_t c) { return value_of(&kf_unicode_classes, c); }

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
    if (end - i > 1) KF_TRY(counting_sort(text + i, end - i, err));
    i = end + 1;
  }
  return KF_OK;
}

/* --- composing -------------------------------------------------------------------------------- */

/* The code point of a double. */
static uint32_t double_of(uint32_t number) {
  const kf_unicode_range *r = kf_unicode_doubles.ranges + kf_unicode_doubles.n - 1;
  while ((uint32_t)r->value > number) r--;
  return r->first + (number - (uint32_t)r->value);
}

/* The composition of two characters; 0: none. */
static uint32_t compose_pair(uint32_t a, uint32_t b) {
  if (a - LEADS < N_LEADS && b - VOWELS < N_VOWELS)
    return HANGUL + ((a - LEADS) * N_VOWELS + (b - VOWELS)) * N_TAILS;
  if (a - HANGUL < N_HANGUL && (a - HANGUL) % N_TAILS == 0 && b - TAILS - 1 < N_TAILS - 1)
    return a + (b - TAILS);
  uint32_t low = 0, high = kf_unicode_n_pairs;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    uint32_t number = kf_unicode_pairs[middle], first = kf_unicode_first[number];
    uint32_t second = kf_unicode_mark[kf_unicode_second[number]];
    if (first == a && second == b) return double_of(number);
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
  bool unstable = false;
  *n = 0;
  for (size_t at = 0; at < length; unstable |= out[(*n)++] >= STABLE)
    out[*n] = kf_utf8_next(text, &at);
  return unstable;
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
    if (c == DOTTED_I) {
      text[--to] = DOT_ABOVE;
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
    else if (c == DOTTED_I)
      dotted++;
    else
      out[i] = (uint32_t)((int32_t)c + lower_of(c));
  }
  if (dotted > 0) lower_dotted(out, *n, dotted);
  *n += dotted;
  return KF_OK;
}
