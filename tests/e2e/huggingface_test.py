"""Models of Hugging Face's config.json, through the tools."""

import json
import os
import shutil
import struct
import sys
import unittest

from tool_test import SOURCE_DIR, ToolTest

MODELS = os.path.join(SOURCE_DIR, "models/huggingface")
SIZES = ["--dim", "batch=2", "--dim", "seq=16"]


def header(path):
  with open(path, "rb") as file:
    length, = struct.unpack("<Q", file.read(8))
    return json.loads(file.read(length)), file.read()


def floats(path, name):
  """A tensor of f32 of a safetensors file."""
  entries, data = header(path)
  begin, end = entries[name]["data_offsets"]
  return struct.unpack(f"<{(end - begin) // 4}f", data[begin:end])


class HuggingFace(ToolTest):

  def logits(self, model, *flags):
    ids = os.path.join(MODELS, "mixtral", "recorded.safetensors")
    out = self.path("out")
    self.passes("asyra-run", model, *SIZES, "--input",
                f"input_ids={ids}:input_ids", "--output", out, "--output-form",
                "safetensors", *flags)
    return floats(os.path.join(out, "logits.safetensors"), "logits")

  def same(self, a, b):
    largest = max(abs(x) for x in b)
    self.assertLess(max(abs(x - y) for x, y in zip(a, b, strict=True)),
                    1e-5 * largest)

  def train(self, model, *flags):
    text = self.path("text", "$ 1, 2, 3, 45; (6) - 7! & 8 / 9. " * 40)
    return self.passes("asyra-train", model, "--data", text, "--steps", "2",
                       "--rate", "0.001", *flags)

  def test_a_folder_runs_as_transformers_on_any_mesh(self):
    for name in ["mixtral", "gemma3", "gpt_neox"]:
      recorded = os.path.join(MODELS, name, "recorded.safetensors")
      ids = self.path("ids.safetensors")
      shutil.copy(recorded, ids)
      for mesh in [[], ["--tp", "2"], ["--tp", "2", "--sp", "2"]]:
        out = self.path("out")
        self.passes("asyra-run", os.path.join(MODELS, name), *SIZES, *mesh,
                    "--input", f"input_ids={ids}:input_ids", "--output", out,
                    "--output-form", "safetensors")
        self.same(floats(os.path.join(out, "logits.safetensors"), "logits"),
                  floats(recorded, "logits"))

  def test_ten_lines_describe_a_model(self):
    config = self.path("405b.json", json.dumps({
        "model_type": "llama", "hidden_size": 16384,
        "intermediate_size": 53248, "num_hidden_layers": 126,
        "num_attention_heads": 128, "num_key_value_heads": 8,
        "vocab_size": 128256}))
    said = self.passes("asyra-opt", config, "--dim", "layers=1", "--tp", "8",
                       "--machine", "h200x8")
    self.assertIn("batch 1, 2048 tokens, bf16", said)
    self.assertIn("7.39 G parameters", said)

  def test_a_trained_model_is_exported_as_it_came(self):
    model = os.path.join(MODELS, "mixtral")
    exported, again = self.path("exported"), self.path("again")
    self.train(model, *SIZES, "--tp", "2", "--export-hf", exported)
    was, _ = header(os.path.join(model, "model.safetensors"))
    entries, _ = header(os.path.join(exported, "model.safetensors"))
    self.assertEqual(
        {name: entry["shape"] for name, entry in entries.items()},
        {name: entry["shape"] for name, entry in was.items()
         if name != "__metadata__"})
    trained = self.logits(exported)
    self.assertNotEqual(trained, self.logits(model))
    # By a folder that was compiled before.
    run = self.path("run")
    self.passes("asyra-opt", model, "--train", *SIZES, "--tp", "2", "-o", run)
    self.train(run, "--export-hf", again)
    self.same(self.logits(again), trained)
    # Over the export itself.
    self.train(again, *SIZES, "--export-hf", again)
    self.assertNotEqual(self.logits(again), trained)

  def test_what_cannot_be_is_one_line(self):
    text = self.path("text", "x" * 400)
    flags = ["--data", text, "--steps", "1", "--rate", "1"]
    self.fails("--export-hf: llama3-tiny has no config.json", "asyra-train",
               "llama3-tiny", *flags, "--export-hf", self.path("e"))
    broken = self.path("broken.json", '{"model_type": "llama"')
    self.fails("broken.json: it is no JSON object", "asyra-opt", broken)
    self.fails("model_type: is '', known are gemma, gemma2", "asyra-opt",
               self.path("empty.json", "{}"))
    self.fails("nor a folder with a config.json", "asyra-opt", self.dir)
    self.fails("--weights: ", "asyra-opt", os.path.join(MODELS, "llama"),
               "--weights", ".*")
    model = os.path.join(MODELS, "llama")
    self.fails("no size hidden, it has batch, seq, layers, logits;",
               "asyra-opt", model, "--dim", "hidden=4")
    self.fails("there is no tensor model.layers.2.", "asyra-opt", model,
               "--dim", "layers=3")
    run = self.path("run")
    self.passes("asyra-opt", model, "--train", *SIZES, "-o", run)
    self.fails(f"--export-hf {run}: it is the folder of a training",
               "asyra-train", run, *flags, "--export-hf", run)
    self.assertFalse(os.path.exists(self.path("e")))


if __name__ == "__main__":
  unittest.main(argv=sys.argv[:1] + sys.argv[3:])
