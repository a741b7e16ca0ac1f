/* cmd_synth.c - koofu synth: writes a synthetic CLIP-like world to files. */
#include "commands.h"

/* Writes rows and text, or neither. */
static int save_both(cli_run *cli, const char *path, const char *text_path) {
  kf_synth_options options = world_of(&cli->args);
  kf_data *data, *text;
  kf_dtype dtype = (kf_dtype)cli->args.dtype;
  TRY(own_data(cli, kf_synth_open(cli->ctx, &options, &data), &data));
  TRY(own_data(cli, kf_synth_open_text(cli->ctx, &options, &text), &text));
  TRY(result_of(cli, kf_outputs_begin(cli->ctx)));
  TRY(result_of(cli, kf_data_save(cli->ctx, data, dtype, path)));
  if (text_path) TRY(result_of(cli, kf_data_save(cli->ctx, text, dtype, text_path)));
  return result_of(cli, kf_outputs_commit(cli->ctx));
}

static int run_synth(cli_run *cli) {
  const char *path = cli->args.output, *text_path = cli->args.world.text;
  TRY(check_safetensors(cli, path, "a data set"));
  if (text_path) TRY(check_safetensors(cli, text_path, "a data set"));
  TRY(check_outputs_differ(cli, path, text_path));
  TRY(save_both(cli, path, text_path));
  say_data_written(cli, path);
  if (text_path) say_data_written(cli, text_path);
  return EXIT_OK;
}

static const cli_group own_options = {
    "Options",
    OPTIONS({DATA_OUTPUT},
            {TEXT("text", world.text, "TEXT.safetensors"),
             .help = "also write the text prototypes of the classes"},
            {NUMBER("split", world.split, "S", 0, UINT32_MAX),
             .help = "0: training rows (default); 1, 2, ...: other rows of the same classes"},
            {DTYPE("")})};

const cli_command synth_command = {
    .name = "synth",
    .summary = "make a synthetic CLIP-like data set",
    .details = "Image embeddings with a class hierarchy, noise within classes that has a power-law "
               "spectrum, a large common mean, and text prototypes on the other side of a modality "
               "gap; calibrated on real CLIP ViT-B/32 embeddings. The same options give the same "
               "bytes on every machine. Rows are made as they are written, so any size works.\n\n"
               "By default: 1000 classes, 512 dimensions, 16 rows per class, seed 0. Row i belongs "
               "to class i mod K. Test rows come from another --split of the same world.",
    .groups = GROUPS(&own_options, &world_options),
    .examples =
        EXAMPLES({"Training and test rows",
                  "koofu synth -o train.safetensors && koofu synth --split 1 -o test.safetensors"},
                 {"As many rows as ImageNet has",
                  "koofu synth --dim 768 --per-class 1281 --dtype f16 -o big.safetensors"}),
    .run = run_synth,
};
