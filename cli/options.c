/* options.c - the options that several commands share. */
#include "args.h"
#include "koofu.h"

const char *const dtype_choices[] = {"f32", "f16", "bf16", NULL};   /* in the order of kf_dtype */
const char *const metric_choices[] = {"cosine", "euclidean", NULL}; /* kf_metric, from 1 */
const char *const gallery_metric_choices[] = {"cosine", "euclidean", "inner", NULL};
static const char *const isa_choices[] = {"auto", "plain", "avx2", "avx512", "amx", NULL};

const cli_group global_options = {
    "On every command",
    (const cli_option[]){
        {"threads", 0, OPTION_NUMBER, offsetof(cli_args, threads), 0, "N",
         "use N threads (default: one per processor)", 1, 1024, NULL},
        {"isa", 0, OPTION_CHOICE, offsetof(cli_args, isa), 0, "NAME",
         "use this instruction set: auto, plain, avx2, avx512 or amx", KF_ISA_AUTO, 0, isa_choices},
        {"quiet", 'q', OPTION_FLAG, offsetof(cli_args, quiet), 0, NULL,
         "print results and errors only", 0, 0, NULL},
        {"verbose", 'v', OPTION_COUNT, offsetof(cli_args, verbose), 0, NULL,
         "say what is used and how long it took; twice: for every stage", 0, 0, NULL},
        {"help", 'h', OPTION_FLAG, offsetof(cli_args, help), 0, NULL, "print the options", 0, 0,
         NULL},
        {"long-help", 'H', OPTION_FLAG, offsetof(cli_args, long_help), 0, NULL,
         "print the options, details and examples", 0, 0, NULL},
        {0}}};

const cli_group label_options = {
    "Labels",
    (const cli_option[]){
        {"labels", 0, OPTION_LIST, offsetof(cli_args, labels), 0, "FILE",
         "labels: .npy integers, or text with one label a line; repeat it to give one "
         "file for each "
         "data file",
         0, 0, NULL},
        {"classes", 0, OPTION_TEXT, offsetof(cli_args, classes), 0, "FILE",
         "class names, one a line; integer labels index it, text labels must be in it", 0, 0, NULL},
        {"label-tensor", 0, OPTION_TEXT, offsetof(cli_args, label_tensor), 0, "NAME",
         "the labels inside .safetensors (default: labels)", 0, 0, NULL},
        {0}}};

const cli_group row_options = {
    "Rows",
    (const cli_option[]){
        {"tensor", 0, OPTION_TEXT, offsetof(cli_args, tensor), 0, "NAME",
         "the rows inside .safetensors (default: embeddings, or the only 2-D tensor)", 0, 0, NULL},
        {"skip-bad", 0, OPTION_FLAG, offsetof(cli_args, skip_bad), 0, NULL,
         "leave out rows that are NaN, infinite or zero instead of failing", 0, 0, NULL},
        {0}}};

const cli_group strict_options = {
    "Rows to leave out",
    (const cli_option[]){
        {"skip-unlabelled", 0, OPTION_FLAG, offsetof(cli_args, allow_unlabelled), 0, NULL,
         "leave out rows with a negative or empty label instead of failing", 0, 0, NULL},
        {"skip-unknown", 0, OPTION_FLAG, offsetof(cli_args, allow_unknown), 0, NULL,
         "leave out rows whose label is not in --classes instead of failing", 0, 0, NULL},
        {0}}};

const cli_group only_options = {
    "Rows to take",
    (const cli_option[]){{"only", 0, OPTION_TEXT, offsetof(cli_args, only), 0, "FILE",
                          "take rows of these classes alone, one name a line (default: all)", 0, 0,
                          NULL},
                         {0}}};

const cli_group vote_options = {
    "Neighbours", (const cli_option[]){
                      {"gallery", 0, OPTION_TEXT, offsetof(cli_args, gallery), 0, "GALLERY",
                       "let the nearest rows of this gallery vote (see 'koofu index')", 0, 0, NULL},
                      {"weighted", 0, OPTION_FLAG, offsetof(cli_args, weighted), 0, NULL,
                       "nearer neighbours count more: exp((score - best score) / T)", 0, 0, NULL},
                      {"temperature", 0, OPTION_REAL, offsetof(cli_args, temperature), 0, "T",
                       "with --weighted: smaller is steeper (default: 0.07)", 0, 0, NULL},
                      {0}}};

const char *const centre_choices[] = {"none", "mean", NULL}; /* in the order of kf_centre */
const char *const part_choices[] = {"images", "text", "fused", NULL};
const char *const text_centre_choices[] = {"none", "mean", "modality", NULL};

const cli_group text_options = {
    "Text",
    (const cli_option[]){
        {"text", 0, OPTION_TEXT, offsetof(cli_args, text), 0, "TEXT",
         "zero-shot: classify by text prototypes (see 'koofu text-prototypes'); any data set with "
         "labels will do",
         0, 0, NULL},
        {"text-centre", 0, OPTION_CHOICE, offsetof(cli_args, text_centre), 0, "WHAT",
         "subtract before mapping: none, mean (that of the images, from both) or modality (from "
         "each its own; default)",
         KF_CENTRE_NONE, 0, text_centre_choices},
        {"text-as-is", 0, OPTION_FLAG, offsetof(cli_args, text_as_is), 0, NULL,
         "take text with the lengths it has instead of scaling it to unit length", 0, 0, NULL},
        {0}}};

static const char *const precision_choices[] = {"f32", "bf16", NULL}; /* kf_precision, from 1 */

const cli_group tower_options = {
    "Encoder", (const cli_option[]){
                   {"precision", 0, OPTION_CHOICE, offsetof(cli_args, precision), 0, "NAME",
                    "how the towers calculate: bf16 (default), or f32, which is the reference",
                    KF_PRECISION_F32, 0, precision_choices},
                   {0}}};

const cli_group encoder_options = {
    "Pictures",
    (const cli_option[]){
        {"encoder", 0, OPTION_TEXT, offsetof(cli_args, encoder), 0, "MODEL-DIR",
         "take pictures instead of rows, and this CLIP model (see 'koofu embed')", 0, 0, NULL},
        {"precision", 0, OPTION_CHOICE, offsetof(cli_args, precision), 0, "NAME",
         "how its tower calculates: bf16 (default), or f32, which is the reference",
         KF_PRECISION_F32, 0, precision_choices},
        {"max-pixels", 0, OPTION_NUMBER, offsetof(cli_args, max_pixels), 0, "N",
         "refuse pictures of more pixels (default: 178956970)", 1, INT64_MAX, NULL},
        {0}}};

const cli_group picture_options = {
    "Pictures",
    (const cli_option[]){
        {"skip-bad", 0, OPTION_FLAG, offsetof(cli_args, skip_bad), 0, NULL,
         "leave out pictures that cannot be read, naming each, instead of failing", 0, 0, NULL},
        {"max-pixels", 0, OPTION_NUMBER, offsetof(cli_args, max_pixels), 0, "N",
         "refuse pictures of more pixels (default: 178956970)", 1, INT64_MAX, NULL},
        {"shard", 0, OPTION_NUMBER, offsetof(cli_args, shard), 0, "N",
         "pictures that are finished together (default: 256)", 1, 1 << 24, NULL},
        {"no-resume", 0, OPTION_FLAG, offsetof(cli_args, no_resume), 0, NULL,
         "begin anew where an unfinished run has left shards", 0, 0, NULL},
        {0}}};

const cli_group truth_options = {
    "What is right",
    (const cli_option[]){
        {"truth", 0, OPTION_TEXT, offsetof(cli_args, truth), 0, "FILE",
         "what is right for each test row instead of its label (see 'koofu eval')", 0, 0, NULL},
        {"truth-classes", 0, OPTION_TEXT, offsetof(cli_args, truth_classes), 0, "FILE",
         "class names that numbers in --truth stand for, one a line", 0, 0, NULL},
        {"ids", 0, OPTION_TEXT, offsetof(cli_args, ids), 0, "FILE",
         "a name for each test row, one a line, to find it in --truth", 0, 0, NULL},
        {0}}};

const cli_group judge_options = {
    "What is right",
    (const cli_option[]){
        {"truth", 0, OPTION_TEXT, offsetof(cli_args, truth), 0, "FILE",
         "the right classes of each row, instead of labels: ReaL's .json, a .csv with labels and "
         "ids, or text with classes separated by commas, one line a row",
         0, 0, NULL},
        {"truth-classes", 0, OPTION_TEXT, offsetof(cli_args, truth_classes), 0, "FILE",
         "class names, one a line, that the class numbers in --truth stand for", 0, 0, NULL},
        {"ids", 0, OPTION_TEXT, offsetof(cli_args, ids), 0, "FILE",
         "the id of each row, one a line, by which --truth finds its entry", 0, 0, NULL},
        {"class-set", 0, OPTION_TEXT, offsetof(cli_args, class_set), 0, "FILE",
         "class names, one a line: only these classes take part", 0, 0, NULL},
        {0}}};

const cli_group stats_options = {
    "Statistics",
    (const cli_option[]){
        {"no-normalize", 0, OPTION_FLAG, offsetof(cli_args, no_normalize), 0, NULL,
         "take rows as they are instead of scaling them to unit length", 0, 0, NULL},
        {"exponent", 0, OPTION_NUMBER, offsetof(cli_args, exponent), 0, "E",
         "with --no-normalize: the unit is 2^-E (default: the finest that fits the data)", -200,
         200, NULL},
        {0}}};

const cli_group choose_options = {
    "Choosing",
    (const cli_option[]){
        {"one-se", 0, OPTION_FLAG, offsetof(cli_args, one_se), 0, NULL,
         "the largest lambda within one standard error of the best one", 0, 0, NULL},
        {"sample", 0, OPTION_NUMBER, offsetof(cli_args, sample), 0, "N",
         "try things on at most N rows, the same share of each class (default: 50000)", 1,
         INT64_MAX, NULL},
        {"folds", 0, OPTION_NUMBER, offsetof(cli_args, folds), 0, "F",
         "folds of the cross-validation that chooses dimensions (default: 5)", 2, 100, NULL},
        {"tolerance", 0, OPTION_REAL, offsetof(cli_args, tolerance), 0, "POINTS",
         "percentage points of accuracy that fewer dimensions may cost (default: one standard "
         "error)",
         0, 0, NULL},
        {0}}};

const cli_group world_options = {
    "The world",
    (const cli_option[]){{"classes", 0, OPTION_NUMBER, offsetof(cli_args, world_classes), 0, "K",
                          "number of classes", 1, KF_MAX_CLASSES, NULL},
                         {"dim", 0, OPTION_NUMBER, offsetof(cli_args, world_dim), 0, "D",
                          "columns of a row", 8, KF_MAX_DIM, NULL},
                         {"per-class", 0, OPTION_NUMBER, offsetof(cli_args, per_class), 0, "M",
                          "training rows of each class", 1, INT64_MAX, NULL},
                         {"seed", 0, OPTION_NUMBER, offsetof(cli_args, seed), 0, "S",
                          "which world (default: 0)", 0, INT64_MAX, NULL},
                         {0}}};
