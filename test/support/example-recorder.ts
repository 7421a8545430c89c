import { createHash } from 'node:crypto';
import type { OperationExamples, RecordedExample, RecordedExamples } from '../../src/api-document/recorded-examples.js';
import type { Exchange } from './document-check.js';

const FIRST_TIME = Date.UTC(2026, 10, 30, 8, 15, 30);
const SECONDS_BETWEEN = 90;
const CURSOR = 'eyJzb3J0IjoiLXBsYWNlZEF0IiwiYWZ0ZXIiOiIyMDI2LTExLTMwIn0';
const NUMBERS = ['7K3M-9QXT', '2FWA-H04C', 'Z8RN-51VE', 'D6PJ-3M7B'];

/**
 * Collects requests and answers as examples for the OpenAPI document. What differs from run to run (ids, times, hashes,
 * numbers, cursors) becomes the same in every recording, and stays the same within one: an id that occurs twice still
 * does.
 */
export class ExampleRecorder {
  private readonly examples: Record<string, Required<OperationExamples>> = {};
  private current: { operationId: string; summary: string } | undefined;

  /** Sends a request whose exchange becomes an example of the operation. */
  async show<T>(operationId: string, summary: string, send: () => Promise<T>): Promise<T> {
    this.current = { operationId, summary };
    try {
      return await send();
    } finally {
      this.current = undefined;
    }
  }

  /** For an ApiClient: what goes over the wire outside of `show` is no example. */
  readonly onExchange = ({ requestBody, status, text }: Exchange): void => {
    if (!this.current) return;
    const { operationId, summary } = this.current;
    const operation = (this.examples[operationId] ??= { request: {}, responses: {} });
    const value = JSON.parse(text) as { code?: string };
    const name = status < 400 ? nameOf(summary) : (value.code ?? nameOf(summary));
    if (requestBody !== undefined && status < 300) operation.request[name] = { summary, value: requestBody };
    const ofStatus: Record<string, RecordedExample> = (operation.responses[String(status)] ??= {});
    ofStatus[name] = { summary, value };
  };

  recording(): RecordedExamples {
    const text = JSON.stringify(this.examples);
    return JSON.parse(steady(text)) as RecordedExamples;
  }
}

function nameOf(summary: string): string {
  return summary
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-|-$/g, '');
}

const SEALED_AT = /"sealedAt":"[^"]+"/g;

function steady(text: string): string {
  // What was sealed together, and between which other times, is the sealer's.
  const times = [
    ...new Set(text.replaceAll(SEALED_AT, '').match(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z/g)),
  ].toSorted();
  return [
    // The secret part of an API key, and what tells keys apart.
    {
      pattern: /wb_1_[0-9a-f]{12}(?:_[\w-]{43})?/g,
      to: (_at: number, key: string) => `wb_1_5f0c9a523a0e${key.length > 17 ? `_${'x'.repeat(43)}` : ''}`,
    },
    { pattern: /"signature":"[\w+/]{86}=="/g, to: () => `"signature":"${'A'.repeat(86)}=="` },
    // A log's keys, which begin with its name.
    {
      pattern: /\+[0-9a-f]{8}\+A[A-Za-z0-9+/]{43}(?![A-Za-z0-9+/])/g,
      to: (at: number) => {
        const digest = createHash('sha256').update(`key ${at}`).digest();
        return `+${digest.toString('hex', 0, 4)}+A${digest.toString('base64').slice(0, 43)}`;
      },
    },
    { pattern: /"next":"[^"]+"/g, to: () => `"next":"${CURSOR}"` },
    {
      pattern: /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g,
      to: (at: number) => `01935c1e-7b3a-7c1d-9f00-${String(at + 1).padStart(12, '0')}`,
    },
    {
      pattern: /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z/g,
      to: (_at: number, found: string) => timeNo(times.indexOf(found)),
    },
    {
      pattern: /\b[0-9a-f]{64}\b/g,
      to: (at: number) => createHash('sha256').update(`example ${at}`).digest('hex'),
    },
    { pattern: SEALED_AT, to: () => '"sealedAt":"2026-11-30T08:45:00.123456Z"' },
    { pattern: /"responseTime":\d+/g, to: () => '"responseTime":4' },
    { pattern: /\bsim_[0-9a-f]{32}/g, to: (at: number) => `sim_${String(at + 1).padStart(32, '0')}` },
    { pattern: /\b[0-9A-Z]{4}-[0-9A-Z]{4}\b/g, to: (at: number) => NUMBERS[at % NUMBERS.length] ?? '' },
  ].reduce((result, { pattern, to }) => replaceEach(result, pattern, to), text);
}

function timeNo(at: number): string {
  return new Date(FIRST_TIME + at * SECONDS_BETWEEN * 1000).toISOString().replace('.000Z', '.123456Z');
}

/** Replaces each distinct match by what its place among the distinct matches says. */
function replaceEach(text: string, pattern: RegExp, to: (at: number, found: string) => string): string {
  const found = [...new Set(text.match(pattern))];
  const replacements = new Map(found.map((match, at) => [match, to(at, match)]));
  return text.replaceAll(pattern, (match) => replacements.get(match) ?? match);
}
