"""Published numbers on random worlds, for comparison."""

# Kernel regression and exact inference, by number of demonstrations; Han et al. 2025, Table 3.
CONVERGENCE = {
    "demonstrations": (1, 2, 4, 8, 16, 32, 64, 128),
    "distance": (1.322, 0.942, 0.519, 0.218, 0.163, 0.085, 0.093, 0.083),
    "accuracy": (0.337, 0.532, 0.745, 0.901, 0.926, 0.968, 0.961, 0.964),
}
