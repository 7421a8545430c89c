export { type PaymentSettings, PaymentsModule } from './payments.module.js';
