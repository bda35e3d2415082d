"""Runs the corpus of random graphs: results are those that were recorded.

A run passes, or is refused for a reason that is true of the graph; anything
else fails. Needs no Python packages; random_graphs.py draws other graphs.

Usage: corpus_test.py SOURCE_DIR TOOLS_DIR
"""

import collections
import concurrent.futures
import os
import sys
import tempfile
import unittest

SOURCE_DIR, TOOLS_DIR = sys.argv[1:3]
sys.path.insert(0, os.path.join(SOURCE_DIR, "tests/differential"))

# pylint: disable=wrong-import-position
import corpus
import refusals
import runs

# Searches are cut to so many orders, unless all are asked for: results are
# compared here, not times.
SEARCH_STEPS = None if os.environ.get("ASYRA_ALL_SEARCHES") else 20


def as_run(flags):
  """The recorded flags that do something, searches cut."""
  flags = runs.without_idle(flags)
  if SEARCH_STEPS and "--search-steps" in flags:
    at = flags.index("--search-steps") + 1
    flags[at] = str(min(int(flags[at]), SEARCH_STEPS))
  return flags


def run_all(jobs):
  with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    return list(pool.map(lambda job: runs.run(TOOLS_DIR, *job), jobs))


def changed(tensor):
  """A serialized TensorProto whose last number, which ends it, is another."""
  return tensor[:-1] + bytes([tensor[-1] ^ 0x3f])


class Corpus(unittest.TestCase):

  @classmethod
  def setUpClass(cls):
    scratch = tempfile.TemporaryDirectory()
    cls.addClassCleanup(scratch.cleanup)
    corpus.unpack(os.path.join(SOURCE_DIR, "tests/differential", corpus.NAME),
                  scratch.name)
    cls.cases = [(folder, corpus.description(folder))
                 for folder in corpus.folders(scratch.name)]

  def test_every_run_is_right_or_rightly_refused(self):
    jobs = [(folder, case, as_run(flags)) for folder, case in self.cases
            for flags in case["runs"]]
    verdicts = run_all(jobs)
    counts = collections.Counter(
        f"{v.kind} {v.reason}".strip() for v in verdicts)
    print(f"{len(self.cases)} graphs, {len(jobs)} runs:",
          ", ".join(f"{n} {kind}" for kind, n in counts.most_common()))
    failed = [f"seed {case['seed']} {' '.join(flags)}: {v.kind}: {v.said}"
              for (_, case, flags), v in zip(jobs, verdicts) if not v.ok]
    self.assertEqual(failed, [])
    # Plans change with costs, and with them what tiles can cut.
    recorded = sum(case["passed"] for _, case in self.cases)
    self.assertGreaterEqual(counts["passed"], 0.95 * recorded)

  def test_the_corpus_is_varied(self):
    ops = {op for _, case in self.cases for op in case["ops"]}
    meshes = {tuple(sorted(refusals.size_of_mesh(flags).items()))
              for _, case in self.cases for flags in case["runs"]}
    self.assertGreaterEqual(len(self.cases), 200)
    self.assertGreaterEqual(len(ops), 90)
    self.assertGreaterEqual(len(meshes), 15)

  def test_a_wrong_output_is_found(self):
    folder, case = next(
        (folder, case) for folder, case in self.cases
        if case["theme"] == "layers")
    path = os.path.join(folder, "test_data_set_0", "output_0.pb")
    with open(path, "rb") as file:
      right = file.read()
    with open(path, "wb") as file:
      file.write(changed(right))
    verdict = runs.run(TOOLS_DIR, folder, case, [])
    with open(path, "wb") as file:
      file.write(right)
    self.assertEqual(verdict.kind, "wrong", verdict.said)


class Verdicts(unittest.TestCase):
  CASE = {"inputs": [[4, 6]], "not_padded_right": ["left"],
          "rows_of_zeros": ["gone"]}

  def judge(self, text, flags=""):
    verdict = runs.classify(1, "", f"asyra-run: {text}\n", flags.split(),
                            self.CASE)
    return verdict.kind

  def test_a_refusal_must_be_true(self):
    nothing = ("axis dp of size {0} shards nothing: it is for the batch; "
               "dim 0 of %x has size {1} ({0} does not divide it), dim 1 of "
               "%x has size 6 (tokens)")
    self.assertEqual(self.judge(nothing.format(2, 4)), "untrue")
    self.assertEqual(self.judge(nothing.format(3, 4)), "refused")
    named = nothing.replace("dim 0", 'dim 0 "batch"')
    self.assertEqual(self.judge(named.format(2, 4)), "untrue")
    experts = ("axis ep of size 2 shards no experts: there are {} of them "
               "(%w) for 4 devices over (dp,ep)")
    self.assertEqual(self.judge(experts.format(8)), "untrue")
    self.assertEqual(self.judge(experts.format(6)), "refused")
    dense = "axis ep of size 2 shards no experts: the model has none, no op"
    self.assertEqual(self.judge(dense, "--ep 2"), "refused")
    self.assertEqual(self.judge(dense), "untrue")
    cut = "dim 1 of input %x is {} on a device, it does not cut into {} tiles"
    self.assertEqual(self.judge(cut.format(6, 4)), "refused")
    self.assertEqual(self.judge(cut.format(6, 3)), "untrue")
    none = ("no dim of the data inputs is the sequence: there are dim 0 of "
            "input %x (4{})")
    self.assertEqual(self.judge(none.format(", batch")), "refused")
    self.assertEqual(self.judge(none.format(", sequence")), "untrue")

  def test_a_refused_mask_has_other_rows(self):
    row = "row 0 of input {} has a {} at place 1{}"
    right = "--padding right"
    behind, must = ", behind a 0: with", ", where it must have a 1: with"
    for name, kind in [("left", "refused"), ("gone", "untrue")]:
      self.assertEqual(self.judge(row.format(name, 1, behind), right), kind)
      self.assertEqual(self.judge(row.format(name, 1, behind)), "untrue")
    for name, kind in [("left", "untrue"), ("gone", "refused")]:
      self.assertEqual(self.judge(row.format(name, 0, must), right), kind)

  def test_what_is_no_refusal_is_a_finding(self):
    self.assertEqual(self.judge("2 inputs are recorded, the program takes 1"),
                     "unexpected")
    for beyond in ["3 elements of 1 of 2 outputs are beyond rtol 0.001, atol 0",
                   "1 element of 1 of 1 output is beyond equality"]:
      self.assertEqual(self.judge(beyond), "wrong")
    self.assertEqual(self.judge("INTERNAL: no such op"), "internal")
    self.assertEqual(self.judge("one line\nand another"), "internal")
    self.assertEqual(runs.classify(-11, "", "", [], self.CASE).kind, "crash")
    self.assertEqual(runs.classify(0, "", "", [], self.CASE).kind, "passed")


if __name__ == "__main__":
  unittest.main(argv=sys.argv[:1] + sys.argv[3:])
