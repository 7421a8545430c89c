export * from './api-problems.js';
export * from './domain-error.js';
export { isUnavailable } from './foreign-errors.js';
export { PROBLEM_PAGE_CSP, renderPage, renderProblemIndex, renderProblemPage } from './problem-page.js';
export * from './problem-schemas.js';
export * from './problem-table.js';
export * from './problem.js';
