"""Figures, drawn with matplotlib's object interface: no window, no global state."""
