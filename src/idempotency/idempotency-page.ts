import { renderPage } from '../problems/index.js';
import { describeTtl, type IdempotencyPolicy } from './policy.js';

/** The page for people who send keys. Links are relative to `/docs/idempotency`, so they hold behind any prefix. */
export function renderIdempotencyPage({ ttlSeconds }: IdempotencyPolicy): string {
  const kept = ttlSeconds === null ? 'for ever' : `for ${describeTtl(ttlSeconds)} after it was given`;
  const problem = (code: string): string => `<a href="../problems/${code}"><code>${code}</code></a>`;
  return renderPage(
    'Idempotency keys',
    `<nav><a href="../problems">All problems</a></nav>
<h1>Idempotency keys</h1>
<p>A request can get lost on its way, and so can its answer. With a key you may send it again until you have an answer:
what it does is done once, and every attempt gets the same answer.</p>
<h2>Sending a key</h2>
<p>Make one key for each action, such as a UUID, and store it with the action before you send anything. Send it with every
attempt. POST requires one; PATCH, PUT and DELETE take one.</p>
<pre>POST /v1/orders
Idempotency-Key: "8e03978e-40d5-43dd-bc93-6894a57f9324"</pre>
<p>The quotes may be left out. A key has 1 to 255 visible ASCII characters and no comma. Keys of different tenants never
meet.</p>
<h2>What a retry gets</h2>
<ul class="list">
<li><span>2xx</span>the same status and the same bytes, with the same Content-Type, Location and ETag.<small><code>Idempotency-Replayed: true</code>,
<code>Idempotency-Created-At: …</code></small></li>
<li><span>4xx</span>the same problem again, if it says that it is kept, such as ${problem('illegal-transition')}. After any other problem
the key is as good as new.</li>
<li><span>5xx</span>is never repeated: all of the attempt was undone, so send it again with the same key.</li>
<li><span>409</span>${problem('idempotency-key-in-flight')}: the first attempt is still running. Wait for <code>Retry-After</code>.</li>
<li><span>422</span>${problem('idempotency-key-reused')}: the key belongs to another request. Method, address, query, caller, If-Match
or body differ. Spaces, the order of members and the way numbers are written don't count.</li>
<li><span>410</span>${problem('answer-erased')}: it was done, but its answer held personal data that was erased since.</li>
</ul>
<h2>How long</h2>
<p>An answer is kept ${kept}. A tenant may have another time. Afterwards the key is unknown, and a request with it is a
first request.</p>
<h2>A client that gets it right</h2>
<pre>key = stored with the action, made once
loop:
  answer = send(request, key)
  no answer, 409 in flight, 429, 5xx → wait (Retry-After, or 1 s, 2 s, 4 s …), again
  anything else                      → done; it will not change</pre>`,
  );
}
