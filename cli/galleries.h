/* galleries.h - galleries and votes. */
#ifndef CLI_GALLERIES_H
#define CLI_GALLERIES_H

#include "encoders.h"

/* queries: about how many there will be; 0: not known. */
int load_gallery(cli_run *cli, const char *path, uint64_t queries, kf_gallery **out);
int info_is_mapped(const kf_info *info); /* the file holds a map: a model, or a gallery with one */
/* Refuses queries that the gallery or, without one, the model cannot take: of another dimension, of
 * another encoder, or mapped already. */
int check_queries(cli_run *cli, const cli_queries *queries, const kf_model *model,
                  const kf_gallery *gallery);

/* Takes the first operand as --gallery where it is a gallery, whose rows then vote without a model;
 * refuses options that need one. */
int take_voters(cli_run *cli);
/* Refuses options on votes that do not go together. */
int check_vote_options(cli_run *cli);
double vote_temperature(const cli_args *args); /* --temperature, or the default */
/* --temperature of probabilities; 0: the model's. */
double softmax_temperature(const cli_args *args);
/* --gallery, with labels, in the original space or in that of the model, which may be NULL. */
int load_voters(cli_run *cli, const kf_model *model, kf_gallery **out);

/* -k, or 15 if there are that many; `most` rows of the gallery at `path` are searched. */
int choose_k(cli_run *cli, const char *path, uint64_t most, uint32_t *k);
/* -k auto: chosen by leaving out rows of the gallery in turn; says which. */
int choose_k_auto(cli_run *cli, const kf_gallery *gallery, uint32_t *k);
/* Says which k was chosen, and how good it is. */
void say_k(cli_run *cli, const kf_k_choice *choice);
int check_k(cli_run *cli, const char *path, uint64_t most, uint32_t k);

#endif
