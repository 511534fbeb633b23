"""Run the command line: with `python -m hushmeter`, or as the script of spark-submit."""

import os
import sys

# Python puts the folder of a script first in the path, where our modules would hide others.
sys.path[:] = [entry for entry in sys.path if entry != os.path.dirname(__file__)]  # noqa: PTH120

from hushmeter.cli import main  # noqa: E402

main()
