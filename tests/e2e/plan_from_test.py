"""Tests tools/plan_from.py: schedules of MSCCL and of AutoOverlap become chunk
plans, which asyra-opt proves and cpu ranks carry out; what a plan cannot say is
refused, by line.

Usage: plan_from_test.py SOURCE_DIR TOOLS_DIR
"""

import json
import os
import re
import subprocess
import sys
import unittest

from cli_input import read_npy
from tool_test import DIMS, LLAMA, SOURCE_DIR, ToolTest, recorded

TOOL = os.path.join(SOURCE_DIR, "tools/plan_from.py")
EXAMPLES = os.path.join(SOURCE_DIR, "tools/plan_import/examples")

HEAD = "asyra 1 local\nmesh (tp={ranks})\n\n"
# A program of each collective beside its matmul, and the op that gives it.
PROGRAMS = {
    "all_gather": """program @main(%x: f32[48@tp, 32], %w: f32[32, 24@tp])
    -> (f32[48, 24@tp]) {
  %g = all_gather(%x) {dim=0, axes=tp} : f32[48, 32]
  %y = matmul(%g, %w) : f32[48, 24@tp]
  return %y
}
""",
    "reduce_scatter": """program @main(%x: f32[48, 24@tp], %w: f32[24@tp, 32])
    -> (f32[48@tp, 32]) {
  %h = matmul(%x, %w) : f32[48, 32] partial(tp)
  %y = reduce_scatter(%h) {dim=0, axes=tp} : f32[48@tp, 32]
  return %y
}
""",
    "all_reduce": """program @main(%x: f32[48, 24@tp], %w: f32[24@tp, 32])
    -> (f32[48, 32]) {
  %h = matmul(%x, %w) : f32[48, 32] partial(tp)
  %y = all_reduce(%h) {axes=tp} : f32[48, 32]
  return %y
}
""",
    "all_to_all": """program @main(%x: f32[48@tp, 32], %w: f32[32, 24])
    -> (f32[48, 24@tp]) {
  %h = matmul(%x, %w) : f32[48@tp, 24]
  %y = all_to_all(%h) {from=0, to=1, axes=tp} : f32[48, 24@tp]
  return %y
}
""",
}

# Several matmuls read what is gathered, along the tokens, and a norm too.
READERS = """program @main(%x: f32[2, 16@tp, 32], %q: f32[32, 24@tp],
    %k: f32[12@tp, 32])
    -> (f32[2, 16, 24@tp], f32[2, 16, 12@tp], f32[2, 16, 32]) {
  %g = all_gather(%x) {dim=1, axes=tp} : f32[2, 16, 32]
  %y = matmul(%g, %q) : f32[2, 16, 24@tp]
  %z = matmul(%g, %k) {transpose_b=true} : f32[2, 16, 12@tp]
  %a = gelu_tanh(%g) : f32[2, 16, 32]
  return %y, %z, %a
}
"""
# Weights are gathered: columns of the product.
WEIGHTS = """program @main(%x: f32[16, 32], %w: f32[{w}]) -> (f32[16, 24]) {{
  %g = all_gather(%w) {{dim={dim}, axes=tp}} : f32[{g}]
  %y = matmul(%x, %g) {{transpose_b={swapped}}} : f32[16, 24]
  return %y
}}
"""
SEQUENCE = ("canonicalize, raise_norm, raise_activation, raise_rotary, "
            "raise_attention, plan_sharding{tp_strategy=sequence}, partition, "
            "start_collectives, ")


def example(name):
  with open(os.path.join(EXAMPLES, name)) as file:
    return file.read()


def floats(path):
  _, shape, data = read_npy(path)
  return shape, memoryview(data).cast("f").tolist()


class PlanFromTest(ToolTest):

  def tool(self, *args):
    return subprocess.run([sys.executable, TOOL, *args], capture_output=True,
                          stdin=subprocess.DEVNULL, text=True, timeout=120)

  def plan(self, *args):
    path = self.path("plan.txt")
    result = self.tool(*args, "-o", path)
    self.assertEqual((result.returncode, result.stderr), (0, ""))
    with open(path) as file:
      return path, file.read()

  def refuses(self, message, form, text, *args):
    """One line that names the file and has `message`."""
    path = self.path("bad", text)
    result = self.tool(form, path, *args)
    self.assertEqual(result.returncode, 1, result.stdout)
    self.assertEqual(result.stdout, "")
    self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
    self.assertTrue(result.stderr.startswith(f"plan_from.py: {path}: "),
                    result.stderr)
    self.assertIn(message, result.stderr)

  def follow(self, plan, program, ranks, output="y"):
    """Has the plan proven and simulated, and runs it on cpu ranks beside the
    program without it, from the same inputs."""
    local = self.path("local.asyra", HEAD.format(ranks=ranks) + program)
    formed = self.path("formed.asyra")
    said = self.passes(
        "asyra-opt", local, "--report", "json", "--passes",
        f"start_collectives, form_overlaps{{plan={plan}, site=y}}, plan_memory",
        "-o", formed)
    self.assertGreater(json.loads(said)["optimized"]["makespan_us"], 0)
    with open(formed) as file:
      self.assertIn("} plan {\n", file.read())
    values = []
    for name, path in (("planned", formed), ("whole", local)):
      folder = self.path(name)
      args = ["--repeat", "3", "--check-deterministic"]
      self.passes("asyra-run", path, *args, "--output", folder)
      values.append(floats(os.path.join(folder, output + ".npy")))
    (shape, planned), (_, whole) = values
    self.assertEqual(values[1][0], shape)
    self.assertGreater(max(whole) - min(whole), 0.1)
    for got, want in zip(planned, whole, strict=True):
      self.assertLess(abs(got - want), 1e-5)

  # Good ones ---------------------------------------------------------------

  def test_examples_of_msccl_compute_the_same(self):
    for name, kind in (("all_gather_ring", "all_gather"),
                       ("all_reduce_ring", "all_reduce"),
                       ("reduce_scatter_ring", "reduce_scatter"),
                       ("all_to_all", "all_to_all")):
      with self.subTest(name):
        plan, text = self.plan("msccl", os.path.join(EXAMPLES, name + ".xml"))
        self.assertIn("// not said in a plan: proto Simple, 1 channels", text)
        self.assertEqual(text.count("  rank "), 1)  # all ranks do the same
        self.assertEqual("scratch" in text, "reduce" in kind)
        self.follow(plan, PROGRAMS[kind], 4)

  def test_examples_of_autoverlap_compute_the_same(self):
    for name in ("all_gather_swizzle", "all_gather_ring"):
      for ranks in (2, 3, 4):
        for extra in ([], ["--pushes"]):
          with self.subTest(name, ranks=ranks, extra=extra):
            plan, text = self.plan(
                "autoverlap", os.path.join(EXAMPLES, name + ".schedule"),
                "--ranks", str(ranks), *extra)
            pulls = name == "all_gather_swizzle" and not extra
            self.assertEqual("get " in text, pulls)
            self.assertEqual("put " in text, not pulls)
            self.follow(plan, PROGRAMS["all_gather"], ranks)

  def test_ranks_that_all_add_the_same_add_in_one_order(self):
    # Everybody sends everything to everybody, and adds it up in scratch.
    plan, text = self.plan("msccl", self.path("a.xml", all_pairs(4)))
    self.assertIn("sum in rank order ", text)
    self.follow(plan, PROGRAMS["all_reduce"], 4)

  def test_counts_beside_the_number_of_ranks(self):
    # Three chunks of an all_reduce between two ranks: thirds of the whole.
    steps = [step(k, "s" if k < 3 else "rrc", "i", k % 3, "i", k % 3)
             for k in range(6)]
    text = algo("allreduce", 3, [[tb(0, 1 - r, 1 - r, steps)]
                                 for r in range(2)], 1)
    self.refuses("line 7: gpu 0, tb 0, step 3: adds", "msccl",
                 text.replace('type="rrc"', 'type="rrc"', 1).replace(
                     'srcoff="0" dstbuf="i" dstoff="0" cnt="1" depid="-1" '
                     'deps="-1" hasdep="0"/>\n      <step s="4"',
                     'srcoff="1" dstbuf="i" dstoff="0" cnt="1" depid="-1" '
                     'deps="-1" hasdep="0"/>\n      <step s="4"', 1))
    plan, text = self.plan("msccl", self.path("a.xml", text))
    self.assertRegex(text, r"#0\(2:4/3\)")  # the second third, over two shards
    self.follow(plan, PROGRAMS["all_reduce"], 2)

  def test_several_chunks_go_in_one_step(self):
    steps = [[step(0, "s", "i", 0, "o", 0, cnt=2),
              step(1, "r", "o", 2, "o", 2, cnt=2)],
             [step(0, "s", "i", 0, "o", 2, cnt=2),
              step(1, "r", "o", 0, "o", 0, cnt=2)]]
    text = algo("allgather", 4, [[tb(0, 1 - r, 1 - r, steps[r])]
                                 for r in range(2)], 1)
    plan, text = self.plan("msccl", self.path("a.xml", text))
    self.assertIn("put %0[#r, :] to %2 of r+1", text)
    self.follow(plan, PROGRAMS["all_gather"], 2)

  def test_a_program_gives_the_body(self):
    local = self.path("r.asyra", HEAD.format(ranks=4) + READERS)
    formed = self.path("r_formed.asyra")
    self.passes("asyra-opt", local, "--passes",
                "start_collectives, form_overlaps{always=true}", "-o", formed)
    for name in ("all_gather_ring.xml", "all_gather_ring.schedule"):
      with self.subTest(name):
        form = ["msccl"] if name.endswith("xml") else [
            "autoverlap", "--ranks", "4"]
        plan, text = self.plan(*form, os.path.join(EXAMPLES, name),
                               "--program", formed)
        self.assertIn("piece %4[:, #r, #r] from %0, %1;", text)
        self.assertRegex(text, r"copy %0\[:, #r, :\] to %3")
        for output in "yza":
          self.follow(plan, READERS, 4, output)

  def test_what_is_gathered_may_be_the_second_operand(self):
    for swapped in (False, True):
      with self.subTest(swapped=swapped):
        program = WEIGHTS.format(
            w="24@tp, 32" if swapped else "32, 24@tp", dim=0 if swapped else 1,
            g="24, 32" if swapped else "32, 24", swapped=str(swapped).lower())
        local = self.path("w.asyra", HEAD.format(ranks=4) + program)
        formed = self.path("w_formed.asyra")
        self.passes("asyra-opt", local, "--passes",
                    "start_collectives, form_overlaps{always=true}", "-o",
                    formed)
        plan, text = self.plan("autoverlap", os.path.join(
            EXAMPLES, "all_gather_ring.schedule"), "--ranks", "4", "--program",
                               formed)
        self.assertIn("piece %3[:, #r(0/2)] from %1, %0;", text)
        self.follow(plan, program, 4)

  def test_a_model_takes_an_imported_plan(self):
    formed = self.path("llama.asyra")
    args = [LLAMA, *DIMS, "--tp", "4", "--passes"]
    self.passes("asyra-opt", *args, SEQUENCE + "form_overlaps{always=true}",
                "-o", formed)
    plan, _ = self.plan("msccl", os.path.join(EXAMPLES,
                                              "reduce_scatter_ring.xml"),
                        "--program", formed)
    said = self.passes("asyra-run", *args,
                       SEQUENCE + f"form_overlaps{{plan={plan}}}, plan_memory",
                       "--check", recorded(LLAMA))
    self.assertIn("check passed", said)
    said = self.tool("msccl", os.path.join(EXAMPLES, "all_reduce_ring.xml"),
                     "--program", formed)
    self.assertIn("no overlap of all_reduce", said.stderr)

  def test_plans_of_the_page_compute_the_same(self):
    with open(os.path.join(SOURCE_DIR, "docs/chunk-plans.md")) as file:
      programs = re.findall(r"^```asyra\n(.*?)^```$", file.read(), re.M | re.S)
    self.assertGreaterEqual(len(programs), 3)
    for number, program in enumerate(programs):
      with self.subTest(program.splitlines()[3]):
        path = self.path(f"{number}.asyra", program)
        values = []
        for name, passes in (("planned", ""), ("split", ", split_overlaps")):
          made = self.path(f"{number}_{name}.asyra")
          self.passes("asyra-opt", path, "--passes",
                      f"start_collectives{passes}, plan_memory", "-o", made)
          with open(made) as file:
            self.assertEqual("} plan {" in file.read(), name == "planned")
          folder = self.path(f"{number}_{name}")
          self.passes("asyra-run", made, "--output", folder)
          values.append(floats(os.path.join(folder, "y.npy")))
        (shape, planned), (_, split) = values
        self.assertEqual(shape, values[1][0])
        for got, want in zip(planned, split, strict=True):
          self.assertLess(abs(got - want), 1e-5)

  # Bad ones ----------------------------------------------------------------

  def test_what_a_plan_cannot_say_of_msccl_is_refused(self):
    ring = example("all_gather_ring.xml")
    sums = example("all_reduce_ring.xml")
    for text, old, new, message in [
        (ring, 'type="cpy"', 'type="ra"', "line 4: gpu 0, tb 0, step 0: type "
         "is ra, a plan says s, r, "),
        (ring, 'srcbuf="i"', 'srcbuf="x"', "srcbuf is x, there are i, o and s"),
        (ring, 'proto="Simple"', 'proto="Fast"', "line 1: algo: proto is Fast"),
        (ring, 'coll="allgather"', 'coll="broadcast"', "coll is broadcast"),
        (ring, 'inplace="0"', 'inplace="0" redop="max"', "redop is max"),
        (ring, 'inplace="0"', 'inplace="2"', "inplace is 2"),
        (ring, 'inplace="0"', 'inplace="0" when="now"', "algo has when="),
        (ring, ' hasdep="1"', "", "line 4: step has no hasdep"),
        (ring, 'hasdep="1"', 'hasdep="0"', "whose hasdep is 0: it never tells"),
        (ring, 'cnt="1"', 'cnt="one"', 'cnt="one", no integer'),
        (ring, 'cnt="1"', 'cnt="0"', "cnt is 0"),
        (ring, 'cnt="1"', 'cnt="2"', "src is i[0:2], i has 1 chunks"),
        (ring, 'nchunksperloop="4"', 'nchunksperloop="6"',
         "nchunksperloop is 6, allgather of 4 gpus has a multiple of 4"),
        (ring, 'o_chunks="4"', 'o_chunks="3"', "line 2: gpu 0: o_chunks is 3"),
        (ring, 'ngpus="4"', 'ngpus="5"', "ngpus is 5, there are 4"),
        (ring, 'gpu id="1"', 'gpu id="2"', "id is 2, the next one would be 1"),
        (ring, 'tb id="1"', 'tb id="3"', "id is 3, the next one would be 1"),
        (ring, 'send="1" recv="3" chan="0"', 'send="1" recv="3" chan="1"',
         "chan is 1, nchannels is 1"),
        (ring, 'send="1"', 'send="4"', "send is 4, there are gpus 0 to 3"),
        (ring, 'send="1"', 'send="0"', "send is 0, the gpu itself"),
        (ring, 'send="1"', 'send="-1"', "type is s, and the tb has no send"),
        (ring, 'send="1"', 'send="2"', "it on channel 0: "),
        (ring, 'send="-1" recv="-1"', 'send="1" recv="-1"', "is also of line"),
        (ring, 's="1" type="rcs"', 's="2" type="rcs"', "would be 1"),
        (ring, 'depid="0" deps="0"', 'depid="7" deps="0"',
         "waits for step 0 of tb 7, which is not there"),
        (ring, 'depid="0" deps="0"', 'depid="1" deps="2"', "comes later"),
        (ring, 'depid="0" deps="0"', 'depid="-1" deps="-1"',
         "reads o[0] of line 4: gpu 0, tb 0, step 0, and nothing orders it"),
        (ring, 'srcoff="0" dstbuf="o" dstoff="0"',
         'srcoff="0" dstbuf="o" dstoff="1"', "reads o[0], which nothing wrote"),
        (ring, 'type="r" srcbuf="o" srcoff="1" dstbuf="o" dstoff="1"',
         'type="r" srcbuf="o" srcoff="1" dstbuf="o" dstoff="2"',
         "gpu 0: o[1] ends with nothing, allgather puts chunk 1 there"),
        (ring, 'type="rcs" srcbuf="o" srcoff="3"',
         'type="rrcs" srcbuf="o" srcoff="0"',
         "adds chunk 3 and chunk 0, allgather does not"),
        (ring, "<gpu", "<device", "element device is unknown"),
        (ring, "</algo>", "", "no XML: "),
        (ring, "<algo", "<!DOCTYPE a><algo", "a document type"),
        (ring, "<gpu", "text<gpu", "text between elements: text"),
        (sums, 'type="rrs" srcbuf="i" srcoff="3"',
         'type="rrs" srcbuf="i" srcoff="2"', "adds chunk 3 summed over 3 and "
         "chunk 2 summed over 0"),
        (sums, 'type="rrcs"', 'type="rcs"', "ends with chunk 1 summed over 1, "
         "2, 3, allreduce puts chunk 1 there"),
    ]:
      with self.subTest(message):
        self.assertIn(old, text)
        self.refuses(message, "msccl", text.replace(old, new, 1))

  def test_circles_and_races_of_msccl_are_refused(self):
    wait = [tb(0, 1, 1, [step(0, "r", "o", 1, "o", 1, dep=(1, 0), hasdep=1)]),
            tb(1, -1, -1, [step(0, "cpy", "i", 0, "o", 0, dep=(0, 0),
                                hasdep=1)])]
    answer = [tb(0, 0, 0, [step(0, "s", "i", 0, "o", 1)]),
              tb(1, -1, -1, [step(0, "cpy", "i", 0, "o", 1)])]
    self.refuses("waits for itself: line 4: gpu 0, tb 0, step 0 <- line 7: gpu "
                 "0, tb 1, step 0 <- line 4", "msccl",
                 algo("allgather", 2, [wait, answer], 0))
    # Two blocks write one place, or one writes what the other reads.
    twice = [tb(0, 1, 1, [step(0, "cpy", "i", 0, "s", 0)]),
             tb(1, -1, -1, [step(0, "cpy", "i", 1, "s", 0)])]
    self.refuses("writes s[0], as line 4: gpu 0, tb 0, step 0 does, and "
                 "nothing orders them", "msccl",
                 algo("allreduce", 2, [twice, []], 1))
    reads = [tb(0, 1, 1, [step(0, "cpy", "i", 0, "s", 0)]),
             tb(1, -1, -1, [step(0, "cpy", "i", 1, "i", 0)])]
    self.refuses("writes i[0], which line 4: gpu 0, tb 0, step 0 may still "
                 "read", "msccl", algo("allreduce", 2, [reads, []], 1))
    half = [tb(0, 1, 1, [step(0, "s", "i", 0, "i", 0),
                         step(1, "rrc", "i", 0, "i", 0),
                         step(2, "re", "i", 0, "i", 0)])]
    self.refuses("a part twice", "msccl", algo("allreduce", 2, [half, [
        tb(0, 0, 0, half[0][3][:2])]], 1))

  def test_more_blocks_than_queues_are_refused(self):
    blocks = [tb(k, 1, -1, [step(0, "s", "i", 0, "s", 0)], k)
              for k in range(16)]
    others = [tb(k, -1, 0, [step(0, "r", "s", k, "s", k)], k)
              for k in range(16)]
    rest = [[step(0, "s", "i", 0, "o", 1 - r), step(1, "r", "o", r, "o", r)]
            for r in (1, 0)]
    gpus = [blocks + [tb(16, 1, 1, rest[0], 16)],
            others + [tb(16, 0, 0, rest[1], 16)]]
    path = self.path("bad.xml", algo("allgather", 2, gpus, 1, scratch=16,
                                     channels=17))
    said = self.tool("msccl", path)
    self.assertEqual(said.returncode, 1)
    self.assertIn("line 2: gpu 0: 17 thread blocks send or copy, a plan has 15 "
                  "queues for that", said.stderr)

  def test_what_a_plan_cannot_say_of_autoverlap_is_refused(self):
    swizzle = example("all_gather_swizzle.schedule")
    ring = example("all_gather_ring.schedule")
    for text, old, new, message in [
        (swizzle, "TransferOp.PULL", "TransferOp.LOCAL_COPY",
         "a local copy between two places"),
        (swizzle, "TransferOp.PULL", "TransferOp.REDUCE", "is not known"),
        (swizzle, "peer=other,", "peer=rank,", "is its own peer"),
        (swizzle, "peer=other,", "peer=mesh,", "peer is 4, there are 0 to 3"),
        (swizzle, "src_buf=buf", "src_buf='other'", "src_buf is 'other'"),
        (swizzle, "shard_idx=other", "shard_idx=rank",
         "shard_idx is 0, the region is of shard 1"),
        (swizzle, "dst_region=region", "dst_region=shard(rank)",
         "a plan moves a box to the same box"),
        (swizzle, "src_region=region", "src_region=other", "is no shard(k)"),
        (swizzle, "range(1, mesh)", "range(2, mesh)",
         "buf[1] ends with nothing, a gather puts chunk 1 there"),
        (swizzle, "range(1, mesh)", "range(mesh)", "is its own peer"),
        (swizzle, "append(shard(rank))", "append(shard(0))", "begins with 1"),
        (swizzle, "dev=rank", "dev=0", "for rank 1 it returns the plan of 0"),
        (swizzle, "  return plan", "  pass", "it returns no DevicePlan"),
        (swizzle, "plan.add_op(Transfer(", "plan.add_op(Collective(",
         "line 9: Collective("),
        (swizzle, "region = shard(other)", "region = Chunk([4])",
         "a chunk of sizes alone has no place"),
        (swizzle, "region = shard(other)", "region = shard(other, 2, 2)",
         "a part is 2, there are 0 to 1"),
        (swizzle, "(rank + step) % mesh", "(rank + step) / mesh",
         "no operation of a schedule"),
        (swizzle, "(rank + step) % mesh", "(rank + step) % 0", "modulo"),
        (swizzle, "(rank + step) % mesh", "axis", "a shard is axis"),
        (swizzle, "region = shard(other)", "import os", "no statement of a "
         "schedule"),
        (swizzle, "region = shard(other)", "region = open(other)",
         "open: is not known"),
        (swizzle, "region = shard(other)", "region = [k for k in shape]",
         "no expression of a schedule"),
        (swizzle, "for step in range(1, mesh):", "while True:",
         "no statement of a schedule"),
        (swizzle, "range(1, mesh)", "range(10 ** 9)", "no operation"),
        (swizzle, "def all_gather_swizzle", "x = 1\ndef all_gather_swizzle",
         "outside of functions there are only imports"),
        (swizzle, "def ", "def (", "no Python: "),
        (ring, "None if step == 0 else came", "None",
         "and nothing orders it behind that"),
        (ring, "2 * (step - 1) + half)", "2 * step + half)",
         "waits for itself: "),
        (ring, "2 * (step - 1) + half)", "99)", "depends on operation 99 of "
         "rank 3, which has 6"),
        (ring, "None if step == 0 else came", "5", "dependency 5 is no"),
        (ring, "src_rank=rank", "src_rank=(rank + 2) % mesh",
         "in the plan of rank 0"),
        (ring, "range(mesh - 1)", "range(mesh)", "has chunk"),
    ]:
      with self.subTest(old + " -> " + new):
        self.assertIn(old, text)
        self.refuses(message, "autoverlap", text.replace(old, new, 1),
                     "--ranks", "4")
    self.refuses("more than 1048576 steps", "autoverlap", swizzle.replace(
        "    other =", "    for k in range(1 << 30):\n      pass\n    other ="),
        "--ranks", "4")
    self.refuses("functions f, g: --function says which", "autoverlap",
                 "def f(rank):\n  pass\ndef g(rank):\n  pass\n", "--ranks", "2")
    self.refuses("there is no function h, there are f", "autoverlap",
                 "def f(rank):\n  pass\n", "--ranks", "2", "--function", "h")
    self.refuses("--ranks 65: a plan has from 2 to 64", "autoverlap", swizzle,
                 "--ranks", "65")

  def test_bodies_that_do_not_fit_are_refused(self):
    ring = os.path.join(EXAMPLES, "all_gather_ring.xml")
    body = ("  %y = overlap(%x, %w) {{\n    %2 = all_gather(%0) {{dim={dim}, "
            "axes=tp}} : f32[48, 32]\n    %3 = {op}(%2, %1) : f32[48, 24@tp]\n"
            "    return %3\n  }} : f32[48, 24@tp]\n")
    good = HEAD.format(ranks=4) + body.format(dim=0, op="matmul")
    for text, site, message in [
        (good, "z", "no overlap gives %z"),
        (good.replace("tp=4", "tp=2"), "y", "the schedule has 4 ranks, axes tp "
         "of"),
        (good.replace("mesh (tp", "mesh (dp"), "y", "the mesh has no axis tp"),
        (HEAD.format(ranks=4) + body.format(dim=1, op="matmul"), "y",
         "%3 sums over dim 1 of %2"),
        (HEAD.format(ranks=4) + body.format(dim=0, op="attention"), "y",
         "attention in the body; of matmuls and one collective"),
        (good.replace("all_gather", "all_reduce"), "y", "all_reduce does not "
         "move the result of the one matmul"),
        ("", None, "no overlap of all_gather"),
    ]:
      with self.subTest(message):
        path = self.path("p.asyra", text)
        said = self.tool("msccl", ring, "--program", path,
                         *(["--site", site] if site else []))
        self.assertEqual(said.returncode, 1, said.stdout)
        self.assertIn(message, said.stderr)
        self.assertEqual(said.stderr.count("\n"), 1)
    said = self.tool("msccl", ring, "--site", "y")
    self.assertIn("--site is one of a --program", said.stderr)
    said = self.tool("msccl", self.path("nowhere.xml"))
    self.assertIn("No such file", said.stderr)


def step(number, kind, srcbuf, srcoff, dstbuf, dstoff, cnt=1, dep=(-1, -1),
         hasdep=0):
  return (f'<step s="{number}" type="{kind}" srcbuf="{srcbuf}" '
          f'srcoff="{srcoff}" dstbuf="{dstbuf}" dstoff="{dstoff}" cnt="{cnt}" '
          f'depid="{dep[0]}" deps="{dep[1]}" hasdep="{hasdep}"/>')


def tb(number, send, recv, steps, chan=0):
  return (number, send, recv, steps, chan)


def algo(coll, chunks, gpus, inplace, scratch=4, channels=1):
  """An algorithm whose GPUs have these blocks."""
  lines = [f'<algo name="a" proto="LL" nchannels="{channels}" '
           f'nchunksperloop="{chunks}" ngpus="{len(gpus)}" coll="{coll}" '
           f'inplace="{inplace}">']
  for rank, blocks in enumerate(gpus):
    lines.append(f'  <gpu id="{rank}" i_chunks="0" o_chunks="0" '
                 f's_chunks="{scratch}">')
    for number, send, recv, steps, chan in blocks:
      lines.append(f'    <tb id="{number}" send="{send}" recv="{recv}" '
                   f'chan="{chan}">')
      lines += ["      " + text for text in steps]
      lines.append("    </tb>")
    lines.append("  </gpu>")
  return "\n".join([*lines, "</algo>", ""])


def all_pairs(ranks):
  """All ranks send all to all, and the last block of each adds."""
  gpus = []
  for rank in range(ranks):
    others = [r for r in range(ranks) if r != rank]
    blocks = [tb(k, r, r, [step(0, "s", "i", 0, "s", 0, ranks),
                           step(1, "r", "s", ranks * k, "s", ranks * k, ranks,
                                hasdep=1)])
              for k, r in enumerate(others)]
    # It waits for all before it writes what others send.
    last = len(others) - 1
    adds = [step(k, "nop", "i", 0, "i", 0, dep=(k, 1)) for k in range(last)]
    for k in range(len(others)):
      adds.append(step(last + k, "re", "s", ranks * k, "i", 0, ranks,
                       dep=(-1, -1) if k else (last, 1)))
    blocks.append(tb(len(others), -1, -1, adds))
    gpus.append(blocks)
  return algo("allreduce", ranks, gpus, 1, scratch=ranks * ranks)


if __name__ == "__main__":
  unittest.main(argv=sys.argv[:1] + sys.argv[3:])
