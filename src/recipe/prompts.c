/* prompts.c - makes prompts from class names and templates, and text prototypes from prompts. */
#include "recipe/recipe.h"

#include <ctype.h>
#include <string.h>

struct kf_prompts {
  uint64_t n;
  kf_string bytes; /* the prompts, each with its NUL */
  char **texts;
  int32_t *classes; /* [n]; NULL: no classes */
  size_t room;      /* of classes */
  kf_names names;   /* of classes */
};

/* --- lines of a file -------------------------------------------------------------------------- */

typedef struct lines {
  const char *path;
  kf_string bytes; /* each line with a NUL */
  size_t n;
  char **items;
} lines;

static kf_status keep_line(void *argument, uint64_t line, const char *text, size_t length,
                           kf_err *err) {
  lines *l = argument;
  if (!kf_utf8_valid(text, length))
    return kf_fail_file(err, l->path, "line %llu is not valid UTF-8", (unsigned long long)line);
  kf_string_add(&l->bytes, text, length);
  kf_string_add(&l->bytes, "", 1);
  l->n++;
  return KF_OK;
}

/* Points at n strings that follow one another, each with its NUL. */
static kf_status point_at(const kf_string *bytes, uint64_t n, char ***out, kf_err *err) {
  *out = kf_alloc(n, sizeof **out);
  if (*out == NULL || bytes->failed) return kf_fail_memory(err);
  char *at = bytes->data;
  for (uint64_t i = 0; i < n; i++, at += strlen(at) + 1) (*out)[i] = at;
  return KF_OK;
}

static void clear_lines(lines *l) {
  kf_string_clear(&l->bytes);
  kf_free(l->items);
}

/* The lines must be cleared after a failure, too. */
static kf_status read_lines(const char *path, lines *out, kf_err *err) {
  *out = (lines){.path = path};
  KF_TRY(kf_lines_read(path, keep_line, out, err));
  if (out->n == 0) return kf_fail_file(err, path, "is empty");
  return point_at(&out->bytes, out->n, &out->items, err);
}

/* --- names ------------------------------------------------------------------------------------ */

/* A class: its label, and the names for prompts, separated by commas. */
typedef struct class_names {
  const char *label;
  char *names;
  bool whole; /* there is one name; commas are part of it */
} class_names;

typedef struct builder {
  const kf_prompts_options *options;
  kf_prompts *prompts;
  kf_arena arena;
  lines class_lines, spoken, template_lines;
  class_names *classes;
  size_t n_classes;
  const char *const *templates;
  size_t n_templates;
  kf_err *err;
} builder;

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

static char *trim(char *text) {
  while (is_blank(*text)) text++;
  for (size_t n = strlen(text); n > 0 && is_blank(text[n - 1]);) text[--n] = '\0';
  return text;
}

/* '#' at the start or after a blank begins a comment. */
static void cut_comment(char *text) {
  for (char *c = text; *c != '\0'; c++)
    if (*c == '#' && (c == text || is_blank(c[-1]))) {
      *c = '\0';
      return;
    }
}

/* Unquotes 'name', # comment, as in a Python list. NULL: the closing quotation mark is followed by
 * something other than a comma or a comment. */
static char *unquote(char *text) {
  char *end = strrchr(text + 1, *text);
  for (char *c = text + 1; *c != '\0'; c++) /* the last mark before a comment */
    if (*c == *text && (c[1] == ',' || c[1] == '\0' || is_blank(c[1]))) {
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

/* Reads the names in a line, and modifies it. */
static kf_status read_names(const char *path, size_t line, char *text, class_names *out,
                            kf_err *err) {
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

/* The length of the first of several names, without blanks after it. */
static size_t name_length(const class_names *c, const char *name) {
  size_t n = c->whole ? strlen(name) : strcspn(name, ",");
  while (n > 0 && is_blank(name[n - 1])) n--;
  return n;
}

/* Adds line i to a dictionary; fails if the dictionary has the text already. */
static kf_status add_once(kf_dict *dict, const char *path, size_t i, const char *text,
                          size_t length, kf_hint hint, kf_err *err) {
  int64_t before = kf_dict_find(dict, text, length);
  if (before >= 0)
    return kf_fail_hint(err, KF_ERR_DATA, hint,
                        "%s: line %zu repeats the class name '%.*s' of line %lld", path, i + 1,
                        (int)(length < 64 ? length : 64), text, (long long)before + 1);
  return kf_dict_add(dict, text, length, (uint32_t)i) ? KF_OK : kf_fail_memory(err);
}

/* Classes must differ by their label, or by the name that prompts are made of. */
static kf_status check_repeats(const builder *b) {
  const kf_prompts_options *o = b->options;
  bool by_label = o->spoken != NULL || o->repeats == KF_REPEATS_NAMES;
  if (o->repeats == KF_REPEATS_ALL && o->spoken == NULL) return KF_OK;
  kf_dict *dict = kf_dict_new((uint32_t)b->n_classes);
  if (dict == NULL) return kf_fail_memory(b->err);
  kf_status status = KF_OK;
  for (size_t k = 0; k < b->n_classes && status == KF_OK; k++) {
    const class_names *c = &b->classes[k];
    const char *text = by_label ? c->label : c->names;
    size_t length = by_label ? strlen(text) : name_length(c, text);
    status = add_once(dict, o->names != NULL ? "the list of class names" : o->classes, k, text,
                      length, by_label ? KF_HINT_NONE : KF_HINT_REPEATS, b->err);
  }
  kf_dict_free(dict);
  return status;
}

/* --- spoken names ----------------------------------------------------------------------------- */

/* Splits the lines 'CLASS<tab>NAMES' in place and adds their classes to the dictionary. */
static kf_status index_spoken(const lines *l, kf_dict *dict, kf_err *err) {
  for (size_t i = 0; i < l->n; i++) {
    char *tab = strchr(l->items[i], '\t');
    if (tab == NULL)
      return kf_fail_file(err, l->path, "line %zu has no tab after the class", i + 1);
    *tab = '\0';
    KF_TRY(add_once(dict, l->path, i, l->items[i], strlen(l->items[i]), KF_HINT_NONE, err));
  }
  return KF_OK;
}

static kf_status find_spoken(builder *b, const kf_dict *dict) {
  const lines *l = &b->spoken;
  for (size_t k = 0; k < b->n_classes; k++) {
    const char *label = b->classes[k].label;
    int64_t i = kf_dict_find(dict, label, strlen(label));
    if (i < 0)
      return kf_fail_file(b->err, l->path, "no line for the class '%.64s' (line %zu of %s)", label,
                          k + 1, b->options->names != NULL ? "the names" : b->options->classes);
    char *names = l->items[i] + strlen(l->items[i]) + 1;
    KF_TRY(read_names(l->path, (size_t)i + 1, names, &b->classes[k], b->err));
  }
  return KF_OK;
}

static kf_status look_up(builder *b) {
  if (b->options->spoken == NULL) return KF_OK;
  KF_TRY(read_lines(b->options->spoken, &b->spoken, b->err));
  kf_dict *dict = kf_dict_new((uint32_t)b->spoken.n);
  if (dict == NULL) return kf_fail_memory(b->err);
  kf_status status = index_spoken(&b->spoken, dict, b->err);
  if (status == KF_OK) status = find_spoken(b, dict);
  kf_dict_free(dict);
  return status;
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

/* `out` has room for the name. Runs of underscores and blanks become one blank. */
static char *spell_folder(const char *name, char *out) {
  size_t n = 0;
  for (const char *c = skip_number(name); *c != '\0'; c++) {
    bool blank = *c == '_' || is_blank(*c);
    if (!blank || (n > 0 && out[n - 1] != ' ')) out[n++] = blank ? ' ' : *c;
  }
  out[n] = '\0';
  return *trim(out) != '\0' ? trim(out) : strcpy(out, name);
}

/* --- classes ---------------------------------------------------------------------------------- */

static kf_status take_names(builder *b) {
  const kf_prompts_options *o = b->options;
  for (size_t k = 0; k < o->n_names; k++) {
    const char *name = o->names[k];
    if (name == NULL || *name == '\0' || !kf_utf8_valid(name, strlen(name)))
      return kf_fail(b->err, KF_ERR_ARG, "class name %zu is NULL, empty or not UTF-8", k);
    char *copy = kf_arena_take(&b->arena, strlen(name) + 1, 1);
    if (copy == NULL) return kf_fail_memory(b->err);
    if (o->folders)
      copy = spell_folder(name, copy);
    else
      strcpy(copy, name);
    b->classes[k] = (class_names){.label = name, .names = copy, .whole = true};
  }
  return KF_OK;
}

static kf_status split_class_lines(builder *b) {
  const lines *l = &b->class_lines;
  for (size_t k = 0; k < l->n; k++) {
    if (strchr(l->items[k], '\t') != NULL)
      return kf_fail_hint(b->err, KF_ERR_DATA, KF_HINT_SPOKEN,
                          "%s: line %zu has a tab, which no class name has", l->path, k + 1);
    KF_TRY(read_names(l->path, k + 1, l->items[k], &b->classes[k], b->err));
    b->classes[k].label = b->classes[k].names;
  }
  return KF_OK;
}

static kf_status take_classes(builder *b) {
  const kf_prompts_options *o = b->options;
  if (o->names == NULL) KF_TRY(read_lines(o->classes, &b->class_lines, b->err));
  b->n_classes = o->names != NULL ? o->n_names : b->class_lines.n;
  if (b->n_classes == 0 || b->n_classes > KF_MAX_CLASSES)
    return kf_fail(b->err, KF_ERR_ARG, "%zu class names; there must be 1 to %u", b->n_classes,
                   KF_MAX_CLASSES);
  KF_TAKE(&b->arena, b->classes, b->n_classes);
  if (b->classes == NULL) return kf_fail_memory(b->err);
  KF_TRY(o->names != NULL ? take_names(b) : split_class_lines(b));
  KF_TRY(check_repeats(b));
  return look_up(b);
}

static kf_status keep_labels(builder *b) {
  const char **labels;
  KF_TAKE(&b->arena, labels, b->n_classes);
  if (labels == NULL) return kf_fail_memory(b->err);
  for (size_t k = 0; k < b->n_classes; k++) labels[k] = b->classes[k].label;
  return kf_names_copy(labels, (uint32_t)b->n_classes, &b->prompts->names, b->err);
}

/* --- templates -------------------------------------------------------------------------------- */

static kf_status take_templates(builder *b) {
  const char *given = b->options->templates != NULL ? b->options->templates : "builtin7";
  lines *l = &b->template_lines;
  b->templates = kf_builtin_templates(given, &b->n_templates);
  if (b->templates != NULL) return KF_OK;
  kf_status status = read_lines(given, l, b->err);
  if (status == KF_ERR_IO && strncmp(given, "builtin", 7) == 0)
    return kf_fail(b->err, status,
                   "%s: no such file; the built-in templates are builtin1, builtin7 and builtin80",
                   given);
  KF_TRY(status);
  for (size_t i = 0; i < l->n; i++)
    if (strstr(l->items[i], "{}") == NULL)
      return kf_fail_file(b->err, given, "line %zu has no {} for the name", i + 1);
  b->templates = (const char *const *)l->items;
  b->n_templates = l->n;
  return KF_OK;
}

/* --- prompts ---------------------------------------------------------------------------------- */

static kf_status add_prompt(builder *b, size_t class, const char *template, const char *name,
                            size_t length) {
  kf_prompts *p = b->prompts;
  if (!kf_grow((void **)&p->classes, &p->room, p->n, sizeof *p->classes))
    return kf_fail_memory(b->err);
  p->classes[p->n++] = (int32_t) class;
  for (const char *at; (at = strstr(template, "{}")) != NULL; template = at + 2) {
    kf_string_add(&p->bytes, template, (size_t)(at - template));
    kf_string_add(&p->bytes, name, length);
  }
  kf_string_add(&p->bytes, template, strlen(template) + 1);
  return KF_OK;
}

/* Adds the prompts of a class: of the first of its names, or of each. */
static kf_status add_class(builder *b, size_t k) {
  const class_names *c = &b->classes[k];
  for (const char *name = c->names; *name != '\0';) {
    size_t all = c->whole ? strlen(name) : strcspn(name, ","), length = name_length(c, name);
    for (size_t t = 0; length > 0 && t < b->n_templates; t++)
      KF_TRY(add_prompt(b, k, b->templates[t], name, length));
    if (length > 0 && !b->options->all_names) return KF_OK;
    name += all + (name[all] == ',');
    while (is_blank(*name)) name++;
  }
  return KF_OK;
}

static kf_status build(builder *b) {
  KF_TRY(take_templates(b));
  KF_TRY(take_classes(b));
  KF_TRY(keep_labels(b));
  for (size_t k = 0; k < b->n_classes; k++) KF_TRY(add_class(b, k));
  return point_at(&b->prompts->bytes, b->prompts->n, &b->prompts->texts, b->err);
}

kf_status kf_prompts_new(kf_ctx *ctx, const kf_prompts_options *options, kf_prompts **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, options != NULL && out != NULL);
  KF_OPTIONS(kf_prompts_options, o, options);
  if (o.classes == NULL && o.names == NULL) return kf_fail(err, KF_ERR_ARG, "no class names");
  builder b = {.options = &o, .prompts = kf_alloc_zero(1, sizeof *b.prompts), .err = err};
  kf_status status = b.prompts != NULL ? build(&b) : kf_fail_memory(err);
  if (status == KF_OK)
    *out = b.prompts;
  else
    kf_prompts_free(b.prompts);
  clear_lines(&b.class_lines);
  clear_lines(&b.spoken);
  clear_lines(&b.template_lines);
  kf_arena_free(&b.arena);
  return status;
}

kf_status kf_prompts_read(kf_ctx *ctx, const char *path, kf_prompts **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, path != NULL && out != NULL);
  kf_prompts *p = kf_alloc_zero(1, sizeof *p);
  if (p == NULL) return kf_fail_memory(err);
  lines l;
  kf_status status = read_lines(path, &l, err);
  *p = (kf_prompts){.n = l.n, .bytes = l.bytes, .texts = l.items}; /* takes them over */
  KF_HAND_OUT(status, out, p, kf_prompts_free);
}

void kf_prompts_free(kf_prompts *p) {
  if (p == NULL) return;
  kf_string_clear(&p->bytes);
  kf_names_clear(&p->names);
  kf_free(p->texts);
  kf_free(p->classes);
  kf_free(p);
}

uint64_t kf_prompts_count(const kf_prompts *p) { return p->n; }
uint32_t kf_prompts_classes(const kf_prompts *p) { return p->names.n; }

const char *kf_prompts_text(const kf_prompts *p, uint64_t i) {
  return i < p->n ? p->texts[i] : NULL;
}

int32_t kf_prompts_class(const kf_prompts *p, uint64_t i) {
  return i < p->n && p->classes != NULL ? p->classes[i] : KF_LABEL_NONE;
}

const char *kf_prompts_class_name(const kf_prompts *p, uint32_t k) {
  return k < p->names.n ? p->names.name[k] : NULL;
}

/* --- embeddings ------------------------------------------------------------------------------- */

/* Encodes prompts to `text` or, if that is NULL, to a file. */
static kf_status encode(kf_ctx *ctx, const kf_encoder *encoder, const kf_prompts *p,
                        const kf_text_options *options, kf_text **text, kf_dtype dtype,
                        const char *path) {
  uint32_t dim = kf_encoder_dim(encoder);
  kf_data *data = NULL;
  float *rows = kf_alloc(p->n * dim, sizeof *rows);
  if (rows == NULL) return kf_fail_memory(&ctx->err);
  kf_status status = kf_encode_texts(ctx, encoder, (const char *const *)p->texts, p->n, rows);
  if (status == KF_OK)
    status = kf_data_open_memory(ctx, rows, p->n, dim, p->classes,
                                 (const char *const *)p->names.name, p->names.n, &data);
  if (status == KF_OK) {
    data->origin = *kf_encoder_origin(encoder);
    if (p->classes != NULL) data->made_with = kf_prompts_checksum(p, encoder);
  }
  if (status == KF_OK)
    status =
        text != NULL ? kf_text_new(ctx, data, options, text) : kf_data_save(ctx, data, dtype, path);
  kf_data_free(data);
  kf_free(rows);
  return status;
}

uint64_t kf_prompts_checksum(const kf_prompts *p, const kf_encoder *encoder) {
  const uint64_t head[] = {1 /* version */, kf_encoder_checksum(encoder), p->n, p->names.n};
  kf_checksum sum;
  kf_checksum_start(&sum);
  kf_checksum_add(&sum, head, sizeof head);
  for (uint64_t i = 0; i < p->n; i++) {
    kf_checksum_add(&sum, p->texts[i], strlen(p->texts[i]) + 1);
    kf_checksum_add(&sum, &p->classes[i], sizeof p->classes[i]);
  }
  for (uint32_t k = 0; k < p->names.n; k++)
    kf_checksum_add(&sum, p->names.name[k], strlen(p->names.name[k]) + 1);
  return kf_checksum_value(&sum);
}

kf_status kf_text_new_from_prompts(kf_ctx *ctx, const kf_encoder *encoder,
                                   const kf_prompts *prompts, const kf_text_options *options,
                                   kf_text **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, encoder != NULL && prompts != NULL && out != NULL);
  if (prompts->classes == NULL) return kf_fail(err, KF_ERR_ARG, "the prompts have no classes");
  return encode(ctx, encoder, prompts, options, out, KF_F32, NULL);
}

kf_status kf_prompts_embed(kf_ctx *ctx, const kf_encoder *encoder, const kf_prompts *prompts,
                           kf_dtype dtype, const char *path) {
  KF_ENTER(ctx, encoder != NULL && prompts != NULL && path != NULL);
  return encode(ctx, encoder, prompts, NULL, NULL, dtype, path);
}
