"""What asyra-opt says about a schedule and a plan.

Part of cli_test.py.
"""

import json
import os
import re

from tool_test import DIMS, LLAMA, ToolTest, run


class Report(ToolTest):

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
                                      "dtype": "bf16", "unit": "tokens"})
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
                           r"[\d.]+ of 140.0 GiB a device "
                           r"\([\d.]+ GiB of it libraries and kernels\)\n"
                           r"llama3-8b on h200x8, 8 devices \(dp=2, tp=4\), ")
    for word in ["batch 4, 4096 tokens, bf16", "tokens a second", " schedule: "]:
      self.assertIn(word, text)
    verbose = self.passes(*args, "--verbose")
    for word in ["rejected", "raise_moe: no sum", "  libraries and kernels"]:
      self.assertNotIn(word, text)
      self.assertIn(word, verbose)
    self.assertIn("step: batch 4, 4096 tokens, bf16; ",
                  self.passes("asyra-sim", "run", *args[1:]))

  def test_the_report_of_a_training_step_is_as_short(self):
    for more in ([], ["--accumulate", "2"],
                 ["--accumulate", "2", "--recompute", "all"]):
      text = self.passes("asyra-opt", "gpt3-tiny", "--train", "--dp", "2",
                         "--tp", "2", "--sp", "2", "--dim", "layers=1",
                         "--search-steps", "20", *more)
      # A row more where kernels communicate.
      self.assertLessEqual(text.count("\n"),
                           25 + text.count("\n  in kernels, over "), text)
      self.assertIn(" training step\n", text)

  def test_files_are_checked_before_anything_is_made(self):
    made = self.path("made.asyra")
    page = self.path("no/such/page.html")
    self.fails(f"--html: {page}: cannot write: No such file or directory",
               "asyra-opt", "gpt3-tiny", "-o", made, "--html", page)
    self.assertFalse(os.path.exists(made))

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
    out = self.path("large.asyra")
    for tool in (["asyra-opt"], ["asyra-sim", "run"]):
      result = run(*tool, "llama3-70b", "--dim", "layers=80", "--tp",
                             "1", "--machine", "h100x8", "--search-steps", "1",
                             *(["-o", out] if tool == ["asyra-opt"] else []))
      self.assertEqual(result.returncode, 1)
      self.assertIn("llama3-70b does not fit: ", result.stderr)
      if tool == ["asyra-opt"]:
        self.assertIn("DOES NOT FIT", result.stdout.split("\n")[0])
    self.assertTrue(os.path.exists(out))

  def test_an_axis_whose_devices_compute_the_same_is_told(self):
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

  def test_a_chunk_plan_goes_back_from_a_file(self):
    passes = ("canonicalize, raise_norm, raise_activation, raise_rotary, "
              "raise_attention, plan_sharding{tp_strategy=sequence}, partition, "
              "schedule{tiles=1, closed=fuse_reductions}, form_overlaps{%s}, "
              "plan_memory")
    args = ["asyra-opt", "llama3-tiny", "--tp", "2", "--print-chunk-plans",
            "--passes"]
    text = self.passes(*args, passes % "always=true")
    plans = re.findall(r"^// %(\S+?),? .*\n(plan \{\n(?:.*\n)*?\}\n)", text,
                       re.M)
    self.assertGreater(len(plans), 1)
    site, plan = plans[0]
    path = self.path("own.plan")
    with open(path, "w") as file:
      file.write(plan)
    back = self.passes(*args, passes % f"plan={path}, site={site}")
    self.assertIn(f"// %{site}", back)
    self.assertEqual(back.count(plan), 1)
    self.assertIn("no op has a chunk plan",
                  self.passes("asyra-opt", "llama3-tiny", "--tp", "2",
                              "--tiles", "1", "--no-fuse",
                              "--print-chunk-plans"))
    with open(path, "w") as file:
      file.write(plan.replace("post came", "post gone", 1))
    self.fails(f"form_overlaps: plan {path} fits none of 1 sites; %{site}",
               *args, passes % f"plan={path}, site={site}")

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
