/* cmd_classes.c - koofu classes: how two sets of classes in a hierarchy are related, such as
 * ImageNet's 1K and 21K in WordNet. */
#include "commands.h"

/* The union of three groups in which no class includes another: the paper's 14K. */
#define EXCLUSIVE "exclusive"

typedef struct classes_job {
  cli_run *cli;
  kf_hierarchy *hierarchy;
  kf_class_set *set, *all;
  kf_class_set *groups[KF_GROUPS];
} classes_job;

/* In the order of the paper's table. */
static const kf_group order[KF_GROUPS] = {KF_GROUP_ONLY,      KF_GROUP_BOTH,        KF_GROUP_LEAVES,
                                          KF_GROUP_ANCESTORS, KF_GROUP_DESCENDANTS, KF_GROUP_OTHER};
static const char *const described[KF_GROUPS] = {
    [KF_GROUP_ONLY] = "in the set, not in all",
    [KF_GROUP_BOTH] = "in the set and in all",
    [KF_GROUP_LEAVES] = "leaves outside the set",
    [KF_GROUP_ANCESTORS] = "ancestors of the set, outside it",
    [KF_GROUP_DESCENDANTS] = "descendants of the set, outside it",
    [KF_GROUP_OTHER] = "other"};
enum { N_EXCLUSIVE = 3 }; /* the first three */

static uint64_t total(const classes_job *job, size_t groups) {
  uint64_t n = 0;
  for (size_t i = 0; i < groups; i++) n += kf_class_set_size(job->groups[order[i]]);
  return n;
}

/* "n02084071 dog, domestic dog", of the first class of a group. */
static void print_sample(const classes_job *job, const kf_class_set *group) {
  const char *class = kf_class_set_name(group, 0);
  if (!class) return;
  const char *name = kf_hierarchy_name(job->hierarchy, class);
  fputs("  ", stdout);
  print_escaped(stdout, class);
  if (name && *name) {
    putchar(' ');
    print_escaped(stdout, name);
  }
}

static void print_text(const classes_job *job) {
  printf("%-12s %-36s %8s%s\n", "group", "what", "classes", "  the first one");
  for (size_t i = 0; i < KF_GROUPS; i++) {
    const kf_class_set *group = job->groups[order[i]];
    printf("%-12s %-36s %8s", kf_group_name(order[i]), described[order[i]],
           show_count(kf_class_set_size(group)).text);
    print_sample(job, group);
    putchar('\n');
  }
  printf("%-12s %-36s %8s\n", EXCLUSIVE, "the first three",
         show_count(total(job, N_EXCLUSIVE)).text);
  printf("%-12s %-36s %8s\n", "total", "each class once", show_count(total(job, KF_GROUPS)).text);
}

static void print_json(const classes_job *job) {
  cli_json j = jw_begin(stdout);
  for (size_t i = 0; i < KF_GROUPS; i++)
    jw_count(&j, kf_group_name(order[i]), kf_class_set_size(job->groups[order[i]]));
  jw_count(&j, EXCLUSIVE, total(job, N_EXCLUSIVE));
  jw_count(&j, "total", total(job, KF_GROUPS));
  jw_count(&j, "hierarchy_classes", kf_hierarchy_classes(job->hierarchy));
  jw_count(&j, "hierarchy_edges", kf_hierarchy_edges(job->hierarchy));
  jw_end(&j);
}

enum { N_LISTS = KF_GROUPS + 1 };

static void write_group(FILE *file, const kf_class_set *group) {
  for (uint32_t i = 0; i < kf_class_set_size(group); i++)
    put_line(file, kf_class_set_name(group, i));
}

/* List i to PREFIX-NAME.txt: a group, or the exclusive ones. */
static int write_list(const classes_job *job, size_t i, sink **out) {
  cli_run *cli = job->cli;
  const char *path = own_format(cli, "%s-%s.txt", cli->args.output,
                                i < KF_GROUPS ? kf_group_name(order[i]) : EXCLUSIVE);
  if (!path) return fail(cli, KF_ERR_MEM);
  TRY(check_output(cli, path));
  TRY(sink_open(cli, path, SINK_TEXT, out));
  size_t end = i < KF_GROUPS ? i + 1 : N_EXCLUSIVE;
  for (size_t g = i < KF_GROUPS ? i : 0; g < end; g++)
    write_group((*out)->file, job->groups[order[g]]);
  return EXIT_OK;
}

static int write_lists(const classes_job *job) {
  sink *lists[N_LISTS];
  for (size_t i = 0; i < N_LISTS; i++) TRY(write_list(job, i, &lists[i]));
  return sinks_finish(job->cli, lists, N_LISTS);
}

/* If the set contains ancestors of its own classes, no union with it is exclusive. */
static int note_ancestors(const classes_job *job) {
  cli_run *cli = job->cli;
  kf_class_set *leaves;
  kf_status status =
      kf_class_set_new_kin(cli->ctx, job->hierarchy, job->set, KF_KIN_LEAVES, &leaves);
  TRY(own_class_set(cli, status, &leaves));
  uint32_t inner = kf_class_set_size(job->set) - kf_class_set_size(leaves);
  if (inner)
    say(cli, "%s contains %s of its own classes, which '%s' includes", cli->args.hierarchy.set,
        show_counted(inner, "ancestor", "ancestors").text, EXCLUSIVE);
  return EXIT_OK;
}

static int load(classes_job *job) {
  cli_run *cli = job->cli;
  kf_ctx *ctx = cli->ctx;
  const struct hierarchy_args *h = &cli->args.hierarchy;
  TRY(own_hierarchy(cli, kf_hierarchy_load(ctx, h->path, h->names, &job->hierarchy),
                    &job->hierarchy));
  TRY(own_class_set(cli, kf_class_set_load(ctx, h->set, &job->set), &job->set));
  TRY(own_class_set(cli, kf_class_set_load(ctx, h->all, &job->all), &job->all));
  TRY(result_of(cli, kf_class_groups_new(ctx, job->hierarchy, job->set, job->all, job->groups)));
  for (size_t g = 0; g < KF_GROUPS; g++) TRY(own_class_set(cli, KF_OK, &job->groups[g]));
  return note_ancestors(job);
}

static int run_classes(cli_run *cli) {
  classes_job job = {.cli = cli};
  TRY(load(&job));
  if (cli->args.output) TRY(write_lists(&job));
  (cli->args.json ? print_json : print_text)(&job);
  return EXIT_OK;
}

static const cli_group own_options = {
    "Options",
    OPTIONS({INPUT("hierarchy", hierarchy.path, "FILE"), .required = 1,
             .help = "lines 'PARENT CHILD'; a class may have several parents"},
            {INPUT("set", hierarchy.set, "FILE"), .required = 1,
             .help = "the classes to start from, one per line, such as 1K"},
            {INPUT("all", hierarchy.all, "FILE"), .required = 1,
             .help = "the classes around them, one per line, such as 21K"},
            {INPUT("names", hierarchy.names, "FILE"),
             .help = "lines 'CLASS<tab>NAME': names to print, and classes that have no relatives"},
            {OUTPUT("PREFIX"), .help = "write each group to PREFIX-GROUP.txt, for --class-set"},
            {JSON, .help = "one JSON object"})};

const cli_command classes_command = {
    .name = "classes",
    .summary = "group classes by their place in a hierarchy",
    .details =
        "Puts every class of --set and --all into the first group that fits: 'only' and 'both' are "
        "the classes of the set that are not in --all, and those that are; outside the set, "
        "'ancestors' have a descendant in the set, 'descendants' have an ancestor in it, 'leaves' "
        "have no descendant in either list, and 'other' is the rest.\n\n"
        "'exclusive' is 'only', 'both' and 'leaves' together. No class in it is a kind of another, "
        "so an image of one object belongs to at most one of them, unless the set itself has such "
        "classes, in which case a note says so.\n\n"
        "A class that is not in the hierarchy is an error unless it is in --names; it then has no "
        "relatives.",
    .groups = GROUPS(&own_options),
    .examples =
        EXAMPLES({"ImageNet in WordNet", "koofu classes --hierarchy class_hierarchy.txt --set "
                                         "1k.txt --all 21k.txt --names node_names.txt -o groups"}),
    .run = run_classes,
};
