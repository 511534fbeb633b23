"""Run the command line: with `python -m hushmeter`, or as the script of spark-submit."""

import os
import sys

# Python puts the folder of a script first in the path, where our modules would hide others, and
# with `-m` the current folder, where a stranger's modules would.
_PACKAGE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
_UNWANTED = {_PACKAGE, os.getcwd()} - {os.path.dirname(_PACKAGE)}  # noqa: PTH109, PTH120
sys.path[:] = [entry for entry in sys.path if entry not in _UNWANTED]

from hushmeter.cli import main  # noqa: E402

main()
