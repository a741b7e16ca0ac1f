/* out_file.c - results to stdout, or to a file that appears whole or not at all.
 *
 * The library writes the file; here it is made to look like any other to print to. A write that
 * fails is remembered by the library, and reported by the commit. */
#include "out_file.h"
#include "outputs.h"

#include <errno.h>
#include <string.h>
#include <sys/types.h>

static ssize_t pass_on(void *cookie, const char *bytes, size_t n) {
  const out_file *out = cookie;
  return kf_output_write(out->ctx, out->output, bytes, n) == KF_OK ? (ssize_t)n : 0;
}

int out_file_open(cli_run *cli, out_file *out, const char *path) {
  *out = (out_file){.file = stdout, .ctx = cli->ctx};
  if (is_stdout(path)) return EXIT_OK;
  TRY(result_of(cli, kf_output_open(cli->ctx, path, &out->output)));
  out->file = fopencookie(out, "w", (cookie_io_functions_t){.write = pass_on});
  return out->file ? EXIT_OK : fail(cli, KF_ERR_MEM);
}

static int commit_stdout(cli_run *cli) {
  errno = 0;
  if (fflush(stdout) == 0 && !ferror(stdout)) return EXIT_OK;
  return fail_with(cli, EXIT_IO, "standard output: cannot be written: %s",
                   errno ? strerror(errno) : "it was cut short");
}

int out_file_commit(cli_run *cli, out_file *out) {
  if (!out->output) return commit_stdout(cli);
  int cut = ferror(out->file);
  cut |= fclose(out->file);
  out->file = NULL;
  kf_output *output = out->output;
  kf_status status = kf_output_write(cli->ctx, output, NULL, 0); /* reports a failure of before */
  if (cut && status == KF_OK) return fail(cli, KF_ERR_MEM);      /* not of the file: of printing */
  out->output = NULL; /* freed by the commit in any case */
  return result_of(cli, kf_output_commit(cli->ctx, output));
}

void out_file_abort(out_file *out) {
  if (out->output && out->file) fclose(out->file);
  kf_output_free(out->output);
  memset(out, 0, sizeof *out);
}

static int write_file(cli_run *cli, const char *path, size_t i,
                      void (*write)(const void *argument, size_t i, FILE *file),
                      const void *argument) {
  out_file out;
  int result = out_file_open(cli, &out, path);
  if (result == EXIT_OK) write(argument, i, out.file);
  if (result == EXIT_OK) result = out_file_commit(cli, &out);
  out_file_abort(&out);
  return result;
}

int write_files(cli_run *cli, const char *const *paths, size_t n,
                void (*write)(const void *argument, size_t i, FILE *file), const void *argument) {
  TRY(result_of(cli, kf_outputs_begin(cli->ctx)));
  int result = EXIT_OK;
  for (size_t i = 0; i < n && result == EXIT_OK; i++)
    if (paths[i]) result = write_file(cli, paths[i], i, write, argument);
  if (result == EXIT_OK) return result_of(cli, kf_outputs_commit(cli->ctx));
  kf_outputs_abort(cli->ctx);
  return result;
}
