/** All of one width, so that the size of what holds it does not depend on how many there are. */
export function numbered(index: number): string {
  return String(index).padStart(7, '0');
}

export function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[values.length >> 1] ?? Number.NaN;
}
