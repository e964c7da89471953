"""Content words of texts.

A content word is a word of at least three letters, in any case, that is not among the
``FUNCTION_WORDS``. Words with digits or apostrophes (contractions) are not content words. No tagger
is used, so names count as content words, and so do function words of languages other than English.
"""

import re

# Letters that are not next to a letter, a digit, or an apostrophe of the same word.
WORD = re.compile(r"(?<!\w)(?<!\w['’])[^\W\d_]{3,}(?!\w|['’]\w)")

# English words of three letters and more that have a grammatical role rather than a meaning:
# articles, pronouns, prepositions, conjunctions, auxiliary verbs, negations, and plain adverbs.
FUNCTION_WORDS = frozenset(
    re.findall(
        r"\w+",
        """
    the this that these those each every either neither both all any some such same other another
    much many more most few less least several enough own
    you she him her his hers they them their theirs its our ours your yours mine who whom whose
    which what whatever whichever whoever myself yourself himself herself itself ourselves
    yourselves themselves one ones someone somebody something anyone anybody anything everyone
    everybody everything nobody nothing none
    about above across after against along amid among amongst around before behind below beneath
    beside besides between beyond despite down during except for from inside into near off onto out
    outside over past per since than through throughout till toward towards under underneath until
    upon via with within without
    and but nor yet because although though unless whereas whether while when where why how
    whenever wherever however therefore thus hence else
    are was were been being has have had having does did doing done can could may might must shall
    should will would ought cannot
    not never too very quite rather just only even also still already again ever here there then
    now once almost perhaps maybe
    """,
    )
)


def content_words(text: str) -> list[str]:
    """The content words of a text in order, in lower case."""
    found = (match[0].lower() for match in WORD.finditer(text))
    return [word for word in found if word not in FUNCTION_WORDS]
