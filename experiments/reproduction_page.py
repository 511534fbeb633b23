"""Make the page docs/reproduction.md from saved figures and tables.

    hushmeter reproduce all -o stand-ins
    hushmeter reproduce all --data DATA -o real
    python -m experiments reproduction stand-ins real docs

The first step (`collect`) copies what the page shows into docs/figures: captions, means and small
pictures. The second step (`render`) makes the page from docs/figures alone, so that anyone can make
it again from the repository.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hushmeter.errors import DataError
from hushmeter.files import atomic, frame_columns, write_table, write_text
from hushmeter.study.comparison import SLOPE
from hushmeter.study.figures import ITEMS, Caption, item_title, read_caption, sentence
from hushmeter.study.figures.attackers import ONE, RUN, SHOWN

if TYPE_CHECKING:
    import pandas as pd

KINDS = {"stand-in": "On the stand-in", "real": "On real data"}
SWEPT = {"fig3": "attacker", "fig4": "attacker", "fig5": "series", "fig6": "attacker"}
TABLES = (*SWEPT, "table1", "appliances")
ROBUST = "-robustness.csv"
PICTURE_WIDTH, PICTURE_COLOURS = 1000, 256
OPENING = """\
# The paper's figures, reproduced

This page compares the figures and tables of *Privacy Preserving in Non-Intrusive Load Monitoring:
A Differential Privacy Perspective* (arXiv 2011.06205, Section V and appendices) with what hushmeter
found on synthetic stand-ins and on real data. The page is generated from saved results and is not
written by hand:

<!-- skip: takes minutes, and the last two need the real data -->
```console
$ hushmeter reproduce all -j 2 -o stand-ins
$ hushmeter reproduce all --data DATA -j 2 -o real
$ python -m experiments reproduction stand-ins real docs
```

DATA is a folder with the data sets in folders named redd, ukdale, rae, refit, tracebase and homes.
A data set that is not there is replaced by its stand-in, and the caption says so. ε is the ε of one
reading; as in the paper, it protects fluctuations of half the tolerance, not switches. Also as in
the paper, the attackers know the true state at the first reading, and the seven attackers of Fig. 6
do not know the noise.

On one machine, a second run with the same seed and the same versions of the libraries writes
exactly the same data files, with any number of workers. Between machines this holds for noise and
for attackers that only count, sort and compare. It does not hold for the RNN: PyTorch chooses its
kernels by the processor, and sums of floats in another order differ in their last digit. Training
amplifies this difference: the same seed gave an α of 0.927 on one machine and of 0.930 on another.
For this reason the RNN is trained with five seeds, and its band is that of the training runs.

On two cores, the first command took 3 minutes and the second one 16 minutes. Two limits keep them
short: at 3 s the attacked part has 12 hours, and the RNN trains on about every fifth reading. At
60 s nothing is left out.
"""
ROBUSTNESS = """\
## Robustness of the algorithms

The paper leaves open what the break points and slopes of the algorithms mean. The table has them
for all figures, with 95 % intervals from resampling the seeds. The slope is the steepest one of
three straight pieces: the change of α or F1 when ε is divided by e ≈ 2.7. The two break points are
the values of ε at which the pieces meet. A curve marked “(sigmoid)” is fitted better by a sigmoid
than by straight pieces.

- To the left of the first break the noise is smaller than the differences of power that the
  algorithm uses, and costs it little. The break is an ε, but what matters is the scale of the
  noise in watts: the same algorithm breaks at another ε in a home with other powers.
- Between the breaks the slope measures how fast the algorithm loses the appliances one after
  another. An algorithm that selects the nearest sum of powers (CO, IP) loses its smallest appliance
  first; one that adds up jumps (multi-shot) keeps every wrong switch, and collapses.
- To the right of the second break the algorithm guesses. Its α there is a property of its guess and
  not of the noise: Sparse-HMM answers “everything off” and returns to the floor, others switch at
  random and fall below it.
- A flat curve is therefore not a sign of robustness by itself. α is also flat for an algorithm that
  has nothing left to lose. F1 separates the two cases, because “off” earns nothing there: an
  algorithm is robust if its slopes of both α and F1 are small and it was accurate before the first
  break.
- The rows of the limit are exact. From one reading no attacker can be above the first of them; an
  attacker that averages over a run can. An algorithm that breaks at a larger ε than the limit fails
  for a reason of its own, and not because the noise hides the appliances.

"""


def collect(folders: dict[str, Path], target: Path) -> None:
    """Copy what the page shows from folders of saved items: captions, means, small pictures.

    Items that a folder does not hold keep the copies of an earlier run.
    """
    for kind, folder in folders.items():
        for item in _saved(folder):
            caption = read_caption(folder / f"{item}.txt")
            write_text(target / f"{kind}-{item}.txt", str(caption), force=True, public=True)
            if item in TABLES:
                _keep_means(item, folder, target / f"{kind}-{item}.csv")
            fitted = folder / f"{item}{ROBUST}"
            if fitted.is_file():
                text = fitted.read_text(encoding="utf-8")
                write_text(target / f"{kind}-{fitted.name}", text, force=True, public=True)
    last = folders[list(folders)[-1]]
    for item in ITEMS:
        if (last / f"{item}.png").is_file():
            _shrink(last / f"{item}.png", target / f"{item}.png")


def _saved(folder: Path) -> list[str]:
    """The items of a folder of results; raise `DataError` if it has none."""
    found = [item for item in ITEMS if (folder / f"{item}.txt").is_file()]
    if not found:
        raise DataError(f"{folder} holds no caption of `hushmeter reproduce`.")
    return found


def render(figures: Path) -> str:
    """Return the text of the page, made from the files of `collect`."""
    captions = {
        item: {
            kind: read_caption(figures / f"{kind}-{item}.txt")
            for kind in KINDS
            if (figures / f"{kind}-{item}.txt").is_file()
        }
        for item in ITEMS
        if any((figures / f"{kind}-{item}.txt").is_file() for kind in KINDS)
    }
    parts = [OPENING, _overview(captions)]
    for item, found in captions.items():
        parts.append("\n".join(_section(item, found, figures)))
    return "\n".join([*parts, ROBUSTNESS + _robustness(figures)])


def _overview(captions: dict[str, dict[str, Caption]]) -> str:
    rows = []
    for item, found in captions.items():
        verdicts = [found[kind].verdict if kind in found else "" for kind in KINDS]
        claim = next(iter(found.values())).claim
        rows.append((f"[{item_title(item)}](#{_anchor(item)})", claim, *verdicts))
    return _table(("item", "the paper’s claim", "stand-in", "real data"), rows)


def _anchor(item: str) -> str:
    return item_title(item).lower().replace(". ", "-").replace(" ", "-")


def _section(item: str, found: dict[str, Caption], figures: Path) -> Iterator[str]:
    yield f"## {item_title(item)}\n"
    yield f"The paper: {next(iter(found.values())).claim}\n"
    for kind, caption in found.items():
        yield f"**{KINDS[kind]}** ({caption.source}): {caption.finding}\n"
        yield f"*Verdict: {caption.verdict}.* {sentence(caption.reason)}\n"
        data = figures / f"{kind}-{item}.csv"
        if data.is_file():
            yield from _data(item, data)
        rows = [
            (name, value.replace("|", "\\|"))
            for name, value in caption.details
            if SLOPE not in name
        ]
        if rows:
            yield _table(("detail", KINDS[kind].removeprefix("On ")), rows)
    if (figures / f"{item}.png").is_file():
        alt = f"{item_title(item)} on {list(found.values())[-1].source}."
        yield f"```{{image}} figures/{item}.png\n:alt: {alt}\n```\n"


def _data(item: str, file: Path) -> Iterator[str]:
    import pandas as pd

    table = pd.read_csv(file, keep_default_na=False)
    if item == "table1":
        yield _sparsities(table)
        return
    if item == "appliances":
        yield from _appliances(table)
        return
    keys = ["home", "interval_s"] if "interval_s" in table else ["home"]
    for key, part in table.groupby(keys, sort=False):
        home = key[0] if len(key) == 1 else f"{key[0]}, {key[1]:g} s"
        epsilons = sorted(part.epsilon.unique(), reverse=True)
        rows = []
        for name in part.name.unique():
            mine = part[part.name == name].set_index("epsilon")
            cells = (f"{mine.alpha[e]:.3f} / {mine.f1[e]:.2f}" for e in epsilons)
            rows.append((str(name), *cells))
        yield _table((f"α / F1, {home}", *(f"ε = {e:.2g}" for e in epsilons)), rows)


def _appliances(table: pd.DataFrame) -> Iterator[str]:
    """A table for each appliance: the exact odds of the best attacker, and what each reaches."""
    for appliance, part in table.groupby("appliance", sort=False):
        epsilons = sorted(part.epsilon.unique(), reverse=True)
        first = part[part.attacker == part.attacker.iloc[0]].set_index("epsilon")
        rows = [(label, *(f"{first[label][e]:.3f}" for e in epsilons)) for label in (ONE, RUN)]
        for name in part.attacker.unique():
            mine = part[part.attacker == name].set_index("epsilon").alpha
            rows.append((str(name), *(f"{mine[e]:.3f}" for e in epsilons)))
        yield _table((f"α, {appliance}", *(f"ε = {e:.2g}" for e in epsilons)), rows)


def _robustness(figures: Path) -> str:
    """One table with the slopes and break points of every saved item."""
    import pandas as pd

    rows = []
    for kind in KINDS:
        for item in ITEMS:
            file = figures / f"{kind}-{item}{ROBUST}"
            if not file.is_file():
                continue
            table = pd.read_csv(file)
            if "interval_s" not in table:
                table = table.assign(interval_s=0.0)
            for (every, name), part in table.groupby(["interval_s", "name"], sort=False):
                place = f"{item_title(item)}{f', {every:g} s' if every else ''}, {kind}"
                both = part.set_index("measure")
                cells = [c for m in ("alpha", "f1") for c in _slope_cells(both, m)]
                rows.append((place, str(name), *cells))
    heads = ("slope of α", "breaks of α at ε", "slope of F1", "breaks of F1 at ε")
    return _table(("figure", "algorithm", *heads), rows)


def _slope_cells(both: pd.DataFrame, measure: str) -> tuple[str, str]:
    """The slope and the break points of one measure; empty for a limit, which has no F1."""
    if measure not in both.index:
        return "", ""
    row = both.loc[measure]
    slope = f"{row.slope:+.3f} [{row.slope_low:+.3f}, {row.slope_high:+.3f}]"
    breaks = (
        f"{row[f'break_{i}']:.2g} [{row[f'break_{i}_low']:.2g}, {row[f'break_{i}_high']:.2g}]"
        for i in (1, 2)
    )
    return slope, ", ".join(breaks) + (" (sigmoid)" if row.better == "sigmoid" else "")


def _sparsities(table: pd.DataFrame) -> str:
    """A table with one row for each data set and one column for each rule."""
    flat = [rule for rule in table.rule.unique() if not rule.startswith("on above the")]
    own = next(rule for rule in table.rule.unique() if rule not in flat)
    rows = []
    for name, part in table.groupby("data", sort=False):
        value = part.set_index("rule").sparsity.astype(float)
        first = part.iloc[0]
        paper = "" if first.paper == "" else f"{float(first.paper):.2%}"
        found = (f"{value[rule]:.2%}" for rule in (own, *flat))
        rows.append((str(name), f"{float(first.interval_s):g} s", *found, paper))
    heads = ("own threshold", *(rule.removeprefix("on above ") for rule in flat))
    return _table(("set", "interval", *heads, "paper"), rows)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _keep_means(item: str, folder: Path, target: Path) -> None:
    """Write the means over the seeds at a few ε, or Table I unchanged."""
    import pandas as pd

    table = pd.read_csv(folder / f"{item}.csv")
    if item != "table1":
        shown = table[table.epsilon.isin(SHOWN)]
        if item == "appliances":
            keys, values = ["appliance", "attacker", "epsilon"], ["alpha", ONE, RUN]
        else:
            shown = shown.rename(columns={SWEPT[item]: "name"})
            keys = ["home", *(["interval_s"] if "interval_s" in shown else []), "name", "epsilon"]
            values = ["alpha", "f1"]
        table = shown.groupby(keys, sort=False)[values].mean().round(4).reset_index()
    write_table(target, frame_columns(table), force=True, public=True)


def _shrink(source: Path, target: Path) -> None:
    """Write a picture that is small enough for the repository."""
    from PIL import Image

    with Image.open(source) as image:
        height = round(image.height * PICTURE_WIDTH / image.width)
        small = image.convert("RGB").resize((PICTURE_WIDTH, height), Image.Resampling.LANCZOS)
        with atomic(target, force=True, public=True) as temporary:
            small.quantize(PICTURE_COLOURS, dither=Image.Dither.NONE).save(
                temporary, format="PNG", optimize=True
            )


def make_page(stand_ins: Path, real: Path, docs: Path) -> None:
    """Make docs/figures and docs/reproduction.md from two folders of results."""
    collect({"stand-in": stand_ins, "real": real}, docs / "figures")
    write_text(docs / "reproduction.md", render(docs / "figures"), force=True, public=True)
