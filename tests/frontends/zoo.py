#!/usr/bin/env python3
"""Exports tiny models of many Hugging Face families and compiles them.

By hand, with torch, transformers, onnx and onnxscript installed (SKIP without):

  tests/frontends/zoo.py --bin build/dev/tools
  tests/frontends/zoo.py --exporter ts17-eager --mesh llama bert

Each model has random weights; it is exported, compiled by asyra-opt, run by
asyra-run and compared with what PyTorch computes. A row says what is left after
raising, and fails when there are not as many attention ops as the model has.
"""

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import warnings

BATCH, SEQ = 2, 16
EXPORTERS = ["dynamo18-sdpa", "dynamo18-eager", "dynamo23-sdpa", "ts17-eager",
             "ts14-sdpa"]

ENCODER = dict(vocab_size=100, hidden_size=64, intermediate_size=128,
               num_hidden_layers=2, num_attention_heads=4,
               max_position_embeddings=80)
DECODER = dict(ENCODER, pad_token_id=0, bos_token_id=1, eos_token_id=2)
GROUPED = dict(DECODER, num_key_value_heads=2)
HEADS_16 = dict(GROUPED, head_dim=16)
WINDOWS = dict(HEADS_16, sliding_window=8,
               layer_types=["sliding_attention", "full_attention"])
EXPERTS = dict(GROUPED, num_experts_per_tok=2)
VISION = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
              intermediate_size=128, image_size=32, patch_size=8)
GPT2 = dict(vocab_size=100, n_positions=64, n_embd=64, n_layer=2, n_head=4)
FALCON = dict(vocab_size=100, hidden_size=64, num_hidden_layers=2,
              num_attention_heads=4, max_position_embeddings=64)
SEQ2SEQ = dict(vocab_size=100, d_model=64, encoder_layers=2, decoder_layers=2,
               encoder_attention_heads=4, decoder_attention_heads=4,
               encoder_ffn_dim=128, decoder_ffn_dim=128,
               max_position_embeddings=64, pad_token_id=0, bos_token_id=1,
               eos_token_id=2, decoder_start_token_id=1)
MLA = dict(DECODER, num_key_value_heads=4, q_lora_rank=32, kv_lora_rank=16,
           qk_rope_head_dim=8, qk_nope_head_dim=16, v_head_dim=16,
           n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=32,
           n_shared_experts=1, first_k_dense_replace=1, topk_group=1, n_group=2)

IDS = ["input_ids"]
MASKED = ["input_ids", "attention_mask"]
PIXELS = ["pixel_values"]

# Model class (its configuration is named after it), inputs, attention ops, sizes.
FAMILIES = {
    "bert": ("BertModel", MASKED, 2, ENCODER),
    "roberta": ("RobertaForMaskedLM", MASKED, 2, ENCODER),
    "distilbert": ("DistilBertModel", MASKED, 2,
                   dict(vocab_size=100, dim=64, hidden_dim=128, n_layers=2,
                        n_heads=4, max_position_embeddings=64)),
    "albert": ("AlbertModel", MASKED, 2, dict(ENCODER, embedding_size=32)),
    "electra": ("ElectraModel", MASKED, 2, dict(ENCODER, embedding_size=32)),
    "modernbert": ("ModernBertModel", MASKED, 2,
                   dict(DECODER, local_attention=8, cls_token_id=3,
                        sep_token_id=4, global_attn_every_n_layers=2)),
    "gpt2": ("GPT2LMHeadModel", MASKED, 2, GPT2),
    "gpt_bigcode": ("GPTBigCodeForCausalLM", IDS, 2, GPT2),
    "gptj": ("GPTJForCausalLM", IDS, 2, dict(GPT2, rotary_dim=8)),
    "codegen": ("CodeGenForCausalLM", IDS, 2, dict(GPT2, rotary_dim=8)),
    "gpt_neox": ("GPTNeoXForCausalLM", IDS, 2, dict(DECODER, rotary_pct=0.25)),
    "bloom": ("BloomForCausalLM", IDS, 2,
              dict(vocab_size=100, hidden_size=64, n_layer=2, n_head=4)),
    "mpt": ("MptForCausalLM", IDS, 2,
            dict(vocab_size=100, d_model=64, n_layers=2, n_heads=4,
                 max_seq_len=64)),
    "falcon": ("FalconForCausalLM", IDS, 2, dict(FALCON, multi_query=True)),
    "falcon_grouped": ("FalconForCausalLM", IDS, 2,
                       dict(FALCON, num_kv_heads=2,
                            new_decoder_architecture=True)),
    "llama": ("LlamaForCausalLM", IDS, 2, GROUPED),
    "llama_masked": ("LlamaForCausalLM", MASKED, 2, GROUPED),
    "mistral": ("MistralForCausalLM", MASKED, 2,
                dict(GROUPED, sliding_window=8)),
    "gemma": ("GemmaForCausalLM", IDS, 2, HEADS_16),
    "gemma2": ("Gemma2ForCausalLM", IDS, 2,
               dict(WINDOWS, query_pre_attn_scalar=16)),
    "gemma3": ("Gemma3ForCausalLM", IDS, 2,
               dict(WINDOWS, query_pre_attn_scalar=16)),
    "phi": ("PhiForCausalLM", IDS, 2, dict(DECODER, partial_rotary_factor=0.5)),
    "phi3": ("Phi3ForCausalLM", IDS, 2, dict(GROUPED, sliding_window=8)),
    "qwen2": ("Qwen2ForCausalLM", IDS, 2, GROUPED),
    "qwen3": ("Qwen3ForCausalLM", IDS, 2, HEADS_16),
    "olmo2": ("Olmo2ForCausalLM", IDS, 2, GROUPED),
    "cohere": ("CohereForCausalLM", IDS, 2, GROUPED),
    "glm4": ("Glm4ForCausalLM", IDS, 2, HEADS_16),
    "granite": ("GraniteForCausalLM", IDS, 2, GROUPED),
    "stablelm": ("StableLmForCausalLM", IDS, 2, GROUPED),
    "mixtral": ("MixtralForCausalLM", IDS, 2,
                dict(EXPERTS, num_local_experts=4)),
    "qwen2_moe": ("Qwen2MoeForCausalLM", IDS, 2,
                  dict(EXPERTS, num_experts=4, moe_intermediate_size=32,
                       shared_expert_intermediate_size=64)),
    "qwen3_moe": ("Qwen3MoeForCausalLM", IDS, 2,
                  dict(EXPERTS, num_experts=4, moe_intermediate_size=32,
                       head_dim=16)),
    "deepseek_v3": ("DeepseekV3ForCausalLM", IDS, 2, MLA),
    "gpt_oss": ("GptOssForCausalLM", IDS, 2,
                dict(WINDOWS, num_local_experts=4, num_experts_per_tok=2)),
    "t5": ("T5ForConditionalGeneration", IDS + ["decoder_input_ids"], 6,
           dict(vocab_size=100, d_model=64, d_kv=16, d_ff=128, num_layers=2,
                num_heads=4, decoder_start_token_id=0)),
    "bart": ("BartForConditionalGeneration", MASKED + ["decoder_input_ids"], 6,
             SEQ2SEQ),
    "whisper": ("WhisperModel", ["input_features", "decoder_input_ids"], 6,
                dict(SEQ2SEQ, num_mel_bins=16, max_source_positions=32,
                     max_target_positions=64)),
    "vit": ("ViTForImageClassification", PIXELS, 2, VISION),
    "deit": ("DeiTModel", PIXELS, 2, VISION),
    "beit": ("BeitModel", PIXELS, 2,
             dict(VISION, use_relative_position_bias=True)),
    "dinov2": ("Dinov2Model", PIXELS, 2, dict(VISION, mlp_ratio=2)),
    "swin": ("SwinModel", PIXELS, 4,
             dict(image_size=32, patch_size=4, embed_dim=16, depths=[2, 2],
                  num_heads=[2, 4], window_size=4)),
    "clip_vision": ("CLIPVisionModelWithProjection", PIXELS, 2,
                    dict(VISION, projection_dim=32)),
    "siglip_vision": ("SiglipVisionModel", PIXELS, 2, VISION),
}

SHOWN = ["attention", "rms_norm", "layer_norm", "rotary", "swiglu", "silu",
         "gelu", "gelu_tanh", "softmax", "matmul"]


def config_of(transformers, model_class):
  """The configuration class that the model class declares."""
  return getattr(transformers, model_class).config_class


def make_input(torch, name, config):
  if name in ("input_ids", "decoder_input_ids"):
    length = SEQ if name == "input_ids" else SEQ - 4
    return torch.randint(5, config.vocab_size - 1, (BATCH, length))
  if name == "attention_mask":
    mask = torch.ones(BATCH, SEQ, dtype=torch.int64)
    mask[1, SEQ - 3:] = 0
    return mask
  if name == "input_features":
    return torch.randn(BATCH, config.num_mel_bins,
                       2 * config.max_source_positions)
  return torch.randn(BATCH, 3, config.image_size, config.image_size)


def build(family, attention):
  import torch
  import transformers
  model_class, names, _, sizes = FAMILIES[family]
  torch.manual_seed(7)
  config = config_of(transformers, model_class)(**sizes)
  # Experts as batched matmuls: the only form that exports.
  config._experts_implementation = "batched_mm"
  model = getattr(transformers, model_class)._from_config(
      config, attn_implementation=attention).eval()
  with torch.no_grad():
    for p in model.parameters():
      # Norm weights off their ones and biases off their zeros: nothing hides.
      p.add_(torch.randn_like(p) * 0.05)

  class Positional(torch.nn.Module):
    def __init__(self):
      super().__init__()
      self.model = model

    def forward(self, *args):
      cache = {} if names == PIXELS else {"use_cache": False}
      return self.model(**dict(zip(names, args)), return_dict=True, **cache)[0]

  inputs = tuple(make_input(torch, name, config) for name in names)
  return Positional().eval(), inputs, names


def dynamic_dims(name):
  seq = {"input_ids": "seq", "attention_mask": "seq",
         "decoder_input_ids": "decoder_seq"}.get(name)
  return {0: "batch"} | ({1: seq} if seq else {})


def export(family, exporter, folder):
  """Writes model.onnx and test_data_set_0 in ONNX's own layout."""
  import onnx
  import torch
  kind, attention = exporter.split("-")
  model, inputs, names = build(family, attention)
  path = os.path.join(folder, "model.onnx")
  opset = int(re.sub(r"\D", "", kind))
  with torch.no_grad():
    outputs = model(*inputs)
    if kind.startswith("dynamo"):
      dynamic = torch.export.Dim.DYNAMIC
      shapes = tuple({d: dynamic for d in dynamic_dims(n)} for n in names)
      torch.onnx.export(model, inputs, dynamo=True, opset_version=opset,
                        dynamic_shapes=(shapes,), input_names=names,
                        output_names=["output"], verbose=False).save(path)
    else:
      torch.onnx.export(model, inputs, path, dynamo=False, opset_version=opset,
                        input_names=names, output_names=["output"],
                        dynamic_axes={n: dynamic_dims(n) for n in names})
  graph = onnx.load(path).graph
  data = os.path.join(folder, "test_data_set_0")
  os.makedirs(data)
  tensors = dict(zip(names, inputs))
  dims = {}
  for i, value in enumerate(graph.input):
    tensor = tensors[value.name]
    write(tensor, value.name, os.path.join(data, f"input_{i}.pb"))
    for dim, size in zip(value.type.tensor_type.shape.dim, tensor.shape):
      if dim.dim_param:
        dims[dim.dim_param] = size
  write(outputs, graph.output[0].name, os.path.join(data, "output_0.pb"))
  return path, data, [f"--dim={name}={size}" for name, size in dims.items()]


def write(tensor, name, path):
  from onnx import numpy_helper
  with open(path, "wb") as f:
    f.write(numpy_helper.from_array(tensor.numpy(), name).SerializeToString())


def tool(*command):
  return subprocess.run(command, capture_output=True, text=True, check=False)


def check(family, exporter, folder, options):
  """One row of the table, and whether it is as it should be."""
  try:
    model, data, dims = export(family, exporter, folder)
  except Exception as error:  # Exporters fail in any way.
    text = str(error).split("\n", maxsplit=1)[0]
    return f"not exported: {type(error).__name__}: {text[:80]}", None
  mesh = ["--tp=2", "--tiles=2"] if options.mesh else []
  program = os.path.join(folder, "out.asyra")
  compiled = tool(f"{options.bin}/asyra-opt", model, *dims, *mesh,
                  "--report=json", "-o", program)
  if compiled.returncode != 0:
    return compiled.stderr.strip(), False
  ops = json.loads(compiled.stdout)["imported"]["ops"]
  ran = tool(f"{options.bin}/asyra-run", program, "--check", data)
  error = re.search(r"max abs error (\S+),", ran.stdout)
  ok = ran.returncode == 0 and ops.get("attention", 0) == FAMILIES[family][2]
  counts = " ".join(f"{name}:{ops[name]}" for name in SHOWN if name in ops)
  error = error.group(1) if error else ran.stderr.strip()
  return f"error {error:9} ops {sum(ops.values()):4}  {counts}", ok


def main():
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  parser.add_argument("--bin", default="build/dev/tools")
  parser.add_argument("--exporter", nargs="*", default=EXPORTERS,
                      choices=EXPORTERS)
  parser.add_argument("--mesh", action="store_true",
                      help="compile for two devices and two tiles")
  parser.add_argument("family", nargs="*", default=list(FAMILIES))
  options = parser.parse_args()
  for module in ["torch", "transformers", "onnx", "onnxscript"]:
    if importlib.util.find_spec(module) is None:
      print(f"SKIP: no {module}")
      return 0
  warnings.filterwarnings("ignore")
  failed = 0
  for family in options.family:
    for exporter in options.exporter:
      with tempfile.TemporaryDirectory() as folder:
        row, ok = check(family, exporter, folder, options)
      failed += ok is False
      mark = {True: "ok", False: "FAIL", None: "--"}[ok]
      print(f"{mark:5}{family:15}{exporter:15} {row}", flush=True)
  return 1 if failed else 0


if __name__ == "__main__":
  sys.exit(main())
