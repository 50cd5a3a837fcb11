"""Mirostat: sampling that keeps the surprise of the text near a target.

The surprise of a token is -log2 of its probability, in bits. Before each draw, the tokens that would
surprise more than a bound are left out. After it, the bound moves: down where the token was more
surprising than the target, up where it was less. This is the second version, which moves the bound
itself where the first estimates a k for it. (Basu et al. 2021, arXiv 2007.14966)
"""

import math
from functools import partial

import torch
from transformers import DynamicCache


def generate(
    model,
    input_ids=None,
    generation_config=None,
    tau: float = 3.0,
    eta: float = 0.1,
    logits_processor=None,
    stopping_criteria=None,
    streamer=None,
    **kwargs,
):
    """Draw text whose tokens surprise by tau bits on average.

    Args:
        model: any decoder-only model of transformers.
        input_ids: the prompts, shape (batch, length), padded on the left where they differ in length.
        generation_config: lengths, ends and processors, as for generate().
        tau: the surprise to keep to, in bits per token; above 0.
        eta: how much of each token's error the bound moves by; above 0.
        logits_processor: processors beyond those of the config.
        stopping_criteria: criteria beyond those of the config.
        streamer: is given every token as it is drawn.
        **kwargs: whatever else generate() takes, such as attention_mask.

    Returns:
        The prompts and what follows them, shape (batch, length + new).

    Raises:
        ValueError: tau or eta is not above 0.
    """
    if not (tau > 0 and eta > 0):
        raise ValueError(f"tau = {tau} and eta = {eta} must both be above 0.")
    # transformers prepares the prompts, the processors and the criteria, and then calls the loop below.
    return type(model).generate(
        model,
        input_ids=input_ids,
        generation_config=generation_config,
        logits_processor=logits_processor,
        stopping_criteria=stopping_criteria,
        streamer=streamer,
        custom_generate=partial(decode, tau=tau, eta=eta, streamer=streamer),
        **kwargs,
    )


def decode(
    model,
    input_ids,
    logits_processor,
    stopping_criteria,
    generation_config,
    tau,
    eta,
    streamer,
    **inputs,
):
    """Draw a token for every row, again and again, until all rows have ended."""
    ids, cache = input_ids, DynamicCache(config=model.config)
    running = torch.ones(len(ids), dtype=torch.bool, device=ids.device)
    bound = torch.full((len(ids), 1), 2 * tau, device=ids.device)  # bits; where the paper starts
    while running.any():
        scores = logits_processor(ids, read(model, ids, cache, inputs)[:, -1])
        surprise = -torch.log_softmax(scores, -1) / math.log(2)
        # The likeliest token is always allowed.
        bar = bound.maximum(surprise.min(-1, keepdim=True).values)
        allowed = scores.masked_fill(surprise > bar, -torch.inf)
        token = torch.multinomial(torch.softmax(allowed, -1), 1)
        bound = bound - eta * (surprise.gather(-1, token) - tau)
        token = torch.where(running, token[:, 0], padding(generation_config))
        ids = torch.cat([ids, token[:, None]], -1)
        if streamer is not None:
            streamer.put(token.cpu())
        running &= ~stopping_criteria(ids, None)
    if streamer is not None:
        streamer.end()
    return ids


def read(model, ids, cache, inputs):
    """Let the model read the ids that the cache does not hold yet.

    Args:
        model: the model.
        ids: the whole text, shape (rows, length).
        cache: what has been read; it grows.
        inputs: of the prompts, as transformers prepared them.

    Returns:
        Logits after what was read, shape (rows, 1 or more, vocabulary); the last are of the next token.
    """
    mask = torch.ones_like(ids)
    if inputs.get("attention_mask") is not None:  # None where no prompt is padded
        mask[:, : inputs["attention_mask"].shape[1]] = inputs["attention_mask"]
    inputs = {**inputs, "attention_mask": mask, "past_key_values": cache, "use_cache": True}
    if "position_ids" in inputs:  # of models that take them
        inputs["position_ids"] = (mask.cumsum(-1) - 1).clamp(min=0)
    new = ids.shape[1] - cache.get_seq_length()
    prepared = model.prepare_inputs_for_generation(ids, next_sequence_length=new, **inputs)
    return model(**prepared, return_dict=True).logits.float()


def padding(generation_config):
    """Return the id that fills a row that has ended while others go on."""
    if generation_config.pad_token_id is not None:
        return generation_config.pad_token_id
    ends = generation_config.eos_token_id
    return ends[0] if isinstance(ends, list) else ends or 0
