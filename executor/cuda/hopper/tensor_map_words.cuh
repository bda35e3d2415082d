// A descriptor for the copy engine, opaque to all but the driver.
struct alignas(64) TensorMap {
  unsigned long long words[16];
};
