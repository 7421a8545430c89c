import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { areSameKeys, deriveLogKeys, publicKeysOf } from '../format/log-keys.js';
import { generateSigningKey, parseSigningKey, signingKeyOf } from '../format/signing-key.js';
import { SigningKeys } from './signing-keys.js';

describe('signing keys', () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'waybill-keys-'));
  });
  afterAll(() => rm(folder, { recursive: true }));

  it('are derived as docs/audit-format.md says', () => {
    const { checkpointKey, eventKey } = publicKeysOf(
      deriveLogKeys(signingKeyOf(Buffer.from([...Array(32).keys()])), 1),
    );
    expect(checkpointKey.toString('hex')).toBe('b4c3d248ded387f551515ec831cee2a911b75b962c6f6f4213a55126ecd46b93');
    expect(eventKey.toString('hex')).toBe('e207f896db2c7fe4b8fc23476507e20b1a338176e0c1594615fabc85d5954fd7');
  });

  it('differ by use and by tenant, and from the root key', () => {
    const root = parseSigningKey(generateSigningKey());
    const keys = [1, 2].flatMap((tenantId) => Object.values(publicKeysOf(deriveLogKeys(root, tenantId))));
    expect(new Set([root.publicKey, ...keys].map((key) => key.toString('hex'))).size).toBe(5);
  });

  it("come from a tenant's own root key where it has one, which is looked for again", async () => {
    const [shared, own, later] = [generateSigningKey(), generateSigningKey(), generateSigningKey()];
    await writeFile(join(folder, '2.pem'), own);
    const keys = new SigningKeys({ root: { pem: shared }, folder });
    const isOf = (tenantId: number, pem: string): boolean =>
      areSameKeys(publicKeysOf(keys.of(tenantId)), publicKeysOf(deriveLogKeys(parseSigningKey(pem), tenantId)));
    expect([isOf(1, shared), isOf(2, own), keys.isOwn(1), keys.isOwn(2)]).toEqual([true, true, false, true]);
    await writeFile(join(folder, '2.pem'), later);
    expect(isOf(2, own)).toBe(true);
    keys.reload(2);
    expect(isOf(2, later)).toBe(true);
    await writeFile(join(folder, '2.pem'), 'no key');
    expect(() => keys.reload(2)).toThrow(`${join(folder, '2.pem')} can't be used`);
  });

  it('are missed by name', () => {
    const keys = new SigningKeys({ root: null, folder });
    expect(() => keys.of(7)).toThrow(`Tenant 7 has no signing key. Put one into ${join(folder, '7.pem')}`);
  });
});
