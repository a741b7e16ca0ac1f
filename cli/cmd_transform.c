/* cmd_transform.c - koofu transform: rows to the model's space. */
#include "cli.h"
#include "commands.h"

static int transform(cli_run *cli, const kf_model *model, const kf_data *data) {
  const char *path = cli->args.output;
  kf_transform_options options = {.normalize = cli->args.no_normalize ? KF_OFF : KF_ON};
  kf_status status =
      kf_transform_data(cli->ctx, model, data, &options, (kf_dtype)cli->args.dtype, path);
  if (status != KF_OK) return fail(cli, status);
  say_data_written(cli, path);
  return EXIT_OK;
}

static int run(cli_run *cli) {
  int result = check_output(cli, cli->args.output);
  if (result != EXIT_OK) return result;
  kf_model *model = NULL;
  kf_data *data = NULL;
  result = load_model(cli, cli->args.operands.items[0], &model);
  if (result == EXIT_OK) result = open_data(cli, 1, LABELS_WANTED, &data);
  if (result == EXIT_OK) result = transform(cli, model, data);
  kf_data_free(data);
  kf_model_free(model);
  return result;
}

static const cli_group own_options = {
    "Options",
    (const cli_option[]){
        {"output", 'o', OPTION_TEXT, offsetof(cli_args, output), OPTION_REQUIRED, "OUT",
         "the file to write, .npy or .safetensors", 0, 0, NULL},
        {"dtype", 0, OPTION_CHOICE, offsetof(cli_args, dtype), 0, "TYPE",
         "type of the numbers: f32 (default), f16 or bf16 (not in .npy)", KF_F32, 0, dtype_choices},
        {"no-normalize", 0, OPTION_FLAG, offsetof(cli_args, no_normalize), 0, NULL,
         "leave the length of mapped rows as it is, for Euclidean distances", 0, 0, NULL},
        {0}}};

const cli_command transform_command = {
    .name = "transform",
    .operands = "MODEL DATA...",
    .min_operands = 2,
    .max_operands = ANY_NUMBER,
    .missing = "the model and the data to map are",
    .missing_rest = "the data to map are",
    .summary = "map embeddings to the model's space",
    .details =
        "Rows come out in their order, scaled to unit length, so that a dot product is a cosine. A "
        ".npy holds the rows alone; a .safetensors is a native data set with labels and class "
        "names, where the input has them.\n\n"
        "With --skip-bad, rows that are NaN, infinite or zero become zeros, so that every row "
        "keeps its number.",
    .groups = (const cli_group *const[]){&own_options, &label_options, &row_options, NULL},
    .examples =
        (const cli_example[]){{"A compact gallery for retrieval",
                               "koofu transform model.safetensors gallery.npy --dtype f16 -o "
                               "compact.npy"},
                              {NULL, NULL}},
    .run = run,
};
