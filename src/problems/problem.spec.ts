import { describe, expect, it } from '@jest/globals';
import {
  BadRequestException,
  ForbiddenException,
  HttpException,
  ImATeapotException,
  NotFoundException,
} from '@nestjs/common';
import { notFound, rateLimited, unauthenticated } from './general-problems.js';

import { defineProblem } from './define-problem.js';
import { DomainError } from './domain-error.js';
import { integerMember, optionalMember, textMember } from './problem-members.js';
import { problemExample } from './problem-page.js';
import { problemSchema } from './problem-schemas.js';
import { isKeptUnderKey, problemBytes, toProblem } from './problem.js';

const alreadyThere = defineProblem({
  code: 'already-there',
  status: 409,
  texts: { title: 'Already there', explanation: 'It is there.', whatToDo: 'Nothing.' },
  kept: true,
  members: { state: textMember() },
  example: { state: 'open' },
});

const context = { instance: '/v1/orders', requestId: 'req-1' };
const codeOf = (error: unknown) => toProblem(error, context).body.code;
const withCode = (code: string, more: object = {}) => Object.assign(new Error('x'), { code, ...more });

describe('toProblem', () => {
  it('renders a domain error with its members, headers and time to wait', () => {
    class TooFast extends DomainError<typeof rateLimited> {
      constructor() {
        super(rateLimited, 'Ten a second.', undefined, {
          retryAfterSeconds: 1.2,
          headers: { 'RateLimit-Limit': '10' },
        });
      }
    }
    expect(toProblem(new TooFast(), { ...context, typeBase: 'https://api.example' })).toEqual({
      status: 429,
      headers: {
        'content-type': 'application/problem+json',
        'cache-control': 'no-store',
        'retry-after': '2',
        'ratelimit-limit': '10',
      },
      body: {
        type: 'https://api.example/problems/rate-limited',
        title: 'Too many requests',
        status: 429,
        detail: 'Ten a second.',
        instance: '/v1/orders',
        code: 'rate-limited',
        requestId: 'req-1',
      },
    });
  });

  it('renders the same bytes for the same error', () => {
    const error = new DomainError(alreadyThere, 'It is confirmed.', { state: 'confirmed' });
    const [a, b] = [problemBytes(toProblem(error, context)), problemBytes(toProblem(error, context))];
    expect(a.equals(b)).toBe(true);
    expect(String(a)).toBe(
      '{"type":"/problems/already-there","title":"Already there","status":409,"detail":"It is confirmed.",' +
        '"instance":"/v1/orders","code":"already-there","requestId":"req-1","state":"confirmed"}',
    );
  });

  it('lets no member take the place of a common one', () => {
    const members = { state: 'x', status: 200, type: 'evil', code: 'y' };
    const { body } = toProblem(new DomainError(alreadyThere, 'x', members), context);
    expect(body).toMatchObject({
      status: 409,
      type: '/problems/already-there',
      code: 'already-there',
      state: 'x',
    });
  });

  it('tells a 401 how to authenticate', () => {
    expect(toProblem(new DomainError(unauthenticated, 'x'), context).headers['www-authenticate']).toBe('Bearer');
  });

  it.each([
    ['FST_ERR_CTP_BODY_TOO_LARGE', 'payload-too-large'],
    ['FST_ERR_CTP_INVALID_MEDIA_TYPE', 'unsupported-media-type'],
    ['FST_ERR_CTP_INVALID_CONTENT_LENGTH', 'malformed-body'],
    ['FST_ERR_CTP_EMPTY_JSON_BODY', 'malformed-body'],
    ['FST_ERR_BAD_URL', 'invalid-parameter'],
    ['FST_ERR_MAX_PARAM_LENGTH', 'not-found'],
    ['FST_ERR_HANDLER_TIMEOUT', 'unavailable'],
    ['HPE_HEADER_OVERFLOW', 'headers-too-large'],
    ['HPE_INVALID_METHOD', 'malformed-body'],
    ['ERR_HTTP_REQUEST_TIMEOUT', 'request-timeout'],
  ])('maps %s of the HTTP layer, alone and wrapped by Nest, to %s', (code, problem) => {
    const error = withCode(code);
    expect(codeOf(error)).toBe(problem);
    expect(codeOf(new HttpException('x', 400, { cause: error }))).toBe(problem);
  });

  it('maps exceptions of Nest by their status, without their texts', () => {
    expect(codeOf(new NotFoundException('secret'))).toBe('not-found');
    expect(codeOf(new ForbiddenException())).toBe('forbidden');
    expect(codeOf(new BadRequestException(['secret']))).toBe('invalid-parameter');
    expect(codeOf(new ImATeapotException())).toBe('internal-error');
    expect(JSON.stringify(toProblem(new BadRequestException(['secret']), context).body)).not.toContain('secret');
  });

  it.each([
    '40001',
    '40P01',
    '55P03',
    '57014',
    '57P01',
    '57P02',
    '57P03',
    '53300',
    '53100',
    '08006',
    '08P01',
    '25006',
    'ECONNREFUSED',
    'ECONNRESET',
  ])('maps %s of the database to unavailable, also inside QueryFailedError', (code) => {
    const { status, headers, body } = toProblem(withCode(code), context);
    expect([status, headers['retry-after'], body.code]).toEqual([503, '2', 'unavailable']);
    expect(codeOf(Object.assign(new Error('failed'), { driverError: withCode(code) }))).toBe('unavailable');
  });

  it.each([
    'timeout exceeded when trying to connect',
    'Connection terminated unexpectedly',
    'Connection terminated due to connection timeout',
    'Connection terminated',
    'Query read timeout',
    'Client has encountered a connection error and is not queryable',
  ])('maps the lost connection %j to unavailable', (message) => {
    expect(codeOf(new Error(message))).toBe('unavailable');
    expect(codeOf(Object.assign(new Error('failed'), { driverError: new Error(message) }))).toBe('unavailable');
  });

  it('maps whatever keeps a connection from being made to unavailable, and a transaction that is to write on a standby', () => {
    for (const code of ['28P01', '28000', '3D000', '42501', 'CERT_HAS_EXPIRED']) {
      expect(codeOf(withCode(code, { whileConnecting: true }))).toBe('unavailable');
      expect(codeOf(withCode(code))).toBe('internal-error');
    }
    expect(codeOf(withCode('0A000', { routine: 'call_bool_check_hook' }))).toBe('unavailable');
    expect(codeOf(withCode('0A000', { routine: 'another' }))).toBe('internal-error');
  });

  it('maps a unix socket that is not there to unavailable, and a file that is not there to a bug', () => {
    expect(codeOf(withCode('ENOENT', { syscall: 'connect' }))).toBe('unavailable');
    expect(codeOf(withCode('ENOENT', { syscall: 'open' }))).toBe('internal-error');
  });

  it('maps a body that broke off to the client, not to the database', () => {
    expect(codeOf(withCode('ECONNRESET', { statusCode: 400 }))).toBe('malformed-body');
  });

  it.each(['22P05', '22021'])('maps %s, text that PostgreSQL can’t hold, to the client who sent it', (code) => {
    expect(codeOf(withCode(code))).toBe('malformed-body');
    expect(codeOf(Object.assign(new Error('failed'), { driverError: withCode(code) }))).toBe('malformed-body');
  });

  it.each(['22P02', '22003', '23505', '23514', '42501', '42P01', 'WB001', 'XX000'])(
    'leaves %s an internal error: nobody mapped it, so it is a bug',
    (code) => {
      expect(codeOf(Object.assign(new Error('failed'), { driverError: withCode(code) }))).toBe('internal-error');
    },
  );

  it.each([[undefined], [null], ['text'], [42], [{}], [new Error('secret')], [{ getStatus: 1 }], [{ code: {} }]])(
    'never throws and tells nothing of %p',
    (error) => {
      const { status, body } = toProblem(error, { requestId: 'req-1' });
      expect(status).toBe(500);
      expect(Object.keys(body)).toEqual(['type', 'title', 'status', 'detail', 'code', 'requestId']);
      expect(JSON.stringify(body)).not.toContain('secret');
    },
  );
});

describe('isKeptUnderKey', () => {
  it('follows the table, for foreign errors too', () => {
    expect(isKeptUnderKey(new DomainError(alreadyThere, 'x', { state: 'y' }))).toBe(true);
    expect(isKeptUnderKey(new DomainError(notFound, 'x'))).toBe(false);
    expect(isKeptUnderKey(withCode('40001'))).toBe(false);
    expect(isKeptUnderKey(undefined)).toBe(false);
  });
});

describe('defineProblem', () => {
  it('takes a code once', () => {
    const texts = { title: 'x', explanation: 'x', whatToDo: 'x' };
    expect(() => defineProblem({ code: 'already-there', status: 409, texts })).toThrow('two definitions');
  });

  it('says the members of the schema, and those that an error may leave out', () => {
    const definition = defineProblem({
      code: 'with-members',
      status: 409,
      texts: { title: 'With members', explanation: 'One. Two.', whatToDo: 'x' },
      members: { unit: textMember(), left: optionalMember(integerMember({ minimum: 0 })) },
      example: { unit: 'kg' },
    });
    const schema = problemSchema(definition);
    expect(schema.properties).toMatchObject({ unit: { type: 'string' }, left: { type: 'integer', minimum: 0 } });
    expect(schema.required).toContain('unit');
    expect(schema.required).not.toContain('left');
    expect(problemExample(definition)).toMatchObject({ code: 'with-members', detail: 'One.', unit: 'kg' });
    expect(new DomainError(definition, 'x', { unit: 'kg', left: 2 }).members).toEqual({ unit: 'kg', left: 2 });
    // @ts-expect-error the unit is missing
    expect(new DomainError(definition, 'x').members).toEqual({});
    // @ts-expect-error there is no such member
    expect(new DomainError(definition, 'x', { unit: 'kg', right: 2 }).code).toBe('with-members');
  });
});
