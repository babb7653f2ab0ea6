import { expect, test } from 'vitest';
import { setup, start } from '../because/stage.ts';
import { LEASE_MS, WorkerStage } from '../support/worker-stage.ts';

// What the simulation does not notice for sure: its mutants name these tests.

test('a start is not taken for sent where its owner’s inbox is not there: the request stays, and comes again (G6)', async () => {
  const { plane, row } = await setup();
  await plane.services.inboxes.remove(row()?.session ?? '');
  plane.request(start('d1'));
  await plane.advance(500);
  expect(plane.services.requests.size).toBe(1);
});

test('a registration is tried again under another session: written twice, one would be seen silent since the first time (G2)', async () => {
  const worker = await WorkerStage.registered();
  const sessions = new Set<unknown>();
  worker.fate = ({ method, args }) => {
    if (method !== 'register') return undefined;
    sessions.add((args[0] as { readonly session: string }).session);
    return { delayMs: 5, ...(sessions.size < 3 ? { fault: 'answer-lost' } : {}) };
  };
  worker.end('revoked');
  await worker.advance(2 * LEASE_MS);
  expect(sessions.size).toBe(3);
});

test('a job that waits to be run again knows since when its dispatch has run, though its end was heard first (G3)', async () => {
  const { jobs, w1, request, says } = await setup();
  await request(start('d1'));
  w1.up('k');
  const { startedAt = 0, ...up } = w1.started('k');
  await says({ ...up, type: 'finished', startedAt, error: { code: 'x', message: 'x', retryable: true } });
  expect(jobs.peek('k')).toMatchObject({ status: 'pending', because: 'restart', startedAt });
});
