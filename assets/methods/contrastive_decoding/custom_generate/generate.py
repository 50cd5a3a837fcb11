"""Contrastive decoding with an amateur that is the same model, made weaker.

Among the tokens that the model finds plausible, the one is taken that it prefers most over what an
amateur would say: the difference of their log-probabilities is highest. The paper's amateur is a
smaller model. It names two more ways to an amateur (section 3.4), and these need no second model: it
sees only the last tokens of the prompt, and has a temperature of its own. The paper then searches with
beams; here the text is greedy. (Li et al. 2022, arXiv 2210.15097)
"""

import math
from functools import partial

import torch
from transformers import DynamicCache


def generate(
    model,
    input_ids=None,
    generation_config=None,
    alpha: float = 0.1,
    amateur_context: int = 1,
    amateur_temperature: float = 1.0,
    logits_processor=None,
    stopping_criteria=None,
    streamer=None,
    **kwargs,
):
    """Choose the plausible token that the model prefers most over its amateur.

    Args:
        model: any decoder-only model of transformers.
        input_ids: the prompts, shape (batch, length), padded on the left where they differ in length.
        generation_config: lengths, ends and processors, as for generate().
        alpha: tokens below this share of the highest probability are not plausible; above 0, at most 1.
        amateur_context: tokens at the end of the prompt that the amateur sees, and all new ones; 1 or more.
        amateur_temperature: divides the amateur's logits; above 0.
        logits_processor: processors beyond those of the config.
        stopping_criteria: criteria beyond those of the config.
        streamer: is given every token as it is chosen.
        **kwargs: whatever else generate() takes, such as attention_mask.

    Returns:
        The prompts and what follows them, shape (batch, length + new).

    Raises:
        ValueError: an argument is out of its range.
    """
    if not 0 < alpha <= 1:
        raise ValueError(f"alpha = {alpha} must be above 0 and at most 1.")
    if amateur_context < 1 or not amateur_temperature > 0:
        raise ValueError(
            f"amateur_context = {amateur_context} must be 1 or more, and"
            f" amateur_temperature = {amateur_temperature} above 0."
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
            decode,
            alpha=alpha,
            amateur_context=amateur_context,
            amateur_temperature=amateur_temperature,
            streamer=streamer,
        ),
        **kwargs,
    )


def decode(
    model,
    input_ids,
    logits_processor,
    stopping_criteria,
    generation_config,
    alpha,
    amateur_context,
    amateur_temperature,
    streamer,
    **inputs,
):
    """Choose a token for every row, again and again, until all rows have ended."""
    ids, cache = input_ids, DynamicCache(config=model.config)
    rows = len(ids)
    running = torch.ones(rows, dtype=torch.bool, device=ids.device)
    mask = inputs.get("attention_mask")
    mask = torch.ones_like(ids) if mask is None else mask  # None where no prompt is padded
    inputs["attention_mask"] = masks(mask, amateur_context)
    while running.any():
        # One pass for both: every text stands twice, first the model's rows, then the amateur's.
        logits = read(model, ids.repeat(2, 1), cache, inputs)[:, -1]
        scores = logits_processor(ids, logits[:rows])
        model_says = torch.log_softmax(scores, -1)
        amateur_says = torch.log_softmax(logits[rows:] / amateur_temperature, -1)
        bar = model_says.max(-1, keepdim=True).values + math.log(alpha)
        contrast = (model_says - amateur_says).masked_fill(model_says < bar, -torch.inf)
        # Of equals, which only rounding tells apart, the likeliest: so where both say the same.
        best = contrast >= contrast.max(-1, keepdim=True).values - 1e-4
        token = model_says.masked_fill(~best, -torch.inf).argmax(-1)
        token = torch.where(running, token, padding(generation_config))
        ids = torch.cat([ids, token[:, None]], -1)
        if streamer is not None:
            streamer.put(token.cpu())
        running &= ~stopping_criteria(ids, None)
    if streamer is not None:
        streamer.end()
    return ids


def masks(mask, amateur_context):
    """Return the mask of the model's rows and below it the amateur's, shape (2 * batch, length).

    From the amateur, the prompt but for its last tokens is hidden as padding is.
    """
    hidden = mask.clone()
    hidden[:, :-amateur_context] = 0
    return torch.cat([mask, hidden])


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
