/* lines.c - text files with one entry per line: labels and class names.
 *
 * UTF-8 with or without a byte order mark. Lines end in "\n" or "\r\n", the last one possibly in
 * neither. A file with a NUL byte is not text (UTF-16, or binary) and is refused. */
#include "file/file_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* --- lines --------------------------------------------------------------------------------- */

void kf_lines_start(kf_lines *lines, const kf_in *in, kf_mark mark) {
  lines->in = in;
  lines->position = mark.offset;
  lines->line = mark.line;
  lines->begin = lines->end = 0;
}

kf_mark kf_lines_mark(const kf_lines *lines) {
  return (kf_mark){.offset = lines->position - (lines->end - lines->begin), .line = lines->line};
}

/* Moves the unread part to the front of the buffer and fills the rest. */
static kf_status fill(kf_lines *lines, kf_err *err) {
  memmove(lines->buffer, lines->buffer + lines->begin, lines->end - lines->begin);
  lines->end -= lines->begin;
  lines->begin = 0;
  uint64_t left = lines->in->size - lines->position;
  size_t room = sizeof lines->buffer - lines->end;
  size_t n = left < room ? (size_t)left : room;
  if (n == 0) return KF_OK;
  KF_TRY(kf_in_read(lines->in, lines->position, lines->buffer + lines->end, n, err));
  if (lines->position == 0 && n >= 3 && memcmp(lines->buffer, "\xEF\xBB\xBF", 3) == 0)
    lines->begin = 3;
  lines->position += n;
  lines->end += n;
  return KF_OK;
}

/* The end of the line in the buffer: its newline or the end of the file; NULL: more must be
 * read. */
static const char *find_end(const kf_lines *lines) {
  const char *text = lines->buffer + lines->begin;
  size_t n = lines->end - lines->begin;
  const char *newline = memchr(text, '\n', n);
  if (newline != NULL) return newline;
  return lines->position == lines->in->size ? text + n : NULL;
}

kf_status kf_lines_next(kf_lines *lines, const char **text, size_t *length, kf_err *err) {
  const char *end = find_end(lines);
  if (end == NULL) {
    KF_TRY(fill(lines, err));
    end = find_end(lines);
  }
  const char *begin = lines->buffer + lines->begin;
  *text = NULL;
  if (end != NULL && end == lines->buffer + lines->end && begin == end) return KF_OK;

  lines->line++;
  size_t n = end != NULL ? (size_t)(end - begin) : KF_LINE_MAX + 1;
  if (end != NULL) lines->begin += end < lines->buffer + lines->end ? n + 1 : n;
  if (end != NULL && n > 0 && begin[n - 1] == '\r') n--;
  if (n > KF_LINE_MAX)
    return kf_fail_file(err, lines->in->path, "line %" PRIu64 " is longer than %d bytes",
                        lines->line, KF_LINE_MAX);
  if (memchr(begin, '\0', n) != NULL)
    return kf_fail_file(err, lines->in->path,
                        "line %" PRIu64 " contains a NUL byte: this is not a text file",
                        lines->line);
  *text = begin;
  *length = n;
  return KF_OK;
}

kf_status kf_lines_each(const kf_in *in, kf_line_fn use, void *argument, kf_err *err) {
  kf_lines lines;
  kf_lines_start(&lines, in, (kf_mark){0});
  for (;;) {
    const char *text;
    size_t length;
    KF_TRY(kf_lines_next(&lines, &text, &length, err));
    if (text == NULL) return KF_OK;
    KF_TRY(use(argument, lines.line, text, length, err));
  }
}

kf_status kf_lines_read(const char *path, kf_line_fn use, void *argument, kf_err *err) {
  kf_in in;
  KF_TRY(kf_in_open(&in, path, err));
  kf_status status = kf_lines_each(&in, use, argument, err);
  kf_in_close(&in);
  return status;
}

char *kf_copy_text(kf_arena *arena, const char *text, size_t n) {
  char *copy = kf_arena_take(arena, n + 1, 1);
  if (copy == NULL) return NULL;
  memcpy(copy, text, n);
  copy[n] = '\0';
  return copy;
}

/* --- names --------------------------------------------------------------------------------- */

static kf_status add_to_set(kf_name_set *set, const char *path, uint64_t line, const char *text,
                            size_t length, kf_err *err) {
  if (set->n == KF_MAX_CLASSES)
    return kf_fail_file(err, path, "line %" PRIu64 " is one class more than the limit of %u", line,
                        KF_MAX_CLASSES);
  /* Names are written to the JSON of koofu files, which must be UTF-8. */
  if (!kf_utf8_valid(text, length))
    return kf_fail_file(err, path, "line %" PRIu64 " is not valid UTF-8", line);
  if (set->map == NULL) set->map = kf_dict_new(64);
  char *copy = kf_copy_text(&set->arena, text, length);
  if (set->map == NULL || copy == NULL ||
      !kf_grow((void **)&set->name, &set->room, set->n, sizeof *set->name))
    return kf_fail_memory(err);
  set->name[set->n] = copy;
  if (!kf_dict_add(set->map, copy, length, (uint32_t)set->n)) return kf_fail_memory(err);
  set->n++;
  return KF_OK;
}

/* -1: it is not in the set. */
static int64_t find(const kf_name_set *set, const char *text, size_t length) {
  return set->map != NULL ? kf_dict_find(set->map, text, length) : -1;
}

kf_status kf_name_set_number(kf_name_set *set, const char *path, uint64_t line, const char *text,
                             size_t length, int32_t *number, kf_err *err) {
  int64_t at = find(set, text, length);
  *number = at >= 0 ? (int32_t)at : (int32_t)set->n;
  return at >= 0 ? KF_OK : add_to_set(set, path, line, text, length, err);
}

kf_status kf_name_set_list(kf_name_set *set, bool sorted, kf_names *out, kf_err *err) {
  if (sorted && set->n > 0) qsort(set->name, set->n, sizeof *set->name, kf_by_bytes);
  return kf_names_copy((const char *const *)set->name, (uint32_t)set->n, out, err);
}

void kf_name_set_clear(kf_name_set *set) {
  kf_dict_free(set->map);
  kf_arena_free(&set->arena);
  kf_free(set->name);
  *set = (kf_name_set){0};
}

typedef struct name_list {
  const char *path;
  kf_name_set set;
} name_list;

static kf_status add_name(void *argument, uint64_t line, const char *text, size_t length,
                          kf_err *err) {
  name_list *list = argument;
  kf_name_set *set = &list->set;
  if (length == 0)
    return kf_fail_file(err, list->path, "line %" PRIu64 " is empty; a class name is expected",
                        line);
  int64_t before = find(set, text, length);
  if (before >= 0)
    return kf_fail_file(err, list->path,
                        "line %" PRIu64 " repeats the class name '%.64s' of line %" PRId64
                        "; give such classes different names, such as ids",
                        line, set->name[before], before + 1);
  return add_to_set(set, list->path, line, text, length, err);
}

kf_status kf_names_read(const char *path, kf_names *out, kf_err *err) {
  name_list list = {.path = path};
  kf_name_set *set = &list.set;
  kf_status status = kf_lines_read(path, add_name, &list, err);
  if (status == KF_OK && set->n == 0) status = kf_fail_file(err, path, "has no class names");
  if (status == KF_OK) status = kf_name_set_list(set, false, out, err);
  kf_name_set_clear(set);
  return status;
}
