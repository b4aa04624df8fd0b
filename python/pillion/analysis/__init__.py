"""Analysis of experiments and of the archive's streams.

design and journal read what a runner wrote, with nothing but Python; result has an
experiment's tables of statistics, plot its figures, streams the rows of the archive.
"""
