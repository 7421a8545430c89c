import { readFileSync } from 'node:fs';

/** What is shown beside a schema: a sentence, and a value as it was really sent. */
export interface RecordedExample {
  summary: string;
  value: unknown;
}

export interface OperationExamples {
  request?: Record<string, RecordedExample>;
  /** By status, then by name. */
  responses?: Record<string, Record<string, RecordedExample>>;
}

/** By operation id. */
export type RecordedExamples = Record<string, OperationExamples>;

/**
 * Requests and answers of a running service, recorded by test/integration/api-examples.spec.ts, which also finds them out
 * of date.
 */
export function readRecordedExamples(): RecordedExamples {
  return JSON.parse(readFileSync(new URL('./recorded-examples.json', import.meta.url), 'utf8')) as RecordedExamples;
}
