export { hardenHttp } from './harden-http.js';
