/* parquet_cache.c - decoded pages, shared by the threads of a pass.
 *
 * A page is the smallest unit that can be decoded, and has the rows of many batches. So the most
 * recently used pages of all files of a data set are kept, up to a memory limit; pages in use stay
 * in any case. A thread that needs a page which another is decoding waits for it. If decoding
 * fails, each waiting thread tries again itself, so that it gets an error of its own. */
#include "file/parquet.h"

#include <pthread.h>

/* Small pages are kept up to a total size. Large ones, which have the rows of many batches, are
 * limited to the few that threads work on. The number of tiny ones is limited, since the list
 * is searched linearly. */
#define SMALL_PAGES_BYTES ((uint64_t)24 << 20)
#define LARGE_PAGES_BYTES ((uint64_t)192 << 20)
#define SMALL_PAGES_MIN   8u
#define LARGE_PAGES_MIN   3u
#define PAGES_MAX         1024u

/* The block comes first, so that a pointer to it can be cast to the entry. */
typedef struct entry {
  kf_pq_block block;
  const kf_pq_column *column;
  uint32_t page;
  uint32_t users;
  bool ready, failed;
  uint64_t used; /* time of the last use */
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

/* Removes an entry without users, and its use of the dictionary. */
static void drop(kf_pq_cache *cache, size_t i) {
  entry *e = cache->entries[i];
  cache->entries[i] = cache->entries[--cache->n];
  cache->bytes -= e->block.bytes;
  if (e->block.dict != NULL) ((entry *)(uintptr_t)e->block.dict)->users--;
  kf_pq_block_free(&e->block);
  kf_free(e);
}

/* The least recently used entry without users, of one column or (NULL) of all; SIZE_MAX: none. */
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
  return cache->n > PAGES_MAX || (cache->bytes > SMALL_PAGES_BYTES && cache->n > SMALL_PAGES_MIN) ||
         (cache->bytes > LARGE_PAGES_BYTES && cache->n > LARGE_PAGES_MIN);
}

static void trim(kf_pq_cache *cache) {
  for (size_t i; is_full(cache) && (i = find_oldest(cache, NULL)) != SIZE_MAX;) drop(cache, i);
}

/* Finds an entry that is ready or being decoded, and adds a user; NULL: none. */
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

static void release(kf_pq_cache *cache, entry *e) {
  e->users--;
  if (e->failed && e->users == 0) {
    size_t i = 0;
    while (cache->entries[i] != e) i++;
    drop(cache, i);
  }
  trim(cache);
}

void kf_pq_cache_release(kf_pq_cache *cache, const kf_pq_block *block) {
  pthread_mutex_lock(&cache->lock);
  release(cache, (entry *)(uintptr_t)block);
  pthread_mutex_unlock(&cache->lock);
}

/* --- pages --------------------------------------------------------------------------------- */

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

/* Decodes a page without holding the lock. The page becomes a user of its dictionary. */
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
    kf_pq_cache_release(cache, dictionary);
  return status;
}

static kf_status decode_entry(kf_pq_cache *cache, entry *e, kf_err *err) {
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
    release(cache, e);
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
      status = e == NULL ? kf_fail_memory(err) : decode_entry(cache, e, err);
      *out = status == KF_OK ? &e->block : NULL;
      break;
    }
    while (!e->ready) pthread_cond_wait(&cache->changed, &cache->lock);
    if (!e->failed) {
      *out = &e->block;
      break;
    }
    release(cache, e);
  }
  pthread_mutex_unlock(&cache->lock);
  return status;
}
