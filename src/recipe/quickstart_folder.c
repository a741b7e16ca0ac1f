/* quickstart_folder.c - the folder that a quickstart writes into.
 *
 * about.txt describes the contents. It also marks the folder as made by a quickstart, so that other
 * files with the same names are not replaced. Nothing is written among the pictures, which belong
 * to the caller. */
#include "recipe/recipe.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ABOUT "about.txt"

static const char *const outputs[] = {
    ABOUT,         "embeddings.safetensors", "text.safetensors", "model.safetensors",
    "report.html", KF_QUICKSTART_NAMES};
static const char first_words[] = "A classifier made by koofu from the pictures in ";
static const char names_line[] =
    "names.json              what classes are called, if not as their folders\n";
static const char content[] =
    "embeddings.safetensors  one row for each picture, with labels and paths\n"
    "text.safetensors        the class names, if they take part\n"
    "model.safetensors       the classifier\n"
    "report.html             how good it is\n"
    "\n"
    "Another run into this folder replaces these files.\n";

enum { MAX_ABOUT = 65536 }; /* bytes */

/* The name of the pictures that the folder was made from, to be freed; NULL: unknown. */
static char *read_source(const char *about) {
  kf_err ignored;
  char *text = NULL, *source = NULL;
  uint64_t n = 0;
  size_t head = sizeof first_words - 1;
  if (kf_read_file(about, MAX_ABOUT, &text, &n, &ignored) != KF_OK) return NULL;
  if (kf_starts_with(text, first_words)) {
    text[head + strcspn(text + head, "\n")] = '\0';
    source = kf_strdup(text + head);
  }
  kf_free(text);
  return source;
}

/* The name of an output file that exists already; NULL: none. If something other than a file has
 * that name, writing it will fail. */
static const char *find_output(const char *folder, kf_arena *paths) {
  for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
    const char *path = kf_path_join_in(paths, folder, outputs[i]);
    struct stat info;
    if (path != NULL && stat(path, &info) == 0 && S_ISREG(info.st_mode)) return outputs[i];
  }
  return NULL;
}

static kf_status check(const char *folder, kf_arena *paths, char **source, kf_err *err) {
  const char *about = kf_path_join_in(paths, folder, ABOUT), *there = find_output(folder, paths);
  if (paths->failed) return kf_fail_memory(err);
  *source = read_source(about);
  if (there == NULL || *source != NULL) return KF_OK;
  return kf_fail(
      err, KF_ERR_ARG,
      "%s: holds %s, which no earlier run has made and which would be replaced; write to another "
      "folder, or move it away",
      folder, there);
}

kf_status kf_quickstart_may_write(const kf_pictures *pictures, const char *folder, kf_err *err) {
  if (kf_pictures_inside(pictures, folder))
    return kf_fail(err, KF_ERR_ARG,
                   "%s: is among the pictures; write to a folder that is not inside theirs",
                   folder);
  char *source = NULL;
  kf_arena paths = {0};
  kf_status status = check(folder, &paths, &source, err);
  kf_free(source);
  kf_arena_free(&paths);
  return status;
}

static kf_status write_about(kf_ctx *ctx, const char *about, const char *name, bool renamed) {
  if (about == NULL) return kf_fail_memory(&ctx->err);
  kf_string text = {0};
  kf_string_add(&text, first_words, sizeof first_words - 1);
  for (const char *c = name; *c != '\0'; c++) kf_string_add(&text, *c == '\n' ? " " : c, 1);
  kf_string_addf(&text, "\n\n%s%s", renamed ? names_line : "", content);
  kf_status status = kf_string_write(ctx, &text, about);
  kf_string_clear(&text);
  return status;
}

kf_status kf_quickstart_begin(kf_ctx *ctx, const char *folder, const char *name, bool renamed,
                              bool *made, int *lock) {
  kf_err *err = &ctx->err;
  kf_arena paths = {0};
  char *source = NULL;
  *made = mkdir(folder, 0777) == 0;
  if (!*made && errno != EEXIST) return kf_fail_errno(err, folder, "cannot be created", errno);
  if (!kf_is_directory(folder)) return kf_fail(err, KF_ERR_IO, "%s: is not a folder", folder);
  kf_status status = kf_lock_folder(ctx, folder, lock);
  if (status != KF_OK) *made = false; /* it now belongs to the other process */
  if (status == KF_OK) status = check(folder, &paths, &source, err);
  for (size_t i = 0; status == KF_OK && i < sizeof outputs / sizeof *outputs; i++) {
    const char *path = kf_path_join_in(&paths, folder, outputs[i]);
    status = path != NULL ? kf_check_output(ctx, path, err) : kf_fail_memory(err);
  }
  if (status == KF_OK && source != NULL && strcmp(source, name) != 0)
    kf_log(ctx, "%s: replaces what was made from %s", folder, source);
  if (status == KF_OK)
    status = write_about(ctx, kf_path_join_in(&paths, folder, ABOUT), name, renamed);
  kf_free(source);
  kf_arena_free(&paths);
  return status;
}

/* Whether the folder holds nothing but about.txt. */
static bool is_bare(const char *folder) {
  DIR *dir = opendir(folder);
  bool bare = dir != NULL;
  for (const struct dirent *entry; bare && (entry = readdir(dir)) != NULL;)
    bare = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
           strcmp(entry->d_name, ABOUT) == 0;
  if (dir != NULL) closedir(dir);
  return bare;
}

void kf_quickstart_undo(const char *folder) {
  if (!is_bare(folder)) return;
  char *about = kf_path_join(folder, ABOUT);
  if (about != NULL) unlink(about);
  kf_free(about);
  rmdir(folder);
}
