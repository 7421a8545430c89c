import { prepareAutocannon } from './autocannon.mjs';
import { prepareWrk } from './wrk.mjs';

/*
 * A process of its own that drives HTTP, so that its CPU can be told apart. The job comes as a message, and another one
 * when to begin. wrk takes least of the cores that it shares with what it measures; it knows no rate.
 */
process.once('message', async (job) => {
  try {
    const drive = job.wrk !== null && job.rate === undefined ? await prepareWrk(job) : prepareAutocannon(job);
    process.once('message', () => drive().then(answer, fail));
    process.send('prepared');
  } catch (error) {
    fail(error);
  }
});

function answer(outcome) {
  process.send(outcome, () => process.disconnect());
}

function fail(error) {
  answer({ error: error.message });
}

process.send('ready');
