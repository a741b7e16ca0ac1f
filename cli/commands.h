/* commands.h - one entry for each cmd_*.c. */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include "args.h"

extern const cli_command convert_command, info_command, stats_command, merge_command, fit_command,
    transform_command, classify_command, eval_command, add_class_command, index_command,
    search_command, synth_command, demo_command, help_command, version_command;
extern const cli_command compare_command, classes_command, sweep_command, report_command;
extern const cli_command prompts_command, text_prototypes_command;
extern const cli_command embed_command, embed_text_command, quickstart_command;

#endif
