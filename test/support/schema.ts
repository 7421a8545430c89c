import type { Client } from 'pg';
import { readSchema } from '../../src/database/schema/read-schema.js';
import { keyOf } from '../../src/database/schema/schema-object.js';

/** All that the schemas of a database consist of, as one text: two databases have the same schema when it is the same. */
export async function schemaText(client: Client): Promise<string> {
  const objects = await readSchema(client);
  return objects.map((object) => `${keyOf(object)} of ${object.owner}\n  ${object.create}`).join('\n');
}
