"""Figures, drawn with matplotlib's object interface: no window and no global state.

Each module draws the figures of one subject; `figure` holds what all of them share.
"""
