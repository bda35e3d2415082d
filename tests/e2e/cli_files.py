"""Files that are wrong, damaged or missing, and weights without data.

Part of cli_test.py.
"""

import json
import os
import random
import shutil

from tool_test import DIMS, LLAMA, SOURCE_DIR, ToolTest, run


class Files(ToolTest):

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

  def test_links_in_a_circle_and_long_names_are_errors(self):
    circle = self.path("circle")
    os.symlink("circle", circle)
    for name in [circle, self.path("n" * 300)]:
      for tool, *extra in [("asyra-opt",), ("asyra-run",), ("asyra-sim", "run"),
                           ("asyra-train", "--data", LLAMA, "--steps", "1",
                            "--rate", "1")]:
        result = run(tool, *extra, name)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertTrue(result.stderr.startswith(tool + ": "), result.stderr)
      self.fails(name[-20:], "asyra-run", LLAMA, "--check", name)
      self.fails(name[-20:], "asyra-train", LLAMA, "--check", name)
    out = self.path("model.asyra")
    self.passes("asyra-opt", LLAMA, *DIMS, "-o", out)
    weights = self.path("model.safetensors")
    os.rename(weights, self.path("0a1b"))
    os.symlink("0a1b", weights)  # as the Hugging Face cache has them
    self.passes("asyra-run", out)
    os.remove(weights)
    os.symlink("model.safetensors", weights)
    self.fails("model.safetensors: Too many levels of symbolic links",
               "asyra-run", out)
    os.remove(weights)
    os.symlink("nothing", weights)
    self.fails("model.safetensors: there is no such file", "asyra-run", out)

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
