/* commands.h - all commands; each is defined in its cmd_*.c. */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include "inputs.h"
#include "sink.h"

extern const cli_command add_class_command, classes_command, classify_command, compare_command,
    convert_command, demo_command, embed_command, embed_text_command, eval_command, export_command,
    fit_command, help_command, index_command, info_command, merge_command, prompts_command,
    quickstart_command, report_command, search_command, serve_command, stats_command, sweep_command,
    synth_command, text_prototypes_command, transform_command, verify_command, version_command;

extern const cli_command *const commands[]; /* NULL-terminated, in the order of the help */
const cli_command *find_command(const char *name);
int no_such_command(cli_run *cli, const char *name); /* a usage error with a suggestion */

#endif
