"""Runs of training as users have them: folders, checkpoints, evaluation, gates,
exports.

Usage: train_runs_test.py SOURCE_DIR TOOLS_DIR
"""

import csv
import html.parser
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import unittest
import zlib

from tool_test import GPT2, LLAMA, TOOLS_DIR
from train_tool import QUICK, RATE, SHAPE, TrainTest


class Tags(html.parser.HTMLParser):
  """Counts the points of each curve."""

  def __init__(self, text):
    super().__init__()
    self.points = []
    self.feed(text)

  def handle_starttag(self, tag, attributes):
    if tag == "polyline":
      self.points.append(len(dict(attributes)["points"].split()))


class Runs(TrainTest):

  def test_a_gate_changes_no_state(self):
    self.own_cache()
    folder = self.compiled("--dp", "2")
    losses = []
    for said in [None, "gate: kept ", "(remembered)"]:
      out = self.path("out.csv")
      text = self.passes("asyra-train", folder, *RATE, "--data", self.text,
                         "--steps", "3", "--csv", out,
                         *(["--gate", "measured"] if said else []))
      self.assertEqual("gate: kept " in text, said is not None)
      self.assertIn(said or "", text)
      with open(out) as file:
        losses.append([row[1:3] for row in csv.reader(file)])
    self.assertEqual(losses[1], losses[0])
    self.assertEqual(losses[2], losses[0])
    os.remove(os.path.join(folder, "unscheduled.asyra"))
    self.fails("no step before it was scheduled", "asyra-train", folder, *RATE,
               "--data", self.text, "--steps", "3", "--gate", "measured")

  def test_a_gate_tries_the_best_schedules(self):
    self.own_cache()
    folder = self.path("training")
    self.passes("asyra-opt", LLAMA, *SHAPE, "--dp", "2", "--search-steps",
                "300", "--train", "--machine", "h100x8", "-o", folder)
    about = os.path.join(folder, "training.json")
    with open(about) as file:
      training = json.load(file)
    names = training["candidates"]
    self.assertEqual(len(names), 2)
    args = ["asyra-train", folder, *RATE, "--data", self.text, "--steps", "3",
            "--gate", "measured"]
    tuning = self.path("run.tuning")
    args += ["--save-tuning", tuning]
    for said in ["", " (remembered)", " (remembered)"]:
      gate = next(line for line in self.passes(*args).splitlines()
                  if line.startswith("gate: kept "))
      self.assertIn(said, gate)
      for name in ["scheduled", *names, "unscheduled"]:
        self.assertIn(name, gate)
      # At last only the file knows.
      if said:
        os.environ["ASYRA_CACHE_DIR"] = ""
        args = args[:-2] + ["--tuning", tuning]
    candidate = os.path.join(folder, "candidate2.asyra")
    os.rename(candidate, self.path("moved.asyra"))
    self.fails(candidate, *args)
    for wrong, message in [("2 tiles", "candidates is no list"),
                           ([7], "candidate 7 is no name"),
                           (["a\nb"], "has tabs or line ends")]:
      training["candidates"] = wrong
      with open(about, "w") as file:
        json.dump(training, file)
      self.fails(message, *args)

  def test_a_folder_has_all_that_a_run_needs(self):
    folder = self.compiled("--optimizer", "sgd")
    self.assertEqual(sorted(os.listdir(folder)), [
        "evaluate.asyra", "init.asyra", "step.asyra", "step.safetensors",
        "training.json", "unscheduled.asyra"])
    with open(os.path.join(folder, "training.json")) as file:
      about = json.load(file)
    self.assertEqual((about["format"], about["model"], about["optimizer"],
                      about["params_by_init"]), (1, LLAMA, "sgd", []))
    page, trace = self.path("loss.html"), self.path("step.json")
    said = self.passes("asyra-train", folder, *RATE, "--data", self.text,
                       "--steps", "5", "--html", page, "--profile", trace)
    self.assertIn("4 rows of 16 tokens a step, 2700 bytes of data\n", said)
    self.assertRegex(said, r"\nstep     5  loss \d\.\d{4}  norm \d+\.\d{3}  ")
    with open(page) as file:
      text = file.read()
    self.assertEqual(Tags(text).points, [5, 5, 5])
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.S)[1])
    self.assertEqual(data["names"], ["predicted", "measured"])
    predicted, measured = data["profiles"]
    self.assertEqual(predicted["machine"], "h200x8")
    self.assertEqual(measured["model"], "step 5 on cpu")
    self.assertGreater(measured["makespan_us"], 0)
    self.assertEqual(*[{op["name"] for op in profile["ops"]}
                       for profile in (predicted, measured)])
    with open(trace) as file:
      kernels = [event for event in json.load(file)["traceEvents"]
                 if event.get("cat") == "kernel"]
    self.assertIn("matmul_wgrad", {event["name"] for event in kernels})
    self.assertGreater(min(event["dur"] for event in kernels), 0)

  def test_a_folder_trains_as_the_model_does(self):
    alone = [row[:3] for row in self.train(LLAMA, *SHAPE)]
    self.assertEqual(alone, [row[:3] for row in self.train(LLAMA, *SHAPE)])
    folder = self.compiled()
    self.assertEqual(alone, [row[:3] for row in self.train(folder)])

  def test_documents_follow_each_other(self):
    end = ["--document-end", str(ord("."))]
    alone = [row[:3] for row in self.train(LLAMA, *SHAPE, *end)]
    self.assertNotEqual(alone, [row[:3] for row in self.train(LLAMA, *SHAPE)])
    folder = self.path("documents")
    shutil.move(self.compiled("--documents", "2"), folder)
    self.assertEqual(alone, [row[:3] for row in self.train(folder, *end)])
    args = ["--steps", "2", *RATE, "--data", self.text]
    self.refused("tell the last token of each document (--document-end)",
                 folder, *args)
    plain = self.compiled()
    self.refused("it was compiled without --documents", plain, *args, *end)

  def test_a_run_goes_on_from_its_newest_checkpoint(self):
    folder, run = self.compiled("--dp", "2"), self.path("run")
    # The rate depends on the last step.
    warm = ["--warmup", "9", "--checkpoint", run, "--save-every", "2"]
    whole, _ = self.run_of(folder, "--steps", "9", "--warmup", "9")
    first, said = self.run_of(folder, "--steps", "9", *warm, "--keep", "2")
    self.assertEqual(first, whole)
    self.assertRegex(said, r"ended after step 9; the checkpoint is .*/run/step-")
    self.assertEqual(sorted(os.listdir(run)),
                     ["step-00000008", "step-00000009"])
    # Nothing is left to do, and nothing is written.
    before = os.stat(os.path.join(run, "step-00000009")).st_ino
    none, said = self.run_of(folder, "--steps", "9", *warm)
    self.assertEqual(none, {})
    self.assertRegex(said, r"no step was made: .*/run/step-00000009 is after "
                     r"step 9, --steps is 9\n")
    self.assertEqual(os.stat(os.path.join(run, "step-00000009")).st_ino, before)
    shutil.rmtree(os.path.join(run, "step-00000009"))
    again, said = self.run_of(folder, "--steps", "9", *warm)
    self.assertRegex(said, r"goes on from .*/run/step-00000008, after step 8\n")
    self.assertEqual(again, {9: whole[9]})
    # In another order only from the beginning.
    on = [folder, "--steps", "10", *RATE, "--data", self.text, *warm, "--seed",
          "2"]
    self.refused("shuffled by seed 1; it is", *on)
    said = self.passes("asyra-train", *on, "--restart-data")
    self.assertIn("step-00000009, after step 9\n", said)
    # Of another model.
    other = self.path("other")
    self.passes("asyra-opt", GPT2, *SHAPE, *QUICK, "--train", "-o", other)
    self.refused("step-00000010", other, "--steps", "20", *RATE, "--data",
                 self.text, "--checkpoint", run)

  def test_a_run_of_several_batches_goes_on(self):
    folder, run = self.compiled("--dp", "2", "--accumulate", "3"), \
        self.path("run")
    self.assertIn("accumulate.asyra", os.listdir(folder))
    even = ["--warmup", "0", "--final", "1"]
    whole, said = self.run_of(folder, "--steps", "6", *even)
    self.assertIn("12 rows of 16 tokens a step, in 3 batches, ", said)
    saving = [*even, "--checkpoint", run]
    first, _ = self.run_of(folder, "--steps", "2", *saving)
    last, said = self.run_of(folder, "--steps", "6", *saving)
    self.assertIn("step-00000002, after step 2\n", said)
    self.assertEqual({**first, **last}, whole)
    self.assertEqual(sorted(last), [3, 4, 5, 6])
    # With another number: on the data that comes next.
    alone = self.path("alone")
    self.passes("asyra-opt", LLAMA, "--dim", "batch=12", "--dim", "seq=16",
                *QUICK, "--train", "-o", alone)
    shutil.rmtree(os.path.join(run, "step-00000006"))
    other, said = self.run_of(alone, "--steps", "6", *saving)
    self.assertIn("step-00000002, after step 2\n", said)
    for step in range(3, 7):
      self.assertAlmostEqual(other[step], whole[step],
                             delta=1e-4 * whole[step])

  def test_batches_are_told_before_a_run(self):
    folder = self.compiled("--accumulate", "3")
    args = ["asyra-train", folder, *RATE, "--data", self.text, "--steps", "2"]
    said = self.passes(*args, "--dry-run")
    self.assertIn("sums of gradients ", said)
    os.remove(os.path.join(folder, "accumulate.asyra"))
    self.fails("accumulate.asyra", *args)
    for number in ["0", "-1", "x"]:
      self.fails("--accumulate", "asyra-train", LLAMA, *RATE, "--data",
                 self.text, "--steps", "2", "--accumulate", number)

  def test_checksums_are_those_of_zlib(self):
    folder, run = self.compiled("--dp", "2"), self.path("run")
    args = [folder, "--steps", "3", *RATE, "--data", self.text, "--checkpoint",
            run]
    self.passes("asyra-train", *args)
    newest = os.path.join(run, "step-00000003")
    with open(os.path.join(newest, "checkpoint.json")) as file:
      fields = json.load(file)
    own = fields.pop("own_crc32")
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"),
                      ensure_ascii=False)
    self.assertEqual(own, f"{zlib.crc32(text.encode()):08x}")
    checksums = {}
    for name in os.listdir(newest):
      if not name.endswith(".safetensors"):
        continue
      with open(os.path.join(newest, name), "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
      header.pop("__metadata__")
      for tensor, entry in header.items():
        checksums[tensor] = \
            f"{zlib.crc32(data[slice(*entry['data_offsets'])]):08x}"
    self.assertEqual(checksums, fields["crc32"])
    state = os.path.join(newest, "state-00001-of-00001.safetensors")
    with open(state, "r+b") as file:
      file.seek(-1, os.SEEK_END)
      last = file.read(1)[0]
      file.seek(-1, os.SEEK_END)
      file.write(bytes([last ^ 1]))
    args[2] = "6"
    self.refused(f"{state}: the data of tensor ", *args)

  def test_signals_stop_a_run_with_a_checkpoint(self):
    folder, run = self.compiled("--dp", "2"), self.path("run")
    for number, (name, code) in enumerate(
        [("SIGINT", signal.SIGINT), ("SIGTERM", signal.SIGTERM)], 1):
      process = subprocess.Popen(
          [os.path.join(TOOLS_DIR, "asyra-train"), folder, *RATE, "--data",
           self.text, "--steps", "1000000", "--every", "1", "--checkpoint",
           run], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
      while not process.stdout.readline().startswith("step "):
        self.assertIsNone(process.poll(), name)
      process.send_signal(code)
      said = process.communicate(timeout=60)[0]
      self.assertEqual(process.returncode, 0, said)
      stopped = re.search(r"\nstopped after step (\d+); the checkpoint is ",
                          said)
      self.assertIsNotNone(stopped, said)
      if number == 1:
        self.assertLess(int(stopped[1]), 1000)  # soon
      self.assertEqual(len(os.listdir(run)), number)

  def test_evaluation_is_on_other_data(self):
    folder = self.compiled()
    _, said = self.run_of(folder, "--steps", "6", "--evaluate-every", "3",
                          "--evaluate-batches", "2")
    losses = re.findall(r"step +(\d+)  evaluation loss (\d\.\d+)", said)
    self.assertEqual([step for step, _ in losses], ["3", "6"])
    self.assertLess(float(losses[1][1]), float(losses[0][1]))
    other = self.path("other.txt", "nothing that was said before. " * 20)
    _, unlike = self.run_of(folder, "--steps", "6", "--evaluate-every", "6",
                            "--evaluate-data", other)
    self.assertGreater(float(re.search(r"evaluation loss (\S+)", unlike)[1]),
                       float(losses[1][1]))
    args = [folder, "--steps", "2", *RATE, "--data", self.text]
    self.refused("--evaluate-data is given, and --evaluate-every is not", *args,
                 "--evaluate-data", other)
    self.refused("leave less than a batch to train on", *args,
                 "--evaluate-every", "1", "--evaluate-batches", "50")
    self.refused("--save-every is 1, and there is no --checkpoint", *args,
                 "--save-every", "1")

  def test_a_dry_run_only_says(self):
    folder = self.compiled("--dp", "2")
    before = sorted(os.listdir(self.dir))
    said = self.passes("asyra-train", folder, *RATE, "--data", self.text,
                       "--steps", "5", "--dry-run", "--checkpoint",
                       self.path("run"))
    self.assertRegex(said, r"memory: \S+ [KM]iB a device: params .*, optimizer "
                     r"states .*, values of a step ")
    self.assertRegex(said, r"predicted on h200x8: \S+ [mu]?s a step, \d+ tokens/s")
    self.assertEqual(sorted(os.listdir(self.dir)), before)

  def test_weights_are_exported(self):
    folder, weights = self.compiled(), self.path("weights.safetensors")
    own = os.path.join(folder, "step.safetensors")
    self.refused(f"--export {own}: the run reads it", folder, *RATE, "--data",
                 self.text, "--steps", "2", "--export", own)
    self.passes("asyra-train", folder, *RATE, "--data", self.text, "--steps",
                "2", "--export", weights)
    with open(weights, "rb") as file:
      names = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    names.pop("__metadata__", None)
    with open(os.path.join(folder, "step.safetensors"), "rb") as file:
      given = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    given.pop("__metadata__", None)
    self.assertEqual(len(names), 21)
    for name, tensor in names.items():
      self.assertEqual(tensor["shape"], given[name]["shape"])

  def test_a_step_runs_alone(self):
    folder = self.compiled()
    step = os.path.join(folder, "step.asyra")
    self.passes("asyra-run", step, "--repeat", "2", "--check-finite",
                "--check-deterministic")
    os.remove(os.path.join(folder, "step.safetensors"))
    self.fails("--random-weights", "asyra-run", step)
    first = self.passes("asyra-run", step, "--random-weights",
                        "--check-finite")
    # With other first values the loss is another.
    os.remove(os.path.join(folder, "init.asyra"))
    other = self.passes("asyra-run", step, "--random-weights",
                        "--check-finite")
    norms = [[line for line in text.splitlines() if "%" + "loss" in line]
             for text in (first, other)]
    self.assertNotEqual(*norms)

  def test_a_folder_is_compiled_already(self):
    folder = self.compiled()
    args = [folder, "--steps", "2", *RATE, "--data", self.text]
    for flags in [["--mesh", "dp=2"], ["--dp", "2"], ["--optimizer", "sgd"],
                  ["--freeze", ".*"], ["--dtype", "f64"]]:
      self.refused(f"it is compiled already, {flags[0]} would not matter",
                   *args, *flags)

  def test_what_fails_to_compile_leaves_no_folder(self):
    folder = self.path("training")
    self.fails("none of the 23 float weights is called x", "asyra-opt", LLAMA,
               *SHAPE, "--train", "--freeze", "x", "-o", folder)
    self.assertFalse(os.path.exists(folder))
    self.fails("--optimizer requires --train", "asyra-opt", LLAMA, *SHAPE,
               "--optimizer", "sgd")
    self.fails("text.txt: Not a directory", "asyra-opt", LLAMA, *SHAPE,
               "--train", "-o", self.text)


if __name__ == "__main__":
  unittest.main(argv=sys.argv[:1] + sys.argv[3:])
