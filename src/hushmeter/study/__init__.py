"""Studies of attackers, ε, mechanisms, homes and seeds, their fits, and the paper's figures."""

COMPARED = {
    "one-shot": "one-shot (P3)",
    "multi-shot": "multi-shot (Algorithm 1)",
    "hierarchical": "hierarchical (Algorithm 2)",
    "co": "combinatorial optimisation",
    "ip": "integer program",
    "alip": "aided integer program",
    "fhmm": "factorial HMM",
    "sparse-hmm": "Sparse-HMM",
    "bayes": "Bayes",
}
"""The attackers that are compared wherever no network has to be trained, with their labels."""
