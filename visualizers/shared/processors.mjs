// What people call the processors that a record names.

const TITLES = {
  Temperature: "Temperature",
  TopK: "Top-k",
  TopP: "Top-p",
  TopH: "Top-h",
  MinP: "Min-p",
  Typical: "Typical-p",
  Epsilon: "Epsilon cutoff",
  Eta: "Eta cutoff",
  RepetitionPenalty: "Repetition penalty",
  EncoderRepetitionPenalty: "Encoder repetition penalty",
  NoRepeatNGram: "No-repeat n-gram",
  EncoderNoRepeatNGram: "Encoder no-repeat n-gram",
  NoBadWords: "Banned words",
  MinLength: "Minimum length",
  MinNewTokensLength: "Minimum tokens",
  SequenceBias: "Sequence bias",
  SuppressTokens: "Suppressed tokens",
  SuppressTokensAtBegin: "Suppressed first tokens",
  ForcedBOSToken: "Forced first token",
  ForcedEOSToken: "Forced last token",
  PrefixConstrained: "Allowed continuations",
  ExponentialDecayLengthPenalty: "Length decay",
  InfNanRemove: "Remove NaN and inf",
  LogitNormalization: "Renormalise",
  GreenList: "Green list",
  SynthId: "SynthID tournament",
  LayerContrast: "Layer contrast",
};

/** @param {string} name of a processor */
export const titleOf = (name) => TITLES[name] ?? name;
