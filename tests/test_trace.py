from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushmeter.errors import DataError, InputError
from hushmeter.trace import Metering, Trace, jumps


def gapped() -> Trace:
    states = np.array([[0, 0], [1, 0], [1, 1], [0, 1], [0, 1]], bool)
    return Trace(
        [10.0, 110.0, 60.0, 40.0, 41.0],
        6.0,
        "2024-01-01T00:00Z",
        states,
        names=["a", "b"],
        steps=[0, 1, 2, 10, 11],
    )


def test_times_follow_the_steps():
    times = gapped().times
    assert times.dtype == np.dtype("datetime64[ns]")
    assert times[0] == np.datetime64("2024-01-01T00:00")
    assert times[3] == np.datetime64("2024-01-01T00:01")
    assert Trace([1.0, 2.0], 0.5).times[1] == np.datetime64("1970-01-01T00:00:00.500")


def test_runs_and_jumps_stop_at_a_gap():
    trace = gapped()
    assert trace.runs == [slice(0, 3), slice(3, 5)]
    assert trace.jumps().tolist() == [0.0, 100.0, 50.0, 0.0, 1.0]
    assert trace.jumps(signed=True).tolist() == [0.0, 100.0, -50.0, 0.0, 1.0]
    assert trace.switches.tolist() == [[0, 0], [1, 0], [0, 1], [0, 0], [0, 0]]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=30))
def test_runs_partition_the_readings(strides):
    steps = np.cumsum(strides)
    trace = Trace(np.zeros(steps.size), 6.0, steps=steps)
    covered = [i for run in trace.runs for i in range(run.start, run.stop)]
    assert covered == list(range(steps.size))
    for run in trace.runs:
        assert (np.diff(steps[run]) == 1).all()
    for before, after in zip(trace.runs, trace.runs[1:], strict=False):
        assert steps[after.start] - steps[before.stop - 1] > 1


def test_a_part_keeps_time_gaps_and_truth():
    part = gapped()[1:4]
    assert part.times.tolist() == gapped().times[1:4].tolist()
    assert part.runs == [slice(0, 2), slice(2, 3)]
    assert part.names == ("a", "b")
    assert part.truth().tolist() == gapped().truth()[1:4].tolist()
    with pytest.raises(DataError, match="has no reading"):
        _ = gapped()[3:3]
    with pytest.raises(InputError, match="trace\\[first:stop\\]"):
        _ = gapped()[::2]


def test_released_readings_keep_the_truth():
    other = gapped().replace_readings([1, 2, 3, 4, 5])
    assert other.readings.tolist() == [1, 2, 3, 4, 5]
    assert other.runs == gapped().runs
    with pytest.raises(InputError, match="must have 5 entries"):
        gapped().replace_readings([1.0])


@pytest.mark.parametrize(
    "start",
    [
        "2024-01-01T01:00+01:00",
        "2024-01-01T00:00:00Z",
        datetime(2024, 1, 1, tzinfo=UTC),
        datetime(2023, 12, 31, 19, tzinfo=timezone(timedelta(hours=-5))),
        np.datetime64("2024-01-01"),
    ],
)
def test_every_spelling_of_a_start_is_utc(start):
    assert Trace([1.0], 1.0, start).start == np.datetime64("2024-01-01", "ns")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Trace([], 1.0), "needs at least one reading"),
        (lambda: Trace([1.0, np.nan], 1.0), "readings must be finite, but row 1 is nan"),
        (lambda: Trace(["x"], 1.0), "readings must be numbers"),
        (lambda: Trace([[1.0]], 1.0), "one dimension"),
        (lambda: Trace([1.0], 0.0), "interval_s must be positive"),
        (lambda: Trace([1.0], 1.0, "2024-01-01"), "has no time zone"),
        (lambda: Trace([1.0], 1.0, datetime(2024, 1, 1)), "has no time zone"),
        (lambda: Trace([1.0], 1.0, "yesterday"), "must be an ISO 8601 time"),
        (lambda: Trace([1.0], 1.0, 5), "must be an ISO 8601 time"),
        (lambda: Trace([1.0], 1.0, np.datetime64("NaT")), "NaT"),
        (lambda: Trace([1.0], 1.0, states=[True]), "states must have shape \\(1, N\\)"),
        (lambda: Trace([1.0], 1.0, states=[[2]]), "states must be 0 or 1"),
        (lambda: Trace([1.0], 1.0, states=[[1]], names=["a", "b"]), "1 columns for 2 names"),
        (lambda: Trace([1.0], 1.0, power=[[np.inf]]), "power must be finite"),
        (lambda: Trace([1.0, 2.0], 1.0, steps=[0]), "steps must be 2 whole numbers"),
        (lambda: Trace([1.0, 2.0], 1.0, steps=[0.0, 1.0]), "steps must be 2 whole numbers"),
        (lambda: Trace([1.0, 2.0], 1.0, steps=[3, 3]), "row 1 repeats or reverses time"),
        (lambda: Trace([1.0], 1.0).truth(), "has no true states"),
    ],
)
def test_bad_traces_are_refused_in_one_sentence(build, message):
    with pytest.raises(ValueError, match=message) as caught:
        build()
    assert "\n" not in str(caught.value)


def test_jumps_of_a_bare_array():
    assert jumps(np.array([3.0, 1.0, 1.0])).tolist() == [0.0, 2.0, 0.0]


def test_coarse_means_start_at_whole_multiples():
    states = np.repeat([[1], [0]], 10, axis=0).astype(bool)
    trace = Trace(
        np.arange(20.0), 60.0, "2024-01-01T00:57Z", states, np.arange(20.0)[:, None], ["a"]
    )
    coarse = trace.coarsen("5min")
    assert coarse.interval_s == 300.0
    assert coarse.start == np.datetime64("2024-01-01T01:00")
    assert coarse.readings.tolist() == [5.0, 10.0, 15.0]
    assert coarse.truth()[:, 0].tolist() == [True, False, False]
    assert coarse.power[:, 0].tolist() == [5.0, 10.0, 15.0]


def test_incomplete_intervals_become_gaps():
    steps = np.delete(np.arange(20), 7)
    coarse = Trace(np.ones(19), 60.0, "2024-01-01T00:00Z", steps=steps).coarsen(300)
    assert coarse.steps.tolist() == [0, 2, 3]
    with pytest.raises(DataError, match="no interval of 3600 s is complete"):
        Trace(np.ones(19), 60.0, steps=steps).coarsen("1h")
    with pytest.raises(InputError, match="whole multiple"):
        Trace(np.ones(19), 60.0).coarsen(90)


def test_the_facts_about_the_meter_stay_with_the_trace():
    metering = Metering(resolution_w=10.0, register_step_w=4.0, copies=2)
    trace = Trace(np.ones(10), 60.0, states=np.ones((10, 1)), metering=metering)
    others = [trace[2:7], trace.coarsen("5min"), trace.replace_readings(np.zeros(10))]
    others.append(trace.derive(states=np.zeros((10, 1))))
    assert [other.metering for other in others] == [metering] * 4
    assert Trace([1.0], 1.0).metering == Metering()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"resolution_w": -1.0}, "resolution_w must be finite and not negative"),
        ({"register_step_w": np.nan}, "register_step_w must be finite and not negative"),
        ({"copies": 0}, "copies must be a whole number of at least 1"),
    ],
)
def test_impossible_facts_about_a_meter_are_refused(fields, message):
    with pytest.raises(InputError, match=message):
        Metering(**fields)


def test_a_coarse_state_is_on_from_exactly_half_of_the_interval():
    states = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 0], [0, 0, 1]], bool)
    coarse = Trace(np.ones(4), 60.0, "2024-01-01T00:00Z", states).coarsen("4min")
    assert coarse.truth().tolist() == [[True, False, False]]


def test_hourly_means_are_those_of_clock_hours():
    trace = Trace([1.0, 2.0, 6.0, 8.0], 1200.0, "2024-01-01T00:40Z", steps=[0, 1, 2, 7])
    hourly = trace.hourly()
    assert hourly.interval_s == 3600.0
    assert hourly.times.tolist() == [
        np.datetime64(f"2024-01-01T{hour:02d}:00", "ns").item() for hour in (0, 1, 3)
    ]
    assert hourly.readings.tolist() == [1.0, 4.0, 8.0]


def test_whole_hours_are_the_same_as_coarse_readings():
    trace = Trace(np.arange(600.0) ** 2, 60.0, "2024-01-01T00:00Z")
    np.testing.assert_allclose(trace.hourly().readings, trace.coarsen("1h").readings, rtol=1e-14)
    np.testing.assert_array_equal(trace.hourly().times, trace.coarsen("1h").times)


@pytest.mark.parametrize("interval_s", [3600.0, 7200.0])
def test_readings_of_an_hour_or_more_are_their_own_hourly_means(interval_s):
    trace = Trace([3.0, 5.0], interval_s, steps=[0, 2])
    assert trace.hourly().readings.tolist() == [3.0, 5.0]
    np.testing.assert_array_equal(trace.hourly().times, trace.times)


def test_energy_is_power_times_time():
    assert Trace([1000.0, 500.0], 1800.0).energy_kwh == pytest.approx(0.75)


def equal(one, other):
    assert one.interval_s == other.interval_s
    np.testing.assert_array_equal(one.times, other.times)
    np.testing.assert_array_equal(one.readings, other.readings)
    for a, b in ((one.power, other.power), (one.states, other.states)):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_array_equal(a, b)


@st.composite
def traces(draw):
    """Traces with gaps, some with power, states and names that are easily confused."""
    length = draw(st.integers(1, 12))
    watts = st.floats(-1e6, 1e6)
    names = draw(st.lists(st.text(min_size=1, max_size=6), max_size=3, unique=True))
    names = [name for name in names if name.strip() and name not in ("watts", "timestamp")]
    names = [name for name in names if not any(name == f"{other} on" for other in names)]
    shape = (length, len(names))
    power = states = None
    if names:
        kinds = draw(st.sampled_from(["power", "states", "both"]))
        if kinds != "states":
            cells = draw(
                st.lists(watts, min_size=length * len(names), max_size=length * len(names))
            )
            power = np.reshape(cells, shape)
        if kinds != "power":
            seed = draw(st.integers(0, 1000))
            states = np.random.default_rng(seed).random(shape) < 0.5
    apart = draw(st.lists(st.integers(1, 4), min_size=length - 1, max_size=length - 1))
    return Trace(
        draw(st.lists(watts, min_size=length, max_size=length)),
        draw(st.sampled_from([1.0, 6.0, 0.5, 1800.0, 7.3])),
        np.datetime64(draw(st.integers(0, 2_000_000_000)), "s"),
        states, power, names or None, np.cumsum([0, *apart]),
    )  # fmt: skip


@settings(max_examples=60, deadline=None, derandomize=True)
@given(traces())
def test_pandas_and_arrow_give_the_trace_back(trace):
    for back in (
        Trace.from_pandas(trace.to_pandas(), trace.interval_s),
        Trace.from_arrow(trace, trace.interval_s),
    ):
        equal(back, trace)
        assert back.names == trace.names


def test_a_table_of_pandas():
    trace = Trace(
        [5.0, 6.0, 7.0], 60.0, "2024-01-01T00:00Z", [[True], [False], [True]],
        [[1.0], [0.0], [2.0]], ["kettle"], [0, 1, 5],
    )  # fmt: skip
    frame = trace.to_pandas()
    assert list(frame.columns) == ["watts", "kettle", "kettle on"]
    assert str(frame.index.tz) == "UTC"
    assert frame.index.name == "timestamp"
    assert frame["kettle on"].tolist() == [True, False, True]
    local = frame.tz_convert("Europe/Dublin")
    equal(Trace.from_pandas(local), trace)


def test_series_missing_values_and_other_columns():
    pd = pytest.importorskip("pandas")
    index = pd.date_range("2024-01-01", periods=4, freq="15min", tz="UTC")
    trace = Trace.from_pandas(pd.Series([1.0, np.nan, 3.0, 4.0], index))
    assert trace.interval_s == 900
    assert trace.steps.tolist() == [0, 2, 3]
    np.testing.assert_array_equal(trace.times, index[[0, 2, 3]].tz_localize(None).to_numpy())
    nullable = pd.DataFrame({"mains": pd.array([1, None, 3, 4], "Int64")}, index)
    equal(Trace.from_pandas(nullable, watts="mains"), trace)
    metering = Metering(resolution_w=1.0)
    assert Trace.from_pandas(nullable, watts="mains", metering=metering).metering == metering


def test_what_pandas_cannot_give_is_refused():
    pd = pytest.importorskip("pandas")
    index = pd.date_range("2024-01-01", periods=3, freq="1min", tz="UTC")
    series = pd.Series([1.0, 2.0, 3.0], index)
    cases = [
        (series.tz_localize(None), InputError, "index of times with a time zone"),
        (series.to_frame("x"), InputError, "no column 'watts': x"),
        (series.iloc[::-1], DataError, "row 1 repeats or reverses"),
        (series.iloc[:1], InputError, "give interval_s"),
        (pd.Series([np.nan] * 3, index), DataError, "at least one reading"),
        (pd.DataFrame({"watts": series, "lamp": ["a", "b", "c"]}), InputError, "'lamp' must hold"),
        (pd.DataFrame({"watts": series, "lamp": [1.0, None, 2.0]}), DataError, "power must be"),
        ([1.0], InputError, "a Series or a DataFrame"),
    ]
    for data, error, sentence in cases:
        with pytest.raises(error, match=sentence):
            Trace.from_pandas(data)
    uneven = pd.Series([1.0, 2.0, 3.0], index + pd.to_timedelta([0, 0, 7], "s"))
    with pytest.raises(DataError, match="not regular"):
        Trace.from_pandas(uneven)
    with pytest.raises(InputError, match="two columns of the table would be named 'watts'"):
        Trace([1.0], 6.0, power=[[1.0]], names=["watts"]).to_pandas()


def test_arrow_streams():
    pa = pytest.importorskip("pyarrow")
    trace = Trace([5.0, 6.0], 6.0, "2024-01-01T00:00Z", power=[[1.0], [2.0]], names=["kettle"])
    table = pa.table(trace)
    assert table.column_names == ["timestamp", "watts", "kettle"]
    assert table.schema.field("timestamp").type.tz == "UTC"
    renamed = table.rename_columns(["when", "mains", "kettle"])
    equal(Trace.from_arrow(renamed, time="when", watts="mains"), trace)
    with pytest.raises(InputError, match="list has no Arrow stream"):
        Trace.from_arrow([1.0])
    with pytest.raises(InputError, match="no column 'timestamp': when, mains, kettle"):
        Trace.from_arrow(renamed)
    naive = pa.table({"timestamp": pa.array([0, 1], pa.timestamp("s")), "watts": [1.0, 2.0]})
    with pytest.raises(InputError, match="times with a time zone"):
        Trace.from_arrow(naive)


def test_polars_reads_and_gives_a_trace():
    polars = pytest.importorskip("polars", reason="pip install polars")
    trace = Trace([5.0, 6.0], 6.0, "2024-01-01T00:00Z")
    equal(Trace.from_arrow(polars.DataFrame(trace)), trace)


def test_notebooks_show_a_small_escaped_table():
    names = ["<script>alert(1)</script>", *(f"lamp {i}" for i in range(9))]
    rng = np.random.default_rng(1)
    steps = np.arange(5000) + 300 * (np.arange(5000) > 2000)
    trace = Trace(
        rng.uniform(0, 900, 5000),
        6.0,
        power=rng.uniform(0, 9, (5000, 10)),
        names=names,
        steps=steps,
    )
    text = trace._repr_html_()
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert "and 4 more" in text
    assert text.count("<polyline") == 2
    assert len(text) < 5000
    assert "http" not in text
    # It is well formed.
    ElementTree.fromstring(text)


def test_selected_readings_keep_their_times_and_leave_gaps():
    trace = Trace(np.arange(6.0), 60.0, "2024-01-01T00:00Z", states=np.eye(6, 2, dtype=bool))
    part = trace.select([1, 2, 5])
    assert part.readings.tolist() == [1.0, 2.0, 5.0]
    np.testing.assert_array_equal(part.times, trace.times[[1, 2, 5]])
    assert part.run_starts.tolist() == [True, False, True]
    np.testing.assert_array_equal(part.states, trace.states[[1, 2, 5]])
    with pytest.raises(DataError, match="at least one reading"):
        trace.select([])


def test_an_appliance_is_on_in_half_or_in_any_part_of_an_interval():
    states = np.array([[True], [False], [False], [False], [True], [True], [False], [False]])
    trace = Trace(np.ones(8), 60.0, "2024-01-01T00:00Z", states=states)
    assert trace.coarsen(240.0).truth()[:, 0].tolist() == [False, True]
    assert trace.coarsen(240.0, on="any").truth()[:, 0].tolist() == [True, True]
    with pytest.raises(InputError, match="on must be"):
        trace.coarsen(240.0, on="most")


def with_holes(lost, length=720, interval_s=10.0):
    """Readings 0, 1, 2 … without those that are lost."""
    steps = np.setdiff1d(np.arange(length), lost)
    return Trace(steps.astype(float), interval_s, "2024-01-01T00:00Z", steps=steps)


def test_a_lost_reading_does_not_cost_an_hour():
    trace = with_holes([5])
    hours = trace.coarsen("1h")
    assert len(hours) == 2
    assert hours.readings[0] == np.delete(np.arange(360.0), 5).mean()
    assert hours.readings[1] == np.arange(360.0, 720.0).mean()
    assert trace.shares_present("1h").tolist() == [359 / 360, 1.0]


@pytest.mark.parametrize(("lost", "kept"), [(36, 2), (37, 1), (200, 1)])
def test_an_hour_needs_nine_tenths_of_its_readings(lost, kept):
    trace = with_holes(np.arange(lost))
    assert len(trace.coarsen("1h")) == len(trace.shares_present("1h")) == kept


def test_differences_of_a_register_must_all_be_there():
    whole = with_holes([5])
    register = Trace(
        whole.readings,
        10.0,
        whole.start,
        steps=whole.steps,
        metering=Metering(register_step_w=6.0),
    )
    assert len(register.coarsen("1h")) == 1


def test_a_derived_trace_keeps_what_is_not_changed():
    trace = gapped().derive(metering=Metering(resolution_w=5.0), power=np.ones((5, 2)))
    other = trace.derive(start="2024-02-01T00:00Z")
    assert (other.times - trace.times == np.timedelta64(31, "D")).all()
    for name in ("readings", "states", "power", "names", "steps", "metering", "interval_s"):
        assert np.array_equal(getattr(other, name), getattr(trace, name)), name
    bare = trace.derive(states=None, power=None, names=None)
    assert (bare.states, bare.power, bare.names) == (None, None, None)
    with pytest.raises(InputError, match="2 columns for 1 names"):
        trace.derive(names=["a"])
    with pytest.raises(TypeError, match="watts"):
        trace.derive(watts=[1.0])


@pytest.mark.parametrize("wrap", [np.asarray, np.ndarray.view, lambda a: np.frombuffer(a.data)])
def test_a_trace_owns_its_arrays(wrap):
    """What the caller writes afterwards reaches neither the readings nor the truth."""
    watts, on, steps = np.full(4, 100.0), np.ones((4, 1), dtype=bool), np.arange(4)
    held = wrap(watts)
    held.flags.writeable = held is watts
    trace = Trace(held, 60.0, states=on, power=watts[:, None], names=["kettle"], steps=steps)
    watts[:], on[:], steps[:] = 7.0, False, 9
    assert trace.readings.tolist() == [100.0] * 4
    assert trace.states.all()
    assert trace.power.tolist() == [[100.0]] * 4
    assert trace.steps.tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="read-only"):
        trace.readings[0] = 1.0
    # Parts of a trace share its memory, which nobody can write to.
    assert np.shares_memory(trace[1:3].readings, trace.readings)
