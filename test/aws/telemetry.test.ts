import { expect, test, vi } from 'vitest';

test('a gauge is a metric of the pool, with its unit, and no other dimension than its name', async () => {
  // To the console of this process, which is listened to.
  const settings = { POWERTOOLS_DEV: 'true', POWERTOOLS_METRICS_DISABLED: 'false' };
  const names = { POWERTOOLS_METRICS_NAMESPACE: 'Holdfast', POWERTOOLS_SERVICE_NAME: 'feeds' };
  for (const [key, value] of Object.entries({ ...settings, ...names })) vi.stubEnv(key, value);
  const printed: string[] = [];
  vi.spyOn(console, 'log').mockImplementation((line) => void printed.push(line));
  const { observed, telemetry } = await import('../../functions/telemetry.ts');
  telemetry.gauge('running', 5);
  telemetry.gauge('pending-age', 1.5);
  const publish = observed().at(-1)?.after as () => void;
  publish();
  const Metrics = [
    expect.objectContaining({ Name: 'running', Unit: 'Count' }),
    expect.objectContaining({ Name: 'pending-age', Unit: 'Seconds' }),
  ];
  const _aws = expect.objectContaining({ CloudWatchMetrics: [{ Namespace: 'Holdfast', Dimensions: [['service']], Metrics }] });
  expect(printed.map((line) => JSON.parse(line))).toEqual([{ running: 5, 'pending-age': 1.5, service: 'feeds', _aws }]);
});
