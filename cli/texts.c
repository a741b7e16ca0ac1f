/* texts.c - text as --text names it, and how its classes go with those of a model and of data. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

int check_text_options(cli_run *cli) {
  const cli_args *a = &cli->args;
  if (a->text || (!a->text_centre && !a->text_as_is && !a->fuse)) return EXIT_OK;
  return fail_usage(cli, "--%s needs --text TEXT",
                    a->fuse          ? "fuse"
                    : a->text_centre ? "text-centre"
                                     : "text-as-is");
}

static kf_centre centre_of(const cli_args *a) {
  return a->text_centre ? (kf_centre)a->text_centre : KF_CENTRE_MODALITY;
}

const char *text_centre_name(const cli_args *a) {
  return text_centre_choices[centre_of(a) - KF_CENTRE_NONE];
}

int load_text(cli_run *cli, kf_text **out) {
  const cli_args *a = &cli->args;
  kf_text_options options = {.unit_rows = a->text_as_is ? KF_OFF : KF_ON,
                             .unit_mean = a->text_as_is ? KF_OFF : KF_ON};
  kf_data *data = NULL;
  kf_status status = kf_data_open(cli->ctx, &a->text, 1, NULL, &data);
  if (status != KF_OK) return fail(cli, status);
  int result = EXIT_OK;
  if (!kf_data_has_labels(data))
    result = fail_with(cli, EXIT_BAD_DATA,
                       "%s: has no classes; make them with 'koofu text-prototypes'", a->text);
  if (result == EXIT_OK && (status = kf_text_new(cli->ctx, data, &options, out)) != KF_OK)
    result = fail_in(cli, status, a->text);
  kf_data_free(data);
  return result;
}

int save_text(cli_run *cli, const kf_text *text, uint64_t n, const char *one, const char *many) {
  const char *path = cli->args.output;
  kf_status status = kf_text_save(cli->ctx, text, path);
  if (status != KF_OK) return fail(cli, status);
  say_written(cli, path, "%s of %u from %s%s",
              show_counted(kf_text_classes(text), "class", "classes").text, kf_text_dim(text),
              show_counted(n, one, many).text,
              kf_text_class_name(text, 0) ? "" : ", without names");
  return EXIT_OK;
}

/* --- which classes are where ------------------------------------------------------------------ */

/* Names of classes, wherever they come from. */
typedef struct name_list {
  const char *of; /* "model" */
  const char **items;
  uint32_t n;
  kf_class_set *set;
} name_list;

static const char *model_name(const void *self, uint32_t k) { return kf_model_class_name(self, k); }
static const char *data_name(const void *self, uint32_t k) { return kf_data_class_name(self, k); }
static const char *stats_name(const void *self, uint32_t k) { return kf_stats_class_name(self, k); }
static const char *text_name(const void *self, uint32_t k) { return kf_text_class_name(self, k); }

static int list_names(cli_run *cli, name_list *list, const void *self, uint32_t n,
                      const char *(*name)(const void *, uint32_t)) {
  list->items = calloc(n + (size_t)1, sizeof *list->items);
  if (!list->items) return fail(cli, KF_ERR_MEM);
  for (list->n = 0; list->n < n; list->n++) list->items[list->n] = name(self, list->n);
  kf_status status = kf_class_set_new(cli->ctx, list->items, n, &list->set);
  return status == KF_OK ? EXIT_OK : fail(cli, status);
}

static void clear_names(name_list *list) {
  kf_class_set_free(list->set);
  free(list->items);
}

enum { SHOWN = 3, SHOWN_BYTES = 200 };

/* Says how many names of one list the other does not have, and the first few. Returns how many. */
static uint32_t say_missing(cli_run *cli, const name_list *in, const name_list *missing_in,
                            const char *consequence) {
  char few[SHOWN_BYTES] = "";
  uint32_t n = 0;
  for (uint32_t k = 0; k < in->n; k++) {
    if (kf_class_set_has(missing_in->set, in->items[k])) continue;
    size_t used = strlen(few);
    if (n < SHOWN)
      snprintf(few + used, sizeof few - used, "%s'%.60s'", n ? ", " : "", in->items[k]);
    n++;
  }
  if (n > 0 && n < in->n)
    say(cli, "%s of the %u of the %s %s not in the %s (%s%s)%s",
        show_counted(n, "class", "classes").text, in->n, in->of, n == 1 ? "is" : "are",
        missing_in->of, few, n > SHOWN ? ", ..." : "", consequence);
  return n;
}

typedef const char *(*name_at)(const void *self, uint32_t k);

static int match_names(cli_run *cli, const char *of, const void *self, uint32_t n, name_at name,
                       const kf_text *text) {
  name_list m = {.of = of}, t = {.of = "text"};
  int result = list_names(cli, &m, self, n, name);
  if (result == EXIT_OK) result = list_names(cli, &t, text, kf_text_classes(text), text_name);
  if (result == EXIT_OK) {
    uint32_t without = say_missing(cli, &m, &t, "; their rows are left out where text classifies");
    if (without == m.n)
      result = fail_with(cli, EXIT_BAD_DATA,
                         "%s: none of its classes ('%.60s', ...) is one of the %s ('%.60s', "
                         "...)",
                         cli->args.text, t.items[0], of, m.items[0]);
    else
      say_missing(cli, &t, &m, "; they take part where text classifies");
  }
  clear_names(&m);
  clear_names(&t);
  return result;
}

/* The classes of a model or of statistics, which `of` names. */
static int match_classes(cli_run *cli, const char *of, const void *self, uint32_t n, name_at name,
                         const kf_text *text) {
  const char *path = cli->args.text;
  int names = name(self, 0) != NULL, text_names = kf_text_class_name(text, 0) != NULL;
  if (names && text_names) return match_names(cli, of, self, n, name, text);
  if (names)
    return fail_with(cli, EXIT_BAD_DATA,
                     "%s: its classes are numbers, and those of the %s have names; give the "
                     "names ('koofu text-prototypes --classes')",
                     path, of);
  if (text_names)
    return fail_with(cli, EXIT_BAD_DATA,
                     "%s: its classes have names, and those of the %s are numbers; give these "
                     "names (--classes), or make text prototypes without",
                     path, of);
  if (n == kf_text_classes(text)) return EXIT_OK;
  return fail_with(cli, EXIT_BAD_DATA,
                   "%s: has %u classes, the %s %u, and there are no names to match them by", path,
                   kf_text_classes(text), of, n);
}

int load_text_for(cli_run *cli, const kf_stats *stats, kf_text **out) {
  int result = load_text(cli, out);
  if (result != EXIT_OK) return result;
  return match_classes(cli, "training data", stats, kf_stats_classes(stats), stats_name, *out);
}

int load_text_of(cli_run *cli, const kf_data *data, kf_text **out) {
  int result = load_text(cli, out);
  if (result != EXIT_OK) return result;
  return match_classes(cli, "training data", data, kf_data_classes(data), data_name, *out);
}

int remark_on_text(cli_run *cli, const kf_data *data, const kf_text *text) {
  name_list d = {.of = "data"}, t = {.of = "text"};
  if (kf_data_classes(data) == 0 || !kf_data_class_name(data, 0) || !kf_text_class_name(text, 0))
    return EXIT_OK;
  int result = list_names(cli, &d, data, kf_data_classes(data), data_name);
  if (result == EXIT_OK) result = list_names(cli, &t, text, kf_text_classes(text), text_name);
  if (result == EXIT_OK) say_missing(cli, &d, &t, "");
  clear_names(&d);
  clear_names(&t);
  return result;
}

/* --- zero-shot models ------------------------------------------------------------------------- */

int load_zero_shot(cli_run *cli, const kf_model *model, cli_zero_shot *out) {
  kf_ctx *ctx = cli->ctx;
  int result = load_text(cli, &out->text);
  if (result != EXIT_OK) return result;
  kf_status status = kf_model_new_zero_shot(ctx, model, out->text, KF_CENTRE_NONE, &out->raw);
  if (status == KF_OK)
    status = kf_model_new_zero_shot(ctx, model, out->text, centre_of(&cli->args), &out->mapped);
  if (status != KF_OK) return fail_in(cli, status, cli->args.text);
  return match_classes(cli, "model", model, kf_model_classes(model), model_name, out->text);
}

void zero_shot_free(cli_zero_shot *zero) {
  kf_model_free(zero->raw);
  kf_model_free(zero->mapped);
  kf_text_free(zero->text);
}
