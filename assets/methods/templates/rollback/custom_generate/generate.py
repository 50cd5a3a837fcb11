"""A start for a method of your own that takes tokens back.

It runs as it stands. What makes it yours is the function `back`: it looks at the text after every token
and says how many to take back. The first of them is then forbidden at its place, so that the text goes
on in another way.
"""

from functools import partial

import torch
from transformers import DynamicCache


def generate(
    model,
    input_ids=None,
    generation_config=None,
    least: float = 0.2,
    max_returns: int = 10,
    logits_processor=None,
    stopping_criteria=None,
    streamer=None,
    **kwargs,
):
    """Write text, and take back what a rule objects to.

    Args:
        model: any decoder-only model of transformers.
        input_ids: one prompt, shape (1, length).
        generation_config: lengths, ends and processors, as for generate().
        least: probability of a token below which it and the one before are taken back; 0 to 1.
        max_returns: times to go back; after that, everything stays; 0 or more.
        logits_processor: processors beyond those of the config.
        stopping_criteria: criteria beyond those of the config.
        streamer: is given the tokens at the end, as until then they may be taken back.
        **kwargs: whatever else generate() takes, such as attention_mask.

    Returns:
        The prompts and what follows them, shape (batch, length + new).

    Raises:
        ValueError: an argument is out of its range, or there is more than one prompt.
    """
    if not 0 <= least <= 1 or max_returns < 0:
        raise ValueError(
            f"least = {least} must be 0 to 1, and max_returns = {max_returns} 0 or more."
        )
    # transformers prepares the prompts, the processors and the criteria, and then calls the loop below.
    return type(model).generate(
        model,
        input_ids=input_ids,
        generation_config=generation_config,
        logits_processor=logits_processor,
        stopping_criteria=stopping_criteria,
        streamer=streamer,
        custom_generate=partial(decode, least=least, max_returns=max_returns, streamer=streamer),
        **kwargs,
    )


# ------------------------------------------------------------------------------------------------------
# EDIT HERE. Arguments of your own go into the signature of generate above, with a kind and a default,
# into the partial there, into the signature of decode, and into the table of the README.
def back(new, probability, least):
    """Return how many of the last tokens to take back, 0 for none.

    Here: two, where even the token that was chosen is improbable, as the one before led to it.

    Args:
        new: ids after the prompt, the one just chosen included.
        probability: of the one just chosen.
        least: the argument of generate.
    """
    return 2 if probability < least else 0


# ------------------------------------------------------------------------------------------------------


def decode(
    model,
    input_ids,
    logits_processor,
    stopping_criteria,
    generation_config,
    least,
    max_returns,
    streamer,
    **inputs,
):
    """Choose one token after another until the text has ended; take back what the rule says."""
    if len(input_ids) != 1:
        raise ValueError(
            f"This method takes one prompt at a time, and {len(input_ids)} were given."
        )
    ids, cache = input_ids, DynamicCache(config=model.config)
    start, returns = ids.shape[1], 0
    forbidden = {}  # place in the text -> ids that must not stand there
    cache.activate_past_recording()  # what a sliding window would forget can now be gone back to
    logits = read(model, ids, cache, inputs)[:, -1]
    while True:
        # 1. Choose among what is not forbidden here.
        scores = logits_processor(ids, logits).clone()
        scores[:, forbidden.get(ids.shape[1], [])] = -torch.inf
        probabilities = torch.softmax(scores, -1)
        drawn = torch.multinomial(probabilities, 1)[:, 0]
        token = drawn if generation_config.do_sample else probabilities.argmax(-1)
        ids = torch.cat([ids, token[:, None]], -1)
        # 2. Ask the rule; never go back into the prompt.
        new = ids[0, start:].tolist()
        count = min(back(new, float(probabilities[0, token]), least), len(new))
        if count > 0 and returns < max_returns:
            place = ids.shape[1] - count
            # What was forbidden further on belonged to the text that is taken back.
            forbidden = {p: tokens for p, tokens in forbidden.items() if p <= place}
            forbidden.setdefault(place, []).append(int(ids[0, place]))
            ids, returns = ids[:, :place], returns + 1
            # One less than the text, so that its last token is read again: the next follows from it.
            cache.crop(place - 1 - cache.get_seq_length())
        elif stopping_criteria(ids, None).all():
            break
        # 3. Read what the cache does not hold.
        logits = read(model, ids, cache, inputs)[:, -1]
    if streamer is not None:  # only now is it certain what stands
        for token in ids[0, start:]:
            streamer.put(token[None].cpu())
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
