/* journal.h - added classes on disk: a data set for each, in a folder next to the model.
 *
 * NUMBER.safetensors holds the rows of a class, NUMBER-text.safetensors the embedded prompts of a
 * class made from its name alone; the name of the class is in the file. Files appear whole and
 * synced, or not at all; numbers rise. A lock keeps other processes out of the folder. */
#ifndef SERVE_JOURNAL_H
#define SERVE_JOURNAL_H

#include "server.h"

typedef struct sv_journal sv_journal;

/* Does not touch the disk. folder NULL: one in /tmp, created for the first class and removed with
 * the journal. */
kf_status sv_journal_new(sv_server *server, const char *folder, sv_journal **out);
void sv_journal_free(sv_journal *journal);
/* Creates (except with --check) and locks the folder that has the name now, before its classes are
 * read. KF_ERR_IO if another server has it. If it cannot be created, that is logged and the journal
 * is empty. */
kf_status sv_journal_take(sv_journal *journal, char *message, size_t size);
/* Before a change: KF_ERR_IO if the folder is no longer the one that was taken. Tries again to
 * create one that could not be created; *found: it exists now, with classes that have not been
 * read. */
kf_status sv_journal_hold(sv_journal *journal, bool *found, char *message, size_t size);
/* The numbers of the files, rising. Free *numbers. */
kf_status sv_journal_list(const sv_journal *journal, uint64_t **numbers, size_t *n, char *message,
                          size_t size);
/* Opens the rows of a class and describes it in *out; free out->name. */
kf_status sv_journal_read(const sv_journal *journal, kf_ctx *ctx, uint64_t number, kf_data **data,
                          sv_added *out, char *message, size_t size);
/* The change is on disk when these return KF_OK; if only the folder cannot be synced, that is
 * logged. */
kf_status sv_journal_add(sv_journal *journal, kf_ctx *ctx, const kf_data *data, bool text,
                         uint64_t *number, char *message, size_t size);
kf_status sv_journal_remove(sv_journal *journal, const sv_added *added, char *message, size_t size);
const char *sv_journal_folder(const sv_journal *journal);

#endif
