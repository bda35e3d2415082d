#include "tests/onnx_train/read_sites.h"

namespace asyra {

std::vector<ReadSite> ReadSites() {
  std::vector<ReadSite> sites;
  AddElementwiseSites(&sites);
  AddReductionSites(&sites);
  AddLayoutSites(&sites);
  AddLookupSites(&sites);
  AddLayerSites(&sites);
  AddAttentionSites(&sites);
  AddControlSites(&sites);
  return sites;
}

}  // namespace asyra
