import type { AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import { answerProbe, serveHealth } from '../../lib/worker/health.ts';

const health = { live: true, ready: true, leaseLeftMs: 21_000, jobs: 3 };

test('an outage or a lost lease makes a worker not ready, and never dead: a restart would not help', () => {
  const lost = { ...health, ready: false, leaseLeftMs: 0 };
  expect(answerProbe('/livez', lost).status).toBe(200);
  expect(answerProbe('/readyz', lost).status).toBe(503);
});

test('an overrun makes it dead', () => {
  const overrun = { ...health, live: false, ready: false };
  expect(answerProbe('/livez', overrun).status).toBe(503);
  expect(answerProbe('/readyz', overrun).status).toBe(503);
});

test('both probes answer with the health object as JSON, and nothing else is there', async () => {
  const server = await serveHealth(0, () => health);
  try {
    const at = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    for (const path of ['/livez', '/readyz', '/readyz?verbose']) {
      const response = await fetch(at + path);
      expect([path, response.status, response.headers.get('content-type')]).toEqual([path, 200, 'application/json']);
      expect(await response.json()).toEqual(health);
    }
    expect((await fetch(`${at}/`)).status).toBe(404);
  } finally {
    server.close();
    server.closeAllConnections();
  }
});

test('listens on all interfaces', async () => {
  const server = await serveHealth(0, () => health);
  expect(['::', '0.0.0.0']).toContain((server.address() as AddressInfo).address);
  server.close();
});

test('a port that is taken is an error, not silence', async () => {
  const server = await serveHealth(0, () => health);
  await expect(serveHealth((server.address() as AddressInfo).port, () => health)).rejects.toMatchObject({ code: 'EADDRINUSE' });
  server.close();
});
