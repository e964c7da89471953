"""Tools of the repository, which the installed package does not have."""
