#include "passes/rewrite/set_dtype.h"

#include <map>
#include <memory>

#include "ir/builder.h"
#include "ir/support/status.h"
#include "ir/weights/weight_store.h"

namespace asyra {
namespace {

// Returns the float type of most bytes of weights; of data where there are
// none.
DType MainType(const Program& program) {
  std::map<DType, int64_t> bytes;
  for (bool weights : {true, false}) {
    for (const Input& input : program.inputs) {
      const Type& type = program.type(input.value);
      if (IsWeight(input) == weights && IsFloat(type.dtype)) {
        bytes[type.dtype] += type.bytes();
      }
    }
    if (!bytes.empty()) break;
  }
  auto most = std::max_element(
      bytes.begin(), bytes.end(),
      [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == bytes.end() ? DType::kF32 : most->first;
}

class TypeChanger {
 public:
  TypeChanger(const Program& program, DType to)
      : from_(program), to_(to), main_(MainType(program)) {}

  absl::StatusOr<Program> Run() {
    Builder builder = Builder::Like(from_);
    std::vector<ValueId> map(from_.values.size(), kNoValue);
    for (const Input& input : from_.inputs) {
      Type type = from_.type(input.value);
      type.dtype = Changed(type.dtype);
      map[input.value] =
          builder.Input(from_.value_name(input.value), type, input);
    }
    for (Op op : from_.ops) {
      AttrMap attrs;
      for (const auto& [name, value] : op.attrs)
        attrs.Set(name, Changed(value));
      op.attrs = std::move(attrs);
      ASYRA_RETURN_IF_ERROR(builder.Copy(from_, op, &map));
    }
    for (const Output& output : from_.outputs) {
      ValueId alias = output.alias == kNoValue ? kNoValue : map[output.alias];
      builder.Output(map[output.value], alias, from_.output_name(output));
    }
    Program program = std::move(builder).Finish();
    if (from_.weights != nullptr) program.weights = ChangedWeights();
    return program;
  }

 private:
  DType Changed(DType dtype) const {
    if (!IsFloat(dtype)) return dtype;
    return SizeOf(dtype) <= SizeOf(to_) || dtype == main_ ? to_ : dtype;
  }

  AttrValue Changed(const AttrValue& value) const {
    if (const DType* dtype = std::get_if<DType>(&value)) return Changed(*dtype);
    if (const Tensor* tensor = std::get_if<Tensor>(&value)) {
      return Changed(*tensor);
    }
    return value;
  }

  Tensor Changed(const Tensor& tensor) const {
    DType to = Changed(tensor.dtype());
    if (to == tensor.dtype()) return tensor;
    return Tensor::FromDoubles(to, tensor.shape(), tensor.ToDoubles());
  }

  std::shared_ptr<const WeightStore> ChangedWeights() const {
    auto changed = std::make_shared<WeightStore>();
    for (const auto& [name, tensor] : *from_.weights) {
      changed->Set(name, Changed(tensor));
    }
    return changed;
  }

  const Program& from_;
  const DType to_, main_;
};

}  // namespace

absl::StatusOr<bool> SetDType(Program& program, const PassOptions& options,
                              PassContext&) {
  std::string name = options.Get<std::string>("dtype");
  DType to = DType::kF32;
  if (!ParseDType(name, &to) || !IsFloat(to)) {
    return Invalid("dtype is {}, it should be f64, f32, bf16 or f16", name);
  }
  ASYRA_ASSIGN_OR_RETURN(program, TypeChanger(program, to).Run());
  return true;
}

}  // namespace asyra
