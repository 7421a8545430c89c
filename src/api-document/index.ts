export { completeDocument } from './complete-document.js';
export { readRecordedExamples } from './recorded-examples.js';
