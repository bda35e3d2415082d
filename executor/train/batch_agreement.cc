#include "executor/train/batch_agreement.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "ir/support/hash.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

constexpr size_t kHashDigits = 16;

// Returns the hash of a tensor; of one scalar, its bits, so that the value can
// be reported.
std::string HashOf(const Tensor& tensor) {
  if (tensor.num_elements() == 1 && tensor.shape().empty()) {
    return fmt::format("{:016x}", std::bit_cast<uint64_t>(tensor.Get(0)));
  }
  return fmt::format("{:016x}",
                     Fnv1a({reinterpret_cast<const char*>(tensor.data()),
                            static_cast<size_t>(tensor.bytes())}));
}

double NumberOf(std::string_view hash) {
  uint64_t bits = 0;
  std::from_chars(hash.data(), hash.data() + hash.size(), bits, 16);
  return std::bit_cast<double>(bits);
}

std::vector<ValueId> DataOf(const Program& program) {
  std::vector<ValueId> data;
  for (const Input& input : program.inputs) {
    if (input.role == InputRole::kData) data.push_back(input.value);
  }
  return data;
}

// Returns the beginning of a device's part: equal for those that hold the same.
std::vector<int64_t> PartOf(const Type& type, const Mesh& mesh,
                            int64_t device) {
  std::vector<int64_t> starts;
  for (const Dim& dim : type.dims) {
    starts.push_back(ShardStart(dim, mesh, device));
  }
  return starts;
}

// `at` is where the input's hash is in those of a rank.
absl::Status CheckInput(const Program& program, ValueId value, size_t at,
                        const std::vector<std::string>& hashes,
                        std::string_view place) {
  const Type& type = program.type(value);
  std::map<std::vector<int64_t>, size_t> first;  // rank with the part
  for (size_t rank = 0; rank < hashes.size(); ++rank) {
    std::vector<int64_t> part =
        PartOf(type, program.mesh, static_cast<int64_t>(rank));
    size_t other = first.emplace(std::move(part), rank).first->second;
    auto hash = [&](size_t of) {
      std::string_view all = hashes[of];
      return all.substr(std::min(at, all.size()), kHashDigits);
    };
    if (hash(other) == hash(rank)) continue;
    if (type.rank() == 0) {
      return Invalid("{}: %{} is {} on rank {} and {} on rank {}", place,
                     program.value_name(value), NumberOf(hash(other)), other,
                     NumberOf(hash(rank)), rank);
    }
    return Invalid(
        "{}: ranks {} and {} are given different data for %{}, {}, of which "
        "they hold the same part",
        place, other, rank, program.value_name(value),
        ToString(type, program.mesh));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckBatchAgreement(Communicator& world, const Program& program,
                                 absl::Span<const Tensor> inputs,
                                 std::string_view place) {
  std::string mine;
  for (const Tensor& input : inputs) mine += HashOf(input);
  ASYRA_ASSIGN_OR_RETURN(std::vector<std::string> said,
                         world.Exchange(fmt::format("{}\n{}", place, mine)));
  std::vector<std::string> hashes;
  for (size_t rank = 0; rank < said.size(); ++rank) {
    std::vector<std::string> parts = absl::StrSplit(said[rank], '\n');
    if (parts[0] != place) {
      return Invalid("rank {} gives a batch to {}, rank {} to {}", world.rank(),
                     place, rank, parts[0]);
    }
    hashes.push_back(parts.back());
  }
  std::vector<ValueId> data = DataOf(program);
  for (size_t i = 0; i < std::min(data.size(), inputs.size()); ++i) {
    ASYRA_RETURN_IF_ERROR(
        CheckInput(program, data[i], i * kHashDigits, hashes, place));
  }
  return absl::OkStatus();
}

}  // namespace asyra
