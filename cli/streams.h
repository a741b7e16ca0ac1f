/* streams.h - standard input ('-'), pipes and FIFOs where files are read. */
#ifndef CLI_STREAMS_H
#define CLI_STREAMS_H

#include "cli.h"

/* Reads every stream that the command line names, and makes it name the copies instead. Returns the
 * exit status. */
int take_streams(cli_run *cli);
int is_stream(const cli_run *cli, const char *path); /* whether a path leads to such a copy */
/* The name of a stream for people, "standard input" or the path as given; of another path, itself. */
const char *stream_name(const cli_run *cli, const char *path);
/* Puts the names of streams in the place of the paths that lead to their copies. */
void name_streams(const cli_run *cli, const char *text, char *out, size_t size);
/* A file without a name for what must wait: in the folder of a path, or else where copies of streams are. -1,
 * with the reason in errno: it cannot be had. */
int open_workspace(const char *path);

#endif
