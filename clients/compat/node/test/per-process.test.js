// The program of docs/howto/per-process.md, word by word, in two processes with one count.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { Server } from '../servers.js';

const LIMIT = 100; // of the page

// program writes a service with the block of the page, where it finds its libraries.
function program({ host, port }) {
  const page = readFileSync(new URL('../../../../docs/howto/per-process.md', import.meta.url), 'utf8');
  const [, block] = page.match(/^```js\n(import \{ RedisStore \}.*?)^```/ms);
  const parts = block.split('redis://127.0.0.1:7379');
  assert.equal(parts.length, 2);
  assert.ok(block.includes(`limit: ${LIMIT},`));
  const file = fileURLToPath(new URL(`../node_modules/.per-process-${process.pid}.mjs`, import.meta.url));
  writeFileSync(file, `import express from 'express';
import { rateLimit } from 'express-rate-limit';
const app = express();
${parts.join(`redis://${host}:${port}`)}
app.get('/', (req, res) => res.send('ok'));
const server = app.listen(0, '127.0.0.1', () => console.log(server.address().port));
`);
  return file;
}

test('per process: two processes admit one limit together', async (t) => {
  const server = await new Server().start();
  t.after(() => server.kill());
  const file = program(server.endpoint);
  t.after(() => rmSync(file));
  const services = await Promise.all([1, 2].map(async () => {
    const own = spawn(process.execPath, [file], { stdio: ['ignore', 'pipe', 'ignore'] });
    t.after(() => own.kill('SIGKILL'));
    const { value: port } = await createInterface({ input: own.stdout })[Symbol.asyncIterator]().next();
    return `http://127.0.0.1:${port}/`;
  }));
  const statuses = { 200: 0, 429: 0 };
  for (let i = 0; i < LIMIT + 20; i++) statuses[(await fetch(services[i % 2])).status]++;
  assert.deepEqual(statuses, { 200: LIMIT, 429: 20 });

  // The processes outlive the server. After its restart they count again, from 0.
  await server.kill();
  await server.start();
  for (const service of services) assert.equal((await fetch(service)).status, 200);
});
