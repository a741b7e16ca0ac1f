/* form.h - bodies of type multipart/form-data, as curl -F and browsers send them, read in place.
 *
 *     sv_form form = sv_form_of(content_type, body, n);
 *     while (sv_form_next(&form, &part)) ...
 *     if (form.wrong) ... says why not */
#ifndef SERVE_FORM_H
#define SERVE_FORM_H

#include <stdbool.h>
#include <stddef.h>

enum { SV_MAX_BOUNDARY = 70 };

typedef struct sv_form {
  char *at, *end;
  char boundary[SV_MAX_BOUNDARY + 5]; /* CR LF -- and what the type announces */
  size_t n_boundary;
  const char *wrong; /* a sentence; NULL: no error so far */
} sv_form;

typedef struct sv_part {
  const char *name;
  const char *file; /* name of the file, without folders; NULL: not a file */
  char *bytes;      /* [n], followed by a NUL */
  size_t n;
} sv_part;

sv_form sv_form_of(const char *content_type, char *body, size_t n);
/* Moves to the next part. False: the end, or an error. */
bool sv_form_next(sv_form *form, sv_part *part);

#endif
