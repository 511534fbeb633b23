"""The local web page and its JSON API, which `hushmeter serve` runs.

Python computes; the files under `static` are the page. Nothing is stored on disk.
"""
