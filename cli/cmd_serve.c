/* cmd_serve.c - koofu serve: serves a model over HTTP, with a page to drop pictures on. */
#include "commands.h"

#ifdef KOOFU_SERVE
#include "serve.h"

enum {
  PORT = 8080,
  CONNECTIONS = 1024,
  QUEUE = 256,
  TIMEOUT = 30,
  MAX_BODY_MIB = 32,
  MEMORY_MIB = 512
};

static void log_line(void *user, const char *message) { say(user, "%s", message); }

static int64_t number_or(cli_number number, int64_t otherwise) {
  return number.given ? number.value : otherwise;
}

static int serve(cli_run *cli) {
  const cli_args *a = &cli->args;
  const struct serve_args *s = &a->serve;
  char message[2048];
  sv_options options = {.model = s->demo ? NULL : a->operands.items[0],
                        .gallery = s->gallery,
                        .rows = s->rows,
                        .encoder = a->encoder.folder,
                        .images = s->images,
                        .names = a->names,
                        .journal = s->journal,
                        .token_file = s->token_file,
                        .host = s->host,
                        .port = (uint16_t)number_or(s->port, PORT),
                        .hosts = s->hosts.items,
                        .n_hosts = s->hosts.n,
                        .precision = (kf_precision)a->encoder.precision,
                        .max_pixels = (uint64_t)a->encoder.max_pixels.value,
                        .threads = (unsigned)a->common.threads.value,
                        .isa = kf_ctx_isa(cli->ctx),
                        .device = a->common.device ? a->common.device : "cpu",
                        .device_plugin = a->common.device_plugin,
                        .connections = (unsigned)number_or(s->connections, CONNECTIONS),
                        .queue = (unsigned)number_or(s->queue, QUEUE),
                        .timeout = (unsigned)number_or(s->timeout, TIMEOUT),
                        .max_body = (uint64_t)number_or(s->max_body, MAX_BODY_MIB) << 20,
                        .memory = (uint64_t)number_or(s->memory, MEMORY_MIB) << 20,
                        .any_encoder = a->data.any_encoder,
                        .check = s->check,
                        .verbose = a->common.verbose,
                        .log = log_line,
                        .user = cli};
  kf_status status = sv_run(&options, message, sizeof message);
  return status == KF_OK ? EXIT_OK : fail_with(cli, exit_status_of(status), "%s", message);
}

#else

static int serve(cli_run *cli) {
  return fail_with(
      cli, EXIT_USAGE,
      "this build of koofu has no server: it was made without libmicrohttpd, as wheels "
      "are; with it (Debian: libmicrohttpd-dev), 'make' and 'pip install .' build one");
}

#endif

static int run_serve(cli_run *cli) {
  const cli_args *a = &cli->args;
  if (a->serve.demo && (a->operands.n || given(cli, "gallery rows encoder images journal names")))
    return fail_usage(cli, "--demo has its own model and gallery, and takes no others");
  if (!a->serve.demo && a->operands.n == 0)
    return fail_usage(cli, "missing argument: MODEL (or --demo)");
  if (!a->serve.gallery && !a->serve.rows)
    TRY(need(cli, "images", "--gallery or --rows, whose ids are the paths of pictures"));
  return serve(cli);
}

static const cli_group own_options = {
    "Options",
    OPTIONS({INPUT("gallery", serve.gallery, "GALLERY"),
             .help = "search in this gallery (see 'koofu index')"},
            {INPUT("rows", serve.rows, "DATA"),
             .help = "the rows of the gallery as the encoder made them, or to make a gallery of"},
            {TEXT("images", serve.images, "DIR"),
             .help = "show the pictures of rows, whose ids are paths in this folder"},
            {CLASS_NAMES},
            {FLAG("demo", serve.demo), .help = "serve a small synthetic world instead of a model"},
            {FLAG("check", serve.check), .help = "load everything, listen, and stop at once"},
            {TEXT("journal", serve.journal, "DIR"),
             .help = "where added classes are kept (default: MODEL.journal)"})};

static const cli_group net_options = {
    "Network",
    OPTIONS({TEXT("host", serve.host, "HOST"),
             .help = "the address to listen on (default: 127.0.0.1); others need --token-file"},
            {NUMBER("port", serve.port, "N", 0, 65535),
             .help = "the port (default: 8080; 0: any free one)"},
            {INPUT("token-file", serve.token_file, "FILE"),
             .help = "a file with a token that clients must send: Authorization: Bearer TOKEN"},
            {LIST("allow-host", serve.hosts, "NAME"),
             .help = "a name that clients may use for this machine besides addresses and "
                     "localhost; may be repeated"})};

static const cli_group limit_options = {
    "Limits",
    OPTIONS({NUMBER("max-body", serve.max_body, "MIB", 1, 4096),
             .help = "the largest body of a request (default: 32 MiB)"},
            {NUMBER("memory", serve.memory, "MIB", 16, 1 << 20),
             .help = "memory that all requests may hold together (default: 512 MiB)"},
            {NUMBER("queue", serve.queue, "N", 1, 100000),
             .help = "requests that may wait; others get 429 (default: 256)"},
            {NUMBER("connections", serve.connections, "N", 8, 100000),
             .help = "connections at a time (default: 1024)"},
            {NUMBER("timeout", serve.timeout, "SECONDS", 1, 3600),
             .help = "how long a request may take to arrive, and to wait (default: 30)"})};

const cli_command serve_command = {
    .name = "serve",
    .operands = "[MODEL]",
    .summary = "serve a model over HTTP, with a page to drop pictures on",
    .details =
        "Open the address that it prints in a browser. Programs use the same address: "
        "/v1/classify, /v1/search, /v1/embeddings and /v1/models (as OpenAI's), /v1/classes, /v2 "
        "(the Open Inference Protocol), /metrics (Prometheus) and /openapi.json; /api is a page "
        "with an example of each. Answers are those of 'koofu classify' and 'koofu search', to the "
        "bit.\n\n"
        "Pictures and words need --encoder, searching needs --rows or --gallery. --rows takes "
        "embeddings.safetensors as 'koofu quickstart' writes it.\n\n"
        "Classes that are added while it runs are kept in a folder beside the model, "
        "MODEL.journal, and are there again after a restart; 'koofu add-class --from-journal' "
        "makes a model of them. The model, gallery and rows are loaded again when their files "
        "change, or on SIGHUP; if that fails, the old ones stay in use.\n\n"
        "By default only this machine can connect. After SIGTERM or SIGINT the server answers the "
        "requests that have arrived, and stops.",
    .groups = GROUPS(&own_options, &served_options, &net_options, &limit_options),
    .examples = EXAMPLES({"Look at it, without a model", "koofu serve --demo"},
                         {"After 'koofu quickstart photos --encoder clip'",
                          "koofu serve photos-koofu/model.safetensors --rows "
                          "photos-koofu/embeddings.safetensors --encoder clip --images photos"},
                         {"For other machines",
                          "koofu serve model.safetensors --host 0.0.0.0 --token-file token.txt"}),
    .run = run_serve,
};
