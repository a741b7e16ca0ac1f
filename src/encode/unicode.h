/* unicode.h - the part of Unicode that CLIP's tokenizer needs: letters, numbers and white space,
 * lower case, and normalisation form C, whatever the locale. The tables are those of the reference
 * tokenizer (see unicode_tables.c for the versions). Private to this room. */
#ifndef KF_UNICODE_H
#define KF_UNICODE_H

#include "base/text.h"

/* --- the tables (unicode_tables.c) ------------------------------------------------------------ */

typedef enum kf_unicode_kind {
  KF_UNICODE_OTHER = 0,
  KF_UNICODE_SPACE = 1,  /* \s */
  KF_UNICODE_LETTER = 2, /* \p{L} */
  KF_UNICODE_NUMBER = 3  /* \p{N} */
} kf_unicode_kind;

typedef struct kf_unicode_info {
  uint8_t kind;            /* kf_unicode_kind */
  uint8_t combining_class; /* 0: starter */
  uint8_t unstable;        /* may change, or change the character before it, in form C */
  uint8_t decomposes;      /* has a decomposition, other than by Hangul's formula */
  int32_t lower;           /* lower case - c; except for U+0130, which becomes two */
} kf_unicode_info;

/* Consecutive code points; the first has decomposition `number`. */
typedef struct kf_unicode_run {
  uint32_t begin, number;
} kf_unicode_run;

#define KF_UNICODE_END       0x110000u
#define KF_UNICODE_COVERED   0x32400u /* by the tables of records */
#define KF_UNICODE_DOTTED_I  0x130u   /* lower case: i, U+0307 */
#define KF_UNICODE_DOT_ABOVE 0x307u

/* Records of code points in three stages. Those beyond the tables have record 0, which is all
 * zero. */
extern const kf_unicode_info kf_unicode_record[];
extern const uint8_t kf_unicode_leaf[], kf_unicode_trunk[KF_UNICODE_COVERED / 128];
extern const uint16_t kf_unicode_branch[];

/* c < KF_UNICODE_END */
static inline const kf_unicode_info *kf_unicode_get(uint32_t c) {
  if (c >= KF_UNICODE_COVERED) return &kf_unicode_record[0];
  uint32_t leaf = kf_unicode_branch[kf_unicode_trunk[c >> 7] << 4 | (c >> 3 & 15)];
  return &kf_unicode_record[kf_unicode_leaf[leaf << 3 | (c & 7)]];
}

/* Decompositions, Hangul aside, are numbered by code point. Number i is kf_unicode_first[i], which
 * may decompose further, then kf_unicode_mark[kf_unicode_second[i]], unless that is 0. Code points
 * that follow each other form a run. */
extern const kf_unicode_run kf_unicode_runs[];
extern const uint32_t kf_unicode_first[], kf_unicode_mark[];
extern const uint8_t kf_unicode_second[];
/* Numbers of the decompositions that form C undoes, sorted by first, then second. */
extern const uint16_t kf_unicode_pairs[];
extern const uint32_t kf_unicode_n_runs, kf_unicode_n_pairs;

/* --- texts as code points --------------------------------------------------------------------- */

/* Code points of valid UTF-8 in form C and lower case, as in the reference: character by character,
 * so sigma has no final form. `out` has room for 2 * length code points; *n: how many there are.
 * KF_ERR_MEM if there is no memory to sort a very long run of marks. */
kf_status kf_unicode_fold(const char *text, size_t length, uint32_t *out, size_t *n, kf_err *err);
/* Form C alone, with the same room. */
kf_status kf_unicode_nfc(const char *text, size_t length, uint32_t *out, size_t *n, kf_err *err);

#endif
