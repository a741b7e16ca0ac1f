/* preprocess.c - turns a picture into the numbers that go into the tower, in the order and
 * precision of the reference (the Pillow image processors of transformers): resize and crop bytes,
 * then
 *
 *   x = f32(byte * rescale_factor)      the product in f64
 *   y = (x - f32(mean)) / f32(std)      in f32
 *
 * A byte has only 256 values, so there is a table for each channel. */
#include "encode/folder.h"
#include "encode/image.h"

#include <math.h>
#include <string.h>

#define CONFIG_MAX ((uint64_t)1 << 20) /* bytes */

/* --- running ---------------------------------------------------------------------------------- */

/* The size that a picture is resized to. The quotient is truncated f64, as in the reference. */
static void resized(const kf_preprocess *p, const kf_image *image, uint64_t *width,
                    uint64_t *height) {
  *width = image->width;
  *height = image->height;
  if (!p->resize) return;
  if (p->shortest_edge == 0) {
    *width = p->resize_width;
    *height = p->resize_height;
    return;
  }
  uint64_t edge = p->shortest_edge;
  bool upright = *width <= *height;
  uint64_t shorter = upright ? *width : *height, longer = upright ? *height : *width;
  longer = (uint64_t)((double)(edge * longer) / (double)shorter);
  *width = upright ? edge : longer;
  *height = upright ? longer : edge;
}

/* The crop along one axis: n pixels from `from` in the resized picture, at `at` in the result. */
typedef struct span {
  uint32_t from, at, n;
} span;

/* If the sizes differ by an odd number, the extra pixel is cut at the end, or the extra zero is
 * added at the beginning. */
static span centre(uint64_t size, uint32_t wanted) {
  if (size >= wanted) return (span){.from = (uint32_t)((size - wanted) / 2), .at = 0, .n = wanted};
  return (span){.from = 0, .at = (uint32_t)((wanted - size + 1) / 2), .n = (uint32_t)size};
}

/* table[c][byte]: the value of a byte in channel c. */
static void make_tables(const kf_preprocess *p, float table[3][256]) {
  for (int c = 0; c < 3; c++) {
    float mean = (float)p->mean[c], std = (float)p->std[c];
    for (int v = 0; v < 256; v++) {
      float x = p->rescale ? (float)(v * p->rescale_factor) : (float)v;
      table[c][v] = p->normalize ? (x - mean) / std : x;
    }
  }
}

static void spread(const kf_preprocess *p, const uint8_t *rgb, span x, span y, float *out) {
  float table[3][256];
  make_tables(p, table);
  size_t side = p->image_size, plane = side * side;
  for (size_t c = 0; c < 3; c++) {
    float *to = out + c * plane;
    if (x.n < side || y.n < side)
      for (size_t i = 0; i < plane; i++) to[i] = table[c][0];
    for (size_t i = 0; i < y.n; i++) {
      const uint8_t *row = rgb + i * x.n * 3 + c;
      float *line = to + (i + y.at) * side + x.at;
      for (size_t j = 0; j < x.n; j++) line[j] = table[c][row[3 * j]];
    }
  }
}

kf_status kf_preprocess_run(const kf_preprocess *p, const kf_image *image, const char *name,
                            float *out, kf_err *err) {
  uint64_t width, height;
  resized(p, image, &width, &height);
  uint64_t result_width = p->crop ? p->crop_width : width;
  uint64_t result_height = p->crop ? p->crop_height : height;
  if (result_width != p->image_size || result_height != p->image_size)
    return kf_fail_file(err, name,
                        "becomes %llu x %llu pixels, but the model takes %u x %u: its preprocessor "
                        "neither crops nor resizes to a square",
                        (unsigned long long)result_width, (unsigned long long)result_height,
                        p->image_size, p->image_size);
  if (width > UINT32_MAX || height > UINT32_MAX)
    return kf_fail_file(err, name, "%u x %u pixels are too long and thin to resize", image->width,
                        image->height);
  span x = centre(width, p->image_size), y = centre(height, p->image_size);
  kf_box box = {.left = x.from, .top = y.from, .width = x.n, .height = y.n};
  uint8_t *rgb = kf_alloc((uint64_t)x.n * y.n, 3);
  if (rgb == NULL) return kf_fail_memory(err);
  kf_status status =
      kf_resize(image, (uint32_t)width, (uint32_t)height, p->resample, &box, rgb, err);
  if (status == KF_OK) spread(p, rgb, x, y, out);
  kf_free(rgb);
  return status;
}

/* --- reading: the defaults of the image processors -------------------------------------------- */

static kf_preprocess clip_values(uint32_t image_size) {
  return (kf_preprocess){.image_size = image_size,
                         .resize = true,
                         .shortest_edge = 224,
                         .resample = KF_RESAMPLE_BICUBIC,
                         .crop = true,
                         .crop_width = 224,
                         .crop_height = 224,
                         .rescale = true,
                         .rescale_factor = 1 / 255.0,
                         .normalize = true,
                         .mean = {0.48145466, 0.4578275, 0.40821073},
                         .std = {0.26862954, 0.26130258, 0.27577711}};
}

static kf_preprocess siglip_values(uint32_t image_size) {
  kf_preprocess p = clip_values(image_size);
  p.shortest_edge = 0;
  p.resize_width = p.resize_height = 224;
  p.crop = false;
  for (int c = 0; c < 3; c++) p.mean[c] = p.std[c] = 0.5;
  return p;
}

/* --- reading: keys ---------------------------------------------------------------------------- */

typedef struct settings {
  const char *path;
  const kf_json_doc *doc;
  const kf_json *all;
  kf_err *err;
} settings;

/* A member; NULL if it is absent or null, which both mean the default. */
static const kf_json *get(const settings *c, const kf_json *object, const char *key) {
  const kf_json *node = kf_json_get(c->doc, object, key);
  return node != NULL && node->kind == KF_JSON_NULL ? NULL : node;
}

static kf_status bad(const settings *c, const char *key, const char *wanted) {
  return kf_fail_file(c->err, c->path, "'%s' is not %s", key, wanted);
}

static kf_status read_bool(const settings *c, const char *key, bool *out) {
  const kf_json *node = get(c, c->all, key);
  if (node == NULL) return KF_OK;
  if (node->kind != KF_JSON_BOOL) return bad(c, key, "true or false");
  *out = node->text[0] == 't';
  return KF_OK;
}

static bool finite_number(const kf_json *node, double *out) {
  if (node == NULL || node->kind != KF_JSON_NUMBER) return false;
  const char *end;
  *out = kf_parse_f64(node->text, &end);
  return isfinite(*out);
}

static bool edge_of(const kf_json *node, uint32_t *out) {
  int64_t value;
  if (!kf_json_i64(node, &value) || value < 1 || value > 65536) return false;
  *out = (uint32_t)value;
  return true;
}

static kf_status read_three(const settings *c, const char *key, bool divides, double out[3]) {
  const kf_json *node = get(c, c->all, key);
  if (node == NULL) return KF_OK;
  const char *wanted = divides ? "three numbers other than 0" : "three numbers";
  double value;
  bool one = finite_number(node, &value); /* one number for all channels */
  if (!one && (node->kind != KF_JSON_LIST || node->count != 3)) return bad(c, key, wanted);
  const kf_json *item = one ? node : kf_json_first(c->doc, node);
  for (int i = 0; i < 3; i++) {
    if (!finite_number(item, &value) || (divides && (float)value == 0)) return bad(c, key, wanted);
    out[i] = value;
    if (!one) item = kf_json_next(c->doc, item);
  }
  return KF_OK;
}

/* {"height", "width"}, or one number for both. */
static bool rectangle(const settings *c, const kf_json *node, uint32_t *width, uint32_t *height) {
  if (edge_of(node, width)) {
    *height = *width;
    return true;
  }
  return node->kind == KF_JSON_OBJECT && node->count == 2 &&
         edge_of(get(c, node, "height"), height) && edge_of(get(c, node, "width"), width);
}

/* One number is the shortest edge; so is {"shortest_edge"}. */
static kf_status read_size(const settings *c, kf_preprocess *p) {
  const kf_json *node = get(c, c->all, "size");
  if (node == NULL) return KF_OK;
  if (edge_of(node, &p->shortest_edge)) return KF_OK;
  if (node->kind == KF_JSON_OBJECT && node->count == 1 &&
      edge_of(get(c, node, "shortest_edge"), &p->shortest_edge))
    return KF_OK;
  if (node->kind == KF_JSON_OBJECT && rectangle(c, node, &p->resize_width, &p->resize_height)) {
    p->shortest_edge = 0;
    return KF_OK;
  }
  return bad(c, "size", "a number, {\"shortest_edge\"} or {\"height\", \"width\"}, of 1 to 65,536");
}

static kf_status read_crop_size(const settings *c, kf_preprocess *p) {
  const kf_json *node = get(c, c->all, "crop_size");
  if (node == NULL || rectangle(c, node, &p->crop_width, &p->crop_height)) return KF_OK;
  return bad(c, "crop_size", "a number or {\"height\", \"width\"}, of 1 to 65,536");
}

/* Filters by Pillow's numbers. */
static kf_status read_resample(const settings *c, kf_resample *out) {
  static const char *const names[] = {"nearest", "lanczos", "bilinear",
                                      "bicubic", "box",     "hamming"};
  static const kf_resample filters[] = {KF_RESAMPLE_LANCZOS, KF_RESAMPLE_BILINEAR,
                                        KF_RESAMPLE_BICUBIC};
  const kf_json *node = get(c, c->all, "resample");
  if (node == NULL) return KF_OK;
  int64_t value;
  if (!kf_json_i64(node, &value) || value < 0 || value > 5)
    return bad(c, "resample", "a filter of Pillow, 0 to 5");
  if (value >= 1 && value <= 3) {
    *out = filters[value - 1];
    return KF_OK;
  }
  return kf_fail_file(c->err, c->path,
                      "'resample' is %d (%s); lanczos, bilinear and bicubic are supported",
                      (int)value, names[value]);
}

/* CLIP's or SigLIP's image processor; a file that does not name one is CLIP's. */
static kf_status read_kind(const settings *c, uint32_t image_size, kf_preprocess *p) {
  static const char *const known[] = {"CLIPImageProcessor",     "CLIPImageProcessorFast",
                                      "CLIPImageProcessorPil",  "CLIPFeatureExtractor",
                                      "SiglipImageProcessor",   "SiglipImageProcessorFast",
                                      "SiglipImageProcessorPil"};
  *p = clip_values(image_size);
  const kf_json *node = get(c, c->all, "image_processor_type");
  if (node == NULL) node = get(c, c->all, "feature_extractor_type");
  if (node == NULL) return KF_OK;
  const char *name = kf_json_string(node);
  if (name == NULL) return bad(c, "image_processor_type", "a string");
  if (kf_starts_with(name, "Siglip")) *p = siglip_values(image_size);
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcmp(name, known[i]) == 0) return KF_OK;
  return kf_fail_file(c->err, c->path,
                      "'image_processor_type' is %.100s; CLIP's and SigLIP's are supported", name);
}

/* If the size of the result does not depend on the picture, it must be that of the tower. */
static kf_status check_size(const settings *c, const kf_preprocess *p) {
  uint32_t width = p->crop ? p->crop_width : p->resize_width;
  uint32_t height = p->crop ? p->crop_height : p->resize_height;
  if (!p->crop && (!p->resize || p->shortest_edge != 0)) return KF_OK;
  if (width == p->image_size && height == p->image_size) return KF_OK;
  return kf_fail_file(c->err, c->path, "'%s' makes %u x %u pixels, but the model takes %u x %u",
                      p->crop ? "crop_size" : "size", width, height, p->image_size, p->image_size);
}

static kf_status read_settings(const settings *c, uint32_t image_size, kf_preprocess *p) {
  bool ignored = false, pad = false; /* pictures are RGB whatever do_convert_rgb says */
  KF_TRY(read_kind(c, image_size, p));
  KF_TRY(read_bool(c, "do_resize", &p->resize));
  KF_TRY(read_size(c, p));
  KF_TRY(read_resample(c, &p->resample));
  KF_TRY(read_bool(c, "do_center_crop", &p->crop));
  KF_TRY(read_crop_size(c, p));
  KF_TRY(read_bool(c, "do_rescale", &p->rescale));
  const kf_json *factor = get(c, c->all, "rescale_factor");
  if (factor != NULL && !finite_number(factor, &p->rescale_factor))
    return bad(c, "rescale_factor", "a number");
  KF_TRY(read_bool(c, "do_normalize", &p->normalize));
  KF_TRY(read_three(c, "image_mean", false, p->mean));
  KF_TRY(read_three(c, "image_std", true, p->std));
  KF_TRY(read_bool(c, "do_convert_rgb", &ignored));
  KF_TRY(read_bool(c, "do_pad", &pad));
  if (pad) return kf_fail_file(c->err, c->path, "'do_pad' is true, which is not supported");
  return check_size(c, p);
}

/* `member`: holds the settings; NULL: the whole file does. *found: whether there are any. */
static kf_status read_file(const kf_json_file *file, const char *member, uint32_t image_size,
                           kf_preprocess *out, bool *found, kf_err *err) {
  settings c = {.path = file->path, .doc = &file->doc, .all = file->doc.nodes, .err = err};
  if (member != NULL) c.all = get(&c, file->doc.nodes, member);
  *found = c.all != NULL;
  if (!*found) return KF_OK;
  if (c.all->kind != KF_JSON_OBJECT) return bad(&c, member, "an object");
  return read_settings(&c, image_size, out);
}

kf_status kf_preprocess_read(const char *folder, uint32_t image_size, kf_preprocess *out,
                             kf_err *err) {
  static const struct {
    const char *name, *member;
  } places[] = {{"preprocessor_config.json", NULL}, {"processor_config.json", "image_processor"}};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    kf_json_file file;
    KF_TRY(kf_json_file_read(&file, folder, places[i].name, CONFIG_MAX, err));
    bool found;
    kf_status status = read_file(&file, places[i].member, image_size, out, &found, err);
    kf_json_file_clear(&file);
    if (status != KF_OK || found) return status;
  }
  *out = clip_values(image_size);
  out->shortest_edge = out->crop_width = out->crop_height = image_size;
  return KF_OK;
}
