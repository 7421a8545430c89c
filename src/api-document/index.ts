export { completeDocument } from './complete-document.js';
export { readRecordedExamples } from './recorded-examples.js';
export { SWAGGER_PAGE } from './swagger-page.js';
