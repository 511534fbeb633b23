"""What is granted, against a plain model: adding up by hand, row by row, window by window."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from hushmeter.apps.ledger import Cap, Charge, DayChange, Price, open_ledger
from hushmeter.apps.ledger.chain import period_at
from hushmeter.apps.ledger.spending import KnownSpends, decide, worst_window
from hushmeter.errors import BudgetError

METERS = ("a", "b", "c")
START = 738_946  # 2024-02-27: the days run over the end of a leap February
SPAN = 9
WIDTHS = st.integers(1, 5)
MICROS = st.sampled_from([1, 2, 3, 5])
FEMTO_OF = {1: 0, 2: 3, 3: 1, 5: 4}
"""δ of a charge, by its ε, so that both kinds of amounts are charged together."""


class Model:
    """A ledger as dictionaries."""

    def __init__(self):
        self.spends = {}
        self.total = {}
        self.window = {}
        self.delta = {}
        self.paid = {}

    def cap(self, kind, meter):
        return kind.get(meter, kind.get(None))

    def sums(self, meter):
        """micro-ε of a meter by day."""
        days = {}
        for (name, day, _), micro in self.spends.items():
            if name == meter:
                days[day] = days.get(day, 0) + micro
        return days

    def femto(self, meter):
        """femto-δ of a meter."""
        return sum(FEMTO_OF[micro] for (name, *_), micro in self.spends.items() if name == meter)

    def fits(self, meter, day, micro):
        days = self.sums(meter)
        delta, femto = self.cap(self.delta, meter), FEMTO_OF[micro]
        if delta is not None and femto and self.femto(meter) + femto > delta:
            return False
        total, window = self.cap(self.total, meter), self.cap(self.window, meter)
        if total is not None and sum(days.values()) + micro > total:
            return False
        if window is None:
            return True
        width, most = window
        days[day] = days.get(day, 0) + micro
        starts = range(day - width + 1, day + 1)
        return all(sum(days.get(s + i, 0) for i in range(width)) <= most for s in starts)

    def spend(self, rows, stream, micro):
        granted = []
        for row, (meter, day) in sorted(enumerate(rows), key=lambda pair: pair[1]):
            if (meter, day, stream) not in self.spends and self.fits(meter, day, micro):
                self.spends[meter, day, stream] = micro
                granted.append(row)
        return sorted(granted)


ROWS = st.lists(
    st.tuples(st.sampled_from(METERS), st.integers(START, START + SPAN)), unique=True, max_size=12
)


@given(
    before=st.dictionaries(
        st.tuples(st.sampled_from(METERS), st.integers(START, START + SPAN), st.just("x")), MICROS
    ),
    rows=ROWS,
    micro=MICROS,
    total=st.none() | st.integers(1, 20),
    window=st.none() | st.tuples(WIDTHS, st.integers(1, 12)),
    own=st.none() | st.integers(1, 20),
    delta=st.none() | st.integers(1, 20),
)
@settings(max_examples=300)
def test_decisions_equal_adding_up_by_hand(before, rows, micro, total, window, own, delta):
    model = Model()
    model.spends = dict(before)
    model.total = {None: total} | ({} if own is None else {"a": own})
    model.window = {None: window}
    model.delta = {None: delta}
    known = KnownSpends(
        spent={m: Price(sum(model.sums(m).values()), model.femto(m)) for m in METERS},
        caps={m: Cap(model.cap(model.total, m), window, delta) for m in METERS},
        nearby={meter: model.sums(meter) for meter in METERS},
    )
    names = [meter for meter, _ in rows]
    days = [period_at(day, "day") for _, day in rows]
    granted, refused = decide(names, days, Price(micro, FEMTO_OF[micro]), known)
    assert granted == model.spend(rows, "y", micro)
    assert sorted(granted + [refusal.row for refusal in refused]) == list(range(len(rows)))


@given(st.dictionaries(st.integers(0, 40), st.integers(1, 9)), st.integers(1, 12))
def test_the_worst_window_equals_trying_all(spends, width):
    sums = {s: sum(spends.get(s + i, 0) for i in range(width)) for s in range(-12, 41)}
    most, start = worst_window(spends, width)
    assert most == max(sums.values())
    assert not spends or sums[start] == most


class LedgerMachine(RuleBasedStateMachine):
    """Spends, resumes and caps in any order, on SQLite and on the model."""

    @initialize()
    def begin(self):
        self.folder = tempfile.TemporaryDirectory()
        self.url = f"sqlite:///{Path(self.folder.name) / 'ledger.db'}"
        self.ledger = open_ledger(self.url, create=DayChange.within(0, 15_000))
        self.model = Model()
        self.marks = []

    def ask(self, release, source, rows, stream, micro, digest):
        return self.ledger.spend(
            Charge(release, stream, {"n": release}),
            micro=micro,
            femto=FEMTO_OF[micro],
            meters=[meter for meter, _ in rows],
            periods=[period_at(day, "day") for _, day in rows],
            digest=digest,
            source=source,
        )

    @rule(
        release=st.sampled_from(["r", "s"]),
        source=st.sampled_from(["f", "g", "h"]),
        rows=ROWS,
        stream=st.sampled_from(["load", "pv"]),
        micro=MICROS,
    )
    def spend(self, release, source, rows, stream, micro):
        if not rows:
            return
        digest = repr(rows)
        before = self.model.paid.get((release, source))
        if before is not None and before[0] != (rows, stream, micro):
            head = self.ledger.head()
            try:
                self.ask(release, source, rows, stream, micro, digest)
            except BudgetError:
                assert self.ledger.head() == head
                return
            raise AssertionError("other content was paid for under the same name")
        done = self.ask(release, source, rows, stream, micro, digest)
        if before is None:
            granted = self.model.spend(rows, stream, micro)
            if granted:
                self.model.paid[release, source] = ((rows, stream, micro), granted)
        else:
            granted = before[1]
        assert done.resumed == (before is not None)
        assert done.granted.tolist() == granted
        assert [r.row for r in done.refused] == [
            row for row in range(len(rows)) if row not in granted
        ]

    @rule(meter=st.sampled_from([None, *METERS]), total=st.none() | st.integers(1, 30))
    def cap_total(self, meter, total):
        self.ledger.set_cap(total="none" if total is None else f"{total}e-6", meter=meter)
        self.change(self.model.total, meter, total)

    @rule(meter=st.sampled_from([None, *METERS]), width=WIDTHS, most=st.none() | st.integers(1, 12))
    def cap_window(self, meter, width, most):
        frame = None if most is None else (width, most)
        self.ledger.set_cap(window="none" if frame is None else (width, f"{most}e-6"), meter=meter)
        self.change(self.model.window, meter, frame)

    @rule(meter=st.sampled_from([None, *METERS]), delta=st.none() | st.integers(1, 30))
    def cap_delta(self, meter, delta):
        self.ledger.set_cap(delta="none" if delta is None else f"{delta}e-15", meter=meter)
        self.change(self.model.delta, meter, delta)

    def change(self, caps, meter, value):
        caps.pop(meter, None)
        if value is not None:
            caps[meter] = value

    @rule()
    def reopen(self):
        self.marks.append(self.ledger.head())
        self.ledger.close()
        self.ledger = open_ledger(self.url)

    @invariant()
    def sums_agree(self):
        if not hasattr(self, "ledger"):
            return
        for meter in METERS:
            days = self.model.sums(meter)
            assert self.ledger.balance(meter).spent == sum(days.values())
            assert self.ledger.balance(meter).delta_spent == self.model.femto(meter)
            assert self.ledger.window(meter, 3) == worst_window(days, 3)[0]

    def teardown(self):
        if hasattr(self, "ledger"):
            assert self.ledger.verify() == []
            for mark in self.marks:
                assert self.ledger.verify(mark) == []
            self.ledger.close()
            self.folder.cleanup()


TestLedgerMachine = LedgerMachine.TestCase
TestLedgerMachine.settings = settings(max_examples=30, stateful_step_count=15, deadline=None)
