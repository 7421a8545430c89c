import { Command, InvalidArgumentError, Option } from 'commander';
import { runDemo, type DemoOptions } from './run-demo.js';
import { tellStory } from './story/tell-story.js';

const EXAMPLES = `
Examples:
  npm run demo                    the two-minute story of what the service promises
  npm run demo -- --orders 1000
  npm run demo -- --from test/fixtures/sample-orders.ndjson

A file holds one JSON object a line: "order" is a body for POST /v1/orders, "steps" the transitions that follow, each a
state or {"to": …, "reason": …}. Runs are safe to repeat and to stop: keys are derived from the order, so that nothing
happens twice. Give each order an externalRef: it is what finds the order again when its key has expired.
`;

await new Command('npm run demo --')
  .description(
    'Tells on the running service what it promises; or plays orders through its API, recorded ones from a file or invented ones.',
  )
  .addOption(new Option('--from <file>', 'play the recorded orders of an NDJSON file').conflicts('orders'))
  .addOption(new Option('--orders <n>', 'invent this many orders').argParser(positiveInteger))
  .addOption(new Option('--seed <n>', 'invent other orders').default(1).argParser(positiveInteger))
  .addOption(new Option('--concurrency <n>', 'orders at a time').default(8).argParser(positiveInteger))
  .option('--base-url <url>', 'address of the service (default: the one in demo.json)')
  .option('--api-key <key>', "API key (default: the demo tenant's operator in demo.json)")
  .addOption(new Option('--data-dir <dir>', 'folder of demo.json').env('WAYBILL_DATA_DIR').default('.waybill'))
  .addHelpText('after', EXAMPLES)
  .showHelpAfterError('(--help tells more)')
  .action(async (options: DemoOptions) => {
    const isStory = options.from === undefined && options.orders === undefined;
    process.exitCode = isStory ? await tellStory(options, process.stdout) : await runUntilStopped(options);
  })
  .parseAsync();

/** The first ctrl-C lets running requests end, the second drops them. */
async function runUntilStopped(options: DemoOptions): Promise<number> {
  const stop = new AbortController();
  const abort = new AbortController();
  const onSignal = (): void => {
    if (stop.signal.aborted) abort.abort();
    else process.stderr.write('\nStopping when the running requests are through; ctrl-C again stops at once.\n');
    stop.abort();
  };
  process.on('SIGINT', onSignal);
  process.on('SIGTERM', onSignal);
  try {
    const { stdout, stderr } = process;
    return await runDemo(options, { stdout, stderr, stop: stop.signal, abort: abort.signal });
  } finally {
    process.off('SIGINT', onSignal);
    process.off('SIGTERM', onSignal);
  }
}

function positiveInteger(text: string): number {
  if (!/^[1-9]\d{0,6}$/.test(text)) throw new InvalidArgumentError('It should be a whole number from 1 to 9999999.');
  return Number(text);
}
