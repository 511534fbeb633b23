"""Hidden Markov models of a home: states, transitions, emission densities and decoding.

The attackers FHMM and Bayes share these modules.
"""
