/* metadata.c - writes the texts and JSON that come with pictures in WebDataset archives, as lines
 * of JSON in the order of the rows that kf_embed writes:
 *
 *     {"row":0,"id":"s/00.tar/000123.jpg","class":"cat","text":"a cat","json":{...}}
 *
 * Missing values are null. The JSON of a sample is that of its file, without spaces. */
#include "encode/pictures.h"

#include <inttypes.h>
#include <string.h>

enum { PIECE = 1 << 16 };
#define MAX_BYTES (1u << 20) /* bytes of a text or of JSON */

typedef struct writing {
  kf_ctx *ctx;
  const kf_pictures *pictures;
  bool skip_bad;
  kf_string lines, name;
} writing;

/* Adds valid JSON without spaces and line ends. */
static void add_packed(kf_string *to, const char *text, size_t n) {
  bool quoted = false;
  size_t begin = 0;
  for (size_t i = 0; i < n; i++) {
    char c = text[i];
    if (c == '\\') i++; /* occurs only inside strings */
    if (c == '"') quoted = !quoted;
    if (quoted || (c != ' ' && c != '\t' && c != '\r' && c != '\n')) continue;
    kf_string_add(to, text + begin, i - begin);
    begin = i + 1;
  }
  kf_string_add(to, text + begin, n - begin);
}

/* Adds the JSON of a sample. Checking it modifies and frees the text, so it is copied first. */
static kf_status add_json(kf_string *to, char *text, size_t n, const char *name, kf_err *err) {
  kf_string packed = {0};
  kf_json_doc doc = {0};
  add_packed(&packed, text, n);
  kf_status status = kf_json_take(&doc, text, n, KF_JSON_VALUES, name, err);
  kf_json_clear(&doc);
  if (status == KF_OK) kf_string_add(to, packed.data, packed.n);
  if (status == KF_OK && packed.failed) status = kf_fail_memory(err);
  kf_string_clear(&packed);
  return status;
}

static kf_status add_text(kf_string *to, const char *text, size_t n, const char *name,
                          kf_err *err) {
  if (strlen(text) != n || !kf_utf8_valid(text, n))
    return kf_fail_file(err, name, "is not valid UTF-8 text");
  kf_string_add_json(to, text);
  return KF_OK;
}

/* Adds a member of a sample as a value of the line; adds nothing if it is damaged. */
static kf_status add_member(writing *w, const kf_sample *sample, kf_span span, bool json,
                            kf_err *err) {
  char *text = NULL;
  uint64_t n;
  size_t before = w->lines.n;
  kf_extent extent = {w->name.data, sample->archive, span.at, span.size};
  kf_status status = kf_read_extent(&extent, MAX_BYTES, &text, &n, err);
  if (status == KF_OK && json) return add_json(&w->lines, text, (size_t)n, w->name.data, err);
  if (status == KF_OK) status = add_text(&w->lines, text, (size_t)n, w->name.data, err);
  if (status != KF_OK) w->lines.n = before;
  kf_free(text);
  return status;
}

/* Adds `,"key":` and the member of picture i, or null. The member is named like the picture, except
 * for the extension. */
static kf_status add_value(writing *w, uint64_t i, const char *key, const char *extension,
                           kf_err *err) {
  const kf_sample *sample = kf_pictures_sample(w->pictures, i);
  bool json = strcmp(extension, "json") == 0;
  kf_span span = {0};
  if (sample != NULL) span = json ? sample->json : sample->text;
  kf_string_addf(&w->lines, ",\"%s\":", key);
  if (span.size > 0) {
    const char *path = kf_pictures_path(w->pictures, i), *dot = strrchr(path, '.');
    w->name.n = 0;
    kf_string_add(&w->name, path, (size_t)(dot - path) + 1);
    kf_string_add(&w->name, extension, strlen(extension));
    if (w->name.failed) return kf_fail_memory(err);
    kf_status status = add_member(w, sample, span, json, err);
    if (status != KF_ERR_DATA || !w->skip_bad) return status;
    kf_log(w->ctx, "%s", err->message);
  }
  kf_string_add(&w->lines, "null", 4);
  return KF_OK;
}

static kf_status add_line(writing *w, uint64_t i, uint64_t row, kf_err *err) {
  int32_t label = kf_pictures_label(w->pictures, i);
  kf_string_addf(&w->lines, "{\"row\":%" PRIu64 ",\"id\":", row);
  kf_string_add_json(&w->lines, kf_pictures_id(w->pictures, i));
  kf_string_addf(&w->lines, ",\"class\":");
  if (label >= 0)
    kf_string_add_json(&w->lines, kf_pictures_class_name(w->pictures, (uint32_t)label));
  else
    kf_string_addf(&w->lines, "null");
  KF_TRY(add_value(w, i, "text", "txt", err));
  KF_TRY(add_value(w, i, "json", "json", err));
  kf_string_addf(&w->lines, "}\n");
  return w->lines.failed ? kf_fail_memory(err) : KF_OK;
}

static kf_status add_lines(writing *w, const unsigned char *bad, kf_out *out, kf_err *err) {
  uint64_t row = 0, n = kf_pictures_count(w->pictures);
  for (uint64_t i = 0; i < n; i++) {
    if (bad == NULL || bad[i] == 0) KF_TRY(add_line(w, i, row++, err));
    if (w->lines.n < PIECE && i + 1 < n) continue;
    if (w->lines.n > 0) KF_TRY(kf_out_write(out, w->lines.data, w->lines.n, err));
    w->lines.n = 0;
    KF_TRY(kf_progress(w->ctx, "metadata", i + 1, n));
  }
  return KF_OK;
}

kf_status kf_metadata_write(kf_ctx *ctx, const kf_pictures *pictures, const unsigned char *bad,
                            bool skip_bad, const char *path, kf_err *err) {
  writing w = {.ctx = ctx, .pictures = pictures, .skip_bad = skip_bad};
  kf_out out;
  KF_TRY(kf_out_open(&out, ctx, path, err));
  kf_status status = ctx->ranks.rank == 0 ? add_lines(&w, bad, &out, err) : KF_OK;
  status = kf_agree_on(ctx, status);
  if (status == KF_OK) status = kf_out_commit(&out, err);
  kf_out_abort(&out);
  kf_string_clear(&w.lines);
  kf_string_clear(&w.name);
  return status;
}
