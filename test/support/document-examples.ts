import type { OpenAPIObject } from '@nestjs/swagger';

/** A media type of the document, with the examples that stand beside its schema. */
export interface ShownExamples {
  /** Where the media type stands, as a JSON pointer in URI form: `#/paths/…/application~1json`. */
  pointer: string;
  values: { name: string; value: unknown }[];
}

/** Every JSON media type of requests and answers in a document. */
export function examplesOf(document: OpenAPIObject): ShownExamples[] {
  return walk(document, '#');
}

function walk(value: unknown, pointer: string): ShownExamples[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, member]: [string, unknown]) => {
    const place = `${pointer}/${encodeURIComponent(name.replaceAll('~', '~0').replaceAll('/', '~1'))}`;
    // A value that is an example is no part of the document's structure.
    if (name === 'examples' || name === 'example') return [];
    if (name === 'content' && isObject(member)) {
      return (
        Object.entries(member)
          // A stream of lines is no one value.
          .filter(([mediaType]) => /[/+]json$/.test(mediaType))
          .map(([mediaType, content]) => ({
            pointer: `${place}/${encodeURIComponent(mediaType.replaceAll('/', '~1'))}`,
            values: valuesOf(content),
          }))
      );
    }
    return walk(member, place);
  });
}

function valuesOf(content: unknown): { name: string; value: unknown }[] {
  const { examples = {} } = content as { examples?: Record<string, { value: unknown }> };
  return Object.entries(examples).map(([name, { value }]) => ({ name, value }));
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}
