"""Run the command line with `python -m hushmeter`."""

from hushmeter.cli import main

main()
