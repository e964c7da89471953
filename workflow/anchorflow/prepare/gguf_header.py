"""The header of a GGUF file, with its long arrays (a tokenizer's words) read in one go."""

import struct
from collections.abc import Callable
from typing import Any

import gguf
import numpy as np
from gguf import GGUFValueType

Parts = tuple[int, list[Any], list[int], list[GGUFValueType]]


class QuickReader(gguf.GGUFReader):
    """gguf's reader, which finds the same fields without a call for each element of an array.

    Should gguf rename the method that is replaced here, its own takes over.
    """

    def _get_field_parts(self, orig_offs: int, raw_type: int) -> Parts:
        """Bytes that a field takes, its parts, which of them are its values, and its types."""
        plain: Callable[[int, int], Parts] = super()._get_field_parts
        if raw_type != GGUFValueType.ARRAY or self.byte_order == "S":
            return plain(orig_offs, raw_type)
        of_elements, length = self._get(orig_offs, np.uint32), self._get(orig_offs + 4, np.uint64)
        kind, count, start = GGUFValueType(of_elements[0]), int(length[0]), orig_offs + 12
        parts: list[Any] = [of_elements, length]
        types = [GGUFValueType.ARRAY, *([kind] if count else [])]
        if kind in self.gguf_scalar_to_np:
            values = np.asarray(self._get(start, self.gguf_scalar_to_np[kind], count))
            parts += list(values[:, None])
            return 12 + values.nbytes, parts, list(range(2, 2 + count)), types
        if kind != GGUFValueType.STRING:
            return plain(orig_offs, raw_type)
        data, at = np.asarray(self.data), start
        for _ in range(count):
            (size,) = struct.unpack_from("<Q", data.data, at)
            parts += (data[at : at + 8].view(np.uint64), data[at + 8 : at + 8 + size])
            at += 8 + size
        return at - orig_offs, parts, list(range(3, 3 + 2 * count, 2)), types
