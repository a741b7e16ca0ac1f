/* memory.c - arenas whose blocks count against a budget shared by all requests, so whatever clients
 * send, bodies, rows and answers together stay within it. */
#include "memory.h"

#include <stdint.h>
#include <stdlib.h>

typedef struct sv_block {
  struct sv_block *next, *before;
  size_t n; /* counted against the budget, including this header */
  _Alignas(max_align_t) char bytes[];
} sv_block;

static bool spend(sv_budget *budget, size_t n) {
  size_t left = atomic_load_explicit(&budget->left, memory_order_relaxed);
  do {
    if (left < n) return false;
  } while (!atomic_compare_exchange_weak_explicit(&budget->left, &left, left - n,
                                                  memory_order_relaxed, memory_order_relaxed));
  return true;
}

static void refund(sv_budget *budget, size_t n) {
  atomic_fetch_add_explicit(&budget->left, n, memory_order_relaxed);
}

static sv_block *block_of(void *bytes) {
  return (sv_block *)(void *)((char *)bytes - offsetof(sv_block, bytes));
}

static void link_in(sv_arena *arena, sv_block *block) {
  block->before = NULL;
  block->next = arena->blocks;
  if (block->next) block->next->before = block;
  arena->blocks = block;
}

static void unlink_from(sv_arena *arena, sv_block *block) {
  if (block->next) block->next->before = block->before;
  if (block->before)
    block->before->next = block->next;
  else
    arena->blocks = block->next;
}

void *sv_take(sv_arena *arena, size_t n, size_t size) {
  if (size > 0 && n > (SIZE_MAX - sizeof(sv_block)) / size) return NULL;
  size_t all = n * size + sizeof(sv_block);
  if (!spend(arena->budget, all)) return NULL;
  sv_block *block = malloc(all);
  if (!block) {
    refund(arena->budget, all);
    return NULL;
  }
  block->n = all;
  link_in(arena, block);
  return block->bytes;
}

void *sv_resize(sv_arena *arena, void *bytes, size_t n) {
  if (!bytes) return sv_take(arena, n, 1);
  sv_block *block = block_of(bytes);
  if (n > SIZE_MAX - sizeof *block) return NULL;
  size_t all = n + sizeof *block, before = block->n;
  if (all > before && !spend(arena->budget, all - before)) return NULL;
  unlink_from(arena, block);
  sv_block *moved = realloc(block, all);
  if (!moved) {
    if (all > before) refund(arena->budget, all - before);
    link_in(arena, block);
    return NULL;
  }
  if (all < before) refund(arena->budget, before - all);
  moved->n = all;
  link_in(arena, moved);
  return moved->bytes;
}

void sv_give(sv_arena *arena, void *bytes) {
  if (!bytes) return;
  sv_block *block = block_of(bytes);
  unlink_from(arena, block);
  refund(arena->budget, block->n);
  free(block);
}

void sv_release(sv_arena *arena) {
  for (sv_block *block = arena->blocks, *next; block; block = next) {
    next = block->next;
    refund(arena->budget, block->n);
    free(block);
  }
  arena->blocks = NULL;
}
