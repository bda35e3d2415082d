"""Hierarchical collectives: compiled for hosts of two devices and run by ranks
on cpus, as threads and as processes over TCP, they give what flat ones give.

Usage: over_hosts_test.py SOURCE_DIR TOOLS_DIR
"""

import json
import os
import socket
import subprocess
import sys
import unittest

from tool_test import DIMS, LLAMA, TOOLS_DIR, ToolTest, launched, recorded

HOSTS = ["--machine", "a800x8", "--set", "host.gpus=2"]


def free_port():
  with socket.socket() as one:
    one.bind(("127.0.0.1", 0))
    return str(one.getsockname()[1])


def outputs_of(text):
  return [line for line in text.splitlines() if line.startswith("output %")]


class OverHosts(ToolTest):

  def processes(self, tool, *args, ranks=4):
    """What the first rank says; all are processes, as torchrun starts them."""
    port = free_port()
    started = []
    for rank in range(ranks):
      process = subprocess.Popen([os.path.join(TOOLS_DIR, tool), *args],
                                 env=launched(rank, ranks, port),
                                 stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True)
      self.addCleanup(process.communicate)
      self.addCleanup(process.kill)
      started.append(process)
    said = [process.communicate(timeout=120) for process in started]
    for process, (out, err) in zip(started, said):
      self.assertEqual(process.returncode, 0, err + out)
    return said[0][0]

  def compiled(self, form, *flags, name="model.asyra"):
    out = self.path(f"{form}_{name}")
    self.passes("asyra-opt", LLAMA, *DIMS, *flags, *HOSTS, "--over-hosts", form,
                "-o", out)
    with open(out) as file:
      return out, file.read()

  def test_a_model_equals_its_recording(self):
    for mesh, split, flags in [
        ("tp=4", "tp.hosts=2, tp=2", ["--tp-strategy", "sequence"]),
        ("tp=4", "tp.hosts=2, tp=2", ["--tp-strategy", "replicated"]),
        ("dp=2,sp=2", "dp=2, sp=2", [])]:
      out, text = self.compiled("hierarchical", "--mesh", mesh, "--tiles", "2",
                                "--search-steps", "200", *flags)
      self.assertIn(f"mesh ({split})", text)
      self.assertEqual(".across" in text, "tp" in mesh)
      threads = self.passes("asyra-run", out, "--check", recorded(LLAMA))
      said = self.processes("asyra-run", out, "--check", recorded(LLAMA))
      self.assertEqual(outputs_of(said), outputs_of(threads))
      self.assertRegex(said, r"\n\d+ all_gather\(\S+\) by sockets\n")

  def test_forms_are_asked_for(self):
    _, text = self.compiled("flat", "--mesh", "tp=4", "--search-steps", "200")
    self.assertIn("mesh (tp=4)", text)
    self.fails("--over-hosts", "asyra-opt", LLAMA, *DIMS, "--over-hosts=tree")

  def test_trainings_learn_the_same(self):
    data = self.path("text.txt", "the quick brown fox. " * 200)
    losses = {}
    for zero in ["0", "2", "3"]:
      for form in ["flat", "hierarchical"]:
        folder, log = self.path(form + zero), self.path(form + zero + ".jsonl")
        self.passes("asyra-opt", "gpt3-tiny", "--dim", "seq=16", "--dim",
                    "batch=8", "--dp", "4", *HOSTS, "--train", "--zero", zero,
                    "--accumulate", "2", "--tiles", "1", "--search-steps",
                    "200", "--over-hosts", form, "-o", folder)
        args = [folder, "--data", data, "--rate", "0.01", "--steps", "4",
                "--log", log]
        if form == "hierarchical":
          self.processes("asyra-train", *args)
        else:
          self.passes("asyra-train", *args)
        with open(log) as file:
          losses[form] = [json.loads(line)["loss"] for line in file]
        with open(os.path.join(folder, "step.asyra")) as file:
          self.assertEqual("dp.hosts" in file.read(), form == "hierarchical")
      self.assertEqual(len(losses["flat"]), 4)
      for flat, hierarchical in zip(losses["flat"], losses["hierarchical"]):
        self.assertAlmostEqual(flat, hierarchical, delta=1e-4 * flat)


if __name__ == "__main__":
  unittest.main(argv=sys.argv[:1] + sys.argv[3:])
