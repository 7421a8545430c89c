import { describe, expect, it } from '@jest/globals';
import { copyFileSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { breakingChanges, type LooseDocument } from '../support/document-changes.js';

const CURRENT = join(import.meta.dirname, '../../openapi.json');
const LAST_RELEASE = join(import.meta.dirname, '../fixtures/openapi-last-release.json');

describe('a change of the API', () => {
  it('breaks no client of the last release; UPDATE_RELEASE=1 makes openapi.json the release', () => {
    if (process.env.UPDATE_RELEASE === '1') copyFileSync(CURRENT, LAST_RELEASE);
    expect(breakingChanges(read(LAST_RELEASE), read(CURRENT))).toEqual([]);
  });

  it.each<[string, (document: LooseDocument) => void, string]>([
    ['an operation that is gone', ({ paths }) => delete paths['/v1/orders']?.post, 'POST /v1/orders is gone'],
    [
      'another operation id',
      (document) => (place(document).operationId = 'createOrder'),
      'POST /v1/orders is called createOrder, not placeOrder',
    ],
    [
      'a new required parameter',
      (document) => (place(document).parameters = [{ name: 'x', in: 'query', required: true }]),
      'POST /v1/orders requires query parameter x now',
    ],
    [
      'a member that becomes required',
      ({ components }) => components?.schemas?.PlaceOrderBody?.required?.push('externalRef'),
      'POST /v1/orders body.externalRef is required now',
    ],
    [
      'a member that is no longer taken',
      ({ components }) => delete components?.schemas?.LineBody?.properties?.discount,
      'POST /v1/orders body.lines[].discount is gone',
    ],
    [
      'a limit that is tighter',
      ({ components }) => Object.assign(components?.schemas?.LineBody?.properties?.quantity ?? {}, { maximum: 5 }),
      'POST /v1/orders body.lines[].quantity is held to maximum 5 now',
    ],
    [
      'an answer that lacks a member',
      ({ components }) => delete components?.schemas?.Order?.properties?.total,
      'POST /v1/orders 201.total is gone',
    ],
    [
      'an answer whose member may be null',
      ({ components }) =>
        Object.assign(components?.schemas?.Order?.properties?.number ?? {}, { type: ['string', 'null'] }),
      'POST /v1/orders 201.number can now be null',
    ],
    [
      'an answer of another status',
      (document) => delete place(document).responses['201'],
      'POST /v1/orders no longer answers 201',
    ],
  ])('is found when it is %s', (_name, change, sentence) => {
    const changed = read(CURRENT);
    change(changed);
    expect(breakingChanges(read(CURRENT), changed)).toContain(sentence);
  });

  it('breaks nobody when it adds operations, members of answers, problems, or members that are optional', () => {
    const changed = read(CURRENT);
    changed.paths['/v1/news'] = { get: { responses: {} } };
    place(changed).responses['418'] = {};
    Object.assign(changed.components?.schemas?.Order?.properties ?? {}, { more: { type: 'string' } });
    Object.assign(changed.components?.schemas?.PlaceOrderBody?.properties ?? {}, { more: { type: 'string' } });
    const { content } = changed.components?.responses?.NotFound ?? {};
    const [problem] = Object.values(content ?? {});
    if (problem) problem.schema = { oneOf: [problem.schema ?? {}, { $ref: '#/components/schemas/ForbiddenProblem' }] };
    Object.assign(changed.components?.schemas?.LineBody?.properties?.quantity ?? {}, { format: 'int64' });
    expect(breakingChanges(read(CURRENT), changed)).toEqual([]);
  });
});

function read(file: string): LooseDocument {
  return JSON.parse(readFileSync(file, 'utf8')) as LooseDocument;
}

function place({ paths }: LooseDocument) {
  const operation = paths['/v1/orders']?.post;
  if (!operation) throw new Error('there is no POST /v1/orders');
  return operation;
}
