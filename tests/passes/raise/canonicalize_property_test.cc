// Random programs of views, elementwise ops and matmuls mean the same after
// canonicalizing, and a second run finds nothing.
#include <random>

#include "ir/interpreter.h"
#include "ir/weights/weight_store.h"
#include "passes/raise/raise_activation.h"
#include "passes/raise/raise_attention.h"
#include "passes/raise/raise_norm.h"
#include "passes/raise/raise_rotary.h"
#include "tests/passes/transformed.h"

namespace asyra {
namespace {

class RandomProgram {
 public:
  explicit RandomProgram(uint64_t seed) : random_(seed) {
    Input("x", {2, 3, 4});
    Input("y", {6, 4});
    Input("z", {2, 3, 4});
    text_ += "weight w f32[4,4]\nweight g f32[4]\n";
    text_ += "half = 0.5\nzero = 0\none = 1\n";
    for (int i = 0; i < 25; ++i) Add(fmt::format("v{}", i));
    // What nothing reads is put out, and one value more.
    for (const Value& value : values_) {
      if (!value.read) text_ += fmt::format("out {}\n", value.name);
    }
    text_ += fmt::format("out {}\n", Pick().name);
  }
  const std::string& text() const { return text_; }

 private:
  struct Value {
    std::string name;
    Shape shape;
    bool read = false;
  };

  int64_t Below(int64_t limit) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(limit));
  }

  void Input(const std::string& name, const Shape& shape) {
    text_ += fmt::format("in {} f32{}\n", name, ShapeToString(shape));
    values_.push_back({name, shape});
  }

  Value& Pick() {
    // Recent values more often, so that chains get long.
    size_t count = values_.size(), recent = std::min<size_t>(count, 4);
    size_t from = Below(2) == 0 ? 0 : count - recent;
    Value& value = values_[from + Below(count - from)];
    value.read = true;
    return value;
  }

  // The same elements under another shape.
  Shape Regroup(const Shape& shape) {
    Shape result = shape;
    for (int i = 0; i < 2; ++i) {
      int64_t at = Below(static_cast<int64_t>(result.size()));
      int64_t size = result[at];
      if (Below(2) == 0 && at > 0) {
        result[at - 1] *= size;
        result.erase(result.begin() + at);
      } else if (result.size() < 6) {
        int64_t divisor = size % 2 == 0 ? 2 : size % 3 == 0 ? 3 : 1;
        result[at] = size / divisor;
        result.insert(result.begin() + at + Below(2), divisor);
      }
    }
    return result;
  }

  void Put(const std::string& name, const std::string& call, Shape shape) {
    text_ += fmt::format("{} = {}\n", name, call);
    values_.push_back({name, std::move(shape)});
  }

  void AddView(const std::string& name, const Value& x) {
    auto rank = static_cast<int64_t>(x.shape.size());
    int64_t dim = Below(rank);
    switch (Below(5)) {
      case 0: {
        Shape shape = Regroup(x.shape);
        return Put(name,
                   fmt::format("reshape({}) {{shape={}}}", x.name,
                               ShapeToString(shape)),
                   shape);
      }
      case 1: {
        Shape perm, shape;
        for (int64_t i = 0; i < rank; ++i) perm.push_back(i);
        std::shuffle(perm.begin(), perm.end(), random_);
        for (int64_t i : perm) shape.push_back(x.shape[i]);
        return Put(name,
                   fmt::format("transpose({}) {{perm={}}}", x.name,
                               ShapeToString(perm)),
                   shape);
      }
      case 2: {
        Shape shape = x.shape;
        int64_t start = Below(shape[dim]);
        shape[dim] -= start;
        return Put(
            name,
            fmt::format("slice({}) {{dim={}, start={}, stop={}}}", x.name,
                        dim - rank * Below(2), start, x.shape[dim]),
            shape);
      }
      case 3: {
        if (NumElements(x.shape) > 300 || rank > 4) break;
        Shape shape = x.shape;
        shape.insert(shape.begin(), 2);
        return Put(name,
                   fmt::format("broadcast({}) {{shape={}}}", x.name,
                               ShapeToString(shape)),
                   shape);
      }
      default: {
        if (NumElements(x.shape) > 300) break;
        Shape shape = x.shape;
        shape[dim] *= 2;
        return Put(
            name, fmt::format("concat({}, {}) {{dim={}}}", x.name, x.name, dim),
            shape);
      }
    }
    Put(name, fmt::format("neg({})", x.name), x.shape);
  }

  void AddMath(const std::string& name, const Value& x) {
    bool rows_of_4 = x.shape.back() == 4;
    switch (Below(8)) {
      case 0:
        return Put(name, fmt::format("tanh({})", x.name), x.shape);
      case 1:
        return Put(name, fmt::format("mul({}, half)", x.name), x.shape);
      case 2:
        return Put(name,
                   fmt::format("{}({}, {})", Below(2) ? "add" : "sub", x.name,
                               Below(2) ? "zero" : "one"),
                   x.shape);
      case 3:
        return Put(name, fmt::format("softmax({})", x.name), x.shape);
      case 4:
        if (!rows_of_4) break;
        return Put(name, fmt::format("rms_norm({}, g) {{eps=0.1}}", x.name),
                   x.shape);
      case 5:
        if (!rows_of_4) break;
        return Put(name, fmt::format("add(g, {})", x.name), x.shape);
      case 6:
        if (!rows_of_4 || x.shape.size() < 2) break;
        return Put(name, fmt::format("matmul({}, w)", x.name), x.shape);
      default: {
        for (size_t i = values_.size(); i-- > 0;) {
          if (values_[i].shape != x.shape || values_[i].name == x.name) {
            continue;
          }
          values_[i].read = true;
          return Put(name,
                     fmt::format("{}({}, {})", Below(2) ? "add" : "mul",
                                 values_[i].name, x.name),
                     x.shape);
        }
      }
    }
    Put(name, fmt::format("sigmoid({})", x.name), x.shape);
  }

  void Add(const std::string& name) {
    Value x = Pick();
    if (Below(2) == 0) {
      AddView(name, x);
    } else {
      AddMath(name, x);
    }
  }

  std::mt19937_64 random_;
  std::string text_;
  std::vector<Value> values_;
};

// With data, so that parts of weights can be made.
void FillWeights(Program* program, uint64_t seed) {
  auto store = std::make_shared<WeightStore>();
  std::vector<Tensor> data = RandomInputs(*program, seed, 2);
  for (size_t i = 0; i < data.size(); ++i) {
    if (program->inputs[i].role != InputRole::kWeight) continue;
    store->Set(program->value_name(program->inputs[i].value), data[i]);
  }
  program->weights = store;
}

TEST(CanonicalizeProperty, RandomProgramsMeanTheSame) {
  size_t before_ops = 0, after_ops = 0;
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    RandomProgram random(seed);
    SCOPED_TRACE(fmt::format("seed {}\n{}", seed, random.text()));
    Program before = ASYRA_VALUE(ParseUntyped(random.text()));
    FillWeights(&before, seed);
    Program after = before;
    PassContext context;
    for (PassFn pass :
         {PassFn(Canonicalize), PassFn(RaiseNorm), PassFn(RaiseActivation),
          PassFn(RaiseRotary), PassFn(RaiseAttention), PassFn(Canonicalize)}) {
      auto changed = pass(after, {}, context);
      ASSERT_TRUE(changed.ok()) << changed.status();
      ASSERT_TRUE(Verify(after).ok()) << Verify(after) << ToString(after);
    }
    absl::Status same = SameMeaning(before, after, seed, 1e-5);
    ASSERT_TRUE(same.ok()) << same << ToString(after);
    Program again = after;
    ASSERT_FALSE(Canonicalize(again, {}, context).value())
        << ToString(after) << ToString(again);
    before_ops += before.ops.size();
    after_ops += after.ops.size();
  }
  EXPECT_LT(after_ops, before_ops);
}

}  // namespace
}  // namespace asyra
