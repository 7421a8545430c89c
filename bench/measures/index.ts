import { auditCost } from './audit-cost.js';
import { claimScale } from './claim-scale.js';
import { create } from './create.js';
import { keyCost } from './key-cost.js';
import { listScale } from './list-scale.js';
import type { Measure } from './measure.js';
import { processes } from './processes.js';
import { read } from './read.js';
import { replay } from './replay.js';
import { sealing } from './sealing.js';
import { start } from './start.js';
import { transition } from './transition.js';
import { verification } from './verification.js';

/** In the order of the table. */
export const measures: readonly Measure[] = [
  create,
  transition,
  replay,
  read,
  keyCost,
  auditCost,
  processes,
  listScale,
  claimScale,
  sealing,
  verification,
  start,
];
