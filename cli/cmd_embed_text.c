/* cmd_embed_text.c - koofu embed-text: class names or lines of text to embeddings. */
#include "commands.h"
#include "encoders.h"
#include "outputs.h"
#include "texts.h"

/* As OpenAI's notebook ends, and as the paper likely has it. */
static const char usual_templates[] = "builtin7";

static int check_options(cli_run *cli) {
  const cli_args *a = &cli->args;
  if (!a->data.classes == !a->prompts.lines)
    return fail_usage(cli, a->data.classes
                               ? "--classes and --prompts are two ways to say what to embed"
                               : "--classes FILE or --prompts FILE is missing");
  if (a->prompts.lines &&
      (a->prompts.templates || a->prompts.names || a->prompts.all_names || a->prompts.rows))
    return fail_usage(cli, "--%s has no meaning with --prompts, whose lines are taken as they are",
                      a->prompts.templates   ? "templates"
                      : a->prompts.names     ? "names"
                      : a->prompts.all_names ? "all-names"
                                             : "prompt-rows");
  if (a->data.classes && !a->prompts.rows && a->dtype != KF_F32)
    return fail_usage(cli, "--dtype has no meaning for text prototypes, which are f32");
  return check_safetensors(cli, a->output, "file of text embeddings");
}

static int save_rows(cli_run *cli, const kf_data *data) {
  kf_status status = kf_data_save(cli->ctx, data, (kf_dtype)cli->args.dtype, cli->args.output);
  if (status != KF_OK) return fail(cli, status);
  say_data_written(cli, cli->args.output);
  return EXIT_OK;
}

/* One mean for each class, as 'koofu text-prototypes' makes it. */
static int save_prototypes(cli_run *cli, const kf_data *data) {
  kf_text *text;
  kf_status status = kf_text_new(cli->ctx, data, NULL, &text);
  if (status != KF_OK) return fail(cli, status);
  int result = save_text(cli, data, text, "prompt", "prompts");
  kf_text_free(text);
  return result;
}

static int embed_classes(cli_run *cli, const kf_encoder *encoder, const prompt_set *set) {
  encoded_text text = {0};
  int result = encode_prompts(cli, encoder, set, &text);
  if (result == EXIT_OK)
    result = cli->args.prompts.rows ? save_rows(cli, text.data) : save_prototypes(cli, text.data);
  encoded_text_free(&text);
  return result;
}

static int embed_lines(cli_run *cli, const kf_encoder *encoder, const line_list *lines) {
  encoded_text text = {0};
  int result = encode_lines(cli, encoder, lines, &text);
  if (result == EXIT_OK) result = save_rows(cli, text.data);
  encoded_text_free(&text);
  return result;
}

static int run(cli_run *cli) {
  const cli_args *a = &cli->args;
  prompt_set set = {.repeats_advice = "; classes by other names go with --names"};
  line_list lines = {0};
  kf_encoder *encoder = NULL;
  int result = check_options(cli);
  if (result == EXIT_OK)
    result = a->prompts.lines
                 ? read_lines(cli, a->prompts.lines, &lines)
                 : prompts_read(cli, a->prompts.templates ? a->prompts.templates : usual_templates,
                                &set);
  if (result == EXIT_OK) result = load_encoder(cli, a->operands.items[0], TOWER_TEXT, &encoder);
  if (result == EXIT_OK)
    result =
        a->prompts.lines ? embed_lines(cli, encoder, &lines) : embed_classes(cli, encoder, &set);
  kf_encoder_free(encoder);
  lines_free(&lines);
  prompts_free(&set);
  return result;
}

static const cli_group own_options = {
    "Options",
    OPTIONS(
        {OUTPUT("TEXT.safetensors"), .required = 1,
         .help = "the file to write; its name ends in .safetensors"},
        {INPUT("classes", data.classes, "FILE"),
         .help = "class names, one a line: one text prototype for each"},
        {INPUT("prompts", prompts.lines, "FILE"), .help = "texts, one a line: one row for each"},
        {TEMPLATES,
         .help = "templates, one a line, with {} for the name; or builtin1, builtin7 (default), "
                 "builtin80"},
        {SPOKEN_NAMES}, {ALL_NAMES},
        {FLAG("prompt-rows", prompts.rows),
         .help = "with --classes: a row for each prompt, labelled with its class, instead of their "
                 "mean"},
        {DTYPE(" (rows only)")})};

const cli_command embed_text_command = {
    .name = "embed-text",
    .operands = "MODEL-DIR",
    .missing = "the folder of the encoder is",
    .summary = "turn class names or texts into embeddings, for zero-shot use",
    .details =
        "MODEL-DIR is a CLIP model as Hugging Face publishes it: a folder with config.json, "
        "model.safetensors and the files of the tokenizer.\n\n"
        "With --classes every class name goes into every template (see 'koofu prompts'), and the "
        "embeddings of a class are averaged as 'koofu text-prototypes' does it. Names must be the "
        "labels of the rows, such as the names of folders; --names tells how they are spoken where "
        "that differs ('red_fox<tab>red fox'). What is written goes behind --text of 'koofu fit', "
        "'koofu eval' and 'koofu classify' as it is. "
        "--prompt-rows writes the embeddings of the prompts instead, with labels.\n\n"
        "With --prompts every line is embedded as it stands, and has a row of its own.\n\n"
        "All prompts are held in memory.",
    .groups = (const cli_group *const[]){&own_options, &tower_options, NULL},
    .examples =
        (const cli_example[]){
            {"Zero-shot classes out of their names",
             "koofu embed-text clip-vit-base-patch32 --classes names.txt -o text.safetensors"},
            {"Then their accuracy",
             "koofu eval model.safetensors test.safetensors --text text.safetensors"},
            {"Pictures by words: search in a gallery with a sentence",
             "koofu embed-text clip-vit-base-patch32 --prompts query.txt -o query.safetensors"},
            {NULL, NULL}},
    .run = run,
};
