/* cmd_version.c - koofu version: the version, and the instruction sets and devices of this
 * machine. */
#include "commands.h"

static int print_devices(cli_run *cli) {
  const kf_device_list *found;
  TRY(result_of(cli, kf_devices_find(cli->ctx, &found)));
  if (found->plugin) {
    printf("%-8s ", "plug-in");
    print_plain(stdout, found->plugin);
    printf(", %s\n", found->build);
  }
  for (uint32_t i = 0; i < found->n; i++) {
    const kf_device_info *d = &found->devices[i];
    char name[16];
    snprintf(name, sizeof name, "cuda:%u", d->number);
    printf("%-8s %s, %.1f GiB, compute capability %u.%u, %u multiprocessors, driver %s\n", name,
           d->name, (double)d->memory / 0x1p30, d->major, d->minor, d->processors, d->driver);
  }
  if (found->missing) {
    printf("%-8s ", "cuda");
    print_plain(stdout, found->missing);
    putchar('\n');
  }
  return EXIT_OK;
}

static int run_version(cli_run *cli) {
  printf("koofu %s\n", kf_version());
  if (!cli->args.common.verbose) return EXIT_OK;
  for (int isa = KF_ISA_PLAIN; kf_isa_name((kf_isa)isa); isa++)
    printf("%-8s %s\n", kf_isa_name((kf_isa)isa),
           kf_isa_available((kf_isa)isa) ? "available" : "not on this machine");
  return print_devices(cli);
}

const cli_command version_command = {
    .name = "version",
    .summary = "print the version",
    .details = "With -v, also prints the instruction sets and which of them this machine has, the "
               "plug-in for GPUs and the devices that would be used, or what is missing.",
    .run = run_version,
    .shared = 1,
};
