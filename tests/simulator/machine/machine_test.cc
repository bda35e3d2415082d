#include "simulator/machine/machine.h"

#include <fstream>

#include "gmock/gmock.h"
#include "ir/support/check.h"
#include "ir/support/status.h"
#include "simulator/cost/load_machine.h"
#include "simulator/machine/machine_file.h"
#include "tests/simulator/test_support.h"

namespace asyra {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(std::string_view text) {
  absl::StatusOr<Machine> machine = ParseMachine(text, "my.machine");
  EXPECT_FALSE(machine.ok());
  return machine.ok() ? "" : std::string(MessageOf(machine.status()));
}

std::string ErrorAfter(std::string_view from, std::string_view to) {
  return ErrorOf(Replaced(std::string(kTestMachine), from, to));
}

TEST(Machine, EveryEmbeddedMachineLoads) {
  EXPECT_THAT(ListMachines(),
              testing::ElementsAre("a100x8", "a800x8", "b200x8", "h100x8",
                                   "h200x2", "h200x4", "h200x8", "h20x8",
                                   "h800x8", "l20x8", "l4x8", "rtx4090x8"));
  for (const std::string& name : ListMachines()) {
    absl::StatusOr<Machine> machine = LoadMachine(name);
    ASSERT_TRUE(machine.ok()) << machine.status();
    EXPECT_EQ(machine->name, name);
    EXPECT_EQ(machine->collectives.size(), 5u);
  }
}

TEST(Machine, ReadsWhatTheFileSays) {
  Machine machine = TestMachine();
  EXPECT_EQ(machine.gpu.sms, 100);
  EXPECT_EQ(machine.gpus_per_host, 4);
  EXPECT_EQ(machine.network_gbps.achievable, 0.5);
  EXPECT_EQ(machine.collectives.at(CollectiveKind::kAllGather).ctas, 50);
  EXPECT_EQ(machine.protocols[0].ring_base_us, 10);
  EXPECT_EQ(machine.network_share_gbps(), 0.5);
}

TEST(Machine, ReadsAPathFromDisk) {
  std::string path = testing::TempDir() + "/mine.machine";
  std::ofstream(path) << kTestMachine;
  absl::StatusOr<Machine> machine = LoadMachine(path);
  ASSERT_TRUE(machine.ok()) << machine.status();
  EXPECT_EQ(machine->name, "test");
}

std::string Written(const std::string& name, std::string_view text) {
  std::string path = testing::TempDir() + "/" + name + ".machine";
  std::ofstream(path) << text;
  return path;
}

TEST(Machine, AFileMayHoldOnlyWhatDiffersFromItsBase) {
  std::string path =
      Written("large", R"({"base": "h200x8", "gpu": {"hbm_gib": 280}})");
  Machine base = ASYRA_VALUE(LoadMachine("h200x8"));
  Machine large = ASYRA_VALUE(LoadMachine(path));
  EXPECT_EQ(large.name, "large");
  EXPECT_EQ(large.gpu.hbm_gib, 280);
  EXPECT_EQ(large.gpu.sms, base.gpu.sms);
  EXPECT_TRUE(large.edited);
  EXPECT_EQ(large.table == nullptr, base.table == nullptr);
  // A path is relative to the file that names it.
  path = Written("four", R"({"base": "large.machine", "nodes": 4})");
  Machine four = ASYRA_VALUE(LoadMachine(path, {"gpu.hbm_gib*=2"}));
  EXPECT_EQ(four.nodes, 4);
  EXPECT_EQ(four.gpu.hbm_gib, 560);
  path = Written("named", R"({"base": "h200x8", "name": "mine"})");
  EXPECT_FALSE(ASYRA_VALUE(LoadMachine(path)).edited);
}

TEST(Machine, WrongBasesAreRefused) {
  Written("a", R"({"base": "b.machine"})");
  Written("b", R"({"base": "./a.machine"})");
  const std::pair<const char*, const char*> cases[] = {
      {R"({"base": "h300"})",
       "base: machine h300 is not known; there are a100x8"},
      {R"({"base": 8})", "base: should be the name or path of a machine"},
      {R"({"base": "none.machine"})",
       "none.machine: No such file or directory"},
      {R"({"base": "a.machine"})", "a machine is its own base: "},
      {R"({"base": "h200x8", "gpus": 4})", "gpus"},
      {R"({"base": "h200x8", "gpu": {"hbm_gbps": 1}})", "hbm_gbps"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_THAT(
        std::string(LoadMachine(Written("wrong", text)).status().message()),
        testing::AllOf(HasSubstr("wrong.machine"), HasSubstr(message)));
  }
}

TEST(Machine, UnknownNamesListTheKnownOnes) {
  EXPECT_EQ(MessageOf(LoadMachine("h300").status()),
            "machine h300 is not known; there are a100x8, a800x8, b200x8, "
            "h100x8, h200x2, h200x4, h200x8, h20x8, h800x8, l20x8, l4x8, "
            "rtx4090x8, or give "
            "the path of a .machine file");
  EXPECT_EQ(MessageOf(LoadMachine("/no/such.machine").status()),
            "/no/such.machine: No such file or directory");
}

TEST(Machine, ErrorsNameFileKeyAndValue) {
  EXPECT_EQ(ErrorOf("{"), "my.machine: line 1 is no JSON");
  EXPECT_EQ(ErrorOf(""), "my.machine: line 1 is no JSON");
  EXPECT_EQ(ErrorOf("{\n\"schema\": 3,\n\"name\" \"x\"\n}"),
            "my.machine: line 3 is no JSON");
  EXPECT_EQ(ErrorOf("[]"), "my.machine: should be an object");
  EXPECT_EQ(ErrorAfter("\"sms\": 100", "\"smms\": 100"),
            "my.machine: gpu.smms: is not a known key, and gpu.sms is missing");
  EXPECT_EQ(ErrorAfter("\"sms\": 100, ", ""),
            "my.machine: gpu.sms: is missing");
  EXPECT_EQ(ErrorAfter("\"sms\": 100", "\"sms\": 100, \"sm\": 1"),
            "my.machine: gpu.sm: is not a known key");
  EXPECT_EQ(ErrorAfter("\"sms\": 100", "\"sms\": \"many\""),
            "my.machine: gpu.sms: should be a whole number");
  EXPECT_EQ(ErrorAfter("\"sms\": 100", "\"sms\": 0"),
            "my.machine: gpu.sms: is 0, it should lie in [1, 1024]");
  EXPECT_EQ(ErrorAfter("\"launch_us\": 0", "\"launch_us\": -1"),
            "my.machine: launch_us: is -1, it should lie in [0, 1000]");
  EXPECT_EQ(ErrorAfter("\"gpu\": {", "\"gpu\": 3, \"old\": {"),
            "my.machine: gpu: should be an object");
  EXPECT_EQ(ErrorAfter("\"schema\": 4", "\"schema\": 2"),
            "my.machine: schema: is 2, it should lie in [3, 4]");
  EXPECT_EQ(ErrorAfter("\"hbm_gbps\": {\"peak\": 1,",
                       "\"hbm_gbps\": {\"peak\": 4800000,"),
            "my.machine: gpu.hbm_gbps.peak: is 4800000, it should lie in [1, "
            "100000]");
  EXPECT_EQ(ErrorAfter("\"nvlink\"", "\"infiniband\""),
            "my.machine: host.link: is infiniband, it should be nvlink or "
            "pcie");
  EXPECT_EQ(ErrorAfter("\"p2p\": true", "\"p2p\": 1"),
            "my.machine: host.p2p: should be true or false");
  EXPECT_EQ(ErrorAfter("\"p2p\": true", "\"p2p\": false"),
            "my.machine: host.memory_gbps: is missing");
}

TEST(Machine, AllMissingKeysAreNamedAtOnce) {
  std::string text(kTestMachine);
  for (const char* key :
       {"\"sms\": 100, ", "\"p2p\": true, ", "\"launch_us\": 0,",
        "\"alpha_us\": 100", "\"gpu\": \"made up\", ", "\"op\": 0, "}) {
    text = Replaced(text, key, "");
  }
  text = Replaced(text, "\"achievable\": 0.5},", "\"achievable\": 0.5}");
  // Numbers are looked at when all keys are there.
  text = Replaced(text, "\"nics\": 4", "\"nics\": 0");
  EXPECT_EQ(ErrorOf(text),
            "my.machine: gpu.sms, gpu.library_mib.op, launch_us, host.p2p, "
            "network.alpha_us, sources.gpu: are missing");
}

// What `edits` make of the H200 host, or the error.
absl::StatusOr<Machine> Edited(std::vector<std::string> edits) {
  return LoadMachine("h200x8", edits);
}
std::string ErrorOfEdit(std::string edit) {
  return std::string(MessageOf(Edited({std::move(edit)}).status()));
}

TEST(MachineEdit, ChangesTheFieldsItNames) {
  Machine machine = ASYRA_VALUE(Edited(
      {"gpu.hbm_gib=80", "gpu.hbm_gbps=2400", "launch_us*=2", "nodes=4"}));
  EXPECT_EQ(machine.gpu.hbm_gib, 80);
  EXPECT_EQ(machine.gpu.hbm_gbps.peak, 2400);
  EXPECT_EQ(machine.gpu.hbm_gbps.achievable, 2130);  // as 4260 of 4800
  EXPECT_EQ(machine.launch_us, 2 * ASYRA_VALUE(Edited({})).launch_us);
  EXPECT_EQ(machine.nodes, 4);
  machine = ASYRA_VALUE(Edited({"gpu.hbm_gbps.achievable=3000"}));
  EXPECT_EQ(machine.gpu.hbm_gbps.peak, 4800);
  EXPECT_EQ(machine.gpu.hbm_gbps.achievable, 3000);
}

TEST(MachineEdit, SmsAndClockCarryTheRates) {
  Machine whole = ASYRA_VALUE(LoadMachine("h200x8"));
  Machine half = ASYRA_VALUE(Edited({"gpu.sms=66"}));
  EXPECT_EQ(half.gpu.sms, 66);
  EXPECT_DOUBLE_EQ(half.gpu.matrix_tflops.at("bf16").peak,
                   whole.gpu.matrix_tflops.at("bf16").peak / 2);
  Machine slow = ASYRA_VALUE(Edited({"gpu.clock_mhz*=0.5"}));
  EXPECT_DOUBLE_EQ(slow.gpu.vector_tflops.achievable,
                   whole.gpu.vector_tflops.achievable / 2);
}

TEST(MachineEdit, ErrorsNameTheEdit) {
  EXPECT_EQ(ErrorOfEdit("gpu.sms"),
            "gpu.sms: should be KEY=VALUE or KEY*=FACTOR");
  EXPECT_EQ(ErrorOfEdit("gpu.sms=many"), "gpu.sms=many: many is not a number");
  EXPECT_EQ(ErrorOfEdit("gpu.hbm_gbps=true"),
            "gpu.hbm_gbps: should be a number");
  EXPECT_THAT(ErrorOfEdit("gpus.sms=1"),
              testing::StartsWith("gpus.sms: there is no such number; the "
                                  "nearest are gpu.sms, "));
  EXPECT_THAT(ErrorOfEdit("gpu.sms.x=1"),
              testing::StartsWith("gpu.sms.x: there is no such number"));
  EXPECT_EQ(ErrorOfEdit("sources=1"),
            "sources: is a group of fields: gpu, host, network");
  EXPECT_EQ(ErrorOfEdit("gpu.sm=1"),
            "h200x8 with gpu.sm=1: gpu.sm: is not a known key");
  EXPECT_THAT(ErrorOfEdit("gpu.sm*=2"),
              testing::StartsWith("gpu.sm: there is no such number; the "
                                  "nearest are gpu.sms, "));
  EXPECT_EQ(ErrorOfEdit("nvlink=2"),
            "nvlink: is a group of numbers, give a factor: nvlink*=2");
  EXPECT_EQ(ErrorOfEdit("pcie*=2"), "pcie: the link of this machine is nvlink");
  EXPECT_EQ(ErrorOfEdit("launch_us=-1"),
            "h200x8 with launch_us=-1: launch_us: is -1, it should lie in [0, "
            "1000]");
  EXPECT_EQ(ErrorOfEdit("gpu.matrix_tflops.bf16=1979"),
            "h200x8 with gpu.matrix_tflops.bf16=1979: "
            "gpu.matrix_tflops.bf16.peak: is 1979, but 132 SMs at 1830 MHz do "
            "989 dense");
}

TEST(MachineEdit, EveryNumberCanBeEdited) {
  std::vector<MachineNumber> numbers = ASYRA_VALUE(MachineNumbers("h200x8"));
  EXPECT_GT(numbers.size(), 20u);
  for (const MachineNumber& number : numbers) {
    EXPECT_TRUE(Edited({fmt::format("{}={}", number.key, number.value)}).ok())
        << number.key;
  }
}

TEST(MachineEdit, OnlyCountsAreRounded) {
  EXPECT_EQ(ASYRA_VALUE(Edited({"launch_us*=0.5"})).launch_us,
            ASYRA_VALUE(Edited({})).launch_us / 2);
  for (const MachineNumber& number : ASYRA_VALUE(MachineNumbers("h200x8"))) {
    absl::StatusOr<Machine> machine = Edited({number.key + "*=1.03"});
    if (machine.ok()) continue;
    EXPECT_THAT(machine.status().message(),
                testing::Not(testing::HasSubstr("whole")));
  }
}

TEST(Machine, CopyEnginesCanBeTakenAway) {
  absl::StatusOr<Machine> machine = LoadMachine(
      "h200x8", {"host.copy_engines=0", "host.process_copies=false"});
  ASSERT_TRUE(machine.ok()) << machine.status();
  EXPECT_EQ(machine->copy_engines, 0);
  EXPECT_FALSE(machine->process_copies);
  EXPECT_TRUE((*LoadMachine("h200x8")).process_copies);
  EXPECT_FALSE((*LoadMachine("a800x8")).process_copies);
}

TEST(Machine, NodesLimitTheMesh) {
  Machine machine = ASYRA_VALUE(Edited({"nodes=2"}));
  EXPECT_TRUE(CheckFits(ASYRA_VALUE(Mesh::Create({{"tp", 16}})), machine).ok());
  EXPECT_EQ(
      MessageOf(CheckFits(ASYRA_VALUE(Mesh::Create({{"tp", 32}})), machine)),
      "mesh (tp=32) has 32 devices, 2 nodes of h200x8 have 16");
  EXPECT_TRUE(CheckFits(ASYRA_VALUE(Mesh::Create({{"tp", 32}})),
                        ASYRA_VALUE(LoadMachine("h200x8")))
                  .ok());
}

TEST(Machine, RefusesImpossibleRates) {
  EXPECT_EQ(ErrorAfter("\"gbps\": {\"peak\": 0.5", "\"gbps\": {\"peak\": 0.4"),
            "my.machine: network.gbps: achievable 0.5 is above peak 0.4");
  // Twice the dense rate: the sheet's number for sparse operands.
  EXPECT_EQ(ErrorAfter("\"bf16\": {\"peak\": 100", "\"bf16\": {\"peak\": 200"),
            "my.machine: gpu.matrix_tflops.bf16.peak: is 200, but 100 SMs at "
            "1000 MHz do 100 dense");
  EXPECT_THAT(ErrorAfter("\"bf16\": {", "\"bf17\": {"),
              HasSubstr("gpu.matrix_tflops.bf17: is not an element type"));
}

TEST(Machine, RefusesALibraryWithoutProtocols) {
  EXPECT_EQ(
      ErrorAfter("[{\"name\": \"plain\", \"base_us\": 10, \"hop_us\": 0,\n"
                 "                   \"network_hop_us\": 0, "
                 "\"fraction\": 1}]",
                 "[]"),
      "my.machine: host.protocols: should be a list that is not empty");
}

TEST(Machine, AFactorOfAGroupIsOneOfItsNumbers) {
  Machine base = *LoadMachine("h100x8");
  Machine machine = *LoadMachine("h100x8", {"nvlink*=2", "launch*=0.5"});
  EXPECT_EQ(machine.link_gbps.peak, 2 * base.link_gbps.peak);
  EXPECT_EQ(machine.link_gbps.achievable, 2 * base.link_gbps.achievable);
  EXPECT_EQ(machine.copy_gbps.peak, 2 * base.copy_gbps.peak);
  EXPECT_EQ(machine.cta_gbps, 2 * base.cta_gbps);
  EXPECT_EQ(machine.launch_us, base.launch_us / 2);
  EXPECT_EQ(machine.graph_launch_us, base.graph_launch_us / 2);
  EXPECT_EQ(machine.gpu.hbm_gbps.peak, base.gpu.hbm_gbps.peak);
  Machine faster = *LoadMachine("h100x8", {"matrix*=2"});
  for (const auto& [dtype, rate] : base.gpu.matrix_tflops) {
    EXPECT_EQ(faster.gpu.matrix_tflops.at(dtype).peak, 2 * rate.peak);
  }
  EXPECT_EQ(LoadMachine("l4x8", {"pcie*=2"})->link_gbps.peak,
            2 * LoadMachine("l4x8")->link_gbps.peak);
}

}  // namespace
}  // namespace asyra
