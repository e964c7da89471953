"""Published speed of compressed demonstrations, for comparison where tasks are the paper's."""

# How many times as fast as full prompts a query with hidden_anchor is; Wang et al. 2023, Table 3.
TABLE_3 = {
    "gpt2-xl": {"sst2": 1.1, "trec": 1.5, "agnews": 2.5, "emoc": 1.4},
    "gpt-j-6b": {"sst2": 1.5, "trec": 2.2, "agnews": 2.9, "emoc": 1.9},
}
