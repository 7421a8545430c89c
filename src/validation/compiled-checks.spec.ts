import 'reflect-metadata';
import { describe, expect, test } from '@jest/globals';
import { Type } from 'class-transformer';
import {
  ArrayMinSize,
  IsDefined,
  IsInt,
  IsOptional,
  Length,
  Min,
  validate,
  ValidateIf,
  ValidateNested,
} from 'class-validator';
import fc from 'fast-check';
import { isFaultless } from './compiled-checks.js';

class Line {
  @Length(1, 3)
  sku!: unknown;
  @IsOptional()
  @IsInt()
  @Min(1)
  quantity?: unknown;
}

class Order {
  @IsDefined()
  @ValidateNested()
  @Type(() => Line)
  first!: unknown;
  @IsOptional()
  @ArrayMinSize(1)
  @ValidateNested({ each: true })
  @Type(() => Line)
  rest?: unknown;
  @ValidateIf((order: Order) => order.first !== null)
  @IsInt()
  version!: unknown;
}

class SlowOrder {
  @IsInt({ each: true })
  numbers!: unknown;
}

const OPTIONS = { forbidUnknownValues: false };
const loose = fc.oneof(
  fc.constant(undefined),
  fc.constant(null),
  fc.string({ maxLength: 5 }),
  fc.integer(),
  fc.boolean(),
);
const good = fc.record({ sku: fc.string({ minLength: 1, maxLength: 3 }), quantity: fc.integer({ min: 1, max: 9 }) });
const line = fc
  .oneof({ weight: 4, arbitrary: good }, fc.record({ sku: loose, quantity: loose }))
  .map((members) => Object.assign(new Line(), members));
const order = fc
  .record({
    first: fc.oneof({ weight: 4, arbitrary: line }, loose),
    rest: fc.oneof(fc.array(fc.oneof({ weight: 5, arbitrary: line }, loose), { maxLength: 3 }), loose),
    version: fc.oneof(fc.integer(), loose),
  })
  .map((members) => Object.assign(new Order(), members));

describe('quick validation', () => {
  test('sees no fault only where class-validator finds none, and mostly there', async () => {
    let [faultless, missed] = [0, 0];
    await fc.assert(
      fc.asyncProperty(order, async (one) => {
        const errors = await validate(one, OPTIONS);
        const seen = isFaultless(one);
        expect(seen && errors.length > 0).toBe(false);
        if (seen) faultless += 1;
        else if (errors.length === 0) missed += 1;
      }),
      { numRuns: 2_000 },
    );
    // Missed are null and undefined among the elements of an array, which class-validator lets pass.
    expect(faultless).toBeGreaterThan(100);
    expect(missed).toBeLessThan(faultless / 10);
  });

  test('leaves decorators that it does not understand to class-validator', () => {
    expect(isFaultless(Object.assign(new SlowOrder(), { numbers: [1, 2] }))).toBe(false);
  });

  test('finds none in an instance whose class asks for nothing', () => {
    expect(isFaultless(new (class {})())).toBe(true);
  });
});
