"""A process that spends, for tests of several at once: waits for a line, then acts and tells.

Arguments: URL, name of the writer, kind of work, number of batches.
"""

from __future__ import annotations

import json
import sys

from hushmeter.apps.ledger import Charge, open_ledger
from hushmeter.errors import HushmeterError

METERS = [f"m{number}" for number in range(40)]


def spend(ledger, release, source, rows, **more):
    return ledger.spend(
        Charge(release, more.pop("stream", "load"), {"by": release}),
        micro=1000,
        meters=[meter for meter, _ in rows],
        periods=[period for _, period in rows],
        digest="d",
        source=source,
        **more,
    )


def shared_meters(ledger, name, number):
    """Every writer spends on the same meters, in an order of its own, in its own stream."""
    step = 1 + 2 * int(name)
    meters = METERS[::-step] if int(name) % 2 else METERS[::step]
    rows = [(meter, f"2024-03-{number + 1:02d}") for meter in meters]
    return spend(ledger, f"r{name}", f"f{number}", rows, stream=f"s{name}")


def same_period(ledger, name, number):
    """Every writer wants the same (meter, period, stream), or nothing."""
    rows = [(meter, f"2024-03-{number + 1:02d}") for meter in METERS]
    return spend(ledger, f"r{name}", f"f{number}", rows, all_or_nothing=True)


def same_task(ledger, name, number):
    """Every writer does the very same work, as a task that is run twice."""
    rows = [(meter, f"2024-03-{number + 1:02d}") for meter in METERS]
    return spend(ledger, "r", f"f{number}", rows)


def many_rows(ledger, name, number):
    """Large batches of meters of its own."""
    rows = [(f"{name}-{i}", f"2024-03-{number + 1:02d}") for i in range(3000)]
    return spend(ledger, f"r{name}", f"f{number}", rows)


def tell(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    url, name, kind, count = sys.argv[1:]
    with open_ledger(url) as ledger:
        tell("ready")
        sys.stdin.readline()
        for number in range(int(count)):
            try:
                done = globals()[kind](ledger, name, number)
                told = {"granted": done.granted.size, "resumed": done.resumed}
            except HushmeterError as error:
                told = {"error": str(error), "kind": type(error).__name__}
            tell(json.dumps({"batch": number, **told}))


if __name__ == "__main__":
    main()
