/* texts.h - text prototypes as --text names them. */
#ifndef CLI_TEXTS_H
#define CLI_TEXTS_H

#include "cli.h"

/* Refuses options on text without --text. */
int check_text_options(cli_run *cli);
int load_text(cli_run *cli, kf_text **out); /* --text */

/* The map of a model with text in place of class means: the text as given, for the original space,
 * and centred by --text-centre, for the model's. */
typedef struct cli_zero_shot {
  kf_text *text;
  kf_model *raw, *mapped;
} cli_zero_shot;
/* Loads --text and makes the model for the space that --raw decides, or both (only raw with --raw). */
int load_zero_shot(cli_run *cli, const kf_model *model, int both, cli_zero_shot *out);
const char *text_centre_name(const cli_args *args); /* never NULL */

/* Writes text prototypes to -o and says how many embeddings, called `one` or `many`, they are
 * from. */
int save_text(cli_run *cli, const kf_text *text, uint64_t n, const char *one, const char *many);

#endif
