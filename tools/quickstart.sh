#!/bin/bash
# From a fresh machine to a compiled model: installs what is missing, builds,
# shards and schedules a small model over 8 devices, runs the result on 8 ranks
# of this machine's cpu against PyTorch's recorded output, says what Llama 3 8B
# would gain on eight H200, and trains a small GPT on 4 ranks.
# Takes a few minutes, most of them compiling.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/install_deps.sh
cmake --preset release >/dev/null
cmake --build --preset release -j "$(nproc)" \
    --target asyra-opt asyra-run asyra-sim asyra-train | tail -n 1
bin=build/release/tools
out=build/release/quickstart
mkdir -p "$out"

echo
echo "== a small Llama over 4 x 2 devices: too small to overlap, but exact"
"$bin/asyra-opt" models/llama-tiny-op18/model.onnx \
    --dim batch=4 --dim seq=64 --tp 4 --sp 2 --tiles 2 -o "$out/llama.asyra"

echo
echo "== its program on 8 ranks of this cpu, against PyTorch"
"$bin/asyra-run" "$out/llama.asyra" --repeat 10 \
    --check models/llama-tiny-op18/test_data_set_0

echo
echo "== Llama 3 8B on eight H200, simulated"
"$bin/asyra-opt" models/llama3-8b-op23/model.onnx \
    --dim batch=2 --dim seq=8192 --tp 4 --sp 2 --machine h200x8 \
    --html "$out/llama3-8b.html"

echo
echo "== a small GPT learns this repository's own text, on 2 x 2 ranks"
find . -name '*.md' -not -path './build/*' | sort | xargs cat >"$out/text"
"$bin/asyra-train" gpt3-tiny --dp 2 --tp 2 --data "$out/text" \
    --steps 200 --rate 3e-3 --every 20 --html "$out/loss.html"

echo
echo "== the step of Llama 3 8B as a timeline, and the loss of the GPT"
ls "$PWD/$out"/*.html
