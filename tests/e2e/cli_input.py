"""A model is used: inputs from files, outputs into files."""

import ast
import json
import os
import shutil
import struct

from tool_test import LLAMA, ToolTest, recorded


def write_npy(path, descr, shape, data):
  header = repr({"descr": descr, "fortran_order": False, "shape": shape})
  header = header.ljust(117) + "\n"
  with open(path, "wb") as file:
    file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) +
               header.encode() + data)


def read_npy(path):
  """Element type, shape and bytes of an array."""
  with open(path, "rb") as file:
    whole = file.read()
  assert whole[:8] == b"\x93NUMPY\x01\x00", whole[:8]
  length, = struct.unpack("<H", whole[8:10])
  header = ast.literal_eval(whole[10:10 + length].decode())
  assert not header["fortran_order"]
  return header["descr"], header["shape"], whole[10 + length:]


def read_safetensors(path):
  with open(path, "rb") as file:
    whole = file.read()
  length, = struct.unpack("<Q", whole[:8])
  header = json.loads(whole[8:8 + length])
  header.pop("__metadata__", None)
  return header, whole[8 + length:]


# Two inputs, a product over the size of one of them, and a bf16 output.
PROGRAM = """asyra 1 global
program @f(%a: f32[2, 4], %b: bf16[4, 3]) -> (f32[2, 3], bf16[4, 3]) {
  %c = cast(%b) {to=f32} : f32[4, 3]
  %y = matmul(%a, %c) : f32[2, 3]
  return %y, %b
}
"""


# Sizes of 0: a cache that is empty, a batch of nothing.
EMPTY = """asyra 1 global
program @f(%e: f32[2, 0, 3], %x: f32[2, 4, 3], %m: f32[4, 0], %n: f32[0, 5],
           %ids: i64[0], %t: f32[7, 4], %q: f32[2, 3, 4, 8],
           %k: f32[2, 0, 2, 8], %v: f32[2, 0, 2, 8])
    -> (f32[2, 4, 3], f32[4, 5], f32[2, 3], f32[0, 4], f32[2, 0, 3],
        f32[2, 3, 4, 8]) {
  %c = concat(%e, %x) {dim=1} : f32[2, 4, 3]
  %p = matmul(%m, %n) : f32[4, 5]
  %s = reduce_sum(%e) {dims=[1], keep=false} : f32[2, 3]
  %rows = embedding(%t, %ids) : f32[0, 4]
  %sm = softmax(%e) {dim=1} : f32[2, 0, 3]
  %a = attention(%q, %k, %v) {scale=0.5} : f32[2, 3, 4, 8]
  return %c, %p, %s, %rows, %sm, %a
}
"""


class Input(ToolTest):

  def program(self):
    return self.path("f.asyra", PROGRAM)

  def arrays(self):
    """a: 0 to 7, b: halves."""
    a = self.path("a.npy")
    write_npy(a, "<f4", (2, 4), struct.pack("<8f", *range(8)))
    b = self.path("b.npy")
    write_npy(b, "<f8", (4, 3), struct.pack("<12d", *[i / 2 for i in range(12)]))
    return ["--input", f"a={a}", "--input", f"b={b}"]

  # Of a and b: rows (0..3) and (4..7) times columns of halves.
  PRODUCT = [sum((4 * r + k) * (3 * k + c) / 2 for k in range(4))
             for r in range(2) for c in range(3)]

  def test_arrays_go_in_and_come_out(self):
    for device in ["cpu", "interpreter"]:
      out = self.path("out-" + device)
      said = self.passes("asyra-run", self.program(), *self.arrays(),
                         "--device", device, "--output", out)
      self.assertIn(f"written to {os.path.join(out, 'y.npy')}", said)
      self.assertEqual(sorted(os.listdir(out)), ["b.npy", "y.npy"])
      descr, shape, data = read_npy(os.path.join(out, "y.npy"))
      self.assertEqual((descr, shape), ("<f4", (2, 3)))
      self.assertEqual(list(struct.unpack("<6f", data)), self.PRODUCT)
      # NumPy has no bf16.
      descr, shape, data = read_npy(os.path.join(out, "b.npy"))
      self.assertEqual((descr, shape), ("<f4", (4, 3)))
      self.assertEqual(struct.unpack("<12f", data)[3], 1.5)
    self.assertEqual(sorted(os.listdir(self.dir)),
                     ["a.npy", "b.npy", "f.asyra", "out-cpu",
                      "out-interpreter"])

  def test_outputs_are_inputs_of_other_runs(self):
    for form in ["npy", "pb", "safetensors"]:
      out = self.path(form)
      self.passes("asyra-run", self.program(), *self.arrays(), "--output", out,
                  "--output-form", form)
      # Whole outputs, whatever the mesh.
      again = self.path("again")
      self.passes("asyra-run", self.program(), "--mesh", "p=2", "--input",
                  "a=[[0,1,2,3],[4,5,6,7]]", "--input", f"b={out}/b.{form}",
                  "--output", again)
      data = read_npy(os.path.join(again, "y.npy"))[2]
      self.assertEqual(list(struct.unpack("<6f", data)), self.PRODUCT)
    header, data = read_safetensors(self.path("safetensors") + "/b.safetensors")
    self.assertEqual(header["b"]["dtype"], "BF16")
    self.assertEqual(header["b"]["shape"], [4, 3])
    self.assertEqual(data[2:4], b"\x00\x3f")  # 0.5

  def test_json_says_where_outputs_are(self):
    out = self.path("out")
    said = self.passes("asyra-run", self.program(), "--input", "a=1", "--input",
                       "b=2", "--output", out, "--json")
    files = [output["file"] for output in json.loads(said)["outputs"]]
    self.assertEqual(files, [os.path.join(out, "y.npy"),
                             os.path.join(out, "b.npy")])
    data = read_npy(files[0])[2]
    self.assertEqual(struct.unpack("<6f", data), (8,) * 6)

  def test_inputs_that_do_not_fit_are_refused(self):
    program = self.program()
    wide = self.path("wide.npy")
    write_npy(wide, "<f4", (2, 5), bytes(40))
    narrow = self.path("tenth.npy")
    write_npy(narrow, "<f4", (4, 3), struct.pack("<12f", *[0.1] * 12))
    for args, message in [
        (["a=1"], "an input is not given with --input: b bf16[4,3]"),
        (["a=1", "b=1", "c=1"],
         "no input is called c, the program takes a, b"),
        ([f"a={wide}", "b=1"], "it is f32[2,5], the program takes f32[2,4]"),
        (["a=1", f"b={narrow}"], "which bf16 does not hold; --round-inputs"),
        (["a=none.npy", "b=1"], "none.npy: No such file"),
        ([self.dir, "b=1"], "a folder gives all inputs"),
        ([self.dir], "there is no input_0.pb"),
        (["none"], "--input none: expected NAME=FILE")]:
      flags = [flag for arg in args for flag in ("--input", arg)]
      self.fails(message, "asyra-run", program, *flags)
    self.passes("asyra-run", program, "--input", "a=1", "--input",
                f"b={narrow}", "--round-inputs")
    self.fails("--check excludes --input", "asyra-run", program, "--check",
               self.dir, "--input", "a=1")
    self.fails("Not a directory", "asyra-run", program, "--output", program)
    self.fails("No such file", "asyra-run", program, "--output",
               self.path("no/such"))

  def test_shapes_bind_dimensions(self):
    out = self.path("out")
    self.passes("asyra-run", LLAMA, "--input", "input_ids=[[1,2,3,4,5]]",
                "--output", out)
    self.assertEqual(read_npy(os.path.join(out, "logits.npy"))[1], (1, 5, 256))
    self.fails("no input is called ids, there is input_ids", "asyra-run", LLAMA,
               "--input", "ids=[[1,2,3]]")
    # Whether or not their shapes are known.
    self.fails("no input is called foo, there ", "asyra-run", LLAMA, "--input",
               "foo=1")
    self.fails("give --dim batch=N --dim seq=N", "asyra-run", LLAMA, "--input",
               "input_ids=1,2,3")
    self.passes("asyra-run", LLAMA, "--input", "input_ids=1,2,3", "--dim",
                "batch=1", "--dim", "seq=3")

  def test_a_folder_of_inputs_alone_runs(self):
    inputs = self.path("inputs")
    os.mkdir(inputs)
    shutil.copy(os.path.join(recorded(LLAMA), "input_0.pb"), inputs)
    outs = [self.path("one"), self.path("two")]
    self.passes("asyra-run", LLAMA, "--input", inputs, "--output", outs[0],
                "--output-form", "pb")
    shutil.copy(os.path.join(outs[0], "logits.pb"),
                os.path.join(inputs, "output_0.pb"))
    self.passes("asyra-run", LLAMA, "--check", inputs, "--tp", "2",
                "--search-steps", "200")
    os.remove(os.path.join(inputs, "output_0.pb"))
    self.fails(f"--check {inputs}: there is input_0.pb, but no output_0.pb to "
               f"compare with; --input {inputs} runs without comparing",
               "asyra-run", LLAMA, "--check", inputs)
    self.fails(f"no output_0.pb in it itself, but in {recorded(LLAMA)}",
               "asyra-run", LLAMA, "--check", os.path.dirname(LLAMA))
    self.fails("there is no such folder", "asyra-run", LLAMA, "--check",
               self.path("none"))

  def test_sizes_may_be_0(self):
    program = self.path("empty.asyra", EMPTY)
    out = self.path("out")
    for flags in [["--device", "cpu"], ["--device", "interpreter"],
                  ["--mesh", "p=2", "--compare-single"]]:
      self.passes("asyra-run", program, "--output", out, "--input", "x=2",
                  *[flag for name in "e m n ids t q k v".split()
                    for flag in ("--input", f"{name}=1")], *flags)
      for name, shape, value in [
          ("c", (2, 4, 3), 2), ("p", (4, 5), 0), ("s", (2, 3), 0),
          ("rows", (0, 4), 0), ("sm", (2, 0, 3), 0), ("a", (2, 3, 4, 8), 0)]:
        descr, found, data = read_npy(os.path.join(out, name + ".npy"))
        self.assertEqual((descr, found), ("<f4", shape))
        self.assertEqual(set(struct.unpack(f"<{len(data) // 4}f", data)),
                         {value} if data else set())

  def test_random_weights_are_the_same_on_any_mesh(self):
    outs = []
    for mesh in [[], ["--tp", "2"], ["--dp", "2", "--tp", "2"]]:
      out = self.path(f"out{len(outs)}")
      self.passes("asyra-run", "llama3-tiny", "--dim", "batch=2", "--dim",
                  "seq=8", "--dtype", "f64", *mesh, "--output", out,
                  "--search-steps", "200")
      file, = os.listdir(out)
      descr, _, data = read_npy(os.path.join(out, file))
      self.assertEqual(descr, "<f8")
      outs.append(struct.unpack(f"<{len(data) // 8}d", data))
    largest = max(abs(x) for x in outs[0])
    self.assertGreater(largest, 0)
    for other in outs[1:]:
      for x, y in zip(outs[0], other, strict=True):
        self.assertLess(abs(x - y), 1e-12 * largest)
