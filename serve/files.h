/* files.h - the files of serve/page, built into the program. */
#ifndef SERVE_FILES_H
#define SERVE_FILES_H

#include <stddef.h>

typedef struct sv_file {
  const char *name;
  const unsigned char *bytes;
  size_t n;
  const char *tag; /* in quotation marks; changes with the bytes */
} sv_file;

extern const sv_file sv_files[];
extern const size_t sv_n_files;

#endif
