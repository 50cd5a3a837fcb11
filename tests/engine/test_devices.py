"""No tensor of a run is made on a device by accident: where the default is a device without data, runs still work."""

import threading
from concurrent.futures import ThreadPoolExecutor

import accelerate
import pytest
import torch

from engine import DecodeRequest, decode, load
from engine.models import devices, loading
from engine.run import sandboxed_run
from engine.run.run import Run
from engine.sandbox.folder import read_method
from engine.sandbox.trust import trust_code
from engine.strategies import STRATEGIES
from engine.trace.events import Finished
from tests.helpers.methods import PLAIN, write_method
from tests.helpers.runs import failed, finished
from tests.helpers.strategies import OURS

FILTERS = {
    "top_k": 20,
    "top_p": 0.9,
    "min_p": 0.01,
    "typical_p": 0.95,
    "epsilon_cutoff": 1e-4,
    "eta_cutoff": 1e-4,
    "repetition_penalty": 1.2,
    "no_repeat_ngram_size": 3,
    "guidance_scale": 1.5,
    "sequence_bias": [[[5], 1.0]],
    "suppress_tokens": [3],
    "bad_words_ids": [[5], [6, 7]],
    "num_return_sequences": 2,
}
MORE = {
    "sampling": [FILTERS],
    "greedy": [{"stop_strings": ["the"]}],
    "beam_search": [{"num_beams": 3, "force_words_ids": [[300]]}, {"stop_strings": ["the"]}],
    "prompt_lookup": [{"do_sample": True, "stop_strings": ["the"]}],
    "speculative": [{"do_sample": True}],
    "universal_assisted": [{"do_sample": True}],
    "watermark": [{"seeding_scheme": "selfhash"}, {"scheme": "synthid"}],
}
CASES = [(name, params) for name in OURS for params in ({}, *MORE.get(name, ()))]


@pytest.mark.by_day(3)
@pytest.mark.parametrize(("strategy", "params"), CASES, ids=str)
def test_every_tensor_of_a_run_says_where_it_is(strategy, params, monkeypatch):
    real = Run._decode

    def under(run, *arguments):
        # A tensor without a device of its own is made here without data, and whatever reads it fails.
        with torch.device("meta"):
            return real(run, *arguments)

    monkeypatch.setattr(Run, "_decode", under)
    last = list(
        decode(
            DecodeRequest(
                strategy,
                load("storyteller"),
                prompt="Once upon a time",
                params={"max_new_tokens": 6, **params},
                assistant=STRATEGIES[strategy].default_assistant,
            )
        )
    )[-1]
    assert isinstance(last, Finished), last
    assert not [note for note in last.trace.notes if "missing" in note]


def test_the_default_device_is_asked_for_by_one_thread_at_a_time(monkeypatch):
    """accelerate's state is shared: a second thread would read it while it is still without a device."""
    inside, crowded = threading.Semaphore(1), []

    class Slow:
        def __init__(self):
            crowded.append(not inside.acquire(blocking=False))
            threading.Event().wait(0.05)
            self.device = torch.device("cpu")
            inside.release()

    monkeypatch.setattr(accelerate, "Accelerator", Slow)
    devices._default_device.cache_clear()
    try:
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda _: devices.default_device(), range(4)))
    finally:
        devices._default_device.cache_clear()
    assert found == ["cpu"] * 4
    assert crowded == [False]


@pytest.mark.nightly
def test_on_a_machine_with_a_gpu_a_methods_model_stays_on_the_cpu(tmp_path, monkeypatch):
    for module in (sandboxed_run, loading):
        monkeypatch.setattr(module, "default_device", lambda: "cuda")
    look = "    import os; print(model.device, model.dtype, [os.environ['CUDA_VISIBLE_DEVICES']])\n"
    source = PLAIN.replace("    ids = input_ids\n", look + "    ids = input_ids\n")
    folder = write_method(tmp_path / "looks", source)
    trust_code(read_method(folder).sha256)
    params = {"method": str(folder), "max_new_tokens": 3}
    made = finished(DecodeRequest("custom", None, "Once upon a time", params=params))
    assert made.notes == (
        "The model computed on the CPU: the method's process has no access to the GPU.",
        "The method printed: cpu torch.float32 ['']",
    )
    assert (made.model.device, made.model.dtype) == ("cpu", "float32")
    # Any other run would use the GPU.
    other = failed(DecodeRequest("greedy", None, "Once", params={"max_new_tokens": 1}))
    assert "device = 'cuda' is not available on this machine" in str(other)
