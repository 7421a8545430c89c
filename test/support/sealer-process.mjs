/*
 * A process that seals, for tests that kill it: `node sealer-process.mjs <settings as JSON>`. With `killAt` it kills itself,
 * as the operating system would, when that step has been done; `rounds` seals that often, and leaves with exit code 0.
 */

const { sealerUrl, pem, directory, origin, tenantId, killAt, rounds = 1, batchSize = 5 } = JSON.parse(process.argv[2]);
const from = (path) => import(new URL(`../../dist/src/audit/log/${path}`, import.meta.url).href);
const { sealBatch } = await from('seal-batch.js');
const { publishCheckpoint } = await from('publish-checkpoint.js');
const { sealerPool } = await from('sealer-pool.js');
const { SigningKeys } = await from('signing-keys.js');
const { CheckpointDirectory } = await from('checkpoint-directory.js');

const tools = {
  pool: sealerPool(sealerUrl),
  keys: new SigningKeys({ root: { pem }, folder: null }),
  origin,
  directory: new CheckpointDirectory(directory),
  onStep: (step) => {
    if (step === killAt) process.kill(process.pid, 'SIGKILL');
  },
};
for (let round = 0; round < rounds; round += 1) {
  if (await sealBatch(tools, tenantId, batchSize)) await publishCheckpoint(tools, tenantId);
}
await tools.pool.end();
