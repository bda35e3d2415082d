// A collective as messages over TCP, for ranks on cpus.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "executor/comm/communicator.h"

namespace asyra {

// Messages between two ranks: those of a tag arrive in their order.
class TcpMail {
 public:
  virtual ~TcpMail() = default;
  // Returns when the bytes are on their way.
  virtual absl::Status Post(int64_t to, int64_t tag,
                            std::string_view bytes) = 0;
  // Waits for the next one. Errors: the timeout, naming `what` and the rank; a
  // rank that has failed.
  virtual absl::StatusOr<std::string> Collect(int64_t from, int64_t tag,
                                              std::string_view what) = 0;
};

// Sums are added in the order of the group, so that they have the bytes of
// ranks that are threads. Allocates for its messages. `mail` outlives it; `tag`
// is one of its own, the same on all ranks, of which `rank` is this one.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareTcpCollective(
    TcpMail& mail, int64_t tag, int64_t rank, const CollectiveUse& use);

}  // namespace asyra
