"""From data to a `Home`: thresholds, levels, circuits, the paper's segments, what a file shows."""
