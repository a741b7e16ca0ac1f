/* cmd_export.c - koofu export: writes a model for other programs. */
#include "commands.h"

#include <sys/stat.h>

/* A folder may exist already; the library decides whether it may be written to. */
static int check_target(cli_run *cli, const char *path) {
  struct stat info;
  int is_folder = !is_stdout(path) && (stat(path, &info) != 0 || S_ISDIR(info.st_mode));
  return is_folder ? EXIT_OK : check_output(cli, path);
}

static int run_export(cli_run *cli) {
  const cli_args *a = &cli->args;
  TRY(check_target(cli, a->output));
  kf_model *model = NULL;
  TRY(load_model(cli, a->operands.items[0], &model));
  kf_export_options options = {.normalize = a->use.no_normalize ? KF_OFF : KF_DEFAULT,
                               .metric = (kf_metric)a->metric,
                               .raw = a->use.raw,
                               .part = (kf_part)a->use.part,
                               .temperature = a->votes.temperature.value,
                               .gallery = a->votes.gallery,
                               .inline_bytes = (uint64_t)a->exported.inline_bytes.value,
                               .single = a->exported.single,
                               .license = a->exported.license,
                               .base_model = a->exported.base_model};
  kf_status status = kf_export(cli->ctx, model, &options, a->output);
  if (status == KF_OK)
    say_written(cli, a->output, "%s, %u to %u dimensions",
                show_counted(kf_model_classes(model), "class", "classes").text,
                kf_model_dim_in(model), kf_model_dim_out(model));
  if (status == KF_ERR_MATH) return fail_in(cli, status, a->operands.items[0]);
  return result_of(cli, status);
}

static const cli_group own_options = {
    "Options",
    OPTIONS(
        {OUTPUT("OUT"), .required = 1,
         .help = "what to write: .onnx, .faiss, .npz, .h, .c or a folder"},
        {METRIC(all_metrics), .help = "cosine or euclidean, in .faiss also inner (default: cosine; "
                                      "euclidean for a model fitted without normalising)"},
        {FLAG("raw", use.raw),
         .help = "compare rows in the original space, with the class means as given"},
        {PART},
        {REAL("temperature", votes.temperature, "T"),
         .help = "of probabilities: larger is steeper (default: the model's)"},
        {FLAG("no-normalize", use.no_normalize), .help = "do not scale mapped rows to unit length"},
        {INPUT("gallery", votes.gallery, "GALLERY"),
         .help = "with .faiss: the rows of this gallery (default: an empty index)"},
        {NUMBER("inline-bytes", exported.inline_bytes, "N", 1, INT32_MAX),
         .help =
             "with .onnx: put matrices into OUT.data if the file would be larger (default: 2 GiB)"},
        {FLAG("single", exported.single),
         .help = "with .onnx: compute in single precision; last digits differ"},
        {TEXT("license", exported.license, "NAME"),
         .help = "with a folder: the licence that README.md names, such as mit"},
        {TEXT("base-model", exported.base_model, "NAME"),
         .help = "with a folder: the encoder's page, such as openai/clip-vit-base-patch32"},
        {ANY_ENCODER})};

const cli_command export_command = {
    .name = "export",
    .operands = "MODEL",
    .summary = "write a model for ONNX, FAISS, numpy, C or a model hub",
    .details =
        "The ending of the output says what it is:\n\n"
        "  .onnx    a graph: rows to mapped rows, scores and probabilities\n"
        "  .faiss   an index of FAISS that maps its queries\n"
        "  .npz     the arrays of the model, for numpy\n"
        "  .h, .c   C99 that needs no library, for devices\n"
        "  folder   for the Hugging Face hub: README.md, config.json, model.safetensors\n\n"
        "The graph and the C code do what 'koofu transform' and 'koofu classify' do, with their "
        "options --metric, --raw, --part, --temperature and --no-normalize. A row of zeros is "
        "mapped to zeros. Columns of scores are the classes that take part, whose names are in the "
        "metadata 'classes' of the graph. Without a temperature there are no probabilities.\n\n"
        "The index of FAISS is empty, for rows in the original space to be added, or holds the "
        "rows of --gallery, which must have been made with this model or, with --raw, without one. "
        "Ids that are whole numbers become those of FAISS; otherwise rows are numbered from 0. "
        "FAISS gives squared distances.\n\n"
        "The name of a folder has no ending, or ends in /. An existing folder may hold other "
        "files; its README.md is left as it is.",
    .groups = GROUPS(&own_options),
    .examples = EXAMPLES(
        {"For onnxruntime", "koofu export model.safetensors -o model.onnx"},
        {"A gallery for FAISS",
         "koofu export model.safetensors --gallery gallery.safetensors -o gallery.faiss"},
        {"For a microcontroller", "koofu export model.safetensors -o birds.h"},
        {"For the Hugging Face hub", "koofu export model.safetensors --license mit -o birds/"}),
    .run = run_export,
};
