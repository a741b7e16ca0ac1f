/* json.c - JSON as a tree: nodes in one array, linked by index, built with the reader in
 * json_read.h. */
#include "base/json.h"
#include "base/json_read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct parser {
  kf_json_doc *doc;
  kf_json_reader read; /* of the copy of the source */
  uint32_t most;       /* values */
  const char *what;
  kf_err *err;
} parser;

static kf_status bad(const parser *p) {
  return kf_fail(p->err, KF_ERR_DATA, "%s is not valid JSON at its byte %zu: %s", p->what,
                 (size_t)(p->read.at - p->read.begin), p->read.wrong);
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

/* --- values ----------------------------------------------------------------------------------- */

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

static kf_status parse_value(parser *p, uint32_t *number);

static kf_status parse_container(parser *p, uint32_t *number) {
  bool keyed = kf_json_peek(&p->read) == '{';
  char *key = NULL;
  uint32_t last = 0, child;
  if (!kf_json_enter(&p->read)) return bad(p);
  KF_TRY(new_node(p, keyed ? KF_JSON_OBJECT : KF_JSON_LIST, number));
  while (keyed ? kf_json_key(&p->read, &key) : kf_json_item(&p->read)) {
    KF_TRY(parse_value(p, &child));
    kf_json *nodes = p->doc->nodes;
    nodes[child].key = key;
    if (last == 0)
      nodes[*number].first = child;
    else
      nodes[last].next = child;
    nodes[*number].count++;
    last = child;
  }
  if (p->read.wrong != NULL) return bad(p);
  return keyed ? check_keys(p, &p->doc->nodes[*number]) : KF_OK;
}

/* A number or word stays in place without a NUL, since the next character is still needed. */
static kf_status parse_value(parser *p, uint32_t *number) {
  char next = kf_json_peek(&p->read), *text = p->read.at;
  size_t n;
  if (next == '{' || next == '[') return parse_container(p, number);
  if (!(next == '"' ? kf_json_text(&p->read, &text, &n) : kf_json_scalar(&p->read))) return bad(p);
  KF_TRY(new_node(p,
                  next == '"'   ? KF_JSON_STRING
                  : next == '0' ? KF_JSON_NUMBER
                  : next == 'n' ? KF_JSON_NULL
                                : KF_JSON_BOOL,
                  number));
  p->doc->nodes[*number].text = text;
  return KF_OK;
}

kf_status kf_json_take(kf_json_doc *doc, char *text, size_t length, uint32_t most, const char *what,
                       kf_err *err) {
  *doc = (kf_json_doc){.text = text};
  parser p = {doc, kf_json_read(text, length, KF_JSON_DEPTH), most, what, err};
  uint32_t whole;
  kf_status status = parse_value(&p, &whole);
  if (status == KF_OK && !kf_json_end(&p.read)) status = bad(&p);
  if (status != KF_OK) kf_json_clear(doc);
  return status;
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

/* --- lists of strings ------------------------------------------------------------------------- */

static kf_status not_strings(const parser *p) {
  return kf_fail(p->err, KF_ERR_DATA, "%s is not a JSON list of at most %u strings", p->what,
                 p->most);
}

static kf_status parse_strings(parser *p, kf_json_strings *list) {
  char *text;
  size_t n;
  if (p->read.wrong != NULL) return bad(p);
  if (kf_json_peek(&p->read) != '[') return not_strings(p);
  kf_json_enter(&p->read);
  while (kf_json_item(&p->read)) {
    if (list->n == p->most) return not_strings(p);
    if (!kf_grow((void **)&list->string, &list->room, list->n, sizeof *list->string))
      return kf_fail_memory(p->err);
    if (kf_json_peek(&p->read) != '"')
      return kf_fail(p->err, KF_ERR_DATA, "entry %u of %s is not a string", list->n, p->what);
    if (!kf_json_text(&p->read, &text, &n)) return bad(p);
    list->string[list->n++] = text;
  }
  return kf_json_end(&p->read) ? KF_OK : bad(p);
}

kf_status kf_json_strings_parse(kf_json_strings *list, const char *text, uint32_t most,
                                const char *what, kf_err *err) {
  *list = (kf_json_strings){.text = kf_strdup(text)};
  if (list->text == NULL) return kf_fail_memory(err);
  kf_json_reader read = kf_json_read(list->text, strlen(text), 1);
  return parse_strings(&(parser){NULL, read, most, what, err}, list);
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
