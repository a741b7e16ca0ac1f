/* cmd_transform.c - koofu transform: maps rows to the model's space. */
#include "commands.h"

static int run_transform(cli_run *cli) {
  const cli_args *a = &cli->args;
  kf_model *model = NULL;
  kf_data *data = NULL;
  kf_transform_options options = {.normalize = a->use.no_normalize ? KF_OFF : KF_ON};
  TRY(check_format(cli, a->output, "mapped rows",
                   FORMAT(SINK_PARQUET) | FORMAT(SINK_NPY) | FORMAT(SINK_SAFETENSORS)));
  TRY(load_model(cli, a->operands.items[0], &model));
  TRY(open_data(cli, 1, LABELS_WANTED, &data));
  TRY(result_of(cli,
                kf_transform_data(cli->ctx, model, data, &options, (kf_dtype)a->dtype, a->output)));
  say_data_written(cli, a->output);
  return EXIT_OK;
}

static const cli_group own_options = {
    "Options",
    OPTIONS(
        {OUTPUT("OUT"), .required = 1, .help = "the file to write, .npy, .safetensors or .parquet"},
        {DTYPE(" (bf16 in .safetensors alone)")},
        {FLAG("no-normalize", use.no_normalize),
         .help = "do not scale mapped rows to unit length, for Euclidean distances"})};

const cli_command transform_command = {
    .name = "transform",
    .operands = "MODEL DATA...",
    .summary = "map embeddings to the model's space",
    .details =
        "Rows keep their order and are scaled to unit length, so that a dot product is a cosine. A "
        ".npy holds only the rows; a .safetensors is a native data set with labels and class "
        "names, if the input has them, and a .parquet has columns embedding, label and id.\n\n"
        "With --skip-bad, rows that are NaN, infinite or zero become zeros, so that every row "
        "keeps its number.",
    .groups = GROUPS(&own_options, &label_options, &row_options),
    .examples =
        EXAMPLES({"A compact gallery for retrieval",
                  "koofu transform model.safetensors gallery.npy --dtype f16 -o compact.npy"}),
    .run = run_transform,
    .shared = 1,
};
