"""Outputs that cannot be written, paths that are no files, and runs that share
a directory.

Part of cli_test.py.
"""

import os
import resource
import stat
import subprocess

from tool_test import TOOLS_DIR, ToolTest, run

MODEL = ["gpt3-tiny", "--dim", "batch=2", "--dim", "seq=32", "--dim", "layers=1"]
FAST = [*MODEL, "--search-steps", "1"]


class Disk(ToolTest):

  def train(self, *args):
    text = self.path("text", "the quick brown fox jumps over it. " * 60)
    return ["asyra-train", *MODEL, "--data", text, "--rate", "1e-3", *args]

  def to(self, path, tool, *args):
    """What a tool says whose standard output is a file."""
    with open(path, "w") as file:
      result = subprocess.run([os.path.join(TOOLS_DIR, tool), *args],
                              stdout=file, stderr=subprocess.PIPE, text=True,
                              timeout=300)
    return result.returncode, result.stderr

  def test_standard_output_that_is_full_is_an_error(self):
    commands = [["asyra-opt", *FAST, "--report", "json"], ["asyra-opt", "--help"],
                ["asyra-opt", "--list-passes"], ["asyra-opt", "--version"],
                ["asyra-run", *FAST, "--json"],
                ["asyra-sim", "run", *FAST, "--json", "-"],
                ["asyra-bench", "--doctor"], self.train("--steps", "2")]
    for command in commands:
      code, said = self.to("/dev/full", *command)
      self.assertEqual(code, 1, command)
      self.assertEqual(said, f"{command[0]}: cannot write to standard output: "
                             "No space left on device\n")

  def test_standard_output_that_is_closed_is_an_error(self):
    # No file that is written takes its place.
    out, export = self.path("out.asyra"), self.path("weights.safetensors")
    for command in [["asyra-opt", *FAST, "-o", out],
                    self.train("--steps", "1", "--export", export)]:
      quoted = " ".join(f"'{word}'" for word in
                        [os.path.join(TOOLS_DIR, command[0]), *command[1:]])
      result = subprocess.run(["sh", "-c", quoted + " >&-"],
                              stderr=subprocess.PIPE, text=True)
      self.assertEqual(result.returncode, 1)
      self.assertIn("standard output: Bad file descriptor", result.stderr)
    self.passes("asyra-run", out, "--random-weights")
    with open(export, "rb") as file:
      self.assertNotIn(b"step", file.read()[-1000:])

  def test_a_reader_that_has_gone_ends_a_tool_quietly(self):
    tool = subprocess.Popen([os.path.join(TOOLS_DIR, "asyra-opt"), "--help"],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    tool.stdout.close()
    said = tool.stderr.read()
    tool.stderr.close()
    # SIGPIPE, or all was in the pipe before.
    self.assertIn(tool.wait(), [0, -13])
    self.assertEqual(said, b"")

  def test_a_log_that_is_full_is_an_error_at_the_end(self):
    export = self.path("weights.safetensors")
    command = self.train("--steps", "3", "--log", "/dev/full", "--export", export)
    result = run(*command)
    self.assertEqual(result.returncode, 1)
    self.assertIn("step     3", result.stdout)
    lines = result.stderr.splitlines()
    self.assertEqual(len(lines), 2, result.stderr)
    self.assertIn("warning: /dev/full: cannot write: No space left", lines[0])
    self.assertIn("--log: /dev/full: 3 of 3 lines could not be written", lines[1])
    self.assertTrue(os.path.exists(export))

  def test_only_files_are_replaced(self):
    fifo = self.path("fifo")
    os.mkfifo(fifo)
    for flag in ["--export", "--export-onnx"]:
      for path in [fifo, "/dev/null"]:
        self.fails(f"{path}: cannot write: it is a device or a pipe, no file",
                   *self.train("--steps", "1", flag, path))
    self.assertTrue(stat.S_ISCHR(os.stat("/dev/null").st_mode))
    self.assertTrue(stat.S_ISFIFO(os.stat(fifo).st_mode))
    # Text goes to streams, and waits for no reader.
    for flag in ["--log", "--csv", "--html", "--profile"]:
      self.passes(*self.train("--steps", "1", flag, "/dev/null"))
      result = run(*self.train("--steps", "1", flag, fifo))
      self.assertEqual(result.returncode, 1, flag)
      self.assertIn(fifo, result.stderr)
      self.assertIn("nobody reads it", result.stderr)
    for flag in ["--json", "--trace", "--html"]:
      self.passes("asyra-sim", "run", *FAST, flag, "/dev/null")

  def test_standard_output_by_its_path_is_not_overwritten(self):
    both = self.path("both")
    code, said = self.to(both, "asyra-sim", "run", *FAST, "--json", "/dev/stdout")
    self.assertEqual((code, said), (0, ""))
    with open(both) as file:
      text = file.read()
    self.assertTrue(text.startswith("{"), text[:100])
    self.assertIn("makespan", text.splitlines()[-1] + text)
    self.assertGreater(text.count("\n"), 3)

  def test_pipes_are_not_read(self):
    fifo = self.path("fifo.asyra")
    os.mkfifo(fifo)
    self.fails("not a regular file", "asyra-opt", fifo)
    self.fails("not a regular file", "asyra-train", *MODEL, "--rate", "1e-3",
               "--steps", "1", "--data", fifo)
    machine = self.path("fifo.machine")
    os.mkfifo(machine)
    self.fails("not a regular file", "asyra-sim", "run", *FAST, "--machine",
               machine)

  def test_a_directory_has_one_run(self):
    directory = self.path("ck")
    first = subprocess.Popen(
        [os.path.join(TOOLS_DIR, "asyra-train"),
         *self.train("--steps", "1000000", "--checkpoint", directory)[1:]],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
      while not first.stdout.readline().startswith("step "):
        pass
      command = self.train("--steps", "2", "--checkpoint", directory)
      self.fails(f"{directory}: another run writes there: process {first.pid} on",
                 *command)
    finally:
      first.kill()
      first.communicate()
    # What it has left is nobody's.
    self.passes(*command)
    self.assertEqual(os.listdir(directory), ["step-00000002"])

  def test_a_failed_export_leaves_nothing(self):
    folder = self.path("folder")
    os.mkdir(folder)
    export = os.path.join(folder, "weights.safetensors")
    command = self.train("--steps", "2", "--export", export)

    def limit_files():
      resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    # Python ignores the signal of that limit, so that it is an error.
    result = subprocess.run(
        [os.path.join(TOOLS_DIR, command[0]), *command[1:]],
        preexec_fn=limit_files, restore_signals=False, capture_output=True,
        text=True)
    self.assertEqual(result.returncode, 1, result.stdout)
    self.assertIn("export of step 2 could not be written", result.stderr)
    self.assertIn("File too large", result.stderr)
    self.assertEqual(os.listdir(folder), [])

  def test_limits_are_said(self):
    for gib in ["1e-300", "1e-10", "nan", "inf", "-1", "1e300"]:
      for tool in [["asyra-opt"], ["asyra-run"], ["asyra-sim", "run"]]:
        self.fails("--memory-gib: ", tool[0], *tool[1:], *FAST, "--memory-gib",
                   gib)
    self.fails("less than a byte", *self.train("--memory-gib", "1e-300"))
    self.fails("less than a byte", "asyra-opt", "gpt3-tiny", "--passes",
               "plan_sharding{memory_gib=1e-300}")
    self.fails("layers is 100000, it should be at most 4096", "asyra-opt",
               "gpt3-tiny", "--dim", "layers=100000")
