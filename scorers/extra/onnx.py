"""Transformer models in ONNX form with their tokenizers, run on the processor.

A model is a folder as Hugging Face's tools export it: `tokenizer.json`, and `model.onnx` there or
in `onnx/`; or the name of one on the hub, which is fetched at start and kept where those tools keep
it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

WANTED = ("tokenizer.json", "config.json", "model.onnx", "onnx/model.onnx")
BATCH = 16
THREADS = 1
"""Per process: the scorers' processes are one for each core already."""


def located(model: str, extra: str) -> Path:
    """The folder of a model. Raises ValueError without a model, or without what runs it (the
    package's `extra`), and OSError where the hub does not give it."""
    missing = [name for name in ("onnxruntime", "tokenizers") if find_spec(name) is None]
    if missing:
        raise ValueError(
            f"{' and '.join(missing)} not installed: pip install 'assay-monitor[{extra}]'"
        )
    if not model:
        raise ValueError("model is required: a folder with model.onnx and tokenizer.json")
    folder = Path(model)
    if not folder.is_dir():
        if model.count("/") != 1 or model.startswith((".", "/")):
            raise ValueError(f"{model} is no folder")
        folder = _fetched(model)
    _ = _file(folder, "tokenizer.json"), _onnx(folder)
    return folder


class OnnxModel:
    """A model, loaded when it is first asked."""

    def __init__(self, folder: Path, *, most_tokens: int) -> None:
        self._folder = folder
        self._most_tokens = most_tokens

    @cached_property
    def labels(self) -> dict[int, str]:
        """The names of a classifier's classes, in lower case; none where it has none."""
        config = json.loads((self._folder / "config.json").read_text(encoding="utf-8"))
        return {int(at): str(name).lower() for at, name in config.get("id2label", {}).items()}

    def outputs(
        self, texts: Sequence[str] | Sequence[tuple[str, str]]
    ) -> tuple[list[NDArray[np.float32]], list[NDArray[np.int64]]]:
        """The first output and the attention mask for each text, or pair of texts, in batches."""
        import numpy as np

        outputs, masks = [], []
        for start in range(0, len(texts), BATCH):
            encoded = self._tokenizer.encode_batch(list(texts[start : start + BATCH]))
            given = {
                "input_ids": np.array([one.ids for one in encoded], np.int64),
                "attention_mask": np.array([one.attention_mask for one in encoded], np.int64),
                "token_type_ids": np.array([one.type_ids for one in encoded], np.int64),
            }
            feed = {name: given[name] for name in self._inputs}
            outputs.append(np.asarray(self._session.run(None, feed)[0], np.float32))
            masks.append(given["attention_mask"])
        return outputs, masks

    @cached_property
    def _tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(_file(self._folder, "tokenizer.json")))
        tokenizer.enable_truncation(self._most_tokens)
        tokenizer.enable_padding()
        return tokenizer

    @cached_property
    def _session(self) -> Any:
        from onnxruntime import InferenceSession, SessionOptions

        options = SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = THREADS
        path = str(_onnx(self._folder))
        return InferenceSession(path, options, providers=["CPUExecutionProvider"])

    @cached_property
    def _inputs(self) -> list[str]:
        return [one.name for one in self._session.get_inputs()]


def _fetched(model: str) -> Path:
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(model, allow_patterns=list(WANTED)))
    except Exception as error:
        raise OSError(f"{model} is no folder, and the hub does not give it: {error}") from error


def _onnx(folder: Path) -> Path:
    inner = folder / "onnx" / "model.onnx"
    return inner if inner.is_file() else _file(folder, "model.onnx")


def _file(folder: Path, name: str) -> Path:
    path = folder / name
    if not path.is_file():
        raise ValueError(f"{folder} has no {name}")
    return path
