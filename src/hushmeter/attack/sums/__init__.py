"""Levels that add up to a reading: what appliances draw, and exact searches over the sums.

Shared by one-shot inference (P1), CO, IP and ALIP.
"""
