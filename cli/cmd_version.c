/* cmd_version.c - koofu version: the version, and the instruction sets of this machine. */
#include "commands.h"

#include <stdio.h>

static int run(cli_run *cli) {
  printf("koofu %s\n", kf_version());
  if (!cli->args.common.verbose) return EXIT_OK;
  for (int isa = KF_ISA_PLAIN; kf_isa_name((kf_isa)isa); isa++)
    printf("%-8s %s\n", kf_isa_name((kf_isa)isa),
           kf_isa_available((kf_isa)isa) ? "available" : "not on this machine");
  return EXIT_OK;
}

const cli_command version_command = {
    .name = "version",
    .summary = "print the version",
    .details = "With -v, also prints the instruction sets and which of them this machine has.",
    .run = run,
    .shared = 1,
};
