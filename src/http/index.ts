export { hardenHttp } from './harden-http.js';
export { redact } from './redact.js';
