"""A Spark session that takes orders: one JSON object per line, the arguments of a release.

Answers with the manifest or the error, and with a sum that Spark computes afterwards, to show that
the session is still good. Argument: URL of the master.
"""

from __future__ import annotations

import json
import sys
from functools import partial

from hushmeter.apps.fleet import FleetTerms, JobOptions, SumTerms, release_fleet
from hushmeter.apps.fleet.sum_terms import TABLES
from hushmeter.apps.fleet.task import run_on_executors, spark_session
from hushmeter.errors import HushmeterError

SUMS = SumTerms("1", (0.0, 12_000.0), ("group",), tables=TABLES)


def obey(session, order) -> dict:
    series = FleetTerms(epsilon="0.5", clamp=(0.0, 12_000.0), interval_s=3600)
    terms = SUMS if order.pop("sums", None) else series
    source, output, key = order.pop("source"), order.pop("output"), order.pop("key", None)
    seen = []
    options = JobOptions(
        key=None if key is None else bytes.fromhex(key),
        accept_noise=True,
        schedule=partial(run_on_executors, session),
        report=lambda report, rows, total: seen.append((report.source, rows, total)),
        **order,
    )
    try:
        done = release_fleet(source, output, terms, options)
    except HushmeterError as error:
        return {"error": str(error)}
    return {"manifest": done.manifest, "seen": seen}


def main() -> None:
    with spark_session(sys.argv[1]) as session:
        for line in sys.stdin:
            told = obey(session, json.loads(line))
            told["sum"] = session.sparkContext.parallelize([1, 2, 3]).sum()
            sys.stdout.write(json.dumps(told) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
