"""Measurements with a model, per task and seed: one module per stage."""
