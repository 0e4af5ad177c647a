"""Vectors of common words by a small encoder: python -m training.word_vectors FOLDER WORDS OUT

FOLDER holds all-MiniLM-L6-v2 (Apache-2.0; model.safetensors and tokenizer.json), WORDS a word and
the number of texts that have it on each line, most frequent first. The vectors themselves are not
shipped: models that read them are linear in them, so a vector adds one number for its word.
"""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path

import numpy as np
from scipy.special import erf
from tokenizers import Tokenizer

from training.fitting import Array

LAYERS, HEADS = 6, 12


class Encoder:
    """The forward pass of a BERT encoder with mean pooling."""

    def __init__(self, folder: Path) -> None:
        packed = (folder / "model.safetensors").read_bytes()
        (length,) = struct.unpack("<Q", packed[:8])
        self._tensors = {}
        for name, tensor in json.loads(packed[8 : 8 + length]).items():
            if tensor.get("dtype") == "F32":
                start, end = tensor["data_offsets"]
                values = np.frombuffer(packed[8 + length + start : 8 + length + end], np.float32)
                self._tensors[name] = values.reshape(tensor["shape"])
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()

    def encode(self, words: list[str]) -> Array:
        """A vector of length 1 for each word."""
        ids = [self._tokenizer.encode(word).ids for word in words]
        mask = np.zeros((len(ids), max(map(len, ids))), np.float32)
        padded = np.zeros(mask.shape, int)
        for row, tokens in enumerate(ids):
            padded[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1
        tensors = self._tensors
        x = tensors["embeddings.word_embeddings.weight"][padded]
        x = x + tensors["embeddings.position_embeddings.weight"][: mask.shape[1]]
        x = self._norm(x + tensors["embeddings.token_type_embeddings.weight"][0], "embeddings")
        hidden = ((1 - mask) * -1e9)[:, None, None, :]
        for layer in range(LAYERS):
            x = self._layer(x, hidden, f"encoder.layer.{layer}.")
        pooled = (x * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
        return pooled / np.linalg.norm(pooled, axis=1, keepdims=True)

    def _linear(self, x: Array, name: str) -> Array:
        return x @ self._tensors[f"{name}.weight"].T + self._tensors[f"{name}.bias"]

    def _norm(self, x: Array, name: str) -> Array:
        centred = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12)
        name = f"{name}.LayerNorm"
        return centred * self._tensors[f"{name}.weight"] + self._tensors[f"{name}.bias"]

    def _layer(self, x: Array, hidden: Array, name: str) -> Array:
        count, length, width = x.shape
        query, key, value = (
            self._linear(x, f"{name}attention.self.{part}")
            .reshape(count, length, HEADS, width // HEADS)
            .transpose(0, 2, 1, 3)
            for part in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 1, 3, 2) / np.sqrt(width // HEADS) + hidden
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        seen = (scores / scores.sum(-1, keepdims=True)) @ value
        seen = seen.transpose(0, 2, 1, 3).reshape(count, length, width)
        seen = self._linear(seen, f"{name}attention.output.dense")
        x = self._norm(x + seen, f"{name}attention.output")
        inner = self._linear(x, f"{name}intermediate.dense")
        inner = self._linear(0.5 * inner * (1 + erf(inner / np.sqrt(2))), f"{name}output.dense")
        return self._norm(x + inner, f"{name}output")


def main(folder: Path, words: Path, out: Path) -> None:
    encoder = Encoder(folder)
    lines = [line.split() for line in words.read_text(encoding="utf-8").splitlines()]
    listed = [word for word, _ in lines]
    vectors = [encoder.encode(listed[i : i + 256]) for i in range(0, len(listed), 256)]
    np.savez(
        out,
        words=np.array(listed),
        seen=np.array([int(count) for _, count in lines]),
        vectors=np.concatenate(vectors).astype(np.float32),
    )


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
