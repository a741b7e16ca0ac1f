/* cmd_embed.c - koofu embed: turns pictures into a data set. */
#include "commands.h"

static int embed_pictures(cli_run *cli, const kf_encoder *encoder, const kf_pictures *pictures) {
  const char *path = cli->args.output;
  kf_embed_options options = embed_options_of(&cli->args);
  kf_embed_report r;
  double begun = now();
  kf_status status = kf_embed(cli->ctx, encoder, pictures, &options, path, &r);
  int result = result_of(cli, status);
  if (status == KF_ERR_CANCELLED) say_kept(cli, path);
  if (status != KF_OK) return result;
  double seconds = now() - begun;
  if (r.unchanged)
    progress_end(cli);
  else
    say_data_written(cli, path);
  if (options.metadata) say(cli, "wrote %s", options.metadata);
  uint64_t fresh = r.rows + r.skipped - r.resumed - r.reused; /* the rate is of this run alone */
  if (fresh > 0 && seconds > 0) say(cli, "%s pictures/s", show_rate((double)fresh / seconds).text);
  say_pictures(cli, &r, path);
  return EXIT_OK;
}

static int run_embed(cli_run *cli) {
  kf_pictures *pictures = NULL;
  kf_encoder *encoder = NULL;
  TRY(check_safetensors(cli, cli->args.output, "a data set"));
  TRY(open_pictures(cli, 1, &pictures));
  TRY(load_encoder(cli, cli->args.operands.items[0], TOWER_IMAGES, &encoder));
  return embed_pictures(cli, encoder, pictures);
}

static const cli_group own_options = {
    "Options",
    OPTIONS(
        {DATA_OUTPUT},
        {INPUT("list", pictures.list, "FILE"),
         .help = "lines PATH or PATH<tab>CLASS; relative paths start at the folder of FILE"},
        {TEXT("metadata", pictures.metadata, "OUT.jsonl"),
         .help =
             "also write JSON for each row: id, class, and the text and JSON beside it in a .tar"},
        {DTYPE("")},
        {FLAG("normalize", pictures.normalize),
         .help = "scale rows to unit length (default: leave them as the encoder makes them)"})};

const cli_command embed_command = {
    .name = "embed",
    .operands = "CLIP-DIR [PICTURES...]",
    .summary = "turn pictures into embeddings, with labels from their folders",
    .details =
        "CLIP-DIR is a CLIP model as Hugging Face publishes it: a folder with config.json, "
        "model.safetensors and preprocessor_config.json. Pictures are JPEG, PNG or WebP.\n\n"
        "Each of PICTURES is a picture, a folder, a WebDataset archive (.tar) or a quoted glob "
        "pattern. The folders in a folder are classes, and every picture below one of them belongs "
        "to it; pictures directly in a folder without such folders have no label. A file in a "
        "folder is a picture if its name ends in .jpg, .jpeg, .png or .webp or its magic bytes say "
        "so; other formats (GIF, BMP, TIFF, HEIC, AVIF) are left out and counted. Rows come in "
        "byte order of the paths within a folder, and in the order of the arguments. The paths are "
        "stored as ids, as given: 'koofu index' and 'koofu search' answer with them.\n\n"
        "With --labels, the classes come from a .csv or .tsv with a header, whatever folders there "
        "are. Its names are file names, with or without extension and folders: 'a.jpg', 'a' and "
        "'in/a.jpg' name photos/in/a.jpg. Pictures without a line are left out and counted. A line "
        "that names no picture is an error, unless --skip-bad leaves it out; so is one that names "
        "several, or one that is labelled already.\n\n"
        "An archive holds samples: members whose names differ only after their first dot, such as "
        "000123.jpg, 000123.cls, 000123.txt and 000123.json. The class of a picture is the content "
        "of .cls, or a value of .json named by --label-key; --metadata keeps texts and JSON. "
        "Archives are read in place and in order; 'shards/{0000..0127}.tar' names many.\n\n"
        "Finished shards are kept in the folder OUT.safetensors.parts until the file is complete. "
        "If a run is stopped or killed, the same command resumes it, and the file has the same "
        "bytes as without the interruption. A picture that has changed in the meantime is embedded "
        "again. With other pictures, another encoder or other options the folder is refused, and "
        "--no-resume discards it.\n\n"
        "If OUT.safetensors exists and was embedded with the same encoder and options, only new "
        "and changed pictures are embedded: the others are recognised by their bytes, even under "
        "another name, and their rows are taken from it. --no-resume embeds all of them again.\n\n"
        "Embeddings have the same bits whatever the number of threads, the instruction set and the "
        "size of shards.",
    .groups = GROUPS(&own_options, &picture_labels, &picture_options, &tower_options),
    .examples = EXAMPLES(
        {"One folder per class", "koofu embed clip photos -o train.safetensors"},
        {"With a table of their classes, such as image,species",
         "koofu embed clip photos --labels birds.csv --label-column species -o train.safetensors"},
        {"Those of a list, without the ones that cannot be read",
         "koofu embed clip --list list.tsv --skip-bad -o train.safetensors"},
        {"The shards that img2dataset wrote, with their captions",
         "koofu embed clip 'shards/{00000..00099}.tar' --metadata train.jsonl -o "
         "train.safetensors"},
        {"In half the space", "koofu embed clip 'photos/*.jpg' --dtype f16 -o photos.safetensors"}),
    .run = run_embed,
    .shared = 1,
};
