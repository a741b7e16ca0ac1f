/* huggingface.c - class names as Hugging Face datasets store them in .parquet files.
 *
 * A class column has integers. Their meaning is in the metadata of the schema, as JSON:
 *
 *   huggingface = {"info": {"features": {"label": {"names": ["cat"], "_type": "ClassLabel"}}}}
 *
 * Columns inside structs are objects inside objects. Everything else is ignored, but if the label
 * column is a ClassLabel its names must be valid, or rows would get wrong ones. */
#include "base/json.h"
#include "file/parquet.h"

#include <string.h>

/* Bounds what hostile metadata can allocate: 96 bytes per value. */
#define MAX_VALUES (1u << 18)

/* The description of a column, "a.b" for one in a struct; NULL: none. */
static const kf_json *find_feature(const kf_json_doc *doc, const char *column) {
  const kf_json *at = kf_json_get(doc, kf_json_get(doc, doc->nodes, "info"), "features");
  const kf_json *whole = at != NULL ? kf_json_get(doc, at, column) : NULL;
  if (whole != NULL) return whole;
  for (const char *part = column; at != NULL && part != NULL;) {
    const char *dot = strchr(part, '.');
    size_t length = dot != NULL ? (size_t)(dot - part) : strlen(part);
    const kf_json *child = kf_json_first(doc, at);
    while (child != NULL && (child->key == NULL || strlen(child->key) != length ||
                             strncmp(child->key, part, length) != 0))
      child = kf_json_next(doc, child);
    at = child;
    part = dot != NULL ? dot + 1 : NULL;
  }
  return at;
}

static kf_status fail_names(const char *path, const char *column, const char *why, kf_err *err) {
  return kf_fail_hint(err, KF_ERR_DATA, KF_HINT_CLASSES,
                      "%s: the class names of column '%.64s' in metadata 'huggingface' %s", path,
                      column, why);
}

static kf_status take_names(const kf_json_doc *doc, const char *path, const char *column,
                            kf_names *names, kf_err *err) {
  const kf_json *feature = find_feature(doc, column);
  const char *type = feature != NULL ? kf_json_string(kf_json_get(doc, feature, "_type")) : NULL;
  if (type == NULL || strcmp(type, "ClassLabel") != 0) return KF_OK;
  const kf_json *list = kf_json_get(doc, feature, "names");
  if (list == NULL || list->kind == KF_JSON_NULL) return KF_OK; /* numbers without names */
  if (list->kind != KF_JSON_LIST || list->count < 1)
    return fail_names(path, column, "are not a list", err);
  const char **strings = kf_alloc(list->count, sizeof *strings);
  if (strings == NULL) return kf_fail_memory(err);
  uint32_t n = 0;
  for (const kf_json *name = kf_json_first(doc, list); name != NULL;
       name = kf_json_next(doc, name)) {
    const char *text = kf_json_string(name);
    if (text == NULL || text[0] == '\0') break;
    strings[n++] = text;
  }
  kf_status status = n == list->count ? kf_names_copy(strings, n, names, err)
                                      : fail_names(path, column, "are not all text", err);
  kf_free(strings);
  if (status == KF_OK) status = kf_names_check(names, path, err);
  if (status != KF_OK) kf_names_clear(names);
  return status;
}

kf_status kf_hf_names(const kf_pq *pq, const char *column, kf_names *names, kf_err *err) {
  const char *text = kf_pq_meta(pq, "huggingface"), *path = pq->in->path;
  if (text == NULL) return KF_OK;
  char *copy = kf_strdup(text), what[KF_WHERE_SIZE];
  if (copy == NULL) return kf_fail_memory(err);
  snprintf(what, sizeof what, "%s: metadata 'huggingface'", path);
  kf_json_doc doc = {0};
  kf_status status = kf_json_take(&doc, copy, strlen(text), MAX_VALUES, what, err);
  if (status == KF_OK) status = take_names(&doc, path, column, names, err);
  kf_json_clear(&doc);
  return status;
}
