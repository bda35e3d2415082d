"""Trains small models as users do: losses, what meshes and flags do to them,
errors.

Usage: train_test.py SOURCE_DIR TOOLS_DIR
"""

import json
import os
import struct
import sys
import unittest

from tool_test import GPT2, LLAMA, SOURCE_DIR
from train_tool import QUICK, RATE, SHAPE, TEXT, TrainTest


class Losses(TrainTest):

  def test_zero_changes_no_bit(self):
    for mesh in (["--dp", "2"], ["--dp", "2", "--tp", "2"]):
      runs = [
          self.losses(LLAMA, *SHAPE, *mesh, "--clip", "0", "--zero", zero)
          for zero in "0123"
      ]
      for run in runs[1:]:
        self.assertEqual(run, runs[0])

  def test_the_loss_falls(self):
    for flags in [[], ["--optimizer", "sgd", "--momentum", "0.9"],
                  ["--dtype", "bf16"]]:
      losses = self.losses(LLAMA, *SHAPE, *flags, steps=30)
      self.assertLess(losses[-1], 0.8 * losses[0], flags)
    # In f16 losses are scaled, at first so far that steps are left out.
    half = os.path.join(SOURCE_DIR, "models/llama-tiny-fp16-op18/model.onnx")
    losses = self.losses(half, *SHAPE, steps=30)
    self.assertLess(losses[-1], 0.8 * losses[0])

  def test_meshes_give_the_losses_of_one_device(self):
    for model in [LLAMA, GPT2]:
      exact = [model, *SHAPE, "--dtype", "f64"]
      alone = self.losses(*exact)
      self.assert_close(self.losses(*exact, "--dp", "2"), alone)
    self.assert_close(
        self.losses(*exact, "--tp", "2", "--tp-strategy", "sequence"), alone)

  def test_first_values_are_the_same_on_any_mesh(self):
    # A built-in model has no data.
    model = ["llama3-tiny", "--dim", "vocabulary=128", "--dtype", "f64"]
    alone = self.losses(*model)
    self.assert_close(self.losses(*model, "--dp", "2"), alone)
    self.assert_close(self.losses(*model, "--tp", "2"), alone)
    self.assertNotEqual(self.losses(*model, "--seed", "2"), alone)

  def test_chunks_of_the_loss_give_the_same_losses(self):
    mesh = ["--dp", "2", "--tp", "2"]
    for model in [LLAMA, GPT2]:
      exact = [model, *SHAPE, "--dtype", "f64", *mesh]
      whole = self.losses(*exact, "--loss-chunks", "1")
      self.assert_close(self.losses(*exact, "--loss-chunks", "2"), whole)
    folder = self.compiled(*mesh, "--loss-chunks", "2")
    with open(os.path.join(folder, "step.asyra")) as file:
      self.assertEqual(file.read().count("= cross_entropy_parts_grad("), 2)

  def test_frozen_weights_stay(self):
    args = [LLAMA, *SHAPE, *QUICK, *RATE, "--data", self.text, "--steps", "2"]
    self.refused("freeze: .* matches all 21 parameters, nothing is trained",
                 *args, "--freeze", ".*")
    losses = self.losses(LLAMA, *SHAPE, "--freeze", ".*embed_tokens.*")
    self.assertNotEqual(losses, self.losses(LLAMA, *SHAPE))

  def test_experts_are_kept_busy(self):
    small = ["hidden=32", "heads=4", "kv_heads=2", "head_size=8", "experts=4",
             "intermediate=16", "chosen=2", "vocabulary=256", "layers=2",
             "batch=2", "seq=16", "capacity_percent=0"]
    model = ["qwen3-30b-a3b", "--dtype", "f64"]
    for size in small:
      model += ["--dim", size]
    plain = self.losses(*model)
    balanced = self.losses(*model, "--balance-loss", "0.5")
    # Two of four experts a token: 2 where all are equally busy.
    self.assertGreater(balanced[0] - plain[0], 0.99)
    self.assertLess(balanced[0] - plain[0], 1.5)
    both = ["--balance-loss", "0.5", "--router-z-loss", "0.1"]
    whole = self.losses(*model, *both)
    self.assertGreater(whole[0], balanced[0])
    self.assert_close(self.losses(*model, *both, "--dp", "2"), whole)
    self.assert_close(self.losses(*model, *both, "--tp", "2"), whole)
    self.refused("balance and z: the model has no mixture of experts", LLAMA,
                 *SHAPE, *QUICK, *RATE, "--data", self.text, "--steps", "1",
                 "--balance-loss", "0.1")

  def test_tokens_of_llm_c(self):
    tokens = [i % 7 for i in range(65)]
    path = self.path("tokens.bin")
    with open(path, "wb") as file:
      file.write(struct.pack("<256i", 20240520, 1, len(tokens), *[0] * 253))
      file.write(struct.pack("<65H", *tokens))
    said = self.passes("asyra-train", LLAMA, *SHAPE, *RATE, "--data", path,
                       "--steps", "2")
    self.assertIn("65 tokens of data\n", said)
    tokens[3] = 300
    with open(path, "r+b") as file:
      file.seek(1024)
      file.write(struct.pack("<65H", *tokens))
    self.refused("tokens.bin: token 3 is 300, the model has 256 of them", LLAMA,
                 *SHAPE, *RATE, "--data", path, "--steps", "2")

  def test_a_check_that_differs_fails(self):
    # One step of one row; the recorded loss is none that a model has.
    tensors = {"ids": ("I64", [1, 4, 16], struct.pack("<64q", *range(64))),
               "labels": ("I64", [1, 4, 16], struct.pack("<64q", *range(64))),
               "rate": ("F64", [1], struct.pack("<d", 0.01)),
               "loss": ("F64", [1], struct.pack("<d", 1)),
               "norm": ("F64", [1], struct.pack("<d", float("nan"))),
               "logits_after": ("F32", [4, 16, 256], bytes(4 * 4 * 16 * 256))}
    header, data = {}, b""
    for name, (dtype, shape, content) in tensors.items():
      offsets = [len(data), len(data) + len(content)]
      header[name] = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
      data += content
    text = json.dumps(header).encode()
    path = self.path("recorded.safetensors")
    with open(path, "wb") as file:
      file.write(struct.pack("<Q", len(text)) + text + data)
    said = self.fails("--check: errors are beyond --rtol 1000", "asyra-train",
                      LLAMA, *SHAPE, *QUICK, "--check", path, "--rtol", "1000",
                      "--freeze", ".*embed_tokens.*|none")
    self.assertIn("norm nan", said)
    self.assertIn("note: freeze: no weight is called none", said)

  def test_errors_of_flags(self):
    same = os.path.join(self.dir, ".", "text.txt")
    for message, changed in [
        ("one of --data, --check and --sample is needed", {"--data": None}),
        ("--data and --check are given: one of",
         {"--check": "x"}),
        ("--check replays steps of one batch, --accumulate is 2",
         {"--data": None, "--check": "x", "--accumulate": "2"}),
        ("--rate is 0, it must be finite and above 0", {"--rate": "0"}),
        ("there is no --rate: give the largest learning rate, as --rate 3e-4",
         {"--rate": None}),
        ("--rate is nan, it must be finite and above 0", {"--rate": "nan"}),
        ("--rate is inf, it must be finite and above 0", {"--rate": "inf"}),
        ("--steps is 0, it must be at least 1", {"--steps": "0"}),
        ("there is no --steps: give how many, as --steps 1000",
         {"--steps": None}),
        ("--warmup is 3, --steps 2", {"--warmup": "3"}),
        ("lion not in {adamw,sgd}", {"--optimizer": "lion"}),
        ("freeze: none of the 23 float weights is called embed",
         {"--freeze": "embed"}),
        ("'(' is no regular expression", {"--freeze": "("}),
        ("decay_of: none of the 21 params is called embed",
         {"--decay-of": "embed"}),
        ("no output is called 'loss', there are logits", {"--loss": "loss"}),
        ("--export x: the file's name should end in .safetensors",
         {"--export": "x"}),
        ("--export-onnx x.onnx_data: the file's name should end in .onnx",
         {"--export-onnx": "x.onnx_data"}),
        (f"--profile {self.text}: the run reads it", {"--profile": self.text}),
        (f"--log {same}: the run reads it", {"--log": same}),
    ]:
      flags = {"--steps": "2", "--rate": "0.01", "--data": self.text, **changed}
      self.refused(message, LLAMA, *SHAPE,
                   *[text for name, value in flags.items()
                     if value is not None for text in (name, value)])

  def test_numbers_have_ranges(self):
    args = [LLAMA, *SHAPE, "--steps", "2", *RATE, "--data", self.text]
    finite = "it must be finite and at least 0"
    below_1 = "it must be at least 0 and below 1"
    for flag, value, range_ in [
        ("--beta1", "1", below_1), ("--beta1", "nan", below_1),
        ("--beta2", "-0.5", below_1), ("--eps", "-1", finite),
        ("--eps", "inf", finite), ("--decay", "-1", finite),
        ("--decay", "nan", finite), ("--clip", "nan", finite),
        ("--clip", "-1", finite), ("--clip", "inf", finite),
        ("--final", "-1", "it must be from 0 to 1"),
        ("--final", "nan", "it must be from 0 to 1"),
        ("--final", "1.5", "it must be from 0 to 1"),
        ("--warmup", "-5", finite),
        ("--timeout", "nan", "it must be finite and above 0"),
    ]:
      self.refused(f"{flag}: it is {value}, {range_}", *args, flag, value)
    for value in ["-3", "nan", "1"]:
      self.refused(f"--momentum: it is {value}, {below_1}", *args,
                   "--optimizer", "sgd", "--momentum", value)
    # The pass checks them too.
    self.fails("attach_updates: decay is -1, it should be finite and at least 0",
               "asyra-opt", LLAMA, *SHAPE, "--passes",
               "attach_loss,mark_params,differentiate,"
               "attach_updates{decay=-1.0}")

  def test_flags_without_effect(self):
    data = [LLAMA, *SHAPE, "--steps", "2", *RATE, "--data", self.text]
    sgd = ["--optimizer", "sgd"]
    for message, *args in [
        ("--momentum: it has no effect with --optimizer adamw", "--momentum",
         "0.9"),
        ("--beta1: it has no effect with --optimizer sgd", *sgd, "--beta1",
         "0.5"),
        ("--eps: it has no effect with --optimizer sgd", *sgd, "--eps", "0"),
        ("--decay-of: it has no effect with --decay 0", "--decay", "0",
         "--decay-of", ".*"),
        ("--temperature has no effect without --sample", "--temperature", "2"),
        ("--prompt has no effect without --sample", "--prompt", "hi"),
        ("--rtol has no effect without --check", "--rtol", "1"),
        ("--restart-data has no effect without --checkpoint",
         "--restart-data"),
        ("--keep has no effect without --checkpoint", "--keep", "1"),
        ("--evaluate-batches has no effect without --evaluate-every",
         "--evaluate-batches", "2"),
    ]:
      self.refused(message, *data, *args)
    check = [LLAMA, *SHAPE, "--check"]
    folder = os.path.dirname(LLAMA)
    for message, *args in [
        ("--export has no effect with --check of a recorded run", "x",
         "--export", "w.safetensors"),
        ("--steps has no effect with --check of a recorded run", "x",
         "--steps", "3"),
        ("--clip has no effect with --check of a recorded run", "x", "--clip",
         "0"),
        ("--save-tuning has no effect with --check of a recorded run", "x",
         "--save-tuning", "t"),
        ("--log has no effect with --check of a folder", folder, "--log", "l"),
    ]:
      self.fails(message, "asyra-train", *check, *args)
    sample = [LLAMA, *SHAPE, "--sample", "5", "--checkpoint", "c"]
    for flag, *value in [("--tp", "2"), ("--device", "cpu"), ("--rtol", "1"),
                         ("--csv", "x"), ("--accumulate", "2"), ("--shuffle",)]:
      self.fails(f"{flag} has no effect with --sample", "asyra-train", *sample,
                 flag, *value)

  def test_errors_of_data(self):
    args = [LLAMA, *SHAPE, "--steps", "2", *RATE, "--data"]
    nowhere = self.path("nowhere")
    self.refused(f"{nowhere}: No such file", *args, nowhere)
    self.refused("the data has 16 bytes, a row takes 16 and one more",
                 *args, self.path("short", TEXT[:16]))
    self.refused("empty", *args, self.path("empty", ""))
    self.refused("the model has 100 of them",
                 "llama3-tiny", "--dim", "vocabulary=100", *QUICK, *args[-5:],
                 self.text)

  def test_errors_of_models(self):
    args = ["--steps", "2", *RATE, "--data", self.text]
    folder = self.path("folder")
    os.mkdir(folder)
    self.refused("folder/training.json: No such file", folder, *args)
    # Images have no tokens.
    vit = os.path.join(SOURCE_DIR, "models/vit-tiny-op23/model.onnx")
    self.refused("the model takes no tokens", vit, *args)
    several = self.path("several.asyra", """asyra 1 global
program @f(%ids: i64[2, 4], %t: f32[128, 8] weight)
    -> (f32[2, 4, 8], f32[2, 4, 8]) {
  %x = embedding(%t, %ids) : f32[2, 4, 8]
  %y = exp(%x) : f32[2, 4, 8]
  return %x, %y
}
""")
    self.refused("2 outputs may be the logits: x, y; name one of them",
                 several, *args)
    integers = self.path("integers.asyra", """asyra 1 global
program @f(%ids: i64[2, 4]) -> (i64[2, 4]) {
  %x = add(%ids, %ids) : i64[2, 4]
  return %x
}
""")
    self.refused("there is no loss: none of the outputs x is float", integers,
                 *args)

  def test_data_must_fit_labels(self):
    args = ["--steps", "2", *RATE, "--data", self.text]
    # Sums over positions: rows of classes, one for each text.
    pooled = self.path("pooled.asyra", """asyra 1 global
program @f(%ids: i64[2, 4], %t: f32[128, 8] weight) -> (f32[2, 8]) {
  %x = embedding(%t, %ids) : f32[2, 4, 8]
  %y = reduce_sum(%x) {dims=[1], keep=false} : f32[2, 8]
  return %y
}
""")
    self.refused("the model's labels are i64[2], those of tokens [2,4] are "
                 "i64[2,4]: its output is not logits for each token", pooled,
                 *args)
    hidden = self.path("hidden.asyra", """asyra 1 global
program @f(%ids: i64[2, 4], %t: f32[128, 8] weight) -> (f32[2, 4, 8]) {
  %x = embedding(%t, %ids) : f32[2, 4, 8]
  return %x
}
""")
    self.refused("text.txt: token ",
                 hidden, *args)
    own = self.path("own.asyra", """asyra 1 global
program @f(%ids: i64[2, 4], %labels: f32[2, 4, 8], %t: f32[128, 8] weight)
    -> (f32[2, 4, 8]) {
  %x = embedding(%t, %ids) : f32[2, 4, 8]
  %y = mul(%x, %labels) : f32[2, 4, 8]
  return %y
}
""")
    self.refused("the model has a %labels of its own, and ends in no loss",
                 own, *args)

  def test_batches_that_are_added_up_are_one_large_batch(self):
    exact = [LLAMA, "--dim", "seq=16", "--dtype", "f64"]
    whole = self.losses(*exact, "--dim", "batch=8", steps=6)
    for rows, flags in [
        ("4", ["--accumulate", "2"]),
        ("2", ["--accumulate", "4"]),
        ("4", ["--accumulate", "2", "--dp", "2"]),
        ("2", ["--accumulate", "4", "--dp", "2", "--zero", "2"]),
        ("4", ["--accumulate", "2", "--dp", "2", "--zero", "3", "--tp", "2"])]:
      self.assert_close(
          self.losses(*exact, "--dim", f"batch={rows}", *flags, steps=6), whole)
    # Positions are the same in each row: their gradient is summed over dp
    # early in one program and late in the other.
    exact_gpt = ["gpt3-tiny", "--dim", "layers=1", "--dtype", "f64"]
    self.assert_close(
        self.losses(*exact_gpt, "--dim", "batch=4", "--accumulate", "2", "--dp",
                    "2", "--tp", "2", steps=3),
        self.losses(*exact_gpt, "--dim", "batch=8", steps=3))
    # One batch less is another step.
    other = self.losses(*exact, "--dim", "batch=4", steps=6)
    self.assertGreater(abs(other[0] - whole[0]), 1e-6)


if __name__ == "__main__":
  unittest.main(argv=sys.argv[:1] + sys.argv[3:])
