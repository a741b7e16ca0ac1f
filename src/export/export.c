/* export.c - writes a model in the format of another program, chosen by the file's extension.
 *
 * If an export has several files, all or none of them appear: they are held back together
 * (kf_outputs_begin), unless the caller already holds files back. */
#include "export/export.h"

#include <string.h>
#include <unistd.h>

/* Options, as bits. */
enum {
  NORMALIZE = 1,
  METRIC = 2,
  RAW = 4,
  PART = 8,
  TEMPERATURE = 16,
  GALLERY = 32,
  INLINE = 64,
  SINGLE = 128,
  PAGE = 256,
  CLASSIFY = NORMALIZE | METRIC | RAW | PART | TEMPERATURE
};

static const struct kind {
  const char *ending; /* NULL: a folder */
  kf_export_fn write;
  unsigned takes; /* options */
} kinds[] = {
    {".onnx", kf_export_onnx, CLASSIFY | INLINE | SINGLE},
    {".faiss", kf_export_faiss, METRIC | RAW | GALLERY},
    {".npz", kf_export_npz, 0},
    {".h", kf_export_source, CLASSIFY},
    {".c", kf_export_source, CLASSIFY},
    {NULL, kf_export_hub, PAGE},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static const char *last_part(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash != NULL ? slash + 1 : path;
}

/* A name that is only an extension, such as ".c", is a hidden file without one. */
static kf_status find_kind(const char *path, const struct kind **out, kf_err *err) {
  const char *name = last_part(path);
  for (size_t i = 0; i + 1 < KINDS; i++)
    if (kf_ends_with(name, kinds[i].ending) && strlen(name) > strlen(kinds[i].ending)) {
      *out = &kinds[i];
      return KF_OK;
    }
  *out = &kinds[KINDS - 1];
  if (*path != '\0' && (strchr(name, '.') == NULL || kf_is_directory(path))) return KF_OK;
  return kf_fail(err, KF_ERR_ARG,
                 "%s: unknown extension; it must be .onnx, .faiss, .npz, .h or .c, and the name of "
                 "a folder has none or ends in /",
                 path);
}

static kf_status check_choices(const struct kind *kind, const kf_export_options *o, kf_err *err) {
  const struct {
    bool given;
    unsigned choice;
    const char *what;
  } choices[] = {
      {o->normalize != KF_DEFAULT, NORMALIZE, "the length of mapped rows"},
      {o->metric != KF_METRIC_DEFAULT, METRIC, "a metric"},
      {o->raw != 0, RAW, "the original space"},
      {o->part != KF_PART_DEFAULT, PART, "a part"},
      {o->temperature != 0, TEMPERATURE, "a temperature"},
      {o->gallery != NULL, GALLERY, "a gallery"},
      {o->inline_bytes != 0, INLINE, "a limit for inline matrices"},
      {o->single != 0, SINGLE, "single precision"},
      {o->license != NULL || o->base_model != NULL, PAGE, "a licence or a base model"},
  };
  for (size_t i = 0; i < sizeof choices / sizeof *choices; i++)
    if (choices[i].given && !(kind->takes & choices[i].choice))
      return kf_fail(err, KF_ERR_ARG, "%s cannot be chosen for %s%s", choices[i].what,
                     kind->ending != NULL ? "a file that ends in "
                                          : "a folder, which holds the whole model",
                     kind->ending != NULL ? kind->ending : "");
  return KF_OK;
}

/* Removes a folder that it has made if nothing could be written into it. */
static kf_status write_kind(kf_ctx *ctx, const struct kind *kind, const kf_model *model,
                            const kf_export_options *o, const char *path) {
  bool alone = ctx->held == NULL, is_new = kind->ending == NULL && !kf_is_directory(path);
  if (alone) KF_TRY(kf_outputs_begin(ctx));
  kf_status status = kind->write(ctx, model, o, path);
  if (alone && status == KF_OK) status = kf_outputs_commit(ctx);
  if (alone) kf_outputs_abort(ctx);
  if (status != KF_OK && is_new) rmdir(path);
  return status;
}

kf_status kf_export(kf_ctx *ctx, const kf_model *model, const kf_export_options *options,
                    const char *path) {
  KF_ENTER(ctx, model != NULL && path != NULL);
  KF_OPTIONS(kf_export_options, o, options);
  const struct kind *kind;
  KF_TRY(find_kind(path, &kind, err));
  KF_TRY(check_choices(kind, &o, err));
  return write_kind(ctx, kind, model, &o, path);
}
