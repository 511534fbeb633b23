"""Experiments whose tables and figures only the documentation needs; not part of the package."""
