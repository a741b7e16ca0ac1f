/* cmd_add_class.c - koofu add-class: a new prototype from a few samples. */
#include "commands.h"
#include "format.h"
#include "inputs.h"
#include "outputs.h"
#include "owned.h"

/* With --text, all rows are those of one class of text. */
static int make(cli_run *cli, const kf_model *model, const kf_data *samples, kf_model **out) {
  const char *name = cli->args.operands.items[1];
  if (!cli->args.text.rows) {
    TRY(result_of(cli, kf_model_new_with_class(cli->ctx, model, name, samples, out)));
    return own_model(cli, *out);
  }
  kf_text_options options = {
      .per_class = (uint32_t)kf_data_rows(samples), .names = &name, .n_names = 1};
  kf_text *text;
  TRY(result_of(cli, kf_text_new(cli->ctx, samples, &options, &text)));
  TRY(own_text(cli, text));
  TRY(result_of(cli, kf_model_new_with_text(cli->ctx, model, text, out)));
  return own_model(cli, *out);
}

static int add_class(cli_run *cli, const kf_model *model, const kf_data *samples) {
  kf_model *wider;
  TRY(make(cli, model, samples, &wider));
  TRY(result_of(cli, kf_model_save(cli->ctx, wider, cli->args.output)));
  int more = kf_model_classes(wider) > kf_model_classes(model);
  say_written(cli, cli->args.output, "%s, the %s from %s%s",
              show_counted(kf_model_classes(wider), "class", "classes").text,
              more ? "new one" : "text of one",
              show_counted(kf_data_rows(samples), "row", "rows").text,
              cli->args.text.rows ? " of text" : "");
  return EXIT_OK;
}

static int run(cli_run *cli) {
  TRY(check_output(cli, cli->args.output));
  kf_model *model = NULL;
  kf_data *samples = NULL;
  TRY(load_model(cli, cli->args.operands.items[0], &model));
  if (cli->args.text.rows && !kf_model_fused(model))
    TRY(fail_usage(cli, "%s has no text; 'koofu fit DATA --text TEXT' makes a model that does",
                   cli->args.operands.items[0]));
  TRY(open_data(cli, 2, LABELS_IGNORED, &samples));
  return add_class(cli, model, samples);
}

static const cli_group own_options = {
    "Options",
    OPTIONS({OUTPUT("MODEL2.safetensors"), .required = 1, .help = "the model to write"},
            {FLAG("text", text.rows),
             .help = "DATA are text embeddings of the class: its name in one or more prompts"})};

const cli_command add_class_command = {
    .name = "add-class",
    .operands = "MODEL NAME DATA...",
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
