import type { IIdempotencyDataAdapter, IdempotencyResource } from 'express-idempotency';

/** The library's own store walks through all keys at every request; a map is kinder to the comparison. */
export class KeyStore implements IIdempotencyDataAdapter {
  private readonly kept = new Map<string, IdempotencyResource>();

  async findByIdempotencyKey(key: string): Promise<IdempotencyResource> {
    return this.kept.get(key) as IdempotencyResource;
  }

  async create(resource: IdempotencyResource): Promise<void> {
    this.kept.set(resource.idempotencyKey, resource);
  }

  async update(resource: IdempotencyResource): Promise<void> {
    this.kept.set(resource.idempotencyKey, resource);
  }

  async delete(key: string): Promise<void> {
    this.kept.delete(key);
  }
}
