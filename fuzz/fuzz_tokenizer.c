/* The files of a tokenizer. The first byte chooses which; the rest is one file, or two with a NUL
 * between. A tokenizer that loads must turn a text into tokens of its vocabulary. */
#include "fuzz.h"

#include "encode/tokenizer_internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CONTEXT = 40 };

/* What the first byte chooses; NULL: no file. */
static const char *const files[][2] = {
    {"tokenizer.json", "tokenizer_config.json"},
    {"vocab.json", "merges.txt"},
    {"bpe_simple_vocab_16e6.txt.gz", NULL},
    {"bpe_simple_vocab_16e6.txt", "special_tokens_map.json"},
    {"tokenizer_config.json", "special_tokens_map.json"},
    {"added_tokens.json", "tokenizer_config.json"},
};
enum { KINDS = sizeof files / sizeof *files, VOCABULARY_GIVEN = 4 };

static void use(const char *folder) {
  static const char text[] =
      "A photo of <|ENDOFTEXT|>, it's 12 E\xcc\x81\xcc\xa3 \xe4\xbd\xa0 the ththth";
  kf_err err = {0};
  kf_tokenizer *t;
  kf_status status = kf_tokenizer_load(folder, &t, &err);
  if (status != KF_OK) {
    if (err.message[0] == '\0') abort(); /* every failure has a message */
    return;
  }
  int32_t tokens[CONTEXT];
  uint32_t n;
  if (kf_tokenize_text(t, text, sizeof text - 1, CONTEXT, "text", tokens, &n, &err) != KF_OK)
    abort();
  if (n < 2 || n > CONTEXT) abort();
  for (uint32_t i = 0; i < CONTEXT; i++)
    if (tokens[i] < 0 || (uint32_t)tokens[i] >= t->size) abort();
  kf_tokenizer_free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) return 0;
  unsigned kind = data[0] % KINDS;
  const char *first = (const char *)data + 1;
  const char *nul = files[kind][1] != NULL ? memchr(first, 0, size - 1) : NULL;
  size_t n = nul != NULL ? (size_t)(nul - first) : size - 1;
  const char *paths[3] = {fuzz_write(files[kind][0], first, n)};
  if (nul != NULL) paths[1] = fuzz_write(files[kind][1], nul + 1, size - 2 - n);
  static const char merges[] = "#version: 0.2\nt h\nth e</w>\n";
  if (kind >= VOCABULARY_GIVEN)
    paths[2] = fuzz_write("bpe_simple_vocab_16e6.txt", merges, sizeof merges - 1);
  char folder[128];
  snprintf(folder, sizeof folder, "%s", paths[0]);
  *strrchr(folder, '/') = '\0';
  use(folder);
  for (int i = 0; i < 3; i++)
    if (paths[i] != NULL) unlink(paths[i]);
  return 0;
}
