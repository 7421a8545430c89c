import { Injectable } from '@nestjs/common';
import { LRUCache } from 'lru-cache';

const MAX_KEYS = 10_000;
const REMEMBERED_MS = 600_000;

/**
 * Keys that this process has lately seen answered. Whoever sends one again most likely repeats the request, so it is worth
 * asking for the answer first. A guess and no more than that: what counts is what the database says.
 */
@Injectable()
export class AnsweredKeys {
  private readonly keys = new LRUCache<string, true>({ max: MAX_KEYS, ttl: REMEMBERED_MS });

  note(tenantId: number, key: string): void {
    this.keys.set(`${tenantId}/${key}`, true);
  }

  has(tenantId: number, key: string): boolean {
    return this.keys.has(`${tenantId}/${key}`);
  }
}
