"""Make the page docs/reproduction.md from saved figures and tables.

    hushmeter reproduce all -o stand-ins
    hushmeter reproduce all --data DATA -o real
    python -m experiments reproduction stand-ins real docs

The first step (`collect`) copies what the page shows into docs/figures: captions with all details,
means at every ε, and pictures. The second step (`render`) makes the page from docs/figures alone,
so that anyone can make it again from the repository.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from hushmeter.apps.study.figures import ITEMS, Caption, item_title, read_caption, sentence
from hushmeter.errors import DataError
from hushmeter.files import atomic, frame_columns, write_table, write_text

KINDS = {"stand-in": "On the stand-in", "real": "On real data"}
SWEPT = {"fig3": "attacker", "fig4": "attacker", "fig5": "series", "fig6": "attacker"}
MEANS = ("alpha", "f1", "expected", "alpha_floor", "hold_floor")
ROBUST = "-robustness.csv"
COLOURS = 256
MOST_WORDS_OF_THE_PAGE = 5000
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
A data set that is not there is replaced by its stand-in, and the caption says so.

- **ε** is the ε of one reading; as in the paper, it protects fluctuations of half the tolerance,
  not switches. The noise has the paper's scale λ = Δf/ε with Δf = δ/2.
- **Known to the attackers** is the true state at the first reading, as in the paper; this reading
  is not scored. The seven attackers of Fig. 6 do not know the noise.
- **Intervals** are 95 % intervals over days, or over parts of a recording that is shorter than five
  days, and over releases. Differences are paired. A statement is undecided if the interval of its
  difference contains zero.
- **Details** of each item, with its settings, are in the linked text file, and the means at every
  ε in the linked table.

A second run with the same seed on the same machine writes the same data files. Between machines
this does not hold for the RNN, because PyTorch chooses its kernels by the processor.
"""


def collect(folders: dict[str, Path], target: Path) -> None:
    """Copy what the page shows from folders of saved items: captions, means, pictures.

    Items that a folder does not hold keep the copies of an earlier run.
    """
    for kind, folder in folders.items():
        for item in _saved(folder):
            caption = read_caption(folder / f"{item}.txt")
            write_text(target / f"{kind}-{item}.txt", str(caption), force=True, public=True)
            _keep_means(item, folder, target / f"{kind}-{item}.csv")
            fitted = folder / f"{item}{ROBUST}"
            if fitted.is_file():
                text = fitted.read_text(encoding="utf-8")
                write_text(target / f"{kind}-{fitted.name}", text, force=True, public=True)
            if (folder / f"{item}.png").is_file():
                _reduce(folder / f"{item}.png", target / f"{kind}-{item}.png")
                vector = (folder / f"{item}.svg").read_text(encoding="utf-8")
                write_text(target / f"{kind}-{item}.svg", vector, force=True, public=True)


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
    parts = [OPENING, "## Claims and verdicts\n", _claims(captions)]
    for item, found in captions.items():
        parts.append("\n".join(_section(item, found, figures)))
    return "\n".join(parts)


def _claims(captions: dict[str, dict[str, Caption]]) -> str:
    """One table of all claims: of each item, and its statements one by one."""
    rows = []
    for item, found in captions.items():
        caption = found.get("real") or next(iter(found.values()))
        place = f"[{item_title(item)}](#{_anchor(item)})"
        verdicts = [found[kind].verdict if kind in found else "not run" for kind in KINDS]
        rows.append((place, caption.claim, *verdicts, sentence(caption.reason)))
        stand_in = dict(found["stand-in"].details) if "stand-in" in found else {}
        for name, value in caption.details:
            about, _, claim = name.partition("“")
            if claim.endswith("”") and (not about or about.endswith(", ")):
                verdict, _, because = value.partition(": ")
                where = f" ({about.removesuffix(', ')})" if about else ""
                words = f"{claim.removesuffix('”')}{where}"
                other = stand_in.get(name, "").partition(": ")[0]
                rows.append((place, words, other, verdict, because))
    heads = ("item", "the paper’s claim", "stand-in", "real data", "why, with intervals")
    return _table(heads, rows)


def _anchor(item: str) -> str:
    return item_title(item).lower().replace(". ", "-").replace(" ", "-")


def _section(item: str, found: dict[str, Caption], figures: Path) -> Iterator[str]:
    yield f"## {item_title(item)}\n"
    for kind, caption in found.items():
        left_out = [
            f"{name.removesuffix(', not run')}: {value}"
            for name, value in caption.details
            if name.endswith(", not run")
        ]
        more = f" Not run at {', '.join(left_out)}." if left_out else ""
        yield f"**{KINDS[kind]}** ({caption.source}): {caption.finding}{more}\n"
    shown = "real" if "real" in found else next(iter(found))
    if (figures / f"{shown}-{item}.png").is_file():
        alt = f"{item_title(item)} on {found[shown].source}."
        yield f"```{{figure}} figures/{shown}-{item}.png\n:alt: {alt}\n\n{alt}\n```\n"
    links = []
    for kind in found:
        endings = [".txt", ".csv", ROBUST, ".png", ".svg"]
        words = ("details", "data", "slopes and break points", "picture", "drawing")
        files = [(w, f"{kind}-{item}{e}") for w, e in zip(words, endings, strict=True)]
        listed = [f"[{w}](figures/{f})" for w, f in files if (figures / f).is_file()]
        links.append(f"{KINDS[kind].removeprefix('On ')}: {', '.join(listed)}")
    yield f"{sentence('; '.join(links))}.\n"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    cells = ([cell.replace("|", "∣") for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in cells) + "\n"


def _keep_means(item: str, folder: Path, target: Path) -> None:
    """Write the means over the seeds at every ε; the data of other items unchanged."""
    import pandas as pd

    table = pd.read_csv(folder / f"{item}.csv")
    if item in SWEPT:
        keys = ["home", "interval_s", SWEPT[item], "epsilon"]
        values = [c for c in table if c in MEANS or str(c).startswith("limit of")]
        kept = [key for key in keys if key in table]
        table = table.groupby(kept, sort=False)[values].mean().reset_index()
    elif item == "appliances":
        values = ["alpha", *(c for c in table if str(c).startswith("best possible"))]
        keys = ["appliance", "attacker", "epsilon"]
        table = table.groupby(keys, sort=False)[values].mean().reset_index()
    measured = {name: 5 for name in table if name != "epsilon"}
    write_table(target, frame_columns(table.round(measured)), force=True, public=True)


def _reduce(source: Path, target: Path) -> None:
    """Write a picture with few colours, so that it is small enough for the repository."""
    from PIL import Image

    with Image.open(source) as image, atomic(target, force=True, public=True) as temporary:
        # The default method, the median cut, shifts the colours of thin lines.
        few = image.convert("RGB").quantize(
            COLOURS, Image.Quantize.MAXCOVERAGE, kmeans=5, dither=Image.Dither.NONE
        )
        few.save(temporary, format="PNG", optimize=True)


def make_page(stand_ins: Path, real: Path, docs: Path) -> None:
    """Make docs/figures and docs/reproduction.md from two folders of results."""
    collect({"stand-in": stand_ins, "real": real}, docs / "figures")
    write_text(docs / "reproduction.md", render(docs / "figures"), force=True, public=True)
