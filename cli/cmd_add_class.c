/* cmd_add_class.c - koofu add-class: adds a prototype from a few samples, or the classes that
 * were added to 'koofu serve'. */
#include "commands.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A class of text: all rows are embeddings of its prompts. */
static int make(cli_run *cli, const kf_model *model, const char *name, const kf_data *samples,
                int is_text, kf_model **out) {
  if (!is_text) {
    return own_model(cli, kf_model_new_with_class(cli->ctx, model, name, samples, out), out);
  }
  kf_text_options options = {
      .per_class = (uint32_t)kf_data_rows(samples), .names = &name, .n_names = 1};
  kf_text *text;
  TRY(own_text(cli, kf_text_new(cli->ctx, samples, &options, &text), &text));
  return own_model(cli, kf_model_new_with_text(cli->ctx, model, text, out), out);
}

static int add_class(cli_run *cli, const kf_model *model, const kf_data *samples) {
  kf_model *wider;
  TRY(make(cli, model, cli->args.operands.items[1], samples, cli->args.text.rows, &wider));
  TRY(result_of(cli, kf_model_save(cli->ctx, wider, cli->args.output)));
  int more = kf_model_classes(wider) > kf_model_classes(model);
  int pictures = cli->args.encoder.folder != NULL;
  say_written(cli, cli->args.output, "%s, the %s from %s%s",
              show_counted(kf_model_classes(wider), "class", "classes").text,
              more ? "new one" : "text of one",
              show_counted(kf_data_rows(samples), pictures ? "picture" : "row",
                           pictures ? "pictures" : "rows")
                  .text,
              cli->args.text.rows ? " of text" : "");
  return EXIT_OK;
}

/* 000001.safetensors holds the rows of a class, 000002-text.safetensors embedded prompts. */
static int is_entry(const struct dirent *file) {
  size_t digits = strspn(file->d_name, "0123456789");
  const char *rest = file->d_name + digits;
  return digits >= 6 && digits <= 18 &&
         (strcmp(rest, ".safetensors") == 0 || strcmp(rest, "-text.safetensors") == 0);
}

static int by_number(const struct dirent **a, const struct dirent **b) {
  unsigned long long x = strtoull((*a)->d_name, NULL, 10), y = strtoull((*b)->d_name, NULL, 10);
  return (x > y) - (x < y);
}

static int has_class(const kf_model *model, const char *name) {
  for (uint32_t k = 0; k < kf_model_classes(model); k++) {
    const char *own = kf_model_class_name(model, k);
    if (own && strcmp(own, name) == 0) return 1;
  }
  return 0;
}

/* Skips classes that the model already has, so a journal can be applied twice. */
static int add_entry(cli_run *cli, const char *folder, const char *file, kf_model **model,
                     uint32_t *added) {
  const char *path = own_format(cli, "%s/%s", folder, file);
  if (!path) return fail(cli, KF_ERR_MEM);
  kf_data *samples = NULL;
  TRY(own_data(cli, kf_data_open(cli->ctx, &path, 1, NULL, &samples), &samples));
  const char *name = kf_data_class_name(samples, 0);
  if (kf_data_classes(samples) != 1 || !name)
    return fail_with(cli, EXIT_BAD_DATA, "%s: not an added class of 'koofu serve'", path);
  if (has_class(*model, name)) {
    say(cli, "the model has %s already", name);
    return EXIT_OK;
  }
  TRY(make(cli, *model, name, samples, strstr(file, "-text") != NULL, model));
  (*added)++;
  return EXIT_OK;
}

static int add_entries(cli_run *cli, const char *folder, struct dirent **entries, int n,
                       kf_model *model) {
  uint32_t added = 0;
  if (n == 0) return fail_with(cli, EXIT_BAD_DATA, "%s: has no added class", folder);
  for (int i = 0; i < n; i++) TRY(add_entry(cli, folder, entries[i]->d_name, &model, &added));
  TRY(result_of(cli, kf_model_save(cli->ctx, model, cli->args.output)));
  say_written(cli, cli->args.output, "%s, %s of them new",
              show_counted(kf_model_classes(model), "class", "classes").text,
              show_count(added).text);
  return EXIT_OK;
}

static int add_journal(cli_run *cli, kf_model *model) {
  const char *folder = cli->args.serve.journal;
  struct dirent **entries;
  int n = scandir(folder, &entries, is_entry, by_number);
  if (n < 0 && errno == ENOMEM) return fail(cli, KF_ERR_MEM);
  if (n < 0) return fail_with(cli, EXIT_IO, "%s: cannot be read: %s", folder, strerror(errno));
  int result = add_entries(cli, folder, entries, n, model);
  for (int i = 0; i < n; i++) free(entries[i]);
  free(entries);
  return result;
}

static int check_operands(cli_run *cli) {
  const cli_list *operands = &cli->args.operands;
  if (cli->args.serve.journal && operands->n > 1)
    return fail_usage(cli, "unexpected argument '%s' with --from-journal", operands->items[1]);
  if (cli->args.serve.journal) TRY(refuse(cli, "text", "--from-journal, which says what is text"));
  if (cli->args.serve.journal) TRY(refuse(cli, "encoder", "--from-journal, which has rows"));
  if (cli->args.encoder.folder) TRY(refuse(cli, "text", "--encoder, which takes pictures"));
  if (!cli->args.serve.journal && operands->n < 3)
    return fail_usage(cli, "missing argument: %s", operands->n < 2 ? "NAME" : "DATA");
  return EXIT_OK;
}

static int run_add_class(cli_run *cli) {
  TRY(check_operands(cli));
  TRY(check_safetensors(cli, cli->args.output, "a model"));
  kf_model *model = NULL;
  kf_data *samples = NULL;
  TRY(load_model(cli, cli->args.operands.items[0], &model));
  if (cli->args.serve.journal) return add_journal(cli, model);
  TRY(open_samples(cli, 2, LABELS_IGNORED, model, NULL, &samples));
  return add_class(cli, model, samples);
}

static const cli_group own_options = {
    "Options",
    OPTIONS({OUTPUT("MODEL2.safetensors"), .required = 1, .help = "the model to write"},
            {FLAG("text", text.rows),
             .help = "DATA are text embeddings of the class: its name in one or more prompts"},
            {TEXT("from-journal", serve.journal, "DIR"),
             .help = "add the classes that were added to 'koofu serve' (MODEL.journal)"})};

const cli_command add_class_command = {
    .name = "add-class",
    .operands = "MODEL [NAME] [DATA...]",
    .summary = "add a class to a model from a few samples",
    .details = "The prototype of the new class is the mean of all rows of DATA, whose labels are "
               "ignored. The map does not change, so rows mapped with the old model remain "
               "comparable, and nothing is fitted again. The name must be new to the model.\n\n"
               "With --encoder, they are pictures, folders of pictures or patterns (see 'koofu "
               "embed'), embedded by the CLIP model that the training rows were made with.\n\n"
               "With --text, for a model that has text ('koofu fit --text'), DATA are embeddings "
               "of prompts: the class takes part by name alone or, if the model has it already, "
               "gets this text instead.\n\n"
               "With --from-journal, there are no NAME and DATA: the classes are those added to a "
               "running 'koofu serve', in the order in which they came. Classes that the model has "
               "already are left out.",
    .groups = GROUPS(&own_options, &encoder_options, &row_options),
    .examples = EXAMPLES(
        {"One more class from its samples",
         "koofu add-class model.safetensors okapi okapi.npy -o model2.safetensors"},
        {"From its pictures",
         "koofu add-class model.safetensors okapi okapi --encoder clip -o m2.safetensors"},
        {"By its name alone",
         "koofu add-class fused.safetensors okapi okapi_prompts.npy --text -o fused2.safetensors"},
        {"Those that were added on the page of 'koofu serve'",
         "koofu add-class model.safetensors --from-journal model.safetensors.journal -o "
         "model2.safetensors"}),
    .run = run_add_class,
};
