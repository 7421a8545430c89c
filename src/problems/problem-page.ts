import { createHash } from 'node:crypto';

import { problemDefinitions, type ProblemDefinition } from './define-problem.js';
import { DomainError } from './domain-error.js';
import { toProblem } from './problem.js';

const STYLE = `
:root { color-scheme: light dark; --ink: #1d2430; --soft: #5b6575; --paper: #fbfaf7; --card: #fff; --edge: #e4e0d8; --accent: #0b6e5f; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ee; --soft: #98a2b3; --paper: #14171c; --card: #1b2027; --edge: #2c333d; --accent: #5fd0bb; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 17px/1.6 system-ui, sans-serif; }
main { max-width: 44rem; margin: 0 auto; padding: 3.5rem 1.25rem 5rem; }
a { color: var(--accent); }
nav { font-size: .9rem; }
h1 { font-size: 2.1rem; line-height: 1.2; margin: .6rem 0 .4rem; letter-spacing: -.02em; }
h2 { font-size: .8rem; text-transform: uppercase; letter-spacing: .09em; color: var(--soft); margin: 2.2rem 0 .5rem; }
p { margin: 0; }
code, pre { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; font-size: .88em; }
pre { white-space: pre-wrap; background: var(--card); border: 1px solid var(--edge); border-radius: 10px; padding: 1rem 1.1rem; overflow-x: auto; line-height: 1.5; }
.facts { display: flex; flex-wrap: wrap; gap: .5rem; margin: .9rem 0 0; padding: 0; list-style: none; }
.facts li { border: 1px solid var(--edge); background: var(--card); border-radius: 999px; padding: .1rem .8rem; font-size: .85rem; }
.list { list-style: none; margin: 1.5rem 0 0; padding: 0; border: 1px solid var(--edge); border-radius: 12px; background: var(--card); }
.list li { display: grid; grid-template-columns: 3.5rem 1fr; gap: .2rem .5rem; padding: .65rem 1.1rem; border-top: 1px solid var(--edge); }
.list li:first-child { border-top: 0; }
.list span { color: var(--soft); font-variant-numeric: tabular-nums; }
.list small { grid-column: 2; color: var(--soft); }
`;

const EXAMPLE_INSTANCE = '/v1/records';
const EXAMPLE_REQUEST_ID = '5f0c9a52-3a0e-4a39-a5b1-6c2f0f6c2a77';

/** For the pages' Content-Security-Policy: nothing is loaded, nothing runs, and only this style sheet applies. */
export const PROBLEM_PAGE_CSP = `default-src 'none'; style-src 'sha256-${createHash('sha256').update(STYLE).digest('base64')}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`;

/** The page that lists all problems, in HTML. Links are relative to `/problems/…`, so they hold behind any prefix. */
export function renderProblemIndex(): string {
  const items = problemDefinitions().map(
    ({ code, status, texts: { title } }) =>
      `<li><span>${status}</span><a href="problems/${code}">${escapeHtml(title)}</a><small><code>${code}</code></small></li>`,
  );
  return renderPage(
    'Problems',
    `<h1>Problems</h1>
<p>Every error of this service is an <code>application/problem+json</code> document (RFC 9457). Its <code>code</code> is
stable; its <code>type</code> leads to the pages below.</p>
<ul class="list">${items.join('\n')}</ul>`,
  );
}

/** The page of one problem, in HTML. */
export function renderProblemPage(problem: ProblemDefinition): string {
  const { code, status, kept, retryAfterSeconds } = problem;
  const { title, explanation, whatToDo } = problem.texts;
  const facts = [
    `HTTP ${status}`,
    `<code>${code}</code>`,
    ...(retryAfterSeconds === undefined ? [] : ['with <code>Retry-After</code>']),
    kept ? 'kept under an idempotency key' : 'not kept under an idempotency key',
  ];
  const keptText = kept
    ? 'The answer is kept: a retry with the same Idempotency-Key gets it again, byte for byte. A changed attempt needs a new key.'
    : 'The answer is not kept: the same Idempotency-Key can be used for the next attempt.';
  return renderPage(
    title,
    `<nav><a href="../problems">All problems</a></nav>
<h1>${escapeHtml(title)}</h1>
<ul class="facts">${facts.map((fact) => `<li>${fact}</li>`).join('')}</ul>
<h2>What happened</h2><p>${escapeHtml(explanation)}</p>
<h2>What to do</h2><p>${escapeHtml(whatToDo)}</p>
<h2>Retries</h2><p>${keptText} <a href="../docs/idempotency">How keys work</a></p>
<h2>Example</h2><pre>${escapeHtml(JSON.stringify(problemExample(problem), undefined, 2))}</pre>`,
  );
}

/** A problem as a client gets it, for its page and the OpenAPI document. */
export function problemExample(problem: ProblemDefinition): Record<string, unknown> {
  const [firstSentence = ''] = problem.texts.explanation.split(/(?<=\.) /);
  const error = new DomainError(problem, firstSentence, problem.example);
  return toProblem(error, { instance: EXAMPLE_INSTANCE, requestId: EXAMPLE_REQUEST_ID }).body;
}

/** A page of this service: `content` is HTML, `title` is text. Send it with `PROBLEM_PAGE_CSP`. */
export function renderPage(title: string, content: string): string {
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(title)} · Waybill</title><style>${STYLE}</style></head>
<body><main>${content}</main></body></html>
`;
}

function escapeHtml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}
