/* model.safetensors.index.json of a model folder with two files of weights. */
#include "tiny_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static int made;
  if (!made++) {
    fuzz_write("config.json", TINY_CONFIG, sizeof TINY_CONFIG - 1);
    tiny_write("a.safetensors", 0, 9);
    tiny_write("b.safetensors", 9, N_TINY);
  }
  tiny_use(fuzz_write("model.safetensors.index.json", data, size));
  return 0;
}
