/* program.h - the whole program, as koofu (koofu.c) and koofu-mpi run it. */
#ifndef CLI_PROGRAM_H
#define CLI_PROGRAM_H

#include "koofu.h"
#include "koofu_comm.h"
#include "koofu_encode.h"
#include "koofu_files.h"
#include "koofu_judge.h"

/* Returns the exit status. comm: the ranks among which work is shared out; NULL: one process. */
int cli_main(int argc, char **argv, const kf_comm *comm);

#endif
