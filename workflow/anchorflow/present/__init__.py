"""Style and layout of the figures and tables of all analyses."""
