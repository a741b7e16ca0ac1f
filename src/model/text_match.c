/* text_match.c - which classes of some text are which of training data or of a model: by name if both
 * have names, by number if neither has. */
#include "model/model.h"

#include <string.h>

/* "training data" or "model" on one side, "text" on the other. */
typedef struct side {
  const char *of;
  const kf_names *names;
  const unsigned char *shared; /* [names] 1: the other side has the class as well */
} side;

static kf_status find_names(const kf_names *text, const char *of, const kf_names *names,
                            int64_t *place, kf_err *err) {
  kf_dict *dict;
  KF_TRY(kf_dict_new_from_names(names, of, &dict, err));
  for (uint32_t k = 0; k < text->n; k++)
    place[k] = kf_dict_find(dict, text->name[k], strlen(text->name[k]));
  kf_dict_free(dict);
  return KF_OK;
}

kf_status kf_text_find(const kf_text *text, const char *of, const kf_names *names, uint32_t n,
                       kf_text_places *out, kf_err *err) {
  const kf_names *own = kf_text_names(text);
  uint32_t n_text = kf_text_classes(text);
  *out = (kf_text_places){0};
  if ((names->n > 0) != (own->n > 0))
    return kf_fail_hint(err, KF_ERR_DATA, KF_HINT_CLASSES,
                        "the %s names its classes and the %s numbers them; give both names",
                        names->n > 0 ? of : "text", names->n > 0 ? "text" : of);
  KF_TAKE(&out->arena, out->place, n_text);
  KF_TAKE_ZERO(&out->arena, out->known, n_text);
  KF_TAKE_ZERO(&out->arena, out->has_text, n);
  if (out->arena.failed) return kf_fail_memory(err);
  for (uint32_t k = 0; k < n_text; k++) out->place[k] = k < n ? (int64_t)k : -1;
  if (own->n > 0) KF_TRY(find_names(own, of, names, out->place, err));
  for (uint32_t k = 0; k < n_text; k++) {
    if (out->place[k] < 0) continue;
    out->known[k] = out->has_text[out->place[k]] = 1;
    out->shared++;
  }
  return KF_OK;
}

enum { SHOWN = 3, SHOWN_BYTES = 200 };

/* Logs how many classes the other side lacks, and the first few. */
static void log_missing(kf_ctx *ctx, const side *in, const side *other, const char *consequence) {
  char few[SHOWN_BYTES] = "";
  uint32_t n = 0, all = in->names->n;
  for (uint32_t k = 0; k < all; k++) {
    if (in->shared[k]) continue;
    size_t used = strlen(few);
    if (n < SHOWN)
      snprintf(few + used, sizeof few - used, "%s'%.60s'", n > 0 ? ", " : "", in->names->name[k]);
    n++;
  }
  if (n > 0)
    kf_log(ctx, "%u of the %u classes of the %s %s not in the %s (%s%s)%s", n, all, in->of,
           n == 1 ? "is" : "are", other->of, few, n > SHOWN ? ", ..." : "", consequence);
}

static void log_both(kf_ctx *ctx, const kf_text *text, const char *of, const kf_names *names,
                     const kf_text_places *places, const char *without, const char *added) {
  side own = {of, names, places->has_text}, by_text = {"text", kf_text_names(text), places->known};
  log_missing(ctx, &own, &by_text, without);
  log_missing(ctx, &by_text, &own, added);
}

kf_status kf_text_match(kf_ctx *ctx, const kf_text *text, const char *of, const kf_names *names,
                        uint32_t n) {
  kf_err *err = &ctx->err;
  kf_text_places places;
  kf_status status = kf_text_find(text, of, names, n, &places, err);
  if (status == KF_OK && names->n == 0 && n != kf_text_classes(text))
    status = kf_fail_hint(err, KF_ERR_DATA, KF_HINT_CLASSES,
                          "the text has %u classes and the %s %u, without names to match them by",
                          kf_text_classes(text), of, n);
  else if (status == KF_OK && places.shared == 0)
    status = kf_fail(err, KF_ERR_DATA,
                     "no class of the text ('%.60s', ...) is a class of the %s ('%.60s', ...)",
                     kf_text_class_name(text, 0), of, names->name[0]);
  else if (status == KF_OK)
    log_both(ctx, text, of, names, &places, "; text alone cannot recognise them",
             "; they take part by name");
  kf_arena_free(&places.arena);
  return status;
}

void kf_text_log_new(kf_ctx *ctx, const kf_text *text, const kf_text_places *places) {
  if (places->shared == 0) return;
  side by_text = {"text", kf_text_names(text), places->known};
  log_missing(ctx, &by_text, &(side){.of = "model"}, "; they are added by name");
}

kf_status kf_text_log_match(kf_ctx *ctx, const kf_text *text, const kf_model *model) {
  if (model->names.n == 0 || kf_text_names(text)->n == 0) return KF_OK;
  kf_text_places places;
  kf_status status =
      kf_text_find(text, "model", &model->names, model->n_classes, &places, &ctx->err);
  if (status == KF_OK)
    log_both(ctx, text, "model", &model->names, &places,
             "; their rows are left out where text classifies",
             "; they take part where text classifies");
  kf_arena_free(&places.arena);
  return status;
}
