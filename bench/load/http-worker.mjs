import autocannon from 'autocannon';

/*
 * A process of its own that drives HTTP with autocannon, so that its CPU can be told apart. The job comes as a message;
 * requests are dealt out to the connections and rendered before the first is sent, so that nothing is built meanwhile.
 */
process.once('message', ({ baseUrl, connections, seconds, requests, rate }) => {
  let next = 0;
  let count = 0;
  let repeated = false;
  const failures = new Map();
  let first = 0;
  let last = 0;
  const instance = autocannon(
    {
      url: baseUrl,
      connections,
      duration: seconds,
      ...(rate ? { overallRate: rate } : {}),
      setupClient: (client) => {
        const mine = requests.filter((_, index) => index % connections === next);
        next += 1;
        client.setRequests(mine);
        let sent = 0;
        client.on('response', (status) => {
          const now = performance.now();
          if (first === 0) first = now;
          last = now;
          count += 1;
          sent += 1;
          if (sent > mine.length) repeated = true;
          if (status < 200 || status > 299) failures.set(status, (failures.get(status) ?? 0) + 1);
        });
      },
    },
    (error, result) => {
      const { p50, p99 } = result?.latency ?? {};
      const outcome = error
        ? { error: error.message }
        : { count, seconds: (last - first) / 1000, failures: [...failures], repeated, errors: result.errors, p50, p99 };
      process.send(outcome, () => process.disconnect());
    },
  );
  instance.on('reqError', () => {});
});
process.send('ready');
