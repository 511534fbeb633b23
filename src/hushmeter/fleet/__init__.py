"""Releases of a fleet of meters, from Parquet to Parquet, charged to a privacy ledger.

One file is one task, one charge of the ledger and one rename. Workers share nothing but the
ledger. The bytes of a released file depend on the input file, the terms, the release key and the
rows that the ledger grants; they are the same for any number of workers and after any number of
crashes. The manifest is written last. Then the release key is destroyed, so that nobody can
remove the noise or draw it again.

Modules: `job` states what is asked for; `source_folder` finds the input and `input_files` reads
it; `blocks` and `kernels` check every row; `task` protects one file, whose rows `noised_rows`
writes; `output_folder` has the private folder and the files being written; `workers` and `preload`
run tasks in processes, `spark` on a cluster; `release` runs a whole release; `manifest` describes
it; `statistics` adds up a released folder; `extracts` converts files of other shapes; `sums` adds
up files for sums with one noise for each number, which `sum_terms` promises and `sum_tables` draws.
"""

from hushmeter.fleet.job import FleetJob, FleetTerms
from hushmeter.fleet.release import FleetRelease, JobOptions, Report, Schedule, release_fleet
from hushmeter.fleet.sum_terms import SumTerms
from hushmeter.fleet.task import FileReport

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
