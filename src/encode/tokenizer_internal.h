/* tokenizer_internal.h - what the files of the tokenizer share: tokenizer.c uses it, tokenizer_load.c
 * fills it from a vocabulary, tokenizer_special.c from what stands beside it. */
#ifndef KF_TOKENIZER_PARTS_H
#define KF_TOKENIZER_PARTS_H

#include "base/json.h"
#include "encode/tokenizer.h"

#define KF_TOKENS_MAX 0x100000u /* one more than the largest id that is accepted; CLIP has 49,408 */
#define KF_ADDED_MAX  256u      /* added tokens */

/* A token that is found in the text itself, before it is cut into words. */
typedef struct kf_added {
  char *text; /* UTF-8, without white space */
  size_t length;
  uint32_t *
      codes; /* normalized: in form C and lower case, to be found in text of that kind; else NULL */
  size_t n_codes;
  int32_t id;
} kf_added;

/* Two neighbours that may become one. Open addressing, at most half full. */
typedef struct kf_merge_slot {
  uint32_t left, right;
  uint32_t rank; /* KF_NO_RANK: empty */
} kf_merge_slot;
#define KF_NO_RANK UINT32_MAX

struct kf_tokenizer {
  uint32_t size;
  int32_t start, end, unknown, pad;
  int32_t byte[2][256]; /* the token of a byte, and of the last byte of a word */
  kf_merge_slot *slots;
  uint32_t mask;
  uint32_t *merged; /* [rank] what a merge makes */
  kf_added *added;
  uint32_t n_added;
  uint8_t begins[256];   /* first bytes of added tokens that are found in the text as it is */
  uint32_t n_normalized; /* added tokens that are found in normalised text */
};

/* A vocabulary while it is read. `map` has the tokens of the file alone. */
typedef struct kf_vocabulary {
  const char *path; /* of the file that has the tokens */
  kf_dict *map;
  uint32_t count; /* of tokens */
} kf_vocabulary;

/* FOLDER/NAME; the caller frees it. NULL: no memory. */
char *kf_tokenizer_path(const char *folder, const char *name);
bool kf_tokenizer_has(const char *folder, const char *name);
/* Parses a JSON file of the folder; where it does not exist, *doc is empty (n == 0). */
kf_status kf_tokenizer_json(const char *folder, const char *name, kf_json_doc *doc, kf_err *err);

/* Finds start, end, unknown and padding token, and the added ones, from tokenizer_config.json,
 * special_tokens_map.json and added_tokens.json of the folder and from `json` (tokenizer.json; NULL:
 * none). */
kf_status kf_tokenizer_specials(kf_tokenizer *t, const kf_vocabulary *vocabulary,
                                const char *folder, const kf_json_doc *json, kf_err *err);

/* The slot of a pair, or the empty one where it belongs. */
static inline kf_merge_slot *kf_merge_find(const kf_tokenizer *t, uint32_t left, uint32_t right) {
  uint64_t hash = ((uint64_t)left << 32 | right) * KF_GOLDEN64;
  for (uint32_t i = (uint32_t)(hash >> 40);; i++) {
    kf_merge_slot *s = &t->slots[i & t->mask];
    if ((s->left == left && s->right == right) || s->rank == KF_NO_RANK) return s;
  }
}

#endif
