/* unicode.h - as much of Unicode as CLIP's tokenizer needs: letters, numbers and white space, lower
 * case, and normalisation form C, whatever the locale. The tables are those of the reference
 * tokenizer (see unicode_tables.c for the versions). Stays in its room. */
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
  uint8_t decomposes;      /* has an entry in kf_unicode_decomposed */
  int32_t lower;           /* lower case - c; except for U+0130, which becomes two */
} kf_unicode_info;

typedef struct kf_unicode_pair {
  uint32_t first, second, composed;
} kf_unicode_pair;

#define KF_UNICODE_END       0x110000u
#define KF_UNICODE_DOTTED_I  0x130u /* lower case: i, U+0307 */
#define KF_UNICODE_DOT_ABOVE 0x307u

extern const kf_unicode_info kf_unicode_record[];
extern const uint16_t kf_unicode_index[];
extern const uint8_t kf_unicode_block[][128];
extern const uint32_t kf_unicode_decomposed[], kf_unicode_pool[];
extern const uint16_t kf_unicode_place[];
extern const kf_unicode_pair kf_unicode_pairs[];
extern const uint32_t kf_unicode_decompositions, kf_unicode_compositions;

/* c < KF_UNICODE_END */
static inline const kf_unicode_info *kf_unicode_get(uint32_t c) {
  return &kf_unicode_record[kf_unicode_block[kf_unicode_index[c >> 7]][c & 127]];
}

/* --- texts as code points --------------------------------------------------------------------- */

/* Code points of valid UTF-8 in form C and lower case, as in the reference: character by character,
 * so sigma has no final form. `out` has room for 2 * length code points; *n: how many there are.
 * KF_ERR_MEM if there is no memory to sort a very long run of marks. */
kf_status kf_unicode_fold(const char *text, size_t length, uint32_t *out, size_t *n, kf_err *err);
/* Form C alone, with the same room. */
kf_status kf_unicode_nfc(const char *text, size_t length, uint32_t *out, size_t *n, kf_err *err);

#endif
