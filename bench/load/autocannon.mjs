import autocannon from 'autocannon';

/** @returns what drives HTTP with autocannon; requests are dealt out to the connections and rendered as it begins */
export function prepareAutocannon({ baseUrl, connections, seconds, requests, rate }) {
  return () =>
    new Promise((resolve, reject) => {
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
          if (error) return reject(error);
          const { p50, p99 } = result.latency;
          const seconds = (last - first) / 1000;
          resolve({ count, seconds, failures: [...failures], repeated, errors: result.errors, p50, p99 });
        },
      );
      instance.on('reqError', () => {});
    });
}
