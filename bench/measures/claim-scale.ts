import { generateKeys } from '../generate/keys.js';
import { alternate } from '../load/alternate.js';
import { sqlSide } from '../load/sides.js';
import { describe, ratios, throughput } from '../report/row.js';
import { query } from '../world/server.js';
import type { Measure } from './measure.js';

/** The claim of a new key and its completion, with an empty table and with millions of old keys. */
export const claimScale: Measure = {
  name: 'claim-scale',
  run: async (bench) => {
    const { server, options } = bench;
    const empty = await server.createDatabase('bench_claim_empty');
    const full = await server.createDatabase('bench_claim_full');
    try {
      await generateKeys(full, options.keys, bench.say);
      // A checkpoint would otherwise write the new table out during one side's turns.
      await query(server.superuserUrl, 'CHECKPOINT');
      const script = [
        '\\set key random(1, 9000000000000000000)',
        'BEGIN;',
        `SELECT waybill.claim_key(1, 'OPERATOR', '{operator}', 'bench', 'new-' || :key, sha256('request'), NULL, NULL);`,
        `SELECT waybill.complete_key(1, 'new-' || :key, sha256('request'), NULL, 201::smallint, '{"etag": "1"}', sha256('answer'), 'order/x', interval '24 hours');`,
        'COMMIT;',
      ].join('\n');
      const [large = [], small = []] = await alternate(bench, [
        sqlSide(bench, 'many old keys', full, script.replace('OPERATOR', full.operator)),
        sqlSide(bench, 'empty table', empty, script.replace('OPERATOR', empty.operator)),
      ]);
      return [
        {
          measure: `claim with ${options.keys.toLocaleString('en-US')} old keys: time`,
          against: 'with an empty table',
          figures: ratios(small, large, throughput),
          unit: '×',
          goal: { atMost: 1.2 },
          details: { 'old keys': describe(large), empty: describe(small) },
        },
      ];
    } finally {
      await server.dropDatabase('bench_claim_empty');
      await server.dropDatabase('bench_claim_full');
    }
  },
};
