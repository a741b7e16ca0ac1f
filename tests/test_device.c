/* test_device.c - finding and sharing plug-ins and devices. */
#include "device.h"

#include "device/device.h"

static const kf_device_list *find(kf_ctx *ctx) {
  const kf_device_list *found = NULL;
  assert_ok(ctx, kf_devices_find(ctx, &found));
  assert_non_null(found);
  return found;
}

TEST(describes_devices) {
  AUTO(kf_ctx) *ctx = device_ctx(1, "cuda:0");
  const kf_device_list *found = find(ctx);
  assert_string_equal(found->plugin, device_plugin());
  assert_true(strlen(found->build) > 0);
  assert_null(found->missing);
  assert_int_equal(found->n, 1);
  assert_int_equal(found->devices[0].number, 0);
  assert_true(strlen(found->devices[0].name) > 0);
  assert_true(found->devices[0].memory > 0 && found->devices[0].processors > 0);
  print_message("%s, driver %s, %s\n", found->devices[0].name, found->devices[0].driver,
                found->build);
}

TEST(auto_finds_what_there_is) {
  for (int i = 0; i < 2; i++) {
    AUTO(kf_ctx) *ctx = device_ctx(1, i == 0 ? NULL : "auto");
    assert_int_equal(find(ctx)->n, 1);
    assert_ptr_equal(find(ctx), find(ctx));
  }
  AUTO(kf_ctx) *ctx = device_ctx(1, "cpu");
  assert_int_equal(find(ctx)->n, 0);
  assert_string_equal(find(ctx)->missing, "the CPU was requested");
}

TEST(names) {
  const char *const bad[] = {"",        "gpu",      "CUDA",    "cuda:",         "cuda:x",
                             "cuda:0,", "cuda,cpu", "cuda:-1", "cuda:0,cuda:0", "cuda:99999999999"};
  const kf_device_list *found;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    AUTO(kf_ctx) *ctx = device_ctx(1, bad[i]);
    assert_error(ctx, KF_ERR_ARG, "invalid device", kf_devices_find(ctx, &found));
    assert_null(found);
  }
}

TEST(missing_device) {
  const kf_device_list *found;
  AUTO(kf_ctx) *ctx = device_ctx(1, "cuda:900");
  assert_error(ctx, KF_ERR_IO, "no device: there is no device cuda:900",
               kf_devices_find(ctx, &found));
}

/* A missing plug-in, and files that are not plug-ins; with auto the CPU does the work. */
TEST(missing_plugin) {
  const char *const paths[] = {"/nowhere/libkoofu-cuda.so", "/etc/passwd", "libm.so.6"};
  const char *const words[] = {"/nowhere/libkoofu-cuda.so", "/etc/passwd",
                               "is not a koofu plug-in"};
  const kf_device_list *found;
  for (size_t i = 0; i < 3; i++)
    for (int asked = 0; asked < 2; asked++) {
      AUTO(kf_ctx) *ctx = NULL;
      kf_ctx_options options = {.threads = 1, .device_plugin = paths[i], .log = device_hear};
      if (asked) options.device = "cuda";
      device_n_heard = 0;
      assert_int_equal(kf_ctx_new(&options, &ctx), KF_OK);
      if (asked) {
        assert_error(ctx, KF_ERR_IO, words[i], kf_devices_find(ctx, &found));
      } else {
        assert_int_equal(find(ctx)->n, 0);
        assert_non_null(strstr(find(ctx)->missing, words[i]));
        assert_null(find(ctx)->plugin);
      }
      assert_int_equal(device_n_heard, 0);
    }
}

TEST(no_driver) {
  const kf_device_list *found;
  device_need_twin()->no_driver = 1;
  device_n_heard = 0;
  AUTO(kf_ctx) *ctx = device_ctx(1, NULL), *asking = device_ctx(1, "cuda");
  assert_int_equal(find(ctx)->n, 0);
  assert_string_equal(find(ctx)->missing, "there is no driver");
  assert_non_null(find(ctx)->plugin);
  assert_int_equal(device_n_heard, 0);
  assert_error(asking, KF_ERR_IO, "no device: there is no driver", kf_devices_find(asking, &found));
  device_twin()->no_driver = 0; /* errors are not cached */
  assert_ok(asking, kf_devices_find(asking, &found));
}

/* A device that exists but fails is logged. */
TEST(device_that_does_not_open) {
  const kf_device_list *found;
  device_need_twin()->no_open = 1;
  device_n_heard = 0;
  AUTO(kf_ctx) *ctx = device_ctx(1, NULL), *asking = device_ctx(1, "cuda");
  assert_int_equal(find(ctx)->n, 0);
  assert_true(device_n_heard == 1 && device_said("cuda:0 cannot be used: it does not open"));
  assert_error(asking, KF_ERR_IO, "does not open", kf_devices_find(asking, &found));
}

/* Contexts share a device, and the last one closes it. */
TEST(sharing) {
  kf_ctx *a = device_ctx(1, "cuda"), *b = device_ctx(1, NULL);
  kf_devices *of_a, *of_b;
  assert_ok(a, kf_devices_for(a, &of_a));
  assert_ok(b, kf_devices_for(b, &of_b));
  assert_ptr_equal(of_a->device[0], of_b->device[0]);
  assert_true(of_a->asked && !of_b->asked);
  kf_device *kept = kf_device_hold(of_a->device[0]);
  kf_ctx_free(a);
  kf_ctx_free(b);
  uint64_t left = 0;
  assert_int_equal(kept->api->memory_left(kept->dev, &left), KF_DEV_OK);
  kf_device_release(kept);
}

TEST(several_devices) {
  device_need(3);
  AUTO(kf_ctx) *ctx = device_ctx(1, "cuda:2,cuda:0");
  const kf_device_list *found = find(ctx);
  assert_int_equal(found->n, 2);
  assert_int_equal(found->devices[0].number, 2);
  assert_int_equal(found->devices[1].number, 0);
}

/* After a failure: an error, or a log message and the CPU; permanently, unless memory ran out. */
TEST(failures) {
  kf_err lost = {.status = KF_ERR_IO, .message = "it was lost"};
  kf_err memory = {.status = KF_ERR_MEM, .message = "there is no memory"};
  AUTO(kf_ctx) *asking = device_ctx(1, "cuda"), *ctx = device_ctx(1, NULL);
  find(asking);
  assert_error(asking, KF_ERR_IO, "it was lost", kf_devices_failed(asking, &lost));
  find(ctx);
  assert_int_equal(kf_devices_failed(ctx, &memory), KF_OK);
  assert_true(device_said("the CPU takes over: there is no memory"));
  assert_int_equal(find(ctx)->n, 1);
  assert_int_equal(kf_devices_failed(ctx, &lost), KF_OK);
  assert_int_equal(find(ctx)->n, 0);
  assert_string_equal(find(ctx)->missing, "it was lost");
}

FIXTURES(.before = device_keep, .after = device_let_go, .before_each = device_reset,
         .after_each = device_reset);
