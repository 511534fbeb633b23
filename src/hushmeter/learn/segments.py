"""The paper's three data segments (Section V-A), cut from a local copy of each data set.

The paper prints its times in UTC+8. Its sampling "rates" of 6 and 3 Hz are periods of 6 and 3 s.
The period of REDD covers all data of building 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hushmeter.attack.hierarchical import split
from hushmeter.errors import DataError, UnknownNameError
from hushmeter.learn.homes import LearntHome, Rule, learn_home, select_period
from hushmeter.read import ReadOptions, Recording, read_home_recording
from hushmeter.trace import Trace

TABLE_ROUNDING = 5e-5
"""Half of the last digit of the paper's Table I."""

FLAT_WATTS = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0)


@dataclass(frozen=True)
class Segment:
    """One segment and what the paper states about it."""

    # Name of the segment and of its data set
    name: str
    dataset: str
    building: int  # Number of the building
    printed: tuple[str, str]  # First and last time as the paper prints them, in UTC+8
    # The same period in UTC, without its end
    start: str
    end: str
    interval_s: float  # Period of the readings [s]
    appliances: int | None  # Number of appliances in the paper
    hierarchies: int | None  # Number of hierarchies in the paper
    sparsity: float  # Sparsity in Table I
    folders: tuple[str, ...]  # Folders under the root in which the data usually are


SEGMENTS = {
    segment.name: segment
    for segment in (
        Segment(
            "ukdale4",
            "UK-DALE",
            4,
            ("2013/05/26 21:03:14", "2013/05/27 0:54:50"),
            "2013-05-26T13:03:14Z",
            "2013-05-26T16:54:51Z",
            6.0,
            8,
            None,
            0.9986,
            ("", "ukdale", "UK-DALE", "uk-dale"),
        ),
        Segment(
            "teald",
            "TEALD (RAE)",
            1,
            ("2016/02/09 16:00:00", "2016/02/10 15:59:59"),
            "2016-02-09T08:00:00Z",
            "2016-02-10T08:00:00Z",
            1.0,
            13,
            4,
            0.9929,
            ("", "rae", "RAE", "teald", "TEALD"),
        ),
        Segment(
            "redd1",
            "REDD",
            1,
            ("2011/04/18 21:22:13", "2011/05/25 03:56:34"),
            "2011-04-18T13:22:13Z",
            "2011-05-24T19:56:35Z",
            3.0,
            None,
            None,
            0.9897,
            ("", "low_freq", "redd", "redd/low_freq", "REDD"),
        ),
    )
}


@dataclass(frozen=True)
class SegmentResult:
    """A segment, its learnt home, and the comparison with the paper."""

    segment: Segment  # The segment
    recording: Recording  # All data of the building
    trace: Trace  # The readings of the segment
    learnt: LearntHome  # The home learnt from them
    findings: tuple[str, ...]  # Sentences about what agrees with the paper and what differs


def find_segment(name: str) -> Segment:
    """Return a segment by its name; an unknown name raises `UnknownNameError`."""
    if name not in SEGMENTS:
        raise UnknownNameError("segment", name, SEGMENTS)
    return SEGMENTS[name]


def cut_segment(
    name: str, root: str | Path, *, rule: Rule | None = None, denoised: bool = True
) -> SegmentResult:
    """Cut a segment out of a copy of its data set, learn its home and compare with the paper."""
    segment = find_segment(name)
    recording = read_home_recording(
        _locate(segment, Path(root)), ReadOptions(building=segment.building)
    )
    trace = select_period(recording.trace, segment.start, segment.end)
    learnt = learn_home(trace, denoised=denoised, rule=rule, name=segment.name)
    findings = (*_window(segment, trace), *_compare(segment, learnt), _flat_rules(segment, trace))
    return SegmentResult(segment, recording, trace, learnt, findings)


def _locate(segment: Segment, root: Path) -> Path:
    """The file or folder of the data set under the root."""
    if root.is_file():
        return root
    for folder in segment.folders:
        place = root / folder
        if (place / f"house_{segment.building}" / "labels.dat").is_file():
            return place
        if any(place.glob(f"house{segment.building}_power_blk*.csv*")):
            return place
        stem = segment.dataset.split(" ")[0].lower().replace("-", "")
        for pattern in (f"{stem}*house{segment.building}*.parquet", f"{stem}*.h5"):
            found = sorted(place.glob(pattern))
            if found:
                return found[0]
    raise DataError(
        f"{root} holds no {segment.dataset}: expected house_{segment.building}/labels.dat, "
        f"house{segment.building}_power_blk1.csv or a NILMTK .h5 there or in "
        f"{', '.join(f for f in segment.folders if f)}."
    )


def _window(segment: Segment, trace: Trace) -> list[str]:
    printed = " to ".join(segment.printed)
    lines = [
        f"The paper prints the period {printed} in UTC+8, which is {segment.start} to "
        f"{segment.end}; it has {len(trace)} readings of {trace.interval_s:g} s in "
        f"{len(trace.runs)} contiguous runs."
    ]
    if abs(trace.interval_s - segment.interval_s) > 0.5:
        lines.append(
            f"The paper's readings have a period of {segment.interval_s:g} s, so these data are "
            "another version."
        )
    return lines


def _compare(segment: Segment, learnt: LearntHome) -> list[str]:
    lines = []
    count = len(learnt.home)
    if segment.appliances is not None:
        verdict = "as" if count == segment.appliances else "but"
        lines.append(f"{count} appliances switch, {verdict} the paper counts {segment.appliances}.")
    else:
        lines.append(f"{count} appliances switch; the paper does not state a number.")
    if segment.hierarchies is not None:
        lines.append(_hierarchies(segment, learnt))
    verdict = "as" if abs(learnt.sparsity - segment.sparsity) < TABLE_ROUNDING else "but"
    lines.append(
        f"The sparsity is {learnt.sparsity:.2%} over all {len(learnt.circuits)} circuits "
        f"({learnt.rule}), {verdict} Table I prints {segment.sparsity:.2%} without its rule."
    )
    return lines


def _flat_rules(segment: Segment, trace: Trace) -> str:
    """A sentence about the sparsity under flat rules, one of which Table I may have used."""
    assert trace.power is not None
    assert trace.names is not None
    found = {watts: trace.derive(states=trace.power > watts).sparsity for watts in FLAT_WATTS}
    nearest = min(found, key=lambda watts: abs(found[watts] - segment.sparsity))
    listed = ", ".join(f"{value:.2%} above {watts:g} W" for watts, value in found.items())
    return f"With one flat rule for all circuits: {listed}; {nearest:g} W is nearest to Table I."


def _hierarchies(segment: Segment, learnt: LearntHome) -> str:
    groups = split(learnt.home.powers, learnt.home.tolerance)
    verdict = "as" if len(groups) == segment.hierarchies else "but"
    return (
        f"{len(groups)} hierarchies at a tolerance of {learnt.home.tolerance:g} W, {verdict} the "
        f"paper has {segment.hierarchies}."
    )
