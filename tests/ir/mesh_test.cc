#include "ir/mesh.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ir/support/check.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Mesh, LastAxisVariesFastest) {
  Mesh mesh = ASYRA_VALUE(Mesh::Create({{"dp", 2}, {"sp", 3}, {"tp", 4}}));
  EXPECT_EQ(mesh.num_devices(), 24);
  EXPECT_EQ(mesh.Coordinate(17, 0), 1);
  EXPECT_EQ(mesh.Coordinate(17, 1), 1);
  EXPECT_EQ(mesh.Coordinate(17, 2), 1);
  EXPECT_THAT(mesh.Group(17, {2}), ElementsAre(16, 17, 18, 19));
  EXPECT_THAT(mesh.Group(17, {0}), ElementsAre(5, 17));
}

TEST(Mesh, GroupsFollowTheOrderOfTheAxes) {
  Mesh mesh = ASYRA_VALUE(Mesh::Create({{"a", 2}, {"b", 2}, {"c", 2}}));
  EXPECT_THAT(mesh.Group(0, {0, 2}), ElementsAre(0, 1, 4, 5));
  EXPECT_THAT(mesh.Group(0, {2, 0}), ElementsAre(0, 4, 1, 5));
  for (int64_t device = 0; device < 8; ++device) {
    for (const AxisList& axes :
         {AxisList{}, AxisList{1}, AxisList{2, 0}, AxisList{0, 1, 2}}) {
      std::vector<int64_t> group = mesh.Group(device, axes);
      EXPECT_EQ(group.size(), static_cast<size_t>(mesh.size(axes)));
      EXPECT_EQ(group[mesh.GroupIndex(device, axes)], device);
    }
  }
}

TEST(Mesh, AnEmptyMeshIsOneDevice) {
  Mesh mesh;
  EXPECT_EQ(mesh.num_devices(), 1);
  EXPECT_THAT(mesh.Group(0, {}), ElementsAre(0));
}

TEST(Mesh, BadAxesAreRefused) {
  auto error = [](std::vector<Mesh::Axis> axes) {
    return std::string(MessageOf(Mesh::Create(std::move(axes)).status()));
  };
  EXPECT_THAT(error({{"a", 2}, {"a", 4}}),
              HasSubstr("axis a is given twice, of size 2 and of 4"));
  EXPECT_THAT(error({{"a", 0}}), HasSubstr("axis a has size 0"));
  for (std::string name : {"", "2", "a@b", "a-b", " tp", "(a)"}) {
    EXPECT_THAT(error({{"dp", 2}, {name, 2}}),
                HasSubstr("axis 1 is called '" + name + "'"));
  }
  EXPECT_THAT(error({{"a", int64_t{1} << 40}, {"b", int64_t{1} << 40}}),
              HasSubstr("more than 2^31 devices"));
  EXPECT_THAT(error(std::vector<Mesh::Axis>(17, {"a", 1})),
              HasSubstr("17 axes"));
}

}  // namespace
}  // namespace asyra
