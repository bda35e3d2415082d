"""Running compiled models: results, reports of runs, programs in turn.

Part of cli_test.py.
"""

import json
import os
import struct
import sys

from cli_input import read_npy, write_npy
from tool_test import DIMS, GPT2, LLAMA, SOURCE_DIR, ToolTest, recorded

sys.path.append(os.path.join(SOURCE_DIR, "tests", "benchmarks"))
from gpu_memory import UNSCHEDULED


class Run(ToolTest):

  def test_a_compiled_model_computes_what_pytorch_recorded(self):
    for model, mesh in [(LLAMA, ["--tp", "4", "--sp", "2", "--tiles", "2"]),
                        (GPT2, ["--tp", "2", "--dp", "2", "--tiles", "2"])]:
      out = self.path("model.asyra")
      self.passes("asyra-opt", model, *DIMS, *mesh, "-o", out)
      text = self.passes("asyra-run", out, "--check", recorded(model))
      self.assertIn("max abs error", text)
      self.passes("asyra-run", model, *DIMS, *mesh, "--check", recorded(model))

  def test_a_run_says_how_it_went(self):
    profile = self.path("profile.json")
    args = [LLAMA, *DIMS, "--tp", "2", "--sp", "2", "--tiles", "2"]
    said = self.passes("asyra-run", *args, "--repeat", "3", "--json",
                       "--check", recorded(LLAMA), "--check-deterministic",
                       "--check-finite", "--profile", profile)
    result = json.loads(said)
    self.assertEqual((result["device"], result["ranks"]), ("cpu", 4))
    self.assertEqual(result["step"],
                     {"batch": 4, "tokens": [64], "dtype": "f32",
                      "unit": "tokens"})
    self.assertAlmostEqual(
        result["tokens_per_s"],
        4 * 64 * 1e6 / result["steps"]["median_us"], 3)
    steps, memory = result["steps"], result["memory_bytes"]
    self.assertEqual(steps["count"], 3)
    for copied in ["inputs", "outputs"]:
      self.assertGreater(result["copies_us"][copied], 0)
    self.assertTrue(0 < steps["min_us"] <= steps["median_us"] <=
                    steps["max_us"])
    self.assertEqual(memory["total"], memory["arena"] + memory["resident"] +
                     memory["workspace"])
    used = result["used_bytes"]
    for part in ["arena", "resident"]:
      self.assertEqual(used[part], memory[part])
    self.assertTrue(0 < used["workspace"] <= memory["workspace"])
    for one in result["collectives"]:
      self.assertEqual(one["ran"], "shared_memory")
      self.assertEqual("obstacle" in one, one["asked"] == "copy_engine")
    self.assertGreater(sum(one["count"] for one in result["collectives"]), 0)
    self.assertEqual(result["fallback_ops"], [])
    # On a cpu, what one kernel computes on GPUs is a collective and a fusion.
    self.assertEqual(result["split_fusions"], [
        "fusion(add+rms_norm)", "overlap(all_reduce+add+rms_norm)"])
    self.assertEqual(result["outputs"][0]["wrong"], 0)
    with open(profile) as file:
      events = json.load(file)["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    self.assertGreater(len(slices), 30)
    collectives = [event for event in slices
                   if event["name"].startswith("ncclDevKernel_")]
    self.assertGreater(len(collectives), 0)
    for event in collectives:
      self.assertEqual(event["args"]["transport"], "shared_memory")
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
    self.assertNotIn("overlap", text)
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

  def test_cpu_ranks_carry_out_the_plans_of_overlaps(self):
    formed = self.path("overlaps.asyra")
    sequence = UNSCHEDULED.replace("plan_sharding",
                                   "plan_sharding{tp_strategy=sequence}")
    self.passes("asyra-opt", LLAMA, *DIMS, "--tp", "4", "--passes",
                sequence + ", start_collectives, form_overlaps{always=true}",
                "-o", formed)
    with open(formed) as file:
      self.assertIn(" = overlap(", file.read())
    profile = self.path("profile.json")
    said = self.passes("asyra-run", formed, "--check", recorded(LLAMA),
                       "--repeat", "3", "--check-deterministic", "--json",
                       "--profile", profile)
    self.assertFalse([name for name in json.loads(said)["split_fusions"]
                      if name.startswith("overlap")])
    with open(profile) as file:
      names = [event["name"] for event in json.load(file)["traceEvents"]]
    self.assertTrue(any(name.startswith("overlap(") for name in names))

  def test_what_was_tuned_is_shipped_in_a_file(self):
    self.own_cache()
    tuning = self.path("model.tuning")
    args = [LLAMA, *DIMS, "--tp", "2", "--search-steps", "200", "--gate",
            "measured"]
    text = self.passes("asyra-run", *args, "--save-tuning", tuning)
    self.assertIn("gate: kept ", text)
    self.assertNotIn("(remembered)", text)
    self.assertRegex(text, r"\nfirst step done \S+ \S+ after the start of the")
    # Elsewhere, where nothing is remembered.
    os.environ["ASYRA_CACHE_DIR"] = ""
    text = self.passes("asyra-run", *args, "--tuning", tuning)
    self.assertIn("(remembered)", text)
    said = self.passes("asyra-run", *args, "--json", "--tuning", tuning)
    self.assertGreater(json.loads(said)["first_step_us"], 0)
    with open(tuning, "rb") as file:
      whole = file.read()
    first, identity, rest = whole.split(b"\n", 2)
    other = self.path("other.tuning")
    for bytes_, message in [
        (b"\n".join([first, b"another cpu", rest]),
         f"it is for 'another cpu', the device is '{identity.decode()}'"),
        (whole[:-1], "it is cut short or changed"),
        (b"asyra 1 local\n", "it begins with 'asyra 1 local'")]:
      with open(other, "wb") as file:
        file.write(bytes_)
      self.fails(message, "asyra-run", *args, "--tuning", other)
      self.fails(f"--tuning {other}: ", "asyra-run", *args, "--tuning", other)
    # A device alone has more threads.
    self.fails("it is for ", "asyra-run", LLAMA, *DIMS, "--tuning", tuning)
    self.fails("--tuning: ", "asyra-run", *args, "--tuning",
               self.path("none.tuning"))
    self.fails("--save-tuning: ", "asyra-run", *args, "--save-tuning",
               self.path("no/such/folder"))
    self.fails("the interpreter is none", "asyra-run", LLAMA, *DIMS,
               "--device", "interpreter", "--save-tuning", other)

  def test_a_run_refuses_what_it_cannot_do(self):
    args = [LLAMA, *DIMS]
    self.fails("--device", "asyra-run", *args, "--device", "gpu")
    self.fails("--epilogues", "asyra-run", *args, "--epilogues", "all")
    for form in ["all", "", "Fused"]:
      self.fails("--reduce-scatter", "asyra-run", *args,
                 f"--reduce-scatter={form}")
    self.fails("--repeat is 0", "asyra-run", *args, "--repeat", "0")
    self.fails("--timeout is inf", "asyra-run", *args, "--timeout", "inf")
    self.fails("--atol: it is nan, it must be finite and at least 0",
               "asyra-run", *args, "--atol", "nan")
    self.fails("--rtol has no effect without --check", "asyra-run", *args,
               "--rtol", "1")
    self.fails("--graphs and --no-graphs have no effect on cpus", "asyra-run",
               *args, "--no-graphs")
    self.fails("--repeat has no effect on the interpreter", "asyra-run", *args,
               "--device", "interpreter", "--repeat", "2")
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
    for flag in [["--tiles", "2"], ["--no-fuse"], ["--machine", "h200x8"]]:
      self.fails(f"{flag[0].replace('no-', '')} has no effect: a program file "
                 "runs as it is", "asyra-run", program, *flag)
    self.fails("%nan = div(%zero, %zero) : f32[4]: result %nan: element 0 is",
               "asyra-run", program, "--check-finite")

  def test_many_values_are_joined(self):
    # More than 8 bits count, in another order than they were split.
    count = 160
    parts = "".join(
        f"  %p{i} = slice(%y) {{dim=1, start={2 * i}, stop={2 * i + 2}}} "
        f": f32[4, 2]\n  %q{i} = exp(%p{i}) : f32[4, 2]\n"
        for i in range(count))
    order = ", ".join(f"%q{i * 7 % count}" for i in range(count))
    program = self.path("join.asyra", f"""asyra 1 global
program @p(%x: f32[4, 8], %w: f32[8, {2 * count}] weight)
    -> (f32[4, {2 * count}]) {{
  %y = matmul(%x, %w) : f32[4, {2 * count}]
{parts}  %z = concat({order}) {{dim=1}} : f32[4, {2 * count}]
  return %z
}}
""")
    args = [program, "--random-weights", "--passes",
            "canonicalize, plan_sharding, partition"]
    for flags in [[], ["--device", "interpreter"], ["--tp", "2"],
                  ["--dp", "2"]]:
      self.passes("asyra-run", *args, *flags, "--compare-single")

  def test_random_inputs_depend_on_the_seed_alone(self):
    runs = [self.passes("asyra-run", GPT2, "--dim", "batch=2", "--dim",
                        "seq=8", "--passes", "canonicalize", "--seed",
                        seed).partition("output %")[2]  # not the times
            for seed in ["1", "1", "2"]]
    self.assertEqual(runs[0], runs[1])
    self.assertNotEqual(runs[0], runs[2])

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

  def test_a_gate_keeps_what_is_faster(self):
    self.own_cache()
    # Four times as many collectives as without a schedule, none of them hidden
    # and all of them slow.
    bad = [LLAMA, *DIMS, "--tp", "2", "--tiles", "4", "--scheduler", "serial",
           "--inject-comm-us", "4000", "--check", recorded(LLAMA)]
    said = json.loads(self.passes("asyra-run", *bad, "--gate", "measured",
                                  "--json"))
    gate = said["gate"]
    self.assertEqual((gate["kept"], gate["remembered"]), ("unscheduled", False))
    # Its next best schedules are as bad.
    names = [one["name"] for one in gate["trials"]]
    self.assertEqual((names[0], names[-1]), ("scheduled", "unscheduled"))
    self.assertEqual([name[:7] for name in names[1:-1]], ["4 tiles"] * 2)
    *slow, fast = (one["median_us"] for one in gate["trials"])
    self.assertGreater(min(slow), fast)
    self.assertEqual(said["stage"], "local")
    text = self.passes("asyra-run", *bad, "--gate", "measured")
    self.assertIn("gate: kept unscheduled (remembered): median ", text)
    self.assertIn("of stage local", text)
    text = self.passes("asyra-run", *bad, "--gate", "again")
    self.assertIn("gate: kept unscheduled: median ", text)
    # Of files, there must be two.
    out = self.path("bad.asyra")
    self.passes("asyra-opt", *bad[:-4], "-o", out)
    self.fails("--gate has one program to choose from", "asyra-run", out,
               "--gate", "measured")
    plain = self.path("plain.asyra")
    self.passes("asyra-opt", LLAMA, *DIMS, "--tp", "2", "--tiles", "1",
                "--scheduler", "serial", "-o", plain)
    text = self.passes("asyra-run", out, "--against", plain, "--gate",
                       "measured", "--inject-comm-us", "4000")
    self.assertIn(f"gate: kept {plain}: median ", text)
    self.fails("the interpreter has none", "asyra-run", out, "--gate",
               "measured", "--device", "interpreter")

  def test_a_single_device_is_compared_with(self):
    text = self.passes("asyra-run", LLAMA, *DIMS, "--tp", "2",
                       "--compare-single")
    self.assertIn("output %logits: off one device by", text)
    out = self.path("model.asyra")
    self.passes("asyra-opt", LLAMA, *DIMS, "--tp", "2", "-o", out)
    self.fails("came in partitioned", "asyra-run", out, "--compare-single")

  def test_an_unused_input_is_still_one(self):
    folder = os.path.join(SOURCE_DIR, "tests/models/unused-input")
    model = os.path.join(folder, "model.onnx")
    for mesh in [[], ["--tp", "2"], ["--mesh", "a=2"]]:
      for device in ["cpu", "interpreter"]:
        self.passes("asyra-run", model, *mesh, "--device", device, "--check",
                    os.path.join(folder, "test_data_set_0"))
    self.assertIn("i i64[2], u f32[3] ->", self.passes("asyra-opt", model))

  def test_padding_is_checked_where_it_becomes_lengths(self):
    model = os.path.join(SOURCE_DIR, "tests/e2e/programs/padded_decoder.asyra")
    note = ("note: padding right: attention takes lengths of the rows of "
            "%attention_mask, which each step checks")
    self.assertIn(note, self.passes("asyra-opt", model, "--padding", "right"))
    self.assertIn("attention has a mask from %attention_mask: if each row there "
                  "is ones, then zeros, --padding right makes it lengths",
                  self.passes("asyra-opt", model))
    self.assertIn("note: padding right: no attention has a mask",
                  self.passes("asyra-opt", model.replace(
                      "padded_decoder", "attention_alone"), "--padding", "right"))
    full, padded = "[1,1,1,1,1,1,1,1]", "[1,1,1,0,0,0,0,0]"
    x = self.path("x.npy")
    write_npy(x, "<f4", (4, 8, 32),
              struct.pack("<1024f", *[i * i % 101 / 50 - 1
                                      for i in range(1024)]))

    def mask(*rows):
      return ["--random-weights", "--input", f"x={x}", "--input",
              f"attention_mask=[{','.join(rows)}]"]

    def result(*args):
      self.passes("asyra-run", *args, *mask(full, padded, padded, full),
                  "--output", self.path("got"))
      return struct.unpack("<1024f", read_npy(self.path("got/y.npy"))[2])

    want = result(model)
    out = self.path("right.asyra")
    for mesh in [[], ["--dp", "2"], ["--sp", "2", "--tp", "2"]]:
      mesh += ["--search-steps", "9"] if mesh else []
      right = [*mesh, "--padding", "right"]
      self.passes("asyra-opt", model, *right, "-o", out)
      # Inputs that are drawn have rows that pass.
      self.passes("asyra-run", out, "--random-weights")
      for program in [[model, *right], [out]][len(mesh) == 0:]:
        for a, b in zip(result(*program), want):
          self.assertAlmostEqual(a, b, 5)
      left = "[0,0,0,1,1,1,1,1]"
      self.fails("row 2 of input attention_mask has a 1 at place 3, behind a 0: "
                 "with --padding right each row is ones, then zeros; --padding",
                 "asyra-run", out, *mask(full, padded, left, full))
      self.fails("row 3 of input attention_mask has a 0 at place 0, where it "
                 "must have a 1", "asyra-run", out,
                 *mask(full, padded, full, "[0,0,0,0,0,0,0,0]"))
      self.passes("asyra-run", model, *mesh, *mask(full, padded, left, full))
