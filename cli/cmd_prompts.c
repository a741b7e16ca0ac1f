/* cmd_prompts.c - koofu prompts: makes prompts from class names and templates. */
#include "commands.h"

static int write_prompts(cli_run *cli, const kf_prompts *p) {
  const cli_args *a = &cli->args;
  sink *sinks[2] = {NULL, NULL}, **prompts = &sinks[0], **labels = &sinks[1];
  TRY(sink_open(cli, a->output, SINK_TEXT, prompts));
  if (a->prompts.label_output) TRY(sink_open(cli, a->prompts.label_output, SINK_TEXT, labels));
  for (uint64_t i = 0; i < kf_prompts_count(p); i++) {
    put_line((*prompts)->file, kf_prompts_text(p, i));
    const char *class = kf_prompts_class_name(p, (uint32_t)kf_prompts_class(p, i));
    if (*labels) put_line((*labels)->file, class);
  }
  TRY(sinks_finish(cli, sinks, COUNT_OF(sinks)));
  if (!is_stdout(a->output))
    say_written(cli, a->output, "%s of %s",
                show_counted(kf_prompts_count(p), "prompt", "prompts").text,
                show_counted(kf_prompts_classes(p), "class", "classes").text);
  return EXIT_OK;
}

static int check_options(cli_run *cli) {
  const cli_args *a = &cli->args;
  if (!a->prompts.label_output)
    TRY(need(cli, "all-names",
             "--label-output FILE, because classes then differ in their number of prompts"));
  if (a->prompts.names) TRY(refuse(cli, "repeats", "--names, whose names may repeat anyway"));
  TRY(check_format(cli, a->output, "the prompts", FORMAT(SINK_TEXT)));
  if (!a->prompts.label_output) return EXIT_OK;
  TRY(check_format(cli, a->prompts.label_output, "the classes of prompts", FORMAT(SINK_TEXT)));
  return check_outputs_differ(cli, a->output, a->prompts.label_output);
}

static int run_prompts(cli_run *cli) {
  const cli_args *a = &cli->args;
  kf_prompts_options options = {.classes = a->data.classes,
                                .spoken = a->prompts.names,
                                .templates = a->prompts.templates,
                                .all_names = a->prompts.all_names,
                                .repeats = !a->prompts.repeats       ? KF_REPEATS_NONE
                                           : a->prompts.label_output ? KF_REPEATS_NAMES
                                                                     : KF_REPEATS_ALL};
  kf_prompts *prompts = NULL;
  TRY(check_options(cli));
  TRY(own_prompts(cli, kf_prompts_new(cli->ctx, &options, &prompts), &prompts));
  return write_prompts(cli, prompts);
}

static const cli_group own_options = {
    "Options",
    OPTIONS(
        {INPUT("classes", data.classes, "FILE"), .required = 1,
         .help = "class names, one per line"},
        {TEMPLATES, .required = 1,
         .help = "templates, one per line, with {} for the name; or builtin1, builtin7, builtin80"},
        {SPOKEN_NAMES}, {ALL_NAMES},
        {FLAG("repeats", prompts.repeats), .help = "allow classes with the same name"},
        {TEXT("label-output", prompts.label_output, "FILE"),
         .help = "also write the class of each prompt, one per line, for --labels"},
        {TEXT_OUTPUT})};

const cli_command prompts_command = {
    .name = "prompts",
    .summary = "make prompts from class names and templates",
    .details =
        "Writes one prompt per line, class by class: the first class in all templates, then the "
        "second, and so on. Embed the lines in this order with the text tower of the encoder, and "
        "'koofu text-prototypes --classes FILE' makes a prototype of each class.\n\n"
        "If a line has several names, separated by commas, the first is used; --all-names uses "
        "each, and --label-output says which class a prompt belongs to. A name in quotation marks "
        "is taken whole, and a comma after it is ignored. '#' at the start of a line or after a "
        "space begins a comment. An empty line is an error. So is a name that appears twice, "
        "unless --repeats is given: text cannot tell such classes apart.\n\n"
        "builtin1 is 'image of {}', the paper's single prompt. builtin7 are the seven templates of "
        "OpenAI's notebook for ImageNet, probably those of the paper. builtin80 are all 80 of that "
        "notebook.",
    .groups = GROUPS(&own_options),
    .examples = EXAMPLES({"One prompt per class",
                          "koofu prompts --classes names.txt --templates builtin1 -o prompts.txt"},
                         {"ImageNet's classes by WordNet's names, seven prompts each (synset_7)",
                          "koofu prompts --classes imagenet_synsets.txt --names node_names.txt "
                          "--templates builtin7 -o prompts.txt"},
                         {"Modified names, two of which appear twice (mod_7)",
                          "koofu prompts --classes modified_classnames.txt --repeats --templates "
                          "builtin7 -o prompts.txt"}),
    .run = run_prompts,
};
