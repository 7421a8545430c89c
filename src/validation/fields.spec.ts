import 'reflect-metadata';
import { describe, expect, it } from '@jest/globals';
import { AmountField, IntegerField, ObjectsField, PatternField, TextField } from './fields.js';
import { createValidationPipe } from './validation.pipe.js';

/** Where @nestjs/swagger keeps what ApiProperty says. */
const SWAGGER_PROPERTY = 'swagger/apiModelProperties';

class Part {
  @IntegerField({ min: 1, max: 5 })
  count!: number;
}

class Thing {
  @TextField({ max: 3 })
  name!: string;

  @TextField({ optional: true, max: 3, description: 'Why.' })
  reason?: string | null;

  @PatternField(/^[a-z]{2}$/, 'must be two letters')
  code!: string;

  @AmountField({ min: 1 })
  amount!: number;

  @ObjectsField(Part, { min: 1, max: 2 })
  parts!: Part[];
}

const GOOD = { name: 'abc', code: 'ab', amount: 1, parts: [{ count: 5 }] };

/** The pointers of the faults of a body. */
async function faultsOf(body: object): Promise<string[]> {
  const checked = createValidationPipe().transform(body, { type: 'body', metatype: Thing });
  const error = await Promise.resolve(checked).then(
    () => null,
    (reason: { members: { errors: { pointer: string }[] } }) => reason,
  );
  return error ? error.members.errors.map(({ pointer }) => pointer) : [];
}

function documentOf(property: string): Record<string, unknown> {
  return Reflect.getMetadata(SWAGGER_PROPERTY, Thing.prototype, property) as Record<string, unknown>;
}

describe('a field', () => {
  it('takes what reaches its bounds, and nothing beyond them', async () => {
    expect(await faultsOf(GOOD)).toEqual([]);
    expect(await faultsOf({ ...GOOD, name: 'abcd' })).toEqual(['/name']);
    expect(await faultsOf({ ...GOOD, name: '' })).toEqual(['/name']);
    expect(await faultsOf({ ...GOOD, code: 'abc' })).toEqual(['/code']);
    expect(await faultsOf({ ...GOOD, amount: 0 })).toEqual(['/amount']);
    expect(await faultsOf({ ...GOOD, parts: [] })).toEqual(['/parts']);
    expect(await faultsOf({ ...GOOD, parts: [{ count: 6 }, { count: 1 }] })).toEqual(['/parts/0/count']);
    expect(await faultsOf({ ...GOOD, parts: [{ count: 1 }, { count: 1 }, { count: 1 }] })).toEqual(['/parts']);
  });

  it('says the same bounds in the API document', () => {
    expect(documentOf('name')).toMatchObject({ type: 'string', minLength: 1, maxLength: 3, required: true });
    expect(documentOf('code')).toMatchObject({ type: 'string', pattern: '^[a-z]{2}$' });
    expect(documentOf('amount')).toMatchObject({ type: 'integer', minimum: 1, maximum: 9_000_000_000_000 });
    expect(documentOf('parts')).toMatchObject({ isArray: true, minItems: 1, maxItems: 2 });
  });

  it('that is optional may be missing or null', async () => {
    expect(await faultsOf({ ...GOOD, reason: null })).toEqual([]);
    expect(documentOf('reason')).toMatchObject({ required: false, description: 'Why.' });
  });
});
