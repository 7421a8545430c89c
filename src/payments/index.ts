export { PaymentFigures } from './payment-figures.js';
export { type PaymentSettings, PaymentsModule } from './payments.module.js';
