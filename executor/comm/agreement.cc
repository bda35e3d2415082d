#include "executor/comm/agreement.h"

#include <cstring>

#include "absl/algorithm/container.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/support/hash.h"
#include "ir/support/status.h"
#include "ir/verify/verifier.h"

namespace asyra {
namespace {

// Words of a weight's data that are compared, spread evenly.
constexpr int64_t kSampledBytes = 512;

uint64_t SampleOf(const Tensor& tensor) {
  const char* data = reinterpret_cast<const char*>(tensor.data());
  int64_t step = std::max<int64_t>(1, tensor.bytes() / kSampledBytes);
  uint64_t hash = Fnv1a("");
  for (int64_t at = 0; at < tensor.bytes(); at += step) {
    char drawn = 0;  // of a tensor without data
    if (data == nullptr &&
        !tensor.source()
             ->Read(tensor.source_offset() + at,
                    {reinterpret_cast<std::byte*>(&drawn), 1})
             .ok()) {
      return hash;  // the error is reported where the shard is read
    }
    hash = Fnv1a({data == nullptr ? &drawn : data + at, 1}, hash);
  }
  return hash;
}

std::vector<std::string> WeightLines(const Program& program,
                                     const WeightStore* weights) {
  std::vector<std::string> lines;
  for (const Input& input : program.inputs) {
    if (!IsWeight(input)) continue;
    const std::string& name = program.value_name(input.value);
    const Tensor* tensor = weights == nullptr ? nullptr : weights->Find(name);
    lines.push_back(tensor == nullptr
                        ? fmt::format("%{} absent", name)
                        : fmt::format("%{} {}{} data {:016x}", name,
                                      ToString(tensor->dtype()),
                                      ShapeToString(tensor->shape()),
                                      SampleOf(*tensor)));
  }
  return lines;
}

std::string HashesOf(const std::vector<Agreement>& agreements) {
  std::string hashes;
  for (const Agreement& agreement : agreements) {
    uint64_t hash = Fnv1a(agreement.what);
    for (const std::string& line : agreement.lines) hash = Fnv1a(line, hash);
    hashes += fmt::format("{:016x}", hash);
  }
  return hashes;
}

constexpr size_t kHashDigits = 16;

// The error that ranks would run into with these programs.
std::string ExplainPrograms(const std::vector<std::string>& texts) {
  std::vector<Program> programs;
  for (const std::string& text : texts) {
    absl::StatusOr<Program> program = ParseProgram(text);
    if (!program.ok() || !Verify(*program).ok()) return "";
    programs.push_back(*std::move(program));
  }
  return std::string(MessageOf(VerifyRanks(programs)));
}

// The first line in which two texts differ.
std::string FirstDifference(const std::vector<std::string>& a,
                            const std::vector<std::string>& b, int64_t rank_a,
                            int64_t rank_b) {
  size_t line = 0;
  while (line < a.size() && line < b.size() && a[line] == b[line]) ++line;
  auto at = [line](const std::vector<std::string>& lines) {
    return line < lines.size() ? "'" + lines[line] + "'" : "nothing";
  };
  return fmt::format("line {} on rank {} is {}, on rank {} {}", line + 1,
                     rank_a, at(a), rank_b, at(b));
}

}  // namespace

std::vector<Agreement> AgreementsOf(const Program& program,
                                    const WeightStore* weights) {
  return {
      {"the program", absl::StrSplit(ToString(program), '\n'), ExplainPrograms},
      {"the weights", WeightLines(program, weights)}};
}

absl::Status CheckAgreement(Communicator& world,
                            const std::vector<Agreement>& mine) {
  ASYRA_ASSIGN_OR_RETURN(std::vector<std::string> hashes,
                         world.Exchange(HashesOf(mine)));
  for (size_t i = 0; i < mine.size(); ++i) {
    auto hash_of = [&](size_t rank) {
      size_t at = std::min(i * kHashDigits, hashes[rank].size());
      return hashes[rank].substr(at, kHashDigits);
    };
    size_t other = 0;
    while (other < hashes.size() && hash_of(other) == hash_of(0)) ++other;
    if (other == hashes.size()) continue;
    ASYRA_ASSIGN_OR_RETURN(std::vector<std::string> texts,
                           world.Exchange(absl::StrJoin(mine[i].lines, "\n")));
    std::string why;
    if (mine[i].explain != nullptr) why = mine[i].explain(texts);
    if (!why.empty()) why += "; ";
    why += FirstDifference(absl::StrSplit(texts[0], '\n'),
                           absl::StrSplit(texts[other], '\n'), 0,
                           static_cast<int64_t>(other));
    return Invalid("ranks do not agree on {}: {}", mine[i].what, why);
  }
  return absl::OkStatus();
}

absl::StatusOr<TuningResults> SyncTuning(Communicator& world,
                                         const TuningResults& mine) {
  uint64_t hash = Fnv1a("");
  for (const auto& [key, result] : mine) {
    hash = Fnv1a(fmt::format("{}\t{}\n", key, result.value), hash);
  }
  ASYRA_ASSIGN_OR_RETURN(std::vector<std::string> hashes,
                         world.Exchange(fmt::format("{:016x}", hash)));
  if (absl::c_count(hashes, hashes[0]) == static_cast<int64_t>(hashes.size())) {
    return mine;
  }
  ASYRA_ASSIGN_OR_RETURN(std::vector<std::string> texts,
                         world.Exchange(ToText(mine)));
  TuningResults first;
  for (const std::string& text : texts) {
    for (const auto& [key, result] : ParseTuningResults(text)) {
      auto [at, added] = first.emplace(key, result);
      bool better = at->second.us == 0 && result.us > 0;
      if (!added && better) at->second = result;
    }
  }
  TuningResults agreed;
  for (const auto& [key, result] : mine) {
    auto found = first.find(key);
    agreed[key] = found == first.end() ? result : found->second;
  }
  return agreed;
}

}  // namespace asyra
