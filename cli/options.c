/* options.c - the options that several commands share. */
#include "options.h"

const char *const dtype_choices[] = {"f32", "f16", "bf16", NULL};   /* in the order of kf_dtype */
const char *const metric_choices[] = {"cosine", "euclidean", NULL}; /* kf_metric, from 1 */
const char *const all_metrics[] = {"cosine", "euclidean", "inner", NULL};
const char *const part_choices[] = {"images", "text", "fused", NULL}; /* kf_part, from 1 */
const char *const centre_choices[] = {"none", "mean", NULL};
const char *const method_choices[] = {"shrunk", "paper", NULL};           /* kf_method, from 1 */
const char *const criterion_choices[] = {"likelihood", "accuracy", NULL}; /* kf_criterion, from 1 */
const char *const priors_choices[] = {"equal", "training", NULL};         /* kf_priors, from 1 */
const char *const text_centre_choices[] = {"none", "mean", "modality", NULL};
const char *const isa_choices[] = {"auto", "plain", "avx2", "avx512", "amx", NULL};
static const char *const order_choices[] = {"number", "name", "given", NULL}; /* kf_order, from 1 */
static const char *const precision_choices[] = {"f32", "bf16", NULL}; /* kf_precision, from 1 */

const cli_group global_options = {
    "On every command",
    OPTIONS({NUMBER("threads", common.threads, "N", 1, MAX_THREADS),
             .help = "use N threads (default: one per processor)"},
            {CHOICE("isa", common.isa, "NAME", KF_ISA_AUTO, isa_choices),
             .help = "use this instruction set: auto, plain, avx2, avx512 or amx"},
            {TEXT("device", common.device, "NAME"),
             .help = "where to work: cpu, cuda, cuda:N or cuda:0,cuda:1 (default: auto, a GPU "
                     "where that is faster)"},
            {FLAG("quiet", common.quiet), .letter = 'q', .help = "print results and errors only"},
            {COUNTED("verbose", common.verbose), .letter = 'v',
             .help = "show threads, instruction set and timing; -vv times every stage"},
            {FLAG("help", common.help), .letter = 'h', .help = "print the options"},
            {FLAG("long-help", common.long_help), .letter = 'H',
             .help = "print the options, details and examples"})};

const cli_group label_options = {
    "Labels",
    OPTIONS(
        {INPUTS("labels", data.labels, "FILE"),
         .help =
             "labels: .npy or .npz of integers or strings, a .csv, .tsv or .parquet, or text with "
             "one label per line; repeat it, or give a folder, for one file for each data file"},
        {TEXT("label-column", data.label_column, "NAME"),
         .help =
             "the column of .csv and .tsv labels: its name, or its number from 1 (default: the "
             "only one); the labels among the rows of a .csv, .tsv or .parquet (default: labels "
             "or label)"},
        {INPUT("classes", data.classes, "FILE"),
         .help = "class names, one per line; integer labels index it, text labels must be in it"},
        {TEXT("label-tensor", data.label_tensor, "NAME"),
         .help = "the labels inside .safetensors and .npz (default: labels, or the only list that "
                 "fits)"})};

const cli_group row_options = {
    "Rows",
    OPTIONS(
        {TEXT("tensor", data.tensor, "NAME"),
         .help =
             "the rows inside .safetensors and .npz (default: embeddings, or the only 2-D array)"},
        {TEXT("column", data.tensor, "NAME"),
         .help = "the rows in .parquet: a list of floats (default: embedding, or the only one); in "
                 "it and .csv also a column for each dimension: NAME0, NAME1, ..."},
        {TEXT("id-column", data.id_column, "NAME"), .any = 1,
         .help = "the ids of rows in .parquet, .csv and .tsv (default: id, ids or key; '': none)"},
        {CHOICE("order", data.order, "NAME", KF_ORDER_NUMBER, order_choices),
         .help = "order of files: number (2 before 10), name or given (default: folders and "
                 "patterns by number)"},
        {FLAG("skip-bad", data.skip_bad),
         .help = "leave out rows that are NaN, infinite or zero instead of failing"},
        {FLAG("rank-files", data.rank_files),
         .help = "with koofu-mpi: paths with %r, the number of a rank, are each rank's own files"},
        {ANY_ENCODER})};

const cli_group strict_options = {
    "Rows to leave out",
    OPTIONS({FLAG("skip-unlabelled", data.allow_unlabelled),
             .help = "leave out rows with a negative or empty label instead of failing"},
            {FLAG("skip-unknown", data.allow_unknown),
             .help = "leave out rows whose label is not in --classes instead of failing"})};

const cli_group only_options = {
    "Rows to take", OPTIONS({INPUT("only", data.only, "FILE"),
                             .help = "take only rows of these classes, one name per line"})};

const cli_group stats_options = {
    "Statistics",
    OPTIONS({FLAG("no-normalize", stats.no_normalize), .help = "do not scale rows to unit length"},
            {NUMBER("exponent", stats.exponent, "E", -200, 200),
             .help = "with --no-normalize: the unit is 2^-E (default: the finest that fits)"},
            {TEXT("checkpoint", stats.checkpoint, "DIR"),
             .help = "keep statistics in this folder, and continue from those of an earlier run"})};

const cli_group choose_options = {
    "Choosing",
    OPTIONS(
        {CRITERION}, {ROW_GROUPS}, {ONE_SE},
        {SAMPLE, .help = "choose with at most N rows, the same share of each class (default: as "
                         "many as needed, up to 2000 for the likelihood and 50000 for accuracy)"},
        {FOLDS,
         .help =
             "folds that choose dimensions (default: 10, or as many as most classes have rows)"},
        {MARGIN})};

const cli_group vote_options = {
    "Neighbours", OPTIONS({INPUT("gallery", votes.gallery, "GALLERY"),
                           .help = "let the nearest rows of this gallery vote (see 'koofu index')"},
                          {FLAG("weighted", votes.weighted),
                           .help = "nearer neighbours count more: exp((score - best score) / T)"},
                          {REAL("temperature", votes.temperature, "T"),
                           .help = "with --weighted: smaller is steeper (default: 0.07); of "
                                   "probabilities: larger is steeper (default: the model's)"})};

const cli_group text_options = {
    "Text", OPTIONS({TEXT_INPUT,
                     .help = "zero-shot: classify by text prototypes, or any data set with labels"},
                    {TEXT_CENTRE(text_centre_choices),
                     .help = "subtract before mapping: none, mean (that of the images) or modality "
                             "(each its own; default)"},
                    {TEXT_AS_IS})};

#define PRECISION                                                                                  \
  CHOICE("precision", encoder.precision, "NAME", KF_PRECISION_F32, precision_choices),             \
      .help = "arithmetic of the encoder: bf16 (default), or f32, the reference"
#define USUAL_PIXELS "178956970"
#define MAX_PIXELS(otherwise)                                                                      \
  NUMBER("max-pixels", encoder.max_pixels, "N", 1, INT64_MAX),                                     \
      .help = "refuse pictures with more pixels (default: " otherwise ")"

const cli_group tower_options = {"Encoder", OPTIONS({PRECISION})};

#define ENCODER(pixels)                                                                            \
  OPTIONS({TEXT("encoder", encoder.folder, "CLIP-DIR"),                                            \
           .help = "embed pictures, and in 'koofu search' words, with this CLIP model (see "       \
                   "'koofu embed')"},                                                              \
          {PRECISION}, {MAX_PIXELS(pixels)})
const cli_group encoder_options = {"Pictures", ENCODER(USUAL_PIXELS)};
const cli_group served_options = {"Pictures",
                                  ENCODER("64000000 from clients, " USUAL_PIXELS " in --images")};

const cli_group picture_labels = {
    "Labels",
    OPTIONS({INPUTS("labels", data.labels, "FILE"),
             .help = "a .csv or .tsv with the name and the class of each picture, instead of class "
                     "folders"},
            {TEXT("label-column", data.label_column, "NAME"),
             .help = "its column of classes: a name, or a number from 1 (default: label, class or "
                     "the like)"},
            {TEXT("id-column", data.id_column, "NAME"),
             .help = "its column of picture names (default: filename, path, image, id or the "
                     "like)"})};

const cli_group picture_options = {
    "Pictures",
    OPTIONS(
        {FLAG("skip-bad", data.skip_bad),
         .help = "leave out pictures that cannot be read, naming each, instead of failing"},
        {MAX_PIXELS(USUAL_PIXELS)},
        {TEXT("label-key", pictures.label_key, "KEY"),
         .help =
             "the class of a picture in a .tar: KEY in the .json beside it (default: the .cls)"},
        {NUMBER("shard", pictures.shard, "N", 1, 1 << 24),
         .help = "pictures that are finished together (default: 256)"},
        {FLAG("no-resume", pictures.no_resume),
         .help = "ignore what an earlier run has finished"})};

#define TRUTH_CLASSES                                                                              \
  INPUT("truth-classes", judge.truth_classes, "FILE"),                                             \
      .help = "class names, one per line, for class numbers in --truth"
#define ROW_IDS                                                                                    \
  INPUT("ids", judge.ids, "FILE"),                                                                 \
      .help = "the id of each row, one per line, to find its entry in --truth"

const cli_group truth_options = {
    "Ground truth",
    OPTIONS({INPUT("truth", judge.truth, "FILE"),
             .help = "the right classes of each test row instead of its label (see 'koofu eval')"},
            {TRUTH_CLASSES}, {ROW_IDS})};

const cli_group judge_options = {
    "Ground truth",
    OPTIONS({INPUT("truth", judge.truth, "FILE"),
             .help = "the right classes of each row, instead of labels: ReaL's .json, a .csv with "
                     "labels and ids, or text with classes separated by commas, one line per row"},
            {TRUTH_CLASSES}, {ROW_IDS},
            {INPUT("class-set", judge.class_set, "FILE"),
             .help = "class names, one per line: only these classes take part"})};

const cli_group world_options = {
    "The world",
    OPTIONS({NUMBER("classes", world.classes, "K", 1, KF_MAX_CLASSES), .help = "number of classes"},
            {NUMBER("dim", world.dim, "D", 8, KF_MAX_DIM), .help = "dimensions of a row"},
            {NUMBER("per-class", world.per_class, "M", 1, INT64_MAX),
             .help = "training rows of each class"},
            {NUMBER("seed", world.seed, "S", 0, INT64_MAX), .help = "which world (default: 0)"})};
