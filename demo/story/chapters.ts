import { randomUUID } from 'node:crypto';
import { goingAroundTheApi } from './going-around-the-api.js';
import { paymentThatTimesOut } from './payment-that-times-out.js';
import { type Chapter, expectAnswer, PromiseBroken, type StoryContext } from './storyteller.js';
import { tampering } from './tampering.js';

const placing: Chapter = {
  title: 'An order',
  async play({ api, say, order }) {
    say.does('Ada orders two tins of green tea, 12.99 EUR each, 19 % tax, shipping 4.90 EUR.');
    const { body } = expectAnswer(await api.post('/v1/orders', order.body, order.key), 201);
    Object.assign(order, { id: body['id'], number: body['number'] });
    say.sees(`Order ${order.number}, ${body['total']} cents in all, to the cent what the shop computed.`);
  },
};

const doubleClick: Chapter = {
  title: 'A double click',
  async play({ api, say, order }) {
    say.does('Her browser sends the same order again, five times at once, under the same key.');
    const answers = await Promise.all(Array.from({ length: 5 }, () => api.post('/v1/orders', order.body, order.key)));
    const ids = new Set(answers.map((answer) => expectAnswer(answer, 201).body['id']));
    if (ids.size !== 1 || !ids.has(order.id)) throw new PromiseBroken(`a double click made ${ids.size} orders`);
    say.sees('Five times the first answer, byte for byte. There is one order.');
  },
};

const race: Chapter = {
  title: 'A race',
  async play({ api, say, order }) {
    say.does('Twenty clerks confirm it in the same moment, each by an action of their own.');
    const answers = await Promise.all(Array.from({ length: 20 }, () => move(api, order.id, 'confirmed')));
    const won = answers.filter(({ status }) => status === 201);
    const lost = answers.filter(({ status }) => status !== 201);
    if (won.length !== 1) throw new PromiseBroken(`${won.length} of twenty confirmed it`);
    for (const answer of lost) expectAnswer(answer, 409, 'already-in-state');
    say.sees('One did it; nineteen are told that it is confirmed already.');
  },
};

const illegalStep: Chapter = {
  title: 'An impossible step',
  async play({ api, say, order }) {
    say.does('Somebody marks it as delivered, though it was never shipped.');
    const { body } = expectAnswer(await move(api, order.id, 'delivered'), 409, 'illegal-transition');
    say.sees(`Refused: ${String(body['detail'])}`);
  },
};

const delivery: Chapter = {
  title: 'The rest of its way',
  async play({ api, say, order }) {
    for (const to of ['shipped', 'delivered']) {
      say.does(`It is ${to}.`);
      expectAnswer(await move(api, order.id, to), 201);
    }
    const { body } = expectAnswer(await api.get(`/v1/orders/${order.id}/history`), 200);
    const states = (body['data'] as { to: string }[]).map(({ to }) => to);
    say.sees(`The history tells it all: ${states.join(' → ')}, with who and when.`);
    const then = expectAnswer(await api.get(`/v1/orders/${order.id}?version=1`), 200);
    say.sees(`And version 1 is still to be read: it was ${String(then.body['status'])}.`);
  },
};

/** The story, in its order. A feature adds its chapter where it belongs. */
export const CHAPTERS: readonly Chapter[] = [
  placing,
  doubleClick,
  race,
  illegalStep,
  paymentThatTimesOut,
  goingAroundTheApi,
  delivery,
  tampering,
];

function move(api: StoryContext['api'], id: string, to: string) {
  return api.post(`/v1/orders/${id}/transitions`, { to }, randomUUID());
}
