/* text_match.c - which classes of some text are which of training data or of a model, and what is said
 * about the others; and classes added to those of a model or gallery. */
#include "model/model.h"

#include <string.h>

kf_classes kf_text_class_list(const kf_text *text) {
  return (kf_classes){"the text", kf_text_classes(text), kf_text_names(text)};
}

kf_status kf_text_find(const kf_text *text, const kf_classes *others, kf_text_places *out,
                       kf_err *err) {
  kf_classes own = kf_text_class_list(text);
  *out = (kf_text_places){0};
  KF_TAKE(&out->arena, out->place, own.n);
  KF_TAKE_ZERO(&out->arena, out->known, own.n);
  KF_TAKE_ZERO(&out->arena, out->has_text, others->n);
  if (out->arena.failed) return kf_fail_memory(err);
  KF_TRY(kf_match_classes(&own, others, out->place, err));
  for (uint32_t k = 0; k < own.n; k++) {
    if (out->place[k] < 0) continue;
    out->known[k] = out->has_text[out->place[k]] = 1;
    out->shared++;
  }
  return KF_OK;
}

uint32_t kf_join_classes(const kf_classes *to, const kf_classes *from, int32_t *place,
                         const char **list) {
  uint32_t n = to->n;
  for (uint32_t k = 0; k < to->names->n; k++) list[k] = to->names->name[k];
  for (uint32_t k = 0; k < from->n; k++) {
    if (place[k] >= 0) continue;
    if (from->names->n > 0) list[n] = from->names->name[k];
    place[k] = (int32_t)n++;
  }
  return n;
}

enum { SHOWN = 3, SHOWN_BYTES = 200 };

/* Logs how many classes the other side lacks (shared[k] = 0), and the first few. */
static void log_missing(kf_ctx *ctx, const kf_classes *in, const unsigned char *shared,
                        const char *other, const char *consequence) {
  char few[SHOWN_BYTES] = "";
  uint32_t n = 0;
  for (uint32_t k = 0; k < in->names->n; k++) {
    if (shared[k]) continue;
    size_t used = strlen(few);
    if (n < SHOWN)
      snprintf(few + used, sizeof few - used, "%s'%.60s'", n > 0 ? ", " : "", in->names->name[k]);
    n++;
  }
  if (n > 0)
    kf_log(ctx, "%u of the %u classes of %s %s not in %s (%s%s)%s", n, in->n, in->what,
           n == 1 ? "is" : "are", other, few, n > SHOWN ? ", ..." : "", consequence);
}

void kf_text_log(kf_ctx *ctx, const kf_text *text, const kf_classes *others,
                 const kf_text_places *places, const char *without, const char *added) {
  kf_classes own = kf_text_class_list(text);
  if (without != NULL) log_missing(ctx, others, places->has_text, own.what, without);
  log_missing(ctx, &own, places->known, others->what, added);
}

kf_status kf_text_match(kf_ctx *ctx, const kf_text *text, const char *of, const kf_names *names,
                        uint32_t n) {
  kf_err *err = &ctx->err;
  const kf_classes others = {of, n, names};
  kf_text_places places;
  kf_status status = kf_text_find(text, &others, &places, err);
  if (status == KF_OK && names->n == 0 && n != kf_text_classes(text))
    status = kf_fail_hint(err, KF_ERR_DATA, KF_HINT_CLASSES,
                          "the text has %u classes, %s %u, and there are no names to match them by",
                          kf_text_classes(text), of, n);
  else if (status == KF_OK && places.shared == 0)
    status = kf_fail(err, KF_ERR_DATA,
                     "no class of the text ('%.60s', ...) is a class of %s ('%.60s', ...)",
                     kf_text_class_name(text, 0), of, names->name[0]);
  else if (status == KF_OK)
    kf_text_log(ctx, text, &others, &places, "; text alone cannot recognise them",
                "; they take part by name");
  kf_arena_free(&places.arena);
  return status;
}
