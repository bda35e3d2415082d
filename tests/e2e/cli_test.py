"""Runs the command line tools as users do: exit codes, output, errors.

Usage: cli_test.py SOURCE_DIR TOOLS_DIR
"""

import json
import os
import random
import re
import shutil
import sys
import unittest

from tool_test import DIMS, GPT2, LLAMA, SOURCE_DIR, ToolTest, run

sys.path.append(os.path.join(SOURCE_DIR, "tests", "benchmarks"))
from gpu_memory import UNSCHEDULED


def recorded(model):
  return os.path.join(os.path.dirname(model), "test_data_set_0")


class CommandLine(ToolTest):

  def test_a_compiled_model_computes_what_pytorch_recorded(self):
    for model, mesh in [(LLAMA, ["--tp", "4", "--sp", "2", "--tiles", "2"]),
                        (GPT2, ["--tp", "2", "--dp", "2", "--tiles", "2"])]:
      out = self.path("model.asyra")
      self.passes("asyra-opt", model, *DIMS, *mesh, "-o", out)
      text = self.passes("asyra-run", out, "--check", recorded(model))
      self.assertIn("max abs error", text)
      self.passes("asyra-run", model, *DIMS, *mesh, "--check", recorded(model))

  def test_small_collectives_are_joined(self):
    for mesh in [["--sp", "2"], ["--sp", "2", "--tiles", "1"]]:
      out = self.path("model.asyra")
      report = self.passes("asyra-opt", LLAMA, *DIMS, *mesh, "--verbose", "-o", out)
      self.assertIn("bucket: joined all_gather of ", report)
      with open(out) as file:
        text = file.read()
      self.assertRegex(text, r"\n  %\S+, %\S+ = start all_gather\(%\S+, %\S+\)")
      for device in ["cpu", "interpreter"]:
        self.passes("asyra-run", out, "--device", device, "--check",
                    recorded(LLAMA))
      # One future is waited for twice, the other never.
      names = re.search(r"\n  (%\S+), (%\S+) = start", text)
      broken = self.path("broken.asyra",
                         text.replace(f"wait({names[2]})", f"wait({names[1]})"))
      self.fails(f"{names[1]} is waited for 2 times", "asyra-run", broken)
      apart = self.passes("asyra-opt", LLAMA, *DIMS, *mesh, "--no-join", "--verbose")
      self.assertNotIn("joined", apart)

  def test_reductions_are_decomposed_where_that_is_asked_for(self):
    for mesh in [["--tp", "2"], ["--tp", "2", "--sp", "2"],
                 ["--tp", "4", "--tiles", "2"]]:
      mesh = [*mesh, "--tp-strategy", "sequence"]
      for form, moves in [("decomposed", "all_to_all"),
                          ("fused", "reduce_scatter")]:
        out = self.path("model.asyra")
        self.passes("asyra-opt", LLAMA, *DIMS, *mesh, "--reduce-scatter", form, "-o", out)
        with open(out) as file:
          text = file.read()
        self.assertIn(f"start {moves}", text)
        self.assertEqual("stack_partial" in text, form == "decomposed")
        self.assertEqual("reduce_scatter(" in text, form == "fused")
        for device in ["cpu", "interpreter"]:
          self.passes("asyra-run", out, "--device", device, "--check",
                      recorded(LLAMA))
      self.passes("asyra-run", LLAMA, *DIMS, *mesh, "--reduce-scatter", "decomposed",
                  "--device", "interpreter", "--compare-single")
    text = self.passes("asyra-opt", LLAMA, *DIMS, "--sp", "2", "--reduce-scatter", "decomposed",
                       "--verbose")
    self.assertIn("decompose_reduce_scatter: none of 0 is of one value", text)
    # Where nothing can be copied, nothing is tried.
    model = ["llama3-8b", "--dim", "layers=2", "--tp", "4"]
    for machine, tried in [("h200x8", True), ("rtx4090x8", False)]:
      text = self.passes("asyra-opt", *model, "--machine", machine, "--verbose")
      self.assertEqual(", reduce-scatter decomposed" in text, tried, machine)
    text = self.passes("asyra-opt", *model, "--reduce-scatter", "fused", "--verbose")
    self.assertNotIn("reduce-scatter decomposed", text)
    # Of all that a device has, libraries alone take more than this.
    for option in ["--memory-gib", "--capacity"]:
      for gib, text in [("1.5", "1.50 GiB"), ("1e-7", "107 bytes")]:
        self.fails(f"no schedule found fits in {text} of a device: the least",
                   "asyra-opt", *model, option, gib, "--reduce-scatter", "decomposed")

  def test_a_run_says_how_it_went(self):
    profile = self.path("profile.json")
    args = [LLAMA, *DIMS, "--tp", "2", "--sp", "2", "--tiles", "2"]
    said = self.passes("asyra-run", *args, "--repeat", "3", "--json",
                       "--check", recorded(LLAMA), "--check-deterministic",
                       "--check-finite", "--profile", profile)
    result = json.loads(said)
    self.assertEqual((result["device"], result["ranks"]), ("cpu", 4))
    self.assertEqual(result["step"],
                     {"batch": 4, "tokens": [64], "dtype": "f32"})
    self.assertAlmostEqual(
        result["tokens_per_s"],
        4 * 64 * 1e6 / result["steps"]["median_us"], 3)
    steps, memory = result["steps"], result["memory_bytes"]
    self.assertEqual(steps["count"], 3)
    self.assertTrue(0 < steps["min_us"] <= steps["median_us"] <=
                    steps["max_us"])
    self.assertEqual(memory["total"], memory["arena"] + memory["resident"] +
                     memory["workspace"])
    used = result["used_bytes"]
    for part in ["arena", "resident"]:
      self.assertEqual(used[part], memory[part])
    self.assertTrue(0 < used["workspace"] <= memory["workspace"])
    self.assertEqual(result["fallback_ops"], [])
    self.assertEqual(result["split_fusions"], ["fusion(add+rms_norm)"])
    self.assertEqual(result["outputs"][0]["wrong"], 0)
    with open(profile) as file:
      events = json.load(file)["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    self.assertGreater(len(slices), 30)
    collectives = [event for event in slices
                   if event["name"].startswith("ncclDevKernel_")]
    self.assertGreater(len(collectives), 0)
    for event in collectives:
      self.assertIn(event["pid"],
                    json.loads(event["args"]["Process Group Ranks"]))
    last = {}
    for event in sorted(slices, key=lambda event: event["ts"]):
      self.assertGreaterEqual(event["ts"], last.get(event["tid"], 0))
      last[event["tid"]] = round(event["ts"] + event["dur"], 3)
    self.assertTrue(any(event["name"] == "fusion(add+rms_norm)"
                        for event in slices))
    text = self.passes("asyra-run", *args, "--no-fuse", "--check",
                       recorded(LLAMA))
    self.assertNotIn("fusion", text)
    self.assertIn("step: batch 4, 64 tokens, f32; ", text)
    for epilogues, fused in [("measured", False), ("estimated", True),
                             ("none", False)]:
      text = self.passes("asyra-run", GPT2, *DIMS, "--epilogues", epilogues,
                         "--check", recorded(GPT2))
      self.assertEqual("fusion(matmul+add)" in text, fused)
    text = self.passes("asyra-run", *args, "--debug-memory",
                       "--inject-comm-us", "200")
    self.assertIn("on 4 cpu ranks", text)
    self.assertIn("1 step, cold: ", text)
    self.assertIn("memory of a rank", text)

  def test_benchmarks_know_the_program_before_it_is_scheduled(self):
    for model in [["llama3-tiny", "--tp", "2"], ["gpt3-tiny", "--sp", "2"],
                  ["qwen3-moe-tiny", "--ep", "2"]]:
      out = self.path("model.asyra")
      passes = ["--passes", UNSCHEDULED]
      self.passes("asyra-opt", *model, *passes, "-o", out)
      with open(out) as file:
        text = file.read()
      # Of the collective strategies that are tried, the one that costs least
      # unscheduled comes first.
      said = run("asyra-opt", *model, "--print-after", "fuse",
                 "--search-steps", "1")
      first = said.stderr.split("// after fuse")[1]
      self.assertEqual(first, "\n" + text)
      self.passes("asyra-sim", "run", *model, *passes)
      self.passes("asyra-run", *model, *passes)

  def test_a_run_refuses_what_it_cannot_do(self):
    args = [LLAMA, *DIMS]
    self.fails("--device", "asyra-run", *args, "--device", "gpu")
    self.fails("--epilogues", "asyra-run", *args, "--epilogues", "all")
    for form in ["all", "", "Fused"]:
      self.fails("--reduce-scatter", "asyra-run", *args,
                 f"--reduce-scatter={form}")
    self.fails("--repeat is 0", "asyra-run", *args, "--repeat", "0")
    self.fails("--timeout is 0", "asyra-run", *args, "--timeout", "0")
    self.fails("--ranks", "asyra-run", *args, "--tp", "2", "--ranks", "8")
    program = self.path("lookup.asyra", """asyra 1 local
mesh (tp=2)
program @p(%ids: i64[2@tp], %x: f32[2@tp]) -> (f32[2@tp, 1], f32[]) {
  %table = constant() {value=f32[3,1](1, 2, 3)} : f32[3, 1]
  %two = constant() {value=i64[1](2)} : i64[1]
  %far = add(%ids, %two) : i64[2@tp]
  %rows = embedding(%table, %far) : f32[2@tp, 1]
  %s = reduce_sum(%x) {dims=[0], keep=false} : f32[] partial(tp)
  %y = all_reduce(%s) {axes=tp} : f32[]
  return %rows, %y
}
""")
    self.fails("%rows = embedding(%table, %far) : f32[2@tp, 1]: index",
               "asyra-run", program, "--seed", "3")
    program = self.path("nan.asyra", """asyra 1 global
program @p(%x: f32[4]) -> (f32[4]) {
  %zero = sub(%x, %x) : f32[4]
  %nan = div(%zero, %zero) : f32[4]
  return %nan
}
""")
    self.passes("asyra-run", program)
    self.fails("%nan = div(%zero, %zero) : f32[4]: result %nan: element 0 is",
               "asyra-run", program, "--check-finite")

  def test_equal_input_gives_equal_bytes(self):
    for name in ["a.asyra", "b.asyra"]:
      self.passes("asyra-opt", LLAMA, *DIMS, "--tp", "2", "-o",
                  self.path(name))
    for suffix in [".asyra", ".safetensors"]:
      with open(self.path("a" + suffix), "rb") as a, \
           open(self.path("b" + suffix), "rb") as b:
        self.assertEqual(a.read(), b.read())

  def test_random_inputs_depend_on_the_seed_alone(self):
    runs = [self.passes("asyra-run", GPT2, "--dim", "batch=2", "--dim",
                        "seq=8", "--passes", "canonicalize", "--seed",
                        seed).partition("output")[2]  # not the times
            for seed in ["1", "1", "2"]]
    self.assertEqual(runs[0], runs[1])
    self.assertNotEqual(runs[0], runs[2])

  def test_a_result_beyond_the_tolerance_fails(self):
    text = self.fails("of 1 of 1 output are beyond rtol 0, atol 0", "asyra-run", LLAMA, *DIMS,
                      "--tp", "2", "--check", recorded(LLAMA), "--rtol", "0",
                      "--atol", "0")
    self.assertIn("elements differ, first element", text)

  def test_errors_are_one_line_that_names_the_place(self):
    for tool in ["asyra-opt", "asyra-run", "asyra-sim"]:
      what = "run|sweep|compare|explain" if tool == "asyra-sim" else "MODEL"
      self.fails(f"usage: {tool} {what} [OPTIONS], see {tool} --help", tool)
      self.assertRegex(self.passes(tool, "--version"),
                       rf"^{tool} \d+\.\d+(\.\d+)?\n$")
    self.fails("MODEL is required; see asyra-sim run --help", "asyra-sim", "run")
    for tool in ["asyra-opt", "asyra-run"]:
      self.fails(f"MODEL is required; see {tool} --help", tool, "--tp", "2")
      self.fails("--no-such-flag", tool, LLAMA, "--no-such-flag")
      self.fails("none.asyra", tool, self.path("none.asyra"))
      self.fails("none.onnx", tool, self.path("none.onnx"))
      self.fails("bad.asyra: line 1, column 1", tool,
                 self.path("bad.asyra", "no program"))
      self.fails("bad.onnx", tool, self.path("bad.onnx", "no model"))
      self.fails("batch", tool, LLAMA)
      self.fails("--dim batch", tool, LLAMA, "--dim", "batch")
      self.fails("no-such-machine", tool, LLAMA, *DIMS, "--machine",
                 "no-such-machine")
      self.fails("no_such_pass", tool, LLAMA, *DIMS, "--passes",
                 "no_such_pass")

  def test_files_that_are_no_models_are_refused(self):
    with open(LLAMA, "rb") as file:
      model = file.read()
    random.seed(3)
    files = {
        "empty": b"", "text": b"no model but a text file\n" * 9,
        "random": bytes(random.randrange(256) for _ in range(4096)),
        "cut": model[:len(model) // 2], "zeros": bytes(1000),
        "tail": model[1000:],
    }
    out = self.path("out.asyra")
    for name, content in files.items():
      path = self.path(name + ".onnx")
      with open(path, "wb") as file:
        file.write(content)
      for tool, extra in [("asyra-opt", ["-o", out]), ("asyra-run", [])]:
        self.fails(name + ".onnx", tool, path, *DIMS, *extra)
    os.mkdir(self.path("folder.onnx"))
    self.fails("not a regular file", "asyra-opt", self.path("folder.onnx"))
    self.assertFalse(os.path.exists(out))

  def test_dims_must_fit(self):
    out = ["-o", self.path("out.asyra")]
    self.fails("batch of input input_ids, seq of input input_ids: give "
               "--dim batch=N --dim seq=N", "asyra-opt", LLAMA, *out)
    self.fails("no input has a dim sequence; there are batch, seq",
               "asyra-opt", LLAMA, *DIMS, "--dim", "sequence=4", *out)
    self.fails("--dim batch=0: the size must be", "asyra-opt", LLAMA, "--dim",
               "batch=0", "--dim", "seq=4", *out)
    for batch in ["99999999999999", "99999999999999999999", "1e3", "-1", ""]:
      self.fails("99999999999999" if batch[:1] == "9" else "the size must be",
                 "asyra-opt", LLAMA, "--dim", "batch=" + batch, "--dim",
                 "seq=99999999", *out)
    self.assertEqual(os.listdir(self.dir), [])

  def test_meshes_must_be_meshes(self):
    for axis in ["dp", "tp", "sp", "ep"]:
      for size in ["0", "-1"]:
        self.fails(f"--{axis} is {size}, it must be at least 1", "asyra-opt",
                   LLAMA, *DIMS, f"--{axis}", size)
      for size in ["x", "2.5", "1e3"]:
        self.fails(f"--{axis} = {size}", "asyra-opt", LLAMA, *DIMS,
                   f"--{axis}", size)
    self.fails("--tp: At Most 1 required", "asyra-opt", LLAMA, *DIMS, "--tp",
               "2", "--tp", "2")
    self.fails("--tp excludes --mesh", "asyra-opt", LLAMA, *DIMS, "--mesh",
               "tp=2", "--tp", "2")
    many = ",".join(f"a{i}=1" for i in range(17))
    for mesh, message in [
        ("", "--mesh: 1 required"),
        ("dp=2,",
         "expected NAME=SIZE with a size of at least 1, got ''"), ("tp", "got 'tp'"), ("=2", "got '=2'"),
        ("tp=0", "got 'tp=0'"), ("tp=-2", "got 'tp=-2'"),
        ("tp=two", "got 'tp=two'"),
        ("dp=2,dp=4", "axis dp is given twice, of size 2 and of 4"),
        ("dp=2, tp=2", "axis 1 is called ' tp'"), ("2=2", "called '2'"),
        (many, "17 axes, at most 16"),
        ("a=99999999999", "more than 2^31 devices with axis a=99999999999"),
        ("a=65536,b=65536", "more than 2^31 devices with axis b=65536"),
    ]:
      for tool in ["asyra-opt", "asyra-run"]:
        self.fails("--mesh", tool, LLAMA, *DIMS, f"--mesh={mesh}")
      self.fails(message, "asyra-opt", LLAMA, *DIMS, f"--mesh={mesh}")

  def test_meshes_must_divide_the_model(self):
    for axis, size in [("dp", "8"), ("dp", "3"), ("sp", "128"), ("sp", "3"),
                       ("tp", "512")]:
      self.fails(f"axis {axis} of size {size} shards nothing", "asyra-opt",
                 LLAMA, *DIMS, f"--{axis}", size)
    one = self.path("one.asyra"), self.path("none.asyra")
    self.passes("asyra-opt", LLAMA, *DIMS, "--tp", "1", "-o", one[0])
    self.passes("asyra-opt", LLAMA, *DIMS, "-o", one[1])
    with open(one[0]) as a, open(one[1]) as b:
      self.assertEqual(a.read(), b.read())

  def test_ranks_must_be_those_of_the_mesh(self):
    out = self.path("model.asyra")
    mesh = ["--tp", "2", "--sp", "2"]
    for tool in ["asyra-opt", "asyra-run"]:
      for ranks in ["8", "0", "-4"]:
        self.fails(f"--ranks is {ranks}, the mesh (sp=2, tp=2) has 4 devices",
                   tool, LLAMA, *DIMS, *mesh, "--ranks", ranks)
      self.fails("--ranks is 2, the mesh () has 1 devices", tool, LLAMA, *DIMS,
                 "--ranks", "2")
    self.passes("asyra-opt", LLAMA, *DIMS, *mesh, "--ranks", "4", "-o", out)
    self.passes("asyra-run", out, "--ranks", "4")
    self.fails("--ranks is 2, the mesh (sp=2, tp=2) has 4", "asyra-run", out,
               "--ranks", "2")

  def test_an_ablation_counts_what_the_report_does(self):
    args = ["asyra-opt", "llama3-8b", "--dim", "layers=2", "--tp", "4",
            "--search-steps", "1", "--ablation"]
    report = json.loads(self.passes(*args, "--report", "json"))
    for key in ["makespan_us", "peak_bytes", "device_bytes"]:
      self.assertEqual(report["ablation"][0][key], report["baseline"][key], key)
    self.assertEqual([row["name"] for row in report["ablation"]],
                     ["baseline", "+tile", "+tile+reorder",
                      "+tile+reorder+bucket"])
    text = self.passes(*args)
    gib = report["baseline"]["device_bytes"] / 2**30
    self.assertRegex(text, rf"\n ablation .* device .*\n  baseline .* {gib:.2f} GiB ")

  def test_the_report_tells_before_and_after(self):
    trace = self.path("steps.json")
    args = ["asyra-opt", "llama3-8b", "--dim", "layers=2", "--tp", "4",
            "--tiles", "2"]
    report = json.loads(self.passes(*args, "--report", "json", "--trace",
                                    trace))
    before, after = report["baseline"], report["optimized"]
    for step in [before, after]:
      for key in ["makespan_us", "peak_bytes", "ops", "collectives"]:
        self.assertGreater(step[key], 0, key)
      self.assertLess(step["bubble"], 1)
      self.assertGreaterEqual(step["makespan_us"], step["lower_bound_us"])
      # Over one axis: its time is all there is.
      self.assertAlmostEqual(step["exposed_us"]["tp"], step["exposed_comm_us"])
    self.assertLess(after["makespan_us"], before["makespan_us"])
    self.assertAlmostEqual(sum(row["us"] for row in report["exposed"]),
                           after["exposed_comm_us"], 3)
    self.assertTrue(all(row["why"] for row in report["exposed"]))
    self.assertEqual(report["tiles"], 2)
    self.assertIsInstance(report["scheduler"], str)
    for rejected in report["rejected"]:
      self.assertTrue(rejected["why"])
    self.assertGreater(report["lower_bound_us"], 0)
    with open(trace) as file:
      kernels = [event["pid"] for event in json.load(file)["traceEvents"]
                 if event.get("cat") == "kernel"]
    self.assertEqual(kernels.count(0), after["ops"])
    self.assertEqual(kernels.count(1), before["ops"])
    text = self.passes(*args, "--verbose")
    for word in ["baseline    optimized", "  over tp", "limited by",
                 "memory of the device"]:
      self.assertIn(word, text)

  def test_the_report_begins_with_what_matters(self):
    args = ["asyra-opt", "llama3-8b", "--dim", "layers=2", "--dim", "batch=4",
            "--dim", "seq=4096", "--tp", "4", "--dp", "2"]
    report = json.loads(self.passes(*args, "--report", "json"))
    self.assertEqual(report["step"], {"batch": 4, "tokens": [4096],
                                      "dtype": "bf16"})
    after = report["optimized"]
    self.assertAlmostEqual(after["tokens_per_s"],
                           4 * 4096 * 1e6 / after["makespan_us"], 3)
    # Those of the partitioned program, as in the row of the baseline.
    self.assertEqual(sum(row["count"] for row in report["collectives"]),
                     report["baseline"]["collectives"])
    text = self.passes(*args)
    self.assertLessEqual(text.count("\n"), 25)
    self.assertRegex(text, r"^[\d.]+ [mu]s a step, [\d.]+x faster than unscheduled "
                           r"\([\d.]+ [mu]s\); \d+ % above the lower bound; "
                           r"[\d.]+ of 140.0 GiB a device\n"
                           r"llama3-8b on h200x8, 8 devices \(dp=2, tp=4\), ")
    for word in ["batch 4, 4096 tokens, bf16", "tokens a second", " schedule: "]:
      self.assertIn(word, text)
    verbose = self.passes(*args, "--verbose")
    for word in ["rejected", "raise_moe: no sum", "  libraries and kernels"]:
      self.assertNotIn(word, text)
      self.assertIn(word, verbose)
    self.assertIn("step: batch 4, 4096 tokens, bf16; ",
                  self.passes("asyra-sim", "run", *args[1:]))

  def test_a_schedule_is_not_described_by_what_was_undone(self):
    out = self.path("merged.asyra")
    text = self.passes("asyra-opt", LLAMA, *DIMS, "--tp", "4", "--sp", "2",
                       "--tiles", "2", "-o", out)
    with open(out) as file:
      program = file.read()
    line = next(l for l in text.split("\n") if l.startswith(" schedule: 2 tiles"))
    self.assertEqual("all tiles are merged again" in line,
                     " = tile(" not in program)
    self.assertEqual("no matmul keeps the margin" in line,
                     "SM margin" in line and "sm_margin" not in program)

  def test_what_does_not_fit_is_in_the_first_line(self):
    text = self.passes("asyra-opt", "llama3-70b", "--dim", "layers=80", "--tp", "1",
                       "--machine", "h100x8", "--search-steps", "1")
    self.assertIn("DOES NOT FIT", text.split("\n")[0])

  def test_an_axis_that_computes_alike_is_told(self):
    args = ["asyra-opt", "llama3-8b", "--dim", "layers=2", "--dim", "batch=4",
            "--dim", "seq=1023", "--sp", "2"]
    text = self.passes(*args)
    self.assertIn("all devices of sp compute the same: ", text)
    self.assertRegex(text, r"--dp 2 takes \d+ % less time unscheduled")
    mesh = json.loads(self.passes(*args, "--report", "json"))["mesh"]
    self.assertEqual(mesh["redundant"][0]["axis"], "sp")
    self.assertEqual(mesh["better"]["mesh"], "--dp 2")

  def test_printed_candidates_are_named(self):
    result = run("asyra-opt", "llama3-tiny", "--tp", "2", "--tiles", "2",
                 "--print-after", "tile")
    said = result.stderr
    self.assertIn("// candidate: 2 tiles along the batch\n// after tile", said)

  def test_a_pin_that_is_no_regular_expression_names_the_flag(self):
    self.fails("--shard: pin 'he(ad=0@tp': 'he(ad' is no regular expression",
               "asyra-opt", "llama3-tiny", "--tp", "2", "--shard",
               "he(ad=0@tp")

  def test_the_plan_is_printed_layer_by_layer(self):
    args = ["asyra-opt", "llama3-8b", "--tp", "4", "--tiles", "1",
            "--print-plan"]
    plan = json.loads(self.passes(*args, "--report", "json"))["plan"]
    layer = max(plan["blocks"], key=lambda block: block["repeats"])
    self.assertGreaterEqual(layer["repeats"], 31)
    self.assertEqual(len(layer["weights"]), 9)
    moved = sorted(move["op"] for move in layer["collectives"])
    self.assertIn(moved, [["all_reduce"] * 2,
                          ["all_gather"] * 2 + ["reduce_scatter"] * 2])
    # Both ways each device sends twice 2 (n-1)/n of the residual stream.
    sent = sum(move["wire_bytes"] for move in layer["collectives"])
    self.assertEqual(sent, 2 * 2 * 3 / 4 * 2 * 8192 * 4096 * 2)
    text = self.passes(*args)
    self.assertIn(f"  {layer['repeats']} x {layer['ops']} ops, ", text)
    self.assertRegex(text, r"in +%\S+ +bf16\[2, 8192(@tp)?, 4096\]\n")
    self.fails("--print-plan: a program of stage global is not sharded",
               "asyra-opt", LLAMA, *DIMS, "--passes", "canonicalize",
               "--print-plan")

  def test_padded_weights_are_padded_when_they_are_loaded(self):
    out = self.path("model.asyra")
    self.passes("asyra-opt", LLAMA, *DIMS, "--tp", "3", "--passes",
                "canonicalize, pad_dims{always=true}, plan_sharding, partition",
                "-o", out)
    with open(out) as file:
      self.assertIn(" weight padded from [256, 64]", file.read())
    self.passes("asyra-run", out, "--check", recorded(LLAMA))

  def test_a_single_device_is_compared_with(self):
    text = self.passes("asyra-run", LLAMA, *DIMS, "--tp", "2",
                       "--compare-single")
    self.assertIn("output %logits: off one device by", text)
    out = self.path("model.asyra")
    self.passes("asyra-opt", LLAMA, *DIMS, "--tp", "2", "-o", out)
    self.fails("came in partitioned", "asyra-run", out, "--compare-single")

  def test_programs_take_turns(self):
    args = [LLAMA, *DIMS, "--tp", "2"]
    out = self.path("other.asyra")
    self.passes("asyra-opt", *args, "--tiles", "2", "-o", out)
    said = json.loads(self.passes(
        "asyra-run", *args, "--check", recorded(LLAMA), "--repeat", "3",
        "--against", "unscheduled", "--against", out, "--machine", "h200x8",
        "--json"))
    self.assertEqual([one["name"] for one in said["in_turn"]],
                     ["this", "unscheduled", out])
    for one in said["in_turn"]:
      self.assertEqual(one["steps"]["count"], 3)
      self.assertGreater(one["predicted_us"], 0)
    self.assertEqual(said["in_turn"][0]["ratio"], 1)
    text = self.passes("asyra-run", *args, "--against", "unscheduled")
    self.assertIn("predicted", text)
    self.fails("no-such.asyra", "asyra-run", *args, "--against",
               "no-such.asyra")
    self.fails("it is for 2 devices, the program for 4", "asyra-run", LLAMA,
               *DIMS, "--tp", "2", "--sp", "2", "--against", out)
    self.fails("is i64[4,64], that of the program is i64[2,64]", "asyra-run",
               LLAMA, "--dim", "batch=2", "--dim", "seq=64", "--tp", "2",
               "--against", out)
    self.fails("none of the program's", "asyra-run", GPT2, *DIMS, "--tp", "2",
               "--against", out)
    self.fails("runs unchanged", "asyra-run", out, "--against",
               "unscheduled")

  def test_external_data_must_be_there_and_whole(self):
    source = os.path.join(SOURCE_DIR, "models/gpt2-tiny-external")
    model, data = self.path("model.onnx"), self.path("model.onnx_data")
    shutil.copy(os.path.join(source, "model.onnx"), model)
    dims = ["--dim", "batch=1", "--dim", "seq=4", "-o", self.path("out.asyra")]
    self.fails("model.onnx_data: No such file", "asyra-opt", model, *dims)
    whole = os.path.join(source, "model.onnx_data")
    shutil.copy(whole, data)
    os.truncate(data, os.path.getsize(data) - 1)
    self.fails("model.onnx_data has", "asyra-opt", model, *dims)
    os.remove(data)
    os.symlink(whole, data)
    self.fails("outside the model's folder", "asyra-opt", model, *dims)
    self.assertEqual(sorted(os.listdir(self.dir)),
                     ["model.onnx", "model.onnx_data"])
    os.remove(data)
    shutil.copy(whole, data)
    self.passes("asyra-opt", model, *dims)

  def test_a_program_that_cannot_be_written_leaves_nothing(self):
    os.mkdir(self.path("folder.asyra"))
    self.fails("folder.asyra: cannot write", "asyra-opt", LLAMA, *DIMS, "-o",
               self.path("folder.asyra"))
    self.fails("-o x: a program's file should end in .asyra", "asyra-opt",
               LLAMA, *DIMS, "-o", "x")
    self.fails("no/out", "asyra-opt", LLAMA, *DIMS, "-o",
               self.path("no/out.asyra"))
    self.assertEqual(os.listdir(self.dir), ["folder.asyra"])

  def test_recordings_must_fit(self):
    self.fails(self.path("none"), "asyra-run", LLAMA, *DIMS, "--passes",
               "canonicalize", "--check", self.path("none"))
    self.fails("recorded input input_ids is i64[4,64]", "asyra-run", LLAMA,
               "--dim", "batch=2", "--dim", "seq=64", "--passes",
               "canonicalize", "--check", recorded(LLAMA))

  def test_damaged_programs_are_refused(self):
    text = """asyra 1 global
program @p(%x: f32[4]) -> (f32[4]) {
  %y = exp(%x) : f32[4]
  return %y
}
"""
    program = self.path("p.asyra", text)
    self.passes("asyra-run", program)
    self.path("p.asyra", text.replace("asyra 1", "asyra 2"))
    self.fails("p.asyra: line 1, column 9: version 2 of the text form",
               "asyra-run", program)
    self.path("p.asyra", text[:text.index("return")])
    self.fails("p.asyra: line 4, column 3: expected", "asyra-run", program)

  def test_a_program_that_no_memory_holds_is_refused(self):
    program = self.path("p.asyra", """asyra 1 global
program @p(%x: f32[1000000, 1]) -> (f32[]) {
  %t = transpose(%x) {perm=[1, 0]} : f32[1, 1000000]
  %y = matmul(%x, %t) : f32[1000000, 1000000]
  %s = reduce_sum(%y) {dims=[0, 1], keep=false} : f32[]
  return %s
}
""")
    self.fails("4000004000256 bytes are asked for", "asyra-run", program)

  def test_damaged_weights_are_refused(self):
    out = self.path("model.asyra")
    self.passes("asyra-opt", LLAMA, *DIMS, "-o", out)
    weights = self.path("model.safetensors")
    os.truncate(weights, os.path.getsize(weights) - 1)
    self.fails("model.safetensors", "asyra-run", out)
    os.remove(weights)
    self.fails("model.safetensors: there is no such file with the weights "
               "m.model.embed_tokens.weight, ", "asyra-run", out)

  def test_weights_are_not_made_up_unasked(self):
    text = """asyra 1 global
program @mlp(%x: f32[8, 16], %up: f32[16, 32] weight, %down: f32[32, 16] weight)
    -> (f32[8, 16]) {
  %h = matmul(%x, %up) : f32[8, 32]
  %y = matmul(%h, %down) : f32[8, 16]
  return %y
}
"""
    program = self.path("mlp.asyra", text)
    for command in [[program], [program, "--tp", "2"],
                    [program, "--passes", "canonicalize"]]:
      self.fails("mlp.safetensors: there is no such file with the weights up, "
                 "down; --random-weights takes random values", "asyra-run", *command)
      said = self.passes("asyra-run", *command, "--random-weights")
      self.assertIn("2 weights have no data: random values\n", said)
    self.passes("asyra-sim", "run", program)
    self.passes("asyra-opt", program, "-o", self.path("out.asyra"))

    def write(*shapes):
      header, at = {}, 0
      for name, dtype, shape in shapes:
        size = {"F32": 4, "F16": 2}[dtype] * shape[0] * shape[1]
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [at, at + size]}
        at += size
      data = json.dumps(header).encode()
      with open(self.path("mlp.safetensors"), "wb") as file:
        file.write(len(data).to_bytes(8, "little") + data + bytes(at))

    write(("upp", "F32", [16, 32]), ("down", "F32", [32, 16]))
    self.fails("mlp.safetensors: it has no data for the weight up; "
               "--random-weights takes random values", "asyra-run", program)
    said = self.passes("asyra-run", program, "--random-weights")
    self.assertIn("1 weight has no data: random values\n", said)
    write(("up", "F32", [32, 16]), ("down", "F32", [32, 16]))
    for flags in [[], ["--random-weights"]]:
      self.fails("mlp.safetensors: the data of weight %up is f32[32,16], the "
                 "program takes f32[16,32]", "asyra-run", program, *flags)
    write(("up", "F16", [16, 32]), ("down", "F32", [32, 16]))
    self.fails("the data of weight %up is f16[16,32]", "asyra-run", program)
    write(("up", "F32", [16, 32]), ("down", "F32", [32, 16]))
    self.assertNotIn("random", self.passes("asyra-run", program))

  def test_nothing_is_checked_on_made_up_weights(self):
    out = self.path("model.asyra")
    self.passes("asyra-opt", LLAMA, *DIMS, "-o", out)
    os.remove(self.path("model.safetensors"))
    for flags in [[], ["--random-weights"]]:
      self.fails("--check: there is no data for the weights "
                 "m.model.embed_tokens.weight, ", "asyra-run", out, "--check",
                 recorded(LLAMA), *flags)
    self.fails("--check: there is no data for the weights ", "asyra-run",
               "llama3-tiny", "--check", recorded(LLAMA))
    said = json.loads(self.passes("asyra-run", "llama3-tiny", "--json"))
    self.assertGreater(said["random_weights"], 0)

  def test_an_unused_input_is_still_one(self):
    folder = os.path.join(SOURCE_DIR, "tests/models/unused-input")
    model = os.path.join(folder, "model.onnx")
    for mesh in [[], ["--tp", "2"], ["--mesh", "a=2"]]:
      for device in ["cpu", "interpreter"]:
        self.passes("asyra-run", model, *mesh, "--device", device, "--check",
                    os.path.join(folder, "test_data_set_0"))
    self.assertIn("i i64[2], u f32[3] ->", self.passes("asyra-opt", model))

  def test_a_check_ends_with_a_verdict(self):
    args = [LLAMA, "--check", recorded(LLAMA)]  # --dim is what is recorded
    text = self.passes("asyra-run", *args, "--tp", "2", "--sp", "2")
    self.assertTrue(text.endswith(
        "check passed: 1 output within rtol 0.0001, atol 1e-05\n"), text)
    self.assertIn("output %logits f32[4,64,256]: ", text)
    said = json.loads(self.passes("asyra-run", *args, "--rtol", "0.5", "--tp",
                                  "2", "--sp", "2", "--json"))
    self.assertIs(said["passed"], True)
    output = said["outputs"][0]
    self.assertEqual((output["name"], output["rtol"], output["atol"]),
                     ("logits", 0.5, 1e-5))
    text = self.fails("of 1 of 1 output are beyond rtol 0, atol 0", "asyra-run",
                      *args, "--rtol", "0", "--atol", "0")
    self.assertRegex(text, r"\ncheck failed: \d+ elements of 1 of 1 output are "
                           r"beyond rtol 0, atol 0\n$")
    self.fails("recorded input input_ids is i64[4,64], the program's "
               "%input_ids is i64[2,64]", "asyra-run", *args, "--dim",
               "batch=2")

  def test_an_output_is_as_exact_as_what_it_is_computed_through(self):
    model = os.path.join(SOURCE_DIR, "tests/models/half-inside/model.onnx")
    dims = ["--dim", "batch=4", "--dim", "seq=8"]
    for mesh in [["--tp", "2"], ["--dp", "2", "--tp", "2"]]:
      for device in ["cpu", "interpreter"]:
        self.passes("asyra-run", model, *dims, *mesh, "--device", device,
                    "--compare-single")

  def test_what_is_taken_for_a_weight_is_said(self):
    model = os.path.join(SOURCE_DIR, "models/llama3-8b-op23/model.onnx")
    args = [model, "--dim", "batch=1", "--dim", "seq=16", "--passes",
            "canonicalize"]
    line = "weights from inputs: m.model.embed_tokens.weight, "
    self.assertIn(line, self.passes("asyra-opt", *args))
    said = json.loads(self.passes("asyra-opt", *args, "--report", "json",
                                  "--data", ".*norm.*"))
    self.assertEqual(len(said["imported"]["lacking_weights"]), 292 - 65)
    self.fails("--weights 'w' matches no input, there are input_ids, ",
               "asyra-opt", *args, "--weights", "w")
    self.assertNotIn(line, self.passes("asyra-opt", LLAMA, *DIMS))
    self.fails("--data: llama3-tiny is no .onnx file", "asyra-sim", "run",
               "llama3-tiny", "--data", "x")


if __name__ == "__main__":
  unittest.main(argv=sys.argv[:1] + sys.argv[3:])
