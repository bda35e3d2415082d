// Facts about stored tensors: constants, and weights that hold positions or
// masks.
#include <algorithm>
#include <cmath>
#include <optional>

#include "passes/analysis/value_facts.h"

namespace asyra {
namespace {

constexpr double kExactInt = 9007199254740992.0;  // 2^53

// The band of row i, columns from i - below to i + above; nullopt: no limit is
// seen.
struct Band {
  std::optional<int64_t> below, above;
  bool Contains(int64_t i, int64_t j) const {
    return (!above || j - i <= *above) && (!below || i - j <= *below);
  }
};

std::optional<Affine> ReadAffine(const Tensor& data) {
  Affine affine;
  affine.offset = data.Get(0);
  if (!IsFloat(data.dtype()) && std::abs(affine.offset) > kExactInt) {
    return std::nullopt;
  }
  int rank = data.rank();
  affine.strides.assign(rank, 0);
  int64_t step = 1;
  for (int i = rank - 1; i >= 0; --i) {
    if (data.size(i) > 1) affine.strides[i] = data.Get(step) - affine.offset;
    step *= data.size(i);
  }
  std::vector<int64_t> index(rank, 0);
  for (int64_t at = 0; at < data.num_elements(); ++at) {
    double expected = affine.offset;
    for (int i = 0; i < rank; ++i) {
      expected += affine.strides[i] * static_cast<double>(index[i]);
    }
    if (!(data.Get(at) == expected)) return std::nullopt;
    for (int i = rank - 1; i >= 0 && ++index[i] == data.size(i); --i) {
      index[i] = 0;
    }
  }
  auto whole = [](double x) { return x == std::trunc(x); };
  if (!affine.is_uniform() &&
      !(whole(affine.offset) &&
        std::all_of(affine.strides.begin(), affine.strides.end(), whole))) {
    return std::nullopt;
  }
  return affine;
}

// Returns the band that the first matrix suggests, to be checked.
Band GuessBand(const Tensor& data, double yes) {
  int64_t rows = data.size(data.rank() - 2), cols = data.size(data.rank() - 1);
  Band band;
  for (int64_t i = 0; i < rows && !(band.above && band.below); ++i) {
    int64_t low = 0, high = cols - 1;
    while (low < cols && data.Get(i * cols + low) != yes) ++low;
    while (high >= 0 && data.Get(i * cols + high) != yes) --high;
    if (low > high) continue;
    if (high < cols - 1 && !band.above) band.above = high - i;
    if (low > 0 && !band.below) band.below = i - low;
  }
  return band;
}

bool IsBand(const Tensor& data, const Band& band, double yes, double no) {
  int64_t rows = data.size(data.rank() - 2), cols = data.size(data.rank() - 1);
  for (int64_t at = 0; at < data.num_elements(); ++at) {
    int64_t i = at / cols % rows, j = at % cols;
    if (data.Get(at) != (band.Contains(i, j) ? yes : no)) return false;
  }
  return true;
}

std::vector<Affine> Inequalities(const Band& band, int rank) {
  std::vector<Affine> all;
  auto add = [&](int64_t offset, double row, double col) {
    Affine affine;
    affine.offset = static_cast<double>(offset);
    affine.strides.assign(rank, 0);
    affine.strides[rank - 2] = row;
    affine.strides[rank - 1] = col;
    all.push_back(std::move(affine));
  };
  if (band.above) add(*band.above, 1, -1);
  if (band.below) add(*band.below, -1, 1);
  return all;
}

Fact ReadBand(const Tensor& data) {
  if (data.rank() < 2 || data.size(data.rank() - 1) < 2 ||
      data.size(data.rank() - 2) < 2) {
    return {};
  }
  double a = data.Get(0), b = a;
  int64_t matrix = data.size(data.rank() - 2) * data.size(data.rank() - 1);
  for (int64_t i = 1; i < matrix && b == a; ++i) b = data.Get(i);
  if (a == b) return {};
  // "Seen" is the larger one: true, or 0 beside -inf.
  double yes = std::max(a, b), no = std::min(a, b);
  Band band = GuessBand(data, yes);
  if (!band.above && !band.below) return {};
  if (!IsBand(data, band, yes, no)) return {};
  Fact fact;
  fact.kind = Fact::kPredicate;
  fact.all = Inequalities(band, data.rank());
  fact.yes = yes;
  fact.no = no;
  return fact;
}

}  // namespace

Fact FactOfData(const Tensor& data) {
  if (data.num_elements() == 0) return {};
  if (std::optional<Affine> affine = ReadAffine(data)) {
    Fact fact;
    fact.kind = Fact::kAffine;
    fact.affine = *std::move(affine);
    return fact;
  }
  return ReadBand(data);
}

}  // namespace asyra
