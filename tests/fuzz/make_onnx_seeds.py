"""Writes onnx_seeds/, small models from which the fuzzer of the importer
starts: functions, control flow, sequences, attention, narrow and sparse
constants. Run by hand when there is a new kind; needs the package onnx.
"""

import os

import numpy as np
import onnx
from onnx import numpy_helper, parser

OPSETS = '["" : 24, "com.microsoft" : 1, "f" : 1]'

SEEDS = {
    "function": """
      g (float[2,3] x) => (float[2,3] y) {
        h = f.Outer<alpha = 2.0>(x)
        y = f.Inner(h)
      }
      <domain: "f", opset_import: ["" : 18, "f" : 1]>
      Outer <alpha> (a) => (b) {
        c = f.Inner<scale: float = @alpha>(a)
        b = Add(c, a)
      }
      <domain: "f", opset_import: ["" : 13]>
      Inner <scale: float = 0.5> (a) => (b) {
        s = Constant<value_float: float = @scale>()
        b = Mul(a, s)
      }""",
    "if": """
      g (float[batch,3] x) => (y) <bool c = {1}> {
        y = If (c) <
          then_branch = t () => (r) { r = Neg(x) },
          else_branch = e () => (r) { r = Frob(x) }>
      }""",
    "loop": """
      g (float[2] x) => (y, all) <int64 n = {3}, int64 one = {1}> {
        y, all = Loop (n, , x) <
          body = b (int64 i, bool c, float[2] v) => (c2, v2, o) {
            c2 = Less(i, one)
            v2 = Add(v, v)
            o = Identity(v2)
          }>
      }""",
    "scan": """
      g (float[2,3] x) => (s, y) <float zero = {0.0}> {
        s, y = Scan <num_scan_inputs = 1, scan_input_axes = [1],
          body = b (float t, float[2] r) => (t2, o) {
            t2 = Add(t, r)
            o = Identity(t2)
          }> (zero, x)
      }""",
    "sequence": """
      g (float[4,2] x) => (y) <int64 two = {2}, int64 at = {-1}> {
        parts = SplitToSequence(x, two)
        e = SequenceInsert(parts, x)
        p = SequenceAt(e, at)
        q = ConcatFromSequence<axis = 0>(e)
        y = Concat<axis = 0>(p, q)
      }""",
    "attention": """
      g (float[batch,seq,8] q, float[batch,seq,4] k) => (y, nk, nv)
      <bool[1,1,4,4] m = {1,0,0,0, 1,1,0,0, 1,1,1,0, 1,1,1,1}> {
        a = Attention<q_num_heads = 2, kv_num_heads = 1, is_causal = 1>
            (q, k, k, m)
        y, nk, nv = com.microsoft.MultiHeadAttention<num_heads = 2>(a, q, q)
      }""",
    "group_query": """
      g (float[2,1,8] q, float[2,1,4] k, float[2,1,3,4] p, int32[2] len) =>
      (y, nk, nv)
      <int32 total = {4}, float[4,2] cos = {1,1,1,1,0,0,0,0},
       float[4,2] sin = {0,0,0,0,1,1,1,1}> {
        y, nk, nv = com.microsoft.GroupQueryAttention<
            num_heads = 2, kv_num_heads = 1, do_rotary = 1>
            (q, k, k, p, p, len, total, cos, sin)
      }""",
    "fused": """
      g (float[2,4] x, int32[2,2] ids) => (y)
      <float[4] g = {1,1,1,1}, float[3,4] t = {1,2,3,4,5,6,7,8,9,1,2,3}> {
        a = com.microsoft.FastGelu(x, g)
        b = com.microsoft.FusedMatMul<transB = 1, alpha = 0.5>(a, x)
        c = com.microsoft.FusedMatMul(b, a)
        y = com.microsoft.SkipLayerNormalization(c, x, g, g)
      }""",
    "mask": """
      g (float[2,2] x) => (y) <uint8[1,2,2] m = {1,0,1,1}, float low = {-1e9}> {
        b = Cast<to = 9>(m)
        y = Where(b, x, low)
      }""",
    "windows": """
      g (float[1,3,8,8] x) => (y) <float[4,3,2,2] w = {1,1,1,1,1,1,1,1,1,1,1,1,
      1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}> {
        a = Conv<strides = [2,2]>(x, w)
        b = Flatten<axis = 2>(a)
        v, i = TopK(b, k)
        y = Transpose<perm = [1,0]>(v)
      }""",
}


def main():
  folder = os.path.join(os.path.dirname(__file__), "onnx_seeds")
  os.makedirs(folder, exist_ok=True)
  for name, text in SEEDS.items():
    graph, *functions = text.split("      <domain")
    model = parser.parse_model(
        f"<ir_version: 10, opset_import: {OPSETS}>{graph}" +
        "".join("<domain" + function for function in functions))
    if name == "windows":
      model.graph.initializer.append(
          numpy_helper.from_array(np.array([2], np.int64), "k"))
    onnx.save(model, os.path.join(folder, name + ".onnx"))
  sparse = parser.parse_model(
      f"<ir_version: 10, opset_import: {OPSETS}>"
      "g (float[2,3] x) => (y) { y = Add(x, w) }")
  sparse.graph.sparse_initializer.append(onnx.helper.make_sparse_tensor(
      numpy_helper.from_array(np.array([1, 2], np.float32), "w"),
      numpy_helper.from_array(np.array([1, 5], np.int64)), [2, 3]))
  onnx.save(sparse, os.path.join(folder, "sparse.onnx"))


if __name__ == "__main__":
  main()
