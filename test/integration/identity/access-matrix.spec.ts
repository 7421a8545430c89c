import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { format, resolveConfig } from 'prettier';
import { ApiClient } from '../../support/api-client.js';
import { startTestApp, type TestApp } from '../../support/app.js';
import { type Order, orderBody, type ProblemAnswer } from '../../support/builders.js';
import { type Operation, operationsOf } from '../../support/openapi.js';

const FILE = join(import.meta.dirname, '../../../docs/access-matrix.md');
const CALLERS = ['nobody', 'viewer', 'operator', 'auditor', 'admin'];

/**
 * Requests that reach the point where a role may still be asked for beyond the route's own. Others are sent with an id
 * that there is not and an empty body: an answer other than 401 and 403 says that the caller was let in.
 */
const REQUESTS: Record<string, (service: TestApp) => Promise<{ id: string; body: unknown }>> = {
  transitionOrder: async (service) => {
    const placed = await service.as('operator').post<Order>('/v1/orders', orderBody());
    return { id: placed.body.id, body: { to: 'confirmed' } };
  },
};

const INTRODUCTION = `# Who may call what

Made by \`test/integration/identity/access-matrix.spec.ts\`, which calls every operation of the OpenAPI document with a key
of each role and compares; after a change: \`UPDATE_DOCS=1 npm test -- access-matrix\`.

\`yes\` means that the caller is let in, 401 and 403 are the answers to those who are not. Roles add up: a user may hold
several. A role that an extension brings is asked for by the steps of a workflow that name it, or by routes of the
extension; its holder needs \`viewer\` beside it to read. Which steps of a workflow a caller may take is said step by step by
\`GET /v1/orders/{id}/transitions\`; the line of \`transitionOrder\` shows the step from pending to confirmed.

The feed and the proofs are for every reader: an event holds nothing of an order or payment that its own routes don't show. Events of
users, API keys and policies are shown to auditors and administrators only. The
whole log as one export, and its verification, which reads everything, are for auditors. The routes below \`/logs\` answer
anybody, where the tenant has made its log public, and 404 elsewhere.
`;

describe('the matrix of roles and operations', () => {
  let service: TestApp;
  let operations: Operation[];
  beforeAll(async () => {
    service = await startTestApp({ env: { RATE_LIMIT: 'off' } });
    operations = await operationsOf(service);
  });
  afterAll(() => service.close());

  const clientOf = (caller: string) => (caller === 'nobody' ? new ApiClient(service.baseUrl) : service.as(caller));

  const ask = async ({ operationId, method, path, takesBody }: Operation, caller: string) => {
    const prepared = await REQUESTS[operationId]?.(service);
    const id = prepared?.id ?? randomUUID();
    return clientOf(caller).send<ProblemAnswer>(method, path.replace(/\{[^}]+\}/g, id), {
      body: prepared?.body ?? (takesBody ? {} : undefined),
      headers: method === 'GET' ? {} : { 'idempotency-key': randomUUID(), 'if-match': '*' },
    });
  };

  it('is the one in docs/access-matrix.md', async () => {
    const lines: string[] = [];
    for (const operation of operations) {
      const cells: string[] = [];
      for (const caller of CALLERS) {
        const { status } = await ask(operation, caller);
        expect([operation.operationId, caller, status]).not.toEqual([operation.operationId, caller, 500]);
        cells.push(status === 401 || status === 403 ? String(status) : 'yes');
      }
      lines.push(`| \`${operation.method} ${operation.path}\` | ${operation.operationId} | ${cells.join(' | ')} |`);
    }
    const head = `| operation | id | ${CALLERS.join(' | ')} |\n| --- | --- |${' --- |'.repeat(CALLERS.length)}`;
    const options = { ...(await resolveConfig(FILE)), parser: 'markdown' };
    const made = await format(`${INTRODUCTION}\n${head}\n${lines.join('\n')}\n`, options);
    if (process.env.UPDATE_DOCS) await writeFile(FILE, made);
    expect(await readFile(FILE, 'utf8')).toBe(made);
  });

  it('leaves nothing but the public few to nobody', async () => {
    const open: string[] = [];
    for (const operation of operations) {
      const { status, headers } = await ask(operation, 'nobody');
      if (status !== 401) open.push(operation.operationId);
      else expect(headers.get('www-authenticate')).toBe('Bearer');
    }
    expect(open).toEqual(operations.filter(({ isPublic }) => isPublic).map(({ operationId }) => operationId));
    // Providers sign their events; a log answers nobody unless its tenant has made it public.
    expect(open.toSorted()).toEqual([
      'getLaterPublicCheckpoint',
      'getLaterTile',
      'getLiveness',
      'getPublicCheckpoint',
      'getReadiness',
      'getTile',
      'receivePaymentEvent',
    ]);
  });

  it('says in every 403 which roles it takes', async () => {
    for (const operation of operations.filter(({ isPublic }) => !isPublic)) {
      for (const caller of ['viewer', 'operator', 'auditor']) {
        const { status, body } = await ask(operation, caller);
        if (status !== 403) continue;
        expect([operation.operationId, body.code]).toEqual([operation.operationId, 'role-required']);
        expect(body.roles).not.toContain(caller);
      }
    }
  });

  it('tells each caller which steps of a workflow are his', async () => {
    const placed = await service.as('operator').post<Order>('/v1/orders', orderBody());
    const stepsOf = async (role: string) => {
      const path = `/v1/orders/${placed.body.id}/transitions`;
      const { body } = await service.as(role).get<{ transitions: { to: string; allowed: boolean }[] }>(path);
      return Object.fromEntries(body.transitions.map(({ to, allowed }) => [to, allowed]));
    };
    expect(await stepsOf('viewer')).toEqual({ confirmed: false, canceled: false });
    expect(await stepsOf('auditor')).toEqual({ confirmed: false, canceled: false });
    expect(await stepsOf('operator')).toEqual({ confirmed: true, canceled: true });
  });

  it('documents both kinds of credentials for every operation that needs any', async () => {
    const { body } = await service.as('viewer').get<{
      components: { securitySchemes: Record<string, object> };
      paths: Record<string, Record<string, { security?: object[]; responses: Record<string, unknown> }>>;
    }>('/openapi.json');
    expect(body.components.securitySchemes).toMatchObject({
      apiKey: { type: 'http', scheme: 'bearer' },
      token: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' },
    });
    const guarded = Object.values(body.paths).flatMap((path) => Object.values(path).filter(({ security }) => security));
    expect(guarded.length).toBeGreaterThanOrEqual(18);
    for (const { security, responses } of guarded) {
      expect(security).toEqual([{ apiKey: [] }, { token: [] }]);
      expect(Object.keys(responses)).toEqual(expect.arrayContaining(['401', '403', '429']));
    }
  });
});
