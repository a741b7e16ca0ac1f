/* metrics.c - counters, and their text format for Prometheus. */
#include "server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double limits[SV_BUCKETS] = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                          0.05,   0.1,   0.25,   0.5,   1,    5};

void sv_count(sv_metrics *m, const sv_request *r) {
  size_t i = r->route ? (size_t)(r->route - sv_routes) : SV_ROUTES;
  struct sv_route_metrics *own = &m->routes[i];
  double seconds = sv_now() - r->begun;
  int bucket = 0;
  while (bucket < SV_BUCKETS && seconds > limits[bucket]) bucket++;
  atomic_fetch_add_explicit(&own->by_status[r->status / 100 % 6], 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&own->buckets[bucket], 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&own->microseconds, (unsigned long)(1e6 * seconds),
                            memory_order_relaxed);
  if (r->status == 429) atomic_fetch_add(&m->rejected, 1);
}

static void put_kind(sv_text *t, const char *name, const char *kind, const char *help) {
  sv_putf(t, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind);
}

static void put_value(sv_text *t, const char *name, const char *kind, const char *help,
                      double value) {
  put_kind(t, name, kind, help);
  sv_putf(t, "%s %.17g\n", name, value);
}

static const char *route_name(size_t i) { return i < sv_n_routes ? sv_routes[i].name : "none"; }

static void put_requests(sv_text *t, const sv_metrics *m) {
  put_kind(t, "koofu_requests_total", "counter", "Requests answered, by route and status.");
  for (size_t i = 0; i <= SV_ROUTES; i++)
    for (int status = 2; status < 6; status++) {
      unsigned long n = atomic_load(&m->routes[i].by_status[status]);
      if (n > 0)
        sv_putf(t, "koofu_requests_total{route=\"%s\",status=\"%dxx\"} %lu\n", route_name(i),
                status, n);
    }
}

static void put_seconds(sv_text *t, const sv_metrics *m) {
  static const char name[] = "koofu_request_seconds";
  put_kind(t, name, "histogram", "Time from the headers of a request to the end of its answer.");
  for (size_t i = 0; i <= SV_ROUTES; i++) {
    unsigned long n = 0, all = 0;
    for (int b = 0; b <= SV_BUCKETS; b++) all += atomic_load(&m->routes[i].buckets[b]);
    if (all == 0) continue;
    for (int b = 0; b < SV_BUCKETS; b++) {
      n += atomic_load(&m->routes[i].buckets[b]);
      sv_putf(t, "%s_bucket{route=\"%s\",le=\"%g\"} %lu\n", name, route_name(i), limits[b], n);
    }
    n += atomic_load(&m->routes[i].buckets[SV_BUCKETS]);
    sv_putf(t, "%s_bucket{route=\"%s\",le=\"+Inf\"} %lu\n", name, route_name(i), n);
    sv_putf(t, "%s_sum{route=\"%s\"} %.6f\n", name, route_name(i),
            1e-6 * (double)atomic_load(&m->routes[i].microseconds));
    sv_putf(t, "%s_count{route=\"%s\"} %lu\n", name, route_name(i), n);
  }
}

static double resident_bytes(void) {
  char text[128], *second;
  ssize_t n = sv_read_file("/proc/self/statm", text, sizeof text - 1);
  text[n > 0 ? n : 0] = '\0';
  strtoul(text, &second, 10); /* first total pages, then resident ones */
  return (double)strtoul(second, NULL, 10) * (double)sysconf(_SC_PAGESIZE);
}

static void put_counters(sv_text *t, sv_server *s) {
  const sv_metrics *m = &s->metrics;
  const struct {
    const char *name, *help;
    const atomic_ulong *value;
  } counters[] = {
      {"koofu_rows_classified_total", "Rows classified.", &m->rows},
      {"koofu_pictures_total", "Pictures encoded.", &m->pictures},
      {"koofu_picture_batches_total", "Batches in which pictures were encoded.",
       &m->picture_batches},
      {"koofu_texts_total", "Texts encoded.", &m->texts},
      {"koofu_searches_total", "Queries searched for.", &m->searches},
      {"koofu_search_batches_total", "Batches in which queries were searched for.",
       &m->search_batches},
      {"koofu_rejected_total", "Requests refused with 429.", &m->rejected},
      {"koofu_connections_cut_total", "Connections closed because they took too long.",
       &m->cut_off},
      {"koofu_reloads_total", "Successful reloads of changed files.", &m->reloads},
      {"koofu_failed_reloads_total", "Failed reloads of changed files.", &m->failed_reloads}};
  for (size_t i = 0; i < SV_COUNT_OF(counters); i++)
    put_value(t, counters[i].name, "counter", counters[i].help,
              (double)atomic_load(counters[i].value));
}

void sv_work_metrics(sv_request *r, kf_ctx *ctx) {
  sv_server *s = r->server;
  sv_text *t = &r->out;
  put_kind(t, "koofu_build_info", "gauge", "Version and instruction set of koofu.");
  sv_putf(t, "koofu_build_info{version=\"%s\",isa=\"%s\"} 1\n", kf_version(),
          kf_isa_name(kf_ctx_isa(ctx)));
  put_requests(t, &s->metrics);
  put_seconds(t, &s->metrics);
  put_counters(t, s);
  put_value(t, "koofu_connections", "gauge", "Open connections.", sv_http_connections(s));
  put_value(t, "koofu_queue_length", "gauge", "Waiting requests.", sv_queue_length(s->queue));
  put_value(t, "koofu_request_bytes_left", "gauge", "Memory still available to requests.",
            (double)atomic_load(&s->budget.left));
  put_value(t, "koofu_classes", "gauge", "Classes of the model.",
            kf_model_classes(r->world->model));
  put_value(t, "koofu_added_classes", "gauge", "Classes added to the model.",
            (double)r->world->n_added);
  put_value(t, "koofu_gallery_rows", "gauge", "Rows in the gallery.",
            r->world->shelf ? (double)r->world->shelf->n : 0);
  put_value(t, "process_resident_memory_bytes", "gauge", "Resident memory of the process.",
            resident_bytes());
  put_value(t, "koofu_uptime_seconds", "gauge", "Time since the server was started.",
            sv_now() - s->begun);
  sv_answer(r, 200, "text/plain; version=0.0.4; charset=utf-8");
}

void sv_work_health(sv_request *r, kf_ctx *ctx) {
  (void)ctx;
  sv_puts(&r->out, "ok\n");
  sv_answer(r, 200, "text/plain; charset=utf-8");
}
