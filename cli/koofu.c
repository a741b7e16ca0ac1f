/* koofu.c - koofu in one process. */
#include "program.h"

int main(int argc, char **argv) { return cli_main(argc, argv, NULL); }
