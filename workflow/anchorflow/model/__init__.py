"""A causal language model opened for measurement: attention, prefixes, batches, memory."""
