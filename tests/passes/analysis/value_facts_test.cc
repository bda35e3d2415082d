#include "passes/analysis/value_facts.h"

#include <random>

#include "gtest/gtest.h"
#include "ir/interpreter.h"
#include "ir/support/check.h"
#include "passes/rewrite/rewriter.h"
#include "tests/support/untyped.h"

namespace asyra {
namespace {

double ValueAt(const Fact& fact, const Shape& shape, int64_t at) {
  std::vector<double> index(shape.size());
  for (size_t i = shape.size(); i-- > 0; at /= shape[i]) {
    index[i] = static_cast<double>(at % shape[i]);
  }
  auto evaluate = [&](const Affine& affine) {
    double value = affine.offset;
    for (size_t i = 0; i < index.size(); ++i) {
      value += affine.strides[i] * index[i];
    }
    return value;
  };
  if (fact.kind == Fact::kAffine) return evaluate(fact.affine);
  for (const Affine& affine : fact.all) {
    if (evaluate(affine) < 0) return fact.no;
  }
  return fact.yes;
}

// Facts about every value of a random program of position arithmetic, checked
// element by element against the interpreter.
class RandomProgram {
 public:
  explicit RandomProgram(uint64_t seed) : random_(seed) {
    for (int i = 0; i < 3; ++i) {
      text_ += fmt::format("v{} = iota() {{shape=[4,5], dim={}, dtype=i64}}\n",
                           i, i % 2);
      numbers_.push_back(fmt::format("v{}", i));
    }
    for (int i = 3; i < 30; ++i) Add(i);
    for (const auto& list : {numbers_, bools_}) {
      for (const std::string& name : list) text_ += "out " + name + "\n";
    }
  }
  const std::string& text() const { return text_; }

 private:
  const std::string& Pick(const std::vector<std::string>& from) {
    return from[random_() % from.size()];
  }

  void Add(int i) {
    std::string name = fmt::format("v{}", i);
    std::string a = Pick(numbers_), b = Pick(numbers_);
    switch (random_() % 9) {
      case 0:
      case 1: {
        const char* ops[] = {"add", "sub", "max", "min", "mul"};
        text_ +=
            fmt::format("{} = {}({}, {})\n", name, ops[random_() % 5], a, b);
        return numbers_.push_back(name);
      }
      case 2:
        text_ += fmt::format("{} = neg({})\n", name, a);
        return numbers_.push_back(name);
      case 3:
        text_ += fmt::format(
            "s{0} = slice({1}) {{dim=1, start={2}, stop={3}}}\n"
            "t{0} = slice({4}) {{dim=1, start=0, stop={2}}}\n"
            "{5} = concat(t{0}, s{0}) {{dim=1}}\n",
            i, a, 1 + i % 4, 5, b, name);
        return numbers_.push_back(name);
      case 4:
        text_ += fmt::format("c{0} = {1} i64\n{2} = add({3}, c{0})\n", i,
                             static_cast<int>(random_() % 7) - 3, name, a);
        return numbers_.push_back(name);
      case 5:
        if (bools_.empty()) break;
        text_ += fmt::format("{} = cast({}) {{to=i64}}\n", name, Pick(bools_));
        return numbers_.push_back(name);
      case 6:
        if (bools_.empty()) break;
        text_ += fmt::format("{} = {}({}, {})\n", name,
                             random_() % 2 == 0 ? "and" : "or", Pick(bools_),
                             Pick(bools_));
        return bools_.push_back(name);
      case 7:
        if (bools_.empty()) break;
        text_ += fmt::format("{} = not({})\n", name, Pick(bools_));
        return bools_.push_back(name);
      default:
        break;
    }
    const char* ops[] = {"less", "less_equal", "equal"};
    text_ += fmt::format("{} = {}({}, {})\n", name, ops[random_() % 3], a, b);
    bools_.push_back(name);
  }

  std::mt19937_64 random_;
  std::string text_;
  std::vector<std::string> numbers_, bools_;
};

TEST(ValueFacts, AreTrueOfRandomPrograms) {
  int known = 0, masks = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomProgram random(seed);
    Program program = ASYRA_VALUE(ParseUntyped(random.text()));
    Rewriter rewriter(program, {});
    ASYRA_CHECK_OK(rewriter.CopyAll());
    std::vector<Tensor> values = ASYRA_VALUE(Interpret(program, {}));
    for (size_t i = 0; i < values.size(); ++i) {
      const Fact& fact =
          rewriter.fact(rewriter.Mapped(program.outputs[i].value));
      if (fact.kind == Fact::kUnknown) continue;
      ++known;
      masks += fact.kind == Fact::kPredicate;
      for (int64_t at = 0; at < values[i].num_elements(); ++at) {
        ASSERT_EQ(ValueAt(fact, values[i].shape(), at), values[i].Get(at))
            << random.text();
      }
    }
  }
  // The test would say little if next to nothing were known.
  EXPECT_GT(known, 2000);
  EXPECT_GT(masks, 300);
}

Tensor Mask(bool (*seen)(int64_t i, int64_t j)) {
  Tensor data(DType::kBool, {1, 6, 7});
  for (int64_t at = 0; at < 42; ++at) data.SetInt(at, seen(at / 7, at % 7));
  return data;
}

TEST(FactOfData, ReadsBands) {
  Fact causal = FactOfData(Mask([](int64_t i, int64_t j) { return j <= i; }));
  ASSERT_TRUE(causal.IsMask(1, 0));
  EXPECT_EQ(causal.all.size(), 1u);
  Fact window = FactOfData(
      Mask([](int64_t i, int64_t j) { return j <= i && j > i - 3; }));
  ASSERT_TRUE(window.IsMask(1, 0));
  EXPECT_EQ(window.all.size(), 2u);
}

TEST(FactOfData, OneElementThatDiffersEndsIt) {
  for (int64_t hole = 0; hole < 42; ++hole) {
    Tensor data = Mask([](int64_t i, int64_t j) { return j <= i + 1; });
    Tensor broken(DType::kBool, {1, 6, 7});
    for (int64_t at = 0; at < 42; ++at) {
      broken.SetInt(at, at == hole ? !data.GetInt(at) : data.GetInt(at));
    }
    Fact fact = FactOfData(broken);
    if (fact.kind == Fact::kUnknown) continue;
    // A band of another kind may remain; it must be what is stored.
    for (int64_t at = 0; at < 42; ++at) {
      ASSERT_EQ(ValueAt(fact, {1, 6, 7}, at), broken.Get(at)) << hole;
    }
  }
}

TEST(FactOfData, ReadsPositionsAndNothingElse) {
  Tensor positions = Tensor::FromInts(DType::kI64, {2, 3}, {5, 7, 9, 5, 7, 9});
  Fact fact = FactOfData(positions);
  ASSERT_EQ(fact.kind, Fact::kAffine);
  EXPECT_EQ(fact.affine.offset, 5);
  EXPECT_EQ(fact.affine.strides[1], 2);
  Tensor other = Tensor::FromInts(DType::kI64, {5}, {0, 1, 2, 3, 5});
  EXPECT_EQ(FactOfData(other).kind, Fact::kUnknown);
  Tensor huge = Tensor::FromInts(DType::kI64, {2}, {INT64_MAX, INT64_MAX});
  EXPECT_EQ(FactOfData(huge).kind, Fact::kUnknown);
  EXPECT_EQ(FactOfData(Tensor(DType::kF32, {0, 3})).kind, Fact::kUnknown);
}

}  // namespace
}  // namespace asyra
