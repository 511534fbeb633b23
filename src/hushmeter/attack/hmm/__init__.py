"""Chains of states behind the readings: their laws, how they are learnt, and how they are walked.

Shared by FHMM, Sparse-HMM and the noise-aware Bayes attacker.
"""
