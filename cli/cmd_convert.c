/* cmd_convert.c - koofu convert: any files we read to one native data set. */
#include "cli.h"
#include "commands.h"

static int run(cli_run *cli) {
  const char *path = cli->args.output;
  int result = check_safetensors(cli, path, "data set");
  if (result != EXIT_OK) return result;
  kf_data *data;
  result = open_data(cli, 0, LABELS_NEEDED, &data);
  if (result != EXIT_OK) return result;
  kf_status status = kf_data_save(cli->ctx, data, (kf_dtype)cli->args.dtype, path);
  kf_data_free(data);
  if (status != KF_OK) return fail(cli, status);
  say_data_written(cli, path);
  return EXIT_OK;
}

static const cli_group own_options = {
    "Options",
    (const cli_option[]){
        {"output", 'o', OPTION_TEXT, offsetof(cli_args, output), OPTION_REQUIRED, "OUT.safetensors",
         "the data set to write; its name ends in .safetensors", 0, 0, NULL},
        {"dtype", 0, OPTION_CHOICE, offsetof(cli_args, dtype), 0, "TYPE",
         "type of the numbers: f32 (default), f16 or bf16", KF_F32, 0, dtype_choices},
        {"keep-unlabelled", 0, OPTION_FLAG, offsetof(cli_args, allow_unlabelled), 0, NULL,
         "keep rows with a negative or empty label, without one, instead of failing", 0, 0, NULL},
        {0}}};

const cli_command convert_command = {
    .name = "convert",
    .operands = "IN...",
    .min_operands = 1,
    .max_operands = ANY_NUMBER,
    .missing = "the files to convert are",
    .summary = "turn embeddings and labels into one native data set",
    .details =
        "Reads .npy (versions 1 to 3; f2, f4, f8), .safetensors (F16, BF16, F32, F64), .fvecs and "
        ".fbin. Each IN is a file, a folder (all files in it with a known ending) or a quoted glob "
        "pattern; together they are one data set. The files of a folder or pattern come in name "
        "order.\n\n"
        "Labels come from --labels: one file for each data file (repeat the option in the order of "
        "the data files, or give a quoted pattern) or one file for all rows together; or they are "
        "inside the .safetensors "
        "files. Text labels without --classes make their own list of classes, sorted by bytes.\n\n"
        "The data set is one .safetensors file with the tensors 'embeddings' and 'labels' and the "
        "class names in its metadata; ids (see 'koofu embed') are kept where all files have them. "
        "Rows are streamed: the size of the data does not matter. "
        "Numbers that f16 or bf16 cannot hold are rounded to nearest even; one too large for the "
        "type is an error.",
    .groups =
        (const cli_group *const[]){&own_options, &label_options, &row_options, &only_options, NULL},
    .examples =
        (const cli_example[]){
            {"One .npy and its labels, in half the space",
             "koofu convert x.npy --labels y.npy --classes names.txt --dtype f16 -o "
             "train.safetensors"},
            {"Two shards with a label file each",
             "koofu convert a.npy b.npy --labels a.txt --labels b.txt -o train.safetensors"},
            {NULL, NULL}},
    .run = run,
};
