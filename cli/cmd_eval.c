/* cmd_eval.c - koofu eval: how often the nearest prototype, the nearest text and the votes of
 * neighbours are right. */
#include "commands.h"
#include "eval.h"

static int wants_errors(const cli_args *a) {
  return a->errors.shown || a->errors.per_class || a->errors.confusions || a->errors.wrong;
}

static kf_analysis_options analysis_options(const eval_job *job) {
  const cli_args *a = &job->cli->args;
  return (kf_analysis_options){.metric = (kf_metric)a->metric,
                               .raw = a->use.raw,
                               .truth = job->truth,
                               .set = job->set,
                               .temperature = softmax_temperature(a),
                               .mistakes = a->errors.wrong != NULL};
}

/* This pass also counts the hits in its space. */
static int analyse(eval_job *job) {
  kf_analysis_options options = analysis_options(job);
  TRY(own_analysis(
      job->cli,
      kf_analysis_new(job->cli->ctx, eval_judged(job), job->data, &options, &job->analysis),
      &job->analysis));
  if (!job->zero.text) job->calibration = job->analysis->calibration;
  return EXIT_OK;
}

/* Whether there is a temperature for the scores that are computed. */
static int has_temperature(const eval_job *job) {
  const cli_args *a = &job->cli->args;
  if (!eval_has_prototypes(job)) return 0;
  if (softmax_temperature(a) > 0) return 1;
  return kf_model_temperature(job->model) > 0 && !a->use.raw &&
         metric_for(a, job->model) == metric_for(&(cli_args){0}, job->model);
}

static int calibrate(eval_job *job) {
  kf_analysis_options options = analysis_options(job);
  kf_calibration *calibration;
  TRY(own_calibration(
      job->cli, kf_calibration_new(job->cli->ctx, job->model, job->data, &options, &calibration),
      &calibration));
  job->calibration = calibration;
  return EXIT_OK;
}

/* Counts and hits of the model if an earlier pass has them, otherwise NULL. */
static const kf_eval_result *counted_already(const eval_job *job) {
  return job->analysis && !job->zero.text ? &job->analysis->totals
         : job->calibration               ? &job->calibration->totals
                                          : NULL;
}

static int evaluate_prototypes(eval_job *job) {
  const cli_args *a = &job->cli->args;
  kf_eval_result *r = &job->prototypes;
  int fused = kf_model_fused(job->model) && !a->use.raw;
  const kf_eval_result *counted = fused ? NULL : counted_already(job);
  if (a->use.raw && counted) {
    *r = *counted;
    r->raw_top1 = r->top1;
    r->raw_top5 = r->top5;
    return EXIT_OK;
  }
  kf_eval_options options = {.metric = (kf_metric)a->metric,
                             .part = KF_PART_IMAGES,
                             .include_mapped = a->use.raw || counted ? KF_OFF : KF_ON,
                             .truth = job->truth,
                             .set = job->set};
  kf_status status = kf_eval(job->cli->ctx, job->model, job->data, &options, r);
  if (status == KF_OK && counted) {
    r->top1 = counted->top1;
    r->top5 = counted->top5;
  }
  return result_of(job->cli, status);
}

/* For a model with text: the text alone, and text and prototypes together. */
static int evaluate_parts(eval_job *job) {
  kf_eval_options options = {
      .include_raw = KF_OFF, .part = KF_PART_TEXT, .truth = job->truth, .set = job->set};
  const kf_eval_result *counted = counted_already(job);
  kf_status status = kf_eval(job->cli->ctx, job->model, job->data, &options, &job->own_text);
  options.part = KF_PART_FUSED;
  if (counted) job->fused = *counted;
  if (status == KF_OK && !counted)
    status = kf_eval(job->cli->ctx, job->model, job->data, &options, &job->fused);
  return result_of(job->cli, status);
}

/* --text: as given in the original space, and centred in the model's. */
static int evaluate_text(eval_job *job) {
  const cli_args *a = &job->cli->args;
  kf_ctx *ctx = job->cli->ctx;
  kf_eval_options options = {.metric = (kf_metric)a->metric,
                             .include_mapped = KF_OFF,
                             .truth = job->truth,
                             .set = job->set};
  kf_eval_result mapped = {0};
  kf_status status = kf_eval(ctx, job->zero.raw, job->data, &options, &job->text);
  options.include_mapped = KF_ON;
  options.include_raw = KF_OFF;
  if (status == KF_OK && !a->use.raw)
    status = kf_eval(ctx, job->zero.mapped, job->data, &options, &mapped);
  if (status != KF_OK) return fail_in(job->cli, status, a->text.path);
  job->text.top1 = mapped.top1;
  job->text.top5 = mapped.top5;
  return EXIT_OK;
}

static int evaluate_open_set(eval_job *job) {
  kf_analysis_options options = analysis_options(job);
  return result_of(job->cli, kf_open_set(job->cli->ctx, eval_judged(job), job->data, job->unknown,
                                         &options, &job->open_set));
}

/* -k, or as many of 1, 5 and 15 as there are rows for. */
static int choose_list(eval_job *job, kf_gallery_eval_options *out) {
  static const uint32_t usual[] = {1, 5, 15};
  const cli_numbers *given = &job->cli->args.search.ks;
  if (given->automatic) {
    out->k = &job->own_k;
    out->n_k = 1;
    return choose_k_auto(job->cli, job->gallery, &job->own_k);
  }
  uint64_t most = kf_gallery_rows(job->gallery) - (job->data == NULL);
  out->k = given->n ? given->items : usual;
  out->n_k = given->n ? given->n : COUNT_OF(usual);
  while (!given->n && out->n_k > 1 && out->k[out->n_k - 1] > most) out->n_k--;
  return check_k(job->cli, job->cli->args.votes.gallery, most, out->k[out->n_k - 1]);
}

static int evaluate_neighbours(eval_job *job) {
  const cli_args *a = &job->cli->args;
  kf_gallery_eval_options options = {.weighted = a->votes.weighted,
                                     .temperature = vote_temperature(a),
                                     .truth = job->truth,
                                     .set = job->set};
  TRY(choose_list(job, &options));
  job->n_k = options.n_k;
  job->hits = own_memory(job->cli, job->n_k, sizeof *job->hits);
  if (!job->hits) return fail(job->cli, KF_ERR_MEM);
  return result_of(job->cli, kf_gallery_eval(job->cli->ctx, job->gallery, job->data, &options,
                                             &job->neighbours, job->hits, &job->report));
}

static int evaluate(eval_job *job) {
  const cli_args *a = &job->cli->args;
  if (wants_errors(a)) TRY(analyse(job));
  if (a->errors.no_calibration)
    job->calibration = NULL;
  else if (!job->calibration && has_temperature(job))
    TRY(calibrate(job));
  if (eval_has_prototypes(job)) TRY(evaluate_prototypes(job));
  if (eval_has_parts(job)) TRY(evaluate_parts(job));
  if (job->zero.text) TRY(evaluate_text(job));
  if (job->unknown) TRY(evaluate_open_set(job));
  if (job->gallery) TRY(evaluate_neighbours(job));
  if (job->analysis) TRY(write_tables(job->cli, eval_judged(job), job->data, job->analysis));
  return EXIT_OK;
}

int check_tables(cli_run *cli) {
  const struct error_args *e = &cli->args.errors;
  const char *const tables[] = {e->per_class, e->confusions, e->wrong};
  for (size_t i = 0; i < COUNT_OF(tables); i++) {
    if (tables[i] && is_stdout(tables[i]))
      return fail_usage(cli, "--per-class, --confusions and --wrong need a file name, not '-'");
    unsigned json = tables[i] == e->wrong ? FORMAT(SINK_JSON) | FORMAT(SINK_LINES) : 0;
    if (tables[i]) TRY(check_format(cli, tables[i], "the table", TEXT_FORMATS | json));
    for (size_t other = 0; other < i; other++)
      TRY(check_outputs_differ(cli, tables[i], tables[other]));
  }
  return EXIT_OK;
}

static int check_without_data(cli_run *cli) {
  const cli_args *a = &cli->args;
  if (!a->votes.gallery)
    return fail_usage(cli, "missing argument: DATA (or --gallery, to leave out its rows in turn)");
  return need(cli, DATA_OPTIONS " errors per-class confusions wrong unknown text raw", "data");
}

static int check_options(cli_run *cli) {
  const cli_args *a = &cli->args;
  if (a->operands.n < 2) TRY(check_without_data(cli));
  if (a->votes.gallery) TRY(refuse(cli, "metric", "--gallery, which has its own metric"));
  TRY(check_text_options(cli));
  TRY(check_tables(cli));
  return check_vote_options(cli);
}

static int load_eval_gallery(eval_job *job) {
  cli_run *cli = job->cli;
  TRY(load_voters(cli, job->model, &job->gallery));
  if (!cli->args.use.raw || !kf_gallery_mapped(job->gallery)) return EXIT_OK;
  return fail_usage(cli, "--raw cannot be used with %s, whose rows are mapped",
                    cli->args.votes.gallery);
}

static int check_replaces_nothing(cli_run *cli, const kf_data *data) {
  TRY(check_replaces_no_data(cli, data, cli->args.errors.per_class));
  TRY(check_replaces_no_data(cli, data, cli->args.errors.wrong));
  return check_replaces_no_data(cli, data, cli->args.errors.confusions);
}

static int open_unknown(eval_job *job) {
  const cli_args *a = &job->cli->args;
  kf_data_options options = {.tensor = a->data.tensor,
                             .inner_labels = KF_OFF,
                             .skip_bad = a->data.skip_bad,
                             .order = (kf_order)a->data.order};
  const cli_list *paths = &a->errors.unknown;
  kf_status status = kf_data_open(job->cli->ctx, paths->items, paths->n, &options, &job->unknown);
  TRY(own_data(job->cli, status, &job->unknown));
  return check_replaces_nothing(job->cli, job->unknown);
}

static int open_inputs(eval_job *job) {
  cli_run *cli = job->cli;
  const cli_args *a = &cli->args;
  TRY(load_judging(cli, &job->truth, &job->set));
  if (a->votes.gallery != a->operands.items[0])
    TRY(load_model(cli, a->operands.items[0], &job->model));
  if (a->text.path) TRY(load_zero_shot(cli, job->model, 1, &job->zero));
  if (a->votes.gallery) TRY(load_eval_gallery(job));
  if (a->operands.n > 1)
    TRY(open_samples(cli, 1, LABELS_WANTED, job->model, job->gallery, &job->data));
  if (job->data) TRY(check_replaces_nothing(cli, job->data));
  if (a->errors.unknown.n) TRY(open_unknown(job));
  return EXIT_OK;
}

static int run_eval(cli_run *cli) {
  eval_job job = {.cli = cli};
  TRY(take_voters(cli));
  TRY(check_options(cli));
  TRY(open_inputs(&job));
  TRY(evaluate(&job));
  progress_clear(&cli->progress);
  (cli->args.json ? eval_print_json : eval_print_text)(&job);
  return EXIT_OK;
}

static const cli_group own_options = {
    "Options",
    OPTIONS({METRIC(metric_choices),
             .help = "cosine or euclidean (default: cosine; euclidean for a model fitted without "
                     "normalising); text is always compared by cosine"},
            {FLAG("raw", use.raw), .help = "evaluate only the original space"},
            {NEIGHBOUR_LIST, .automatic = 1,
             .help =
                 "with a gallery: numbers of neighbours, 1 to 1024, separated by commas, or auto, "
                 "from the gallery or by leaving out its rows in turn (default: 1,5,15)"},
            {FLAG("no-calibration", errors.no_calibration),
             .help = "do not judge probabilities, which takes all scores of each row"},
            {SHARES_JSON})};

static const cli_group error_options = {
    "Errors",
    OPTIONS(
        {FLAG("errors", errors.shown),
         .help =
             "also print the worst classes, the most frequent confusions and accuracy by margin"},
        {TEXT("per-class", errors.per_class, "FILE"),
         .help =
             "write rows, hits and answers of every class, separated by tabs, or commas for .csv"},
        {TEXT("confusions", errors.confusions, "FILE"),
         .help = "write how often each class was taken for another, in the same way"},
        {TEXT("wrong", errors.wrong, "FILE"),
         .help = "write the rows with wrong answers, to .tsv, .csv, .json or .jsonl"},
        {INPUTS("unknown", errors.unknown, "DATA"),
         .help = "rows of unknown classes: how well the nearest score tells them from DATA"})};

const cli_command eval_command = {
    .name = "eval",
    .operands = "MODEL|GALLERY [DATA...|PICTURES...]",
    .summary = "measure top-1 and top-5 accuracy",
    .details =
        "A row is a top-1 hit if the nearest prototype is that of its class, and a top-5 hit if "
        "one of the five nearest is, both in the original space (raw: the class means as they are) "
        "and in the model's. The interval is the 95 % Wilson interval of the share of hits among "
        "the rows that were scored.\n\n"
        "Classes are matched by name if data and model have names, by number if neither has. Rows "
        "without a label, rows of classes that the model does not have and rows whose label is not "
        "in --classes are left out and counted.\n\n"
        "With --encoder, the rows are pictures, embedded by the CLIP model that the training rows "
        "were made with. Their classes are the names of their folders or, with --labels, in a .csv "
        "or .tsv (see 'koofu embed'; --id-column is its column of file names).\n\n"
        "With --gallery, the table has another line for each K: how often the vote of the K "
        "nearest rows of the gallery is right, and how often the right class is among the five "
        "with the most votes. The gallery must be in the original space or made with the same "
        "model. A gallery in place of the model gives the lines of neighbours alone.\n\n"
        "With a gallery but without DATA, each row of the gallery is classified by the others "
        "(leave one out). There is no line for prototypes then, since these rows may be in them. "
        "If the map of the gallery was fitted on these rows, the result is optimistic.\n\n"
        "With --truth, a row is a hit if one of its right classes is the answer, or among the "
        "five; rows for which the truth has no class are left out. A .json is a list of lists of "
        "class numbers, such as ReaL's; a .csv has a header with the columns id and "
        "proposed_labels, such as that of the cleaner validation set; in other text, a line has "
        "the classes of a row, separated by commas or tabs. With --ids, entries find their rows by "
        "id, without folder and file extension; entry i of a .json belongs to the id that ends in "
        "_val_ and the number i + 1. Without --ids, entries are in the order of the rows.\n\n"
        "With --text, the table has two more lines: how often the nearest text prototype is right, "
        "in the original space, with the text as given, and in the model's, where by default "
        "images and text are each centred on their own mean. Text classes that the model lacks "
        "take part in the lines of text, and rows without text for their class are left out there; "
        "--class-set gives all lines the same classes.\n\n"
        "A model with text (see 'koofu fit --text') has two more lines: its text alone, and fused, "
        "text and prototypes together, which is what 'koofu classify' answers. In --json, top1 and "
        "top5 are those of its answers; prototypes_top1 and model_text_top1 are of its parts.\n\n"
        "With --class-set, the prototypes of other classes do not take part, and rows of other "
        "classes are left out. A gallery stays whole.\n\n"
        "If the model has a temperature, or --temperature is given, the probabilities are judged "
        "as well: negative log-likelihood of the right classes, Brier score and expected "
        "calibration error, over 15 bins of equal width.\n\n"
        "--wrong writes a line for each row whose answer is wrong: its number, its id if it has "
        "one, the truth, the answer, its score, its margin and, with a temperature, the "
        "probabilities of answer and truth.\n\n"
        "--errors, --per-class, --confusions, --wrong and --unknown are about prototypes in the "
        "model's space or, with --raw, in the original one; with --text they are about the text. A "
        "margin is the difference between the two best scores. --unknown prints the area under the "
        "ROC curve, and how many unknown rows reach the score that 95 % of the known ones reach.",
    .groups = GROUPS(&own_options, &encoder_options, &text_options, &judge_options, &error_options,
                     &vote_options, &label_options, &row_options),
    .examples = EXAMPLES(
        {"How good is it?", "koofu eval model.safetensors test.safetensors"},
        {"Of pictures, one folder per class",
         "koofu eval model.safetensors photos --encoder clip --errors"},
        {"For a script", "koofu eval --json model.safetensors x.npy --labels y.npy | jq .top1"},
        {"Neighbours next to prototypes",
         "koofu eval model.safetensors test.safetensors --gallery gallery.safetensors -k 1,15"},
        {"Neighbours alone, without a model", "koofu eval gallery.safetensors test.safetensors"},
        {"Zero-shot next to it",
         "koofu eval model.safetensors test.safetensors --text text.safetensors"},
        {"By ReaL labels", "koofu eval model.safetensors val.npy --truth real.json --truth-classes "
                           "synsets.txt --ids val_files.txt"},
        {"Where does it go wrong?",
         "koofu eval model.safetensors test.safetensors --errors --wrong wrong.csv"}),
    .run = run_eval,
    .shared = 1,
};
