import { Injectable } from '@nestjs/common';
import {
  type NamedStatement,
  type TenantTransaction,
  type TransitionChange,
  TransitionGuard,
  type TransitionGuardProvider,
} from 'waybill/extension';

const RISK_SCORE: NamedStatement = {
  name: 'holds_risk_score',
  text: `SELECT metadata ->> 'riskScore' AS score FROM waybill.orders WHERE tenant_id = $1 AND id = $2`,
};
const HIGHEST_SCORE = 50;

/** An order leaves its hold only with a risk score, and a low one. */
@Injectable()
@TransitionGuard('risk-reviewed')
export class RiskReviewed implements TransitionGuardProvider {
  async refuse(tx: TenantTransaction, { entityId }: TransitionChange): Promise<string | null> {
    const [order] = await tx.rows<{ score: string | null }>(RISK_SCORE, [tx.context.tenantId, entityId]);
    if (!order?.score) return 'The order has no metadata.riskScore yet.';
    const score = Number(order.score);
    return score <= HIGHEST_SCORE ? null : `The risk score is ${score}; at most ${HIGHEST_SCORE} goes on.`;
  }
}
