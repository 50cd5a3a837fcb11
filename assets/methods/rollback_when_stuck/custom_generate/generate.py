"""Rollback: when the text begins to go in circles, go back to where the circle began and go on elsewhere.

Text is chosen as usual, greedily or by sampling. When its last few tokens have been written several
times, they are taken back, the cache with them, and the token that began them is forbidden at that
place; then the text goes on from there. Taking tokens back is what SequenceMatch trains a model to do
by itself, with a backspace (Cundy and Ermon 2023, arXiv 2306.05426); here a rule decides, and any
model will do.
"""

from functools import partial

import torch
from transformers import DynamicCache


def generate(
    model,
    input_ids=None,
    generation_config=None,
    ngram: int = 4,
    times: int = 2,
    max_rollbacks: int = 20,
    logits_processor=None,
    stopping_criteria=None,
    streamer=None,
    **kwargs,
):
    """Choose as usual, and take back what repeats.

    Args:
        model: any decoder-only model of transformers.
        input_ids: one prompt, shape (1, length).
        generation_config: lengths, ends and processors, as for generate().
        ngram: tokens that make a repetition; 1 or more.
        times: occurrences in the new text at which they are taken back; 2 or more.
        max_rollbacks: times to go back; after that, repetitions stand; 0 or more.
        logits_processor: processors beyond those of the config.
        stopping_criteria: criteria beyond those of the config.
        streamer: is given the tokens at the end, as until then they may be taken back.
        **kwargs: whatever else generate() takes, such as attention_mask.

    Returns:
        The prompts and what follows them, shape (batch, length + new).

    Raises:
        ValueError: an argument is out of its range, or there is more than one prompt.
    """
    if ngram < 1 or times < 2 or max_rollbacks < 0:
        raise ValueError(
            f"ngram = {ngram} must be 1 or more, times = {times} 2 or more, and"
            f" max_rollbacks = {max_rollbacks} 0 or more."
        )
    # transformers prepares the prompts, the processors and the criteria, and then calls the loop below.
    return type(model).generate(
        model,
        input_ids=input_ids,
        generation_config=generation_config,
        logits_processor=logits_processor,
        stopping_criteria=stopping_criteria,
        streamer=streamer,
        custom_generate=partial(
            decode, ngram=ngram, times=times, max_rollbacks=max_rollbacks, streamer=streamer
        ),
        **kwargs,
    )


def decode(
    model,
    input_ids,
    logits_processor,
    stopping_criteria,
    generation_config,
    ngram,
    times,
    max_rollbacks,
    streamer,
    **inputs,
):
    """Choose one token after another until the text has ended; take back what repeats."""
    if len(input_ids) != 1:
        raise ValueError(
            f"This method takes one prompt at a time, and {len(input_ids)} were given."
        )
    ids, cache = input_ids, DynamicCache(config=model.config)
    start, rollbacks = ids.shape[1], 0
    forbidden = {}  # place in the text -> ids that must not stand there
    cache.activate_past_recording()  # what a sliding window would forget can now be gone back to
    logits = read(model, ids, cache, inputs)[:, -1]
    while True:
        scores = logits_processor(ids, logits).clone()
        scores[:, forbidden.get(ids.shape[1], [])] = -torch.inf
        token = pick(scores, generation_config)
        ids = torch.cat([ids, token[:, None]], -1)
        if rollbacks < max_rollbacks and occurrences(ids[0, start:].tolist(), ngram) >= times:
            place = ids.shape[1] - ngram
            # What was forbidden further on belonged to the text that is taken back.
            forbidden = {p: tokens for p, tokens in forbidden.items() if p <= place}
            forbidden.setdefault(place, []).append(int(ids[0, place]))
            ids, rollbacks = ids[:, :place], rollbacks + 1
            # One less than the text, so that its last token is read again: the next follows from it.
            cache.crop(place - 1 - cache.get_seq_length())
        elif stopping_criteria(ids, None).all():
            break
        logits = read(model, ids, cache, inputs)[:, -1]
    if streamer is not None:  # only now is it certain what stands
        for token in ids[0, start:]:
            streamer.put(token[None].cpu())
        streamer.end()
    return ids


def occurrences(text, ngram):
    """Return how often a text has its last few tokens, those at its end included."""
    last = text[-ngram:]
    return sum(text[i : i + ngram] == last for i in range(len(text) - ngram + 1))


def pick(scores, generation_config):
    """Return the next token of each row, drawn where the config says do_sample."""
    if generation_config.do_sample:
        return torch.multinomial(torch.softmax(scores, -1), 1)[:, 0]
    return scores.argmax(-1)


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
