/* cmd_add_class.c - koofu add-class: a new prototype from a few samples. */
#include "cli.h"
#include "commands.h"

static int add_class(cli_run *cli, const kf_model *model, const kf_data *samples) {
  const char *name = cli->args.operands.items[1];
  kf_model *wider;
  kf_status status = kf_model_new_with_class(cli->ctx, model, name, samples, &wider);
  if (status != KF_OK) return fail(cli, status);
  status = kf_model_save(cli->ctx, wider, cli->args.output);
  if (status == KF_OK)
    say_written(
        cli, cli->args.output, "%s, the new one from %s",
        show_counted(kf_model_classes(wider), "class", "classes").text,
        show_counted((uint64_t)kf_model_count(wider, kf_model_classes(wider) - 1), "row", "rows")
            .text);
  kf_model_free(wider);
  return status == KF_OK ? EXIT_OK : fail(cli, status);
}

static int run(cli_run *cli) {
  int result = check_output(cli, cli->args.output);
  if (result != EXIT_OK) return result;
  kf_model *model = NULL;
  kf_data *samples = NULL;
  result = load_model(cli, cli->args.operands.items[0], &model);
  if (result == EXIT_OK) result = open_data(cli, 2, LABELS_IGNORED, &samples);
  if (result == EXIT_OK) result = add_class(cli, model, samples);
  kf_data_free(samples);
  kf_model_free(model);
  return result;
}

static const cli_group own_options = {
    "Options",
    (const cli_option[]){{"output", 'o', OPTION_TEXT, offsetof(cli_args, output), OPTION_REQUIRED,
                          "MODEL2.safetensors", "the model to write", 0, 0, NULL},
                         {0}}};

const cli_command add_class_command = {
    .name = "add-class",
    .operands = "MODEL NAME DATA...",
    .min_operands = 3,
    .max_operands = ANY_NUMBER,
    .missing = "the model, the name of the new class or its samples are",
    .summary = "add a class to a model from a few samples",
    .details =
        "The prototype of the new class is the mean of all rows of DATA, whose labels are not "
        "looked at. The map stays as it is, so that spaces made with the old model remain "
        "comparable, and nothing is fitted again. The name must be new to the model.",
    .groups = (const cli_group *const[]){&own_options, &row_options, NULL},
    .examples = (const cli_example[]){{"One more class from its samples",
                                       "koofu add-class model.safetensors okapi okapi.npy -o "
                                       "model2.safetensors"},
                                      {NULL, NULL}},
    .run = run,
};
