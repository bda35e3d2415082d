#include "tools/train_check.h"

#include <cmath>
#include <cstring>

#include "ir/support/file.h"
#include "ir/support/status.h"
#include "ir/weight_store.h"
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
  return json::parse(metadata["hyper"].get<std::string>(), nullptr,
                     /*allow_exceptions=*/false);
}

absl::Status SetHyper(const std::string& path, TrainOptions* train) {
  ASYRA_ASSIGN_OR_RETURN(json hyper, ReadHyper(path));
  if (!hyper.is_object()) return Invalid("{}: hyper is no JSON object", path);
  train->optimizer = hyper.value("optimizer", train->optimizer);
  train->beta1 = hyper.value("beta1", train->beta1);
  train->beta2 = hyper.value("beta2", train->beta2);
  train->eps = hyper.value("epsilon", train->eps);
  train->momentum = hyper.value("momentum", train->momentum);
  train->decay = hyper.value("decay", train->decay);
  train->clip = hyper.value("clip", train->clip);
  std::string decay_of = hyper.value("decay_of", "rank>=2");
  if (decay_of != "rank>=2") {
    return Invalid("{}: decay_of is '{}', known is 'rank>=2'", path, decay_of);
  }
  train->decay_of = "matrices";
  return absl::OkStatus();
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
    double off = std::abs(x[i] - y[i]);
    if (!(off <= error)) error = off;  // NaN too
  }
  return largest > 0 ? error / largest : error;
}

}  // namespace asyra
