"""A Spark session that takes orders: one JSON object per line, the arguments of a release.

Answers with the manifest or the error, and with a sum that Spark computes afterwards, to show that
the session is still good. Argument: URL of the master.
"""

from __future__ import annotations

import json
import sys
from functools import partial

from hushmeter.errors import HushmeterError
from hushmeter.fleet.job import FleetTerms
from hushmeter.fleet.spark import release_fleet_on_spark, run_on_executors, spark_session
from hushmeter.fleet.sum_terms import TABLES, SumTerms
from hushmeter.fleet.sums import release_sums

SUMS = SumTerms("1", (0.0, 12_000.0), ("group",), tables=TABLES)


def add_up(session, order) -> dict:
    key, schedule = bytes.fromhex(order.pop("key")), partial(run_on_executors, session)
    done = release_sums(
        order.pop("source"), order.pop("output"), SUMS, key=key, schedule=schedule, **order
    )
    return {"manifest": done.manifest}


def obey(session, order) -> dict:
    if order.pop("sums", None):
        return add_up(session, order)
    terms = FleetTerms("0.5", (0.0, 12_000.0), interval_s=3600)
    key = order.pop("key", None)
    seen = []
    try:
        done = release_fleet_on_spark(
            session,
            order.pop("source"),
            order.pop("output"),
            terms,
            key=None if key is None else bytes.fromhex(key),
            report=lambda report, rows, total: seen.append((report.source, rows, total)),
            **order,
        )
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
