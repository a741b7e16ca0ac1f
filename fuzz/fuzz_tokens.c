/* Texts through a small tokenizer: twice the same tokens, with another context length the same but
 * for the end, and all of them in the vocabulary. */
#include "fuzz.h"

#include "encode/tokenizer_internal.h"

#include <stdlib.h>
#include <string.h>

enum { CONTEXT = 200 };

static kf_tokenizer *tokenizer(void) {
  static kf_tokenizer *t;
  if (t != NULL) return t;
  static const char merges[] =
      "#version: 0.2\nt h\nth e</w>\na n\nan d</w>\n\xc3\x83 \xc2\xa9</w>\n"
      "o o\noo oo\n< |</w>\n";
  /* One special token matches the raw text, one the normalised text. */
  static const char map[] =
      "{\"bos_token\": {\"content\": \"<|startoftext|>\", \"normalized\": true},"
      "\"mask_token\": {\"content\": \"\xc3\x89!\", \"normalized\": true}}";
  char folder[128];
  kf_err err;
  snprintf(folder, sizeof folder, "%s",
           fuzz_write("bpe_simple_vocab_16e6.txt", merges, sizeof merges - 1));
  *strrchr(folder, '/') = '\0';
  fuzz_write("special_tokens_map.json", map, sizeof map - 1);
  if (kf_tokenizer_load(folder, &t, &err) != KF_OK) abort();
  return t;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const kf_tokenizer *t = tokenizer();
  int32_t tokens[CONTEXT], again[CONTEXT];
  uint32_t n, m;
  kf_err err = {0};
  const char *text = (const char *)data;
  kf_status status = kf_tokenize_text(t, text, size, CONTEXT, "text", tokens, &n, &err);
  if (status != KF_OK) {
    if (status != KF_ERR_DATA || strstr(err.message, "UTF-8 at its byte") == NULL) abort();
    return 0;
  }
  for (uint32_t i = 0; i < CONTEXT; i++)
    if (tokens[i] < 0 || (uint32_t)tokens[i] >= t->size) abort();
  uint32_t context = (uint32_t)(1 + size % (CONTEXT - 1));
  if (kf_tokenize_text(t, text, size, context, "text", again, &m, &err) != KF_OK) abort();
  if (m != (n < context ? n : context)) abort();
  if (memcmp(tokens, again, (m - 1) * sizeof *tokens) != 0) abort();
  if (again[m - 1] != kf_tokenizer_end(t) || tokens[n - 1] != kf_tokenizer_end(t)) abort();
  return 0;
}
