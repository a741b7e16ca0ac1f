/* test_tokenizer.c - tokens against those of the reference (tests/golden/make_tokenizer.py), form C
 * by its properties, every context length, and invalid files. */
#include "files.h"

#include "encode/tokenizer_internal.h"
#include "encode/unicode.h"

#include <sys/stat.h>

AUTO_OBJECT(kf_tokenizer)

#define GOLDEN  KOOFU_SOURCE_DIR "/tests/golden/tokenizer"
#define CONTEXT 77u

static kf_err err;

static kf_tokenizer *load(const char *path) {
  kf_tokenizer *tokenizer = NULL;
  if (kf_tokenizer_load(path, &tokenizer, &err) != KF_OK) fail_msg("%s", err.message);
  return tokenizer;
}

static uint32_t tokenize(const kf_tokenizer *t, const char *text, size_t length, uint32_t context,
                         int32_t *tokens) {
  uint32_t n = 0;
  if (kf_tokenize_text(t, text, length, context, "text", tokens, &n, &err) != KF_OK)
    fail_msg("%s", err.message);
  for (uint32_t i = n; i < context; i++) assert_int_equal(tokens[i], t->pad);
  return n;
}

/* --- golden tokens ---------------------------------------------------------------------------- */

static kf_json_doc expected;

static int read_expected(void **state) {
  assert_int_equal(kf_json_load(GOLDEN "/expected.json", KF_TOKENIZER_FILE_MAX, &expected, &err),
                   KF_OK);
  return make_test_folder(state);
}

static int forget_expected(void **state) {
  kf_json_clear(&expected);
  return remove_test_folder(state);
}

/* The tokens of an entry, without padding. */
static uint32_t wanted(const kf_json *entry, const char *key, int32_t *tokens) {
  const kf_json *list = kf_json_get(&expected, entry, key);
  assert_non_null(list);
  uint32_t n = 0;
  for (const kf_json *node = kf_json_first(&expected, list); node != NULL;
       node = kf_json_next(&expected, node)) {
    int64_t id;
    assert_true(kf_json_i64(node, &id));
    assert_true(n < CONTEXT);
    tokens[n++] = (int32_t)id;
  }
  return n;
}

static void assert_golden(const char *path, const char *key) {
  AUTO(kf_tokenizer) *t = load(path);
  uint32_t lines = 0;
  for (const kf_json *entry = kf_json_first(&expected, &expected.nodes[0]); entry != NULL;
       entry = kf_json_next(&expected, entry), lines++) {
    const char *text = kf_json_string(kf_json_get(&expected, entry, "text"));
    int32_t right[CONTEXT], tokens[CONTEXT];
    uint32_t n = wanted(entry, key, right);
    if (tokenize(t, text, strlen(text), CONTEXT, tokens) != n ||
        memcmp(tokens, right, n * sizeof *tokens) != 0)
      fail_msg("%s: other tokens for line %u, '%s'", path, lines, text);
  }
  assert_true(lines >= 400);
}

/* Without zlib packed files are refused, and the message says why. */
static bool has_zlib(void) {
  kf_tokenizer *t = NULL;
  kf_status status = kf_tokenizer_load(GOLDEN "/packed", &t, &err);
  kf_tokenizer_free(t);
  if (status == KF_OK) return true;
  assert_non_null(strstr(err.message, "built without zlib"));
  return false;
}

TEST(golden) {
  assert_golden(GOLDEN "/two", "full");
  assert_golden(GOLDEN "/json", "full");
  assert_golden(GOLDEN "/text", "full");
  if (has_zlib()) assert_golden(GOLDEN "/packed", "full");
}

/* Bytes that the vocabulary lacks. */
TEST(unknown) { assert_golden(GOLDEN "/few", "few"); }

TEST(numbers) {
  AUTO(kf_tokenizer) *t = load(GOLDEN "/two");
  assert_int_equal(t->size, 512 + 96 + 2);
  assert_int_equal(t->start, 512 + 96);
  assert_int_equal(kf_tokenizer_end(t), 512 + 97);
  assert_int_equal(t->pad, 512 + 97);
}

/* Cutting keeps the first tokens, and the end. */
TEST(contexts) {
  AUTO(kf_tokenizer) *t = load(GOLDEN "/two");
  static const char text[] =
      "A photo of the dog, isn't it? <|endoftext|> \xc3\x89t\xc3\xa9 1234567890";
  int32_t all[200], cut[200];
  uint32_t n = tokenize(t, text, sizeof text - 1, 200, all);
  assert_true(n > 20 && n < 100);
  for (uint32_t context = 1; context < 200; context++) {
    uint32_t m = tokenize(t, text, sizeof text - 1, context, cut);
    assert_int_equal(m, context < n ? context : n);
    assert_memory_equal(cut, all, (m - 1) * sizeof *cut);
    assert_int_equal(cut[m - 1], kf_tokenizer_end(t));
  }
  uint32_t m;
  assert_int_equal(kf_tokenize_text(t, text, 5, 0, "text", cut, &m, &err), KF_ERR_ARG);
}

/* NUL is a byte like any other, and a text need not end in one. */
TEST(nul) {
  AUTO(kf_tokenizer) *t = load(GOLDEN "/two");
  int32_t with[CONTEXT], a[CONTEXT], b[CONTEXT];
  assert_int_equal(tokenize(t, "a\0b", 3, CONTEXT, with), 5);
  assert_int_equal(tokenize(t, "a", 1, CONTEXT, a), 3);
  assert_int_equal(tokenize(t, "bad", 1, CONTEXT, b), 3);
  assert_int_equal(with[1], a[1]);
  assert_int_equal(with[2],
                   256 + 188); /* the first of the bytes that are not printable, as a word */
  assert_int_equal(with[3], b[1]);
  assert_int_equal(tokenize(t, NULL, 0, CONTEXT, a), 2);
}

TEST(bad_text) {
  static const struct {
    const char *text;
    size_t byte;
  } cases[] = {{"\xff", 0},
               {"ab\xc3", 2},
               {"ab\xc3(", 2},
               {"\xc0\x80", 0},
               {"x\xe0\x80\x80", 1},
               {"\xed\xa0\x80", 0},
               {"caf\xe9", 3},
               {"\xf4\x90\x80\x80", 0},
               {"\xf0\x8f\xbf\xbf", 0},
               {"\xc3\xa9\xe2\x82", 2},
               {"\x80", 0},
               {"a\xf8\x88\x80\x80\x80", 1}};
  AUTO(kf_tokenizer) *t = load(GOLDEN "/two");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int32_t tokens[CONTEXT];
    uint32_t n;
    char message[80];
    snprintf(message, sizeof message, "line 7: is not valid UTF-8 at its byte %zu", cases[i].byte);
    assert_int_equal(kf_tokenize_text(t, cases[i].text, strlen(cases[i].text), CONTEXT, "line 7",
                                      tokens, &n, &err),
                     KF_ERR_DATA);
    assert_string_equal(err.message, message);
    /* Even after the end of the context. */
    assert_int_equal(
        kf_tokenize_text(t, cases[i].text, strlen(cases[i].text), 1, "line 7", tokens, &n, &err),
        KF_ERR_DATA);
  }
}

/* Both ways of merging give the same: a long word that is the short one, many times. */
TEST(long_words) {
  enum { N = 200000 };
  AUTO(kf_tokenizer) *t = load(GOLDEN "/two");
  AUTOFREE char *text = malloc(N);
  int32_t *tokens = malloc((N + 2) * sizeof *tokens), few[CONTEXT];
  assert_true(text != NULL && tokens != NULL);
  for (size_t length = 1; length <= 120;
       length++) { /* by every length, past where the way changes */
    for (size_t i = 0; i < length; i++) text[i] = "photothe"[i % 8];
    uint32_t n = tokenize(t, text, length, CONTEXT, few);
    /* At whole multiples, merges cross 'photothe' only at the end of the word. */
    if (length <= 8) continue;
    uint32_t shorter = tokenize(t, text + 8, length - 8, CONTEXT + 100, tokens);
    assert_true(n > shorter);
    assert_memory_equal(few + 1 + (n - shorter), tokens + 1, (shorter - 1) * sizeof *tokens);
  }
  memset(text, 'a', N);
  assert_int_equal(tokenize(t, text, N, N + 2, tokens), N + 2); /* no merge joins two of them */
  for (size_t i = 0; i < N; i++) text[i] = "th"[i % 2];
  assert_int_equal(tokenize(t, text, N, N + 2, tokens), N / 2 + 3); /* 't h</w>' is not a merge */
  free(tokens);
}

/* Merging in its simplest form, on text: of all neighbours that are a merge, the first of the
 * lowest rank become one. Letters are a and o, or those of 'thexy', where 'he' is gone by the time
 * its turn comes, which must not affect what follows; `symbols` ends as the tokens of the word. */
static const char *const naive_merges[][2] = {
    {"o", "o"},     {"oo", "oo"},    {"a", "o"},    {"ao", "o"},  {"oo", "a"},    {"a", "a"},
    {"o", "o</w>"}, {"a", "oo</w>"}, {"ooa", "oo"}, {"aa", "aa"}, {"aoo", "aoo"}, {"o", "a</w>"},
    {"t", "h"},     {"h", "e"},      {"x", "y"},    {"e", "xy"},  {"th", "exy"}};
enum { NAIVE = sizeof naive_merges / sizeof *naive_merges };

static size_t naive_rank(const char *a, const char *b) {
  size_t r = 0;
  while (r < NAIVE && (strcmp(a, naive_merges[r][0]) != 0 || strcmp(b, naive_merges[r][1]) != 0))
    r++;
  return r;
}

static size_t merge_naively(const char *word, char (*symbols)[16]) {
  size_t n = strlen(word);
  for (size_t i = 0; i < n; i++)
    snprintf(symbols[i], 16, "%c%s", word[i], i + 1 == n ? "</w>" : "");
  for (;;) {
    size_t best = 0, rank = NAIVE;
    for (size_t i = 0; i + 1 < n; i++)
      if (naive_rank(symbols[i], symbols[i + 1]) < rank) {
        rank = naive_rank(symbols[i], symbols[i + 1]);
        best = i;
      }
    if (rank == NAIVE) return n;
    size_t end = strlen(symbols[best]);
    memcpy(symbols[best] + end, symbols[best + 1], sizeof *symbols - end);
    symbols[best][sizeof *symbols - 1] = '\0';
    memmove(symbols[best + 1], symbols[best + 2], (n - best - 2) * sizeof *symbols);
    n--;
  }
}

/* The token of a symbol in a vocabulary of OpenAI's kind. */
static int32_t naive_token(const char *symbol) {
  char made[32];
  for (int r = 0; r < NAIVE; r++) {
    snprintf(made, sizeof made, "%s%s", naive_merges[r][0], naive_merges[r][1]);
    if (strcmp(made, symbol) == 0) return 512 + r;
  }
  return symbol[0] - '!' + (symbol[1] == '\0' ? 0 : 256);
}

TEST(merging) {
  char lines[512] = "#version\n", word[160], symbols[160][16];
  for (int r = 0; r < NAIVE; r++)
    snprintf(lines + strlen(lines), sizeof lines - strlen(lines), "%s %s\n", naive_merges[r][0],
             naive_merges[r][1]);
  mkdir(at("merging"), 0777);
  write_text("merging/bpe_simple_vocab_16e6.txt", lines);
  AUTO(kf_tokenizer) *t = load(at("merging"));
  uint64_t random = 1;
  for (int i = 0; i < 5000; i++) {
    size_t length = 1 + test_random(&random) % 150, n;
    uint64_t many = test_random(&random) % 4; /* mostly one of the letters */
    for (size_t k = 0; k < length; k++) {
      uint64_t r = test_random(&random);
      word[k] = i % 2 != 0 ? "thexy"[r % 5] : r % 4 <= many ? 'o' : 'a';
    }
    word[length] = '\0';
    int32_t tokens[200];
    n = merge_naively(word, symbols);
    assert_int_equal(tokenize(t, word, length, 200, tokens), n + 2);
    for (size_t k = 0; k < n; k++) assert_int_equal(tokens[k + 1], naive_token(symbols[k]));
  }
}

/* --- form C ----------------------------------------------------------------------------------- */

/* Form C of code points, through UTF-8. */
static size_t nfc(const uint32_t *codes, size_t n, uint32_t *out) {
  AUTOFREE char *text = malloc(4 * n + 1);
  assert_non_null(text);
  size_t length = 0, m;
  for (size_t i = 0; i < n; i++) length += kf_utf8_put(codes[i], (unsigned char *)text + length);
  assert_int_equal(kf_utf8_prefix(text, length), length);
  assert_int_equal(kf_unicode_nfc(text, length, out, &m, &err), KF_OK);
  return m;
}

#define assert_nfc(from, to)                                                                       \
  do {                                                                                             \
    const uint32_t given[] = from, right[] = to;                                                   \
    uint32_t got[64];                                                                              \
    size_t m = nfc(given, sizeof given / 4, got);                                                  \
    assert_int_equal(m, sizeof right / 4);                                                         \
    assert_memory_equal(got, right, sizeof right);                                                 \
  } while (0)
#define S(...)                                                                                     \
  { __VA_ARGS__ }

TEST(compositions) {
  assert_nfc(S('e', 0x301), S(0xE9));
  assert_nfc(S(0xE9), S(0xE9));
  assert_nfc(S('a', 0x301, 0x323), S(0x1EA1, 0x301));     /* the lower class comes first */
  assert_nfc(S(0xE1, 0x323), S(0x1EA1, 0x301));           /* also after a composed letter */
  assert_nfc(S('u', 0x308, 0x304), S(0x1D6));             /* two steps */
  assert_nfc(S('a', 0x335, 0x301), S(0xE1, 0x335));       /* another class does not block */
  assert_nfc(S('a', 0x305, 0x301), S('a', 0x305, 0x301)); /* the same class does */
  assert_nfc(S('a', 0x34F, 0x301), S('a', 0x34F, 0x301)); /* so does a starter */
  assert_nfc(S(0x301, 'a'), S(0x301, 'a'));               /* nothing to compose with */
  assert_nfc(S(0x212B), S(0xC5));                         /* one that becomes another */
  assert_nfc(S(0x958), S(0x915, 0x93C));                  /* never composed again */
  assert_nfc(S(0x9C7, 0x9BE), S(0x9CB));                  /* two starters */
  assert_nfc(S(0x344), S(0x308, 0x301));                  /* a mark of two marks */
  assert_nfc(S(0x1D15E), S(0x1D157, 0x1D165));
  assert_nfc(S(0x1100, 0x1161, 0x11A8, 0x11A8), S(0xAC01, 0x11A8)); /* Hangul */
  assert_nfc(S(0xAC00, 0x11A7), S(0xAC00, 0x11A7));                 /* the tail that means none */
}

/* Syllables by their formula, taken apart and put together in every way. */
TEST(hangul) {
  for (uint32_t s = 0; s < 19 * 21 * 28; s++) {
    uint32_t jamo[3] = {0x1100 + s / (21 * 28), 0x1161 + s / 28 % 21, 0x11A7 + s % 28}, out[8];
    uint32_t half[2] = {0xAC00 + s / 28 * 28, jamo[2]};
    size_t parts = s % 28 == 0 ? 2 : 3;
    assert_int_equal(nfc(jamo, parts, out), 1);
    assert_int_equal(out[0], 0xAC00 + s);
    assert_int_equal(nfc(half, parts - 1, out), 1);
    assert_int_equal(out[0], 0xAC00 + s);
    assert_int_equal(nfc(&(uint32_t){0xAC00 + s}, 1, out), 1);
    assert_int_equal(out[0], 0xAC00 + s);
  }
}

/* Applying it twice changes nothing; and no table leads out of Unicode. */
TEST(every_point) {
  for (uint32_t c = 0; c < KF_UNICODE_END; c++) {
    if (c >= 0xD800 && c < 0xE000) continue;
    uint32_t once[16], twice[16], given[3] = {'a', c, 0x323};
    size_t n = nfc(given, 3, once);
    assert_true(n >= 1 && n <= 6);
    for (size_t i = 0; i < n; i++) assert_true(once[i] < KF_UNICODE_END);
    assert_int_equal(nfc(once, n, twice), n);
    assert_memory_equal(once, twice, n * 4);
    char text[4];
    size_t length = kf_utf8_put(c, (unsigned char *)text);
    assert_int_equal(kf_unicode_fold(text, length, once, &n, &err), KF_OK);
    for (size_t i = 0; i < n; i++) assert_true(once[i] < KF_UNICODE_END);
  }
}

/* A run of marks is sorted stably, in linear time, whatever its length. */
TEST(marks) {
  enum { N = 300000 };
  static const uint32_t marks[] = {0x301, 0x323, 0x345, 0x334, 0x302, 0x316, 0x31B};
  static const unsigned classes[] = {230, 220, 240, 1, 230, 220, 216};
  AUTOFREE uint32_t *text = malloc((N + 1) * sizeof *text),
                    *out = malloc((2 * N + 2) * 2 * sizeof *out);
  assert_true(text != NULL && out != NULL);
  const size_t lengths[] = {1, 2, 31, 32, 33, 34, 100, N};
  for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
    size_t n = lengths[k];
    uint64_t random = k;
    text[0] = 'q'; /* composes with none of them */
    for (size_t i = 1; i <= n; i++) text[i] = marks[test_random(&random) % 7];
    assert_int_equal(nfc(text, n + 1, out), n + 1);
    size_t taken = 1; /* class by class, in the order of the text */
    for (unsigned class = 1; class <= 240; class ++)
      for (size_t i = 1; i <= n; i++)
        for (size_t mark = 0; mark < 7; mark++)
          if (marks[mark] == text[i] && classes[mark] == class)
            assert_int_equal(out[taken++], text[i]);
    assert_int_equal(taken, n + 1);
  }
}

TEST(lower) {
  static const char text[] = "A\xc4\xb0 \xce\xa3\xce\x91\xce\xa3 \xe1\xba\x9e I\xcc\x87\xcc\xa3";
  const uint32_t right[] = {'a',   'i', 0x307, ' ', 0x3C3,  0x3B1,
                            0x3C3, ' ', 0xDF,  ' ', 0x1ECB, 0x307};
  uint32_t out[2 * sizeof text];
  size_t n;
  assert_int_equal(kf_unicode_fold(text, sizeof text - 1, out, &n, &err), KF_OK);
  assert_int_equal(n, sizeof right / 4);
  assert_memory_equal(out, right, sizeof right);
}

/* --- special tokens --------------------------------------------------------------------------- */

/* A folder of its own with the small vocabulary, and files beside it. */
static const char *folder_with(const char *name, const char *file, const char *content) {
  char command[1024];
  snprintf(command, sizeof command, "mkdir -p '%s' && cp " GOLDEN "/two/* '%s'", at(name),
           at(name));
  assert_int_equal(system(command), 0);
  char path[100];
  snprintf(path, sizeof path, "%s/%s", name, file);
  if (content != NULL)
    write_text(path, content);
  else
    unlink(at(path));
  return at(name);
}

/* Files that were written elsewhere may end their lines in CR LF. */
TEST(line_ends) {
  size_t n, length = 0;
  AUTOFREE char *merges = test_read(GOLDEN "/two/merges.txt", &n), *other = malloc(2 * n + 1);
  assert_non_null(other);
  for (size_t i = 0; i < n; i++) {
    if (merges[i] == '\n') other[length++] = '\r';
    other[length++] = merges[i];
  }
  other[length] = '\0';
  AUTO(kf_tokenizer) *t = load(GOLDEN "/two"), *u = load(folder_with("lines", "merges.txt", other));
  int32_t a[CONTEXT], b[CONTEXT];
  static const char text[] = "the photo of the other, theatre";
  assert_int_equal(tokenize(t, text, sizeof text - 1, CONTEXT, a),
                   tokenize(u, text, sizeof text - 1, CONTEXT, b));
  assert_memory_equal(a, b, sizeof a);
}

TEST(specials) {
  int32_t tokens[CONTEXT];
  kf_tokenizer *t = load(folder_with("bang", "tokenizer_config.json", "{\"pad_token\": \"!\"}"));
  assert_int_equal(t->pad, 0);
  assert_int_equal(tokenize(t, "dog!", 4, CONTEXT, tokens), 4);
  assert_int_equal(tokens[2], 0); /* also inside a text */
  kf_tokenizer_free(t);

  t = load(folder_with("new", "special_tokens_map.json",
                       "{\"pad_token\": {\"content\": \"[PAD]\", \"normalized\": true}}"));
  assert_int_equal(t->pad, 610);
  assert_int_equal(t->size, 611);
  assert_int_equal(tokenize(t, "dog[pad]<|ENDOFTEXT|>", 21, CONTEXT, tokens), 16);
  assert_int_equal(tokens[2], 610);
  kf_tokenizer_free(t);

  /* If a token has several names, the last decides whether capitals matter. */
  t = load(folder_with("last", "special_tokens_map.json",
                       "{\"eos_token\": {\"content\": \"<|endoftext|>\", \"normalized\": false},"
                       " \"pad_token\": {\"content\": \"<|endoftext|>\", \"normalized\": true}}"));
  assert_int_equal(tokenize(t, "<|ENDOFTEXT|>", 13, CONTEXT, tokens), 3);
  assert_int_equal(tokens[1], kf_tokenizer_end(t));
  kf_tokenizer_free(t);

  /* Among tokens with the same beginning the longest is found, whichever is listed first. */
  static const char *const alike[] = {
      "{\"additional_special_tokens\": [\"[A\", \"[AB]\", \"[AB\"]}",
      "{\"additional_special_tokens\": [{\"content\": \"[A\", \"normalized\": true},"
      " {\"content\": \"[AB]\", \"normalized\": true},"
      " {\"content\": \"[AB\", \"normalized\": true}]}"};
  for (int i = 0; i < 2; i++) {
    t = load(folder_with("alike", "tokenizer_config.json", alike[i]));
    assert_int_equal(tokenize(t, "[AB][A[AB[A]", 12, CONTEXT, tokens), 7);
    const int32_t right[] = {611, 610, 612, 610};
    assert_memory_equal(tokens + 1, right, sizeof right);
    kf_tokenizer_free(t);
  }

  t = load(folder_with("none", "tokenizer_config.json", "{\"pad_token\": null}"));
  assert_int_equal(t->pad, kf_tokenizer_end(t));
  kf_tokenizer_free(t);
}

/* --- bad files -------------------------------------------------------------------------------- */

static void assert_not_loaded(const char *path, kf_status status, const char *text) {
  kf_tokenizer *tokenizer = NULL;
  kf_status got = kf_tokenizer_load(path, &tokenizer, &err);
  if (got != status || strstr(err.message, text) == NULL || strstr(err.message, path) == NULL)
    fail_msg("status %d, message '%s'; wanted %d with '%s' and '%s'", (int)got, err.message,
             (int)status, text, path);
  assert_null(tokenizer);
}

TEST(bad_folders) {
  mkdir(at("empty"), 0777);
  assert_not_loaded(at("empty"), KF_ERR_DATA, "has no tokenizer.json, vocab.json");
  assert_not_loaded(at("missing"), KF_ERR_DATA, "has no tokenizer.json");
  assert_not_loaded(folder_with("no-merges", "merges.txt", NULL), KF_ERR_IO, "merges.txt");
  mkdir(at("dir"), 0777);
  mkdir(at("dir/tokenizer.json"), 0777);
  assert_not_loaded(at("dir"), KF_ERR_DATA, "directory");
}

TEST(bad_vocabulary) {
#define ENDS "\"<|startoftext|>\": 0, \"<|endoftext|>\": 1"
  static const char *const cases[][2] = {
      {"[]", "is not a JSON object"},
      {"{", "is not valid JSON"},
      {"{}", "has no vocabulary"},
      {"{\"a\": \"b\"}", "token 'a' has no whole number"},
      {"{\"a\": 1.5}", "token 'a' has no whole number"},
      {"{\"a\": -1}", "token 'a' has the number -1"},
      {"{\"a\": 1048576}", "token 'a' has the number 1048576"},
      {"{\"a\": 1, \"a\": 2}", "has the key 'a' twice"},
      {"{\"a\": 1, \"b\": 1}", "two tokens have the number 1"},
      {"{\"\": 1}", "has an empty token"},
      {"{" ENDS "}", "merge 1 needs 't', which is not in the vocabulary"},
      {"{" ENDS ", \"t\": 2}", "merge 1 needs 'h'"},
      {"{" ENDS ", \"t\": 2, \"h\": 3}", "merge 1 needs 'th'"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_not_loaded(folder_with("vocabulary", "vocab.json", cases[i][0]), KF_ERR_DATA,
                      cases[i][1]);
  write_text("vocabulary/merges.txt", "#version: 0.2\n");
  write_text("vocabulary/vocab.json", "{\"<|startoftext|>\": 0}");
  assert_not_loaded(at("vocabulary"), KF_ERR_DATA, "has no token '<|endoftext|>'");
}

TEST(bad_merges) {
  static const char *const cases[] = {"t h\nth\n", "t h\nth e x\n", "t h\n\n", "t h\n th\n",
                                      "t h\nth \n"};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_not_loaded(folder_with("merges", "merges.txt", cases[i]), KF_ERR_DATA,
                      "merges.txt: merge 2 is not two tokens");
  assert_not_loaded(folder_with("merges", "merges.txt", "t h\nq q\n"), KF_ERR_DATA,
                    "merge 2 needs 'qq'");
}

/* The text of the good tokenizer.json with `from` replaced, and the expected message. */
static void refuse_json(const char *from, const char *to, const char *message) {
  size_t size;
  char *text = test_read(GOLDEN "/json/tokenizer.json", &size);
  text[size - 1] = '\0';
  char *place = strstr(text, from);
  if (place == NULL) fail_msg("tokenizer.json has no %s", from);
  mkdir(at("json"), 0777);
  FILE *file = fopen(at("json/tokenizer.json"), "w");
  assert_non_null(file);
  fprintf(file, "%.*s%s%s", (int)(place - text), text, to, place + strlen(from));
  fclose(file);
  free(text);
  if (message == NULL)
    kf_tokenizer_free(load(at("json")));
  else
    assert_not_loaded(at("json"), KF_ERR_DATA, message);
}

TEST(bad_json) {
  static const char *const cases[][3] = {
      {"\"version\"", "\"version\"", NULL},
      {"\"BPE\"", "\"WordPiece\"", "its model is not BPE"},
      {"\"</w>\"", "\"@@\"", "end_of_word_suffix"},
      {"\"end_of_word_suffix\": \"</w>\"", "\"end_of_word_suffix\": null", "end_of_word_suffix"},
      {"\"byte_fallback\": false", "\"byte_fallback\": true", "it has byte_fallback"},
      {"\"ignore_merges\": false", "\"ignore_merges\": true", "it has ignore_merges"},
      {"\"fuse_unk\": false", "\"fuse_unk\": true", "it has fuse_unk"},
      {"\"dropout\": null", "\"dropout\": 0.1", "it has dropout"},
      {"prefix\": \"\"", "prefix\": \"##\"", "it has continuing_subword_prefix"},
      {"\"NFC\"", "\"NFKC\"", "its normalizer is not NFC"},
      {"\"Lowercase\"", "\"Strip\"", "its normalizer is not NFC"},
      {"\\\\s+", "\\\\s", "its normalizer is not NFC"},
      {"\"normalizers\"", "\"normalisers\"", "its normalizer is not NFC"},
      {"'ll|'d", "'ll", "another regular expression"},
      {"<\\\\|startoftext\\\\|>|<\\\\|endoftext\\\\|>|'s", "'s", NULL},
      {"\"Split\"", "\"Punctuation\"", "its pre_tokenizer is not Split and ByteLevel"},
      {"\"invert\": true", "\"invert\": false", "its pre_tokenizer is not Split and ByteLevel"},
      {"\"RobertaProcessing\"", "\"BertProcessing\"", "its post_processor"},
      {"\"sep\": [\"<|endoftext|>\", 609", "\"sep\": [\"<|endoftext|>\", 608",
       "'sep' is not token 609"},
      {"\"added_tokens\": [", "\"added_tokens\": 1, \"x\": [", "has no list 'added_tokens'"},
      {"\"id\": 608", "\"id\": 7", "has the number 7, but should have 608"},
      {"\"id\": 608", "\"x\": 608", "has no 'id' for an entry of 'added_tokens'"},
      {"\"content\": \"<|startoftext|>\"", "\"content\": \"\"", "have no text for"},
      {"\"content\": \"<|startoftext|>\"", "\"content\": \"a b\"", "white space"},
      {"\"single_word\": false", "\"single_word\": true", "single_word"},
      {"\"merges\": [", "\"merges\": [\"th e</w>\", ", NULL},
      {"\"merges\": [", "\"merges\": [\"th\", ", "merge 1 is not two tokens"},
      {"\"merges\": [", "\"merges\": [[\"t\"], ", "merge 1 is not two tokens"},
      {"\"merges\": [", "\"merges\": [[\"t\", \"h\", \"e\"], ", "merge 1 is not two tokens"},
      {"\"merges\": [", "\"merges\": [[\"t\", 1], ", "merge 1 is not two tokens"},
      {"\"merges\": [", "\"Merges\": [", "has no list of merges"},
      {"\"model\"", "\"Model\"", "it has no model"},
      {"\"vocab\"", "\"Vocab\"", "has no vocabulary"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    refuse_json(cases[i][0], cases[i][1], cases[i][2]);
}

TEST(bad_config) {
  static const char *const cases[][2] = {
      {"[1]", "is not a JSON object"},
      {"{\"tokenizer_class\": \"T5Tokenizer\"}", "wants the tokenizer 'T5Tokenizer'"},
      {"{\"split_special_tokens\": true}", "split_special_tokens"},
      {"{\"padding_side\": \"left\"}", "padding_side"},
      {"{\"truncation_side\": \"left\"}", "truncation_side"},
      {"{\"bos_token\": null}", "remove 'bos_token'"},
      {"{\"pad_token\": 3}", "have no text for 'pad_token'"},
      {"{\"unk_token\": \"[UNK]\"}", "has no token '[UNK]', which is the unk_token"},
      {"{\"added_tokens_decoder\": []}", "has no object 'added_tokens_decoder'"},
      {"{\"added_tokens_decoder\": {\"x\": {\"content\": \"a\"}}}", "has the number 'x'"},
      {"{\"added_tokens_decoder\": {\"5\": {\"content\": \"new\"}}}",
       "has the number 5, but should have 610"},
      {"{\"extra_special_tokens\": \"a\"}", NULL},
      {"{\"extra_special_tokens\": {\"a\": \"b\"}}", "have no list 'extra_special_tokens'"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const char *path = folder_with("config", "tokenizer_config.json", cases[i][0]);
    if (cases[i][1] == NULL)
      kf_tokenizer_free(load(path));
    else
      assert_not_loaded(path, KF_ERR_DATA, cases[i][1]);
  }
}

static const char *openai(const char *name, const char *file, const void *bytes, size_t n) {
  char path[128];
  mkdir(at(name), 0777);
  snprintf(path, sizeof path, "%s/%s", name, file);
  write_bytes(path, bytes, n);
  return at(name);
}

TEST(bad_openai) {
  static const char *const cases[][2] = {
      {"t h\n", "has no '#version'"},
      {"#version\nt h\nth\n", "merge 2 is not two tokens"},
      {"#version\nt h\nth e x\n", "merge 2 is not two tokens"},
      {"#version\nt h\nt h\n", "merge 2 makes 'th', which exists already"},
      {"#version\nt hh\n", "merge 1 needs 'hh'"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_not_loaded(
        openai("openai", "bpe_simple_vocab_16e6.txt", cases[i][0], strlen(cases[i][0])),
        KF_ERR_DATA, cases[i][1]);
}

/* A compressed file at every wrong length, with every byte changed, and one that unpacks to more
 * than any vocabulary. */
TEST(bad_packed) {
  if (!has_zlib()) skip();
  static const char name[] = "bpe_simple_vocab_16e6.txt.gz";
  size_t size;
  char *bytes = test_read(GOLDEN "/packed/bpe_simple_vocab_16e6.txt.gz", &size);
  for (size_t n = 1; n < size; n += n < 20 || n + 20 > size ? 1 : 13)
    assert_not_loaded(openai("short", name, bytes, n), KF_ERR_DATA,
                      n < 2 ? "bpe_simple" : "is cut short");
  bytes[size - 6] ^= 1; /* the checksum */
  assert_not_loaded(openai("damaged", name, bytes, size), KF_ERR_DATA, "is not a sound .gz file");
  assert_not_loaded(openai("plain", name, "#version\nt h\n", 13), KF_ERR_DATA,
                    "is not a sound .gz file");
  free(bytes);
  mkdir(at("bomb"), 0777);
  char command[512];
  snprintf(command, sizeof command, "head -c 68000000 /dev/zero | gzip >'%s/%s'", at("bomb"), name);
  assert_int_equal(system(command), 0);
  assert_not_loaded(at("bomb"), KF_ERR_DATA, "unpacks to more than 16777216 bytes");
}

FIXTURES(.before = read_expected, .after = forget_expected);
