"""Schemas of all tables: one file per stage, with a description and a unit for every column."""
