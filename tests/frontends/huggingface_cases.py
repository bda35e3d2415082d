#!/usr/bin/env python3
"""Compares models of Hugging Face's config.json with transformers.

By hand, with torch and transformers installed (SKIP without):

  tests/frontends/huggingface_cases.py --bin build/dev/tools --random 50 --seed 1
  tests/frontends/huggingface_cases.py --write models/huggingface

--random draws models: a family, its sizes and its options. Each is written by
transformers, run by asyra-run on one device and on a mesh, trained for two
steps, exported, read back by transformers and compared.

--write makes the cases that the tests run: config.json, model.safetensors in
bf16, which config.json asks to compute in f32, and recorded.safetensors with
ids and logits.
"""

import argparse
import importlib.util
import os
import random
import shutil
import subprocess
import sys
import tempfile

BATCH, SEQ = 2, 16
SIZES = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, vocab_size=64, intermediate_size=48,
             max_position_embeddings=64, initializer_range=0.2)
NEOX = {name: size for name, size in SIZES.items()
        if name != "num_key_value_heads"}
PHI = dict(SIZES, pad_token_id=0, bos_token_id=1, eos_token_id=2)
LLAMA3_ROPE = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0,
                   low_freq_factor=1.0, high_freq_factor=4.0,
                   original_max_position_embeddings=16)
YARN_ROPE = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0,
                 original_max_position_embeddings=16)
LONG_ROPE = dict(rope_type="longrope", rope_theta=10000.0,
                 partial_rotary_factor=0.5, short_factor=[1.0, 1.5],
                 long_factor=[2.0, 3.0])

# Configuration and fields.
CASES = {
    "llama": ("LlamaConfig", dict(SIZES, tie_word_embeddings=True,
                                  attention_bias=True, mlp_bias=True,
                                  rope_parameters=LLAMA3_ROPE)),
    "mistral": ("MistralConfig", dict(SIZES, head_dim=12, sliding_window=5)),
    "mixtral": ("MixtralConfig", dict(SIZES, num_local_experts=4)),
    "qwen2": ("Qwen2Config", dict(SIZES, num_hidden_layers=3,
                                  use_sliding_window=True, sliding_window=4,
                                  max_window_layers=1,
                                  rope_parameters=YARN_ROPE)),
    "qwen3": ("Qwen3Config", dict(SIZES, head_dim=16)),
    "qwen3_moe": ("Qwen3MoeConfig", dict(SIZES, num_hidden_layers=3,
                                         head_dim=8, moe_intermediate_size=24,
                                         num_experts=6, num_experts_per_tok=3,
                                         norm_topk_prob=True,
                                         mlp_only_layers=[1])),
    "gemma": ("GemmaConfig", dict(SIZES, head_dim=16)),
    "gemma2": ("Gemma2Config", dict(SIZES, num_hidden_layers=3, head_dim=16,
                                    query_pre_attn_scalar=24,
                                    sliding_window=4)),
    "gemma3": ("Gemma3TextConfig", dict(
        SIZES, num_hidden_layers=3, head_dim=16, query_pre_attn_scalar=16,
        sliding_window=4, layer_types=["sliding_attention"] * 2 +
        ["full_attention"], rope_parameters=dict(
            sliding_attention=dict(rope_type="default", rope_theta=1000.0),
            full_attention=dict(rope_type="linear", factor=8.0,
                                rope_theta=10000.0)))),
    "phi3": ("Phi3Config", dict(PHI, original_max_position_embeddings=8,
                                partial_rotary_factor=0.5,
                                rope_parameters=LONG_ROPE)),
    "gpt_neox": ("GPTNeoXConfig", NEOX),
    "gpt2": ("GPT2Config", dict(n_embd=32, n_layer=2, n_head=4, vocab_size=64,
                                n_positions=64, initializer_range=0.2,
                                bos_token_id=0, eos_token_id=0,
                                scale_attn_by_inverse_layer_idx=True)),
}


def drawn_rope(draw, size, kinds):
  kind = draw.choice(kinds)
  rope = dict(rope_type=kind, rope_theta=draw.choice([500.0, 10000.0, 5e5]))
  if kind != "default":
    rope["factor"] = draw.choice([2.0, 8.0])
  if kind == "llama3":
    rope.update(low_freq_factor=1.0, high_freq_factor=4.0)
  if kind in ("llama3", "yarn", "longrope"):
    rope["original_max_position_embeddings"] = draw.choice([8, 16, 32])
  if kind == "yarn" and draw.random() < 0.5:
    rope.update(beta_fast=16.0, beta_slow=2.0)
  if kind == "longrope":
    for name in ("short_factor", "long_factor"):
      rope[name] = [draw.uniform(1, 4) for _ in range(size // 2)]
  return rope


def drawn(draw):
  """Name of a family, its configuration and fields."""
  heads = draw.choice([2, 4, 6, 8])
  groups = draw.choice([g for g in (1, 2, 4) if heads % g == 0])
  head = draw.choice([8, 12, 16])
  own = draw.random() < 0.5  # heads of their own size
  layers = draw.choice([1, 2, 4])
  sizes = dict(
      hidden_size=heads * head if not own else heads * 8,
      num_hidden_layers=layers, num_attention_heads=heads,
      num_key_value_heads=groups, vocab_size=draw.choice([64, 80, 97]),
      intermediate_size=draw.choice([40, 64]), max_position_embeddings=64,
      initializer_range=0.15, tie_word_embeddings=draw.random() < 0.5)
  name = draw.choice(list(CASES))
  windows = ["full_attention", "sliding_attention"]
  if name == "gpt2":
    return name, "GPT2Config", dict(
        n_embd=heads * head, n_layer=layers, n_head=heads, vocab_size=70,
        n_positions=32, initializer_range=0.15, bos_token_id=0, eos_token_id=0,
        n_inner=draw.choice([None, 56]),
        activation_function=draw.choice(["gelu_new", "gelu", "relu"]),
        scale_attn_weights=draw.random() < 0.5,
        scale_attn_by_inverse_layer_idx=draw.random() < 0.5)
  if name == "gpt_neox":
    sizes.pop("num_key_value_heads")
    return name, "GPTNeoXConfig", dict(
        sizes, hidden_size=heads * head,
        use_parallel_residual=draw.random() < 0.5,
        attention_bias=draw.random() < 0.5,
        hidden_act=draw.choice(["gelu", "gelu_new", "relu"]),
        rotary_pct=draw.choice([0.25, 0.5, 1.0]))
  if name != "phi3" and (own or name in ("qwen3", "gemma", "gemma2", "gemma3")):
    sizes["head_dim"] = head
  else:
    sizes["hidden_size"] = heads * head
  if name == "phi3":
    sizes.update(pad_token_id=0, bos_token_id=1, eos_token_id=2,
                 original_max_position_embeddings=draw.choice([8, 64]))
  if name not in ("gemma2", "gemma3"):
    kinds = ["default", "longrope"]
    if name != "phi3":
      kinds += ["linear", "dynamic", "llama3", "yarn"]
    sizes["rope_parameters"] = drawn_rope(draw, head, kinds)
    if name == "phi3":
      sizes["rope_parameters"].pop("factor", None)
  if name in ("llama", "qwen3", "qwen3_moe"):
    sizes["attention_bias"] = draw.random() < 0.5
  if name == "llama":
    sizes["mlp_bias"] = draw.random() < 0.5
    sizes["hidden_act"] = draw.choice(["silu", "gelu", "gelu_new", "relu"])
  if name in ("mistral", "mixtral", "phi3"):
    sizes["sliding_window"] = draw.choice([None, 1, 3, 7])
  if name in ("qwen2", "qwen3", "qwen3_moe") and draw.random() < 0.5:
    sizes.update(use_sliding_window=True, sliding_window=draw.choice([2, 5]),
                 max_window_layers=draw.randrange(layers + 1))
  if name in ("gemma2", "gemma3"):
    sizes.update(query_pre_attn_scalar=draw.choice([8, 20]),
                 sliding_window=draw.choice([2, 5]),
                 layer_types=[draw.choice(windows) for _ in range(layers)],
                 attn_logit_softcapping=draw.choice([None, 5.0]),
                 final_logit_softcapping=draw.choice([None, 3.0]))
  if name in ("mixtral", "qwen3_moe"):
    experts = draw.choice([2, 4, 5])
    count = "num_local_experts" if name == "mixtral" else "num_experts"
    sizes.update({count: experts, "num_experts_per_tok": draw.randint(1, 2)})
  if name == "qwen3_moe":
    sizes.update(moe_intermediate_size=24,
                 norm_topk_prob=draw.random() < 0.5,
                 decoder_sparse_step=draw.choice([1, 2]),
                 mlp_only_layers=draw.sample(range(layers), layers // 2))
  return name, CASES[name][0], sizes


def made(config, fields, seed):
  """A model with random weights that bf16 holds, norms and biases included."""
  import torch
  import transformers
  torch.manual_seed(seed)
  config = getattr(transformers, config)(**fields)
  config.dtype = torch.float32
  model = transformers.AutoModelForCausalLM.from_config(
      config, attn_implementation="eager").eval().float()
  with torch.no_grad():
    for parameter in model.parameters():
      if parameter.ndim == 1:
        parameter += 0.1 * torch.randn_like(parameter)
      parameter.copy_(parameter.bfloat16().float())
  return model


def logits_of(model, ids):
  import torch
  with torch.no_grad():
    return model(ids).logits


def write(folder):
  import torch
  from safetensors.torch import load_file, save_file
  for name, (config, fields) in CASES.items():
    case = os.path.join(folder, name)
    shutil.rmtree(case, ignore_errors=True)
    model = made(config, fields, 0)
    model.save_pretrained(case)
    weights = os.path.join(case, "model.safetensors")
    save_file({name: tensor.bfloat16() if name != "lm_head.weight" else tensor
               for name, tensor in load_file(weights).items()}, weights)
    for file in os.listdir(case):
      if file not in ("config.json", "model.safetensors"):
        os.remove(os.path.join(case, file))
    ids = torch.randint(0, 64, (BATCH, SEQ))
    save_file({"input_ids": ids, "logits": logits_of(model, ids)},
              os.path.join(case, "recorded.safetensors"))


class Failed(Exception):
  pass


def tool(folder, *command):
  result = subprocess.run([os.path.join(folder, command[0]), *command[1:]],
                          capture_output=True, text=True, timeout=300)
  if result.returncode != 0:
    raise Failed(result.stderr.strip()[-300:])
  return result.stdout


def run_logits(bin_dir, model, ids, *flags):
  from safetensors.torch import load_file, save_file
  with tempfile.TemporaryDirectory() as scratch:
    given = os.path.join(scratch, "ids.safetensors")
    save_file({"input_ids": ids}, given)
    tool(bin_dir, "asyra-run", model, "--dim", f"batch={BATCH}", "--dim",
         f"seq={SEQ}", "--input", f"input_ids={given}:input_ids", "--output",
         scratch, "--output-form", "safetensors", *flags)
    return load_file(os.path.join(scratch, "logits.safetensors"))["logits"]


def close(name, ours, theirs, relative=1e-5):
  error = float((ours - theirs).abs().max() / theirs.abs().max())
  if not error <= relative:
    raise Failed(f"{name}: error {error:.1e} of the largest")
  return error


def compare(bin_dir, model, folder, draw):
  """Relative error of the logits as they are, and trained."""
  import numpy
  import torch
  import transformers
  model.save_pretrained(folder)
  ids = torch.randint(0, 64, (BATCH, SEQ))
  wanted = logits_of(model, ids)
  mesh = draw.choice([["--tp", "2"], ["--dp", "2"], ["--tp", "2", "--sp", "2"],
                      ["--tp", "4"]])
  errors = [close("one device", run_logits(bin_dir, folder, ids), wanted),
            close(" ".join(mesh), run_logits(bin_dir, folder, ids, *mesh),
                  wanted)]
  tokens, trained = folder + ".u16", folder + ".trained"
  numpy.random.default_rng(0).integers(0, 64, 600).astype("<u2").tofile(tokens)
  tool(bin_dir, "asyra-train", folder, "--dim", f"batch={BATCH}", "--dim",
       f"seq={SEQ}", *mesh, "--data", tokens, "--tokens", "u16", "--steps",
       "2", "--rate", "0.003", "--export-hf", trained)
  again, info = transformers.AutoModelForCausalLM.from_pretrained(
      trained, attn_implementation="eager", output_loading_info=True)
  if any(info.values()):
    raise Failed(f"transformers reads it with {info}")
  errors.append(close("trained", run_logits(bin_dir, trained, ids),
                      logits_of(again.eval(), ids)))
  return max(errors)


def compare_random(bin_dir, count, seed):
  failed = unmade = 0
  for number in range(seed, seed + count):
    draw = random.Random(number)
    name, config, fields = drawn(draw)
    with tempfile.TemporaryDirectory() as scratch:
      try:
        model = made(config, fields, number)
      except (KeyError, TypeError, ValueError) as why:
        unmade += 1
        print(f"{number:5d} {name:10s} not made by transformers: {why}")
        continue
      try:
        error = compare(bin_dir, model, os.path.join(scratch, "model"), draw)
        print(f"{number:5d} {name:10s} {error:.1e}", flush=True)
      except (Failed, subprocess.TimeoutExpired) as why:
        failed += 1
        print(f"{number:5d} {name:10s} FAILED {why}\n  {fields}", flush=True)
  print(f"{count - failed - unmade} of {count - unmade} models as "
        f"transformers has them, seeds {seed} to {seed + count - 1}")
  return failed


def main():
  parser = argparse.ArgumentParser()
  parser.add_argument("--bin")
  parser.add_argument("--write")
  parser.add_argument("--random", type=int, default=20)
  parser.add_argument("--seed", type=int, default=1)
  args = parser.parse_args()
  missing = [name for name in ("torch", "transformers", "safetensors")
             if importlib.util.find_spec(name) is None]
  if missing:
    print(f"SKIP: {', '.join(missing)} not installed")
    return
  if args.write:
    write(args.write)
  elif args.bin:
    sys.exit(min(compare_random(args.bin, args.random, args.seed), 1))
  else:
    parser.error("one of --bin and --write")


if __name__ == "__main__":
  main()
