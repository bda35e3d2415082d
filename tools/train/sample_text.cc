#include "tools/train/sample_text.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "executor/cpu/cpu_device.h"
#include "executor/executor.h"
#include "executor/train/token_batches.h"
#include "ir/support/random.h"
#include "ir/support/status.h"
#include "ir/weight_origin.h"
#include "ir/weights/find_as_read.h"
#include "ir/weights/shard_reader.h"

namespace asyra {
namespace {

// The program's weights, those that were trained from `params`.
absl::Status SetWeights(const WeightStore& params, Program* program) {
  auto weights = std::make_shared<WeightStore>();
  if (program->weights != nullptr) *weights = *program->weights;
  for (const Input& input : program->inputs) {
    if (!IsWeight(input)) continue;
    const std::string& name = program->value_name(input.value);
    ASYRA_ASSIGN_OR_RETURN(std::optional<Tensor> trained,
                           FindAsRead(params, *program, input));
    if (!trained.has_value()) {
      if (weights->Find(name) != nullptr) continue;
      return NotFound("the checkpoint has no {}", UserName(*program, input));
    }
    const Type& type = program->type(input.value);
    // In the model's type, which may be narrower than that of training.
    ASYRA_ASSIGN_OR_RETURN(Tensor value, ReadShard(*trained, type, Mesh(), 0));
    weights->Set(name, value);
  }
  program->weights = std::move(weights);
  return absl::OkStatus();
}

class Sampler {
 public:
  explicit Sampler(const SampleOptions& options)
      : options_(options), random_(static_cast<uint64_t>(options.seed), 0) {}

  absl::Status Prepare(Program forward) {
    ASYRA_ASSIGN_OR_RETURN(const Input* tokens, TokensOf(forward));
    tokens_ = tokens->value;
    shape_ = forward.type(tokens_).shape();
    ASYRA_RETURN_IF_ERROR(FindLogits(forward));
    ASYRA_ASSIGN_OR_RETURN(executor_, Executor::Load(std::move(forward)));
    return executor_->Prepare(*device_, nullptr, nullptr);
  }

  // The byte that follows the text.
  absl::StatusOr<char> Next(std::string_view text) {
    text = text.substr(text.size() - std::min<size_t>(text.size(), shape_[1]));
    std::vector<int64_t> tokens(NumElements(shape_), 0);
    for (size_t i = 0; i < text.size(); ++i) {
      tokens[i] = static_cast<uint8_t>(text[i]);
    }
    const Program& program = executor_->program();
    std::vector<Tensor> inputs;
    for (const Input& input : program.inputs) {
      if (input.role != InputRole::kData) continue;
      const Type& type = program.type(input.value);
      if (input.value == tokens_) {
        inputs.push_back(Tensor::FromInts(type.dtype, shape_, tokens));
        continue;
      }
      ASYRA_ASSIGN_OR_RETURN(inputs.emplace_back(),
                             FixedInput(program.value_name(input.value), type,
                                        program.type(tokens_)));
    }
    ASYRA_RETURN_IF_ERROR(executor_->Step(inputs));
    ASYRA_ASSIGN_OR_RETURN(Tensor logits, executor_->Output(logits_));
    int64_t classes = logits.size(2);
    auto begin = (static_cast<int64_t>(text.size()) - 1) * classes;
    std::vector<double> row(classes);
    for (int64_t c = 0; c < classes; ++c) row[c] = logits.Get(begin + c);
    return static_cast<char>(Draw(row));
  }

 private:
  absl::Status FindLogits(const Program& forward) {
    for (size_t i = 0; i < forward.outputs.size(); ++i) {
      const Type& type = forward.type(forward.outputs[i].value);
      if (!IsFloat(type.dtype) || type.rank() != 3) continue;
      if (type.size(0) != shape_[0] || type.size(1) != shape_[1]) continue;
      if (type.size(2) > 256) {
        return Invalid("the model has {} tokens, bytes are 256", type.size(2));
      }
      logits_ = i;
      return absl::OkStatus();
    }
    return Invalid("no output is logits [{}, {}, classes]", shape_[0],
                   shape_[1]);
  }

  // A class by its probability, the softmax of the row.
  int64_t Draw(std::vector<double> row) {
    auto largest = std::max_element(row.begin(), row.end());
    if (options_.temperature <= 0) return largest - row.begin();
    double most = *largest, sum = 0;
    for (double& value : row) {
      value = std::exp((value - most) / options_.temperature);
      sum += value;
    }
    double left = sum * (random_.Word(drawn_++) / 4294967296.0);
    for (size_t c = 0; c < row.size(); ++c) {
      left -= row[c];
      if (left < 0) return static_cast<int64_t>(c);
    }
    return largest - row.begin();
  }

  const SampleOptions options_;
  RandomStream random_;
  uint64_t drawn_ = 0;
  const std::unique_ptr<Device> device_ = CreateCpuDevice();
  std::unique_ptr<Executor> executor_;
  ValueId tokens_ = kNoValue;
  Shape shape_;
  size_t logits_ = 0;
};

}  // namespace

absl::StatusOr<std::string> SampleText(Program forward,
                                       const WeightStore& params,
                                       const SampleOptions& options) {
  if (options.prompt.empty()) return Invalid("the prompt is empty");
  ASYRA_RETURN_IF_ERROR(SetWeights(params, &forward));
  Sampler sampler(options);
  ASYRA_RETURN_IF_ERROR(sampler.Prepare(std::move(forward)));
  std::string text = options.prompt;
  for (int64_t i = 0; i < options.count; ++i) {
    ASYRA_ASSIGN_OR_RETURN(char next, sampler.Next(text));
    text += next;
  }
  return text;
}

}  // namespace asyra
