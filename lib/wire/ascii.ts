/**
 * JSON in printable ASCII alone, so that no queue, console or terminal on the way can refuse or change a character: everything outside
 * U+0020 to U+007E is escaped, which only strings can hold.
 */
export function asciiJson(value: unknown, indent?: number): string {
  return JSON.stringify(value, undefined, indent).replace(/[^ -~\n]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** At most `maxLength` characters of any text, escaped, to stand inside the quotes of a message. */
export function printable(text: string, maxLength = 48): string {
  const shown = asciiJson(text.slice(0, maxLength)).slice(1, -1);
  return text.length > maxLength ? `${shown}...` : shown;
}
