/* archive.c - WebDataset archives: tar files in which consecutive members form a sample if their
 * names differ only after the first dot of the last component: 000123.jpg, 000123.txt, 000123.cls,
 * 000123.json.
 *
 * The picture becomes an entry of the list. Its class is the content of .cls, or a value of .json
 * if the caller names its key. The positions of .txt and .json are kept for
 * kf_embed_options.metadata. */
#include "encode/pictures.h"

#include <inttypes.h>
#include <string.h>

enum { CLASS_BYTES = 4096 };
#define JSON_BYTES (1u << 20)

/* The sample being read. */
typedef struct sample {
  kf_pictures *list;
  const char *archive, *label_key;
  kf_string key;   /* of the members so far; empty: none yet */
  kf_string name;  /* of the picture */
  kf_string class; /* of the sample */
  kf_sample found;
  bool has_class;
  uint64_t n_more; /* pictures beside the first of a sample */
  uint64_t n_pictures;
} sample;

bool kf_is_archive(const char *path) { return kf_format_of(path) == KF_FORMAT_TAR; }

/* The extension of a member: what follows the first dot of its last component. NULL: there is none,
 * or it is a hidden file. */
static const char *extension_of(const char *name) {
  const char *slash = strrchr(name, '/'), *last = slash != NULL ? slash + 1 : name;
  const char *dot = strchr(last, '.');
  return dot != NULL && dot != last ? dot + 1 : NULL;
}

/* "ARCHIVE/MEMBER". */
static kf_status full_name(const sample *s, const char *member, kf_string *out, kf_err *err) {
  out->n = 0;
  kf_string_addf(out, "%s/%s", s->archive, member);
  return out->failed ? kf_fail_memory(err) : KF_OK;
}

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

/* Sets the class to text, without the spaces around it. */
static kf_status set_class(sample *s, const char *text, size_t n, const char *where, kf_err *err) {
  while (n > 0 && is_space(text[n - 1])) n--;
  while (n > 0 && is_space(*text)) text++, n--;
  if (n == 0 || memchr(text, '\0', n) != NULL || !kf_utf8_valid(text, n))
    return kf_fail_file(err, where, "is empty or not text, so it cannot be a class");
  s->class.n = 0;
  kf_string_add(&s->class, text, n);
  s->has_class = true;
  return s->class.failed ? kf_fail_memory(err) : KF_OK;
}

/* Takes the class from the value of label_key, a string or an integer. */
static kf_status class_in(sample *s, const kf_json_doc *doc, const char *where, kf_err *err) {
  const kf_json *value = kf_json_get(doc, doc->nodes, s->label_key);
  const char *text = kf_json_string(value);
  char digits[24];
  int64_t number;
  if (value == NULL || value->kind == KF_JSON_NULL) return KF_OK;
  if (text == NULL && kf_json_i64(value, &number)) {
    snprintf(digits, sizeof digits, "%" PRId64, number);
    text = digits;
  }
  if (text == NULL)
    return kf_fail_file(err, where, "its '%s' is neither a string nor a whole number",
                        s->label_key);
  return set_class(s, text, strlen(text), where, err);
}

/* Reads the class from .cls or from .json. */
static kf_status read_class(sample *s, const kf_tar_member *m, bool json, kf_err *err) {
  kf_string where = {0};
  kf_json_doc doc = {0};
  char *text = NULL;
  uint64_t n;
  kf_status status = full_name(s, m->name, &where, err);
  kf_extent extent = {.name = where.data, .file = s->archive, .at = m->at, .size = m->size};
  if (status == KF_OK)
    status = kf_read_extent(&extent, json ? JSON_BYTES : CLASS_BYTES, &text, &n, err);
  if (status == KF_OK && json) {
    status = kf_json_take(&doc, text, (size_t)n, KF_JSON_VALUES, where.data, err);
    text = NULL; /* the document's */
    if (status == KF_OK) status = class_in(s, &doc, where.data, err);
  } else if (status == KF_OK) {
    status = set_class(s, text, (size_t)n, where.data, err);
  }
  kf_json_clear(&doc);
  kf_free(text);
  kf_string_clear(&where);
  return status;
}

/* Adds the sample to the list if it has a picture, and begins the next one. */
static kf_status finish_sample(sample *s, kf_err *err) {
  kf_status status = KF_OK;
  if (s->found.picture.size > 0) {
    s->n_pictures++;
    status = kf_pictures_add_sample(s->list, s->name.data, s->has_class ? s->class.data : NULL,
                                    &s->found, err);
  }
  s->found = (kf_sample){.archive = s->archive};
  s->has_class = false;
  return status;
}

static kf_status take_picture(sample *s, const kf_tar_member *m, kf_err *err) {
  if (s->found.picture.size > 0) {
    s->n_more++;
    return KF_OK;
  }
  KF_TRY(full_name(s, m->name, &s->name, err));
  if (m->size == 0) return kf_fail_file(err, s->name.data, "is empty");
  s->found.picture = (kf_span){m->at, m->size};
  return KF_OK;
}

static kf_status take_member(sample *s, const kf_tar_member *m, kf_err *err) {
  const char *extension = extension_of(m->name);
  if (extension == NULL) return KF_OK;
  size_t n = (size_t)(extension - m->name);
  if (s->key.data == NULL || s->key.n != n || memcmp(s->key.data, m->name, n) != 0) {
    KF_TRY(finish_sample(s, err));
    s->key.n = 0;
    kf_string_add(&s->key, m->name, n);
    if (s->key.failed) return kf_fail_memory(err);
  }
  if (kf_is_picture(extension - 1)) /* with its dot; but "seg.jpg" is something else */
    return strchr(extension, '.') == NULL ? take_picture(s, m, err) : KF_OK;
  if (strcmp(extension, "txt") == 0) s->found.text = (kf_span){m->at, m->size};
  if (strcmp(extension, "cls") == 0 && s->label_key == NULL) return read_class(s, m, false, err);
  if (strcmp(extension, "json") != 0) return KF_OK;
  s->found.json = (kf_span){m->at, m->size};
  return s->label_key != NULL ? read_class(s, m, true, err) : KF_OK;
}

static kf_status take_members(sample *s, kf_tar *tar, kf_err *err) {
  for (;;) {
    kf_tar_member member;
    bool found;
    KF_TRY(kf_tar_next(tar, &member, &found, err));
    if (!found) return finish_sample(s, err);
    KF_TRY(take_member(s, &member, err));
  }
}

kf_status kf_archive_list(kf_ctx *ctx, kf_pictures *list, const char *path, const char *label_key,
                          kf_err *err) {
  kf_tar tar;
  sample s = {.list = list, .archive = path, .label_key = label_key};
  s.found.archive = path;
  kf_status status = kf_tar_open(&tar, path, err);
  if (status == KF_OK) status = take_members(&s, &tar, err);
  if (status == KF_OK && s.n_pictures == 0)
    status = kf_fail_file(err, path, "no JPEG, PNG or WebP picture in this archive");
  if (status == KF_OK && s.n_more > 0)
    kf_log(ctx, "%s: left out %" PRIu64 " %s beside the first of a sample", path, s.n_more,
           s.n_more == 1 ? "picture" : "pictures");
  kf_tar_close(&tar);
  kf_string_clear(&s.key);
  kf_string_clear(&s.name);
  kf_string_clear(&s.class);
  return status;
}
