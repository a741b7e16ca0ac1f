/* pattern.c - the paths that match a pattern, folder by folder with fnmatch(3).
 *
 * glob(3) does the same, but where memory runs out it calls a folder empty or ends the process
 * (glibc 2.36), and its order follows the locale. As there, names that begin with a dot need a dot
 * in the pattern, and folders that cannot be entered match nothing. */
#include "file/file_internal.h"

#include <errno.h>
#include <fnmatch.h>
#include <string.h>
#include <sys/stat.h>

typedef struct matching {
  kf_match_fn use;
  void *argument;
  kf_err *err;
} matching;

static kf_status match_rest(const matching *m, const char *path, const char *rest);

/* `path` with n bytes of a name after it. The caller frees it; NULL: out of memory. */
static char *joined(const char *path, const char *name, size_t n) {
  size_t length = strlen(path);
  char *both = kf_alloc(length + n + 1, 1);
  if (both == NULL) return NULL;
  memcpy(both, path, length);
  memcpy(both + length, name, n);
  both[length + n] = '\0';
  return both;
}

static kf_status go_on(const matching *m, const char *path, const char *name, size_t n,
                       const char *rest) {
  char *longer = joined(path, name, n);
  if (longer == NULL) return kf_fail_memory(m->err);
  kf_status status = match_rest(m, longer, rest);
  kf_free(longer);
  return status;
}

static kf_status match_entries(const matching *m, DIR *folder, const char *path, const char *part,
                               const char *rest) {
  for (const struct dirent *entry;;) {
    KF_TRY(kf_next_entry(folder, path, &entry, m->err));
    if (entry == NULL) return KF_OK;
    const char *name = entry->d_name;
    int result = fnmatch(part, name, FNM_PERIOD);
    if (result != 0 && result != FNM_NOMATCH) return kf_fail_memory(m->err);
    if (result == 0) KF_TRY(go_on(m, path, name, strlen(name), rest));
  }
}

static bool no_way_in(int code) {
  return code == ENOENT || code == ENOTDIR || code == EACCES || code == ELOOP ||
         code == ENAMETOOLONG;
}

/* A part of the pattern that has wildcards. */
static kf_status match_folder(const matching *m, const char *path, const char *part,
                              const char *rest) {
  const char *shown = path[0] != '\0' ? path : ".";
  DIR *folder = opendir(shown);
  if (folder == NULL)
    return no_way_in(errno) ? KF_OK : kf_fail_errno(m->err, shown, "cannot be listed", errno);
  kf_status status = match_entries(m, folder, path, part, rest);
  closedir(folder);
  return status;
}

/* `path` is there; what of the pattern follows, a slash or the end. */
static kf_status match_rest(const matching *m, const char *path, const char *rest) {
  size_t slashes = strspn(rest, "/");
  if (slashes > 0) return go_on(m, path, rest, slashes, rest + slashes);
  if (rest[0] == '\0') {
    struct stat info; /* lstat: a link that leads nowhere is the reader's to complain about */
    if (lstat(path, &info) == 0) return m->use(m->argument, path, m->err);
    return no_way_in(errno) ? KF_OK : kf_fail_errno(m->err, path, "cannot be examined", errno);
  }
  size_t n = strcspn(rest, "/");
  char *part = joined("", rest, n);
  if (part == NULL) return kf_fail_memory(m->err);
  kf_status status = strpbrk(part, "*?[\\") != NULL ? match_folder(m, path, part, rest + n)
                                                    : go_on(m, path, part, n, rest + n);
  kf_free(part);
  return status;
}

kf_status kf_match_paths(const char *pattern, kf_match_fn use, void *argument, kf_err *err) {
  matching m = {use, argument, err};
  return match_rest(&m, "", pattern);
}
