import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Writes reports/e2e.md: what was tested, in sentences that a person reads without the code. */
export default class MarkdownReporter {
  onRunComplete(_contexts, { testResults, numPassedTests, numFailedTests, startTime }) {
    const folder = process.env.WAYBILL_E2E_REPORTS ?? 'reports';
    const suites = testResults.toSorted((a, b) => (a.testFilePath < b.testFilePath ? -1 : 1));
    const lines = [
      '# Waybill, end to end',
      '',
      `${numPassedTests} passed, ${numFailedTests} failed · ${process.env.WAYBILL_E2E_BASE_URL} · ${new Date(startTime).toISOString()}`,
      ...suites.flatMap((suite) => describeSuite(suite)),
    ];
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, 'e2e.md'), `${lines.join('\n')}\n`);
  }
}

function describeSuite({ testResults, testExecError, testFilePath }) {
  if (testExecError) return ['', `## ${testFilePath}`, '', '```', testExecError.message, '```'];
  const groups = Map.groupBy ? Map.groupBy(testResults, titleOf) : groupBy(testResults, titleOf);
  return [...groups].flatMap(([title, tests]) => ['', `## ${title}`, '', ...tests.flatMap(describeTest)]);
}

function titleOf({ ancestorTitles }) {
  return ancestorTitles.join(' › ');
}

function describeTest({ status, title, duration, failureMessages }) {
  const mark = { passed: '✓', failed: '✗' }[status] ?? '–';
  const faults = failureMessages.flatMap((message) => ['', '  ```', ...plain(message), '  ```', '']);
  return [`- ${mark} ${title} (${duration ?? 0} ms)`, ...faults];
}

function plain(message) {
  // oxlint-disable-next-line no-control-regex -- the terminal's colours
  const text = message.replaceAll(/\u001b\[\d+m/g, '');
  return text
    .split('\n')
    .slice(0, 12)
    .map((line) => `  ${line}`);
}

/** Map.groupBy came with Node 21. */
function groupBy(values, keyOf) {
  const groups = new Map();
  for (const value of values) groups.set(keyOf(value), [...(groups.get(keyOf(value)) ?? []), value]);
  return groups;
}
