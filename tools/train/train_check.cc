#include "tools/train/train_check.h"

#include <cmath>
#include <cstring>

#include "ir/support/file.h"
#include "ir/support/status.h"
#include "ir/weights/weight_store.h"
#include "nlohmann/json.hpp"

namespace asyra {
namespace {

using nlohmann::json;

// The JSON text under __metadata__.hyper of a file that ReadWeights took.
absl::StatusOr<json> ReadHyper(const std::string& path) {
  ASYRA_ASSIGN_OR_RETURN(std::string bytes, ReadFile(path));
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  json header = json::parse(bytes.substr(sizeof(length), length), nullptr,
                            /*allow_exceptions=*/false);
  json metadata = header.value("__metadata__", json::object());
  if (!metadata.contains("hyper")) return json::object();
  if (!metadata["hyper"].is_string()) return json();
  return json::parse(metadata["hyper"].get<std::string>(), nullptr,
                     /*allow_exceptions=*/false);
}

// Sets `value` where `hyper` has one of the name, of its type.
absl::Status Set(const json& hyper, const char* name, double* value) {
  if (!hyper.contains(name)) return absl::OkStatus();
  if (!hyper[name].is_number()) return Invalid("{} is no number", name);
  *value = hyper[name].get<double>();
  return absl::OkStatus();
}

absl::Status Set(const json& hyper, const char* name, std::string* value) {
  if (!hyper.contains(name)) return absl::OkStatus();
  if (!hyper[name].is_string()) return Invalid("{} is no text", name);
  *value = hyper[name].get<std::string>();
  return absl::OkStatus();
}

absl::Status SetAll(const json& hyper, TrainOptions* train) {
  ASYRA_RETURN_IF_ERROR(Set(hyper, "optimizer", &train->optimizer));
  if (train->optimizer != "adamw" && train->optimizer != "sgd") {
    return Invalid("optimizer is '{}', known are adamw and sgd",
                   train->optimizer);
  }
  for (auto [name, number] :
       {std::pair{"beta1", &train->beta1}, std::pair{"beta2", &train->beta2},
        std::pair{"epsilon", &train->eps},
        std::pair{"momentum", &train->momentum},
        std::pair{"decay", &train->decay}, std::pair{"clip", &train->clip}}) {
    ASYRA_RETURN_IF_ERROR(Set(hyper, name, number));
  }
  std::string decay_of = "rank>=2";
  ASYRA_RETURN_IF_ERROR(Set(hyper, "decay_of", &decay_of));
  if (decay_of != "rank>=2") {
    return Invalid("decay_of is '{}', known is 'rank>=2'", decay_of);
  }
  train->decay_of = "matrices";
  return absl::OkStatus();
}

absl::Status SetHyper(const std::string& path, TrainOptions* train) {
  ASYRA_ASSIGN_OR_RETURN(json hyper, ReadHyper(path));
  if (!hyper.is_object()) return Invalid("{}: hyper is no JSON object", path);
  return Annotate(SetAll(hyper, train), fmt::format("{}: hyper", path));
}

}  // namespace

Tensor RecordedRun::Batch(const Tensor& all, int64_t step) const {
  Shape shape(all.shape().begin() + 1, all.shape().end());
  return all.Slice(0, step, 1).Reshaped(shape);
}

absl::StatusOr<RecordedRun> ReadRecordedRun(const std::string& path,
                                            TrainOptions* train) {
  ASYRA_ASSIGN_OR_RETURN(std::shared_ptr<const WeightStore> store,
                         ReadWeights(path));
  auto find = [&](const char* name, int rank) -> absl::StatusOr<Tensor> {
    const Tensor* tensor = store->Find(name);
    if (tensor == nullptr) return NotFound("{}: no tensor {}", path, name);
    if (tensor->rank() == rank) return *tensor;
    return Invalid("{}: {} has rank {}, it should be {}", path, name,
                   tensor->rank(), rank);
  };
  RecordedRun run;
  ASYRA_ASSIGN_OR_RETURN(run.ids, find("ids", 3));
  ASYRA_ASSIGN_OR_RETURN(run.labels, find("labels", 3));
  ASYRA_ASSIGN_OR_RETURN(run.logits_after, find("logits_after", 3));
  auto misfit = [&](const char* name, const Tensor& tensor) {
    return Invalid("{}: {} has shape {}, ids {}", path, name,
                   ShapeToString(tensor.shape()),
                   ShapeToString(run.ids.shape()));
  };
  for (auto [name, tensor] :
       {std::pair{"ids", &run.ids}, std::pair{"labels", &run.labels}}) {
    if (tensor->dtype() == DType::kI64) continue;
    return Invalid("{}: {} is {}, it should be i64", path, name,
                   ToString(tensor->dtype()));
  }
  if (run.labels.shape() != run.ids.shape()) {
    return misfit("labels", run.labels);
  }
  if (run.logits_after.size(0) != run.ids.size(1) ||
      run.logits_after.size(1) != run.ids.size(2)) {
    return misfit("logits_after", run.logits_after);
  }
  for (auto [name, numbers] :
       {std::pair{"rate", &run.rate}, std::pair{"loss", &run.loss},
        std::pair{"norm", &run.norm}}) {
    ASYRA_ASSIGN_OR_RETURN(Tensor tensor, find(name, 1));
    *numbers = tensor.ToDoubles();
    if (tensor.size(0) == run.ids.size(0)) continue;
    return Invalid("{}: {} has {} numbers for {} steps", path, name,
                   tensor.size(0), run.ids.size(0));
  }
  ASYRA_RETURN_IF_ERROR(SetHyper(path, train));
  return run;
}

double RelativeError(double a, double b) {
  if (a == b) return 0;
  return std::abs(a - b) / std::abs(b);
}

double Worse(double a, double b) { return std::isnan(a) || a > b ? a : b; }

absl::StatusOr<double> ErrorOfLargest(const Tensor& a, const Tensor& b,
                                      double floor) {
  if (a.num_elements() != b.num_elements()) {
    return Invalid("{} elements are compared with {}", a.num_elements(),
                   b.num_elements());
  }
  double largest = floor, error = 0;
  std::vector<double> x = a.ToDoubles(), y = b.ToDoubles();
  for (size_t i = 0; i < x.size(); ++i) {
    largest = std::max(largest, std::abs(y[i]));
    error = Worse(error, std::abs(x[i] - y[i]));
  }
  return largest > 0 ? error / largest : error;
}

}  // namespace asyra
