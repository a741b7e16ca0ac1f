/* texts.c - text prototypes as --text names them, and zero-shot models. */
#include "inputs.h"
#include "sink.h"

int check_text_options(cli_run *cli) {
  if (cli->args.text.path) return EXIT_OK;
  return need(cli, "fuse text-centre text-as-is", "--text TEXT");
}

int load_class_names(cli_run *cli, const char *(*label_of)(const void *of, uint32_t k),
                     const void *of, uint32_t n, const kf_class_names **out) {
  const char *path = cli->args.names;
  kf_class_names *names;
  if (!path) return EXIT_OK;
  const char **labels = own_memory(cli, n + 1, sizeof *labels);
  if (!labels) return fail(cli, KF_ERR_MEM);
  for (uint32_t k = 0; k < n; k++) labels[k] = label_of(of, k);
  TRY(own_class_names(cli, kf_class_names_load(cli->ctx, path, *labels ? labels : NULL, n, &names),
                      &names));
  *out = names;
  return EXIT_OK;
}

static kf_centre centre_of(const cli_args *a) {
  return a->text.centre ? (kf_centre)a->text.centre : KF_CENTRE_MODALITY;
}

const char *text_centre_name(const cli_args *a) {
  return text_centre_choices[centre_of(a) - KF_CENTRE_NONE];
}

int load_text(cli_run *cli, kf_text **out) {
  const struct text_args *t = &cli->args.text;
  kf_switch unit = t->as_is ? KF_OFF : KF_ON;
  kf_text_options options = {.unit_rows = unit, .unit_mean = unit};
  kf_data *data = NULL;
  TRY(own_data(cli, kf_data_open(cli->ctx, &t->path, 1, NULL, &data), &data));
  if (!kf_data_has_labels(data))
    return fail_with(cli, EXIT_BAD_DATA,
                     "%s: has no classes; make text prototypes with 'koofu text-prototypes'",
                     t->path);
  kf_status status = kf_text_new(cli->ctx, data, &options, out);
  return status == KF_OK ? own_text(cli, KF_OK, out) : fail_in(cli, status, t->path);
}

int save_text(cli_run *cli, const kf_text *text, uint64_t n, const char *one, const char *many) {
  const char *path = cli->args.output;
  kf_status status = kf_text_save(cli->ctx, text, path);
  if (status == KF_OK)
    say_written(cli, path, "%s of %u from %s%s",
                show_counted(kf_text_classes(text), "class", "classes").text, kf_text_dim(text),
                show_counted(n, one, many).text,
                kf_text_class_name(text, 0) ? "" : ", without names");
  return result_of(cli, status);
}

static int make_zero_shot(cli_run *cli, const kf_model *model, const kf_text *text,
                          kf_centre centre, kf_model **out) {
  kf_status status = kf_model_new_zero_shot(cli->ctx, model, text, centre, out);
  return status == KF_OK ? own_model(cli, KF_OK, out) : fail_in(cli, status, cli->args.text.path);
}

int load_zero_shot(cli_run *cli, const kf_model *model, int both, cli_zero_shot *out) {
  int raw = cli->args.use.raw;
  TRY(load_text(cli, &out->text));
  if (raw || both) TRY(make_zero_shot(cli, model, out->text, KF_CENTRE_NONE, &out->raw));
  cli->muted = out->raw != NULL; /* do not repeat the notes on classes */
  if (!raw) TRY(make_zero_shot(cli, model, out->text, centre_of(&cli->args), &out->mapped));
  cli->muted = 0;
  return EXIT_OK;
}
