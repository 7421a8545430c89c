export { OrdersModule } from './orders.module.js';
