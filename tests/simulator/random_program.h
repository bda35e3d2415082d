// Random scheduled programs over a mesh (dp=2, tp=2): computation on up to two
// streams, collectives over either axis on streams of their own, each waited
// for at some later point.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "fmt/format.h"

namespace asyra {

class RandomProgram {
 public:
  RandomProgram(uint32_t seed, int steps, int compute_streams)
      : random_(seed), compute_streams_(compute_streams) {
    text_ = R"(asyra 1 scheduled
mesh (dp=2, tp=2)
program @f(%x: f32[500], %p: f32[500] partial(tp), %q: f32[2000] partial(dp))
    -> (f32[500]) {
)";
    for (int i = 0; i < steps; ++i) Step();
    while (!flying_.empty()) Wait();
    text_ += fmt::format("  return %{}\n}}\n", ready_.back());
  }
  const std::string& text() const { return text_; }

 private:
  int Below(size_t n) { return static_cast<int>(random_() % n); }

  std::string ComputeStream() {
    return fmt::format("compute{}", Below(compute_streams_));
  }

  // Values reach another stream through `after`.
  void Step() {
    int choice = Below(8);
    if (choice == 0 && !flying_.empty()) return Wait();
    std::string name = fmt::format("v{}", next_++);
    if (choice <= 2) {
      bool tp = Below(2) == 0;
      text_ += fmt::format(
          "  %{} = start all_reduce(%{}) {{axes={}}} on {}{} : future "
          "f32[{}]\n",
          name, tp ? "p" : "q", tp ? "tp" : "dp", tp ? "tp" : "dp", Below(2),
          tp ? 500 : 2000);
      flying_.push_back({name, tp ? 500 : 2000});
      return;
    }
    const std::string& a = ready_[Below(ready_.size())];
    const std::string& b = ready_[Below(ready_.size())];
    text_ += choice == 3
                 ? fmt::format("  %{} = neg(%{}) on {} after(%{}) : f32[500]\n",
                               name, a, ComputeStream(), a)
                 : fmt::format(
                       "  %{} = add(%{}, %{}) on {} after(%{}, %{}) : "
                       "f32[500]\n",
                       name, a, b, ComputeStream(), a, b);
    ready_.push_back(name);
  }

  void Wait() {
    int at = Below(flying_.size());
    std::string name = fmt::format("v{}", next_++);
    text_ += fmt::format("  %{} = wait(%{}) on {} : f32[{}]\n", name,
                         flying_[at].name, ComputeStream(), flying_[at].size);
    if (flying_[at].size == 500) ready_.push_back(name);
    flying_.erase(flying_.begin() + at);
  }

  struct Flying {
    std::string name;
    int size;
  };
  std::mt19937 random_;
  int compute_streams_;
  std::string text_;
  int next_ = 0;
  std::vector<std::string> ready_ = {"x"};
  std::vector<Flying> flying_;
};

}  // namespace asyra
