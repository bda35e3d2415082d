"""Writes the situations of training whose gradients JAX gives in float64.

Needs jax, numpy, onnx, onnxruntime and safetensors. The same source gives the
same files.

Usage: make_cases.py [NAME ...]
"""

import os
import sys
import zlib

import attention_cases
import family_cases
import layer_cases
import rotation_cases
import scale_cases
import tie_cases
from case_model import CaseModel, write

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
  names = set(sys.argv[1:])
  for module in [attention_cases, family_cases, layer_cases, rotation_cases,
                 scale_cases, tie_cases]:
    for name, make in module.CASES.items():
      name = name.replace("_", "-")
      if names and name not in names:
        continue
      model = CaseModel(zlib.crc32(name.encode()))
      output, value, *options = make(model)
      what = " ".join(make.__doc__.split())
      write(os.path.join(HERE, module.GROUP, name), what, model, output, value,
            **(options[0] if options else {}))
      print(name)


if __name__ == "__main__":
  main()
