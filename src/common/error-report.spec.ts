import { describe, expect, it } from '@jest/globals';
import { errorReport } from './error-report.js';

const VALUE = 'Ada "Byron"\n    at heart';
const fromServer = (code: string, message: string, more: object = {}): Error =>
  Object.assign(new Error(message), { severity: 'ERROR', code, detail: VALUE, where: VALUE, hint: VALUE, ...more });

describe('the report of an error', () => {
  it.each([
    [
      '22P02',
      `invalid input syntax for type uuid: "${VALUE}"`,
      { routine: 'string_to_uuid' },
      'routine string_to_uuid',
    ],
    ['22001', `value "${VALUE}" is too long`, {}, '22001'],
    [
      '23514',
      `order ${VALUE} violates "orders_total"`,
      { table: 'orders', constraint: 'orders_total' },
      'orders_total',
    ],
    ['42601', `syntax error at or near "${VALUE}" of jsonpath input`, {}, '42601'],
    ['P0001', `refused: ${VALUE}`, {}, 'P0001'],
    ['WB017', `channel web has an order ${VALUE} already`, {}, 'WB017'],
  ])('of SQLSTATE %s holds no value that a caller sent', (code, message, more, told) => {
    const error = fromServer(code, message, more);
    const wrapped = Object.assign(new Error(message), { driverError: error, parameters: [VALUE] });
    for (const each of [error, wrapped]) {
      const report = errorReport(each);
      expect(report.code).toBe(code);
      expect(report.message).toContain(told);
      expect(JSON.stringify(report)).not.toMatch(/Byron|heart/);
      expect(report.stack).toMatch(/\n {4}at .*error-report\.spec/);
    }
  });

  it.each([
    ['57P03', 'the database system is starting up'],
    ['28P01', 'password authentication failed for user "waybill_app"'],
    ['42501', 'permission denied for table orders'],
    ['53100', 'could not extend file: No space left on device'],
  ])('keeps what %s says of the server', (code, message) => {
    expect(errorReport(fromServer(code, message))).toMatchObject({ code, message });
  });

  it('keeps what other errors say, and says little of what is none', () => {
    expect(errorReport(new TypeError('x is undefined'))).toMatchObject({
      name: 'TypeError',
      message: 'x is undefined',
    });
    expect(errorReport(Object.assign(new Error('gone'), { code: 'EPIPE' }))).toMatchObject({
      code: 'EPIPE',
      message: 'gone',
    });
    expect(errorReport({ secret: 1 })).toMatchObject({ message: 'thrown: object' });
  });
});
