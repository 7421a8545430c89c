import type { MigrationInterface, QueryRunner } from 'typeorm';
import { STATE_FAULTS } from './1764460807100-state-and-erasure.js';

/**
 * One form of `audit.state_faults` everywhere. What StateCheckLookups first was replaced it, too, by one that finds the same at
 * nearly the same speed; databases on which that ran have it, and doctor would call it a difference.
 */
export class OneStateCheck1764460812000 implements MigrationInterface {
  async up(db: QueryRunner): Promise<void> {
    await db.query(`SET LOCAL ROLE waybill_audit`);
    await db.query(`CREATE OR REPLACE ${STATE_FAULTS}`);
    await db.query(`RESET ROLE`);
  }

  /** It is what it was before. */
  down(): Promise<void> {
    return Promise.resolve();
  }
}
