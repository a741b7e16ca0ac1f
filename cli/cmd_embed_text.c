/* cmd_embed_text.c - koofu embed-text: turns class names or lines of text into embeddings. */
#include "commands.h"

/* The operand TEXTS is the same as --prompts. */
static int take_operand(cli_run *cli) {
  cli_args *a = &cli->args;
  if (a->operands.n < 2) return EXIT_OK;
  if (a->prompts.lines) return fail_usage(cli, "TEXTS and --prompts are the same; give one");
  a->prompts.lines = a->operands.items[1];
  return EXIT_OK;
}

static int check_options(cli_run *cli) {
  const cli_args *a = &cli->args;
  if (!a->data.classes == !a->prompts.lines)
    return fail_usage(cli, a->data.classes
                               ? "--classes and --prompts are two ways to say what to embed"
                               : "missing option --classes FILE or --prompts FILE");
  if (a->prompts.lines)
    TRY(refuse(cli, "templates names all-names prompt-rows",
               "--prompts, whose lines are embedded as they are"));
  if (a->data.classes && !a->prompts.rows && a->dtype != KF_F32)
    return fail_usage(cli, "--dtype cannot be used with text prototypes, which are f32");
  return check_safetensors(cli, a->output, "a file of text embeddings");
}

static int make_prompts(cli_run *cli, kf_prompts **out) {
  const cli_args *a = &cli->args;
  kf_prompts_options options = {.classes = a->data.classes,
                                .spoken = a->prompts.names,
                                .templates = a->prompts.templates,
                                .all_names = a->prompts.all_names};
  return own_prompts(cli,
                     a->prompts.lines ? kf_prompts_read(cli->ctx, a->prompts.lines, out)
                                      : kf_prompts_new(cli->ctx, &options, out),
                     out);
}

static int embed_rows(cli_run *cli, const kf_encoder *encoder, const kf_prompts *prompts) {
  const cli_args *a = &cli->args;
  TRY(result_of(cli, kf_prompts_embed(cli->ctx, encoder, prompts, (kf_dtype)a->dtype, a->output)));
  say_data_written(cli, a->output);
  return EXIT_OK;
}

static int embed_classes(cli_run *cli, const kf_encoder *encoder, const kf_prompts *prompts) {
  kf_text *text = NULL;
  TRY(own_text(cli, kf_text_new_from_prompts(cli->ctx, encoder, prompts, NULL, &text), &text));
  return save_text(cli, text, kf_prompts_count(prompts), "prompt", "prompts");
}

static int run_embed_text(cli_run *cli) {
  const cli_args *a = &cli->args;
  kf_prompts *prompts = NULL;
  kf_encoder *encoder = NULL;
  TRY(take_operand(cli));
  TRY(check_options(cli));
  TRY(make_prompts(cli, &prompts));
  TRY(load_encoder(cli, a->operands.items[0], TOWER_TEXT, &encoder));
  int rows = a->prompts.lines || a->prompts.rows;
  return (rows ? embed_rows : embed_classes)(cli, encoder, prompts);
}

static const cli_group own_options = {
    "Options",
    OPTIONS(
        {OUTPUT("TEXT.safetensors"), .required = 1,
         .help = "the file to write; its name ends in .safetensors"},
        {INPUT("classes", data.classes, "FILE"),
         .help = "class names, one per line; each gets a text prototype"},
        {INPUT("prompts", prompts.lines, "FILE"), .help = "texts, one per line; each gets a row"},
        {TEMPLATES,
         .help = "templates with {} for the name; or builtin1, builtin7 (default), builtin80"},
        {SPOKEN_NAMES}, {ALL_NAMES},
        {FLAG("prompt-rows", prompts.rows),
         .help = "with --classes: write a labelled row for each prompt, not their mean"},
        {DTYPE(" (rows only)")})};

const cli_command embed_text_command = {
    .name = "embed-text",
    .operands = "CLIP-DIR [TEXTS]",
    .summary = "turn class names or texts into embeddings, for zero-shot use",
    .details =
        "CLIP-DIR is a CLIP model as Hugging Face publishes it: a folder with config.json, "
        "model.safetensors and the files of the tokenizer.\n\n"
        "With --classes, every class name goes into every template (see 'koofu prompts'), and the "
        "embeddings of each class are averaged as in 'koofu text-prototypes'. Names must be the "
        "labels of the rows, such as folder names; --names says what to call them if that differs "
        "('red_fox<tab>red fox'). The output is for --text of 'koofu fit', 'koofu eval' and 'koofu "
        "classify'. --prompt-rows writes the embeddings of the prompts instead, with labels.\n\n"
        "With --prompts, or TEXTS as an argument, every line of the file is embedded as it is and "
        "gets a row of its own.\n\n"
        "All prompts are held in memory.",
    .groups = GROUPS(&own_options, &tower_options),
    .examples = EXAMPLES({"Zero-shot classes from their names",
                          "koofu embed-text clip --classes names.txt -o text.safetensors"},
                         {"Then their accuracy",
                          "koofu eval model.safetensors test.safetensors --text text.safetensors"},
                         {"Pictures by words: search in a gallery with a sentence",
                          "koofu embed-text clip --prompts query.txt -o query.safetensors"},
                         {"The same, from another program",
                          "echo 'a red fox' | koofu embed-text clip - -o query.safetensors"}),
    .run = run_embed_text,
};
