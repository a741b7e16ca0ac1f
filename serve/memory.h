/* memory.h - what requests take, all of it within one budget. */
#ifndef SERVE_MEMORY_H
#define SERVE_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* Bytes that requests may hold together. */
typedef struct sv_budget {
  atomic_size_t left;
} sv_budget;

/* What one request holds; freed together. Used by one thread at a time. */
typedef struct sv_arena {
  sv_budget *budget;
  struct sv_block *blocks;
} sv_arena;

/* n * size bytes; NULL: the budget, or the machine, has no more. */
void *sv_take(sv_arena *arena, size_t n, size_t size);
/* `bytes`, from sv_take or NULL, made larger or smaller; NULL: it is as it was. */
void *sv_resize(sv_arena *arena, void *bytes, size_t n);
void sv_give(sv_arena *arena, void *bytes); /* one of them, early; NULL does nothing */
void sv_release(sv_arena *arena);

#endif
