// Places where an op of ONNX reads parameters.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/onnx_train/random_model.h"

namespace asyra {

struct ReadSite {
  std::string name;  // "Gemm by rows"; begins with the op's
  // Adds nodes that read parameters; gives a value that broadcasts to the
  // chain's shape.
  std::function<std::string(RandomOnnxModel&)> read;
  int since = 13;  // opset
};

// All of them. Every floating point operand of the op table that may have a
// gradient is read at one.
std::vector<ReadSite> ReadSites();

// The parts of that list, by kind of op.
void AddElementwiseSites(std::vector<ReadSite>* sites);
void AddReductionSites(std::vector<ReadSite>* sites);
void AddLayoutSites(std::vector<ReadSite>* sites);
void AddLookupSites(std::vector<ReadSite>* sites);
void AddLayerSites(std::vector<ReadSite>* sites);
void AddAttentionSites(std::vector<ReadSite>* sites);
void AddControlSites(std::vector<ReadSite>* sites);

}  // namespace asyra
