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

/* What other programs call it, as words between spaces. */
static int is_synonym(const char *typed, const char *name) {
  static const char *const synonyms[][2] = {
      {"euclidean", " l2 "},
      {"inner", " ip dot "},
      {"neighbours", " k top topk top-k "},
      {"search", " knn nn query find retrieve "},
      {"fit", " train learn "},
      {"classify", " predict infer label "},
      {"eval", " test score validate benchmark evaluate accuracy "},
      {"embed", " encode extract featurize "},
      {"embed-text", " tokenize encode-text "},
      {"transform", " map project apply "},
      {"info", " show inspect describe "},
      {"sweep", " tune grid "},
      {"index", " build gallery "},
      {"quickstart", " start init "},
      {"synth", " generate "},
      {"compare", " diff "},
      {"add-class", " add "},
      {"merge", " join "}};
  char word[LONGEST + 3];
  snprintf(word, sizeof word, " %s ", typed);
  for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++)
    if (strcmp(synonyms[i][0], name) == 0) return strstr(synonyms[i][1], word) != NULL;
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
