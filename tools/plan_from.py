#!/usr/bin/env python3
"""Writes a schedule of another system as the text of a chunk plan, which
`form_overlaps{plan=FILE}` takes (docs/chunk-plans.md).

Usage: plan_from.py msccl ALGO.xml [-o PLAN]
       plan_from.py autoverlap FILE.py --ranks N [-o PLAN]

With --program P.asyra the plan is for the body of an overlap in there, --site
names it; else for a matmul of two dimensions beside the collective. A plan fits
any size that divides.

What a plan cannot say is refused, by line.
"""

import argparse
import sys

from plan_import import autoverlap, body, msccl, pieces, writer
from plan_import.refusal import Refusal


def read(path):
  try:
    with open(path, encoding="utf-8") as file:
      return file.read()
  except (OSError, UnicodeDecodeError) as error:
    raise Refusal(f"{path}: {error}") from None


def schedule_of(args):
  text = read(args.file)
  try:
    if args.form == "msccl":
      return msccl.read(text)
    return autoverlap.read(text, args.ranks, args.function, args.pushes)
  except Refusal as refusal:
    raise Refusal(f"{args.file}: {refusal}") from None


def plan_text(args):
  schedule = schedule_of(args)
  mesh = {}
  if args.program is None:
    of = body.usual(schedule.kind)
  else:
    of, mesh = body.of_program(read(args.program), args.program,
                               schedule.kind, schedule.ranks, args.site)
  of.check_fits(schedule.kind, schedule.ranks, mesh)
  text = writer.write(of, schedule, pieces.with_pieces(of, schedule))
  return "".join(f"// {note}\n" for note in schedule.notes) + text


def parser():
  made = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
  forms = made.add_subparsers(dest="form", required=True)
  for form, what in (("msccl", "an algorithm of MSCCL, as XML"),
                     ("autoverlap", "a schedule of AutoOverlap, as Python")):
    of = forms.add_parser(form, help=what)
    of.add_argument("file")
    of.add_argument("--program", help="has the overlap that the plan is for")
    of.add_argument("--site", help="a result of that overlap")
    of.add_argument("-o", dest="output", help="a file instead of the screen")
    if form == "autoverlap":
      of.add_argument("--ranks", type=int, required=True)
      of.add_argument("--function", help="if the file has several")
      of.add_argument("--pushes", action="store_true", help="transfers that "
                      "pull become those of the rank that has the data, since "
                      "GPUs do not pull")
  return made


def main():
  args = parser().parse_args()
  try:
    if args.site is not None and args.program is None:
      raise Refusal("--site is one of a --program")
    text = plan_text(args)
    if args.output is None:
      sys.stdout.write(text)
      return
    with open(args.output, "w", encoding="utf-8") as file:
      file.write(text)
  except (Refusal, OSError) as error:
    sys.exit(f"plan_from.py: {error}")


if __name__ == "__main__":
  main()
