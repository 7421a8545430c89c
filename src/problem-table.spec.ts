import { describe, expect, it } from '@jest/globals';
// Every module with its problems.
import './app.module.js';
import { idempotencyOutcome } from './observability/idempotency-outcome.js';
import { problemDefinitions, problemOfCode, renderProblemIndex, renderProblemPage } from './problems/index.js';

describe('the table of problems', () => {
  it.each([
    ['validation-failed', 422, false],
    ['malformed-body', 400, false],
    ['unknown-parameter', 400, false],
    ['invalid-parameter', 400, false],
    ['invalid-cursor', 400, false],
    ['unauthenticated', 401, false],
    ['forbidden', 403, false],
    ['role-required', 403, false],
    ['not-found', 404, false],
    ['method-not-allowed', 405, false],
    ['not-acceptable', 406, false],
    ['request-timeout', 408, false],
    ['payload-too-large', 413, false],
    ['unsupported-media-type', 415, false],
    ['headers-too-large', 431, false],
    ['illegal-transition', 409, true],
    ['already-in-state', 409, true],
    ['guard-refused', 409, true],
    ['not-editable', 409, true],
    ['reason-required', 422, false],
    ['total-mismatch', 422, false],
    ['external-ref-taken', 409, true],
    ['subject-taken', 409, true],
    ['would-lock-out', 409, false],
    ['stale-version', 412, false],
    ['precondition-required', 428, false],
    ['quantity-exceeded', 409, true],
    ['refund-exceeds-captured', 409, true],
    ['payment-in-progress', 409, false],
    ['payment-declined', 402, true],
    ['idempotency-key-missing', 400, false],
    ['idempotency-key-invalid', 400, false],
    ['idempotency-key-in-flight', 409, false],
    ['idempotency-key-reused', 422, false],
    ['answer-erased', 410, false],
    ['rate-limited', 429, false],
    ['internal-error', 500, false],
    ['unavailable', 503, false],
  ])('answers %s with %i, as the API document says', (code, status, kept) => {
    expect(problemOfCode(code)).toMatchObject({ status, kept });
  });

  it('holds nothing else', () => {
    expect(problemDefinitions()).toHaveLength(38);
    for (const text of ['constructor', '__proto__', 'toString', '']) expect(problemOfCode(text)).toBeUndefined();
  });

  it('says when to come back for what passes by itself', () => {
    const codes = problemDefinitions().filter(({ retryAfterSeconds }) => retryAfterSeconds !== undefined);
    expect(codes.map(({ code }) => code)).toEqual(['idempotency-key-in-flight', 'rate-limited', 'unavailable']);
  });

  it('has an outcome of its own, for the figures, for each problem of keys', () => {
    const ofKeys = problemDefinitions().filter(({ code }) => code.startsWith('idempotency-key-'));
    expect(ofKeys).toHaveLength(4);
    for (const { code, status } of ofKeys) {
      expect(idempotencyOutcome({ hasKey: true, replayed: false, status, problem: code })).not.toBe('released');
    }
  });
});

describe('problem pages', () => {
  it.each(problemDefinitions().map((problem) => [problem.code, problem] as const))(
    'explain %s with an example that is JSON',
    (code, problem) => {
      const html = renderProblemPage(problem);
      expect(html).toContain(`HTTP ${problem.status}`);
      const example = /<pre>(.*)<\/pre>/s.exec(html)?.[1]?.replaceAll('&quot;', '"') ?? '';
      expect(JSON.parse(example)).toMatchObject({ code, type: `/problems/${code}` });
      expect(renderProblemIndex()).toContain(`href="problems/${code}"`);
    },
  );
});
