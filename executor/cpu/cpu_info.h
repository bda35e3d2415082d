// The cpus of this host, as the system describes them.
#pragma once

#include <string>

namespace asyra {

struct CpuInfo {
  std::string name = "cpu";  // "AMD EPYC 9654", as far as the system says
  int cores = 1;             // hardware threads that this process may use
  int sockets = 1;           // of the host; 1 where it does not say
};

CpuInfo DescribeCpu();

}  // namespace asyra
