/* unicode.h - the part of Unicode that CLIP's tokenizer needs: letters, numbers and white space,
 * lower case, and normalisation form C, whatever the locale. The tables are those of the reference
 * tokenizer (see unicode_tables.c for the versions). Private to this room. */
#ifndef KF_UNICODE_H
#define KF_UNICODE_H

#include "base/text.h"

#define KF_UNICODE_END 0x110000u

typedef enum kf_unicode_kind {
  KF_UNICODE_OTHER = 0,
  KF_UNICODE_SPACE = 1,  /* \s */
  KF_UNICODE_LETTER = 2, /* \p{L} */
  KF_UNICODE_NUMBER = 3  /* \p{N} */
} kf_unicode_kind;
kf_unicode_kind kf_unicode_kind_of(uint32_t c);

/* Code points of valid UTF-8 in form C and lower case, as in the reference: character by character,
 * so sigma has no final form. `out` has room for 2 * length code points; *n: how many there are.
 * KF_ERR_MEM if there is no memory to sort a run of marks. */
kf_status kf_unicode_fold(const char *text, size_t length, uint32_t *out, size_t *n, kf_err *err);
/* Form C alone, with the same room. */
kf_status kf_unicode_nfc(const char *text, size_t length, uint32_t *out, size_t *n, kf_err *err);

/* --- the tables (unicode_tables.c) ------------------------------------------------------------ */

/* n code points from `first` on, which follow each other, and what they have in common. */
typedef struct kf_unicode_range {
  uint32_t first, n;
  int32_t value;
} kf_unicode_range;
typedef struct kf_unicode_list {
  uint32_t n;
  const kf_unicode_range *ranges; /* by rising code point; other code points have the value 0 */
} kf_unicode_list;

extern const kf_unicode_list kf_unicode_kinds;       /* kf_unicode_kind */
extern const kf_unicode_list kf_unicode_classes;     /* combining class; 0: starter */
extern const kf_unicode_list kf_unicode_lower;       /* lower case - c */
extern const kf_unicode_list kf_unicode_lower_apart; /* the same; code points are two apart */

/* Decompositions, Hangul aside. A single becomes one other code point. A double becomes two, of
 * which the first may decompose further; the second is kf_unicode_mark[kf_unicode_second[number]].
 * Both are numbered by code point; the value of a range is the number of its first one. */
extern const kf_unicode_list kf_unicode_singles, kf_unicode_doubles;
extern const uint32_t kf_unicode_single[], kf_unicode_first[], kf_unicode_mark[];
extern const uint8_t kf_unicode_second[];
/* Numbers of the doubles that form C composes again, sorted by first, then second. */
extern const uint16_t kf_unicode_pairs[];
extern const uint32_t kf_unicode_n_pairs;

#endif
