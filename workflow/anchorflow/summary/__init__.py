"""The page to open first: a run's answers, its surprises, and what it measured.

``python -m anchorflow.summary`` prints the page of the run in the current folder.
"""
