/* prompts.c - makes prompts from class names and templates, and text prototypes from prompts. */
#include "recipe/names.h"

#include <string.h>

struct kf_prompts {
  uint64_t n;
  kf_string bytes; /* the prompts, each with its NUL */
  char **texts;
  int32_t *classes; /* [n]; NULL: no classes */
  size_t room;      /* of classes */
  kf_names names;   /* of classes */
};

typedef struct builder {
  const kf_prompts_options *options;
  kf_prompts *prompts;
  kf_arena arena;
  kf_line_list class_lines, template_lines;
  kf_name_file spoken;
  kf_called *classes;
  size_t n_classes;
  const char *const *templates;
  size_t n_templates;
  kf_err *err;
} builder;

/* Classes must differ by their label, or by the name that prompts are made of. */
static kf_status check_repeats(const builder *b) {
  const kf_prompts_options *o = b->options;
  bool by_label = o->spoken != NULL || o->repeats == KF_REPEATS_NAMES;
  if (o->repeats == KF_REPEATS_ALL && o->spoken == NULL) return KF_OK;
  kf_dict *dict = kf_dict_new((uint32_t)b->n_classes);
  if (dict == NULL) return kf_fail_memory(b->err);
  kf_status status = KF_OK;
  for (size_t k = 0; k < b->n_classes && status == KF_OK; k++) {
    const kf_called *c = &b->classes[k];
    const char *text = by_label ? c->label : c->names;
    size_t length = by_label ? strlen(text) : kf_name_length(c, text);
    status = kf_add_once(dict, o->names != NULL ? "the list of class names" : o->classes, k, text,
                         length, by_label ? KF_HINT_NONE : KF_HINT_REPEATS, b->err);
  }
  kf_dict_free(dict);
  return status;
}

static kf_status find_spoken(builder *b, kf_name_file *file) {
  bool found;
  for (size_t k = 0; k < b->n_classes; k++) {
    const char *label = b->classes[k].label;
    KF_TRY(kf_name_file_find(file, label, k, &b->classes[k], &found, b->err));
    if (!found)
      return kf_fail_file(b->err, b->options->spoken,
                          "no line for the class '%.64s' (line %zu of %s)", label, k + 1,
                          b->options->names != NULL ? "the names" : b->options->classes);
  }
  return KF_OK;
}

static kf_status look_up(builder *b) {
  if (b->options->spoken == NULL) return KF_OK;
  kf_status status = kf_name_file_read(b->options->spoken, false, &b->spoken, b->err);
  return status == KF_OK ? find_spoken(b, &b->spoken) : status;
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
      copy = kf_spell_folder(name, copy);
    else
      strcpy(copy, name);
    b->classes[k] = (kf_called){.label = name, .names = copy, .whole = true};
  }
  return KF_OK;
}

static kf_status split_class_lines(builder *b) {
  const kf_line_list *l = &b->class_lines;
  for (size_t k = 0; k < l->n; k++) {
    if (strchr(l->items[k], '\t') != NULL)
      return kf_fail_hint(b->err, KF_ERR_DATA, KF_HINT_SPOKEN,
                          "%s: line %zu has a tab, which no class name has", l->path, k + 1);
    KF_TRY(kf_called_read(l->path, k + 1, l->items[k], &b->classes[k], b->err));
    b->classes[k].label = b->classes[k].names;
  }
  return KF_OK;
}

static kf_status take_classes(builder *b) {
  const kf_prompts_options *o = b->options;
  if (o->names == NULL) KF_TRY(kf_line_list_read(o->classes, &b->class_lines, b->err));
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
  kf_line_list *l = &b->template_lines;
  b->templates = kf_builtin_templates(given, &b->n_templates);
  if (b->templates != NULL) return KF_OK;
  kf_status status = kf_line_list_read(given, l, b->err);
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
  const kf_called *c = &b->classes[k];
  for (const char *name = c->names; *name != '\0';) {
    size_t all = c->whole ? strlen(name) : strcspn(name, ","), length = kf_name_length(c, name);
    for (size_t t = 0; length > 0 && t < b->n_templates; t++)
      KF_TRY(add_prompt(b, k, b->templates[t], name, length));
    if (length > 0 && !b->options->all_names) return KF_OK;
    name += all + (name[all] == ',');
    while (kf_is_blank(*name)) name++;
  }
  return KF_OK;
}

static kf_status build(builder *b) {
  KF_TRY(take_templates(b));
  KF_TRY(take_classes(b));
  KF_TRY(keep_labels(b));
  for (size_t k = 0; k < b->n_classes; k++) KF_TRY(add_class(b, k));
  return kf_point_at(&b->prompts->bytes, b->prompts->n, &b->prompts->texts, b->err);
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
  kf_line_list_clear(&b.class_lines);
  kf_name_file_clear(&b.spoken);
  kf_line_list_clear(&b.template_lines);
  kf_arena_free(&b.arena);
  return status;
}

kf_status kf_prompts_read(kf_ctx *ctx, const char *path, kf_prompts **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, path != NULL && out != NULL);
  kf_prompts *p = kf_alloc_zero(1, sizeof *p);
  if (p == NULL) return kf_fail_memory(err);
  kf_line_list l;
  kf_status status = kf_line_list_read(path, &l, err);
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
