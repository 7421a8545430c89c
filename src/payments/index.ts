export { type PaymentSettings, PaymentsModule } from './payments.module.js';
export { PaymentWebhookGate } from './payment-webhook-gate.js';
export { PaymentWebhooksService } from './payment-webhooks.service.js';
