/* other_folder.c - explains paths that are given as an encoder but cannot be loaded: the name of a
 * model on a hub, a model in another format, a folder above the right one. */
#include "encode/folder.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static bool has(const char *folder, const char *name) {
  char *path = kf_path_join(folder, name);
  bool there = path != NULL && !kf_is_missing(path);
  kf_free(path);
  return there;
}

/* The first of these files in a folder; NULL: none. */
static const char *first_of(const char *folder, const char *const *names) {
  while (*names != NULL && !has(folder, *names)) names++;
  return *names;
}

/* "openai/clip-vit-base-patch32": two names with a slash between them. */
static bool is_hub_name(const char *text) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  size_t owner = strspn(text, letters);
  if (owner == 0 || text[0] == '.' || text[owner] != '/') return false;
  const char *model = text + owner + 1;
  size_t n = strspn(model, letters);
  return n > 0 && model[0] != '.' && model[n] == '\0';
}

static const char *find_open_clip(const char *folder) {
  static const char *const files[] = {"open_clip_config.json", "open_clip_model.safetensors",
                                      "open_clip_pytorch_model.bin", NULL};
  return first_of(folder, files);
}

static kf_status fail_open_clip(const char *folder, const char *file, kf_err *err) {
  return kf_fail_file(err, folder,
                      "is a model in the format of open_clip (%s), with different tensor names; "
                      "use the same model in the format of transformers, with config.json and "
                      "model.safetensors, if it is published in that format too",
                      file);
}

/* A folder of the download cache, with the model in DIR/snapshots/HASH. */
static kf_status fail_cache(const char *folder, kf_err *err) {
  char *snapshots = kf_path_join(folder, "snapshots");
  if (snapshots == NULL) return kf_fail_memory(err);
  DIR *dir = opendir(snapshots);
  const struct dirent *entry = NULL;
  while (dir != NULL && (entry = readdir(dir)) != NULL && entry->d_name[0] == '.') continue;
  kf_status status = kf_fail_file(err, folder, "has no config.json; the model is in %s/%s",
                                  snapshots, entry != NULL ? entry->d_name : "");
  if (dir != NULL) closedir(dir);
  kf_free(snapshots);
  return status;
}

kf_status kf_fail_no_config(const char *folder, kf_err *err) {
  struct stat info;
  bool there = stat(folder, &info) == 0;
  if (!there && errno == ENOENT && is_hub_name(folder))
    return kf_fail(
        err, KF_ERR_IO,
        "%s: there is no such folder; if it is the name of a model on a hub, download its "
        "files (config.json, model.safetensors, preprocessor_config.json and those of the "
        "tokenizer) to a folder and give that folder",
        folder);
  if (!there && errno != ENOENT) return kf_fail_errno(err, folder, "cannot be opened", errno);
  if (there && !S_ISDIR(info.st_mode))
    return kf_fail_file(err, folder,
                        "is a file; a model is the folder with config.json, model.safetensors and "
                        "preprocessor_config.json");
  const char *open_clip = find_open_clip(folder);
  if (open_clip != NULL) return fail_open_clip(folder, open_clip, err);
  if (has(folder, "0_CLIPModel/config.json"))
    return kf_fail_file(err, folder, "has no config.json; the model is in its folder 0_CLIPModel");
  if (has(folder, "snapshots")) return fail_cache(folder, err);
  return kf_fail_errno(err, folder, "not a model folder: config.json cannot be opened", ENOENT);
}

kf_status kf_fail_no_weights(const char *folder, kf_err *err) {
  static const char *const pickles[] = {"pytorch_model.bin", "pytorch_model.bin.index.json", NULL};
  if (first_of(folder, pickles) != NULL)
    return kf_fail_file(err, folder,
                        "has its weights in pytorch_model.bin, a pickle, which could run any "
                        "code; save them as model.safetensors, in Python: from transformers "
                        "import AutoModel; AutoModel.from_pretrained('%s').save_pretrained('%s')",
                        folder, folder);
  const char *open_clip = find_open_clip(folder);
  if (open_clip != NULL) return fail_open_clip(folder, open_clip, err);
  return kf_fail(err, KF_ERR_IO,
                 "%s: has neither model.safetensors nor model.safetensors.index.json", folder);
}
