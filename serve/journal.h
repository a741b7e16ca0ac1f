/* journal.h - added classes on disk: one native data set for each, in a folder beside the model.
 *
 * NUMBER.safetensors holds the rows of a class, NUMBER-text.safetensors the embedded prompts of one that has its
 * name alone; the class has the name that the file says. A file appears whole and synced, or not at all, and
 * numbers rise. Only one process at a time works in the folder. */
#ifndef SERVE_JOURNAL_H
#define SERVE_JOURNAL_H

#include "server.h"

typedef struct sv_journal sv_journal;

/* The folder need not exist: it is made when the first class is added. KF_ERR_IO if another server has it. */
kf_status sv_journal_open(const char *folder, sv_journal **out, char *message, size_t size);
void sv_journal_free(sv_journal *journal);
/* A folder in /tmp that goes with the journal. */
kf_status sv_journal_open_scratch(sv_journal **out, char *message, size_t size);
/* The numbers of the files, rising; *numbers is the caller's to free. */
kf_status sv_journal_list(const sv_journal *journal, uint64_t **numbers, size_t *n, char *message,
                          size_t size);
/* The rows of a class, and what is known of it; out->name is the caller's to free. */
kf_status sv_journal_read(const sv_journal *journal, kf_ctx *ctx, uint64_t number, kf_data **data,
                          sv_added *out, char *message, size_t size);
/* Both are on the disk when they return. */
kf_status sv_journal_add(sv_journal *journal, kf_ctx *ctx, const kf_data *data, bool text,
                         uint64_t *number, char *message, size_t size);
kf_status sv_journal_remove(sv_journal *journal, const sv_added *added, char *message, size_t size);
const char *sv_journal_folder(const sv_journal *journal);

#endif
