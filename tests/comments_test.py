"""Checks the first word of every comment outside tests: a verb on a function, a
noun on a value, and none of WORDS, whose subject is the next line of code.

Usage: comments_test.py SOURCE_DIR. Prints each offence as FILE:LINE.
"""

import pathlib
import re
import sys

WORDS = ("What", "Of", "Whether", "That", "Where", "Those", "Its", "As",
         "Which", "How")
FIRST = re.compile(r"//\s+(?:" + "|".join(WORDS) + r")\b")
COMMENT = re.compile(r"\s*//")
SUFFIXES = {".h", ".cc", ".cu", ".cuh"}
FOLDERS = ("c", "executor", "frontends", "ir", "models", "passes", "simulator",
           "tools")


def offences(lines):
  """Yields the lines, counted from 1, with a comment that begins so; further
  lines of a comment may."""
  inside = False
  for number, line in enumerate(lines, 1):
    is_comment = COMMENT.match(line) is not None
    code, slashes, rest = line.partition("//")
    begins = not (inside and is_comment) and '"' not in code
    if slashes and begins and FIRST.match(slashes + rest):
      yield number
    inside = is_comment


def main():
  planted = ["// Of a value.", "int a;  // What it is", "// The mesh.",
             "// As before.", 'f("// Of");', "int b;  // the rows"]
  if list(offences(planted)) != [1, 2]:
    sys.exit("the check itself is wrong")
  root, found = pathlib.Path(sys.argv[1]), 0
  for folder in FOLDERS:
    for path in sorted((root / folder).rglob("*")):
      if path.suffix not in SUFFIXES:
        continue
      lines = path.read_text().splitlines()
      for number in offences(lines):
        print(f"{path.relative_to(root)}:{number}: {lines[number - 1].strip()}")
        found += 1
  if found:
    sys.exit(f"{found} comments begin with {', '.join(WORDS)}")


if __name__ == "__main__":
  main()
