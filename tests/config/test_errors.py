"""Sentences that tell a user what to mend, whatever they quote."""

from anchorflow.config.errors import InputError


def test_a_sentence_shows_nothing_that_a_terminal_would_obey_and_stays_short() -> None:
    assert str(InputError("a\n\x1b[2J\u202eb\ud800 é😀")) == "a\\n\\x1b[2J\\u202eb\\ud800 é😀"
    long = str(InputError("begin" + "x" * 10**6 + "end"))
    assert len(long) < 4000
    assert long.startswith("begin")
    assert long.endswith("end")
