/** The sealer doesn't go on: going on would cover up what has happened. */
export class SealRefused extends Error {
  override readonly name = 'SealRefused';
}

/** The log isn't the one that was published: cut, restored or rewritten. */
export class PublishedMismatch extends SealRefused {}

/** Published notes are gone, or aren't what was published. */
export class PublishedLost extends SealRefused {}
