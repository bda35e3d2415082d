// Feeds arbitrary bytes to the ONNX importer: it may refuse, it may not crash,
// and what it accepts must be a valid program.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

#include "frontends/onnx/import.h"
#include "ir/support/check.h"
#include "ir/verify/verifier.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace asyra;
  // The importer maps files; this one is in memory.
  static const int fd = memfd_create("model", 0);
  static const std::string path = fmt::format("/proc/self/fd/{}", fd);
  ASYRA_CHECK(ftruncate(fd, static_cast<off_t>(size)) == 0);
  ASYRA_CHECK(pwrite(fd, data, size, 0) == static_cast<ssize_t>(size));
  for (const ImportOptions& options :
       {ImportOptions{}, ImportOptions{{{"batch", 2}}},
        ImportOptions{{{"batch", 2}, {"seq", 4}}}}) {
    absl::StatusOr<Program> program = ImportOnnx(path, options);
    if (program.ok()) ASYRA_CHECK_OK(Verify(*program));
  }
  return 0;
}
