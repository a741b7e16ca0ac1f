/* tokenizer_load.c - reads vocabulary and merges from the files of a model folder.
 *
 * There are three equivalent forms: tokenizer.json has everything in one file; vocab.json has the
 * tokens with their numbers, and merges.txt the merges in their order;
 * bpe_simple_vocab_16e6.txt.gz, as OpenAI published it, has only merges. Its tokens are the 256
 * bytes, the same at the end of a word, the result of each merge, and the two special ones.
 *
 * A vocabulary writes a byte as a printable character: itself if it is printable in Latin-1,
 * otherwise U+0100, U+0101, … in order.
 *
 * The reference takes vocabulary, merges and added tokens from tokenizer.json, and ignores its
 * other settings in favour of CLIP's. A file whose settings differ from CLIP's is refused. */
#include "encode/tokenizer_internal.h"
#include "encode/unicode.h"

#include <string.h>
#ifdef KF_WITH_ZLIB
#include <zlib.h>
#endif

#define WORD_END     "</w>"
#define OPENAI_GZ    "bpe_simple_vocab_16e6.txt.gz"
#define OPENAI_TEXT  "bpe_simple_vocab_16e6.txt"
#define OPENAI_MAX   48894u /* merges that are used, of the 262,144 in the file */
#define SYMBOL_BYTES 8      /* a byte as a character, with the mark of the word's end */

typedef struct loader {
  const char *folder;
  kf_tokenizer *t;
  kf_vocabulary vocabulary;
  kf_arena memory;
  const char *path;        /* of the vocabulary */
  const char *merges_path; /* of the merges */
  char *file, *text;       /* a file that is not JSON, and its text once unpacked */
  uint64_t length;         /* of the text */
  kf_json_file json;
  size_t longest;  /* token of the vocabulary */
  char *workspace; /* room for two tokens together */
  uint32_t n_merges, room;
  uint16_t character[256]; /* how the vocabulary writes a byte */
  kf_err *err;
} loader;

/* --- files ------------------------------------------------------------------------------------ */

static kf_status read_text(loader *l, const char *path) {
  KF_TRY(kf_read_file(path, KF_TOKENIZER_FILE_MAX, &l->file, &l->length, l->err));
  l->text = l->file;
  return KF_OK;
}

#ifdef KF_WITH_ZLIB
static kf_status unpack(loader *l) {
  char *out = kf_arena_take(&l->memory, KF_TOKENIZER_FILE_MAX + 1, 1);
  if (out == NULL) return kf_fail_memory(l->err);
  z_stream z = {.next_in = (unsigned char *)l->text,
                .avail_in = (unsigned)l->length,
                .next_out = (unsigned char *)out,
                .avail_out = (unsigned)KF_TOKENIZER_FILE_MAX};
  if (inflateInit2(&z, 16 + MAX_WBITS) != Z_OK) return kf_fail_memory(l->err);
  int code = inflate(&z, Z_FINISH);
  const char *detail = z.msg; /* of the library, which keeps it */
  inflateEnd(&z);
  l->text = out;
  l->length = KF_TOKENIZER_FILE_MAX - z.avail_out;
  out[l->length] = '\0';
  if (code == Z_STREAM_END) return KF_OK;
  if (code == Z_MEM_ERROR) return kf_fail_memory(l->err);
  if (code != Z_OK && code != Z_BUF_ERROR)
    return kf_fail_file(l->err, l->path, "is not a sound .gz file%s%s", detail != NULL ? ": " : "",
                        detail != NULL ? detail : "");
  if (z.avail_out > 0) return kf_fail_file(l->err, l->path, "is cut short");
  return kf_fail_file(l->err, l->path, "unpacks to more than %llu bytes",
                      (unsigned long long)KF_TOKENIZER_FILE_MAX);
}
#else
static kf_status unpack(loader *l) {
  return kf_fail_file(l->err, l->path, "koofu was built without zlib; unpack the file first");
}
#endif

/* --- tokens ----------------------------------------------------------------------------------- */

static kf_status add_token(loader *l, const char *token, size_t length, int64_t id) {
  kf_vocabulary *v = &l->vocabulary;
  if (length == 0) return kf_fail_file(l->err, l->path, "has an empty token");
  if (id < 0 || id >= KF_TOKENS_MAX)
    return kf_fail_file(l->err, l->path, "token '%.100s' has the number %lld; 0 to %u are possible",
                        token, (long long)id, KF_TOKENS_MAX - 1);
  if (!kf_dict_add(v->map, token, length, (uint32_t)id)) return kf_fail_memory(l->err);
  v->count++;
  if (length > l->longest) l->longest = length;
  if ((uint32_t)id >= l->t->size) l->t->size = (uint32_t)id + 1;
  return KF_OK;
}

/* No two tokens may have the same number. */
static kf_status check_numbers(loader *l, const kf_json *vocabulary) {
  uint8_t *seen;
  if (KF_TAKE_ZERO(&l->memory, seen, l->t->size) == NULL) return kf_fail_memory(l->err);
  const kf_json *token = kf_json_first(&l->json.doc, vocabulary);
  for (; token != NULL; token = kf_json_next(&l->json.doc, token)) {
    int64_t id = 0;
    kf_json_i64(token, &id);
    if (seen[id]++ > 0)
      return kf_fail_file(l->err, l->path, "two tokens have the number %lld; one is '%.100s'",
                          (long long)id, token->key);
  }
  return KF_OK;
}

/* {"token": number, …}; the parser has refused tokens that appear twice. */
static kf_status read_vocabulary(loader *l, const kf_json *vocabulary) {
  if (vocabulary == NULL || vocabulary->kind != KF_JSON_OBJECT || vocabulary->count == 0)
    return kf_fail_file(l->err, l->path, "has no vocabulary");
  l->vocabulary.map = kf_dict_new(vocabulary->count);
  if (l->vocabulary.map == NULL) return kf_fail_memory(l->err);
  const kf_json *token = kf_json_first(&l->json.doc, vocabulary);
  for (; token != NULL; token = kf_json_next(&l->json.doc, token)) {
    int64_t id;
    if (!kf_json_i64(token, &id))
      return kf_fail_file(l->err, l->path, "token '%.100s' has no whole number", token->key);
    KF_TRY(add_token(l, token->key, strlen(token->key), id));
  }
  if (KF_TAKE(&l->memory, l->workspace, 2 * l->longest) == NULL) return kf_fail_memory(l->err);
  return check_numbers(l, vocabulary);
}

static bool printable(unsigned byte) {
  return (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
}

static void fill_characters(loader *l) {
  uint16_t next = 0x100;
  for (unsigned b = 0; b < 256; b++) l->character[b] = printable(b) ? (uint16_t)b : next++;
}

static size_t byte_symbol(const loader *l, unsigned byte, bool last, char symbol[SYMBOL_BYTES]) {
  size_t n = kf_utf8_put(l->character[byte], (unsigned char *)symbol);
  if (last) memcpy(symbol + n, WORD_END, sizeof WORD_END - 1);
  return last ? n + sizeof WORD_END - 1 : n;
}

/* Bytes that a small vocabulary lacks become the unknown token. */
static void find_bytes(loader *l) {
  for (int last = 0; last < 2; last++)
    for (unsigned byte = 0; byte < 256; byte++) {
      char symbol[SYMBOL_BYTES];
      size_t n = byte_symbol(l, byte, last, symbol);
      int64_t id = kf_dict_find(l->vocabulary.map, symbol, n);
      l->t->byte[last][byte] = id >= 0 ? (int32_t)id : l->t->unknown;
    }
}

/* --- merges ----------------------------------------------------------------------------------- */

static kf_status merge_room(loader *l, uint64_t most) {
  uint64_t slots = 16;
  while (slots < 2 * most) slots *= 2;
  if (most > KF_TOKENS_MAX)
    return kf_fail_file(l->err, l->merges_path, "has more than %u merges", KF_TOKENS_MAX);
  KF_TAKE(&l->t->memory, l->t->merged, most);
  if (KF_TAKE(&l->t->memory, l->t->slots, slots) == NULL) return kf_fail_memory(l->err);
  for (uint64_t i = 0; i < slots; i++) l->t->slots[i] = (kf_merge_slot){.merge = KF_NO_MERGE};
  l->t->mask = (uint32_t)(slots - 1);
  l->room = (uint32_t)most;
  return KF_OK;
}

static kf_status not_a_token(const loader *l, const char *token, size_t length) {
  return kf_fail_file(l->err, l->merges_path,
                      "merge %u needs '%.*s', which is not in the vocabulary", l->n_merges + 1,
                      (int)(length < 100 ? length : 100), token);
}

/* Adds the next merge. Of a pair that is listed twice the later merge counts, as in the
 * reference. */
static kf_status add_merge(loader *l, const char *a, size_t n_a, const char *b, size_t n_b) {
  const kf_dict *map = l->vocabulary.map;
  int64_t left = kf_dict_find(map, a, n_a), right = kf_dict_find(map, b, n_b);
  if (left < 0) return not_a_token(l, a, n_a);
  if (right < 0) return not_a_token(l, b, n_b);
  memcpy(l->workspace, a, n_a);
  memcpy(l->workspace + n_a, b, n_b);
  int64_t both = kf_dict_find(map, l->workspace, n_a + n_b);
  if (both < 0) return not_a_token(l, l->workspace, n_a + n_b);
  uint32_t merge = l->n_merges++;
  l->t->merged[merge] = (uint32_t)both;
  kf_merge_slot *slot = kf_merge_find(l->t, (uint32_t)left, (uint32_t)right);
  *slot = (kf_merge_slot){.left = (uint32_t)left, .right = (uint32_t)right, .merge = merge};
  return KF_OK;
}

static kf_status bad_merge(const loader *l) {
  return kf_fail_file(l->err, l->merges_path, "merge %u is not two tokens with a space between",
                      l->n_merges + 1);
}

/* "a b" */
static kf_status add_merge_line(loader *l, const char *line, size_t length) {
  const char *space = memchr(line, ' ', length);
  if (space == NULL || space == line || space + 1 == line + length) return bad_merge(l);
  size_t n_a = (size_t)(space - line), n_b = length - n_a - 1;
  if (memchr(space + 1, ' ', n_b) != NULL) return bad_merge(l);
  return add_merge(l, line, n_a, space + 1, n_b);
}

static kf_status read_json_merges(loader *l, const kf_json *merges) {
  if (merges == NULL || merges->kind != KF_JSON_LIST)
    return kf_fail_file(l->err, l->path, "has no list of merges");
  KF_TRY(merge_room(l, merges->count));
  const kf_json *merge = kf_json_first(&l->json.doc, merges);
  for (; merge != NULL; merge = kf_json_next(&l->json.doc, merge)) {
    const char *line = kf_json_string(merge);
    if (line != NULL) {
      KF_TRY(add_merge_line(l, line, strlen(line)));
      continue;
    }
    const kf_json *first = merge->kind == KF_JSON_LIST && merge->count == 2
                               ? kf_json_first(&l->json.doc, merge)
                               : NULL;
    const char *a = kf_json_string(first);
    const char *b = first != NULL ? kf_json_string(kf_json_next(&l->json.doc, first)) : NULL;
    if (a == NULL || b == NULL) return bad_merge(l);
    KF_TRY(add_merge(l, a, strlen(a), b, strlen(b)));
  }
  return KF_OK;
}

/* The next line of l->text at *at, without its end; false: there is none. */
static bool next_line(const loader *l, size_t *at, const char **line, size_t *length) {
  if (*at >= l->length) return false;
  *line = l->text + *at;
  const char *end = memchr(*line, '\n', l->length - *at);
  size_t n = end != NULL ? (size_t)(end - *line) : l->length - *at;
  *at += n + (end != NULL);
  *length = n > 0 && (*line)[n - 1] == '\r' ? n - 1 : n;
  return true;
}

static uint64_t count_lines(const loader *l) {
  uint64_t n = 1;
  for (size_t i = 0; i < l->length; i++) n += l->text[i] == '\n';
  return n;
}

static kf_status read_merges_txt(loader *l) {
  KF_TRY(merge_room(l, count_lines(l)));
  const char *line;
  size_t length;
  for (size_t at = 0; next_line(l, &at, &line, &length);) {
    if (length >= 8 && memcmp(line, "#version", 8) == 0) continue;
    KF_TRY(add_merge_line(l, line, length));
  }
  return KF_OK;
}

/* --- tokenizer.json --------------------------------------------------------------------------- */

static kf_status not_clip(const loader *l, const char *what) {
  return kf_fail_file(l->err, l->path, "is not a tokenizer of CLIP's kind: %s", what);
}

static bool says(const kf_json_doc *doc, const kf_json *object, const char *key, const char *text) {
  const char *value = kf_json_string(kf_json_get(doc, object, key));
  return value != NULL && strcmp(value, text) == 0;
}

/* Absent, null, false or "". */
static bool is_off(const kf_json_doc *doc, const kf_json *object, const char *key) {
  const kf_json *value = kf_json_get(doc, object, key);
  if (value == NULL || value->kind == KF_JSON_NULL) return true;
  if (value->kind == KF_JSON_BOOL) return value->text[0] == 'f';
  return value->kind == KF_JSON_STRING && value->text[0] == '\0';
}

static kf_status check_model(const loader *l, const kf_json *model) {
  const kf_json_doc *doc = &l->json.doc;
  if (model == NULL || model->kind != KF_JSON_OBJECT) return not_clip(l, "it has no model");
  if (kf_json_get(doc, model, "type") != NULL && !says(doc, model, "type", "BPE"))
    return not_clip(l, "its model is not BPE");
  if (!says(doc, model, "end_of_word_suffix", WORD_END))
    return not_clip(l, "its end_of_word_suffix is not '</w>'");
  static const char *const off[] = {"dropout", "continuing_subword_prefix", "fuse_unk",
                                    "byte_fallback", "ignore_merges"};
  for (size_t i = 0; i < sizeof off / sizeof *off; i++)
    if (!is_off(doc, model, off[i])) {
      char what[64];
      snprintf(what, sizeof what, "it has %s", off[i]);
      return not_clip(l, what);
    }
  return KF_OK;
}

/* The pattern of Split and Replace: {"Regex": "…"}. */
static bool has_regex(const kf_json_doc *doc, const kf_json *step, const char *regex) {
  return says(doc, kf_json_get(doc, step, "pattern"), "Regex", regex);
}

/* The first item of a list of n under a key; NULL: there is no such list. */
static const kf_json *first_of(const kf_json_doc *doc, const kf_json *object, const char *key,
                               uint32_t n) {
  const kf_json *list = kf_json_get(doc, object, key);
  bool right = list != NULL && list->kind == KF_JSON_LIST && list->count == n;
  return right ? kf_json_first(doc, list) : NULL;
}

static kf_status check_normalizer(const loader *l, const kf_json *normalizer) {
  const kf_json_doc *doc = &l->json.doc;
  const kf_json *nfc = first_of(doc, normalizer, "normalizers", 3);
  const kf_json *replace = nfc != NULL ? kf_json_next(doc, nfc) : NULL;
  const kf_json *lower = nfc != NULL ? kf_json_next(doc, replace) : NULL;
  bool right = says(doc, normalizer, "type", "Sequence") && says(doc, nfc, "type", "NFC") &&
               says(doc, replace, "type", "Replace") && has_regex(doc, replace, "\\s+") &&
               says(doc, replace, "content", " ") && says(doc, lower, "type", "Lowercase");
  return right ? KF_OK : not_clip(l, "its normalizer is not NFC, '\\s+' to ' ', Lowercase");
}

/* New files have the whole expression, older ones lack the special tokens. The reference uses the
 * whole one for both. */
static bool is_clip_regex(const kf_json_doc *doc, const kf_json *split) {
  static const char whole[] = "<\\|startoftext\\|>|<\\|endoftext\\|>|"
                              "'s|'t|'re|'ve|'m|'ll|'d|[\\p{L}]+|[\\p{N}]|[^\\s\\p{L}\\p{N}]+";
  static const size_t specials = sizeof "<\\|startoftext\\|>|<\\|endoftext\\|>|" - 1;
  return has_regex(doc, split, whole) || has_regex(doc, split, whole + specials);
}

static kf_status check_pre_tokenizer(const loader *l, const kf_json *pre) {
  const kf_json_doc *doc = &l->json.doc;
  const kf_json *split = first_of(doc, pre, "pretokenizers", 2);
  const kf_json *bytes = split != NULL ? kf_json_next(doc, split) : NULL;
  bool right = says(doc, pre, "type", "Sequence") && says(doc, split, "type", "Split") &&
               says(doc, split, "behavior", "Removed") && !is_off(doc, split, "invert") &&
               says(doc, bytes, "type", "ByteLevel") && is_off(doc, bytes, "add_prefix_space");
  if (!right) return not_clip(l, "its pre_tokenizer is not Split and ByteLevel");
  return is_clip_regex(doc, split)
             ? KF_OK
             : not_clip(l, "its pre_tokenizer has another regular expression");
}

static kf_status check_post_processor(const loader *l, const kf_json *post) {
  if (post == NULL || post->kind == KF_JSON_NULL) return KF_OK;
  bool right = says(&l->json.doc, post, "type", "RobertaProcessing") ||
               says(&l->json.doc, post, "type", "TemplateProcessing");
  return right ? KF_OK : not_clip(l, "its post_processor is neither Roberta's nor a template");
}

/* If the file says which tokens begin and end a text, they must be the usual ones. */
static kf_status check_ends(const loader *l) {
  const kf_json *post = kf_json_get(&l->json.doc, l->json.doc.nodes, "post_processor");
  if (!says(&l->json.doc, post, "type", "RobertaProcessing")) return KF_OK;
  const char *const keys[2] = {"cls", "sep"};
  const int32_t expected[2] = {l->t->start, l->t->end};
  for (int i = 0; i < 2; i++) {
    const kf_json *pair = kf_json_get(&l->json.doc, post, keys[i]);
    const kf_json *name =
        pair != NULL && pair->kind == KF_JSON_LIST ? kf_json_first(&l->json.doc, pair) : NULL;
    int64_t id;
    if (name == NULL || !kf_json_i64(kf_json_next(&l->json.doc, name), &id) || id != expected[i])
      return kf_fail_file(l->err, l->path, "the post_processor's '%s' is not token %d", keys[i],
                          (int)expected[i]);
  }
  return KF_OK;
}

static kf_status load_json(loader *l) {
  const kf_json *whole = l->json.doc.nodes, *model = kf_json_file_get(&l->json, "model");
  KF_TRY(check_model(l, model));
  KF_TRY(check_normalizer(l, kf_json_get(&l->json.doc, whole, "normalizer")));
  KF_TRY(check_pre_tokenizer(l, kf_json_get(&l->json.doc, whole, "pre_tokenizer")));
  KF_TRY(check_post_processor(l, kf_json_get(&l->json.doc, whole, "post_processor")));
  KF_TRY(read_vocabulary(l, kf_json_get(&l->json.doc, model, "vocab")));
  KF_TRY(read_json_merges(l, kf_json_get(&l->json.doc, model, "merges")));
  KF_TRY(kf_tokenizer_specials(l->t, &l->vocabulary, l->folder, &l->json, l->err));
  return check_ends(l);
}

/* --- vocab.json and merges.txt ---------------------------------------------------------------- */

static kf_status load_two(loader *l) {
  l->merges_path = kf_path_join_in(&l->memory, l->folder, "merges.txt");
  if (l->merges_path == NULL) return kf_fail_memory(l->err);
  KF_TRY(read_vocabulary(l, l->json.doc.nodes));
  KF_TRY(read_text(l, l->merges_path));
  KF_TRY(read_merges_txt(l));
  return kf_tokenizer_specials(l->t, &l->vocabulary, l->folder, NULL, l->err);
}

/* --- OpenAI's file ---------------------------------------------------------------------------- */

/* The tokens of bytes in OpenAI's order, printable ones first. */
static kf_status add_bytes(loader *l, char (*symbols)[SYMBOL_BYTES]) {
  uint32_t id = 0;
  for (int last = 0; last < 2; last++)
    for (int first = 1; first >= 0; first--)
      for (unsigned byte = 0; byte < 256; byte++) {
        if (printable(byte) != first) continue;
        size_t n = byte_symbol(l, byte, last, symbols[id]);
        KF_TRY(add_token(l, symbols[id], n, id));
        id++;
      }
  return KF_OK;
}

/* Adds the result of a line's merge to the vocabulary, its text stored at *at, then the merge. */
static kf_status add_openai_line(loader *l, const char *line, size_t length, char **at) {
  const char *space = memchr(line, ' ', length);
  if (space == NULL) return bad_merge(l);
  size_t n_a = (size_t)(space - line), n = length - 1;
  memcpy(*at, line, n_a);
  memcpy(*at + n_a, space + 1, n - n_a);
  (*at)[n] = '\0';
  if (kf_dict_find(l->vocabulary.map, *at, n) >= 0)
    return kf_fail_file(l->err, l->path, "merge %u makes '%.100s', which exists already",
                        l->n_merges + 1, *at);
  KF_TRY(add_token(l, *at, n, l->vocabulary.count));
  *at += n + 1;
  return add_merge_line(l, line, length);
}

/* `tokens`: room for the texts of new tokens. */
static kf_status load_openai_lines(loader *l, char *tokens) {
  const char *line;
  size_t length, at = 0;
  if (!next_line(l, &at, &line, &length) || length < 8 ||
      memmem(line, length, "#version", 8) == NULL)
    return kf_fail_file(l->err, l->path, "has no '#version' in its first line");
  while (l->n_merges < OPENAI_MAX && next_line(l, &at, &line, &length))
    KF_TRY(add_openai_line(l, line, length, &tokens));
  KF_TRY(add_token(l, "<|startoftext|>", 15, l->vocabulary.count));
  KF_TRY(add_token(l, "<|endoftext|>", 13, l->vocabulary.count));
  return kf_tokenizer_specials(l->t, &l->vocabulary, l->folder, NULL, l->err);
}

static kf_status load_openai(loader *l, bool packed) {
  KF_TRY(read_text(l, l->path));
  if (packed) KF_TRY(unpack(l));
  uint64_t lines = count_lines(l);
  KF_TRY(merge_room(l, lines < OPENAI_MAX ? lines : OPENAI_MAX));
  char(*symbols)[SYMBOL_BYTES], *tokens;
  KF_TAKE(&l->memory, l->workspace, l->length + 1); /* a merge is a line */
  KF_TAKE(&l->memory, symbols, 512);
  KF_TAKE(&l->memory, tokens, l->length + 1);
  l->vocabulary.map = kf_dict_new(512 + l->room);
  if (l->memory.failed || l->vocabulary.map == NULL) return kf_fail_memory(l->err);
  KF_TRY(add_bytes(l, symbols));
  return load_openai_lines(l, tokens);
}

static kf_status load(loader *l) {
  static const char *const names[] = {"tokenizer.json", "vocab.json", OPENAI_GZ, OPENAI_TEXT};
  size_t which = 0;
  for (; which < 4; which++) {
    l->path = kf_path_join_in(&l->memory, l->folder, names[which]);
    if (l->path == NULL) return kf_fail_memory(l->err);
    if (!kf_is_missing(l->path)) break;
  }
  if (which == 4)
    return kf_fail_file(l->err, l->folder,
                        "has no tokenizer.json, vocab.json with merges.txt, or " OPENAI_GZ);
  l->vocabulary.path = l->merges_path = l->path;
  if (which < 2)
    KF_TRY(kf_json_file_read(&l->json, l->folder, names[which], KF_TOKENIZER_FILE_MAX, l->err));
  KF_TRY(which == 0 ? load_json(l) : which == 1 ? load_two(l) : load_openai(l, which == 2));
  find_bytes(l);
  return KF_OK;
}

kf_status kf_tokenizer_load(const char *folder, kf_tokenizer **out, kf_err *err) {
  loader l = {.folder = folder, .err = err, .t = kf_alloc_zero(1, sizeof *l.t)};
  if (l.t == NULL) return kf_fail_memory(err);
  fill_characters(&l);
  kf_status status = load(&l);
  kf_dict_free(l.vocabulary.map);
  kf_json_file_clear(&l.json);
  kf_free(l.file);
  kf_arena_free(&l.memory);
  KF_HAND_OUT(status, out, l.t, kf_tokenizer_free);
}
