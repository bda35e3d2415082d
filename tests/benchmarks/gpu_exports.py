#!/usr/bin/env python3
"""Models as users export them, with padding, beside PyTorch on one GPU.

Each model is exported by torch.onnx.export, compiled as by its user, and run on
the tokens and the mask that PyTorch gets: with --padding any and right. PyTorch
runs it in bf16, compiled and not, with each attention that transformers has for
it. Errors are those of the result by PyTorch's in f32, of its largest element.
A JSON object for each model, times in ms.

Usage: gpu_exports.py TOOLS_DIR [--machine M] [--models NAME,...] [--json FILE]
Needs torch, transformers, onnx and onnxscript.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile

import numpy as np
import torch
import transformers

STEPS = 20
VOCABULARY = 8192


class Pooled(torch.nn.Module):
  """The mean of the last hidden states over tokens: outputs stay small."""

  def __init__(self, model):
    super().__init__()
    self.model = model
    self.model.config.use_cache = False

  def forward(self, input_ids, attention_mask):
    out = self.model(input_ids=input_ids, attention_mask=attention_mask)
    return out.last_hidden_state.mean(1)


def bert(attention):
  config = transformers.BertConfig(attn_implementation=attention)
  return transformers.BertModel(config, add_pooling_layer=False)


def t5(_):
  return transformers.T5EncoderModel(
      transformers.T5Config(vocab_size=VOCABULARY, d_model=768, d_ff=2048,
                            d_kv=64, num_layers=12, num_heads=12,
                            feed_forward_proj="gated-gelu", dropout_rate=0.0))


def gemma2(attention):
  return transformers.Gemma2Model(
      transformers.Gemma2Config(vocab_size=VOCABULARY, hidden_size=3584,
                                intermediate_size=14336, num_hidden_layers=4,
                                num_attention_heads=16, num_key_value_heads=8,
                                head_dim=256, sliding_window=4096,
                                attn_implementation=attention))


def llama(attention):
  return transformers.LlamaModel(
      transformers.LlamaConfig(vocab_size=VOCABULARY, hidden_size=4096,
                               intermediate_size=14336, num_hidden_layers=4,
                               num_attention_heads=32, num_key_value_heads=8,
                               max_position_embeddings=8192,
                               attn_implementation=attention))


# Builder, rows, tokens, PyTorch's attentions.
MODELS = {
    "bert": (bert, 32, 512, ["sdpa", "eager"]),
    "t5": (t5, 32, 512, ["eager"]),
    "gemma2": (gemma2, 1, 8192, ["eager", "flex_attention"]),
    "llama": (llama, 2, 4096, ["sdpa"]),
}


@torch.no_grad()
def median_ms(step):
  for _ in range(4):
    step()
  torch.cuda.synchronize()
  times = []
  for _ in range(STEPS):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    step()
    end.record()
    torch.cuda.synchronize()
    times.append(begin.elapsed_time(end))
  return round(statistics.median(times), 3)


def run(*command):
  done = subprocess.run(command, capture_output=True, text=True, check=False)
  if done.returncode:
    raise RuntimeError(f"{' '.join(command[:2])}: {done.stderr[-400:]}")
  return done.stdout


def error_of(got, want):
  return float(np.abs(got - want).max() / np.abs(want).max())


@torch.no_grad()
def result(model, inputs):
  return model(*inputs).double().cpu().numpy()


def measure_torch(build, attentions, state, inputs, want):
  row = {}
  for attention in attentions:
    try:
      model = Pooled(build(attention)).eval()
      model.load_state_dict(state)
      model = model.cuda().bfloat16()
      if attention != "flex_attention":  # never without compiling
        row[attention] = median_ms(lambda: model(*inputs))
      fast = torch.compile(model)
      row[f"{attention} compiled"] = median_ms(lambda: fast(*inputs))
      row[f"{attention} error"] = error_of(result(fast, inputs), want)
      del model, fast
    except Exception as error:  # pylint: disable=broad-except
      row[f"{attention} compiled"] = repr(error)[:200]
    torch.cuda.empty_cache()
    torch._dynamo.reset()
  return row


def measure_asyra(tools, machine, path, folder, want):
  row = {}
  for padding in ("any", "right"):
    program = os.path.join(folder, f"{padding}.asyra")
    said = run(os.path.join(tools, "asyra-opt"), path, "--dtype", "bf16",
               "--padding", padding, "--machine", machine, "-o", program)
    row[f"predicted {padding}"] = float(said.split(" ms")[0])
    said = run(os.path.join(tools, "asyra-run"), program, "--device", "cuda",
               "--repeat", str(STEPS), "--json", "--input",
               f"input_ids={folder}/ids.npy", "--input",
               f"attention_mask={folder}/mask.npy", "--output", f"{folder}/out")
    us = json.loads(said)["steps"]["median_us"]
    row[f"asyra {padding}"] = round(us / 1e3, 3)
    got = np.load(f"{folder}/out/pooled.npy").astype(float)
    row[f"asyra {padding} error"] = error_of(got, want)
  return row


def measure(name, tools, machine, folder):
  build, rows, tokens, attentions = MODELS[name]
  torch.manual_seed(1)
  model = Pooled(build("eager")).eval()
  ids = torch.randint(5, VOCABULARY, (rows, tokens))
  lengths = torch.tensor(
      [tokens - i * tokens // (2 * rows) for i in range(rows)])
  mask = (torch.arange(tokens)[None] < lengths[:, None]).long()
  np.save(os.path.join(folder, "ids.npy"), ids.numpy())
  np.save(os.path.join(folder, "mask.npy"), mask.numpy())
  path = os.path.join(folder, "model.onnx")
  with torch.no_grad():
    torch.onnx.export(model, (ids, mask), path, dynamo=True,
                      external_data=True, opset_version=18,
                      input_names=["input_ids", "attention_mask"],
                      output_names=["pooled"])
  inputs = (ids.cuda(), mask.cuda())
  state = model.state_dict()
  want = result(model.cuda(), inputs)
  model.cpu()
  return {"model": f"{name} {rows}x{tokens}",
          **measure_torch(build, attentions, state, inputs, want),
          **measure_asyra(tools, machine, path, folder, want)}


def main():
  parser = argparse.ArgumentParser()
  parser.add_argument("tools")
  parser.add_argument("--machine", default="h200x8")
  parser.add_argument("--models", default=",".join(MODELS))
  parser.add_argument("--json")
  flags = parser.parse_args()
  rows = []
  for name in flags.models.split(","):
    with tempfile.TemporaryDirectory() as folder:
      try:
        rows.append(measure(name, flags.tools, flags.machine, folder))
      except Exception as error:  # pylint: disable=broad-except
        rows.append({"model": name, "error": repr(error)[:600]})
    print(json.dumps(rows[-1]), flush=True)
  if flags.json:
    with open(flags.json, "w", encoding="utf-8") as out:
      json.dump(rows, out, indent=1)


if __name__ == "__main__":
  main()
