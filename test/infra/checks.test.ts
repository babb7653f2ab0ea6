import { CfnParameter, Duration, Stack, Stage } from 'aws-cdk-lib';
import { describe, expect, test } from 'vitest';
import { JobPool, type JobPoolProps } from '../../infra/index.ts';
import { anApp, aPool, resourcesOf } from './synthesised.ts';

describe('refused at synthesis, naming the construct and what to change', () => {
  const refusals: [string, JobPoolProps, RegExp][] = [
    ['a name with capitals', { poolName: 'Feeds' }, /^Shop\/Feeds: the pool name "Feeds" is not .*; set `poolName` to/],
    ['a name with the separator of inboxes', { poolName: 'feeds_1' }, /the pool name "feeds_1" is not/],
    ['an empty name', { poolName: '' }, /the pool name "" is not/],
    ['a name too long for the names of inboxes', { poolName: 'x'.repeat(33) }, /the pool name "x+" is not 1 to 32/],
    [
      'a lease too short for heartbeats',
      { lease: Duration.millis(2_999) },
      /`lease` is 2 seconds 999 millis; it must be between 3 seconds and 1 minute 30 seconds/,
    ],
    ['a lease too long for the rounds', { lease: Duration.seconds(91) }, /`lease` is 1 minute 31 seconds; it must be between/],
    ['a retention that a request can outlive', { retention: Duration.days(18) }, /`retention` is 18 days; it must be at least 19 days/],
    [
      'no attempt at all',
      { restart: { type: 'on-failure', maxAttempts: 0 } },
      /`restart.maxAttempts` is 0; it must be a whole number from 1 to 100/,
    ],
    ['half an attempt', { restart: { type: 'on-failure', maxAttempts: 1.5 } }, /`restart.maxAttempts` is 1.5/],
    [
      'a backoff above the longest',
      { restart: { type: 'on-failure', maxAttempts: 2, backoff: Duration.hours(1) } },
      /`restart.backoff` is 1 hour; it must be between 1 second and 5 minutes/,
    ],
    [
      'fewer batches at once than SQS sources take',
      { maxConcurrency: 1 },
      /`maxConcurrency` is 1; it must be a whole number from 2 to 1000/,
    ],
  ];
  for (const [name, props, message] of refusals) {
    test(name, () => {
      expect(() => aPool(props)).toThrow(message);
    });
  }

  test('two pools of one name in one place', () => {
    const { app } = aPool({ poolName: 'feeds' });
    const other = new Stack(app, 'Other');
    expect(() => new JobPool(other, 'Pool', { poolName: 'feeds' })).toThrow(
      /^Other\/Pool: the pool name "feeds" is taken by Shop\/Feeds; give one/,
    );
  });
});

describe('allowed', () => {
  test('the ends of each range', () => {
    for (const seconds of [3, 90]) aPool({ lease: Duration.seconds(seconds), retention: Duration.days(19), poolName: 'x'.repeat(32) });
  });

  test('one name in two regions, and in two apps', () => {
    const app = anApp();
    for (const region of ['eu-west-1', 'us-east-1']) {
      const stage = new Stage(app, region, { env: { account: '111111111111', region } });
      new JobPool(new Stack(stage, 'Shop'), 'Feeds', { poolName: 'feeds' });
    }
    aPool({ poolName: 'feeds' });
  });

  test('a name that only the deployment knows', () => {
    const stack = new Stack(anApp(), 'Shop');
    const poolName = new CfnParameter(stack, 'PoolName').valueAsString;
    new JobPool(stack, 'Feeds', { poolName });
    expect(Object.values(resourcesOf(stack, 'AWS::SSM::Parameter'))[0]?.Properties.Name).toEqual({
      'Fn::Join': ['', ['/holdfast/', { Ref: 'PoolName' }, '/config']],
    });
  });
});

describe('the default name', () => {
  test('is the path of the construct', () => {
    expect(aPool().pool.poolName).toBe('shop-feeds');
  });

  test('of long paths stays apart, and valid', () => {
    const app = anApp();
    const named = ['Prod', 'Test'].map((stage) => {
      const stack = new Stack(new Stage(app, stage), 'NewsAndEverythingElseStack');
      return new JobPool(stack, 'IncomingFeeds').poolName;
    });
    expect(new Set(named).size).toBe(2);
    for (const name of named) expect(name).toMatch(/^[a-z0-9-]{1,32}$/);
  });
});
