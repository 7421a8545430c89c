import type { Exchange } from '../../support/document-check.js';
import { below, type Random } from '../storm-plan.js';

/** Enough for any choice; more would only hide the newest. */
const MOST = 40;

/** Values that lead somewhere: ids, versions and cursors that answers told. */
export class KnownValues {
  private readonly ids = new Map<string, string[]>([
    ['logs', ['1']],
    ['tile', ['0/000.p/1', '0/000.p/2']],
    ['workflows', ['order', 'payment', 'refund']],
    ['customers', ['c-42', 'c-7']],
    ['payment-webhooks', ['simulated']],
  ]);
  private readonly cursors = new Map<string, string>();
  private readonly tags = new Map<string, string>();

  /** @param kind what stands before it in addresses, such as `orders` */
  id(kind: string, random: Random): string | undefined {
    const known = this.ids.get(kind) ?? [];
    return known[below(random, known.length)];
  }

  /** `next` of the last page of a list, and the ETag of the last answer of an address. */
  cursor(path: string): string | undefined {
    return this.cursors.get(path);
  }

  tag(path: string): string | undefined {
    return this.tags.get(path);
  }

  learn({ path: address, status, headers, text }: Exchange): void {
    if (status >= 300) return;
    const [path = ''] = address.split('?');
    const location = headers.get('location') ?? path;
    const [, kind = '', id] = /^\/v1\/([a-z-]+)\/([^/]+)$/.exec(location) ?? [];
    if (id) this.add(kind, id);
    const tag = headers.get('etag');
    if (tag) this.tags.set(location.replace(/\/transitions$/, ''), tag);
    if (text === '' || !(headers.get('content-type') ?? '').startsWith('application/json')) return;
    const { next, data } = JSON.parse(text) as { next?: unknown; data?: { id?: unknown }[] };
    if (typeof next === 'string') this.cursors.set(path, next);
    const [, listed = ''] = /^\/v1\/([a-z-]+)$/.exec(path) ?? [];
    for (const entry of Array.isArray(data) ? data : []) {
      if (typeof entry.id === 'string') this.add(listed, entry.id);
    }
  }

  private add(kind: string, id: string): void {
    const known = this.ids.get(kind) ?? [];
    if (!known.includes(id)) this.ids.set(kind, [id, ...known].slice(0, MOST));
  }
}
