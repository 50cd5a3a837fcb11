"""Minimum Bayes risk: draw several texts and return the one that is most like the others.

The likeliest text is often a poor one; a text that agrees with many draws stands for what the model
believes. So a number of texts are drawn in one batch, and each is scored by the mean likeness to the
others: the F1 of the n-grams that two texts have in common, averaged over n. Whoever has the highest
mean is returned. (Eikema and Aziz 2020, arXiv 2005.10283, who measure likeness by METEOR, which needs
words and a language; n-grams of tokens need neither.)
"""

import copy
from collections import Counter

import torch


def generate(
    model,
    input_ids=None,
    generation_config=None,
    num_samples: int = 8,
    max_ngram: int = 4,
    logits_processor=None,
    stopping_criteria=None,
    streamer=None,
    **kwargs,
):
    """Draw several texts for every prompt and return the one most like the others.

    Args:
        model: any decoder-only model of transformers.
        input_ids: the prompts, shape (batch, length), padded on the left where they differ in length.
        generation_config: lengths, ends and processors, as for generate().
        num_samples: texts to draw for every prompt; 1 or more.
        max_ngram: the longest n-grams that are compared; 1 or more.
        logits_processor: processors beyond those of the config.
        stopping_criteria: criteria beyond those of the config.
        streamer: is given the tokens at the end, as only then is it known which text they are of.
        **kwargs: whatever else generate() takes, such as attention_mask.

    Returns:
        The prompts and what follows them, shape (batch, length + new).

    Raises:
        ValueError: num_samples or max_ngram is below 1.
    """
    if num_samples < 1 or max_ngram < 1:
        raise ValueError(
            f"num_samples = {num_samples} and max_ngram = {max_ngram} must both be 1 or more."
        )
    drawing = {"do_sample": True, "num_beams": 1, "num_return_sequences": num_samples}
    drawing["return_dict_in_generate"] = False
    if generation_config is None:
        kwargs |= drawing
    else:
        generation_config = copy.deepcopy(generation_config)
        generation_config.update(**drawing)
    # Drawing is left to transformers: it has its own loop for that.
    drawn = type(model).generate(
        model,
        input_ids=input_ids,
        generation_config=generation_config,
        logits_processor=logits_processor,
        stopping_criteria=stopping_criteria,
        **kwargs,
    )
    prompts = input_ids if input_ids is not None else kwargs["inputs"]
    start, ends = prompts.shape[1], ends_of(kwargs, generation_config, model.generation_config)
    best, longest = [], 0
    for samples in drawn.view(len(prompts), num_samples, -1):  # shape (num_samples, length + new)
        texts = [until_end(row, ends) for row in samples[:, start:].tolist()]
        chosen = likest(texts, max_ngram)
        best.append(samples[chosen])
        longest = max(longest, len(texts[chosen]))
    ids = torch.stack(best)[:, : start + longest]  # less the padding that only other samples needed
    if streamer is not None:
        streamer.put(prompts.cpu())
        for column in ids[:, start:].T:
            streamer.put(column.cpu())
        streamer.end()
    return ids


def likest(texts, max_ngram):
    """Return the index of the text with the highest mean likeness to the others, the first of equals."""
    means = [
        sum(likeness(text, other, max_ngram) for j, other in enumerate(texts) if j != i)
        for i, text in enumerate(texts)
    ]
    return means.index(max(means))


def likeness(text, other, max_ngram):
    """Return the mean over n of the F1 of the n-grams of two texts, from 0 to 1."""
    values = []
    for n in range(1, max_ngram + 1):
        first, second = counted(text, n), counted(other, n)
        size = first.total() + second.total()
        values.append(2 * (first & second).total() / size if size else float(text == other))
    return sum(values) / len(values)


def counted(text, n):
    """Return how often a text has each of its n-grams."""
    return Counter(tuple(text[i : i + n]) for i in range(len(text) - n + 1))


def until_end(row, ends):
    """Return a text up to its end, the token that ends it included, without the padding after it."""
    return row[: next((i + 1 for i, token in enumerate(row) if token in ends), len(row))]


def ends_of(kwargs, *configs):
    """Return the ids that end a text, as whoever says so first has them."""
    said = [kwargs.get("eos_token_id"), *(c.eos_token_id for c in configs if c is not None)]
    ends = next((value for value in said if value is not None), [])
    return ends if isinstance(ends, list) else [ends]
