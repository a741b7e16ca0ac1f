/* commands.c - the commands, in the order of the help. */
#include "commands.h"

const cli_command *const commands[] = {
    &quickstart_command, &embed_command,     &embed_text_command,      &convert_command,
    &info_command,       &verify_command,    &stats_command,           &merge_command,
    &fit_command,        &transform_command, &classify_command,        &eval_command,
    &sweep_command,      &compare_command,   &classes_command,         &report_command,
    &add_class_command,  &index_command,     &search_command,          &serve_command,
    &export_command,     &prompts_command,   &text_prototypes_command, &synth_command,
    &demo_command,       &help_command,      &version_command,         NULL,
};
