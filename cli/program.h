/* program.h - the whole program, for koofu (koofu.c) and koofu-mpi. */
#ifndef CLI_PROGRAM_H
#define CLI_PROGRAM_H

#include "koofu.h"
#include "koofu_comm.h"

/* Returns the exit status. comm: the ranks that share the work; NULL: one process. */
int cli_main(int argc, char **argv, const kf_comm *comm);

#endif
