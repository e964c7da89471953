"""Tables and columns that several analyses share, with descriptions and units of columns."""
