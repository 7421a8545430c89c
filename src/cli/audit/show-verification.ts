import type { UnreadableExport, VerificationResult } from '../../audit/tools.js';

type Form = { json?: boolean };

export function showVerification(result: VerificationResult, { json }: Form): void {
  if (json) {
    console.log(JSON.stringify(result));
    return;
  }
  const { verdict, fault, origin, size, streams, unsealed, fromIndex, root, breaks, late } = result;
  console.log(`${origin}: ${verdict}${fault ? `, ${fault.code}` : ''}`);
  if (fault) {
    const place = [
      fault.index === undefined ? [] : `leaf ${fault.index}`,
      fault.stream === undefined ? [] : fault.stream,
      fault.version === undefined ? [] : `version ${fault.version}`,
    ].flat();
    console.log(`  ${fault.detail}${place.length > 0 ? ` (${place.join(', ')})` : ''}`);
    console.log(`  ${number(size)} events of ${number(streams)} streams were read before it`);
  } else {
    console.log(
      `  ${number(size)} events in the log, ${number(streams)} streams read, ${number(unsealed)} not sealed yet`,
    );
    console.log(`  root ${root}`);
  }
  if (fromIndex > 0) console.log(`  the first ${number(fromIndex)} events were verified earlier and not read again`);
  if (!result.signaturesChecked) console.log('  signatures were not checked');
  if (late) console.log(`  ${lateLine(late)}`);
  for (const { index, abandonedSize } of breaks)
    console.log(
      `  leaf ${index} says that the log was restored to an older state: ${number(abandonedSize)} events had been published before`,
    );
}

/** @param file what was to be read */
export function showUnreadable({ code, detail, line }: UnreadableExport, file: string, { json }: Form): void {
  if (json) console.log(JSON.stringify({ verdict: 'unreadable', fault: { code, detail, line } }));
  else console.log(`${file}: unreadable, ${code}\n  ${detail}${line === undefined ? '' : ` (line ${line})`}`);
}

function number(value: number): string {
  return value.toLocaleString('en-US');
}

function lateLine({ count, firstIndex, greatestSeconds }: NonNullable<VerificationResult['late']>): string {
  return `${number(count)} events were sealed long after they occurred, up to ${duration(greatestSeconds)}; the first is leaf ${firstIndex}`;
}

function duration(seconds: number): string {
  const [days, hours, minutes] = [86_400, 3600, 60].map((unit) => Math.floor(seconds / unit));
  if (days) return `${number(days)} days`;
  return hours ? `${hours} hours` : minutes ? `${minutes} minutes` : `${seconds} seconds`;
}
