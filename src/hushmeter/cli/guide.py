"""What `hushmeter` says when it is called alone: the way, by who asks."""

from __future__ import annotations

import typer

GUIDE = """\
hushmeter releases smart-meter readings under differential privacy and shows
what is still seen in them.

  see it work       hushmeter demo -o demo-report
  in the browser    hushmeter serve --open

Your own meter
  what it tells     hushmeter inspect FILE
  what is in it     hushmeter learn FILE -o home.toml        (with sub-meters)
  what would help   hushmeter advise --home evening --hide kettle
  release it        hushmeter release FILE --home evening -e 1 -o OUT.csv
  with a battery    hushmeter battery --help

Many homes
  a fleet           hushmeter fleet --help
  its budget        hushmeter ledger --help
  daily profiles    hushmeter cluster DAYS.parquet -o clusters

Data for money
  what ε is worth   hushmeter price --home evening --trace FILE

Research
  attackers         hushmeter attackers
  one attack        hushmeter attack FILE --home evening -a one-shot -o OUT.csv
  a study           hushmeter sweep STUDY.toml -o results
  the paper         hushmeter reproduce fig2 -o figures
  all on a page     hushmeter report results figures -o report.html

“evening” is a made-up home to begin with; your own is a short file home.toml.
Every command: hushmeter --help. One, with an example: hushmeter COMMAND --help.
Nothing leaves this machine, and nothing is overwritten without --force."""


def show_guide(context: typer.Context) -> None:
    """Print the guide unless a command was given."""
    if context.invoked_subcommand is None:
        typer.echo(GUIDE)
