// A recording as a WAV file: read again byte by byte, and by Python's own reader.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";
import {
  encodeWav,
  levelShare,
  measureLevel,
  SAMPLE_RATE,
} from "../../playground/client/shell/wav.mjs";

const READ = `
import io, json, sys, wave
with wave.open(io.BytesIO(sys.stdin.buffer.read())) as file:
    frames = file.readframes(file.getnframes())
    print(json.dumps({
        "channels": file.getnchannels(), "width": file.getsampwidth(), "rate": file.getframerate(),
        "samples": [int.from_bytes(frames[i:i+2], "little", signed=True) for i in range(0, len(frames), 2)],
    }))
`;

const python = process.env.PYTHON ?? ".venv/bin/python";
const readBack = (buffer) =>
  JSON.parse(execFileSync(python, ["-c", READ], { input: Buffer.from(buffer) }).toString());

test("Python reads a recording as it was", () => {
  const samples = Float32Array.from([0, 0.5, -0.5, 1, -1, 2, -2, 1 / 32768, 0.25]);
  const told = readBack(encodeWav(samples));
  assert.deepEqual(
    { channels: told.channels, width: told.width, rate: told.rate },
    { channels: 1, width: 2, rate: SAMPLE_RATE },
  );
  assert.deepEqual(told.samples, [0, 16384, -16384, 32767, -32768, 32767, -32768, 1, 8192]);
});

test("a recording of nothing is a whole file, and another rate is said", () => {
  assert.equal(encodeWav(new Float32Array(0)).byteLength, 44);
  assert.deepEqual(readBack(encodeWav(new Float32Array(3), 8000)), {
    channels: 1,
    width: 2,
    rate: 8000,
    samples: [0, 0, 0],
  });
});

test("how loud it is, in decibels below full scale", () => {
  assert.equal(measureLevel(Float32Array.from([1, -1, 1])), 0);
  assert.equal(measureLevel(Float32Array.from([0.1, -0.1])), -20);
  assert.equal(measureLevel(new Float32Array(5)), -60);
  assert.equal(measureLevel(new Float32Array(0)), -60);
  assert.equal(levelShare(0), 1);
  assert.equal(levelShare(-60), 0);
});
