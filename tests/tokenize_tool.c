/* tokenize_tool.c - the tokenizer for scripts: tokenize_tool FOLDER CONTEXT [time] <TEXTS
 *
 * Texts end in NUL; a byte 1 stands before each (so that a text may be empty). Prints a line of
 * tokens for each, or 'error MESSAGE'. A text that holds NUL is written with NUL as 2 2 and 2 as 2
 * 3. With 'time' nothing is printed but texts per second. */
#include "encode/tokenizer.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static void *must(void *memory) {
  if (memory == NULL) abort();
  return memory;
}

static char *read_all(size_t *size) {
  size_t room = (size_t)1 << 20, n = 0;
  char *text = must(malloc(room));
  for (size_t got; (got = fread(text + n, 1, room - n, stdin)) > 0;) {
    n += got;
    if (n == room) text = must(realloc(text, room *= 2));
  }
  *size = n;
  return text;
}

/* In place: 2 2 is NUL, 2 3 is 2. */
static size_t unescape(char *text) {
  size_t n = 0;
  for (const char *at = text; *at != '\0'; at++) {
    if (*at == 2 && at[1] != '\0')
      text[n++] = *++at == 2 ? '\0' : 2;
    else
      text[n++] = *at;
  }
  return n;
}

static void print_tokens(const kf_tokenizer *tokenizer, char *text, uint32_t context,
                         int32_t *tokens) {
  kf_err err = {0};
  uint32_t n;
  size_t length = unescape(text);
  if (kf_tokenize_text(tokenizer, text, length, context, "text", tokens, &n, &err) != KF_OK) {
    printf("error %s\n", err.message);
    return;
  }
  for (uint32_t i = 0; i < context; i++) printf("%d ", tokens[i]);
  printf("%u\n", n);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  kf_err err = {0};
  kf_tokenizer *tokenizer;
  double begin = now();
  if (kf_tokenizer_load(argv[1], &tokenizer, &err) != KF_OK) {
    printf("error %s\n", err.message);
    return 1;
  }
  fprintf(stderr, "loaded in %.1f ms\n", 1e3 * (now() - begin));
  uint32_t context = (uint32_t)strtoul(argv[2], NULL, 10);
  int32_t *tokens = must(malloc(context * sizeof *tokens));
  size_t size;
  char *texts = read_all(&size);
  begin = now();
  size_t count = 0;
  for (size_t at = 0; at < size; count++) {
    size_t n = strlen(texts + at + 1);
    if (argc > 3) { /* time alone */
      uint32_t got;
      kf_tokenize_text(tokenizer, texts + at + 1, n, context, "text", tokens, &got, &err);
    } else {
      print_tokens(tokenizer, texts + at + 1, context, tokens);
    }
    at += n + 2;
  }
  if (argc > 3) fprintf(stderr, "%.0f texts/s\n", (double)count / (now() - begin));
  kf_tokenizer_free(tokenizer);
  free(tokens);
  free(texts);
  return 0;
}
