"""Further attackers: the baselines of the paper, and stronger ones than the paper has."""
