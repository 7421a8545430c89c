export { externalRefTaken, paymentInProgress, quantityExceeded } from './orders.errors.js';
export { OrdersModule } from './orders.module.js';
