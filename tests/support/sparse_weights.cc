#include "tests/support/sparse_weights.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "absl/strings/ascii.h"
#include "ir/support/file.h"
#include "ir/support/status.h"

namespace asyra {

absl::Status WriteSparseWeights(const Program& program,
                                const std::string& path) {
  std::string header = "{";
  int64_t at = 0;
  for (const Input& input : program.inputs) {
    if (input.role != InputRole::kWeight) continue;
    const Type& type = program.type(input.value);
    Shape shape = program.GivenShape(input);
    int64_t bytes = NumElements(shape) * SizeOf(type.dtype);
    header += fmt::format(
        "{}\"{}\":{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
        at == 0 ? "" : ",", program.value_name(input.value),
        absl::AsciiStrToUpper(std::string(ToString(type.dtype))),
        fmt::join(shape, ","), at, at + bytes);
    at += bytes;
  }
  header += "}";
  uint64_t length = header.size();
  std::string_view prefix(reinterpret_cast<const char*>(&length),
                          sizeof(length));
  ASYRA_RETURN_IF_ERROR(WriteFileAtomically(path, {prefix, header}));
  auto size = static_cast<int64_t>(sizeof(length) + length) + at;
  if (::truncate(path.c_str(), size) == 0) return absl::OkStatus();
  return Invalid("{}: cannot grow to {} bytes: {}", path, size,
                 std::strerror(errno));
}

int64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

}  // namespace asyra
