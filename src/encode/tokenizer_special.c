/* tokenizer_special.c - finds the tokens that begin, end and pad a text, and those that are found
 * inside it.
 *
 * For historical reasons up to four files of a model folder describe them. They are combined as in
 * the reference:
 *
 *   - Listed tokens come from `added_tokens_decoder` of tokenizer_config.json or, if it is absent,
 *     from added_tokens.json and `added_tokens` of tokenizer.json.
 *   - Named tokens (bos, eos, unk, sep, pad, cls, mask) come from special_tokens_map.json, if there
 *     is no `added_tokens_decoder`, then from tokenizer_config.json, then from CLIP:
 *     <|startoftext|>, and <|endoftext|> for eos, unk and pad. The list decides about a named token
 *     that is listed. Otherwise it is `normalized` only if the file says so; if several names have
 *     the same token, the last one decides.
 *   - Then come `extra_special_tokens` (formerly `additional_special_tokens`), and names of the
 *     file's own that end in _token.
 *
 * A token that is not in the vocabulary gets the next number. All of them are found in texts: if
 * the padding token is '!', every '!' becomes that token, although the vocabulary has another one
 * for '!' as a word.
 *
 * Added tokens may not hold white space here. Then lstrip and rstrip, which let a token swallow
 * white space around it, change nothing, since white space makes no tokens. */
#include "encode/tokenizer_internal.h"
#include "encode/unicode.h"

#include <stdlib.h>
#include <string.h>

enum { BOS, EOS, UNK, SEP, PAD, CLS, MASK, NAMED };

static const char *const keys[NAMED] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"};
static const char *const defaults[NAMED] = {[BOS] = "<|startoftext|>",
                                            [EOS] = "<|endoftext|>",
                                            [UNK] = "<|endoftext|>",
                                            [PAD] = "<|endoftext|>"};

/* A token to be added; its text is in one of the documents. */
typedef struct wanted {
  const char *text;
  bool normalized;
  bool listed; /* with a number */
  int64_t id;
} wanted;

typedef struct gatherer {
  kf_tokenizer *t;
  const kf_vocabulary *vocabulary;
  const char *folder;
  const kf_json_file *json; /* tokenizer.json */
  kf_json_file config, map, legacy;
  wanted list[KF_ADDED_MAX];
  uint32_t n, next;    /* tokens; the number of the next new one */
  wanted named[NAMED]; /* text NULL: removed by the files */
  kf_err *err;
} gatherer;

static bool is_true(const kf_json *node) {
  return node != NULL && node->kind == KF_JSON_BOOL && node->text[0] == 't';
}

static bool is_absent(const kf_json *node) { return node == NULL || node->kind == KF_JSON_NULL; }

static kf_status bad(const gatherer *g, const char *what, const char *detail) {
  return kf_fail_file(g->err, g->folder, "%s '%.100s'", what, detail);
}

/* --- gathering -------------------------------------------------------------------------------- */

static wanted *find(gatherer *g, const char *text) {
  for (uint32_t i = 0; i < g->n; i++)
    if (strcmp(g->list[i].text, text) == 0) return &g->list[i];
  return NULL;
}

static kf_status want(gatherer *g, wanted token) {
  if (g->n == KF_ADDED_MAX)
    return kf_fail_file(g->err, g->folder, "the tokenizer has more than %u added tokens",
                        KF_ADDED_MAX);
  g->list[g->n++] = token;
  return KF_OK;
}

/* "text", or {"content": "text", "normalized": …}. */
static kf_status parse_token(const gatherer *g, const kf_json_doc *doc, const kf_json *node,
                             const char *key, wanted *out) {
  bool object = node->kind == KF_JSON_OBJECT;
  const char *text = kf_json_string(object ? kf_json_get(doc, node, "content") : node);
  if (text == NULL || text[0] == '\0') return bad(g, "the tokenizer's files have no text for", key);
  if (object && is_true(kf_json_get(doc, node, "single_word")))
    return bad(g, "an added token with single_word, which is not supported:", text);
  const kf_json *normalized = object ? kf_json_get(doc, node, "normalized") : NULL;
  /* The default: special tokens are not normalised, others are. */
  bool otherwise = object && kf_json_get(doc, node, "special") != NULL &&
                   !is_true(kf_json_get(doc, node, "special"));
  *out = (wanted){.text = text, .normalized = normalized != NULL ? is_true(normalized) : otherwise};
  return KF_OK;
}

static kf_status list_token(gatherer *g, const kf_json_doc *doc, const kf_json *node, int64_t id) {
  wanted token;
  KF_TRY(parse_token(g, doc, node, "added_tokens", &token));
  token.listed = true;
  token.id = id;
  for (uint32_t i = 0; i < g->n; i++)
    if (g->list[i].id == id) { /* tokenizer.json overrides added_tokens.json */
      g->list[i] = token;
      return KF_OK;
    }
  if (find(g, token.text) != NULL) return bad(g, "an added token appears twice:", token.text);
  return want(g, token);
}

/* {"49406": {…}, …} */
static kf_status list_decoder(gatherer *g, const kf_json *decoder) {
  const kf_json_doc *doc = &g->config.doc;
  for (const kf_json *node = kf_json_first(doc, decoder); node != NULL;
       node = kf_json_next(doc, node)) {
    char *end;
    long long id = strtoll(node->key, &end, 10);
    if (node->key[0] < '0' || node->key[0] > '9' || *end != '\0' || id >= KF_TOKENS_MAX)
      return bad(g, "added_tokens_decoder has the number", node->key);
    KF_TRY(list_token(g, doc, node, id));
  }
  return KF_OK;
}

/* {"text": 49408, …}; all but the named tokens are normalised. */
static kf_status list_legacy(gatherer *g) {
  const kf_json_doc *doc = &g->legacy.doc;
  for (const kf_json *node = kf_json_first(doc, doc->nodes); node != NULL;
       node = kf_json_next(doc, node)) {
    int64_t id;
    if (!kf_json_i64(node, &id) || node->key[0] == '\0' || id < 0 || id >= KF_TOKENS_MAX)
      return bad(g, "added_tokens.json has no number for", node->key);
    bool special = false;
    for (int k = 0; k < NAMED; k++)
      special |= g->named[k].text != NULL && strcmp(g->named[k].text, node->key) == 0;
    KF_TRY(want(g, (wanted){.text = node->key, .normalized = !special, .listed = true, .id = id}));
  }
  return KF_OK;
}

static kf_status list_json(gatherer *g) {
  const kf_json *tokens = kf_json_file_get(g->json, "added_tokens");
  if (tokens == NULL) return KF_OK;
  if (tokens->kind != KF_JSON_LIST) return bad(g, "tokenizer.json has no list", "added_tokens");
  const kf_json_doc *doc = &g->json->doc;
  for (const kf_json *node = kf_json_first(doc, tokens); node != NULL;
       node = kf_json_next(doc, node)) {
    int64_t id;
    if (!kf_json_i64(kf_json_get(doc, node, "id"), &id) || id < 0 || id >= KF_TOKENS_MAX)
      return bad(g, "tokenizer.json has no 'id' for an entry of", "added_tokens");
    KF_TRY(list_token(g, doc, node, id));
  }
  return KF_OK;
}

static int by_id(const void *a, const void *b) {
  int64_t x = ((const wanted *)a)->id, y = ((const wanted *)b)->id;
  return (x > y) - (x < y);
}

static kf_status find_names(gatherer *g, bool decoder) {
  for (int k = 0; k < NAMED; k++) {
    const kf_json_file *file = &g->map;
    const kf_json *node = decoder ? NULL : kf_json_file_get(file, keys[k]);
    if (node == NULL) node = kf_json_file_get(file = &g->config, keys[k]);
    g->named[k] = (wanted){.text = node == NULL ? defaults[k] : NULL};
    if (!is_absent(node)) KF_TRY(parse_token(g, &file->doc, node, keys[k], &g->named[k]));
  }
  for (int k = BOS; k <= UNK; k++)
    if (g->named[k].text == NULL) return bad(g, "the tokenizer's files remove", keys[k]);
  return KF_OK;
}

static kf_status add_names(gatherer *g) {
  for (int k = 0; k < NAMED; k++) {
    if (g->named[k].text == NULL) continue;
    wanted *before = find(g, g->named[k].text);
    if (before == NULL)
      KF_TRY(want(g, g->named[k]));
    else if (!before->listed)
      before->normalized = g->named[k].normalized;
  }
  return KF_OK;
}

static kf_status add_new(gatherer *g, const kf_json_doc *doc, const kf_json *node,
                         const char *key) {
  wanted token;
  KF_TRY(parse_token(g, doc, node, key, &token));
  return find(g, token.text) != NULL ? KF_OK : want(g, token);
}

static kf_status add_extra(gatherer *g, const kf_json_file *file, const char *key) {
  const kf_json_doc *doc = &file->doc;
  const kf_json *extra = kf_json_file_get(file, key);
  if (is_absent(extra)) return KF_OK;
  if (extra->kind != KF_JSON_LIST && extra->count > 0)
    return bad(g, "the tokenizer's files have no list", key);
  for (const kf_json *node = kf_json_first(doc, extra); node != NULL;
       node = kf_json_next(doc, node))
    KF_TRY(add_new(g, doc, node, key));
  return KF_OK;
}

/* Further names in tokenizer_config.json: "image_token": "<image>". */
static kf_status add_own_names(gatherer *g) {
  const kf_json_doc *doc = &g->config.doc;
  for (const kf_json *node = kf_json_first(doc, doc->nodes); node != NULL;
       node = kf_json_next(doc, node)) {
    bool known = !kf_ends_with(node->key, "_token") || kf_json_string(node) == NULL;
    for (int k = 0; k < NAMED && !known; k++) known = strcmp(node->key, keys[k]) == 0;
    if (!known) KF_TRY(add_new(g, doc, node, node->key));
  }
  return KF_OK;
}

static kf_status gather(gatherer *g) {
  const kf_json *decoder = kf_json_file_get(&g->config, "added_tokens_decoder");
  bool has_decoder = decoder != NULL;
  KF_TRY(find_names(g, has_decoder));
  if (has_decoder) {
    if (decoder->kind != KF_JSON_OBJECT)
      return bad(g, "tokenizer_config.json has no object", "added_tokens_decoder");
    KF_TRY(list_decoder(g, decoder));
  } else {
    KF_TRY(list_legacy(g));
    KF_TRY(list_json(g));
  }
  qsort(g->list, g->n, sizeof *g->list, by_id);
  KF_TRY(add_names(g));
  KF_TRY(add_own_names(g));
  const kf_json *extra = kf_json_file_get(&g->config, "extra_special_tokens");
  bool once = is_absent(extra) || extra->count == 0;
  KF_TRY(add_extra(g, &g->config, once ? "additional_special_tokens" : "extra_special_tokens"));
  return has_decoder ? KF_OK : add_extra(g, &g->map, "extra_special_tokens");
}

/* --- settling --------------------------------------------------------------------------------- */

static kf_status check_text(const gatherer *g, const char *text) {
  size_t n = strlen(text);
  for (size_t at = 0; at < n;)
    if (kf_unicode_kind_of(kf_utf8_next(text, &at)) == KF_UNICODE_SPACE)
      return bad(g, "an added token with white space, which is not supported:", text);
  return KF_OK;
}

static kf_status normalize(const gatherer *g, kf_added *a) {
  if (KF_TAKE(&g->t->memory, a->codes, 2 * a->length) == NULL) return kf_fail_memory(g->err);
  KF_TRY(kf_unicode_fold(a->text, a->length, a->codes, &a->n_codes, g->err));
  for (const kf_added *b = g->t->added; b < a; b++)
    if (b->n_codes == a->n_codes && b->codes != NULL &&
        memcmp(b->codes, a->codes, a->n_codes * sizeof *a->codes) == 0)
      return bad(g, "two added tokens are the same once normalized; one is", a->text);
  g->t->n_normalized++;
  return KF_OK;
}

static kf_status settle(gatherer *g, const wanted *token) {
  KF_TRY(check_text(g, token->text));
  int64_t id = kf_dict_find(g->vocabulary->map, token->text, strlen(token->text));
  if (id < 0) id = g->next++;
  if (token->listed && token->id != id)
    return kf_fail_file(g->err, g->folder,
                        "added token '%.100s' has the number %lld, but should have %lld",
                        token->text, (long long)token->id, (long long)id);
  kf_tokenizer *t = g->t;
  kf_added *a = &t->added[t->n_added++];
  size_t length = strlen(token->text);
  char *text = kf_arena_take(&t->memory, length + 1, 1);
  if (text == NULL) return kf_fail_memory(g->err);
  *a = (kf_added){
      .text = memcpy(text, token->text, length + 1), .length = length, .id = (int32_t)id};
  if ((uint32_t)id >= t->size) t->size = (uint32_t)id + 1;
  return token->normalized ? normalize(g, a) : KF_OK;
}

static int32_t id_of(const gatherer *g, const char *text) {
  for (uint32_t i = 0; i < g->t->n_added; i++)
    if (strcmp(g->t->added[i].text, text) == 0) return g->t->added[i].id;
  return -1; /* cannot happen: every name has been added */
}

static kf_status settle_all(gatherer *g) {
  for (int k = BOS; k <= UNK; k++)
    if (kf_dict_find(g->vocabulary->map, g->named[k].text, strlen(g->named[k].text)) < 0)
      return kf_fail_file(g->err, g->vocabulary->path, "has no token '%.100s', which is the %s",
                          g->named[k].text, keys[k]);
  g->next = g->vocabulary->count;
  if (KF_TAKE_ZERO(&g->t->memory, g->t->added, g->n) == NULL) return kf_fail_memory(g->err);
  for (uint32_t i = 0; i < g->n; i++) KF_TRY(settle(g, &g->list[i]));
  g->t->start = id_of(g, g->named[BOS].text);
  g->t->end = id_of(g, g->named[EOS].text);
  g->t->unknown = id_of(g, g->named[UNK].text);
  g->t->pad = g->named[PAD].text != NULL ? id_of(g, g->named[PAD].text) : g->t->end;
  return KF_OK;
}

/* Refuses settings that would make the reference behave differently. */
static kf_status check_config(const gatherer *g) {
  const char *class = kf_json_string(kf_json_file_get(&g->config, "tokenizer_class"));
  if (class != NULL && strcmp(class, "CLIPTokenizer") != 0 &&
      strcmp(class, "CLIPTokenizerFast") != 0)
    return bad(g, "tokenizer_config.json wants the tokenizer", class);
  if (is_true(kf_json_file_get(&g->config, "split_special_tokens")))
    return bad(
        g, "tokenizer_config.json has a setting that is not supported:", "split_special_tokens");
  static const char *const sides[] = {"padding_side", "truncation_side"};
  for (int i = 0; i < 2; i++) {
    const char *side = kf_json_string(kf_json_file_get(&g->config, sides[i]));
    if (side != NULL && strcmp(side, "right") != 0)
      return bad(g, "tokenizer_config.json has a side other than 'right' for", sides[i]);
  }
  return KF_OK;
}

static kf_status specials(gatherer *g) {
  const uint64_t most = KF_TOKENIZER_FILE_MAX;
  KF_TRY(kf_json_file_read(&g->config, g->folder, "tokenizer_config.json", most, g->err));
  KF_TRY(kf_json_file_read(&g->map, g->folder, "special_tokens_map.json", most, g->err));
  KF_TRY(kf_json_file_read(&g->legacy, g->folder, "added_tokens.json", most, g->err));
  KF_TRY(check_config(g));
  KF_TRY(gather(g));
  return settle_all(g);
}

kf_status kf_tokenizer_specials(kf_tokenizer *t, const kf_vocabulary *vocabulary,
                                const char *folder, const kf_json_file *json, kf_err *err) {
  gatherer g = {.t = t, .vocabulary = vocabulary, .folder = folder, .json = json, .err = err};
  kf_status status = specials(&g);
  kf_json_file_clear(&g.config);
  kf_json_file_clear(&g.map);
  kf_json_file_clear(&g.legacy);
  return status;
}
