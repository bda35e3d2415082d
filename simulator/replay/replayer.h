// The event loop of replay.h, for many orders of one program: what each replay
// needs is set up once.
#pragma once

#include <memory>

#include "absl/types/span.h"
#include "simulator/cost/sharing.h"
#include "simulator/replay/costed_program.h"
#include "simulator/replay/replay.h"

namespace asyra {

class Replayer {
 public:
  // `speeds`: of these costs, or of others that differ in times alone; null:
  // they are not kept. Both outlive this.
  explicit Replayer(const CostedProgram& costed,
                    SharedSpeeds* speeds = nullptr);
  ~Replayer();
  Replayer(Replayer&&) noexcept;

  // Computes these parts of the result: times, spans with what they waited for
  // (if `critical_path`), and what communication is exposed. It is valid until
  // the next run.
  SimResult& Run(absl::Span<const int> order, const ReplayOptions& options);

 private:
  class Engine;
  std::unique_ptr<Engine> engine_;
};

}  // namespace asyra
