/* memory.h - memory of requests, within one budget. */
#ifndef SERVE_MEMORY_H
#define SERVE_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* Bytes that all requests together may still take. */
typedef struct sv_budget {
  atomic_size_t left;
} sv_budget;

/* The memory of one request, freed together. Used by one thread at a time. */
typedef struct sv_arena {
  sv_budget *budget;
  struct sv_block *blocks;
} sv_arena;

/* n * size bytes; NULL: the budget or the memory is exhausted. */
void *sv_take(sv_arena *arena, size_t n, size_t size);
/* Resizes `bytes`, from sv_take or NULL; NULL on failure, with `bytes` unchanged. */
void *sv_resize(sv_arena *arena, void *bytes, size_t n);
void sv_give(sv_arena *arena, void *bytes); /* frees one block early; NULL is a no-op */
void sv_release(sv_arena *arena);           /* frees all */

#endif
