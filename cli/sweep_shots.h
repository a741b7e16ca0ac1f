/* sweep_shots.h - few-shot curves. */
#ifndef CLI_SWEEP_SHOTS_H
#define CLI_SWEEP_SHOTS_H

#include "cli.h"

int sweep_shots(cli_run *cli); /* koofu sweep --shots */

#endif
