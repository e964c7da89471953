"""Random label words: which words they are drawn from, and in which order.

The words are a fixed list rather than a model's vocabulary, so that models whose tokenizers know
the same words get the same ones: the 200 picturable things of Basic English (Ogden 1930), common
nouns without a meaning for a task.
"""

from collections.abc import Sequence

from anchorflow.config.cell_names import task_of, words_of
from anchorflow.random_draws import generator

WORDS = tuple(
    """
    angle ant apple arch arm army baby bag ball band basin basket bath bed bee bell berry bird blade
    board boat bone book boot bottle box boy brain brake branch brick bridge brush bucket bulb
    button cake camera card cart carriage cat chain cheese chest chin church circle clock cloud coat
    collar comb cord cow cup curtain cushion dog door drain drawer dress drop ear egg engine eye
    face farm feather finger fish flag floor fly foot fork fowl frame garden girl glove goat gun
    hair hammer hand hat head heart hook horn horse hospital house island jewel kettle key knee
    knife knot leaf leg library line lip lock map match monkey moon mouth muscle nail neck needle
    nerve net nose nut office orange oven parcel pen pencil picture pig pin pipe plane plate plow
    pocket pot potato prison pump rail rat receipt ring rod roof root sail school scissors screw
    seed sheep shelf ship shirt shoe skin skirt snake sock spade sponge spoon spring square stamp
    star station stem stick stocking stomach store street sun table tail thread throat thumb ticket
    toe tongue tooth town train tray tree trousers umbrella wall watch wheel whip whistle window
    wing wire worm
    """.split()  # noqa: SIM905
)
UNKNOWN = "\U00010000"  # Linear B; has the token of all unknown text, if a tokenizer has one


def words_in_order(cell: str, seed: int, labels: Sequence[str]) -> list[str]:
    """All words but a task's own, in a random order, written as its own words are.

    They begin with the leading space of the labels and, if all of these have one, with a capital.
    Every name of a cell, such as ``reviews+random``, has its own draw.
    """
    capital = all(word.strip()[0].isupper() for word in labels)
    taken = {word.strip().casefold() for word in labels}
    words = [word for word in WORDS if word not in taken]
    random = generator(seed, task_of(cell), "label words", words_of(cell) or "")
    drawn = [words[k] for k in random.permutation(len(words)).tolist()]
    return [leading_space(labels[0]) + (word.capitalize() if capital else word) for word in drawn]


def leading_space(word: str) -> str:
    """What a label word has before its first letter."""
    return word[: len(word) - len(word.lstrip())]
