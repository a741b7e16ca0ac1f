/* hints.c - the library's hints in the words of the command line. A hint that names an option is
 * given only to commands that have it. */
#include "cli.h"

#include <string.h>

/* The first entry that fits the command counts. */
static const struct hint_text {
  kf_hint hint;
  const char *option; /* NULL: for every command */
  const char *text;
} hints[] = {
    {KF_HINT_SKIP_BAD, "skip-bad", "--skip-bad leaves out such rows"},
    {KF_HINT_SKIP_UNLABELLED, "skip-unlabelled", "--skip-unlabelled leaves out such rows"},
    {KF_HINT_SKIP_UNLABELLED, "keep-unlabelled", "--keep-unlabelled keeps such rows"},
    {KF_HINT_SKIP_UNKNOWN, "skip-unknown", "--skip-unknown leaves out such rows"},
    {KF_HINT_LABELS, "labels", "give a label file with --labels"},
    {KF_HINT_CLASSES, "classes", "give class names with --classes"},
    {KF_HINT_TENSOR, "tensor", "name it with --tensor or, in a .parquet, --column"},
    {KF_HINT_LABEL_TENSOR, "label-tensor", "give --labels, or name the tensor with --label-tensor"},
    {KF_HINT_PICTURES, "encoder",
     "give --encoder CLIP-DIR, or embed pictures with 'koofu embed' first"},
    {KF_HINT_PICTURES, NULL, "embed pictures with 'koofu embed' first"},
    {KF_HINT_PER_CLASS, "per-class", "give the number of rows per class with --per-class"},
    {KF_HINT_EXPONENT, NULL, "make both with the smaller --exponent"},
    {KF_HINT_TRUTH_CLASSES, "truth-classes", "give class names with --truth-classes"},
    {KF_HINT_TRUTH_IDS, "ids", "give the ids of the rows with --ids"},
    {KF_HINT_ROWS, NULL, "give the data instead of a statistics file"},
    {KF_HINT_LAMBDA, "lambda", "set it with --lambda"},
    {KF_HINT_LAMBDA, "lambdas", "set it with --lambdas"},
    {KF_HINT_ALPHA, "fuse", "give it as a number with --fuse"},
    {KF_HINT_NO_RESUME, "no-resume", "--no-resume starts again"},
    {KF_HINT_SKIP_PICTURES, "skip-bad", "--skip-bad leaves out such pictures"},
    {KF_HINT_MAX_PIXELS, "max-pixels", "--max-pixels raises the limit"},
    {KF_HINT_SPOKEN, "names", "--names takes lines 'CLASS<tab>NAME'"},
    {KF_HINT_REPEATS, "repeats", "--names gives classes other names, and --repeats allows it"},
    {KF_HINT_REPEATS, "names", "--names gives classes other names"},
    {KF_HINT_METHOD, "method", "--method paper selects it"},
    {KF_HINT_TEMPERATURE, "probabilities", "give one with --temperature"},
    {KF_HINT_ORDER, "order",
     "--order number sorts them by number, --order given leaves them as they are"},
    {KF_HINT_LABEL_COLUMN, "label-column", "--label-column says which column holds the labels"},
    {KF_HINT_ID_COLUMN, "id-column", "--id-column says which column names the pictures"},
    {KF_HINT_ANY_ENCODER, "any-encoder", "--any-encoder allows it"},
    {KF_HINT_CENTRE, "centre", "--centre mean centres them"},
    {KF_HINT_OTHER_NAME, "output", "write to another file with -o"},
    {KF_HINT_COMPACT, NULL, "merge it into one file with 'koofu index --compact'"},
};

const char *hint_for(const cli_command *command, kf_hint hint) {
  for (size_t i = 0; i < COUNT_OF(hints); i++) {
    const char *option = hints[i].option;
    if (hints[i].hint == hint &&
        (!option || (command && find_option(command, option, strlen(option)))))
      return hints[i].text;
  }
  return NULL;
}
