"""A real release to take away: protected readings and their receipt, made in memory."""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING

from hushmeter.advice.sentences import explain
from hushmeter.privacy.units import calibrate
from hushmeter.releases.series import release
from hushmeter.trace import iso
from hushmeter.web import answers, requests
from hushmeter.web.homes import to_home
from hushmeter.web.views import find_unit

if TYPE_CHECKING:
    from hushmeter.trace import Trace
    from hushmeter.web.sessions import Session

MEDIA_TYPES = {"csv": "text/csv", "parquet": "application/vnd.apache.parquet"}


def make_download(request: requests.ReleaseRequest, session: Session) -> answers.Download:
    """Release the whole trace with noise from the operating system."""
    home = None if request.home is None else to_home(request.home)
    unit = find_unit(request, home, session.trace.interval_s)
    mechanism = calibrate(request.mechanism, request.epsilon, unit, clamp=request.clamp)
    released = release(session.trace, mechanism, unit, home=home)
    name = f"protected-{iso(released.trace.times[0])[:10]}.{request.format}"
    return answers.Download(
        file_name=name,
        media_type=MEDIA_TYPES[request.format],
        data=base64.b64encode(_write(released.trace, request.format)).decode("ascii"),
        receipt_name=f"{name}.receipt.json",
        receipt=released.receipt.to_dict(),
        sentences=list(explain(released)),
    )


def _write(trace: Trace, kind: str) -> bytes:
    """The columns timestamp (UTC) and watts, as `hushmeter release` writes them."""
    from pyarrow import csv, parquet

    from hushmeter.files import arrow_table

    table = arrow_table({"timestamp": trace.times, "watts": trace.readings})
    stream = io.BytesIO()
    if kind == "csv":
        csv.write_csv(table, stream)
    else:
        parquet.write_table(table, stream, compression="zstd")
    return stream.getvalue()
