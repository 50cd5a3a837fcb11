// What the rounds add up to: tokens, passes, seconds, and acceptance by place in the draft.
import { acceptedOf } from "./words.mjs";

export class Sums {
  rounds = 0;
  tokens = 0;
  drafted = 0;
  accepted = 0;
  judged = 0;
  draftForwards = 0;
  draftS = 0;
  verifyS = 0;
  // Of every place in a draft: how often accepted, how often judged.
  places = [];
  // Tokens per target pass after every round, and the highest number that a chart of it all needs.
  pace = [];
  top = 1;

  /** @param {Step} step */
  add(step) {
    const { tokens, draft_forwards, draft_s, verify_s, requested_length } = step.detail;
    this.rounds += 1;
    this.tokens += step.emit.length;
    this.drafted += tokens.length;
    this.accepted += acceptedOf(step);
    this.draftForwards += draft_forwards;
    this.draftS += draft_s;
    this.verifyS += verify_s;
    for (const [i, token] of tokens.entries()) this.#judge(token, i);
    this.pace.push(this.perPass);
    this.top = Math.max(this.top, requested_length, tokens.length, this.perPass);
  }

  #judge(token, i) {
    if (token.status === "unverified") return;
    this.places[i] ??= [0, 0];
    this.places[i][1] += 1;
    this.judged += 1;
    if (token.status === "accepted") this.places[i][0] += 1;
  }

  get perPass() {
    return this.tokens / this.rounds;
  }

  get rate() {
    return this.judged ? this.accepted / this.judged : 0;
  }

  get draftLength() {
    return this.drafted / this.rounds;
  }

  // What a draft costs beside a pass of the target.
  get relativeCost() {
    return this.verifyS ? this.draftS / this.verifyS : 0;
  }

  // How many times as fast as plain decoding the papers' formula expects it to be.
  get expectedGain() {
    const { rate, draftLength: length } = this;
    const tokens = rate > 0.9999 ? length + 1 : (1 - rate ** (length + 1)) / (1 - rate);
    return tokens / (1 + this.relativeCost);
  }
}
