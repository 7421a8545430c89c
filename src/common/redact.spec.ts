import { describe, expect, it } from '@jest/globals';
import { redact } from './redact.js';

describe('redact', () => {
  const secret = 'Zm9yIHRlc3RzIG9ubHksIG5vIGtleSBvZiBhbnlib2R5';
  const key = `wb_1_0123456789ab_${secret}`;

  it.each([
    ['an API key', `refused ${key}.`, secret],
    ['an authorization header', `{"authorization":"Bearer ${key}"}`, secret],
    ['any bearer credential', 'Authorization: Bearer abc.def', 'abc.def'],
    ['basic credentials', 'authorization: Basic dXNlcjpwYXNz', 'dXNlcjpwYXNz'],
    ['a token', 'got eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2ln', 'eyJzdWIiOiJhZGEifQ'],
    ['a cookie', 'cookie: session=s3cr3t', 's3cr3t'],
    ['the password of an address', 'at postgres://waybill_app:pa55w0rd@db.example.com:5432/waybill', 'pa55w0rd'],
    ['a password as a member', '{"password":"pa55w0rd","x":1}', 'pa55w0rd'],
    ['a key of the payment provider', 'sk_live_4eC39HqLyjWD whsec_4eC39', '4eC39'],
    ['an e-mail address', 'duplicate of ada@example.test in row', 'ada@example.test'],
  ])('takes out %s', (_what, text, hidden) => {
    expect(redact(text)).not.toContain(hidden);
    expect(redact(text)).toContain('[redacted');
  });

  it('leaves the rest as it is', () => {
    const text =
      '500 GET /v1/orders/0198a4f2 request 5f0c9a52: QueryFailedError [23514]: new row violates orders_total';
    expect(redact(text)).toBe(text);
    expect(redact('postgres://db.example.com:5432/waybill')).toBe('postgres://db.example.com:5432/waybill');
  });
});
