"""From a privacy goal to a release, and plain sentences about every result."""
