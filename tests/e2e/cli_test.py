"""Runs the command line tools as users do: exit codes, output, errors. The
tests are in the files cli_*.py, by topic.

Usage: cli_test.py SOURCE_DIR TOOLS_DIR [TestClass.test ...]
"""

import sys
import unittest

from cli_check import Check
from cli_disk import Disk
from cli_files import Files
from cli_flags import Flags
from cli_input import Input
from cli_report import Report
from cli_run import Run
from cli_schedule import Schedule

if __name__ == "__main__":
  unittest.main(argv=sys.argv[:1] + sys.argv[3:])
