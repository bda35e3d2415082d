"""asyra-bench on the cpu: its file gives the costs of the program it was made for.

Usage: bench_test.py SOURCE_DIR TOOLS_DIR
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

from tool_test import SOURCE_DIR, TOOLS_DIR, ToolTest, run

GPT = ["gpt3-tiny", "--tp", "2", "--dim", "layers=1", "--dim", "batch=2",
       "--dim", "seq=32"]
CPU = ["--device", "cpu", "--bench-ranks", "2"]


class BenchTest(ToolTest):

  @classmethod
  def setUpClass(cls):
    """Measures GPT once, for the tests that begin with that."""
    scratch = tempfile.TemporaryDirectory()
    cls.addClassCleanup(scratch.cleanup)
    cls.measured_dir = scratch.name
    cls.result = run("asyra-bench", *GPT, *CPU, "--no-grid", "--machine-out",
                     os.path.join(scratch.name, "one.machine"))

  def measured_machine(self):
    """Name of the machine file of GPT, this test's own."""
    self.assertEqual(self.result.returncode, 0, self.result.stderr)
    for name in ["one.machine", "one.table"]:
      shutil.copy(os.path.join(self.measured_dir, name), self.dir)
    return self.path("one.machine")

  def test_a_doctor_says_what_a_machine_has(self):
    text = self.passes("asyra-bench", "--doctor")
    for word in ["host\n", "processes\n", "GPUs\n", " cores in ",
                 "shared memory: "]:
      self.assertIn(word, text.replace(" core in ", " cores in "))
    said = json.loads(self.passes("asyra-bench", "--doctor", "--json"))
    states = [one["state"] for one in said["findings"]]
    self.assertEqual(states.count("missing"), said["missing"])
    self.assertEqual(text.count("\n  ! "), said["missing"])
    for one in said["findings"]:
      self.assertEqual("advice" in one, one["state"] == "missing")
    self.fails("--json is for --doctor and --pairs", "asyra-bench", "--json")

  def test_pairs_are_measured_in_all_forms(self):
    table = self.path("pairs.table")
    said = json.loads(self.passes("asyra-bench", *CPU, "--no-grid", "--pairs",
                                  "--json", "-o", table))
    self.assertEqual(said["ranks"], 2)
    self.assertTrue(said["pairs"])
    for pair in said["pairs"]:
      forms = pair["forms"]
      measured = {form["kind"] for form in forms if "us" in form}
      self.assertEqual(measured,
                       {"matmul", "piece", "collective", "serial", "tiles",
                        "plan"})
      self.assertTrue(any(form.get("of_parts_us", 0) > 0 for form in forms))
      self.assertEqual([form.get("tuned") for form in forms].count(True), 1)
      self.assertGreater(pair["limit_us"], 0)
    with open(table) as file:
      calls = [point["call"] for point in json.load(file)["points"]]
    self.assertTrue(any(call.startswith("overlap(") for call in calls))
    self.fails("there is 1 rank, a collective needs 2", "asyra-bench",
               "--device", "cpu", "--bench-ranks", "1", "--no-grid", "--pairs")

  def test_pairs_are_set_beside_pytorch(self):
    """The benchmark for GPUs, on ranks of the cpu and with a PyTorch that is
    none: it fails in one mode."""
    torch = self.path("torch.py", '''import json, sys
for mode in sys.argv[2].split(","):
  for pair in json.load(open(sys.argv[1])):
    said = {"mode": mode, "pair": pair["name"]}
    said.update({"error": "no GPU"} if mode == "async" else {"us": 1e6})
    print(json.dumps(said))
''')
    raw = self.path("raw.json")
    done = subprocess.run(
        [sys.executable,
         os.path.join(SOURCE_DIR, "tests/benchmarks/gpu_pairs.py"), TOOLS_DIR,
         "--device", "cpu", "--json", raw, "--torch-launcher",
         f"{sys.executable} {torch}"], stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=300)
    self.assertEqual(done.returncode, 0, done.stderr)
    lines = done.stdout.splitlines()
    heads = lines[1].split()
    self.assertEqual(heads[0], "us")
    for word in ["limit", "NCCL", "tiles", "tuned", "/torch", "eager"]:
      self.assertIn(word, heads)
    with open(raw) as file:
      said = json.load(file)
    self.assertEqual(len(lines), 2 + len(said["pairs"]) + 4)
    for pair in said["pairs"]:
      self.assertEqual(said["torch"][pair["name"]],
                       {"eager": 1e6, "fused": 1e6, "async": "no GPU"})
      row = next(line for line in lines if line.startswith(pair["name"]))
      self.assertIn("1000000.0", row)
    self.assertIn("gather + matmul: ", lines[-4])
    self.assertIn("errors of prediction: median", lines[-2])
    self.assertIn("by the parts alone: median", lines[-1])

  def test_machine_costs_of_the_program_are_measured(self):
    machine = self.measured_machine()
    self.assertEqual(self.result.stderr, "")
    self.assertIn("matmul(", self.result.stdout)
    self.assertNotIn("not measured", self.result.stdout)
    written, table = self.measured("one")
    self.assertEqual(written["name"], "one")
    self.assertIn(2, [point.get("ranks") for point in table["points"]])
    # Everything was measured that this program calls, whatever its costs change.
    for strategy in ["auto", "sequence", "replicated"]:
      self.measured_alone(machine, "--tp-strategy", strategy, "--tiles", "1")

  def measured_alone(self, machine, *flags):
    """No op's cost comes from a formula."""
    profile = self.path("profile.json")
    self.passes("asyra-sim", "run", *GPT, "--machine", machine, "--strict",
                *flags, "--json", profile)
    with open(profile) as file:
      sources = {source["name"]: source["us"]
                 for source in json.load(file)["sources"]}
    self.assertGreater(sources["measured"], 0)
    self.assertEqual(sources.get("formula", 0), 0, flags)

  def test_the_calls_of_a_training_step_are_measured(self):
    machine = self.path("here.machine")
    step = ["gpt3-tiny", "--dp", "2", *GPT[3:], "--train", "--optimizer",
            "adamw", "--tiles", "1", "--search-steps", "20"]
    said = self.passes("asyra-bench", *step, *CPU, "--no-grid",
                       "--set", "host.gpus=3", "--machine-out", machine)
    self.assertEqual(self.measured("here")[0]["host"]["gpus"], 3)
    trained = {"matmul_wgrad", "multi_adamw", "attention_grad",
               "cross_entropy_parts"}
    for op in trained:
      self.assertIn(f" {op}(", said)
    # A shard depends on the device, so a table cannot hold it; a cpu has no
    # copy engines.
    left_out = said.partition("not measured:\n")[2].splitlines()
    self.assertEqual([line for line in left_out
                      if " shard: " not in line
                      and "no copy engines carry it" not in line], [])
    profile = self.path("profile.json")
    self.passes("asyra-sim", "run", *step, "--machine", machine, "--json",
                profile)
    with open(profile) as file:
      ops = json.load(file)["ops"]
    self.assertEqual({(op["op"], op["source"]) for op in ops
                      if op["op"] in trained},
                     {(op, "measured") for op in trained})

  def test_without_a_gpu_the_cpu_is_named(self):
    with unittest.mock.patch.dict(os.environ, CUDA_VISIBLE_DEVICES=""):
      self.fails("; --device cpu measures this machine's cpu", "asyra-bench")

  def test_time_that_is_over_leaves_calls_out(self):
    table = self.path("some.table")
    said = self.passes("asyra-bench", *CPU, "--seconds", "1", "-o", table)
    self.assertIn("the time was over", said)
    self.assertGreater(os.path.getsize(table), 0)

  def test_collectives_on_copy_engines_need_them(self):
    said = self.passes("asyra-bench", *CPU, "--seconds", "20")
    self.assertIn("transport=copy_engine}: "
                  "no copy engines carry it: the devices have no copy engines",
                  said[said.index("not measured:"):])

  def measured(self, name):
    with open(self.path(name + ".machine")) as file:
      machine = json.load(file)
    with open(self.path(name + ".table")) as file:
      return machine, json.load(file)

  def test_keep_measures_only_what_is_not_there(self):
    one, two = self.measured_machine(), self.path("two.machine")
    small = ["gpt3-tiny", "--dim", "layers=1", "--dim", "batch=1", "--dim",
             "seq=16", "--no-grid"]
    machine, table = self.measured("one")
    # As if pairs had been measured, on another day.
    machine["host"]["collectives"]["all_reduce"]["beside_compute"] = 0.625
    self.path("one.machine", json.dumps(machine))
    table["date"] = "2001-02-03"
    table["method"] = "by hand"
    self.path("one.table", json.dumps(table))

    said = self.passes("asyra-bench", *small, *CPU, "--machine", one, "--keep",
                       "--machine-out", two)
    self.assertIn(f"{len(table['points'])} kept", said)
    kept_machine, kept = self.measured("two")
    count = len(table["points"])
    self.assertEqual(kept["points"][:count], table["points"])
    self.assertGreater(len(kept["points"]), count)
    calls = [(p["call"], p.get("ranks")) for p in kept["points"]]
    self.assertEqual(len(calls), len(set(calls)))
    for call, _ in calls[:count]:
      self.assertNotIn(f"%    {call}\n", said)
    self.assertTrue(kept["date"].startswith("2001-02-03, 20"), kept["date"])
    self.assertTrue(kept["method"].startswith(
        f"the first {count} points: by hand; the others: asyra-bench"),
        kept["method"])
    host = kept_machine["host"]
    self.assertEqual(host["collectives"]["all_reduce"]["beside_compute"], 0.625)
    self.assertEqual(host["gpus"], 2)
    self.assertIn(kept["date"], kept_machine["sources"]["gpu"])
    self.assertIn("shares beside computation, a CTA's rate as before",
                  kept_machine["sources"]["host"])
    # In place, over what is read. Costs differ, so that other ops may be
    # fused than before: only these are new.
    self.passes("asyra-bench", *GPT, *CPU, "--no-grid", "--machine", two,
                "--keep", "--machine-out", two)
    again = self.measured("two")[1]
    self.assertEqual(again["points"][:len(kept["points"])], kept["points"])
    calls = [(p["call"], p.get("ranks")) for p in again["points"]]
    self.assertEqual(len(calls), len(set(calls)))
    self.assertEqual(again["method"], kept["method"])
    self.passes("asyra-sim", "run", *GPT, "--machine", two, "--tiles", "1")

  def test_keep_refuses_what_was_measured_elsewhere_or_cannot_be_read(self):
    one = self.measured_machine()
    keep = ["asyra-bench", *GPT, *CPU, "--no-grid", "--machine", one, "--keep",
            "--machine-out", one]
    machine, table = self.measured("one")
    before = json.dumps(table)

    self.path("one.table", before.replace(
        json.dumps(table["device"]), '"Abacus 3000"', 1))
    self.fails("was measured on Abacus 3000 (none; the kernels of the "
               "cpu), this is " + table["device"], *keep)
    self.path("one.table", before.replace("kernels of the cpu",
                                          "kernels of a gpu", 1))
    self.fails("(none; the kernels of a gpu), this is", *keep)
    self.path("one.table", before.replace("matmul(", "mutmal(", 1))
    self.fails("mutmal(", *keep)
    self.path("one.table", before[:len(before) // 2])
    self.fails("one.table: line", *keep)
    os.remove(self.path("one.table"))
    self.fails("one.table: No such file or directory", *keep)
    machine.pop("measurements")
    self.path("one.machine", json.dumps(machine))
    self.fails("--keep: " + one + " names no measurements", *keep)
    self.fails("machine no-such is not known", "asyra-bench", *GPT, *CPU,
               "--no-grid", "--machine", "no-such", "--keep")

  def test_wrong_flags(self):
    self.fails("should end in .machine", "asyra-bench", *CPU,
               "--machine-out", "here")
    self.fails("leaves nothing to measure", "asyra-bench", *CPU, "--no-grid")
    self.fails("--seconds is 0", "asyra-bench", *CPU, "--seconds", "0")
    self.fails("no-such-model", "asyra-bench", "no-such-model", *CPU)


if __name__ == "__main__":
  unittest.main(argv=sys.argv[:1] + sys.argv[3:])
