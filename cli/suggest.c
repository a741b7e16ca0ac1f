/* suggest.c - guesses what a mistyped word was meant to be. */
#include "args.h"

#include <string.h>

enum { LONGEST = 32 };

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* Edits (insert, delete, replace, swap neighbours) from a to b; both at most LONGEST long. */
static size_t edit_distance(const char *a, size_t n, const char *b, size_t m) {
  size_t d[LONGEST + 1][LONGEST + 1];
  for (size_t i = 0; i <= n; i++) d[i][0] = i;
  for (size_t j = 0; j <= m; j++) d[0][j] = j;
  for (size_t i = 1; i <= n; i++) {
    for (size_t j = 1; j <= m; j++) {
      d[i][j] =
          least(least(d[i - 1][j], d[i][j - 1]) + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[n][m];
}

/* What other programs call it. */
static int is_synonym(const char *typed, const char *name) {
  static const char *const pairs[][2] = {
      {"l2", "euclidean"},        {"ip", "inner"},
      {"dot", "inner"},           {"k", "neighbours"},
      {"top", "neighbours"},      {"topk", "neighbours"},
      {"top-k", "neighbours"},    {"knn", "search"},
      {"nn", "search"},           {"query", "search"},
      {"find", "search"},         {"retrieve", "search"},
      {"train", "fit"},           {"learn", "fit"},
      {"predict", "classify"},    {"infer", "classify"},
      {"label", "classify"},      {"test", "eval"},
      {"score", "eval"},          {"validate", "eval"},
      {"benchmark", "eval"},      {"evaluate", "eval"},
      {"accuracy", "eval"},       {"encode", "embed"},
      {"extract", "embed"},       {"featurize", "embed"},
      {"tokenize", "embed-text"}, {"encode-text", "embed-text"},
      {"map", "transform"},       {"project", "transform"},
      {"apply", "transform"},     {"show", "info"},
      {"inspect", "info"},        {"describe", "info"},
      {"tune", "sweep"},          {"grid", "sweep"},
      {"build", "index"},         {"gallery", "index"},
      {"start", "quickstart"},    {"init", "quickstart"},
      {"generate", "synth"},      {"diff", "compare"},
      {"add", "add-class"},       {"join", "merge"},
  };
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
    if (strcmp(pairs[i][0], typed) == 0 && strcmp(pairs[i][1], name) == 0) return 1;
  return 0;
}

void suggest(suggestion *guess, const char *candidate) {
  size_t n = strlen(guess->typed), m = strlen(candidate);
  if (n == 0 || n > LONGEST || m > LONGEST) return;
  /* A prefix is closer than anything but the name itself. */
  int begins = n >= 2 && strncmp(guess->typed, candidate, n) == 0;
  int synonym = is_synonym(guess->typed, candidate);
  size_t distance = begins || synonym ? 1 : edit_distance(guess->typed, n, candidate, m);
  if (distance > 1 + n / 4) return;
  if (guess->best && distance >= guess->distance) return;
  guess->best = candidate;
  guess->distance = distance;
  guess->synonym = synonym;
}
