"""`python -m hushmeter`."""

from hushmeter.cli import main

main()
