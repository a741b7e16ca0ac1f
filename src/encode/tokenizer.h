/* tokenizer.h - CLIP's byte-pair tokenizer. Private to this room. */
#ifndef KF_TOKENIZER_H
#define KF_TOKENIZER_H

#include "base/base.h"

typedef struct kf_tokenizer kf_tokenizer;

/* Reads the first of tokenizer.json, vocab.json with merges.txt, and bpe_simple_vocab_16e6.txt.gz
 * (or .txt) that exists in the folder, and the special tokens in tokenizer_config.json,
 * special_tokens_map.json and added_tokens.json (docs/encoder.md). */
kf_status kf_tokenizer_load(const char *folder, kf_tokenizer **out, kf_err *err);
void kf_tokenizer_free(kf_tokenizer *tokenizer);
int32_t kf_tokenizer_end(const kf_tokenizer *tokenizer); /* <|endoftext|> */

/* The tokens of a text: start, text, end, padded to `context` tokens or cut to that many (the last
 * one is still the end; a context of 1 holds nothing else). *n: how many precede the padding.
 * Invalid UTF-8 is KF_ERR_DATA; the message begins with `name` and gives the byte. A text may hold
 * NUL. Any thread may call it. */
kf_status kf_tokenize_text(const kf_tokenizer *tokenizer, const char *text, size_t length,
                           uint32_t context, const char *name, int32_t *tokens, uint32_t *n,
                           kf_err *err);

#endif
