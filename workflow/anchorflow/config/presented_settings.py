"""The parts of the configuration on which summaries and figures depend, by the names of parts.

Analyses declare these names in ``Summary.settings`` and ``Presented.settings``. Any other name is
that of a section.
"""

from collections.abc import Callable, Mapping
from typing import Any

from anchorflow.config.configuration import label_word_sets
from anchorflow.config.stages import seeds_of, texts_summarized

Config = Mapping[str, Any]


def _labels(config: Config) -> dict[str, Any]:
    return {name: task["labels"] for name, task in config["tasks"].items()}


def _temperatures(config: Config) -> dict[str, Any]:
    further = config["encoder"]["further"].items()
    return {
        "temperature": config["encoder"]["temperature"],
        "encoder": config["encoder"]["path"],
        "further_temperatures": {name: encoder["temperature"] for name, encoder in further},
    }


def _label_words(config: Config) -> dict[str, Any]:
    return {
        "words": label_word_sets(config),
        "demonstrations": config["flow"]["demonstrations"],
        "variant": config["isolation"]["variants"][0],
        "asked": {
            name: (seeds_of(name, config), texts_summarized(name, config))
            for name in ("flow", "isolation")
        },
    }


def _claims(config: Config) -> dict[str, Any]:
    return {
        "tasks": list(config["tasks"]),
        "variant": config["isolation"]["variants"][0],
        "words": label_word_sets(config),
    }


# Their entries are arguments of the functions that summarize and plot.
_PARTS: Mapping[str, Callable[[Config], dict[str, Any]]] = {
    "style": lambda config: {"style": config["figures"]},
    "temperature": lambda config: {"temperature": config["encoder"]["temperature"]},
    "temperatures": _temperatures,
    "demonstrations": lambda config: {"demonstrations": config["flow"]["demonstrations"]},
    "gradient": lambda config: {"gradient": config["flow"]["gradient"]},
    "chosen_on": lambda config: {"chosen_on": config["kernel"]["chosen_on"]},
    "baselines": lambda config: {"baselines": config["reweighting"]["baselines"]},
    "labels": lambda config: {"labels": _labels(config)},
    "label_word_sets": lambda config: {"words": label_word_sets(config)},
    "label_words": _label_words,
    "claims": _claims,
    "comparison": lambda config: {"variant": config["isolation"]["variants"][0]},
}


def without_texts(name: str, config: Config) -> dict[str, Any]:
    """A section, but for the numbers of seeds and texts, which choose what is measured."""
    chosen = ("seeds", "examples")
    return {key: value for key, value in config[name].items() if key not in chosen}


def settings_named(names: tuple[str, ...], config: Config) -> dict[str, dict[str, Any]]:
    """The parts of these names."""
    return {
        name: _PARTS[name](config) if name in _PARTS else without_texts(name, config)
        for name in names
    }
