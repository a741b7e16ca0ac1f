/* config.json of a model folder, with weights that fit exactly one config. */
#include "tiny_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static int made;
  if (!made++) tiny_write("model.safetensors", 0, N_TINY);
  tiny_use(fuzz_write("config.json", data, size));
  return 0;
}
