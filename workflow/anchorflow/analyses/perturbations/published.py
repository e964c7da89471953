"""Published numbers on perturbed test texts, for comparison."""

# Accuracy for test texts, original and rewritten by GPT-3.5; Han et al. 2025, Table 1.
PERTURBED = {"untouched": 0.805, "typos": 0.534, "rare_words": 0.677, "complex": 0.788}
