"""Runs asyra-sim as users do: results, files, pages, errors.

Usage: sim_test.py SOURCE_DIR TOOLS_DIR
"""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import unittest

from tool_test import DIMS, LLAMA, ToolTest, run

MODEL = ["llama3-8b", "--dim", "layers=2", "--dim", "seq=2048"]
TINY = ["llama3-tiny"]


def read_json(path):
  with open(path) as file:
    return json.load(file)


class Simulator(ToolTest):

  def test_a_run_is_told_as_text_and_json(self):
    out = self.path("run.json")
    text = self.passes("asyra-sim", "run", *MODEL, "--tp", "4", "--sp", "2",
                       "--json", out)
    profile = read_json(out)
    makespan = re.search(r"^makespan +([\d.]+) ([mu]s)", text, re.MULTILINE)
    us = float(makespan[1]) * {"us": 1, "ms": 1e3}[makespan[2]]
    self.assertLess(abs(us / profile["makespan_us"] - 1), 0.005)
    for word in ["lower bound", "bubble", "MFU", "exposed", "peak memory",
                 "weight", "activation", "rests on", "critical path", "  tp ",
                 "  sp "]:
      self.assertIn(word, text)
    self.assertEqual(profile["step"]["tokens"], [2048])
    self.assertAlmostEqual(profile["tokens_per_s"], profile["step"]["batch"] *
                           2048e6 / profile["makespan_us"], 3)
    self.assertIn("2048 tokens, bf16; ", text)
    self.assertGreaterEqual(profile["makespan_us"], profile["lower_bound_us"])
    self.assertAlmostEqual(sum(s["us"] for s in profile["sources"]),
                           profile["makespan_us"], 3)
    self.assertTrue(0 < profile["mfu"] < 1)
    # Every key is in the documented schema.
    with open(os.path.join(sys.argv[1], "simulator/README.md")) as readme:
      documented = readme.read()
    keys = set(profile) | set(profile["memory"]) | set(profile["step"])
    keys = keys.union(*profile["ops"])
    self.assertIn("exposed_by", keys)
    self.assertEqual([k for k in keys if f"`{k}`" not in documented], [])
    alone = self.passes("asyra-sim", "run", *MODEL, "--tp", "4", "--sp", "2",
                        "--json", "-")
    self.assertEqual(json.loads(alone), profile)

  def test_a_training_step_is_told_as_text_and_json(self):
    out = self.path("run.json")
    args = [*MODEL, "--dim", "batch=4", "--dp", "2", "--tp", "4", "--train",
            "--optimizer", "sgd", "--momentum", "0.9", "--tiles", "1",
            "--search-steps", "20"]
    text = self.passes("asyra-sim", "run", *args, "--json", out)
    for word in ["forward ", "backward ", "update ", "tokens a second and",
                 "MFU", "master ", "moments ", "stash ", "libraries ",
                 "in all ", "note: not trained: rotary.cos.weight"]:
      self.assertIn(word, text)
    profile = read_json(out)
    step = profile["training"]
    self.assertAlmostEqual(
        sum(phase["elapsed_us"] for phase in step["phases"].values()),
        profile["makespan_us"], 3)
    self.assertEqual(sum(step["memory"].values()),
                     profile["memory"]["device_bytes"])
    self.assertAlmostEqual(step["tokens_per_s_device"],
                           profile["tokens_per_s"] / 8, 3)
    # sgd has one f32 moment for each f32 master weight, and counts its steps.
    self.assertEqual(step["memory"]["moments"], step["memory"]["master"] + 8)
    self.assertGreater(profile["mfu"], 0.1)
    self.assertLess(profile["mfu"], 1)
    # Frozen weights have neither.
    self.passes("asyra-sim", "run", *args, "--freeze", ".*embed.*", "--json",
                out)
    self.assertLess(read_json(out)["training"]["memory"]["moments"],
                    step["memory"]["moments"])
    # The step of no training has no such part.
    self.passes("asyra-sim", "run", *TINY, "--json", out)
    self.assertNotIn("training", read_json(out))
    self.fails("--optimizer requires --train", "asyra-sim", "run", *TINY,
               "--optimizer", "sgd")

  def test_a_step_of_several_batches(self):
    out = self.path("run.json")
    args = [*MODEL, "--dim", "batch=4", "--dp", "2", "--train", "--tiles", "1",
            "--search-steps", "20"]
    self.passes("asyra-sim", "run", *args, "--json", out)
    alone = read_json(out)
    text = self.passes("asyra-sim", "run", *args, "--accumulate", "5", "--json",
                       out)
    self.assertRegex(text, r"step of 5 batches\n +add up +\S+ \S+: 4 times")
    profile = read_json(out)
    batches = profile["accumulate"]
    self.assertEqual(batches["batches"], 5)
    self.assertAlmostEqual(batches["last_us"], profile["makespan_us"], 3)
    self.assertAlmostEqual(
        batches["total_us"], batches["clear_us"] + batches["last_us"] +
        4 * batches["accumulate_us"], 3)
    # A batch without an update takes less; the sums take memory.
    self.assertLess(batches["accumulate_us"], alone["makespan_us"])
    self.assertGreater(batches["device_bytes"],
                       alone["memory"]["device_bytes"])
    self.assertNotIn("accumulate", alone)
    for command in [["sweep", *TINY, "--grid", "tp=1,2"],
                    ["compare", *TINY[:1], *TINY[:1]]]:
      self.fails("--accumulate is 5: of steps of several batches, run and "
                 "explain show one at a time", "asyra-sim", *command, "--train",
                 "--accumulate", "5")

  def test_a_sweep_of_training_steps(self):
    out = self.path("sweep.json")
    text = self.passes("asyra-sim", "sweep", *TINY, "--train", "--grid",
                       "mesh=dp=2;tp=2", "--search-steps", "20", "--json",
                       out)
    self.assertRegex(text, r"tokens/s +a device +bound .*MFU %")
    for point in read_json(out)["points"]:
      self.assertAlmostEqual(point["tokens_per_s_device"],
                             point["tokens_per_s"] / 2, 3)
      self.assertGreater(point["mfu"], 0)
    self.assertNotIn("a device", self.passes(
        "asyra-sim", "sweep", *TINY, "--grid", "mesh=dp=2;tp=2"))

  def test_a_trace_holds_what_viewers_need(self):
    out = self.path("trace.json")
    self.passes("asyra-sim", "run", *MODEL, "--tp", "8", "--trace", out)
    events = read_json(out)["traceEvents"]
    kernels = [e for e in events if e.get("cat") == "kernel"]
    end = {}
    for kernel in sorted(kernels, key=lambda e: e["ts"]):
      track = (kernel["pid"], kernel["tid"])
      self.assertGreaterEqual(kernel["ts"], end.get(track, 0) - 1e-6)
      end[track] = kernel["ts"] + kernel["dur"]
    self.assertGreater(len(end), 1)
    names = {e["name"] for e in kernels}
    self.assertTrue(any(n.startswith("ncclDevKernel_") for n in names))
    waits = [e for e in events if e.get("cat") == "wait"]
    self.assertEqual({e["ph"] for e in waits}, {"s", "f"})
    self.assertTrue(any(e["ph"] == "C" for e in events))

  def test_machines_can_be_changed(self):
    def makespan(*args):
      return json.loads(self.passes("asyra-sim", "run", *MODEL, *args,
                                    "--json", "-"))["makespan_us"]
    base = makespan()
    self.assertLess(makespan("--set", "gpu.hbm_gbps*=2"), base)
    self.assertGreater(makespan("--machine", "a100x8"), base)
    self.fails("no.such", "asyra-sim", "run", *MODEL, "--set", "no.such=4")
    self.fails("gpu.sms", "asyra-sim", "run", *MODEL, "--set", "gpu.sms=many")
    self.fails("KEY", "asyra-sim", "run", *MODEL, "--set", "nothing")
    self.fails("1 nodes of h200x8 have 8", "asyra-sim", "run", *MODEL, "--tp",
               "8", "--dp", "2", "--nodes", "1")
    self.fails("formula", "asyra-sim", "run", *MODEL,
               "--strict", "--machine", "a800x8")

  def test_ranks_as_processes_are_estimated_as_they_run(self):
    text = """asyra 1 scheduled
mesh (tp=8)
program @f(%x: bf16[8192@tp, 4096]) -> (bf16[8192, 4096]) {
  %f = start all_gather(%x) {axes=tp, dim=0, transport=copy_engine} on tp : future bf16[8192, 4096]
  %y = wait(%f) on compute : bf16[8192, 4096]
  return %y
}
"""
    program = self.path("gather.asyra", text)
    library = self.path("library.asyra",
                        text.replace(", transport=copy_engine", ""))
    as_library = json.loads(self.passes("asyra-sim", "run", library, "--json",
                                        "-"))["makespan_us"]
    closed = ["--set", "host.process_copies=false"]
    for flags, copied in [([], True), (["--ranks-as", "threads"], True),
                          (["--ranks-as", "processes"], True),
                          (["--ranks-as", "processes", *closed], False)]:
      with self.subTest(flags=flags):
        said = json.loads(self.passes("asyra-sim", "run", program, *flags,
                                      "--json", "-"))
        notes = " ".join(said.get("notes", []))
        self.assertEqual("estimated as the library's: its ranks are processes"
                         in notes, not copied)
        self.assertEqual(said["makespan_us"] == as_library, not copied)
    text = self.passes("asyra-opt", program, "--ranks-as", "processes", *closed)
    self.assertIn("1 collective asks for copy engines and is estimated", text)
    self.fails("--ranks-as", "asyra-sim", "run", program, "--ranks-as", "mpi")

  def test_a_schedule_slower_than_none_says_what_asked_for_it(self):
    args = ["asyra-sim", "run", "qwen3-moe-tiny", "--dim", "batch=2", "--dim",
            "seq=256", "--tp", "2", "--dp", "2", "--machine", "a800x8",
            "--search-steps", "50"]
    asked = "--tiles 4 was asked for"
    self.assertIn(asked, self.passes(*args, "--tiles", "4"))
    result = json.loads(self.passes(*args, "--tiles", "4", "--json", "-"))
    self.assertRegex(result["notes"][0],
                     r"^slower than unscheduled by \d+\.\d %: " + asked)
    self.assertNotIn("slower than unscheduled", self.passes(*args))

  def test_what_does_not_fit_says_by_how_much_and_what_fills_it(self):
    text = self.fails("llama3-8b does not fit: ", "asyra-sim", "run", *MODEL,
                      "--capacity", "1")
    self.assertIn("makespan", text)
    for ways in [["--memory-gib", "1"], ["--set", "gpu.hbm_gib=1"]]:
      self.assertEqual(run("asyra-sim", "run", *MODEL, *ways).stderr,
                       run("asyra-sim", "run", *MODEL, "--capacity", "1").stderr)
    result = run("asyra-sim", "run", *MODEL, "--capacity", "1")
    for word in ["on a device of 1.00 GiB", "too much", "weight", "activation"]:
      self.assertIn(word, result.stderr)
    self.passes("asyra-sim", "run", *MODEL, "--capacity", "0")
    for flag in ["--capacity", "--memory-gib"]:
      for gib in ["-1", "nan"]:
        self.fails(f"{flag}: {gib} is no number of GiB of at least 0", "asyra-sim",
                   "run", *MODEL, flag, gib)
    self.fails("excludes", "asyra-sim", "run", *MODEL, "--capacity", "1",
               "--memory-gib", "1")
    said = run("asyra-sim", "run", *MODEL, "--memory-gib", "1e-7").stdout
    self.assertRegex(said, r"on the device .* \d+\.\d+ GiB more than 107 bytes; "
                           r"\d.* libraries and kernels\n")

  def test_explain_ranks_the_numbers_of_the_machine(self):
    text = self.passes("asyra-sim", "explain", *MODEL, "--tp", "8")
    for word in ["critical path", "by what held it up", "load of each resource",
                 "sensitivity of the makespan", "gpu.hbm_gbps"]:
      self.assertIn(word, text)

  def test_queues_of_overlaps_are_explained_and_traced(self):
    program = self.path("gather.asyra", """asyra 1 scheduled
mesh (tp=2)
program @f(%x: bf16[8192@tp, 4096], %w: bf16[4096, 8192@tp] weight) ->
    (bf16[8192, 8192@tp]) {
  %y = overlap(%x, %w) {
    %2 = all_gather(%0) {dim=0, axes=tp} : bf16[8192, 4096]
    %3 = matmul(%2, %1) : bf16[8192, 8192@tp]
    return %3
  } on compute : bf16[8192, 8192@tp]
  return %y
}
""")
    trace, html, raw = map(self.path, ["t.json", "p.html", "r.json"])
    text = self.passes("asyra-sim", "explain", program, "--machine", "h200x2",
                       "--trace", trace, "--html", html, "--json", raw)
    heads, row = text.split("overlaps, one of each name")[1].splitlines()[1:3]
    self.assertEqual(heads.split(),
                     ["ops", "time", "pieces", "copies", "head", "gaps",
                      "tail"])
    self.assertEqual(row.split()[:2], ["y", "1"])
    with open(raw) as file:
      steps = json.load(file)["ops"][0]["steps"]
    self.assertEqual({step["queue"] for step in steps}, {"compute", "copy 0"})
    with open(trace) as file:
      queues = [event for event in json.load(file)["traceEvents"]
               if event.get("cat") == "overlap"]
    self.assertEqual(len(queues), len(steps))
    with open(html) as file:
      self.assertIn('"queue":', file.read())

  def test_explain_chooses_ctas_again(self):
    # As it was tuned, CTAs carry less than the link.
    program = os.path.join(os.path.dirname(__file__), "what_if", "link_bound")
    machine = ["--machine", program + ".machine"]
    text = self.passes("asyra-sim", "explain", program + ".asyra", *machine)
    rows = {row.split()[0]: float(row.split()[-3])
            for row in text.split("sensitivity of")[1].splitlines()[2:]
            if not row.startswith("  other numbers")}
    def makespan(*args):
      return json.loads(self.passes("asyra-sim", "run", program + ".asyra",
                                    *machine, *args, "--json", "-")
                        )["makespan_us"]
    for key in ["host.link_gbps", "nvlink"]:
      saved = makespan() - makespan("--set", key + "*=1.1")
      self.assertGreater(saved, 0)
      self.assertAlmostEqual(-rows[key], saved, delta=0.1 * saved)

  def test_compare_takes_models_results_and_traces(self):
    result, trace = self.path("a.json"), self.path("b.json")
    program = self.path("c.asyra")
    self.passes("asyra-sim", "run", *MODEL, "--tp", "8", "--json", result,
                "--trace", trace)
    self.passes("asyra-opt", *MODEL, "--tp", "8", "-o", program)
    for other in [result, trace, program]:
      text = self.passes("asyra-sim", "compare", result, other)
      self.assertIn("0 of ", text.replace("\n0 of", "\n 0 of"))
    out = self.path("d.json")
    self.passes("asyra-sim", "compare", result, program, "--machine", "a800x8",
                "--json", out)
    difference = read_json(out)
    self.assertGreater(difference["after"]["makespan_us"],
                       difference["before"]["makespan_us"])
    self.assertTrue(all(op["before_count"] == op["after_count"]
                        for op in difference["ops"]))
    self.fails("bad.json: line 1 is no JSON", "asyra-sim", "compare", result,
               self.path("bad.json", "{"))
    self.fails("neither a profile", "asyra-sim", "compare", result,
               self.path("other.json", "{}"))
    self.fails("none.json", "asyra-sim", "compare", result,
               self.path("none.json"))
    self.fails("AFTER", "asyra-sim", "compare", result)

  def test_a_sweep_marks_the_front_and_keeps_the_reasons(self):
    table, out = self.path("s.csv"), self.path("s.json")
    text = self.passes("asyra-sim", "sweep", *TINY, "--grid", "tp=1,2,16",
                       "--nodes", "1", "--grid", "machine=a800x8,h200x8",
                       "--csv", table, "--json", out)
    self.assertIn("pareto", text)
    with open(table, newline="") as file:
      rows = list(csv.DictReader(file))
    self.assertEqual([(r["tp"], r["machine"]) for r in rows],
                     [(tp, m) for tp in ["1", "2", "16"] for m in ["a800x8", "h200x8"]])
    for row in rows:
      self.assertEqual(bool(row["error"]), row["tp"] == "16")
      self.assertNotIn(None, row)
    self.assertIn("true", {r["pareto"] for r in rows})
    points = read_json(out)["points"]
    self.assertEqual([str(p.get("makespan_us", "")) for p in points],
                     [r["makespan_us"] for r in rows])

  def test_an_estimate_says_between_which_times_a_schedule_lies(self):
    run = ["asyra-sim", "run", *TINY, "--tp", "2", "--json"]
    searched, estimated = self.path("s.json"), self.path("e.json")
    self.passes(*run, searched)
    text = self.passes(*run[:-1], "--estimate")
    self.assertIn("note: estimate: a schedule of this program takes between",
                  text)
    self.passes(*run, estimated, "--estimate")
    found, guess = read_json(searched), read_json(estimated)
    self.assertLessEqual(found["makespan_us"], guess["makespan_us"])
    self.assertLess(guess["lower_bound_us"], guess["makespan_us"])

  def test_all_meshes_of_some_devices(self):
    sweep = ["asyra-sim", "sweep", *TINY, "--machine", "h200x8", "--grid",
             "mesh=auto"]
    self.fails("--grid mesh=auto: there is no --ranks", *sweep)
    out = self.path("s.json")
    text = self.passes(*sweep, "--ranks", "4", "--search-best", "2", "--json",
                       out)
    self.assertIn("not searched", self.passes(*sweep, "--ranks", "4",
                                              "--search-best", "2"))
    points = read_json(out)["points"]
    self.assertEqual([point["values"] for point in points],
                     [["dp=4"], ["dp=2,sp=2"], ["dp=2,tp=2"], ["sp=4"],
                      ["sp=2,tp=2"], ["tp=4"]])
    searched = [point for point in points if not point["estimated"]]
    self.assertEqual(len(searched), 2)
    self.assertEqual(sorted(point["rank"] for point in points),
                     [0, 0, 0, 0, 1, 2])
    every = self.path("all.json")
    self.passes(*sweep, "--ranks", "4", "--json", every)
    best = min(p["makespan_us"] for p in read_json(every)["points"])
    self.assertLessEqual(min(p["makespan_us"] for p in searched), 1.02 * best)

  def test_a_sweep_without_a_valid_point_gives_each_reason(self):
    text = self.fails("none of 2 points is valid: tp=16: ", "asyra-sim",
                      "sweep", *TINY, "--grid", "tp=16,32", "--nodes",
                      "1")
    self.assertIn("tp=32", text)
    self.fails("too much", "asyra-sim", "sweep", *TINY, "--grid", "tp=1,2",
               "--capacity", "0.000001")
    self.fails("--grid is required", "asyra-sim", "sweep", *TINY)
    self.fails("unknown key tpp", "asyra-sim", "sweep", *TINY, "--grid",
               "tpp=1")
    self.fails("'x' is no integer", "asyra-sim", "sweep", *TINY, "--grid",
               "tp=x")

  def test_errors_are_one_line_that_names_the_place(self):
    self.fails("usage: asyra-sim run|sweep|", "asyra-sim")
    self.fails("MODEL", "asyra-sim", "run")
    self.fails("--no-such-flag", "asyra-sim", "run", LLAMA, "--no-such-flag")
    self.fails("none.onnx", "asyra-sim", "run", self.path("none.onnx"))
    self.fails("no-such-machine", "asyra-sim", "run", LLAMA, *DIMS,
               "--machine", "no-such-machine")
    self.fails("stage global is not simulated", "asyra-sim", "run", LLAMA,
               *DIMS, "--passes", "canonicalize")
    self.fails("no/out", "asyra-sim", "run", *TINY, "--html",
               self.path("no/out.html"))

  def test_pages_run_in_a_browser(self):
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
      self.skipTest("no chromium")
    one, two, sweep = (self.path(n + ".html") for n in ["one", "two", "sweep"])
    self.passes("asyra-sim", "run", *TINY, "--tp", "2", "--html", one)
    self.passes("asyra-opt", *TINY, "--tp", "2", "--html", two)
    self.passes("asyra-sim", "sweep", *TINY, "--grid", "tp=1,2,16", "--nodes", "1",
                "--html", sweep)
    for page, shows in [(one, "Critical path"), (two, "Ops that changed"),
                        (two, "Communication that nothing hides"),
                        (sweep, "Pareto front")]:
      dump = subprocess.run(
          [browser, "--headless", "--no-sandbox", "--disable-gpu",
           "--user-data-dir=" + self.path("browser"), "--dump-dom",
           "file://" + page], capture_output=True, text=True, timeout=120)
      self.assertIn('data-ready="yes"', dump.stdout, dump.stderr)
      # The data itself does not count.
      shown = re.sub(r"<script.*?</script>", "", dump.stdout, flags=re.DOTALL)
      self.assertIn(shows, shown)


if __name__ == "__main__":
  unittest.main(argv=sys.argv[:1] + sys.argv[3:])
