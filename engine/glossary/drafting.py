"""Terms of drafting and watermarks."""

from __future__ import annotations

from engine.statistics.term import Term

TERMS = (
    Term(
        "draft",
        "A few tokens that something fast proposes. The main model then checks them in one "
        "forward pass.",
        codes=("draft", "draft_length", "requested_length", "length_reason", "tokens"),
        params=("num_assistant_tokens", "prompt_lookup_num_tokens"),
    ),
    Term(
        "draft tree",
        "A draft with several guesses for each place: each guess has guesses after it. One pass of the main "
        "model reads all of them, and the branch that holds its own choices is kept.",
        "It saves more passes than a draft in a line of the same depth, and mostly fewer than a line of as many "
        "guesses.",
        codes=("tree", "lines", "draft_passes"),
        params=(
            "draft_tree",
            "draft_tree_depth",
            "draft_tree_top_k",
            "draft_tree_nodes",
            "draft_tree_widths",
        ),
    ),
    Term(
        "main model",
        "The model whose text you want: it judges every drafted token, and writes one itself where "
        "nothing was drafted. Papers call it the target model.",
        codes=("target", "model"),
    ),
    Term(
        "round",
        "One draft and the main model's pass that checks it. A round is one step and writes "
        "at least one token.",
        codes=("rounds",),
    ),
    Term(
        "acceptance rate",
        "Accepted tokens over judged ones. What comes after a rejected token was never judged and does not "
        "count.",
        "A high rate alone saves no time: the draft must also be much cheaper than a pass of "
        "the main model.",
        codes=("acceptance_rate",),
    ),
    Term(
        "p and q",
        "The probabilities that the main model and the draft model give a drafted token, each "
        "with your settings. The token is kept with probability min(1, p ÷ q).",
        codes=("p", "q"),
    ),
    Term(
        "u",
        "A random number between 0 and 1. A drafted token is kept when u is at most p ÷ q.",
        codes=("u",),
    ),
    Term(
        "residual",
        "What the main model gives a token beyond what the draft model gave it, max(p − q, "
        "0), made to add up to 1. After a rejection the next token is drawn from it, which "
        "makes up for what the draft favoured.",
        codes=("resampled", "residual"),
    ),
    Term(
        "bonus token",
        "One more token of the main model after a draft that was accepted whole: its pass has "
        "read one position more than was drafted.",
        codes=("bonus", "final_token_id", "final_source"),
    ),
    Term(
        "lossless",
        "The text is exactly what the main model alone would write, or with sampling has "
        "exactly its distribution.",
        "With sampling the same seed still gives another text than plain decoding: it is the odds that are the same.",
        codes=("report", "checked", "plain_identical"),
    ),
    Term(
        "tokens per pass",
        "How many tokens the run wrote for each forward pass of the main model. Without "
        "drafting it is 1.",
        "It is the most that a speed-up could be if drafts and longer passes cost nothing.",
    ),
    Term(
        "cost ratio",
        "Seconds spent on a draft over seconds of the main model's pass that checks it.",
        codes=("cost_ratio", "draft_s", "verify_s"),
    ),
    Term(
        "speed-up",
        "How many times as fast drafting is as decoding without: expected from acceptance and cost, "
        "or measured against a plain run that nothing disturbed.",
        "On a small machine a pass over several tokens costs more than one over a single token, so few drafts "
        "pay.",
        codes=(
            *("expected_speed_up", "speed_up", "plain_s", "plain_tokens"),
            *("others", "processor_share"),
        ),
    ),
    Term(
        "green list",
        "The share of the vocabulary that a watermark favours at a step. A secret key and "
        "the text before choose it; readers without the key cannot see it.",
        "Not every green token comes from the mark: people write green ones too, as many as chance gives.",
        codes=("green_fraction", "green_candidates"),
        params=("greenlist_ratio",),
    ),
    Term(
        "bias",
        "For watermarks by green lists, what is added to the logit of every green token.",
        "Where the model is sure a bias changes little, so such places carry hardly any mark.",
        codes=("bias", "is_green"),
        params=("bias",),
    ),
    Term(
        "g-value",
        "In SynthID, a keyed bit of a token in its context, one for each key. Marked text has more ones "
        "than chance gives.",
        codes=("g_values",),
        params=("keys",),
    ),
    Term(
        "tournament",
        "How SynthID favours ones without changing the odds on average: in round after round two tokens drawn "
        "from the distribution compete, and the one whose g-value is 1 wins.",
    ),
    Term(
        "z-score",
        "How many standard deviations a count of hits lies above what unmarked text has on average. The "
        "longer the text, the more a small excess counts.",
        "It takes every token for independent, which repeats are not: so p is counted over distinct draws.",
        codes=("z_score",),
        params=("z_threshold",),
    ),
    Term(
        "exit layer",
        "In early exit, the layer after which the draft leaves the model through the final norm and head.",
        codes=("exit_layer",),
        params=("assistant_early_exit",),
    ),
    Term(
        "extra head",
        "In multi-token prediction, a small layer on top of the model that guesses a later token from the "
        "model's last state. Every head guesses one token further than the head before it.",
        "No second model is loaded: the heads use the model's own embedding and output layer.",
    ),
    Term(
        "confidence threshold",
        "In drafting, the probability below which the draft model's token ends a draft. It is as given, or "
        "tuned after every round.",
        codes=("threshold",),
        params=("assistant_confidence_threshold", "assistant_confidence_schedule"),
    ),
)
