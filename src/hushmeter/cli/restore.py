"""`hushmeter restore`: estimate the loads behind a release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hushmeter.cli.options import (
    FORCE,
    JSON,
    takes_home,
)
from hushmeter.cli.output import (
    print_files,
    print_json,
    print_sentences,
)

if TYPE_CHECKING:
    from hushmeter.home import Home


@takes_home(required=False)
def restore(
    *,
    released: Annotated[
        Path,
        typer.Argument(metavar="RELEASED", help="A released file, or a folder of --views."),
    ],
    home: Home | None,
    receipt: Annotated[
        Path | None, typer.Option(help="Its public receipt, if it is not beside the file.")
    ] = None,
    key: Annotated[
        Path | None, typer.Option(help="Public key (.pub) that must have signed the receipt.")
    ] = None,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Restored .csv or .parquet.")
    ] = Path("restored.csv"),
    force: Annotated[bool, FORCE] = False,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Estimate the loads behind a released file from the file and its public receipt alone.

    The distribution of the loads is estimated from all released values and the noise that the
    receipt states; each value becomes the mean of the load given what was released, with its
    standard deviation. This costs no privacy. The values are biased, so take sums and bills from
    the release; OUTPUT.restored.json marks the file. The receipt must verify. If you know the
    appliances (--home), they are used for values of up to one minute, which is more exact.

    Example: hushmeter restore out.csv -o restored.csv
    """
    from hushmeter.files import refuse_overwrite, table_format
    from hushmeter.releases.restore import NOTE, mark_path, restore_file

    table_format(output)
    for path in (output, mark_path(output)):
        refuse_overwrite(path, force)
    done = restore_file(released, home=home, receipt=receipt, key=key)
    files = done.save(output, force=force)
    mean = float(done.std.mean())
    if json:
        print_json(
            {
                "readings": len(done.trace),
                "mean_standard_deviation_w": mean,
                "source": done.source,
                "note": NOTE,
                "files": [str(file) for file in files],
            }
        )
        return
    print_sentences(
        f"{len(done.trace)} values were restored; their mean standard deviation is {mean:.3g} W.",
        NOTE,
    )
    print_files(files)
