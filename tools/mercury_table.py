#!/usr/bin/env python3
"""Writes docs/results/mercury.md: attention and matmuls over many devices,
simulated on the machines of Mercury's evaluation, with what the paper reports.

Usage: tools/mercury_table.py [--build DIR] [--check] [--jobs N]

Runs asyra-opt on each form of each case and puts the tables between the markers
of that page. --check changes nothing and runs every 5th row of the tables and
the first one of layers. Both fail where a fixed form, one op after the other,
is faster than what is found, or scheduled is so by more than 5 %; --check does
where the page is stale.
"""

import os
import sys

from mercury_attention import SEARCH, Attention, Machine, Result
from mercury_gemm import Gemm
from table_page import ROOT, Row, Step, Table, cells, line, main, mean

PAGE = os.path.join(ROOT, "docs", "results", "mercury.md")

# GB/s of a host's NIC, of the paper's table 3: 97 % of 100 and 50 Gbps.
NETWORK_GBPS = {"h100x8": 12.1, "a100x8": 6.05}
FIXED = ["gathered keys", "Ulysses", "USP"]
# What is found may take so many times as long as the best fixed form when both
# are scheduled: forms are compared unscheduled, and must differ by 3 %.
LEAST_OVER_SCHEDULED = 0.95


def hosts_of(name, hosts, gpus):
  return Machine(name, hosts, gpus, NETWORK_GBPS.get(name, 0))


def digits(value):
  """Three digits, or all before the point; a dash if there is no value."""
  if value is None:
    return "-"
  return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def ratio(value):
  return "-" if value is None else f"{value:.2f}"


def least(values):
  return min((value for value in values if value is not None), default=None)


TIMES_HEAD = [*(f"{name}{what}" for name in FIXED
                for what in (": ms", " scheduled")),
              "found ms", "runs as", *(f"over {name}" for name in FIXED),
              "over the best scheduled"]


def times_row(case, *names):
  """All forms of an attention, and how many times as long the fixed ones take,
  one op after the other and, the best of them, scheduled."""

  def text(*said):
    result = Result(case, said)
    times = [digits(of[name]) for name in FIXED
             for of in (result.serial, result.ms)]
    overs = [ratio(result.over(name)) for name in FIXED]
    best = least(result.over(name, serial=False) for name in FIXED)
    return line(*names, *times, digits(result.ms["found"]), result.form, *overs,
                ratio(best))

  return Row(case.steps(), text)


def times_means(names, over, theirs):
  """Means of the ratios as they are printed, what found loses, and the mean
  over some of the forms, without a mask, beside the paper's."""
  first = len(names) + len(TIMES_HEAD) - 4

  def last(lines):
    rows = [cells(text) for text in lines]
    numbers = [[float(row[first + k]) for row in rows if row[first + k] != "-"]
               for k in range(4)]
    blank = [""] * (first - 1)
    joint = mean(float(row[first + FIXED.index(name)])
                 for row in rows if "causal" not in row for name in over
                 if row[first + FIXED.index(name)] != "-")
    slower = [sum(value < 1 for value in of) for of in numbers]
    return [line("mean", *blank, *(f"{mean(of):.2f}" for of in numbers)),
            line("least", *blank, *(f"{min(of):.2f}" for of in numbers)),
            line("cells below 1", *blank, *(
                f"{count} of {len(of)}" for count, of in zip(slower, numbers))),
            line(f"mean over {', '.join(over)}, no mask", *blank, "", "",
                 f"{joint:.2f}", ""),
            line("the paper's", *blank, "", "", theirs, "")]

  return last


def times_faults(names):
  """Cells in which a fixed form is faster."""
  first = len(names) + len(TIMES_HEAD) - 4
  limits = [1, 1, 1, LEAST_OVER_SCHEDULED]

  def faults(lines):
    rows = [cells(text) for text in lines]
    return [f"{' '.join(row[:len(names)])}: {TIMES_HEAD[k - 4]} is "
            f"{row[first + k]}, should be at least {limits[k]}"
            for row in rows for k in range(4)
            if row[first + k] != "-" and float(row[first + k]) < limits[k]]

  return faults


def times_table(name, names, rows, over, theirs):
  return Table(name, names + TIMES_HEAD, rows, times_means(names, over, theirs),
               times_faults(names), check_every=5)


def figure9_attention():
  names = ["machine", "heads", "mask", "batch"]
  rows = [times_row(Attention(hosts_of(machine, 1, 8), heads, batch, 32768,
                              causal),
                    machine, heads, "causal" if causal else "none", batch)
          for machine in ["h100x8", "a100x8", "l4x8"]
          for heads in ["MHA", "GQA"] for causal in [False, True]
          for batch in [1, 4, 16]]
  return times_table("attention", names, rows, FIXED[1:], 1.56)


# Hosts and GPUs of a host that the paper's text names.
TOPOLOGIES = [(1, 4), (4, 1), (1, 8), (2, 4), (4, 2), (4, 4)]


def figure10():
  names = ["machine", "tokens", "hosts x GPUs"]
  rows = []
  for machine in ["h100x8", "a100x8"]:
    for of_gpu in [True, False]:
      for hosts, gpus in TOPOLOGIES:
        tokens = 4096 * hosts * gpus if of_gpu else 32768
        case = Attention(hosts_of(machine, hosts, gpus), "MHA", 1, tokens)
        said = "4k a GPU" if of_gpu else "32k"
        rows.append(times_row(case, machine, said, f"{hosts} x {gpus}"))
  return times_table("topologies", names, rows, FIXED, 2.91)


def gemm_row(gemm, *names):

  def text(said, fixed):
    serial, found = (said[key]["makespan_us"] / 1e3
                     for key in ("baseline", "optimized"))
    async_tp = fixed["optimized"]["makespan_us"] / 1e3
    name = said["schedule"]
    form = ("overlap" if "overlaps" in name else
            "serial" if name.startswith(("1 tile", "baseline")) else
            name.split(" along")[0])
    return line(*names, digits(serial), digits(async_tp), digits(found), form,
                ratio(serial / found), ratio(async_tp / found))

  return Row(gemm.steps(), text)


def gemm_means(lines):
  rows = [cells(text) for text in lines]
  blank = [""] * 6
  of = lambda k: [float(row[k]) for row in rows]
  return [line("mean", *blank, f"{mean(of(7)):.2f}", f"{mean(of(8)):.2f}"),
          line("least", *blank, f"{min(of(7)):.2f}", f"{min(of(8)):.2f}"),
          line("most", *blank, f"{max(of(7)):.2f}", f"{max(of(8)):.2f}"),
          line("the paper's most", *blank, "1.9", "")]


def gemm_faults(lines):
  rows = [cells(text) for text in lines]
  return [f"{' '.join(row[:3])}: found is slower" for row in rows
          if min(float(row[7]), float(row[8])) < 1]


def figure9_gemm():
  head = ["machine", "op", "batch", "serial ms", "AsyncTP", "found", "runs as",
          "over serial", "over AsyncTP"]
  rows = [gemm_row(Gemm(hosts_of(machine, 1, 8), part, 4096 * batch, 4096,
                        2 * 14336, 14336), machine, part, batch)
          for machine in ["h100x8", "a100x8", "l4x8"]
          for part in ["AG", "RS"] for batch in [1, 4, 16]]
  return Table("matmuls", head, rows, gemm_means, gemm_faults, check_every=5)


def length_row(tokens):
  case = Attention(hosts_of("h100x8", 2, 4), "MHA", 1, tokens)

  def text(*said):
    result = Result(case, said)
    forms = [cell for name in [*FIXED, "found"]
             for cell in (digits(result.ms[name]), digits(result.gib[name]))]
    best = least(result.over(name, serial=False) for name in FIXED)
    return line(f"{tokens // 1024}k", *forms, result.form, ratio(best))

  return Row(case.steps(), text)


def figure11():
  head = ["tokens", *(f"{name}{what}" for name in [*FIXED, "found"]
                      for what in (": ms", " GiB")),
          "runs as", "over the best fixed"]
  return Table("lengths", head,
               [length_row(32768 << k) for k in range(7)], check_every=5)


def layer_step(model, machine, layers, mesh, *flags):
  dims = {"layers": layers, "batch": 1, "seq": 4096, "logits": 1}
  return Step(model, (*machine.flags(), *mesh, *(
      flag for name, size in dims.items()
      for flag in ("--dim", f"{name}={size}")), *SEARCH, *flags))


def layer_steps(model, machine, tp, fixed):
  """A layer is what three of them take longer than one, halved."""
  sp = machine.devices // tp
  axes = [f"sp={sp}"] * (sp > 1) + [f"tp={tp}"] * (tp > 1)
  flags = [flag for axis in axes for flag in ("--" + axis.split("=")[0],
                                              axis.split("=")[1])]
  pins = []
  if fixed:
    flags = ["--mesh", ",".join(axes)]
    rows, heads = ["1@sp"] * (sp > 1), ["2@tp"] * (tp > 1)
    q, kv = ",".join(rows + heads), ",".join(heads) or "whole"
    pins = ["--shard", rf"layer.*\.(q_rotary|attention)={q};"
            rf"layer.*\.(k_rotary|v_proj\.heads)={kv}"]
  return [layer_step(model, machine, layers, flags, *pins)
          for layers in (1, 3)]


def layer_us(one, three, key):
  return (three[key]["makespan_us"] - one[key]["makespan_us"]) / 2


def layer_row(model, hosts, gpus):
  machine = hosts_of("h100x8", hosts, gpus)
  degrees = [1, 2, 4, 8]
  steps = [step for fixed in (True, False) for tp in degrees
           for step in layer_steps(model, machine, tp, fixed)]

  def text(*said):
    pairs = list(zip(said[::2], said[1::2]))
    fixed, found = pairs[:len(degrees)], pairs[len(degrees):]

    def best(of, key):
      us, tp = min((layer_us(*pair, key), tp)
                   for pair, tp in zip(of, degrees) if None not in pair)
      return us, f"{tp} x {machine.devices // tp}"

    serial_us, mesh = best(fixed, "baseline")
    scheduled_us, _ = best(fixed, "optimized")
    us, own_mesh = best(found, "optimized")
    return line(model, f"{hosts} x {gpus}", f"{serial_us:.0f}", mesh,
                f"{scheduled_us:.0f}", f"{us:.0f}", own_mesh,
                ratio(serial_us / us), ratio(scheduled_us / us))

  return Row(steps, text)


def figure12():
  head = ["model", "hosts x GPUs", "fixed us", "tp x cp", "scheduled us",
          "found us", "tp x sp", "over fixed", "over scheduled"]
  rows = [layer_row(model, *topology) for model in ["llama3-8b", "llama3-70b"]
          for topology in [(2, 4), (4, 2)]]
  most = lambda lines: max(float(cells(text)[7]) for text in lines)
  last = lambda lines: [
      line("most", *[""] * 6, ratio(most(lines)), ""),
      line("the paper's most", *[""] * 6, 1.62, "")]
  return Table("layers", head, rows, last, check_every=4)


PARETO = Attention(hosts_of("h100x8", 2, 4), "MHA", 4, 32768)
LIMITS_GIB = [3.5, 3.3, 3]


def pareto_rows():
  """Forms, into how many tiles their batch is cut, or what is found within a
  limit of memory."""
  forms = {"8 rows": PARETO.rows(), "8 heads": PARETO.ulysses()}
  for u, step in zip(PARETO.factors(), PARETO.usp()):
    forms[f"{PARETO.machine.devices // u} rows x {u} heads"] = [step]
  for form, steps in forms.items():
    for tiles in [1, 2, 4]:
      yield pareto_row(form, "1 tile" if tiles == 1 else f"{tiles} tiles",
                       with_flags(steps, "--tiles", str(tiles)))
  yield pareto_row("found", "", PARETO.found())
  for gib in LIMITS_GIB:
    yield pareto_row("found", f"within {gib} GiB", with_flags(
        PARETO.found(), "--memory-gib", str(gib)))


def with_flags(steps, *flags):
  return [Step(step.program, (*step.flags, *flags)) for step in steps]


def pareto_row(form, how, steps):

  def text(*said):
    fits = [one["optimized"] for one in said if one]
    best = min(fits, key=lambda one: one["makespan_us"], default=None)
    numbers = [digits(best and best[key] / unit) for key, unit in (
        ("makespan_us", 1e3), ("device_bytes", 2**30), ("peak_bytes", 2**30))]
    return line(form, how, *numbers)

  return Row(steps, text)


def pareto_points(lines):
  """Points that no other beats in both, by the cells as they are printed."""
  rows = [cells(text) for text in lines]
  points = [(float(row[2]), float(row[3])) for row in rows if row[2] != "-"]
  beaten = lambda point: any(
      a <= point[0] and b <= point[1] and (a, b) != point for a, b in points)
  front = sorted({point for point in points if not beaten(point)})
  return [line("Pareto front", "", *(
      ", ".join(digits(point[k]) for point in front) for k in range(2)), "")]


def figure13():
  head = ["form", "how", "ms", "GiB", "values GiB"]
  return Table("pareto", head, list(pareto_rows()), pareto_points,
               check_every=5)


if __name__ == "__main__":
  sys.exit(main(PAGE, [figure9_attention(), figure9_gemm(), figure10(),
                       figure11(), figure12(), figure13()], __doc__))
