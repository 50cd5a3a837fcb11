"""Terms of token selection: sampling, searches, contrasts. Each filter has its own in engine/processors."""

from __future__ import annotations

from engine.statistics.term import Term

TERMS = (
    Term(
        "processor",
        "A rule that changes the scores before a token is chosen: it may reshape them, as temperature does, "
        "or remove tokens, as top-k does. They act one after the other.",
        codes=("removed_by",),
    ),
    Term(
        "probability kept",
        "The share of probability that the tokens left by a filter had just before it. 1 "
        "minus it was removed and is spread over those that are left.",
        codes=("kept_mass",),
    ),
    Term(
        "allowed probability",
        "The probability Z that the model gives to all tokens that a grammar allows at a place of the text: the "
        "smaller it is, the more the grammar has to push. Where it removed the most probable token, the record "
        "says which part of that fits and what was expected after it.",
        "The sum of ln Z over a text says how much the grammar pushed in all.",
        codes=(
            "allowed",
            "log_allowed",
            "hardest",
            "known",
            "wanted",
            "wanted_p",
            "fits",
            "expected",
            "forced",
            "may_end",
            "odd_split",
        ),
    ),
    Term(
        "seed",
        "The number that random numbers are made from. The same seed, settings and software draw the "
        "same text again.",
        "No seed is better than another, and one text says little about a setting: try several.",
        params=("seed",),
    ),
    Term(
        "draw",
        "How chance chooses a token: each is as likely to win as its probability with your "
        "settings says. Here it is a race, the one that torch.multinomial runs.",
        "The most probable token need not win: at 40 % it loses more often than not.",
        codes=("draw", "racers"),
        params=("do_sample",),
    ),
    Term(
        "noise",
        "A random number e that each token draws in the race, on average 1 and more often small than large. "
        "It is divided by the token's probability.",
        codes=("noise",),
    ),
    Term(
        "arrival",
        "A token's noise over its probability with your settings: its time in the race. The "
        "smallest wins, so that over many draws each token wins exactly in proportion to its "
        "probability.",
        codes=("arrival",),
    ),
    Term(
        "beam",
        "One of the texts that a search carries along. At each step all of them are continued, and the best "
        "continuations are kept.",
        "More beams find more probable texts, which are not always better ones.",
        codes=("num_beams",),
        params=("num_beams",),
    ),
    Term(
        "sum of log-probabilities",
        "What a search adds up along a text, penalties included: the log-probability of the whole. "
        "It only falls as the text grows.",
        codes=("sum_logprobs",),
    ),
    Term(
        "hypothesis",
        "A text that a search has finished, with its score. The best one is the result.",
    ),
    Term(
        "score",
        "What a search ranks its finished texts by: the sum of log-probabilities divided by the length to the "
        "power of the length penalty. In contrastive search, confidence minus degeneration penalty.",
        "It compares texts of one run; it says nothing about how good they are.",
        codes=("score",),
    ),
    Term(
        "length penalty",
        "The power of the length by which a text's sum is divided to give its score. Sums are negative, "
        "so a larger one favours longer texts.",
        "Despite its name, a larger length penalty punishes length less.",
        codes=("length_penalty",),
        params=("length_penalty",),
    ),
    Term(
        "margin",
        "A candidate's sum minus that of the last one that was kept at its step. Below 0 it missed the cut by so "
        "much.",
        codes=("margin",),
    ),
    Term(
        "group",
        "In diverse beam search, beams that choose together, after the groups before them.",
        codes=("group",),
        params=("num_beam_groups",),
    ),
    Term(
        "diversity penalty",
        "What a token costs for each beam of an earlier group that has taken it at this step.",
        "It works on single tokens at the same step: groups may say the same thing one step later.",
        codes=("diversity_penalty", "penalised_by"),
        params=("diversity_penalty",),
    ),
    Term(
        "hidden state",
        "The list of numbers that represents a token in its context inside the model. "
        "Similar uses have similar numbers.",
    ),
    Term(
        "cosine",
        "How alike the directions of two hidden states are: 1 for the same, 0 for unrelated.",
        codes=("max_cosine",),
    ),
    Term(
        "confidence",
        "In contrastive search, (1 − α) times a candidate's probability with your settings.",
        codes=("confidence",),
    ),
    Term(
        "degeneration penalty",
        "In contrastive search, α times the largest cosine between the hidden state a candidate would have and "
        "that of any earlier token. It is subtracted from the confidence.",
        "A high one does not mean that the word was there before: it means that the model "
        "holds both for alike.",
        codes=("degeneration_penalty",),
        params=("penalty_alpha",),
    ),
    Term(
        "layer",
        "One of the stages that a text passes through inside the model. Each refines what the one before "
        "it made.",
        codes=("layer", "layers"),
    ),
    Term(
        "logit lens",
        "Reading an earlier layer through the model's final norm and output head, as if it were the last. "
        "DoLa itself reads it without the norm.",
        "Earlier layers were not trained to be read, so what they seem to say is a hint only.",
        codes=("normed_top", "normed_logprob"),
    ),
    Term(
        "premature layer",
        "In DoLa, the candidate layer whose distribution differs most from the last one's at a step. What it "
        "says is subtracted.",
        codes=("premature_layer",),
        params=("dola_layers",),
    ),
    Term(
        "JSD",
        "Jensen–Shannon divergence: how far two distributions are from their middle. DoLa averages it over the "
        "vocabulary instead of adding up, so its numbers are tiny.",
        "Only the order of the layers counts, not the size of the number.",
        codes=("divergence", "normed_divergence"),
    ),
    Term(
        "contrast",
        "In DoLa, a token's log-probability in the last layer minus that in the premature layer: how much "
        "the later layers added to it.",
        codes=("contrast_top", "final_top"),
    ),
)
