import { existsSync } from 'node:fs';
import { type Browser, chromium } from 'playwright-core';

const PATH = process.env.CHROMIUM_PATH ?? '/usr/bin/chromium';

/** Why there is no browser to test with; null when there is one. */
export const chromiumMissing = existsSync(PATH)
  ? null
  : `Chromium is not at ${PATH}: "apt-get install chromium" puts it there, or CHROMIUM_PATH says where it is`;

export function launchChromium(): Promise<Browser> {
  return chromium.launch({
    executablePath: PATH,
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
    ],
  });
}
