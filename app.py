"""Opens the playground: settings from the environment, then launch."""

import os

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
# What Gradio would work out of all its events after every one of them is shown nowhere here.
os.environ.setdefault("GRADIO_ANALYTICS_CACHE_FREQUENCY", "1000000000")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

# Before Gradio, which creates a folder in GRADIO_TEMP_DIR as soon as it is imported.
import playground.storage.uploads  # noqa: F401
from playground.jobs import zerogpu
from playground.shell import gradio_patches, lazy_imports

# A run on a ZeroGPU is a fork of this process, which may not be in the middle of an import.
if not zerogpu.is_zerogpu():
    lazy_imports.install()
with gradio_patches.skip_stub_generation():
    from playground.app import launch


def main() -> None:
    """Serve on 127.0.0.1:7860, on all interfaces on a Space."""
    host = "0.0.0.0" if os.environ.get("SPACE_ID") else "127.0.0.1"
    launch(os.environ.get("PLAYGROUND_HOST", host), int(os.environ.get("PLAYGROUND_PORT", "7860")))


if __name__ == "__main__":
    main()
