// Display names of the logits processors that a record names.
import { tr } from "./tr.mjs";

/** @type {Record<string, string>} */
const PROCESSOR_TITLES = {
  Temperature: tr("Temperature"),
  TopK: tr("Top-k"),
  TopP: tr("Top-p"),
  TopH: tr("Top-h"),
  MinP: tr("Min-p"),
  Typical: tr("Typical-p"),
  Epsilon: tr("Epsilon cutoff"),
  Eta: tr("Eta cutoff"),
  RepetitionPenalty: tr("Repetition penalty"),
  EncoderRepetitionPenalty: tr("Encoder repetition penalty"),
  NoRepeatNGram: tr("No-repeat n-gram"),
  EncoderNoRepeatNGram: tr("Encoder no-repeat n-gram"),
  NoBadWords: tr("Banned words"),
  MinLength: tr("Minimum length"),
  MinNewTokensLength: tr("Minimum tokens"),
  SequenceBias: tr("Sequence bias"),
  SuppressTokens: tr("Suppressed tokens"),
  SuppressTokensAtBegin: tr("Suppressed first tokens"),
  ForcedBOSToken: tr("Forced first token"),
  ForcedEOSToken: tr("Forced last token"),
  PrefixConstrained: tr("Allowed continuations"),
  ExponentialDecayLengthPenalty: tr("Length decay"),
  InfNanRemove: tr("Remove NaN and inf"),
  LogitNormalization: tr("Renormalise"),
  GreenList: tr("Green list"),
  SynthId: tr("SynthID tournament"),
  LayerContrast: tr("Layer contrast"),
};

/** @param {string} name of a processor */
export const processorTitle = (name) => PROCESSOR_TITLES[name] ?? name;
