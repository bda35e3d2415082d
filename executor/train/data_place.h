// The position of a run in its data.
#pragma once

#include <cstdint>
#include <string>

namespace asyra {

// Position in the data that a checkpoint keeps, for the run that goes on from
// it.
struct DataPlace {
  int64_t position = 0;  // for TokenReader::Seek
  // Description in words of how the data is cut and ordered. A position means
  // the same only in the same order. Empty: not known.
  std::string order;
};

}  // namespace asyra
