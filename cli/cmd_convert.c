/* cmd_convert.c - koofu convert: turns any readable files into one native data set. */
#include "commands.h"

static int run_convert(cli_run *cli) {
  const char *path = cli->args.output;
  kf_data *data = NULL;
  TRY(check_format(cli, path, "a data set", FORMAT(SINK_PARQUET) | FORMAT(SINK_SAFETENSORS)));
  TRY(open_data(cli, 0, LABELS_NEEDED, &data));
  TRY(result_of(cli, kf_data_save(cli->ctx, data, (kf_dtype)cli->args.dtype, path)));
  say_data_written(cli, path);
  return EXIT_OK;
}

static const cli_group own_options = {
    "Options",
    OPTIONS({SET_OUTPUT}, {DTYPE(" (bf16 not in .parquet)")},
            {FLAG("keep-unlabelled", data.allow_unlabelled),
             .help = "keep rows with a negative or empty label, unlabelled, instead of failing"})};

const cli_command convert_command = {
    .name = "convert",
    .operands = "IN...",
    .summary = "turn embeddings and labels into one native data set",
    .details =
        "Reads .npy (versions 1 to 3; f2, f4, f8), .npz (archives of these; FILE.npz:NAME is one "
        "array), .safetensors (F16, BF16, F32, F64), .parquet (a list of floats, or a "
        "column for each dimension), .csv and .tsv (a column for each dimension), .fvecs, .fbin, "
        ".f16bin, "
        ".u8bin and .i8bin. Each IN is a file, a folder (all files in it "
        "with a known file extension) or a quoted glob pattern; together they are one data set. "
        "The files of a folder or pattern "
        "are ordered by the numbers in their names, 2 before 10. A shell lists files by bytes, 10 "
        "before 2; if a single label file makes the order matter, such a list is refused unless "
        "--order says what is right.\n\n"
        "Labels come from --labels: one file per data file (repeat the option in the order of the "
        "data files, or give a folder or a quoted pattern, whose files are matched by name or by "
        "number) or one file for all rows together. In a .csv or .tsv, --label-column says which "
        "column. Otherwise the labels inside the .safetensors and .npz files are used. Text labels "
        "without --classes make their own list of classes, sorted by bytes.\n\n"
        "The data set is one .safetensors file with the tensors 'embeddings' and 'labels' and the "
        "class names in its metadata; ids (see 'koofu embed') are kept if all files have them. "
        "Rows are streamed, so the data may be larger than memory. Numbers that f16 or bf16 cannot "
        "hold exactly are rounded to nearest even; a number too large for the type is an error.",
    .groups = GROUPS(&own_options, &label_options, &row_options, &only_options),
    .examples = EXAMPLES(
        {"Columns of .parquet files", "koofu convert 'shards/*.parquet' --column embedding "
                                      "--label-column class --id-column key -o train.safetensors"},
        {"One .npy and its labels, in half the space",
         "koofu convert x.npy --labels y.npy --classes names.txt --dtype f16 -o train.safetensors"},
        {"Two shards with a label file each",
         "koofu convert a.npy b.npy --labels a.txt --labels b.txt -o train.safetensors"},
        {"A folder of shards, and labels in a column of a table",
         "koofu convert shards --labels train.csv --label-column class -o train.safetensors"},
        {"Arrays saved by numpy.savez",
         "koofu convert train.npz:x --labels train.npz:y -o train.safetensors"}),
    .run = run_convert,
    .shared = 1,
};
