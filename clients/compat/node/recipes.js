// The recipes of docs/howto, from examples/holds/node, where it finds ioredis. As a
// program it runs one of them, and never comes to an end:
//
//	node recipes.js llm|login|billing|exports WHO host:port...

import { cpSync, rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

import { address } from './servers.js';

const from = fileURLToPath(new URL('../../../examples/holds/node', import.meta.url));
const here = fileURLToPath(new URL(`node_modules/.recipes-${process.pid}`, import.meta.url));
cpSync(from, here, { recursive: true });
process.on('exit', () => rmSync(here, { recursive: true }));

export const { connect } = await import(`${here}/connect.mjs`);
export const llm = await import(`${here}/llm.mjs`);
export const login = await import(`${here}/login.mjs`);
export const billing = await import(`${here}/billing.mjs`);
export const exports = await import(`${here}/exports.mjs`);

// largeCall reserves 15,000 tokens.
export const largeCall = (key) => ({ key, model: 'large-2', promptTokens: 5_000, maxTokens: 10_000 });

// chunks is an answer that takes 6000 tokens and then n times 1000. after is called
// behind the first of these.
export async function* chunks(n, after = () => {}) {
  for (let i = 0; i <= n; i++) {
    yield { text: 'word ', tokens: 6_000 + i * 1_000 };
    if (i === 1) await after();
  }
}

const [, program, recipe, who, ...nodes] = process.argv;
if (program === fileURLToPath(import.meta.url)) {
  rmSync(here, { recursive: true }); // it is killed
  const redis = connect(...nodes.map(address));
  const call = redis.call.bind(redis);
  redis.call = async (...words) => { // says what is held
    const reply = await call(...words);
    if (words[0] === 'RL.RESERVE') console.log(reply[8]);
    return reply;
  };
  const stop = () => new Promise(() => {});
  if (recipe === 'llm') {
    for await (const _ of llm.stream(redis, largeCall(who), chunks(1, stop)));
  } else if (recipe === 'login') {
    await login.attempt(redis, who, '198.51.100.7', stop);
  } else if (recipe === 'exports') {
    await exports.run(redis, who, `${who}-job`, 2000, () => {
      console.log('runs');
      return stop();
    });
  } else {
    for (let i = 0; i < 10_000; i++) {
      console.log(`${who}-${i}`);
      await billing.charge(redis, who, `${who}-${i}`, 3);
    }
  }
}
