/* names.c - what classes are called: files of names, and names of folders as words. */
#include "recipe/names.h"

#include <ctype.h>
#include <string.h>

#define JSON_CAP (64u << 20)

/* --- lines of a file -------------------------------------------------------------------------- */

static kf_status keep_line(void *argument, uint64_t line, const char *text, size_t length,
                           kf_err *err) {
  kf_line_list *l = argument;
  if (!kf_utf8_valid(text, length))
    return kf_fail_file(err, l->path, "line %llu is not valid UTF-8", (unsigned long long)line);
  kf_string_add(&l->bytes, text, length);
  kf_string_add(&l->bytes, "", 1);
  l->n++;
  return KF_OK;
}

kf_status kf_point_at(const kf_string *bytes, uint64_t n, char ***out, kf_err *err) {
  *out = kf_alloc(n, sizeof **out);
  if (*out == NULL || bytes->failed) return kf_fail_memory(err);
  char *at = bytes->data;
  for (uint64_t i = 0; i < n; i++, at += strlen(at) + 1) (*out)[i] = at;
  return KF_OK;
}

void kf_line_list_clear(kf_line_list *l) {
  kf_string_clear(&l->bytes);
  kf_free(l->items);
}

kf_status kf_line_list_read(const char *path, kf_line_list *out, kf_err *err) {
  *out = (kf_line_list){.path = path};
  KF_TRY(kf_lines_read(path, keep_line, out, err));
  if (out->n == 0) return kf_fail_file(err, path, "is empty");
  return kf_point_at(&out->bytes, out->n, &out->items, err);
}

/* --- names ------------------------------------------------------------------------------------ */

static char *trim(char *text) {
  while (kf_is_blank(*text)) text++;
  for (size_t n = strlen(text); n > 0 && kf_is_blank(text[n - 1]);) text[--n] = '\0';
  return text;
}

/* '#' at the start or after a blank begins a comment. */
static void cut_comment(char *text) {
  for (char *c = text; *c != '\0'; c++)
    if (*c == '#' && (c == text || kf_is_blank(c[-1]))) {
      *c = '\0';
      return;
    }
}

/* Unquotes 'name', # comment, as in a Python list. NULL: the closing quotation mark is followed by
 * something other than a comma or a comment. */
static char *unquote(char *text) {
  char *end = strrchr(text + 1, *text);
  for (char *c = text + 1; *c != '\0'; c++) /* the last mark before a comment */
    if (*c == *text && (c[1] == ',' || c[1] == '\0' || kf_is_blank(c[1]))) {
      end = c;
      break;
    }
  if (end == NULL) return NULL;
  char *rest = end + 1;
  if (*rest == ',') rest++;
  cut_comment(rest);
  if (*trim(rest) != '\0') return NULL;
  *end = '\0';
  return text + 1;
}

kf_status kf_called_read(const char *path, size_t line, char *text, kf_called *out, kf_err *err) {
  text = trim(text);
  out->whole = *text == '\'' || *text == '"';
  if (out->whole)
    text = unquote(text);
  else
    cut_comment(text);
  if (text == NULL)
    return kf_fail_file(err, path, "line %zu: the quotation mark does not end a name", line);
  out->names = trim(text);
  size_t n = strlen(out->names);
  if (!out->whole && n > 0 && out->names[n - 1] == ',') out->names[n - 1] = '\0';
  if (*out->names == '\0')
    return kf_fail_file(err, path, "line %zu is empty, where a class name must be", line);
  return KF_OK;
}

size_t kf_name_length(const kf_called *c, const char *name) {
  size_t n = c->whole ? strlen(name) : strcspn(name, ",");
  while (n > 0 && kf_is_blank(name[n - 1])) n--;
  return n;
}

kf_status kf_add_once(kf_dict *dict, const char *path, size_t i, const char *text, size_t length,
                      kf_hint hint, kf_err *err) {
  int64_t before = kf_dict_find(dict, text, length);
  if (before >= 0)
    return kf_fail_hint(err, KF_ERR_DATA, hint,
                        "%s: line %zu repeats the class name '%.*s' of line %lld", path, i + 1,
                        (int)(length < 64 ? length : 64), text, (long long)before + 1);
  return kf_dict_add(dict, text, length, (uint32_t)i) ? KF_OK : kf_fail_memory(err);
}

/* --- files of names --------------------------------------------------------------------------- */

/* Splits the lines 'CLASS<tab>NAMES' in place. */
static kf_status split_lines(const kf_line_list *l, kf_err *err) {
  for (size_t i = 0; i < l->n; i++) {
    char *end = strchr(l->items[i], '\t');
    if (end == NULL)
      return kf_fail_file(err, l->path, "line %zu has no tab after the class", i + 1);
    *end = '\0';
  }
  return KF_OK;
}

static kf_status keep_pair(void *argument, uint64_t line, const char *label, const char *name,
                           kf_err *err) {
  (void)line;
  kf_line_list *l = argument;
  kf_string_add(&l->bytes, label, strlen(label) + 1);
  kf_string_add(&l->bytes, name, strlen(name) + 1);
  l->n++;
  return l->bytes.failed ? kf_fail_memory(err) : KF_OK;
}

/* The first two columns, read as lines 'CLASS' and NUL and 'NAME'. */
static kf_status read_csv(kf_line_list *l, const char *path, kf_err *err) {
  l->path = path;
  KF_TRY(kf_table_each_pair(path, "1", "2", keep_pair, l, err));
  KF_TRY(kf_point_at(&l->bytes, 2 * l->n, &l->items, err));
  for (size_t i = 0; i < l->n; i++) l->items[i] = l->items[2 * i];
  return KF_OK;
}

static bool has_tabs(const kf_line_list *l) {
  for (size_t i = 0; i < l->n; i++)
    if (strchr(l->items[i], '\t') != NULL) return true;
  return false;
}

static kf_status read_text(kf_name_file *f, const char *path, bool in_order, kf_err *err) {
  kf_line_list *l = &f->lines;
  f->csv = kf_ends_with(path, ".csv");
  KF_TRY(f->csv ? read_csv(l, path, err) : kf_line_list_read(path, l, err));
  if (in_order && !f->csv && !has_tabs(l)) return KF_OK;
  if (!f->csv) KF_TRY(split_lines(l, err));
  if ((f->places = kf_dict_new((uint32_t)l->n)) == NULL) return kf_fail_memory(err);
  for (size_t i = 0; i < l->n; i++)
    KF_TRY(kf_add_once(f->places, path, i, l->items[i], strlen(l->items[i]), KF_HINT_NONE, err));
  return KF_OK;
}

/* {"LABEL": "NAME", ...} */
static kf_status read_json(kf_name_file *f, const char *path, kf_err *err) {
  f->lines.path = path;
  KF_TRY(kf_json_load_object(path, JSON_CAP, &f->doc, err));
  for (const kf_json *node = kf_json_first(&f->doc, f->doc.nodes); node != NULL;
       node = kf_json_next(&f->doc, node))
    if (kf_json_string(node) == NULL || *kf_json_string(node) == '\0')
      return kf_fail_file(err, path, "the name of '%.64s' is not a text", node->key);
  return KF_OK;
}

kf_status kf_name_file_read(const char *path, bool in_order, kf_name_file *out, kf_err *err) {
  *out = (kf_name_file){0};
  return kf_ends_with(path, ".json") ? read_json(out, path, err)
                                     : read_text(out, path, in_order, err);
}

void kf_name_file_clear(kf_name_file *f) {
  kf_line_list_clear(&f->lines);
  kf_json_clear(&f->doc);
  kf_dict_free(f->places);
}

kf_status kf_name_file_find(kf_name_file *f, const char *label, size_t k, kf_called *out,
                            bool *found, kf_err *err) {
  out->label = label;
  if (f->doc.nodes != NULL) {
    const kf_json *node = kf_json_get(&f->doc, f->doc.nodes, label);
    *found = node != NULL;
    out->whole = true;
    out->names = f->doc.text + (*found ? node->text - f->doc.text : 0);
    return KF_OK;
  }
  int64_t i = f->places != NULL ? kf_dict_find(f->places, label, strlen(label)) : (int64_t)k;
  *found = i >= 0 && (size_t)i < f->lines.n;
  if (!*found) return KF_OK;
  char *names = f->lines.items[i];
  if (f->places != NULL) names += strlen(names) + 1;
  out->whole = f->csv;
  out->names = names;
  if (f->csv) return KF_OK;
  return kf_called_read(f->lines.path, (size_t)i + 1, names, out, err);
}

/* --- names of folders ------------------------------------------------------------------------- */

bool kf_is_word(const char *name) {
  const char *c = *name == 'n' && strspn(name + 1, "0123456789") >= 8 ? name + 1 : name;
  for (; *c != '\0'; c++)
    if ((unsigned char)*c >= 0x80 || (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z'))
      return true;
  return false;
}

/* Skips the number of "n01440764_tench" or "017.Cardinal", unless the name has nothing else. */
static const char *skip_number(const char *name) {
  const char *c = name;
  bool wordnet = *c == 'n' && strspn(c + 1, "0123456789") == 8;
  if (wordnet) c++;
  size_t digits = strspn(c, "0123456789");
  c += digits;
  size_t marks = strspn(c, wordnet ? "_- " : "._- ");
  return digits > 0 && marks > 0 && isalpha((unsigned char)c[marks]) ? c + marks : name;
}

/* Runs of underscores and blanks become one blank. */
char *kf_spell_folder(const char *name, char *out) {
  size_t n = 0;
  for (const char *c = skip_number(name); *c != '\0'; c++) {
    bool blank = *c == '_' || kf_is_blank(*c);
    if (!blank || (n > 0 && out[n - 1] != ' ')) out[n++] = blank ? ' ' : *c;
  }
  out[n] = '\0';
  return *trim(out) != '\0' ? trim(out) : strcpy(out, name);
}

/* --- names for people ------------------------------------------------------------------------- */

struct kf_class_names {
  uint32_t n;
  const char **names; /* [n]; NULL: as the label */
  kf_dict *labels;
  kf_arena arena;
};

typedef struct naming {
  kf_class_names *out;
  const char *const *labels; /* NULL: numbers */
  kf_name_file file;
  uint32_t missing, first_missing;
} naming;

static const char *keep(kf_arena *arena, const char *text, size_t n) {
  char *copy = kf_arena_take_zero(arena, n + 1, 1);
  return copy != NULL ? memcpy(copy, text, n) : NULL;
}

/* The label of a class, or its number; `number` has room for it. */
static const char *label_of(const naming *j, uint32_t k, char number[16]) {
  if (j->labels != NULL) return j->labels[k];
  snprintf(number, 16, "%u", k);
  return number;
}

static kf_status call_class(naming *j, uint32_t k, const char *path, kf_err *err) {
  char number[16];
  kf_class_names *o = j->out;
  const char *label = label_of(j, k, number);
  if (!kf_dict_add(o->labels, label, strlen(label), k)) return kf_fail_memory(err);
  if (path == NULL) {
    char *copy = kf_arena_take(&o->arena, strlen(label) + 1, 1);
    if (copy != NULL) o->names[k] = kf_spell_folder(label, copy);
    return copy != NULL ? KF_OK : kf_fail_memory(err);
  }
  kf_called called;
  bool found;
  KF_TRY(kf_name_file_find(&j->file, label, k, &called, &found, err));
  if (found)
    o->names[k] = keep(&o->arena, called.names, kf_name_length(&called, called.names));
  else if (j->missing++ == 0)
    j->first_missing = k;
  return o->arena.failed ? kf_fail_memory(err) : KF_OK;
}

/* "crane (n02012849)" */
static kf_status add_label(naming *j, uint32_t k, kf_err *err) {
  char number[16];
  kf_string text = {0};
  kf_string_addf(&text, "%s (%s)", j->out->names[k], label_of(j, k, number));
  j->out->names[k] = text.failed ? NULL : keep(&j->out->arena, text.data, text.n);
  kf_string_clear(&text);
  return j->out->names[k] != NULL ? KF_OK : kf_fail_memory(err);
}

/* Classes with the same name remain different classes, so they show their labels, too. */
static kf_status tell_apart(naming *j, kf_err *err) {
  const kf_class_names *o = j->out;
  kf_dict *seen = kf_dict_new(o->n);
  bool *repeated = kf_alloc_zero(o->n, sizeof *repeated);
  kf_status status = seen != NULL && repeated != NULL ? KF_OK : kf_fail_memory(err);
  for (uint32_t k = 0; status == KF_OK && k < o->n; k++) {
    if (o->names[k] == NULL) continue;
    size_t length = strlen(o->names[k]);
    int64_t before = kf_dict_find(seen, o->names[k], length);
    if (before >= 0)
      repeated[before] = repeated[k] = true;
    else if (!kf_dict_add(seen, o->names[k], length, k))
      status = kf_fail_memory(err);
  }
  for (uint32_t k = 0; status == KF_OK && k < o->n; k++)
    if (repeated[k]) status = add_label(j, k, err);
  kf_dict_free(seen);
  kf_free(repeated);
  return status;
}

static kf_status check_names(kf_ctx *ctx, const naming *j, const char *path) {
  char number[16];
  uint32_t n = j->out->n;
  if (j->file.lines.n > 0 && j->file.places == NULL && j->file.lines.n != n)
    return kf_fail_file(&ctx->err, path,
                        "has %zu names for %u classes, but must have one for each, or lines "
                        "'CLASS<tab>NAME'",
                        j->file.lines.n, n);
  if (j->missing == 0) return KF_OK;
  const char *first = label_of(j, j->first_missing, number);
  if (j->missing == n)
    return kf_fail_file(&ctx->err, path, "names none of the %u classes, such as '%.64s'", n, first);
  kf_log(ctx, "%s: does not name %u of the %u classes, such as '%.64s'", path, j->missing, n,
         first);
  return KF_OK;
}

static kf_status call_classes(kf_ctx *ctx, naming *j, const char *path) {
  kf_class_names *o = j->out;
  o->labels = kf_dict_new(o->n);
  KF_TAKE_ZERO(&o->arena, o->names, o->n);
  if (o->labels == NULL || o->arena.failed) return kf_fail_memory(&ctx->err);
  if (path != NULL) KF_TRY(kf_name_file_read(path, true, &j->file, &ctx->err));
  for (uint32_t k = 0; k < o->n; k++) KF_TRY(call_class(j, k, path, &ctx->err));
  if (path != NULL) KF_TRY(check_names(ctx, j, path));
  return tell_apart(j, &ctx->err);
}

kf_status kf_class_names_load(kf_ctx *ctx, const char *path, const char *const *labels,
                              uint32_t n_classes, kf_class_names **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, out != NULL && n_classes > 0);
  naming j = {.out = kf_alloc_zero(1, sizeof *j.out), .labels = labels};
  if (j.out == NULL) return kf_fail_memory(err);
  j.out->n = n_classes;
  kf_status status = call_classes(ctx, &j, path);
  kf_name_file_clear(&j.file);
  KF_HAND_OUT(status, out, j.out, kf_class_names_free);
}

void kf_class_names_free(kf_class_names *names) {
  if (names == NULL) return;
  kf_dict_free(names->labels);
  kf_arena_free(&names->arena);
  kf_free(names);
}

const char *kf_class_names_of(const kf_class_names *names, const char *label, uint32_t k) {
  if (names == NULL) return label;
  int64_t at = label != NULL ? kf_dict_find(names->labels, label, strlen(label)) : (int64_t)k;
  return at >= 0 && at < names->n && names->names[at] != NULL ? names->names[at] : label;
}
