/* text_match.c - compares the classes of a text with those of training data or a model: finds which
 * are missing on either side, and joins the lists. */
#include "model/model.h"

#include <string.h>

kf_classes kf_text_class_list(const kf_text *text) {
  return (kf_classes){"the text", kf_text_classes(text), kf_text_names(text)};
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

kf_status kf_log_missing(kf_ctx *ctx, const kf_classes *in, const kf_classes *other,
                         const char *consequence, uint32_t *missing) {
  char few[SHOWN_BYTES] = "";
  int32_t *place = kf_alloc(in->n, sizeof *place);
  kf_status status =
      place != NULL ? kf_match_classes(in, other, place, &ctx->err) : kf_fail_memory(&ctx->err);
  uint32_t n = 0;
  for (uint32_t k = 0; status == KF_OK && k < in->n; k++) {
    if (place[k] >= 0 || n++ >= SHOWN || in->names->n == 0) continue;
    size_t used = strlen(few);
    snprintf(few + used, sizeof few - used, "%s'%.60s'", n > 1 ? ", " : "", in->names->name[k]);
  }
  kf_free(place);
  if (few[0] != '\0' && n < in->n)
    kf_log(ctx, "%u of the %u classes of %s %s not in %s (%s%s)%s", n, in->n, in->what,
           n == 1 ? "is" : "are", other->what, few, n > SHOWN ? ", ..." : "", consequence);
  *missing = n;
  return status;
}

kf_status kf_text_match(kf_ctx *ctx, const kf_text *text, const char *of, const kf_names *names,
                        uint32_t n) {
  kf_classes own = kf_text_class_list(text), others = {of, n, names};
  uint32_t missing;
  KF_TRY(kf_log_missing(ctx, &others, &own, "; text alone cannot recognise them", &missing));
  if (names->n == 0 && n != own.n)
    return kf_fail_hint(&ctx->err, KF_ERR_DATA, KF_HINT_CLASSES,
                        "the text has %u classes, %s %u, and there are no names to match them by",
                        own.n, of, n);
  if (missing == n)
    return kf_fail(&ctx->err, KF_ERR_DATA,
                   "no class of the text ('%.60s', ...) is a class of %s ('%.60s', ...)",
                   kf_text_class_name(text, 0), of, names->name[0]);
  return kf_log_missing(ctx, &own, &others, "; they take part by name", &missing);
}
