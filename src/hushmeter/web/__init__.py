"""The local web page and its JSON API: `hushmeter serve`."""
