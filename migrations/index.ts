import { AuditEvents1764460803000 } from './1764460803000-audit-events.js';
import { AuditLog1764460807000 } from './1764460807000-audit-log.js';
import { ContextAndIdentity1764460801000 } from './1764460801000-context-and-identity.js';
import { ExternalCalls1764460806100 } from './1764460806100-external-calls.js';
import { Idempotency1764460806000 } from './1764460806000-idempotency.js';
import { Identity1764460805000 } from './1764460805000-identity.js';
import { OrderDocuments1764460810000 } from './1764460810000-order-documents.js';
import { OrderDocumentsAsText1764460811000 } from './1764460811000-order-documents-as-text.js';
import { OneStateCheck1764460812000 } from './1764460812000-one-state-check.js';
import { Orders1764460804000 } from './1764460804000-orders.js';
import { StateAndErasure1764460807100 } from './1764460807100-state-and-erasure.js';
import { StateCheckLookups1764460809000 } from './1764460809000-state-check-lookups.js';
import { Payments1764460808000 } from './1764460808000-payments.js';
import { SimulatedProvider1764460808001 } from './1764460808001-simulated-provider.js';
import { Workflow1764460802000 } from './1764460802000-workflow.js';

/** Every migration of Waybill. TypeORM runs them in the order of their timestamps. */
export const migrations = [
  ContextAndIdentity1764460801000,
  Workflow1764460802000,
  AuditEvents1764460803000,
  Orders1764460804000,
  Identity1764460805000,
  Idempotency1764460806000,
  ExternalCalls1764460806100,
  AuditLog1764460807000,
  StateAndErasure1764460807100,
  Payments1764460808000,
  SimulatedProvider1764460808001,
  StateCheckLookups1764460809000,
  OrderDocuments1764460810000,
  OrderDocumentsAsText1764460811000,
  OneStateCheck1764460812000,
];
