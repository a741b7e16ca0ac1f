/* parquet_cache.c - decoded pages, which the threads of a pass share.
 *
 * A page is the least that can be unpacked, and holds the rows of many batches. So the pages that were used
 * last are kept, all files of a data set together, up to some memory; those in use stay in any case. A
 * thread that needs a page which another one is decoding waits for it. If that fails, each that waited
 * tries by itself, since errors belong to those who asked. */
#include "file/parquet.h"

#include <pthread.h>

/* Small pages are kept while all of them take little, so that memory stays warm; of large ones, which hold
 * many batches, the few that threads work on. There may be many tiny ones, but the list is walked. */
#define KEPT  ((uint64_t)24 << 20)
#define MOST  ((uint64_t)192 << 20)
#define FEW   8u
#define LEAST 3u
#define MANY  1024u

/* The block first, so that a pointer to one is a pointer to the other. */
typedef struct entry {
  kf_pq_block block;
  const kf_pq_column *column;
  uint32_t page;
  uint32_t users;
  bool ready, failed;
  uint64_t used; /* the last time */
} entry;

struct kf_pq_cache {
  pthread_mutex_t lock;
  pthread_cond_t changed; /* an entry is ready, or has failed */
  entry **entries;
  size_t n, room;
  uint64_t bytes, time;
};

kf_pq_cache *kf_pq_cache_new(void) {
  kf_pq_cache *cache = kf_alloc_zero(1, sizeof *cache);
  if (cache == NULL) return NULL;
  pthread_mutex_init(&cache->lock, NULL);
  pthread_cond_init(&cache->changed, NULL);
  return cache;
}

/* Takes an entry without users out; what it points into loses one. */
static void drop(kf_pq_cache *cache, size_t i) {
  entry *e = cache->entries[i];
  cache->entries[i] = cache->entries[--cache->n];
  cache->bytes -= e->block.bytes;
  if (e->block.dict != NULL) ((entry *)(uintptr_t)e->block.dict)->users--;
  kf_pq_block_free(&e->block);
  kf_free(e);
}

/* The entry of these that was used longest ago, and has no users; SIZE_MAX: none. */
static size_t find_oldest(const kf_pq_cache *cache, const kf_pq_column *of) {
  size_t oldest = SIZE_MAX;
  for (size_t i = 0; i < cache->n; i++) {
    const entry *e = cache->entries[i];
    if (e->users > 0 || (of != NULL && e->column != of)) continue;
    if (oldest == SIZE_MAX || e->used < cache->entries[oldest]->used) oldest = i;
  }
  return oldest;
}

void kf_pq_cache_forget(kf_pq_cache *cache, const kf_pq_column *column) {
  pthread_mutex_lock(&cache->lock);
  for (size_t i; (i = find_oldest(cache, column)) != SIZE_MAX;) drop(cache, i);
  pthread_mutex_unlock(&cache->lock);
}

void kf_pq_cache_free(kf_pq_cache *cache) {
  if (cache == NULL) return;
  kf_pq_cache_forget(cache, NULL);
  pthread_cond_destroy(&cache->changed);
  pthread_mutex_destroy(&cache->lock);
  kf_free(cache->entries);
  kf_free(cache);
}

static bool is_full(const kf_pq_cache *cache) {
  return cache->n > MANY || (cache->bytes > KEPT && cache->n > FEW) ||
         (cache->bytes > MOST && cache->n > LEAST);
}

static void trim(kf_pq_cache *cache) {
  for (size_t i; is_full(cache) && (i = find_oldest(cache, NULL)) != SIZE_MAX;) drop(cache, i);
}

/* An entry that is ready or being made; NULL: none. A new user of it. */
static entry *find(kf_pq_cache *cache, const kf_pq_column *column, uint32_t page) {
  for (size_t i = 0; i < cache->n; i++) {
    entry *e = cache->entries[i];
    if (e->column != column || e->page != page || e->failed) continue;
    e->users++;
    e->used = ++cache->time;
    return e;
  }
  return NULL;
}

static void let_go(kf_pq_cache *cache, entry *e) {
  e->users--;
  if (e->failed && e->users == 0) {
    size_t i = 0;
    while (cache->entries[i] != e) i++;
    drop(cache, i);
  }
  trim(cache);
}

void kf_pq_cache_let_go(kf_pq_cache *cache, const kf_pq_block *block) {
  pthread_mutex_lock(&cache->lock);
  let_go(cache, (entry *)(uintptr_t)block);
  pthread_mutex_unlock(&cache->lock);
}

/* --- pages ----------------------------------------------------------------------------------- */

static entry *add(kf_pq_cache *cache, const kf_pq_column *column, uint32_t page) {
  entry *e = kf_alloc_zero(1, sizeof *e);
  if (e == NULL || !kf_grow((void **)&cache->entries, &cache->room, cache->n, sizeof e)) {
    kf_free(e);
    return NULL;
  }
  *e = (entry){.column = column, .page = page, .users = 1, .used = ++cache->time};
  cache->entries[cache->n++] = e;
  return e;
}

/* Decodes a page, without the lock. Its dictionary gains a user. */
static kf_status load(kf_pq_cache *cache, const kf_pq_column *column, uint32_t page,
                      kf_pq_block *out, kf_err *err) {
  const kf_pq_page *p = &column->pages[page];
  const kf_pq_block *dictionary = NULL;
  kf_pq_shape shape = kf_pq_shape_of(column, page);
  if (p->dictionary != KF_PQ_NONE)
    KF_TRY(kf_pq_cache_get(cache, column, p->dictionary, &dictionary, err));
  kf_status status = kf_pq_decode(column->in, &column->leaf, p, &shape, dictionary, out, err);
  if (status == KF_OK)
    out->dict = dictionary;
  else if (dictionary != NULL)
    kf_pq_cache_let_go(cache, dictionary);
  return status;
}

static kf_status make(kf_pq_cache *cache, entry *e, kf_err *err) {
  kf_pq_block block = {0};
  pthread_mutex_unlock(&cache->lock);
  kf_status status = load(cache, e->column, e->page, &block, err);
  pthread_mutex_lock(&cache->lock);
  e->block = block;
  e->ready = true;
  e->failed = status != KF_OK;
  cache->bytes += block.bytes;
  pthread_cond_broadcast(&cache->changed);
  if (status != KF_OK)
    let_go(cache, e);
  else
    trim(cache);
  return status;
}

kf_status kf_pq_cache_get(kf_pq_cache *cache, const kf_pq_column *column, uint32_t page,
                          const kf_pq_block **out, kf_err *err) {
  kf_status status = KF_OK;
  pthread_mutex_lock(&cache->lock);
  for (;;) {
    entry *e = find(cache, column, page);
    if (e == NULL) {
      e = add(cache, column, page);
      status = e == NULL ? kf_fail_memory(err) : make(cache, e, err);
      *out = status == KF_OK ? &e->block : NULL;
      break;
    }
    while (!e->ready) pthread_cond_wait(&cache->changed, &cache->lock);
    if (!e->failed) {
      *out = &e->block;
      break;
    }
    let_go(cache, e);
  }
  pthread_mutex_unlock(&cache->lock);
  return status;
}
