"""Runs ops of com.microsoft on asyra-run and on ONNX Runtime.

By hand: onnx_contrib_cases.py TOOLS_DIR [--filter TEXT]. Needs the Python
packages onnx and onnxruntime, prints SKIP without them. ONNX Runtime's CPU
kernels define what these ops mean. Exit code 1 when a case differs.
"""

import argparse
import os
import shutil
import sys
import tempfile

try:
  import numpy as np
  import onnxruntime
  from onnx import TensorProto, helper, numpy_helper
  from onnx_case import run, write
except ImportError as error:
  print(f"SKIP: {error}")
  sys.exit(0)

RNG = np.random.default_rng(7)
B, S, N, H = 2, 4, 4, 16  # batch, queries, heads, head size
D = N * H


def floats(*shape):
  return RNG.standard_normal(shape).astype(np.float32)


def i32(*values):
  return np.array(values, np.int32)


class Data:
  """An input that is given at each run, not a constant of the model."""

  def __init__(self, value):
    self.value = value


def x(*shape):
  return Data(floats(*shape))


CASES = []


def case(name, op, inputs, outputs=1, opset=17, domain="com.microsoft",
         **attrs):
  """`inputs` are arrays, Data, or None where one is left out."""
  CASES.append((name, op, inputs, outputs, opset, domain, attrs))


def attention_cases():
  qkv = [x(B, S, D), floats(D, 3 * D), floats(3 * D)]
  for causal in (0, 1):
    at = dict(num_heads=N, unidirectional=causal)
    name = f"attention_causal{causal}"
    case(name, "Attention", qkv, **at)
    case(name + "_scale", "Attention", qkv, scale=0.3, **at)
    case(name + "_lengths", "Attention", qkv + [i32(4, 2)], **at)
    case(name + "_ends_begins", "Attention", qkv + [i32(4, 3, 1, 0)], **at)
    case(name + "_padding", "Attention",
         qkv + [Data(i32(1, 1, 1, 0, 1, 1, 0, 0).reshape(2, 4))], **at)
    case(name + "_left_padding", "Attention",
         qkv + [Data(i32(0, 0, 1, 1, 0, 1, 1, 1).reshape(2, 4))], **at)
    case(name + "_filter", "Attention", qkv + [i32(4, 2)],
         mask_filter_value=-3.0, **at)
    case(name + "_mask3", "Attention",
         qkv + [Data(RNG.integers(0, 2, (B, S, S)).astype(np.int32))], **at)
    case(name + "_bias", "Attention", qkv + [None, None, x(1, N, S, S)], **at)
    case(name + "_past", "Attention", qkv + [None, x(2, B, N, 3, H)],
         outputs=2, **at)
    case(name + "_past_padding", "Attention",
         qkv + [Data(i32(*[1] * 7 + [0, 0] + [1] * 5).reshape(2, 7)),
                x(2, B, N, 3, H)], outputs=2, **at)
    case(name + "_present", "Attention", qkv, outputs=2, **at)
  case("attention_sizes", "Attention",
       [x(B, S, D), floats(D, 16 + 16 + 32), floats(64)], num_heads=N,
       qkv_hidden_sizes=[16, 16, 32])


def multi_head_cases():
  q, k, v = x(B, S, D), x(B, 6, D), x(B, 6, D)
  mha = "MultiHeadAttention"
  case("mha", mha, [q, k, v], num_heads=N)
  case("mha_value_size", mha, [q, k, x(B, 6, 16)], num_heads=N)
  case("mha_bias", mha, [q, k, v, floats(3 * D)], num_heads=N)
  case("mha_scale", mha, [q, k, v], num_heads=N, scale=0.2)
  case("mha_padding", mha,
       [q, k, v, None, Data(i32(*[1] * 5 + [0, 0] + [1] * 5).reshape(2, 6))],
       num_heads=N)
  case("mha_lengths", mha, [q, k, v, None, i32(3, 6)], num_heads=N)
  case("mha_attention_bias", mha, [q, k, v, None, None, x(1, N, S, 6)],
       num_heads=N)
  case("mha_attention_bias_1", mha, [q, k, v, None, None, x(B, 1, S, 6)],
       num_heads=N)
  case("mha_cross", mha, [q, x(B, N, 6, H), x(B, N, 6, H)], num_heads=N)
  case("mha_cross_bias", mha,
       [q, x(B, N, 6, H), x(B, N, 6, H), floats(3 * D)], num_heads=N)
  case("mha_causal", mha, [q, x(B, S, D), x(B, S, D)], num_heads=N,
       unidirectional=1)
  case("mha_past", mha,
       [q, x(B, S, D), x(B, S, D), None, None, None, x(B, N, 3, H),
        x(B, N, 3, H)], outputs=3, num_heads=N)
  case("mha_past_causal", mha,
       [q, x(B, S, D), x(B, S, D), None, None, None, x(B, N, 3, H),
        x(B, N, 3, H)], outputs=3, num_heads=N, unidirectional=1)
  case("mha_present", mha, [q, x(B, S, D), x(B, S, D)], outputs=3, num_heads=N)


def group_query_cases():
  gqa, G = "GroupQueryAttention", 2
  q, k, v = x(B, S, D), x(B, S, G * H), x(B, S, G * H)
  at = dict(num_heads=N, kv_num_heads=G)
  empty = [x(B, G, 0, H), x(B, G, 0, H)]
  prompt = [i32(S - 1, S - 1), i32(S)]
  cos, sin = floats(16, H // 2), floats(16, H // 2)
  case("gqa", gqa, [q, k, v, None, None] + prompt, outputs=3, **at)
  case("gqa_packed", gqa, [x(B, S, D + 2 * G * H), None, None, None, None] +
       prompt, outputs=3, **at)
  case("gqa_empty_past", gqa, [q, k, v] + empty + prompt, outputs=3, **at)
  case("gqa_scale_softcap", gqa, [q, k, v, None, None] + prompt, scale=0.7,
       softcap=2.0, **at)
  for window in (1, 2, 3):
    case(f"gqa_window{window}", gqa, [q, k, v, None, None] + prompt,
         local_window_size=window, **at)
  for interleaved in (0, 1):
    case(f"gqa_rotary{interleaved}", gqa,
         [q, k, v, None, None] + prompt + [cos, sin], outputs=3, do_rotary=1,
         rotary_interleaved=interleaved, **at)
  case("gqa_rotary_partial", gqa,
       [x(B, S, 2 * D), x(B, S, G * 2 * H), x(B, S, G * 2 * H), None, None] +
       prompt + [cos, sin], outputs=3, do_rotary=1, **at)
  case("gqa_rotary_packed", gqa,
       [x(B, S, D + 2 * G * H), None, None, None, None] + prompt + [cos, sin],
       outputs=3, do_rotary=1, **at)
  case("gqa_positions", gqa, [q, k, v, None, None] + prompt +
       [cos, sin, np.array([[3, 4, 5, 6], [5, 6, 7, 8]], np.int64)], outputs=3,
       do_rotary=1, **at)
  case("gqa_bias", gqa, [q, k, v, None, None] + prompt +
       [None, None, None, x(1, N, S, S)], **at)
  case("gqa_sinks", gqa, [q, k, v, None, None] + prompt +
       [None, None, None, None, floats(N)], **at)
  case("gqa_smooth", gqa, [q, k, v, None, None] + prompt, smooth_softmax=1,
       **at)
  # One more token each, behind 5 and 3.
  one = [x(B, 1, D), x(B, 1, G * H), x(B, 1, G * H)]
  past = [x(B, G, 5, H), x(B, G, 5, H)]
  for name, lengths in (("const", i32(5, 3)), ("data", Data(i32(5, 3)))):
    for rotary in (0, 1):
      case(f"gqa_decode_{name}{rotary}", gqa, one + past + [lengths, i32(6)] +
           ([cos, sin] if rotary else []), outputs=3, do_rotary=rotary, **at)
  case("gqa_decode_positions", gqa, one + past +
       [Data(i32(5, 3)), i32(6), cos, sin, np.array([[2], [7]], np.int64)],
       outputs=3, do_rotary=1, **at)
  case("gqa_decode_room", gqa, one + [x(B, G, 9, H), x(B, G, 9, H)] +
       [i32(5, 5), i32(6)], outputs=3, **at)
  case("gqa_decode_full", gqa, one + past + [i32(5, 5), i32(6), cos, sin],
       outputs=3, do_rotary=1, **at)
  case("gqa_decode_window", gqa, one + past + [Data(i32(5, 3)), i32(6)],
       outputs=3, local_window_size=2, **at)
  case("gqa_decode_sinks", gqa, one + past + [i32(5, 5), i32(6)] +
       [None, None, None, None, floats(N)], outputs=3, **at)
  case("gqa_decode_data_full", gqa, one + past +
       [Data(i32(5, 5)), i32(6), cos, sin], outputs=3, do_rotary=1, **at)


def rotary_cases():
  rope = "RotaryEmbedding"
  cos, sin = floats(16, H // 2), floats(16, H // 2)
  for interleaved in (0, 1):
    case(f"rope3_{interleaved}", rope,
         [x(B, S, D), np.array([2], np.int64), cos, sin],
         interleaved=interleaved)
    case(f"rope4_{interleaved}", rope,
         [x(B, N, S, H), Data(np.arange(8).reshape(2, 4)), cos, sin],
         interleaved=interleaved)
  case("rope_partial", rope,
       [x(B, S, D), np.array([0], np.int64), floats(16, 2), floats(16, 2)],
       num_heads=N, rotary_embedding_dim=4)


def norm_cases():
  skip = "SkipLayerNormalization"
  simple = "SkipSimplifiedLayerNormalization"
  g, b, bias = floats(D), floats(D), floats(D)
  case("skip", skip, [x(B, S, D), x(B, S, D), g, b], epsilon=1e-5)
  case("skip_default", skip, [x(B, S, D), x(B, S, D), g])
  case("skip_bias_sum", skip, [x(B, S, D), x(B, S, D), g, b, bias], outputs=4)
  case("skip_broadcast", skip, [x(B, S, D), x(1, S, D), g, b], outputs=4)
  case("skip_broadcast2", skip, [x(B, S, D), x(S, D), g, b])
  case("skip_rank2", skip, [x(S, D), x(S, D), g, b])
  case("skip_simple", simple, [x(B, S, D), x(B, S, D), g], epsilon=1e-5)
  case("skip_simple_sum", simple, [x(B, S, D), x(B, S, D), g, bias],
       outputs=4)
  case("simplified", "SimplifiedLayerNormalization", [x(B, S, D), g],
       domain="", axis=-1, epsilon=1e-6, stash_type=1)
  case("layer_norm_13", "LayerNormalization", [x(B, S, D), g, b], domain="",
       opset=14, axis=-1, epsilon=1e-6)


def embed_cases():
  embed = "EmbedLayerNormalization"
  ids = Data(RNG.integers(0, 9, (B, S)).astype(np.int32))
  segments = Data(RNG.integers(0, 2, (B, S)).astype(np.int32))
  g, b = floats(D), floats(D)
  word, position, segment = floats(9, D), floats(12, D), floats(2, D)
  mask = Data(i32(1, 1, 1, 0, 1, 1, 0, 0).reshape(2, 4))
  case("embed", embed, [ids, segments, word, position, segment, g, b, mask],
       outputs=3, epsilon=1e-12)
  case("embed_no_segment", embed, [ids, None, word, position, None, g, b],
       outputs=2)
  case("embed_positions", embed,
       [ids, segments, word, position, segment, g, b, None,
        Data(RNG.integers(0, 12, (B, S)).astype(np.int32))], outputs=2)


def other_cases():
  case("gelu", "Gelu", [x(B, D)])
  case("fast_gelu", "FastGelu", [x(B, D)])
  case("fast_gelu_bias", "FastGelu", [x(B, D), floats(D)])
  case("bias_gelu", "BiasGelu", [x(B, D), floats(D)])
  case("quick_gelu", "QuickGelu", [x(B, D)])
  case("quick_gelu_alpha", "QuickGelu", [x(B, D)], alpha=1.0)
  for a in (0, 1):
    for b in (0, 1):
      case(f"fused_matmul{a}{b}", "FusedMatMul",
           [x(*((2, 3, 4) if not a else (2, 4, 3))),
            x(*((2, 4, 5) if not b else (2, 5, 4)))], transA=a, transB=b,
           alpha=0.5)
      case(f"fused_matmul_batch{a}{b}", "FusedMatMul",
           [x(*((3, 2, 4) if not a else (4, 2, 3))),
            x(*((4, 2, 5) if not b else (5, 2, 4)))], transA=a, transB=b,
           transBatchA=1, transBatchB=1)
  for activation in ("Relu", "Tanh", "Sigmoid"):
    case(f"fused_gemm_{activation}", "FusedGemm",
         [x(3, 4), floats(4, 5), floats(5)], activation=activation)


def moe_cases():
  E, F = 4, 24
  def at(width):
    return [x(B, S, D), x(B * S, E), floats(E, width, D), floats(E, width),
            floats(E, D, F), floats(E, D)]
  for activation in ("relu", "gelu", "silu", "identity"):
    for k in (1, 2):
      for normalize in (0, 1):
        case(f"moe_{activation}_{k}_{normalize}", "MoE", at(F), k=k,
             activation_type=activation, normalize_routing_weights=normalize)
  case("moe_swiglu", "MoE", at(2 * F), k=2, activation_type="swiglu",
       swiglu_fusion=1, normalize_routing_weights=1)
  case("moe_swiglu_limit", "MoE", at(2 * F), k=2, activation_type="swiglu",
       swiglu_fusion=1, swiglu_limit=0.5, activation_alpha=1.702,
       activation_beta=1.0, normalize_routing_weights=1)


def build(op, inputs, outputs, opset, domain, attrs):
  names, infos, constants, given = [], [], [], []
  for i, value in enumerate(inputs):
    names.append("" if value is None else f"in{i}")
    if isinstance(value, Data):
      given.append(value.value)
      infos.append(helper.make_tensor_value_info(
          names[i], helper.np_dtype_to_tensor_dtype(value.value.dtype),
          value.value.shape))
    elif value is not None:
      constants.append(numpy_helper.from_array(value, names[i]))
  results = [f"out{i}" for i in range(outputs)]
  if op.startswith("Skip") and outputs == 4:
    results[1] = results[2] = ""  # statistics, which the CPU does not give
  node = helper.make_node(op, names, results, "node", domain=domain, **attrs)
  graph = helper.make_graph(
      [node], "case", infos,
      [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None)
       for name in results if name], constants)
  for output in graph.output:
    output.type.Clear()
  return helper.make_model(graph, ir_version=8, opset_imports=[
      helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)
  ]), given


def main():
  parser = argparse.ArgumentParser()
  parser.add_argument("tools_dir")
  parser.add_argument("--filter", default="", help="a part of the case's name")
  parser.add_argument("--keep", help="a folder for the cases that fail")
  args = parser.parse_args()
  tool = os.path.join(args.tools_dir, "asyra-run")
  for collect in (attention_cases, multi_head_cases, group_query_cases,
                  rotary_cases, norm_cases, embed_cases, moe_cases,
                  other_cases):
    collect()
  options = onnxruntime.SessionOptions()
  options.log_severity_level = 4
  failed = passed = 0
  for name, *spec in CASES:
    if args.filter not in name:
      continue
    model, inputs = build(*spec)
    try:
      session = onnxruntime.InferenceSession(
          model.SerializeToString(), options,
          providers=["CPUExecutionProvider"])
      outputs = session.run(None, {
          info.name: value for info, value in zip(model.graph.input, inputs)})
    except Exception as error:  # what this version's kernel does not do
      print(f"{name}: ONNX Runtime refuses it: {str(error)[:200]}")
      continue
    with tempfile.TemporaryDirectory() as folder:
      write(folder, model, inputs, outputs)
      ok, text = run(tool, folder, 1e-3)
      if not ok:
        print(f"{name}: {text.replace(folder, '')}")
        if args.keep:
          shutil.copytree(folder, os.path.join(args.keep, name),
                          dirs_exist_ok=True)
    passed += ok
    failed += not ok
  print(f"{passed} cases passed, {failed} failed")
  sys.exit(1 if failed else 0)


if __name__ == "__main__":
  main()
