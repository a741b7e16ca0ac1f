/* form.c - bodies of type multipart/form-data (RFC 7578), split in place: nothing is copied or
 * allocated, so a form takes the memory of its body, whatever it holds. A boundary that is not
 * there is looked for once, since the form ends with it. */
#include "form.h"

#include <string.h>
#include <strings.h>

enum { MOST_HEAD = 4096 }; /* bytes of the headers of a part */

static bool fail(sv_form *form, const char *wrong) {
  form->wrong = wrong;
  return false;
}

/* --- parameters: ; name=value; name="value" --------------------------------------------------- */

/* Ends a quoted string in place and unescapes it; NULL: it does not end. */
static char *end_quoted(char *text) {
  char *to = text;
  for (; *text && *text != '"'; text++) {
    if (*text == '\\' && (text[1] == '"' || text[1] == '\\')) text++;
    *to++ = *text;
  }
  if (!*text) return NULL;
  *to = '\0';
  return text + 1;
}

/* Takes the next parameter of a header. False: there is none. */
static bool next_parameter(char **at, char **name, char **value) {
  char *c = *at + strspn(*at, "; \t");
  char *equals = strchr(c, '=');
  if (!equals) return false;
  *equals = '\0';
  *name = c;
  *value = equals + 1 + (equals[1] == '"');
  if (equals[1] == '"') return (*at = end_quoted(*value)) != NULL;
  *at = *value + strcspn(*value, "; \t");
  if (**at) *(*at)++ = '\0';
  return true;
}

sv_form sv_form_of(const char *type, char *body, size_t n) {
  sv_form form = {.at = body, .end = body + n, .boundary = "\r\n--"};
  const char *begin = strcasestr(type, "boundary=");
  begin = begin ? begin + strlen("boundary=") : "";
  bool quoted = *begin == '"';
  size_t length = strcspn(begin += quoted, quoted ? "\"" : "; \t");
  if (length == 0 || length > SV_MAX_BOUNDARY) {
    fail(&form, "the Content-Type has no boundary of 1 to 70 characters");
    return form;
  }
  memcpy(form.boundary + 4, begin, length);
  form.n_boundary = 4 + length;
  if (n < form.n_boundary - 2 || memcmp(body, form.boundary + 2, form.n_boundary - 2) != 0)
    fail(&form, "the form does not begin with its boundary");
  else
    form.at += form.n_boundary - 2;
  return form;
}

/* --- parts ------------------------------------------------------------------------------------ */

static const char *base_of(const char *path) {
  for (const char *c = path; *c; c++)
    if (*c == '/' || *c == '\\') path = c + 1;
  return path;
}

static void read_disposition(char *line, sv_part *part) {
  char *name, *value;
  line += strcspn(line, ";");
  while (next_parameter(&line, &name, &value)) {
    if (strcasecmp(name, "name") == 0) part->name = value;
    if (strcasecmp(name, "filename") == 0) part->file = base_of(value);
  }
}

/* Reads the headers of a part, which end with an empty line. */
static bool read_head(sv_form *form, sv_part *part) {
  static const char disposition[] = "Content-Disposition:";
  size_t left = (size_t)(form->end - form->at), most = left < MOST_HEAD ? left : MOST_HEAD;
  char *end = memmem(form->at, most, "\r\n\r\n", 4), *line = form->at;
  if (!end) return fail(form, "the headers of a part of the form have no end within 4096 bytes");
  if (memchr(line, '\0', (size_t)(end - line)))
    return fail(form, "the headers of a part of the form contain a NUL");
  *end = '\0';
  form->at = end + 4;
  for (char *next; line; line = next) {
    line += strspn(line, "\r\n");
    next = strstr(line, "\r\n");
    if (next) *next++ = '\0';
    if (strncasecmp(line, disposition, strlen(disposition)) == 0) read_disposition(line, part);
  }
  return part->name ? true : fail(form, "a part of the form has no name");
}

bool sv_form_next(sv_form *form, sv_part *part) {
  *part = (sv_part){0};
  size_t left = (size_t)(form->end - form->at);
  if (form->wrong || (left >= 2 && memcmp(form->at, "--", 2) == 0)) return false;
  if (left < 2 || memcmp(form->at, "\r\n", 2) != 0)
    return fail(form, "the form ends before its last boundary");
  if (!read_head(form, part)) return false;
  part->bytes = form->at;
  char *end = memmem(form->at, (size_t)(form->end - form->at), form->boundary, form->n_boundary);
  if (!end) return fail(form, "the form ends before its last boundary");
  *end = '\0';
  part->n = (size_t)(end - part->bytes);
  form->at = end + form->n_boundary;
  return true;
}
