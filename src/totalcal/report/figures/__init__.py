"""One kind of figure a file; each takes axes and data, and draws."""
