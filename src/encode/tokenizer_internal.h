/* tokenizer_internal.h - the tokenizer: tokenizer.c uses it, tokenizer_load.c fills it from a
 * vocabulary, tokenizer_special.c adds special tokens. */
#ifndef KF_TOKENIZER_INTERNAL_H
#define KF_TOKENIZER_INTERNAL_H

#include "encode/folder.h"
#include "encode/tokenizer.h"

#define KF_TOKENS_MAX         0x100000u /* one more than the largest id accepted; CLIP has 49,408 */
#define KF_ADDED_MAX          256u      /* added tokens */
#define KF_TOKENIZER_FILE_MAX ((uint64_t)16 << 20) /* bytes; CLIP's files have 0.5 to 4 MB */

/* A token that is found in the text itself, before it is split into words. */
typedef struct kf_added {
  const char *text; /* UTF-8, without white space */
  size_t length;
  uint32_t *codes; /* in form C and lower case; NULL: found in the text as it is */
  size_t n_codes;
  int32_t id;
} kf_added;

/* Two neighbours that may be merged. Open addressing, at most half full. */
typedef struct kf_merge_slot {
  uint32_t left, right;
  uint32_t merge; /* its number; KF_NO_MERGE: empty slot */
} kf_merge_slot;
#define KF_NO_MERGE UINT32_MAX

struct kf_tokenizer {
  kf_arena memory;
  uint32_t size; /* one more than the largest token */
  int32_t start, end, unknown, pad;
  int32_t byte[2][256]; /* tokens of bytes, and of the last byte of a word */
  kf_merge_slot *slots;
  uint32_t mask;
  uint32_t *merged; /* [merge] the token it makes */
  kf_added *added;
  uint32_t n_added;
  uint32_t n_normalized; /* added tokens that are found in normalised text */
};

/* A vocabulary while it is read. `map` holds only the tokens of the file. */
typedef struct kf_vocabulary {
  const char *path; /* of the file with the tokens */
  kf_dict *map;
  uint32_t count; /* of tokens */
} kf_vocabulary;

/* Finds the start, end, unknown and padding tokens, and the added ones, from tokenizer_config.json,
 * special_tokens_map.json and added_tokens.json of the folder and from `json` (tokenizer.json;
 * NULL: none). */
kf_status kf_tokenizer_specials(kf_tokenizer *t, const kf_vocabulary *vocabulary,
                                const char *folder, const kf_json_file *json, kf_err *err);

/* The slot of a pair, or the empty slot where it belongs. */
static inline kf_merge_slot *kf_merge_find(const kf_tokenizer *t, uint32_t left, uint32_t right) {
  uint64_t hash = ((uint64_t)left << 32 | right) * KF_GOLDEN64;
  for (uint32_t i = (uint32_t)(hash >> 40);; i++) {
    kf_merge_slot *s = &t->slots[i & t->mask];
    if ((s->left == left && s->right == right) || s->merge == KF_NO_MERGE) return s;
  }
}

#endif
