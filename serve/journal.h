/* journal.h - added classes on disk: one native data set for each, in a folder beside the model.
 *
 * NUMBER.safetensors holds the rows of a class, NUMBER-text.safetensors the embedded prompts of one that has its
 * name alone; the class has the name that the file says. A file appears whole and synced, or not at all, and
 * numbers rise. Only one process at a time works in the folder. */
#ifndef SERVE_JOURNAL_H
#define SERVE_JOURNAL_H

#include "server.h"

typedef struct sv_journal sv_journal;

/* Nothing is on the disk yet. */
kf_status sv_journal_new(sv_server *server, const char *folder, sv_journal **out);
/* A folder in /tmp that is made when the first class is added, and goes with the journal. */
kf_status sv_journal_new_scratch(sv_server *server, sv_journal **out);
void sv_journal_free(sv_journal *journal);
/* Makes and locks the folder, or the one that has its name now, whose classes are to be read then. KF_ERR_IO if
 * another server has it. If it cannot be made, that is logged, and the journal is empty; with --check it is not made. */
kf_status sv_journal_take(sv_journal *journal, char *message, size_t size);
/* Before a change: KF_ERR_IO if the folder is not the one that was taken. One that could not be made then is tried
 * again; *found: it is there now, and its classes have not been read. */
kf_status sv_journal_hold(sv_journal *journal, bool *found, char *message, size_t size);
/* The numbers of the files, rising; *numbers is the caller's to free. */
kf_status sv_journal_list(const sv_journal *journal, uint64_t **numbers, size_t *n, char *message,
                          size_t size);
/* The rows of a class, and what is known of it; out->name is the caller's to free. */
kf_status sv_journal_read(const sv_journal *journal, kf_ctx *ctx, uint64_t number, kf_data **data,
                          sv_added *out, char *message, size_t size);
/* Both are on the disk when they return KF_OK, except that it is logged if the folder cannot be synced. */
kf_status sv_journal_add(sv_journal *journal, kf_ctx *ctx, const kf_data *data, bool text,
                         uint64_t *number, char *message, size_t size);
kf_status sv_journal_remove(sv_journal *journal, const sv_added *added, char *message, size_t size);
const char *sv_journal_folder(const sv_journal *journal);

#endif
