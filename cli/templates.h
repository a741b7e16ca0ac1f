/* templates.h - the templates that 'koofu prompts' knows by name. */
#ifndef CLI_TEMPLATES_H
#define CLI_TEMPLATES_H

#include <stddef.h>

/* Those of "builtin1", "builtin7" or "builtin80"; NULL: no such name. */
const char *const *builtin_templates(const char *name, size_t *n);

#endif
