/* cmd_synth.c - koofu synth: a synthetic CLIP-like world as files. */
#include "cli.h"
#include "commands.h"

static int save(cli_run *cli, kf_status opened, kf_data *data, const char *path) {
  if (opened != KF_OK) return fail(cli, opened);
  kf_status status = kf_data_save(cli->ctx, data, (kf_dtype)cli->args.dtype, path);
  kf_data_free(data);
  if (status != KF_OK) return fail(cli, status);
  say_data_written(cli, path);
  return EXIT_OK;
}

static int run(cli_run *cli) {
  const cli_args *a = &cli->args;
  int result = check_safetensors(cli, a->output, "data set");
  if (result == EXIT_OK && a->text_output)
    result = check_safetensors(cli, a->text_output, "data set");
  if (result == EXIT_OK) result = check_outputs_differ(cli, a->output, a->text_output);
  if (result != EXIT_OK) return result;
  kf_synth_options options = world_of(a);
  options.split = (uint32_t)a->split.value;
  kf_data *data = NULL;
  kf_status status = kf_synth_open(cli->ctx, &options, &data);
  result = save(cli, status, data, a->output);
  if (result != EXIT_OK || !a->text_output) return result;
  status = kf_synth_open_text(cli->ctx, &options, &data);
  return save(cli, status, data, a->text_output);
}

static const cli_group own_options = {
    "Options",
    (const cli_option[]){
        {"output", 'o', OPTION_TEXT, offsetof(cli_args, output), OPTION_REQUIRED, "OUT.safetensors",
         "the data set to write; its name ends in .safetensors", 0, 0, NULL},
        {"text", 0, OPTION_TEXT, offsetof(cli_args, text_output), 0, "TEXT.safetensors",
         "also write the text prototypes of the classes", 0, 0, NULL},
        {"split", 0, OPTION_NUMBER, offsetof(cli_args, split), 0, "S",
         "0: training rows (default); 1, 2, ...: other rows of the same classes", 0, UINT32_MAX,
         NULL},
        {"dtype", 0, OPTION_CHOICE, offsetof(cli_args, dtype), 0, "TYPE",
         "type of the numbers: f32 (default), f16 or bf16", KF_F32, 0, dtype_choices},
        {0}}};

const cli_command synth_command = {
    .name = "synth",
    .operands = "",
    .summary = "make a synthetic CLIP-like data set",
    .details =
        "Image embeddings with a class hierarchy, noise within classes that has a power-law "
        "spectrum, a large common mean, and text prototypes behind a modality gap; calibrated on "
        "real CLIP ViT-B/32 embeddings. The same options give the same bytes on every machine. "
        "Rows are made as they are written, so that any size works.\n\n"
        "Without options: 1000 classes, 512 dimensions, 16 rows per class, seed 0. Row i belongs "
        "to class i mod K. Test rows are those of another --split of the same world.",
    .groups = (const cli_group *const[]){&own_options, &world_options, NULL},
    .examples =
        (const cli_example[]){{"Training and test rows",
                               "koofu synth -o train.safetensors && koofu synth --split 1 -o "
                               "test.safetensors"},
                              {"As many rows as ImageNet has",
                               "koofu synth --dim 768 --per-class 1281 --dtype f16 -o "
                               "big.safetensors"},
                              {NULL, NULL}},
    .run = run,
};
