"""ASYRA from a language without its headers: Python's ctypes on libasyra_c.so.
Compiles a model for two devices, simulates it, runs it on two ranks that are
threads, and trains a folder of asyra-opt --train.

Usage: main.py LIBASYRA_C MODEL.onnx TRAINING TEXT
"""

import ctypes
import sys
from ctypes import (POINTER, Structure, byref, c_char_p, c_double, c_int32,
                    c_int64, c_size_t, c_void_p, sizeof)

MAX_RANK = 8


class Sized(Structure):
  """A struct that says how many of its bytes the library may fill."""

  def __init__(self):
    super().__init__(size=sizeof(self))


class TensorInfo(Sized):
  _fields_ = [("size", c_size_t), ("name", c_char_p), ("dtype", c_int32), ("rank", c_int32),
              ("shape", c_int64 * MAX_RANK), ("bytes", c_int64)]


class Simulation(Sized):
  _fields_ = [("size", c_size_t), ("makespan_us", c_double), ("exposed_comm_us", c_double),
              ("lower_bound_us", c_double), ("peak_bytes", c_int64)]


class Metrics(Sized):
  _fields_ = [("size", c_size_t), ("step", c_int64), ("loss", c_double), ("norm", c_double),
              ("seconds", c_double), ("tokens_per_s", c_double),
              ("mfu", c_double), ("skipped", c_int32)]


BODY = ctypes.CFUNCTYPE(c_int32, c_void_p, c_void_p)


class Error(Exception):
  pass


class Asyra:
  """The functions of asyra.h without their prefix; a code is an exception."""

  def __init__(self, path):
    self.library = ctypes.CDLL(path)
    self.library.asyra_last_error.restype = c_char_p

  def __getattr__(self, name):
    function = getattr(self.library, "asyra_" + name)

    def call(*arguments):
      code = function(*arguments)
      if code != 0:
        raise Error(self.library.asyra_last_error().decode(), code)

    return call

  def on_ranks(self, count, body):
    """Calls body(rank handle, its number) on threads; the first error."""
    errors = []

    def run(rank, _):
      rank = c_void_p(rank)
      try:
        body(rank, self.library.asyra_rank_number(rank))
      except Error as error:
        return error.args[1]
      except Exception as error:  # not through C
        errors.append(error)
        return 13
      return 0

    self.run_ranks(b"cpu", c_int64(count), BODY(run), None)
    if errors:
      raise errors[0]


def run_model(asyra, program):
  def body(rank, number):
    executor, info = c_void_p(), TensorInfo()
    asyra.executor_create(rank, program, None, byref(executor))
    buffers = []
    while True:
      try:
        asyra.executor_input(executor, len(buffers), byref(info))
      except Error:
        break  # behind the last one
      buffers.append(ctypes.create_string_buffer(info.bytes))
    inputs = (c_void_p * len(buffers))(
        *[ctypes.addressof(buffer) for buffer in buffers])
    asyra.executor_step(executor, inputs)
    asyra.executor_output(executor, 0, byref(info))
    output = (ctypes.c_float * (info.bytes // 4))()
    asyra.executor_read_output(executor, 0, output, c_int64(info.bytes))
    if number == 0:
      print(f"{info.name.decode()} {output[0]:.6f}")
    asyra.library.asyra_executor_free(executor)

  asyra.on_ranks(2, body)


def train(asyra, folder, text, steps):
  def body(rank, number):
    trainer, first, last = c_void_p(), Metrics(), Metrics()
    asyra.trainer_create(rank, folder.encode(), None, byref(trainer))
    asyra.trainer_open_tokens(trainer, (c_char_p * 1)(text.encode()), 1)
    for step in range(steps):
      asyra.trainer_step_on_tokens(trainer, c_double(0.01))
      if step == 0:
        asyra.trainer_metrics(trainer, byref(first))
    asyra.trainer_metrics(trainer, byref(last))
    if number == 0:
      print(f"steps {first.step} to {last.step}: "
            f"loss {first.loss:.3f} to {last.loss:.3f}")
    asyra.library.asyra_trainer_free(trainer)

  asyra.on_ranks(2, body)


def main():
  library, model, folder, text = sys.argv[1:]
  asyra = Asyra(library)
  loaded, compiled, simulated = c_void_p(), c_void_p(), Simulation()
  asyra.program_load(model.encode(), None, byref(loaded))
  asyra.program_compile(loaded, b"tp=2", b"h100x8", 50, byref(compiled))
  asyra.program_simulate(compiled, b"h100x8", byref(simulated))
  print(f"{simulated.makespan_us:.0f} us simulated")
  run_model(asyra, compiled)
  try:
    asyra.program_load(b"nothing", None, byref(loaded))
  except Error as error:
    print(error.args[0])
  train(asyra, folder, text, 20)


if __name__ == "__main__":
  main()
