import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { batches } from '../../lib/aws/sqs-batch.ts';
import { sqsReports } from '../../lib/aws/sqs-reports.ts';
import { sqsRequestBatches } from '../../lib/aws/sqs-requests.ts';
import { systemIds as ids } from '../../lib/aws/system.ts';
import { maxBodyBytes } from '../../lib/wire/index.ts';
import { aStart, at } from '../conformance/samples.ts';
import { endpoint, type Reaction } from './endpoint.ts';

const queueUrl = 'https://sqs.us-east-1.amazonaws.com/123456789012/queue';

interface Entry {
  readonly Id: string;
  readonly MessageBody: string;
  readonly MessageDeduplicationId?: string;
}

/** Accepts what `codeOf` gives no error code for. */
function accepting(entries: readonly Entry[], codeOf: (entry: Entry) => string | undefined): Reaction {
  const refused = entries.filter((entry) => codeOf(entry) !== undefined);
  const accepted = entries.filter((entry) => codeOf(entry) === undefined);
  return {
    status: 200,
    body: {
      Failed: refused.map((entry) => ({ Id: entry.Id, Code: codeOf(entry), SenderFault: codeOf(entry) !== 'InternalError' })),
      Successful: accepted.map(({ Id, MessageBody }) => ({
        ...{ Id, MessageId: Id, MD5OfMessageBody: createHash('md5').update(MessageBody).digest('hex') },
      })),
    },
  };
}

describe('a batch that is accepted in part', () => {
  it('is sent again for what was not, under the same deduplication ids, and for nothing else', async () => {
    const calls: (readonly Entry[])[] = [];
    const { sqs } = await endpoint(({ input }) => {
      calls.push(input.Entries);
      return accepting(input.Entries, ({ Id }) => (calls.length === 1 && Number(Id) % 2 ? 'InternalError' : undefined));
    });
    const requests = Array.from({ length: 6 }, () => aStart());
    expect(await sqsRequestBatches({ sqs, queueUrl, ids }).send(requests)).toEqual(requests.map(() => undefined));
    const [first = [], again = [], ...more] = calls;
    expect(again).toEqual(first.filter(({ Id }) => Number(Id) % 2));
    expect(more).toEqual([]);
  });

  it('gives each request its own result, in order', async () => {
    const requests = Array.from({ length: 12 }, (_, index) => aStart({ key: `k${index}` }));
    requests.splice(5, 0, aStart({ key: '' }));
    const codes: Readonly<Record<string, string>> = { k3: 'InternalError', k4: 'InvalidMessageContents', k11: 'KmsAccessDenied' };
    let calls = 0;
    const { sqs } = await endpoint(({ input }) => {
      calls += 1;
      return accepting(input.Entries, ({ MessageBody }) => codes[JSON.parse(MessageBody).key]);
    });
    const results = await sqsRequestBatches({ sqs, queueUrl, ids }).send(requests);
    expect(results.map((result) => result && [result.code, result.retryable, result.message])).toEqual([
      ...[undefined, undefined, undefined],
      ['unavailable', true, 'start "k3": not accepted (InternalError)'],
      ['invalid-request', false, 'start "k4": not accepted (InvalidMessageContents)'],
      ['invalid-request', false, 'start "": field "key" is empty; allowed: 1 to 1024 bytes of UTF-8, without lone surrogates'],
      ...[undefined, undefined, undefined, undefined, undefined, undefined],
      ['not-permitted', false, 'start "k11": not accepted (KmsAccessDenied)'],
    ]);
    // The first ten three times for `k3`, the other two once.
    expect(calls).toBe(4);
  });

  it('of reports is an error of the whole, so that they are sent again', async () => {
    const { sqs } = await endpoint(({ input }) => accepting(input.Entries, ({ Id }) => (Id === '1' ? 'InternalError' : undefined)));
    const reports = ['w1', 'w2', 'w3'].map((worker) => ({ type: 'left', worker, session: 's', at }) as const);
    await expect(sqsReports({ sqs, queueUrl }).send(reports)).rejects.toMatchObject({ code: 'unavailable', retryable: true });
  });

  it('that is refused whole gives every request the reason, and the next batch its chance', async () => {
    let calls = 0;
    const { sqs } = await endpoint(({ input }) => {
      calls += 1;
      return calls === 1 ? { status: 403, body: { __type: 'AccessDenied' } } : accepting(input.Entries, () => undefined);
    });
    const results = await sqsRequestBatches({ sqs, queueUrl, ids }).send(Array.from({ length: 11 }, () => aStart()));
    expect(results.map((result) => result?.code)).toEqual([...Array.from({ length: 10 }, () => 'not-permitted'), undefined]);
  });
});

describe('messages', () => {
  it('are batched in order, as many as one call takes and no more', () => {
    const sizes = fc.array(fc.oneof(fc.nat({ max: 1_000 }), fc.integer({ min: 100_000, max: maxBodyBytes })), { maxLength: 60 });
    fc.assert(
      fc.property(sizes, (lengths) => {
        const messages = lengths.map((length, index) => ({ what: `${index}`, body: 'x'.repeat(length) }));
        const all = batches(messages);
        expect(all.flat()).toEqual(messages);
        const bytesIn = (batch: readonly { readonly body: string }[]) => batch.reduce((sum, { body }) => sum + body.length, 0);
        for (const [index, batch] of all.entries()) {
          expect(batch.length).toBeLessThanOrEqual(10);
          expect(bytesIn(batch)).toBeLessThanOrEqual(maxBodyBytes);
          const next = all[index + 1]?.slice(0, 1) ?? [];
          if (next.length > 0 && batch.length < 10) expect(bytesIn([...batch, ...next])).toBeGreaterThan(maxBodyBytes);
        }
      }),
    );
  });
});
