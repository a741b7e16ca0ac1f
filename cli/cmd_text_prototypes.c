/* cmd_text_prototypes.c - koofu text-prototypes: averages embeddings of prompts by class. */
#include "commands.h"

static int open_prompts(cli_run *cli, int labelled, const char *classes, kf_data **out) {
  const cli_args *a = &cli->args;
  kf_data_options options = {.labels = a->data.labels.items,
                             .n_labels = a->data.labels.n,
                             .classes = classes,
                             .tensor = a->data.tensor,
                             .label_tensor = a->data.label_tensor,
                             .inner_labels = !labelled ? KF_OFF : KF_ON,
                             .skip_bad = a->data.skip_bad,
                             .label_column = a->data.label_column,
                             .order = (kf_order)a->data.order};
  TRY(own_data(cli, kf_data_open(cli->ctx, a->operands.items, a->operands.n, &options, out), out));
  return check_replaces_no_data(cli, *out, a->output);
}

/* Without labels and --per-class, all classes have the same number of prompts. */
static int share_out(cli_run *cli, const kf_data *data, kf_text_options *options) {
  kf_class_set *names = NULL;
  TRY(result_of(cli, kf_class_set_load(cli->ctx, cli->args.data.classes, &names)));
  uint32_t n = kf_class_set_size(names);
  uint64_t rows = kf_data_rows(data), each = rows / n;
  kf_class_set_free(names);
  if (each * n != rows || each > UINT32_MAX)
    return fail_with(cli, EXIT_BAD_DATA,
                     "%s cannot be shared out evenly among the %u classes of %s",
                     show_counted(rows, "embedding", "embeddings").text, n, cli->args.data.classes);
  options->per_class = (uint32_t)each;
  options->classes = cli->args.data.classes;
  return EXIT_OK;
}

/* Opens the embeddings and decides how they are assigned to classes. */
static int take_prompts(cli_run *cli, kf_text_options *options, kf_data **data) {
  const cli_args *a = &cli->args;
  if (a->text.per_class.given) {
    options->per_class = (uint32_t)a->text.per_class.value;
    options->classes = a->data.classes;
    return open_prompts(cli, 0, NULL, data);
  }
  if (!a->data.classes || a->data.labels.n) return open_prompts(cli, 1, a->data.classes, data);
  TRY(open_prompts(cli, 1, NULL, data));
  if (!kf_data_has_labels(*data)) return share_out(cli, *data, options);
  return open_prompts(cli, 1, a->data.classes,
                      data); /* the labels inside, with names from --classes */
}

static int run_text_prototypes(cli_run *cli) {
  const cli_args *a = &cli->args;
  if (a->text.per_class.given) TRY(refuse(cli, "labels label-tensor", "--per-class"));
  TRY(check_safetensors(cli, a->output, "a file of text prototypes"));
  kf_text_options options = {.unit_rows = a->text.no_unit_rows ? KF_OFF : KF_ON,
                             .unit_mean = a->text.no_unit_mean ? KF_OFF : KF_ON};
  kf_data *data = NULL;
  kf_text *text = NULL;
  TRY(take_prompts(cli, &options, &data));
  kf_status status = kf_text_new(cli->ctx, data, &options, &text);
  if (status != KF_OK) return fail_in(cli, status, a->operands.items[0]);
  TRY(own_text(cli, KF_OK, &text));
  return save_text(cli, text, kf_data_rows(data), "embedding", "embeddings");
}

static const cli_group own_options = {
    "Options",
    OPTIONS(
        {OUTPUT("TEXT.safetensors"), .required = 1,
         .help = "the prototypes to write; the name ends in .safetensors"},
        {NUMBER("per-class", text.per_class, "M", 1, UINT32_MAX),
         .help = "M embeddings per class, class by class (default with --classes: evenly)"},
        {FLAG("no-unit-rows", text.no_unit_rows),
         .help = "average embeddings without scaling them to unit length"},
        {FLAG("no-unit-mean", text.no_unit_mean), .help = "do not scale means to unit length"})};

const cli_command text_prototypes_command = {
    .name = "text-prototypes",
    .operands = "EMB...",
    .summary = "average text embeddings by class, for zero-shot use",
    .details = "Reads embedded prompts in any format that 'koofu convert' reads, and writes a "
               "native data set with one mean per class, in class order, with the names. 'koofu "
               "prompts' writes prompts class by class; if their embeddings are in the same order, "
               "--classes or --per-class M is enough. Otherwise, or if classes differ in their "
               "number of prompts, give labels.\n\n"
               "Each embedding and each mean is scaled to unit length, as OpenAI does for CLIP. "
               "--text scales means to unit length again, unless --text-as-is is given.",
    .groups = GROUPS(&own_options, &label_options, &row_options),
    .examples = EXAMPLES(
        {"Seven prompts per class",
         "koofu text-prototypes prompts.npy --classes names.txt --per-class 7 -o text.safetensors"},
        {"Then zero-shot accuracy",
         "koofu eval model.safetensors test.safetensors --text text.safetensors"}),
    .run = run_text_prototypes,
};
