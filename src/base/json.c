/* json.c - a strict JSON parser (RFC 8259).
 *
 * Nodes are in one array and linked by index. Strings are decoded in place in a copy of the source,
 * since no escape is shorter than what it stands for. */
#include "base/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_CAP 64

typedef struct parser {
  kf_json_doc *doc;
  char *at, *begin, *end; /* the copy of the source; *end is NUL */
  uint32_t most;          /* values */
  const char *what;
  kf_err *err;
} parser;

static kf_status bad(const parser *p, const char *reason) {
  return kf_fail(p->err, KF_ERR_DATA, "%s is not valid JSON at its byte %zu: %s", p->what,
                 (size_t)(p->at - p->begin), reason);
}

static void skip_space(parser *p) {
  while (*p->at == ' ' || *p->at == '\t' || *p->at == '\n' || *p->at == '\r') p->at++;
}

/* --- nodes ------------------------------------------------------------------------------------ */

static kf_status new_node(parser *p, kf_json_kind kind, uint32_t *number) {
  kf_json_doc *doc = p->doc;
  if (doc->n >= p->most)
    return kf_fail(p->err, KF_ERR_DATA, "%s holds more than %u JSON values", p->what, p->most);
  if (!kf_grow((void **)&doc->nodes, &doc->room, doc->n, sizeof *doc->nodes))
    return kf_fail_memory(p->err);
  *number = (uint32_t)doc->n++;
  doc->nodes[*number] = (kf_json){.kind = kind};
  return KF_OK;
}

/* --- strings ---------------------------------------------------------------------------------- */

static int hex4(const char *at) {
  int value = 0;
  for (int i = 0; i < 4; i++) {
    char c = at[i];
    int digit = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

/* \uXXXX at p->at, or two of them if they are a surrogate pair. */
static kf_status unicode_escape(parser *p, char **to) {
  int code = hex4(p->at + 2);
  if (code < 0) return bad(p, "\\u needs four hexadecimal digits");
  p->at += 6;
  unsigned full = (unsigned)code;
  if (code >= 0xd800 && code < 0xdc00) {
    int low = p->at[0] == '\\' && p->at[1] == 'u' ? hex4(p->at + 2) : -1;
    if (low < 0xdc00 || low > 0xdfff) return bad(p, "half of a surrogate pair");
    full = 0x10000u + ((unsigned)(code - 0xd800) << 10) + (unsigned)(low - 0xdc00);
    p->at += 6;
  } else if (code >= 0xdc00 && code < 0xe000) {
    return bad(p, "half of a surrogate pair");
  }
  if (full == 0) return bad(p, "a NUL in a string");
  *to += kf_utf8_put(full, (unsigned char *)*to);
  return KF_OK;
}

static kf_status escape(parser *p, char **to) {
  static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
  if (p->at[1] == 'u') return unicode_escape(p, to);
  const char *found = p->at[1] != '\0' ? strchr(from, p->at[1]) : NULL;
  if (found == NULL) return bad(p, "an unknown escape");
  *(*to)++ = into[found - from];
  p->at += 2;
  return KF_OK;
}

/* Decodes the string whose quotation mark is at p->at; *out stays valid with the document. */
static kf_status parse_string(parser *p, const char **out) {
  if (*p->at != '"') return bad(p, "a string is expected");
  char *to = ++p->at;
  *out = to;
  while (*p->at != '"') {
    if (*p->at == '\\') {
      KF_TRY(escape(p, &to));
    } else if ((unsigned char)*p->at < 0x20) {
      return bad(p, p->at == p->end ? "an unterminated string" : "a control character");
    } else {
      *to++ = *p->at++;
    }
  }
  p->at++; /* the closing mark, which the terminating NUL may overwrite */
  *to = '\0';
  return KF_OK;
}

/* --- numbers and words ------------------------------------------------------------------------ */

static bool digits(parser *p) {
  char *first = p->at;
  while (*p->at >= '0' && *p->at <= '9') p->at++;
  return p->at > first;
}

static kf_status parse_number(parser *p) {
  if (*p->at == '-') p->at++;
  bool zero = *p->at == '0';
  char *first = p->at;
  if (!digits(p) || (zero && p->at > first + 1)) return bad(p, "a number is expected");
  if (*p->at == '.') {
    p->at++;
    if (!digits(p)) return bad(p, "digits are expected after the point");
  }
  if (*p->at == 'e' || *p->at == 'E') {
    p->at++;
    if (*p->at == '+' || *p->at == '-') p->at++;
    if (!digits(p)) return bad(p, "digits are expected in the exponent");
  }
  return KF_OK;
}

static kf_status parse_word(parser *p) {
  static const char *const words[] = {"true", "false", "null"};
  for (int i = 0; i < 3; i++) {
    size_t n = strlen(words[i]);
    if (strncmp(p->at, words[i], n) == 0) {
      p->at += n;
      return KF_OK;
    }
  }
  return bad(p, "a value is expected");
}

/* The text of a number or word stays in place without a NUL: the next character is still needed. */
static kf_status parse_scalar(parser *p, uint32_t *number) {
  char *first = p->at;
  bool word = *p->at >= 'a' && *p->at <= 'z';
  KF_TRY(word ? parse_word(p) : parse_number(p));
  kf_json_kind kind = !word ? KF_JSON_NUMBER : *first == 'n' ? KF_JSON_NULL : KF_JSON_BOOL;
  KF_TRY(new_node(p, kind, number));
  p->doc->nodes[*number].text = first;
  return KF_OK;
}

/* --- lists and objects ------------------------------------------------------------------------ */

static kf_status check_keys(const parser *p, const kf_json *object) {
  kf_dict *seen = kf_dict_new(object->count);
  kf_status status = seen != NULL ? KF_OK : kf_fail_memory(p->err);
  const kf_json *a = kf_json_first(p->doc, object);
  for (; a != NULL && status == KF_OK; a = kf_json_next(p->doc, a)) {
    size_t n = strlen(a->key);
    if (kf_dict_find(seen, a->key, n) >= 0)
      status = kf_fail(p->err, KF_ERR_DATA, "%s has the key '%.64s' twice", p->what, a->key);
    else if (!kf_dict_add(seen, a->key, n, 0))
      status = kf_fail_memory(p->err);
  }
  kf_dict_free(seen);
  return status;
}

static kf_status parse_value(parser *p, int depth, uint32_t *number);

/* One child, with its key if the parent is an object. */
static kf_status parse_child(parser *p, int depth, bool keyed, uint32_t *child) {
  const char *key = NULL;
  skip_space(p);
  if (keyed) {
    KF_TRY(parse_string(p, &key));
    skip_space(p);
    if (*p->at != ':') return bad(p, "':' is expected");
    p->at++;
    skip_space(p);
  }
  KF_TRY(parse_value(p, depth + 1, child));
  p->doc->nodes[*child].key = key;
  skip_space(p);
  return KF_OK;
}

static kf_status parse_container(parser *p, int depth, uint32_t *number) {
  bool keyed = *p->at++ == '{';
  char close = keyed ? '}' : ']';
  if (depth == DEPTH_CAP) return bad(p, "nested too deeply");
  KF_TRY(new_node(p, keyed ? KF_JSON_OBJECT : KF_JSON_LIST, number));
  skip_space(p);
  uint32_t last = 0;
  for (bool more = *p->at != close; more;) {
    uint32_t child;
    KF_TRY(parse_child(p, depth, keyed, &child));
    kf_json *nodes = p->doc->nodes;
    if (last == 0)
      nodes[*number].first = child;
    else
      nodes[last].next = child;
    nodes[*number].count++;
    last = child;
    more = *p->at == ',';
    if (more)
      p->at++;
    else if (*p->at != close)
      return bad(p, keyed ? "',' or '}' is expected" : "',' or ']' is expected");
  }
  p->at++;
  return keyed ? check_keys(p, &p->doc->nodes[*number]) : KF_OK;
}

static kf_status parse_value(parser *p, int depth, uint32_t *number) {
  if (*p->at == '{' || *p->at == '[') return parse_container(p, depth, number);
  if (*p->at != '"') return parse_scalar(p, number);
  const char *text;
  KF_TRY(parse_string(p, &text));
  KF_TRY(new_node(p, KF_JSON_STRING, number));
  p->doc->nodes[*number].text = text;
  return KF_OK;
}

static kf_status parse_end(parser *p) {
  skip_space(p);
  return p->at == p->end ? KF_OK : bad(p, "something follows the end");
}

kf_status kf_json_take(kf_json_doc *doc, char *text, size_t length, uint32_t most, const char *what,
                       kf_err *err) {
  *doc = (kf_json_doc){.text = text};
  parser p = {doc, text, text, text + length, most, what, err};
  uint32_t whole;
  kf_status status = kf_utf8_valid(text, length)
                         ? KF_OK
                         : kf_fail(err, KF_ERR_DATA, "%s is not valid UTF-8", what);
  if (status == KF_OK) {
    skip_space(&p);
    status = parse_value(&p, 0, &whole);
  }
  if (status == KF_OK) status = parse_end(&p);
  if (status != KF_OK) kf_json_clear(doc);
  return status;
}

/* A copy with a NUL after it; NULL: out of memory. */
static char *copy_text(const char *text, size_t length) {
  char *copy = kf_alloc(length + 1, 1);
  if (copy == NULL) return NULL;
  memcpy(copy, text, length);
  copy[length] = '\0';
  return copy;
}

kf_status kf_json_load(const char *path, uint64_t limit, kf_json_doc *doc, kf_err *err) {
  char *text = NULL;
  uint64_t length = 0;
  *doc = (kf_json_doc){0};
  KF_TRY(kf_read_file(path, limit, &text, &length, err));
  return kf_json_take(doc, text, (size_t)length, (uint32_t)(limit / 16 + 16), path, err);
}

kf_status kf_json_load_object(const char *path, uint64_t limit, kf_json_doc *doc, kf_err *err) {
  KF_TRY(kf_json_load(path, limit, doc, err));
  if (doc->nodes[0].kind == KF_JSON_OBJECT) return KF_OK;
  kf_json_clear(doc);
  return kf_fail_file(err, path, "is not a JSON object");
}

void kf_json_clear(kf_json_doc *doc) {
  kf_free(doc->nodes);
  kf_free(doc->text);
  *doc = (kf_json_doc){0};
}

/* --- lists of strings -------------------------------------------------------------------------- */

static kf_status not_strings(const parser *p) {
  return kf_fail(p->err, KF_ERR_DATA, "%s is not a JSON list of at most %u strings", p->what,
                 p->most);
}

static kf_status parse_strings(parser *p, kf_json_strings *list) {
  skip_space(p);
  if (*p->at != '[') return not_strings(p);
  p->at++;
  skip_space(p);
  for (bool more = *p->at != ']'; more;) {
    if (list->n == p->most) return not_strings(p);
    if (!kf_grow((void **)&list->string, &list->room, list->n, sizeof *list->string))
      return kf_fail_memory(p->err);
    skip_space(p);
    if (*p->at != '"')
      return kf_fail(p->err, KF_ERR_DATA, "entry %u of %s is not a string", list->n, p->what);
    KF_TRY(parse_string(p, &list->string[list->n++]));
    skip_space(p);
    more = *p->at == ',';
    if (!more && *p->at != ']') return bad(p, "',' or ']' is expected");
    p->at += more;
  }
  p->at++;
  return parse_end(p);
}

kf_status kf_json_strings_parse(kf_json_strings *list, const char *text, size_t length,
                                uint32_t most, const char *what, kf_err *err) {
  *list = (kf_json_strings){.text = copy_text(text, length)};
  if (list->text == NULL) return kf_fail_memory(err);
  parser p = {NULL, list->text, list->text, list->text + length, most, what, err};
  if (!kf_utf8_valid(text, length)) return kf_fail(err, KF_ERR_DATA, "%s is not valid UTF-8", what);
  return parse_strings(&p, list);
}

void kf_json_strings_clear(kf_json_strings *list) {
  kf_free((void *)list->string);
  kf_free(list->text);
  *list = (kf_json_strings){0};
}

/* --- access ----------------------------------------------------------------------------------- */

const kf_json *kf_json_first(const kf_json_doc *doc, const kf_json *parent) {
  return parent != NULL && parent->count > 0 ? &doc->nodes[parent->first] : NULL;
}

const kf_json *kf_json_next(const kf_json_doc *doc, const kf_json *node) {
  return node->next > 0 ? &doc->nodes[node->next] : NULL;
}

const kf_json *kf_json_get(const kf_json_doc *doc, const kf_json *object, const char *key) {
  if (object == NULL || object->kind != KF_JSON_OBJECT) return NULL;
  const kf_json *member = kf_json_first(doc, object);
  while (member != NULL && strcmp(member->key, key) != 0) member = kf_json_next(doc, member);
  return member;
}

bool kf_json_i64(const kf_json *node, int64_t *out) {
  if (node == NULL || node->kind != KF_JSON_NUMBER) return false;
  char *end;
  errno = 0;
  long long value = strtoll(node->text, &end, 10);
  if (errno != 0 || *end == '.' || *end == 'e' || *end == 'E') return false;
  *out = value;
  return true;
}

const char *kf_json_string(const kf_json *node) {
  return node != NULL && node->kind == KF_JSON_STRING ? node->text : NULL;
}
