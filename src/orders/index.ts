export { externalRefTaken, paymentInProgress, quantityExceeded } from './orders.errors.js';
export { OrdersModule } from './orders.module.js';
export { MAX_LINES, MAX_QUANTITY } from './order-totals.js';
