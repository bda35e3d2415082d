// Random scheduled programs over a mesh (dp=2, tp=2): computation on up to two
// streams, collectives over either axis on streams of their own, each waited
// for at some later point, constants whose place on a stream others wait for.
// Where `joins` is asked for, of several values too.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "fmt/format.h"

namespace asyra {

class RandomProgram {
 public:
  RandomProgram(uint32_t seed, int steps, int compute_streams,
                bool joins = false)
      : random_(seed), compute_streams_(compute_streams), joins_(joins) {
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
    if (joins_ && choice <= 2) return Start();
    if (joins_ && choice == 4) return MakePartial();
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
    if (choice == 7) return Scale(name, a);
    text_ += choice == 3
                 ? fmt::format("  %{} = neg(%{}) on {} after(%{}) : f32[500]\n",
                               name, a, ComputeStream(), a)
                 : fmt::format(
                       "  %{} = add(%{}, %{}) on {} after(%{}, %{}) : "
                       "f32[500]\n",
                       name, a, b, ComputeStream(), a, b);
    ready_.push_back(name);
  }

  // By a constant of some stream, whose place there is awaited or not.
  void Scale(const std::string& name, const std::string& a) {
    if (constants_.empty() || Below(2) == 0) {
      constants_.push_back("c" + name);
      text_ += fmt::format(
          "  %{} = constant() {{value=f32[](-1.0)}} on {} : f32[]\n",
          constants_.back(), ComputeStream());
    }
    const std::string& c = constants_[Below(constants_.size())];
    text_ += fmt::format(
        "  %{} = mul(%{}, %{}) on {} after(%{}{}) : f32[500]\n", name, a, c,
        ComputeStream(), a, Below(2) == 0 ? ", %" + c : "");
    ready_.push_back(name);
  }

  // Of one to three values that are partial over the same axis.
  void Start() {
    int axis = Below(2), count = 1 + Below(3), size = axis == 0 ? 500 : 2000;
    std::string names, operands, types;
    for (int i = 0; i < count; ++i) {
      std::string_view comma = i > 0 ? ", " : "";
      std::string name = fmt::format("v{}", next_++);
      names += fmt::format("{}%{}", comma, name);
      operands += fmt::format("{}%{}", comma,
                              partial_[axis][Below(partial_[axis].size())]);
      types += fmt::format("{}future f32[{}]", comma, size);
      flying_.push_back({name, size});
    }
    std::string_view axes = axis == 0 ? "tp" : "dp";
    text_ +=
        fmt::format("  {} = start all_reduce({}) {{axes={}}} on {}{} : {}\n",
                    names, operands, axes, axes, Below(2), types);
  }

  void MakePartial() {
    int axis = Below(2);
    std::string name = fmt::format("v{}", next_++);
    std::vector<std::string>& pool = partial_[axis];
    const std::string a = pool[Below(pool.size())];
    const std::string b = pool[Below(pool.size())];
    text_ += fmt::format(
        "  %{} = add(%{}, %{}) on {} after(%{}, %{}) : f32[{}] partial({})\n",
        name, a, b, ComputeStream(), a, b, axis == 0 ? 500 : 2000,
        axis == 0 ? "tp" : "dp");
    pool.push_back(name);
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
  bool joins_;
  std::string text_;
  int next_ = 0;
  std::vector<std::string> ready_ = {"x"};
  std::vector<std::string> constants_;
  std::vector<std::string> partial_[2] = {{"p"}, {"q"}};  // over tp, over dp
  std::vector<Flying> flying_;
};

}  // namespace asyra
