"""A value with its interval, and the cell that shows it."""

INTERVAL = (0.25, 0.125, 0.5, 10, 2)  # mean, low, high, examples, seeds
CELL = "0.25 [0.12, 0.50]"
