"""Decoders whose passes OpenVINO computes: transformers' own class and ``generate()``, another engine below them.

A model is converted once (``making``), kept as a graph beside the other models that were made (``kept``), read and
compiled (``graphs``), and decodes as an object of its own class whose ``forward`` asks a graph (``model``) with a
cache that the graph holds (``cache``). Nothing here imports openvino before it is asked for.
"""
