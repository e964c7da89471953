"""A page of one prompt that answers at once, from a server on one's own computer."""
