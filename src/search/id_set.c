/* id_set.c - a set of ids, from a list or a text file, to find rows by. */
#include "search/gallery.h"

#include <string.h>

kf_status kf_id_set_add(kf_id_set *set, const char *id, size_t length, kf_err *err) {
  if (set->n >= INT32_MAX) return kf_fail(err, KF_ERR_ARG, "too many ids");
  kf_string_add(&set->bytes, id, length);
  if (set->bytes.failed || !kf_grow((void **)&set->ends, &set->room, set->n, sizeof *set->ends))
    return kf_fail_memory(err);
  set->ends[set->n++] = set->bytes.n;
  return KF_OK;
}

static kf_status take_line(void *argument, uint64_t line, const char *text, size_t length,
                           kf_err *err) {
  (void)line;
  return length > 0 ? kf_id_set_add(argument, text, length, err) : KF_OK;
}

kf_status kf_id_set_ready(kf_id_set *set, kf_err *err) {
  size_t kept = 0;
  uint64_t begin = 0;
  set->dict = kf_dict_new((uint32_t)set->n);
  if (set->dict == NULL) return kf_fail_memory(err);
  for (size_t i = 0; i < set->n; i++) {
    uint64_t end = set->ends[i], length = end - begin;
    if (kf_dict_find(set->dict, set->bytes.data + begin, length) < 0) {
      if (!kf_dict_add(set->dict, set->bytes.data + begin, length, (uint32_t)kept))
        return kf_fail_memory(err);
      kept++;
    }
    begin = end;
  }
  set->n = kept;
  KF_TAKE_ZERO(&set->arena, set->found, kept);
  return set->arena.failed ? kf_fail_memory(err) : KF_OK;
}

kf_status kf_id_set_take(kf_id_set *set, const kf_id_list *list, kf_err *err) {
  if (list->ids == NULL && list->n > 0) return kf_fail(err, KF_ERR_ARG, "a list of ids is missing");
  for (uint64_t i = 0; i < list->n; i++) {
    if (list->ids[i] == NULL || list->ids[i][0] == '\0')
      return kf_fail(err, KF_ERR_ARG, "id %llu is missing", (unsigned long long)i);
    KF_TRY(kf_id_set_add(set, list->ids[i], strlen(list->ids[i]), err));
  }
  if (list->file != NULL) KF_TRY(kf_lines_read(list->file, take_line, set, err));
  return kf_id_set_ready(set, err);
}

bool kf_id_set_has(kf_id_set *set, const char *id) {
  int64_t at = kf_dict_find(set->dict, id, strlen(id));
  if (at < 0) return false;
  set->n_found += !set->found[at];
  set->found[at] = true;
  return true;
}

void kf_id_set_clear(kf_id_set *set) {
  kf_dict_free(set->dict);
  kf_string_clear(&set->bytes);
  kf_free(set->ends);
  kf_arena_free(&set->arena);
}
