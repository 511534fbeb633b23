"""What `hushmeter` says when it is called alone: the way, by who asks."""

from __future__ import annotations

import typer

GUIDE = """\
hushmeter releases smart-meter readings under differential privacy and shows what is still seen.

  see it work       hushmeter demo -o demo-report
  in the browser    hushmeter serve --open

Your own meter
  what it tells     hushmeter inspect FILE
  what would help   hushmeter advise --home evening --hide kettle --max-odds 0.6
  release it        hushmeter release FILE --home HOME.toml -e 1 --span run --every 30min -o OUT.csv
  with a battery    hushmeter battery FILE --home HOME.toml -e 1 --capacity 10 --power 5

Many homes
  a fleet           hushmeter fleet --help      the budget   hushmeter ledger --help
  daily profiles    hushmeter cluster DAYS.parquet -o clusters

Data for money
  what ε is worth   hushmeter price --home HOME.toml --trace FILE

Research
  attackers         hushmeter attackers         one attack   hushmeter attack --help
  a study           hushmeter sweep STUDY.toml -o results
  the paper         hushmeter reproduce fig2 -o figures

Every command: hushmeter --help. One command, with an example: hushmeter COMMAND --help.
Nothing leaves this machine, and nothing is overwritten without --force."""


def show_guide(context: typer.Context) -> None:
    """Print the guide unless a command was given."""
    if context.invoked_subcommand is None:
        typer.echo(GUIDE)
