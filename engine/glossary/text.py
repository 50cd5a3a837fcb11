"""Terms of a model's output and of text metrics."""

from __future__ import annotations

from engine.statistics.term import Term

TERMS = (
    Term(
        "token",
        "The unit a model reads and writes: a word, a piece of one or a single character, from a "
        "fixed list called its vocabulary. A space at the start belongs to the token and is shown as ·.",
        "A token is not a word: a rare word is written as several.",
    ),
    Term(
        "vocabulary",
        "All the tokens a model knows. At every step it gives each of them a probability.",
    ),
    Term(
        "logit",
        "The score a model gives a token before the scores are turned into probabilities by the "
        "softmax. Only differences between logits mean anything.",
        "A logit is no probability: it may be negative or larger than 1, and adding the same number "
        "to all of them changes nothing.",
    ),
    Term(
        "softmax",
        "Turns scores into probabilities: e to the power of each score, divided by the sum over all "
        "tokens. The order stays as it was.",
    ),
    Term(
        "logsumexp",
        "log Σ exp(logit) over the vocabulary: a logit minus this is the log-probability.",
        codes=("logsumexp",),
    ),
    Term(
        "probability",
        "How large a share of its belief a model gives to one token; over the whole "
        "vocabulary the shares add up to 100 %. The model's own is from before the filters, "
        "the one with your settings from after them.",
        "A high probability says that the model expects the token, not that what it says is true.",
        codes=("probability",),
    ),
    Term(
        "log-probability",
        "The natural logarithm of a probability: 0 for certain, more negative the less likely, −inf for "
        "a token that was removed. Multiplying probabilities becomes adding these.",
        "Closer to 0 is more likely: −0.5 beats −2.",
        codes=("logprob", "raw_logprob", "processed_logprob", "mean_logprob"),
    ),
    Term(
        "nat",
        "The unit of a natural logarithm, as in log-probabilities and their sums. One bit is "
        "0.693 nats.",
    ),
    Term(
        "bit",
        "The unit of surprise and entropy on this page: one bit is the surprise of a fair coin's side. "
        "Every halving of a probability adds one.",
    ),
    Term(
        "special token",
        "A token without text: the end of a text, or where a speaker's turn begins in a "
        "conversation. Texts leave it out; lists of tokens show it in a box.",
        "A prompt that spells one is read as special_tokens says, as the token or as text.",
        codes=("special_token_ids",),
    ),
    Term(
        "surprise",
        "Minus the logarithm of the probability the model gave to the token that came: 0 bits for a "
        "certain one, 1 bit for 50 %, 10 bits for 0.1 %.",
        "A surprising token is not a wrong one; a text without any surprise repeats itself.",
    ),
    Term(
        "entropy",
        "The surprise to be expected of a distribution, before the token is known: 0 bits when one token "
        "is certain, 12 when 4,096 are equally likely.",
        "Low entropy says that the model is sure, not that it is right.",
        codes=("entropy", "mean_entropy", "normed_entropy"),
    ),
    Term(
        "unseen probability",
        "The probability of all tokens that a server did not report. The entropy then has bounds: it is "
        "least with that probability on few tokens, and largest with it spread over all.",
        "A list of 20 tokens is not the distribution: the others may have most of the probability.",
        codes=(
            "served",
            "unseen_low",
            "unseen_high",
            "entropy_low",
            "entropy_high",
            "mean_entropy_low",
            "mean_entropy_high",
        ),
    ),
    Term(
        "perplexity",
        "The number of equally likely tokens that would surprise the model as much as this text did, on "
        "average over its tokens. 1 would be a text without surprise.",
        "Perplexity is not quality: endless repetition has a very low one.",
        codes=("perplexity",),
    ),
    Term(
        "guess",
        "A token that somebody bets on before the step that writes it is shown. It is worth the probability "
        "that the model's own distribution gave to it there, and over many guesses that makes a perplexity.",
        "A guess that the model finds likely is not the right one: what was written may have been drawn.",
    ),
    Term(
        "n-gram",
        "A run of n tokens in a row. A 3-gram is three of them.",
        params=("no_repeat_ngram_size", "max_matching_ngram_size", "ngram_len"),
    ),
    Term(
        "rep-n",
        "The share of a text's n-grams that occurred in it before; repeated 3-grams are rep-3. It shows "
        "how much a text goes round in circles.",
        "None repeated does not make a good text, and names and phrases may well come again.",
        codes=("rep_2", "rep_3", "rep_4", "distinct_1", "distinct_2"),
    ),
    Term(
        "rank",
        "A token's place when all are ordered by probability. The page counts from 1, a trace from 0.",
        codes=("rank", "normed_rank"),
    ),
    Term(
        "forward pass",
        "One run of the model over the text so far, which gives the probabilities of the next token. It is "
        "where nearly all of the time goes.",
        "Not every token costs one: a pass may check several drafted tokens, and a search may need "
        "many for one.",
        codes=("forward_passes", "tokens_per_forward", "passes", "forward", "read", "rows"),
    ),
    Term(
        "cache",
        "What a model has worked out of the tokens that it has read, kept so that the next forward pass "
        "need not read them again.",
        "It saves time and chooses nothing: without it the probabilities are the same up to rounding.",
        codes=("cached",),
    ),
    Term(
        "custom generation method",
        "A function in a separate folder that replaces generate(): it gets the model and "
        "the prompt and returns the text. Here it runs sandboxed, and you see its model "
        "calls.",
        "What it decides by is seen only as far as it goes through the model and through lists of processors.",
        codes=("method", "source", "sha256", "declared", "length"),
        params=("method",),
    ),
    Term(
        "rollback",
        "The method removes tokens it wrote and writes something else in their place. The "
        "next forward pass then reads a text without them.",
        codes=("dropped",),
    ),
    Term(
        "streamer",
        "What a program gives a generation method to be handed the tokens while they come. Often the "
        "prompt's are handed over first.",
        "What a method may still take back it hands over late, at the end or never.",
    ),
    Term(
        "time to first token",
        "The time from the start of decoding to the first token, the reading of the prompt included. "
        "Waiting in the queue and loading the model are not.",
    ),
    Term(
        "step",
        "One decision of a run, recorded when it was made. It writes a token; with drafting it "
        "may write several, and a search may take back what it had.",
        codes=("step", "steps", "elapsed_s", "sentence"),
    ),
    Term(
        "candidate",
        "A token that was considered at a step, with the model's own probability and the one "
        "with your settings.",
        codes=("candidates",),
    ),
    Term(
        "KL divergence",
        "How many more nats of surprise it costs on average to expect one distribution when "
        "another one is true. 0 means that both are the same.",
        "It is no distance: from p to q is not as far as from q to p.",
    ),
    Term(
        "p-value",
        "How probable a result at least as extreme would be if there were nothing to find. A small one "
        "makes chance a poor explanation.",
        "It is not the probability that the text is unmarked, or that the distributions are the same.",
        codes=("p_value",),
    ),
)
