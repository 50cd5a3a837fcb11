"""Where models come from: catalogue, hub, folders, GGUF files and LoRA adapters; no torch."""
