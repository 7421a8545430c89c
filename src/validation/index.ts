export * from './field-decorators.js';
export * from './page-query.js';
export * from './uuid-param.pipe.js';
export * from './validation.pipe.js';
