"""Ranks that are processes, one for each of two GPUs: copy engines carry what
they carry between threads, with the same bytes; where processes may not open
each other's memory, the library does; a rank that is killed ends the other.

Prints SKIP where there are no two GPUs.

Usage: cuda_processes_test.py SOURCE_DIR TOOLS_DIR
"""

import os
import re
import signal
import subprocess
import sys
import time
import unittest

from tool_test import TOOLS_DIR, ToolTest, gpus, launched

PROGRAM = """asyra 1 local
mesh (tp=2)

program @f(%x: f32[64@tp, 64], %y: f32[64, 64])
    -> (f32[64, 64], f32[64@tp, 64], f32[64, 64], f32[64, 64@tp]) {
  %g = all_gather(%x) {axes=tp, dim=0, transport=copy_engine} : f32[64, 64]
  %p = matmul(%g, %y) : f32[64, 64]
  %part = reduce_sum(%x) {dims=[0], keep=true} : f32[1, 64] partial(tp)
  %sum = all_reduce(%part) {axes=tp, transport=copy_engine} : f32[1, 64]
  %m = add(%p, %sum) : f32[64, 64]
  %xy = matmul(%x, %y) : f32[64@tp, 64]
  %t = all_to_all(%xy) {from=0, to=1, axes=tp, transport=copy_engine}
      : f32[64, 64@tp]
  %z = matmul(%t, %t) {transpose_b=true} : f32[64, 64] partial(tp)
  %s = reduce_scatter(%z) {dim=0, axes=tp, transport=copy_engine}
      : f32[64@tp, 64]
  return %g, %s, %m, %t
}
"""


def start_ranks(port, *args, **variables):
  """Two processes of asyra-run on cuda, as torchrun would start them."""
  return [subprocess.Popen(
      [os.path.join(TOOLS_DIR, "asyra-run"), *args, "--device", "cuda"],
      env=launched(rank, 2, port, **variables), stdin=subprocess.DEVNULL,
      text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
          for rank in range(2)]


def outputs(said):
  return re.findall(r"^output .*$", said, re.MULTILINE)


class ProcessesTest(ToolTest):

  def end_well(self, ranks):
    """What rank 0 has said."""
    said = [rank.communicate(timeout=120) for rank in ranks]
    for rank, (out, err) in zip(ranks, said):
      self.assertEqual(rank.returncode, 0, err + out)
    return said[0][0]

  def test_copy_engines_carry_the_same_between_processes(self):
    program = self.path("f.asyra", PROGRAM)
    for graphs in ([], ["--graphs"]):
      flags = [program, "--repeat", "20", "--check-deterministic", *graphs]
      threads = self.passes("asyra-run", *flags, "--device", "cuda")
      self.assertEqual(threads.count("by copy engines"), 4, threads)
      processes = self.end_well(start_ranks(29641, *flags))
      self.assertEqual(processes.count("by copy engines"), 4, processes)
      self.assertEqual(len(outputs(threads)), 4)
      self.assertEqual(outputs(processes), outputs(threads))

  def test_the_library_carries_it_where_memory_cannot_be_opened(self):
    program = self.path("f.asyra", PROGRAM)
    said = self.end_well(start_ranks(29642, program, NCCL_P2P_DISABLE="1"))
    self.assertEqual(said.count("by the library, not by copy engines: its ranks "
                                "are processes that do not open each other's "
                                "memory"), 4, said)

  def test_a_killed_rank_ends_the_other(self):
    program = self.path("f.asyra", PROGRAM)
    ranks = start_ranks(29643, program, "--repeat", "10000000", "--timeout",
                        "10")
    time.sleep(10)
    self.assertIsNone(ranks[0].poll())
    ranks[1].send_signal(signal.SIGKILL)
    _, errors = ranks[0].communicate(timeout=30)
    ranks[1].communicate()
    self.assertEqual(ranks[0].returncode, 1, errors)
    self.assertIn("rank 1", errors)


if __name__ == "__main__":
  if gpus() < 2:
    print("SKIP: there are no two GPUs")
    sys.exit()
  unittest.main(argv=sys.argv[:1] + sys.argv[3:])
