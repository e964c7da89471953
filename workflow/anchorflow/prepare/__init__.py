"""Inputs of all measurements: texts, samples, prompts, embeddings, tokenizers and weights."""
