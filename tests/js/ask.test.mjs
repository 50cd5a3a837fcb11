// Questions to the server: each has its own answer, whenever that comes.
import assert from "node:assert/strict";
import { test } from "node:test";
import { askServer, connectQuestions } from "../../playground/client/shell/questions.mjs";

test("a question before there is a connection is answered at once", async () => {
  assert.match((await askServer({ action: "a" })).error, /not connected yet/);
});

for (const [how, order] of [
  ["late", [0, 1]],
  ["before an older one's", [1, 0]],
])
  test(`an answer that comes ${how} is that to its own question`, async () => {
    const sent = [];
    const { receive } = connectQuestions((question) => sent.push(question));
    const told = [];
    for (const [i, action] of ["first", "second"].entries())
      askServer({ action }).then((answer) => {
        told[i] = answer.told;
      });
    for (const i of order) receive(JSON.stringify({ id: sent[i].id, told: sent[i].action }));
    receive(JSON.stringify({ id: sent[0].id, told: "nobody" }));
    await new Promise(setImmediate);
    assert.deepEqual(told, ["first", "second"]);
  });
