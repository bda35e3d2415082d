"""Flags that would change nothing beside the others are errors that name both.

The tables below say for each flag of each tool when it does something: a flag
of --help that is in none of them fails.
"""

import os
import re
import sys
import unittest

from tool_test import LLAMA, ToolTest, run

TINY = "llama3-tiny"
HELP = ["--help", "--version"]

# A value for each flag that has one, which all modes take.
VALUES = {
    "--accumulate": "2", "--against": "unscheduled", "--atol": "1",
    "--bench-ranks": "2", "--beta1": "0.5", "--beta2": "0.5",
    "--balance-loss": "0.1", "--capacity": "9", "--checkpoint": "c", "--clip": "0", "--communicator": "local", "--csv": "c",
    "--data": ".*", "--decay": "0", "--decay-of": ".*", "--device": "cpu",
    "--dim": "layers=2", "--document-end": "10", "--documents": "4", "--dp": "2", "--dtype": "bf16", "--dump-dir": "d",
    "--ep": "2", "--ep-strategy": "auto", "--epilogues": "none",
    "--eps": "1", "--evaluate-batches": "2", "--evaluate-data": "f",
    "--evaluate-every": "1", "--every": "2", "--expert-capacity": "100",
    "--export": "e.safetensors", "--export-hf": "e", "--export-onnx": "e.onnx", "--final": "0.5",
    "--freeze": ".*", "--grid": "dim.layers=1,2", "--gate": "measured", "--head-parts": "2",
    "--html": "h",
    "--inject-comm-us": "1", "--json": "j", "--keep": "1", "--key-walk": "2",
    "--log": "l",
    "--loss": "l", "--loss-chunks": "1", "--machine": "h200x8",
    "--machine-out": "m.machine", "--memory-gib": "9", "--mesh": "tp=2",
    "--momentum": "0", "--nodes": "2", "--optimizer": "sgd", "-o": "o",
    "--output": "o.asyra", "--output-form": "pb", "--over-hosts": "flat",
    "--padding": "right", "--passes": "canonicalize", "--phases": "apart", "--print-after": "fuse",
    "--profile": "p", "--prompt": "p", "--ranks": "2", "--ranks-as": "threads",
    "--rate": "1", "--recompute": "all", "--reduce-scatter": "fused",
    "--repeat": "2", "--report": "json", "--router-z-loss": "0.1", "--rtol": "1", "--save-every": "1",
    "--save-tuning": "t", "--scheduler": "auto", "--search-best": "2", "--search-steps": "9",
    "--seconds": "1", "--secret": "s", "--seed": "1", "--set": "nodes=1", "--shard": ".*=whole",
    "--sp": "2", "--steps": "3", "--stripes": "never", "--temperature": "1", "--threads": "1",
    "--tie": ".*", "--tile-dim": "batch", "--tiles": "2", "--timeout": "9",
    "--tokens": "u16", "--tp": "2", "--tp-strategy": "auto", "--trace": "t",
    "--train-also": ".*", "--tuning": "t", "--untie": ".*", "--warmup": "1",
    "--weights": ".*", "--zero": "1",
}  # yapf: disable

# Of the compiler: what makes a flag idle, and the reason that the error has.
ON_ONE_DEVICE = ([], "on one device: without --dp, --tp, --sp, --ep or --mesh")
WITH_PASSES = (["--passes", "canonicalize"], "with --passes")
SERIAL = (["--tp", "2", "--scheduler", "serial"], "with --scheduler serial")
WITHOUT_TRAIN = ([], "requires --train")
IDLE = {
    "--dtype": [WITH_PASSES],
    "--expert-capacity": [(["+.onnx", "--passes", "x"], "with --passes")],
    "--padding": [WITH_PASSES],
    "--documents": [WITH_PASSES],
    "--shard": [ON_ONE_DEVICE, WITH_PASSES],
    "--propagate": [([], "requires --shard")],
    "--tp-strategy": [(["--dp", "2"], "without --tp"),
                      (["--mesh", "dp=2,tp=1"], "without --tp"), WITH_PASSES,
                      (["--tp", "2", "--shard", ".*=whole", "--propagate"],
                       "with --propagate")],
    "--ep-strategy": [(["--tp", "2"], "without --ep"), WITH_PASSES],
    "--stripes": [(["--tp", "2"], "without --sp"), WITH_PASSES,
                  (["--sp", "2", "--shard", ".*=whole", "--propagate"],
                   "with --propagate")],
    "--ranks-as": [ON_ONE_DEVICE],
    "--nodes": [ON_ONE_DEVICE],
    "--set": [(["--nodes", "2", "--tp", "2"], "for nodes=1 with --nodes"),
              (["--set", "nodes=2"], "for nodes=2 with --set nodes=1")],
    "--tiles": [WITH_PASSES],
    "--tile-dim": [(["--tiles", "1"], "with --tiles 1"), WITH_PASSES],
    "--scheduler": [WITH_PASSES],
    "--bucket": [WITH_PASSES, SERIAL],
    "--overlap": [ON_ONE_DEVICE, SERIAL],
    "--no-overlap": [ON_ONE_DEVICE, SERIAL],
    "--join": [ON_ONE_DEVICE, SERIAL,
               (["--tp", "2", "--no-bucket"], "with --no-bucket")],
    "--phases": [([], "without --train"), WITH_PASSES],
    "--fuse": [WITH_PASSES],
    "--epilogues": [(["--no-fuse"], "with --no-fuse"), WITH_PASSES],
    "--reduce-scatter": [ON_ONE_DEVICE, WITH_PASSES],
    "--over-hosts": [ON_ONE_DEVICE, WITH_PASSES],
    "--key-walk": [ON_ONE_DEVICE, WITH_PASSES],
    "--head-parts": [ON_ONE_DEVICE, WITH_PASSES],
    "--search-steps": [SERIAL, WITH_PASSES],
}  # yapf: disable
# In every compilation they do something, or are refused for what they say.
READ = """--dim --data --weights --dp --tp --sp --ep --mesh --ranks --machine
--graph --memory-gib --capacity --passes --print-after --print-changed
--dump-dir --simulate-each""".split()
TRAINING = {
    flag: [WITHOUT_TRAIN]
    for flag in """--balance-loss --router-z-loss --accumulate --loss --freeze --train-also --tie --untie
    --recompute --loss-chunks --clip --decay --optimizer""".split()}
for flag, more in {
    "--beta1": (["--train", "--optimizer", "sgd"], "with --optimizer sgd"),
    "--beta2": (["--train", "--optimizer", "sgd"], "with --optimizer sgd"),
    "--eps": (["--train", "--optimizer", "sgd"], "with --optimizer sgd"),
    "--momentum": (["--train"], "with --optimizer adamw"),
    "--decay-of": (["--train", "--decay", "0"], "with --decay 0"),
    "--zero": (["--train", "--tp", "2"], "without --dp, --sp or --ep"),
    "--whole-params": (["--train", "--dtype", "f32"], "with --dtype f32"),
}.items():
  TRAINING[flag] = [WITHOUT_TRAIN, more]
TRAINING["--train"] = [WITH_PASSES]

# Of asyra-run.
INTERPRETED = (["--device", "interpreter"], "on the interpreter")
NO_TIMES = (["--device", "interpreter"], "interpreter")
RUN = {
    **{flag: [INTERPRETED] for flag in """--communicator --repeat --profile
       --timeout --check-finite --debug-memory""".split()},
    **{flag: [NO_TIMES] for flag in """--against --gate --tuning
       --save-tuning""".split()},
    "--secret": [INTERPRETED,
                 (["--communicator", "local"], "with --communicator local"),
                 (["--communicator", "mpi"], "with --communicator mpi")],
    "--inject-comm-us": [INTERPRETED, ([], "on one device")],
    "--check-deterministic": [INTERPRETED, ([], "with --repeat 1")],
    "--graphs": [INTERPRETED, ([], "on cpus")],
    "--rtol": [([], "without --check")],
    "--atol": [([], "without --check")],
    "--seed": [(["--check", "."], "with --check")],
    "--random-weights": [([], "are always random")],
    "--round-inputs": [([], "requires --input")],
    "--output-form": [([], "requires --output")],
}  # yapf: disable

# Of asyra-train: what each mode does not read.
STEPS = ["--data", "f", "--steps", "1", "--rate", "1"]
FOLDER = (["--check", "."], "with --check of a folder")
RECORDED = (["--check", "f"], "with --check of a recorded run")
SAMPLE = (["--checkpoint", "c", "--sample", "9"], "with --sample")
DRY = ([*STEPS, "--dry-run"], "with --dry-run")
TRAIN = {flag: [FOLDER, RECORDED, SAMPLE] for flag in """--tokens --document-end
    --shuffle
    --restart-data --evaluate-every --evaluate-data --evaluate-batches --steps
    --rate --warmup --final --random-weights --skip-not-finite --check-finite
    --communicator --secret --gate --dry-run --save-every --keep --export
    --export-onnx --export-hf --profile --save-tuning""".split()}
for idle, modes in [
    ("--optimizer --beta1 --beta2 --eps --momentum --decay --decay-of --clip",
     [FOLDER, RECORDED, SAMPLE]),
    ("--every --log --csv --html", [FOLDER, SAMPLE, DRY]),
    ("--checkpoint", [FOLDER, RECORDED]),
    ("--seed", [RECORDED]),
    ("--rtol", [(STEPS, "without --check")]),
    ("--prompt --temperature", [(STEPS, "without --sample")]),
    ("--device --timeout --tuning", [SAMPLE]),
    ("--accumulate --zero --whole-params --recompute --loss-chunks --freeze "
     "--loss --balance-loss --router-z-loss", [SAMPLE]),
]:
  TRAIN.update({flag: modes for flag in idle.split()})
for idle in """--shuffle --restart-data --random-weights --skip-not-finite
    --check-finite --communicator --secret --timeout --gate --export
    --export-onnx --export-hf --profile --save-tuning""".split():
  beside = ["--checkpoint", "c"] if idle == "--restart-data" else []
  TRAIN[idle] = [*TRAIN[idle], ([*beside, *DRY[0]], DRY[1])]
for idle, more in {
    "--restart-data": (STEPS, "without --checkpoint"),
    "--keep": (STEPS, "without --checkpoint"),
    "--evaluate-data": (STEPS, "--evaluate-every is not"),
    "--evaluate-batches": (STEPS, "without --evaluate-every"),
    "--secret": ([*STEPS, "--communicator", "local"],
                 "with --communicator local"),
}.items():
  TRAIN[idle] = [*TRAIN[idle], more]
for idle, reasons in TRAINING.items():
  for beside, why in reasons[1:]:
    TRAIN[idle] = [*TRAIN.get(idle, []), ([*STEPS, *beside[1:]], why)]
TRAIN["--momentum"] = TRAIN["--momentum"][-1:]  # says so of any mode
for idle, reasons in IDLE.items():
  # The model comes first.
  TRAIN[idle] = [([*beside, *STEPS] if beside[:1] == ["+.onnx"] else
                  [*STEPS, *beside], why)
                 for beside, why in reasons if why != "without --train"]

DOCTOR = (["+", "--doctor"], "with --doctor")
# What a mode says of a flag, by tool.
OWN = {
    "asyra-opt": ({
        "--estimate": [WITH_PASSES],
        "--verbose": [(["--report", "json"], "with --report json")],
        "--ablation": [(["--passes", "canonicalize"], "--passes do what")],
        "--print-chunk-plans": [(["--report", "json"], "with --report json")],
        "--print-plan": [(["--passes", "canonicalize"], "is not sharded")],
        "--trace": [(["--passes", "canonicalize"], "is not simulated")],
        "--html": [(["--passes", "canonicalize"], "is not simulated")],
    }, ["--output", "--report", "--list-passes"]),
    "asyra-sim run": ({
        "--estimate": [WITH_PASSES],
    }, ["--json", "--html", "--trace", "--strict"]),
    "asyra-sim explain": ({}, ["--json", "--html", "--trace", "--strict"]),
    "asyra-sim compare": ({
        "--strict": [(["+a.json", "b.json"], "with two .json files")],
    }, ["--json", "--html"]),
    "asyra-sim sweep": ({
        "--estimate": [WITH_PASSES],
        "--json": [(["--csv", "-"], "both")],
        "--search-best": [(["--estimate"], "with --estimate")],
    }, ["--csv", "--html", "--grid", "--threads", "--strict"]),
    "asyra-bench": ({
        **{flag: [DOCTOR] for flag in """--device --bench-ranks --seconds
           --timeout --pairs --power --keep -o --machine-out""".split()},
        "--grid": [DOCTOR],
        "--json": [(["+"], "for --doctor and --pairs")],
    }, ["--doctor"]),
    "asyra-run": (RUN, ["--device", "--json", "--check", "--input", "--output",
                        "--compare-single"]),
    "asyra-train": (TRAIN, ["--data", "--sample", "--check", "--train",
                            "--train-also", "--tie", "--untie"]),
}  # yapf: disable


def flags_of(tool):
  """The flags of --help, a pair of --X and --no-X as --X."""
  text = run(*tool.split(), "--help").stdout
  lines = re.findall(r"^ +((?:-[a-z],)?-{1,2}[a-z0-9-]+)", text, re.M)
  return [line.split(",")[-1] for line in lines]


class IdleFlags(ToolTest):

  def command(self, tool, flag, others):
    """`others` may begin with another model: +MODEL, or + for none."""
    others = list(others)
    model = [TINY, TINY] if "compare" in tool else [TINY]
    if others and others[0][:1] == "+":
      model = [others.pop(0)[1:]]
      model = [] if model == [""] else model
    if model == [".onnx"]:
      model = [LLAMA]
    if "sweep" in tool and "--grid" not in others:
      others += ["--grid", "dim.seq=32"]
    value = VALUES.get(flag)
    if flag == "--json":
      value = None if tool == "asyra-bench" else "-"
    if flag == "--keep" and tool == "asyra-bench":
      value = None
    value = [] if value is None else [value]
    return [*tool.split()[1:], *model, *others, flag, *value]

  def is_idle(self, tool, flag, others, why):
    name = tool.split()[0]
    args = self.command(tool, flag, others)
    with self.subTest(tool=tool, flag=flag, others=others):
      result = run(name, *args)
      self.assertEqual(result.returncode, 1, result.stdout)
      self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
      self.assertIn(flag, result.stderr)
      self.assertIn(why, result.stderr)

  def test_all_flags_of_all_compilations(self):
    for tool, (own, read) in OWN.items():
      # They train in any case, or never.
      tables = {**own} if tool == "asyra-train" else {**IDLE, **TRAINING, **own}
      for flag in flags_of(tool):
        if flag in [*READ, *read, *HELP]:
          continue
        with self.subTest(tool=tool, flag=flag):
          self.assertIn(flag, tables, "say when this flag does something")
        for others, why in tables.get(flag, []):
          if tool == "asyra-sim compare" and others[:1] == ["+.onnx"]:
            continue
          self.is_idle(tool, flag, others, why)

  def test_nothing_is_compiled(self):
    for flag in [*READ, *IDLE, "--train"]:
      if flag in ["--propagate", "--passes"]:
        continue
      self.is_idle("asyra-sim compare", flag, ["+a.json", "b.json"],
                   "with two .json files")
      self.is_idle("asyra-bench", flag, ["+", "--device", "cpu"],
                   "without a model")
      self.is_idle("asyra-bench", flag, DOCTOR[0], DOCTOR[1])

  def test_grids(self):
    for grid, flag, why in [  # a flag beside it
        ("tp=1,2", "--tp", "--tp has no effect with --grid tp"),
        ("mesh=tp=2;dp=2", "--tp", "--tp has no effect with --grid mesh"),
        ("tp=1,2", "--mesh", "--grid tp has no effect with --mesh"),
        ("dim.layers=1,2", "--dim",
         "--dim layers=2 has no effect with --grid dim.layers"),
        ("set.nodes=1,2", "--set",
         "--set nodes=1 has no effect with --grid set.nodes"),
        ("tp-strategy=auto,sequence", "--grid",
         "--grid tp-strategy has no effect without --tp"),
        ("scheduler=serial,segrr", "--search-steps",
         "--search-steps has no effect with --scheduler segrr"),
    ]:
      self.is_idle("asyra-sim sweep", flag, ["--grid", grid], why)
    # Some point reads it.
    self.passes("asyra-sim", "sweep", TINY, "--grid", "scheduler=serial,auto",
                "--search-steps", "9")
    self.passes("asyra-sim", "sweep", TINY, "--grid", "tp=1,2",
                "--tp-strategy", "sequence", "--search-steps", "9")

  def test_estimates(self):
    for flag in """--tiles --scheduler --bucket --overlap --join
        --reduce-scatter --over-hosts --key-walk --head-parts
        --search-steps""".split():
      self.is_idle("asyra-opt", flag, ["--tp", "2", "--estimate"],
                   "with --estimate")
    self.is_idle("asyra-opt", "--phases", ["--train", "--estimate"],
                 "with --estimate")
    self.is_idle("asyra-opt", "--ablation", ["--estimate"],
                 "--estimate searches no schedule")
    self.is_idle("asyra-sim run", "--accumulate", ["--train", "--estimate"],
                 "--estimate is of a step of one batch")
    self.fails("--estimate makes no program to run", "asyra-opt", TINY,
               "--estimate", "-o", self.path("x.asyra"))
    self.assertFalse(os.path.exists(self.path("x.asyra")))

  def test_experts_of_a_dense_model(self):
    self.fails("expert_capacity is 100, the model has no mixture of experts",
               "asyra-opt", LLAMA, "--dim", "batch=4",
               "--dim", "seq=8", "--expert-capacity", "100")

  def test_program_files(self):
    local, ready = self.path("local.asyra"), self.path("ready.asyra")
    self.passes("asyra-opt", TINY, "--tp", "2", "--search-steps", "9", "-o",
                ready)
    self.passes("asyra-opt", TINY, "--tp", "2", "--passes",
                "plan_sharding,partition", "-o", local)
    for flag in ["--shard", "--tp-strategy", "--dtype", "--expert-capacity",
                 "--padding", "--documents"]:
      self.is_idle("asyra-opt", flag, ["+" + local], "which is partitioned")
    for flag in ["--tiles", "--fuse", "--search-steps", "--overlap",
                 "--over-hosts"]:
      self.is_idle("asyra-sim run", flag, ["+" + ready], "which is scheduled")
    self.passes("asyra-opt", local, "--tiles", "2", "--search-steps", "9")


if __name__ == "__main__":
  unittest.main(argv=sys.argv[:1] + sys.argv[3:])
