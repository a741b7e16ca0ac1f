/* inputs.h - what a command reads: data sets, statistics, models, galleries, encoders, text. */
#ifndef CLI_INPUTS_H
#define CLI_INPUTS_H

#include "cli.h"

/* --- data, models and statistics (inputs.c) --------------------------------------------------- */

/* What a command does with labels. */
typedef enum label_use {
  LABELS_NEEDED, /* a row without a label is an error unless an option allows it */
  LABELS_WANTED, /* rows without a label, or with one that is not in --classes, are allowed */
  LABELS_IGNORED
} label_use;

/* The groups of --groups for the rows of the operands; NULL if there are none. */
int read_groups(cli_run *cli, const kf_data *data, const uint32_t **out);

/* Opens operands `first` and up as one data set, which must not include the output (-o). */
int open_data(cli_run *cli, size_t first, label_use use, kf_data **out);
/* --test; *out stays NULL without it. The rows must have labels unless there is a truth. */
int open_test(cli_run *cli, const kf_truth *truth, kf_data **out);
/* The options on the rows and labels of data. */
#define DATA_OPTIONS                                                                               \
  "labels classes label-column label-tensor tensor column id-column order skip-bad only"

/* Whether a file is of this kind: "model", "gallery", "statistics", "data set". Fails if it is
 * there but cannot be read. */
int check_kind(cli_run *cli, const char *path, const char *kind, int *found);
int load_model(cli_run *cli, const char *path, kf_model **out);
kf_metric metric_for(const cli_args *args, const kf_model *model); /* --metric, or the default */
/* Says why a file could not be loaded as a `wanted` ("model", "gallery"). If it is another kind of
 * file, says which kind and what to do. */
int fail_load(cli_run *cli, kf_status status, const char *path, const char *wanted);

/* Computes the statistics of the operands, which are data. */
int data_stats(cli_run *cli, kf_data **rows, kf_stats **out);
/* The same, or loads them if the operand is a statistics file; *rows then stays NULL. */
int read_stats(cli_run *cli, kf_data **rows, kf_stats **out);
/* Only loads a statistics file: *out stays NULL for data. Refuses options that contradict the
 * kind of input. */
int take_stats(cli_run *cli, kf_stats **out);
int load_stats(cli_run *cli, const char *path, kf_stats **out);
kf_stats_options stats_options_of(const cli_args *args);
/* Says how many training rows were left out, if any. */
void say_rows_left_out(cli_run *cli, uint64_t rows, uint64_t unlabelled, uint64_t bad);

kf_synth_options world_of(const cli_args *args); /* world_options */

/* --- standard input ('-'), pipes and FIFOs where files are read (streams.c) ------------------- */

/* Copies every stream that the command line names, and makes it name the copies. */
int take_streams(cli_run *cli);
int is_stream(const cli_run *cli, const char *path); /* whether a path is such a copy */
/* For people: "standard input" or the path as given; other paths are returned as they are. */
const char *stream_name(const cli_run *cli, const char *path);
/* Replaces the paths of copies in text by the names of their streams. */
void name_streams(const cli_run *cli, const char *text, char *out, size_t size);
/* Opens an unnamed temporary file, in the folder of a path or where streams are copied. -1: see
 * errno. */
int open_temporary(const char *path);

/* --- encoders, pictures and queries (encoders.c) ---------------------------------------------- */

/* The towers that a command needs; TOWER_BOTH: the text tower if there is one. */
typedef enum tower_use { TOWER_IMAGES, TOWER_TEXT, TOWER_BOTH } tower_use;
int load_encoder(cli_run *cli, const char *folder, tower_use use, kf_encoder **out);

/* The id of a row, until the next call; NULL: the data, which may be NULL, have none. */
int read_id(cli_run *cli, const kf_data *data, uint64_t row, const char **id);

int open_pictures(cli_run *cli, size_t first,
                  kf_pictures **out); /* operands `first` and up, or --list */
/* open_data or, with --encoder, pictures as a data set in memory, once the model (NULL: the
 * gallery) is known to take them. */
int open_samples(cli_run *cli, size_t first, label_use use, const kf_model *model,
                 const kf_gallery *gallery, kf_data **out);
kf_embed_options embed_options_of(const cli_args *args);
/* Says how many pictures were done by an earlier run, and how many were left out. */
void say_pictures(cli_run *cli, const kf_embed_report *report, const char *path);
/* After a run that was stopped: says if finished shards of the data set at `path` are kept. */
void say_kept(cli_run *cli, const char *path);

/* Queries: a data set, or an encoder and pictures or texts. */
typedef struct cli_queries {
  kf_data *data; /* NULL: there is an encoder */
  kf_pictures *pictures;
  const char *const *texts; /* [n] */
  kf_encoder *encoder;
  uint64_t n; /* bad ones included */
  uint32_t dim;
  kf_reader *reader; /* from queries_start on */
  int labelled;      /* set before queries_open: labels of a data set are wanted */
} cli_queries;
/* Operands `first` and up: data or, with --encoder, pictures. */
int queries_open(cli_run *cli, size_t first, cli_queries *out);
/* Makes the reader of blocks of at most *room queries; *room becomes the size of its blocks. */
int queries_start(cli_run *cli, cli_queries *queries, uint64_t *room);

/* --- galleries and votes (galleries.c) -------------------------------------------------------- */

/* queries: about how many there will be; 0: unknown. */
int load_gallery(cli_run *cli, const char *path, uint64_t queries, kf_gallery **out);
/* Refuses queries that the gallery or, without one, the model cannot take: of another dimension, of
 * another encoder, or mapped already. */
int check_queries(cli_run *cli, const cli_queries *queries, const kf_model *model,
                  const kf_gallery *gallery);

/* If the first operand is a gallery, takes it as --gallery, to vote without a model, and refuses
 * options that need one. */
int take_voters(cli_run *cli);
/* Refuses options on votes that do not go together. */
int check_vote_options(cli_run *cli);
double vote_temperature(const cli_args *args); /* --temperature, or the default */
/* --temperature of probabilities; 0: the model's. */
double softmax_temperature(const cli_args *args);
/* --gallery, with labels, in the original space or in that of the model, which may be NULL. */
int load_voters(cli_run *cli, const kf_model *model, kf_gallery **out);

/* -k, or up to 15; `most` rows of the gallery at `path` are searched. */
int choose_k(cli_run *cli, const char *path, uint64_t most, uint32_t *k);
/* -k auto: as kept in the gallery or chosen by leaving out its rows in turn; says which. */
int choose_k_auto(cli_run *cli, const kf_gallery *gallery, uint32_t *k);
/* Says which k was chosen and how good it is. */
void say_k(cli_run *cli, const kf_k_choice *choice);
int check_k(cli_run *cli, const char *path, uint64_t most, uint32_t k);

/* --- text prototypes (texts.c) ---------------------------------------------------------------- */

/* Refuses options on text without --text. */
int check_text_options(cli_run *cli);
int load_text(cli_run *cli, kf_text **out); /* --text */
/* --names, for n classes with these labels; *out stays if it is not given. */
int load_class_names(cli_run *cli, const char *(*label_of)(const void *of, uint32_t k),
                     const void *of, uint32_t n, const kf_class_names **out);

/* Text in place of class means: as given, for the original space, and centred by --text-centre,
 * for the model's. */
typedef struct cli_zero_shot {
  kf_text *text;
  kf_model *raw, *mapped;
} cli_zero_shot;
/* Loads --text and makes the model for one space or, without --raw, for both. */
int load_zero_shot(cli_run *cli, const kf_model *model, int both, cli_zero_shot *out);
const char *text_centre_name(const cli_args *args); /* never NULL */

/* Writes text prototypes to -o and says that they are from n embeddings, called `one` or `many`. */
int save_text(cli_run *cli, const kf_text *text, uint64_t n, const char *one, const char *many);

#endif
