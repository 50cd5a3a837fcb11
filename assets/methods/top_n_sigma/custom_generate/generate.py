"""Top-n-sigma: sampling from the tokens whose logits stand out from the noise.

A model gives most of its vocabulary logits that are spread like noise, and a few tokens logits far
above. What is kept is whatever lies within n standard deviations of the highest logit. Temperature
stretches the highest logit and the deviation alike, so it changes how the kept tokens share the
probability and never which ones are kept. (Tang et al. 2024, arXiv 2411.07641)
"""

from functools import partial

import torch
from transformers import DynamicCache


def generate(
    model,
    input_ids=None,
    generation_config=None,
    n: float = 1.0,
    logits_processor=None,
    stopping_criteria=None,
    streamer=None,
    **kwargs,
):
    """Draw text from the tokens within n standard deviations of the highest logit.

    Args:
        model: any decoder-only model of transformers.
        input_ids: the prompts, shape (batch, length), padded on the left where they differ in length.
        generation_config: lengths, ends and processors, as for generate().
        n: standard deviations below the highest logit that are still kept; 0 or more.
        logits_processor: processors beyond those of the config.
        stopping_criteria: criteria beyond those of the config.
        streamer: is given every token as it is drawn.
        **kwargs: whatever else generate() takes, such as attention_mask.

    Returns:
        The prompts and what follows them, shape (batch, length + new).

    Raises:
        ValueError: n is below 0.
    """
    if not n >= 0:
        raise ValueError(f"n = {n} must be 0 or more.")
    # transformers prepares the prompts, the processors and the criteria, and then calls the loop below.
    return type(model).generate(
        model,
        input_ids=input_ids,
        generation_config=generation_config,
        logits_processor=logits_processor,
        stopping_criteria=stopping_criteria,
        streamer=streamer,
        custom_generate=partial(decode, n=n, streamer=streamer),
        **kwargs,
    )


def decode(
    model, input_ids, logits_processor, stopping_criteria, generation_config, n, streamer, **inputs
):
    """Draw a token for every row, again and again, until all rows have ended."""
    ids, cache = input_ids, DynamicCache(config=model.config)
    running = torch.ones(len(ids), dtype=torch.bool, device=ids.device)
    while running.any():
        logits = read(model, ids, cache, inputs)[:, -1]
        # Of the logits themselves, before temperature or anything else has touched them.
        noise = logits < logits.max(-1, keepdim=True).values - n * logits.std(-1, keepdim=True)
        scores = logits_processor(ids, logits)
        kept = scores.masked_fill(noise, -torch.inf)
        # Processors may have forbidden all that was kept; then what they allow stands.
        kept = torch.where(kept.isneginf().all(-1, keepdim=True), scores, kept)
        token = torch.multinomial(torch.softmax(kept, -1), 1)[:, 0]
        token = torch.where(running, token, padding(generation_config))
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
