import { randomBytes } from 'node:crypto';
import { Agent, request } from 'node:http';

/*
 * Sends requests with wrong API keys, each another one, in a process of its own so that it takes no time from who
 * measures. Arguments: base address, requests a second. The parent says 'on' and 'off'; the answer is how often which
 * status came so far.
 */

const [baseUrl = '', perSecond = '167'] = process.argv.slice(2);
const TICK_MS = 20;
const agent = new Agent({ keepAlive: true, maxSockets: 8 });
/** @type {Record<string, number>} */
const counts = {};
let isOn = false;
let due = 0;

function sendOne() {
  const key = `wb_1_${randomBytes(6).toString('hex')}_${randomBytes(32).toString('base64url')}`;
  const sent = request(`${baseUrl}/v1/orders`, { agent, headers: { authorization: `Bearer ${key}` } }, (answer) => {
    counts[answer.statusCode ?? 0] = (counts[answer.statusCode ?? 0] ?? 0) + 1;
    answer.resume();
  });
  sent.on('error', () => (counts.error = (counts.error ?? 0) + 1));
  sent.end();
}

setInterval(() => {
  due = isOn ? due + (Number(perSecond) * TICK_MS) / 1000 : 0;
  for (; due >= 1; due -= 1) sendOne();
}, TICK_MS);

process.on('message', (message) => {
  isOn = message === 'on';
  process.send?.(counts);
});
process.on('disconnect', () => process.exit());
