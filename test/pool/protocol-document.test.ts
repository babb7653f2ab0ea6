import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { protocolDocument } from '../../protocol/document.ts';

test('docs/protocol.md says what the tables say; `npm run generate` writes it', () => {
  const committed = readFileSync(new URL('../../docs/protocol.md', import.meta.url), 'utf8');
  expect(committed).toBe(protocolDocument());
});
