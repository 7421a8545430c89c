import { describe, expect, it } from '@jest/globals';
import { parseRecordedOrders, placementKey, RecordingError, stepKey, type RecordedOrder } from './recorded-order.js';

const parseOne = (line: string): RecordedOrder => {
  const [order] = parseRecordedOrders(line, 'test');
  if (!order) throw new Error('nothing was parsed');
  return order;
};

describe('recorded orders', () => {
  it('have steps that are states, or states with a reason', () => {
    const { steps } = parseOne('{"order":{},"steps":["confirmed",{"to":"canceled","reason":"late"}]}\r\n');
    expect(steps).toEqual([{ to: 'confirmed' }, { to: 'canceled', reason: 'late' }]);
  });

  it.each([
    ['not json', /test, line 1: /],
    ['[]', /should be an object/],
    ['{"order":[]}', /"order" should be an object/],
    ['{"order":{},"steps":"confirmed"}', /"steps" should be a list/],
    ['{"order":{},"steps":[""]}', /the step "" should be the name of a state/],
    ['{"order":{"a":"\\ud800"}}', /lone surrogate/],
    ['\n\n', /holds no orders/],
  ])('are refused with a message when the line is %j', (line, message) => {
    expect(() => parseRecordedOrders(line, 'test')).toThrow(RecordingError);
    expect(() => parseRecordedOrders(line, 'test')).toThrow(message);
  });

  it('have a key that depends on what they say, not on how it is written', () => {
    const key = placementKey(parseOne('{"order":{"a":1,"b":"é"}}'));
    expect(placementKey(parseOne('{"steps":[], "order":{"b":"\\u00e9","a":1.0}}'))).toBe(key);
    expect(placementKey(parseOne('{"order":{"a":2,"b":"é"}}'))).not.toBe(key);
    expect(key).toMatch(/^demo-place-[0-9a-f]{64}$/);
  });

  it('have different keys when two lines are equal, since both are meant', () => {
    const [one, other] = parseRecordedOrders('{"order":{"a":1}}\n{"order":{"a":1}}', 'test');
    expect(one && other && placementKey(one) !== placementKey(other)).toBe(true);
  });

  it('have a key for each step of each order', () => {
    const order = parseOne('{"order":{},"steps":["a","a"]}');
    const keys = [stepKey(order, '1', 0), stepKey(order, '1', 1), stepKey(order, '2', 0), stepKey(order, '1', 0, 3)];
    expect(new Set(keys).size).toBe(4);
  });
});
