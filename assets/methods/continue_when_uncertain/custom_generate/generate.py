"""Entropy-gated look-ahead: where the model is uncertain, try a few ways on and keep the best.

Text is greedy as long as the entropy of the next token is at most a threshold. Above it, the
likeliest tokens are each continued greedily for a few tokens, all in one batch; the one whose way on
has the highest mean log-probability is taken, and the rest of what was tried is thrown away. The gate
is that of entropy-gated branching (Li et al. 2025, arXiv 2503.21961). There a reward model judges
whole reasoning steps; here the model's own log-probabilities judge a few tokens, as nothing else is
at hand.
"""

from functools import partial

import torch
from transformers import DynamicCache


def generate(
    model,
    input_ids=None,
    generation_config=None,
    threshold: float = 2.0,
    branches: int = 3,
    depth: int = 4,
    logits_processor=None,
    stopping_criteria=None,
    streamer=None,
    **kwargs,
):
    """Choose greedily, and by looking ahead where the next token is uncertain.

    Args:
        model: any decoder-only model of transformers.
        input_ids: the prompts, shape (batch, length), padded on the left where they differ in length.
        generation_config: lengths, ends and processors, as for generate().
        threshold: entropy of the next token, in nats, above which to look ahead; 0 or more.
        branches: tokens that are tried there, likeliest first; 2 or more.
        depth: tokens that each of them is continued by; 1 or more.
        logits_processor: processors beyond those of the config.
        stopping_criteria: criteria beyond those of the config.
        streamer: is given every token as it is chosen.
        **kwargs: whatever else generate() takes, such as attention_mask.

    Returns:
        The prompts and what follows them, shape (batch, length + new).

    Raises:
        ValueError: threshold is below 0, branches below 2, or depth below 1.
    """
    if not threshold >= 0:
        raise ValueError(f"threshold = {threshold} must be 0 or more.")
    if branches < 2 or depth < 1:
        raise ValueError(f"branches = {branches} must be 2 or more, and depth = {depth} 1 or more.")
    # transformers prepares the prompts, the processors and the criteria, and then calls the loop below.
    return type(model).generate(
        model,
        input_ids=input_ids,
        generation_config=generation_config,
        logits_processor=logits_processor,
        stopping_criteria=stopping_criteria,
        streamer=streamer,
        custom_generate=partial(
            decode, threshold=threshold, branches=branches, depth=depth, streamer=streamer
        ),
        **kwargs,
    )


def decode(
    model,
    input_ids,
    logits_processor,
    stopping_criteria,
    generation_config,
    threshold,
    branches,
    depth,
    streamer,
    **inputs,
):
    """Choose a token for every row, again and again, until all rows have ended."""
    ids, cache = input_ids, DynamicCache(config=model.config)
    pad = padding(generation_config)
    running = torch.ones(len(ids), dtype=torch.bool, device=ids.device)
    logits = read(model, ids, cache, inputs)[:, -1]
    cache.activate_past_recording()  # what a sliding window would forget can now be gone back to
    while running.any():
        logprobs = torch.log_softmax(logits_processor(ids, logits), -1)
        uncertain = running & (entropy(logprobs) > threshold)
        if uncertain.any():
            ends = ends_of(generation_config, ids.device)
            best, ahead = look_ahead(
                model, ids, logprobs, cache, inputs, logits_processor, branches, depth, ends
            )
            # Rows that are certain, or have ended, stay with their likeliest token: branch 0.
            best = torch.where(uncertain, best, 0)
            token = logprobs.topk(branches).indices.gather(-1, best[:, None])[:, 0]
            # Of each row the branch that was taken remains, and of it the first token.
            rows = torch.arange(len(ids), device=ids.device)
            cache.batch_select_indices(rows * branches + best)
            cache.crop(-(depth - 1))
            logits = ahead[rows, best]
        else:
            token, logits = logprobs.argmax(-1), None
        token = torch.where(running, token, pad)
        ids = torch.cat([ids, token[:, None]], -1)
        if streamer is not None:
            streamer.put(token.cpu())
        running &= ~stopping_criteria(ids, None)
        if logits is None and running.any():
            logits = read(model, ids, cache, inputs)[:, -1]
    if streamer is not None:
        streamer.end()
    return ids


def look_ahead(model, ids, logprobs, cache, inputs, logits_processor, branches, depth, ends):
    """Try several next tokens for every row.

    Returns:
        The best branch of each row, shape (rows,), and the logits after the first token of each branch,
        shape (rows, branches, vocabulary). The cache is left with every branch in it, depth tokens longer.
    """
    rows = len(ids)
    first = logprobs.topk(branches)
    paths = torch.cat(
        [ids.repeat_interleave(branches, 0), first.indices.reshape(-1, 1)], -1
    )  # shape (rows * branches, length); the branches of a row stand together
    total, count = first.values.reshape(-1).clone(), torch.ones(rows * branches, device=ids.device)
    ended = torch.isin(paths[:, -1], ends)
    cache.batch_repeat_interleave(branches)
    if inputs.get("attention_mask") is not None:
        mask = inputs["attention_mask"].repeat_interleave(branches, 0)
        inputs = {**inputs, "attention_mask": mask}
    ahead = torch.empty(0)  # set in the first step
    for step in range(depth):
        logits = read(model, paths, cache, inputs)[:, -1]
        if step == 0:
            ahead = logits.view(rows, branches, -1)
        scores = torch.empty_like(logits)
        for branch in range(branches):  # processors expect as many rows as there are prompts
            own = slice(branch, None, branches)
            scores[own] = logits_processor(paths[own], logits[own])
        best = torch.log_softmax(scores, -1).max(-1)
        # What would follow the end of a text counts for nothing.
        total, count = total + torch.where(ended, 0, best.values), count + (~ended).float()
        ended |= torch.isin(best.indices, ends)
        paths = torch.cat([paths, best.indices[:, None]], -1)
    return (total / count).view(rows, branches).argmax(-1), ahead


def entropy(logprobs):
    """Return the entropy of each row in nats; what has no probability counts for nothing."""
    return -(logprobs.exp() * logprobs.clamp(min=torch.finfo(logprobs.dtype).min)).sum(-1)


def ends_of(generation_config, device):
    """Return the ids that end a text, shape (number of them,)."""
    ends = generation_config.eos_token_id
    ends = ends if isinstance(ends, list) else [] if ends is None else [ends]
    return torch.tensor(ends, dtype=torch.long, device=device)


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
