"""Options that several commands take: one name and one help text for one thing."""

from __future__ import annotations

import typer

FILE = typer.Argument(metavar="FILE", help="Any file of readings.")
HOME = typer.Option(
    "--home", help="A home as TOML, or a ready one: evening, redd-like, rae13, similar8."
)
EPSILON = typer.Option("-e", "--epsilon", help="ε of the unit of protection.")
EPSILONS = typer.Option("-e", "--epsilon", help="ε as LO:HI, or values with commas.")
MECHANISM = typer.Option("--mechanism", help="laplace, staircase or gaussian.")
APPLIANCE = typer.Option("--appliance", help="Protect this appliance only.")
SPAN = typer.Option("--span", help="What ε protects: one reading, run or day.")
EVERY = typer.Option("--every", help="Means over 1min, 30min, 1h, not the readings as metered.")
CLAMP = typer.Option("--clamp", help="Bounds of a reading, LO,HI in watts.")
GRID = typer.Option("--grid", help="Step of the released readings in watts.")
DELTA = typer.Option("--delta", help="δ of Gaussian noise.")
SUM_DELTA = typer.Option("--delta", help="δ of Gaussian noise and of losses that add up.")
MAX_EPSILON = typer.Option("--max-epsilon", help="Refuse a larger ε.")
ATTACKER = typer.Option("-a", "--attacker", help="Who looks: see `hushmeter attackers`.")
ENERGY_PRICE = typer.Option("--energy-price", help="Money per kWh.")
JOBS = typer.Option("-j", "--jobs", help="Worker processes.")
OPEN = typer.Option("--open", help="Open the page in a browser.")
FIGURE = typer.Option("-o", "--output", help="Folder, or .png, for the figure.")
FORCE = typer.Option("--force", help="Overwrite what is there.")
JSON = typer.Option("--json", help="Print JSON.")
