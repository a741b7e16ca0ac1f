/* cmd_prompts.c - koofu prompts: class names and templates to prompts for a text encoder. */
#include "commands.h"
#include "format.h"
#include "out_file.h"
#include "outputs.h"
#include "prompting.h"

typedef struct prompts_job {
  cli_run *cli;
  prompt_set set;
  out_file out, labels;
  uint64_t n_prompts;
} prompts_job;

static void write_prompt(void *argument, size_t class, const char *template, const char *name,
                         size_t length) {
  prompts_job *j = argument;
  print_prompt(j->out.file, template, name, length);
  putc('\n', j->out.file);
  if (j->labels.file) fprintf(j->labels.file, "%s\n", j->set.classes[class].label);
  j->n_prompts++;
}

static int write_prompts(prompts_job *j) {
  cli_run *cli = j->cli;
  const cli_args *a = &cli->args;
  int result = out_file_open(cli, &j->out, a->output);
  if (result == EXIT_OK && a->prompts.label_output)
    result = out_file_open(cli, &j->labels, a->prompts.label_output);
  if (result != EXIT_OK) return result;
  prompts_each(&j->set, a->prompts.all_names, write_prompt, j);
  result = out_file_finish(cli, &j->out);
  if (result == EXIT_OK && a->prompts.label_output) result = out_file_commit(cli, &j->labels);
  if (result == EXIT_OK) result = out_file_commit(cli, &j->out);
  if (result == EXIT_OK && !is_stdout(a->output))
    say_written(cli, a->output, "%s of %s", show_counted(j->n_prompts, "prompt", "prompts").text,
                show_counted(j->set.n_classes, "class", "classes").text);
  return result;
}

static int check_options(cli_run *cli) {
  const cli_args *a = &cli->args;
  int result = is_stdout(a->output) ? EXIT_OK : check_output(cli, a->output);
  if (a->prompts.all_names && !a->prompts.label_output)
    return fail_usage(cli, "--all-names needs --label-output FILE, since classes then have "
                           "different numbers of prompts");
  if (a->prompts.repeats && a->prompts.names)
    return fail_usage(cli, "--repeats has no meaning with --names, where names may repeat and "
                           "classes may not");
  if (result == EXIT_OK && a->prompts.label_output) {
    result = check_output(cli, a->prompts.label_output);
    if (result == EXIT_OK && !is_stdout(a->output))
      result = check_outputs_differ(cli, a->output, a->prompts.label_output);
  }
  return result;
}

static int run(cli_run *cli) {
  prompts_job j = {.cli = cli, .set = {.repeats_advice = " (--repeats allows it)"}};
  int result = check_options(cli);
  if (result == EXIT_OK) result = prompts_read(cli, cli->args.prompts.templates, &j.set);
  if (result == EXIT_OK) result = write_prompts(&j);
  out_file_abort(&j.out);
  out_file_abort(&j.labels);
  prompts_free(&j.set);
  return result;
}

static const cli_group own_options = {
    "Options",
    OPTIONS(
        {INPUT("classes", data.classes, "FILE"), .required = 1, .help = "class names, one a line"},
        {TEMPLATES, .required = 1,
         .help = "templates, one a line, with {} for the name; or builtin1, builtin7, builtin80"},
        {SPOKEN_NAMES}, {ALL_NAMES},
        {FLAG("repeats", prompts.repeats), .help = "several classes may have the same name"},
        {TEXT("label-output", prompts.label_output, "FILE"),
         .help = "also write the class of each prompt, one a line, for --labels"},
        {TEXT_OUTPUT})};

const cli_command prompts_command = {
    .name = "prompts",
    .summary = "make prompts out of class names and templates",
    .details =
        "Writes one prompt a line, class by class: the first class with all templates, then the "
        "second one. Embed the lines with the text encoder that belongs to the images, in this "
        "order, and 'koofu text-prototypes --classes FILE' makes a prototype of each class.\n\n"
        "Of several names of a class, separated by commas, the first is taken; --all-names makes "
        "prompts of each, and --label-output says which class each prompt belongs to. A name in "
        "quotation marks is taken whole, and a comma behind it does not count. '#' at the "
        "beginning of a line or behind a blank begins a comment. An empty line is an error; so is "
        "a name that is there twice, unless --repeats allows it: such classes cannot be told "
        "apart by text.\n\n"
        "builtin1 is 'image of {}', the paper's single prompt. builtin7 are the seven templates of "
        "OpenAI's notebook for ImageNet, which are likely, not certainly, those of the paper. "
        "builtin80 are the 80 of the same notebook.",
    .groups = (const cli_group *const[]){&own_options, NULL},
    .examples =
        (const cli_example[]){
            {"One prompt for each class",
             "koofu prompts --classes names.txt --templates builtin1 -o prompts.txt"},
            {"ImageNet's classes by WordNet's names, seven prompts each (synset_7)",
             "koofu prompts --classes imagenet_synsets.txt --names node_names.txt --templates "
             "builtin7 -o prompts.txt"},
            {"Modified names, two of which are there twice (mod_7)",
             "koofu prompts --classes modified_classnames.txt --repeats --templates builtin7 -o "
             "prompts.txt"},
            {NULL, NULL}},
    .run = run,
};
