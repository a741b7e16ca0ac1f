/* cmd_add_class.c - koofu add-class: a new prototype from a few samples. */
#include "commands.h"
#include "format.h"
#include "inputs.h"
#include "outputs.h"

/* A text with one class: the mean of all rows. */
static kf_status text_of(cli_run *cli, const kf_data *rows, const char *name, kf_text **out) {
  kf_text_options options = {
      .per_class = (uint32_t)kf_data_rows(rows), .names = &name, .n_names = 1};
  return kf_text_new(cli->ctx, rows, &options, out);
}

static kf_status make(cli_run *cli, const kf_model *model, const kf_data *samples, kf_model **out) {
  const char *name = cli->args.operands.items[1];
  if (!cli->args.text.rows) return kf_model_new_with_class(cli->ctx, model, name, samples, out);
  kf_text *text = NULL;
  kf_status status = text_of(cli, samples, name, &text);
  if (status != KF_OK) return status;
  status = kf_model_new_with_text(cli->ctx, model, text, out);
  kf_text_free(text);
  return status;
}

static int add_class(cli_run *cli, const kf_model *model, const kf_data *samples) {
  kf_model *wider;
  kf_status status = make(cli, model, samples, &wider);
  if (status != KF_OK) return fail(cli, status);
  status = kf_model_save(cli->ctx, wider, cli->args.output);
  int more = kf_model_classes(wider) > kf_model_classes(model);
  if (status == KF_OK)
    say_written(cli, cli->args.output, "%s, the %s from %s%s",
                show_counted(kf_model_classes(wider), "class", "classes").text,
                more ? "new one" : "text of one",
                show_counted(kf_data_rows(samples), "row", "rows").text,
                cli->args.text.rows ? " of text" : "");
  kf_model_free(wider);
  return result_of(cli, status);
}

static int run(cli_run *cli) {
  int result = check_output(cli, cli->args.output);
  if (result != EXIT_OK) return result;
  kf_model *model = NULL;
  kf_data *samples = NULL;
  result = load_model(cli, cli->args.operands.items[0], &model);
  if (result == EXIT_OK && cli->args.text.rows && !kf_model_fused(model))
    result = fail_usage(cli, "%s has no text; 'koofu fit DATA --text TEXT' makes a model that does",
                        cli->args.operands.items[0]);
  if (result == EXIT_OK) result = open_data(cli, 2, LABELS_IGNORED, &samples);
  if (result == EXIT_OK) result = add_class(cli, model, samples);
  kf_data_free(samples);
  kf_model_free(model);
  return result;
}

static const cli_group own_options = {
    "Options",
    OPTIONS({OUTPUT("MODEL2.safetensors"), .required = 1, .help = "the model to write"},
            {FLAG("text", text.rows),
             .help = "DATA are text embeddings of the class: its name in one or more prompts"})};

const cli_command add_class_command = {
    .name = "add-class",
    .operands = "MODEL NAME DATA...",
    .missing = "the model, the name of the new class or its samples are",
    .summary = "add a class to a model from a few samples",
    .details =
        "The prototype of the new class is the mean of all rows of DATA, whose labels are "
        "ignored. The map does not change, so rows mapped with the old model remain comparable, "
        "and nothing is fitted again. The name must be new to the model.\n\n"
        "With --text, for a model that has text ('koofu fit --text'), DATA are embeddings of "
        "prompts: the class takes part by name alone or, if the model has it already, gets this "
        "text instead.",
    .groups = GROUPS(&own_options, &row_options),
    .examples = EXAMPLES(
        {"One more class from its samples",
         "koofu add-class model.safetensors okapi okapi.npy -o model2.safetensors"},
        {"By its name alone",
         "koofu add-class fused.safetensors okapi okapi_prompts.npy --text -o fused2.safetensors"}),
    .run = run,
};
