"""A fleet of meters from Parquet to Parquet on one machine, with a ledger that cannot be overspent.

One file is one task, one batch of the ledger and one rename. Workers share nothing but the ledger,
and a file's bytes depend on the file, the terms, the release key and what the ledger grants: they
are the same for any number of workers and after any number of crashes. The manifest comes last;
then the key is destroyed, and nobody can take the noise away or draw it again.

Rooms: `survey` looks at the input, `schema` says what a file must hold, `job` what is asked for;
`task` protects one file with `input`, `blocks`, `kernels`, `keys` and `output`; `pool` has the
worker processes and `warm` what they load; `state` is the private folder of an unfinished release,
`manifest` the end of it; `operation` runs the whole.
"""

from hushmeter.fleet.job import FleetJob, FleetTerms
from hushmeter.fleet.operation import FleetRelease, Report, Schedule, release_fleet
from hushmeter.fleet.task import FileReport

__all__ = [
    "FileReport",
    "FleetJob",
    "FleetRelease",
    "FleetTerms",
    "Report",
    "Schedule",
    "release_fleet",
]
