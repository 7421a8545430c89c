import { describe, expect, it } from '@jest/globals';
import type { ArgumentMetadata } from '@nestjs/common';
import { PartialType } from '@nestjs/swagger';
import { Transform, Type } from 'class-transformer';
import {
  ArrayMaxSize,
  ArrayMinSize,
  IsArray,
  IsBoolean,
  IsDefined,
  IsIn,
  IsInt,
  IsOptional,
  IsUUID,
  Min,
  ValidateNested,
} from 'class-validator';

import { DomainError, validationFailed } from '../problems/index.js';
import { IsCurrency, IsMetadata, IsMinorUnits, IsText, IsTimestamp } from './value-checks.js';
import { createValidationPipe, NoQuery } from './validation.pipe.js';

class Customer {
  @IsText(1, 64)
  ref!: string;
}

class Line {
  @IsText(1, 64)
  sku!: string;

  @IsInt()
  @Min(1)
  quantity!: number;

  @IsMinorUnits()
  unitPrice!: number;
}

class Order {
  @IsCurrency()
  currency!: string;

  @IsDefined()
  @ValidateNested()
  @Type(() => Customer)
  customer!: Customer;

  @IsArray()
  @ArrayMinSize(1)
  @ArrayMaxSize(250)
  @ValidateNested({ each: true })
  @Type(() => Line)
  lines!: Line[];

  @IsOptional()
  @IsMetadata()
  metadata?: Record<string, unknown>;
}

class OrderPatch extends PartialType(Order) {}

class ListQuery {
  @IsOptional()
  @Transform(({ value }) => (typeof value === 'string' ? value.split(',') : value))
  @IsIn(['pending', 'confirmed'], { each: true })
  status?: string[];

  @IsOptional()
  @IsTimestamp()
  'placedAt[gte]'?: string;

  @IsOptional()
  @Type(() => Number)
  @IsInt()
  @Min(1)
  limit?: number;

  @IsOptional()
  @Type(() => Boolean)
  @IsBoolean()
  deep?: boolean;
}

class OrderPath {
  @IsUUID()
  id!: string;
}

const pipe = createValidationPipe();
const good = { currency: 'EUR', customer: { ref: 'c-1' }, lines: [{ sku: 'TEA', quantity: 2, unitPrice: 1299 }] };

async function check(
  type: ArgumentMetadata['type'],
  metatype: ArgumentMetadata['metatype'],
  value: unknown,
): Promise<unknown> {
  return pipe.transform(value, { type, metatype });
}

async function refusal(promise: Promise<unknown>): Promise<{ code: string; faults: [string | undefined, string][] }> {
  try {
    await promise;
  } catch (error) {
    if (!(error instanceof DomainError)) throw error;
    const { errors = [] } = error.members as unknown as {
      errors?: { pointer?: string; parameter?: string; detail: string }[];
    };
    return { code: error.code, faults: errors.map((fault) => [fault.pointer ?? fault.parameter, fault.detail]) };
  }
  throw new Error('was accepted');
}

async function pointers(value: unknown, dto: ArgumentMetadata['metatype'] = Order): Promise<(string | undefined)[]> {
  const { code, faults } = await refusal(check('body', dto, value));
  expect(code).toBe('validation-failed');
  return faults.map(([pointer]) => pointer);
}

describe('bodies', () => {
  it('become instances of their classes, nested ones too', async () => {
    const order = (await check('body', Order, good)) as Order;
    expect(order).toBeInstanceOf(Order);
    expect(order.customer).toBeInstanceOf(Customer);
    expect(order.lines[0]).toBeInstanceOf(Line);
    expect({
      ...order,
      customer: { ...order.customer },
      lines: order.lines.map((line) => Object.assign({}, line)),
    }).toEqual(good);
  });

  it('have all their faults pointed at', async () => {
    const value = {
      currency: 'eur',
      customer: { ref: '', nick: 1 },
      lines: [
        { sku: 'A', quantity: 0, unitPrice: -1 },
        { sku: 'B', quantity: 1, unitPrice: 1, 'a/b~': 1 },
      ],
      extra: 1,
    };
    const found = await pointers(value);
    expect(found.toSorted()).toEqual(
      [
        '/currency',
        '/customer/nick',
        '/customer/ref',
        '/extra',
        '/lines/0/quantity',
        '/lines/0/unitPrice',
        '/lines/1/a~1b~0',
      ].toSorted(),
    );
  });

  it.each([
    ['a text for an integer', { lines: [{ ...good.lines[0], quantity: '2' }] }, '/lines/0/quantity'],
    ['a boolean for an integer', { lines: [{ ...good.lines[0], quantity: true }] }, '/lines/0/quantity'],
    ['a fraction', { lines: [{ ...good.lines[0], unitPrice: 1.5 }] }, '/lines/0/unitPrice'],
    ['null as a line', { lines: [null] }, '/lines/0'],
    ['a number as a line', { lines: [good.lines[0], 7] }, '/lines/1'],
    ['an array as a line', { lines: [[good.lines[0]]] }, '/lines/0'],
    ['an object as lines', { lines: { 0: good.lines[0] } }, '/lines'],
    ['no lines', { lines: [] }, '/lines'],
    ['null as lines', { lines: null }, '/lines'],
    ['an array as an object', { customer: [good.customer] }, '/customer'],
    ['a text as an object', { customer: 'c-1' }, '/customer'],
    ['null as an object', { customer: null }, '/customer'],
    ['nothing as an object', { customer: undefined }, '/customer'],
    ['a number for a text', { customer: { ref: 1 } }, '/customer/ref'],
    ['an array for a text', { currency: ['EUR'] }, '/currency'],
    ['an array as metadata', { metadata: [] }, '/metadata'],
    ['a text as metadata', { metadata: '{}' }, '/metadata'],
  ])('with %s are refused there', async (_name, change, pointer) => {
    expect(new Set(await pointers({ ...good, ...change }))).toEqual(new Set([pointer]));
  });

  it.each(['{"__proto__":{"x":1}}', '{"constructor":{"name":"X"}}', '{"toString":1}', '{"hasOwnProperty":1}'])(
    'with the unknown member of %s are refused like with any other',
    async (text) => {
      const hostile = JSON.parse(text) as object;
      const value = Object.defineProperties({ ...good }, Object.getOwnPropertyDescriptors(hostile));
      expect(await pointers(value)).toEqual([`/${Object.keys(hostile)[0]}`]);
      const line = Object.defineProperties({ ...good.lines[0] }, Object.getOwnPropertyDescriptors(hostile));
      expect(await pointers({ ...good, lines: [line] })).toEqual([`/lines/0/${Object.keys(hostile)[0]}`]);
    },
  );

  it('hand metadata over untouched', async () => {
    const metadata = JSON.parse(
      '{"__proto__":{"a":1},"constructor":"x","then":{"constructor":{"name":1}},"2":[1.5,null,{"date":"2026-01-01"}],"":0}'.replace(
        ',"":0',
        '',
      ),
    ) as Record<string, unknown>;
    const before = JSON.stringify(metadata);
    const order = (await check('body', Order, { ...good, metadata })) as Order;
    expect(order.metadata).toBe(metadata);
    expect(JSON.stringify(order.metadata)).toBe(before);
    expect(({} as Record<string, unknown>)['a']).toBeUndefined();
  });

  it('list at most 50 faults and say how many there are', async () => {
    const value = { ...good, lines: Array.from({ length: 100 }, () => ({})) };
    const error = await check('body', Order, value).catch(
      (reason: unknown) => reason as DomainError<typeof validationFailed>,
    );
    expect((error as DomainError<typeof validationFailed>).members.errors).toHaveLength(50);
    expect((error as DomainError).detail).toMatch(/has \d{3} faults; the first 50/);
  });

  it('that are no object are refused as a whole', async () => {
    for (const value of [null, undefined, [], [good], 'x', 1, true]) expect(await pointers(value)).toEqual(['']);
  });

  it('without a class are not looked at', async () => {
    expect(await check('body', Object, { any: 1 })).toEqual({ any: 1 });
    expect(await check('body', undefined, [1])).toEqual([1]);
  });

  it('of a partial class check what is there', async () => {
    expect(await check('body', OrderPatch, {})).toBeInstanceOf(OrderPatch);
    expect(await pointers({ lines: [{ ...good.lines[0], quantity: 0 }] }, OrderPatch)).toEqual(['/lines/0/quantity']);
    expect(await pointers({ customer: [] }, OrderPatch)).toEqual(['/customer']);
    expect(await pointers({ foo: 1 }, OrderPatch)).toEqual(['/foo']);
  });
});

describe('queries', () => {
  it('are read from text', async () => {
    const query = { status: 'pending,confirmed', 'placedAt[gte]': '2026-01-01T00:00:00Z', limit: '50', deep: 'true' };
    expect({ ...((await check('query', ListQuery, query)) as ListQuery) }).toEqual({
      status: ['pending', 'confirmed'],
      'placedAt[gte]': '2026-01-01T00:00:00Z',
      limit: 50,
      deep: true,
    });
  });

  it.each([
    [{ status: 'pending,gone' }, 'status'],
    [{ status: ['pending', 'confirmed'] }, 'status'],
    [{ 'placedAt[gte]': '2026-01-01T00:00:00 01:00' }, 'placedAt[gte]'],
    [{ limit: '' }, 'limit'],
    [{ limit: '007' }, 'limit'],
    [{ limit: 'Infinity' }, 'limit'],
    [{ limit: '1\0' }, 'limit'],
    [{ deep: '1' }, 'deep'],
  ])('with %j are invalid-parameter', async (query, parameter) => {
    const { code, faults } = await refusal(check('query', ListQuery, query));
    expect(code).toBe('invalid-parameter');
    expect(new Set(faults.map(([name]) => name))).toEqual(new Set([parameter]));
  });

  it('with parameters nobody knows are unknown-parameter', async () => {
    const query = Object.assign(Object.create(null) as object, { stauts: 'x', constructor: 'y' });
    const { code, faults } = await refusal(check('query', ListQuery, query));
    expect(code).toBe('unknown-parameter');
    expect(faults.map(([name]) => name)).toEqual(['stauts', 'constructor']);
    expect((await refusal(check('query', NoQuery, { a: '1' }))).code).toBe('unknown-parameter');
    expect(await check('query', NoQuery, {})).toBeInstanceOf(NoQuery);
  });
});

describe('paths', () => {
  it('with an id that no record can have are not-found', async () => {
    expect((await refusal(check('param', OrderPath, { id: 'x' }))).code).toBe('not-found');
    expect(await check('param', OrderPath, { id: '0198a4f2-7c1e-7cc3-9b60-2f7f6f0a9d11' })).toBeInstanceOf(OrderPath);
  });
});
