"""A start for a method of your own that guesses several tokens and has the model check them in one pass.

It runs as it stands. What makes it yours is the function `guess`: it proposes what might come next.
The model reads the proposal at once and keeps it as far as it would have written the same, so that the
text is the greedy one whatever is guessed; only the number of passes differs.
"""

from functools import partial

import torch
from transformers import DynamicCache


def generate(
    model,
    input_ids=None,
    generation_config=None,
    ngram: int = 2,
    guesses: int = 5,
    logits_processor=None,
    stopping_criteria=None,
    streamer=None,
    **kwargs,
):
    """Write greedy text in fewer passes, by checking guesses.

    Args:
        model: any decoder-only model of transformers.
        input_ids: one prompt, shape (1, length).
        generation_config: lengths, ends and processors, as for generate().
        ngram: tokens at the end of the text that are looked up further up; 1 or more.
        guesses: tokens that are taken from there and checked at once; 1 or more.
        logits_processor: processors beyond those of the config.
        stopping_criteria: criteria beyond those of the config.
        streamer: is given every token as it is kept.
        **kwargs: whatever else generate() takes, such as attention_mask.

    Returns:
        The prompts and what follows them, shape (batch, length + new).

    Raises:
        ValueError: an argument is below 1, or there is more than one prompt.
    """
    if ngram < 1 or guesses < 1:
        raise ValueError(f"ngram = {ngram} and guesses = {guesses} must both be 1 or more.")
    # transformers prepares the prompts, the processors and the criteria, and then calls the loop below.
    return type(model).generate(
        model,
        input_ids=input_ids,
        generation_config=generation_config,
        logits_processor=logits_processor,
        stopping_criteria=stopping_criteria,
        streamer=streamer,
        custom_generate=partial(decode, ngram=ngram, guesses=guesses, streamer=streamer),
        **kwargs,
    )


# ------------------------------------------------------------------------------------------------------
# EDIT HERE. Arguments of your own go into the signature of generate above, with a kind and a default,
# into the partial there, into the signature of decode, and into the table of the README.
def guess(text, ngram, guesses):
    """Return tokens that may come next, as a list; an empty one where there is no telling.

    Here: what followed when the last few tokens stood in the text before, the latest such place first.

    Args:
        text: ids so far, the prompt included.
        ngram: the argument of generate.
        guesses: likewise; at most as many are returned.
    """
    for place in range(len(text) - ngram - 1, -1, -1):
        if text[place : place + ngram] == text[-ngram:]:
            return text[place + ngram : place + ngram + guesses]
    return []


# ------------------------------------------------------------------------------------------------------


def decode(
    model,
    input_ids,
    logits_processor,
    stopping_criteria,
    generation_config,
    ngram,
    guesses,
    streamer,
    **inputs,
):
    """Guess, check and keep, again and again, until the text has ended."""
    if len(input_ids) != 1:
        raise ValueError(
            f"This method takes one prompt at a time, and {len(input_ids)} were given."
        )
    ids, cache = input_ids, DynamicCache(config=model.config)
    cache.activate_past_recording()  # what a sliding window would forget can now be gone back to
    ended = False
    while not ended:
        # 1. Guess, and let the model read all guesses in one pass; at first the prompt with them.
        guessed = guess(ids[0].tolist(), ngram, guesses)
        count = len(guessed)
        tried = torch.cat([ids, ids.new_tensor([guessed])], -1)
        if "logits_to_keep" in inputs:  # models that can leave out logits must give all of these
            inputs["logits_to_keep"] = count + 1
        logits = read(model, tried, cache, inputs)[:, -(count + 1) :]
        # 2. Keep guesses as long as the model says the same, and then what it says instead.
        for i in range(count + 1):
            token = logits_processor(ids, logits[:, i]).argmax(-1)
            ids = torch.cat([ids, token[:, None]], -1)
            if streamer is not None:
                streamer.put(token.cpu())
            ended = bool(stopping_criteria(ids, None).all())
            if ended or i == count or int(token) != guessed[i]:
                break
        # 3. Forget what was read and is not in the text. The last token is read with the next guesses.
        cache.crop(min(0, ids.shape[1] - 1 - cache.get_seq_length()))
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
