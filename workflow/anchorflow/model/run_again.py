"""Tokens that run again before others, in models that carry a state from token to token.

Keys and values are all that attention takes from earlier tokens, so kept ones replace these tokens.
A recurrent layer takes a state from them, which is not kept, and an indexer looks at all of a
prompt. In models with such layers, what precedes some given tokens runs again with them. At
attention, the given tokens see the kept keys and values nevertheless, and interventions on them get
the same calls as in any other model.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from anchorflow.config.errors import InputError
from anchorflow.model.attention_function import AttentionCall, Intervention, attend_under, in_force


@dataclass(frozen=True)
class Preceding:
    """The tokens before the given ones, and how they attend among themselves.

    ``attend`` maps a layer's call of these tokens alone to their output, [B, H, P, D]. ``resumed``
    is the number of an attention layer after which hidden states are replaced by given ones,
    [1, P, ..., hidden].
    """

    token_ids: Tensor  # [1 or B, P], padded on the right
    position_ids: Tensor  # [1 or B, P]
    lengths: Tensor  # [1 or B]: tokens before the given ones
    attend: Callable[[AttentionCall], Tensor]
    resumed: tuple[int, Tensor] | None = None

    @classmethod
    def shared(
        cls,
        token_ids: Tensor,
        interventions: Sequence[Intervention] = (),
        resumed: tuple[int, Tensor] | None = None,
    ) -> "Preceding":
        """Tokens [1, P] that precede all examples, under ``interventions``."""
        tokens = token_ids.shape[1]
        places = torch.arange(tokens, device=token_ids.device)[None]

        def attend(call: AttentionCall) -> Tensor:
            # Copies, so that what interventions count and record is of their own run alone.
            return attend_under(call, [copy.copy(each) for each in interventions])

        lengths = torch.tensor([tokens], device=token_ids.device)
        return cls(token_ids, places, lengths, attend, resumed)

    def followed_by(
        self,
        token_ids: Tensor,
        position_ids: Tensor,
        lengths: Tensor,
        attend: Callable[[AttentionCall], Tensor],
    ) -> "Preceding":
        """These tokens, the same for all examples, and then ``lengths`` [B] of others, [B, T]."""
        size = len(token_ids)
        first = self.token_ids.expand(size, -1), self.position_ids.expand(size, -1)
        return Preceding(
            torch.cat([first[0], token_ids], 1),
            torch.cat([first[1], position_ids], 1),
            self.lengths + lengths,
            attend,
            self.resumed,
        )

    def rows(self, size: int, tokens: int) -> Tensor:
        """The rows of so many given tokens, [B, T]."""
        given = torch.arange(tokens, device=self.lengths.device)
        return (self.lengths[:, None] + given).expand(size, -1)

    def joined(self, input_ids: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Token and position ids of all tokens, [B, P + T], given those of the last, [B, T]."""
        size, tokens = input_ids.shape
        rows = self.rows(size, tokens)

        def put(before: Tensor, given: Tensor) -> Tensor:
            return pad(before.expand(size, -1), (0, tokens)).scatter(1, rows, given)

        return put(self.token_ids, input_ids), put(self.position_ids, position_ids)

    def attend_with(
        self,
        call: AttentionCall,
        given: Callable[[AttentionCall], Tensor],
        tokens: int | None = None,
    ) -> Tensor:
        """A layer's output for all tokens; ``given`` makes that of the given ones, from their call.

        They are as many ``tokens`` as the call has beyond the preceding ones, by default.
        """
        whole = call.query.shape[2]
        if tokens is None:
            tokens = whole - self.token_ids.shape[1]
        given_rows = partial(self.given_rows, tokens=tokens)

        def before(tensor: Tensor) -> Tensor:
            return tensor[:, :, : whole - tokens]

        early = _of_rows(call, before)
        if early.unselected is not None:
            early = replace(early, unselected=early.unselected[..., : whole - tokens])
        first = self.attend(early)
        output = given(_of_rows(call, given_rows))
        whole_output = pad(first, (0, 0, 0, tokens))
        return whole_output.scatter(2, self._at(output, tokens), output)

    def given_rows(self, tensor: Tensor, tokens: int = 1) -> Tensor:
        """The given tokens' rows of a tensor with those of all tokens, [B, H, P + T, D]."""
        return tensor.gather(2, self._at(tensor, tokens))

    def _at(self, tensor: Tensor, tokens: int) -> Tensor:
        rows = self.rows(len(tensor), tokens).to(tensor.device)[:, None, :, None]
        return rows.expand(-1, tensor.shape[1], -1, tensor.shape[3])


def _of_rows(call: AttentionCall, some: Callable[[Tensor], Tensor]) -> AttentionCall:
    selected = call.unselected if call.unselected is None else some(call.unselected)
    query, key, value = (some(of) for of in (call.query, call.key, call.value))
    return replace(call, query=query, key=key, value=value, unselected=selected)


_DONE = "runs_what_precedes"  # attribute of a decoder with these hooks


def hidden_states(output: Any) -> tuple[Tensor, tuple[Any, ...] | None]:
    """A layer's hidden states [B, T, hidden], and what else it returns, if that is a tuple."""
    return (output[0], output[1:]) if isinstance(output, tuple) else (output, None)


def run_what_precedes(decoder: nn.Module, attending: Sequence[nn.Module]) -> None:
    """Let a model that carries a state run again what precedes its tokens, and return only theirs.

    ``decoder`` is the model without its head, and ``attending`` are its layers that attend.
    """

    def join(_: nn.Module, args: tuple[Any, ...], given: dict[str, Any]) -> Any:
        preceding = preceding_in_force()
        if preceding is None:
            return None
        input_ids = args[0] if args else given.get("input_ids")
        position_ids = given.get("position_ids")
        cached = given.get("past_key_values") is not None
        if input_ids is None or position_ids is None or cached:
            raise InputError(
                "this model carries a state from token to token, which is not cached; give it "
                "input_ids and position_ids, and no past_key_values."
            )
        input_ids, position_ids = preceding.joined(input_ids, position_ids)
        joined = {"input_ids": input_ids, "position_ids": position_ids, "attention_mask": None}
        return (), {**given, **joined}

    def keep_given(_: nn.Module, __: Any, given: dict[str, Any], output: Any) -> Any:
        preceding = preceding_in_force()
        if preceding is not None:
            states = output.last_hidden_state
            size, tokens = given["input_ids"].shape
            rows = preceding.rows(size, tokens - preceding.token_ids.shape[1]).to(states.device)
            at = rows[..., None].expand(-1, -1, states.shape[-1])
            output.last_hidden_state = states.gather(1, at)
        return output

    def put(layer: int, _: nn.Module, __: Any, output: Any) -> Any:
        preceding = preceding_in_force()
        if preceding is None or preceding.resumed is None or preceding.resumed[0] != layer:
            return output
        given, (hidden, rest) = preceding.resumed[1], hidden_states(output)
        given = given.to(hidden).expand(len(hidden), *given.shape[1:])
        whole = torch.cat([given, hidden[:, given.shape[1] :]], 1)
        return whole if rest is None else (whole, *rest)

    if getattr(decoder, _DONE, False):  # as for a second classifier with the same model
        return
    setattr(decoder, _DONE, True)
    decoder.register_forward_pre_hook(join, with_kwargs=True)
    decoder.register_forward_hook(keep_given, with_kwargs=True)
    for number, layer in enumerate(attending):
        layer.register_forward_hook(partial(put, number))


def preceding_in_force() -> Preceding | None:
    """What an intervention in force lets run before the model's tokens; mostly None."""
    found: list[Any] = [getattr(each, "preceding", None) for each in in_force()]
    return next((each for each in found if each is not None), None)
