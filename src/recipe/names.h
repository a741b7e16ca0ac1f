/* names.h - lines of text files, and what classes are called; private to the room. */
#ifndef KF_RECIPE_NAMES_H
#define KF_RECIPE_NAMES_H

#include "recipe/recipe.h"

static inline bool kf_is_blank(char c) { return c == ' ' || c == '\t'; }

/* The lines of a text file in UTF-8. */
typedef struct kf_line_list {
  const char *path;
  kf_string bytes; /* each line with a NUL */
  size_t n;
  char **items;
} kf_line_list;
/* KF_ERR_DATA if there is none. Must be cleared after a failure, too. */
kf_status kf_line_list_read(const char *path, kf_line_list *out, kf_err *err);
void kf_line_list_clear(kf_line_list *list);
/* Points at n strings that follow one another, each with its NUL. */
kf_status kf_point_at(const kf_string *bytes, uint64_t n, char ***out, kf_err *err);

/* A class: its label, and the names for it, separated by commas. */
typedef struct kf_called {
  const char *label;
  char *names;
  bool whole; /* there is one name; commas are part of it */
} kf_called;
/* Reads the names in a line, and modifies it. */
kf_status kf_called_read(const char *path, size_t line, char *text, kf_called *out, kf_err *err);
/* The length of the first of several names, without blanks after it. */
size_t kf_name_length(const kf_called *c, const char *name);
/* Adds line i to a dictionary; fails if the dictionary has the text already. */
kf_status kf_add_once(kf_dict *dict, const char *path, size_t i, const char *text, size_t length,
                      kf_hint hint, kf_err *err);

/* A file that says what to call each class (kf_class_names_load). */
typedef struct kf_name_file {
  kf_line_list lines; /* a label and its names, each with a NUL; or names alone */
  kf_json_doc doc;
  kf_dict *places; /* of labels; NULL: names are in the order of classes */
  bool csv;        /* names are whole */
} kf_name_file;
/* in_order: names without labels are allowed. Must be cleared after a failure, too. */
kf_status kf_name_file_read(const char *path, bool in_order, kf_name_file *out, kf_err *err);
void kf_name_file_clear(kf_name_file *file);
/* What class k, with this label, is called; *found: whether the file says so. Once for each. */
kf_status kf_name_file_find(kf_name_file *file, const char *label, size_t k, kf_called *out,
                            bool *found, kf_err *err);

/* The name of a folder as words; `out` has room for it. */
char *kf_spell_folder(const char *name, char *out);

#endif
