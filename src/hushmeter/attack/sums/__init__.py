"""Power levels of appliances and exact searches over their sums.

One-shot inference (P1), CO, IP and ALIP share these modules.
"""
