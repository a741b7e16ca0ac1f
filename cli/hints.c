/* hints.c - the library's hints in the words of the command line. A hint at an option is given only to
 * commands that have it. */
#include "cli.h"

#include <string.h>

typedef struct hint_text {
  const char *option; /* NULL: for every command */
  const char *text;
} hint_text;

static const hint_text hints[] = {
    [KF_HINT_SKIP_BAD] = {"skip-bad", "--skip-bad leaves such rows out"},
    [KF_HINT_SKIP_UNLABELLED] = {"skip-unlabelled", "--skip-unlabelled leaves such rows out"},
    [KF_HINT_SKIP_UNKNOWN] = {"skip-unknown", "--skip-unknown leaves such rows out"},
    [KF_HINT_LABELS] = {"labels", "give a label file with --labels"},
    [KF_HINT_CLASSES] = {"classes", "give class names with --classes"},
    [KF_HINT_TENSOR] = {"tensor", "name the tensor with --tensor"},
    [KF_HINT_LABEL_TENSOR] = {"label-tensor",
                              "give --labels, or name the tensor with --label-tensor"},
    [KF_HINT_PICTURES] = {NULL, "pictures go through 'koofu embed' first; 'koofu classify' and "
                                "'koofu search' take them with --encoder"},
    [KF_HINT_PER_CLASS] = {"per-class", "say how many rows each class has with --per-class"},
    [KF_HINT_EXPONENT] = {NULL, "make both with the smaller --exponent"},
    [KF_HINT_TRUTH_CLASSES] = {"truth-classes", "give class names with --truth-classes"},
    [KF_HINT_TRUTH_IDS] = {"ids", "give the ids of the rows with --ids"},
    [KF_HINT_ROWS] = {NULL, "give the data instead of a statistics file"},
    [KF_HINT_LAMBDA] = {"lambda", "set it with --lambda"},
    [KF_HINT_ALPHA] = {"fuse", "give it as a number with --fuse"},
    [KF_HINT_NO_RESUME] = {"no-resume", "--no-resume starts again"},
    [KF_HINT_SKIP_PICTURES] = {"skip-bad", "--skip-bad leaves such pictures out"},
    [KF_HINT_MAX_PIXELS] = {"max-pixels", "--max-pixels sets the limit"},
    [KF_HINT_SPOKEN] = {"names", "--names takes lines 'CLASS<tab>NAME'"},
    [KF_HINT_REPEATS] = {"names", "--names gives classes other names, and 'koofu prompts' takes "
                                  "--repeats"},
};

static int has_option(const cli_command *command, const char *name) {
  option_walk walk = {.command = command};
  const cli_group *group;
  for (const cli_option *o; (o = option_next(&walk, &group)) != NULL;)
    if (strcmp(o->name, name) == 0) return 1;
  return 0;
}

const char *hint_for(const cli_command *command, kf_hint hint) {
  if ((size_t)hint >= COUNT_OF(hints) || !hints[hint].text) return NULL;
  const char *option = hints[hint].option;
  return option == NULL || (command && has_option(command, option)) ? hints[hint].text : NULL;
}
