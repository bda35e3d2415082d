// Where a run is in its data.
#pragma once

#include <cstdint>
#include <string>

namespace asyra {

// What a checkpoint keeps of the data, for the run that goes on from it.
struct DataPlace {
  int64_t position = 0;  // for TokenReader::Seek
  // How the data is cut and ordered, in words. A position means the same only
  // in the same order. Empty: not known.
  std::string order;
};

}  // namespace asyra
