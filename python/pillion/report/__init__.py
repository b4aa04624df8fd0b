"""Reports of experiments: one HTML file that needs nothing else, or parts for a server.

compose makes the content, page writes it as HTML, vector makes figures that follow the
reader's theme, and paper sets published tables beside ours.
"""
