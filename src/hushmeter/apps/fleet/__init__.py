"""Releases of a fleet of meters, from Parquet to Parquet, charged to a privacy ledger.

One file is one task, one charge of the ledger and one rename. Workers share nothing but the
ledger. The bytes of a released file depend on the input file, the terms, the release key and the
rows that the ledger grants; they are the same for any number of workers and after any number of
crashes. The manifest is written last. Then the release key is destroyed, so that nobody can
remove the noise or draw it again.

Modules: `job` states what is asked for, and `sum_terms` what sums promise; `folders` has the input
and the output folder and `input_files` reads the input; `meter_periods` checks every row; `task`
works on one file, whose rows `series` releases with noise and `sums` adds up for sums with one
noise for each number; `release` runs a whole release; `released_folder` reads, verifies and adds up
what was released.
"""

from typing import TYPE_CHECKING

from hushmeter.parts import names_when_used

if TYPE_CHECKING:
    from hushmeter.apps.fleet.job import FleetJob, FleetTerms
    from hushmeter.apps.fleet.release import FleetRelease, JobOptions, Report, release_fleet
    from hushmeter.apps.fleet.sum_terms import SumTerms
    from hushmeter.apps.fleet.task import FileReport, Schedule

__all__ = [
    "FileReport",
    "FleetJob",
    "FleetRelease",
    "FleetTerms",
    "JobOptions",
    "Report",
    "Schedule",
    "SumTerms",
    "release_fleet",
]

# Nothing is imported before it is used, so that the help of the commands is fast.
__getattr__ = names_when_used(
    __name__,
    {
        "apps.fleet.job": "FleetJob FleetTerms",
        "apps.fleet.release": "FleetRelease JobOptions Report release_fleet",
        "apps.fleet.sum_terms": "SumTerms",
        "apps.fleet.task": "FileReport Schedule",
    },
)
