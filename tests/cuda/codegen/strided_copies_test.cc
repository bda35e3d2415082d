// Strided copies of boxes move what a copy of the box moves. Without a GPU:
// their loops are run here.
#include "executor/cuda/comm/strided_copies.h"

#include <cstring>
#include <random>

#include "gtest/gtest.h"

namespace asyra::cuda {
namespace {

void RunOnHost(const StridedCopyAt& part) {
  const StridedCopy& c = part.copy;
  for (int64_t b = 0; b < c.blocks; ++b) {
    for (int64_t o = 0; o < c.outer; ++o) {
      for (int64_t m = 0; m < c.middle; ++m) {
        std::memcpy(
            part.to + b * c.to_block + o * c.to_outer + m * c.to_middle,
            part.from + b * c.from_block + o * c.from_outer + m * c.from_middle,
            c.run_bytes);
      }
    }
  }
}

class Boxes {
 public:
  explicit Boxes(uint32_t seed) : random_(seed) {}

  // Two tensors that hold parts of one value, and what both have.
  BoxCopy Make() {
    BoxCopy copy{.element_bytes = Upto(2) == 1 ? 4 : 2};
    int64_t rank = Upto(6);
    for (int64_t d = 0; d < rank; ++d) {
      int64_t size = Upto(4), start = Upto(3);
      bool whole = Upto(2) == 1;
      copy.what.start.push_back(start);
      copy.what.size.push_back(size);
      for (Box* box : {&copy.from_box, &copy.to_box}) {
        int64_t before = whole ? 0 : Upto(3) - 1, after = whole ? 0 : Upto(2);
        before = std::min(before, start);
        box->start.push_back(start - before);
        box->size.push_back(before + size + after);
      }
    }
    return copy;
  }

 private:
  int64_t Upto(int64_t most) {
    return 1 + static_cast<int64_t>(random_() % most);
  }
  std::mt19937 random_;
};

TEST(StridedCopies, MoveTheBox) {
  int loops = 0, several = 0;
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    BoxCopy copy = Boxes(seed).Make();
    std::vector<std::byte> from(copy.from_box.elements() * copy.element_bytes);
    for (size_t i = 0; i < from.size(); ++i) from[i] = std::byte(i * 37 + 1);
    std::vector<std::byte> want(copy.to_box.elements() * copy.element_bytes);
    std::vector<std::byte> got = want;
    CopyBox(from.data(), copy.from_box, want.data(), copy.to_box, copy.what,
            copy.element_bytes);
    copy.from = from.data();
    copy.to = got.data();
    std::vector<StridedCopyAt> parts = StridedCopiesOf(copy);
    for (const StridedCopyAt& part : parts) RunOnHost(part);
    ASSERT_EQ(got, want) << "seed " << seed;
    loops += parts[0].copy.blocks > 1;
    several += parts.size() > 1;
  }
  EXPECT_GT(loops, 100);
  EXPECT_GT(several, 100);
}

}  // namespace
}  // namespace asyra::cuda
