// Builds programs op by op, inferring and checking types on the way.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ir/program.h"

namespace asyra {

class Builder {
 public:
  explicit Builder(Mesh mesh = {}, Stage stage = Stage::kGlobal);
  // An empty program with the name, stage, mesh, streams and weights of
  // `like`, to which a pass adds what it keeps.
  static Builder Like(const Program& like);

  // Names are made unique by a suffix ".1", ".2", ...
  ValueId Input(std::string_view name, Type type,
                InputRole role = InputRole::kData, Shape stored = {});
  // An input as `like`, an input of `from`: its name, type, role and origin.
  ValueId Input(const Program& from, const struct Input& like);
  ValueId Input(std::string_view name, Type type, const struct Input& like);
  // Called `name`; empty: as the value.
  void Output(ValueId value, ValueId alias = kNoValue,
              std::string_view name = "");

  // Appends `op` and returns its results. `name` names the first result (and,
  // with a suffix, the others). Errors of type inference are returned.
  absl::StatusOr<std::vector<ValueId>> Add(std::string_view op,
                                           absl::Span<const ValueId> operands,
                                           AttrMap attrs = {},
                                           std::string_view name = "");
  // The same for an op of one result.
  absl::StatusOr<ValueId> AddOne(std::string_view op,
                                 absl::Span<const ValueId> operands,
                                 AttrMap attrs = {},
                                 std::string_view name = "");

  // Appends `op`, whose operands are this program's, with results of the
  // inferred types and the given names.
  absl::StatusOr<std::vector<ValueId>> Insert(
      Op op, absl::Span<const std::string> names);
  // Appends a copy of `op` of program `from` whose operands are mapped through
  // `map` (old value to new), inferring its result types anew, and enters its
  // results into `map`.
  absl::Status Copy(const Program& from, const Op& op,
                    std::vector<ValueId>* map);
  // Adds the inputs of `from`, and enters them into `map`.
  void CopyInputs(const Program& from, std::vector<ValueId>* map);
  // Gives the outputs of `from`, with their aliases and names, mapped.
  void CopyOutputs(const Program& from, const std::vector<ValueId>& map);
  // Appends `op` unchanged, with results of the given types: for passes that
  // set starts, streams and types themselves.
  std::vector<ValueId> Append(Op op, absl::Span<const Type> types,
                              absl::Span<const std::string> names);
  // A constant holding `value`.
  ValueId Constant(const Tensor& value, std::string_view name = "c");

  const Type& type(ValueId value) const { return program_.type(value); }
  const Program& program() const { return program_; }
  Program& mutable_program() { return program_; }
  // Hands over the program; the builder is then empty.
  Program Finish() &&;

 private:
  std::string UniqueName(std::string_view name);
  ValueId NewValue(std::string_view name, Type type);

  Program program_;
  absl::flat_hash_set<std::string> names_;
  absl::flat_hash_map<std::string, int> suffixes_;
};

}  // namespace asyra
