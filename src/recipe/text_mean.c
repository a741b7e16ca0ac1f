/* text_mean.c - the mean text embedding of an encoder, which is subtracted from queries in words
 * (search/gallery.c).
 *
 * A single query has no mean, and with the mean of several queries the answer to one would depend
 * on the others. The offset between text and pictures hardly depends on the content of the text, so
 * the mean of a few dozen texts suffices (docs/text.md has figures). These are a hundred everyday
 * things that people photograph. */
#include "recipe/recipe.h"

static const char *const everyday[] = {
    "airplane", "apple",    "baby",      "bag",       "ball",     "beach",    "bear",   "bed",
    "bench",    "bicycle",  "bird",      "boat",      "book",     "bottle",   "bowl",   "boy",
    "bridge",   "building", "bus",       "butterfly", "cake",     "camera",   "candle", "car",
    "castle",   "cat",      "chair",     "child",     "church",   "city",     "clock",  "cloud",
    "coat",     "computer", "cow",       "crowd",     "cup",      "dancer",   "desk",   "dog",
    "door",     "dress",    "duck",      "elephant",  "face",     "farm",     "field",  "fire",
    "fish",     "flag",     "flower",    "forest",    "fox",      "fruit",    "garden", "girl",
    "glass",    "guitar",   "hand",      "harbour",   "hat",      "horse",    "house",  "insect",
    "island",   "kitchen",  "knife",     "lake",      "lamp",     "leaf",     "lion",   "machine",
    "man",      "market",   "meal",      "monkey",    "mountain", "mushroom", "phone",  "pizza",
    "plate",    "rabbit",   "river",     "road",      "rock",     "room",     "ship",   "shoe",
    "shop",     "snake",    "stadium",   "statue",    "street",   "sunset",   "table",  "toy",
    "train",    "tree",     "waterfall", "woman",
};
enum { N_EVERYDAY = sizeof everyday / sizeof *everyday };

kf_status kf_encoder_text_mean(kf_ctx *ctx, const kf_encoder *encoder, double *mean) {
  KF_ENTER(ctx, encoder != NULL && mean != NULL);
  static const char *const template = "a photo of a %s";
  char prompts[N_EVERYDAY][32];
  const char *texts[N_EVERYDAY];
  uint32_t dim = kf_encoder_dim(encoder);
  for (size_t i = 0; i < N_EVERYDAY; i++) {
    snprintf(prompts[i], sizeof prompts[i], template, everyday[i]);
    texts[i] = prompts[i];
  }
  float *rows = kf_alloc(N_EVERYDAY, dim * sizeof *rows);
  if (rows == NULL) return kf_fail_memory(err);
  kf_data *data = NULL;
  kf_status status = kf_encode_texts(ctx, encoder, texts, N_EVERYDAY, rows);
  if (status == KF_OK)
    status = kf_data_open_memory(ctx, rows, N_EVERYDAY, dim, NULL, NULL, 0, &data);
  if (status == KF_OK) status = kf_text_mean(ctx, data, mean);
  kf_data_free(data);
  kf_free(rows);
  return status;
}
