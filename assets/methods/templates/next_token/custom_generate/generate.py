"""A start for a method of your own that chooses one token at a time.

It runs as it stands. What makes it yours is the function `rule`: it is given the scores of every next
token and says which one is taken. Everything else is what any such method needs.
"""

from functools import partial

import torch
from transformers import DynamicCache


def generate(
    model,
    input_ids=None,
    generation_config=None,
    penalty: float = 1.0,
    logits_processor=None,
    stopping_criteria=None,
    streamer=None,
    **kwargs,
):
    """Write text one token at a time, each chosen by a rule.

    Args:
        model: any decoder-only model of transformers.
        input_ids: the prompts, shape (batch, length), padded on the left where they differ in length.
        generation_config: lengths, ends and processors, as for generate().
        penalty: what a token's score loses if the text has it already; 0 changes nothing.
        logits_processor: processors beyond those of the config.
        stopping_criteria: criteria beyond those of the config.
        streamer: is given every token as it is chosen.
        **kwargs: whatever else generate() takes, such as attention_mask.

    Returns:
        The prompts and what follows them, shape (batch, length + new).
    """
    # transformers prepares the prompts, the processors and the criteria, and then calls the loop below.
    return type(model).generate(
        model,
        input_ids=input_ids,
        generation_config=generation_config,
        logits_processor=logits_processor,
        stopping_criteria=stopping_criteria,
        streamer=streamer,
        custom_generate=partial(decode, penalty=penalty, streamer=streamer),
        **kwargs,
    )


# ------------------------------------------------------------------------------------------------------
# EDIT HERE. Arguments of your own go into the signature of generate above, with a kind and a default,
# into the partial there, into the signature of decode, and into the table of the README.
def rule(ids, scores, do_sample, penalty):
    """Return the next token of every row, shape (rows,).

    Args:
        ids: the text so far, shape (rows, length).
        scores: of every next token, shape (rows, vocabulary); temperature and so on are in them already.
        do_sample: whether whoever calls asked for sampling.
        penalty: the argument of generate.
    """
    seen = torch.zeros_like(scores, dtype=torch.bool).scatter(-1, ids, value=True)
    scores = torch.where(seen, scores - penalty, scores)
    if do_sample:
        return torch.multinomial(torch.softmax(scores, -1), 1)[:, 0]
    return scores.argmax(-1)


# ------------------------------------------------------------------------------------------------------


def decode(
    model,
    input_ids,
    logits_processor,
    stopping_criteria,
    generation_config,
    penalty,
    streamer,
    **inputs,
):
    """Choose a token for every row, again and again, until all rows have ended."""
    ids, cache = input_ids, DynamicCache(config=model.config)
    running = torch.ones(len(ids), dtype=torch.bool, device=ids.device)
    while running.any():
        # 1. Read what is new and take the scores of the next token.
        scores = logits_processor(ids, read(model, ids, cache, inputs)[:, -1])
        # 2. Choose. Rows that have ended are filled up.
        token = rule(ids, scores, generation_config.do_sample, penalty)
        token = torch.where(running, token, padding(generation_config))
        # 3. Append, tell whoever watches, and see which rows have ended.
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
