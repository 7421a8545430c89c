import { beforeAll, describe, expect, it } from '@jest/globals';
import type { OpenAPIObject } from '@nestjs/swagger';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isReference, operationsOf } from '../../src/api-document/document-types.js';
import { loadConfig } from '../../src/config.js';
import { describeApi } from '../../src/openapi.js';
import { DocumentCheck } from '../support/document-check.js';
import { examplesOf } from '../support/document-examples.js';

const GOLDEN = join(import.meta.dirname, '../../openapi.json');

describe('the OpenAPI document', () => {
  let document: OpenAPIObject;
  beforeAll(async () => {
    const nowhere = { appUrl: 'postgres://nobody@127.0.0.1:1/none', ownerUrl: null, sealerUrl: null };
    document = await describeApi({ ...loadConfig({}), database: nowhere });
  });

  it('is the committed openapi.json; UPDATE_GOLDEN=1 rewrites that', () => {
    const text = `${JSON.stringify(document, null, 2)}\n`;
    if (process.env.UPDATE_GOLDEN === '1') writeFileSync(GOLDEN, text);
    // As parsed values: a difference is shown by its place, not as two long texts.
    expect(JSON.parse(readFileSync(GOLDEN, 'utf8'))).toEqual(JSON.parse(text));
  });

  it('gives every operation a stable id, a summary, a tag and at least one answer below 300', () => {
    const ids = operationsOf(document).map(({ operation }) => operation.operationId ?? '');
    expect(new Set(ids).size).toBe(ids.length);
    for (const { path, operation } of operationsOf(document)) {
      expect({ path, id: operation.operationId }).toEqual({
        path,
        id: expect.stringMatching(/^[a-z]+([A-Z][a-z]+)+$/),
      });
      expect({ path, summary: operation.summary, tags: operation.tags }).toEqual({
        path,
        summary: expect.any(String),
        tags: [expect.any(String)],
      });
      expect(Object.keys(operation.responses).some((status) => status < '300')).toBe(true);
    }
  });

  it('names the answers that follow from what an operation is: by its method, parameters, body, credentials', () => {
    for (const { path, method, operation } of operationsOf(document)) {
      const expected = [
        '400',
        '406',
        '408',
        '429',
        '431',
        '500',
        '503',
        ...(operation.security ? ['401', '403'] : []),
        ...(method === 'get' ? [] : ['413', '415']),
        ...(path.includes('{') ? ['404'] : []),
        ...(operation.requestBody && operation.security ? ['422'] : []),
      ];
      expect({ path, method, named: Object.keys(operation.responses) }).toEqual({
        path,
        method,
        named: expect.arrayContaining(expected),
      });
    }
  });

  it('says of every integer that may exceed 2^31 that it needs 64 bits, and calls nothing a number that is whole', () => {
    const { narrow, numbers } = numbersOf(document);
    expect(narrow).toEqual([]);
    expect(numbers).toEqual(['/components/schemas/HealthPart/properties/responseTime']);
  });

  it('shows an example of every JSON body, and each is what its schema says', () => {
    const check = new DocumentCheck(document);
    const examples = examplesOf(document);
    const without = examples.filter(({ values }) => values.length === 0).map(({ pointer }) => pointer);
    expect(without).toEqual([]);
    const faults = examples.flatMap(({ pointer, values }) =>
      values.flatMap(({ name, value }) =>
        check.faultsOf(value, `${pointer}/schema`).map((fault) => `${pointer} ${name}: ${fault}`),
      ),
    );
    expect(faults).toEqual([]);
  });

  it('says for every operation that is not public which credentials it takes, and that it may refuse them', () => {
    const closed = operationsOf(document).filter(
      // Signed by the provider, over the bytes of its body.
      ({ path }) => path.startsWith('/v1/') && !path.startsWith('/v1/payment-webhooks/'),
    );
    for (const { path, method, operation } of closed) {
      const statuses = Object.keys(operation.responses);
      expect({ path, method, security: operation.security, statuses }).toMatchObject({
        security: [{ apiKey: [] }, { token: [] }],
        statuses: expect.arrayContaining(['401', '403', '500', '503']),
      });
    }
  });

  it('answers every error as a problem of known codes', () => {
    for (const { operation } of operationsOf(document)) {
      for (const [status, found] of Object.entries(operation.responses)) {
        if (Number(status) < 400 || !found) continue;
        const response = isReference(found)
          ? document.components?.responses?.[found.$ref.split('/').at(-1) ?? '']
          : found;
        expect(Object.keys((response as { content: object }).content)).toEqual(['application/problem+json']);
      }
    }
  });
});

/** Where integers without `int64` may exceed 2^31, and where numbers need not be whole. */
function numbersOf(document: OpenAPIObject): { narrow: string[]; numbers: string[] } {
  const [narrow, numbers]: [string[], string[]] = [[], []];
  const visit = (value: unknown, place: string): void => {
    if (typeof value !== 'object' || value === null) return;
    const { type, maximum = Infinity, const: only, format } = value as Record<string, unknown> & { maximum?: number };
    const types = new Set([type].flat());
    if (types.has('number')) numbers.push(place);
    if (types.has('integer') && only === undefined && maximum >= 2 ** 31 && format !== 'int64') narrow.push(place);
    for (const [name, member] of Object.entries(value)) {
      if (!name.startsWith('example')) visit(member, `${place}/${name}`);
    }
  };
  visit(document, '');
  return { narrow, numbers };
}
