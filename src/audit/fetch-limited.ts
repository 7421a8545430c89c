/** Nobody answered, or not in time, or without an end. */
export class Unreachable extends Error {
  override readonly name = 'Unreachable';
}

/**
 * An answer with its whole body, wherever it leads to: redirections are answers like others.
 *
 * @param limit most bytes of the body
 * @throws Unreachable
 */
export async function fetchLimited(
  url: string,
  init: RequestInit,
  limit: number,
): Promise<{ status: number; body: Buffer }> {
  try {
    const response = await fetch(url, { ...init, redirect: 'manual' });
    const chunks: Uint8Array[] = [];
    let length = 0;
    for await (const chunk of (response.body ?? []) as AsyncIterable<Uint8Array>) {
      length += chunk.length;
      if (length > limit) throw new Error('the answer is too long');
      chunks.push(chunk);
    }
    return { status: response.status, body: Buffer.concat(chunks) };
  } catch (error) {
    throw new Unreachable(reasonOf(error), { cause: error });
  }
}

/** `fetch` says "fetch failed"; what failed is its cause. Not by instanceof: Node may be another realm. */
function reasonOf(error: unknown): string {
  const { name, message, cause } = error as {
    name?: string;
    message?: string;
    cause?: { message?: string; code?: string };
  };
  if (name === 'TimeoutError' || name === 'AbortError') return 'it took too long';
  return cause?.message || cause?.code || message || String(error);
}
