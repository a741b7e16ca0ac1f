/* filter.c - restricts a search to rows of some classes, or with some ids.
 *
 * The first pass scans all rows, and the filter drops survivors that do not take part, so only rows
 * that do raise the floors. If very few rows take part, they are scored one by one instead
 * (nearest.c). */
#include "search/gallery.h"

#include <string.h>

#define SPARSE 64u /* at most one row in this many */

/* --- classes --------------------------------------------------------------------------------- */

typedef struct class_list {
  const kf_gallery *gallery;
  kf_dict *dict; /* names to numbers; NULL: classes are numbers */
  bool *wanted;  /* [classes] */
  const char *path;
  bool found;        /* some class that was asked for */
  char unknown[128]; /* the last one that there is not */
} class_list;

/* false: classes have no names, and the text is not a class number. */
static bool want_class(class_list *l, const char *text, size_t length) {
  int64_t class = -1;
  if (l->dict != NULL) class = kf_dict_find(l->dict, text, length);
  for (size_t i = 0; l->dict == NULL && i < length; i++) {
    if (text[i] < '0' || text[i] > '9' || length > 9) return false;
    class = (i > 0 ? class * 10 : 0) + (text[i] - '0');
  }
  if (class >= 0 && class < (int64_t)l->gallery->n_classes)
    l->found = l->wanted[class] = true;
  else
    snprintf(l->unknown, sizeof l->unknown, "%.*s",
             (int)kf_utf8_prefix(text, length < 100 ? length : 100), text);
  return true;
}

static kf_status take_line(void *argument, uint64_t line, const char *text, size_t length,
                           kf_err *err) {
  class_list *l = argument;
  if (length == 0 || want_class(l, text, length)) return KF_OK;
  return kf_fail_file(err, l->path, "line %llu is not the number of a class",
                      (unsigned long long)line);
}

static kf_status take_classes(class_list *l, const kf_filter_options *o, kf_err *err) {
  for (uint64_t i = 0; i < o->n_names; i++) {
    const char *name = o->names[i];
    if (name == NULL || name[0] == '\0')
      return kf_fail(err, KF_ERR_ARG, "class %llu is missing", (unsigned long long)i);
    if (!want_class(l, name, strlen(name)))
      return kf_fail(err, KF_ERR_ARG,
                     "'%.200s' is not the number of a class, and the gallery has no names of "
                     "classes",
                     name);
  }
  if (o->classes != NULL) KF_TRY(kf_lines_read(o->classes, take_line, l, err));
  if (l->found || l->unknown[0] == '\0') return KF_OK;
  return kf_fail(err, KF_ERR_DATA, "%s%sthe gallery has no class '%s'",
                 l->path != NULL ? l->path : "", l->path != NULL ? ": " : "", l->unknown);
}

static kf_status keep_classes(const kf_gallery *g, const kf_filter_options *o, kf_filter *f,
                              kf_err *err) {
  class_list l = {.gallery = g, .path = o->classes};
  if (g->labels == NULL) return kf_fail_file(err, kf_gallery_path(g), "has no labels to filter by");
  if (g->names.n > 0) KF_TRY(kf_dict_new_from_names(&g->names, "the gallery", &l.dict, err));
  l.wanted = kf_alloc_zero((uint64_t)g->n_classes + 1, sizeof *l.wanted);
  kf_status status = l.wanted != NULL ? take_classes(&l, o, err) : kf_fail_memory(err);
  for (uint64_t i = 0; status == KF_OK && i < g->rows; i++)
    if (g->labels[i] < 0 || !l.wanted[g->labels[i]]) f->bits[i / 64] &= ~((uint64_t)1 << i % 64);
  kf_free(l.wanted);
  kf_dict_free(l.dict);
  return status;
}

/* --- ids ------------------------------------------------------------------------------------- */

static kf_status keep_ids(const kf_gallery *g, const kf_id_list *list, kf_filter *f, kf_err *err) {
  kf_id_set ids = {0};
  if (g->ids == NULL) return kf_fail_file(err, kf_gallery_path(g), "has no ids to filter by");
  kf_status status = kf_id_set_take(&ids, list, err);
  for (uint64_t i = 0; status == KF_OK && i < g->rows; i++)
    if (!kf_id_set_has(&ids, kf_gallery_id(g, i))) f->bits[i / 64] &= ~((uint64_t)1 << i % 64);
  kf_id_set_clear(&ids);
  return status;
}

/* --- filters --------------------------------------------------------------------------------- */

static kf_status fill(const kf_gallery *g, const kf_filter_options *o, kf_filter *f, kf_err *err) {
  f->of = g;
  f->bits = kf_alloc(g->rows / 64 + 1, sizeof *f->bits);
  if (f->bits == NULL) return kf_fail_memory(err);
  memset(f->bits, 0xFF, (g->rows / 64 + 1) * sizeof *f->bits);
  if (o->classes != NULL || o->names != NULL) KF_TRY(keep_classes(g, o, f, err));
  if (o->ids != NULL) KF_TRY(keep_ids(g, o->ids, f, err));
  for (uint64_t i = 0; i < g->rows; i++) f->n += kf_filter_takes(f, i);
  if (f->n == 0) return kf_fail(err, KF_ERR_DATA, "no row of the gallery is left to search in");
  f->rows = kf_alloc(f->n, sizeof *f->rows);
  if (f->rows == NULL) return kf_fail_memory(err);
  uint64_t n = 0;
  for (uint64_t i = 0; i < g->rows; i++)
    if (kf_filter_takes(f, i)) f->rows[n++] = i;
  f->sparse = f->n <= g->rows / SPARSE;
  return KF_OK;
}

kf_status kf_filter_new(kf_ctx *ctx, const kf_gallery *gallery, const kf_filter_options *options,
                        kf_filter **out) {
  KF_NOTHING(out);
  KF_ENTER(ctx, gallery != NULL && out != NULL);
  KF_OPTIONS(kf_filter_options, o, options);
  if (o.names == NULL && o.n_names > 0)
    return kf_fail(err, KF_ERR_ARG, "a list of classes is missing");
  kf_filter *f = kf_alloc_zero(1, sizeof *f);
  if (f == NULL) return kf_fail_memory(err);
  KF_HAND_OUT(fill(gallery, &o, f, err), out, f, kf_filter_free);
}

void kf_filter_free(kf_filter *f) {
  if (f == NULL) return;
  kf_free(f->rows);
  kf_free(f->bits);
  kf_free(f);
}

uint64_t kf_filter_rows(const kf_filter *f) { return f->n; }

kf_status kf_filter_check(const kf_filter *f, const kf_gallery *g, kf_err *err) {
  if (f == NULL) return KF_OK;
  return f->of == g ? KF_OK : kf_fail(err, KF_ERR_ARG, "the filter belongs to another gallery");
}

uint64_t kf_filter_count(const kf_filter *f, uint64_t first, uint64_t end) {
  uint64_t n = 0;
  for (uint64_t i = first; i < end; i++) n += kf_filter_takes(f, i);
  return n;
}

kf_status kf_filter_narrow(const kf_filter *f, uint64_t first, uint64_t end, kf_filter **out,
                           kf_err *err) {
  uint64_t words = (end - first) / 64 + 1;
  kf_filter *own = kf_alloc_zero(1, sizeof *own);
  if (own == NULL) return kf_fail_memory(err);
  own->of = f->of;
  own->bits = kf_alloc_zero(words, sizeof *own->bits);
  own->rows = kf_alloc(kf_filter_count(f, first, end), sizeof *own->rows);
  if (own->bits == NULL || own->rows == NULL) {
    kf_filter_free(own);
    return kf_fail_memory(err);
  }
  for (uint64_t i = 0; i < end - first; i++) {
    if (!kf_filter_takes(f, first + i)) continue;
    own->bits[i / 64] |= (uint64_t)1 << i % 64;
    own->rows[own->n++] = i;
  }
  own->sparse = own->n <= (end - first) / SPARSE;
  *out = own;
  return KF_OK;
}

uint64_t kf_filter_most(const kf_filter *f, uint64_t rows, const int64_t *leave_out, uint64_t n) {
  if (f == NULL) return kf_rows_taking_part(rows, leave_out, n);
  for (uint64_t i = 0; leave_out != NULL && i < n; i++)
    if (leave_out[i] >= 0 && (uint64_t)leave_out[i] < rows &&
        kf_filter_takes(f, (uint64_t)leave_out[i]))
      return f->n - 1;
  return f->n;
}
