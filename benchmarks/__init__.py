"""Benchmarks: ratios against another program or a limit of the machine, in the same run."""
