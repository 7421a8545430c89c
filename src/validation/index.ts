export * from './fields.js';
export * from './page-query.js';
export * from './uuid-param.pipe.js';
export * from './validation.pipe.js';
export { findMetadataFault, IsMetadata, IsText, isText } from './value-checks.js';
