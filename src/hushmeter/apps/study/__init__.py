"""Studies of attackers, ε, mechanisms, homes and seeds, their fits, and the paper's figures."""
