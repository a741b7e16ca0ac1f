/* body.c - the input of requests: rows as JSON or .npy, row numbers, pictures as files or data
 * URIs, and words, in JSON or in a form. Strings and pictures stay in the body, which is decoded in
 * place, so a request takes little more memory than its body; only rows are copied. */
#include "form.h"
#include "json.h"
#include "server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* --- media types ------------------------------------------------------------------------------ */

typedef enum media {
  MEDIA_NONE,
  MEDIA_JSON,
  MEDIA_FORM,
  MEDIA_NPY,
  MEDIA_PICTURE,
  MEDIA_OTHER
} media;

static media media_of(sv_request *r) {
  static const struct {
    const char *name;
    media media;
  } known[] = {{"application/json", MEDIA_JSON}, {"multipart/form-data", MEDIA_FORM},
               {"application/x-npy", MEDIA_NPY}, {"application/octet-stream", MEDIA_NPY},
               {"image/jpeg", MEDIA_PICTURE},    {"image/png", MEDIA_PICTURE},
               {"image/webp", MEDIA_PICTURE}};
  const char *type = sv_header(r, "Content-Type");
  if (!type) return MEDIA_NONE;
  size_t n = strcspn(type, "; \t");
  for (size_t i = 0; i < SV_COUNT_OF(known); i++)
    if (n == strlen(known[i].name) && strncasecmp(type, known[i].name, n) == 0)
      return known[i].media;
  return MEDIA_OTHER;
}

/* Columns of the rows that a request may hold. */
static uint32_t dim_of(const sv_request *r) { return kf_model_dim_in(r->world->model); }

static bool fail_json(sv_request *r, const sv_json *j) {
  return sv_fail(r, j->refused ? 422 : 400, "%s", j->error);
}

static bool fail_rows(sv_request *r) {
  return sv_fail(r, 413, "a request has at most %d rows", SV_MAX_ROWS);
}

/* --- rows ------------------------------------------------------------------------------------- */

/* The number of arrays in the array just entered, up to SV_MAX_ROWS + 1; does not move. */
static uint64_t count_rows(const sv_json *j) {
  uint64_t n = 0;
  unsigned depth = 1;
  for (const char *at = j->in.at; at < j->in.end; at++) {
    if (*at == '[' && ++depth == 2 && ++n > SV_MAX_ROWS) break;
    if (*at == ']' && --depth == 0) break;
  }
  return n;
}

static void parse_row(sv_json *j, float *row, uint32_t dim, uint64_t number) {
  uint32_t n = 0;
  float value;
  sv_json_array(j);
  while (sv_json_item(j)) {
    if (!sv_json_single(j, &value)) return;
    if (n < dim) row[n] = value;
    n++;
  }
  if (sv_json_fine(j) && n != dim)
    sv_json_refuse(j, "row %llu has %u values, the model takes %u", (unsigned long long)number, n,
                   dim);
}

static bool parse_rows(sv_request *r, sv_json *j) {
  sv_input *in = &r->in;
  uint32_t dim = dim_of(r);
  sv_json_array(j);
  if (!sv_json_fine(j)) return true;
  uint64_t room = count_rows(j);
  if (room > SV_MAX_ROWS) return fail_rows(r);
  in->rows = sv_take(&r->arena, room ? room * dim : 1, sizeof *in->rows);
  if (!in->rows) return sv_fail_memory(r);
  in->kind = SV_ROW_VALUES;
  while (sv_json_item(j) && sv_json_fine(j)) {
    if (in->n == room)
      sv_json_refuse(j, "rows are arrays of numbers");
    else
      parse_row(j, in->rows + in->n * dim, dim, in->n);
    in->n++;
  }
  return true;
}

static bool parse_numbers(sv_request *r, sv_json *j) {
  sv_input *in = &r->in;
  uint64_t n = r->world->shelf ? r->world->shelf->n : 0, value;
  if (n == 0)
    return sv_fail(
        r, 422, "row_numbers need a gallery: start the server with --gallery FILE or --rows DATA");
  in->numbers = sv_take(&r->arena, SV_MAX_ROWS, sizeof *in->numbers);
  if (!in->numbers) return sv_fail_memory(r);
  in->kind = SV_ROW_NUMBERS;
  sv_json_array(j);
  while (sv_json_item(j)) {
    if (in->n == SV_MAX_ROWS) return fail_rows(r);
    if (!sv_json_number(j, 0, n - 1, &value)) break;
    in->numbers[in->n++] = value;
  }
  return true;
}

/* --- .npy ------------------------------------------------------------------------------------- */

/* The library reads files, so the body becomes an anonymous one. */
static int file_of(const char *body, size_t n) {
  int fd = memfd_create("body", MFD_CLOEXEC);
  for (size_t done = 0; fd >= 0 && done < n;) {
    ssize_t more = write(fd, body + done, n - done);
    if (more < 0 && errno == EINTR) continue;
    if (more <= 0) {
      close(fd);
      return -1;
    }
    done += (size_t)more;
  }
  return fd;
}

/* Messages begin with the name of the file, which here is the body. */
static void fail_npy(sv_request *r, kf_ctx *ctx, kf_status status, const char *path) {
  const char *message = kf_errmsg(ctx);
  size_t n = strlen(path);
  if (strncmp(message, path, n) == 0 && message[n] == ':')
    message += n + 1 + (message[n + 1] == ' ');
  sv_fail(r, status == KF_ERR_DATA || status == KF_ERR_ARG ? 422 : 500, "the array: %s", message);
}

static bool read_npy(sv_request *r, kf_ctx *ctx, const kf_data *data, const char *path) {
  sv_input *in = &r->in;
  uint64_t n = kf_data_rows(data);
  uint32_t dim = kf_data_dim(data);
  if (n > SV_MAX_ROWS) return fail_rows(r);
  if (dim != dim_of(r))
    return sv_fail(r, 422, "the array has %u columns, the model takes %u", dim, dim_of(r));
  in->rows = sv_take(&r->arena, n * dim, sizeof *in->rows);
  if (!in->rows) return sv_fail_memory(r);
  kf_status status = kf_data_get(ctx, data, 0, n, in->rows, NULL);
  if (status != KF_OK) {
    fail_npy(r, ctx, status, path);
    return false;
  }
  in->kind = SV_ROW_VALUES;
  in->n = n;
  return true;
}

static bool is_npy(const char *bytes, size_t n) {
  return n >= 10 && memcmp(bytes, "\x93NUMPY", 6) == 0;
}

static bool parse_npy(sv_request *r, kf_ctx *ctx, const char *bytes, size_t n) {
  if (!is_npy(bytes, n)) return sv_fail(r, 400, "the body is not an .npy array");
  int fd = file_of(bytes, n);
  if (fd < 0) return sv_fail_memory(r);
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  const char *paths[] = {path};
  kf_data_options options = {.inner_labels = KF_OFF};
  kf_data *data = NULL;
  kf_status status = kf_data_open(ctx, paths, 1, &options, &data);
  bool fine = status == KF_OK && read_npy(r, ctx, data, path);
  if (status != KF_OK) fail_npy(r, ctx, status, path);
  kf_data_free(data);
  close(fd);
  return fine;
}

/* --- pictures and words ----------------------------------------------------------------------- */

static bool needs_tower(sv_request *r, bool text) {
  const kf_encoder *e = r->server->encoder;
  const char *input = text ? "words" : "pictures";
  if (e && (text ? kf_encoder_context(e) : kf_encoder_image_size(e)) > 0) return true;
  return e ? sv_fail(r, 422, "the encoder has no %s tower, which %s need", text ? "text" : "image",
                     input)
           : sv_fail(r, 422, "%s need an encoder: start the server with --encoder DIR", input);
}

static int base64_digit(unsigned char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Decodes in place; false: not base64. */
static bool decode_base64(char *text, size_t n, size_t *out) {
  unsigned char *to = (unsigned char *)text;
  while (n > 0 && text[n - 1] == '=' && n % 4 != 1) n--;
  if (n % 4 == 1) return false;
  unsigned bits = 0, have = 0;
  for (size_t i = 0; i < n; i++) {
    int digit = base64_digit((unsigned char)text[i]);
    if (digit < 0) return false;
    bits = (bits << 6 | (unsigned)digit) & 0xffffff;
    have += 6;
    if (have >= 8) {
      have -= 8;
      *to++ = (unsigned char)(bits >> have);
    }
  }
  *out = (size_t)(to - (unsigned char *)text);
  return true;
}

/* "data:image/png;base64,..." */
static bool picture_of(sv_json *j, char *uri, size_t n, uint64_t number, kf_image_bytes *out) {
  char *comma = memchr(uri, ',', n < 100 ? n : 100);
  size_t bytes = 0;
  bool fine = strncmp(uri, "data:image/", 11) == 0 && comma && comma - uri > 7 &&
              memcmp(comma - 7, ";base64", 7) == 0 &&
              decode_base64(comma + 1, n - (size_t)(comma + 1 - uri), &bytes) && bytes > 0;
  if (fine)
    *out = (kf_image_bytes){.bytes = comma + 1, .n = bytes};
  else
    sv_json_refuse(j, "picture %llu is not a data URI (data:image/...;base64,...)",
                   (unsigned long long)number);
  return fine;
}

static bool start_pictures(sv_request *r) {
  sv_input *in = &r->in;
  if (!needs_tower(r, false)) return false;
  if (!in->pictures) in->pictures = sv_take(&r->arena, SV_MAX_PICTURES, sizeof *in->pictures);
  in->kind = SV_PICTURES;
  return in->pictures ? true : sv_fail_memory(r);
}

static bool another_picture(sv_request *r) {
  if (r->in.n < SV_MAX_PICTURES) return true;
  return sv_fail(r, 413, "a request has at most %d pictures", SV_MAX_PICTURES);
}

static bool parse_images(sv_request *r, sv_json *j) {
  sv_input *in = &r->in;
  char *uri;
  size_t n;
  if (!start_pictures(r)) return false;
  sv_json_array(j);
  while (sv_json_item(j)) {
    if (!another_picture(r)) return false;
    if (!sv_json_text(j, &uri, &n) || !picture_of(j, uri, n, in->n, &in->pictures[in->n])) break;
    in->n++;
  }
  return true;
}

static bool start_texts(sv_request *r) {
  sv_input *in = &r->in;
  if (!needs_tower(r, true)) return false;
  if (!in->texts) in->texts = sv_take(&r->arena, SV_MAX_TEXTS, sizeof *in->texts);
  in->kind = SV_TEXTS;
  return in->texts ? true : sv_fail_memory(r);
}

/* False: answered. */
static bool parse_text(sv_request *r, sv_json *j) {
  sv_input *in = &r->in;
  char *text;
  size_t n;
  if (in->n == SV_MAX_TEXTS) return sv_fail(r, 413, "a request has at most %d texts", SV_MAX_TEXTS);
  if (!sv_json_text(j, &text, &n)) return true;
  if (n > SV_MAX_TEXT)
    sv_json_refuse(j, "text %llu has more than %d bytes", (unsigned long long)in->n, SV_MAX_TEXT);
  in->texts[in->n++] = text;
  return true;
}

static bool parse_texts(sv_request *r, sv_json *j) {
  if (!start_texts(r)) return false;
  sv_json_array(j);
  while (sv_json_item(j))
    if (!parse_text(r, j)) return false;
  return true;
}

/* --- JSON bodies ------------------------------------------------------------------------------ */

enum {
  FIELD_ROWS = 1,
  FIELD_IMAGES = 2,
  FIELD_TEXTS = 4,
  FIELD_NUMBERS = 8,
  FIELD_TOP = 16,
  FIELD_K = 32,
  FIELD_SPACE = 64,
  FIELD_NAME = 128,
  FIELD_TEXT = 256
};
enum { INPUT_FIELDS = FIELD_ROWS | FIELD_IMAGES | FIELD_TEXTS | FIELD_NUMBERS };

static unsigned field_of(const char *key) {
  static const char *const names[] = {"rows", "images", "texts", "row_numbers", "top",
                                      "k",    "space",  "name",  "text"};
  for (unsigned i = 0; i < SV_COUNT_OF(names); i++)
    if (strcmp(key, names[i]) == 0) return 1u << i;
  return 0;
}

static void parse_space(sv_request *r, sv_json *j) {
  char *text;
  size_t n;
  if (!sv_json_text(j, &text, &n)) return;
  r->in.raw = strcmp(text, "raw") == 0;
  r->in.space_given = true;
  if (!r->in.raw && strcmp(text, "koofu") != 0)
    sv_json_refuse(j, "space must be \"koofu\" or \"raw\"");
}

static void parse_name(sv_request *r, sv_json *j) {
  size_t n;
  if (!sv_json_text(j, &r->in.name, &n)) return;
  if (n == 0 || n > SV_MAX_NAME) sv_json_refuse(j, "name must have 1 to %d bytes", SV_MAX_NAME);
  if (n > 0 && r->in.name[strspn(r->in.name, " \t\r\n")] == '\0')
    sv_json_refuse(j, "name has only blanks");
}

/* False: answered. Errors of the JSON stay in j instead. */
static bool parse_field(sv_request *r, sv_json *j, unsigned field) {
  uint64_t number = 0;
  switch (field) {
  case FIELD_ROWS: return parse_rows(r, j);
  case FIELD_IMAGES: return parse_images(r, j);
  case FIELD_TEXTS: return parse_texts(r, j);
  case FIELD_NUMBERS: return parse_numbers(r, j);
  case FIELD_TOP:
    if (sv_json_number(j, 1, SV_MAX_TOP, &number)) r->in.top = (uint32_t)number;
    return true;
  case FIELD_K:
    if (sv_json_number(j, 1, KF_MAX_NEIGHBOURS, &number)) r->in.k = (uint32_t)number;
    return true;
  case FIELD_SPACE: parse_space(r, j); return true;
  case FIELD_NAME: parse_name(r, j); return true;
  default: sv_json_truth(j, &r->in.by_name); return true;
  }
}

/* One kind of input, and no field twice. */
static bool is_repeated(unsigned field, unsigned seen) {
  return seen & field || (field & INPUT_FIELDS && seen & INPUT_FIELDS);
}

static bool parse_json(sv_request *r, unsigned allowed) {
  sv_json j = sv_json_of(r->body, r->n_body);
  unsigned seen = 0;
  char *key;
  sv_json_object(&j);
  while (sv_json_key(&j, &key)) {
    unsigned field = field_of(key) & allowed;
    if (field == 0)
      sv_json_refuse(&j, "unknown field '%.60s'", key);
    else if (is_repeated(field, seen))
      sv_json_refuse(&j, "'%s' is repeated, or given with another input", key);
    else if (!parse_field(r, &j, field))
      return false;
    seen |= field;
  }
  return sv_json_end(&j) ? true : fail_json(r, &j);
}

/* --- forms: the fields of JSON; pictures and texts may be repeated ---------------------------- */

enum { SEVERAL = FIELD_IMAGES | FIELD_TEXTS, PLAIN = FIELD_TEXTS | FIELD_SPACE | FIELD_NAME };

static bool keep_file(sv_request *r, const sv_part *part) {
  sv_input *in = &r->in;
  if (!in->files) in->files = sv_take(&r->arena, SV_MAX_PICTURES, sizeof *in->files);
  if (!in->files) return sv_fail_memory(r);
  in->files[in->n_files++] = part->file && *part->file ? part->file : NULL;
  return true;
}

static bool take_picture(sv_request *r, const sv_part *part) {
  sv_input *in = &r->in;
  if (!start_pictures(r) || !another_picture(r) || !keep_file(r, part)) return false;
  const char *file = in->files[in->n];
  if (part->n == 0 && file) return sv_fail(r, 422, "%s: the picture is empty", file);
  if (part->n == 0) return sv_fail(r, 422, "picture %llu is empty", (unsigned long long)in->n);
  in->pictures[in->n++] = (kf_image_bytes){.bytes = part->bytes, .n = part->n};
  return true;
}

static bool parse_part(sv_request *r, kf_ctx *ctx, const sv_part *part, unsigned field) {
  if (field == FIELD_IMAGES) return take_picture(r, part);
  if (field == FIELD_ROWS && is_npy(part->bytes, part->n))
    return keep_file(r, part) && parse_npy(r, ctx, part->bytes, part->n);
  sv_json j = sv_json_of(part->bytes, part->n);
  j.plain = (field & PLAIN) != 0;
  j.lone = true;
  bool fine =
      field == FIELD_TEXTS ? start_texts(r) && parse_text(r, &j) : parse_field(r, &j, field);
  if (!fine || sv_json_end(&j)) return fine;
  return sv_fail(r, j.refused ? 422 : 400, "'%s' of the form: %s", part->name, j.error);
}

static bool parse_form(sv_request *r, kf_ctx *ctx, unsigned allowed) {
  sv_form form = sv_form_of(sv_header(r, "Content-Type"), r->body, r->n_body);
  sv_part part;
  unsigned seen = 0;
  while (sv_form_next(&form, &part)) {
    unsigned field = field_of(part.name) & allowed;
    if (field == 0)
      return sv_fail(r, 422, "unknown field '%.60s' (pictures are 'images')", part.name);
    if (is_repeated(field, seen & ~(field & SEVERAL)))
      return sv_fail(r, 422, "'%s' is repeated, or given with another input", part.name);
    if (!parse_part(r, ctx, &part, field)) return false;
    seen |= field;
  }
  return form.wrong ? sv_fail(r, 400, "%s", form.wrong) : true;
}

/* --- any body --------------------------------------------------------------------------------- */

static bool parse_picture(sv_request *r) {
  sv_input *in = &r->in;
  if (!needs_tower(r, false)) return false;
  if (r->n_body == 0) return sv_fail(r, 400, "the body is empty");
  in->pictures = sv_take(&r->arena, 1, sizeof *in->pictures);
  if (!in->pictures) return sv_fail_memory(r);
  in->pictures[0] = (kf_image_bytes){.bytes = r->body, .n = r->n_body};
  in->kind = SV_PICTURES;
  in->n = 1;
  return true;
}

static bool parse_input(sv_request *r, kf_ctx *ctx, unsigned allowed) {
  switch (media_of(r)) {
  case MEDIA_JSON: return parse_json(r, allowed);
  case MEDIA_FORM: return parse_form(r, ctx, allowed);
  case MEDIA_NPY: return parse_npy(r, ctx, r->body, r->n_body);
  case MEDIA_PICTURE: return parse_picture(r);
  default:
    return sv_fail(r, 415,
                   "the Content-Type must be application/json, multipart/form-data, "
                   "application/x-npy, image/jpeg, image/png or image/webp");
  }
}

/* There must be an input, and not too many answers; each: answers per row. */
static bool check_input(sv_request *r, uint64_t each) {
  const sv_input *in = &r->in;
  if (in->kind == SV_NOTHING)
    return sv_fail(r, 422, "one of rows, images, texts or row_numbers is needed");
  if (in->n == 0) return sv_fail(r, 422, "the request has no row");
  if (in->n * each > SV_MAX_VALUES)
    return sv_fail(r, 413,
                   "%llu rows with %llu answers each are too many: at most %d answers in total",
                   (unsigned long long)in->n, (unsigned long long)each, SV_MAX_VALUES);
  return true;
}

bool sv_parse_space(sv_request *r) {
  const char *space = sv_arg(r, "space");
  if (!space) return true;
  r->in.raw = strcmp(space, "raw") == 0;
  r->in.space_given = true;
  if (r->in.raw || strcmp(space, "koofu") == 0) return true;
  return sv_fail(r, 422, "?space= must be koofu or raw");
}

bool sv_parse_classify(sv_request *r, kf_ctx *ctx) {
  uint64_t top = 5;
  if (!sv_arg_number(r, "top", 1, SV_MAX_TOP, &top)) return false;
  r->in.top = (uint32_t)top;
  if (!parse_input(r, ctx, INPUT_FIELDS | FIELD_TOP)) return false;
  if (r->in.top > r->world->answers) r->in.top = r->world->answers;
  return check_input(r, r->in.top);
}

bool sv_parse_search(sv_request *r, kf_ctx *ctx) {
  const sv_shelf *shelf = r->world->shelf;
  uint64_t k = 15;
  if (!shelf)
    return sv_fail(
        r, 422,
        "there is no gallery to search: start the server with --gallery FILE or --rows DATA");
  if (!sv_arg_number(r, "k", 1, KF_MAX_NEIGHBOURS, &k) || !sv_parse_space(r)) return false;
  r->in.k = (uint32_t)k;
  if (!parse_input(r, ctx, INPUT_FIELDS | FIELD_K | FIELD_SPACE)) return false;
  const kf_gallery *gallery = r->in.raw ? shelf->raw : shelf->koofu;
  if (!gallery && !r->in.space_given) {
    r->in.raw = !r->in.raw;
    gallery = shelf->any;
  }
  if (!gallery)
    return sv_fail(r, 422,
                   r->in.raw ? "the raw rows are not available: start the server with --rows DATA"
                             : "the gallery has raw rows only");
  uint64_t most = shelf->n - (r->in.kind == SV_ROW_NUMBERS);
  if (r->in.k > most) r->in.k = (uint32_t)most;
  if (r->in.k == 0) return sv_fail(r, 422, "the gallery has no other row");
  return check_input(r, r->in.k);
}

/* The name in every template, as in koofu embed-text. */
static bool take_prompts(sv_request *r, const kf_prompts *prompts) {
  sv_input *in = &r->in;
  uint64_t n = kf_prompts_count(prompts);
  in->texts = sv_take(&r->arena, n, sizeof *in->texts);
  if (!in->texts) return sv_fail_memory(r);
  for (; in->n < n; in->n++) {
    const char *text = kf_prompts_text(prompts, in->n);
    char *copy = sv_take(&r->arena, strlen(text) + 1, 1);
    if (!copy) return sv_fail_memory(r);
    in->texts[in->n] = strcpy(copy, text);
  }
  in->kind = SV_TEXTS;
  return true;
}

static bool make_prompts(sv_request *r, kf_ctx *ctx) {
  const char *name = r->in.name;
  kf_prompts_options options = {.names = &name, .n_names = 1};
  kf_prompts *prompts = NULL;
  if (!needs_tower(r, true)) return false;
  if (!kf_model_fused(r->world->model))
    return sv_fail(r, 422,
                   "a class from its name alone needs a model with text (koofu fit --text)");
  kf_status status = kf_prompts_new(ctx, &options, &prompts);
  if (status != KF_OK) return sv_fail_status(r, ctx, status);
  bool fine = take_prompts(r, prompts);
  kf_prompts_free(prompts);
  return fine;
}

bool sv_parse_class(sv_request *r, kf_ctx *ctx) {
  sv_input *in = &r->in;
  media type = media_of(r);
  unsigned allowed = INPUT_FIELDS | FIELD_NAME | FIELD_TEXT;
  if (type != MEDIA_JSON && type != MEDIA_FORM)
    return sv_fail(r, 415, "the Content-Type must be application/json or multipart/form-data");
  if (!(type == MEDIA_JSON ? parse_json(r, allowed) : parse_form(r, ctx, allowed))) return false;
  if (!in->name) return sv_fail(r, 422, "a new class needs a name");
  if (in->by_name && in->kind == SV_NOTHING) return make_prompts(r, ctx);
  if (in->by_name || in->kind == SV_TEXTS)
    return sv_fail(r, 422,
                   "a class is made from rows, images or row_numbers, or from its name alone "
                   "(\"text\": true)");
  return check_input(r, 1);
}

/* --- rows of the gallery ---------------------------------------------------------------------- */

bool sv_fetch_rows(sv_request *r, kf_ctx *ctx) {
  sv_input *in = &r->in;
  const sv_shelf *shelf = r->world->shelf;
  uint32_t dim = dim_of(r);
  if (!shelf->rows)
    return sv_fail(
        r, 422, "the raw rows of the gallery are not available: start the server with --rows DATA");
  in->rows = sv_take(&r->arena, in->n * dim, sizeof *in->rows);
  if (!in->rows) return sv_fail_memory(r);
  for (uint64_t i = 0; i < in->n; i++) {
    kf_status status = kf_data_get(ctx, shelf->rows, in->numbers[i], 1, in->rows + i * dim, NULL);
    if (status != KF_OK) return sv_fail_status(r, ctx, status);
  }
  return true;
}

/* --- /v1/embeddings --------------------------------------------------------------------------- */

/* A text, or a picture as a data URI. */
static bool parse_item(sv_request *r, sv_json *j) {
  sv_input *in = &r->in;
  char *text;
  size_t n;
  if (in->n == SV_MAX_PICTURES)
    return sv_fail(r, 413, "a request has at most %d inputs", SV_MAX_PICTURES);
  if (sv_json_next(j) == '0' || sv_json_next(j) == '[')
    sv_json_refuse(j, "tokens are not supported, only texts and pictures");
  if (!sv_json_text(j, &text, &n)) return true;
  bool words = strncmp(text, "data:image/", 11) != 0;
  if (n == 0) sv_json_refuse(j, "an input is empty");
  if (words && n > SV_MAX_TEXT) sv_json_refuse(j, "a text has more than %d bytes", SV_MAX_TEXT);
  if (!needs_tower(r, words)) return false;
  if (!words && !picture_of(j, text, n, in->n, &in->pictures[in->n])) return true;
  in->texts[in->n++] = words ? text : NULL;
  return true;
}

static bool parse_inputs(sv_request *r, sv_json *j) {
  sv_input *in = &r->in;
  in->texts = sv_take(&r->arena, SV_MAX_PICTURES, sizeof *in->texts);
  in->pictures = sv_take(&r->arena, SV_MAX_PICTURES, sizeof *in->pictures);
  if (!in->texts || !in->pictures) return sv_fail_memory(r);
  in->kind = SV_PICTURES;
  if (sv_json_next(j) != '[') return parse_item(r, j);
  sv_json_array(j);
  while (sv_json_item(j))
    if (!parse_item(r, j)) return false;
  return true;
}

static void parse_format(sv_request *r, sv_json *j) {
  char *text;
  size_t n;
  if (!sv_json_text(j, &text, &n)) return;
  r->in.base64 = strcmp(text, "base64") == 0;
  if (!r->in.base64 && strcmp(text, "float") != 0)
    sv_json_refuse(j, "encoding_format must be float or base64");
}

static bool parse_member(sv_request *r, sv_json *j, const char *key) {
  uint64_t number = 0;
  if (strcmp(key, "input") == 0 && r->in.kind == SV_NOTHING) return parse_inputs(r, j);
  if (strcmp(key, "encoding_format") == 0)
    parse_format(r, j);
  else if (strcmp(key, "dimensions") == 0) {
    if (sv_json_number(j, 1, KF_MAX_DIM, &number)) r->in.dimensions = (uint32_t)number;
  } else if (strcmp(key, "space") == 0)
    parse_space(r, j);
  else if (strcmp(key, "model") == 0 || strcmp(key, "user") == 0)
    sv_json_skip(j);
  else
    sv_json_refuse(j, "unknown or repeated field '%.60s'", key);
  return true;
}

static bool check_dimensions(sv_request *r) {
  const sv_input *in = &r->in;
  uint32_t dim = kf_encoder_dim(r->server->encoder), mapped = kf_model_dim_out(r->world->model);
  if (in->raw && in->dimensions && in->dimensions != dim)
    return sv_fail(
        r, 422, "the embeddings of the encoder have %u dimensions; fewer need \"space\": \"koofu\"",
        dim);
  if (!in->raw && in->dimensions > mapped)
    return sv_fail(r, 422, "the model has %u dimensions", mapped);
  if (!in->raw && dim != dim_of(r))
    return sv_fail(r, 422, "the encoder has %u dimensions, the model takes %u", dim, dim_of(r));
  return true;
}

bool sv_parse_embeddings(sv_request *r, kf_ctx *ctx) {
  (void)ctx;
  if (media_of(r) != MEDIA_JSON)
    return sv_fail(r, 415, "the Content-Type must be application/json");
  r->in.raw = true; /* unless the request names the space */
  sv_json j = sv_json_of(r->body, r->n_body);
  char *key;
  sv_json_object(&j);
  while (sv_json_key(&j, &key))
    if (!parse_member(r, &j, key)) return false;
  if (!sv_json_end(&j)) return fail_json(r, &j);
  if (r->in.kind == SV_NOTHING || r->in.n == 0)
    return sv_fail(r, 422, "input is needed: a text, a picture as a data URI, or a list of these");
  return check_dimensions(r);
}
