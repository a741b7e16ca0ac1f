/* recipe.h - what a user calls fit, report or quickstart: one call each, made of the rooms below. Sees
 * all of them. */
#ifndef KF_RECIPE_H
#define KF_RECIPE_H

#include "choose/choose.h"

#endif
