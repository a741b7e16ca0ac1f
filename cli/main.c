/* main.c - finds the command, parses its options, makes the context and runs it. */
#include "commands.h"
#include "help.h"
#include "program.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

const cli_command *find_command(const char *name) {
  for (const cli_command *const *c = commands; *c; c++)
    if (strcmp((*c)->name, name) == 0) return *c;
  return NULL;
}

/* Messages may contain paths and names from files. */
static void print_text(const cli_run *cli, const char *format, va_list list) {
  char text[10240], named[sizeof text]; /* two paths of maximum length and a sentence */
  vsnprintf(text, sizeof text, format, list);
  name_streams(cli, text, named, sizeof named);
  print_plain(stderr, named);
}

static void print_message(cli_run *cli, const char *format, va_list list) {
  va_list again;
  va_copy(again, list);
  vsnprintf(cli->said, sizeof cli->said, format, again);
  va_end(again);
  progress_clear(&cli->progress);
  fprintf(stderr, cli->command ? "koofu %s: " : "koofu: ", cli->command ? cli->command->name : "");
  print_text(cli, format, list);
}

int fail_with(cli_run *cli, int exit_status, const char *format, ...) {
  va_list list;
  va_start(list, format);
  print_message(cli, format, list);
  va_end(list);
  putc('\n', stderr);
  return exit_status;
}

int fail_usage(cli_run *cli, const char *format, ...) {
  va_list list;
  va_start(list, format);
  print_message(cli, format, list);
  va_end(list);
  const char *name = cli->command ? cli->command->name : "";
  fprintf(stderr, "; see 'koofu %s%s--help'\n", name, *name ? " " : "");
  return EXIT_USAGE;
}

int exit_status_of(kf_status status) {
  static const int exit_statuses[] = {
      [KF_OK] = EXIT_OK,
      [KF_ERR_ARG] = EXIT_USAGE,
      [KF_ERR_DATA] = EXIT_BAD_DATA,
      [KF_ERR_IO] = EXIT_IO,
      [KF_ERR_MEM] = EXIT_INTERNAL,
      [KF_ERR_MATH] = EXIT_BAD_DATA,
      [KF_ERR_CANCELLED] = EXIT_INTERNAL,
      [KF_ERR_INTERNAL] = EXIT_INTERNAL,
  };
  size_t index = (size_t)status;
  return index < COUNT_OF(exit_statuses) ? exit_statuses[index] : EXIT_INTERNAL;
}

int fail_in(cli_run *cli, kf_status status, const char *path) {
  if (status == KF_ERR_CANCELLED) {
    cli->stopped = 1;
    return fail_with(cli, EXIT_INTERNAL, "interrupted");
  }
  const char *message = kf_errmsg(cli->ctx);
  if (kf_errhint(cli->ctx) == KF_HINT_ANY_ENCODER) path = NULL; /* the message names both files */
  const char *hint = hint_for(cli->command, kf_errhint(cli->ctx));
  return fail_with(cli, exit_status_of(status), "%s%s%s%s%s", path ? path : "", path ? ": " : "",
                   *message ? message : kf_status_name(status), hint ? "; " : "", hint ? hint : "");
}

int fail(cli_run *cli, kf_status status) { return fail_in(cli, status, NULL); }

int result_of(cli_run *cli, kf_status status) {
  return status == KF_OK ? EXIT_OK : fail(cli, status);
}

void say(cli_run *cli, const char *format, ...) {
  if (cli->args.common.quiet) return;
  progress_clear(&cli->progress);
  va_list list;
  va_start(list, format);
  print_text(cli, format, list);
  va_end(list);
  putc('\n', stderr);
}

static void log_callback(void *user, const char *message) {
  cli_run *cli = user;
  if (!cli->muted) say(cli, "%s", message);
}

enum { RANK_SECONDS = 30, DAY_SECONDS = 86400 };

/* NULL: not set, or empty. A set-user-ID program ignores the environment, which may name a plug-in,
 * that is, code. */
static const char *environment(const char *name) {
  const char *value = secure_getenv(name);
  return value && *value ? value : NULL;
}

/* Replaces --threads, --isa and --device if they are not given. *lines: as in cli_progress; ranks
 * print progress to a log. */
static int read_environment(cli_run *cli, int *lines, char *message, size_t size) {
  const char *threads = environment("KOOFU_THREADS"), *isa = environment("KOOFU_ISA");
  const char *seconds = environment("KOOFU_PROGRESS");
  int64_t wait = has_ranks(cli) ? RANK_SECONDS : -1;
  struct common_args *c = &cli->args.common;
  if (!c->device) c->device = environment("KOOFU_DEVICE");
  c->device_plugin = environment("KOOFU_DEVICE_PLUGIN");
  if (threads && !c->threads.given &&
      parse_number("KOOFU_THREADS", threads, 1, MAX_THREADS, &c->threads.value, message, size))
    return -1;
  if (seconds && parse_number("KOOFU_PROGRESS", seconds, 0, DAY_SECONDS, &wait, message, size))
    return -1;
  *lines = (int)wait;
  if (!isa || c->isa >= 0) return 0;
  c->isa = parse_choice("KOOFU_ISA", isa, isa_choices, message, size);
  return c->isa < 0 ? -1 : 0;
}

static int make_context(cli_run *cli) {
  kf_isa isa = cli->args.common.isa < 0 ? KF_ISA_AUTO : (kf_isa)cli->args.common.isa;
  if (!kf_isa_available(isa))
    return fail_usage(cli, "this machine does not have the instruction set %s", kf_isa_name(isa));
  kf_ctx_options options = {.threads = (unsigned)cli->args.common.threads.value,
                            .isa = isa,
                            .progress = progress_callback,
                            .log = log_callback,
                            .user = cli,
                            .any_encoder = cli->args.data.any_encoder,
                            .device = cli->args.common.device,
                            .device_plugin = cli->args.common.device_plugin,
                            .comm = cli->comm};
  TRY(result_of(cli, kf_ctx_new(&options, &cli->ctx)));
  if (cli->args.common.verbose)
    say(cli, "koofu %s, %s, instruction set %s", kf_version(),
        show_counted(kf_ctx_threads(cli->ctx), "thread", "threads").text,
        kf_isa_name(kf_ctx_isa(cli->ctx)));
  const kf_device_list *devices;
  const char *device = cli->args.common.device;
  if (!device || strcmp(device, "auto") == 0) return EXIT_OK; /* searched for when it pays */
  /* Reports a missing device before the work begins. */
  return result_of(cli, kf_devices_find(cli->ctx, &devices));
}

static int run_command(cli_run *cli, int argc, char **argv) {
  char message[512];
  cli->args.common.isa = -1; /* not given */
  if (args_parse(cli->command, argc, argv, &cli->args, message, sizeof message))
    return *message ? fail_usage(cli, "%s", message) : fail(cli, KF_ERR_MEM);
  if (cli->args.common.help || cli->args.common.long_help) {
    (cli->args.common.long_help ? print_long_help : print_help)(stdout, cli->command);
    return EXIT_OK;
  }
  int lines = -1;
  if (read_environment(cli, &lines, message, sizeof message)) return fail_usage(cli, "%s", message);
  progress_start(&cli->progress, cli->args.common.quiet, cli->args.common.verbose, lines);
  catch_signals();
  int status = make_context(cli);
  if (status == EXIT_OK) status = take_streams(cli);
  if (status == EXIT_OK) status = cli->command->run(cli);
  progress_end(cli);
  if (status == EXIT_OK && cli->args.common.verbose)
    say(cli, "total %s", show_seconds(now() - cli->begun).text);
  return status;
}

int no_such_command(cli_run *cli, const char *name) {
  suggestion guess = {.typed = name};
  if (name[0] == '-')
    return fail_usage(cli, "'%s' comes before the command; options go after the command", name);
  for (const cli_command *const *c = commands; *c; c++) suggest(&guess, (*c)->name);
  if (guess.best)
    return fail_with(cli, EXIT_USAGE,
                     "there is no command '%s' (did you mean '%s'?); see 'koofu help'", name,
                     guess.best);
  return fail_with(cli, EXIT_USAGE, "there is no command '%s'; see 'koofu help'", name);
}

static int take_command(cli_run *cli, int argc, char **argv) {
  if (argc < 2) {
    print_help(stderr, NULL);
    return EXIT_USAGE;
  }
  const char *name = argv[1];
  int long_help = strcmp(name, "-H") == 0 || strcmp(name, "--long-help") == 0;
  if (long_help || strcmp(name, "-h") == 0 || strcmp(name, "--help") == 0) {
    (long_help ? print_long_help : print_help)(stdout, NULL);
    return EXIT_OK;
  }
  const cli_command *found = find_command(strcmp(name, "--version") == 0 ? "version" : name);
  if (!found) return no_such_command(cli, name);
  cli->command = found;
  if (has_ranks(cli) && !found->shared)
    return fail_with(cli, EXIT_USAGE,
                     "there is no work to share among ranks; run 'koofu %s' by itself",
                     found->name);
  return run_command(cli, argc - 2, argv + 2);
}

/* Every shard of a data set stays open, so as many files as possible are allowed. Exceeding the
 * file size limit makes the write fail instead of ending the process. */
static void set_limits(void) {
  struct rlimit files;
  if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
  signal(SIGXFSZ, SIG_IGN);
}

/* A stack that cannot grow ends the process silently. So it grows here, by more than the
 * kernels need; after that, a lack of memory shows as a failed allocation. Not inlined: the
 * frame must come after the limit is raised. */
__attribute__((noinline)) static void grow_stack(void) {
  enum { BYTES = 1 << 19, PAGE = 4096 };
  volatile char pages[BYTES];
  for (size_t i = BYTES; i > 0; i -= PAGE) pages[i - 1] = 0; /* downwards, as it grows */
  (void)pages[0];
}

static int take_stack(cli_run *cli) {
  const rlim_t least = 1 << 20;
  struct rlimit stack;
  if (getrlimit(RLIMIT_STACK, &stack) == 0 && stack.rlim_cur < least) {
    rlim_t before = stack.rlim_cur;
    stack.rlim_cur = least;
    if (setrlimit(RLIMIT_STACK, &stack) != 0)
      return fail_with(cli, EXIT_INTERNAL,
                       "the stack is limited to %llu KiB, but 1024 are needed (see 'ulimit -s')",
                       (unsigned long long)before / 1024);
  }
  grow_stack();
  return EXIT_OK;
}

int cli_main(int argc, char **argv, const kf_comm *comm) {
  cli_run cli;
  memset(&cli, 0, sizeof cli);
  cli.begun = now();
  cli.comm = comm;
  set_limits();
  int status = take_stack(&cli);
  if (status == EXIT_OK) status = take_command(&cli, argc, argv);
  status = settle(&cli, status);
  free_owned(&cli);
  cli.streams = NULL; /* freed with the rest */
  kf_ctx_free(cli.ctx);
  args_free(cli.command, &cli.args);
  int unwritten = ferror(stdout);
  errno = 0;
  if ((fclose(stdout) != 0 || unwritten) && status == EXIT_OK)
    status = fail_with(&cli, EXIT_IO, "standard output: cannot be written: %s",
                       errno ? strerror(errno) : "it was cut short");
  if (cli.stopped && !has_ranks(&cli)) end_by_signal();
  return status;
}
