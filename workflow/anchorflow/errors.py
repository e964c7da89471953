"""The one kind of error that is the user's to mend."""


class InputError(Exception):
    """Bad input, told in one sentence: what is wrong, where, and what to do about it."""
