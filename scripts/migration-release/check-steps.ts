import { migrate, migrateDown } from '../../src/database/migrate.js';
import { byKey, readSchema } from '../../src/database/schema/read-schema.js';
import type { SchemaObject } from '../../src/database/schema/schema-object.js';
import { isSame } from './difference.js';
import type { OpenDatabase } from './throwaway-server.js';

/**
 * Runs the released steps up, the last one down, and up again.
 *
 * @param before the schema without the last step
 * @param after the schema with it
 * @returns sentences that say what comes out otherwise
 */
export function checkSteps(
  open: OpenDatabase,
  before: readonly SchemaObject[],
  after: readonly SchemaObject[],
): Promise<string[]> {
  return open('check', async (client, ownerUrl) => {
    await migrate(ownerUrl);
    const whole = await readSchema(client);
    await migrateDown(ownerUrl);
    const back = await readSchema(client);
    await migrate(ownerUrl);
    const again = await readSchema(client);
    return [
      ...differences(whole, after).map((what) => `The steps make it another: ${what}`),
      ...differences(back, before).map((what) => `Taking the last step back leaves it another: ${what}`),
      ...differences(again, after).map((what) => `After down and up again it is another: ${what}`),
    ];
  });
}

/** By kind and name, what is only in one of two schemas, or not the same in both. */
export function differences(one: readonly SchemaObject[], other: readonly SchemaObject[]): string[] {
  const [a, b] = [byKey(one), byKey(other)];
  const different = [...a].filter(([key, object]) => {
    const same = b.get(key);
    return !same || !isSame(object, same);
  });
  return [...different.map(([key]) => key), ...[...b.keys()].filter((key) => !a.has(key))];
}
