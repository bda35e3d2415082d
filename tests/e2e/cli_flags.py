"""Wrong flags: one line that names the flag and the place.

Part of cli_test.py.
"""

import os

from tool_test import DIMS, LLAMA, ToolTest


class Flags(ToolTest):

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

  def test_dims_must_fit(self):
    out = ["-o", self.path("out.asyra")]
    self.fails("batch of input input_ids, seq of input input_ids: give "
               "--dim batch=N --dim seq=N", "asyra-opt", LLAMA, *out)
    self.fails("no input has a dim sequence; there are batch, seq",
               "asyra-opt", LLAMA, *DIMS, "--dim", "sequence=4", *out)
    self.fails("--dim batch=-1: the size must be", "asyra-opt", LLAMA, "--dim",
               "batch=-1", "--dim", "seq=4", *out)
    self.fails("the -1 in shape [0,4,-1,16] may be any size", "asyra-opt",
               LLAMA, "--dim", "batch=0", "--dim", "seq=4", *out)
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
        ("auto", "got 'auto'; asyra-sim sweep compares meshes"),
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
      self.fails("--ranks is 2, the mesh () has 1 device; give its axes, as "
                 "--dp 2 does, or compare meshes: asyra-sim sweep MODEL "
                 "--ranks 2 --grid dp=1,2 --grid tp=1,2", tool, LLAMA, *DIMS,
                 "--ranks", "2")
    self.passes("asyra-opt", LLAMA, *DIMS, *mesh, "--ranks", "4", "-o", out)
    self.passes("asyra-run", out, "--ranks", "4")
    self.fails("--ranks is 2, the mesh (sp=2, tp=2) has 4", "asyra-run", out,
               "--ranks", "2")

  def test_a_pin_that_is_no_regular_expression_names_the_flag(self):
    self.fails("--shard: pin 'he(ad=0@tp': 'he(ad' is no regular expression",
               "asyra-opt", "llama3-tiny", "--tp", "2", "--shard",
               "he(ad=0@tp")
